"""The epochs of samplers: resuming on other ranks and with other batch sizes, and ranks from the environment."""

import itertools
import json
import sys
import types

import numpy as np
import pytest
from ref import permute

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
samplers = pytest.importorskip("recstore.torch")

from sampler_ranks import in_turn, no_ranks, ranks  # noqa: E402, F401

DataLoader = torch.utils.data.DataLoader
RandomSampler = torch.utils.data.RandomSampler
DistributedSampler = torch.utils.data.DistributedSampler
SequentialSampler = torch.utils.data.SequentialSampler
BatchSampler = samplers.BatchSampler
GroupSampler = samplers.GroupSampler
ShardSampler = samplers.ShardSampler
ShuffleSampler = samplers.ShuffleSampler
WeightedSampler = samplers.WeightedSampler


# ---- Resuming ----


def test_resume_at_every_position_on_other_ranks_and_batches():
    """A run on any number of ranks stops after any step; other ranks, with another batch size, yield the rest."""
    n = 23
    whole = permute.order(n, 6)
    for before, after, size in itertools.product((1, 2, 5), (1, 3, 7), (1, 3, 8)):
        for steps in range(-(-n // before) + 1):
            states = []
            for sampler in ranks(n, before, seed=6):
                assert len(list(itertools.islice(sampler, steps))) == steps
                states.append(sampler.state_dict())
            assert all(state == states[0] for state in states)
            consumed = states[0]["consumed"]
            assert consumed == min(steps * before, n)
            rest = []
            for sampler in ranks(n, after, seed=6):
                sampler.load_state_dict(json.loads(json.dumps(states[0])))
                sampler.set_epoch(0)  # as a loop does
                rest.append(np.concatenate([*BatchSampler(sampler, size), []]).tolist())
                assert len(sampler) == -(-n // after), "the length of a whole epoch"
            assert len({len(share) for share in rest}) == 1
            taken = in_turn(rest)
            assert taken[: n - consumed] == whole[consumed:]
            assert len(taken) - (n - consumed) < after
            # The beginning of the epoch is repeated.
            assert taken[n - consumed :] == (whole * 7)[: len(taken) - (n - consumed)]


def test_state_of_the_batches_a_loop_has_consumed():
    """A DataLoader draws batches ahead, so the loop passes the number of batches that it has received."""
    batches = BatchSampler(ShuffleSampler(100, seed=2), 8)
    iterator = iter(batches)
    for _ in range(6):
        next(iterator)
    assert batches.state_dict()["consumed"] == 48
    assert batches.state_dict(batches=2)["consumed"] == 16
    assert batches.sampler.state_dict(samples=17)["consumed"] == 17
    later = BatchSampler(ShuffleSampler(100, seed=2), 5)
    later.load_state_dict(batches.state_dict(batches=2))
    rest = iter(later)
    assert next(rest).tolist() == permute.order(100, 2)[16:21]
    assert later.state_dict(batches=1)["consumed"] == 21, "batches of this iteration, which began at 16"
    assert later.state_dict(batches=17)["consumed"] == 100
    for number in (18, 10**9):
        pytest.raises(ValueError, lambda: later.state_dict(batches=number)).match("out of range")
    for wrong in (True, 1.5, "2"):
        pytest.raises(TypeError, lambda: batches.state_dict(batches=wrong)).match("batches must be an integer")
    pytest.raises(ValueError, lambda: batches.state_dict(batches=-1)).match("at least 0, not -1")
    with pytest.raises(ValueError, match="samples=101 is out of range: .* has 100"):
        batches.sampler.state_dict(samples=101)


def test_the_end_of_an_epoch_resumes_with_the_next():
    for drop_last in (True, False):
        batches = BatchSampler(ShuffleSampler(10, seed=1), 4, drop_last)
        made = list(batches)
        for state in (batches.state_dict(), batches.state_dict(batches=len(made))):
            assert (state["epoch"], state["consumed"]) == (0, 10), "dropped samples count as consumed"
            later = BatchSampler(ShuffleSampler(10, seed=1), 4, drop_last)
            later.load_state_dict(state)
            assert np.concatenate(list(later))[:8].tolist() == permute.order(10, 1 + permute.mix(1))[:8]
            assert later.epoch == 1
            # A loop that calls set_epoch begins with the epoch of the state, which has ended.
            later.load_state_dict(state)
            later.set_epoch(0)
            assert list(later) == []
            later.set_epoch(1)
            assert len(list(later)) == len(made)


def test_the_last_full_batch_ends_an_epoch_that_drops_the_rest():
    batches = BatchSampler(ShuffleSampler(10, seed=1), 4, drop_last=True)
    iterator = iter(batches)
    next(iterator)
    assert batches.state_dict()["consumed"] == 4
    next(iterator)
    assert batches.state_dict()["consumed"] == 10


def test_the_epoch_is_fixed_at_the_first_index():
    """Lightning makes an iterator, sets the epoch, and only then draws the first index."""
    sampler = ShuffleSampler(10, seed=1)
    for made in (iter(sampler), map(int, itertools.chain.from_iterable(BatchSampler(sampler, 3)))):
        sampler.set_epoch(2)
        assert list(made) == permute.order(10, 1 + permute.mix(2))
        sampler.set_epoch(0)


def test_set_epoch_keeps_the_state_of_its_own_epoch():
    sampler = ShuffleSampler(10, seed=1)
    sampler.set_epoch(3)
    assert next(iter(sampler)) == permute.order(10, 1 + permute.mix(3))[0]
    state = sampler.state_dict()
    later = ShuffleSampler(10, seed=1)
    later.load_state_dict(state)
    assert later.state_dict() == state
    later.set_epoch(3)
    assert list(later) == permute.order(10, 1 + permute.mix(3))[1:]
    assert list(later) == permute.order(10, 1 + permute.mix(3)), "the next iteration is whole"
    later.load_state_dict(state)
    later.set_epoch(4)
    assert list(later) == permute.order(10, 1 + permute.mix(4))
    later.load_state_dict(state)
    with pytest.raises(ValueError, match=r"set_epoch\(0\) after a state of epoch 3.*Begin the loop at epoch 3"):
        later.set_epoch(0)
    next(iter(later))
    later.set_epoch(0)  # after resuming, any epoch may follow
    assert list(later) == permute.order(10, 1)


def test_states_that_do_not_fit():
    sampler = ShuffleSampler(10, seed=1)
    good = sampler.state_dict()
    assert good == {
        "kind": "recstore.torch.ShuffleSampler", "version": 1, "length": 10, "seed": 1, "shuffle": True,
        "order": "feistel-1", "epoch": 0, "consumed": 0
    }  # fmt: skip
    for change, message in [
        ({"length": 11}, "the state has length 11, this ShuffleSampler has 10"),
        ({"seed": 2}, "the state has seed 2, this ShuffleSampler has 1"),
        ({"shuffle": False}, "the state has shuffle False"),
        ({"shuffle": 1}, "the state has shuffle 1"),
        ({"order": "feistel-2"}, "the state has order 'feistel-2'"),
        ({"version": 2}, "the state has version 2; this recstore reads version 1"),
        ({"kind": "recstore.torch.WeightedSampler"}, "'recstore.torch.WeightedSampler', but this is a Shuffle"),
        *(({"consumed": wrong}, f"epoch 0 and {wrong} items of 10") for wrong in (11, -1, 1.0, True)),
        *(({"epoch": wrong}, f"epoch {wrong}") for wrong in (-1, None, 2**63 - 1)),
    ]:
        pytest.raises(ValueError, lambda: sampler.load_state_dict({**good, **change})).match(message)
    for missing in good:
        with pytest.raises(ValueError):
            sampler.load_state_dict({key: value for key, value in good.items() if key != missing})
    circle = {}
    circle["circle"] = {"again": circle}
    for wrong in ({}, {"epoch": 1}, circle):
        pytest.raises(ValueError, lambda: sampler.load_state_dict(wrong)).match("not hold the state of a sampler")
    for wrong in (None, [good], "state"):
        pytest.raises(TypeError, lambda: sampler.load_state_dict(wrong)).match("a state must be a dict")
    assert sampler.state_dict() == good, "nothing has changed"


def test_state_of_another_sampler_in_batches():
    batches = BatchSampler(SequentialSampler(range(10)), 3)
    list(itertools.islice(batches, 2))
    state = batches.state_dict()
    assert state["yielded"] == 6 and batches.state_dict(batches=1)["yielded"] == 3
    later = BatchSampler(SequentialSampler(range(10)), 2)
    later.load_state_dict(state)
    assert [batch.tolist() for batch in later] == [[6, 7], [8, 9]]
    assert [batch.tolist() for batch in later][0] == [0, 1]
    with pytest.raises(ValueError, match="BatchSampler, version 1, over SequentialSampler"):
        later.load_state_dict(ShuffleSampler(10).state_dict())
    pytest.raises(ValueError, lambda: later.load_state_dict({**state, "yielded": "6"})).match("how many samples")
    with pytest.raises(ValueError, match="RandomSampler .* use ShuffleSampler"):
        BatchSampler(RandomSampler(range(10)), 2).load_state_dict(state)
    BatchSampler(RandomSampler(range(10)), 2).load_state_dict({**state, "yielded": 0})
    with pytest.raises(ValueError, match="the state has length 10, but this SequentialSampler has 11"):
        BatchSampler(SequentialSampler(range(11)), 2).load_state_dict(state)


@pytest.mark.parametrize("drop_last", [False, True])
def test_state_of_another_sampler_at_the_end_of_an_epoch(drop_last):
    batches = BatchSampler(DistributedSampler(range(10), 1, 0), 3, drop_last)
    first = [batch.tolist() for batch in batches]
    later = BatchSampler(DistributedSampler(range(10), 1, 0), 3, drop_last)
    later.load_state_dict(batches.state_dict())
    later.set_epoch(1)
    batches.set_epoch(1)
    second = [batch.tolist() for batch in later]
    assert second == [batch.tolist() for batch in batches] != first


def test_a_sampler_with_its_own_state_in_batches():
    class Counted:
        def __init__(self):
            self.at = 0

        def __iter__(self):
            while self.at < 10:
                self.at += 1
                yield self.at - 1

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    batches = BatchSampler(Counted(), 3)
    next(iter(batches))
    later = BatchSampler(Counted(), 4)
    later.load_state_dict(batches.state_dict())
    assert [batch.tolist() for batch in later] == [[3, 4, 5, 6], [7, 8, 9]]
    pytest.raises(ValueError, lambda: batches.state_dict(batches=5)).match("leave batches out")


# ---- Ranks from the environment ----


def test_ranks_of_the_environment(monkeypatch):
    sampler = ShuffleSampler(10, seed=1)  # made before the environment is set
    assert (sampler.rank, sampler.world_size, len(sampler)) == (0, 1, 10)
    monkeypatch.setenv("RANK", "1")
    assert sampler.world_size == 1, "one variable does not suffice"
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert (sampler.rank, sampler.num_replicas, len(sampler)) == (1, 3, 4)
    assert list(sampler) == list(ShuffleSampler(10, seed=1, rank=1, world_size=3))
    assert ShuffleSampler(10, rank=0, world_size=1).world_size == 1, "arguments take precedence"
    for rank, message in [("x", "no valid rank: RANK='x'"), ("3", "rank 3 of 3")]:
        monkeypatch.setenv("RANK", rank)
        pytest.raises(ValueError, lambda: len(sampler)).match(message)


def test_ranks_of_torch_distributed(monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    sampler = ShuffleSampler(10)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        assert (sampler.rank, sampler.world_size) == (0, 1)
    finally:
        torch.distributed.destroy_process_group()
    assert (sampler.rank, sampler.world_size) == (1, 2)


def test_accelerate_divides_batches_itself(monkeypatch):
    """The state and the loader of accelerate are fakes; tests/real uses the package."""
    state = types.SimpleNamespace(PartialState=types.SimpleNamespace(_shared_state={"num_processes": 2}))
    monkeypatch.setitem(sys.modules, "accelerate.state", state)
    loaders = types.ModuleType("accelerate.data_loader")
    code = """
class Shard:
    split_batches = False
    def __init__(self, batch_sampler, num_processes):
        self.batch_sampler, self.num_processes = batch_sampler, num_processes
    def __iter__(self):
        for batch in self.batch_sampler:
            yield batch
"""
    exec(code, vars(loaders))
    monkeypatch.setitem(sys.modules, "accelerate.data_loader", loaders)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for make in (
        lambda **place: BatchSampler(ShuffleSampler(10, **place), 4),
        lambda **place: BatchSampler(ShardSampler(10, boundaries=[4, 7, 10], **place), 4),
        lambda **place: GroupSampler([0] * 10, 4, **place),
    ):
        batches = make()
        assert len(batches) == 3, "for all processes together"
        with pytest.raises(RuntimeError, match="2 processes.*is not prepared.*rank=accelerator.process_index"):
            next(iter(batches))
        shared = list(loaders.Shard(make(), 2))
        assert sorted(itertools.chain(*shared)) == list(range(10)) and {type(batch) for batch in shared} == {list}
        with pytest.raises(ValueError, match="accelerate divides the batches .* leave rank and world_size out"):
            next(iter(loaders.Shard(make(rank=1, world_size=2), 2)))
        assert next(iter(make(rank=1, world_size=2))) is not None
