"""Types of audit."""

from recstore.dataset.reports import Audit

def audit(
    dataset_or_loader: object, *, workers: int | None = None, ranks: int | None = None, threshold: int | str = "1MiB"
) -> Audit: ...
