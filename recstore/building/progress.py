"""Progress bars on standard error, for ``progress=True``. rich draws them."""

from recstore.building.source import items_of


def track(records, total=None):
    """An iterator over `records` that shows a progress bar. Without `total`, the length of `records` counts if it has
    one. Raises ImportError without rich."""
    if total is None and hasattr(records, "__len__"):
        total = len(records)
    return _tracked(items_of(records), Bar(True, total))


def _tracked(records, bar):
    with bar:
        yield from _counted(records, bar)


def _counted(records, bar):
    for record in records:
        yield record
        bar.advance(1)


class Counting:
    """A builder that counts on a progress bar the records that are appended to it."""

    def __init__(self, builder, bar):
        self.builder, self.bar = builder, bar

    def extend(self, records):
        self.builder.extend(_counted(records, self.bar))


class Bar:
    """A progress bar with a rate and the time that is left; a context manager. With `shown` false it does nothing.

    `total` is the number of steps, or None if nobody knows it. `unit` is "bytes" or "records". Raises ImportError
    without rich. For one thread.
    """

    def __init__(self, shown, total=None, unit="records"):
        self.drawn = _drawn(unit) if shown else None
        self.total = total
        self.task = None
        self.done = 0

    def __enter__(self):
        if self.drawn is not None:
            self.task = self.drawn.add_task("building", total=self.total)
            self.drawn.start()
        return self

    def __exit__(self, *_):
        if self.drawn is not None:
            self.drawn.stop()

    def advance(self, n):
        """Counts n further steps."""
        self.to(self.done + n)

    def to(self, done):
        """Sets the number of steps that are done."""
        self.done = done
        if self.drawn is not None:
            self.drawn.update(self.task, completed=done)


def _drawn(unit):
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        raise ImportError("progress=True needs rich: pip install rich") from None

    class Rate(progress.ProgressColumn):
        def render(self, task):
            speed = task.finished_speed or task.speed
            return progress.Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")

    if unit == "bytes":
        amount, rate = progress.DownloadColumn(), progress.TransferSpeedColumn()
    else:
        amount, rate = progress.MofNCompleteColumn(), Rate()
    text, bar = progress.TextColumn("{task.description}"), progress.BarColumn()
    return progress.Progress(
        text,
        bar,
        progress.TaskProgressColumn(),
        amount,
        rate,
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
