"""The cache on a machine: recstore.remote.cache and cache_folder."""

import errno
import os
import pathlib
import pickle
import random
import re
import signal
import stat
import sys
import time

import pytest
import shard_sets
import waiting
from interpreters import unmaps_at_close
from s3_sets import ALL, PARTS, fetched, has_sent, names, nothing_half_made, reset_settled_counts

import recstore
from recstore._core import native
from recstore.remote import cache, cache_folder, cache_room, fetch_process, key_filters, open_set
from recstore.remote import names as names_of_files
from recstore.remote.choose_storage import storage_of

# ---- Damage and failures ----


@pytest.mark.parametrize("fault", ["cut", "flip", "refuse", "reset"])
def test_a_temporary_fault_is_not_an_error(made, tmp_path, fault):
    getattr(made, fault)(fetch_process.TRIES - 1, match=r"\.recs")  # one object may get all of them
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL
    assert made.left() == 0 and nothing_half_made(tmp_path)


def test_the_error_of_a_permanent_fault_names_the_object(made, tmp_path):
    name = made.made.hashes[3] + ".recs"
    made.flip(100, match=name)
    with pytest.raises(recstore.errors.CorruptError, match=f"in 3 tries.*{name}"):
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert nothing_half_made(tmp_path) and name not in names(tmp_path, ".recs")
    made.heal()
    reset_settled_counts(made)
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL


@pytest.mark.parametrize("change", [lambda data: data[:-9], lambda data: data + b"more", lambda data: b""])
def test_an_object_of_the_wrong_size(made, tmp_path, change):
    key = f"{made.at.removeprefix('s3://bucket/')}/{made.made.hashes[2]}.recs"
    made.put(key, change(made.objects()[key]))
    with pytest.raises(recstore.errors.CorruptError, match="instead of"):
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert nothing_half_made(tmp_path)


def test_a_removed_object(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options)
    made.delete(f"{made.at.removeprefix('s3://bucket/')}/{made.made.hashes[2]}.recs")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: x[130]).match(f"newest manifest.*{made.made.hashes[2]}")
    assert x[5] == ALL[5]
    hashes = shard_sets.write(tmp_path / "set", PARTS).hashes
    y = recstore.open(tmp_path / "set")
    (tmp_path / "set" / f"{hashes[2]}.recs").unlink()
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: y[130]).match(f"newest manifest.*{hashes[2]}")


@pytest.mark.parametrize(("fault", "number"), [("deny", None), ("expire", 4)])
def test_access_is_refused(made, tmp_path, fault, number):
    match = made.at if number is None else made.made.hashes[number]
    getattr(made, fault)(1000, **({} if number is None else {"match": match}))
    with pytest.raises(recstore.errors.RemoteError, match="expired") as caught:
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert match in caught.value.url and nothing_half_made(tmp_path)


@pytest.mark.parametrize(
    "bytes_, error",
    [(b"{", recstore.errors.CorruptError), (b'{"recstore": "manifest", "format": 2}', recstore.errors.VersionError)],
)
def test_a_damaged_manifest(made, tmp_path, bytes_, error):
    made.put(f"{made.at.removeprefix('s3://bucket/')}/manifest-2.json", bytes_)
    with pytest.raises(error, match=r"manifest-2\.json"):
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options)[3] == ALL[3]


def test_a_damaged_copy_of_a_manifest_is_fetched_again(made, tmp_path):
    recstore.open(made.at, cache=tmp_path, options=made.options)
    (path,) = (tmp_path / "recstore" / "sets").glob("*.json")
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-5])
    assert recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options)[3] == ALL[3]


@pytest.mark.parametrize("damage", ["cut", "link", "second name", "header", "version", "empty"])
def test_a_damaged_copy_is_fetched_again(made, tmp_path, damage):
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    path = tmp_path / "recstore" / f"{made.made.hashes[1]}.recs"
    content = path.read_bytes()
    path.chmod(0o600)
    if damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "header":
        path.write_bytes(bytes(100) + content[100:])
    elif damage == "version":
        path.write_bytes(content[:10] + b"\xff" + content[11:])
    elif damage == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.link(path, tmp_path / "elsewhere")
    reset_settled_counts(made)
    x = recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options)
    assert x.to_list() == ALL
    has_sent(made, 1)
    assert path.read_bytes() == content and not path.is_symlink() and path.stat().st_nlink == 1


@pytest.mark.parametrize("way", ["write", "replace", "flip a byte"])
def test_a_copy_with_the_wrong_content_is_fetched_again(tmp_path, monkeypatch, way):
    """The copy has the content of another shard file of the same size, or one wrong byte."""
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", True)
    parts = [["a" * 100] * 64, ["b" * 100] * 64, ["c" * 100, "d" * 100] * 32]
    made = shard_sets.write(tmp_path / "set", parts)
    at = tmp_path / "set"
    recstore.open(at, cache=tmp_path).close()
    first, second = (tmp_path / "recstore" / f"{name}.recs" for name in made.hashes[:2])
    assert made.sizes[0] == made.sizes[1]
    content = bytearray((second if way != "flip a byte" else first).read_bytes())
    if way == "flip a byte":
        content = content.replace(b"a" * 100, b"a" * 99 + b"z")
    if way == "replace":
        (tmp_path / "other").write_bytes(content)
        os.replace(tmp_path / "other", first)
    else:
        first.chmod(0o600)
        first.write_bytes(content)
    for _ in range(2):
        with recstore.open(at, cache=tmp_path) as x:
            assert x.to_list() == [record for part in parts for record in part]


def test_a_checked_copy_is_hashed_once_in_a_boot(made, tmp_path, monkeypatch):
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    path = tmp_path / "recstore" / f"{made.made.hashes[1]}.recs"
    os.utime(path)  # an earlier version recorded a use this way
    hashed, hash_of = [], names_of_files.hash_of
    monkeypatch.setattr(names_of_files, "hash_of", lambda file: hashed.append(file.name) or hash_of(file))

    def read_twice():
        for _ in range(2):
            with recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options) as x:
                assert x.to_list() == ALL
        out = sorted(hashed)
        hashed.clear()
        return out

    assert read_twice() == [str(path)]
    monkeypatch.setattr(cache, "boot_id", lambda: bytes(range(16)))
    assert read_twice() == sorted(map(str, path.parent.glob("*.recs")))
    monkeypatch.setattr(os, "utime", refuse_as_read_only)
    monkeypatch.setattr(cache, "boot_id", lambda: bytes(range(1, 17)))
    assert read_twice() == sorted(2 * list(map(str, path.parent.glob("*.recs"))))


def refuse_as_read_only(*_, **__):
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("lost", ["one page of each file", "all pages"])
def test_a_crash_of_the_machine_loses_pages(tmp_path, monkeypatch, lost):
    """The journal of a file system may keep the name, size and times of a file, and lose pages that were not synced."""
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", True)
    parts = [[f"{i} {k}" * 400 for k in range(100)] for i in range(4)]
    made = shard_sets.write(tmp_path / "set", parts)
    recstore.open(tmp_path / "set", cache=tmp_path).close()
    for number, path in enumerate(sorted((tmp_path / "recstore").rglob("*.*"))):
        before, size = path.stat(), path.stat().st_size
        path.chmod(0o600)
        with path.open("r+b") as file:
            page = min(number + 2, size // 4096 - 1) if lost == "one page of each file" and size > 8192 else 0
            file.seek(4096 * page)
            file.write(bytes(min(size, 4096) if lost == "one page of each file" else size))
        path.chmod(0o400)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setattr(cache, "boot_id", lambda: bytes(range(16)))  # the machine starts again
    with recstore.open(f"{tmp_path}/set@1", cache=tmp_path) as x:
        assert x.to_list() == [record for part in parts for record in part]
    assert len(made) == 4


# ---- Room ----


def sizes(made):
    return sorted(made.made.sizes)


def used(folder):
    """The bytes that count against the limit."""
    files = pathlib.Path(folder, "recstore").rglob("*.*")
    return sum(path.stat().st_size for path in files if path.suffix not in (cache.LOCK, cache.OPEN))


def test_a_limit_keeps_the_same_part_of_a_set_over_epochs(tmp_path, monkeypatch):
    """The shards with the lowest names stay. LRU would keep nothing that the next epoch reads before it is evicted."""
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", True)
    made = shard_sets.write(tmp_path / "set", [[f"{i} {k}" * 40 for k in range(50)] for i in range(32)])
    limit = made.nbytes // 2 + 10_000
    x = recstore.open(tmp_path / "set", cache=tmp_path, limit=limit, lazy=True)
    missing = []
    for epoch in range(3):
        cached = set(names(tmp_path, ".recs"))
        order = random.Random(epoch).sample(made.hashes, 32)
        missing.append(sum(f"{hash_}.recs" not in cached for hash_ in order))
        assert all(x[50 * made.hashes.index(hash_)] == f"{made.hashes.index(hash_)} 0" * 40 for hash_ in order)
        assert used(tmp_path) <= limit
    lowest = {f"{hash_}.recs" for hash_ in sorted(made.hashes)[:14]}
    assert missing[0] == 32 and missing[1:] <= [17, 17] and lowest <= set(names(tmp_path, ".recs"))


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="reads /proc")
@unmaps_at_close
def test_evicted_files_are_unmapped(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, limit=made.made.nbytes // 2 + 1000, lazy=True, options=made.options)
    for _ in range(2):
        assert [x[i] for i in range(len(x))] == ALL
        with open("/proc/self/maps") as file:
            removed = [line for line in file if str(tmp_path) in line and line.endswith("(deleted)\n")]
        assert len(removed) < len(x.selection.shards) / 2, removed
    x.close()


def test_windows_and_the_limit(made, tmp_path, caplog):
    """A hint stops at the limit, so that it evicts nothing that is read earlier."""
    limit = 4 * sizes(made)[-1] + 100
    x = recstore.open(f"{made.at}@1", cache=tmp_path, limit=limit, lazy=True, options=made.options)
    opener = x.selection.shards.opener
    opener.check_window([0, 1, 2, 3])
    opener.fetch_ahead([0, 1, 2, 3, 4, 5])
    assert caplog.text == ""
    assert x[:180].to_list() == ALL[:180]
    has_sent(made, 3)
    opener.check_window(range(5))
    opener.check_window(range(5))
    # 60 records in a shard, and a fifth of the shards is not in the cache.
    assert re.findall(r"a window of 5 shards .* limit=[0-9,]+ .* fetched (\d+)\.\d times", caplog.text) == ["12"]
    with recstore.open(f"{made.at}@1", cache=tmp_path, lazy=True, options=made.options) as y:
        y.selection.shards.opener.check_window(range(6))
    assert len(caplog.records) == 1


def test_recent_files_stay_whatever_their_names(tmp_path):
    """A wrong clock may give a file a time in the future, or many files one time."""
    into = cache.Cache(tmp_path, limit=6400)
    lease = cache_room.Lease(into.sets, "0" * 40, 6400)
    now = time.time()
    for name, used_at in [("f", now), ("e", now - 9), ("d", now - 99), ("a", now - 999), ("9", now + 10**8)]:
        with cache.Part(into, name * 40 + ".recs", 1000) as part:
            part.write(bytes(1000))
            part.publish()
        os.utime(into.path(name * 40 + ".recs"), (used_at, 0))
    pathlib.Path(into.sets, "1" * 40 + ".json").write_bytes(bytes(700))
    pathlib.Path(into.sets, "0" * 40 + ".json").write_bytes(bytes(700))  # of the open set
    lease.read_at_a_time(2000)

    def left_after(needed):
        assert into.room.make(needed)[0] <= 0
        return "".join(name[0] for name in names(tmp_path, ".recs"))

    assert [left_after(1000), left_after(2000), left_after(3000)] == ["9aef", "9ef", "ef"]
    assert left_after(4000) == "f" and os.listdir(into.sets).count("0" * 40 + ".json") == 1
    lease.close()
    assert left_after(6400) == "" and os.listdir(into.sets) == []


def test_a_smaller_limit_spares_the_files_of_another_job(tmp_path, monkeypatch):
    monkeypatch.setattr(open_set, "_ALWAYS_CACHED", True)
    sets = [tmp_path / "first", tmp_path / "second"]
    first, second = (shard_sets.write(url, [[f"{url} {i}" * 100] for i in range(8)]) for url in sets)
    shards = [{f"{hash_}.recs" for hash_ in made.hashes} for made in (first, second)]

    def cached():
        found = set(names(tmp_path, ".recs"))
        return len(found & shards[0]), len(found & shards[1])

    x = recstore.open(sets[0], cache=tmp_path)
    limit = 2 * max(second.sizes) + 5000
    y = recstore.open(sets[1], cache=tmp_path, limit=limit, lazy=True)
    assert len(y.to_list()) == 8 and cached() == (8, 2)
    handle = pickle.dumps(x)
    x.close()
    y = recstore.open(f"{sets[1]}@1", cache=tmp_path, limit=limit, lazy=True)
    y.to_list()
    assert sum(cached()) <= 2  # a closed set is not a job
    x = pickle.loads(handle)
    assert len(x.to_list()) == 8 and cached()[0] == 8
    assert [len(y.to_list()), cached()[0]] == [8, 8]


def test_the_folder_of_a_large_cache_is_not_listed_for_each_file(tmp_path, monkeypatch):
    into, scans = cache.Cache(tmp_path, limit=100_000), []
    scan = into.room._scan
    monkeypatch.setattr(into.room, "_scan", lambda: scans.append(1) or scan())
    for i in range(400):
        name = f"{hash(str(i)) % 16**10:040x}.recs"
        with into.new_part(name, 500) as part:
            part.write(bytes(500))
            part.publish()
        assert used(tmp_path) <= 100_000
    assert used(tmp_path) > 95_000 and len(scans) < 400 / 2


def test_a_huge_limit(made, tmp_path):
    for limit in (2**64 - 1, 2**70):
        x = recstore.open(made.at, cache=tmp_path, lazy=True, limit=limit, options=made.options)
        assert x.to_list() == pickle.loads(pickle.dumps(x)).to_list() == ALL


def test_a_limit_that_is_too_small(made, tmp_path):
    with pytest.raises(recstore.errors.OutOfSpaceError, match="lazy=True"):
        recstore.open(made.at, cache=tmp_path, limit=made.made.nbytes - 1, options=made.options)
    x = recstore.open(made.at, cache=tmp_path, limit=sizes(made)[0] - 1, lazy=True, options=made.options)
    with pytest.raises(recstore.errors.OutOfSpaceError, match="raise the limit") as caught:
        x[0]
    assert caught.value.errno == errno.ENOSPC and nothing_half_made(tmp_path) and fetched(made) == (0, 0)
    with pytest.raises(ValueError, match="a size is"):
        recstore.open(made.at, cache=tmp_path, limit="much", options=made.options)


def test_an_unfinished_file_of_a_living_process_counts(tmp_path):
    into = cache.Cache(tmp_path, limit=20_000)
    with cache.Part(into, "a" * 40 + ".recs", 15_000):
        assert into.room.make(10_000)[1] is True and len(into.sweep()) == 3
        assert used(tmp_path) == 15_000
    assert into.room.make(10_000)[0] <= 0 and used(tmp_path) == 0


KILLED_WRITER = """
import os, signal, sys
from recstore.remote import cache
part = cache.Part(cache.Cache(sys.argv[1], limit=20_000), "a" * 40 + ".recs", 15_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_unfinished_file_of_a_killed_process_is_removed_when_room_is_needed(tmp_path):
    assert waiting.python("-c", KILLED_WRITER, str(tmp_path)).returncode == -signal.SIGKILL
    into = cache.Cache(tmp_path, limit=20_000)
    assert len(names(tmp_path, ".part")) == 1 and used(tmp_path) == 15_000
    lacking, may_change, _ = into.room.make(10_000)
    assert lacking <= 0 and not may_change and used(tmp_path) == 0


class Clock:
    """Replaces the module time: a sleep calls `act` and takes 20 s."""

    def __init__(self, act):
        self.now, self.act, self.sleeps = 0.0, act, 0

    def monotonic(self):
        return self.now

    def time(self):
        return time.time()

    def time_ns(self):
        return time.time_ns()

    def sleep(self, _):
        self.now += 20
        self.sleeps += 1
        self.act(self.sleeps)


def test_waiting_for_room_while_another_file_grows(tmp_path, monkeypatch, caplog):
    """The wait is logged. It times out only without progress, so a slow download may take longer."""
    into = cache.Cache(tmp_path, limit=20_000)
    part = cache.Part(into, "a" * 40 + ".recs", 15_000)

    def act(n):
        part.write(b"x" * 100)
        os.utime(part.fd, ns=(n, n))  # a different time for each write, because this sleep takes no time
        if n == 10:
            part.close()

    monkeypatch.setattr(cache, "time", Clock(act))
    with into.new_part("b" * 40 + ".recs", 10_000):
        assert cache.time.sleeps == 10
    assert f"waiting for room in the cache '{tmp_path}', which another process" in caplog.text
    stuck = cache.Part(into, "c" * 40 + ".recs", 15_000)
    monkeypatch.setattr(cache, "time", Clock(lambda n: None))
    with pytest.raises(recstore.errors.OutOfSpaceError, match="raise the limit"):
        into.new_part("d" * 40 + ".recs", 10_000)
    stuck.close()


def test_two_processes_evict_a_manifest_at_once(tmp_path, monkeypatch):
    into = cache.Cache(tmp_path, limit=20_000)
    path = os.path.join(into.sets, "0" * 40 + ".json")
    pathlib.Path(path).write_bytes(bytes(15_000))
    scan = into.room._scan

    def unlinked_by_another_process():
        result = scan()
        os.unlink(path)
        return result

    monkeypatch.setattr(into.room, "_scan", unlinked_by_another_process)
    assert into.room.make(10_000)[0] <= 0


def test_waiting_for_the_lock_of_the_room_is_logged(tmp_path, monkeypatch, caplog):
    lock = native.Lock(str(tmp_path / "room.lock"))
    monkeypatch.setattr(cache, "time", Clock(lambda n: lock.close() if n == 2 else None))
    with cache._locked(str(tmp_path / "room.lock")):
        assert "room.lock" in caplog.text


def test_waiting_for_one_object_is_logged(tmp_path, monkeypatch, caplog):
    found = shard_sets.write(tmp_path / "set", PARTS[:1])
    into, name = cache.Cache(tmp_path / "cache"), found.hashes[0] + ".recs"
    storage = storage_of(tmp_path / "set")
    lock = into.lock(name)
    clock = Clock(lambda n: lock.close() if n == 2 else None)
    for module in (cache, fetch_process):
        monkeypatch.setattr(module, "time", clock)
    fetch_process.Fetching(storage, into).fetch(name, found.sizes[0])
    assert f"waiting for {storage.of(name)}" in caplog.text


def test_an_endless_object(tmp_path):
    """A download stops at the maximum size, so the disk does not fill."""
    found = shard_sets.write(tmp_path / "set", [{f"k{i}": i for i in range(100)}])
    into, written = cache.Cache(tmp_path / "cache"), []

    class Endless:
        def of(self, name):
            return f"s3://b/{name}"

        def read_into(self, name, file):
            for _ in range(100):
                file.write(bytes(1 << 20))
                written.append(name)
            return 100 << 20

    limit = key_filters.most_bytes(100)
    assert (tmp_path / "set" / f"{found.hashes[0]}.keys").stat().st_size <= limit < 1000
    keys, recs = (found.hashes[0] + ending for ending in (".keys", ".recs"))
    for arguments in ((keys, None, limit), (recs, found.sizes[0])):
        with pytest.raises(recstore.errors.CorruptError, match=f"instead of .*in 3 tries.*{arguments[0]}"):
            fetch_process.Fetching(Endless(), into).fetch(*arguments)
    assert written == [] and nothing_half_made(tmp_path / "cache")
    (tmp_path / "cache" / "recstore" / keys).write_bytes(bytes(limit + 1))
    assert into.read(keys, limit) is None and keys not in names(tmp_path / "cache", ".keys")


ON_A_FULL_DISK = """
import resource, sys, recstore
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    recstore.open(sys.argv[1], cache=sys.argv[2], options=eval(sys.argv[3], {"datetime": __import__("datetime")}))
except recstore.errors.OutOfSpaceError as error:
    print("full:", error)
"""


def test_a_full_disk(made, tmp_path):
    """A limit on file sizes simulates a full disk: the kernel refuses the reservation in the same way."""
    command = [sys.executable, "-B", "-c", ON_A_FULL_DISK, made.at, str(tmp_path), repr(made.options)]
    done = waiting.run(command)
    assert done.stdout.startswith("full:") and str(tmp_path) in done.stdout and "limit=" in done.stdout, done.stderr
    assert nothing_half_made(tmp_path) and names(tmp_path, ".recs") == [] and fetched(made) == (0, 0)


def test_the_disk_fills_during_a_download(tmp_path, monkeypatch):
    found = shard_sets.write(tmp_path / "set", PARTS[:1])
    into = cache.Cache(tmp_path / "cache")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(recstore.errors.OutOfSpaceError, match="choose another disk"):
        fetch_process.Fetching(storage_of(tmp_path / "set"), into).fetch(found.hashes[0] + ".recs", found.sizes[0])
    assert nothing_half_made(tmp_path / "cache")


# ---- The folder ----


def test_refused_folders(made, tmp_path, monkeypatch):
    def check_refused(path, error, match):
        pytest.raises(error, lambda: recstore.open(made.at, cache=path, options=made.options)).match(match)

    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    check_refused(tmp_path / "open", PermissionError, "every user can write")
    (tmp_path / "a" / "recstore").mkdir(parents=True, mode=0o755)
    check_refused(tmp_path / "a", PermissionError, "mode 0700")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "recstore").symlink_to(tmp_path / "a")
    check_refused(tmp_path / "b", NotADirectoryError, "a link")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "recstore").write_text("")
    check_refused(tmp_path / "c", NotADirectoryError, "not a folder")
    (tmp_path / "d").write_text("")
    check_refused(tmp_path / "d", FileExistsError, "d")
    if os.geteuid() == 0:
        (tmp_path / "e" / "recstore").mkdir(parents=True, mode=0o700)
        os.chown(tmp_path / "e" / "recstore", 12345, -1)
        check_refused(tmp_path / "e", PermissionError, "must belong to you")
    for kind in ("nfs4", "lustre", "cifs", "fuse.sshfs", "ceph"):
        monkeypatch.setattr(cache_folder, "file_system", lambda folder, kind=kind: kind)
        check_refused(tmp_path / "f", ValueError, f"is on {kind}")
    assert made.log == []


def test_a_read_only_cache(made, tmp_path, monkeypatch):
    """Reading a cached version writes nothing, and another version names the folder and the remedy."""
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    for module, name in ((native, "Lock"), (cache_room, "open_locked"), (os, "utime")):
        monkeypatch.setattr(module, name, refuse_as_read_only)
    for at in (made.at, f"{made.at}@1"):
        assert recstore.open(at, cache=tmp_path, options=made.options).to_list() == ALL
    shard_sets.write(made.at, PARTS[:2], made.options)
    with pytest.raises(OSError, match=f"'{tmp_path}' is read-only and lacks a file of {made.at}: .*@") as caught:
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert caught.value.errno == errno.EROFS


def test_a_folder_with_the_sticky_bit_may_be_shared(made, tmp_path):
    (tmp_path / "nvme").mkdir()
    (tmp_path / "nvme").chmod(0o1777)
    assert recstore.open(made.at, cache=tmp_path / "nvme", options=made.options)[0] == ALL[0]
    assert stat.S_IMODE(os.stat(tmp_path / "nvme" / "recstore").st_mode) == 0o700


def test_the_kind_of_a_file_system(tmp_path):
    assert (
        cache_folder.kind_of_mount(b"mnt_id:\t5\n", b"5 1 0:1 / /a rw - fuse.x x rw\n6 1 0:1 / /b rw - ext4 x rw\n")
        == "fuse.x"
    )
    assert cache_folder.kind_of_mount(b"mnt_id:\t7\n", b"5 1 0:1 / /a rw - ext4 x rw\n") == ""
    assert cache_folder.kind_of_mount(b"pos:\t0\n", b"5 1 0:1 / /a rw - ext4 x rw\n") == ""
    assert cache_folder.file_system(str(tmp_path / "none")) == ""
    if os.path.exists("/proc/self/mountinfo"):
        assert cache_folder.file_system("/proc") == "proc"
