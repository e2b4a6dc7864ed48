"""A cache that several processes fill and read: their start methods and their ends at any moment."""

import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
import waiting
from mp import cache_workers, sharers, workers
from mp.cache_workers import N, is_value, opened, value
from waiting import in_child, until

from recstore.errors import WaitTimeoutError
from recstore.shm import named_segments

FORK = multiprocessing.get_context("fork")
FULL = os.environ.get("RECSTORE_STORM") == "full"


def start_process(context, target, *arguments):
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def join_and_check(*processes, status=0):
    for process in processes:
        process.join(waiting.LIMIT_S)
        assert process.exitcode == status
        process.close()


# ---- One cache for all ----


@pytest.mark.parametrize("limit", ["1MB", "64MB"])
def test_workers_fill_one_cache(context, name, limit):
    with opened(name, limit=limit) as cache:
        join_and_check(*[start_process(context, cache_workers.fill, cache, i % 2, 1) for i in range(3)])
        kept = list(cache)
        assert all(is_value(key, cache.get(key)) for key in kept)
        assert len(kept) == N if limit == "64MB" else 0 < len(kept) < N
        uses = cache.info().processes
        assert sum(use.stored for use in uses) == len(kept) and not any(use.is_running for use in uses if use.stored)
        assert sharers.files_of(name) == [os.path.basename(cache._file.path)]
    sharers.wait_until_gone(name)


def test_workers_seal_at_once(context, name):
    """All have the same store, also by a handle that travels from worker to worker."""
    with opened(name, slots=N) as cache:
        cache.warm(range(N), value)
        with context.Pool(3) as pool:
            stores = pool.map(cache_workers.seal_and_read, [cache] * 6)
            assert len({store.segments[0].id for store in stores}) == 1
            assert pool.map(len, stores) == [N] * 6
        pool.join()
        assert is_value(7, stores[0][7])
        for store in stores:
            store.close()
    sharers.wait_until_gone(name)


MAIN = """
import dataclasses, enum, multiprocessing, sys
import recstore

@recstore.register
@dataclasses.dataclass
class Point:
    x: int

@recstore.register
class Color(enum.Enum):
    RED = 1

def fill(cache):
    cache.put(Color.RED, Point(1))

if __name__ == "__main__":
    with recstore.cache(sys.argv[1], limit="1MB") as cache:
        child = multiprocessing.get_context("spawn").Process(target=fill, args=(cache,))
        child.start()
        child.join()
        assert cache.get(Color.RED) == Point(1) and list(cache) == [Color.RED]
"""


def test_a_spawned_child_stores_classes_of_the_main_program(tmp_path, name):
    (tmp_path / "main.py").write_text(MAIN)
    subprocess.run([sys.executable, tmp_path / "main.py", name], check=True)


@pytest.mark.slow
def test_sixty_four_processes_open_a_cache_of_many_slots(name):
    """The processes do not allocate the cache's whole table."""
    slots = 10**8

    def use(i):
        with opened(name, slots=slots, limit="20GB") as cache:  # room for a value in each slot
            cache.put(i * (slots // 64), i)
            barrier.wait(waiting.LIMIT_S)
            found = cache.get_many(range(0, slots, slots // 64)[:64])
            results.put((found, cache.info().table_bytes))

    barrier, results = FORK.Barrier(64), FORK.Queue()
    processes = [start_process(FORK, use, i) for i in range(64)]
    found = [results.get(timeout=waiting.LIMIT_S) for _ in processes]
    join_and_check(*processes)
    assert {tuple(values) for values, _ in found} == {tuple(range(64))}
    assert max(table for _, table in found) < 64 * (256 << 10)


# ---- Life ----


def test_it_goes_with_its_last_user(alone, name):
    cache = opened(name)
    ready = FORK.Event()
    process = start_process(FORK, cache_workers.stays, name, ready)
    assert ready.wait(waiting.LIMIT_S)
    cache.close()
    with opened(name) as again:
        assert again.get("stays") == 1
    process.kill()
    join_and_check(process, status=-signal.SIGKILL)
    assert len(sharers.files_of(name)) == 1, "nothing runs after SIGKILL"
    with opened(name) as again:
        assert len(again) == 0
    sharers.collect_all(name)


EXITS = {
    "the end of the program": "",
    "sys.exit": "sys.exit(0)",
    "a view": "view = cache.get('a')",
    "a cycle": "cycle = [cache]; cycle.append(cycle)",
    "an object that is never deleted": "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(cache))",
    "a child of multiprocessing is the last": "import multiprocessing as mp\n"
    "child = mp.get_context('fork').Process(target=time.sleep, args=(1,))\nchild.start(); mp.process._children.clear(); os._exit(0)",
}


@pytest.mark.parametrize("way", EXITS)
def test_it_goes_at_the_exit_of_a_program(python, name, way):
    code = "import multiprocessing.util, os, sys, time, numpy as np\nfrom mp.cache_workers import opened\n"
    code += "cache = opened(sys.argv[1], arrays='view')\ncache.put('a', np.zeros(5000))\n"
    python(code + EXITS[way], name)
    until(lambda: sharers.files_of(name) == [])


def test_it_is_kept_for_a_while(name):
    with opened(name, keep="1h") as cache:
        cache.put("a", 1)
    assert sharers.files_after_collecting(name) != []
    for hours_ago in (-2, 2):  # a time in the future comes from a clock that was set back
        with opened(name, keep="1h") as cache:
            assert cache.get("a") == 1
        os.utime(cache._file.path, (0, time.time() - hours_ago * 3600))
        sharers.collect_all(name)
        with opened(name, keep="1h") as cache:
            assert cache.put("a", 1)
    os.unlink(cache._file.path)


# ---- Kills and stops ----


def killed_at_random(name, kills, target, *arguments, count=4):
    chance, running = random.Random(7), []
    try:
        for seed in range(kills + count):
            running.append(start_process(FORK, target, name, *arguments, seed))
            if seed >= count:
                time.sleep(chance.random() * 0.02)
                victim = running.pop(chance.randrange(count))
                victim.kill()
                join_and_check(victim, status=-signal.SIGKILL)
    except BaseException:
        sharers.kill(running)
        raise
    return running


@pytest.mark.parametrize("kills", [20, pytest.param(2000 if FULL else 100, marks=pytest.mark.slow)])
def test_writers_are_killed_at_any_moment(name, kills, log):
    """No value is torn, and at most 1 % of the space plus 400 kB is lost."""
    with opened(name) as cache:
        sharers.kill(killed_at_random(name, kills, cache_workers.storm, {}, log))
        assert sharers.notes(log) == []
        cache_workers.fill(opened(name), 0, 1)
        assert sorted(cache) == list(range(N)) and all(is_value(key, cache.get(key)) for key in range(N))
        with opened(f"{name} once") as once:
            for key in range(N):
                once.put(key, value(key))
            needed = once.info().nbytes
        assert needed <= cache.info().nbytes <= needed * 1.01 + 400_000


def test_all_are_killed_and_a_folder_is_back(name, tmp_path, log):
    for _ in range(3):
        sharers.kill(killed_at_random(name, 3, cache_workers.storm, {"dir": tmp_path}, log))
    assert sharers.files_after_collecting(name, tmp_path) != []
    with opened(name, dir=tmp_path) as cache:
        assert len(cache) > 0 and all(is_value(key, cache.get(key)) for key in cache)
        cache_workers.fill(opened(name, dir=tmp_path), 0, 1)
        assert len(cache) == N
    os.unlink(cache._file.path)
    assert sharers.notes(log) == []


@pytest.mark.slow
def test_the_space_of_large_values_is_used_again(name):
    """Writers are killed in the middle of values of 40 MiB; the file has no more pages than the writers need."""
    with opened(name, limit="400MiB") as cache:
        sharers.kill(killed_at_random(name, 60, cache_workers.storm_of_large))
        pages = os.stat(cache._file.path).st_blocks * 512
        assert pages < cache.info().nbytes + 8 * (48 << 20)


def test_the_space_of_a_lost_large_value_is_used_again(name):
    with opened(name, limit="256MiB") as cache:
        large = bytes(20 << 20)
        cache.put("a", large)
        for _ in range(5):
            assert cache.put("a", large) is False
        assert cache.put("b", large)
        assert os.stat(cache._file.path).st_blocks * 512 < 3 * (32 << 20)


def test_a_stopped_writer_blocks_nobody(name):
    with opened(name) as cache:
        stopped = start_process(FORK, cache_workers.stopped_while_writing, name)
        until(lambda: "stopped" in cache)
        try:
            until(lambda: pathlib.Path(f"/proc/{stopped.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
            for key in range(50):
                assert cache.put(key, value(key))
            join_and_check(start_process(FORK, cache_workers.fill, opened(name), 0, 1))
            assert len(cache) == N + 1
        finally:
            sharers.kill([stopped])


def test_the_error_for_a_locked_file_shows_how_to_find_the_process(name, monkeypatch):
    """Testing whether a file is in use locks it for microseconds. If a process is stopped then, others raise an error
    with a command that finds it."""
    import fcntl

    monkeypatch.setattr(named_segments, "PATIENCE", 0.1)
    with opened(name, keep="1h") as cache:
        path = cache._file.path
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(WaitTimeoutError, match="fuser -v"):
            opened(name)
    os.unlink(path)


# ---- Forks, threads, interrupts ----


def test_make_may_fork_and_exit(name):
    with opened(name) as cache:

        def make():
            pid = os.fork()
            if pid == 0:
                os._exit(cache.put("of the child", 1))
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        assert cache.get_or_make("a", make) == 1 and cache.get("of the child") == 1
        with pytest.raises(SystemExit):
            cache.get_or_make("b", lambda: exit(3))
        assert "b" not in cache


def test_a_fork_while_other_threads_write(name):
    """The child has neither the calls nor the space of the other threads."""
    stop = threading.Event()

    def write(seed):
        i = 0
        while not stop.is_set():
            cache.put((seed, i % 500), bytes(5000))
            i += 1

    cache = opened(name)
    before = workers.mappings()
    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(8):

            def use(i=i):
                stored = cache.put(("child", i), i), cache.get(("child", i))
                cache.close()
                return *stored, workers.mappings()

            assert in_child(use) == (True, i, before - 2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(cache.get(key) in (bytes(5000), key[1]) for key in cache)
    cache.close()
    sharers.wait_until_gone(name)


def test_threads_write_at_once(name):
    with opened(name) as cache:
        crew = [threading.Thread(target=cache_workers.fill, args=(opened(name), 0, 1)) for _ in range(2)]
        crew += [threading.Thread(target=lambda: [cache.get_or_make(k, value, k) for k in range(N)]) for _ in range(4)]
        waiting.together(crew)
        assert len(cache) == N and all(is_value(key, cache.get(key)) for key in range(N))


INTERRUPTED = """
import gc, random, signal, sys
import numpy as np
from mp import sharers, workers
from mp.cache_workers import opened

def interrupted(*_):
    if armed:
        raise KeyboardInterrupt

opened(sys.argv[1]).close()
before = workers.segment_fds()
signal.signal(signal.SIGALRM, interrupted)
chance = random.Random(3)
for _ in range(200):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.random() * 0.003 + 1e-5)
        with opened(sys.argv[1], limit="1MB") as cache:
            for i in range(20):
                cache.put(("a", i), [i, np.arange(i)])
                cache.get_many([("a", i)])
                cache.get_or_make(("b", i), dict)
        armed = False  # an alarm after the block interrupts nothing
    except KeyboardInterrupt:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
cache = None
gc.collect()
print(sharers.files_of(sys.argv[1]), workers.segment_fds() == before)
"""


def test_interrupts_leave_nothing(alone, python, name):
    """The test runs in a process of its own, because pytest keeps exceptions that are raised in a destructor, and their
    frames."""
    assert python(INTERRUPTED, name).split() == ["[]", "True"]
