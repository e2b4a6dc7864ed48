"""The memory that processes use: PSS, USS and the pages of a segment that no process has mapped. The command line and
the benchmarks use this module.

RSS counts a shared page in every process, so a sum of RSS does not show sharing. PSS divides each page by the number of
processes that map it, so the sum of PSS is the memory that the processes use together. USS is the memory that becomes
free when the process ends.

The figures come from Linux; on other systems `usage` returns None, and callers print n/a. Importing the module loads
only `os`, because the measured workers import it too.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    Identity: TypeAlias = tuple[int, int, int]  # (major, minor, inode)

__all__ = [
    "Usage",
    "allocated",
    "available",
    "family",
    "peak_rss",
    "reset_peak_rss",
    "segments",
    "total",
    "unmapped",
    "usage",
]


class Usage:
    """The memory of one process at one moment, in bytes."""

    __slots__ = ("rss", "pss", "uss")

    def __init__(self, rss: int, pss: int, uss: int) -> None:
        self.rss, self.pss, self.uss = rss, pss, uss

    def __repr__(self) -> str:
        return f"Usage(rss={self.rss}, pss={self.pss}, uss={self.uss})"


def usage(pid: int | str = "self") -> Usage | None:
    """The Usage of a process; None if it has ended, belongs to another user, or the system is not Linux."""
    rss = pss = uss = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Rss:"):
                    rss = _kib(line)
                elif line.startswith(b"Pss:"):
                    pss = _kib(line)
                elif line.startswith((b"Private_Clean:", b"Private_Dirty:", b"Private_Hugetlb:")):
                    uss += _kib(line)
    except OSError:
        return None
    return Usage(rss, pss, uss)


def peak_rss(pid: int | str = "self") -> int | None:
    """The highest RSS since the start of the process or since reset_peak_rss; None if it is unknown."""
    # Not getrusage: ru_maxrss survives exec, so a child would start with the peak of its parent.
    return _figure(f"/proc/{pid}/status", b"VmHWM:")


def reset_peak_rss() -> bool:
    """Resets the peak of `peak_rss` to the current RSS; False if the system refuses."""
    try:
        with open("/proc/self/clear_refs", "wb") as file:
            file.write(b"5")
    except OSError:
        return False
    return True


def available() -> int | None:
    """The number of bytes that can be allocated without swapping; None if it is unknown."""
    return _figure("/proc/meminfo", b"MemAvailable:")


def family(pid: int) -> list[int]:
    """The pids of a process and its descendants, including multiprocessing's fork server and resource tracker."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return [pid]
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command may contain spaces and parentheses; the other fields come after the last ")".
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    pids = [pid]
    for member in pids:  # the loop extends the list
        pids.extend(children.get(member, ()))
    return pids


def segments(pid: int | str = "self") -> dict[Identity, int]:
    """`{(major, minor, inode): bytes mapped}` for the shared file mappings of a process.

    The difference between the results before and after a build is the segment of that build.
    """
    sizes: dict[Identity, int] = {}
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                parts = line.split(None, 5)
                if parts[1].endswith(b"s") and parts[4] != b"0":
                    first, last = parts[0].split(b"-")
                    key = _identity(parts)
                    sizes[key] = sizes.get(key, 0) + int(last, 16) - int(first, 16)
    except OSError:
        pass
    return sizes


def allocated(key: Identity, pid: int | str = "self") -> int | None:
    """The bytes that a file takes, by its key in `segments`; None if the process does not have it open."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        try:
            stat = os.stat(f"{folder}/{name}")
        except OSError:
            continue
        if (os.major(stat.st_dev), os.minor(stat.st_dev), stat.st_ino) == key:
            return stat.st_blocks * 512
    return None


def unmapped(keys: Mapping[Identity, int], pids: Iterable[int | str]) -> int:
    """The bytes of the segments' pages that none of these processes has mapped.

    A page that n processes map adds 1/n to the PSS of each. So the PSS of a segment, summed over all processes that map
    it, is the size of its mapped pages. The other pages of the file are not in any PSS.
    """
    rest = 0
    for key, size in keys.items():
        whole = None
        mapped = 0
        for pid in pids:
            whole = whole or allocated(key, pid)
            mapped += _mapped_pss(key, pid)
        rest += max(0, (size if whole is None else whole) - mapped)
    return rest


def total(pids: Iterable[int | str], keys: Mapping[Identity, int] | tuple[()] = ()) -> int | None:
    """The PSS of all processes plus the unmapped bytes of the segments; None if no PSS is known."""
    usages = [usage(pid) for pid in pids]
    known = [reading.pss for reading in usages if reading is not None]
    if not known:
        return None
    return sum(known) + (unmapped(keys, pids) if keys else 0)


def _mapped_pss(key: Identity, pid: int | str) -> int:
    mapped = 0
    inside = False
    try:
        with open(f"/proc/{pid}/smaps", "rb") as file:
            for line in file:
                parts = line.split(None, 5)
                if not parts[0].endswith(b":"):
                    inside = parts[4] != b"0" and _identity(parts) == key
                elif inside and parts[0] == b"Pss:":
                    mapped += _kib(line)
    except OSError:
        pass
    return mapped


class HugePages:
    """The mappings of this process that have huge pages. Reads smaps only once, because its length grows with the
    number of mappings. The result of madvise does not show whether a mapping has huge pages."""

    def __init__(self) -> None:
        self.mappings: list[tuple[int, int, int]] | None  # (begin, end, bytes in huge pages), by address
        try:
            with open("/proc/self/smaps", "rb") as file:
                self.mappings = list(_huge_mappings(file))
        except OSError:
            self.mappings = None

    def within(self, begin: int, size: int) -> int | None:
        """The bytes in huge pages of the mappings that overlap the `size` bytes at `begin`; None without smaps."""
        from bisect import bisect_right

        if self.mappings is None:
            return None
        at, huge = bisect_right(self.mappings, (begin,)), 0
        at -= at > 0 and self.mappings[at - 1][1] > begin
        while at < len(self.mappings) and self.mappings[at][0] < begin + size:
            huge += self.mappings[at][2]
            at += 1
        return huge


def _huge_mappings(lines: Iterable[bytes]) -> Iterator[tuple[int, int, int]]:
    span, size = b"", 0
    for line in lines:
        first = line.split(None, 1)[0]
        if not first.endswith(b":"):
            if size:
                yield (*_span(span), size)
            span, size = first, 0
        elif first in (b"AnonHugePages:", b"ShmemPmdMapped:", b"FilePmdMapped:"):
            size += _kib(line)
    if size:
        yield (*_span(span), size)


def _span(text: bytes) -> tuple[int, int]:
    begin, end = text.split(b"-")
    return int(begin, 16), int(end, 16)


def _identity(parts: list[bytes]) -> Identity:
    major, minor = parts[3].split(b":")
    return int(major, 16), int(minor, 16), int(parts[4])


def _figure(path: str, name: bytes) -> int | None:
    """The bytes in the line of a file that begins with `name`; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return next((_kib(line) for line in file if line.startswith(name)), None)
    except OSError:
        return None


def _kib(line: bytes) -> int:
    return int(line.split()[1]) * 1024
