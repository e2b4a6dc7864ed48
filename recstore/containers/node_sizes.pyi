"""Types of the sizes of fields that ``info(fields=True)`` gives."""

import dataclasses

__all__ = ["FieldSize"]

@dataclasses.dataclass(frozen=True)
class FieldSize:
    field: str
    depth: int
    nbytes: int
    table_nbytes: int
    values: int
    forms: tuple[str, ...]
