"""The suite `torch_batches`: batches of tensors through a DataLoader, against torch+pickle with a careful collate
function.

The tasks are four fields of COCO-like annotations, their polygons as jagged tensors, padded rows of tokens, and whole
records as dicts. Times are per sample; processor time includes the workers. The loaders alternate; ratios are medians
of the rounds. Workers persist and the first epoch is not timed, so their start and first reads do not count.
"""

import random
import statistics
import time

import data
import measures
import rivals

BATCH = 256
WORKERS = 2
FOUR = ("image_id", "category_id", "bbox", "area")


# ---- Collate functions of a careful user ----


def collate_four(records):
    import torch

    return {name: torch.tensor([record[name] for record in records]) for name in FOUR}


def collate_polygons(records):
    import torch

    lists = [record["segmentation"] for record in records]
    inner = torch.tensor([0, *(len(polygon) for polygons in lists for polygon in polygons)]).cumsum(0)
    values = torch.tensor([number for polygons in lists for polygon in polygons for number in polygon])
    outer = torch.tensor([0, *map(len, lists)]).cumsum(0)
    return {
        "image_id": torch.tensor([record["image_id"] for record in records]),
        "segmentation": torch.nested.nested_tensor_from_jagged(values, inner),
        "segmentation_offsets": outer,
    }


def collate_tokens(records):
    import torch

    rows = [torch.tensor(record["input_ids"]) for record in records]
    lengths = torch.tensor([len(row) for row in rows])
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"input_ids": padded, "input_ids_lengths": lengths}


# ---- The tasks ----


def _four(quick):
    records = list(data.coco(quick, 20_000 if quick else 200_000).fresh())
    return records, {}, FOUR, collate_four, BATCH


def _polygons(quick):
    records = [record for record in data.coco(quick, 20_000 if quick else 100_000).fresh() if not record["iscrowd"]]
    return records, {"segmentation": "jagged"}, ("image_id",), collate_polygons, BATCH


def _tokens(quick):
    chance = random.Random(1)
    rows = (
        [chance.randrange(50_000) for _ in range(chance.randrange(50, 500))] for _ in range(3_000 if quick else 20_000)
    )
    return [{"input_ids": row} for row in rows], {"input_ids": "padded"}, (), collate_tokens, 64


TASKS = {"four fields": _four, "jagged polygons": _polygons, "padded tokens": _tokens}


class Items:
    """A Dataset over the records of a rival."""

    def __init__(self, container):
        self.container = container

    def __len__(self):
        return len(self.container)

    def __getitem__(self, index):
        return self.container[index]


def loaders(records, forms, names, collate, size):
    """`({name: loader}, store)`. All loaders draw random batches."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    import recstore
    from recstore.torch import BatchSampler as NativeBatches
    from recstore.torch import Fields, Loader, RecordDataset, ShuffleSampler

    def order(n):
        return RandomSampler(range(n), generator=torch.Generator().manual_seed(measures.SEED))

    store = recstore.RecordList(records)
    f = Fields(store, *names, **forms)
    n, fields = len(records), dict.fromkeys((*names, *forms), 1)
    worker_options = {"num_workers": WORKERS, "persistent_workers": True}
    batched = {**worker_options, "batch_size": size}
    field_records = [{name: record[name] for name in fields} for record in records]
    loaders_by_name = {
        "torch+pickle": DataLoader(
            Items(rivals.TorchPickle.build(records)), sampler=order(n), collate_fn=collate, **batched
        ),
        "torch+pickle of these fields": DataLoader(
            Items(rivals.TorchPickle.build(field_records)), sampler=order(n), collate_fn=collate, **batched
        ),
        "Fields, batches of indices": DataLoader(
            f, sampler=BatchSampler(order(n), size, False), batch_size=None, **worker_options
        ),
        "Fields, collate_fn": DataLoader(f, sampler=order(n), collate_fn=f.collate, **batched),
        "Fields, BatchSampler of recstore": DataLoader(
            f, sampler=NativeBatches(ShuffleSampler(n, seed=1), size), batch_size=None, **worker_options
        ),
        "Loader, one thread": Loader(f, size, sampler=order(n)),
        "Loader, sampler of recstore": Loader(f, size, sampler=ShuffleSampler(n, seed=1)),
        "RecordDataset": DataLoader(RecordDataset(store), sampler=order(n), collate_fn=collate, **batched),
    }
    return loaders_by_name, store


def dicts_loaders(records, size):
    """Like `loaders`, for records as dicts."""
    import torch
    from torch.utils.data import DataLoader, RandomSampler

    import recstore
    from recstore.torch import Loader, RecordDataset

    store = recstore.RecordList(records)

    def order():
        return RandomSampler(range(len(records)), generator=torch.Generator().manual_seed(measures.SEED))

    def loader(dataset, workers):
        worker_options = {"num_workers": workers, "persistent_workers": workers > 0}
        return DataLoader(dataset, size, sampler=order(), collate_fn=_same, **worker_options)

    pickled = Items(rivals.TorchPickle.build(records))
    return {
        "torch+pickle": loader(pickled, WORKERS),
        "RecordDataset": loader(RecordDataset(store), WORKERS),
        "torch+pickle, no workers": loader(pickled, 0),
        "RecordDataset, no workers": loader(RecordDataset(store), 0),
        "Loader of records, one thread": Loader(store, size, sampler=order()),
    }, store


def _same(records):
    return records


# ---- Measuring ----


def check(loaders, n):
    """Raises WrongAnswer unless the loaders agree: in three batches or, for recstore's samplers, in their length."""
    # The samplers of recstore draw a different order, so only their number of samples is compared.
    iterators = [(name, iter(loader)) for name, loader in loaders.items() if "of recstore" not in name]
    for number in range(3):
        first_name, first = iterators[0]
        expected = next(first)
        for name, other in iterators[1:]:
            if not _equal(expected, next(other)):
                raise measures.WrongAnswer(f"batch {number} of {name!r} differs from batch {number} of {first_name!r}")
    for _, iterator in iterators:
        for _ in iterator:
            pass
    for name, loader in loaders.items():
        if "of recstore" in name and sum(map(_size, loader)) != n:
            raise measures.WrongAnswer(f"the batches of {name!r} do not have {n} samples")


def _size(batch):
    return len(next(iter(batch.values())))


def _equal(batch, other):
    import torch

    if isinstance(batch, dict):
        return set(batch) == set(other) and all(_equal(batch[name], other[name]) for name in batch)
    if isinstance(batch, list):
        return len(batch) == len(other) and all(map(_equal, batch, other))
    if not isinstance(batch, torch.Tensor):
        return batch == other
    if batch.is_nested:
        return _equal(batch.values(), other.values()) and _equal(batch.offsets(), other.offsets())
    return batch.dtype == other.dtype and torch.equal(batch, other)


def processor_ns(process):
    """The processor time of another process, by the clock of clock_getcpuclockid(3) on Linux."""
    return time.clock_gettime_ns((~process << 3) | 2)


def epoch(loader):
    """`(processor ns, wall ns)` of an epoch; processor time includes the workers."""
    iterator = iter(loader)
    workers = [worker.pid for worker in getattr(iterator, "_workers", ())]
    begin = time.process_time_ns() + sum(map(processor_ns, workers)), time.perf_counter_ns()
    for _ in iterator:
        pass
    end = time.process_time_ns() + sum(map(processor_ns, workers)), time.perf_counter_ns()
    return end[0] - begin[0], end[1] - begin[1]


def measure(quick, log):
    """Rows of processor and wall ns per sample. Raises ImportError without torch, data.Missing without annotations."""
    import torch

    torch.set_num_threads(1)
    rows = []
    for task, make in TASKS.items():
        log(f"torch_batches: making {task}")
        records, *how, size = make(quick)
        rows += _timed(task, *loaders(records, *how, size), len(records), quick, log)
        if task == "four fields":
            rows += _timed("records as dicts", *dicts_loaders(records, size), len(records), quick, log)
    return rows


def _timed(task, loaders, store, n, quick, log):
    timings = {name: [] for name in loaders}
    try:
        check(loaders, n)
        for _ in range(2 if quick else 5):
            for name, loader in loaders.items():
                log(f"torch_batches: {task}, {name}")
                timings[name].append(epoch(loader))
    finally:
        loaders.clear()  # ends the workers
        store.close()
    base = timings["torch+pickle"]
    return [
        {
            "task": task,
            "loader": name,
            "cpu_ns": min(cpu for cpu, _ in times) / n,
            "wall_ns": min(wall for _, wall in times) / n,
            "cpu_of_torch_pickle": statistics.median(cpu / other for (cpu, _), (other, _) in zip(times, base)),
            "wall_of_torch_pickle": statistics.median(wall / other for (_, wall), (_, other) in zip(times, base)),
        }
        for name, times in timings.items()
    ]
