"""The samples of a run as a series of figures for each process, for verdicts, plots and the post-mortem.

A pid may be reused within a run, so pid and start time identify a process. A series omits missing figures (None) and,
for USS, PSS and shared memory, the estimates in entries with `exact` false.
"""

from __future__ import annotations

import bisect

from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from recstore.monitor.entries import Entry

__all__ = ["Process", "floors", "level", "processes", "sums"]

# Figures that are estimates while `exact` is false.
_ESTIMATED = frozenset(("uss", "pss", "shared"))


class Process:
    """A process of a run: its identity, its labels, and its entries in the samples in order."""

    __slots__ = ("pid", "start", "ppid", "label", "role", "rank", "worker", "forked", "times", "entries", "_series")

    pid: int
    start: int | None
    ppid: int | None
    label: str
    role: str
    rank: int | None
    worker: int | None
    forked: bool
    times: list[float]
    entries: list[Entry]
    _series: dict[str, tuple[list[float], list[int]]]

    def __init__(self, entry: Entry) -> None:
        self.pid = entry.get("pid")  # type: ignore[assignment]
        self.start = entry.get("start")
        self.times = []
        self.entries = []
        self._series = {}

    def _name(self) -> None:
        """Copy the labels of the last entry: a process may get its rank or title after its first sample."""
        entry = self.entries[-1]
        self.ppid = entry.get("ppid")
        self.label = str(entry.get("label") or f"process {self.pid}")
        self.role = entry.get("role") or "process"
        self.rank = entry.get("rank")
        self.worker = entry.get("worker")
        self.forked = bool(entry.get("forked"))

    def series(self, figure: str) -> tuple[list[float], list[int]]:
        """`(times, values)` of the samples that have the figure. Do not change the lists."""
        if figure not in self._series:
            self._series[figure] = self._pairs(figure)
        return self._series[figure]

    def _pairs(self, figure: str) -> tuple[list[float], list[int]]:
        estimated = figure in _ESTIMATED
        pairs = [
            (t, entry[figure])
            for t, entry in zip(self.times, self.entries)
            if entry.get(figure) is not None and not (estimated and not entry.get("exact", True))
        ]
        return [t for t, _ in pairs], [value for _, value in pairs]

    def last(self, figure: str) -> Any:
        """The last known value of a figure, even an estimate; None if there is none."""
        for entry in reversed(self.entries):
            if entry.get(figure) is not None:
                return entry[figure]
        return None

    def __repr__(self) -> str:
        return f"<Process {self.label}, pid {self.pid}, {counted(len(self.times), 'sample')}>"


def processes(samples: Iterable[Entry]) -> list[Process]:
    """The Processes of the samples, in order of appearance."""
    by_key: dict[tuple[Any, Any], Process] = {}
    for sample in samples:
        t = sample.get("t")
        if t is None:
            continue
        for entry in sample.get("processes") or ():
            if entry.get("rss") == 0:
                continue  # it is ending, and its memory is already free
            key = (entry.get("pid"), entry.get("start"))
            process = by_key.get(key)
            if process is None:
                process = by_key[key] = Process(entry)
            process.times.append(t)
            process.entries.append(entry)
    for process in by_key.values():
        process._name()
    return list(by_key.values())


def names(processes: Iterable[Process]) -> str:
    """The labels of Processes as a phrase. The workers of all epochs have the same labels, which it has once."""
    labels = list(dict.fromkeys(process.label for process in processes))
    if len(labels) > 4:
        return f"{', '.join(labels[:2])} and {len(labels) - 2} more processes"
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


def sums(samples: Iterable[Entry], *path: str) -> tuple[list[float], list[Any]]:
    """`(times, values)` of a figure of whole samples, as in `sums(samples, "sum", "pss")` and `sums(samples, "cgroup",
    "current")`."""
    times, values = [], []
    for sample in samples:
        value: Any = sample
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and sample.get("t") is not None:
            times.append(sample["t"])
            values.append(value)
    return times, values


def level(sample: Entry) -> int | None:
    """The total memory of the processes of a sample in bytes; None if unknown.

    This is the sum of PSS plus the pages of shared memory that no process maps. Without PSS, it is the memory of the
    cgroup or else the sum of RSS, which counts shared pages several times.
    """
    total = sample.get("sum") or {}
    if total.get("pss") is not None:
        return total["pss"] + (total.get("unmapped") or 0)  # type: ignore[no-any-return]
    current = (sample.get("cgroup") or {}).get("current")
    return total.get("rss") if current is None else current


def floors(times: Sequence[float], values: Sequence[int], cuts: Sequence[float]) -> list[int | None]:
    """The lowest value in each window `[cuts[i], cuts[i + 1])`; the last window includes its end. None for a window
    without values."""
    lowest = []
    for number, (first, last) in enumerate(zip(cuts, cuts[1:])):
        begin = bisect.bisect_left(times, first)
        end = bisect.bisect_right(times, last) if number == len(cuts) - 2 else bisect.bisect_left(times, last)
        lowest.append(min(values[begin:end]) if end > begin else None)
    return lowest
