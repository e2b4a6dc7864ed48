"""Caches on full disks and in foreign, cut and changed files give errors or warnings, and end no process."""

import os
import random
import tempfile
import uuid

import launching
import numpy as np
import pytest
from mp import mounts, sharers
from mp.cache_workers import opened
from mp.memory_group import group  # noqa: F401
from waiting import in_child

import recstore
from recstore.errors import CorruptError, Error
from recstore.shm import named_caches, named_segments

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
    """The file system fills up in the middle of a value, or of the table."""
    environment = {**os.environ, "RECSTORE_DIR": str(tmp_path), "PYTHONPATH": launching.PYTHONPATH}
    assert mounts.run_with_tmpfs("size=24m", tmp_path, "-c", FULL_DISK, str(size), env=environment) == ["1 True"]


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
        assert callable(recstore.cache)  # imported here: the child may be unable to read the package
        assert folder in in_child(refused)
        assert os.listdir(folder) == []


def test_a_read_only_folder(tmp_path):
    code = "import sys, recstore\ntry: recstore.cache('a', dir=sys.argv[1], limit='1MB')\nexcept OSError as e: print(e.errno)"
    assert mounts.run_with_tmpfs("ro", tmp_path, "-c", code, str(tmp_path)) == ["30"]


def test_a_file_of_another_user(name, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    path = named_caches.path_of(named_segments.Target(name, dir=tmp_path))
    with opened(name, dir=tmp_path):
        os.chown(path, 12345, 12345)
    with pytest.raises(PermissionError, match="the file belongs to user 12345"):
        opened(name, dir=tmp_path)
    assert os.path.exists(path)


@pytest.mark.parametrize("size", [0, 100, 4096, 20_000, 100_000])
def test_a_file_that_is_cut(name, size):
    """No call ends the process; get_or_make goes on, and the next user has a new cache."""
    with opened(name, slots=10) as cache:
        for key in range(5):
            cache.put(key, np.full(20_000, key))
        os.truncate(cache._file.path, size)
        file = cache._file
        for use in (
            file.get, file.contains, lambda key: file.put(7, 1), file.admits, lambda key: file.note(0),
            lambda key: file.count(), lambda key: file.used(), lambda key: file.rows(), lambda key: file.counters(),
            lambda key: file.locate([key]), lambda key: file.keys_from(0, 9), lambda key: cache.info()
        ):  # fmt: skip
            with pytest.raises(CorruptError, match="has been cut"):
                use(4)
        with pytest.warns(RuntimeWarning, match="is damaged, and its damaged values are made again") as caught:
            assert [cache.get_or_make(4, str, key) for key in range(3)] == ["0", "1", "2"]
            assert cache.get_many([4, 5], np.array, stack=True).tolist() == [4, 5]
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
        with pytest.raises(CorruptError):
            cache.get_many([0, 4], stack=True)
        with pytest.warns(RuntimeWarning, match="is damaged"):
            assert cache.warm([0, 4], str).filled == 5
            batch = cache.get_many([0, 4], lambda key: np.full(200_000, key), stack=True)
        assert batch[:, -1].tolist() == [0, 4]


def test_a_damaged_value_of_a_batch_is_made_again(name):
    with opened(name, slots=10) as cache:
        cache.put(0, np.arange(9))
        with open(cache._file.path, "r+b") as file:
            file.seek(-77, os.SEEK_END)  # the tag of the value: its type, shape and numbers follow
            file.write(b"\xff")
        with pytest.warns(RuntimeWarning, match="is damaged"):
            assert cache.get_many([0, 1], lambda key: np.arange(9), stack=True)[0].tolist() == list(range(9))


def test_changed_bytes_never_end_a_process(name, tmp_path):
    """Each byte of the file may change at any time. Reads give an error or another value."""
    with opened(name, dir=tmp_path, limit="1MB") as cache:
        for key in range(40):
            cache.put(key, [key, {"text": "x" * key}, np.arange(key * 10)])
        path, table_end = cache._file.path, os.stat(cache._file.path).st_size - cache.info().nbytes
        used = [*range(4096, 4200, 4), *range(8192, 8300, 3), *range(40_000, 60_000, 997)]

        def count_faults(seed):
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

        assert sum(in_child(lambda seed=seed: count_faults(seed)) for seed in range(6)) > 0
    os.unlink(path)


def test_a_file_of_a_later_version_stays_and_a_damaged_one_is_collected(name):
    with opened(name, keep="1h") as cache:
        path = cache._file.path
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"\3")
    with pytest.raises(recstore.errors.VersionError):
        opened(name)
    assert sharers.files_after_collecting(name) != []
    os.truncate(path, 100)
    sharers.collect_all(name)


def is_in_memory(folder):
    device = os.stat(folder).st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return any(line.split()[2] == numbers and " - tmpfs " in line for line in file)


def test_checksums_after_a_restart_of_the_machine(name, tmp_path, monkeypatch):
    """The table may name values whose pages were lost."""
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
        if is_in_memory(tmp_path):
            pytest.skip("the temporary folder is in memory, where values have no checksum")
        with pytest.raises(CorruptError, match="does not match its checksum"):
            cache.get("a")
    os.unlink(path)
