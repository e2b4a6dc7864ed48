"""The number of cores that this process may use: the one place that asks the system for it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_quota: dict[
    str, int | None
] = {}  # of this process, by the file system's root: reading it takes longer than building a small store


def available(root: str = "/") -> int:
    """The number of cores that this process may use, at least 1: those that its affinity mask allows, but no more than
    the quota of its control groups (cgroup v1 and v2) lets run at once, rounded up. The quota is read once in a
    process. `root` is where `proc` and the mount points are looked for. Safe to call from several threads.

    >>> available() >= 1
    True
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        allowed = os.cpu_count() or 1
    if root not in _quota:
        _quota[root] = _quota_of(root)
    quota = _quota[root]
    return allowed if quota is None else max(1, min(allowed, quota))


def _quota_of(root: str) -> int | None:
    """The cores of the smallest quota, rounded up; None where there is none."""
    found: list[int] = []
    for folder, top in _folders(root):
        while True:
            found += _limit(folder)
            if len(folder) <= len(top):
                break
            folder = os.path.dirname(folder)
    return min(found, default=None)


def _limit(folder: str) -> list[int]:
    """`[cores]` of one control group; an empty list where it sets no limit, or one that cannot be read."""
    quota = period = ""
    try:
        fields = _read(folder, "cpu.max").split()
        if fields:  # cgroup v2: "max 100000" or "150000 100000"
            quota, period = fields
        else:
            quota, period = _read(folder, "cpu.cfs_quota_us"), _read(folder, "cpu.cfs_period_us")
        microseconds, of = int(quota), int(period)
    except ValueError:
        return []
    return [-(-microseconds // of)] if microseconds > 0 and of > 0 else []


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), "rb") as f:
            return f.read(256).decode("ascii", "replace")
    except OSError:
        return ""


def _folders(root: str) -> Iterator[tuple[str, str]]:
    """`(folder, mount point)` of each control group of this process that may limit processor time."""
    try:
        with open(os.path.join(root, "proc/self/cgroup"), "rb") as f:
            groups = [line.split(":", 2) for line in os.fsdecode(f.read()).splitlines()]
        with open(os.path.join(root, "proc/self/mountinfo"), "rb") as f:
            mounts = [line.split(" ") for line in os.fsdecode(f.read()).splitlines()]
    except OSError:
        return
    paths: dict[str, str] = {}  # a controller, or "" for cgroup v2 -> the path of this process's group
    for fields in groups:
        if len(fields) == 3:
            paths.update(dict.fromkeys(fields[1].split(","), fields[2]))
    for fields in mounts:  # proc(5): the fixed fields, then optional ones up to "-", then type, source, options
        end = fields.index("-") if "-" in fields else len(fields)
        if len(fields) < end + 4 or end < 6:
            continue
        kind, options = fields[end + 1], fields[end + 3].split(",")
        controller = "" if kind == "cgroup2" else "cpu" if kind == "cgroup" and "cpu" in options else None
        if controller not in paths:
            continue
        inner = os.path.relpath(paths[controller], fields[3])
        top = os.path.join(root, fields[4].lstrip("/"))
        # A group outside the part that is mounted here, as in some containers: only the mounted part is seen.
        yield (top if inner == "." or inner.startswith("..") else os.path.join(top, inner)), top
