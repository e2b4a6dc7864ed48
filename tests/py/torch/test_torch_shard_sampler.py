"""ShardSampler: every record once per epoch on any number of ranks and nodes, a window of shards at a time, and
resuming."""

import itertools
import json

import numpy as np
import pytest
import shard_epochs
from ref import permute

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
samplers = pytest.importorskip("recstore.torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sampler_ranks import in_turn, no_ranks  # noqa: E402, F401
from torch.utils.data import DataLoader  # noqa: E402

BatchSampler = samplers.BatchSampler
ShardSampler = samplers.ShardSampler
ShuffleSampler = samplers.ShuffleSampler

BATCH = 5
COUNTS = [7, 0, 5, 9, 1, 8, 6, 0, 4]
ENDS = list(itertools.accumulate(COUNTS))
N = ENDS[-1]


def ranks(world_size, n=N, **options):
    options = {"boundaries": ENDS, **options}
    return [ShardSampler(n, rank=rank, world_size=world_size, **options) for rank in range(world_size)]


sizes = st.lists(st.sampled_from([0, 1, 2, 3, 6, 11]), max_size=12)
few = st.integers(1, 6)


# ---- The order ----


@settings(max_examples=150, deadline=None)
@given(sizes, few, st.integers(-3, 3), st.integers(0, 3), few, few, st.booleans(), st.booleans())
def test_an_epoch_equals_the_model(counts, window, seed, epoch, world_size, nodes, drop_last, shuffle):
    ends = list(itertools.accumulate(counts))
    n = sum(counts)
    options = {"boundaries": ends, "window": window, "seed": seed, "nodes": nodes}
    made = ranks(world_size, n, drop_last=drop_last, shuffle=shuffle, **options)
    for sampler in made:
        sampler.set_epoch(epoch)
    items = shard_epochs.epoch(ends, window, seed, [(0, nodes)], epoch, shuffle)
    assert sorted(record for _, record in items) == list(range(n))
    expected = shard_epochs.shared_out(items, 0, (0, nodes), world_size, drop_last)
    assert [list(sampler) for sampler in made] == expected
    assert [np.concatenate([*BatchSampler(s, 4), []]).tolist() for s in made] == expected
    assert {len(sampler) for sampler in made} == {len(records) for records in expected}


@settings(max_examples=100, deadline=None)
@given(sizes, few, st.lists(st.tuples(few, few, st.integers(0, 9)), min_size=1, max_size=5), st.booleans())
def test_resume_on_other_ranks_and_nodes(counts, window, runs, drop_last):
    """Each run has its own ranks and nodes and stops after some steps; the last run yields the rest."""
    ends, n = list(itertools.accumulate(counts)), sum(counts)
    state, legs, seen, first = None, [], [], 0
    for number, (world_size, nodes, steps) in enumerate(runs):
        made = ranks(world_size, n, boundaries=ends, window=window, nodes=nodes, drop_last=drop_last)
        for sampler in made:
            if state is not None:
                sampler.load_state_dict(json.loads(json.dumps(state)))
                sampler.set_epoch(0)  # as a loop does: this is the epoch of the state
        legs = [leg for leg in legs if leg[0] < first]
        if not legs or legs[-1][1] != nodes:
            legs.append((first, nodes))
        items = shard_epochs.epoch(ends, window, 0, legs)
        expected = shard_epochs.shared_out(items, first, legs[-1], world_size, drop_last)
        steps = len(expected[0]) if number == len(runs) - 1 else min(steps, len(expected[0]))
        got = [list(itertools.islice(sampler, steps)) for sampler in made]
        assert got == [share[:steps] for share in expected]
        states = [sampler.state_dict() for sampler in made]
        assert all(state == states[0] for state in states), "all ranks save the same state"
        state, before = states[0], first
        first = n if 0 < steps == len(expected[0]) else first + steps * world_size
        assert state["consumed"] == first
        mine = sorted(record for share in got for record in share)
        seen += mine if len(mine) <= first - before else sorted(set(mine) - set(seen))
        if first == n:
            break
    assert len(set(seen)) == len(seen)
    assert drop_last or sorted(seen) == list(range(n))


def test_the_order_never_changes():
    """A run of an earlier version resumes in the same order."""
    sampler = ShardSampler(12, boundaries=[4, 5, 9, 12], window=2, seed=7, rank=0, world_size=1, nodes=2)
    assert list(sampler) == [10, 3, 11, 6, 9, 8, 0, 7, 4, 2, 1, 5]
    sampler.set_epoch(3)
    assert list(sampler) == [2, 3, 10, 6, 0, 7, 1, 8, 9, 5, 11, 4]


def test_a_window_reads_only_its_shards_and_mixes_them():
    ends = [1000 * i for i in range(1, 41)]
    for window, nodes in ((1, 1), (4, 1), (7, 2), (100, 1), (3, 4)):
        for rank, sampler in enumerate(ranks(8, 40_000, boundaries=ends, window=window, nodes=nodes)):
            shards = [index // 1000 for index in sampler]
            first, last = {}, {}
            for at, shard in enumerate(shards):
                first.setdefault(shard, at)
                last[shard] = at
            read_at_once = max(sum(first[s] <= at <= last[s] for s in first) for at in range(0, len(shards), 50))
            assert read_at_once <= window, (window, nodes, rank)
    # In a window of four shards, three quarters of the pairs of neighboring records are from different shards.
    (sampler,) = ranks(1, 40_000, boundaries=ends, window=4)
    shards = np.array(list(sampler)) // 1000
    assert 0.73 < (shards[1:] != shards[:-1]).mean() < 0.77


def test_time_and_memory_depend_on_shards_not_records():
    """A position far into an epoch of 10^14 records is reached at once."""
    ends = np.arange(1, 1001) * 10**11
    state = {**ShardSampler(10**14, boundaries=ends, nodes=3, rank=0, world_size=3).state_dict(), "consumed": 10**13}
    last = []
    for sampler in ranks(6, 10**14, boundaries=ends, nodes=3):
        sampler.load_state_dict({**state, "legs": [[0, 3]]})
        last.append(list(itertools.islice(sampler, 50)))
    assert len({index for rank in last for index in rank}) == 300
    assert [len({index // 10**11 for index in rank}) for rank in last] == [4] * 6


# ---- Few shards, repeated records ----


def test_one_shard_fewer_shards_than_nodes_and_large_windows():
    for ends, window, nodes, world_size in (
        ([10], 4, 1, 1), ([10], 4, 4, 4), ([3, 10], 1, 8, 8), ([2], 1, 8, 8), (ENDS, 10**9, 1, 1), (ENDS, 2**48, 3, 6)
    ):  # fmt: skip
        made = ranks(world_size, ends[-1], boundaries=ends, window=window, nodes=nodes)
        taken = in_turn([list(sampler) for sampler in made])
        assert set(taken) == set(range(ends[-1])) and len(taken) - ends[-1] < world_size
    whole = list(ShardSampler(N, boundaries=[N], seed=1))
    assert whole != sorted(whole), "a single shard is shuffled as a whole"


# ---- States ----


def test_state():
    sampler = ShardSampler(N, boundaries=ENDS, window=2, seed=3, rank=0, world_size=2, nodes=2)
    fresh = sampler.state_dict()
    assert fresh["consumed"] == 0 and fresh["legs"] == []
    list(itertools.islice(sampler, 7))
    state = sampler.state_dict()
    assert {**state, "boundaries": None} == {
        "kind": "recstore.torch.ShardSampler", "version": 1, "length": N, "seed": 3, "shuffle": True,
        "order": "windows-1", "window": 2, "epoch": 0, "consumed": 14, "shards": 9, "boundaries": None, "legs": [[0, 2]]
    }  # fmt: skip
    assert sampler.state_dict(samples=2)["consumed"] == 4
    later = ShardSampler(N, boundaries=ENDS, window=2, seed=3, rank=0, world_size=3, nodes=1)
    assert later.state_dict(samples=2)["legs"] == [[0, 1]]
    later.load_state_dict(state)
    assert later.state_dict() == state, "the resumed sampler has read nothing yet"
    next(iter(later))
    assert later.state_dict()["legs"] == [[0, 2], [14, 1]]
    assert later.state_dict(samples=0)["legs"] == [[0, 2], [14, 1]]
    later.set_epoch(1)
    assert later.state_dict()["legs"] == [] and later.state_dict()["consumed"] == 0


def test_legs_without_items_are_dropped():
    state = None
    for nodes in (3, 2, 5, 1, 2):
        sampler = ShardSampler(N, boundaries=ENDS, rank=0, world_size=1, nodes=nodes)
        if state is not None:
            sampler.load_state_dict(state)
        taken = list(itertools.islice(sampler, 4 if nodes < 3 else 0))
        state = sampler.state_dict(samples=len(taken))
    assert state["legs"] == [[0, 2], [4, 1], [8, 2]] and state["consumed"] == 12


def test_an_iteration_in_progress_keeps_its_epoch_and_legs():
    sampler = ShardSampler(N, boundaries=ENDS, rank=0, world_size=1, nodes=2)
    first = list(sampler)
    list(itertools.islice(sampler, 9))
    later = ShardSampler(N, boundaries=ENDS, rank=0, world_size=1, nodes=3)
    later.load_state_dict(sampler.state_dict())
    rest = BatchSampler(later, BATCH)
    under_way = iter(rest)
    got = next(under_way).tolist()
    later.set_epoch(1)
    assert sorted(later) == list(range(N))
    got += [index for batch in under_way for index in batch.tolist()]
    assert sorted(got) == sorted(first[9:])


WRONG_LEGS = [
    None, [], [[1, 1]], [[0, 0]], [[0, 2**16 + 1]], [[0, 1.0]], [[0, 1, 2]], [0, 1], [[0, 1], [0, 2]], [[0, 1], [11, 2]]
]  # fmt: skip


def test_states_that_do_not_fit():
    sampler = ShardSampler(N, boundaries=ENDS, window=2)
    list(itertools.islice(sampler, 10))
    good, order = sampler.state_dict(), list(sampler)
    other = ShardSampler(N, boundaries=[6, *ENDS[1:]], window=2)
    pytest.raises(ValueError, lambda: other.load_state_dict(good)).match("40 in 9, or other boundaries")
    for change, message in [
        ({"length": 41}, "set of 41 records in 9 shards, but this one has 40 in 9"),
        ({"shards": 8}, "set of 40 records in 8 shards"),
        ({"boundaries": None}, "or other boundaries"),
        ({"window": 3}, "window 3"),
        ({"seed": 2}, "seed 2"),
        ({"shuffle": False}, "shuffle False"),
        ({"order": "windows-2"}, "windows-2"),
        ({"version": 2}, "version 2"),
        ({"kind": "recstore.torch.ShuffleSampler"}, "ShuffleSampler"),
        ({"consumed": 41}, "41 items of 40"),
        *(({"legs": legs}, "legs") for legs in WRONG_LEGS),
    ]:
        pytest.raises(ValueError, lambda: sampler.load_state_dict({**good, **change})).match(message)
    for missing in good:
        with pytest.raises(ValueError):
            sampler.load_state_dict({key: value for key, value in good.items() if key != missing})
    with pytest.raises(ValueError, match="the state is of 'recstore.torch.ShardSampler'"):
        ShuffleSampler(N).load_state_dict(good)
    assert list(sampler) == order, "nothing has changed"


# ---- Nodes from the environment ----


def test_nodes_of_the_environment(monkeypatch):
    sampler = ShardSampler(N, boundaries=ENDS)
    assert (sampler.world_size, sampler.nodes, sampler.window) == (1, 1, 4)
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "6"), ("LOCAL_WORLD_SIZE", "2"), ("SLURM_STEP_NUM_NODES", "2")):
        monkeypatch.setenv(name, value)
    assert (sampler.world_size, sampler.nodes) == (6, 1), "LOCAL_WORLD_SIZE does not tell the number of nodes"
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert sampler.nodes == 1, "the step has another number of tasks"
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "6")
    assert sampler.nodes == 2
    monkeypatch.setenv("GROUP_WORLD_SIZE", "3")
    assert sampler.nodes == 3
    assert list(sampler) == list(ranks(6, nodes=3)[1]) != list(ranks(6, nodes=2)[1])
    assert ShardSampler(N, boundaries=ENDS, rank=0, world_size=2).nodes == 1, "torchrun has another number of ranks"
    assert ShardSampler(N, boundaries=ENDS, nodes=5).nodes == 5, "arguments take precedence"
    for value in ("x", "0", "-1", ""):
        monkeypatch.setenv("GROUP_WORLD_SIZE", value)
        with pytest.raises(ValueError, match=f"GROUP_WORLD_SIZE='{value}'; give nodes"):
            next(iter(sampler))


# ---- Sets ----


def test_the_next_shards_are_requested():
    x, opener = shard_epochs.set_of([10] * 7)
    sampler = ShardSampler(x, window=2, seed=4, rank=0, world_size=1)
    assert [x[index] for index in sampler] == list(ShardSampler(70, boundaries=range(10, 71, 10), window=2, seed=4))
    order = permute.order(7, 4)
    windows = [order[0:1], order[1:3], order[3:5], order[5:7]]
    requests = [sum(windows[i : i + 2], []) for i in range(4)]
    assert [sorted(shards) for shards in opener.announced[:1]] == [sorted(requests[0])]
    assert [shard for shards in requests for shard in shards][:3] == opener.announced[0]
    assert {shard for shards in opener.announced for shard in shards} == set(range(7))
    del opener.announced[:]
    again = BatchSampler(ShardSampler(x[5:65], window=2, seed=4, rank=1, world_size=4, nodes=2), BATCH)
    for _ in range(2):
        assert len(list(again)) == 3
    assert not any(opener.announced), "all shards are local"


@pytest.mark.parametrize("size, nodes, world_size", [(4096, 2, 4), (10, 1, 2), (10, 1, 3)])
def test_each_node_requests_its_shards_once_per_window_before_they_are_read(size, nodes, world_size):
    """A node has room for two windows: for one that is read, and for the next."""
    for rank in range(world_size):
        x, opener = shard_epochs.set_of([size] * 12)
        sampler = ShardSampler(x, window=2, seed=4, rank=rank, world_size=world_size, nodes=nodes)
        requested = set()
        for k, index in enumerate(sampler):
            if size == 10:
                assert len(opener.announced) == (k * world_size + rank) // 20 + 1
            elif k % 512:
                continue
            requested |= {shard for shards in opener.announced for shard in shards}
            x.get_many([index])
            assert set(opener.opened_shards) <= requested
            assert len(requested - set(opener.opened_shards)) <= 4
        assert len(requested) == 12 // nodes and len(opener.announced) == 6 // nodes


def test_shards_of_sets_slices_and_datasets():
    x, _ = shard_epochs.set_of(COUNTS)
    expected = list(ShardSampler(N, boundaries=ENDS, window=2, seed=1))
    f = samplers.RecordDataset(x, transform=lambda record: record)
    for form in (x, f, x.lazy(), x[:]):
        assert list(ShardSampler(form, window=2, seed=1)) == expected
    part = [max(0, min(end, 33) - 9) for end in ENDS]
    assert list(ShardSampler(x[9:33], window=2, seed=1)) == list(ShardSampler(24, boundaries=part, window=2, seed=1))
    for view in (x.shuffled(1), x[::2], x[[1, 2]], x[::-1]):
        with pytest.raises(TypeError, match="give the set, a slice of it with step 1, or boundaries="):
            ShardSampler(view)
    for other in (shard_epochs.set_of([3])[1].parts[0], [1, 2], 5):
        with pytest.raises(TypeError, match="has no shards: give boundaries=.*ShuffleSampler"):
            ShardSampler(other)


@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_loader(workers):
    x, opener = shard_epochs.set_of(COUNTS)
    dataset = samplers.RecordDataset(x)
    expected = list(ShardSampler(x, window=2, seed=1))
    opener.announced.clear()
    sampler = ShardSampler(x, window=2, seed=1)
    batches = BatchSampler(sampler, BATCH)
    for options in (
        {"batch_sampler": batches},
        {"sampler": batches, "batch_size": None},
        {"sampler": sampler, "batch_size": BATCH},
    ):
        got = [
            record for batch in DataLoader(dataset, num_workers=workers, collate_fn=list, **options) for record in batch
        ]
        assert got == expected
    assert opener.announced, "requests come from this process, not from workers"
    with samplers.Loader(dataset, BATCH, sampler=sampler) as loader:
        assert [record for batch in loader for record in batch] == expected
        iterator = iter(loader)
        first = [*next(iterator), *next(iterator)]
        state = loader.state_dict()
    later = samplers.Loader(dataset, 7, sampler=ShardSampler(x, window=2, seed=1))
    later.load_state_dict(state)
    assert first + [record for batch in later for record in batch] == expected


# ---- Arguments, copies ----


def test_boundaries_and_bad_arguments():
    expected = list(ShardSampler(N, boundaries=ENDS))
    for form in (tuple(ENDS), np.array(ENDS), np.array(ENDS, np.uint8), torch.tensor(ENDS)):
        assert list(ShardSampler(range(N), boundaries=form)) == expected
    for wrong in ([1.0, 40.0], [[1, 40]], ["40"], 40, "40"):
        pytest.raises(TypeError, lambda: ShardSampler(N, boundaries=wrong)).match("boundaries must be a sequence of")
    with pytest.raises(ValueError, match="boundaries must ascend, but number 2 is 5 after 7"):
        ShardSampler(N, boundaries=[3, 7, 5, 40])
    for wrong in ([3, 39], [], [-1, 40], [0], [41]):
        with pytest.raises(ValueError, match="end with the number of records, 40:"):
            ShardSampler(N, boundaries=wrong)
    for name, limit in (("window", 2**48), ("nodes", 2**16)):
        for wrong in (0, -1, limit + 1):
            with pytest.raises(ValueError, match=f"{name} must be from 1 to {limit}, not {wrong}"):
                ShardSampler(N, boundaries=ENDS, **{name: wrong})
        for wrong in (1.5, True, "1"):
            with pytest.raises(TypeError, match=f"{name} must be an integer"):
                ShardSampler(N, boundaries=ENDS, **{name: wrong})
    pytest.raises(TypeError, lambda: ShardSampler(N, boundaries=ENDS, rank=0)).match("both rank and world_size")
    for name in ("drop_last", "shuffle"):
        with pytest.raises(TypeError, match=f"{name} must be True or False"):
            ShardSampler(N, boundaries=ENDS, **{name: 1})
