"""Spark in local mode: DataFrames written as sets of shards and read back, with a task that is killed."""

import datetime
import decimal
import os
import shutil
import sys
import tempfile

import pytest
import shard_sets

import recstore
import recstore.remote
import recstore.remote.spark
from recstore.remote.engines import shard_tables

pytest.importorskip("pyspark", minversion="4.0", reason="needs the packages of `nox -s real`")
pytest.importorskip("pyarrow")
if shutil.which("java") is None:
    pytest.skip("needs a Java, which `nox -s real` installs", allow_module_level=True)

ATTEMPTS = 3


def end_java():
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session of two threads that tries a task up to three times. Its workers have this process's import path."""
    from pyspark.sql import SparkSession

    end_java()  # of an earlier test, which has another environment
    folder = tmp_path_factory.mktemp("spark")
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    tempdir_before, tempfile.tempdir = tempfile.tempdir, str(folder)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
    }
    builder = SparkSession.builder.master(f"local[2,{ATTEMPTS}]")
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    recstore.remote.spark.register(session)
    yield session
    tempfile.tempdir = tempdir_before
    session.stop()
    end_java()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def load(spark, url, **options):
    return spark.read.format("recstore").options(**options).load(str(url))


def save(frame, url, mode="overwrite", **options):
    frame.write.format("recstore").mode(mode).options(**options).save(str(url))


def test_round_trip(spark, tmp_path):
    """Tests a row of many Spark types, and reading with Spark's schema and with others."""
    when = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
    schema = (
        "id long, small int, score double, ok boolean, name string, blob binary, day date, at timestamp, "
        "local timestamp_ntz, price decimal(10,2), tags array<string>, at_place struct<x: int, y: string>, "
        "counts map<string,int>"
    )
    row = (1, 2, 0.5, True, "é", b"\0\1", when.date(), when, when, decimal.Decimal("12.50"), ["a", None], (1, "b"))
    frame = spark.createDataFrame([(*row, {"k": 3}), (2, *[None] * 12)], schema).coalesce(1)
    save(frame, tmp_path / "set")
    with recstore.open(tmp_path / "set") as x:
        first, second = x
    assert first["at"] == when.replace(tzinfo=datetime.timezone.utc) and first["local"] == when
    assert {**first, "at": None} == {
        **dict(zip(frame.columns, row)),
        "at": None,
        "at_place": {"x": 1, "y": "b"},
        "counts": [("k", 3)],
    }
    assert second == {**dict.fromkeys(frame.columns), "id": 2}
    back = load(spark, tmp_path / "set").first()
    assert (back.id, back.name, back.blob, back.at, back.at_place.y) == (1, "é", b"\0\1", when, "b")
    reader = spark.read.schema(frame.select("counts", "small", "id").schema).format("recstore")
    narrow = spark.read.schema("small int, id long, other string").format("recstore").load(str(tmp_path / "set"))
    assert [tuple(row) for row in narrow.collect()] == [(2, 1, None), (None, 2, None)]
    with pytest.raises(Exception, match="the field 'counts' of .* is .*, not "):
        reader.load(str(tmp_path / "set")).collect()


def test_partitions_appending_and_manifests(spark, tmp_path):
    url = tmp_path / "set"
    save(spark.range(0, 300, 1, 3), url)
    assert [part.records for part in shard_tables.parts(url)] == [100, 100, 100]
    with recstore.open(url) as x:
        assert x.field("id").to_numpy().tolist() == list(range(300))
    save(spark.range(300, 310, 1, 1), url, mode="append", shard_bytes="64MiB", compression="fast")
    read = load(spark, url)
    assert read.rdd.getNumPartitions() == 4
    assert sorted(row.id for row in read.collect()) == list(range(310))
    assert load(spark, f"{url}@1").count() == 300
    save(spark.range(1), url)
    assert load(spark, url).count() == 1 and load(spark, f"{url}@2").count() == 310
    save(spark.range(5).filter("id > 10"), tmp_path / "empty")
    assert shard_tables.parts(tmp_path / "empty") == []


def test_values_and_mappings(spark, tmp_path):
    shard_sets.write(tmp_path / "values", [[1, 2], [3]])
    assert [row.item for row in load(spark, tmp_path / "values").collect()] == [1, 2, 3]
    shard_sets.write(tmp_path / "mapping", [{"a": {"x": 1}}, {"b": {"x": 2}}])
    assert [(row.key, row.value.x) for row in load(spark, tmp_path / "mapping").collect()] == [("a", 1), ("b", 2)]


def test_a_field_that_only_a_later_file_has(spark, tmp_path):
    shard_sets.write(tmp_path / "set", [[{"a": 1}], [{"a": 2, "b": "x"}]])
    with pytest.raises(Exception, match="has the field 'b', which the first shard file lacks: give all fields with"):
        load(spark, tmp_path / "set").collect()
    frame = spark.read.schema("a long, b string").format("recstore").load(str(tmp_path / "set"))
    assert [tuple(row) for row in frame.collect()] == [(1, None), (2, "x")]


def test_only_the_chosen_fields_are_decoded(spark, tmp_path):
    """The other fields have no Arrow type."""
    url = tmp_path / "set"
    shard_sets.write(
        url, [[{"a": 1, "m": [1, {}], "s": "x"}, {"a": 2, "m": "y"}], [{"o": 1j, "c": 0.5}, {"a": 3, "o": 1}]]
    )
    with pytest.raises(
        Exception, match="the field 'm' holds values of several types.*: choose other fields with columns"
    ):
        load(spark, url)
    frame = spark.read.schema("a long, c double").format("recstore").load(str(url))
    assert [tuple(row) for row in frame.collect()] == [(1, None), (2, None), (None, 0.5), (3, None)]
    frame = load(spark, url, columns="s, a")
    assert frame.columns == ["a", "s"] and [row.a for row in frame.collect()] == [1, 2, None, 3]
    with pytest.raises(Exception, match="the first shard file lacks the field 'c' of the option columns"):
        load(spark, url, columns="a,c")
    shard_sets.write(tmp_path / "mapping", [{"a": [1, "x"], "b": 1j}])
    keys = load(spark, tmp_path / "mapping", columns="key")
    assert [tuple(row) for row in keys.collect()] == [("a",), ("b",)]
    shard_sets.write(tmp_path / "values", [[1, 2]])
    assert [row.item for row in load(spark, tmp_path / "values", columns="item").collect()] == [1, 2]
    other = spark.read.schema("other string").format("recstore")
    for kind in ("mapping", "values"):
        assert [tuple(row) for row in other.load(str(tmp_path / kind)).collect()] == [(None,), (None,)]


def test_errors(spark, tmp_path):
    shard_sets.write(tmp_path / "set", [[{"a": 1}]])
    for message, options in (
        (
            "reading the format recstore has no option 'shard_size': the options are path, columns, cache, limit and storage.NAME",
            {"shard_size": "1"},
        ),
        ("options are for object stores", {"storage.endpoint": "http://127.0.0.1:1"}),
    ):
        with pytest.raises(Exception, match=message):
            load(spark, tmp_path / "set", **options)
    with pytest.raises(Exception, match="no set of shards"):
        load(spark, tmp_path / "elsewhere")
    with pytest.raises(Exception, match="needs a URL or folder: give it to"):
        spark.read.format("recstore").load()
    with pytest.raises(Exception, match="writing the format recstore has no option 'cache'"):
        save(spark.range(1), tmp_path / "new", cache="x")
    assert not (tmp_path / "new").exists()


def test_a_failed_job_changes_nothing(spark, tmp_path):
    save(spark.range(3), tmp_path / "set")

    def fails(batches):
        yield next(batches)
        raise ValueError("a batch that cannot be made")

    with pytest.raises(Exception, match="a batch that cannot be made"):
        save(spark.range(0, 10, 1, 2).mapInArrow(fails, "id long"), tmp_path / "set", mode="append")
    assert load(spark, tmp_path / "set").count() == 3
    assert [path.name for path in (tmp_path / "set").glob("manifest-*")] == ["manifest-1.json"]


def test_a_killed_task_duplicates_nothing(spark, tmp_path):
    """The task is killed after it uploaded its shard files. Its rows contain the pid, so that two attempts
    write different files."""
    from real import doomed_spark_source

    def stamped(batches):
        import pyarrow

        for batch in batches:
            pid = pyarrow.array([os.getpid()] * len(batch))
            yield pyarrow.record_batch([batch.column(0), pid], names=["id", "pid"])

    spark.dataSource.register(doomed_spark_source.DoomedSource)
    (tmp_path / "markers").mkdir()
    frame = spark.range(0, 400, 1, 4).mapInArrow(stamped, "id long, pid long")
    frame.write.format("doomed").mode("append").option("markers", str(tmp_path / "markers")).save(str(tmp_path / "set"))
    markers = sorted(path.name.partition(" ")[0] for path in (tmp_path / "markers").iterdir())
    assert markers[0] == "killed" and "written" in markers
    parts = shard_tables.parts(tmp_path / "set")
    assert [part.records for part in parts] == [100] * 4
    assert sorted(row.id for row in load(spark, tmp_path / "set").collect()) == list(range(400))
    hashes = {path.stem for path in (tmp_path / "set").glob("*.recs")}
    assert {part.hash for part in parts} < hashes
