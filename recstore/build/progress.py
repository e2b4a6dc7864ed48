"""A progress bar over an iterable, for `RecordList(..., progress=True)`."""


def track(records, total=None):
    """An iterator over `records` that shows a progress bar on standard error. Without `total`, the length of `records`
    counts if it has one. Raises ImportError without rich."""
    try:
        from rich.console import Console
        from rich.progress import track as rich_track
    except ImportError:
        raise ImportError("progress=True needs rich: pip install rich") from None
    if total is None and hasattr(records, "__len__"):
        total = len(records)
    return rich_track(records, description="building", total=total, console=Console(stderr=True))
