"""Nothing leaks and nothing crashes: repeated builds and reads, and threads that verify and save during a close."""

import gc
import mmap
import os
import sys
import threading

import descriptors
import interpreters
import numpy as np
import pytest
from leaks import operations, watch
from leaks.attaching import Attaching

import recstore
from recstore import RecordList

DAMAGED = (recstore.errors.CorruptError, recstore.errors.VersionError)
linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
RECORDS = [{"id": i, "s": "é€"[i % 2] * (i % 5), "f": [i / 3] * (i % 4), "n": None if i % 3 else 2**70, "b": b"x",
            "a": np.arange(i % 400), "t": (True, -i)} for i in range(200)]  # fmt: skip


def counts():
    with open("/proc/self/maps") as f:
        maps = sum("memfd" in line or ".rec" in line for line in f)
    return descriptors.count(), maps


def work(path):
    x = RecordList(RECORDS)
    x.get_many([1, 2, 500], default=None)
    x[3:100:7].to_list()
    x.save(path)
    iterator = iter(x)
    next(iterator)
    with recstore.open(path, verify="full", copy=True) as y:
        y.to_list()
    for error, bad in ((IndexError, lambda: x[999]), (TypeError, lambda: RecordList([{"a": [1, {2}, len]}]))):
        try:
            bad()
        except error:
            pass
    x.close()
    try:
        next(iterator)
    except recstore.errors.ClosedError:
        pass
    RecordList(RECORDS[:10])[2:]  # dropped without close


@interpreters.counts_references
@linux
def test_nothing_leaks(tmp_path):
    gc.collect()
    before = counts()
    assert watch.growth(lambda: work(tmp_path / "x"), 20) == {}
    # The counts may be lower if garbage of earlier tests is gone now.
    assert all(now <= was for now, was in zip(counts(), before))


def test_damaged_records_leak_nothing(tmp_path):
    from ref import writer as w

    raws = [
        b"\x0d\x03\x91\x0d\x01\x92",
        b"\x0f\x02\x09\x01a\x0d\x00\x09\x01a\x0d\x00",
        b"\x0f\x01\x0d\x00\x00",
        b"\x0e\x02\x0c\x01x\x7f",
    ]
    (tmp_path / "x").write_bytes(w.segment([w.Block(raws)], [w.any_()]))

    def read():
        with recstore.open(tmp_path / "x") as x:
            for i in range(4):
                pytest.raises(DAMAGED, lambda: x[i]).match(f"^record {i}: ")

    for _ in range(3):
        read()
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(50):
        read()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 60


def test_reference_counts_of_shared_keys_and_constants():
    """All records share keys and immutable constants: decoding must neither lose nor gain references."""
    with RecordList([{"a key": i, "b": "constant text", "c": (1, 2), "d": 1.5} for i in range(100)]) as x:
        record = x[0]
        key, text = next(iter(record)), record["b"]
        before = sys.getrefcount(key), sys.getrefcount(text)
        for _ in range(1000):
            x[7]
        assert (sys.getrefcount(key), sys.getrefcount(text)) == before
    with RecordList([[None, i] for i in range(100)]) as x:
        none = sys.getrefcount(None)
        for _ in range(5000):
            x[7]
        assert abs(sys.getrefcount(None) - none) < 100


def test_close_while_verifying_and_saving(tmp_path):
    """A close waits for calls that run without the GIL."""
    x = RecordList({"i": i, "s": "x" * 50} for i in range(100_000))
    results = []

    def use(call):
        try:
            call()
            results.append("done")
        except recstore.errors.ClosedError:
            results.append("closed")

    threads = [threading.Thread(target=use, args=(call,)) for call in
               [x.segment.verify, lambda: x.save(tmp_path / "a"), x.segment.verify, lambda: x.save(tmp_path / "b")]]  # fmt: skip
    for thread in threads:
        thread.start()
    x.close()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and set(results) <= {"done", "closed"}
    for name in "ab":
        if (tmp_path / name).exists():
            with recstore.open(tmp_path / name, verify="full") as y:
                assert len(y) == 100_000


@pytest.mark.skipif(sys.platform != "linux", reason="memfd seals need Linux")
def test_the_memory_is_sealed():
    with RecordList([1], backing="anonymous") as x:
        assert x.segment.sealed
        fd = x.segment.fileno()
        pytest.raises(OSError, lambda: os.write(fd, b"x"))
        pytest.raises(OSError, lambda: os.ftruncate(fd, 0))
        assert not os.get_inheritable(fd)


@linux
@interpreters.measures_memory
def test_the_leak_check_finds_leaks_and_no_others(tmp_path):
    """`nox -s leaks` runs the operations many times; this tests its counters."""
    kept, files = [], []
    assert watch.growth(lambda: None, watch.FEWEST_CYCLES) == {}
    assert "references" in watch.growth(lambda: kept.append([]), watch.FEWEST_CYCLES)
    assert "descriptors" in watch.growth(lambda: files.append(os.dup(0)), 1)
    for descriptor in files:
        os.close(descriptor)
    stores = []
    assert "mappings" in watch.growth(lambda: stores.append(RecordList([1])), 1)
    blocks = []

    def grow():
        blocks.append(mmap.mmap(-1, 2 * watch.RSS_SLACK_BYTES))  # larger than an allocator's free space
        blocks[-1].write(bytes(2 * watch.RSS_SLACK_BYTES))

    assert "rss bytes" in watch.growth(grow, 1)


@linux
def test_operations_of_the_leak_check_run(tmp_path):
    for _, run in operations.prepared(tmp_path):
        run()


@linux
def test_attaching_reading_and_closing_gains_nothing(tmp_path):
    folder = tmp_path / f"{watch.MARK}cycles"
    folder.mkdir()
    with Attaching(folder) as attaching:
        for kind, cycle in attaching.cycle.items():
            assert watch.growth(lambda cycle=cycle: cycle(5), 2 * watch.FEWEST_CYCLES) == {}, kind
