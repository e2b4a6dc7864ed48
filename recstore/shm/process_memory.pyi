"""Types of the readings of memory."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

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

_Pid: TypeAlias = int | str
_Identity: TypeAlias = tuple[int, int, int]

class Usage:
    rss: int
    pss: int
    uss: int
    def __init__(self, rss: int, pss: int, uss: int) -> None: ...

def usage(pid: _Pid = "self") -> Usage | None: ...
def peak_rss(pid: _Pid = "self") -> int | None: ...
def reset_peak_rss() -> bool: ...
def available() -> int | None: ...
def family(pid: int) -> list[int]: ...
def segments(pid: _Pid = "self") -> dict[_Identity, int]: ...
def allocated(key: _Identity, pid: _Pid = "self") -> int | None: ...
def unmapped(keys: Mapping[_Identity, int], pids: Iterable[_Pid]) -> int: ...
def total(pids: Iterable[_Pid], keys: Mapping[_Identity, int] | tuple[()] = ()) -> int | None: ...
