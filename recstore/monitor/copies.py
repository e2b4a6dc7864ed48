"""Finds processes with redundant copies: workers that copy their parent's pages by reading them, and ranks or workers
that all have the same data.

A forked worker initially shares all pages with its parent. Its first reading is therefore compared with the parent's
figures at that moment, and a single reading is enough to judge it.
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

    # The time and the entry of a process.
    _Reading: TypeAlias = tuple[float, Entry]
    _Change: TypeAlias = dict[str, int]
    _Finding: TypeAlias = tuple[str, str, str, dict[str, Any]]
    _K = TypeVar("_K")

MB = 1_000_000
# copy-on-read: the least growth of a process's USS in bytes, as a share of its RSS, and as a multiple of the file pages
# that its parent maps. Each forked process copies part of the heaps of its libraries, mostly by garbage collection:
# with PyTorch, pandas and scikit-learn 105 MB for 143 MB of files.
COPIED = 32 * MB
COPIED_SHARE = 0.1
COPIED_OF_FILES = 0.75
LIBRARIES = 160 * MB  # mapped files beyond this size are not libraries, but for example stores
# A child with this share of its parent's private memory has inherited it.
INHERITED = 0.9
# The least growth of a sibling of a process that copies, and of any child in a run near its limit.
COPIED_TOO = 24 * MB
# Shared memory loses at least this share of the bytes that USS gains, page faults cover as much, and RSS changes by at
# most the rest.
COPIED_FROM_SHARED = 0.7
# The RSS of other processes falls by at most this share of the copies. Otherwise pages have only changed their owner.
COPIED_OWNER = 0.5
# copies per rank: the least private bytes of each rank, also as a multiple of the file pages that it maps, and as a
# share of the largest rank. Importing libraries takes private memory in proportion to their files: PyTorch takes 150 MB
# for 80 MB of files.
PER_RANK = 128 * MB
PER_RANK_OF_FILES = 3
PER_RANK_ALIKE = 0.8

_CHILD_ROLES = ("worker", "process")
_NOT_DATA = ("fork server", "resource tracker")


# ---- copy-on-read ----


def findings(run: Run, samples: Sequence[Entry], crew: list[Process], enough: bool, tight: bool) -> list[_Finding]:
    """`(kind, text, line, evidence)` of each verdict about copies. Copies per rank or worker need `enough` samples. In
    a run near its limit (`tight`), smaller copies count."""
    copies = _copying(run, samples, crew, tight)
    verdicts = _copy_on_read(copies)
    return verdicts + _copies_per_rank(crew) + _copies_per_worker(crew, copies) if enough else verdicts


def _copying(run: Run, samples: Sequence[Entry], crew: list[Process], tight: bool) -> dict[Process, _Change]:
    """`{process: its changes of uss, shared and rss}` for the children that copy pages of their parents."""
    ends = _ends(samples, crew)
    root = (run.start or {}).get("pid")
    children = [process for process in crew if process.role in _CHILD_ROLES and process.pid != root]
    changes = {child: _changes(child, ends, crew) for child in children}
    copies = {child for child in children if _has_copied(changes[child], COPIED_TOO if tight else _least(child, crew))}
    forking = {child.entries[0].get("ppid") for child in copies}
    siblings = [child for child in children if child.entries[0].get("ppid") in forking]
    copies |= {child for child in siblings if _has_copied(changes[child], COPIED_TOO)}
    # Once every child has copied a page, the page is private to the parent too, which has not copied it.
    parents = {child.ppid for child in copies}
    return {
        child: max((change for change, _ in changes[child]), key=lambda change: change["uss"])
        for child in children
        if child in copies and child.pid not in parents
    }


def _copy_on_read(copies: dict[Process, _Change]) -> list[_Finding]:
    if not copies:
        return []
    # Count by label: workers of different epochs have the same labels and do not live at the same time.
    sizes: dict[str, int] = {}
    for process, change in copies.items():
        sizes[process.label] = max(min(change["uss"], -change["shared"]), sizes.get(process.label, 0))
    total = sum(sizes.values())
    evidence = {
        "bytes": total,
        "processes": [{"label": process.label, "pid": process.pid, **change} for process, change in copies.items()],
    }
    again = f" ({len(copies)} processes had these names in turn)" if len(copies) > len(sizes) else ""
    text = (
        f"{series.names(copies)}{again} copied {size_text(total)} of memory that was shared with the parent: USS grew "
        "as Shared fell, and RSS stayed flat. Reading a Python object writes its reference count, so a page of "
        "objects is copied when it is read. Keep the records in a store, whose pages no reader writes to; "
        "recstore.audit(dataset) lists the candidates."
    )
    return [("copy-on-read", text, "samples = RecordList(samples)", evidence)]


def _changes(
    process: Process, ends: list[tuple[float, float]], crew: list[Process]
) -> list[tuple[_Change, dict[str, Any]]]:
    """Pairs `(change, other)`: `change` has the gains of uss, shared and rss, `other` the bytes that other processes
    freed and the bytes that the process faulted in. One pair counts from the first reading, another from the fork
    if the parent is known.

    Omits steps in which a process ended, because the other processes take over the pages that it shared.
    """
    known = [
        (t, entry)
        for t, entry in zip(process.times, process.entries)
        if entry.get("exact", True) and None not in (entry.get("uss"), entry.get("shared"), entry.get("rss"))
    ]
    birth = _at_birth(process, known[0], crew) if known else None
    return [
        _change(readings, ends, crew, process) for readings in ([birth, *known] if birth else [], known) if readings
    ]


def _change(
    readings: list[_Reading], ends: list[tuple[float, float]], crew: list[Process], process: Process
) -> tuple[_Change, dict[str, Any]]:
    stretches = _stretches(readings, ends)
    change = {
        figure: sum(last[figure] - first[figure] for (_, first), (_, last) in stretches)
        for figure in ("uss", "shared", "rss")
    }
    # If the parent frees shared pages, the child owns them without a copy, and the RSS of the parent falls.
    freed = sum(_freed(other, first[0], last[0]) for first, last in stretches for other in crew if other is not process)
    # If the parent writes to a page, the parent copies it, without a page fault of the child.
    faults: list[tuple[Any, Any]] = [(first.get("faults"), last.get("faults")) for (_, first), (_, last) in stretches]
    faulted = None if any(None in pair for pair in faults) else sum(last - first for first, last in faults)
    return change, {"freed": freed, "faulted": faulted}


def _least(process: Process, crew: list[Process]) -> float:
    """The least bytes of copies to report for a process."""
    entry = _parent(process, crew, process.times[0]) or {}
    files = min(LIBRARIES, entry.get("shared_file") or 0)
    return max(COPIED, COPIED_SHARE * (process.entries[-1].get("rss") or 0), COPIED_OF_FILES * files)


def _has_copied(changes: Iterable[tuple[_Change, dict[str, Any]]], least: float) -> bool:
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


def _parent(process: Process, crew: list[Process], t: float) -> Entry | None:
    """The entry of a process's parent at time `t`, or None."""
    for parent in crew:
        at = bisect.bisect_left(parent.times, t)
        if parent.pid == process.entries[0].get("ppid") and at < len(parent.times) and parent.times[at] == t:
            return parent.entries[at]
    return None


def _at_birth(process: Process, first: _Reading, crew: list[Process]) -> _Reading | None:
    """The reading `(t, entry)` of a forked process at its start, when it shared all pages with its parent; else
    None."""
    begin, entry = first
    parent = _parent(process, crew, begin) if process.forked else None
    if parent is None or parent.get("anonymous") is None:
        return None
    inherited, own = parent["anonymous"], entry.get("anonymous") or 0
    if INHERITED * inherited <= own < inherited:
        inherited = own  # the parent has grown slightly since the fork
    rss = inherited + (entry.get("shared_file") or 0)
    return begin, {"uss": 0, "shared": rss, "rss": rss, "faults": 0}


def _stretches(known: list[_Reading], ends: list[tuple[float, float]]) -> list[tuple[_Reading, _Reading]]:
    """The runs of readings in which no process ended, as pairs of the first and last reading `(t, entry)`."""
    runs: list[tuple[_Reading, _Reading]] = []
    for before, after in zip(known, known[1:]):
        if any(last < after[0] and before[0] < following for last, following in ends):
            continue
        if runs and runs[-1][1] is before:
            runs[-1] = (runs[-1][0], after)
        else:
            runs.append((before, after))
    return runs


def _freed(process: Process, begin: float, end: float) -> int:
    """The decrease of a process's RSS between two times."""
    first, last = bisect.bisect_left(process.times, begin), bisect.bisect_right(process.times, end) - 1
    if first >= last:
        return 0
    return max(0, (process.entries[first].get("rss") or 0) - (process.entries[last].get("rss") or 0))


def _ends(samples: Sequence[Entry], crew: list[Process]) -> list[tuple[float, float]]:
    """The ends of processes, sorted, as pairs of times: of the last sample of a process, and of the next sample."""
    times = [sample["t"] for sample in samples]
    lasts = {process.times[-1] for process in crew}
    return [(last, times[bisect.bisect_right(times, last)]) for last in sorted(lasts) if last < times[-1]]


# ---- copies per rank ----


def _copies_per_rank(crew: list[Process]) -> list[_Finding]:
    ranks: dict[int, int] = {}
    for process in crew:
        if process.rank is not None and process.worker is None and process.role not in _NOT_DATA:
            ranks[process.rank] = max(_private(process), ranks.get(process.rank, 0))
    ranks = _alike(ranks)
    if not ranks:
        return []
    least = min(ranks.values())
    extra = (len(ranks) - 1) * least
    evidence = {"bytes": extra, "private": {str(rank): size for rank, size in sorted(ranks.items())}}
    text = (
        f"Each of {len(ranks)} ranks has about {size_text(least)} of private memory. If these are the same records, "
        f"{len(ranks) - 1} of the copies, up to {size_text(extra)}, are not needed: build them once on each machine, "
        "and let every rank attach. The weights of a model on the CPU belong to each rank and look the same here."
    )
    return [("copies per rank", text, 'samples = recstore.shared("train", load_samples)', evidence)]


def _copies_per_worker(crew: list[Process], copies: Mapping[Process, object]) -> list[_Finding]:
    """Copies in the workers of each rank or of the main process. Spawned workers get their dataset by pickle."""
    findings: list[_Finding] = []
    for rank in {process.rank for process in crew}:
        workers = [each for each in crew if each.role == "worker" and each.rank == rank and each not in copies]
        # Workers of different epochs have the same numbers: count each number once.
        private: dict[int | None, int] = {}
        for worker in workers:
            private[worker.worker] = max(_private(worker), private.get(worker.worker, 0))
        private = _alike(private)
        if not private:
            continue
        least = min(private.values())
        evidence = {
            "bytes": len(private) * least,
            "private": {str(key): private[key] for key in sorted(private, key=str)},
        }
        text = (
            f"Each of {len(private)} workers{'' if rank is None else f' of rank {rank}'} has about "
            f"{size_text(least)} of private memory. Under spawn and forkserver each worker gets a copy of the dataset; "
            "a store is pickled as a handle, and the workers read one copy. Caches in the workers look the same here."
        )
        findings.append(("copies per rank", text, "samples = RecordList(samples)", evidence))
    return findings


def _alike(sizes: dict[_K, int]) -> dict[_K, int]:
    """The sizes that look like copies of the same data; {} if there are fewer than two. Smaller processes may still be
    loading."""
    alike = {key: size for key, size in sizes.items() if size and size >= PER_RANK_ALIKE * max(sizes.values())}
    return alike if len(alike) >= 2 else {}


def _private(process: Process) -> int:
    """The median private memory of a process in the second half of its life, without files that only it maps. 0 if it
    is unknown, or so small that libraries explain it."""
    sizes, files = [], []
    for entry in process.entries[len(process.entries) // 2 :]:
        known = [entry[key] for key in ("uss", "anonymous") if entry.get(key) is not None]
        if entry.get("uss") is not None:
            sizes.append(min(known))
            files.append(entry.get("shared_file") or 0)
    if not sizes:
        return 0
    usual, mapped = sorted(sizes)[len(sizes) // 2], sorted(files)[len(files) // 2]
    return usual if usual >= max(PER_RANK, PER_RANK_OF_FILES * mapped) else 0
