"""The behavior that all samplers of recstore.torch share: ranks, resuming, pickles."""

import copy
import itertools
import pickle

import numpy
import pytest

import recstore

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from sampler_ranks import in_turn, no_ranks  # noqa: E402, F401

from recstore.torch import (  # noqa: E402
    BatchSampler,
    GroupSampler,
    LengthBatchSampler,
    Loader,
    MixSampler,
    PackSampler,
    ShardSampler,
    ShuffleSampler,
    WeightedSampler,
)
from recstore.torch.sampler_base import ItemSampler  # noqa: E402

LABELS = recstore.RecordList({"label": i % 3} for i in range(30)).field("label")
MAKERS = {
    "shuffle": lambda **options: ShuffleSampler(20, seed=3, **options),
    "weights": lambda **options: WeightedSampler([1, 2, 3] * 5, 12, seed=4, **options),
    "no replacement": lambda **options: WeightedSampler([1, 2, 3] * 5, 12, seed=4, replacement=False, **options),
    "classes": lambda **options: WeightedSampler("balanced", 12, classes=["a", "b", "a"], seed=4, **options),
    "field": lambda **options: WeightedSampler("balanced", 12, classes=LABELS, seed=4, **options),
    "lengths": lambda **options: LengthBatchSampler([1 + i * 37 % 400 for i in range(150)], 700, seed=5, **options),
    "groups": lambda **options: GroupSampler([i * i % 7 for i in range(150)], 6, seed=5, **options),
    "best-fit": lambda **options: PackSampler([i * 37 % 90 for i in range(40)], 64, seed=6, **options),
    "concat": lambda **options: PackSampler([i * 37 % 90 for i in range(40)], 64, "concat", seed=6, **options),
    "mix": lambda **options: MixSampler([(range(13), 2), (range(5), 1)], seed=7, **options),
    "repeating mix": lambda **options: MixSampler([(range(13), 2, 3), (range(5), 1, 5)], "tokens", 50, **options),
    "mixed batches": lambda **options: MixSampler(
        [(GroupSampler([i * i % n for i in range(90)], 6, seed=5), n) for n in (3, 7)], **options
    ),
    "mixed rows": lambda **options: MixSampler([(PackSampler([i, 20], 9), i) for i in (3, 40)], **options),
    "shards": lambda **options: ShardSampler(20, boundaries=[5, 5, 13, 20], window=2, seed=3, **options),
}
EMPTY = {
    "shuffle": lambda **options: ShuffleSampler(0, **options),
    "no elements": lambda **options: ShuffleSampler(numpy.empty(0), **options),
    "weights": lambda **options: WeightedSampler([], **options),
    "no samples": lambda **options: WeightedSampler([0, 0], 0, **options),
    "no replacement": lambda **options: WeightedSampler([], replacement=False, **options),
    "classes": lambda **options: WeightedSampler("balanced", classes=[], **options),
    "lengths": lambda **options: LengthBatchSampler([], 8, **options),
    "groups": lambda **options: GroupSampler([], 8, **options),
    "field": lambda **options: GroupSampler(recstore.RecordList([]).field("a"), 8, **options),
    "no documents": lambda **options: PackSampler([], 8, **options),
    "no tokens": lambda **options: PackSampler([0, 0], 8, "concat", **options),
    "no shards": lambda **options: ShardSampler(0, boundaries=[], nodes=2, **options),
    "empty shards": lambda **options: ShardSampler(0, boundaries=[0, 0, 0], **options),
}
every_sampler = pytest.mark.parametrize("name", MAKERS)


def items_of(sampler):
    return [item.tolist() if isinstance(item, numpy.ndarray) else item for item in sampler]


@every_sampler
@pytest.mark.parametrize("drop_last", [True, False])
def test_ranks_divide_the_items(name, drop_last):
    make = MAKERS[name]
    whole = items_of(make(drop_last=drop_last))
    for world_size in (1, 2, 3, 4, 8):
        samplers = [make(rank=rank, world_size=world_size, drop_last=drop_last) for rank in range(world_size)]
        shares = [items_of(sampler) for sampler in samplers]
        assert {len(share) for share in shares} == {len(sampler) for sampler in samplers}
        assert len({len(share) for share in shares}) == 1
        taken = in_turn(shares)
        assert len(taken) == len(whole) // world_size * world_size if drop_last else 0 <= len(taken) - len(whole) < 8
        assert taken[: len(whole)] == whole[: len(taken)]
        if name != "shards":  # the ranks of a ShardSampler repeat records of their own
            assert taken == (whole * 2)[: len(taken)]


@every_sampler
@pytest.mark.parametrize("drop_last", [False, True])
def test_resume_on_other_ranks(name, drop_last):
    make = MAKERS[name]
    whole = items_of(make(drop_last=drop_last))
    for before, after in itertools.product((1, 2, 3), repeat=2):
        steps_of_an_epoch = len(whole) // before if drop_last else -(-len(whole) // before)
        for steps in range(0, steps_of_an_epoch + 1, 2):
            sampler = make(rank=0, world_size=before, drop_last=drop_last)
            list(itertools.islice(sampler, steps))
            state = sampler.state_dict()
            assert state["consumed"] == (len(whole) if steps == steps_of_an_epoch else steps * before)
            shares = []
            for rank in range(after):
                later = make(rank=rank, world_size=after, drop_last=drop_last)
                later.load_state_dict(state)
                later.set_epoch(0)
                shares.append(items_of(later))
            rest = whole[state["consumed"] :]
            if drop_last:
                rest = rest[: len(rest) // after * after]
            assert in_turn(shares)[: len(rest)] == rest and (not drop_last or len(in_turn(shares)) == len(rest))


@every_sampler
def test_pickled_and_copied(name):
    sampler = MAKERS[name](rank=1, world_size=2)
    sampler.set_epoch(2)
    list(itertools.islice(sampler, 4))
    copies = [pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)]
    if isinstance(sampler, ItemSampler) and not sampler._yields_batches:
        copies.append(pickle.loads(pickle.dumps(BatchSampler(sampler, 3))).sampler)
    state, whole = sampler.state_dict(), items_of(sampler)
    assert state["consumed"] == 8
    for twin in copies:
        assert twin.state_dict() == state and items_of(twin) == whole


class Echo:
    """A dataset whose samples are their indices."""

    def __len__(self):
        return 1000

    def __getitem__(self, item):
        return item


@every_sampler
def test_a_loader_that_reads_ahead_resumes(name):
    """Its state counts the batches that the loop received, not those that the sampler gave."""

    def made():
        sampler = MAKERS[name]()
        has_items = isinstance(sampler, ItemSampler) and not sampler._yields_batches
        return Loader(
            Echo(), batch_sampler=BatchSampler(sampler, 2) if has_items else sampler, collate=list, prefetch=9
        )

    whole = list(made())
    with made() as loader:
        head = list(itertools.islice(loader, 3))
        state = loader.state_dict()
    later = made()
    later.load_state_dict(state)
    assert len(whole) > 3 and head + list(later) == whole


@every_sampler
def test_class_and_repr(name):
    """Lightning replaces samplers that are not DistributedSamplers."""
    sampler = MAKERS[name]()
    assert isinstance(sampler, torch.utils.data.DistributedSampler)
    assert repr(sampler).startswith(type(sampler).__name__ + "(")
    if isinstance(sampler, (GroupSampler, LengthBatchSampler)):
        assert isinstance(sampler, torch.utils.data.BatchSampler) and sampler.sampler is sampler


@every_sampler
def test_the_order_follows_an_assigned_seed_and_shuffle(name):
    """The cache of the latest order must depend on both."""
    sampler, other = MAKERS[name](), MAKERS[name]()
    first = items_of(sampler)
    sampler.seed += 1
    other.seed = sampler.seed  # before its first order
    assert items_of(sampler) == items_of(other) != first
    sampler.seed -= 1
    assert items_of(sampler) == first
    other = MAKERS[name]()
    sampler.shuffle = other.shuffle = False
    assert items_of(sampler) == items_of(other)


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("options", [{}, {"rank": 1, "world_size": 3}, {"drop_last": True}], ids=str)
def test_no_records(name, options):
    sampler = EMPTY[name](**options)
    assert items_of(sampler) == [] and len(sampler) == sampler.total_size == 0
    if isinstance(sampler, ItemSampler):
        assert list(BatchSampler(sampler, 4)) == []
    assert sampler.state_dict()["consumed"] == 0
    sampler.load_state_dict(sampler.state_dict())
    assert items_of(sampler) == []
