"""Saving a store to a file: a temporary file in the same folder is written first and then renamed."""

from __future__ import annotations

import errno
import os

from recstore._core import native, trust
from recstore.building import cores
from recstore.building.build_options import Options
from recstore.shm import attributes
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
    """Writes a mapping to a file. A whole segment is copied; any other mapping is encoded again."""
    if mapping._is_whole:
        write_segment(mapping._values.segments[0], path)
        return
    pairs = zip(mapping, _durable(mapping._values))
    _write_compact(native.MappingBuilder, mapping._values, pairs, path, FACTORIES.index(mapping.factory))


def save_records(records: RecordList[Any], path: Path, indexes: native.Indexes) -> None:
    """Encodes the records again into a file that holds nothing else but these saved indexes, as of
    saved_indexes.wanted."""
    _write_compact(native.Builder, records, _durable(records), path, indexes, noted=records.attributes)


def _write_compact(
    make: Callable[..., Any],
    records: RecordList[Any],
    source: Iterable[Any],
    path: Path,
    ending: object,
    noted: dict[str, Any] | None = None,
) -> None:
    """Streams `source`, which is `records` or pairs with them, into a new file, with the attributes `noted`. `ending`
    is the argument of the builder's `finish`. A value of an unsupported type was a pickle in the store it comes from,
    so it is pickled again."""
    writer = trust.Writer(pickled=True, arrays=Options.beside(records.segments).arrays)

    def write(temporary: str) -> None:
        builder = make("file", name=temporary, writer=writer, threads=cores.available())
        try:
            builder.extend(source)
            if noted:
                builder.annotate(*attributes.pack(noted))
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
    """Writes a segment's own bytes to a file, with these saved indexes beside its own."""
    publish(path, lambda temporary: segment.write_to(temporary, indexes))


class FileTarget:
    """The destination of a build that writes the file `path`; the caller publishes the file."""

    name = reader = None
    replaces = False

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = os.path.dirname(path) or "."

    def new_builder(
        self, make: Callable[..., _BuilderT], compression: native.Choices, writer: trust.Writer
    ) -> _BuilderT:
        if os.path.lexists(self.path):  # the first of the two passes over pairs with many repeated keys
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
        # Errors of writing name the temporary file. An OSError of the program, raised by a `decode` function for
        # example, stays as it is.
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = os.fsdecode(path)
        # `write` removes the file after its own errors. A signal after `write` leaves it. A forked child leaves the
        # file to its parent.
        if pid == os.getpid() and os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _require_file(path: Path) -> None:
    if not os.fspath(path):
        raise FileNotFoundError(errno.ENOENT, "the path to save to is empty", path)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "the path to save to is a folder; name a file in it", os.fsdecode(path))


def _require_folder(folder: str) -> None:
    if os.path.isdir(folder):
        return
    parent = folder
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent) or "."
    if parent == folder:
        raise NotADirectoryError(errno.ENOTDIR, "the folder to save into is not a folder", folder)
    if not os.path.isdir(parent):
        raise NotADirectoryError(errno.ENOTDIR, "a parent of the folder to save into is a file", parent)
    raise FileNotFoundError(errno.ENOENT, "the folder to save into does not exist; os.makedirs makes it", folder)


def temporary_beside(path: Path) -> str:
    """A new path in the folder of `path`."""
    # The name is random: process ids repeat in containers, and a killed save leaves its file behind.
    return os.path.join(os.path.dirname(os.fsdecode(path)), f"{TEMPORARY}{os.urandom(8).hex()}.tmp")


def is_temporary(name: str) -> bool:
    """Whether `temporary_beside` makes such names of files."""
    return name.startswith(TEMPORARY) and name.endswith(".tmp") and len(name) == len(TEMPORARY) + 16 + len(".tmp")


TEMPORARY = ".recstore-"
_STALE = 24 * 3600.0  # seconds without a write after which the process that wrote a temporary file counts as dead


def _remove_stale(temporary: str) -> None:
    """Removes the files that killed saves of this user left in the folder of `temporary`, a file just written. If such
    a save is still running, it fails and the file at its path stays unchanged."""
    # The present time is that of the file system, which may be on another machine.
    now, user = os.lstat(temporary).st_mtime, os.geteuid()
    try:
        with os.scandir(os.path.dirname(temporary) or ".") as entries:
            found = [e for e in entries if is_temporary(e.name)]
    except OSError:
        return  # a folder may be writable and not readable
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False) and status.st_uid == user and now - status.st_mtime > _STALE:
                os.unlink(entry.path)
        except OSError:
            continue  # another process has removed it, or the folder forbids removal
