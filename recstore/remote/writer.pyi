"""Types of ShardWriter and of what it has written."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal

__all__ = ["Entry", "ShardWriter"]

class Entry:
    kind: Literal["list", "mapping"]
    shards: tuple[Any, ...]
    attributes: dict[str, Any]
    id: str
    def __init__(
        self,
        kind: Literal["list", "mapping"],
        shards: Iterable[Any],
        attributes: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> None: ...
    @property
    def records(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def hashes(self) -> list[str]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class ShardWriter:
    def __init__(
        self,
        url: str | bytes | PathLike[str],
        *,
        mapping: bool = False,
        shard_bytes: int | str = "128MiB",
        shard_records: int | None = None,
        options: Mapping[str, Any] | None = None,
        index_by: Any = None,
        group_by: Any = None,
        compression: Literal["none", "fast", "auto", "small"] = "auto",
        on_unsupported: Literal["error", "pickle"] = "error",
        arrays: Literal["copy", "view"] = "copy",
        threads: int | None = None,
        dir: str | bytes | PathLike[str] | None = None,
    ) -> None: ...
    @property
    def url(self) -> str: ...
    def write(self, records: Any) -> Entry: ...
    def commit(self, entries: Entry | Iterable[Entry], *, append: bool = False, base: int | None = None) -> int: ...
    def remove(self, shards: str | Entry | Iterable[str | Entry]) -> int: ...
