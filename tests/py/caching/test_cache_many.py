"""Many values of a cache at once, the state of random generators, strict mode and warnings."""

import os
import random
import warnings

import numpy as np
import pytest

import recstore
from recstore.caching import random_state
from recstore.errors import ClosedError


@pytest.fixture
def cache(name):
    with recstore.cache(name, limit="8MB", slots=100) as cache:
        yield cache


def refuse(_):
    raise AssertionError("it was called")


def image(key):
    return np.full((4, 5), key, "f4")


# ---- get_many, warm ----


def test_get_many_is_a_list(cache):
    cache.put(1, "one")
    assert cache.get_many([1, 2, 1], make=lambda key: f"made {key}") == ["one", "made 2", "one"]
    assert cache.get_many(iter([2, 1])) == ["made 2", "one"] and cache.get_many([]) == []
    with pytest.raises(KeyError, match="^3$"):
        cache.get_many([1, 3])


@pytest.mark.parametrize("filled", [(), (3,), (1, 2, 3)], ids=str)
def test_stacked(cache, filled):
    for key in filled:
        cache.put(key, image(key))
    stacked = cache.get_many([3, 1, 2, 3], make=image, stack=True)
    assert stacked.dtype == "f4" and stacked.shape == (4, 4, 5) and stacked[:, 0, 0].tolist() == [3, 1, 2, 3]
    stacked[:] = 9
    assert cache.get_many([1, 2], stack=True).max() == 2, "the batch is the caller's own"


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_into_an_array_of_the_caller(cache, order):
    for key in range(3):
        cache.put(key, image(key))
    out = np.zeros((3, 4, 10), "f4")[:, :, ::2] if order == "strided" else np.zeros((3, 4, 5), "f4", order=order)
    assert cache.get_many([2, 0, 1], out=out) is out
    assert (out == [[[2]], [[0]], [[1]]]).all()


def test_stacked_tensors(cache):
    torch = pytest.importorskip("torch")
    for key in range(3):
        cache.put(key, torch.full((2, 3), key, dtype=torch.bfloat16))
    assert cache.get_many([2, 0], stack=True)[:, 0, 0].tolist() == [2, 0]
    out = torch.zeros(2, 2, 3, dtype=torch.bfloat16).share_memory_()
    assert cache.get_many([1, 2], out=out) is out and out[:, 1, 2].tolist() == [1, 2]


def test_arrays_into_a_tensor_and_tensors_into_an_array(cache):
    torch = pytest.importorskip("torch")
    for key in range(2):
        cache.put(key, image(key))
        cache.put(key + 2, torch.full((4, 5), key, dtype=torch.float32))
    out = torch.zeros(3, 4, 5)
    assert cache.get_many([1, 0, 9], image, out=out) is out and out[:, 0, 0].tolist() == [1, 0, 9]
    out = np.zeros((3, 4, 5), "f4")
    assert cache.get_many([3, 2, 3], out=out) is out and out[:, 0, 0].tolist() == [1, 0, 1]
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        cache.get_many([3, 2, 3], out=out)
    with pytest.raises(ValueError, match="out has the shape"):
        cache.get_many([0, 1], out=torch.zeros(2, 4, 5, dtype=torch.float64))


def test_values_that_cannot_be_stacked(cache):
    cache.put(0, image(0))
    cache.put(1, np.zeros((4, 6), "f4"))
    cache.put(2, "text")
    cache.put(3, np.zeros((4, 5), "f8"))
    for key in (1, 2, 3):
        with pytest.raises(ValueError, match="cannot be stacked.*for the key " + str(key)):
            cache.get_many([0, key], stack=True)
    pytest.raises(ValueError, cache.get_many, [2], stack=True)
    with pytest.raises(ValueError, match="no keys to stack"):
        cache.get_many([], stack=True)
    with pytest.raises(ValueError, match="for the key 50"):
        cache.get_many([0, 50], make=lambda key: np.zeros(3, "f4"), stack=True)
    pytest.raises(KeyError, cache.get_many, [0, 60], stack=True)


@pytest.mark.parametrize("keys", [[1], [0, 1], [0, 2]])
def test_an_error_in_a_batch_is_seen_and_the_cache_can_be_closed(name, keys):
    cache = recstore.cache(name, limit="1MB")
    cache.put(0, image(0))
    cache.put(2, np.zeros(3))
    try:
        cache.get_many(keys, lambda key: 1 / 0, stack=True)
    except (ZeroDivisionError, ValueError):  # its traceback is alive
        cache.close()
    assert not os.path.exists(cache._file.path)


def test_make_may_close_the_cache_of_a_batch(name):
    cache = recstore.cache(name, limit="1MB")
    pytest.raises(ClosedError, cache.get_many, [1, 2], lambda key: cache.close() or image(key), stack=True)


@pytest.mark.parametrize(
    "out", [np.zeros((1, 4, 5), "f4"), np.zeros((2, 4, 5), "f8"), np.zeros((2, 5), "f4"), 5, [1]], ids=str
)
def test_an_out_that_does_not_fit(cache, out):
    cache.put(0, image(0))
    with pytest.raises((ValueError, TypeError), match="out "):
        cache.get_many([0, 0], out=out)


def test_warm(cache):
    pytest.raises(ZeroDivisionError, cache.warm, [1], lambda key: 1 / 0)
    cache.put(5, "kept")
    assert len(cache) == 1
    info = cache.warm(range(100), lambda key: key)
    assert info.filled == 100 and cache.get(5) == "kept" and cache.get(99) == 99
    assert cache.warm(range(100), refuse).filled == 100
    pytest.raises(ValueError, cache.warm, [1], image, workers=-1)


# ---- Random state ----


@pytest.mark.filterwarnings("ignore:making a value for the cache:RuntimeWarning")
def test_the_random_state_is_the_same_after_a_hit_and_after_a_call(cache):
    def states():
        torch_state = [] if torch is None else torch.get_rng_state().tolist()
        return random.getstate(), np.random.get_state()[1].tolist(), torch_state

    def make():
        return [random.random(), np.random.rand(), torch is not None and torch.rand(1).item()]

    torch = pytest.importorskip("torch")
    before = states()
    made = cache.get_or_make(0, make)
    assert states() == before
    assert cache.get_or_make(0, make) == made and states() == before
    with pytest.raises(ZeroDivisionError):
        cache.get_or_make(1, lambda: [make(), 1 / 0])
    cache.get_many([2, 3], make=lambda _: make())
    cache.get_many([4, 5], make=lambda _: np.array(make()), stack=True)
    cache.warm([6, 7], lambda _: make())
    assert states() == before


@pytest.mark.parametrize("generator", [np.random.MT19937, np.random.PCG64])
@pytest.mark.parametrize("n_drawn", [0, 1, 2])
def test_the_state_of_numpy(generator, n_drawn):
    """numpy draws normal numbers in pairs and keeps the second one."""
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(generator(5))
    try:
        np.random.randn(n_drawn)
        state = repr(np.random.get_state(legacy=False))
        for draw in (str, np.random.rand, np.random.randn, lambda: np.random.randn(3), lambda: np.random.seed(1)):
            with random_state.restored() as used:
                draw()
            assert repr(np.random.get_state(legacy=False)) == state
            assert used == ([] if draw is str else ["numpy.random"])
    finally:
        np.random.set_bit_generator(before)


# ---- Strict mode and warnings ----


def test_values_that_are_drawn_are_one_warning(cache):
    with pytest.warns(RuntimeWarning) as caught:
        first, second = cache.get_or_make(0, random.random), cache.get_or_make(1, random.random)
    assert first == second and len(caught) == 1 and caught[0].filename == __file__


def test_strict_mode_makes_every_hundredth_value_again(name, monkeypatch):
    monkeypatch.setenv("RECSTORE_STRICT", "1")
    calls = []

    def make(value):
        calls.append(value)
        return value

    values = {"array": np.array([1.0, float("nan")]), "nested": {"a": [1, (2, float("nan"))]}, "text": "x"}
    with recstore.cache(name, limit="1MB") as cache:
        for key in values:
            for _ in range(201):
                cache.get_or_make(key, make, values[key])
        assert len(calls) == 3 + 6
        with pytest.warns(RuntimeWarning, match="has another value for the key 'text' than make") as caught:
            for _ in range(300):
                cache.get_or_make("text", make, "y")
    assert len(caught) == 1 and caught[0].filename == __file__


def test_strict_mode_compares_stacked_values(name, monkeypatch):
    monkeypatch.setenv("RECSTORE_STRICT", "1")
    with recstore.cache(name, limit="1MB", slots=100) as cache:
        cache.get_many(range(100), image, stack=True)
        with pytest.warns(RuntimeWarning, match="has another value for the key 99 than make"):
            assert cache.get_many(range(100), lambda key: image(-1), stack=True)[5, 0, 0] == 5


def read_epochs(cache, make=image, epochs=3):
    for _ in range(epochs):
        for key in range(100):
            cache.get_or_make(key, make, key)


def test_the_counters_of_an_epoch(cache):
    read_epochs(cache, epochs=1)
    before = cache.info()
    assert cache.info().since(before).processes == []
    cache.get(3), cache.put(3, 4)
    (use,) = cache.info().since(before).processes
    assert (use.pid, use.hits, use.misses, use.stored, use.lost) == (os.getpid(), 1, 0, 0, 1)


def test_one_warning_where_nothing_hits_because_it_is_full(name):
    with recstore.cache(name, limit=65_536, slots=100) as cache:
        with pytest.warns(RuntimeWarning, match=r"0 of 151 lookups .* were hits: the limit of .* is reached") as caught:
            read_epochs(cache, lambda key: bytes(70_000))
    assert len(caught) == 1 and caught[0].filename == __file__


def test_one_warning_where_nothing_hits_because_few_slots_are_used(name):
    with recstore.cache(name, limit="1MB", slots=10**6) as cache:
        with pytest.warns(RuntimeWarning, match="1,000,000 slots share the limit of 1 MB.*leave out slots="):
            for key in [*range(0, 10**6, 200)] * 2:
                cache.get_or_make(key, bytes, 3000)
        assert 0 < cache.info().nbytes < 500_000
    with recstore.cache(name, limit="20MB") as cache:
        cache.warm(range(0, 10**6, 200), lambda key: bytes(3000))
        assert len(cache) == 5000


def test_one_warning_where_nothing_hits_because_nothing_can_be_stored(cache):
    with pytest.warns(RuntimeWarning) as caught:
        read_epochs(cache, lambda key: object())
    assert len(caught) == 2 and "lookups in the cache" in str(caught[1].message)
    assert str(caught[1].message).endswith("were hits: most values cannot be stored")


@pytest.mark.parametrize("slots", [None, 100])
def test_one_warning_where_the_values_are_in_another_cache(name, slots, tmp_path, monkeypatch):
    """Lookups without `make` are misses too, whatever their keys are."""
    # The warning names five caches, and other tests may have kept some.
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path))
    with recstore.cache(name, limit="1MB", slots=slots, code=image) as filled:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_epochs(filled)
        for fingerprint, cache_name, reason in (
            ("other", name, r"of this name have another fingerprint: image \(test_cache_many.py:\d+\)$"),
            ("other", name + "!", f"no process has stored its values; other caches are .*'{name}'"),
        ):
            with recstore.cache(cache_name, limit="1MB", slots=slots, fingerprint=fingerprint) as empty:
                for key in [*range(100), *[5] * 200]:
                    empty.get(key)
                with pytest.warns(RuntimeWarning, match="0 of .* were hits: .*" + reason) as caught:
                    for key in range(100):
                        empty.get(key)
                assert len(caught) == 1


def test_no_warning_of_a_cache_that_hits(name, recwarn):
    with recstore.cache(name, limit="200kB", slots=100) as cache:
        read_epochs(cache, lambda key: bytes(4000))
    assert not recwarn.list


def test_no_space_on_the_disk_is_one_warning(cache, monkeypatch):
    """The values are returned nevertheless."""
    file = cache._file

    class Full:
        def put(self, key, value):
            raise recstore.errors.OutOfSpaceError(28, "no space left")

        def __getattr__(self, name):
            return getattr(file, name)

    cache._file = Full()
    with pytest.warns(RuntimeWarning, match="has no space: .*; its further values are not kept") as caught:
        assert [cache.get_or_make(key, str, key) for key in range(3)] == ["0", "1", "2"]
    assert len(caught) == 1 and caught[0].filename == __file__
    cache._file = file
    assert cache.info().processes[0].full == 3
