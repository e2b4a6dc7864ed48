"""recstore.cache in one process: keys, values, get, put and get_or_make, and what happens at the limits."""

import collections
import dataclasses
import enum
import gc
import os
import pickle
import warnings

import kinds
import numpy as np
import pytest
import value_kinds
from alike import alike

import recstore
from recstore._core import trust
from recstore.caching.info import CacheUse
from recstore.errors import BusyError, ClosedError, EncodeError


@pytest.fixture
def cache(name):
    with recstore.cache(name, limit="8MB") as cache:
        yield cache
    assert not os.path.exists(cache._file.path)


@pytest.fixture
def slotted(name):
    with recstore.cache(f"{name} slots", limit="8MB", slots=10) as cache:
        yield cache


class Level(enum.IntEnum):
    LOW = 1


class Word(str, enum.Enum):
    YES = "yes"


class Color(enum.Enum):
    RED = 1


Frame = collections.namedtuple("Frame", "episode number")


@dataclasses.dataclass
class Point:
    x: int


def refuse(*_):
    raise AssertionError("it was called")


# ---- One value ----


def test_get_and_put(cache):
    assert (cache.get("a"), cache.get("a", 5), "a" in cache, len(cache), list(cache)) == (None, 5, False, 0, [])
    assert (cache.put("a", [1, {"b": 2.5}]), cache.put("a", 2)) == (True, False), "the first value stays"
    assert (cache.get("a"), "a" in cache, len(cache), list(cache)) == ([1, {"b": 2.5}], True, 1, ["a"])
    cache.put("none", None)
    assert "none" in cache and cache.get("none", 5) is None and cache.get_or_make("none", refuse) is None


def test_get_or_make_makes_once(cache):
    with pytest.raises(LookupError, match="no file"):
        cache.get_or_make("a", lambda: (_ for _ in ()).throw(LookupError("no file")))
    assert "a" not in cache
    assert cache.get_or_make("a", lambda *numbers: list(numbers), 1, 2) == [1, 2]
    assert cache.get_or_make("a", refuse, 1, 2) == [1, 2]


def test_make_may_use_and_close_the_cache(cache):
    made = cache.get_or_make("a", lambda: [cache.get_or_make("b", lambda: 2), cache.put("a", "inner"), len(cache)])
    assert made == [2, True, 2]
    assert cache.get("a") == "inner"
    pytest.raises(ClosedError, cache.get_or_make, "c", cache.close)


def test_a_value_of_every_size(cache):
    """Some sizes lie around the alignment (64 bytes), others around the size of arrays stored apart (1,024 bytes)."""
    sizes = [0, 1, 63, 64, 65, 1023, 1024, 1025, 4096, 100_000]
    for size in sizes:
        assert cache.put(("bytes", size), os.urandom(1) * size)
        assert cache.put(("array", size), np.full(size, 7, "u1"))
    for size in sizes:
        assert len(set(cache.get(("bytes", size)))) <= 1 and len(cache.get(("bytes", size))) == size
        array = cache.get(("array", size))
        assert array.tobytes() == b"\7" * size and array.flags.writeable


def test_a_value_larger_than_an_arena(name):
    """A value that takes several arenas and small values share the file."""
    with recstore.cache(name, limit="64MiB") as cache:
        large = np.arange(40 << 17, dtype="i8") % 251
        assert [cache.put(i, large[i:] if i == 1 else i) for i in range(3)] == [True] * 3
        assert np.array_equal(cache.get(1), large[1:]) and cache.get(2) == 2


@pytest.mark.parametrize("kind", value_kinds.KINDS)
@pytest.mark.parametrize("arrays", ["copy", "view"])
def test_values_of_every_kind(name, kind, arrays, monkeypatch):
    monkeypatch.setattr(trust, "registered", {})
    for name_of_class in "Color Level Word Perm IntPerm Pair Frozen AttrsDict".split():
        recstore.register(getattr(kinds, name_of_class))
    value = value_kinds.KINDS[kind]
    with recstore.cache(name, limit="1MB", arrays=arrays) as cache:
        assert cache.put("key", {"v": [value]})
        got = cache.get("key")["v"][0]
        assert value_kinds.torch.equal(got, value) if kind in value_kinds.TENSORS else alike(got, value)
        del got


# ---- Keys ----


@pytest.mark.parametrize("key", [1, 1.0, True, np.int64(1), np.float32(1), Level.LOW])
def test_equal_keys_of_other_types_are_one_key(cache, slotted, key):
    """Keys compare as in a dict."""
    for one in (cache, slotted):
        assert one.put(key, "value")
        assert [one.get(other) for other in (1, 1.0, True, np.int64(1), Level.LOW)] == ["value"] * 5
        assert list(one) == [1] and one.put(1, "other") is False


@pytest.mark.parametrize(
    "key",
    ["", "a", "\ud800", "a" * 100_000, b"a", 0, -1, 2**80, -0.0, 1.5, float("inf"), 1j, None, ..., (), ("episode", 3, ("left", 7)),
     frozenset({1, 2}), Word.YES, Frame("a", 1), (Frame("a", 1), Level.LOW), range(3), np.str_("a"), *map(value_kinds.PLAIN.get, (
         "date", "utc", "timedelta", "decimal", "fraction", "uuid", "path"))],
    ids=lambda key: repr(key)[:30],
)  # fmt: skip
def test_keys_of_every_kind(cache, key):
    assert cache.put(key, [1])
    assert key in cache and cache.get(key) == [1] and cache.get_or_make(key, refuse) == [1]
    assert list(cache) == [key]


def test_integers_beyond_floats_that_hash_alike_are_two_keys(cache):
    one = 2**2000
    other = one + 2**61 - 1
    assert hash(one) == hash(other)
    cache.put(one, 1)
    assert cache.get(one) == 1 and other not in cache


@pytest.mark.parametrize("key", [float("nan"), object(), [1], {1: 2}, refuse, (1, object()), Color], ids=lambda key: type(key).__name__)  # fmt: skip
def test_a_value_that_cannot_be_a_key(cache, key):
    for use in (cache.get, cache.__contains__, lambda key: cache.put(key, 1), lambda key: cache.get_or_make(key, int)):
        with pytest.raises(TypeError, match="cannot be a key of a cache"):
            use(key)


def test_a_key_of_a_class_that_other_processes_do_not_know(cache):
    with pytest.raises(EncodeError, match=r"recstore\.register\(\) for .*\.Color in"):
        cache.put(Color.RED, 1)
    assert len(cache) == 0


def test_slots(slotted):
    assert slotted.slots == 10
    for key in (-1, 10, 2**70, -(2**70)):
        assert key not in slotted
        for use in (slotted.get, lambda key: slotted.put(key, 1), lambda key: slotted.get_or_make(key, refuse)):
            with pytest.raises(IndexError, match=f"the key {key} is not among the 10 slots"):
                use(key)
    for key in ("1", None, 1.5, float("nan"), (1,)):
        with pytest.raises(TypeError, match=r"the keys of a cache with slots= are ints, not"):
            slotted.get(key)


# ---- Values that are the caller's own ----


def test_changes_in_place_never_reach_the_cache(cache):
    image, record = np.zeros((4, 4, 3), "u1"), {"boxes": [1, 2]}
    for key, value in (("image", image), ("record", record)):
        cache.put(key, value)
    image[:] = 5
    record["boxes"].append(3)
    cache.get("image")[:] = 7
    cache.get("record")["boxes"].clear()
    assert not cache.get("image").any() and cache.get("record") == {"boxes": [1, 2]}
    made = cache.get_or_make("made", lambda: np.zeros(4))
    made[:] = 5
    assert not cache.get("made").any()


def test_views_are_read_only_and_without_copy(name):
    with recstore.cache(name, limit="1MB", arrays="view") as cache:
        cache.put("a", np.arange(5000))
        one, other = cache.get("a"), cache.get("a")
        assert np.array_equal(one, np.arange(5000))
        assert one.__array_interface__["data"] == (other.__array_interface__["data"][0], True)
        pytest.raises(ValueError, one.__setitem__, 0, 1)
        pytest.raises(ValueError, one.setflags, write=True)
        del one, other


def test_a_view_keeps_the_cache_open(name):
    cache = recstore.cache(name, limit="1MB", arrays="view")
    cache.put("a", np.arange(5000))
    view = cache.get("a")[10:]
    with pytest.raises(BusyError, match="delete them first"):
        cache.close()
    assert cache.get("a")[1] == 1
    path = cache._file.path
    del cache
    gc.collect()
    assert view[0] == 10 and os.path.exists(path)
    del view
    gc.collect()
    assert not os.path.exists(path)


def test_an_error_is_seen_although_its_traceback_holds_views(name):
    with pytest.raises(ZeroDivisionError), recstore.cache(name, limit="1MB", arrays="view") as cache:
        cache.put("a", np.zeros(1000))
        view = cache.get("a")
        assert 1 / 0 == view


def test_tensors_are_never_views(name):
    torch = pytest.importorskip("torch")
    with recstore.cache(name, limit="1MB", arrays="view") as cache:
        cache.put("a", torch.zeros(5000))
        cache.get("a").fill_(5)
        assert not cache.get("a").any()


def test_default_collate_warns_of_nothing(cache):
    data = pytest.importorskip("torch.utils.data")
    cache.put("a", np.zeros((3, 4), "f4"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = data.default_collate([cache.get("a"), cache.get_or_make("b", lambda: np.ones((3, 4), "f4"))])
    assert batch.sum() == 12


# ---- Values that cannot be stored ----


def test_a_value_that_cannot_be_stored(cache):
    with pytest.raises(EncodeError, match=r"^\$\.a\[1\]: cannot store object") as caught:
        cache.put("key", {"a": [1, object()]})
    assert "on_unsupported" not in str(caught.value), "a cache has no such option"
    with pytest.raises(EncodeError, match="store a name for it") as caught:
        cache.put("key", os.path.join)
    assert "on_unsupported" not in str(caught.value)
    assert len(cache) == 0 and cache.put("key", 1)


def test_one_warning_for_a_type_that_cannot_be_stored(cache):
    """The warning names the line of the caller and the path in the value."""
    with pytest.warns(
        RuntimeWarning, match=r"cannot be stored, so it is made at each use: \$\.image: cannot"
    ) as caught:
        for i in range(5):
            value = cache.get_or_make(i, lambda: {"image": object()})
    assert len(caught) == 1 and caught[0].filename == __file__
    assert type(value["image"]) is object and cache.info().processes[0].refused == 5


# ---- Space ----


def test_a_full_cache_says_so_and_keeps_its_values(name):
    with recstore.cache(name, limit="1MB") as cache:
        kept_keys = [i for i in range(40) if cache.put(i, bytes([i]) * 100_000)]
        assert kept_keys == list(range(9))
        assert all(cache.get(i) == bytes([i]) * 100_000 for i in kept_keys) and sorted(cache) == kept_keys
        assert cache.get_or_make("more", lambda: b"x" * 100_000) == b"x" * 100_000 and "more" not in cache
        info = cache.info()
        assert info.nbytes <= info.limit == 1_000_000 and info.processes[0].full == 32


def test_a_value_larger_than_the_cache(cache):
    assert cache.put("a", bytes(9_000_000)) is False
    assert cache.put("b", 1) and list(cache) == ["b"]


def test_every_batch_has_the_same_share_of_hits(name):
    """A hash chooses the keys that are kept, whatever their order is."""
    n, size = 4000, 1000
    with recstore.cache(name, limit=n * size // 2, slots=n) as cache:
        for i in range(n):
            cache.get_or_make(i, lambda: bytes(size))
        shares = [sum(i in cache for i in range(first, first + 400)) / 400 for first in range(0, n, 400)]
    assert 0.4 < sum(shares) / 10 <= 0.5 and max(shares) - min(shares) < 0.2


@pytest.mark.parametrize(
    "limit", ["0%", "101%", "-5%", "x%", "nan%", "1KB", "", "abc", "20 GX", 0, -1, 65_535, 1 << 60]
)
def test_wrong_limits(name, limit):
    pytest.raises(ValueError, recstore.cache, name, limit=limit)
    for wrong in (None, True, 1.5, b"60%"):
        with pytest.raises(TypeError, match='a size is an int or a text such as "1MiB"'):
            recstore.cache(name, limit=wrong)


def test_limits(name, monkeypatch):
    from recstore._core import native
    from recstore.caching import cache_size

    for limit, expected in {"1MB": 10**6, "1.5 MiB": 3 << 19, 70_000: 70_000}.items():
        with recstore.cache(name, limit=limit) as cache:
            assert cache.info().limit == expected
    monkeypatch.setattr(native, "headroom", lambda: (10**6, "memory cgroup"))
    assert cache_size.parse("60%", "/dev/shm") == cache_size.parse(" 60 %", "/dev/shm") == 600_000
    assert cache_size.parse("1%", "/dev/shm") == cache_size.LEAST


# ---- Arguments, life ----


@pytest.mark.parametrize("options", [
    {"slots": 0}, {"slots": -1}, {"slots": True}, {"slots": 1.5}, {"slots": "5"}, {"slots": 1 << 41}, {"arrays": "shared"}, {"keep": "x"},
], ids=str)  # fmt: skip
def test_wrong_arguments(name, options):
    pytest.raises(ValueError, recstore.cache, name, **options)
    pytest.raises(ValueError, recstore.cache, "a/b")


@pytest.mark.parametrize("fingerprint", ["", "a\0", "\ud800", "é" * 501])
def test_wrong_fingerprints(name, fingerprint):
    with pytest.raises(ValueError, match=r"fingerprint .* not|surrogates"):
        recstore.cache(name, fingerprint=fingerprint, limit="1MB")


def test_a_function_with_a_long_name(name):
    maker = type("x", (), {"__call__": lambda self: 1, "__qualname__": "é" * 5000})
    with recstore.cache(name, fingerprint="e" * 900, code=maker(), limit="1MB") as cache:
        assert cache.put(1, 1)


def test_code_whose_fingerprint_cannot_be_derived(name):
    with pytest.raises(TypeError, match='code is a method-wrapper, .*; give fingerprint="'):
        recstore.cache(name, code=np.zeros(3).__getitem__)
    with pytest.raises(TypeError, match="code is the function that makes the values, not int"):
        recstore.cache(name, code=5)


def one_maker(n):
    return n + 1


def other_maker(n):
    return n + 2


def test_a_changed_function_has_a_cache_of_its_own(name, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"1")
    with recstore.cache(name, code=one_maker, limit="1MB") as cache:
        cache.put(1, 2)
        with recstore.cache(name, code=other_maker, limit="1MB") as other, recstore.cache(name, limit="1MB") as bare:
            assert len(other) == len(bare) == 0
        with recstore.cache(name, code=one_maker, files=[file], limit="1MB") as before:
            before.put(1, 1)
            file.write_bytes(b"22")
            with recstore.cache(name, code=one_maker, files=[file], limit="1MB") as after:
                assert (len(before), len(after)) == (1, 0)
        with recstore.cache(name, code=one_maker, limit="1MB") as again:
            assert again.get(1) == 2


def test_other_slots_are_refused(slotted):
    for slots in (9, 11, None):
        with pytest.raises(
            ValueError, match=r"was made with slots=10, not .*; another fingerprint= makes another cache"
        ):
            recstore.cache(slotted.name, slots=slots)
    with recstore.cache(slotted.name, slots=9, fingerprint="9", limit="1MB") as other:
        assert other.slots == 9


def test_a_closed_cache(name):
    cache = recstore.cache(name, limit="1MB")
    cache.close()
    cache.close()
    assert repr(cache) == f"<Cache {name!r}, closed>" and not os.path.exists(cache._file.path)
    for use in (cache.info, cache.seal, lambda: len(cache), lambda: list(cache), lambda: 1 in cache, lambda: cache.get(1),
                lambda: cache.put(1, 2), lambda: cache.get_or_make(1, refuse), lambda: cache.get_many([1]),
                lambda: cache.get_many([1], stack=True)):  # fmt: skip
        pytest.raises(ClosedError, use)


def test_two_caches_of_one_name_in_a_process(name):
    one, other = recstore.cache(name, limit="1MB"), recstore.cache(name)
    one.put("a", 1)
    assert other.get("a") == 1 and other.put("a", 2) is False and other.info().limit == 10**6
    one.close()
    again = pickle.loads(pickle.dumps(other))  # as its name
    assert other.put("b", 2) and sorted(other) == sorted(again) == ["a", "b"] and again._file is not other._file
    again.close()
    other.close()
    assert not os.path.exists(other._file.path)


def test_a_cache_in_a_folder_is_kept(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with recstore.cache(name, dir="kept", limit="1MB") as cache:
        cache.put("a", np.arange(3))
        pickled = pickle.dumps(cache)
    monkeypatch.chdir("/")
    with pickle.loads(pickled) as again:
        assert again.get("a").tolist() == [0, 1, 2]
    assert len(recstore.cache(name, dir=tmp_path / "kept", keep=True, limit="50%")) == 1
    file = next((tmp_path / "kept").iterdir())
    pytest.raises(recstore.errors.CorruptError, recstore.open, file).match(r"recstore\.cache\(name\)")


@pytest.mark.parametrize("other", [{"limit": "2MB"}, {"keep": "3h"}, {"keep": True}, {"keep": False}], ids=str)
def test_a_later_opener_is_told_of_another_limit_or_keep(name, other):
    with recstore.cache(name, limit="1MB", keep="2h"):
        with pytest.warns(RuntimeWarning, match=next(iter(other))) as warned, recstore.cache(name, **other) as again:
            assert again.info().limit == 1_000_000 and len(warned) == 1
        for same in ({"limit": 10**6, "keep": 7200}, {"limit": "30%", "keep": "2h"}, {}):
            recstore.cache(name, **same).close()
    recstore.names.remove(name)


def test_twelve_thousand_keys(cache):
    """The first levels of the table have fewer slots."""
    for i in range(12_000):
        assert cache.put(i, i % 7)
    assert len(cache) == 12_000 and sorted(cache) == list(range(12_000))
    assert all(cache.get(i) == i % 7 for i in range(0, 12_000, 7))


def test_the_counters_of_a_process(cache):
    cache.get("a")
    cache.put("a", 1)
    cache.put("a", 1)
    cache.get("a")
    info = cache.info()
    (use,) = info.processes
    assert (use.pid, use.is_running, use.hits, use.misses, use.stored, use.lost) == (os.getpid(), True, 1, 1, 1, 1)
    assert (info.filled, info.nbytes > 0, info.slots, info.limit) == (1, True, None, 8 * 10**6)
    assert f"cache {cache.name!r}: 1 values" in str(info)
    info.processes += [CacheUse(1, 0, False, (7, 0, 0, 0, 0, 0)), CacheUse(2, 0, False, (1000, 0, 0, 0, 0, 3))]
    rows = [line.split() for line in str(info).splitlines()[2:]]
    assert rows == [[str(os.getpid()), *"111100"], ["2", "ended", "1,007", *"0000", "3"]], "one row for all that ended"
