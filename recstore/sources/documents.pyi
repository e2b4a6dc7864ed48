"""Types of `read_json`."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

from typing_extensions import Unpack

from recstore._types import Files, ReadOptions
from recstore.containers.dicts import RecordDict
from recstore.containers.records import RecordList

__all__ = ["read_json"]

@overload
def read_json(
    path: Files,
    *,
    records: str | tuple[str, ...] | None = None,
    entries: Literal[False] = False,
    columns: Iterable[str] | None = None,
    where: Callable[[Any], object] | None = None,
    limit: int | None = None,
    **options: Unpack[ReadOptions],
) -> RecordList[Any]: ...
@overload
def read_json(
    path: Files,
    *,
    records: str | tuple[str, ...] | None = None,
    entries: Literal[True],
    columns: Iterable[str] | None = None,
    where: Callable[[tuple[str, Any]], object] | None = None,
    limit: int | None = None,
    **options: Unpack[ReadOptions],
) -> RecordDict[str, Any]: ...
