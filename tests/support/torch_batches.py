"""Datasets for tests of the Loader, and its threads."""

import gc
import threading

import numpy
import pytest
import torch
from waiting import LIMIT_S


class Batches:
    """A dataset that is read in batches, like Fields."""

    def __init__(self, n=23):
        self.n = n
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, indices):
        self.read.append(threading.current_thread().name)
        return {"id": torch.as_tensor(numpy.asarray(indices))}


class Failing(Batches):
    def __getitem__(self, indices):
        if 7 in list(indices):
            raise KeyError("no such field")
        return super().__getitem__(indices)


class CountingBatchSampler:
    """A batch sampler without a state."""

    def __init__(self):
        self.n_drawn = 0

    def __iter__(self):
        for i in range(23):
            self.n_drawn += 1
            yield [i]

    def __len__(self):
        return 23


def ids(batches):
    """The ids of each batch."""
    return [
        batch["id"].tolist() if isinstance(batch, dict) else [record["id"] for record in batch] for batch in batches
    ]


def flat(batches):
    return [i for batch in ids(batches) for i in batch]


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "recstore-read-ahead"]


def all_ended():
    for thread in threads():
        thread.join(LIMIT_S)
    return threads() == []


@pytest.fixture(autouse=True)
def no_thread_left():
    assert all_ended()  # a dropped iterator of an earlier module ends its threads without waiting
    yield
    gc.collect()
    assert all_ended()


class Delegating:
    """A common wrapper: it delegates missing attributes to the dataset."""

    def __init__(self, dataset):
        self.inner = dataset

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return "wrapped", self.inner[index]["id"]

    def __getattr__(self, name):
        return getattr(self.inner, name)
