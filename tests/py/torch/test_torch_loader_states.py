"""Loader.state_dict and load_state_dict: a run resumes after the last batch that the loop received."""

import pickle

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
pytest.importorskip("numpy", reason="needs numpy")

from torch.utils import data  # noqa: E402
from torch_batches import Batches, CountingBatchSampler, Failing, flat, no_thread_left  # noqa: E402, F401

from recstore.torch import Loader, ShuffleSampler  # noqa: E402


def resumed(state, **options):
    made = Loader(Batches(), **options)
    made.load_state_dict(pickle.loads(pickle.dumps(state)))
    return made


@pytest.mark.parametrize("consumed", [0, 1, 3, 4])
@pytest.mark.parametrize(
    "then", [{"batch_size": 5}, {"batch_size": 2, "threads": 2}, {"batch_size": 9, "prefetch": 0}], ids=str
)
@pytest.mark.parametrize("prefetch", [0, 2, 50])
@pytest.mark.parametrize("order", [{"shuffle": True, "seed": 2}, {}], ids=["shuffled", "in order"])
def test_a_run_resumes_where_the_loop_stopped(consumed, then, prefetch, order):
    first = Loader(Batches(), batch_size=5, **order, prefetch=prefetch)
    whole, after = flat(first), flat(first)
    first.set_epoch(0)
    batches = iter(first)
    seen = flat(next(batches) for _ in range(consumed))
    state = first.state_dict() if consumed else Loader(Batches(), **order).state_dict()
    assert len(pickle.dumps(state)) < 500
    sampler = ShuffleSampler(23, **{"shuffle": False, **order})
    sampler.load_state_dict(state)
    assert seen + list(sampler) == whole
    later = resumed(state, **order, **then)
    assert later.state_dict() == state
    assert seen + flat(later) == whole
    assert flat(later) == after


def test_the_state_of_an_ended_epoch_goes_on_with_the_next_one():
    first = Loader(Batches(), batch_size=5, shuffle=True)
    list(first)
    state = first.state_dict()
    expected = flat(first)
    assert flat(resumed(state, batch_size=4, shuffle=True)) == expected


def test_a_batch_sampler_without_a_state_is_counted():
    first = Loader(Batches(), batch_sampler=CountingBatchSampler())
    batches = iter(first)
    seen = flat(next(batches) for _ in range(4))
    state = first.state_dict()
    assert state["batches"] == 4
    later = Loader(Batches(), batch_sampler=CountingBatchSampler())
    later.load_state_dict(state)
    assert later.state_dict() == state
    assert seen + flat(later) == flat(later) == list(range(23))
    assert later.state_dict()["batches"] == 0
    later.load_state_dict(state)
    batches = iter(later)
    assert flat([next(batches)]) == [4] and later.state_dict()["batches"] == 5


def test_set_epoch_begins_another_epoch_at_its_first_batch():
    made = Loader(Batches(), batch_size=5, shuffle=True)
    batches = iter(made)
    next(batches)
    batches.close()
    state = made.state_dict()
    made.set_epoch(0)
    assert made.state_dict() == state
    made.set_epoch(4)
    assert made.state_dict()["sampler"]["epoch"] == 4 and made.state_dict()["sampler"]["consumed"] == 0
    later = Loader(Batches(), batch_size=5, shuffle=True)
    later.load_state_dict(made.state_dict())
    assert flat(later) == flat(made)


def test_an_error_does_not_count_as_a_received_batch():
    batches = iter(made := Loader(Failing(), batch_size=3))
    next(batches), next(batches)
    pytest.raises(KeyError, lambda: next(batches))
    assert flat(resumed(made.state_dict(), batch_size=3)) == list(range(6, 23))


@pytest.mark.parametrize("change, message", [
    ({"records": 24}, "of a dataset of 24 records, but this one has 23"), ({"version": 2}, "version 2"),
    ({"version": None}, "version None"), ({"sampler": {}}, "state")
], ids=str)  # fmt: skip
def test_wrong_states_change_nothing(change, message):
    made = Loader(Batches(), batch_size=5, shuffle=True)
    first = flat(made)
    made.set_epoch(0)
    before = made.state_dict()
    pytest.raises(ValueError, lambda: made.load_state_dict({**before, **change})).match(message)
    assert made.state_dict() == before
    assert flat(made) == first


def test_states_of_other_loaders():
    pytest.raises(TypeError, lambda: Loader(Batches()).load_state_dict([])).match("a state must be a dict")
    counted = Loader(Batches(), batch_sampler=CountingBatchSampler())
    with pytest.raises(ValueError, match="has no state_dict"):
        Loader(Batches()).load_state_dict(counted.state_dict())
    pytest.raises(ValueError, lambda: counted.load_state_dict(Loader(Batches()).state_dict())).match("how many batches")
    with pytest.raises(ValueError, match="seed"):
        Loader(Batches(), shuffle=True, seed=1).load_state_dict(Loader(Batches(), shuffle=True).state_dict())
    random = Loader(Batches(), batch_sampler=data.BatchSampler(data.RandomSampler(range(23)), 5, False))
    with pytest.raises(ValueError, match="use ShuffleSampler"):
        random.load_state_dict({**random.state_dict(), "batches": 1})
    random.load_state_dict(random.state_dict())  # nothing was received yet
