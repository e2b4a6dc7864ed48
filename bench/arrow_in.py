"""The suite `arrow_in`: `RecordList(table)` against `RecordList(table.to_pylist())` in the same run.

The table `made` has numbers and short text; the others are the data sets that Arrow can hold. Processor time is given
beside wall time, because one thread appends rows and a second one compresses.
"""

import gc
import os
import random
import statistics
import time

import data
import measures

BATCH_ROWS = 65_536


def made_table(n):
    """A table of `n` rows of numbers and short text."""
    import pyarrow

    chance = random.Random(1)
    return pyarrow.table(
        {
            "id": range(n),
            "label": [chance.randrange(1000) for _ in range(n)],
            "score": [chance.random() for _ in range(n)],
            "weight": pyarrow.array([chance.random() for _ in range(n)], pyarrow.float32()),
            "file": [f"img_{i % 5000:05}.jpg" for i in range(n)],
            "color": [("red", "green", "blue")[i % 3] for i in range(n)],
        }
    )


def table_of(dataset):
    """A data set as a table or array; None if Arrow has no type for its records."""
    import pyarrow

    records = list(dataset.fresh())
    try:
        if all(type(record) is dict for record in records):
            keys = dict.fromkeys(key for record in records for key in record)
            return pyarrow.table({key: pyarrow.array([record.get(key) for record in records]) for key in keys})
        return pyarrow.array(records)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return None


def values_in(table):
    """The number of leaf values in the columns."""
    import pyarrow

    def count(array):
        if pyarrow.types.is_nested(array.type):
            return (
                sum(count(child) for child in array.flatten())
                if pyarrow.types.is_struct(array.type)
                else (count(array.flatten()))
            )
        return len(array)

    columns = table.columns if isinstance(table, pyarrow.Table) else [table]
    chunks = [chunk for column in columns for chunk in (getattr(column, "chunks", None) or [column])]
    return sum(count(chunk) for chunk in chunks)


def measure(name, quick, log):
    """Results for a table; the two ways alternate. None if Arrow has no type for the records."""
    table = made_table(20_000 if quick else 1_000_000) if name == "made" else table_of(data.load(name, quick))
    if table is None:
        return None
    log(f"arrow_in: {name}, {len(table):,} rows")
    return [_row(name, table, compression, quick) for compression in ("none", "auto")]


def _row(name, table, compression, quick):
    from recstore import RecordList

    def from_rows():
        return RecordList(table.to_pylist(), compression=compression)

    def from_table():
        return RecordList(table, compression=compression)

    with from_table() as x, from_rows() as y:
        if x.to_list() != table.to_pylist() or x.nbytes != y.nbytes:
            raise measures.WrongAnswer(f"{name}: the store of the table differs")
        size = x.nbytes
    rounds = [(_clock(from_rows), _clock(from_table)) for _ in range(3 if quick else 7)]
    n, append = values_in(table), min(thread for _, (_, _, thread) in rounds)
    wall, cpu = (min(table_times[i] for _, table_times in rounds) for i in (0, 1))
    return {
        "data": name,
        "compression": compression,
        "values": n,
        "store": size,
        "append_mvalues_s": n / append / 1e6,
        "cpu_mvalues_s": n / cpu / 1e6,
        "wall_s": wall,
        "cpu_s": cpu,
        "wall_gain": statistics.median(row_times[0] / table_times[0] for row_times, table_times in rounds),
        "cpu_gain": statistics.median(row_times[1] / table_times[1] for row_times, table_times in rounds),
    }


def _clock(build):
    """Seconds of a build: wall, processor time of all threads, processor time of the calling thread."""
    gc.collect()
    begin = time.perf_counter(), time.process_time(), time.thread_time()
    store = build()
    seconds = tuple(clock() - b for clock, b in zip((time.perf_counter, time.process_time, time.thread_time), begin))
    store.close()
    return seconds


# ---- Memory, in a separate process ----


def ready(quick):
    """Writes a file of record batches. Returns `(path, bytes of a batch)`."""
    import pyarrow

    path = os.path.join(data.pools(), "batches.arrow")
    batches = made_table(BATCH_ROWS).combine_chunks().to_batches()
    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, batches[0].schema) as writer:
        for _ in range(4 if quick else 100):
            writer.write_batch(batches[0])
    return path, batches[0].nbytes


def job(path, batch_bytes):
    """One row: the peak memory of a build from a stream of batches, beyond the store and the memory before it."""
    import pyarrow

    import recstore
    from recstore.shm import process_memory

    recstore.RecordList(pyarrow.table({"a": [1]})).close()  # imports are not part of the build
    gc.collect()
    known, exact = process_memory.segments(), process_memory.reset_peak_rss()
    before = process_memory.usage()
    with pyarrow.OSFile(path) as file, pyarrow.ipc.open_stream(file) as reader:
        store = recstore.RecordList(reader)
    peak = process_memory.peak_rss()
    made_here = {key: size for key, size in process_memory.segments().items() if key not in known}
    unmapped = process_memory.unmapped(made_here, [os.getpid()]) if made_here else store.nbytes
    beyond = peak - before.rss + unmapped - store.nbytes if exact and before else None
    return {
        "data": f"{len(store):,} rows in batches of {BATCH_ROWS:,}",
        "store": store.nbytes,
        "batch": batch_bytes,
        "peak_beyond_store": beyond,
        "batches_beyond_store": beyond / batch_bytes if beyond is not None else None,
    }
