"""Types of what ``info()`` gives."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from typing_extensions import Self

from recstore.containers.node_sizes import FieldSize

__all__ = ["MappingInfo", "Node", "SavedIndex", "StoreInfo", "Table", "ViewInfo"]

@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    kind: str
    detail: str
    children: tuple[Node, ...]

    def lines(self, indent: int = 0) -> Iterator[str]: ...

@dataclasses.dataclass(frozen=True)
class Table:
    number: int
    kind: str
    entries: int
    nbytes: int
    root: Node | None

    def lines(self) -> Iterator[str]: ...

@dataclasses.dataclass(frozen=True)
class SavedIndex:
    kind: str
    field: Any
    keys: int
    nbytes: int

@dataclasses.dataclass(frozen=True)
class StoreInfo:
    records: int
    nbytes: int
    backing: str
    name: str | None
    sections: dict[str, int]
    blocks: int
    trees: tuple[tuple[int, int, Node], ...]
    kept_bytes: int | None
    huge_bytes: int | None
    tables: tuple[Table, ...] = ()
    zero_copy: tuple[str, ...] = ...
    indexes: tuple[SavedIndex, ...] = ...
    fields: tuple[FieldSize, ...] = ...

    def measured(self) -> Self: ...

@dataclasses.dataclass(frozen=True)
class ViewInfo:
    records: int
    nbytes: int
    stores: tuple[StoreInfo, ...]
    shards: int = 0
    sets: tuple[tuple[str, int], ...] = ()

@dataclasses.dataclass(frozen=True)
class MappingInfo:
    records: int
    nbytes: int
    index_bytes: int
    factory: type[Any] | None
    segments: tuple[StoreInfo, ...]
    keys: tuple[StoreInfo, ...]

    @property
    def sections(self) -> dict[str, int]: ...
