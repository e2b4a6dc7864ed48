"""A progress bar over an iterable, for `RecordList(..., progress=True)`."""


def track(records, total=None):
    """Yields the records of `records`, of which there are `total`, else len(records) where that is known, while a bar
    on standard error follows. ImportError names the package it needs."""
    try:
        from rich.console import Console
        from rich.progress import track as rich_track
    except ImportError:
        raise ImportError("progress=True needs rich: pip install rich") from None
    if total is None and hasattr(records, "__len__"):
        total = len(records)
    return rich_track(records, description="building", total=total, console=Console(stderr=True))
