"""Types of what ``why()`` gives."""

import dataclasses

__all__ = ["Weighed", "Why"]

@dataclasses.dataclass(frozen=True)
class Weighed:
    part: str
    values: str
    form: str
    bits: int
    count: int
    fits: int
    blocks: int
    chosen: int

@dataclasses.dataclass(frozen=True)
class Why:
    field: str
    asked: str
    records: int
    blocks: int
    forms: tuple[Weighed, ...]
