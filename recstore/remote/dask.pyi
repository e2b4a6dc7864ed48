"""Types of writing and reading Dask collections. The stubs import no Dask, so these are Any."""

from collections.abc import Iterable, Mapping
from typing import Any

from recstore._types import Path

__all__ = ["from_shards", "to_shards"]

def to_shards(
    collection: Any, url: Path, *, append: bool = False, compute: Mapping[str, Any] | None = None, **options: Any
) -> int: ...
def from_shards(
    url: Path,
    *,
    bag: bool = False,
    columns: Iterable[str] | None = None,
    cache: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any: ...
