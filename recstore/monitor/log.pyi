"""Types of the log of a monitored run."""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from typing_extensions import Self

__all__ = ["Log", "Run", "read"]

_Path: TypeAlias = str | os.PathLike[str]

class Log:
    path: str
    lost: int
    def __init__(self, path: _Path, say: Callable[[str], object] | None = None, fd: int | None = None) -> None: ...
    def fileno(self) -> int: ...
    def write(self, entry: dict[str, Any]) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

class Run:
    start: dict[str, Any] | None
    samples: list[dict[str, Any]]
    events: list[dict[str, Any]]
    end: dict[str, Any] | None
    bad_lines: int
    def add(self, entry: dict[str, Any]) -> None: ...
    @classmethod
    def of(cls, lines: Iterable[bytes]) -> Run: ...

def read(path: _Path) -> Run: ...
