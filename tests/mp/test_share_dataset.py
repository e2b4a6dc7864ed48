"""Objects changed by share_dataset in workers of each start method: their contents, and the bytes sent."""

import multiprocessing

import numpy as np
import pytest
from mp import dataset_workers as workers
from mp.workers import run_worker

from recstore import audit, share_dataset

IDS = [0, 7, workers.N - 1]


def shared():
    dataset = workers.Dataset()
    report = share_dataset(dataset, 2000)
    assert len(report.replaced) == 4
    return dataset


def test_worker_reads(context, sent):
    dataset = shared()
    expected = (True, True), IDS, (True, [0.0, 1.0, 2.0], False, True)
    errors = [
        "share_dataset put it in place of the list 'samples'; share_dataset(dataset, skip=['samples']) leaves it a list",
        "share_dataset put it in place of the dict 'by_name'; share_dataset(dataset, skip=['by_name']) leaves it a dict",
    ]
    assert run_worker(context, workers.send_description, dataset) == (expected, errors)
    assert bool(sent) == (context.get_start_method() != "fork") and max(sent, default=0) < 5000
    assert audit(dataset).pickled < 5000


def test_by_queue(spawning):
    """In a queue an array travels as bytes, so nobody needs to keep its memory."""
    dataset = shared()
    with spawning.Pool(1) as pool:
        got = pool.map(workers.describe_arguments, [(dataset, dataset.part)] * 3)
        pool.close()
        pool.join()
    assert got == [(((True, True), IDS), dataset.part.tolist())] * 3


def test_slices_and_other_arrays_travel(spawning):
    dataset = shared()
    array = dataset.array
    changed = shared().array
    changed.flags.writeable = True
    changed[3] = 1000
    parts = array[5:9], array[::-1], array[:40_000].reshape(200, 200).T, array.view("i8"), changed[100:200]
    others = changed, changed[:100], np.arange(5000)
    expected = [(float(part.sum()), True) for part in parts] + [(float(other.sum()), False) for other in others]
    assert run_worker(spawning, workers.send_sums, *parts, *others) == expected


def test_a_write_in_a_forked_worker_stays_private():
    torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    dataset = type("Holder", (), {})()
    dataset.tensor = torch.zeros(5000)
    share_dataset(dataset, 2000)
    assert run_worker(multiprocessing.get_context("fork"), workers.send_after_write, dataset.tensor) == 5000
    assert dataset.tensor.sum() == 0


def test_tensors(spawning):
    torch = pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")
    dataset = workers.Dataset()
    dataset.tensor = torch.arange(5000.0)
    dataset.little = dataset.tensor[3:5]
    share_dataset(dataset, 2000)
    tensors = dataset.tensor, dataset.little, torch.ones(3000)
    assert [total for total, _ in run_worker(spawning, workers.send_sums, *tensors)] == [4999 * 2500, 7, 3000]
    assert not dataset.tensor.is_shared(), "torch copied it"
    assert run_worker(spawning, workers.send_after_write, dataset.tensor) == 4999 * 2500 + 5000
    assert dataset.tensor.sum() == 4999 * 2500
    dataset.tensor[3] = 1003
    assert run_worker(spawning, workers.send_sums, dataset.little)[0][0] == 1007


def test_loader(context):
    data = pytest.importorskip("torch.utils.data", reason="needs PyTorch (pip install recstore[torch])")
    dataset = shared()
    subset = data.Subset(dataset, list(range(0, workers.N, 5)))
    share_dataset(subset, 1000)
    loader = data.DataLoader(subset, batch_size=40, num_workers=2, multiprocessing_context=context)
    assert [int(i) for batch in loader for i in batch] == list(range(0, workers.N, 5))
    assert audit(loader, threshold=1000).pickled < 5000
