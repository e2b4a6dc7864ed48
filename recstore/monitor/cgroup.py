"""The memory cgroup of a process, in both versions: limit, use, and number of kills.

Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the kernel describe the files. The functions take
`read`, a function that returns the text of a file or None, so tests and `recstore doctor` can describe other machines.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Read: TypeAlias = Callable[[str], str | None]

_NO_LIMIT = 1 << 60  # cgroup version 1 writes a huge number for "no limit"


class Mount:
    """A line of mountinfo."""

    __slots__ = ("device", "root", "point", "kind", "source", "options")

    def __init__(self, device: str, root: str, point: str, kind: str, source: str, options: tuple[str, ...]) -> None:
        self.device, self.root, self.point, self.kind = device, root, point, kind
        self.source, self.options = source, options


class Level:
    """The memory cgroup of a process, or an ancestor of it. A missing limit or figure is None.

    Attributes:
        name: the path of the cgroup. folder: the folder of its files. version: 1 or 2.
        limit, high, swap: its limits. current: the bytes in use, page cache included.
        used: the bytes in use without inactive page cache, which the kernel drops before it kills.
        oom: how often the limit was reached and nothing could be freed. kills: the number of killed processes.
    """

    limit: int | None
    current: int | None
    used: int | None
    high: int | None
    swap: int | None
    oom: int | None
    kills: int | None

    def __init__(self, name: str, folder: str, version: int) -> None:
        self.name, self.folder, self.version = name, folder, version
        self.limit = self.current = self.used = self.high = self.swap = self.oom = self.kills = None

    @property
    def left(self) -> int | None:
        """The bytes that recstore may use, with 5% of the limit kept free; None if unknown."""
        if self.limit is None or self.used is None:
            return None
        return max(0, self.limit - self.limit // 20 - self.used)

    @property
    def limit_file(self) -> str:
        """The path of the file with the limit."""
        return f"{self.folder}/memory.max" if self.version == 2 else f"{self.folder}/memory.limit_in_bytes"


def mounts(read: Read, pid: int | str = "self") -> list[Mount]:
    """The Mounts that a process sees, in order; empty if they cannot be read."""
    out = []
    for line in (read(f"/proc/{pid}/mountinfo") or "").splitlines():
        head, separator, tail = line.partition(" - ")
        words, rest = head.split(" "), tail.split(" ")
        if not separator or len(words) < 6 or len(rest) < 3:
            continue
        options = tuple(words[5].split(",") + rest[2].split(","))
        out.append(Mount(words[2], _unescape(words[3]), _unescape(words[4]), rest[0], _unescape(rest[1]), options))
    return out


def levels(read: Read, pid: int | str = "self", mounted: list[Mount] | None = None) -> list[Level]:
    """The Levels of the memory cgroup of a process, from its own up to the mounted top; version 2 first.

    `mounted` are the Mounts of this process; None to read them.
    """
    mounted = mounts(read) if mounted is None else mounted
    return [level for version in (2, 1) for level in _hierarchy(read, pid, mounted, version)]


def tightest(levels: Sequence[Level]) -> Level | None:
    """The Level with the smallest limit; without limits, the first Level with a known use; else None."""
    limited = [level for level in levels if level.limit is not None]
    if limited:
        return min(limited, key=lambda level: level.limit)  # type: ignore[arg-type, return-value]
    return next((level for level in levels if level.current is not None), None)


def _hierarchy(read: Read, pid: int | str, mounted: list[Mount], version: int) -> list[Level]:
    own = _path(read, pid, version)
    kind = "cgroup2" if version == 2 else "cgroup"
    mounted = [m for m in mounted if m.kind == kind and (version == 2 or "memory" in m.options)]
    if own is None or not mounted:
        return []
    mount = next((m for m in mounted if _beneath(own, m.root) is not None), mounted[0])
    below = _beneath(own, mount.root)
    name, inside = (own, below) if below is not None else (mount.root, "")
    hierarchy = []
    while True:
        hierarchy.append(refreshed(read, Level(name or "/", mount.point.rstrip("/") + inside, version)))
        if not inside:
            return hierarchy
        inside, name = inside.rpartition("/")[0], name.rpartition("/")[0]


def _path(read: Read, pid: int | str, version: int) -> str | None:
    for line in (read(f"/proc/{pid}/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0" and not controllers) if version == 2 else ("memory" in controllers.split(",")):
            return path
    return None


def refreshed(read: Read, level: Level) -> Level:
    """Updates the figures of a Level, and returns it."""
    folder = level.folder
    if level.version == 2:
        names: tuple[str, ...] = ("max", "current", "high", "swap.max")
        level.limit, level.current, level.high, level.swap = (
            _number(read, f"{folder}/memory.{name}") for name in names
        )
        inactive = fields(read, f"{folder}/memory.stat").get("inactive_file")
        events = fields(read, f"{folder}/memory.events")
        level.oom, level.kills = events.get("oom"), events.get("oom_kill")
    else:
        names = ("limit", "usage", "memsw.limit")
        level.limit, level.current, with_swap = (_number(read, f"{folder}/memory.{name}_in_bytes") for name in names)
        limit = level.limit
        level.swap = with_swap - limit if with_swap is not None and limit is not None and with_swap >= limit else None
        inactive = fields(read, f"{folder}/memory.stat").get("total_inactive_file")
        level.kills = fields(read, f"{folder}/memory.oom_control").get("oom_kill")
    level.used = level.current
    if level.used is not None and inactive is not None and inactive <= level.used:
        level.used -= inactive
    return level


def use(read: Read, level: Level) -> int | None:
    """The bytes in use now, page cache included; None if they cannot be read."""
    return _number(read, f"{level.folder}/memory.{'current' if level.version == 2 else 'usage_in_bytes'}")


def _number(read: Read, path: str) -> int | None:
    text = (read(path) or "").strip()
    return int(text) if text.isdecimal() and int(text) < _NO_LIMIT else None


def fields(read: Read, path: str) -> dict[str, int]:
    """{name: number} of a file with a name and a number in each line, such as memory.events or meminfo, whose kB become
    bytes; empty without the file."""
    out = {}
    for words in map(str.split, (read(path) or "").splitlines()):
        if len(words) in (2, 3) and words[1].isdecimal():
            out[words[0].rstrip(":")] = int(words[1]) * (1024 if words[2:] == ["kB"] else 1)
    return out


def _beneath(path: str, root: str) -> str | None:
    """The part of `path` after `root`; None if `path` is not beneath `root`, such as `/..` in a cgroup namespace."""
    root = root.rstrip("/")
    if "/.." in path or not (path + "/").startswith(root + "/"):
        return None
    return path[len(root) :].rstrip("/")


def _unescape(text: str) -> str:
    """Decodes a path of mountinfo, which writes space, tab, newline and backslash as octal escapes."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), text)
