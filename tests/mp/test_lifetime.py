"""Sealed memory, killed processes, descriptors and zombies."""

import os
import pickle
import signal
import threading

import numpy as np
import pytest
from interpreters import unmaps_at_close
from mp import workers
from mp.workers import build, record, run_worker

import recstore
from recstore import RecordList
from recstore.shm import handles


def test_nobody_can_write(anonymous_only, context):
    x = build(100)
    assert workers.successful_writes(x) == []
    assert run_worker(context, workers.send_write_attempts, x) == []
    assert x.to_list() == [record(i) for i in range(100)]


def test_memory_opened_through_proc_is_read_only(anonymous_only, spawning, monkeypatch):
    monkeypatch.setattr(handles, "MAX_PASSED_FDS", 0)
    assert run_worker(spawning, workers.send_write_attempts, build(100)) == []


def test_memory_is_freed_with_the_last_killed_process(anonymous_only, python):
    holder = python(
        "import pickle; from mp.workers import build; x = build(1000)\n"
        "print(pickle.dumps(x).hex(), flush=True); input()",
        wait=False,
        RECSTORE_PICKLE="allow",
    )
    text = holder.stdout.readline().strip()
    reader = python(
        "import pickle, sys; x = pickle.loads(bytes.fromhex(sys.argv[1])); print(*x.segment.identity, flush=True)\n"
        "input(); print(x[-1]['id'], flush=True); input()",
        text,
        wait=False,
    )
    identity = tuple(map(int, reader.stdout.readline().split()))
    assert sorted(workers.holders(identity)) == sorted([holder.pid, reader.pid])
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    reader.stdin.write("\n")
    reader.stdin.flush()
    assert reader.stdout.readline().strip() == "999"  # the reader keeps it
    reader.send_signal(signal.SIGKILL)
    reader.wait()
    assert workers.holders(identity) == []
    assert "detached" in repr(pickle.loads(bytes.fromhex(text)))


def test_descriptors_are_closed(python):
    code = """
import gc, os, pickle
from mp.workers import build
from recstore.shm import handles, pins
build(3).close()
def count():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
before = count()
for i in range(50):
    x = build(10)
    y = pickle.loads(pickle.dumps(x[2:]))
    if i % 2:
        x.close()
    del x, y
    try:
        build_failed = __import__("recstore").RecordList([1, object()])
    except TypeError:
        pass
pins.clear()
print(before, count())
"""
    before, after = python(code, RECSTORE_PICKLE="allow").split()
    assert before == after


def test_an_iterable_that_raises_leaves_nothing():
    def broken():
        yield from range(10000)
        raise KeyError("mine")

    before = workers.segment_fds()
    pytest.raises(KeyError, lambda: recstore.RecordList(broken())).match("mine")
    assert workers.segment_fds() == before


def test_children_are_reaped(context):
    x = build(10)
    for _ in range(3):
        run_worker(context, workers.send_summary, x)
    me = str(os.getpid())
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                fields = f.read().rpartition(b") ")[2].split()
        except OSError:
            continue
        assert not (fields[1].decode() == me and fields[0] == b"Z")


@unmaps_at_close
def test_a_forked_child_forgets_calls_of_other_threads():
    x = RecordList([[np.arange(9.0)] * 5] * 100)
    inode = f" {x.segment.identity[1]} "
    stop = threading.Event()

    def read():
        while not stop.is_set():
            x[3]

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                x.close()
                with open("/proc/self/maps") as maps:
                    os._exit(7 if any(inode in line for line in maps) else 0)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        reader.join()
        x.close()
