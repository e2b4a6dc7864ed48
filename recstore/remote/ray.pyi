"""Types of the sink and the source of Ray. The stubs import no Ray, so its objects are Any."""

from collections.abc import Iterable, Mapping
from typing import Any

from recstore._types import Path

__all__ = ["Datasink", "Datasource", "read"]

def Datasink(url: Path, *, append: bool = False, task_bytes: int | str | None = "64MiB", **options: Any) -> Any: ...
def Datasource(
    url: Path,
    *,
    columns: Iterable[str] | None = None,
    cache: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any: ...
def read(
    url: Path,
    *,
    columns: Iterable[str] | None = None,
    cache: Path | None = None,
    options: Mapping[str, Any] | None = None,
    **ray_options: Any,
) -> Any: ...
