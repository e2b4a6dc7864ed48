"""Types of `from_hf`."""

from typing import Any

from typing_extensions import Unpack

from recstore._types import Missing, Nanoseconds, ReadOptions
from recstore.containers.records import RecordList

__all__ = ["from_hf"]

def from_hf(
    dataset: Any,
    *,
    columns: list[str] | None = None,
    missing: Missing = "none",
    nanoseconds: Nanoseconds = "exact",
    **options: Unpack[ReadOptions],
) -> RecordList[Any]: ...
