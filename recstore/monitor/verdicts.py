"""Verdicts about the memory of a run: rules with thresholds over the samples of its log.

| Verdict | Rule |
| --- | --- |
| copy-on-read | a child's USS grows as its shared memory shrinks, its RSS is flat, others free at most half as much |
| leak | the floor of a process's anonymous memory rises steadily over the last three quarters of its life or epochs |
| backlog | unmapped batches fill the queue and stay: the loader is faster than its consumer |
| copies per rank | two or more ranks, or workers without copy-on-read, have about the same, large private memory |
| pinned memory | page-locked memory of a GPU driver is a large part of the sum |
| killed at the limit | the kernel's OOM killer ended a process |
| address space | a process that had mapped most of its `ulimit -v` failed |
| growth | the private memory of a process grew by a large amount, and no rule above explains it |
| unclear | memory grows, or is near its limit, and no rule above explains it; or figures or samples are missing |

If no rule matches, a run has no verdict. The thresholds are the constants below, and those in copies.py and deaths.py.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

from recstore.monitor import copies, deaths, series
from recstore.text import duration_text, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.monitor.entries import Entry
    from recstore.monitor.log import Run
    from recstore.monitor.series import Process

__all__ = ["KINDS", "Verdict", "judge", "text"]

KINDS: tuple[str, ...] = (
    "copy-on-read",
    "leak",
    "backlog",
    "copies per rank",
    "pinned memory",
    "killed at the limit",
    "address space",
    "growth",
    "unclear",
)

MB = copies.MB
# The fewest samples for leak, backlog, copies per rank and pinned memory. With fewer, a run without another verdict is
# "unclear".
FEWEST_SAMPLES = 5
# leak: the least samples per quarter of a life, on average; the least growth of the floor from the second to the last
# quarter, in bytes and as a share of the second. Each of the two steps has at least STEADY of the average speed,
# because the heap of a new worker grows more and more slowly. The last quarter itself has at least SLOWER of the
# average speed. A process younger than LOADING seconds may still be loading its data.
LEAK_SAMPLES = 5
LEAKED = 64 * MB
LEAKED_SHARE = 0.05
LOADING = 120.0
STEADY = 0.7
SLOWER = 0.35
# backlog: the least waiting bytes, their share of the sum, and how full the queue stays while it is busy.
WAITING = 64 * MB
WAITING_SHARE = 0.05
WAITING_FULL = 0.6
# pinned memory: the least bytes, and their share of the sum.
PINNED = 64 * MB
PINNED_SHARE = 0.1
# growth: the least gain of private bytes of a process. Importing PyTorch takes 150 MB.
TOOK = 256 * MB
TOOK_NEAR = 64 * MB  # in a run near its limit
# unclear: the least growth of the floor of the sum, in bytes and as a share; the least share of the limit in use.
GROWN = 64 * MB
GROWN_SHARE = 0.1
NEAR_LIMIT = 0.85


class Verdict(NamedTuple):
    """The finding of a rule: its kind, one of KINDS; the reason in a few sentences; the line of code to write, or "";
    and the evidence, figures by name."""

    kind: str
    text: str
    line: str
    evidence: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" + (f"\n    {self.line}" if self.line else "")


def judge(run: Run, crew: list[Process] | None = None) -> list[Verdict]:
    """The Verdicts about a Run: first the ends of processes, then the growth of memory, the largest first. "unclear"
    only occurs alone. The list is empty if no rule matches and no process grew much. `crew` are the run's Processes, if
    the caller has them.

    >>> import types
    >>> run = types.SimpleNamespace(start=None, samples=[], events=[], end=None)
    >>> [verdict.kind for verdict in judge(run)]
    ['unclear']
    """
    samples = [sample for sample in run.samples if sample.get("t") is not None]
    crew = series.processes(samples) if crew is None else crew
    enough = len(samples) >= FEWEST_SAMPLES
    ends = [Verdict(*finding) for finding in deaths.verdicts(run, samples, crew)]
    tight = bool(ends) or _near(run, samples) is not None
    verdicts = [Verdict(*finding) for finding in copies.findings(run, samples, crew, enough, tight)]
    for rule in (_leak, _backlog, _pinned) if enough else ():
        verdicts += rule(run, samples, crew)
    if not verdicts:
        verdicts = _growth(run, crew, TOOK_NEAR if tight else TOOK)
    verdicts = ends + sorted(verdicts, key=lambda verdict: -verdict.evidence["bytes"])
    if not verdicts and not enough:
        count = "1 sample is" if len(samples) == 1 else f"{len(samples)} samples are"
        remedy = "use a shorter interval for a short job"
        return [Verdict("unclear", f"{count} too few to judge; {FEWEST_SAMPLES} are needed: {remedy}", "", {})]
    return verdicts or _unclear(run, samples, crew)


def text(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as lines of text."""
    if not verdicts:
        return f"No verdict: no rule matches, and no process took {size_text(TOOK)} of private memory."
    return "\n".join(map(str, verdicts))


# ---- leak ----


def _leak(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[Verdict]:
    leaks: dict[Process, tuple[int, float]] = {}
    for process in crew:
        times, values = process.series("anonymous")
        if not times:
            times, values = process.series("uss")
        times, values = _without_end(times, values)
        rise = _rising(times, values, _windows(run, times), LEAKED, LEAKED_SHARE)
        if rise is not None:
            leaks[process] = rise
    if not leaks:
        return []
    total = sum(grown for grown, _ in leaks.values())
    speed = sum(grown / seconds for grown, seconds in leaks.values())
    left = _seconds_left(run, samples, speed)
    evidence = {
        "bytes": total,
        "bytes per second": speed,
        "seconds to the limit": left,
        "processes": [
            {"label": process.label, "pid": process.pid, "anonymous": grown} for process, (grown, _) in leaks.items()
        ],
    }
    until = "" if left is None else f" At this speed it reaches the limit in {duration_text(left)}."
    text = f"The private memory of {series.names(leaks)} grows by {size_text(60 * speed)} a minute and does not shrink."
    advice, line = _leak_advice(run, list(leaks))
    return [Verdict("leak", f"{text}{until} {advice}", line, evidence)]


def _leak_advice(run: Run, leaking: Sequence[Process]) -> tuple[str, str]:
    """`(sentences, line)`: the usual cause of growth in such processes."""
    trace = "tracemalloc shows the line that makes the objects."
    if all(process.role == "worker" for process in leaking):
        return (
            f"A worker keeps objects of every sample, for example in a cache without a limit; {trace}",
            "load = functools.lru_cache(maxsize=1_000)(load)",
        )
    seconds = max(process.times[-1] - process.times[0] for process in leaking)
    if seconds < LOADING and not any(event.get("what") == "epoch" for event in run.events):
        return (
            f"It has only run for {duration_text(seconds)}. If it is loading records, build the store from an iterator "
            f"instead of a list. If it is already training, it keeps objects that it should drop; {trace}",
            "samples = RecordList(read_samples())",
        )
    return (
        f"A list keeps growing. A stored loss keeps its whole graph alive, its value does not. {trace}",
        "losses.append(loss.item())",
    )


def _without_end(times: list[float], values: list[int]) -> tuple[list[float], list[int]]:
    """The series without its last samples, if they show an ending process that frees its memory."""
    most_cut = max(3, len(values) // 10)
    high = 0.9 * max(values, default=0)
    cut = next((i for i in range(most_cut + 1) if i < len(values) and values[len(values) - 1 - i] >= high), 0)
    return times[: len(times) - cut], values[: len(values) - cut]


def _windows(run: Run, times: Sequence[float]) -> list[float]:
    """The limits of four windows of a life: at its epochs if there are at least four, else at its quarters."""
    if not times:
        return []
    epochs = [event["t"] for event in run.events if event.get("what") == "epoch" and event.get("t") is not None]
    within = sorted({t for t in epochs if times[0] <= t < times[-1]})
    if len(within) >= 4:
        # The first epoch fills caches and queues, so the comparison starts with the second.
        step = (len(within) - 1) / 3
        return [within[0], *(within[round(1 + step * i)] for i in range(3)), times[-1]]
    quarter = (times[-1] - times[0]) / 4
    return [times[0] + quarter * i for i in range(4)] + [times[-1]]


def _rising(
    times: Sequence[float], values: Sequence[int], cuts: Sequence[float], least: int, share: float
) -> tuple[int, float] | None:
    """`(growth, seconds)` from the second to the last window if the floor of the windows rises steadily, else None."""
    if len(cuts) < 5 or len(times) < 4 * LEAK_SAMPLES:
        return None
    counts = [bisect.bisect_left(times, last) - bisect.bisect_left(times, first) for first, last in zip(cuts, cuts[1:])]
    if min(counts[1:]) < LEAK_SAMPLES - 1:
        return None
    _, second, third, last = series.floors(times, values, cuts)
    grown, seconds = last - second, cuts[3] - cuts[1]  # type: ignore[operator]
    if grown < max(least, share * second):  # type: ignore[operator]
        return None
    speeds = [(third - second) / (cuts[2] - cuts[1]), (last - third) / (cuts[3] - cuts[2])]  # type: ignore[operator]
    # A cache that became full in the last window did not grow in the second half of the window.
    half = (cuts[4] - cuts[3]) / 2
    halves = series.floors(times, values, [cuts[3], cuts[3] + half, cuts[4]])
    if (
        min(speeds) < STEADY * grown / seconds
        or None in halves
        or halves[1] - halves[0] < SLOWER * half * grown / seconds  # type: ignore[operator]
    ):
        return None
    return grown, seconds


def _seconds_left(run: Run, samples: Sequence[Entry], speed: float) -> float | None:
    limit = (run.start or {}).get("limit")
    used = deaths.used(samples)
    if limit is None or not used or speed <= 0:
        return None
    return max(0.0, (limit - used[-1]) / speed)  # type: ignore[no-any-return]


# ---- backlog ----


def _backlog(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[Verdict]:
    waiting = []
    for sample in samples:
        batches = (sample.get("named") or {}).get("batches")
        unmapped = (sample.get("sum") or {}).get("unmapped")
        if batches is not None:
            # The consumer maps its batches. A waiting batch is only a file or a descriptor.
            waiting.append((sample["t"], batches if unmapped is None else min(batches, unmapped)))
    if len(waiting) < 2 * FEWEST_SAMPLES:
        return []
    # The queue fills when the loader starts and drains when it ends: judge the time in between.
    busy = [t for t, size in waiting if size >= WAITING]
    if not busy:
        return []
    middle = sorted(size for t, size in waiting if busy[0] <= t <= busy[-1])
    usual = middle[len(middle) // 2]
    total = max((series.level(sample) or 0 for sample in samples), default=0)
    if len(middle) < FEWEST_SAMPLES or len(middle) < len(waiting) / 4:
        return []
    if usual < max(WAITING, WAITING_SHARE * total) or middle[len(middle) // 10] < WAITING_FULL * usual:
        return []
    workers = sum(process.role == "worker" for process in crew)
    evidence = {"bytes": usual, "most": middle[-1], "workers": workers, "sum": total}
    text = (
        f"{size_text(usual)} of finished batches wait in shared memory: the loader is faster than its consumer, and "
        "its queue of num_workers * prefetch_factor batches stays full. A shorter queue is as fast."
    )
    line = "loader = DataLoader(dataset, num_workers={}, prefetch_factor=1, ...)"
    return [Verdict("backlog", text, line.format(max(1, workers // 2) if workers else 1), evidence)]


# ---- pinned memory ----


def _pinned(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[Verdict]:
    _, values = series.sums(samples, "named", "pinned")
    if not values:
        return []
    peak = max(values)
    total = max((series.level(sample) or 0 for sample in samples), default=0)
    if peak < max(PINNED, PINNED_SHARE * total):
        return []
    evidence = {"bytes": peak, "sum": total}
    text = (
        f"{size_text(peak)} is page-locked for a GPU. PyTorch rounds each pinned batch up to a power of two and "
        "keeps it until the process ends. Without pin_memory the batches are pageable. A shorter queue pins fewer "
        "batches."
    )
    return [Verdict("pinned memory", text, "loader = DataLoader(dataset, pin_memory=False, ...)", evidence)]


# ---- growth ----


def _growth(run: Run, crew: Sequence[Process], least: int) -> list[Verdict]:
    by_label: dict[str, tuple[int, int, float, Process]] = {}
    for process in crew:
        times, values = process.series("anonymous") if process.series("anonymous")[0] else process.series("uss")
        gain = max(values) - values[0] if values else 0
        if gain >= max(least, by_label[process.label][0] if process.label in by_label else 0):
            by_label[process.label] = gain, max(values), _rise_time(times, values), process
    if not by_label:
        return []
    largest = sorted(by_label.values(), key=lambda growth: -growth[0])
    gain, size, seconds, process = largest[0]
    evidence = {
        "bytes": sum(gain for gain, *_ in largest),
        "processes": [{"label": each.label, "pid": each.pid, "anonymous": gain} for gain, _, _, each in largest],
    }
    others = ""
    if largest[1:]:
        others = f" {series.names([each for *_, each in largest[1:]])} took {size_text(largest[1][0])} or less."
    text = (
        f"{process.label} took {size_text(gain)} of private memory, most of it within {duration_text(seconds)}, and "
        f"reached {size_text(size)}.{others} Records, a model on the CPU, a cache and the libraries of a GPU look the "
        "same here; recstore.audit(dataset) lists large lists. Records need no list: build the store from an iterator."
    )
    return [Verdict("growth", text, "samples = RecordList(read_samples())", evidence)]


def _rise_time(times: Sequence[float], values: Sequence[int]) -> float:
    """The seconds until a series has completed nine tenths of its growth."""
    enough = values[0] + 0.9 * (max(values) - values[0])
    return next(t for t, value in zip(times, values) if value >= enough) - times[0]


# ---- unclear ----


def _needed(sample: Entry) -> int | None:
    """The level of a sample, less mapped files and caches. The kernel can drop the pages of mapped files, and caches
    grow up to their limits."""
    size, named = series.level(sample), sample.get("named") or {}
    explained = sum(named.get(key) or 0 for key in ("files", "caches"))
    return None if size is None else max(0, size - explained)


def _near(run: Run, samples: Sequence[Entry]) -> tuple[int, int] | None:
    """`(maximum use, limit)` of a run near its limit; else None."""
    limit, used = (run.start or {}).get("limit"), deaths.used(samples)
    return (max(used), limit) if limit is not None and used and max(used) >= NEAR_LIMIT * limit else None


def _unclear(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[Verdict]:
    start = run.start or {}
    known = [(sample["t"], size) for sample in samples if (size := _needed(sample)) is not None]
    times, values = _without_end([t for t, _ in known], [value for _, value in known])
    rising = _rising(times, values, _windows(run, times), GROWN, GROWN_SHARE)
    reasons = []
    if rising is not None:
        reasons.append(f"The memory of all processes grew by {size_text(rising[0])} and no rule explains it.")
    near = _near(run, samples)
    if near is not None:
        use, limit = map(size_text, near)
        reasons.append(f"Memory reached {use} of the limit of {limit} and no rule explains it.")
    if not any(process.series("uss")[0] for process in crew):
        reasons.append("USS and shared memory are unknown here, so copies look the same as shared pages.")
    if not reasons:
        return []
    reasons += [str(sentence) for sentence in start.get("missing") or ()]
    return [Verdict("unclear", " ".join(reasons), "", {"bytes": rising[0] if rising else 0})]
