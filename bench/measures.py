"""The suites `decode`, `size` and `build` over the data sets; how is in recstore/cli/bench_timing.py, which `recstore
bench` shares.

Each suite gives rows for a table, and knows neither files nor rivals' insides. Whatever is about memory runs in
processes of its own (memory_jobs).
"""

import gc
import statistics
import time

import rivals

# What dicts, fields and names share of the protocol.
from recstore.cli.bench_timing import (  # noqa: F401
    SEED,
    WrongAnswer,
    build,
    clock,
    measure,
    orders,
    ratio,
    size_row,
    spin,
    spin_empty,
)


def decode(dataset, with_sizes, quick, log):
    """ns a record, random, hot and batches, of every rival, and their bytes: (rows, rows, {rival: why not})."""
    wanted = [rival for rival in rivals.every() if rival.reads or with_sizes]
    records = list(dataset.fresh())
    reads, repeats = (5_000, 3) if quick else (50_000, 9)
    rows, sizes, absent = measure(records, wanted, reads, repeats, lambda stage: log(f"{dataset.name}: {stage}"))
    return [{"data": dataset.name, **row} for row in rows], [{"data": dataset.name, **row} for row in sizes], absent


def sizes(dataset, log):
    """What the rivals take, without reading more than the answers: (rows, {rival: why not})."""
    records = list(dataset.fresh())
    rows, absent = [], {}
    for rival in rivals.every():
        if rival in (rivals.Resident, rivals.ManagerList):
            continue  # no bytes of their own
        log(f"{dataset.name}: building {rival.name}")
        try:
            container, seconds = build(rival, records, 500)
        except rivals.Absent as error:
            absent[rival.name] = str(error)
            continue
        rows.append({"data": dataset.name, **size_row(rival.name, container, seconds, len(records))})
        del container
    return rows, absent


def builds(dataset, quick, log):
    """Building from a generator of fresh records, the generating subtracted: ns a record, and the gain over
    numpy+pickle.

    The rivals take turns. The median of the rounds' ratios is kept.
    """
    ways = {
        "numpy+pickle": rivals.NumpyPickle.build,
        "torch+pickle": rivals.TorchPickle.build,
        "recstore none": rivals.RecstoreNone.build,
        "recstore": rivals.Recstore.build,
    }
    for name, call in list(ways.items()):
        try:
            call(dataset.pool(2))
        except rivals.Absent:
            del ways[name]
    # The first pass makes the records' file, where there is one.
    _drain(dataset.fresh())
    taken = {name: [] for name in ways}
    for _ in range(2 if quick else 3):
        log(f"{dataset.name}: building")
        for name, call in ways.items():
            generating = clock(_drain, dataset.fresh())
            taken[name].append((_clock_build(call, dataset) - generating) / len(dataset))
    return [
        {
            "data": dataset.name,
            "rival": name,
            "min_ns": min(times),
            "median_ns": statistics.median(times),
            "times_numpy_pickle": ratio(taken["numpy+pickle"], times),
        }
        for name, times in taken.items()
    ]


def _drain(records):
    for _ in records:
        pass


def _clock_build(call, dataset):
    """Nanoseconds of a build; what it built is dropped outside of them."""
    gc.collect()
    begin = time.perf_counter_ns()
    built = call(dataset.fresh())
    spent = time.perf_counter_ns() - begin
    if len(built) != len(dataset):
        raise WrongAnswer("a build has lost records")
    return spent
