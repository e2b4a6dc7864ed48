"""Types of the series of a run."""

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Process", "floors", "level", "processes", "sums"]

class Process:
    pid: int
    start: int | None
    ppid: int | None
    label: str
    role: str
    rank: int | None
    worker: int | None
    forked: bool
    times: list[float]
    entries: list[dict[str, Any]]
    def __init__(self, entry: dict[str, Any]) -> None: ...
    def series(self, figure: str) -> tuple[list[float], list[int]]: ...
    def last(self, figure: str) -> Any: ...

def processes(samples: Iterable[dict[str, Any]]) -> list[Process]: ...
def sums(samples: Iterable[dict[str, Any]], *path: str) -> tuple[list[float], list[Any]]: ...
def level(sample: dict[str, Any]) -> int | None: ...
def floors(times: Sequence[float], values: Sequence[int], cuts: Sequence[float]) -> list[int | None]: ...
