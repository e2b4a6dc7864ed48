"""Saving a store to a file: a temporary file in the same folder is written first and then renamed."""

from __future__ import annotations

import errno
import os

from recstore._core import native, trust
from recstore.building import cores
from recstore.building.build_options import Options
from recstore.shm import attributes, folders
from recstore.values.factories import FACTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from recstore._types import Path
    from recstore.containers.dicts import RecordDict
    from recstore.containers.records import RecordList

    _BuilderT = TypeVar("_BuilderT")


def save_mapping(mapping: RecordDict[Any, Any], path: Path) -> None:
    """Writes a mapping to a file. A mapping of a whole segment is copied; any other is encoded again."""
    if mapping._is_whole and not mapping._values.segments[0].in_cache:
        write_segment(mapping._values.segments[0], path)
        return
    pairs = zip(mapping, _durable(mapping._values))
    _write_compact(native.MappingBuilder, mapping._values, pairs, path, FACTORIES.index(mapping.factory))


def save_records(records: RecordList[Any], path: Path, indexes: native.Indexes) -> None:
    """Encodes the records again into a file with these saved indexes."""
    _write_compact(native.Builder, records, _durable(records), path, indexes, records.attributes)


def _write_compact(
    make: Callable[..., Any],
    records: RecordList[Any],
    source: Iterable[Any],
    path: Path,
    ending: object,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Streams `source`, which is `records` or pairs with them, into a new file. `ending` is the argument of the
    builder's `finish`. A value of an unsupported type was pickled in its store, so it is pickled again."""
    writer = trust.Writer(pickled=True, arrays=Options.beside(records.segments).arrays)

    def write(temporary: str) -> None:
        builder = make("file", name=temporary, writer=writer, threads=cores.available())
        try:
            builder.extend(source)
            if annotations:
                builder.annotate(*attributes.pack(annotations))
            builder.finish(ending)
        except BaseException:
            builder.abort()
            raise

    publish(path, write)


def _durable(records: RecordList[Any]) -> Iterable[Any]:
    """The records with lists in place of groups, because groups are views and a file cannot hold a view."""
    return map(_without_views, records) if isinstance(records.projection, native.GroupProjection) else records


def _without_views(value: Any) -> Any:
    return [_without_views(item) for item in value] if isinstance(value, native.Records) else value


def write_segment(segment: native.Segment, path: Path, indexes: native.Indexes = ()) -> None:
    """Copies a segment to a file, with these further saved indexes."""
    publish(path, lambda temporary: segment.write_to(temporary, indexes))


class FileTarget:
    """The destination of a build into the file `path`, which the caller publishes."""

    name = reader = None
    replaces = False

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = os.path.dirname(path) or "."

    def new_builder(
        self, make: Callable[..., _BuilderT], compression: native.Choices, writer: trust.Writer
    ) -> _BuilderT:
        if os.path.lexists(self.path):  # left by the first pass over pairs with many repeated keys
            os.unlink(self.path)
        return make("file", name=self.path, compression=compression, writer=writer)

    def publish(self, segment: native.Segment, replace: bool = False) -> None:
        pass


def publish(path: Path, write: Callable[[str], object]) -> None:
    """Calls `write` for a temporary path in the folder of `path`, then renames the file to `path`. After an error or a
    signal the temporary file is removed."""
    _require_file(path)
    temporary, pid = temporary_beside(path), os.getpid()
    _require_folder(os.path.dirname(temporary) or ".")
    try:
        write(temporary)
        _remove_stale(temporary)
        native.publish_file(temporary, path)
    except BaseException as error:
        # Errors of writing name the temporary file. Other OSErrors, for example of a `decode` function, stay as they
        # are.
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = os.fsdecode(path)
        # `temporary` still exists if a signal came after `write`. A forked child leaves it to its parent.
        if pid == os.getpid() and os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _require_file(path: Path) -> None:
    if not os.fspath(path):
        raise FileNotFoundError(errno.ENOENT, "the path to save to is empty", path)
    folders.check(path)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "the path to save to is a folder; name a file in it", os.fsdecode(path))
    if os.path.exists(path) and not os.path.isfile(path):  # the new file would replace a device such as /dev/null
        raise FileExistsError(errno.EEXIST, "the path to save to is a device or a pipe; name a file", os.fsdecode(path))


def _require_folder(folder: str) -> None:
    if os.path.isdir(folder):
        return
    parent = folder
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent) or "."
    if parent == folder:
        raise NotADirectoryError(errno.ENOTDIR, "the target folder is a file", folder)
    if not os.path.isdir(parent):
        raise NotADirectoryError(errno.ENOTDIR, "a parent of the target folder is a file", parent)
    raise FileNotFoundError(errno.ENOENT, "the target folder does not exist; os.makedirs makes it", folder)


def temporary_beside(path: Path) -> str:
    """A new path in the folder of `path`."""
    # The name is random: process ids repeat in containers, and a killed save leaves its file behind.
    return os.path.join(os.path.dirname(os.fsdecode(path)), f"{TEMPORARY}{os.urandom(8).hex()}.tmp")


def is_temporary(name: str) -> bool:
    """Whether a file has a name that `temporary_beside` makes."""
    return name.startswith(TEMPORARY) and name.endswith(".tmp") and len(name) == len(TEMPORARY) + 16 + len(".tmp")


TEMPORARY = ".recstore-"
_STALE_S = 24 * 3600.0  # a temporary file without a write for this long belongs to a dead process


def _remove_stale(temporary: str) -> None:
    """Removes the files that killed saves of this user left in the folder of `temporary`, a file just written. A save
    that still runs after _STALE_S without a write fails, and leaves the file at its path unchanged."""
    # All times are by the clock of the file system, which may be on another machine.
    now, user = os.lstat(temporary).st_mtime, os.geteuid()
    try:
        with os.scandir(os.path.dirname(temporary) or ".") as entries:
            files = [entry for entry in entries if is_temporary(entry.name)]
    except OSError:
        return  # a folder may be writable but not readable
    for entry in files:
        try:
            status = entry.stat(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False) and status.st_uid == user and now - status.st_mtime > _STALE_S:
                os.unlink(entry.path)
        except OSError:
            continue  # another process has removed it, or the folder forbids removal
