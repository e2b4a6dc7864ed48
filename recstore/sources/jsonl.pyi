"""Types of `read_jsonl`."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from typing_extensions import Unpack

from recstore._types import Files, ReadOptions
from recstore.containers.records import RecordList

__all__ = ["read_jsonl"]

def read_jsonl(
    path: Files,
    *,
    errors: Literal["raise", "skip"] = "raise",
    columns: Iterable[str] | None = None,
    where: Callable[[Any], object] | None = None,
    limit: int | None = None,
    **options: Unpack[ReadOptions],
) -> RecordList[Any]: ...
