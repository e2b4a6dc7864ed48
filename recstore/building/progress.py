"""Progress bars on standard error, for ``progress=True``. rich draws them."""

from __future__ import annotations

from _collections_abc import Sized

from recstore.building.source import items_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, TypeVar

    import rich.progress
    from rich.text import Text
    from typing_extensions import Self

    _T = TypeVar("_T")


def track(records: Iterable[_T], total: int | None = None) -> Iterator[_T]:
    """An iterator over `records` that shows a progress bar. `total` is by default the length of `records`, if it has
    one. Raises ImportError without rich."""
    if total is None and isinstance(records, Sized):
        total = len(records)
    return _tracked(items_of(records), Bar(True, total))


def _tracked(records: Iterable[_T], bar: Bar) -> Iterator[_T]:
    with bar:
        yield from _counted(records, bar)


def _counted(records: Iterable[_T], bar: Bar) -> Iterator[_T]:
    for record in records:
        yield record
        bar.advance(1)


class Counting:
    """A builder that counts the appended records on a progress bar."""

    def __init__(self, builder: Any, bar: Bar) -> None:
        self.builder, self.bar = builder, bar

    def extend(self, records: Iterable[Any]) -> None:
        self.builder.extend(_counted(records, self.bar))

    def append_rows(self, reader: Any, most: int) -> int:
        """Appends up to `most` rows of an ArrowReader. Returns their number."""
        n: int = reader.append_to(self.builder, most)
        self.bar.advance(n)
        return n


class Bar:
    """A progress bar with a rate and the remaining time; a context manager. With `shown` false it does nothing.

    `total` is the number of steps, or None if it is unknown. `unit` is "bytes" or "records". `text` precedes the bar.
    Raises ImportError without rich. Not thread-safe.
    """

    def __init__(self, shown: bool, total: int | None = None, unit: str = "records", text: str = "building") -> None:
        self.rich_bar = _rich_progress(unit) if shown else None
        self.total, self.text = total, text
        self.task: rich.progress.TaskID  # set when the bar starts
        self.done: float = 0

    def __enter__(self) -> Self:
        if self.rich_bar is not None:
            self.task = self.rich_bar.add_task(self.text, total=self.total)
            self.rich_bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.rich_bar is not None:
            self.rich_bar.stop()

    def advance(self, n: int) -> None:
        """Counts n further steps."""
        self.to(self.done + n)

    def to(self, done: float) -> None:
        """Sets the number of finished steps."""
        self.done = done
        if self.rich_bar is not None:
            self.rich_bar.update(self.task, completed=done)


def _rich_progress(unit: str) -> rich.progress.Progress:
    try:
        from rich import progress
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        raise ImportError("progress=True needs rich: pip install rich") from None

    class Rate(progress.ProgressColumn):  # type: ignore[misc]  # rich may be absent
        def render(self, task: rich.progress.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")

    amount = (
        (progress.DownloadColumn, progress.TransferSpeedColumn)
        if unit == "bytes"
        else (progress.MofNCompleteColumn, Rate)
    )
    kinds = progress.BarColumn, progress.TaskProgressColumn, *amount, progress.TimeRemainingColumn
    text = progress.TextColumn("{task.description}")
    return progress.Progress(text, *(kind() for kind in kinds), console=Console(stderr=True))
