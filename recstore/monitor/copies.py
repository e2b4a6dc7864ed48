"""Finds processes that hold copies of what one copy would do for: workers that copy the pages of their parent as they
read them, and ranks or workers that each hold the same.

A worker's pages are all shared with its parent at its start. So the first reading of a forked process is compared with
its parent's figures of that moment, and a worker that lives for two samples is judged too.
"""

from __future__ import annotations

import bisect

from recstore.monitor import series
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    from recstore.monitor.entries import Entry
    from recstore.monitor.log import Run
    from recstore.monitor.series import Process

    # A time, and an entry of a process at it.
    _Reading: TypeAlias = tuple[float, Entry]
    _Change: TypeAlias = dict[str, int]
    _Found: TypeAlias = tuple[str, str, str, dict[str, Any]]
    _K = TypeVar("_K")

MB = 1_000_000
# copy-on-read: the USS of one process grows by this much, by this share of its RSS, and by this multiple of the file
# pages that its parent maps. Each forked process copies a part of the heaps of its libraries, most when it collects
# garbage: with PyTorch, pandas and scikit-learn 105 MB beside 143 MB of files.
COPIED = 32 * MB
COPIED_SHARE = 0.1
COPIED_OF_FILES = 0.75
LIBRARIES = 160 * MB  # of files at most; a store that is mapped is a file too
# A child that has this part of its parent's private memory had it from its start.
INHERITED = 0.9
# Beside a process that copies, and in a run that came near its limit, this is enough.
COPIED_TOO = 24 * MB
# Shared memory loses at least this share of the bytes that USS gains, and RSS moves by at most the rest.
COPIED_FROM_SHARED = 0.7
# The RSS of the other processes falls by at most this share of the copies: pages that only change their owner are no
# copies.
COPIED_OWNER = 0.5
# copies per rank: private bytes of each rank, also as a multiple of the file pages that it maps, and as a share of the
# largest rank. What libraries make private when they are imported grows with their files: PyTorch makes
# 150 MB beside 80 MB of files.
PER_RANK = 128 * MB
PER_RANK_OF_FILES = 3
PER_RANK_ALIKE = 0.8

_CHILD_ROLES = ("worker", "process")
_NOT_DATA = ("fork server", "resource tracker")


# ---- copy-on-read ----


def found(run: Run, samples: Sequence[Entry], crew: list[Process], enough: bool, tight: bool) -> list[_Found]:
    """`(kind, text, line, evidence)` of each verdict about copies. Those about ranks and workers that hold the same
    need `enough` samples. In a run that came near its limit, `tight`, smaller copies are named."""
    copies = _copying(run, samples, crew, tight)
    verdicts = _copy_on_read(copies)
    return verdicts + _copies_per_rank(crew) + _copies_per_worker(crew, copies) if enough else verdicts


def _copying(run: Run, samples: Sequence[Entry], crew: list[Process], tight: bool) -> dict[Process, _Change]:
    """`{process: its changes of uss, shared and rss}` of the children that copy pages of their parents."""
    ends = _ends(samples, crew)
    first = (run.start or {}).get("pid")
    changes = {one: _changes(one, ends, crew) for one in crew if one.role in _CHILD_ROLES and one.pid != first}
    copies = {one for one in changes if _copies(changes[one], COPIED_TOO if tight else _least(one, crew))}
    beside = {one.entries[0].get("ppid") for one in copies}
    sisters = [one for one in changes if one.entries[0].get("ppid") in beside]
    copies |= {one for one in sisters if _copies(changes[one], COPIED_TOO)}
    # When every child has its own copy, the parent's pages are private too, and it has read nothing.
    parents = {one.ppid for one in copies}
    return {
        one: max((change for change, _ in changes[one]), key=lambda change: change["uss"])
        for one in crew
        if one in copies and one.pid not in parents
    }


def _copy_on_read(copies: dict[Process, _Change]) -> list[_Found]:
    if not copies:
        return []
    # By label: the workers of an epoch and of the next one have the same labels, and do not live at once.
    most: dict[str, int] = {}
    for one, change in copies.items():
        most[one.label] = max(min(change["uss"], -change["shared"]), most.get(one.label, 0))
    total = sum(most.values())
    evidence = {
        "bytes": total,
        "processes": [{"label": one.label, "pid": one.pid, **change} for one, change in copies.items()],
    }
    again = f" ({len(copies)} processes had these names in turn)" if len(copies) > len(most) else ""
    said = (
        f"{series.names(copies)}{again} copied {size_text(total)} of memory that was shared with the parent: USS grew "
        "by what Shared lost, and RSS stayed flat. Reading a Python object writes its reference count, so a page of "
        "objects is copied when it is read. Keep the records in a store, whose pages no reader writes to; "
        "recstore.audit(dataset) names the lists."
    )
    return [("copy-on-read", said, "samples = RecordList(samples)", evidence)]


def _changes(
    one: Process, ends: list[tuple[float, float]], crew: list[Process]
) -> list[tuple[_Change, dict[str, Any]]]:
    """`(change, other causes)` from the start of a forked process, where its parent is known, and from its first
    reading: what uss, shared and rss gained, and how many bytes of it the process did not copy.

    Steps in which a process ended are left out, because pages that it shared then belong to the others.
    """
    known = [
        (t, entry)
        for t, entry in zip(one.times, one.entries)
        if entry.get("exact", True) and None not in (entry.get("uss"), entry.get("shared"), entry.get("rss"))
    ]
    birth = _at_birth(one, known[0], crew) if known else None
    return [_change(readings, ends, crew, one) for readings in ([birth, *known] if birth else [], known) if readings]


def _change(
    readings: list[_Reading], ends: list[tuple[float, float]], crew: list[Process], one: Process
) -> tuple[_Change, dict[str, Any]]:
    stretches = _stretches(readings, ends)
    change = {
        figure: sum(last[figure] - first[figure] for (_, first), (_, last) in stretches)
        for figure in ("uss", "shared", "rss")
    }
    # A parent that frees what it shared leaves its pages to the child: none is copied, and the RSS of the parent falls.
    freed = sum(_freed(other, first[0], last[0]) for first, last in stretches for other in crew if other is not one)
    # A page that the parent writes to is copied too, but by the parent: then the child had no fault for it.
    faults: list[tuple[Any, Any]] = [(first.get("faults"), last.get("faults")) for (_, first), (_, last) in stretches]
    faulted = None if any(None in pair for pair in faults) else sum(last - first for first, last in faults)
    return change, {"freed": freed, "faulted": faulted}


def _least(one: Process, crew: list[Process]) -> float:
    """The bytes that a process copies before it is worth a word."""
    entry = _parent(one, crew, one.times[0]) or {}
    files = min(LIBRARIES, entry.get("shared_file") or 0)
    return max(COPIED, COPIED_SHARE * (one.entries[-1].get("rss") or 0), COPIED_OF_FILES * files)


def _copies(changes: Iterable[tuple[_Change, dict[str, Any]]], least: float) -> bool:
    for change, other in changes:
        gained, lost = change["uss"], -change["shared"]
        if (
            gained >= least
            and lost >= COPIED_FROM_SHARED * gained
            and abs(change["rss"]) <= (1 - COPIED_FROM_SHARED) * gained
            and other["freed"] <= COPIED_OWNER * gained
            and (other["faulted"] is None or other["faulted"] >= COPIED_FROM_SHARED * gained)
        ):
            return True
    return False


def _parent(one: Process, crew: list[Process], t: float) -> Entry | None:
    """The entry of a process's parent in the sample at a time; None if it has none."""
    for parent in crew:
        at = bisect.bisect_left(parent.times, t)
        if parent.pid == one.entries[0].get("ppid") and at < len(parent.times) and parent.times[at] == t:
            return parent.entries[at]
    return None


def _at_birth(one: Process, first: _Reading, crew: list[Process]) -> _Reading | None:
    """The reading `(t, entry)` of a forked process at its start, when it shared all pages with its parent; None of
    others."""
    begin, entry = first
    parent = _parent(one, crew, begin) if one.forked else None
    if parent is None or parent.get("anonymous") is None:
        return None
    inherited, own = parent["anonymous"], entry.get("anonymous") or 0
    if INHERITED * inherited <= own < inherited:
        inherited = own  # the parent has grown a little since
    rss = inherited + (entry.get("shared_file") or 0)
    return begin, {"uss": 0, "shared": rss, "rss": rss, "faults": 0}


def _stretches(known: list[_Reading], ends: list[tuple[float, float]]) -> list[tuple[_Reading, _Reading]]:
    """Pairs of the first and the last of readings `(t, entry)` between which no process ended."""
    found: list[tuple[_Reading, _Reading]] = []
    for before, after in zip(known, known[1:]):
        if any(last < after[0] and before[0] < following for last, following in ends):
            continue
        if found and found[-1][1] is before:
            found[-1] = (found[-1][0], after)
        else:
            found.append((before, after))
    return found


def _freed(one: Process, begin: float, end: float) -> int:
    """The bytes that the RSS of a process lost between two times at which it was there."""
    first, last = bisect.bisect_left(one.times, begin), bisect.bisect_right(one.times, end) - 1
    if first >= last:
        return 0
    return max(0, (one.entries[first].get("rss") or 0) - (one.entries[last].get("rss") or 0))


def _ends(samples: Sequence[Entry], crew: list[Process]) -> list[tuple[float, float]]:
    """Sorted pairs of the last sample of a process that ended and the sample after it."""
    times = [sample["t"] for sample in samples]
    found = set()
    for one in crew:
        if one.times[-1] < times[-1]:
            found.add((one.times[-1], times[bisect.bisect_right(times, one.times[-1])]))
    return sorted(found)


# ---- copies per rank ----


def _copies_per_rank(crew: list[Process]) -> list[_Found]:
    ranks: dict[int, int] = {}
    for one in crew:
        if one.rank is not None and one.worker is None and one.role not in _NOT_DATA:
            ranks[one.rank] = max(_private(one), ranks.get(one.rank, 0))
    ranks = _alike(ranks)
    if not ranks:
        return []
    least = min(ranks.values())
    extra = (len(ranks) - 1) * least
    evidence = {"bytes": extra, "private": {str(rank): size for rank, size in sorted(ranks.items())}}
    said = (
        f"Each of {len(ranks)} ranks holds about {size_text(least)} of its own. If these are the same records, "
        f"{len(ranks) - 1} of the copies, up to {size_text(extra)}, are not needed: build them once a machine, and "
        f"every rank attaches. Weights of a model on the CPU belong to each rank and look the same here."
    )
    return [("copies per rank", said, 'samples = recstore.shared("train", load_samples)', evidence)]


def _copies_per_worker(crew: list[Process], copies: Mapping[Process, object]) -> list[_Found]:
    """The same for workers that got their dataset by pickle, under spawn and forkserver; several workers of one
    rank or of the main process."""
    found: list[_Found] = []
    for rank in {one.rank for one in crew}:
        workers = [one for one in crew if one.role == "worker" and one.rank == rank and one not in copies]
        sizes = {one: _private(one) for one in workers}
        # The workers of the next epoch have the numbers of those before: each number counts once.
        private: dict[int | None, int] = {}
        for one, size in sizes.items():
            private[one.worker] = max(size, private.get(one.worker, 0))
        private = _alike(private)
        if not private:
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
        found.append(("copies per rank", said, "samples = RecordList(samples)", evidence))
    return found


def _alike(sizes: dict[_K, int]) -> dict[_K, int]:
    """Those of the sizes, 0 for a small one, that look like copies of one thing; {} if there are not two. A process
    that still loads its own has less."""
    alike = {key: size for key, size in sizes.items() if size and size >= PER_RANK_ALIKE * max(sizes.values())}
    return alike if len(alike) >= 2 else {}


def _private(one: Process) -> int:
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
