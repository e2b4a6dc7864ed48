"""Types of share_dataset."""

from collections.abc import Callable, Iterable
from typing import TypeVar, overload

from recstore._types import Backing, OnUnsupported, Path, Paths
from recstore.dataset.reports import SharingReport

_T = TypeVar("_T")

@overload
def share_dataset(
    obj: object,
    threshold: int | str = "1MiB",
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    *,
    dry_run: bool = False,
    strict: bool = False,
    on_unsupported: OnUnsupported = "error",
    backing: Backing = "auto",
    shared: None = None,
) -> SharingReport: ...

# A function, class or functools.partial that makes the dataset. Any other callable object is itself a dataset.
@overload
def share_dataset(
    obj: Callable[[], _T],
    threshold: int | str = "1MiB",
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    *,
    strict: bool = False,
    on_unsupported: OnUnsupported = "error",
    shared: str,
    keep: bool | str | float = False,
    fingerprint: str | None = None,
    files: Paths | None = None,
    dir: Path | None = None,
    timeout: float | None = None,
) -> _T: ...
@overload
def share_dataset(
    obj: _T,
    threshold: int | str = "1MiB",
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    *,
    strict: bool = False,
    on_unsupported: OnUnsupported = "error",
    shared: str,
    keep: bool | str | float = False,
    fingerprint: str | None = None,
    files: Paths | None = None,
    dir: Path | None = None,
    timeout: float | None = None,
) -> _T: ...
