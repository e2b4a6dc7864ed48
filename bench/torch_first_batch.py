"""The suite `first_batch`: the time until a DataLoader with spawned workers returns its first batch.

Each container runs in a fresh process (memory_jobs.py starts it). The job makes the container, then measures the time
from `iter` to the first batch. `start` is a container that holds one record, so it shows the time to start the workers
and import torch in them. recstore.torch.Loader does not start a process.
"""

import gc
import resource
import time

import data

CONTAINERS = ("start", "list", "torch+pickle", "recstore", "recstore Loader")
BATCH = 256


def records_of(batch):
    """A collate function that leaves the batch a list of records."""
    return batch


class Start:
    """A container that returns a copy of one record at each read."""

    def __init__(self, dataset):
        self.length = len(dataset)
        self.record = dataset.pool(1)[0]

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return dict(self.record)


def build(container, dataset):
    if container == "start":
        return Start(dataset)
    if container == "list":
        return list(dataset.fresh())
    if container == "torch+pickle":
        from recstore.cli.bench_rivals import TorchPickle

        return TorchPickle.build(list(dataset.fresh()))
    from recstore import RecordList
    from recstore.torch import RecordDataset

    return RecordDataset(RecordList(dataset.fresh()))


def loader(container, built, workers):
    if container == "recstore Loader":
        from recstore.torch import Loader

        return Loader(built, BATCH)
    from torch.utils.data import DataLoader

    return DataLoader(built, BATCH, num_workers=workers, multiprocessing_context="spawn", collate_fn=records_of)


def job(container, workers, quick):
    """Seconds to the first batch, and processor time: of this process until then, of the workers until they end."""
    dataset = data.coco(quick)
    built = build(container, dataset)
    gc.collect()
    batches = loader(container, built, workers)
    before = _processor_seconds(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    iterator = iter(batches)
    first = next(iterator)
    seconds = time.perf_counter() - begin
    assert len(first) == BATCH
    parent_seconds = _processor_seconds(resource.RUSAGE_SELF) - before
    del iterator
    return {
        "container": container,
        "records": len(built),
        "first_batch_s": seconds,
        "parent_cpu_s": parent_seconds,
        "workers_cpu_s": _processor_seconds(resource.RUSAGE_CHILDREN),
    }


def _processor_seconds(whose):
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def compare(rows):
    """Adds the speed-up over the list and the time above `start` to each row."""
    by_name = {row["container"]: row["first_batch_s"] for row in rows}
    for row in rows:
        row["times_sooner_than_list"] = by_name["list"] / row["first_batch_s"]
        row["beyond_start_s"] = row["first_batch_s"] - by_name["start"]
    return rows
