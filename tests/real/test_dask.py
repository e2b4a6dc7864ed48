"""Dask: bags and dataframes written as sets of shards and read back, with a worker that is killed."""

import os
import signal

import pytest
import shard_sets

import recstore
import recstore.remote.dask
from recstore.remote.engines import shard_tables

WHY = "needs the packages of `nox -s real`"
dask = pytest.importorskip("dask", reason=WHY)
bags = pytest.importorskip("dask.bag", reason=WHY)
frames = pytest.importorskip("dask.dataframe", reason=WHY)
pandas = pytest.importorskip("pandas")

RECORDS = [{"id": i, "name": f"n{i}", "tags": [i] if i % 2 else None} for i in range(60)]
to_shards, from_shards = recstore.remote.dask.to_shards, recstore.remote.dask.from_shards


@pytest.fixture(autouse=True)
def _in_this_process():
    """Computes bags here; by default Dask computes them in processes that import the main module."""
    with dask.config.set(scheduler="threads"):
        yield


def test_bags(tmp_path):
    url = tmp_path / "set"
    assert to_shards(bags.from_sequence(RECORDS, npartitions=4), url) == 1
    assert [part.records for part in shard_tables.parts(url)] == [15] * 4
    with recstore.open(url) as x:
        assert x.to_list() == RECORDS
    back = from_shards(url, bag=True)
    assert back.npartitions == 4 and back.compute() == RECORDS
    assert from_shards(url, bag=True, columns=["id"]).compute() == [{"id": i} for i in range(60)]
    whatever = [1, "x", {2, 3}, None, 4.5j]
    assert to_shards(bags.from_sequence(whatever, npartitions=2), url, append=True) == 2
    assert from_shards(url, bag=True).compute() == [*RECORDS, *whatever]
    assert from_shards(f"{url}@1", bag=True).count().compute() == 60


def test_dataframes(tmp_path):
    frame = pandas.DataFrame({"a": [1.5, None, 3.0], "b": ["x", "y", None], "n": [1, 2, 3]})
    expected = [{"a": 1.5, "b": "x", "n": 1}, {"a": None, "b": "y", "n": 2}, {"a": 3.0, "b": None, "n": 3}]
    to_shards(frames.from_pandas(frame, npartitions=2), tmp_path / "set")
    with recstore.open(tmp_path / "set") as x:
        assert x.to_list() == expected
    to_shards(frames.from_pandas(frame["n"], npartitions=2), tmp_path / "series")
    with recstore.open(tmp_path / "series") as x:
        assert x.to_list() == [1, 2, 3]
    assert from_shards(tmp_path / "series")["item"].sum().compute() == 6


def test_reading_dataframes(tmp_path):
    """All partitions have the same Arrow types: lists stay lists, ints with nulls stay ints."""
    shard_sets.write(tmp_path / "set", [RECORDS[:20], [{"id": None, "name": None, "tags": None}, *RECORDS[20:]]])
    frame = from_shards(tmp_path / "set")
    assert frame.npartitions == 2 and list(frame.columns) == ["id", "name", "tags"]
    whole = frame.compute()
    assert dict(whole.dtypes) == dict(frame.dtypes)
    assert whole.dtypes.astype(str).tolist() == ["int64[pyarrow]", "string[pyarrow]", "list<item: int64>[pyarrow]"]
    assert whole["id"].dropna().tolist() == list(range(60)) and list(whole["tags"].iloc[1]) == [1]
    assert frame["id"].sum().compute() == sum(range(60))
    names = from_shards(tmp_path / "set", columns=["name"])
    assert list(names.columns) == ["name"] and names["name"].count().compute() == 60


def test_a_field_that_only_a_later_file_has(tmp_path):
    shard_sets.write(tmp_path / "set", [[{"a": 1}], [{"a": 2, "b": "x"}], [{"a": "text"}]])
    frame = from_shards(tmp_path / "set")
    with pytest.raises(TypeError, match="has the field 'b', which the first shard file lacks: write all records with"):
        frame.partitions[1].compute()
    with pytest.raises(TypeError, match=r"the field 'a' of .*\.recs is string, not int64: .*bag=True"):
        frame.partitions[2].compute()
    assert from_shards(tmp_path / "set", bag=True).compute() == [{"a": 1}, {"a": 2, "b": "x"}, {"a": "text"}]


def test_mappings_and_empty_sets(tmp_path):
    pairs = [(f"k{i}", {"v": i}) for i in range(10)]
    to_shards(bags.from_sequence(pairs, npartitions=2), tmp_path / "mapping", mapping=True)
    with recstore.open(tmp_path / "mapping") as d:
        assert d["k7"] == {"v": 7} and dict(d) == dict(pairs)
    assert from_shards(tmp_path / "mapping", bag=True).compute() == pairs
    assert from_shards(tmp_path / "mapping")["key"].compute().tolist() == [key for key, _ in pairs]
    to_shards(bags.from_sequence([], npartitions=1), tmp_path / "empty")
    assert from_shards(tmp_path / "empty", bag=True).compute() == [] and len(from_shards(tmp_path / "empty")) == 0


def test_errors(tmp_path):
    for wrong in (RECORDS, pandas.DataFrame({"a": [1]}), dask.delayed(3)):
        with pytest.raises(TypeError, match="to_shards writes a bag or a dataframe of Dask, not a"):
            to_shards(wrong, tmp_path / "set")
    with pytest.raises(recstore.errors.SegmentNotFoundError, match="no set of shards"):
        from_shards(tmp_path / "set")

    def fails(record):
        if record["id"] == 40:
            raise ValueError("a record that cannot be made")
        return record

    bag = bags.from_sequence(RECORDS, npartitions=3)
    to_shards(bag, tmp_path / "set")
    with pytest.raises(ValueError, match="a record that cannot be made"):
        to_shards(bag.map(fails), tmp_path / "set", append=True)
    assert from_shards(tmp_path / "set", bag=True).compute() == RECORDS


def test_a_killed_worker_duplicates_nothing(tmp_path):
    """The worker is killed after it uploaded the shard file of one partition, while it works on another. Its report is
    lost, so that partition is written again. Records contain the pid, so the two attempts write different files."""
    distributed = pytest.importorskip("distributed", reason=WHY)
    folder, url = str(tmp_path), str(tmp_path / "set")

    def stamped(record):
        import glob

        if glob.glob(f"{folder}/set/*.recs"):
            try:
                with open(f"{folder}/killed", "x"):
                    os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass  # killed in an earlier attempt
        return {**record, "pid": os.getpid()}

    local = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=folder, silence_logs="CRITICAL"
    )
    with local as cluster, distributed.Client(cluster), dask.config.set(scheduler=None):
        to_shards(bags.from_sequence(RECORDS, npartitions=4).map(stamped), url)
    assert os.path.exists(f"{folder}/killed")
    with recstore.open(url) as x:
        assert [record["id"] for record in x] == list(range(60))
    parts = shard_tables.parts(url)
    assert [part.records for part in parts] == [15] * 4
    assert {part.hash for part in parts} < {path.stem for path in (tmp_path / "set").glob("*.recs")}
