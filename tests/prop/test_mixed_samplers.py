"""Random compositions of samplers: stopped at random steps and resumed on other ranks, they yield what a run yields
that was never stopped. The draws of a MixSampler equal those of a slow reader."""

import itertools
import json
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ref import mixing as reference
from ref.permute import mix as mixed

pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
mixing = pytest.importorskip("recstore.torch.mixing")
from recstore.torch import (  # noqa: E402
    BatchSampler,
    GroupSampler,
    LengthBatchSampler,
    MixSampler,
    PackSampler,
    ShuffleSampler,
    WeightedSampler,
)

lengths_lists = st.lists(st.integers(0, 40) | st.integers(500, 3000), min_size=1, max_size=60).filter(any).map(np.array)
weights = st.floats(0.001, 1) | st.integers(1, 20)
seeds = st.integers(0, 2**64 - 1)


@st.composite
def sources(draw, by):
    """`(x, weight)` or `(x, weight, lengths)` of a source of records."""
    lengths = draw(lengths_lists)
    x = draw(
        st.sampled_from(
            [
                lengths,
                ShuffleSampler(len(lengths), draw(seeds), shuffle=draw(st.booleans())),
                WeightedSampler(lengths + 1, seed=draw(seeds)),
            ]
        )
    )
    return (x, draw(weights), draw(st.sampled_from([lengths, 7]))) if by == "tokens" else (x, draw(weights))


@st.composite
def packers(draw):
    lengths = draw(lengths_lists)
    return PackSampler(
        lengths, draw(st.integers(1, 90)), draw(st.sampled_from(["best-fit", "concat"])), seed=draw(seeds)
    )


@st.composite
def batchers(draw):
    lengths, seed = draw(lengths_lists), draw(seeds)
    return draw(
        st.sampled_from([LengthBatchSampler(lengths, 3000, seed=seed), GroupSampler(lengths % 4, 3, seed=seed)])
    )


@st.composite
def makers(draw):
    """A function of the rank and the number of ranks that makes a sampler."""
    by = draw(st.sampled_from(["records", "tokens"]))
    lengths = [st.just(50)] * (by == "tokens")
    kinds = [sources(by), st.tuples(packers(), weights), st.tuples(batchers(), weights, *lengths)]
    source = draw(st.sampled_from(kinds))
    parts = draw(st.lists(source, min_size=1, max_size=5))
    until = draw(st.sampled_from(["all", 200] if by == "tokens" else ["all", "first", 200]))
    seed, n = draw(seeds), len(parts)
    kind = draw(st.sampled_from(["constant", "function", "changes", "pack"] if until != "first" else ["constant"]))
    if kind == "pack":
        pack = draw(packers())
        return lambda rank, world_size: PackSampler(
            pack._lengths._source, pack.length, pack.method, seed=pack.seed, rank=rank, world_size=world_size
        )
    rows = draw(st.lists(st.lists(weights, min_size=n, max_size=n), min_size=1, max_size=4))
    steps = draw(st.lists(st.integers(0, 250), min_size=len(rows), max_size=len(rows)))

    def make(rank, world_size):
        options = {"seed": seed, "rank": rank, "world_size": world_size}
        if kind == "function":
            pieces = [(part[0], None, *part[2:]) for part in parts]
            return MixSampler(pieces, by, until, weights=lambda step: rows[step // 8 % len(rows)], **options)
        sampler = MixSampler(parts, by, until, **options)
        for step, row in zip(steps, rows if kind == "changes" else []):
            sampler.set_weights(row, at=step)
        return sampler

    return make


def small_marks():
    changes = mixing.WeightChanges.__init__.__globals__
    return mock.patch.multiple(mixing, _MARK=8, _MOST_MARKS=6, _LATEST_MARKS=2), mock.patch.dict(changes, _EVALUATED=8)


def items_of(sampler):
    return [item.tolist() if isinstance(item, np.ndarray) else item for item in sampler]


def taken(sampler, steps, batch_size):
    """The items of a rank in up to `steps` batches, and the state after them, though the sampler has drawn more."""
    if batch_size == 0 or sampler._yields_batches:
        return items_of(itertools.islice(sampler, steps)), sampler.state_dict()
    batches = BatchSampler(sampler, batch_size)
    drawn = list(itertools.islice(batches, steps + 2))
    return [item for batch in drawn[:steps] for item in batch], batches.state_dict(batches=min(steps, len(drawn)))


@settings(max_examples=60)
@given(st.data())
def test_stopped_runs_equal_one_that_was_never_stopped(data):
    marks, evaluated = small_marks()
    with marks, evaluated:
        make = data.draw(makers())
        epoch = data.draw(st.integers(0, 3))
        one = make(0, 1)
        one.set_epoch(epoch)
        whole = items_of(one)
        position, state = 0, None
        while position < len(whole):
            world_size, batch_size = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 6))
            steps, results = 60 - data.draw(st.integers(0, 59)), []
            for rank in range(world_size):
                sampler = make(rank, world_size)
                if state is not None:
                    sampler.load_state_dict(json.loads(state))
                sampler.set_epoch(epoch)
                results.append(taken(sampler, steps, batch_size))
            in_turn = [item for step in zip(*(items for items, _ in results)) for item in step]
            assert in_turn == (whole[position:] + whole * 5)[: len(in_turn)]  # the end of an epoch is filled up
            assert {json.dumps(state) for _, state in results} == {json.dumps(results[0][1])}
            state = json.dumps(results[0][1])
            assert len(state) < 1500
            position += len(in_turn)
            assert json.loads(state)["consumed"] == min(position, len(whole))


def shares(row):
    total = math.fsum(row)
    out = [max(int(weight / total * reference.WHOLE), 1) if weight else 0 for weight in row]
    out[out.index(max(out))] += reference.WHOLE - sum(out) if total else 0
    return out


@settings(max_examples=60)
@given(st.lists(st.tuples(lengths_lists, weights), min_size=1, max_size=4), seeds, st.integers(1, 3), st.data())
def test_draws_equal_those_of_the_slow_reader(columns, seed, epoch, data):
    by, until = data.draw(st.sampled_from([("records", "all"), ("records", 150), ("tokens", "all"), ("tokens", 150)]))
    tokens = by == "tokens"
    orders = [ShuffleSampler(len(lengths), index) for index, (lengths, _) in enumerate(columns)]
    parts = [(order, w, lengths) if tokens else (order, w) for order, (lengths, w) in zip(orders, columns)]
    sampler = MixSampler(parts, by, until, seed=seed)
    sampler.set_epoch(epoch)
    offsets = np.cumsum([0] + [len(lengths) for lengths, _ in columns])

    def item(source, number):
        turn, position = divmod(number, orders[source]._length)
        return int(orders[source]._items(epoch + (turn << 32), position, 1)[0])

    def length(source):
        return lambda number: int(columns[source][0][item(source, number)]) if tokens else 1

    key = mixed((seed ^ 0x6A6974746572) + mixed(epoch))
    expected = reference.draws(
        lambda position, ended: shares([0 if end else w for end, (_, w) in zip(ended, columns)]),
        [mixed(key + mixed(source)) for source in range(len(columns))],
        [length(source) for source in range(len(columns))],
        [len(lengths) if until == "all" else None for lengths, _ in columns],
        constant=not tokens,
    )
    items = [item(source, number) + offsets[source] for source, number in itertools.islice(expected, len(sampler))]
    assert list(sampler) == items
