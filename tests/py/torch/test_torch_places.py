"""Samplers in fakes of Lightning's loops, which have only the parts that samplers inspect; tests/real uses Lightning."""

import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
from torch.utils.data import DataLoader  # noqa: E402

from recstore import RecordList  # noqa: E402
from recstore.torch import (  # noqa: E402
    BatchSampler,
    Fields,
    GroupSampler,
    LengthBatchSampler,
    Loader,
    ShardSampler,
    ShuffleSampler,
    WeightedSampler,
)

N = 60

LOOPS = """
class EpochLoop:
    def __init__(self, ready, batches, restarting):
        self.batch_progress = namespace(current=namespace(ready=ready))
        self.trainer = namespace(num_training_batches=batches)
        self.restarting = restarting

    def run(self, loader, validation=None):
        for batch in validation.run() if validation else ():
            pass
        return list(loader)


class FitLoop:
    def __init__(self, *progress):
        self.epoch_loop = EpochLoop(*progress)

    def setup(self, loader):
        return iter(loader)


class EvaluationLoop:
    def __init__(self, loader):
        self.loader = loader

    def run(self):
        return list(self.loader)
"""


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def loops(request, monkeypatch):
    """The classes of LOOPS, in modules named like Lightning's."""
    made = {}
    for name in ("training_epoch_loop", "evaluation_loop"):
        module = types.ModuleType(f"{request.param}.loops.{name}")
        module.namespace = types.SimpleNamespace
        exec(LOOPS, vars(module))
        made[name] = module
    monkeypatch.setitem(sys.modules, f"{request.param}.loops", types.ModuleType("loops"))
    fit = made["training_epoch_loop"]
    return types.SimpleNamespace(
        Fit=fit.FitLoop, Epoch=fit.EpochLoop, Evaluation=made["evaluation_loop"].EvaluationLoop
    )


class Indices(torch.utils.data.Dataset):
    """Each item is its index."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return torch.as_tensor(index)


SAMPLERS = {
    "shuffle": lambda: ShuffleSampler(N), "batches": lambda: BatchSampler(ShuffleSampler(N), 4),
    "weighted": lambda: WeightedSampler([1.0] * N), "lengths": lambda: LengthBatchSampler([3] * N, 12),
    "groups": lambda: GroupSampler([i % 2 for i in range(N)], 4), "shards": lambda: ShardSampler(N, boundaries=[20, N])
}  # fmt: skip


def warned(call, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments)
    return [warning.category for warning in caught]


@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
def test_resuming_in_the_middle_of_an_epoch_without_a_state(loops, make):
    assert warned(loops.Epoch(3, 15, True).run, make()) == [UserWarning]
    loader = DataLoader(Indices(), batch_size=None, sampler=make(), num_workers=0)
    assert warned(loops.Epoch(1, float("inf"), True).run, loader) == [UserWarning]


@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
def test_a_loaded_state_is_silent(loops, make):
    before = make()
    iterator = iter(before)
    next(iterator)
    sampler = make()
    sampler.load_state_dict(before.state_dict())
    assert warned(loops.Epoch(3, 15, True).run, sampler) == []


@pytest.mark.parametrize(
    "progress", [(0, 15, True), (15, 15, True), (3, 15, False)], ids=["begins", "at the end", "later epoch"]
)
def test_no_other_epoch_warns(loops, progress):
    assert warned(loops.Epoch(*progress).run, ShuffleSampler(N)) == []


def test_validation_does_not_warn(loops):
    validation = loops.Evaluation(ShuffleSampler(N))
    assert warned(loops.Epoch(3, 15, True).run, [], validation) == []


def test_workers_that_draw_ahead(loops):
    with RecordList({"id": i} for i in range(N)) as x:
        fields = Fields(x, "id")
        sampler = BatchSampler(ShuffleSampler(x), 4)
        loader = DataLoader(fields, sampler=sampler, batch_size=None, num_workers=1)
        assert warned(loops.Fit(3, 15, True).setup, loader) == [UserWarning]


def test_a_loader_resumes(loops):
    with RecordList({"id": i} for i in range(N)) as x:
        first = Loader(Fields(x, "id"), batch_size=4, shuffle=True)
        next(iter(first))
        again = Loader(Fields(x, "id"), batch_size=4, shuffle=True)
        again.load_state_dict(first.state_dict())
        assert warned(loops.Epoch(1, 15, True).run, again) == []


def test_without_lightning():
    assert warned(list, ShuffleSampler(N)) == []
