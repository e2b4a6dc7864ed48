"""The samples of a run as a series of figures for each process, which verdicts, plots and the post-mortem read.

A pid may be used again within a run, so a process is its pid and its start time. A figure that the machine did not give
is None and left out of a series. Some figures are read in turns: an entry with `exact` false repeats the USS, PSS and
shared memory of an earlier sample, and a series of these skips it.
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

# Figures that an entry repeats while `exact` is false.
_IN_TURNS = frozenset(("uss", "pss", "shared"))


class Process:
    """One process of a run: its identity, its labels, and its entries of the samples in order."""

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
        """Take the labels of the last entry: a process may get its rank or its title after its first sample."""
        entry = self.entries[-1]
        self.ppid = entry.get("ppid")
        self.label = str(entry.get("label") or f"process {self.pid}")
        self.role = entry.get("role") or "process"
        self.rank = entry.get("rank")
        self.worker = entry.get("worker")
        self.forked = bool(entry.get("forked"))

    def series(self, figure: str) -> tuple[list[float], list[int]]:
        """`(times, values)` of the samples that know the figure. Neither list may be changed."""
        if figure not in self._series:
            self._series[figure] = self._pairs(figure)
        return self._series[figure]

    def _pairs(self, figure: str) -> tuple[list[float], list[int]]:
        in_turns = figure in _IN_TURNS
        pairs = [
            (t, entry[figure])
            for t, entry in zip(self.times, self.entries)
            if entry.get(figure) is not None and not (in_turns and not entry.get("exact", True))
        ]
        return [t for t, _ in pairs], [value for _, value in pairs]

    def last(self, figure: str) -> Any:
        """The last known value; None without one."""
        for entry in reversed(self.entries):
            if entry.get(figure) is not None:
                return entry[figure]
        return None

    def __repr__(self) -> str:
        return f"<Process {self.label}, pid {self.pid}, {counted(len(self.times), 'sample')}>"


def processes(samples: Iterable[Entry]) -> list[Process]:
    """The Processes of the samples, in the order in which they appear."""
    found: dict[tuple[Any, Any], Process] = {}
    for sample in samples:
        t = sample.get("t")
        if t is None:
            continue
        for entry in sample.get("processes") or ():
            if entry.get("rss") == 0:
                continue  # it is ending, and has given its memory back already
            key = (entry.get("pid"), entry.get("start"))
            one = found.get(key)
            if one is None:
                one = found[key] = Process(entry)
            one.times.append(t)
            one.entries.append(entry)
    for one in found.values():
        one._name()
    return list(found.values())


def names(processes: Iterable[Process]) -> str:
    """The labels of Processes as a phrase; the workers of each epoch have the labels of those before."""
    labels = list(dict.fromkeys(one.label for one in processes))
    if len(labels) > 4:
        return f"{', '.join(labels[:2])} and {len(labels) - 2} more processes"
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


def sums(samples: Iterable[Entry], *path: str) -> tuple[list[float], list[Any]]:
    """`(times, values)` of a figure of whole samples: `sums(samples, "sum", "pss")`, `sums(samples, "cgroup",
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
    """The bytes that all processes of a sample take together; None without a figure.

    That is the sum of PSS with the pages of segments that no process has mapped. Where the system gives no PSS, it is
    the memory of the cgroup, and without that the sum of RSS, which counts shared pages many times.
    """
    total = sample.get("sum") or {}
    if total.get("pss") is not None:
        return total["pss"] + (total.get("unmapped") or 0)  # type: ignore[no-any-return]
    current = (sample.get("cgroup") or {}).get("current")
    return total.get("rss") if current is None else current


def floors(times: Sequence[float], values: Sequence[int], cuts: Sequence[float]) -> list[int | None]:
    """The lowest value in each window `[cuts[i], cuts[i + 1])`; the last window includes its end. None for a window
    without values."""
    found = []
    for number, (first, last) in enumerate(zip(cuts, cuts[1:])):
        begin = bisect.bisect_left(times, first)
        end = bisect.bisect_right(times, last) if number == len(cuts) - 2 else bisect.bisect_left(times, last)
        found.append(min(values[begin:end]) if end > begin else None)
    return found
