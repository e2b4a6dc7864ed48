"""recstore.remote.set.pool: local processes that write a source as shard files."""

import csv
import functools
import json
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import wait

import pytest
from mp import workers
from mp.sharers import FORK

import recstore
from recstore.remote.set import manifest, pool
from recstore.remote.set.writer import ShardWriter

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def children():
    """Returns the running processes that this test has started; an earlier test may have left some."""
    before = multiprocessing.active_children()
    return lambda: [process for process in multiprocessing.active_children() if process not in before]


def read(w):
    """All records of a set in a folder."""
    with recstore.open(w.url) as x:
        return x.to_list()


def jsonl(folder, files=4, n=500):
    for f in range(files):
        text = "".join(json.dumps({"id": f * n + i}) + "\n" for i in range(n))
        (folder / f"{f}.jsonl").write_text(text)
    return str(folder / "*.jsonl")


def test_a_pool_writes_in_order(tmp_path, children):
    w = ShardWriter(tmp_path / "set", shard_records=300)
    for i in range(3):
        with open(tmp_path / f"{i}.csv", "w", newline="") as file:
            csv.writer(file).writerows([["id"], *([1000 * i + j] for j in range(1000))])
    entries = pool.write(w, recstore.sources.csv(str(tmp_path / "*.csv")), 2)
    assert w.commit(entries) == 1 and read(w) == [{"id": i} for i in range(3000)]
    assert children() == []


@pytest.mark.parametrize("workers", [0, 1])
def test_without_processes(tmp_path, workers):
    w = ShardWriter(tmp_path / "set")
    entries = pool.write(w, recstore.sources.jsonl(jsonl(tmp_path)), workers)
    assert len(entries) == 1 and w.commit(entries) == 1 and len(read(w)) == 2000


def test_a_killed_worker(tmp_path, monkeypatch, children):
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "x.parquet", row_group_size=100)
    w = ShardWriter(tmp_path / "set")
    monkeypatch.setattr(pool, "_write", kill_self)
    with pytest.raises(recstore.errors.BuildError, match="was killed.*nothing was committed"):
        pool.write(w, recstore.sources.parquet(str(tmp_path / "x.parquet")), 2)
    assert manifest.newest(w.storage) == 0 and children() == []


def kill_self(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("option", ["nonesuch", "compression", "save"])
def test_unknown_options_of_a_source(tmp_path, option):
    with pytest.raises(TypeError, match=rf"jsonl\(\) got an unexpected keyword argument '{option}'"):
        recstore.sources.jsonl(jsonl(tmp_path), **{option: "none"})


def test_an_error_in_one_process_ends_another_in_the_middle_of_a_file(tmp_path, children):
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": range(40)}), tmp_path / "x.parquet", row_group_size=20)
    begun = tmp_path / "begun"
    where = functools.partial(workers.waits_or_fails, str(begun))
    with pytest.raises(ZeroDivisionError):
        pool.write(ShardWriter(tmp_path / "set"), recstore.sources.parquet(str(tmp_path / "*.parquet"), where=where), 2)
    assert begun.exists() and children() == []
    assert [path.name for path in (tmp_path / "set").rglob("*") if path.is_file()] == []


def test_an_error_ends_only_processes_of_the_pool(tmp_path, monkeypatch, children):
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": range(40)}), tmp_path / "x.parquet", row_group_size=20)
    (tmp_path / "file").write_text("")
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))

    def start_other(*arguments):
        if other.ident is None:
            other.start()
        return wait(*arguments)

    monkeypatch.setattr(pool, "wait", start_other)
    with pytest.raises(OSError):
        pool.write(ShardWriter(tmp_path / "file" / "set"), recstore.sources.parquet(str(tmp_path / "x.parquet")), 2)
    left = children()
    other.kill()
    other.join()
    assert left == [other]


class Ending:
    """A writer whose write gets a SIGTERM, or calls sys.exit."""

    def __init__(self, how):
        self.how = how

    def write(self, run):
        if self.how == "exits":
            sys.exit(3)
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit:
            if self.how == "raises":
                raise


def end_in_a_write(how):
    pool._take_signals()
    try:
        pool._write(Ending(how), [], False)
    except SystemExit as error:
        os._exit(error.code + 4)  # the pool would catch it
    os._exit(0)


@pytest.mark.parametrize("how, status", [("raises", 1), ("swallows", 1), ("exits", 7)])
def test_a_terminated_process_ends_with_its_write(how, status):
    process = FORK.Process(target=end_in_a_write, args=(how,))
    process.start()
    process.join()
    assert process.exitcode == status
