"""The number of cores that this process may use."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Root of a file system -> the quota. Cached, because reading a quota takes longer than building a small store.
_quota: dict[str, int | None] = {}


def available(root: str = "/") -> int:
    """The number of cores that this process may use, at least 1: the smaller of its affinity mask and the quota of its
    control groups (cgroup v1 and v2), rounded up. `root` is the folder of `proc` and of the mount points. Safe from
    several threads at once.

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
    """The cores of the smallest quota, rounded up; None without a quota."""
    limits: list[int] = []
    for folder, top in _folders(root):
        while True:
            limits += _limit(folder)
            if len(folder) <= len(top):
                break
            folder = os.path.dirname(folder)
    return min(limits, default=None)


def _limit(folder: str) -> list[int]:
    """`[cores]` of one control group; empty if the group has no readable limit."""
    quota = period = ""
    try:
        fields = _read(folder, "cpu.max").split()
        if fields:  # cgroup v2: "max 100000" or "150000 100000"
            quota, period = fields
        else:
            quota, period = _read(folder, "cpu.cfs_quota_us"), _read(folder, "cpu.cfs_period_us")
        quota_us, period_us = int(quota), int(period)
    except ValueError:
        return []
    return [-(-quota_us // period_us)] if quota_us > 0 and period_us > 0 else []


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
        # In some containers the group is outside the mounted part. The mounted part then has the limit.
        yield (top if inner == "." or inner.startswith("..") else os.path.join(top, inner)), top
