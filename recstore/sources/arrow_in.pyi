"""Types of `from_polars`."""

from typing import Any

from typing_extensions import Unpack

from recstore._types import Missing, Nanoseconds, ReadOptions
from recstore.containers.records import RecordList

__all__ = ["from_polars"]

def from_polars(
    frame: Any,
    *,
    columns: list[str] | None = None,
    missing: Missing = "none",
    nanoseconds: Nanoseconds = "exact",
    **options: Unpack[ReadOptions],
) -> RecordList[Any]: ...
