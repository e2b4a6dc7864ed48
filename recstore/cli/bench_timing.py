"""Times reads and measures sizes by the protocol of bench/README.md, for `recstore bench` and bench/.

Answers are checked first. Then all containers take turns. Results are dropped in the loop, and the time of the empty
loop is subtracted. A ratio is the median of the ratios of the rounds. Rows are dicts for a table or a file.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
import statistics
import time
from array import array

from recstore._core import native
from recstore.cli import bench_rivals as rivals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeAlias

    _Row: TypeAlias = dict[str, Any]

SEED, HOT, BATCH = 2017, 1000, 256
KINDS = ("random", "hot", "batch")
FLOOR, DECODE = "floor", "msgspec decode"
_NEAR = 16  # records that the floor copies in turn
_PASS_NS = 250_000_000  # the time that one pass over a rival may take; a slow rival makes fewer reads


class WrongAnswer(AssertionError):
    """A container returned a wrong record, so timing it would mean nothing."""


def spin(container: Any, order: Iterable[int]) -> None:
    for index in order:
        container[index]


def spin_many(container: Any, batches: Iterable[list[int]]) -> None:
    for batch in batches:
        container.get_many(batch)


def _spin_each(container: Any, batches: Iterable[list[int]]) -> None:
    for batch in batches:
        [container[index] for index in batch]


def _spin_call(call: Callable[[Any], object], values: Iterable[Any]) -> None:
    for value in values:
        call(value)


def _spin_calls(call: Callable[[Any], object], batches: Iterable[list[Any]]) -> None:
    for batch in batches:
        [call(value) for value in batch]


def spin_empty(order: Iterable[Any]) -> None:
    for _ in order:
        pass


def clock(call: Callable[..., object], *arguments: Any) -> int:
    """Nanoseconds that a call takes."""
    begin = time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - begin


def orders(count: int, reads: int) -> dict[str, array[int]]:
    """Two orders of equal length: random distinct indices over the whole store, and repeated reads of a thousand
    records, which stay in the cache."""
    apart = random.Random(SEED).sample(range(count), min(reads, count))
    return {"random": array("q", apart), "hot": array("q", itertools.islice(itertools.cycle(apart[:HOT]), len(apart)))}


def _check_answers(container: Any, records: Sequence[Any], rival: type[rivals.Rival], checks: int) -> None:
    """Raise WrongAnswer unless a sample of records, those at both ends included, are the same."""
    draw = random.Random(SEED + 1)
    sample = sorted({0, len(records) - 1, *draw.sample(range(len(records)), min(checks, len(records)))})
    each = [container[index] for index in sample]
    many = container.get_many(sample) if hasattr(container, "get_many") else each
    for index, one, other in zip(sample, each, many, strict=True):
        if not (rival.same(one, records[index]) and rival.same(other, records[index])):
            raise WrongAnswer(f"{rival.name} gives another record at {index}")


def build(rival: type[rivals.Rival], records: list[Any], checks: int = 2000) -> tuple[Any, float]:
    """`(container, seconds)`, answers checked. Absent where a rival cannot hold the records; this package must."""
    if rival is rivals.Resident:
        return records, 0.0
    try:
        rival.build([{"a": 1}])  # not timed: importing torch takes seconds
        begin = time.perf_counter()
        container = rival.build(records)
        seconds = time.perf_counter() - begin
        if rival.reads:
            _check_answers(container, records, rival, checks)
    except rivals.Absent:
        raise
    except Exception as error:
        if issubclass(rival, rivals.Recstore):
            raise
        reason = str(error).split("\n")[0][:200]
        raise rivals.Absent(reason if isinstance(error, WrongAnswer) else f"{type(error).__name__}: {reason}") from None
    return container, seconds


def size_row(name: str, container: Any, seconds: float, count: int) -> _Row:
    """Bytes a record and the time to build."""
    nbytes = container.nbytes
    row = {"rival": name, "nbytes": nbytes, "bytes_per_record": nbytes / count}
    row |= {"build_s": seconds, "build_ns_per_record": 1e9 * seconds / count}
    return {**row, "note": container.note} if getattr(container, "note", "") else row


def time_reads(
    built: dict[str, Any], records: Sequence[Any], kind: str, order: array[int], repeats: int
) -> dict[str, list[float]]:
    """{name: [ns a record]}, one for each round; floor and bare decode among them where they can be had."""
    turns = _turns(built, records, kind, order)
    taken: dict[str, list[int]] = {name: [] for name in turns}
    idle = dict.fromkeys(turns, float("inf"))
    gc.collect()
    gc.freeze()  # the collector must not walk over the list that answers are checked with in the rivals' time
    try:
        for _ in range(repeats):
            for name, (call, subject, reads, _) in turns.items():
                taken[name].append(clock(call, subject, reads))
                # The least: an interrupted empty loop would make a quick rival look like none.
                idle[name] = min(idle[name], clock(spin_empty, reads))
    finally:
        gc.unfreeze()
    return {name: [(one - idle[name]) / turns[name][3] for one in times] for name, times in taken.items()}


def _turns(built: dict[str, Any], records: Sequence[Any], kind: str, order: array[int]) -> dict[str, tuple[Any, ...]]:
    """{name: (call, its arguments: a container or function, and what to read; records made)}."""
    ways: dict[str, Any] = {}
    for name, container in built.items():
        many = spin_many if hasattr(container, "get_many") else _spin_each
        ways[name] = spin, many, container, order[: _affordable(container, order)]
    for name, (function, values) in _loose(records, order).items():
        ways[name] = _spin_call, _spin_calls, function, values
    if kind != "batch":
        return {name: (one, subject, reads, len(reads)) for name, (one, _, subject, reads) in ways.items()}
    return {name: (many, subject, _batches(reads), len(reads)) for name, (_, many, subject, reads) in ways.items()}


def _loose(records: Sequence[Any], order: array[int]) -> dict[str, tuple[Any, list[Any]]]:
    """{name: (call, values)} of what takes a value that lies ready, and looks nothing up. What cannot take the records
    is left out."""
    found: dict[str, tuple[Any, list[Any]]] = {}
    with contextlib.suppress(ImportError, TypeError, ValueError, OverflowError):
        encode, decode = rivals.Msgspec.codec()
        ready = {index: encode(records[index]) for index in set(order)}
        found[DECODE] = decode, [ready[index] for index in order]
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        # The floor copies a few of the hot records again and again. They must stay in the cache, but copying a single
        # record would train the branch prediction.
        few = [native.rebuild(records[index]) for index in order[:HOT]]
        times = max(1, len(order) // len(few))
        found[FLOOR] = native.rebuild, [x for at in range(0, len(few), _NEAR) for x in few[at : at + _NEAR] * times]
    return found


def _affordable(container: Any, order: array[int]) -> int:
    """The number of reads in one pass: a multiple of the batch size, if it is more than one batch."""
    probe = order[:100]
    spent = max(1, clock(spin, container, probe) / len(probe))
    count = min(len(order), max(200, int(_PASS_NS / spent)))
    return count // BATCH * BATCH if count > BATCH else count


def _batches(values: Sequence[Any]) -> list[list[Any]]:
    return [list(values[at : at + BATCH]) for at in range(0, len(values), BATCH)]


def read_rows(taken: dict[str, list[float]]) -> list[_Row]:
    """A row for each way to read: least and median ns a record, and its ratios, each the median of the rounds'."""
    floor, decode, pickles = map(taken.get, (FLOOR, DECODE, rivals.TorchPickle.name))
    return [
        {"rival": name, "min_ns": min(times), "median_ns": statistics.median(times)}
        | {"over_floor": ratio(times, floor), "of_msgspec_decode": ratio(times, decode)}
        | {"times_torch_pickle": ratio(pickles, times)}
        for name, times in taken.items()
    ]


def ratio(above: Sequence[float] | None, below: Sequence[float] | None) -> float | None:
    """The median of the rounds' ratios, or None where one is missing or there is nothing to divide by."""
    if not above or not below or min(below) <= 0 or min(above) <= 0:
        return None
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def measure(
    records: list[Any], wanted: Iterable[type[rivals.Rival]], reads: int, repeats: int, log: Callable[[str], object]
) -> tuple[list[_Row], list[_Row], dict[str, str]]:
    """Decode and size over one list of records: (rows of reads, rows of sizes, {rival: why not})."""
    built, rows, sizes, absent = {}, [], [], {}
    for rival in wanted:
        log(f"building {rival.name}")
        try:
            container, seconds = build(rival, records)
        except rivals.Absent as error:
            absent[rival.name] = str(error)
            continue
        if rival.reads:
            built[rival.name] = container
        if getattr(container, "nbytes", None) is not None:
            sizes.append(size_row(rival.name, container, seconds, len(records)))
    found = orders(len(records), reads)
    for kind in KINDS:
        log(f"timing {kind} reads")
        taken = time_reads(built, records, kind, found["random" if kind == "batch" else kind], repeats)
        rows += [{"reads": kind, **row} for row in read_rows(taken)]
    return rows, sizes, absent
