"""Batches of Fields from workers: every start method and sharing strategy, persistent workers, pinned memory, a killed
worker."""

import os
import pickle
import signal

import pytest
import shm

torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

import torch.multiprocessing  # noqa: E402
from gather_model import assert_same  # noqa: E402
from mp import torch_workers  # noqa: E402
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler  # noqa: E402
from waiting import in_child  # noqa: E402

import recstore  # noqa: E402
from recstore.torch import Batch  # noqa: E402

N = 200


@pytest.fixture
def f():
    x = torch_workers.build(N)
    yield torch_workers.fields(x)
    x.close()


def batches_of(f, size=32):
    return [f[range(start, min(start + size, N))] for start in range(0, N, size)]


def loaders(f, context, **options):
    yield DataLoader(
        f, sampler=BatchSampler(SequentialSampler(f), 32, False), batch_size=None, num_workers=2,
        multiprocessing_context=context, **options
    )  # fmt: skip
    yield DataLoader(f, batch_size=32, collate_fn=f.collate, num_workers=2, multiprocessing_context=context, **options)


def test_workers_give_the_same_batches_as_the_parent(f, context):
    for loader in loaders(f, context, persistent_workers=True):
        for _ in range(2):
            for batch, expected in zip(loader, batches_of(f), strict=True):
                assert type(batch) is Batch
                assert_same(batch, expected)
        loader._iterator._shutdown_workers()


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_large_batches_in_shared_memory(strategy):
    x = torch_workers.build(N)
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy(strategy)
    try:
        f = torch_workers.large_fields(x)
        loader = DataLoader(
            f, sampler=BatchSampler(SequentialSampler(f), 100, False), batch_size=None, num_workers=1,
            worker_init_fn=torch_workers.Strategy(strategy)
        )  # fmt: skip
        for batch, expected in zip(loader, batches_of(f, 100), strict=True):
            assert batch["tokens"].is_shared()
            assert_same(batch, expected)
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
        x.close()


@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")
def test_pin_memory_without_a_device(f):
    for loader in loaders(f, "fork", pin_memory=True):
        for batch, expected in zip(loader, batches_of(f), strict=True):
            assert_same(batch, expected)


def test_a_transform_in_a_worker(context):
    x = torch_workers.build(N)
    f = torch_workers.fields(x, transform=torch_workers.shifted)
    loader = DataLoader(f, batch_size=32, collate_fn=f.collate, num_workers=1, multiprocessing_context=context)
    for batch, expected in zip(loader, batches_of(f), strict=True):
        assert_same(batch, expected)
        assert batch["tokens"].layout is torch.jagged
    x.close()


def test_an_error_in_a_worker_names_the_record(f):
    loader = DataLoader(f, sampler=[[1, 2], [1, N]], batch_size=None, num_workers=1)
    batches = iter(loader)
    next(batches)
    pytest.raises(IndexError, lambda: next(batches)).match(f"{N} records")
    batches._shutdown_workers()  # the end of the object would wait for five seconds


def test_the_fields_of_a_missing_store(monkeypatch):
    """A pickled Fields loads without its store. Reading a batch raises an error."""
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    f = pickle.loads(in_child(lambda: pickle.dumps(torch_workers.fields(torch_workers.build(3)))))
    assert repr(f).startswith("<Fields of a store that is not here>\n  id ")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: f[[0, 1]])


def test_a_killed_worker_leaves_nothing():
    """The worker dies in the middle of a batch that uses shared memory."""
    before = shm.names()
    x = torch_workers.build(N)
    f = torch_workers.large_fields(x, transform=torch_workers.Killed(os.getpid()))
    loader = DataLoader(f, sampler=[range(100)] * 4, batch_size=None, num_workers=1)
    with pytest.raises(RuntimeError, match=f"killed by signal.*{signal.Signals.SIGKILL.name[3:].title()}|exited"):
        list(loader)
    del loader
    x.close()
    assert shm.names() == before
