"""Ray: datasets written as sets of shards and read back, on a cluster of several nodes, with a task that is killed."""

import collections
import fractions
import logging
import os
import pathlib
import signal
import sys
import tempfile
import time

import hypothesis
import hypothesis.strategies as st
import pytest
import shard_sets

import recstore
import recstore.remote.ray
from recstore.remote.engines import shard_tables

ray = pytest.importorskip("ray", reason="needs the packages of `nox -s real`")
ray_data = pytest.importorskip("ray.data")
np = pytest.importorskip("numpy")
pyarrow = pytest.importorskip("pyarrow")

NODES = 3


@pytest.fixture(scope="module")
def cluster():
    """A cluster of nodes, each with its own core and object memory. This process is connected to it."""
    from ray.cluster_utils import Cluster

    before = {name: os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_TMPDIR", "PYTHONPATH")}
    folder = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp")  # a socket's path has 107 characters at most
    os.environ.update(RAY_AUTH_MODE="disabled", RAY_TMPDIR=folder.name, PYTHONPATH=os.pathsep.join(sys.path))
    made = Cluster()
    try:
        for _ in range(NODES):
            made.add_node(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False)
        ray.init(address=made.address, logging_level="error", log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        folder.cleanup()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def numbers(n, blocks):
    """A dataset of `n` numbers in `blocks` blocks."""
    return ray.data.range(n, override_num_blocks=blocks)


def ids(records):
    return sorted(record["id"] for record in records)


def shard_files(folder):
    return sorted(path.stem for path in pathlib.Path(folder).glob("*.recs"))


def test_datasets_of_every_kind_of_block(cluster, tmp_path):
    """The blocks are Arrow tables, pandas frames, tensors of one shape or of several, and objects that Ray pickles."""
    url = str(tmp_path / "set")
    rows = [
        {"a": 1, "s": "x", "l": [0.5], "d": {"k": None, "n": 1}},
        {"a": None, "s": "é", "l": [], "d": {"k": b"\0", "n": 2}},
    ]
    sink = recstore.remote.ray.Datasink(url)
    ray.data.from_arrow(pyarrow.Table.from_pylist(rows)).write_datasink(sink)
    assert sink.number == 1
    with recstore.open(url) as x:
        assert x.to_list() == rows
    frame = ray.data.from_pandas(pyarrow.table({"a": [1, 2], "s": ["x", None]}).to_pandas())
    tensors = ray.data.from_numpy(np.arange(12).reshape(2, 3, 2))
    ragged = ray.data.from_items([{"t": np.zeros((1, 2))}, {"t": np.ones((2, 1))}])
    objects = ray.data.from_items([{"o": complex(1, 2)}, {"o": fractions.Fraction(1, 3)}])
    expected = [
        [{"a": 1, "s": "x"}, {"a": 2, "s": None}],
        [{"data": [[0, 1], [2, 3], [4, 5]]}, {"data": [[6, 7], [8, 9], [10, 11]]}],
        [{"t": {"data": [0.0, 0.0], "shape": [1, 2]}}, {"t": {"data": [1.0, 1.0], "shape": [2, 1]}}],
        [{"o": complex(1, 2)}, {"o": fractions.Fraction(1, 3)}],
    ]
    for dataset, records in zip((frame, tensors, ragged, objects), expected):
        dataset.repartition(1).write_datasink(recstore.remote.ray.Datasink(url))
        with recstore.open(url) as x:
            assert x.to_list() == records


def test_appending_and_the_order_of_tasks(cluster, tmp_path):
    url = str(tmp_path / "set")
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    try:
        numbers(600, 6).write_datasink(recstore.remote.ray.Datasink(url, task_bytes=None))
    finally:
        ray.data.DataContext.get_current().execution_options.preserve_order = False
    with recstore.open(url) as x:
        assert [record["id"] for record in x] == list(range(600))
    sink = recstore.remote.ray.Datasink(url, append=True, task_bytes=None, shard_records=40)
    numbers(100, 1).write_datasink(sink)
    assert sink.number == 2
    with recstore.open(url) as x, recstore.open(f"{url}@1") as before:
        assert (len(x), len(before)) == (700, 600)
    assert [part.records for part in shard_tables.parts(url)][-3:] == [40, 40, 20]


def test_small_blocks_become_one_file(cluster, tmp_path):
    numbers(1000, 8).write_datasink(recstore.remote.ray.Datasink(tmp_path / "set"))
    assert len(shard_tables.parts(tmp_path / "set")) == 1


def test_reading(cluster, tmp_path):
    url = str(tmp_path / "set")
    writer = recstore.remote.ShardWriter(url, shard_records=100)
    writer.commit([writer.write({"id": i, "name": f"n{i}", "box": [i, 1]} for i in range(250))])
    dataset = recstore.remote.ray.read(url)
    assert dataset.count() == 250 and dataset.sum("id") == sum(range(250))
    assert sorted(dataset.take_all(), key=lambda row: row["id"])[249] == {"id": 249, "name": "n249", "box": [249, 1]}
    blocks = recstore.remote.ray.read(url, override_num_blocks=3).materialize().to_arrow_refs()
    # Without override_num_blocks, Ray may split blocks for its cores.
    assert sorted(len(ray.get(block)) for block in blocks) == [50, 100, 100]
    id_column = recstore.remote.ray.read(url, columns=["id"], override_num_blocks=3)
    assert id_column.schema().names == ["id"] and ids(id_column.iter_rows()) == list(range(250))
    writer.commit([writer.write([{"id": 1}])])
    assert dataset.count() == 250 and recstore.remote.ray.read(url).count() == 1
    assert ids(recstore.remote.ray.read(f"{url}@1").iter_rows()) == list(range(250))


IRREGULAR = [
    {"a": 1, "d": {"x": 1}, "m": [1, "x"], "o": 1j, "n": None},
    {"a": "x", "d": {"y": [None]}, "m": {"q": {"r": 1}}, "o": fractions.Fraction(1, 3), "n": 1 << 70},
    {"a": None, "d": None, "m": b"", "o": {1: 2}, "n": 0.5},
]


def test_records_that_arrow_cannot_hold(cluster, tmp_path):
    """Only fields without an Arrow type come back as Python objects."""
    url = str(tmp_path / "set")
    written = ray.data.from_items([{"i": i, **IRREGULAR[i % 3]} for i in range(30)], override_num_blocks=3)
    written.write_datasink(recstore.remote.ray.Datasink(url, task_bytes=None))
    back = recstore.remote.ray.read(url)
    assert {row["i"]: row for row in back.iter_rows()} == {row["i"]: row for row in written.iter_rows()}
    assert back.schema().names == ["i", *IRREGULAR[0]]
    types = ray.get(back.to_arrow_refs()[0]).schema
    assert pyarrow.types.is_int64(types.field("i").type) and pyarrow.types.is_struct(types.field("d").type)
    shard_sets.write(url, [[{"a": 1}, {"a": 2}], [{"a": "x"}, {"a": 1j}], [{"a": None}, {"b": {1: 2}}], [{"a": 3}, 4]])
    assert sorted(recstore.remote.ray.read(url).take_all(), key=repr) == sorted(
        [{"a": 1}, {"a": 2}, {"a": "x"}, {"a": 1j}, {"a": None, "b": None}, {"a": None, "b": {1: 2}}]
        + [{"item": {"a": 3}}, {"item": 4}],
        key=repr,
    )
    shard_sets.write(url, [{"k": 1, "l": "x"}])
    assert recstore.remote.ray.read(url).take_all() == [{"key": "k", "value": 1}, {"key": "l", "value": "x"}]


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    plain | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=2)
    ),
    max_leaves=6,
)
rows_of_values = st.fixed_dictionaries({"i": st.integers(0, 9)}, optional={"a": values, "b": values})


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(rows_of_values, min_size=1, max_size=6))
def test_any_rows_come_back(cluster, rows):
    """Writes the block that Ray makes of some rows, and reads it as Ray's tasks do."""
    from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
    from ray.data.block import BlockAccessor

    from recstore.remote.engines import ray_tasks

    builder = DelegatingBlockBuilder()
    for row in rows:
        builder.add(row)
    block = builder.build()
    with tempfile.TemporaryDirectory() as folder:
        writer = recstore.remote.ShardWriter(folder)
        writer.commit([writer.write(run) for run in ray_tasks.runs([block])])
        tasks = ray_tasks.ShardSource(folder, None, None, None, None).get_read_tasks(1)
        tables = [BlockAccessor.for_block(table) for task in tasks for table in task()]
    assert [row for table in tables for row in table.iter_rows(True)] == [
        *BlockAccessor.for_block(block).iter_rows(True)
    ]


def test_errors(cluster, tmp_path):
    with pytest.raises(recstore.errors.SegmentNotFoundError, match="no set of shards"):
        recstore.remote.ray.read(tmp_path / "set")
    with pytest.raises(TypeError, match="shard_size"):
        recstore.remote.ray.Datasink(tmp_path / "set", shard_size=3)
    with pytest.raises(ValueError, match="a size is a number of bytes"):
        recstore.remote.ray.Datasink(tmp_path / "set", task_bytes="much")


def test_a_write_that_fails_changes_nothing(cluster, tmp_path):
    url = str(tmp_path / "set")
    numbers(10, 1).write_datasink(recstore.remote.ray.Datasink(url))

    def fails(row):
        if row["id"] == 17:
            raise ValueError("a row that cannot be made")
        return row

    with pytest.raises(Exception, match="a row that cannot be made"):
        numbers(20, 2).map(fails).write_datasink(recstore.remote.ray.Datasink(url, append=True, task_bytes=None))
    with recstore.open(url) as x:
        assert ids(x) == list(range(10))


def doomed_sink(url, notes, **options):
    """A sink that kills the first attempt of task 1 after it uploaded all its shard files, before it reports
    them. Its tasks wait until all nodes take part."""
    from recstore.remote.engines import ray_tasks

    class Doomed(ray_tasks.ShardSink):  # in a function, so that it travels by value: no worker can import this module
        def write(self, blocks, ctx):
            (notes / f"node-{ray.get_runtime_context().get_node_id()}").touch()
            end = time.monotonic() + 120
            while len(list(notes.glob("node-*"))) < NODES and time.monotonic() < end:
                time.sleep(0.02)
            written = super().write(blocks, ctx)
            if ctx.task_idx == 1:
                try:
                    (notes / "killed").touch(exist_ok=False)
                except FileExistsError:
                    (notes / "tried again").touch()
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
            return written

    return Doomed(url, False, None, options)


def test_a_killed_task_duplicates_nothing(cluster, tmp_path):
    """All nodes write. The files of the killed attempt differ from the second attempt's and are in no manifest."""
    url, notes = str(tmp_path / "set"), tmp_path / "notes"
    notes.mkdir()

    def stamped(row):  # adds the pid, so that two attempts write different files
        return {**row, "pid": os.getpid()}

    numbers(900, 9).map(stamped).write_datasink(doomed_sink(url, notes, shard_records=50))
    made = collections.Counter(path.name.partition("-")[0] for path in notes.iterdir())
    assert made == {"node": NODES, "killed": 1, "tried again": 1}
    parts = shard_tables.parts(url)
    with recstore.open(url) as x:
        assert ids(x) == list(range(900))
    assert {part.hash for part in parts} < set(shard_files(url))
    assert ids(recstore.remote.ray.read(url).iter_rows()) == list(range(900))


def test_tensors_with_nulls_and_slices():
    from recstore.remote.engines import ray_tasks

    flat = pyarrow.array([[1, 2, 3, 4], None, [5, 6, 7, 8], [9, 10, 11, 12]], pyarrow.list_(pyarrow.int32(), 4))
    tensors = pyarrow.ExtensionArray.from_storage(pyarrow.fixed_shape_tensor(pyarrow.int32(), (2, 2)), flat)
    nested = ray_tasks._nested(tensors)
    assert nested.to_pylist() == [[[1, 2], [3, 4]], None, [[5, 6], [7, 8]], [[9, 10], [11, 12]]]
    assert ray_tasks._nested(tensors[2:]).to_pylist() == nested.to_pylist()[2:]
    assert ray_tasks._nested(tensors[:0]).to_pylist() == []
