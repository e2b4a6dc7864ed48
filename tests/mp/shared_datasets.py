"""Importable datasets that several processes share by name, and the functions of these processes, without torch."""

import collections
import dataclasses
import functools
import gc
import os

import numpy as np
from mp.sharers import note, pass_gate

import recstore
from recstore import RecordDict, RecordView
from recstore.shm import process_memory

N = 2000
THRESHOLD = 2000  # the threshold, in bytes


@dataclasses.dataclass
class Sample:
    number: int
    text: str


def groups():
    return {i: [i] * (i % 50) for i in range(500)}


class Dataset:
    """A dataset that logs each call of its constructor."""

    def __init__(self, log, scale=1, gate=None):
        note(log, f"made {os.getpid()}")
        pass_gate(gate)
        self.scale = scale
        self.samples = [{"id": i * scale, "name": f"record {i}"} for i in range(N)]
        self.by_name = {sample["name"]: sample for sample in self.samples}
        self.groups = collections.defaultdict(list, groups())
        self.array = np.arange(50_000.0) * scale
        self.part = self.array[100:200]
        self.turned = np.asfortranarray(np.arange(2_000.0).reshape(40, 50))
        self.pair = (self.samples, "pair")
        self.objects = [Sample(i, f"sample {i}") for i in range(N)]
        self.inner = {"again": self.samples, "small": [1, 2, 3]}

    def __len__(self):
        return N

    def __getitem__(self, i):
        return self.samples[i]["id"], self.by_name[f"record {i}"]["id"], float(self.array[i])


class Unpicklable(Dataset):
    """Cannot be pickled."""

    def __init__(self, log, scale=1):
        super().__init__(log, scale)
        self.transform = lambda x: x


class Holding(Dataset):
    """Has its own store."""

    def __init__(self, log, scale=1):
        super().__init__(log, scale)
        self.own = recstore.RecordList(range(10))


class Failing:
    def __init__(self, log):
        note(log, "made")
        raise OSError("the disk is gone")


class Late:
    """Has a list with a late record that cannot be stored."""

    def __init__(self, log):
        note(log, "made")
        self.good = [{"i": i} for i in range(1000)]
        self.bad = [{"i": i} for i in range(1000)]
        self.bad[777] = {"i": complex}


def factory(kind, log, *arguments):
    return functools.partial(kind, log, *arguments)


def description(dataset):
    """Values that show whether the dataset is complete and shared."""
    kinds = [type(getattr(dataset, name)) for name in ("samples", "by_name", "groups", "objects")]
    return (
        kinds == [RecordView, RecordDict, RecordDict, RecordView],
        dataset.inner["again"] is dataset.samples and dataset.pair[0] is dataset.samples,
        (len(dataset), dataset[3], dataset[N - 1], dataset.scale, dataset.pair[1], dataset.inner["small"]),
        (dataset.groups[9999], dataset.groups[3], dataset.objects[5]),
        (np.shares_memory(dataset.array, dataset.part), float(dataset.part[1]), dataset.array.flags.writeable),
        (dataset.turned.flags.f_contiguous, float(dataset.turned[3, 4]), float(dataset.array.sum())),
    )


def expected(scale=1):
    return (
        True, True,
        (
            N, (3 * scale, 3 * scale, 3.0 * scale), ((N - 1) * scale, (N - 1) * scale, (N - 1.0) * scale), scale,
            "pair", [1, 2, 3]
        ), ([], groups()[3], Sample(5, "sample 5")), (True, 101.0 * scale, False),
        (True, 154.0, float((np.arange(50_000.0) * scale).sum()))
    )  # fmt: skip


def rank(connection, kind, name, log, options, *arguments):
    """Shares a dataset, sends a description of it, and keeps it until the test ends the process."""
    try:
        dataset = recstore.share_dataset(factory(kind, log, *arguments), THRESHOLD, shared=name, **options)
        connection.send(description(dataset))
        connection.recv()
    except Exception as error:
        connection.send((type(error).__name__, str(error)))


def send_description(connection, dataset):
    connection.send(description(dataset))


class Large:
    def __init__(self, log):
        note(log, "made")
        self.samples = [{"path": f"/data/{i:09}.jpg", "label": i % 1000, "box": [i, i + 1, 3.5]} for i in range(60_000)]


def hold_large(connection, name, log):
    """Sends the memory of its own that the dataset takes after all samples were read."""
    gc.freeze()  # a collection would copy the pages of all objects of the parent
    make = factory(Large, log)
    before = process_memory.usage().uss
    dataset = make() if name is None else recstore.share_dataset(make, shared=name)
    assert sum(1 for sample in dataset.samples if sample["box"]) == 60_000
    connection.send(process_memory.usage().uss - before)
    connection.recv()
