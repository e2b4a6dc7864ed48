"""Cache.seal: the values of a cache as a store over the same bytes."""

import dataclasses
import decimal
import os
import pathlib
import random
import signal
import struct
import threading

import numpy as np
import pytest
import ref.mapping
import ref.reader
from mp import mounts
from waiting import in_child, together

import recstore
from recstore.caching import cache as caching
from recstore.errors import BusyError, CorruptError, Error, SegmentNotFoundError

KEYS = ["a", "", b"b", ("episode", 1), (), 3, -(10**30), 2.5, None, True, frozenset({1})]
KEYS += [f"key {n}" for n in range(500)]


def value(n):
    """A value whose size, and whether it has large arrays, depend on n."""
    return {"n": n, "text": "x" * (n * n), "array": np.full((n, 40), n, "i2"), "nested": [(n, None), {n: 1.5}]}


def filled(name, n=100, **options):
    cache = recstore.cache(name, limit="64MB", slots=n, **options)
    for i in reversed(range(n)):
        assert cache.put(i, value(i))
    return cache


def same(record, n):
    expected = value(n)
    return np.array_equal(record.pop("array"), expected.pop("array")) and record == expected


def independent(path):
    """The records of a file as the second reader finds them, after all its checks."""
    segment = ref.reader.segment_in(pathlib.Path(path).read_bytes())
    return (ref.mapping if segment[64] == 2 else ref.reader).check(segment)


def test_a_list(name):
    with filled(name) as cache, cache.seal() as sealed:
        assert type(sealed) is recstore.RecordList and len(sealed) == 100
        assert all(same(record, n) for n, record in enumerate(sealed))
        assert all(same(sealed[n], n) for n in (99, 0, 64, 63))
        assert sealed.field("n").to_numpy().tolist() == [*range(100)] and same(sealed[::-1][4], 95)
        sealed.segments[0].verify(None)
        assert all(same(record, n) for n, record in enumerate(independent(cache._file.path)))


def test_writers_with_arenas_of_their_own(name):
    """A later arena has values while an earlier one has space."""
    with recstore.cache(name, limit="64MB", slots=40) as cache:
        for first in range(0, 40, 10):
            in_child(lambda first=first: [cache.put(n, value(n)) for n in range(first, first + 5)])
            for n in range(first + 5, first + 10):
                cache.put(n, value(n))
        with cache.seal() as sealed:
            assert all(same(record, n) for n, record in enumerate(sealed))
            sealed.segments[0].verify(None)


def test_a_dict_has_keys_of_every_kind(name):
    with recstore.cache(name, limit="8MB") as cache:
        for n, key in enumerate(KEYS):
            assert cache.put(key, value(n % 50))
        with cache.seal() as sealed:
            assert type(sealed) is recstore.RecordDict and list(sealed) == list(cache) and len(sealed) == len(KEYS)
            assert all(same(sealed[key], n % 50) for n, key in enumerate(KEYS)) and "missing" not in sealed
            sealed.segments[0].verify(None)
            pairs = independent(cache._file.path)
            assert [key for key, _ in pairs] == list(cache) and same(dict(pairs)["key 20"], (KEYS.index("key 20")) % 50)
    with recstore.cache(name, limit="1MB") as empty, empty.seal() as sealed:
        assert sealed == {} and not empty.put("a", 1)


def test_it_has_the_bytes_of_the_cache(name):
    """The file of the cache is the file of the store, and grows by an index only."""
    with filled(name, 300) as cache:
        before = os.stat(cache._file.path)
        with cache.seal() as sealed:
            after = os.stat(cache._file.path)
            assert sealed.segments[0].identity == (after.st_dev, after.st_ino) == (before.st_dev, before.st_ino)
            assert after.st_blocks * 512 - before.st_blocks * 512 < 300 * 700 < 0.02 * before.st_blocks * 512


def test_the_cache_stores_no_more(name):
    with recstore.cache(name, limit="1MB") as cache:
        cache.put("a", 1)
        with cache.seal(), recstore.cache(name) as other:
            assert not other.put("b", 2) and cache.get_or_make("b", lambda: 3) == 3 and "b" not in other
            assert other.get("a") == cache.get_or_make("a", lambda: 4) == 1


def test_a_missing_value(name):
    with recstore.cache(name, limit="1MB", slots=3) as cache:
        cache.put(0, "a")
        with pytest.raises(ValueError, match="2 of 3 slots .* have no value"):
            cache.seal()
        assert cache.put(1, "b")


def test_it_is_sealed_once(name):
    """Threads, other openers and later calls have the same segment."""
    cache, stores = filled(name, 50), []
    together([threading.Thread(target=lambda: stores.append(cache.seal())) for _ in range(4)])
    with recstore.cache(name, slots=50) as other:
        stores.append(other.seal())
        assert len({store.segments[0].id for store in stores}) == 1 and len(stores) == 5
    cache.close()


def test_the_store_may_end_after_its_cache(name):
    cache = filled(name, 5)
    sealed, path = cache.seal(), cache._file.path
    cache.close()
    assert same(sealed[4], 4) and os.path.exists(path)
    sealed.close()
    assert not os.path.exists(path)


def test_views(name):
    with filled(name, 20, arrays="view") as cache:
        sealed = cache.seal()
        array = sealed[19]["array"]
        assert not array.flags.writeable and array[3, 5] == 19
        with pytest.raises(BusyError):
            sealed.close()
        del array
        sealed.close()


def test_a_kept_file_opens_as_a_store(name, tmp_path):
    with filled(name, 30, dir=tmp_path) as cache:
        path = cache._file.path
        with pytest.raises(CorruptError, match="opens a cache"):
            recstore.open(path)
        cache.seal().close()
    with recstore.open(path, verify="full") as opened:
        assert same(opened[29], 29)
        opened.save(tmp_path / "saved.rec")
    with recstore.open(tmp_path / "saved.rec", verify="full") as saved:
        assert all(same(record, n) for n, record in enumerate(saved))


def test_after_an_error_or_the_end_of_a_process_the_cache_stores_on(name, monkeypatch):
    with recstore.cache(name, limit="1MB") as cache:
        cache.put("a", 1)

        def end(keys):
            os.kill(os.getpid(), signal.SIGKILL)

        def fail(keys):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(caching, "_segment_of_keys", fail)
            pytest.raises(KeyboardInterrupt, cache.seal)
            assert cache.put("c", 3)
            patch.setattr(caching, "_segment_of_keys", end)
            pytest.raises(EOFError, lambda: in_child(cache.seal))
        assert not cache._file.stores and cache.put("b", 2) and cache._file.stores
        with cache.seal() as sealed:
            assert sealed.to_dict() == {"a": 1, "c": 3, "b": 2}


FULL_DISK = """
import recstore
from recstore.errors import OutOfSpaceError
with recstore.cache("full", limit="1GB", slots=15_001) as cache:
    cache.warm(range(15_000), str)
    used = cache.info().nbytes
    for _ in range(3):
        try:
            cache.put(15_000, "last")
            cache.seal()
        except OutOfSpaceError:
            print(cache.get(7), cache._file.stores, cache.info().nbytes - used < 1000)
"""


def test_a_full_disk(tmp_path):
    environment = {**os.environ, "RECSTORE_DIR": str(tmp_path)}
    assert mounts.run_with_tmpfs("size=2m", tmp_path, "-c", FULL_DISK, env=environment) == ["7 True True"] * 3


def test_a_cache_that_was_removed(name):
    with recstore.cache(name, limit="1MB") as cache:
        cache.put("a", "mine")
        recstore.names.remove(name)
        for _ in range(2):
            with pytest.raises(SegmentNotFoundError, match="has been removed"):
                cache.seal()
            assert cache.put("b", 1) or "b" in cache
            other = recstore.cache(name, limit="1MB")  # its file has the path of the removed one
        other.close()


def test_a_fork_does_not_keep_the_lock(name, monkeypatch):
    """A child that is forked while another thread seals inherits the descriptor with the lock."""
    make, children = caching._segment_of_keys, []

    def fork_and_make(keys):
        children.append(os.fork())
        if not children[-1]:
            signal.pause()
        return make(keys)

    monkeypatch.setattr(caching, "_segment_of_keys", fork_and_make)
    with recstore.cache(name, limit="1MB") as cache:
        cache.put("a", 1)
        try:
            cache.seal().close()
            cache.seal().close()
        finally:
            os.kill(children[0], signal.SIGKILL)
            os.waitpid(children[0], 0)


def test_a_slot_that_leads_to_another_value(name):
    with recstore.cache(name, limit="1MB", slots=4) as cache:
        for i in range(4):
            cache.put(i, f"value {i}")
        with open(cache._file.path, "r+b") as file:
            (segment,) = struct.unpack("<Q", os.pread(file.fileno(), 8, 72))
            table = segment - 65536  # one level of four slots
            os.pwrite(file.fileno(), os.pread(file.fileno(), 8, table + 8), table)
        with pytest.raises(CorruptError, match="the value of the key 0 is damaged"):
            cache.seal()
        assert cache._file.stores


@pytest.mark.parametrize("there", [b"key-aaaa", b"value aaaa"])
def test_changed_bytes_of_a_value_on_a_disk(name, tmp_path, there):
    with recstore.cache(name, limit="1MB", dir=tmp_path) as cache:
        cache.put("key-aaaa", "value aaaa")
        cache.put("key-bbbb", "value bbbb")
        data = pathlib.Path(cache._file.path).read_bytes()
        with open(cache._file.path, "r+b") as file:
            file.seek(data.index(there))
            file.write(there.replace(b"a", b"b"))
        with pytest.raises(CorruptError, match="is damaged.*recstore rm"):
            cache.seal()


def test_a_value_of_an_unregistered_class_is_a_record(name):
    with recstore.cache(name, limit="1MB") as cache:
        cache.put("a", decimal.Decimal("1.5"))
        in_child(lambda: put_point(cache))
        with cache.seal() as sealed:
            assert sealed["a"] == decimal.Decimal("1.5") and type(sealed["point"]) is recstore.Record


def put_point(cache):
    @recstore.register
    @dataclasses.dataclass
    class Point:
        x: int

    assert cache.put("point", Point(3))


def test_changed_bytes_never_end_a_process(name, tmp_path):
    path = str(tmp_path / "sealed")
    with recstore.cache(name, limit="8MB", dir=tmp_path) as cache:
        for n in range(30):
            cache.put(n, value(n))
        cache.seal().close()
        data = pathlib.Path(cache._file.path).read_bytes()
    begin = len(data) - 60_000

    def count_faults(seed):
        chance, faults = random.Random(seed), 0
        for _ in range(20):
            changed = bytearray(data)
            for _ in range(chance.randrange(1, 4)):
                changed[chance.choice((72, 73, 75, chance.randrange(begin, len(data))))] = chance.randrange(256)
            with open(path, "wb") as file:
                file.write(changed)
            try:
                with recstore.open(path) as opened:
                    faults += not all(same(opened[n], n) for n in range(30))
            except (Error, ValueError, TypeError, KeyError, OSError, MemoryError):
                faults += 1
        return faults

    assert sum(in_child(lambda seed=seed: count_faults(seed)) for seed in range(4)) > 0
