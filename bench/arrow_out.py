"""The suite `arrow_out`: records to a table of polars or pyarrow, against that library reading the table from Parquet.

The records are synthetic: numbers, a path, a caption and a category.
"""

import gc
import os
import random
import statistics
import tempfile
import time

import measures


def vocabulary(chance, n):
    """Random words and their Zipf weights: the k-th word is 1 / k as frequent as the first."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(chance.choices(letters, range(26, 0, -1), k=chance.randrange(2, 9))) for _ in range(n)]
    return words, [1 / k for k in range(1, n + 1)]


def records(n):
    """`n` records of an id, numbers, a path, a caption and a category."""
    chance = random.Random(1)
    words, weights = vocabulary(chance, 2000)
    for i in range(n):
        yield {
            "id": i,
            "image_id": chance.randrange(120_000),
            "score": chance.random(),
            "area": round(chance.random() * 5000, 2),
            "file": f"train2017/{chance.randrange(600_000):012d}.jpg",
            "caption": " ".join(chance.choices(words, weights, k=chance.randrange(6, 14))),
            "category": chance.choice(("cat", "dog", "person", "car")),
            "crowd": chance.random() < 0.1,
        }


def ways(store, path):
    """{name: function without arguments}: each makes a table of the records, or of two of their fields."""
    import polars
    import pyarrow
    from pyarrow import parquet

    return {
        "polars of parquet": lambda: polars.read_parquet(path),
        "x.to_polars()": store.to_polars,
        "x.shuffled().to_polars()": store.shuffled(1).to_polars,
        "x.fields(2).to_polars()": store.fields("id", "caption").to_polars,
        "pyarrow of parquet": lambda: parquet.read_table(path),
        "pyarrow.table(x)": lambda: pyarrow.table(store),
        "polars.DataFrame(x)": lambda: polars.DataFrame(store),
    }


def check(calls, store):
    """Raises WrongAnswer if polars' or pyarrow's table differs from the Parquet file or the records."""
    expected = calls["polars of parquet"]()
    if not calls["x.to_polars()"]().equals(expected) or expected.to_dicts()[7] != store[7]:
        raise measures.WrongAnswer("x.to_polars() and its Parquet file differ")
    if calls["pyarrow.table(x)"]().to_pylist()[:100] != store[:100].to_list():
        raise measures.WrongAnswer("pyarrow.table(x) and the records differ")


def measure(quick, log):
    """Rows with the milliseconds for a table, in wall and processor time, and the ratio to polars with Parquet. The
    ways alternate. Raises ImportError without polars or pyarrow."""
    import recstore

    n = 20_000 if quick else 1_000_000
    log(f"arrow_out: {n:,} records")
    with recstore.RecordList(records(n)) as store, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.parquet")
        store.to_polars().write_parquet(path)
        calls = ways(store, path)
        check(calls, store)
        timings = {name: [] for name in calls}
        for turn in range(3 if quick else 7):
            for name, make in calls.items():
                if name == "polars.DataFrame(x)" and turn > 0:
                    continue  # takes seconds, because it makes a Python object for each value
                timings[name].append(_clock(make))
        base = [wall for wall, _ in timings["polars of parquet"]]
        return [
            {
                "way": name,
                "wall_ms": min(wall for wall, _ in times) * 1e3,
                "cpu_ms": min(cpu for _, cpu in times) * 1e3,
                "of_parquet": statistics.median(wall / b for (wall, _), b in zip(times, base)),
                "store": store.nbytes,
                "file": os.path.getsize(path),
            }
            for name, times in timings.items()
        ]


def _clock(make):
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    table = make()
    times = time.perf_counter() - wall, time.process_time() - cpu
    del table
    return times
