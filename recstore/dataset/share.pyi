"""Types of share_dataset."""

from collections.abc import Iterable

from recstore._types import Backing, OnUnsupported
from recstore.dataset.reports import SharingReport

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
) -> SharingReport: ...
