"""A progress bar over an iterable, for `RecordList(..., progress=True)`."""


def track(records):
    """Yields the records of `records` while a bar on standard error follows. ImportError names the extra it needs."""
    try:
        from rich.console import Console
        from rich.progress import track as rich_track
    except ImportError:
        raise ImportError("progress=True needs rich: pip install 'recstore[cli]'") from None
    total = len(records) if hasattr(records, "__len__") else None
    return rich_track(records, description="building", total=total, console=Console(stderr=True))
