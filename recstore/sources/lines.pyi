"""Types of `read_lines`."""

from collections.abc import Callable
from typing import Literal

from typing_extensions import Unpack

from recstore._types import Files, ReadOptions
from recstore.containers.records import RecordList

__all__ = ["read_lines"]

def read_lines(
    path: Files,
    *,
    encoding: str = "utf-8",
    empty: Literal["keep", "skip"] = "keep",
    where: Callable[[str], object] | None = None,
    limit: int | None = None,
    **options: Unpack[ReadOptions],
) -> RecordList[str]: ...
