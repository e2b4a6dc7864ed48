"""Types of `from_pandas`."""

from typing import Any

from typing_extensions import Unpack

from recstore._types import Missing, Nanoseconds, ReadOptions
from recstore.containers.records import RecordList

__all__ = ["from_pandas"]

def from_pandas(
    frame: Any,
    *,
    columns: list[str] | None = None,
    missing: Missing = "none",
    nanoseconds: Nanoseconds = "exact",
    **options: Unpack[ReadOptions],
) -> RecordList[Any]: ...
