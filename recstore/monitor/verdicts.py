"""Verdicts about the memory of a run: rules over the samples of its log, each with stated thresholds.

| Verdict | Rule |
| --- | --- |
| copy-on-read | a child's USS grows by what its shared memory loses, its RSS is flat, no other process frees as much |
| leak | the floor of a process's anonymous memory rises steadily over the last three quarters of its life, or epochs |
| backlog | batches that no process has mapped yet fill up and stay: the loader is faster than its consumer |
| copies per rank | two ranks, or two spawned workers, hold about the same, large amount of private memory |
| pinned memory | page-locked memory of a GPU driver is a large part of the sum |
| killed at the limit | the kernel's OOM killer ended a process |
| address space | a process failed that had mapped much of what `ulimit -v` allows |
| growth | a process took much private memory, and no rule above says why |
| unclear | memory grows, or nears its limit, and no rule above explains it; or the figures to judge by are missing |

A run that none of them fits has no verdict. The thresholds are the constants below; docs/post-mortem.md lists them.
"""

from __future__ import annotations

import bisect
import collections

from recstore.monitor import copies, deaths, series
from recstore.text import duration_text, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NamedTuple

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
# Rules about a course over time need this many samples; without a verdict, fewer are "unclear".
FEWEST_SAMPLES = 5
# leak: samples in each quarter of a life; growth of the floor from the second to the last quarter, as bytes and as a
# share of the second. The speed of each of the two steps is at least STEADY of the speed of both, because a heap that
# settles, as that of a new worker does, grows ever more slowly. The speed within the last quarter is at least SLOWER
# of it. A process that has lived for less than LOADING seconds may still load its data.
LEAK_SAMPLES = 5
LEAKED = 64 * MB
LEAKED_SHARE = 0.05
LOADING = 120.0
STEADY = 0.7
SLOWER = 0.35
# backlog: bytes that wait, their share of the sum, and how full the queue stays in the second half of the run.
WAITING = 64 * MB
WAITING_SHARE = 0.05
WAITING_FULL = 0.6
# pinned memory: bytes, and their share of the sum.
PINNED = 64 * MB
PINNED_SHARE = 0.1
# growth: private bytes that a process gained. A process that imports PyTorch takes 150 MB.
TOOK = 256 * MB
TOOK_NEAR = 64 * MB  # in a run that came near its limit
# unclear: growth of the floor of the sum, and the share of the limit at which a run is worth a word.
GROWN = 64 * MB
GROWN_SHARE = 0.1
NEAR_LIMIT = 0.85


if TYPE_CHECKING:

    class _Finding(NamedTuple):
        kind: str
        text: str
        line: str
        evidence: dict[str, Any]

else:
    _Finding = collections.namedtuple("Verdict", ("kind", "text", "line", "evidence"))


class Verdict(_Finding):
    """The finding of a rule: its kind, one of KINDS; the reason in a sentence or two; the line of code to write, ""
    where there is none; and the numbers by their names."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" + (f"\n    {self.line}" if self.line else "")


def judge(run: Run, crew: list[Process] | None = None) -> list[Verdict]:
    """The Verdicts about a Run: what ended processes, and then why the memory grew, the one about most bytes first;
    "unclear" only alone. An empty list says that no rule fits and that no process took much. `crew` are the run's
    Processes, if the caller has them.

    >>> import types
    >>> run = types.SimpleNamespace(start=None, samples=[], events=[], end=None)
    >>> [verdict.kind for verdict in judge(run)]
    ['unclear']
    """
    samples = [sample for sample in run.samples if sample.get("t") is not None]
    crew = series.processes(samples) if crew is None else crew
    enough = len(samples) >= FEWEST_SAMPLES
    ends = [Verdict(*one) for one in deaths.verdicts(run, samples, crew)]
    tight = bool(ends) or _near(run, samples) is not None
    found = [Verdict(*one) for one in copies.found(run, samples, crew, enough, tight)]
    for rule in (_leak, _backlog, _pinned) if enough else ():
        found += rule(run, samples, crew)
    if not found:
        found = _growth(run, crew, TOOK_NEAR if tight else TOOK)
    found = ends + sorted(found, key=lambda one: -one.evidence["bytes"])
    if not found and not enough:
        said = "1 sample is" if len(samples) == 1 else f"{len(samples)} samples are"
        about = "a job that ends sooner needs a shorter interval"
        return [Verdict("unclear", f"{said} too few to judge; {FEWEST_SAMPLES} are needed, and {about}", "", {})]
    return found or _unclear(run, samples, crew)


def text(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as lines for people."""
    if not verdicts:
        return f"No verdict: no rule fits, and no process took {size_text(TOOK)} of its own."
    return "\n".join(map(str, verdicts))


# ---- leak ----


def _leak(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[Verdict]:
    found: dict[Process, tuple[int, float]] = {}
    for one in crew:
        times, values = one.series("anonymous")
        if not times:
            times, values = one.series("uss")
        times, values = _without_end(times, values)
        grown = _rising(times, values, _windows(run, times), LEAKED, LEAKED_SHARE)
        if grown is not None:
            found[one] = grown
    if not found:
        return []
    total = sum(grown for grown, _ in found.values())
    speed = sum(grown / seconds for grown, seconds in found.values())
    left = _seconds_left(run, samples, speed)
    evidence = {
        "bytes": total,
        "bytes a second": speed,
        "seconds to the limit": left,
        "processes": [{"label": one.label, "pid": one.pid, "anonymous": grown} for one, (grown, _) in found.items()],
    }
    until = "" if left is None else f" At this speed the limit is reached in {duration_text(left)}."
    said = f"The private memory of {series.names(found)} grows by {size_text(60 * speed)} a minute and does not shrink."
    said += until
    more, line = _leak_advice(run, list(found))
    return [Verdict("leak", f"{said} {more}", line, evidence)]


def _leak_advice(run: Run, found: Sequence[Process]) -> tuple[str, str]:
    """`(sentences, line)`: what usually grows in such processes."""
    trace = "tracemalloc names the line that makes the objects."
    if all(one.role == "worker" for one in found):
        return (
            f"A worker keeps objects of every sample, as a cache without a limit does; {trace}",
            "load = functools.lru_cache(maxsize=1_000)(load)",
        )
    seconds = max(one.times[-1] - one.times[0] for one in found)
    if seconds < LOADING and not any(event.get("what") == "epoch" for event in run.events):
        return (
            f"It has run for {duration_text(seconds)} only. If it loads its records, build the store from an iterator, "
            "so that "
            f"there is no list of them. If it trains already, it keeps what it should drop; {trace}",
            "samples = RecordList(read_samples())",
        )
    return (
        f"A list keeps growing; a loss that is kept holds its whole graph, its value does not. {trace}",
        "losses.append(loss.item())",
    )


def _without_end(times: list[float], values: list[int]) -> tuple[list[float], list[int]]:
    """The series without the last samples in which a process that ends gives its memory back."""
    most = max(3, len(values) // 10)
    high = 0.9 * max(values, default=0)
    cut = next((i for i in range(most + 1) if i < len(values) and values[len(values) - 1 - i] >= high), 0)
    return times[: len(times) - cut], values[: len(values) - cut]


def _windows(run: Run, times: Sequence[float]) -> list[float]:
    """The cuts of a life: its epochs where there are at least four, and else its quarters."""
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
    """`(growth, seconds)` from the second to the last window if the floor of each is above that of the one before, else
    None."""
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
    # A cache that is full by now has grown in the last window too, but not in its second half.
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
            # A batch that its consumer holds is mapped; one that waits in the queue is only a file or a descriptor.
            waiting.append((sample["t"], batches if unmapped is None else min(batches, unmapped)))
    if len(waiting) < 2 * FEWEST_SAMPLES:
        return []
    # The queue fills after the loader starts and drains when it ends, so the time between is looked at.
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
    workers = sum(one.role == "worker" for one in crew)
    evidence = {"bytes": usual, "most": middle[-1], "workers": workers, "sum": total}
    said = (
        f"{size_text(usual)} of finished batches wait in shared memory: the loader is faster than its consumer and its "
        f"queue stays full, with num_workers * prefetch_factor batches. Fewer batches ahead are as fast."
    )
    line = "loader = DataLoader(dataset, num_workers={}, prefetch_factor=1, ...)"
    return [Verdict("backlog", said, line.format(max(1, workers // 2) if workers else 1), evidence)]


# ---- pinned memory ----


def _pinned(run: Run, samples: Sequence[Entry], crew: Sequence[Process]) -> list[Verdict]:
    _, values = series.sums(samples, "named", "pinned")
    if not values:
        return []
    most = max(values)
    total = max((series.level(sample) or 0 for sample in samples), default=0)
    if most < max(PINNED, PINNED_SHARE * total):
        return []
    evidence = {"bytes": most, "sum": total}
    said = (
        f"{size_text(most)} is page-locked for a GPU. PyTorch rounds each pinned batch up to a power of two and "
        "keeps it until the process ends. Without pin_memory the batches are pageable, and fewer batches ahead pin "
        "less."
    )
    return [Verdict("pinned memory", said, "loader = DataLoader(dataset, pin_memory=False, ...)", evidence)]


# ---- growth ----


def _growth(run: Run, crew: Sequence[Process], least: int) -> list[Verdict]:
    most: dict[str, tuple[int, int, float, Process]] = {}
    for one in crew:
        times, values = one.series("anonymous") if one.series("anonymous")[0] else one.series("uss")
        taken = max(values) - values[0] if values else 0
        if taken >= max(least, most[one.label][0] if one.label in most else 0):
            most[one.label] = taken, max(values), _until(times, values), one
    if not most:
        return []
    largest = sorted(most.values(), key=lambda one: -one[0])
    taken, size, seconds, one = largest[0]
    processes: list[dict[str, Any]] = [
        {"label": one.label, "pid": one.pid, "anonymous": taken} for taken, _, _, one in largest
    ]
    evidence = {"bytes": sum(one["anonymous"] for one in processes), "processes": processes}
    others = (
        f" {series.names([one for *_, one in largest[1:]])} took {size_text(largest[1][0])} or less."
        if largest[1:]
        else ""
    )
    said = (
        f"{one.label} took {size_text(taken)} of its own, most of it within {duration_text(seconds)}, and came to "
        f"{size_text(size)}.{others} Records, a model on the CPU, a cache and the libraries of a GPU look the same "
        "here; recstore.audit(dataset) names large lists. Records need no list: build the store from an iterator."
    )
    return [Verdict("growth", said, "samples = RecordList(read_samples())", evidence)]


def _until(times: Sequence[float], values: Sequence[int]) -> float:
    """The seconds until a series has made nine tenths of its way up."""
    enough = values[0] + 0.9 * (max(values) - values[0])
    return next(t for t, value in zip(times, values) if value >= enough) - times[0]


# ---- unclear ----


def _needed(sample: Entry) -> int | None:
    """The level of a sample without mapped files, whose pages the kernel drops when it needs them."""
    size = series.level(sample)
    files = (sample.get("named") or {}).get("files") or 0
    return None if size is None else max(0, size - files)


def _near(run: Run, samples: Sequence[Entry]) -> tuple[int, int] | None:
    """`(most use, limit)` of a run that came near its limit; None of others."""
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
    if not any(one.series("uss")[0] for one in crew):
        reasons.append("USS and shared memory are not known here, so copies cannot be told from shared pages.")
    if not reasons:
        return []
    reasons += [str(sentence) for sentence in start.get("missing") or ()]
    return [Verdict("unclear", " ".join(reasons), "", {"bytes": rising[0] if rising else 0})]
