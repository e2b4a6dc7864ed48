"""Lists the named segments of a user, for `recstore.names.list()`, and removes segments by name."""

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

_COLUMNS = ("name", "fingerprint", "records", "bytes", "age", "builder", "attached", "state")


class SegmentInfo:
    """A named segment at one moment.

    Attributes:
        name, fingerprint: None for a damaged segment.
        records, nbytes: the number of records and of bytes.
        age: seconds since the build.
        builder: the process that built the segment, and its command.
        attached: the number of this user's processes that have the segment open; None if the system does not report it.
        keep: None, a number of seconds as a str, or "for ever".
        path: the path of the file.
        state: "in use", "kept", "orphan" (not in use and not kept: the next collection removes it), "damaged", or
            "another version's".
    """

    __slots__ = ("age", "attached", "builder", "fingerprint", "keep", "name", "nbytes", "path", "records", "state")
    age: float
    attached: int | None
    builder: str | None
    fingerprint: str | None
    keep: str | None
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
        cells = ", ".join(f"{column} {text}" for column, text in zip(_COLUMNS[1:], self.row()[1:]))
        return f"<segment {self.name!r}: {cells}>"


class SegmentTable(list[SegmentInfo]):
    """A list of SegmentInfo that prints as a table."""

    def __str__(self) -> str:
        return table([_COLUMNS, *(info.row() for info in self)], "<<>>><><")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table as HTML, for notebooks."""
        from recstore.display import html

        return html.block(html.table([_COLUMNS, *(info.row() for info in self)], "<<>>><><"))


def segments(name: str | None, dir: Path | None) -> SegmentTable:
    """The SegmentTable of this user's segments, or only of the segments with a name."""
    folder = named_segments.folder(dir)
    if name is not None:
        named_segments.check_name(name)
        paths = named_segments.found(name, dir)
    else:
        files = sorted(os.listdir(folder))
        paths = [os.path.join(folder, file) for file in files if named_segments.is_segment(file)]
    users = _users()
    infos = (_describe(path, users) for path in paths)
    rows = SegmentTable(info for info in infos if info is not None)
    rows.sort(key=lambda info: (info.name or "", info.age or 0.0))
    return rows


def _describe(path: str, users: dict[tuple[int, int], set[str]] | None) -> SegmentInfo | None:
    """The SegmentInfo of the file at a path; None for a missing file, another user's file, and other files."""
    from recstore._core import native

    try:
        status = os.lstat(path)
    except OSError:
        return None
    if status.st_uid != os.geteuid() or status.st_mode & 0o177777 != 0o100400:
        return None
    attached = None if users is None else len(users.get((status.st_dev, status.st_ino), ()))
    values = {
        "path": path,
        "nbytes": status.st_size,
        "attached": attached,
        "age": max(0.0, time.time() - status.st_mtime),
    }
    try:
        segment = native.open_path(path, native.OURS, follow_links=False, backing="named")
    except SegmentNotFoundError:
        return None
    except CorruptError:
        return SegmentInfo(**values, state="damaged")
    except VersionError:
        return SegmentInfo(**values, state="another version's")
    label = named_segments.Label.of(segment)
    values.update(records=segment.records, nbytes=segment.nbytes, age=max(0.0, time.time() - segment.created_ns / 1e9))
    segment.close()
    if label is None:
        return SegmentInfo(**values, state="damaged")
    values.update(name=label.name, fingerprint=label.fingerprint, builder=label.builder, keep=label.get("keep"))
    state = "in use" if _leased(path) else "orphan" if named_segments.expired(label, status.st_mtime) else "kept"
    return SegmentInfo(**values, state=state)


def _leased(path: str) -> bool:
    """Whether a process holds a lease on the segment at a path."""
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
    """Unlinks the segments with this name and fingerprint (None: any), and returns their number. Raises
    SegmentNotFoundError if no segment matches."""
    named_segments.check_name(name)
    paths = named_segments.found(name, dir)
    if fingerprint is not None:
        paths = [path for path in paths if os.path.basename(path) == named_segments.system_name(name, fingerprint)]
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
