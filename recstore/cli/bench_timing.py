"""Times reads and measures sizes for `recstore bench` and bench/, by the protocol of bench/README.md.

Answers are checked first. Then all containers take turns. The loop drops each result, and the time of the empty loop is
subtracted. A ratio is the median of the rounds' ratios. Rows are dicts for a table or a file.
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
_FLOOR_RECORDS = 16  # the number of records that the floor copies in rotation
_PASS_NS = 250_000_000  # the most time for a pass of over 200 reads; a slow rival gets fewer reads


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
    """Times a call, in nanoseconds."""
    begin = time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - begin


def orders(count: int, reads: int) -> dict[str, array[int]]:
    """Two orders of equal length: distinct random indices over the whole store, and repeated reads of a thousand
    records that stay in the CPU cache."""
    sample = random.Random(SEED).sample(range(count), min(reads, count))
    hot = itertools.islice(itertools.cycle(sample[:HOT]), len(sample))
    return {"random": array("q", sample), "hot": array("q", hot)}


def _check_answers(container: Any, records: Sequence[Any], rival: type[rivals.Rival], checks: int) -> None:
    """Raises WrongAnswer unless the container returns a sample of the records, including the first and the last."""
    rng = random.Random(SEED + 1)
    sample = sorted({0, len(records) - 1, *rng.sample(range(len(records)), min(checks, len(records)))})
    each = [container[index] for index in sample]
    many = container.get_many(sample) if hasattr(container, "get_many") else each
    for index, single, batched in zip(sample, each, many, strict=True):
        if not (rival.same(single, records[index]) and rival.same(batched, records[index])):
            raise WrongAnswer(f"{rival.name} returns a different record at {index}")


def build(rival: type[rivals.Rival], records: list[Any], checks: int = 2000) -> tuple[Any, float]:
    """Builds a rival and checks its answers: `(container, seconds)`. Raises Absent if the rival is not installed or
    cannot hold the records. Exceptions of Recstore itself propagate."""
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
    """The row with bytes per record and the time to build."""
    nbytes = container.nbytes
    row = {"rival": name, "nbytes": nbytes, "bytes_per_record": nbytes / count}
    row |= {"build_s": seconds, "build_ns_per_record": 1e9 * seconds / count}
    return {**row, "note": container.note} if getattr(container, "note", "") else row


def time_reads(
    built: dict[str, Any], records: Sequence[Any], kind: str, order: array[int], repeats: int
) -> dict[str, list[float]]:
    """{name: [ns per record in each round]}; includes the floor and the bare decoder if they can hold the records."""
    turns = _turns(built, records, kind, order)
    elapsed: dict[str, list[int]] = {name: [] for name in turns}
    idle = dict.fromkeys(turns, float("inf"))
    gc.collect()
    gc.freeze()  # while a rival is timed, the collector must not walk the list of expected records
    try:
        for _ in range(repeats):
            for name, (call, subject, reads, _) in turns.items():
                elapsed[name].append(clock(call, subject, reads))
                # The minimum: an interrupted empty loop would hide the time of a quick rival.
                idle[name] = min(idle[name], clock(spin_empty, reads))
    finally:
        gc.unfreeze()
    return {name: [(ns - idle[name]) / turns[name][3] for ns in times] for name, times in elapsed.items()}


def _turns(built: dict[str, Any], records: Sequence[Any], kind: str, order: array[int]) -> dict[str, tuple[Any, ...]]:
    """{name: (call, its subject, its reads, the number of records)}; the subject is a container or a function."""
    modes: dict[str, Any] = {}
    for name, container in built.items():
        many = spin_many if hasattr(container, "get_many") else _spin_each
        modes[name] = spin, many, container, order[: _affordable(container, order)]
    for name, (function, values) in _limits(records, order).items():
        modes[name] = _spin_call, _spin_calls, function, values
    if kind != "batch":
        return {name: (single, subject, reads, len(reads)) for name, (single, _, subject, reads) in modes.items()}
    return {name: (many, subject, _batches(reads), len(reads)) for name, (_, many, subject, reads) in modes.items()}


def _limits(records: Sequence[Any], order: array[int]) -> dict[str, tuple[Any, list[Any]]]:
    """{name: (function, values)} of the lower bounds, which are functions without a lookup. Leaves out a function that
    cannot take the records."""
    limits: dict[str, tuple[Any, list[Any]]] = {}
    with contextlib.suppress(ImportError, TypeError, ValueError, OverflowError):
        encode, decode = rivals.Msgspec.codec()
        encoded = {index: encode(records[index]) for index in set(order)}
        limits[DECODE] = decode, [encoded[index] for index in order]
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        # The floor copies a few hot records again and again. They must stay in the CPU cache, but a single record
        # would train the branch predictor.
        hot = [native.rebuild(records[index]) for index in order[:HOT]]
        times = max(1, len(order) // len(hot))
        groups = (hot[at : at + _FLOOR_RECORDS] for at in range(0, len(hot), _FLOOR_RECORDS))
        limits[FLOOR] = native.rebuild, [x for group in groups for x in group * times]
    return limits


def _affordable(container: Any, order: array[int]) -> int:
    """The number of reads in one pass: a multiple of the batch size unless it is less than a batch."""
    probe = order[:100]
    spent = max(1, clock(spin, container, probe) / len(probe))
    count = min(len(order), max(200, int(_PASS_NS / spent)))
    return count // BATCH * BATCH if count > BATCH else count


def _batches(values: Sequence[Any]) -> list[list[Any]]:
    return [list(values[at : at + BATCH]) for at in range(0, len(values), BATCH)]


def read_rows(rounds: dict[str, list[float]]) -> list[_Row]:
    """A row for each name: the minimum and the median of ns per record, and its ratios to other rows."""
    floor, decode, pickles = map(rounds.get, (FLOOR, DECODE, rivals.TorchPickle.name))
    return [
        {"rival": name, "min_ns": min(times), "median_ns": statistics.median(times)}
        | {"over_floor": ratio(times, floor), "of_msgspec_decode": ratio(times, decode)}
        | {"times_torch_pickle": ratio(pickles, times)}
        for name, times in rounds.items()
    ]


def ratio(above: Sequence[float] | None, below: Sequence[float] | None) -> float | None:
    """The median of the rounds' ratios; None if a side is missing or not positive."""
    if not above or not below or min(below) <= 0 or min(above) <= 0:
        return None
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def measure(
    records: list[Any], compared: Iterable[type[rivals.Rival]], reads: int, repeats: int, log: Callable[[str], object]
) -> tuple[list[_Row], list[_Row], dict[str, str]]:
    """Measures reads and sizes over one list of records: (rows of reads, rows of sizes, {absent rival: reason})."""
    built, rows, sizes, absent = {}, [], [], {}
    for rival in compared:
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
    order = orders(len(records), reads)
    for kind in KINDS:
        log(f"timing {kind} reads")
        rounds = time_reads(built, records, kind, order["random" if kind == "batch" else kind], repeats)
        rows += [{"reads": kind, **row} for row in read_rows(rounds)]
    return rows, sizes, absent
