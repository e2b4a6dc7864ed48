"""Sealed memory, killed processes, descriptors and zombies."""

import os
import pickle
import threading

import numpy as np
from interpreters import unmaps_at_close
from mp import workers
from mp.workers import build, record, run_worker

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


def test_memory_is_freed_with_the_last_killed_process(anonymous_only, holder, python, monkeypatch):
    """The memory of the records, and of the index array of a view."""
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    first, handle = holder("build(1000)[[3, 1, 999]]")
    reader = python(
        "import pickle, sys; x = pickle.loads(bytes.fromhex(sys.argv[1])); (blob,) = x.selection.blobs()\n"
        "print(*x.segment.identity, *blob.identity, flush=True); input(); print(x[-1]['id'], flush=True); input()",
        handle.hex(),
        wait=False,
    )
    numbers = list(map(int, reader.stdout.readline().split()))
    identities = tuple(numbers[:2]), tuple(numbers[2:])
    for identity in identities:
        assert sorted(workers.holders(identity)) == sorted([first.pid, reader.pid])
    first.kill()
    first.wait()
    reader.stdin.write("\n")
    reader.stdin.flush()
    assert reader.stdout.readline().strip() == "999"  # the reader keeps it
    reader.kill()
    reader.wait()
    assert [workers.holders(identity) for identity in identities] == [[], []]
    view = pickle.loads(handle)
    assert "detached" in repr(view) and len(view) == 3 and "has ended" in repr(view)


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
