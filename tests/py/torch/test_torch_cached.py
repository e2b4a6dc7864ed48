"""CachedDataset: the samples of the dataset, made once."""

import copy
import itertools
import os
import pickle
import random
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from torch.utils.data import DataLoader, IterableDataset, Subset, random_split  # noqa: E402

from recstore.torch import CachedDataset  # noqa: E402

_numbers = itertools.count()


class Arrays(torch.utils.data.Dataset):
    """Samples of several types."""

    classes = ("even", "odd")

    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not -self.n <= i < self.n:
            raise IndexError(i)
        i %= self.n
        rng = np.random.default_rng(i)
        return {"image": rng.integers(0, 256, (4, 5), dtype=np.uint8), "label": i % 2, "mask": torch.full((3,), i)}

    def set_epoch(self, epoch):
        raise AssertionError("the cached samples would be of another epoch")


def augmented(sample):
    """Changes the sample in place, and draws from all generators."""
    sample["image"] += np.uint8(random.randrange(5))
    sample["mask"] += torch.randint(9, ()) + int(np.random.randint(9))
    return sample


class Plain(Arrays):
    def __getitem__(self, i):
        return augmented(super().__getitem__(i))


@pytest.fixture
def name(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path))
    yield f"cached {next(_numbers)}"
    assert [file for file in os.listdir(tmp_path) if file.endswith(".cache")] == []


def seed_generators():
    random.seed(1), np.random.seed(2), torch.manual_seed(3)


def epochs(dataset, **options):
    seed_generators()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [str(batch) for _ in range(3) for batch in DataLoader(dataset, 6, shuffle=True, **options)]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda d: d,
        lambda d: Subset(d, range(15, 2, -1)),
        lambda d: random_split(d, [3, 17], torch.Generator().manual_seed(1))[1],
    ],
)
def test_the_batches_are_the_same(name, wrap, monkeypatch):
    cached = CachedDataset(Arrays(), name, then=augmented)
    seed_generators()
    mine, plain = wrap(cached), wrap(Plain())
    wanted = epochs(plain)
    assert epochs(mine) == wanted
    monkeypatch.setattr(Arrays, "__getitem__", None)  # no sample is made again
    assert epochs(mine) == wanted


def test_one_call_serves_a_batch(name, monkeypatch):
    cached = CachedDataset(Arrays(), name)
    calls, get_many = [], type(cached.cache).get_many
    monkeypatch.setattr(type(cached.cache), "get_many", lambda *a: calls.append(1) or get_many(*a))
    assert len(list(DataLoader(Subset(cached, range(12)), 6))) == len(calls) == 2


def test_single_samples(name):
    cached, plain = CachedDataset(Arrays(), name), Arrays()
    for i in (3, -1, np.int64(5), torch.tensor(6)):
        assert str(cached[i]) == str(plain[int(i)])
    assert len(cached) == 20 and sorted(cached.cache) == [3, 5, 6, 19]
    assert [sample["label"] for sample in cached] == [i % 2 for i in range(20)]
    for i in (20, -21):
        with pytest.raises(IndexError, match=f"the index {i} is out of range: the dataset has 20 samples"):
            cached[i]


def test_a_sample_belongs_to_its_reader(name):
    cached = CachedDataset(Arrays(), name)
    for _ in range(3):
        sample = cached[4]
        assert str(sample) == str(Arrays()[4])
        sample["image"][:] = 0
        sample["mask"].zero_()


def test_attributes_of_the_dataset(name):
    cached = CachedDataset(Arrays(), name)
    assert cached.classes == ("even", "odd") and cached.n == 20
    with pytest.raises(AttributeError, match=r"'set_epoch' is callable: use \.dataset\.set_epoch"):
        cached.set_epoch(1)
    assert not hasattr(cached, "missing") and not hasattr(cached, "_private")
    for copied in (copy.copy(cached), pickle.loads(pickle.dumps(cached))):
        assert copied.classes == ("even", "odd") and str(copied[2]) == str(Arrays()[2])


class Doubled(CachedDataset):
    def __getitem__(self, index):
        return super().__getitem__(index)["label"] * 2


def test_a_subclass_with_its_own_getitem(name):
    assert next(iter(DataLoader(Doubled(Arrays(), name), 4))).tolist() == [0, 2, 0, 2]


class Reading(Arrays):
    def __init__(self, file):
        super().__init__()
        self.file = file

    def __getitem__(self, i):
        return self.file.read()


def test_wrong_arguments(name):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(TypeError, match="needs __getitem__ and __len__, which a Stream lacks"):
        CachedDataset(Stream(), name)
    with pytest.raises(TypeError, match="then must be a function of one sample, not int"):
        CachedDataset(Arrays(), name, then=3)
    with open(os.devnull) as file, pytest.raises(TypeError, match="no fingerprint can be derived: .*file"):
        CachedDataset(Reading(file), name)
    with pytest.raises(TypeError, match="the sampler yields batches of indices"):
        CachedDataset(Arrays(), name).__getitems__([[1, 2]])


def test_another_dataset_has_another_cache(name):
    one, other = CachedDataset(Arrays(), name), CachedDataset(Arrays(10), name)
    one[3]
    assert len(one.cache) == 1 and len(other.cache) == 0
    same = CachedDataset(Arrays(), name)
    assert len(same.cache) == 1 and same.cache.info().path == one.cache.info().path
