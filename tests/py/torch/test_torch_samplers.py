"""ShuffleSampler and BatchSampler: every index once, the counts of DistributedSampler, DataLoaders."""

import pickle
import sys

import numpy as np
import pytest
from ref import permute

import recstore
from recstore._core import native

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
samplers = pytest.importorskip("recstore.torch")

from sampler_ranks import in_turn, no_ranks, ranks  # noqa: E402, F401

DataLoader = torch.utils.data.DataLoader
SequentialSampler = torch.utils.data.SequentialSampler
DistributedSampler = torch.utils.data.distributed.DistributedSampler
BatchSampler = samplers.BatchSampler
GroupSampler = samplers.GroupSampler
ShuffleSampler = samplers.ShuffleSampler
MASK = 2**64 - 1


# ---- The order ----


def test_epoch_0_is_the_order_of_shuffled():
    with recstore.RecordList(range(1000)) as x:
        assert list(ShuffleSampler(x, seed=5)) == x.shuffled(5).to_list()
        assert list(ShuffleSampler(1000, seed=-5)) == x.shuffled(-5).to_list()
        assert list(ShuffleSampler(1000, seed=2**70 + 5)) == x.shuffled(5).to_list()


@pytest.mark.parametrize("epoch", [0, 1, 2, 77, 2**40])
def test_seed_of_an_epoch(epoch):
    for n in (50, 1023, 1024, 1025, 2048, 5000):  # chunks of an iterator have 1024 indices
        sampler = ShuffleSampler(n, seed=9)
        sampler.set_epoch(epoch)
        order = list(sampler)
        assert order == permute.order(n, 9 + permute.mix(epoch) & MASK) == list(sampler)
        assert sampler.epoch == epoch and set(map(type, order)) == {int}
        assert sampler.state_dict()["consumed"] == n


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 8])
def test_ranks_have_the_indices_of_distributed_sampler(world_size, drop_last, shuffle):
    """A DistributedSampler with our order yields the same indices on each rank."""
    for n in [1, 2, 7, 8, 9, 100, 101]:
        whole = list(ShuffleSampler(n, seed=4, shuffle=shuffle))
        assert sorted(whole) == list(range(n)) and (shuffle or whole == sorted(whole))
        for rank, sampler in enumerate(ranks(n, world_size, seed=4, drop_last=drop_last, shuffle=shuffle)):
            reference = DistributedSampler(range(n), world_size, rank, shuffle=False, drop_last=drop_last)
            assert list(sampler) == [whole[i] for i in reference], (n, rank)
            assert (len(sampler), sampler.num_samples, sampler.total_size) == (
                len(reference),
                reference.num_samples,
                reference.total_size,
            )


@pytest.mark.parametrize("n", [10**9, 2**48])
def test_long_orders_take_no_memory(n):
    """The end of a long epoch is reached at once. A list or a loop over the epoch would not end."""
    sampler = ShuffleSampler(n, seed=3, rank=1, world_size=2)
    assert len(sampler) == n // 2
    state = {**ShuffleSampler(n, seed=3).state_dict(), "consumed": n - 10}
    sampler.load_state_dict(state)
    last = list(iter(sampler))  # list(sampler) would make room for a whole epoch
    assert last == [permute.at(n, 3, n - 10 + i) for i in range(1, 10, 2)]
    assert sys.getsizeof(sampler) + len(pickle.dumps(sampler)) < 2000


# ---- Batches ----


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 10, 11, 5000])
def test_batches_are_slices_of_the_order(batch_size, drop_last):
    for n in (0, 1, 10, 4096, 5000):
        sampler = ShuffleSampler(n, seed=2)
        batches = BatchSampler(sampler, batch_size, drop_last)
        expected = list(torch.utils.data.BatchSampler(sampler, batch_size, drop_last))
        arrays = list(batches)
        assert [array.tolist() for array in arrays] == expected
        assert len(batches) == len(expected)
        assert all(type(array) is np.ndarray and array.dtype == np.int64 for array in arrays)


@pytest.mark.parametrize(
    "make", [SequentialSampler, lambda data: [4, 2, 0], lambda data: DistributedSampler(data, 2, 1)]
)
def test_batches_of_other_samplers(make):
    sampler = make(range(9))
    for drop_last in (True, False):
        batches = BatchSampler(sampler, 2, drop_last)
        reference = torch.utils.data.BatchSampler(sampler, 2, drop_last)
        assert [batch.tolist() for batch in batches] == list(reference)
        assert len(batches) == len(reference)
    assert isinstance(batches, torch.utils.data.BatchSampler)
    assert isinstance(batches, DistributedSampler) == isinstance(sampler, DistributedSampler)


def test_set_epoch_through_batches():
    batches = BatchSampler(ShuffleSampler(20, seed=1), 6)
    first = np.concatenate(list(batches)).tolist()
    batches.set_epoch(3)
    third = np.concatenate(list(batches)).tolist()
    assert first == permute.order(20, 1) and third == permute.order(20, 1 + permute.mix(3))
    assert batches.epoch == 3 and batches.sampler.epoch == 3
    BatchSampler([1, 2], 1).set_epoch(4)  # an iterable without epochs keeps its order


# ---- DataLoader ----


class Squares(torch.utils.data.Dataset):
    """Gives the square of an index, or the squares of a batch of indices."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return index * index if isinstance(index, int | np.integer) else torch.from_numpy(index * index)


def test_ways_into_a_dataloader():
    expected = torch.tensor(permute.order(50, 3)) ** 2
    sampler = ShuffleSampler(50, seed=3)
    for loader in (
        DataLoader(Squares(50), batch_size=8, sampler=sampler),
        DataLoader(Squares(50), batch_sampler=BatchSampler(sampler, 8)),
        DataLoader(Squares(50), sampler=BatchSampler(sampler, 8), batch_size=None),
    ):
        assert torch.equal(torch.cat(list(loader)), expected)
        assert len(loader) == 7


# ---- Arguments ----


def test_n_is_an_int_or_has_a_length():
    for n in (7, np.int64(7), torch.tensor(7), np.zeros((7, 2)), torch.zeros(7), range(7), {i: i for i in range(7)}):
        assert len(ShuffleSampler(n)) == 7
    assert len(ShuffleSampler(torch.tensor([7]))) == 1
    for wrong in (True, 7.0, None, np.bool_(True), np.float64(7), iter([1])):
        pytest.raises(TypeError, lambda: ShuffleSampler(wrong)).match("n, unless it has a len")
    pytest.raises(ValueError, lambda: ShuffleSampler(-1)).match("n must be .* at least 0, not -1")
    pytest.raises(ValueError, lambda: ShuffleSampler(2**48 + 1)).match("at most 2..48 records")


def test_bad_arguments():
    for seed in (1.0, True, "1", None):
        pytest.raises(TypeError, lambda: ShuffleSampler(3, seed=seed)).match("seed must be an integer")
    for rank, world_size, message in [
        (2, 2, "rank 2 of 2"), (-1, 2, "rank -1 of 2"), (0, 0, "at least 1"), (0, -3, "at le")
    ]:  # fmt: skip
        pytest.raises(ValueError, lambda: ShuffleSampler(3, rank=rank, world_size=world_size)).match(message)
    for rank, world_size in [(True, 2), (0.0, 2), (0, 2.0), (0, "2"), (0, np.bool_(True))]:
        pytest.raises(TypeError, lambda: ShuffleSampler(3, rank=rank, world_size=world_size)).match(
            "must be an integer"
        )
    for place in ({"rank": 0}, {"world_size": 2}):
        pytest.raises(TypeError, lambda: ShuffleSampler(3, **place)).match("both rank and world_size, or neither")
    for name in ("drop_last", "shuffle"):
        pytest.raises(TypeError, lambda: ShuffleSampler(3, **{name: 1})).match(f"{name} must be True or False")
    sampler = ShuffleSampler(3)
    for epoch in (1.0, True, None):
        pytest.raises(TypeError, lambda: sampler.set_epoch(epoch)).match("epoch must be an integer")
    for epoch in (-1, 2**63):
        pytest.raises(ValueError, lambda: sampler.set_epoch(epoch)).match("epoch must be from 0")
    for size in (1.5, True, None, "8"):
        pytest.raises(TypeError, lambda: BatchSampler(sampler, size)).match("batch_size must be an integer")
    for size in (0, -1):
        pytest.raises(ValueError, lambda: BatchSampler(sampler, size)).match("batch_size must be at least 1")
    pytest.raises(TypeError, lambda: BatchSampler(sampler, 2, None)).match("drop_last must be")
    pytest.raises(TypeError, lambda: BatchSampler(10, 2)).match("an iterable of ints, not int")
    with pytest.raises(TypeError, match="GroupSampler yields batches already: pass it as batch_sampler="):
        BatchSampler(GroupSampler([1, 1], 2), 2)
    with pytest.raises(TypeError, match="^BatchSampler yields batches already"):
        BatchSampler(BatchSampler(sampler, 2), 2)
    for index in (1.5, np.float32(1), "1", None):
        pytest.raises(TypeError, lambda: list(BatchSampler([0, index], 2)))
    assert [batch.tolist() for batch in BatchSampler([torch.tensor(3), np.uint8(1), 2], 2)] == [[3, 1], [2]]


# ---- Kinds and copies ----


def test_native_batches_check_their_arguments():
    out = np.empty(4, np.int64)
    native.fill_permutation(out, 3, None, 1, 2)
    assert out.tolist() == [1, 0, 2, 1]
    native.fill_permutation(out[:0], 3, 1, 0, 1)
    for arguments in [
        (0, 1, 0, 1), (2**48 + 1, 1, 0, 1), (3, 1, -1, 1), (3, 1, 0, -1), (3, 1, 2**63, 1), (3, 1, 0, 2**62)
    ]:  # fmt: skip
        pytest.raises(ValueError, lambda: native.fill_permutation(out, *arguments))
    for seed in (-1, 2**64):
        pytest.raises(OverflowError, lambda: native.fill_permutation(out, 3, seed, 0, 1))
    with pytest.raises(TypeError, match="must have 8 bytes"):
        native.fill_permutation(np.empty(4, np.int32), 3, 1, 0, 1)
    pytest.raises((ValueError, BufferError), lambda: native.fill_permutation(np.empty(8, np.int64)[::2], 3, 1, 0, 1))
    pytest.raises((ValueError, BufferError), lambda: native.fill_permutation(bytes(8), 3, 1, 0, 1))


def test_an_exhausted_iterator_stays_exhausted():
    iterator = iter(ShuffleSampler(2))
    assert list(iterator) and list(iterator) == []
    failing = native.IndexIterator(lambda: 1 / 0)
    pytest.raises(ZeroDivisionError, lambda: next(failing))
    pytest.raises(StopIteration, lambda: next(failing))
