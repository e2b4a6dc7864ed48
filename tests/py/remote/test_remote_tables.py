"""Shard files as Arrow tables: recstore.remote.engines.shard_tables without an engine. tests/real tests the engines."""

import glob
import os
import pickle
import signal
import tempfile

import pytest
import shard_sets

import recstore.remote
from recstore.errors import CorruptError, SegmentNotFoundError
from recstore.remote.engines import shard_tables
from recstore.remote.places import folder_store

pyarrow = pytest.importorskip("pyarrow")

PARTS = [shard_sets.records(30, 0), shard_sets.records(20, 30)]


@pytest.fixture
def url(tmp_path):
    shard_sets.write(tmp_path / "set", PARTS)
    return tmp_path / "set"


def rows(part):
    return [row for table in pickle.loads(pickle.dumps(part)).tables() for row in table.to_pylist()]


def test_a_part_for_each_shard_file(url):
    parts = shard_tables.parts(url)
    assert [part.records for part in parts] == [30, 20] and [rows(part) for part in parts] == PARTS
    assert shard_tables.first_schema(parts[:1]) == pyarrow.schema({"i": pyarrow.int64(), "text": pyarrow.string()})
    assert len(pickle.dumps(parts[0])) < 1000
    assert parts[0].where == str(url / f"{parts[0].hash}.recs") and parts[0].nbytes == os.path.getsize(parts[0].where)


def test_manifests_by_number(url):
    shard_sets.write(url, PARTS[:1])
    assert len(shard_tables.parts(url)) == 1 and len(shard_tables.parts(f"{url}@1")) == 2
    pytest.raises(SegmentNotFoundError, lambda: shard_tables.parts(f"{url}@3")).match("manifest")
    pytest.raises(SegmentNotFoundError, lambda: shard_tables.parts(url / "elsewhere")).match("no set of shards")
    pytest.raises(TypeError, lambda: shard_tables.parts(3)).match("not an int")


def test_columns(url):
    first, second = shard_tables.parts(url, columns=["text"])
    assert rows(first) == [{"text": record["text"]} for record in PARTS[0]]
    (wrong, _) = shard_tables.parts(url, columns=["text", "label"])
    with pytest.raises(ValueError, match=r"no record of .*\.recs has the field 'label': correct columns="):
        rows(wrong)
    for columns in ("text", [1]):
        with pytest.raises(TypeError, match="columns must be a list of field names"):
            shard_tables.parts(url, columns=columns)


def test_values_and_mappings(tmp_path):
    shard_sets.write(tmp_path / "values", [[1, 2, None], [3]])
    assert [rows(part) for part in shard_tables.parts(tmp_path / "values")] == [
        [{"item": 1}, {"item": 2}, {"item": None}],
        [{"item": 3}],
    ]
    shard_sets.write(tmp_path / "mapping", [{"a": {"x": 1}, "b": {"x": 2}}, {"c": {"x": 3}}])
    parts = shard_tables.parts(tmp_path / "mapping")
    assert [rows(part) for part in parts] == [
        [{"key": "a", "value": {"x": 1}}, {"key": "b", "value": {"x": 2}}],
        [{"key": "c", "value": {"x": 3}}],
    ]
    with pytest.raises(ValueError, match="is a mapping with the columns 'key' and 'value'"):
        shard_tables.parts(tmp_path / "mapping", columns=["x"])
    writer = recstore.remote.ShardWriter(tmp_path / "empty")
    writer.commit([])
    assert shard_tables.parts(tmp_path / "empty") == []
    assert shard_tables.first_schema([]) == pyarrow.schema([])


def test_a_field_without_an_arrow_type(tmp_path):
    shard_sets.write(tmp_path / "mixed", [[{"a": 1}, {"a": "x"}]])
    with pytest.raises(TypeError, match="'a'.* holds values of several types.*choose other fields with columns"):
        rows(*shard_tables.parts(tmp_path / "mixed"))
    records = [{"x.y": 1, "x": {"y": 1j}, "n": 0}, {"x.y": 2, "x": {"y": "a"}, "m": [None]}]
    shard_sets.write(tmp_path / "mixed", [records])
    (part,) = shard_tables.parts(tmp_path / "mixed")
    (table,) = part.tables(("m", "x.y", "z"))
    assert table.to_pylist() == [{"x.y": 1, "m": None}, {"x.y": 2, "m": [None]}]
    (table,) = part.tables(("z",))
    assert (table.num_rows, table.num_columns) == (2, 0)


@pytest.mark.parametrize(
    ("records", "types"),
    [
        ([{"a": 1, "b": [2, "x"], "c": None}, {"a": 2, "c": 3}], ["int64", "objects", "int64"]),
        ([{"a": "x" if i < 70_000 else "\ud800", "b": i} for i in range(70_001)], ["objects", "int64"]),
        ([{"a": "x", "c": 1}] * 65_536 + [{"a": "\ud800"}], ["objects", "null"]),
        ([{"a": 0.5}, {"a": 2**60 + 1}], ["objects"]),
        ([{"item": {"a": 1}}, {"item": 3}, {"item": 1j}], ["objects"]),
    ],
)
def test_columns_of_python_objects(tmp_path, records, types):
    """Fields that Arrow cannot hold, because of their types or of a single value, and records that are not all dicts."""
    stored = [record["item"] for record in records] if "item" in records[0] else records
    shard_sets.write(tmp_path / "set", [stored])
    (part,) = shard_tables.parts(tmp_path / "set")
    as_objects = pyarrow.large_binary()

    def objects(values):
        return pyarrow.array([pickle.dumps(value) for value in values], as_objects)

    tables = list(part.tables(objects=objects))
    assert ["objects" if kind == as_objects else str(kind) for kind in tables[-1].schema.types] == types
    back = [
        {name: pickle.loads(value) if type(value) is bytes else value for name, value in row.items()}
        for table in tables
        for row in table.to_pylist()
    ]
    assert back == [{**dict.fromkeys(records[0]), **record} for record in records]


def test_fitted():
    table = pyarrow.table({"a": [1, 2], "b": ["x", None]})
    schema = pyarrow.schema({"b": pyarrow.large_string(), "c": pyarrow.int8(), "a": pyarrow.float64()})

    def fitted(schema, extra=False):
        return shard_tables.fitted(pyarrow, table, schema, "file.recs", "say so", extra)

    assert fitted(schema).schema == schema
    assert fitted(schema).to_pylist() == [{"b": "x", "c": None, "a": 1.0}, {"b": None, "c": None, "a": 2.0}]
    only = pyarrow.schema({"a": pyarrow.int8()})
    assert fitted(only, extra=True).to_pylist() == [{"a": 1}, {"a": 2}]
    with pytest.raises(TypeError, match="file.recs has the field 'b', which the first shard file lacks: say so"):
        fitted(only)
    with pytest.raises(TypeError, match="the field 'b' of file.recs is string, not int64: .*; say so"):
        fitted(pyarrow.schema({"a": pyarrow.int64(), "b": pyarrow.int64()}))


# ---- In an object store ----


@pytest.fixture
def remote(server, tmp_path, monkeypatch):
    """The server with a set at `server.at`, and a separate folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    shard_sets.write(server.at, PARTS, server.options)
    server.reset_counts()
    return server


def require_fetched(server, *parts):
    """Asserts that exactly the shard files of these parts were fetched."""
    fetched = {path.rpartition("/")[2].removesuffix(".recs") for path in server.sent if path.endswith(".recs")}
    assert fetched == {part.hash for part in parts}


def test_a_task_only_fetches_its_shard_file(remote, tmp_path):
    parts = shard_tables.parts(remote.at, options=remote.options)
    assert parts[1].where == f"{remote.at}/{parts[1].hash}.recs"
    assert rows(parts[1]) == PARTS[1]
    require_fetched(remote, parts[1])
    tables = parts[0].tables()
    next(tables)
    assert os.listdir(tmp_path / "temporary") == []  # while the file is open
    tables.close()


def test_a_task_reads_from_the_cache_of_its_machine(remote, tmp_path):
    parts = shard_tables.parts(remote.at, options=remote.options, cache=tmp_path / "cache")
    assert rows(parts[1]) == PARTS[1]
    require_fetched(remote, parts[1])
    names = sorted(path.rpartition("/")[2] for _, path, _ in remote.log)
    (manifest,) = (name for name in names if name.startswith("manifest-"))
    assert names == sorted(["bucket", manifest, f"{parts[1].hash}.recs"])
    remote.refuse(100)
    assert rows(parts[1]) == PARTS[1] and remote.left() == 100  # without any request
    remote.heal()
    remote.reset_counts()
    assert rows(parts[0]) == PARTS[0]
    require_fetched(remote, parts[0])
    assert len(glob.glob(str(tmp_path / "cache/**/*.recs"), recursive=True)) == 2
    assert os.listdir(tmp_path / "temporary") == []


def test_the_limit_of_the_cache_of_a_task(remote, tmp_path):
    folder = tmp_path / "cache"
    sizes = [part.nbytes for part in shard_tables.parts(remote.at, options=remote.options)]
    parts = shard_tables.parts(remote.at, options=remote.options, cache=folder, limit=f"{max(sizes) + 100} B")
    assert [rows(part) for part in parts + parts] == PARTS + PARTS
    assert len(glob.glob(str(folder / "recstore/*.recs"))) == 1
    with pytest.raises(ValueError, match="give cache= too"):
        shard_tables.parts(remote.at, options=remote.options, limit="1 GB")
    with pytest.raises(ValueError, match="a size is"):
        shard_tables.parts(remote.at, options=remote.options, cache=folder, limit="much")


def test_a_killed_task_leaves_no_file(remote, tmp_path):
    (part, _) = shard_tables.parts(remote.at, options=remote.options)
    reading, writing = os.pipe()

    class Silent(folder_store.PosixStorage):
        def read_into(self, name, file):
            os.write(writing, b"x")
            signal.pause()

    part.place, pid = part.place._replace(storage=Silent(tmp_path / "elsewhere")), os.fork()
    part.place.storage.local = False
    if pid == 0:
        tables = part.tables()
        next(tables)
    assert os.read(reading, 1) == b"x"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert os.listdir(tmp_path / "temporary") == []
    os.close(reading)
    os.close(writing)


def test_a_damaged_download(remote, tmp_path):
    part, _ = shard_tables.parts(remote.at, options=remote.options)
    remote.flip(1, match=part.hash)
    assert rows(part) == PARTS[0]
    remote.flip(3, match=part.hash)
    with pytest.raises(CorruptError, match="does not match its name") as raised:
        rows(part)
    assert raised.value.filename == part.where and os.listdir(tmp_path / "temporary") == []
