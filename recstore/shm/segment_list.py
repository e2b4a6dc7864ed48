"""Lists the named segments and caches of a user, for `recstore.names.list()`, and removes them by name."""

from __future__ import annotations

import os
import time

from recstore.errors import CorruptError, SegmentNotFoundError, VersionError
from recstore.shm import named_segments
from recstore.text import size_text, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from recstore._types import Path

__all__ = ["SegmentInfo", "SegmentTable", "duration", "segments", "unlink"]

_COLUMNS = ("name", "kind", "fingerprint", "records", "bytes", "age", "builder", "attached", "state")
_ALIGNED = "<<<>>><><"


class SegmentInfo:
    """A named store or cache at one moment.

    Attributes:
        name, fingerprint: None for a damaged file or another version's.
        kind: "store" or "cache".
        records, nbytes: the number of records and of bytes. For a cache, the number of values, and the bytes that its
            file takes now.
        age: seconds since the build.
        builder: the process that built the store or created the cache, and its command.
        attached: the number of this user's processes that have the file open; None if the system does not report it.
        keep: None, a number of seconds as a str, or "for ever".
        path: the path of the file.
        state: "in use", "kept", "orphan" (not in use and not kept: the next collection removes it), "damaged", or
            "another version's".
    """

    __slots__ = (
        "age", "attached", "builder", "fingerprint", "keep", "kind", "name", "nbytes", "path", "records", "state"
    )  # fmt: skip
    age: float
    attached: int | None
    builder: str | None
    fingerprint: str | None
    keep: str | None
    kind: Literal["store", "cache"]
    name: str | None
    nbytes: int
    path: str
    records: int | None
    state: Literal["in use", "kept", "orphan", "damaged", "another version's"]

    def __init__(self, **values: Any) -> None:
        for slot in self.__slots__:
            setattr(self, slot, values.get(slot))

    def row(self) -> list[str]:
        """The cells of a row of the table, as str."""
        cells: list[tuple[Any, Callable[[Any], str]]] = [
            (self.name, str),
            (self.kind, str),
            (self.fingerprint, lambda text: (text or "-")[:33]),
            (self.records, lambda n: f"{n:,}"),
            (self.nbytes, size_text),
            (self.age, duration),
            (self.builder, lambda text: text[:40]),
            (self.attached, str),
            (self.state, str),
        ]
        return ["?" if value is None else show(value) for value, show in cells]

    def __repr__(self) -> str:
        cells = ", ".join(f"{column} {text}" for column, text in zip(_COLUMNS[2:], self.row()[2:]))
        return f"<{self.kind} {self.name!r}: {cells}>"


class SegmentTable(list[SegmentInfo]):
    """A list of SegmentInfo that prints as a table."""

    def __str__(self) -> str:
        return table([_COLUMNS, *(info.row() for info in self)], _ALIGNED)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table as HTML, for notebooks."""
        from recstore.display import html

        return html.block(html.table([_COLUMNS, *(info.row() for info in self)], _ALIGNED))


def segments(name: str | None, dir: Path | None) -> SegmentTable:
    """The SegmentTable of this user's stores and caches, or only of the stores and caches with this name."""
    folder = named_segments.folder(dir)
    if name is not None:
        named_segments.check_name(name)
        paths = named_segments.paths_of(name, dir, _is_listed)
    else:
        paths = [os.path.join(folder, file) for file in sorted(os.listdir(folder)) if _is_listed(file)]
    users = _users()
    infos = (_describe(path, users) for path in paths)
    rows = SegmentTable(info for info in infos if info is not None)
    rows.sort(key=lambda info: (info.name or "", info.age or 0.0))
    return rows


def _is_listed(file: str) -> bool:
    return named_segments.is_segment(file) or named_segments.is_cache(file)


def _describe(path: str, users: dict[tuple[int, int], set[str]] | None) -> SegmentInfo | None:
    """The SegmentInfo of the file at a path; None for a missing file, another user's file, and a file of
    another type or mode."""
    is_cache = named_segments.is_cache(os.path.basename(path))
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if status.st_uid != os.geteuid() or status.st_mode & 0o177777 != (0o100600 if is_cache else 0o100400):
        return None
    attached = None if users is None else len(users.get((status.st_dev, status.st_ino), ()))
    values: dict[str, Any] = {
        "path": path,
        "kind": "cache" if is_cache else "store",
        "nbytes": status.st_blocks * 512 if is_cache else status.st_size,
        "attached": attached,
        "age": max(0.0, time.time() - status.st_mtime),
    }
    try:
        facts, label = _read_cache(path) if is_cache else _read_store(path)
    except SegmentNotFoundError:
        return None
    except CorruptError:
        return SegmentInfo(**values, state="damaged")
    except VersionError:
        return SegmentInfo(**values, state="another version's")
    values.update(facts)
    if label is None:
        return SegmentInfo(**values, state="damaged")
    values.update(name=label.name, fingerprint=label.fingerprint, builder=label.builder, keep=label.get("keep"))
    state = "in use" if _leased(path) else "orphan" if named_segments.expired(label, status.st_mtime) else "kept"
    return SegmentInfo(**values, state=state)


def _read_store(path: str) -> tuple[dict[str, Any], named_segments.Label | None]:
    """The values of a SegmentInfo from the header of a store, and the label of the store."""
    from recstore._core import native

    segment = native.open_path(path, native.OURS, follow_links=False, backing="named")
    try:
        age = max(0.0, time.time() - segment.created_ns / 1e9)
        return {"records": segment.records, "nbytes": segment.nbytes, "age": age}, named_segments.Label.of(segment)
    finally:
        segment.close()


def _read_cache(path: str) -> tuple[dict[str, Any], named_segments.Label]:
    """Like _read_store, for a cache."""
    from recstore._core import native

    header = native.inspect_cache(path, count=True)
    label = named_segments.Label.unpacked(header["label"])
    return {"records": header["filled"], "age": max(0.0, time.time() - header["created_ns"] / 1e9)}, label


def _leased(path: str) -> bool:
    """Whether a process holds a lease on the store or cache at a path."""
    from recstore._core import native

    try:
        return native.is_leased(path)
    except OSError:
        return False


def _users() -> dict[tuple[int, int], set[str]] | None:
    """`{(device, inode): pids}` for all files that this user's processes have open; None without /proc."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return None
    users: dict[tuple[int, int], set[str]] = {}
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            fds = os.listdir(folder)
        except OSError:
            continue
        for fd in fds:
            try:
                status = os.stat(f"{folder}/{fd}")
            except OSError:
                continue
            users.setdefault((status.st_dev, status.st_ino), set()).add(pid)
    return users


def unlink(name: str, fingerprint: str | None, dir: Path | None) -> int:
    """Unlinks the stores and caches with this name and fingerprint (None: any), and returns their number. Raises
    SegmentNotFoundError if none matches."""
    named_segments.check_name(name)
    paths = named_segments.paths_of(name, dir, _is_listed)
    if fingerprint is not None:
        file = named_segments.system_name(name, fingerprint)
        paths = [path for path in paths if os.path.basename(path) in (file, file + named_segments.CACHE)]
    removed = 0
    for path in paths:
        try:
            if os.lstat(path).st_uid == os.geteuid():
                os.unlink(path)
                removed += 1
        except FileNotFoundError:
            continue  # its last process has just removed it
    if not removed:
        raise named_segments.gone(name, dir)
    return removed


def duration(seconds: float) -> str:
    """A duration as text, such as "3 h"."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
