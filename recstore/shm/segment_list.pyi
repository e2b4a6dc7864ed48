"""Types of the list of named segments."""

from typing import Any, Literal

from recstore._types import Path

class SegmentInfo:
    age: float
    attached: int | None
    builder: str | None
    fingerprint: str | None
    keep: str | None
    name: str | None
    nbytes: int
    path: str
    records: int | None
    state: Literal["in use", "kept", "orphan", "damaged", "another version's"]
    def __init__(self, **values: Any) -> None: ...
    def row(self) -> list[str]: ...

class SegmentTable(list[SegmentInfo]): ...

def segments(name: str | None, dir: Path | None) -> SegmentTable: ...
def duration(seconds: float) -> str: ...
def unlink(name: str, fingerprint: str | None, dir: Path | None) -> int: ...
