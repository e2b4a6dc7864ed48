"""The suite `engines`: recstore through Ray. Writing is compared with Ray's Parquet writer, reading with `iter_rows`
and `iter_torch_batches` of the Parquet files, in the same run.

A record has two ids, a score and a path. All writers get the same blocks, which are already in Ray's memory.
`recstore.open` and `Loader` read in one process, Ray's readers in all of its processes. `python bench/engines.py N`
writes N records once with each writer, and `python bench/engines.py N spark` writes and reads them through Spark.
"""

import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time

import measures

BATCH = 1024
NUMBERS = ("id", "image_id", "score")
BLOCKS = 8


def table(n, first):
    """`n` records with ids from `first` on, as a pyarrow table."""
    import numpy
    import pyarrow
    import pyarrow.compute

    chance = numpy.random.default_rng(first)
    numbers = pyarrow.array(chance.integers(0, 600_000, n)).cast(pyarrow.string())
    padded = pyarrow.compute.utf8_lpad(numbers, 12, "0")
    return pyarrow.table(
        {
            "id": numpy.arange(first, first + n),
            "image_id": chance.integers(0, 120_000, n),
            "score": chance.random(n),
            "file": pyarrow.compute.binary_join_element_wise("train2017/", padded, ".jpg", ""),
        }
    )


def measure(quick, log):
    """Rows of records per second, and the ratio to Ray's own way. Raises ImportError without Ray or PyTorch."""
    import ray
    import torch  # noqa: F401 - for iter_torch_batches

    n = 40_000 if quick else 2_000_000
    log(f"engines: {n:,} records through Ray")
    with ray_session() as folder:
        rounds = 1 if quick else 3
        return time_writers(ray, dataset_of(ray, n), n, folder, rounds) + time_readers(ray, n, folder, rounds)


@contextlib.contextmanager
def ray_session(**settings):
    """Ray on this machine, and a folder for files."""
    import ray

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # otherwise Ray writes a token to the home folder
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, logging_level="error", **settings)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        with tempfile.TemporaryDirectory() as folder:
            yield folder
    finally:
        ray.shutdown()


def dataset_of(ray, n, blocks=BLOCKS):
    """`n` records in Ray's memory."""
    return ray.data.from_arrow([table(n // blocks, i * (n // blocks)) for i in range(blocks)]).materialize()


def write_once(n):
    """Prints the time to write `n` records with Ray's Parquet writer and as shards."""
    import ray

    with ray_session(object_store_memory=max(n * 80, 1 << 28)) as folder:
        small, large = dataset_of(ray, 10_000), dataset_of(ray, n, max(BLOCKS, n // 1_000_000))
        ways = {
            "write_parquet": lambda dataset, path: dataset.write_parquet(path),
            "Datasink": lambda dataset, path: dataset.write_datasink(recstore_ray().Datasink(path)),
        }
        for name, way in ways.items():
            way(small, os.path.join(folder, "small", name))  # starts the workers and imports their modules
            begin, path = time.perf_counter(), os.path.join(folder, name)
            way(large, path)
            seconds = time.perf_counter() - begin
            size = sum(entry.stat().st_size for entry in os.scandir(path))
            print(f"{name}: {n:,} records in {seconds:.1f} s, {size / n:.1f} bytes each", flush=True)
            shutil.rmtree(path)


def time_ways(ways, n, rounds, what):
    """A row for each way, timed in alternation; the first way is Ray's. All ways must return the same number."""
    timings = {name: [] for name in ways}
    answers = {}
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            answers[name] = way()
            timings[name].append(time.perf_counter() - begin)
    if len({round(answer, 3) for answer in answers.values()}) != 1:
        raise measures.WrongAnswer(f"{what}: the results differ: {answers}")
    base = next(iter(timings.values()))
    return [
        {
            "what": what,
            "way": name,
            "records_s": n / min(times),
            "of_ray": statistics.median(b / seconds for seconds, b in zip(times, base)),
        }
        for name, times in timings.items()
    ]


def time_writers(ray, dataset, n, folder, rounds):
    parquet, shards = (os.path.join(folder, name) for name in ("parquet", "shards"))

    def with_parquet():
        shutil.rmtree(parquet, ignore_errors=True)
        dataset.write_parquet(parquet)
        return n

    def with_shards(name, **options):
        def write():
            shutil.rmtree(f"{shards}-{name}", ignore_errors=True)
            dataset.write_datasink(recstore_ray().Datasink(f"{shards}-{name}", **options))
            return n

        return write

    ways = {
        "write_parquet": with_parquet,
        "Datasink": with_shards("auto"),
        "Datasink, compression fast": with_shards("fast", compression="fast"),
        "Datasink, compression none": with_shards("none", compression="none"),
    }
    for way in ways.values():
        way()  # starts the workers and imports their modules
    rows = time_ways(ways, n, rounds, "write")
    sizes = [
        sum(entry.stat().st_size for entry in os.scandir(path))
        for path in (parquet, *(f"{shards}-{name}" for name in ("auto", "fast", "none")))
    ]
    return [{**row, "bytes_record": size / n} for row, size in zip(rows, sizes)]


def recstore_ray():
    import recstore.remote.ray

    return recstore.remote.ray


def time_readers(ray, n, folder, rounds):
    """Reads the shards of `time_writers` with the default compression, and the Parquet files."""
    import recstore
    from recstore.torch import Fields, Loader

    parquet, shards = os.path.join(folder, "parquet"), os.path.join(folder, "shards-auto")

    def rows_of(dataset):
        return lambda: sum(row["id"] for row in dataset().iter_rows())

    def records():
        with recstore.open(shards) as store:
            return sum(record["id"] for record in store)

    def ray_batches(dataset):
        def read():
            batches = dataset().iter_torch_batches(batch_size=BATCH)
            return sum(int(batch["id"].sum()) for batch in batches)

        return read

    def batches():
        with recstore.open(shards) as store:
            return sum(int(batch["id"].sum()) for batch in Loader(Fields(store, *NUMBERS), BATCH))

    from_parquet = lambda: ray.data.read_parquet(parquet)  # noqa: E731
    from_shards = lambda: recstore_ray().read(shards)  # noqa: E731
    as_records = {
        "iter_rows of parquet": rows_of(from_parquet),
        "recstore.open": records,
        "iter_rows of shards": rows_of(from_shards),
    }
    numbers = list(NUMBERS)
    as_tensors = {
        "iter_torch_batches of parquet": ray_batches(lambda: ray.data.read_parquet(parquet, columns=numbers)),
        "Loader of Fields": batches,
        "iter_torch_batches of shards": ray_batches(lambda: recstore_ray().read(shards, columns=numbers)),
    }
    return time_ways(as_records, n, rounds, "read records") + time_ways(as_tensors, n, rounds, "read tensors")


def time_spark(n):
    """Prints the speed of the format "recstore" in Spark relative to Parquet, and the speed of a sink in Python that
    drops all batches."""
    from pyspark.sql import SparkSession, datasource

    import recstore.remote.spark

    class Dropping(datasource.DataSource, datasource.DataSourceArrowWriter):
        @classmethod
        def name(cls):
            return "dropping"

        def writer(self, schema, overwrite):
            return self

        def write(self, iterator):
            for _ in iterator:
                pass
            return datasource.WriterCommitMessage()

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.driver.memory": "4g", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master(f"local[{os.cpu_count()}]").config(map=settings).getOrCreate()
    recstore.remote.spark.register(spark)
    spark.dataSource.register(Dropping)
    rows = spark.createDataFrame(table(n, 0)).repartition(BLOCKS).cache()
    rows.count()

    def save(frame, form, path=None):
        return lambda: frame().write.format(form).mode("overwrite").save(path) or n

    def total(frame):
        return lambda: frame().selectExpr("sum(id)").first()[0]

    with tempfile.TemporaryDirectory() as folder:
        parquet, shards = (os.path.join(folder, name) for name in ("parquet", "shards"))
        from_parquet = lambda: spark.read.parquet(parquet)  # noqa: E731
        from_shards = lambda: spark.read.format("recstore").load(shards)  # noqa: E731
        id_column = lambda: spark.read.format("recstore").option("columns", "id").load(shards)  # noqa: E731
        writers = {
            "parquet": save(lambda: rows, "parquet", parquet),
            "recstore": save(lambda: rows, "recstore", shards),
            "dropping": save(lambda: rows, "dropping"),
        }
        scans = {"parquet": save(from_parquet, "noop"), "recstore": save(from_shards, "noop")}
        sums = {"parquet": total(from_parquet), "recstore": total(from_shards), "columns=id": total(id_column)}
        for what, ways in {"write": writers, "scan": scans, "sum(id)": sums}.items():
            for way in ways.values():
                way()  # starts the workers and imports their modules
            for row in time_ways(ways, n, 5, what):
                print(f"{what}, {row['way']}: {row['of_ray']:.2f} of parquet's speed", flush=True)
    spark.stop()


if __name__ == "__main__":
    (time_spark if "spark" in sys.argv else write_once)(int(sys.argv[1]))
