"""Times reads and measures sizes by the protocol of bench/README.md, for `recstore bench` and bench/.

Answers are checked first. Then all containers take turns. Results are dropped in the loop, and the time of the empty
loop is subtracted. A ratio is the median of the ratios of the rounds. Rows are dicts for a table or a file.
"""

import gc
import random
import statistics
import time
from array import array

from recstore.cli import bench_rivals as rivals

SEED = 2017
HOT, BATCH = 1000, 256
KINDS = ("random", "hot", "batch")
FLOOR, DECODE = "floor", "msgspec decode"
# Records that the floor copies in turn.
_NEAR = 16
# The time that one pass over a rival may take; a slow rival makes fewer reads.
_PASS_NS = 250_000_000


class WrongAnswer(AssertionError):
    """A container returned a wrong record, so timing it would mean nothing."""


def spin(container, order):
    for index in order:
        container[index]


def spin_many(container, batches):
    get_many = container.get_many
    for batch in batches:
        get_many(batch)


def _spin_each(container, batches):
    for batch in batches:
        [container[index] for index in batch]


def _spin_call(call, values):
    for value in values:
        call(value)


def _spin_calls(call, batches):
    for batch in batches:
        [call(value) for value in batch]


def spin_empty(order):
    for _ in order:
        pass


def clock(call, *arguments):
    """Nanoseconds that a call takes."""
    begin = time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - begin


def orders(count, reads):
    """Two orders of equal length: random distinct indices over the whole store, and repeated reads of a thousand
    records, which stay in the cache."""
    draw = random.Random(SEED)
    apart = draw.sample(range(count), min(reads, count))
    few = apart[: min(HOT, len(apart))]
    hot = array("q", (few * (len(apart) // len(few) + 1))[: len(apart)])
    return {"random": array("q", apart), "hot": hot}


def check_answers(container, records, name, checks=2000, same=rivals.Rival.same):
    """Raise WrongAnswer unless a sample of records, those at both ends included, are the same."""
    draw = random.Random(SEED + 1)
    sample = sorted({0, len(records) - 1, *draw.sample(range(len(records)), min(checks, len(records)))})
    many = container.get_many(sample) if hasattr(container, "get_many") else None
    for at, index in enumerate(sample):
        for got in (container[index],) if many is None else (container[index], many[at]):
            if not same(got, records[index]):
                raise WrongAnswer(f"{name} gives another record at {index}")


def build(rival, records, checks=2000):
    """`(container, seconds)`, answers checked. Absent where a rival cannot hold the records; this package must."""
    if rival is rivals.Resident:
        return records, None
    try:
        # Once for nothing: importing torch takes seconds that are not the build's.
        rival.build([{"a": 1}])
        begin = time.perf_counter()
        container = rival.build(records)
        seconds = time.perf_counter() - begin
        if rival.reads:
            check_answers(container, records, rival.name, checks, rival.same)
    except rivals.Absent:
        raise
    except Exception as error:
        if issubclass(rival, rivals.Recstore):
            raise
        reason = str(error).split("\n")[0][:200]
        raise rivals.Absent(reason if isinstance(error, WrongAnswer) else f"{type(error).__name__}: {reason}") from None
    return container, seconds


def build_all(records, wanted, log):
    """Each rival over one list of records: ({name: container}, rows of bytes and seconds, {name: reason})."""
    built, sizes, absent = {}, [], {}
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
    return built, sizes, absent


def size_row(name, container, seconds, count):
    """Bytes a record and the time to build."""
    row = {
        "rival": name,
        "nbytes": container.nbytes,
        "bytes_per_record": container.nbytes / count,
        "build_s": seconds,
        "build_ns_per_record": 1e9 * seconds / count,
    }
    return {**row, "note": container.note} if getattr(container, "note", "") else row


def time_reads(built, records, kind, order, repeats):
    """{name: [ns a record]}, one for each round; floor and bare decode among them where they can be had."""
    turns = _turns(built, records, kind, order)
    taken, idle = {name: [] for name in turns}, dict.fromkeys(turns, float("inf"))
    gc.collect()
    # The list that answers are checked with would be gone where a rival is used; the collector must not walk it in the
    # rivals' time.
    gc.freeze()
    try:
        for _ in range(repeats):
            for name, (call, arguments, empty, _) in turns.items():
                taken[name].append(clock(call, *arguments))
                # The least: an interrupted empty loop would make a quick rival look like none.
                idle[name] = min(idle[name], clock(spin_empty, empty))
    finally:
        gc.unfreeze()
    return {name: [(one - idle[name]) / turns[name][3] for one in times] for name, times in taken.items()}


def _turns(built, records, kind, order):
    """{name: (call, arguments, what the empty loop goes over, records made)}."""
    turns = {}
    for name, container in built.items():
        count = _affordable(container, order)
        if kind == "batch":
            batches = _batches(order[:count])
            call = spin_many if hasattr(container, "get_many") else _spin_each
            turns[name] = call, (container, batches), batches, sum(map(len, batches))
        else:
            turns[name] = spin, (container, order[:count]), order[:count], count
    for name, (call, values) in _loose(records, order).items():
        if kind == "batch":
            batches = _batches(values)
            turns[name] = _spin_calls, (call, batches), batches, len(values)
        else:
            turns[name] = _spin_call, (call, values), values, len(values)
    return turns


def _loose(records, order):
    """{name: (call, values)} of what takes a value that lies ready, and looks nothing up."""
    found = {}
    try:
        encode, decode = rivals.bare_msgspec()
        ready = {index: encode(records[index]) for index in set(order)}
        found[DECODE] = decode, [ready[index] for index in order]
    except (rivals.Absent, TypeError, ValueError, OverflowError, UnicodeEncodeError):
        pass  # said of the rival msgspec, which has the same reason
    try:
        make = rivals.rebuild()
        # The floor copies a few of the hot records again and again. They must stay in the cache, but copying a single
        # record would train the branch prediction.
        few = [make(records[index]) for index in order[:HOT]]
        times = max(1, len(order) // len(few))
        found[FLOOR] = make, [one for at in range(0, len(few), _NEAR) for one in few[at : at + _NEAR] * times]
    except (rivals.Absent, TypeError, ValueError, RecursionError):
        pass  # no such build, or values that the copy does not know
    return found


def _affordable(container, order):
    """The number of reads in one pass: a multiple of the batch size, if it is more than one batch."""
    probe = order[: min(100, len(order))]
    spent = max(1, clock(spin, container, probe) / len(probe))
    count = min(len(order), max(200, int(_PASS_NS / spent)))
    return count // BATCH * BATCH if count > BATCH else count


def _batches(values):
    return [list(values[at : at + BATCH]) for at in range(0, len(values), BATCH)]


def read_rows(taken):
    """A row for each way to read: least and median ns a record, and its ratios, each the median of the rounds'."""
    return [
        {
            "rival": name,
            "min_ns": min(times),
            "median_ns": statistics.median(times),
            "over_floor": ratio(times, taken.get(FLOOR)),
            "of_msgspec_decode": ratio(times, taken.get(DECODE)),
            "times_torch_pickle": ratio(taken.get(rivals.TorchPickle.name), times),
        }
        for name, times in taken.items()
    ]


def ratio(above, below):
    """The median of the rounds' ratios, or None where one is missing or there is nothing to divide by."""
    if not above or not below or min(below) <= 0 or min(above) <= 0:
        return None
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def measure(records, wanted, reads, repeats, log):
    """Decode and size over one list of records: (rows of reads, rows of sizes, {rival: why not})."""
    built, sizes, absent = build_all(records, wanted, log)
    rows = []
    found = orders(len(records), reads)
    for kind in KINDS:
        log(f"timing {kind} reads")
        taken = time_reads(built, records, kind, found["random" if kind == "batch" else kind], repeats)
        rows += [{"reads": kind, **row} for row in read_rows(taken)]
    return rows, sizes, absent
