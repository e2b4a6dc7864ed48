"""The suite `build`: the time to build from a list and from a stream, beside pickling the same records.

Nothing is subtracted. From a stream, each time includes making the records; the row `the stream itself` is the time of
making them alone. `wall` is elapsed time, `cpu` the processor time of all threads. `job_build` in memory_jobs.py
measures memory in a separate process.
"""

import gc
import itertools
import os
import pickle
import statistics
import time

import rivals

from recstore.cli.bench_rivals import need
from recstore.cli.bench_timing import WrongAnswer, ratio

MOST = 200_000  # records of a set; --most changes it
LEANEST, USUAL, STREAM = "pickles joined", "numpy+pickle", "the stream itself"
SOURCES = ("list", "stream")
_LEAST_NS = 50_000_000  # shorter calls are repeated within a round


def pickles_joined(records):
    """The fastest way to pickle records into one buffer: without arrays and without an index."""
    dumps = pickle.dumps
    return b"".join([dumps(record, -1) for record in records])


def msgspec_joined(records):
    """The same with msgspec's MessagePack."""
    need("msgspec")
    import msgspec

    encode = msgspec.msgpack.Encoder().encode
    return b"".join([encode(record) for record in records])


def recstore_with(**options):
    def build(records):
        import recstore

        return recstore.RecordList(records, **options)

    return build


def ways(cores):
    """{name: build}. With one core, only recstore and the fastest pickling."""
    calls = {LEANEST: pickles_joined, "msgspec joined": msgspec_joined, USUAL: rivals.NumpyPickle.build}
    levels = ("none", "fast", "auto", "small")
    if cores == 1:
        return {LEANEST: pickles_joined, "recstore": recstore_with()}
    calls.update(
        {"recstore" if level == "auto" else f"recstore {level}": recstore_with(compression=level) for level in levels}
    )
    calls["recstore threads=1"] = recstore_with(threads=1)
    return calls


def measure(dataset, quick, most, log):
    """Rows of all ways from a list, from a stream, and from a list on one core. The ways alternate in each round."""
    rows = []
    records = list(itertools.islice(dataset.fresh(), most))
    count = len(records)
    gc.collect()
    gc.freeze()  # so that the collector does not walk the list of records during a measured call
    try:
        for source, cores in (("list", None), ("stream", None), ("list", 1)):
            if cores == 1 and not hasattr(os, "sched_setaffinity"):
                continue
            log(f"{dataset.name}: building from a {source}{', one core' if cores else ''}")
            make_records = (lambda: records) if source == "list" else (lambda: itertools.islice(dataset.fresh(), most))
            timings = _rounds(ways(cores), make_records, count, 2 if quick else 5, cores)
            rows += [
                {"data": dataset.name, "from": source, "cores": cores or len(_cores()), **row}
                for row in _rows(timings, count)
            ]
    finally:
        gc.unfreeze()
    return rows


def measure_workers(dataset, quick, most, log):
    """Rows of `workers=0`, 1 and 2 over eight shards. The process that compresses a shard also makes its records. Only
    wall time is measured, because the processor time of this process does not include its workers."""
    shards, count = dataset.shards(8, most), min(most, len(dataset))
    if shards is None or count < (1_000 if quick else 50_000):  # a smaller build is shorter than the start of a process
        return []
    log(f"{dataset.name}: building by workers")
    calls = {number: recstore_with(workers=number) for number in (0, 1, 2)}
    timings = {number: [] for number in calls}
    for _ in range(2 if quick else 5):
        for number, call in calls.items():
            source = shards if number else itertools.chain.from_iterable(shards)
            timings[number].append(_clock(call, lambda source=source: source, 1, count)[0])
    return [
        {
            "data": dataset.name,
            "workers": number,
            "records": count,
            "wall_min_ns": min(walls) / count,
            "wall_median_ns": statistics.median(walls) / count,
            "of_no_workers": ratio(walls, timings[0]),
        }
        for number, walls in timings.items()
    ]


def _cores():
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count())


def _rounds(calls, make_records, count, rounds, cores):
    """{name: [(wall ns, cpu ns) of each round]}, without the ways that cannot hold the records."""
    calls, repeats = dict(calls), {}
    if make_records() is not make_records():
        calls[STREAM] = _drain
    before = _cores()
    if cores == 1:
        os.sched_setaffinity(0, {min(before)})
    try:
        for name, call in list(calls.items()):
            try:
                wall, _ = _clock(call, make_records, 1, None)
            except (rivals.Absent, TypeError, ValueError, OverflowError, UnicodeEncodeError):
                if name.startswith("recstore"):
                    raise
                del calls[name]  # msgspec holds no ints beyond 64 bits and no lone surrogates
            else:
                repeats[name] = max(1, int(_LEAST_NS // max(wall, 1)))
        timings = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                timings[name].append(
                    _clock(call, make_records, repeats[name], count if name.startswith("recstore") else None)
                )
    finally:
        if cores == 1:
            os.sched_setaffinity(0, before)
    return timings


def _drain(records):
    for _ in records:
        pass


def _clock(call, make_records, repeats, count):
    """(wall, cpu) nanoseconds of a call, the mean of `repeats` calls. The time includes dropping the result."""
    gc.collect()
    sources = [make_records() for _ in range(repeats)]
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    for source in sources:
        built = call(source)
        if count is not None and len(built) != count:
            raise WrongAnswer("a build has lost records")
        built = None
    return (time.perf_counter_ns() - wall) / repeats, (time.process_time_ns() - cpu) / repeats


def _rows(timings, count):
    walls = {name: [wall for wall, _ in times] for name, times in timings.items()}
    cpus = {name: [cpu for _, cpu in times] for name, times in timings.items()}
    return [
        {
            "way": name,
            "records": count,
            "wall_min_ns": min(walls[name]) / count,
            "wall_median_ns": statistics.median(walls[name]) / count,
            "cpu_min_ns": min(cpus[name]) / count,
            "cpu_median_ns": statistics.median(cpus[name]) / count,
            "wall_of_leanest": ratio(walls[name], walls[LEANEST]),
            "cpu_of_leanest": ratio(cpus[name], cpus[LEANEST]),
            "wall_of_numpy_pickle": ratio(walls[name], walls.get(USUAL)),
        }
        for name in timings
    ]
