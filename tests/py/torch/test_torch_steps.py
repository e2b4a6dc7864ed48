"""Steps: the batches of a Loader over all epochs of a run. A run resumes in any epoch on any number of ranks."""

import json

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
pytest.importorskip("numpy", reason="needs numpy")

from torch.utils import data  # noqa: E402
from torch_batches import Batches, flat  # noqa: E402

from recstore.torch import LengthBatchSampler, Loader, ShuffleSampler, Steps  # noqa: E402


def steps_of(rank=0, world_size=1, batch_size=5, steps=None, **options):
    sampler = ShuffleSampler(23, rank=rank, world_size=world_size)
    return Steps(Loader(Batches(), batch_size, sampler=sampler, **options), steps)


def test_a_run_resumes_in_any_epoch_on_any_number_of_ranks():
    """23 samples in batches of 5 over two ranks: each rank takes 12 of an epoch, in three batches."""
    ranks = [steps_of(rank, 2) for rank in range(2)]
    taken = [flat([next(batches) for _ in range(4)]) for batches in map(iter, ranks)]
    states = [json.loads(json.dumps(run.state_dict())) for run in ranks]
    assert states[0] == states[1] and (states[0]["sampler"]["epoch"], states[0]["steps"]) == (1, 4)
    epochs = Loader(Batches(), batch_size=23, shuffle=True)
    first, second, third = flat(epochs), flat(epochs), flat(epochs)
    assert [index for step in zip(*taken) for index in step] == [*first, first[0], *second[:10]]
    later = steps_of(batch_size=13)
    later.load_state_dict(states[0])
    batches = iter(later)
    assert flat(next(batches) for _ in range(3)) == second[10:] + third


@pytest.mark.parametrize("options", [{"prefetch": 0}, {"prefetch": 3, "threads": 2}], ids=str)
def test_the_state_counts_what_the_loop_has_received(options):
    run = steps_of(steps=12, **options)
    seen = []
    for batch in run:
        seen += flat([batch])
        again = steps_of(steps=12)
        again.load_state_dict(run.state_dict())
        assert len(seen) + len(flat(again)) == 23 + 23 + 10
    assert len(run) == 12 and run.state_dict()["steps"] == 12 and list(run) == []


def test_a_loader_that_shuffles_and_one_of_batches():
    whole = Loader(Batches(), batch_size=23, shuffle=True)
    assert flat(Steps(Loader(Batches(), batch_size=5, shuffle=True), 10)) == flat(whole) + flat(whole)
    batches = LengthBatchSampler([1 + i % 7 for i in range(23)], 20)
    run = Steps(Loader(Batches(), batch_sampler=batches), 2 * len(batches))
    assert sorted(flat(run)) == sorted([*range(23)] * 2)


def test_what_steps_refuse():
    loader = Loader(Batches(), batch_size=24, shuffle=True, drop_last=True)
    with pytest.raises(ValueError, match="no batch"):
        next(iter(Steps(loader)))
    with pytest.raises(TypeError):
        len(Steps(loader))
    for other in (data.DataLoader([1]), Loader(Batches(), sampler=[0, 1])):
        with pytest.raises(TypeError):
            Steps(other)
    state = steps_of().state_dict()
    for wrong in (loader.state_dict(), {**state, "steps": 8}, {**state, "records": 1}):
        run = steps_of(steps=7)
        with pytest.raises(ValueError):
            run.load_state_dict(wrong)
        assert run.state_dict() == state
