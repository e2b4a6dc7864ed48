"""Importable functions for the workers of test_share_dataset, without torch."""

import mmap

import numpy as np

from recstore import RecordDict, RecordView

N = 2000


class Dataset:
    """A map-style dataset with plain attributes."""

    def __init__(self):
        self.samples = [{"id": i, "name": f"record {i}"} for i in range(N)]
        self.by_name = {sample["name"]: sample for sample in self.samples}
        self.array = np.arange(50_000.0)
        self.part = self.array[100:200]

    def __len__(self):
        return N

    def __getitem__(self, i):
        return self.by_name[self.samples[i]["name"]]["id"] + int(self.array[i]) - i


def is_mapped(array):
    """Whether an array is memory-mapped, not private memory."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def describe(dataset):
    """A description of the dataset that a worker got."""
    kinds = type(dataset.samples) is RecordView, type(dataset.by_name) is RecordDict
    return (kinds, [dataset[i] for i in (0, 7, N - 1)], (
        is_mapped(dataset.array), dataset.array[:3].tolist(), dataset.array.flags.writeable,
        np.shares_memory(dataset.array, dataset.part)
    ))  # fmt: skip


def send_description(connection, dataset):
    """Sends a description, and the advice in the errors of item assignment."""
    messages = []
    for value, key in ((dataset.samples, 0), (dataset.by_name, "record 0")):
        try:
            value[key] = None
        except TypeError as error:
            messages.append(str(error).partition(": ")[2])
    connection.send((describe(dataset), messages))


def send_sums(connection, *arrays):
    """Sends the sum of each array or tensor, and whether it is mapped."""
    connection.send([(float(array.sum()), is_mapped(np.asarray(array))) for array in arrays])


def send_after_write(connection, tensor):
    tensor.add_(1)
    connection.send(float(tensor.sum()))


def describe_arguments(arguments):
    """For pools: returns a description of the arguments."""
    dataset, array = arguments
    return describe(dataset)[:2], array.tolist()
