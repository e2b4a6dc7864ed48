"""Types of `read_csv`."""

from collections.abc import Iterable
from typing import Any, Literal

from typing_extensions import Unpack

from recstore._types import Files, ReadOptions, Where
from recstore.containers.records import RecordList

__all__ = ["read_csv"]

def read_csv(
    path: Files,
    *,
    delimiter: str | None = None,
    header: bool | Iterable[str] = True,
    columns: Iterable[str] | None = None,
    dtypes: Any = None,
    null_values: Iterable[str] = ("",),
    quote: str | None = '"',
    escape: str | None = None,
    encoding: str = "utf-8",
    skip_rows: int = 0,
    errors: Literal["raise", "skip"] = "raise",
    empty: Literal["keep", "skip"] = "keep",
    missing: Literal["none", "absent"] = "none",
    where: Where = None,
    limit: int | None = None,
    **options: Unpack[ReadOptions],
) -> RecordList[dict[str, Any]]: ...
