"""Types of `read_parquet`."""

from collections.abc import Iterable
from typing import Any, Literal

from typing_extensions import Unpack

from recstore._types import Files, ReadOptions, Where
from recstore.containers.records import RecordList

__all__ = ["read_parquet"]

def read_parquet(
    path: Files,
    *,
    columns: Iterable[str] | None = None,
    dtypes: Any = None,
    missing: Literal["none", "absent"] = "none",
    nanoseconds: Literal["exact", "floor", "numpy"] = "exact",
    where: Where = None,
    limit: int | None = None,
    **options: Unpack[ReadOptions],
) -> RecordList[dict[str, Any]]: ...
