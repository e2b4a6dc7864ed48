"""ShuffleSampler(by_node=True): a record stays on its node, and each record comes once per epoch."""

import pickle
import sys
import types

import numpy as np
import pytest

import recstore
from recstore._core import native

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from sampler_ranks import in_turn, no_ranks  # noqa: E402, F401

from recstore.torch import BatchSampler, ShuffleSampler  # noqa: E402

SHAPES = pytest.mark.parametrize(("nodes", "local"), [(1, 1), (2, 1), (1, 3), (2, 2), (4, 2), (3, 4)])


def ranks(n, nodes, local, epoch=0, **options):
    out = [
        ShuffleSampler(n, rank=rank, world_size=nodes * local, by_node=True, nodes=nodes, **{"seed": 7, **options})
        for rank in range(nodes * local)
    ]
    for sampler in out:
        sampler.set_epoch(epoch)
    return out


def of_nodes(samplers, local):
    """The set of records that each node reads."""
    read = [list(sampler) for sampler in samplers]
    assert len(set(map(len, read))) == 1, "all ranks take as many steps"
    return [{i for each in read[k : k + local] for i in each} for k in range(0, len(read), local)]


@SHAPES
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("n", [12, 24, 97, 100, 1023])
def test_each_record_once_and_on_its_node(n, nodes, local, shuffle):
    samplers = ranks(n, nodes, local, shuffle=shuffle)
    assert np.concatenate(list(BatchSampler(samplers[0], 7))).tolist() == list(samplers[0])
    if nodes == 1:
        assert in_turn(samplers)[:n] == list(ShuffleSampler(n, seed=7, rank=0, world_size=1, shuffle=shuffle))
    first = of_nodes(samplers, local)
    assert sum(map(len, first)) == n and set().union(*first) == set(range(n))
    assert max(map(len, first)) - min(map(len, first)) <= 1
    orders = set()
    for epoch in (1, 2, 50):
        samplers = ranks(n, nodes, local, epoch, shuffle=shuffle)
        assert of_nodes(samplers, local) == first
        orders.add(tuple(map(tuple, samplers)))
    assert len(orders) == (3 if shuffle else 1)


@SHAPES
def test_dropped_and_repeated_records(nodes, local):
    for n in (37, 48, 50):
        read = in_turn(map(list, ranks(n, nodes, local, drop_last=True)))
        assert len(read) == len(set(read)) == n // (nodes * local) * nodes * local
        read = in_turn(map(list, ranks(n, nodes, local)))
        assert len(read) == -(-n // (nodes * local)) * nodes * local and set(read) == set(range(n))


def test_the_parts_are_random():
    """Periodic records, such as those of four cameras in turn, are spread over all nodes."""
    for part in of_nodes(ranks(4000, 4, 1), 1):
        assert np.bincount([i % 4 for i in part]).min() > 200


@SHAPES
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_resuming_with_other_ranks(nodes, local, steps):
    """The rest of an epoch runs on the same nodes with another number of ranks."""
    n, before = 101, ranks(101, nodes, local, 3)
    iterators = [iter(sampler) for sampler in before]
    seen = [next(iterator) for _ in range(steps) for iterator in iterators]
    state = pickle.loads(pickle.dumps(before[-1].state_dict()))
    assert state["consumed"] == steps * nodes * local and state["nodes"] == nodes
    parts = of_nodes(ranks(n, nodes, local), local)
    for local_after in (local, local + 1, 1):
        after = ranks(n, nodes, local_after, seed=7)
        for sampler in after:
            sampler.load_state_dict(state)
        rest = [list(sampler) for sampler in after]
        assert {*seen, *in_turn(rest)} == set(range(n))
        assert len(seen) + len(set(in_turn(rest))) <= n + nodes * local_after
        for rank, read in enumerate(rest):
            assert set(read) <= parts[rank // local_after]
        for sampler in after:
            sampler.set_epoch(4)
        assert of_nodes(after, local_after) == parts


def test_states_of_other_nodes():
    four, two = ranks(100, 4, 2)[0], ranks(100, 2, 4)[0]
    plain = ShuffleSampler(100, seed=7, rank=0, world_size=8)
    for target, state, had, has in (
        (two, four, "by_node=True and nodes=4", "by_node=True and nodes=2"),
        (plain, four, "by_node=True and nodes=4", "by_node=False"),
        (four, plain, "by_node=False", "by_node=True and nodes=4"),
    ):
        with pytest.raises(ValueError, match=f"the state is of a sampler with {had}, and this one has {has}"):
            target.load_state_dict(state.state_dict())
    given = ShuffleSampler(100, seed=7, rank=0, world_size=8, by_node=True, nodes=4)
    given.load_state_dict(four.state_dict())
    assert list(given) == list(four)


def test_nodes_of_torchrun(monkeypatch):
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert list(ShuffleSampler(40, seed=7, by_node=True)) == list(ranks(40, 2, 2)[3])


def test_an_unknown_number_of_nodes(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    assert sorted(ShuffleSampler(40, seed=7, by_node=True)) == list(range(40))
    with pytest.raises(ValueError, match="give nodes"):
        list(ShuffleSampler(40, seed=7, rank=0, world_size=4, by_node=True))
    state = types.SimpleNamespace(PartialState=types.SimpleNamespace(_shared_state={"num_processes": 2}))
    monkeypatch.setitem(sys.modules, "accelerate.state", state)
    with pytest.raises(ValueError, match="accelerate"):
        list(ShuffleSampler(40, seed=7, rank=0, world_size=4, by_node=True))


def test_wrong_arguments():
    with pytest.raises(TypeError, match="by_node must be True or False, not 1"):
        ShuffleSampler(9, by_node=1)
    with pytest.raises(TypeError, match="nodes belongs to by_node=True"):
        ShuffleSampler(9, nodes=2)
    with pytest.raises(ValueError, match="nodes must be at least 1, not 0"):
        ShuffleSampler(9, by_node=True, nodes=0)
    with pytest.raises(ValueError, match="as many ranks on each node: 3 ranks, 2 nodes"):
        list(ShuffleSampler(9, rank=0, world_size=3, by_node=True, nodes=2))
    for sampler in ranks(1, 2, 1):
        with pytest.raises(ValueError, match="1 records cannot be divided among 2 nodes"):
            list(sampler)
    assert list(ranks(0, 2, 1)[1]) == []


def test_spread_permutation():
    with recstore.RecordList(range(50)) as x:
        order = x.shuffled(3).to_list()
    out = np.array([0, 4, 9], np.int64)
    native.spread_permutation(out, 50, 3, 2, 6)
    assert out.tolist() == [order[2], order[26], order[(2 + 54) % 50]]
    with pytest.raises(ValueError, match="a permutation has 1 to"):
        native.spread_permutation(out, 0, 3, 0, 1)
