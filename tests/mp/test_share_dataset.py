"""Objects changed by share_dataset in workers of each start method: their contents, and the bytes sent."""

import multiprocessing
import sys

import interpreters
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


def test_worker_reads(context):
    dataset = shared()
    expected = (True, True), IDS, (True, [0.0, 1.0, 2.0], False, True)
    assert run_worker(context, workers.send_description, dataset) == expected


def test_an_error_in_a_worker_names_the_attribute(context):
    expected = [
        "share_dataset put it in place of the list 'samples'; share_dataset(dataset, skip=['samples']) leaves it a list",
        "share_dataset put it in place of the dict 'by_name'; share_dataset(dataset, skip=['by_name']) leaves it a dict",
    ]
    messages = run_worker(context, workers.send_assignment_errors, shared())
    assert [message.partition(": ")[2] for message in messages] == expected


def test_spawned_worker_is_sent_little(spawning, sent):
    run_worker(spawning, workers.send_description, shared())
    assert max(sent) < 5000
    assert audit(shared()).pickled < 5000


def test_by_queue(spawning):
    """In a queue an array travels as bytes, so nobody needs to keep its memory."""
    dataset = shared()
    with spawning.Pool(1) as pool:
        got = pool.map(workers.describe_arguments, [(dataset, dataset.part)] * 3)
        pool.close()
        pool.join()
    assert got == [(((True, True), IDS), dataset.part.tolist())] * 3


def test_slices_of_an_array_travel(spawning):
    dataset = shared()
    array = dataset.array
    parts = array[5:9], array[::-1], array[:40_000].reshape(200, 200).T, array.view("i8")
    sums, mapped = run_worker(spawning, workers.send_sum, *parts)
    assert sums == [float(part.sum()) for part in parts] and mapped


def test_other_arrays_travel_as_usual(spawning):
    shared()  # from now on the pickler checks arrays
    array = np.arange(5000)
    assert run_worker(spawning, workers.send_sum, array) == ([float(array.sum())], False)


def test_a_changed_array_travels_as_bytes(spawning):
    dataset = shared()
    array = dataset.array
    array.flags.writeable = True
    array[3] = 1000
    assert run_worker(spawning, workers.send_sum, array, dataset.part) == (
        [float(array.sum()), float(dataset.part.sum())],
        False,
    )


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
    sums, mapped = run_worker(spawning, workers.send_sum, dataset.tensor, dataset.little, torch.ones(3000))
    assert sums == [4999 * 2500, 7, 3000]
    assert not dataset.tensor.is_shared(), "torch copied it"
    assert run_worker(spawning, workers.send_after_write, dataset.tensor) == 4999 * 2500 + 5000
    assert dataset.tensor.sum() == 4999 * 2500
    dataset.tensor[3] = 1003
    assert run_worker(spawning, workers.send_sum, dataset.little)[0] == [1007]


def test_loader(context):
    data = pytest.importorskip("torch.utils.data", reason="needs PyTorch (pip install recstore[torch])")
    dataset = shared()
    subset = data.Subset(dataset, list(range(0, workers.N, 5)))
    share_dataset(subset, 1000)
    loader = data.DataLoader(subset, batch_size=40, num_workers=2, multiprocessing_context=context)
    assert [int(i) for batch in loader for i in batch] == list(range(0, workers.N, 5))
    assert audit(loader, threshold=1000).pickled < 5000


@interpreters.measures_memory
def test_workers_do_not_copy_the_records(python):
    """The private memory of a forked worker does not grow with the dataset that it reads."""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    out = python(
        """
import os, gc, multiprocessing
from recstore import share_dataset
from recstore.shm import process_memory

class Dataset: pass

def growth(dataset):
    before = process_memory.usage().uss
    for sample in dataset.samples: sample["name"]
    return process_memory.usage().uss - before

def child(connection, dataset):
    connection.send(growth(dataset))

dataset = Dataset()
dataset.samples = [{"id": i, "name": f"record {i}"} for i in range(100_000)]
share_dataset(dataset)
gc.collect()
context = multiprocessing.get_context("fork")
parent_end, child_end = context.Pipe(False)
process = context.Process(target=child, args=(child_end, dataset))
process.start()
print(parent_end.recv())
process.join()
"""
    )
    assert int(out) < 4_000_000  # over 20 MB with plain objects
