"""Batches of Fields in training libraries: Lightning and accelerate move them to a device, torchdata's loader reads
them, and torch collates and converts them. `nox -s real` installs the libraries."""

import importlib

import pytest

WHY = "needs the packages of `nox -s real`"
torch = pytest.importorskip("torch", reason=WHY)

from gather_model import assert_same  # noqa: E402
from torch.utils.data import default_collate, default_convert  # noqa: E402

from recstore import RecordList  # noqa: E402
from recstore.torch import Batch, Field, Fields, ShuffleSampler  # noqa: E402
from recstore.torch import BatchSampler as NativeBatches  # noqa: E402

N = 50


@pytest.fixture
def f():
    records = ({"id": i, "box": [i, 0.5], "t": [i] * (i % 4), "name": f"{i}"} for i in range(N))
    with RecordList(records) as x:
        yield Fields(x, "id", "box", "name", t="jagged", p=Field("padded", "t"), r=Field("ragged", "t"))


def import_or_skip(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs {error.name} (pip install recstore[real])")
    except RuntimeError as error:  # Lightning imports torchvision
        pytest.skip(f"torchvision does not fit PyTorch: {error}")


def test_lightning_moves_a_batch(f):
    utilities = import_or_skip("lightning.fabric.utilities")
    batch = f[[3, 1]]
    moved = utilities.move_data_to_device(batch, "cpu")
    assert type(moved) is Batch
    assert_same(moved, batch)
    meta = utilities.move_data_to_device({"inner": batch}, "meta")["inner"]
    assert meta["id"].device.type == meta["r"].values.device.type == "meta"
    assert meta["name"] == ["3", "1"]


def test_accelerate_moves_a_batch(f):
    operations = import_or_skip("accelerate.utils.operations")
    batch = f[[3, 1]]
    assert_same(operations.send_to_device(batch, torch.device("cpu")), batch)
    assert operations.find_batch_size(batch) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_loader(f, workers):
    module = import_or_skip("torchdata.stateful_dataloader")
    order = [i for batch in NativeBatches(ShuffleSampler(N, seed=1), 8) for i in batch.tolist()]
    for options in (
        {"sampler": NativeBatches(ShuffleSampler(N, seed=1), 8), "batch_size": None},
        {"batch_sampler": NativeBatches(ShuffleSampler(N, seed=1), 8), "collate_fn": f.collate},
    ):
        loader = module.StatefulDataLoader(f, num_workers=workers, **options)
        got = list(loader)
        assert [type(batch) for batch in got] == [Batch] * len(got)
        for number, batch in enumerate(got):
            assert_same(batch, f[order[8 * number : 8 * number + 8]])


def test_torch_converts_and_collates_batches(f):
    batch = f[[3, 1]]
    assert_same(default_convert(batch), batch)
    ids = Fields(f.records, "id", "box")
    collated = default_collate([ids[[3, 1]], ids[[5, 6]]])
    assert type(collated) is Batch
    assert collated["id"].tolist() == [[3, 1], [5, 6]]
