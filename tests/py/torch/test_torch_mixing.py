"""MixSampler: proportions, orders of the sources, changes of weights, states and bad arguments."""

import itertools
import json
import os
import pickle

import numpy as np
import pytest

import recstore

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from sampler_ranks import in_turn, no_ranks  # noqa: E402, F401

from recstore.torch import (  # noqa: E402
    BatchSampler,
    GroupSampler,
    Items,
    LengthBatchSampler,
    Loader,
    MixSampler,
    PackSampler,
    ShardSampler,
    ShuffleSampler,
    WeightedSampler,
    mixing,
)

SIZES, WEIGHTS = (4000, 900, 100), (6, 3, 1)
OFFSETS = np.cumsum([0, *SIZES])


def mix(**options):
    return MixSampler([(range(n), weight) for n, weight in zip(SIZES, WEIGHTS)], **{"seed": 5, **options})


def sources_of(indices, sizes=SIZES):
    return np.searchsorted(np.cumsum(sizes), indices, "right")


@pytest.fixture
def many_marks(monkeypatch):
    monkeypatch.setattr(mixing, "_MARK", 16)
    monkeypatch.setattr(mixing, "_MOST_MARKS", 20)
    monkeypatch.setattr(mixing, "_LATEST_MARKS", 4)


# ---- Proportions ----


@pytest.mark.parametrize("sources", [3, 1000])
def test_every_window_of_draws_has_the_proportions(sources):
    rng = np.random.default_rng(sources)
    weights = rng.pareto(1, sources) + 0.001
    sampler = MixSampler([(range(50), weight) for weight in weights], until=30_000)
    drawn = sources_of(np.fromiter(sampler, int), [50] * sources)
    largest = np.argsort(weights)[-3:]
    counts = np.cumsum(drawn[:, None] == largest, axis=0)
    shares = (counts[10_000:] - counts[:-10_000]) / 10_000
    assert np.abs(shares - weights[largest] / weights.sum()).max() <= 0.001
    all_counts = np.bincount(drawn, minlength=sources)
    assert np.abs(all_counts - 30_000 * weights / weights.sum()).max() <= 2


@pytest.mark.parametrize("kind", ["array", "list", "tensor", "field", "one int"])
def test_every_window_of_tokens_has_the_proportions(kind):
    rng = np.random.default_rng(1)
    columns = [np.minimum(rng.lognormal(mean, 1, 20_000), 2000).astype(np.int32) for mean in (4, 5, 6)]
    columns[2][::7] = 0
    lengths = list(columns)
    if kind == "list":
        lengths = [column.tolist() for column in columns]
    elif kind == "tensor":
        lengths = [torch.from_numpy(column) for column in columns]
    elif kind == "field":
        lengths = [recstore.RecordList({"n": int(n)} for n in column).field("n") for column in columns]
    elif kind == "one int":
        columns[1][:], lengths[1] = 512, 512
    weights = np.array([0.5, 0.2, 0.3])
    sampler = MixSampler([(column, w, n) for column, w, n in zip(columns, weights, lengths)], "tokens", 40_000)
    indices = np.fromiter(sampler, int)
    drawn, tokens = sources_of(indices, [20_000] * 3), np.concatenate(columns)[indices]
    sums = np.cumsum(np.where(drawn[:, None] == np.arange(3), tokens[:, None], 0), axis=0)
    totals = sums.sum(axis=1)
    ends = np.searchsorted(totals, totals + 10**6)
    begins = np.flatnonzero(ends < len(totals))
    assert len(begins) > 1000
    parts = sums[ends[begins]] - sums[begins]
    assert np.abs(parts - weights * parts.sum(axis=1, keepdims=True)).max() <= 2000 + 2 * 512


# ---- Orders ----


def test_first_ends_with_the_first_source():
    indices = np.fromiter(mix(until="first"), int)
    assert len(indices) == 1000
    assert 98 <= (indices >= 4900).sum() <= 100 and len(set(indices.tolist())) == 1000
    assert len(MixSampler([([1], 5e-324), ([2], 1.0)], until="first")) == 1


def test_samplers_keep_their_orders():
    inner = ShuffleSampler(40, seed=9, shuffle=False)
    weighted = WeightedSampler([0, 1, 2], 30, seed=3)
    indices = np.fromiter(MixSampler([(inner, 1), (weighted, 1), (range(20), 1)]), int)
    assert indices[indices < 40].tolist() == list(range(40))
    assert (indices[(indices >= 40) & (indices < 43)] - 40).tolist() == list(weighted)
    assert sorted(indices[indices >= 43].tolist()) == list(range(43, 63))


def test_rows_of_packed_sources():
    lengths = [[3, 9, 4, 2, 30], [5, 5, 7]]
    packed = [PackSampler(column, 8, seed=2) for column in lengths]
    sampler = MixSampler([(packed[0], 2), (packed[1], 1)], "tokens")
    rows = list(sampler)
    first = [row for row in rows if row.documents.max() < 5]
    assert first == list(packed[0])
    assert [row for row in rows if row not in first] == [row.shifted(5) for row in packed[1]]
    assert len(rows) == len(sampler) == len(packed[0]) + len(packed[1])
    assert [len(batch) for batch in BatchSampler(sampler, 4)] == [4] * (len(rows) // 4) + [len(rows) % 4] * (
        len(rows) % 4 > 0
    )
    with pytest.raises(TypeError, match="have records and some rows"):
        MixSampler([(packed[0], 2), (range(5), 1)])
    with pytest.raises(TypeError, match="source 0 has rows, whose length is one int"):
        MixSampler([(packed[0], 2, [1, 2, 3])], "tokens")


def test_batches_of_several_sources():
    lengths = np.arange(200) * 37 % 59 + 1
    parts = [LengthBatchSampler(lengths, 240, seed=1), GroupSampler(lengths % 3, 7, seed=2)]
    sampler = MixSampler([(parts[0], 3), (parts[1], 1, 120)], "tokens")
    batches = list(sampler)
    assert len(batches) == len(sampler) == len(parts[0]) + len(parts[1])
    for part, offset in zip(parts, (0, 200)):
        mine = [batch.tolist() for batch in batches if offset <= batch[0] < offset + 200]
        assert mine == [(batch + offset).tolist() for batch in part]
    both = recstore.RecordList(range(400))
    loader = Loader(both, batch_sampler=sampler)
    head = list(itertools.islice(loader, 9))
    state = loader.state_dict()
    loader.close()
    later = Loader(both, batch_sampler=MixSampler([(parts[0], 3), (parts[1], 1, 120)], "tokens"))
    later.load_state_dict(state)
    assert head + list(later) == [batch.tolist() for batch in batches]
    with pytest.raises(TypeError, match="MixSampler yields batches already"):
        BatchSampler(sampler, 4)
    with pytest.raises(TypeError, match="single items"):
        Items(sampler)
    with pytest.raises(TypeError, match="needs the lengths of source 0"):
        MixSampler([(parts[1], 1)], "tokens")
    with pytest.raises(TypeError, match="have batches and some records"):
        MixSampler([(parts[1], 1), (range(5), 1)])


# ---- Weights that change ----


def test_set_weights(many_marks):
    sampler = mix(until=4000)
    sampler.set_weights([1, 0, 1], at=1000)
    sampler.set_weights([0, 1, 0], at=3000)
    drawn = sources_of(np.fromiter(sampler, int))
    for begin, end, shares in ((0, 1000, [0.6, 0.3, 0.1]), (1000, 3000, [0.5, 0, 0.5]), (3000, 4000, [0, 1, 0])):
        counts = np.bincount(drawn[begin:end], minlength=3)
        assert np.abs(counts - (end - begin) * np.array(shares)).max() <= 3
    assert sampler.weights_at(999) == [6, 3, 1] and sampler.weights_at(1000) == [1, 0, 1]
    sampler.set_epoch(1)
    assert sampler.weights_at(0) == [0, 1, 0]


def test_a_change_survives_in_the_state(many_marks):
    def changed(*changes):
        sampler = mix(until=4000)
        for weights, at in changes:
            sampler.set_weights(weights, at=at)
        return sampler

    first, second = ([1, 1, 1], 1010), ([1, 2, 3], 2000)
    expected = list(changed(first, second))
    for drawn, change in ((1020, second), (1024, ([0, 0, 1], 1024))):  # later, and at the next draw
        sampler = changed(first)
        iterator = iter(sampler)
        head = list(itertools.islice(iterator, drawn))
        with pytest.raises(ValueError, match=r"at=10 is past: 1\d\d\d records"):
            sampler.set_weights([1, 1, 1], at=10)
        sampler.set_weights(change[0], at=change[1])
        assert head + list(iterator) == list(changed(first, change))
    sampler = changed(first)
    head = list(itertools.islice(sampler, 1020))
    sampler.set_weights(*second[:1], at=second[1])
    state = json.loads(json.dumps(sampler.state_dict()))
    for later in (mix(until=4000), changed(first, second)):
        later.load_state_dict(state)
        assert head + list(later) == expected
        assert later.state_dict()["changes"] == [[0, 2000, [1, 2, 3]]], "the first is in the past"
    assert state["changes"] == [[0, 1010, [1, 1, 1]], [0, 2000, [1, 2, 3]]]
    with pytest.raises(ValueError, match="set_weights was called with other changes"):
        changed(first).load_state_dict(state)


def test_many_changes_go_to_a_file(tmp_path, many_marks):
    sampler, kept = mix(until=4000, dir=str(tmp_path)), mix(until=4000)
    for number in range(16):
        kept.set_weights([1, number, 1], at=number * 10)
    with pytest.raises(ValueError, match="at most 16 changes of weights: give dir="):
        kept.set_weights([1, 1, 1], at=500)
    for number in range(100):
        sampler.set_weights([1, number / 7, 1], at=number * 10)
    expected = list(sampler)
    state = sampler.state_dict(samples=500)
    assert len(json.dumps(state)) < 1000
    later = mix(until=4000, dir=str(tmp_path))
    later.load_state_dict(state)
    assert list(later) == expected[500:]
    with pytest.raises(ValueError, match="give dir=, its folder"):
        mix(until=4000).load_state_dict(state)
    kept_state = kept.state_dict(samples=100)
    again = mix(until=4000, dir=tmp_path)
    again.load_state_dict(kept_state)
    last = mix(until=4000, dir=tmp_path)
    last.load_state_dict(again.state_dict())
    assert list(last) == list(kept)[100:]
    kept_state["changes"][0][2][0] = kept_state["drawn"][0] = kept_state["weights"][0] = 99  # a copy
    assert kept.state_dict(samples=100) == again.state_dict() | {"changes": kept.state_dict(samples=100)["changes"]}
    path = tmp_path / state["changes"]
    path.write_text(path.read_text().replace("990", "991"))
    with pytest.raises(ValueError, match="was changed"):
        mix(until=4000, dir=str(tmp_path)).load_state_dict(state)
    os.unlink(path)
    with pytest.raises(FileNotFoundError, match=state["changes"]):
        mix(until=4000, dir=str(tmp_path)).load_state_dict(state)


def curriculum(step):
    return [1, 0 if step < 2048 else 1]


def test_a_function_of_the_step():
    steps = []

    def counted(step):
        steps.append(step)
        return curriculum(step)

    options = {"until": 4096, "seed": 1}
    sampler = MixSampler([(range(5000), None), (range(5000), None)], weights=curriculum, **options)
    indices = np.fromiter(sampler, int)
    assert (indices[:2048] < 5000).all() and abs((indices[2048:] < 5000).sum() - 1024) <= 2
    assert list(MixSampler([(range(5000), None), (range(5000), None)], weights=counted, **options)) == indices.tolist()
    assert set(steps) == {0, 1024, 2048, 3072, 4096}
    state = sampler.state_dict(samples=3000)
    later = MixSampler([(range(5000), None), (range(5000), None)], weights=curriculum, **options)
    later.load_state_dict(state)
    assert list(later) == indices[3000:].tolist()
    with pytest.raises(ValueError, match="the state has the weights 'curriculum'"):
        MixSampler([(range(5000), 1), (range(5000), 1)], **options).load_state_dict(state)
    with pytest.raises(ValueError, match="cannot change"):
        sampler.set_weights([1, 1], at=5000)


def test_a_changed_function_is_an_error():
    def make(weights):
        return MixSampler([(range(5000), None), (range(5000), None)], weights=lambda step: weights, until=10**6)

    state = make([1, 1]).state_dict(samples=70_000)
    with pytest.raises(ValueError, match=r"the state has the weights \[1.0, 1.0\] at position 65536 of epoch 0, not"):
        make([1, 2]).load_state_dict(state)


# ---- States ----


def test_states_anywhere_in_an_iteration(many_marks):
    sampler = mix()
    expected = list(sampler)
    for consumed in (0, 17, 4999, 5000, 31):
        later = mix()
        later.load_state_dict(sampler.state_dict(samples=consumed))
        later.set_epoch(0)
        assert list(later) == expected[consumed:]
    assert len(sampler._live.marks) <= 21
    # A state of a dozen sources of 10^9 records is small.
    rng = np.random.default_rng(0)
    sizes = (rng.dirichlet(np.ones(12)) * 10**9).astype(int).tolist()
    sources = [(range(n), w, 700) for n, w in zip(sizes, rng.dirichlet(np.ones(12)).tolist())]
    for by, parts in (("records", [source[:2] for source in sources]), ("tokens", sources)):
        sampler, later = MixSampler(parts, by), MixSampler(parts, by)
        state = sampler.state_dict(samples=100_000)
        assert len(json.dumps(state)) < 1000 and len(pickle.dumps(state)) < 1000
        later.load_state_dict(json.loads(json.dumps(state)))
        assert later.state_dict() == state


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: MixSampler([(range(4000), 6), (range(900), 3)], seed=5), "of 3 sources, but this MixSampler has 2"),
        (lambda: mix(seed=6), "the state has seed 5"),
        (lambda: mix(until="first"), "the state has length 5000"),
        (lambda: mix(until=5000), "the state has until 'all'"),
        (lambda: MixSampler([(range(n), 1) for n in SIZES], seed=5), r"the state has the weights \[6.0, 3.0, 1.0\]"),
        (
            lambda: MixSampler([(range(n), 1) for n in (4000, 899, 101)], seed=5),
            "source 1 had other records .* 900, now",
        ),
        (lambda: MixSampler([(range(n), 1, 1) for n in SIZES], "tokens", seed=5), "the state has by 'records'"),
        (lambda: MixSampler([(ShuffleSampler(n), 1) for n in SIZES], seed=5), "source 0 had other orders"),
        (lambda: ShuffleSampler(5000, seed=5), "MixSampler.*but this is a ShuffleSampler"),
    ],
)
def test_a_state_of_another_mix(other, message):
    with pytest.raises(ValueError, match=message):
        other().load_state_dict(mix().state_dict())


def test_a_state_of_other_lengths():
    lengths = np.arange(1, 1001)
    state = MixSampler([(lengths, 1, lengths)], "tokens").state_dict()
    other = lengths.copy()
    other[13] += 1
    with pytest.raises(ValueError, match="source 0 had other orders or lengths"):
        MixSampler([(lengths, 1, other)], "tokens").load_state_dict(state)


@pytest.mark.parametrize(
    "damage",
    [
        {"drawn": [1, 2]},
        {"drawn": [0, 0, 5]},
        {"drawn": [-1, 1, 0]},
        {"drawn": None},
        {"behind": [0, 0, 1.5]},
        {"behind": [1, 0, 0]},
        {"behind": [3 << 60, -3 << 60, 0]},
        {"changes": [[0, 5]]},
        {"changes": [[0, 5, [1, 1, 1]], [0, 4, [1, 1, 1]]]},
        {"changes": 5},
    ],
    ids=str,
)
def test_a_damaged_state(damage):
    sampler = mix()
    with pytest.raises(ValueError, match="state|weight"):
        sampler.load_state_dict({**sampler.state_dict(), **damage})
    assert sampler.state_dict() == mix().state_dict()


# ---- Bad arguments ----


@pytest.mark.parametrize(
    ("sources", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one source"),
        ([(range(3), 0), (range(3), 0)], {}, ValueError, "all weights are 0"),
        ([(range(3), 0), (range(3), 1)], {}, ValueError, 'source 0 has a weight of 0.*until="all"'),
        ([(range(3), -1), (range(3), 2)], {}, ValueError, "the weight of source 0 is -1.0"),
        ([(range(3), 1), (range(3), float("nan"))], {}, ValueError, "the weight of source 1 is nan"),
        ([(range(3), 1e308), (range(3), 1e308)], {}, ValueError, "sum is infinite"),
        ([(range(3), 1), (range(0), 1)], {}, ValueError, "source 1 is empty"),
        ([(range(3), None)], {}, TypeError, "source 0 has weight None"),
        ([(range(3), 1)], {"weights": lambda step: [1]}, TypeError, "source 0 has weight 1"),
        ([(range(3), None)], {"weights": [1]}, TypeError, "must be a function"),
        ([(range(3), None)], {"weights": lambda step: [1, 2]}, ValueError, "one weight for each of the 1 sources"),
        ([range(3)], {}, TypeError, r"source 0 must be \(x, weight\)"),
        ({"a": 1}, {}, TypeError, "a list of"),
        ([(5, 1)], {}, TypeError, "source 0 must be records"),
        ([(range(3), 1)], {"by": "bytes"}, ValueError, "by must be"),
        ([(range(3), 1)], {"by": "tokens"}, TypeError, "needs the lengths of source 0"),
        ([(range(3), 1, [1, 2])], {"by": "tokens"}, ValueError, "source 0 has 3 records"),
        ([(range(3), 1, [1, 2, 3])], {}, TypeError, 'lengths belong to by="tokens"'),
        ([(range(3), 1, [1, 2, 3])], {"by": "tokens", "until": "first"}, ValueError, 'until="first" needs'),
        ([(range(3), 1)], {"until": "last"}, ValueError, "until must be"),
        ([(range(3), 1)], {"until": 0}, ValueError, "until must be at least 1"),
        ([(ShuffleSampler(3, rank=1, world_size=2), 1)], {}, ValueError, "for rank 1 of 2"),
        ([(ShardSampler(3, boundaries=[3]), 1)], {}, TypeError, "is a ShardSampler"),
        ([(MixSampler([(range(3), 1)]), 1)], {}, TypeError, "is a MixSampler"),
        ([(torch.utils.data.RandomSampler(range(3)), 1)], {}, TypeError, "is a RandomSampler"),
        ([(ShuffleSampler(3, by_node=True, nodes=1), 1)], {}, TypeError, "without by_node"),
    ],
)
def test_bad_arguments(sources, options, error, message):
    with pytest.raises(error, match=message):
        MixSampler(sources, **options)


@pytest.mark.parametrize("length", [-3, 1 << 31])
def test_bad_lengths_name_the_record(length):
    lengths = np.full(100, 7)
    lengths[41] = length
    with pytest.raises(ValueError, match=f"source 0: record 41 has a length of {length}"):
        list(MixSampler([(range(100), 1, lengths)], "tokens"))
    with pytest.raises(TypeError, match="lengths of source 0 must be integers"):
        list(MixSampler([(range(100), 1, lengths / 2)], "tokens"))


def test_a_source_without_tokens():
    sources = [(range(100), 1, np.zeros(100, int)), (range(100), 1, 5)]
    with pytest.raises(ValueError, match="source 0: .* records in a row have no tokens"):
        list(MixSampler(sources, "tokens", 1000))
    assert sorted(MixSampler(sources, "tokens")) == list(range(200))
