"""recstore.remote.set.writer and shard_files: races, kills, failing stores and full disks."""

import errno
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
from waiting import together, until

import recstore
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import collecting, manifest, shard_files
from recstore.remote.set.writer import ShardWriter

# ---- Several writers ----


def writes(url, options, which, parts, barrier):
    w = ShardWriter(url, options=options, shard_records=3)
    entries = [w.write(range(1000 * which + 10 * i, 1000 * which + 10 * i + 10)) for i in range(parts)]
    barrier.wait()
    for entry in entries:
        w.commit(entry, append=True)


def check_every_record_once(storage, writers, parts):
    """Each manifest adds files to the previous one, and the last one has every record once."""
    hashes, records = [], []
    for number in range(1, writers * parts + 1):
        contents = manifest.load(storage, number)
        assert contents.length == 10 * number and contents.hashes[: len(hashes)] == hashes
        hashes = contents.hashes
    assert manifest.newest(storage) == contents.number
    for name in hashes:
        copy = os.path.join(os.getcwd(), f"{name}.recs")
        with open(copy, "wb") as file:
            storage.read_into(f"{name}.recs", file)
        with recstore.open(copy) as part:
            records += part.to_list()
    assert sorted(records) == [1000 * w + i for w in range(writers) for i in range(10 * parts)]


@pytest.mark.parametrize("kind", ["folder", "s3"])
@pytest.mark.parametrize("workers_are", ["threads", "forked"])
def test_concurrent_writers(server, tmp_path, monkeypatch, kind, workers_are):
    monkeypatch.chdir(tmp_path)
    url, options = (str(tmp_path / "set"), None) if kind == "folder" else (server.at, server.options)
    storage_of(url, options).size("a")  # makes clients, which forked processes must not use
    if workers_are == "threads":
        barrier, make = threading.Barrier(3), threading.Thread
    else:
        context = multiprocessing.get_context("fork")
        barrier, make = context.Barrier(3), context.Process
    workers = [make(target=writes, args=(url, options, i, 3, barrier)) for i in range(3)]
    together(workers)
    assert workers_are == "threads" or [worker.exitcode for worker in workers] == [0] * 3
    check_every_record_once(storage_of(url, options), 3, 3)


KILLED_WRITER = """
import datetime, itertools, sys
from recstore.remote.set.writer import ShardWriter
w = ShardWriter(sys.argv[1], options=eval(sys.argv[2]), shard_records=100, dir=sys.argv[3])
print("begun", flush=True)
w.write(itertools.count())
"""


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_gc_removes_all_files_of_a_killed_writer(server, tmp_path, kind):
    url, options = (str(tmp_path / "set"), None) if kind == "folder" else (server.at, server.options)
    w = ShardWriter(url, options=options)
    w.commit(w.write([1, 2, 3]))
    (tmp_path / "temporary").mkdir()
    for pause in (0.0, 0.01, 0.05):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, url, repr(options), str(tmp_path / "temporary")],
            stdout=subprocess.PIPE,
        )
        assert process.stdout.readline() == b"begun\n"
        before = len(list(w.storage.list()))
        while len(list(w.storage.list())) < before + 3:
            assert process.poll() is None
        time.sleep(pause)  # for a different moment each time
        process.kill()
        process.wait()
        process.stdout.close()
        assert os.listdir(tmp_path / "temporary") == []
    assert len(list(w.storage.list())) > 9
    left = sorted([f"{manifest.load(w.storage, 1).hashes[0]}.recs", "manifest-1.json"])

    def has_collected_all():
        collecting.gc(url, days=0, options=options)
        return sorted(name for name, *_ in w.storage.list()) == left

    until(has_collected_all)  # the server may still be writing the last object of a killed writer
    assert list(w.storage.leftovers()) == [] and w.commit(w.write([4]), append=True) == 2


# ---- Failures ----


@pytest.mark.parametrize("fault", ["refuse", "deny"])
def test_a_store_that_fails_in_the_middle(server, fault):
    w = ShardWriter(server.at, options=server.options | {"patience": 0.02}, shard_records=10)
    w.commit(w.write([1]))
    before = {name for name, *_ in w.storage.list()}

    def records():
        for i in range(200):
            if i == 100:
                getattr(server, fault)(10_000)
            yield i

    caught = pytest.raises(recstore.errors.RemoteError, lambda: w.write(records()))
    assert caught.value.url.startswith(server.at + "/") and caught.value.url.endswith(".recs")
    server.heal()
    assert manifest.newest(w.storage) == 1
    collecting.gc(server.at, days=0, options=server.options)
    assert {name for name, *_ in w.storage.list()} == before


def test_a_full_local_disk(server, tmp_path):
    """A limit on file sizes simulates a full disk."""
    w = ShardWriter(server.at, options=server.options, dir=tmp_path, compression="none")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, before[1]))
    try:
        caught = pytest.raises(OSError, lambda: w.write(os.urandom(1000) for _ in range(20_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno in (errno.EFBIG, errno.ENOSPC)
    assert os.listdir(tmp_path) == [] and list(w.storage.list()) == []


def test_the_error_of_a_full_disk_has_the_folder(server, tmp_path, monkeypatch):
    def full(*_, **__):
        raise recstore.errors.OutOfSpaceError(errno.ENOSPC, "no room on the file system", None)

    monkeypatch.setattr(shard_files, "new_builder", full)
    with pytest.raises(recstore.errors.OutOfSpaceError, match="choose another folder, or make room") as caught:
        ShardWriter(server.at, options=server.options, dir=tmp_path).write([1])
    assert str(tmp_path) in str(caught.value)


def test_a_missing_folder_for_temporary_files(server, tmp_path):
    with pytest.raises(FileNotFoundError):
        ShardWriter(server.at, options=server.options, dir=tmp_path / "none").write([1])


def test_descriptors_are_closed(server, tmp_path):
    import descriptors

    for _ in range(2):
        before = descriptors.count()
        for url, options in ((tmp_path, None), (server.at, server.options)):
            w = ShardWriter(url, options=options, shard_records=10)
            w.write(range(100))
            with pytest.raises(ZeroDivisionError):
                w.write(1 // (50 - i) for i in range(100))
    descriptors.wait_for(before)
