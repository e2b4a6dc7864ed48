"""Types of `scan_files`."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

from typing_extensions import Unpack

from recstore._types import Path, ScanOptions
from recstore.containers.records import RecordList

__all__ = ["Walking", "scan_files"]

_ClassFrom: TypeAlias = str | re.Pattern[str] | Callable[[str], str | None] | None

@overload
def scan_files(
    root: Path,
    pattern: str | Iterable[str] = "**/*",
    *,
    class_from: _ClassFrom = None,
    classes: Iterable[str] | None = None,
    paths: Literal["joined", "relative", "absolute"] = "joined",
    stat: bool = False,
    as_tuples: Literal[False] = False,
    hidden: bool = False,
    follow_symlinks: bool = True,
    errors: Literal["raise", "skip"] = "raise",
    allow_empty: bool = False,
    where: Callable[[dict[str, Any]], object] | None = None,
    limit: int | None = None,
    threads: int = 4,
    **options: Unpack[ScanOptions],
) -> RecordList[dict[str, Any]]: ...
@overload
def scan_files(
    root: Path,
    pattern: str | Iterable[str] = "**/*",
    *,
    class_from: _ClassFrom = None,
    classes: Iterable[str] | None = None,
    paths: Literal["joined", "relative", "absolute"] = "joined",
    stat: bool = False,
    as_tuples: Literal[True],
    hidden: bool = False,
    follow_symlinks: bool = True,
    errors: Literal["raise", "skip"] = "raise",
    allow_empty: bool = False,
    where: Callable[[tuple[Any, ...]], object] | None = None,
    limit: int | None = None,
    threads: int = 4,
    **options: Unpack[ScanOptions],
) -> RecordList[tuple[Any, ...]]: ...

class Walking:
    paths: Literal["joined", "relative", "absolute"]
    stat: bool
    as_tuples: bool
    hidden: bool
    follow_symlinks: bool
    errors: Literal["raise", "skip"]
    allow_empty: bool
    threads: int
    def __init__(
        self,
        paths: Literal["joined", "relative", "absolute"] = "joined",
        stat: bool = False,
        as_tuples: bool = False,
        hidden: bool = False,
        follow_symlinks: bool = True,
        errors: Literal["raise", "skip"] = "raise",
        allow_empty: bool = False,
        threads: SupportsIndex = 4,
    ) -> None: ...
    def content(self) -> dict[str, Any]: ...
