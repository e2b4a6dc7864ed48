"""A cache that several processes fill and read: their start methods, their ends at any moment, full and damaged files."""

import gc
import multiprocessing
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import uuid

import launching
import numpy as np
import pytest
import waiting
from mp import cache_workers, mounts, sharers, workers
from mp.cache_workers import N, is_value, opened, value
from mp.memory_group import group  # noqa: F401
from waiting import in_child, until

import recstore
from recstore.errors import CorruptError, Error, WaitTimeoutError
from recstore.shm import named_caches, named_segments

FORK = multiprocessing.get_context("fork")
FULL = os.environ.get("RECSTORE_STORM") == "full"


def started(context, target, *arguments):
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def ended(*processes, status=0):
    for process in processes:
        process.join(waiting.LIMIT_S)
        assert process.exitcode == status
        process.close()


# ---- One cache for all ----


@pytest.mark.parametrize("limit", ["1MB", "64MB"])
def test_workers_fill_one_cache(context, name, limit):
    with opened(name, limit=limit) as cache:
        ended(*[started(context, cache_workers.fill, cache, i % 2, 1) for i in range(3)])
        kept = list(cache)
        assert all(is_value(key, cache.get(key)) for key in kept)
        assert len(kept) == N if limit == "64MB" else 0 < len(kept) < N
        uses = cache.info().processes
        assert sum(use.stored for use in uses) == len(kept) and not any(use.is_running for use in uses if use.stored)
        assert sharers.left(name) == [os.path.basename(cache._file.path)]
    assert sharers.left(name) == []


PROGRAM = """
import sys
from mp.cache_workers import fill, opened
with opened(sys.argv[1]) as cache:
    cache.put("from", sys.argv[2])
    print(cache.get("from"), flush=True)
    sys.stdin.readline()
"""


def test_independent_programs_share_it(python, name):
    first = python(PROGRAM, name, "first", wait=False)
    assert first.stdout.readline() == "first\n"
    second = python(PROGRAM, name, "second", wait=False)
    assert second.stdout.readline() == "first\n"
    first.communicate("\n")
    with opened(name) as cache:
        assert cache.get("from") == "first"
        second.communicate("\n")
        assert cache.get("from") == "first" and len(sharers.left(name)) == 1
    assert sharers.left(name) == []


def test_a_forked_child_uses_the_cache_of_its_parent(name):
    with opened(name) as cache:
        cache.put("parent", 1)
        found = in_child(lambda: (cache.get("parent"), cache.put("child", 2), cache.put("parent", 3)))
        assert (found, cache.get("child")) == ((1, True, False), 2)


@pytest.mark.slow
def test_sixty_four_processes_open_a_cache_of_many_slots(name):
    """Without the memory for its table."""
    slots = 10**8

    def use(i):
        with opened(name, slots=slots, limit="20GB") as cache:  # room for a value in each slot
            cache.put(i * (slots // 64), i)
            barrier.wait(waiting.LIMIT_S)
            found = cache.get_many(range(0, slots, slots // 64)[:64])
            results.put((found, cache.info().table_bytes))

    barrier, results = FORK.Barrier(64), FORK.Queue()
    processes = [started(FORK, use, i) for i in range(64)]
    found = [results.get(timeout=waiting.LIMIT_S) for _ in processes]
    ended(*processes)
    assert {tuple(values) for values, _ in found} == {tuple(range(64))}
    assert max(table for _, table in found) < 64 * (256 << 10)


# ---- Life ----


def test_it_goes_with_its_last_user(name):
    cache = opened(name)
    ready = FORK.Event()
    process = started(FORK, cache_workers.stays, name, ready)
    assert ready.wait(waiting.LIMIT_S)
    cache.close()
    with opened(name) as again:
        assert again.get("stays") == 1
    process.kill()
    ended(process, status=-signal.SIGKILL)
    assert len(sharers.left(name)) == 1, "nothing runs after SIGKILL"
    with opened(name) as again:
        assert len(again) == 0
    assert sharers.left_after_collecting(name) == []


EXITS = {
    "the end of the program": "",
    "sys.exit": "sys.exit(0)",
    "a view": "view = cache.get('a')",
    "a cycle": "cycle = [cache]; cycle.append(cycle)",
    "a child of multiprocessing is the last": "import multiprocessing as mp\n"
    "child = mp.get_context('fork').Process(target=time.sleep, args=(1,))\nchild.start(); mp.process._children.clear(); os._exit(0)",
}


@pytest.mark.parametrize("way", EXITS)
def test_it_goes_at_the_exit_of_a_program(python, name, way):
    code = "import multiprocessing.util, os, sys, time, numpy as np\nfrom mp.cache_workers import opened\n"
    code += "cache = opened(sys.argv[1], arrays='view')\ncache.put('a', np.zeros(5000))\n"
    python(code + EXITS[way], name)
    until(lambda: sharers.left(name) == [])


def test_it_is_kept(name, tmp_path):
    for options in ({"keep": "1h"}, {"dir": tmp_path}):
        with opened(name, **options) as cache:
            cache.put("a", 1)
        assert sharers.left_after_collecting(name, options.get("dir")) != []
        with opened(name, **options) as cache:
            assert cache.get("a") == 1
        os.unlink(cache._file.path)


def test_it_is_kept_for_a_while(name):
    with opened(name, keep="1h") as cache:
        cache.put("a", 1)
    for hours_ago in (-2, 2):  # a time in the future comes from a clock that was set back
        with opened(name, keep="1h") as cache:
            assert cache.get("a") == 1
        os.utime(cache._file.path, (0, time.time() - hours_ago * 3600))
        assert sharers.left_after_collecting(name) == []
        with opened(name, keep="1h") as cache:
            assert cache.put("a", 1)
    os.unlink(cache._file.path)


# ---- Kills and stops ----


def killed_at_random(name, kills, target, *arguments, crew=4):
    chance, living = random.Random(7), []
    for seed in range(kills + crew):
        living.append(started(FORK, target, name, *arguments, seed))
        if seed >= crew:
            time.sleep(chance.random() * 0.02)
            victim = living.pop(chance.randrange(crew))
            victim.kill()
            ended(victim, status=-signal.SIGKILL)
    return living


@pytest.mark.parametrize("kills", [40, pytest.param(2000 if FULL else 300, marks=pytest.mark.slow)])
def test_writers_are_killed_at_any_moment(name, kills, log):
    """No value is torn, and at most 1 % of the space is lost."""
    with opened(name) as cache:
        sharers.kill(killed_at_random(name, kills, cache_workers.storm, {}, log))
        assert sharers.notes(log) == []
        cache_workers.fill(opened(name), 0, 1)
        assert sorted(cache) == list(range(N)) and all(is_value(key, cache.get(key)) for key in range(N))
        with opened(f"{name} once") as once:
            for key in range(N):
                once.put(key, value(key))
            least = once.info().nbytes
        assert least <= cache.info().nbytes <= least * 1.01 + 400_000


def test_all_are_killed_and_a_folder_is_back(name, tmp_path, log):
    for _ in range(3):
        sharers.kill(killed_at_random(name, 3, cache_workers.storm, {"dir": tmp_path}, log))
    assert sharers.left_after_collecting(name, tmp_path) != []
    with opened(name, dir=tmp_path) as cache:
        assert len(cache) > 0 and all(is_value(key, cache.get(key)) for key in cache)
        cache_workers.fill(opened(name, dir=tmp_path), 0, 1)
        assert len(cache) == N
    os.unlink(cache._file.path)
    assert sharers.notes(log) == []


@pytest.mark.slow
def test_the_space_of_large_values_is_used_again(name):
    """Writers are killed in the middle of values of 40 MiB; the file has not more pages than the writers need."""
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
        stopped = started(FORK, cache_workers.stopped_while_writing, name)
        until(lambda: "stopped" in cache)
        try:
            until(lambda: pathlib.Path(f"/proc/{stopped.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
            for key in range(50):
                assert cache.put(key, value(key))
            ended(started(FORK, cache_workers.fill, opened(name), 0, 1))
            assert len(cache) == N + 1
        finally:
            sharers.kill([stopped])


def test_one_that_stopped_while_it_locked_the_file_is_named(name, monkeypatch):
    """A process tests whether a file is in use for microseconds. If it is stopped then, others tell."""
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
    mapped = workers.mappings()
    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(8):

            def use(i=i):
                stored = cache.put(("child", i), i), cache.get(("child", i))
                cache.close()
                return *stored, workers.mappings()

            assert in_child(use) == (True, i, mapped - 2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(cache.get(key) in (bytes(5000), key[1]) for key in cache)
    cache.close()
    assert sharers.left(name) == []


def test_threads_write_at_once(name):
    with opened(name) as cache:
        crew = [threading.Thread(target=cache_workers.fill, args=(opened(name), 0, 1)) for _ in range(2)]
        crew += [threading.Thread(target=lambda: [cache.get_or_make(k, value, k) for k in range(N)]) for _ in range(4)]
        waiting.together(crew)
        assert len(cache) == N and all(is_value(key, cache.get(key)) for key in range(N))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # "with open()" has such a moment
def test_interrupts_leave_nothing(name):
    """The fixtures look for descriptors, mappings and files."""

    def interrupted(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    chance = random.Random(3)
    try:
        for _ in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.random() * 0.003 + 1e-5)
                with opened(name, limit="1MB") as cache:
                    for i in range(20):
                        cache.put(("a", i), [i, np.arange(i)])
                        cache.get_many([("a", i)])
                        cache.get_or_make(("b", i), dict)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    cache = None
    gc.collect()
    assert sharers.left(name) == []


# ---- No space ----

FULL_DISK = """
import sys, warnings
import numpy as np
from mp.cache_workers import is_value, opened, value
with warnings.catch_warnings(record=True) as caught, opened("full", limit="1GB", keep=False) as cache:
    warnings.simplefilter("always")
    size = int(sys.argv[1])
    kept = [i for i in range(60_000_000 // (size + 2000)) if cache.put(i, bytes([i % 251]) * size)]
    assert kept and all(cache.get(i) == bytes([i % 251]) * size for i in kept) and sorted(cache) == kept
    assert cache.get_or_make("more", lambda: bytes(30_000_000)) == bytes(30_000_000)
    print(len(caught), "has no space" in str(caught[0].message))
"""


@pytest.mark.parametrize("size", [0, 100_000, 10_000_000])
def test_a_full_disk_is_one_warning(tmp_path, size):
    """The file system is full in the middle of a value, or of the table."""
    environment = {**os.environ, "RECSTORE_DIR": str(tmp_path), "PYTHONPATH": launching.PYTHONPATH}
    assert mounts.mounted("size=24m", tmp_path, "-c", FULL_DISK, str(size), env=environment) == ["1 True"]


IN_A_GROUP = """
import os, sys, warnings
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
import recstore
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with recstore.cache("group", limit="1GiB") as cache:
        kept = [i for i in range(600) if cache.put(i, bytes([i % 251]) * (1 << 20))]
        assert all(cache.get(i) == bytes([i % 251]) * (1 << 20) for i in kept)
    with recstore.cache("group share", limit="50%") as cache:
        limit = cache.info().limit
print(0 < len(kept) < 256, len(caught), "memory cgroup" in str(caught[0].message), limit < (128 << 20))
"""


def test_a_memory_cgroup_is_never_exceeded(group, python):
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs a writable /dev/shm")
    folder = f"/dev/shm/recstore-test-{os.getpid()}-{uuid.uuid4().hex}"
    try:
        assert python(IN_A_GROUP, str(group / "cgroup.procs"), RECSTORE_DIR=folder) == "True 1 True True\n"
        assert os.listdir(folder) == []
    finally:
        if os.path.isdir(folder):
            os.rmdir(folder)


# ---- Folders and files of others, damage ----


def test_a_folder_without_rights(name):
    def refused():
        os.setuid(12345)
        with pytest.raises(PermissionError) as caught:
            opened(name, dir=folder)
        return str(caught.value)

    if os.geteuid() != 0:
        pytest.skip("needs another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        assert folder in in_child(refused)
        assert os.listdir(folder) == []


def test_a_read_only_folder(tmp_path):
    code = "import sys, recstore\ntry: recstore.cache('a', dir=sys.argv[1], limit='1MB')\nexcept OSError as e: print(e.errno)"
    assert mounts.mounted("ro", tmp_path, "-c", code, str(tmp_path)) == ["30"]


def test_a_file_of_another_user(name, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    path = named_caches.path_of(named_segments.Target(name, dir=tmp_path))
    with opened(name, dir=tmp_path):
        os.chown(path, 12345, 12345)
    with pytest.raises(PermissionError, match="the file belongs to user 12345"):
        opened(name, dir=tmp_path)
    assert os.path.exists(path)


@pytest.mark.parametrize("to", [0, 100, 4096, 20_000, 100_000])
def test_a_file_that_is_cut(name, to):
    """No call ends the process; get_or_make goes on, and the next user has a new cache."""
    with opened(name, slots=10) as cache:
        for key in range(5):
            cache.put(key, np.full(20_000, key))
        os.truncate(cache._file.path, to)
        cut = cache._file
        for use in (cut.get, cut.contains, lambda key: cut.put(7, 1), cut.admits, lambda key: cut.note(0), lambda key: cut.count(),
                    lambda key: cut.used(), lambda key: cut.rows(), lambda key: cut.counters(), lambda key: cut.locate([key]),
                    lambda key: cut.keys_from(0, 9), lambda key: cache.info()):  # fmt: skip
            with pytest.raises(CorruptError, match="has been cut"):
                use(4)
        with pytest.warns(RuntimeWarning, match="is damaged, and its damaged values are made again") as caught:
            assert [cache.get_or_make(4, str, key) for key in range(3)] == ["0", "1", "2"]
        assert len(caught) == 1
        with opened(name, slots=10) as new:
            assert new.put(4, "new") and new.get(4) == "new"
            with pytest.raises(CorruptError):
                cache.get(4)


def test_values_that_are_cut(name):
    with opened(name, slots=10) as cache:
        for key in range(5):
            cache.put(key, np.full(200_000, key))
        os.truncate(cache._file.path, os.stat(cache._file.path).st_size - 1_500_000)
        assert cache.get(0)[-1] == 0
        with pytest.raises(CorruptError, match="a value of the cache is damaged"):
            cache.get(4)
        with pytest.warns(RuntimeWarning, match="is damaged"):
            assert cache.get_or_make(4, str, 5) == "5"


def test_changed_bytes_never_end_a_process(name, tmp_path):
    """Each byte of the file may change at any time. Reads give an error or another value."""
    with opened(name, dir=tmp_path, limit="1MB") as cache:
        for key in range(40):
            cache.put(key, [key, {"text": "x" * key}, np.arange(key * 10)])
        path, table_end = cache._file.path, os.stat(cache._file.path).st_size - cache.info().nbytes
        used = [*range(4096, 4200, 4), *range(8192, 8300, 3), *range(40_000, 60_000, 997)]

        def changed(seed):
            chance = random.Random(seed)
            faults = 0
            with open(path, "r+b") as file:
                for _ in range(60):
                    at = chance.choice(used) if chance.random() < 0.5 else table_end + chance.randrange(20_000)
                    file.seek(at)
                    file.write(
                        bytes(chance.choice((0, 1, 255, chance.randrange(256))) for _ in range(chance.randrange(1, 9)))
                    )
                    file.flush()
                    for key in (*range(0, 40, 5), 50 + seed):
                        for use in (cache.get, lambda key: cache.put(key + 100, "new"), lambda key: list(cache)):
                            try:
                                use(key)
                            except (Error, ValueError, TypeError, MemoryError):
                                faults += 1
            return faults

        assert sum(in_child(lambda seed=seed: changed(seed)) for seed in range(6)) > 0
    os.unlink(path)


def test_a_damaged_file_is_collected(name):
    with opened(name, keep="1h") as cache:
        path = cache._file.path
    os.truncate(path, 100)
    assert sharers.left_after_collecting(name) == []


def test_a_file_of_a_later_version_stays(name):
    with opened(name, keep="1h") as cache:
        path = cache._file.path
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"\2")
    with pytest.raises(recstore.errors.VersionError):
        opened(name)
    assert sharers.left_after_collecting(name) != []
    os.unlink(path)


def test_checksums_after_a_restart_of_the_machine(name, tmp_path, monkeypatch):
    """Pages of values may be missing that the table names."""
    with opened(name, dir=tmp_path) as cache:
        cache.put("a", bytes(100_000))
        cache.put("b", 1)
        path = cache._file.path
    boot = named_segments.maker()["boot"]
    maker = named_segments.maker
    monkeypatch.setattr(named_segments, "maker", lambda: {**maker(), "boot": boot[::-1]})
    with open(path, "r+b") as file:
        file.seek(os.stat(path).st_size - 50_000)
        file.write(b"x")
    with opened(name, dir=tmp_path) as cache:
        assert cache.get("b") == 1
        with pytest.raises(CorruptError, match="does not match its checksum"):
            cache.get("a")
    os.unlink(path)
