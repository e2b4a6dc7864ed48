"""Opening a saved file or a set of shards."""

from __future__ import annotations

import errno
import os

from recstore._core import native, trust
from recstore.building import build_options
from recstore.errors import NO_STORE, CorruptError, SegmentNotFoundError
from recstore.shm import file_backing, folders, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Literal

    from typing_extensions import TypeVar

    from recstore._types import Arrays
    from recstore.containers.dicts import RecordDict
    from recstore.containers.records import RecordList

    # Only opening a file shows whether it is a list or a mapping. Type checkers use the annotation of the variable.
    # Without an annotation, both `[0]` and `.keys()` pass.
    _Store = TypeVar("_Store", bound=RecordList[Any] | RecordDict[Any, Any], default=Any)

__all__ = ["open"]


def open(
    path: str | os.PathLike[str],
    *,
    verify: Literal["header", "full"] = "header",
    copy: bool = False,
    classes: Iterable[type] | Mapping[str, type] = (),
    allow_pickle: bool = False,
    limits: Iterable[int] | None = None,
    arrays: Arrays = "copy",
    cache: str | os.PathLike[str] | None = None,
    limit: int | str | None = None,
    lazy: bool | Literal["records"] = False,
    options: dict[str, Any] | None = None,
) -> _Store:  # type: ignore[type-var]
    """Opens a saved store or a set of shards as a RecordList or RecordDict, read-only. By default, opening a file takes
    constant time. The file is not trusted: by default, nothing in it is imported or executed.

    Args:
        path: a file that ``save`` wrote; or the folder or URL of a set of shards: ``"s3://bucket/train"`` for its
            newest manifest, ``"s3://bucket/train@12"`` for manifest 12 (no network if cached), ``@best`` for a tag.
        verify: "header" checks header and sections, and each record when it is read; "full" checks all bytes first, or
            with `lazy` all bytes of a shard file at its first read.
        copy: copy the bytes into sealed memory or a private file, because an untrusted process can still write it.
        classes: classes to trust in addition to registered ones: an iterable, or a mapping from the names in the file
            (``module.qualname``) to classes. An instance of another class is read as a :class:`recstore.Record`.
        allow_pickle: load pickled values. A pickle can run any code: allow it only for files that you trust.
        limits: `(values, bytes)`, the most that a record may hold: by default 2**28 values and 4 GiB, and also 64
            values and 1,024 bytes for each byte of the file.
        arrays: "copy" or "view", as for RecordList; for integers stored in fewer bits, "view" gives a read-only copy.
            If the file of a view is truncated, reading the view ends the process: see `copy`.
        cache: for a URL, a folder on a local disk, yours or your group's (``chmod g+ws``), by default RECSTORE_CACHE.
            Shards are fetched into it once. In a folder they are mapped in place; `cache`, `limit`, `lazy` do nothing.
        limit: the most bytes in the cache, such as "500GiB". The same shards stay in each epoch.
        lazy: fetch each shard when its first record is read, not all of them now. "records": fetch only the bytes of a
            record, or the blocks of a column, into the memory of the process: at most `limit` (1 GiB), without a cache.
        options: for a URL, a dict of arguments of obstore or fsspec, besides the environment: for S3 ``endpoint``,
            ``region``, ``access_key_id``, ``secret_access_key``, ``patience`` ("5m"). Handles do not contain them.

    Raises SegmentNotFoundError, CorruptError, VersionError and OSError, with the path as ``filename``; for a set also
    RemoteError and OutOfSpaceError. A pickle that is not allowed raises UntrustedError. Safe from several threads.

    >>> import os, tempfile, recstore
    >>> path = os.path.join(tempfile.mkdtemp(), "x.rec")
    >>> recstore.RecordList([1, 2.5, "three"]).save(path)
    >>> open(path, verify="full").to_list()
    [1, 2.5, 'three']
    """
    build_options.check_choice("verify", verify, ("header", "full"))
    build_options.check_choice("arrays", arrays, build_options.ARRAYS)
    reader = trust.Reader(False, bool(allow_pickle), arrays, classes=trust.class_table(classes))
    bounds = _checked_limits(limits)
    if is_set(path):
        return _open_set(path, copy, cache, limit, lazy, options, verify, bounds, reader)  # type: ignore[no-any-return]
    if cache is not None or limit is not None or lazy or options is not None:
        if not os.path.lexists(os.fsdecode(path)):
            raise SegmentNotFoundError(errno.ENOENT, "no such file or folder of shards", path)
        raise ValueError(
            f"cache, limit, lazy and options are for a URL or folder of shards, and {path!r} is a file: leave them out"
        )
    return _open_file(path, verify, copy, bounds, reader)  # type: ignore[no-any-return]


def _checked_limits(limits: Iterable[int] | None) -> tuple[int, int] | None:
    if limits is None:
        return None
    pair = tuple(limits)
    if len(pair) != 2 or not all(isinstance(n, int) and 0 <= n < 2**64 for n in pair):
        raise ValueError(f"limits is (values, bytes), each below 2**64, not {pair!r}")
    return pair


def _open_set(path: Any, copy: bool, *options: Any) -> Any:
    from recstore.remote import open_set

    if copy:
        raise ValueError("copy=True is for a file: the files of a set of shards are mapped")
    return open_set.open_set(path, *options)


def _open_file(path: Any, verify: str, copy: bool, limits: tuple[int, int] | None, reader: trust.Reader) -> Any:
    try:
        segment = native.open_path(path, limits)
    except CorruptError as error:
        if error._status == NO_STORE:
            if os.fsdecode(path).endswith(".cache"):
                hint = "recstore.cache(name) opens a cache"
            else:
                hint = "recstore.read_jsonl, read_csv and others read other files"
            error.args = (f"{error.args[0]}; {hint}",)
        raise
    if copy:
        source, segment = segment, _copied(segment, limits)
        source.close()
    segment.reader = reader
    if verify == "full":
        segment.verify(limits)
    registry.register(segment)
    return registry.container_of(segment)


def _copied(segment: native.Segment, limits: tuple[int, int] | None) -> native.Segment:
    try:
        return native.copy_segment(segment, limits)
    except OSError as error:
        if not file_backing.refuses_memory(error):
            raise
    import tempfile

    with tempfile.TemporaryDirectory(prefix="recstore-", dir=os.environ.get("RECSTORE_DIR") or None) as folder:
        return native.copy_segment(segment, limits, os.path.join(folder, "copy"))


def is_set(path: Any) -> bool:
    """Whether a path names a set of shards and not a file. Fast, and imports nothing."""
    try:
        text = os.path.expanduser(os.fsdecode(path))
    except TypeError:
        return False  # open_path raises the error
    if "://" in text or os.path.isdir(text):
        return True
    if folders.fault(text):
        return not os.path.lexists(text)  # the set raises the error
    return "@" in text and os.path.isdir(text.rpartition("@")[0]) and not os.path.exists(text)
