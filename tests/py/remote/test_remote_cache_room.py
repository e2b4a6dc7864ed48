"""Which files a cache under a limit keeps: recstore.remote.cache.cache_room."""

import errno
import os
import pathlib
import pickle
import random
import re
import time

import pytest
import shard_sets
from interpreters import unmaps_at_close
from s3_sets import ALL, PARTS, fetched, has_sent, names, nothing_half_made
from waiting import Clock, in_child

import recstore
from recstore._core import native
from recstore.remote import open_set
from recstore.remote.cache import cache, cache_room, fetch_process
from recstore.remote.places.choose_storage import storage_of


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
    assert missing[0] == 32 and max(missing[1:]) <= 17 and lowest <= set(names(tmp_path, ".recs"))


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
    nbytes = sum(made.made.sizes[:5])
    times = 1 + 60 * (nbytes - limit) / nbytes  # 60 records in a shard, and some of the shards are not in the cache
    found = re.findall(r"a window of 5 shards .* limit=[0-9,]+ .* fetched ([\d.]+) times", caplog.text)
    assert found == [f"{times:.1f}"] and times > 8
    with recstore.open(f"{made.at}@1", cache=tmp_path, lazy=True, options=made.options) as y:
        y.selection.shards.opener.check_window(range(6))
    assert len(caplog.records) == 1


def test_recent_files_stay_whatever_their_names(tmp_path):
    """A wrong clock may give a file a time in the future, or many files one time."""
    into = cache.Cache(tmp_path, limit=6400)
    path = pathlib.Path(into.sets, "0" * 40 + ".6400.open")
    path.write_bytes(b"5000")  # of a killed process
    lease = cache_room.Lease(into.sets, "0" * 40, 6400, False)
    assert path.read_bytes() == b""
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
    first, second = (shard_sets.write(url, [[f"{url.name} {i}" * 100] for i in range(8)]) for url in sets)
    shards = [{f"{hash_}.recs" for hash_ in made.hashes} for made in (first, second)]

    def cached():
        found = set(names(tmp_path, ".recs"))
        return len(found & shards[0]), len(found & shards[1])

    x = recstore.open(sets[0], cache=tmp_path)
    limit = 2 * max(second.sizes) + 1400  # the two manifests have 633 bytes each
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
    for i in range(300):
        name = f"{i * 7919 % 300:040x}.recs"
        with into.new_part(name, 500) as part:
            part.write(bytes(500))
            part.publish()
        assert used(tmp_path) <= 100_000
    assert used(tmp_path) > 95_000 and len(scans) < 300 / 2


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


def test_a_listing_sees_one_name_of_a_file(tmp_path, monkeypatch):
    """A process that makes room during a rename could see neither name, and exceed the limit."""
    into, rename, states = cache.Cache(tmp_path, limit=20_000), os.rename, []

    def renamed(*names):
        lock = into.lock("room")
        states.append(lock.state)
        lock.close()
        rename(*names)

    monkeypatch.setattr(os, "rename", renamed)
    with cache.Part(into, "a" * 40 + ".recs", 100) as part:
        part.write(bytes(100))
        part.publish()
    assert states == [native.BUSY] and used(tmp_path) == 100


def test_the_unfinished_file_of_a_killed_process_is_removed_when_room_is_needed(tmp_path):
    into = cache.Cache(tmp_path, limit=20_000)
    in_child(lambda: os.path.basename(cache.Part(into, "a" * 40 + ".recs", 15_000).name))
    assert len(names(tmp_path, ".part")) == 1 and used(tmp_path) == 15_000
    lacking, may_change, _ = into.room.make(10_000)
    assert lacking <= 0 and not may_change and used(tmp_path) == 0


def test_waiting_for_room_while_another_file_grows(tmp_path, monkeypatch, caplog):
    """The wait is logged. It times out only without progress, so a slow download may take longer."""
    into = cache.Cache(tmp_path, limit=20_000)
    part = cache.Part(into, "a" * 40 + ".recs", 15_000)

    def act(n):
        part.write(b"x" * 100)
        os.utime(part.fd, ns=(n, n))  # a different time for each write, because this sleep takes no time
        if n == 10:
            part.close()

    monkeypatch.setattr(cache, "time", Clock(act, 20))
    with into.new_part("b" * 40 + ".recs", 10_000):
        assert cache.time.sleeps == 10
    assert f"waiting for room in the cache '{tmp_path}', which another process" in caplog.text
    stuck = cache.Part(into, "c" * 40 + ".recs", 15_000)
    monkeypatch.setattr(cache, "time", Clock(step=20))
    with pytest.raises(recstore.errors.OutOfSpaceError, match="raise the limit"):
        into.new_part("d" * 40 + ".recs", 10_000)
    # The other download waits for the store, up to its patience.
    monkeypatch.setattr(cache, "time", Clock(lambda n: stuck.close() if n == 10 else None, 20))
    into.new_part("d" * 40 + ".recs", 10_000, patience=300.0).close()


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
    into = cache.Cache(tmp_path, limit=1)
    lock = into.lock("room")
    monkeypatch.setattr(cache, "time", Clock(lambda n: lock.close() if n == 2 else None, 20))
    with into._locked("room"):
        assert "room.lock" in caplog.text


def test_waiting_for_one_object_is_logged(tmp_path, monkeypatch, caplog):
    found = shard_sets.write(tmp_path / "set", PARTS[:1])
    into, name = cache.Cache(tmp_path / "cache"), found.hashes[0] + ".recs"
    storage = storage_of(tmp_path / "set")
    lock = into.lock(name)
    clock = Clock(lambda n: lock.close() if n == 4 else None, 20)
    for module in (cache, fetch_process):
        monkeypatch.setattr(module, "time", clock)
    fetch_process.Fetching(storage, into).fetch(name, found.sizes[0])
    (record,) = caplog.records  # after 20 of 80 s
    assert f"waiting for {storage.of(name)}" in record.getMessage()
