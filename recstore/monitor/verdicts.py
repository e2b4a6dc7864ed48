"""Verdicts about the memory of a run: rules over the samples of its log, each with stated thresholds.

| Verdict | Rule |
| --- | --- |
| copy-on-read | a child's USS grows by what its shared memory loses, its RSS is flat, no other process frees as much |
| leak | the floor of a process's anonymous memory rises steadily over the last three quarters of its life, or epochs |
| backlog | batches that no process has mapped yet fill up and stay: the loader is faster than its consumer |
| copies per rank | two ranks, or two spawned workers, hold about the same, large amount of private memory |
| pinned memory | page-locked memory of a GPU driver is a large part of the sum |
| unclear | memory grows, or nears its limit, and no rule above explains it; or the figures to judge by are missing |

A run that none of them fits has no verdict. The thresholds are the constants below; docs/post-mortem.md lists them.
"""

import bisect
import collections

from recstore.monitor import series
from recstore.text import duration_text, size_text

__all__ = ["KINDS", "Verdict", "judge", "text"]

KINDS = ("copy-on-read", "leak", "backlog", "copies per rank", "pinned memory", "unclear")

MB = 1_000_000
# A verdict needs this many samples; fewer are "unclear".
FEWEST_SAMPLES = 5
# copy-on-read: the USS of one process grows by this much and by this share of its RSS. The heap of the interpreter
# and of torch, which every forked process copies in part, is below it.
COPIED = 32 * MB
COPIED_SHARE = 0.1
# Shared memory loses at least this share of the bytes that USS gains, and RSS moves by at most the rest.
COPIED_FROM_SHARED = 0.7
# The RSS of the other processes falls by at most this share of the copies: pages that only change their owner are no
# copies.
COPIED_OWNER = 0.5
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
# copies per rank: private bytes of each rank, also as a multiple of the file pages that it maps, and the smallest rank
# compared with the largest. What libraries make private when they are imported grows with their files: PyTorch makes
# 150 MB beside 80 MB of files.
PER_RANK = 128 * MB
PER_RANK_OF_FILES = 3
PER_RANK_ALIKE = 0.8
# pinned memory: bytes, and their share of the sum.
PINNED = 64 * MB
PINNED_SHARE = 0.1
# unclear: growth of the floor of the sum, and the share of the limit at which a run is worth a word.
GROWN = 64 * MB
GROWN_SHARE = 0.1
NEAR_LIMIT = 0.85

_CHILD_ROLES = ("worker", "process")
_NOT_DATA = ("fork server", "resource tracker")


class Verdict(collections.namedtuple("Verdict", ("kind", "text", "line", "evidence"))):
    """The finding of a rule: its kind, one of KINDS; the reason in a sentence or two; the line of code to write, ""
    where there is none; and the numbers by their names."""

    __slots__ = ()

    def __str__(self):
        return f"{self.kind}: {self.text}" + (f"\n    {self.line}" if self.line else "")


def judge(run, crew=None):
    """The Verdicts about a Run, the one about most bytes first; "unclear" only alone. An empty list says that nothing
    grows and no rule fits. `crew` are the run's Processes, if the caller has them.

    >>> import types
    >>> run = types.SimpleNamespace(start=None, samples=[], events=[], end=None)
    >>> [verdict.kind for verdict in judge(run)]
    ['unclear']
    """
    samples = [sample for sample in run.samples if sample.get("t") is not None]
    if len(samples) < FEWEST_SAMPLES:
        said = "1 sample is" if len(samples) == 1 else f"{len(samples)} samples are"
        return [Verdict("unclear", f"{said} too few to judge; {FEWEST_SAMPLES} are needed", "", {})]
    crew = series.processes(samples) if crew is None else crew
    copies = _copying(run, samples, crew)
    found = _copy_on_read(copies) + _copies_per_rank(crew) + _copies_per_worker(crew, copies)
    for rule in (_leak, _backlog, _pinned):
        found += rule(run, samples, crew)
    found.sort(key=lambda one: -one.evidence["bytes"])
    return found or _unclear(run, samples, crew)


def text(verdicts):
    """Verdicts as lines for people."""
    if not verdicts:
        return "No verdict: nothing grew, and no rule fits."
    return "\n".join(map(str, verdicts))


# ---- copy-on-read ----


def _copying(run, samples, crew):
    """`{process: what _copied says}` of the children that copy pages of their parents."""
    ends = _ends(samples, crew)
    copies = {}
    for one in crew:
        if one.role in _CHILD_ROLES and one.pid != (run.start or {}).get("pid"):
            change = _copied(one, ends, crew)
            if change is not None:
                copies[one] = change
    # When every child has its own copy, the parent's pages are private too, and it has read nothing.
    parents = {one.ppid for one in copies}
    return {one: change for one, change in copies.items() if one.pid not in parents}


def _copy_on_read(copies):
    if not copies:
        return []
    total = sum(change["uss"] for change in copies.values())
    evidence = {
        "bytes": total,
        "processes": [{"label": one.label, "pid": one.pid, **change} for one, change in copies.items()],
    }
    said = (
        f"{_names(copies)} copied {size_text(total)} of memory that was shared with the parent: USS grew by what "
        "Shared lost, and RSS stayed flat. Reading a Python object writes its reference count, so a page of objects "
        "is copied when it is read. Keep the records in a store, whose pages no reader writes to; "
        "recstore.audit(dataset) names the lists."
    )
    return [Verdict("copy-on-read", said, "samples = RecordList(samples)", evidence)]


def _copied(one, ends, crew):
    """The changes of uss, shared and rss over the life of a process; None below the thresholds.

    Steps in which a process ended are left out, because pages that it shared then belong to the others.
    """
    known = [
        (t, entry)
        for t, entry in zip(one.times, one.entries)
        if entry.get("exact", True) and None not in (entry.get("uss"), entry.get("shared"), entry.get("rss"))
    ]
    change = {"uss": 0, "shared": 0, "rss": 0}
    stretches = _stretches(known, ends)
    for (_, first), (_, last) in stretches:
        for figure in change:
            change[figure] += last[figure] - first[figure]
    gained, lost = change["uss"], -change["shared"]
    rss = known[-1][1]["rss"] if known else 0
    if gained < max(COPIED, COPIED_SHARE * rss) or lost < COPIED_FROM_SHARED * gained:
        return None
    if abs(change["rss"]) > (1 - COPIED_FROM_SHARED) * gained:
        return None
    # A parent that frees what it shared leaves its pages to the child: none is copied, and the RSS of the parent falls.
    freed = sum(_freed(other, first[0], last[0]) for first, last in stretches for other in crew if other is not one)
    return None if freed > COPIED_OWNER * gained else change


def _stretches(known, ends):
    """Pairs of the first and the last of readings `(t, entry)` between which no process ended."""
    found = []
    for before, after in zip(known, known[1:]):
        if any(last < after[0] and before[0] < following for last, following in ends):
            continue
        if found and found[-1][1] is before:
            found[-1] = (found[-1][0], after)
        else:
            found.append((before, after))
    return found


def _freed(one, begin, end):
    """The bytes that the RSS of a process lost between two times at which it was there."""
    first, last = bisect.bisect_left(one.times, begin), bisect.bisect_right(one.times, end) - 1
    if first >= last:
        return 0
    return max(0, (one.entries[first].get("rss") or 0) - (one.entries[last].get("rss") or 0))


def _ends(samples, crew):
    """Sorted pairs of the last sample of a process that ended and the sample after it."""
    times = [sample["t"] for sample in samples]
    found = set()
    for one in crew:
        if one.times[-1] < times[-1]:
            found.add((one.times[-1], times[bisect.bisect_right(times, one.times[-1])]))
    return sorted(found)


# ---- leak ----


def _leak(run, samples, crew):
    found = {}
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
    evidence = {
        "bytes": total,
        "bytes a second": speed,
        "seconds to the limit": _seconds_left(run, samples, speed),
        "processes": [{"label": one.label, "pid": one.pid, "anonymous": grown} for one, (grown, _) in found.items()],
    }
    left = evidence["seconds to the limit"]
    until = "" if left is None else f" At this speed the limit is reached in {duration_text(left)}."
    said = (
        f"The private memory of {_names(found)} grows by {size_text(60 * speed)} a minute and does not shrink.{until}"
    )
    more, line = _leak_advice(run, list(found))
    return [Verdict("leak", f"{said} {more}", line, evidence)]


def _leak_advice(run, found):
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


def _without_end(times, values):
    """The series without the last samples in which a process that ends gives its memory back."""
    most = max(3, len(values) // 10)
    high = 0.9 * max(values, default=0)
    cut = next((i for i in range(most + 1) if i < len(values) and values[len(values) - 1 - i] >= high), 0)
    return times[: len(times) - cut], values[: len(values) - cut]


def _windows(run, times):
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


def _rising(times, values, cuts, least, share):
    """`(growth, seconds)` from the second to the last window if the floor of each is above that of the one before, else
    None."""
    if len(cuts) < 5 or len(times) < 4 * LEAK_SAMPLES:
        return None
    counts = [bisect.bisect_left(times, last) - bisect.bisect_left(times, first) for first, last in zip(cuts, cuts[1:])]
    if min(counts[1:]) < LEAK_SAMPLES - 1:
        return None
    _, second, third, last = series.floors(times, values, cuts)
    grown, seconds = last - second, cuts[3] - cuts[1]
    if grown < max(least, share * second):
        return None
    speeds = [(third - second) / (cuts[2] - cuts[1]), (last - third) / (cuts[3] - cuts[2])]
    # A cache that is full by now has grown in the last window too, but not in its second half.
    half = (cuts[4] - cuts[3]) / 2
    halves = series.floors(times, values, [cuts[3], cuts[3] + half, cuts[4]])
    if (
        min(speeds) < STEADY * grown / seconds
        or None in halves
        or halves[1] - halves[0] < SLOWER * half * grown / seconds
    ):
        return None
    return grown, seconds


def _seconds_left(run, samples, speed):
    limit = (run.start or {}).get("limit")
    used = (samples[-1].get("cgroup") or {}).get("current")
    if limit is None or used is None or speed <= 0:
        return None
    return max(0.0, (limit - used) / speed)


# ---- backlog ----


def _backlog(run, samples, crew):
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


# ---- copies per rank ----


def _copies_per_rank(crew):
    ranks = {}
    for one in crew:
        if one.rank is not None and one.worker is None and one.role not in _NOT_DATA:
            ranks[one.rank] = max(_private(one), ranks.get(one.rank, 0))
    if not _alike(ranks.values()):
        return []
    least = min(ranks.values())
    extra = (len(ranks) - 1) * least
    evidence = {"bytes": extra, "private": {str(rank): size for rank, size in sorted(ranks.items())}}
    said = (
        f"Each of {len(ranks)} ranks holds about {size_text(least)} of its own. If these are the same records, "
        f"{len(ranks) - 1} of the copies, up to {size_text(extra)}, are not needed: build them once a machine, and "
        f"every rank attaches. Weights of a model on the CPU belong to each rank and look the same here."
    )
    return [Verdict("copies per rank", said, 'samples = recstore.shared("train", load_samples)', evidence)]


def _copies_per_worker(crew, copies):
    """The same for workers that got their dataset by pickle, under spawn and forkserver; several workers of one
    rank or of the main process."""
    found = []
    for rank in {one.rank for one in crew}:
        workers = [one for one in crew if one.role == "worker" and one.rank == rank and one not in copies]
        sizes = {one: _private(one) for one in workers}
        # The workers of the next epoch have the numbers of those before: each number counts once.
        private = {}
        for one, size in sizes.items():
            private[one.worker] = max(size, private.get(one.worker, 0))
        if not _alike(private.values()):
            continue
        least = min(private.values())
        evidence = {
            "bytes": len(private) * least,
            "private": {str(key): private[key] for key in sorted(private, key=str)},
        }
        said = (
            f"Each of {len(private)} workers{'' if rank is None else f' of rank {rank}'} holds about "
            f"{size_text(least)} of its own. Under spawn and forkserver a worker gets a copy of the dataset; a store "
            "is pickled as a handle, and the workers read one copy. Caches that the workers fill look the same here."
        )
        found.append(Verdict("copies per rank", said, "samples = RecordList(samples)", evidence))
    return found


def _alike(sizes):
    """Whether these sizes, 0 for a small one, look like copies of one thing."""
    return len(sizes) >= 2 and min(sizes) > 0 and min(sizes) >= PER_RANK_ALIKE * max(sizes)


def _private(one):
    """The private memory that a process has for most of the second half of its life; files that it alone maps do not
    count. 0 if it is unknown, or so small that libraries explain it."""
    sizes, files = [], []
    for entry in one.entries[len(one.entries) // 2 :]:
        known = [entry[key] for key in ("uss", "anonymous") if entry.get(key) is not None]
        if entry.get("uss") is not None:
            sizes.append(min(known))
            files.append(entry.get("shared_file") or 0)
    if not sizes:
        return 0
    usual, mapped = sorted(sizes)[len(sizes) // 2], sorted(files)[len(files) // 2]
    return usual if usual >= max(PER_RANK, PER_RANK_OF_FILES * mapped) else 0


# ---- pinned memory ----


def _pinned(run, samples, crew):
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


# ---- unclear ----


def _unclear(run, samples, crew):
    start = run.start or {}
    known = [(sample["t"], series.level(sample)) for sample in samples if series.level(sample) is not None]
    times, values = _without_end([t for t, _ in known], [value for _, value in known])
    rising = _rising(times, values, _windows(run, times), GROWN, GROWN_SHARE)
    limit = start.get("limit")
    _, used = series.sums(samples, "cgroup", "current")
    near = limit is not None and used and max(used) >= NEAR_LIMIT * limit
    reasons = []
    if rising is not None:
        reasons.append(f"The memory of all processes grew by {size_text(rising[0])} and no rule explains it.")
    if near:
        reasons.append(
            f"Memory reached {size_text(max(used))} of the limit of {size_text(limit)} and no rule explains it."
        )
    if not any(one.series("uss")[0] for one in crew):
        reasons.append("USS and shared memory are not known here, so copies cannot be told from shared pages.")
    if not reasons:
        return []
    reasons += [str(sentence) for sentence in start.get("missing") or ()]
    return [Verdict("unclear", " ".join(reasons), "", {"bytes": rising[0] if rising else 0})]


# ---- Words ----


def _names(processes):
    labels = [one.label for one in processes]
    if len(labels) <= 3:
        return ", ".join(labels)
    return f"{', '.join(labels[:2])} and {len(labels) - 2} more processes"
