"""LengthBatchSampler and GroupSampler: every record once, similar records in a batch, and states that do not fit."""

import itertools
import random

import numpy as np
import pytest

import recstore

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
samplers = pytest.importorskip("recstore.torch")

from sampler_ranks import no_ranks  # noqa: E402, F401

TorchBatchSampler = torch.utils.data.BatchSampler
DataLoader = torch.utils.data.DataLoader
GroupSampler = samplers.GroupSampler
LengthBatchSampler = samplers.LengthBatchSampler


def some_lengths(n, seed=1, least=1, most=500):
    draw = random.Random(seed)
    return [int(least * (most / least) ** draw.random()) for _ in range(n)]


def batches_of(sampler):
    return [batch.tolist() for batch in sampler]


def rounded(length, multiple_of):
    return -(-length // multiple_of) * multiple_of


# ---- By length ----


@pytest.mark.parametrize("max_batch, multiple_of", [(None, 1), (None, 64), (1, 8), (7, 8)])
@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_bound_on_the_padded_size(n, max_batch, multiple_of):
    lengths = some_lengths(n)
    for buckets in (None, 1, 5, 10**6):
        sampler = LengthBatchSampler(lengths, 1024, max_batch, multiple_of, buckets, seed=3)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            made = batches_of(sampler)
            assert sorted(itertools.chain(*made)) == list(range(n))
            assert len(made) == len(sampler), "the same number of batches in each epoch"
            for batch in made:
                longest = max(lengths[i] for i in batch)
                assert rounded(longest, multiple_of) * len(batch) <= 1024 and len(batch) <= (max_batch or n)
        assert sum(count for _, count, _ in sampler.buckets) == n


def test_lengths_of_a_batch_are_similar():
    """With enough records, less than a tenth of a batch is padding on average; in random batches, more than half is."""
    lengths = some_lengths(20_000, least=50)
    sampler = LengthBatchSampler(lengths, 16384, multiple_of=8)
    padded = sum(rounded(max(lengths[i] for i in batch), 8) * len(batch) for batch in sampler)
    assert sum(lengths) / padded > 0.9
    # All batches but one are full: another record of the bucket's longest length would not fit.
    sizes = {size: longest for longest, _, size in sampler.buckets}
    assert all(rounded(longest, 8) * (size + 1) > 16384 for size, longest in sizes.items())
    assert sum(len(batch) not in sizes for batch in sampler) <= 1
    assert len(list(sampler)) <= 1.15 * sum(lengths) / 16384


def test_epochs_mix_records_differently():
    lengths = [5] * 40 + [9] * 40
    sampler = LengthBatchSampler(lengths, 36, seed=1)
    orders, sets = [], []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        made = batches_of(sampler)
        orders.append([max(lengths[i] for i in batch) for batch in made])
        sets.append({frozenset(batch) for batch in made})
        sampler_again = LengthBatchSampler(lengths, 36, seed=1)
        sampler_again.set_epoch(epoch)
        assert batches_of(sampler_again) == made
    assert orders[0] != orders[1] != orders[2], "each epoch orders long and short batches differently"
    assert not sets[0] & sets[1] and not sets[1] & sets[2]


def test_at_most_one_batch_is_not_full():
    for n in (50, 99, 100, 101, 1000):
        lengths = some_lengths(n, seed=n)
        whole, dropped = LengthBatchSampler(lengths, 900), LengthBatchSampler(lengths, 900, drop_last=True)
        sizes = [size for _, _, size in whole.buckets]
        full = sum(count // size for _, count, size in whole.buckets)
        assert len(whole) - len(dropped) in (0, 1) and len(dropped) == full
        assert all(count % size == 0 for _, count, size in whole.buckets[:-1])
        assert {len(batch) for batch in dropped} <= set(sizes)


def test_without_shuffle_the_longest_come_first():
    sampler = LengthBatchSampler([3, 9, 4, 8, 3, 1], 18, buckets=3, shuffle=False)
    assert batches_of(sampler) == [[1, 3], [2, 0, 4, 5]]
    sampler.set_epoch(1)
    assert batches_of(sampler) == [[1, 3], [2, 0, 4, 5]]


def test_kinds_of_lengths():
    lengths = [3, 9, 4, 8, 3, 1]
    expected = batches_of(LengthBatchSampler(lengths, 18))
    with recstore.RecordList({"n": length} for length in lengths) as x:
        for form in (
            x.field("n"), np.array(lengths), np.array(lengths, np.uint8), torch.tensor(lengths), tuple(lengths)
        ):  # fmt: skip
            assert batches_of(LengthBatchSampler(form, 18)) == expected
    large = [length * 10**6 for length in lengths]  # beyond 16 bits
    assert batches_of(LengthBatchSampler(large, 18 * 10**6)) == expected


def test_extreme_lengths_and_sizes():
    assert sorted(itertools.chain(*LengthBatchSampler([0, 0, 0, 5], 6, shuffle=False))) == [0, 1, 2, 3]
    assert all(len(batch) <= 6 for batch in LengthBatchSampler([0] * 20, 6))
    assert [sorted(batch) for batch in LengthBatchSampler([5, 5], 2**70, 2**70)] == [[0, 1]]
    assert sorted(sorted(batch) for batch in GroupSampler(["a", "b", "a"], 2**70)) == [[0, 2], [1]]
    assert list(GroupSampler([1, 2], 8, drop_last=True)) == []
    sampler = LengthBatchSampler(some_lengths(10_000), 4096)
    assert sampler._groups.rows.nbytes == 40_000, "4 bytes per record"
    assert len(sampler.buckets) < 200


def test_bad_lengths():
    with pytest.raises(ValueError, match="record 2 has a length of 9, more than a batch of max_tokens=8"):
        LengthBatchSampler([1, 2, 9, 3], 8)
    with pytest.raises(ValueError, match="record 1 has a length of 7"):
        LengthBatchSampler([1, 7], 15, multiple_of=16)
    with pytest.raises(ValueError, match="record 1 has a length of -1"):
        LengthBatchSampler([1, -1, 3], 8)
    for wrong in ([1.0, 2.0], [True, False]):
        pytest.raises(TypeError, lambda: LengthBatchSampler(wrong, 8)).match("lengths must be integers")
    with pytest.raises(TypeError, match=r"a length is a number: give .* x.field\('length'\)"):
        LengthBatchSampler(["a"], 8)
    pytest.raises(TypeError, lambda: LengthBatchSampler("n_tokens", 8)).match(r"not str: write x.field\('n_tokens'\)")
    with recstore.RecordList({"ids": [1] * i} for i in range(3)) as x:
        with pytest.raises(TypeError, match=r"'ids' holds lists, but a length is a number.*numpy.diff\(offsets\)"):
            LengthBatchSampler(x.field("ids"), 8)
        assert len(LengthBatchSampler(np.diff(x.field("ids").to_numpy(ragged=True)[1]), 8)) == 1
    for name in ("max_tokens", "max_batch", "multiple_of", "buckets"):
        for wrong in (0, -1):
            with pytest.raises(ValueError, match=f"{name} must be at least 1"):
                LengthBatchSampler([1], **{"max_tokens": 8, name: wrong})
        for wrong in (1.5, True):
            with pytest.raises(TypeError, match=f"{name} must be an integer"):
                LengthBatchSampler([1], **{"max_tokens": 8, name: wrong})


# ---- By group ----


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 100])
def test_batches_of_one_group(batch_size, drop_last):
    draw = random.Random(1)
    groups = [draw.choice(["wide", "tall", "tall", "square"]) for _ in range(200)]
    with recstore.RecordList({"aspect": group} for group in groups) as x:
        for values in (x.field("aspect"), groups, np.array(groups)):
            sampler = GroupSampler(values, batch_size, drop_last, seed=2)
            for epoch in range(2):
                sampler.set_epoch(epoch)
                made = batches_of(sampler)
                assert len(made) == len(sampler)
                assert all(len({groups[i] for i in batch}) == 1 for batch in made)
                seen = list(itertools.chain(*made))
                assert len(seen) == len(set(seen))
                counts = {group: groups.count(group) for group in set(groups)}
                if drop_last:
                    assert {len(batch) for batch in made} <= {batch_size}
                    assert len(made) == sum(count // batch_size for count in counts.values())
                else:
                    assert sorted(seen) == list(range(200))
                    assert len(made) == sum(-(-count // batch_size) for count in counts.values())


def test_group_orders():
    groups = [0, 1] * 30
    sampler = GroupSampler(groups, 4, seed=1)
    first = batches_of(sampler)
    sampler.set_epoch(1)
    second = batches_of(sampler)
    assert first != second and not {frozenset(b) for b in first} & {frozenset(b) for b in second}
    assert len({groups[batch[0]] for batch in first[:6]}) == 2, "the groups alternate at random"
    plain = batches_of(GroupSampler(groups, 4, shuffle=False))
    assert plain == [list(range(g + 8 * i, min(g + 8 * i + 8, 60), 2)) for g in (0, 1) for i in range(8)]


def test_groups_of_a_saved_index(tmp_path):
    with recstore.RecordList({"aspect": i % 3} for i in range(50)) as x:
        expected = batches_of(GroupSampler(x.field("aspect"), 4))
        x.save(tmp_path / "x.recs", group_by="aspect")
    with recstore.open(tmp_path / "x.recs") as x:
        sampler = GroupSampler(x.field("aspect"), 4)
        assert sampler._groups.rows.section_of is x.segments[0]
        assert batches_of(sampler) == expected


def test_kinds_of_groups():
    mixed = ["a", None, ("b", 1), "a", None, 1, 1.0, True]
    made = [set(batch) for batch in batches_of(GroupSampler(mixed, 8))]
    assert sorted(made, key=min) == [{0, 3}, {1, 4}, {2}, {5, 6, 7}], "groups compare like keys of a dict"
    assert len(GroupSampler(torch.tensor([1, 2, 1]), 8)) == 2
    assert len(GroupSampler(np.array([True, False]), 8)) == 2
    pytest.raises(TypeError, lambda: GroupSampler(np.zeros((2, 1)), 8)).match(r"has the shape \(2, 1\)")
    pytest.raises(TypeError, lambda: GroupSampler([[1], [2]], 8))
    for wrong in ("abc", 5, None):
        pytest.raises(TypeError, lambda: GroupSampler(wrong, 8)).match("with a value for each record")
    with pytest.raises(TypeError, match="Lightning replaces a batch_sampler"):
        GroupSampler(torch.utils.data.SequentialSampler(range(3)), 8)
    for wrong, error in ((0, ValueError), (-2, ValueError), (1.5, TypeError), (True, TypeError), (None, TypeError)):
        pytest.raises(error, lambda: GroupSampler([1], wrong)).match("batch_size must be")


# ---- States and loaders ----

MAKERS = {
    "length": lambda **options: LengthBatchSampler(some_lengths(150), 700, seed=5, **options),
    "group": lambda **options: GroupSampler([i * i % 7 for i in range(150)], 6, seed=5, **options),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_states_that_do_not_fit(make):
    sampler = make()
    list(itertools.islice(sampler, 3))
    state = sampler.state_dict()
    assert sampler.state_dict(batches=1)["consumed"] == 1
    pytest.raises(ValueError, lambda: sampler.state_dict(batches=1000)).match("batches=1000 is out of range")
    for change in ({"plan": 1}, {"records": 7}, {"length": 3}, {"seed": 1}, {"kind": "recstore.torch.ShuffleSampler"}):
        pytest.raises(ValueError, lambda: make().load_state_dict({**state, **change}))
    pytest.raises(ValueError, lambda: make(drop_last=True).load_state_dict(state)).match("the state has")
    with pytest.raises(ValueError, match="the state has"):
        LengthBatchSampler(some_lengths(150), 701, seed=5).load_state_dict(
            {**state, "kind": "recstore.torch.LengthBatchSampler"}
        )


def test_in_a_dataloader(make):
    data = torch.arange(150)
    sampler = make()
    assert isinstance(sampler, TorchBatchSampler) and sampler.sampler is sampler
    for loader in (DataLoader(data, batch_sampler=sampler), DataLoader(data, sampler=sampler, batch_size=None)):
        assert [batch.tolist() for batch in loader] == batches_of(sampler)
        assert len(loader) == len(sampler)
