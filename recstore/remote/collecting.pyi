"""Types of gc."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

__all__ = ["Collected", "gc"]

class Collected:
    manifests: list[int]
    files: list[str]
    nbytes: int
    kept: list[int]
    dry_run: bool
    def __init__(self, manifests: list[int], files: list[str], nbytes: int, kept: list[int], dry_run: bool) -> None: ...

def gc(
    url: str | bytes | PathLike[str],
    *,
    days: float = 7,
    dry_run: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Collected: ...
