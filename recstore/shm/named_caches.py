"""Files of caches, which processes find by name. They are in the folder of the named segments, as `<file name of a
segment>.cache`.

Like a segment, a cache is in use while a process holds a lease on its file. The label in its header has the entries of
a segment's label, and `code`: the functions that the fingerprint covers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time

from recstore._core import native
from recstore.errors import (
    BusyError,
    CorruptError,
    SegmentExistsError,
    SegmentNotFoundError,
    VersionError,
    WaitTimeoutError,
)
from recstore.shm import named_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore._core.native import CacheFile, Segment
    from recstore._types import Path

_DELAY_S = 0.001
_MAX_FINGERPRINT, _MAX_CODE = 1000, 500  # bytes, so that a label fits into the header


def path_of(target: named_segments.Target) -> str:
    return target.path + named_segments.CACHE


def open_cache_file(target: named_segments.Target, slots: int, limit: int, code: str) -> CacheFile:
    """The cache of `target`: one process of this user on this machine creates the file, and the others open it. Raises
    ValueError for a long fingerprint and for a cache with other slots, CorruptError for a cache with another name or
    fingerprint, WaitTimeoutError, VersionError, PermissionError and OutOfSpaceError."""
    size = len(target.fingerprint.encode())
    if size > _MAX_FINGERPRINT:
        raise ValueError(f"the fingerprint of a cache has at most {_MAX_FINGERPRINT:,} bytes, not {size:,}: hash it")
    path, begin = path_of(target), time.monotonic()
    while True:
        try:
            file = native.open_cache(path)
        except SegmentNotFoundError:
            label = named_segments.Label(name=target.name, fingerprint=target.fingerprint, **named_segments.maker())
            if target.keep is not None:
                label["keep"] = str(target.keep)
            label["code"] = code.encode("utf-8", "replace")[:_MAX_CODE].decode("utf-8", "ignore")
            try:
                _made = native.create_cache(
                    target.folder, target.temporary(), path, slots, limit, target.keep is not None, label.pack()[1]
                )
            except SegmentExistsError:
                continue  # another process was faster
            continue  # opens the file by its name, so that /proc shows the name; `_made` holds the lease until then
        except BusyError:
            # Another process tests whether the file is in use, for microseconds unless it was stopped in between.
            if time.monotonic() - begin > named_segments.PATIENCE:
                raise WaitTimeoutError(
                    errno.ETIMEDOUT, f"another process has locked {path}; fuser -v {path} shows the process"
                ) from None
            time.sleep(_DELAY_S)
            continue
        except CorruptError:
            _remove(path)
            continue
        _check(file, target, slots)
        return file


def _remove(path: str) -> None:
    """Removes the damaged file of a cache. Processes that use it keep the nameless file."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another process has removed it


def _check(file: CacheFile, target: named_segments.Target, slots: int) -> None:
    """Closes the file and raises, unless it is the cache of `target` with these slots. Updates a kept file's time."""
    label = named_segments.Label.unpacked(file.label())
    try:
        if (label.name, label.fingerprint) != (target.name, target.fingerprint):
            raise CorruptError(
                f"it is the cache {label.name!r} with the fingerprint {label.fingerprint!r}; choose another name",
                filename=file.path,
            )
        if file.slots != slots:
            existing, requested = (f"slots={n:,}" if n else "any keys" for n in (file.slots, slots))
            raise ValueError(
                f"the cache {target.name!r} was made with {existing}, not {requested}; another fingerprint= makes "
                "another cache"
            )
    except BaseException:
        file.close()
        raise
    # After a restart of the machine, pages of the file may be missing although its table names them.
    file.checks = label.boot != named_segments.maker()["boot"]
    if file.kept:
        with contextlib.suppress(FileNotFoundError):  # names.remove() has removed the file
            os.utime(file.path)


def require_named(file: CacheFile) -> None:
    """Raises SegmentNotFoundError unless the path of an open cache still leads to its file."""
    if not file.leads():
        raise SegmentNotFoundError(
            errno.ENOENT, "the cache has been removed, and its users keep a file without a name", file.path
        )


def open_sealed(file: CacheFile) -> Segment:
    """The segment in the file of a sealed cache, with a lease. Raises SegmentNotFoundError if the cache has been
    removed, and the errors of named_segments.open_leased."""
    segment, _ = named_segments.open_leased(file.path)
    try:
        require_named(file)  # afterwards, because a removed file never gets its name back
    except BaseException:
        segment.disown()
        segment.close()
        raise
    return segment


def facts(path: str) -> dict[str, Any] | None:
    """The header of the cache at a path, with its label; None unless it is a readable cache of this user."""
    try:
        if os.lstat(path).st_uid != os.geteuid():
            return None
        header = native.inspect_cache(path)
        return {**header, "label": named_segments.Label.unpacked(header["label"])}
    except (CorruptError, VersionError, OSError):
        return None


def all_caches(dir: Path | None = None) -> list[tuple[str, named_segments.Label]]:
    """`(path, label)` of all caches of this user in a folder."""
    place = named_segments.folder(dir)
    paths = (os.path.join(place, file) for file in sorted(os.listdir(place)) if named_segments.is_cache(file))
    return [(path, header["label"]) for path in paths if (header := facts(path)) is not None]
