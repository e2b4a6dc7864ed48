"""The ranks of test_samplers_real: `sampler_programs.py PROGRAM FOLDER ...`.

Each rank writes a JSON file: for each case, the batches that it trains on in each epoch, or the message of an expected
error."""

import itertools
import json
import os
import pathlib
import sys

import torch
from torch.utils.data import DataLoader, Dataset

from recstore.torch import BatchSampler, LengthBatchSampler, ShardSampler, ShuffleSampler

N, BATCH, EPOCHS = 103, 4, 2
SHARDS = [9, 9, 30, 41, 60, 77, 90, N]


class Indices(Dataset):
    """A dataset that returns an index, or an array of indices, as a tensor."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return torch.as_tensor(index)


def lengths():
    return [1 + i * 7 % 30 for i in range(N)]


def loader_of(form, workers=0):
    """Returns a sampler and a DataLoader that gets it in the way that `form` names."""
    if form.startswith("shards"):
        form, sampler = form.removeprefix("shards as "), ShardSampler(N, boundaries=SHARDS, window=2, seed=3)
    else:
        sampler = ShuffleSampler(N, seed=3)
    if form == "sampler":
        return sampler, DataLoader(Indices(), batch_size=BATCH, sampler=sampler, num_workers=workers)
    if form == "batches":
        batches = BatchSampler(sampler, BATCH)
        return batches, DataLoader(Indices(), sampler=batches, batch_size=None, num_workers=workers)
    if form == "batch_sampler":
        batches = BatchSampler(sampler, BATCH)
        return batches, DataLoader(Indices(), batch_sampler=batches, num_workers=workers)
    batches = LengthBatchSampler(lengths(), 64, seed=3)
    if form == "lengths":
        return batches, DataLoader(Indices(), batch_sampler=batches, num_workers=workers)
    return batches, DataLoader(Indices(), sampler=batches, batch_size=None, num_workers=workers)


# The forms that the ranks of a program read in turn.
OF_SHARDS = "shards as sampler", "shards as batches"
FORMS = {
    "lightning": ("sampler", "batches", "lengths as sampler", *OF_SHARDS),
    "accelerate": ("sampler", "batches", "batch_sampler", "lengths", *OF_SHARDS),
    "ranks": ("sampler", "batches", "lengths as sampler", *OF_SHARDS),
}
WORKERS = {"batches": 2, "shards as batches": 2}  # of a form; others have none


def note(folder, rank, seen):
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(seen))


def tried(read, error):
    """The result of a function, or the message of its error."""
    try:
        return read()
    except error as raised:
        return str(raised)


def lightning(folder):
    """Trains in two ranks, which Lightning starts."""
    sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
    import vision

    lightning, seen, options = vision.lightning(), {}, {"devices": 2, "strategy": "ddp", "max_epochs": EPOCHS}
    for form in FORMS["lightning"]:
        _, loader = loader_of(form, WORKERS.get(form, 0))  # before the Trainer, as many scripts do
        trainer = vision.trainer_of(lightning, folder, enable_checkpointing=False, **options)
        seen[form] = {}
        trainer.fit(vision.module_of(lightning, seen[form]), loader)
    note(folder, trainer.global_rank, seen)


def accelerate(folder):
    from accelerate import Accelerator

    # Before the Accelerator, as many scripts do.
    made = {form: loader_of(form, WORKERS.get(form, 0))[1] for form in FORMS["accelerate"]}
    accelerator, seen = Accelerator(cpu=True), {}
    for form, loader in made.items():
        loader = accelerator.prepare(loader)
        seen[form] = [[batch.tolist() for batch in loader] for _ in range(EPOCHS)]
        assert all(len(batches) == len(loader) for batches in seen[form])
    # Runs that resume in the second epoch. The loop must set the epoch.
    for name, form in ("resumed", "sampler"), ("resumed batches", "batches"), ("without the epoch", "sampler"):
        sampler, loader = loader_of(form)
        sampler.load_state_dict({**sampler.state_dict(), "epoch": 1, "consumed": 40})
        loader = accelerator.prepare(loader)
        if name != "without the epoch":
            loader.set_epoch(1)
        seen[name] = tried(lambda: [[batch.tolist() for batch in loader] for _ in range(2)], ValueError)
    # A loader that accelerate did not prepare, and a sampler that is already for one rank.
    _, loader = loader_of("sampler")
    seen["unprepared"] = tried(lambda: next(iter(loader)).tolist(), RuntimeError)
    sampler = ShuffleSampler(N, rank=accelerator.process_index, world_size=accelerator.num_processes)
    loader = accelerator.prepare(DataLoader(Indices(), batch_size=BATCH, sampler=sampler))
    seen["twice"] = tried(lambda: next(iter(loader)).tolist(), ValueError)
    note(folder, accelerator.process_index, seen)


def ranks(folder, steps="-1", states="{}"):
    """A rank of torchrun. It resumes from `states`. After step `steps` of the second epoch, it writes its states and
    stops; -1 means never."""
    torch.distributed.init_process_group("gloo")
    seen, states, saved = {}, json.loads(states), {}
    for form in FORMS["ranks"]:
        sampler, loader = loader_of(form, 2)
        if states:
            sampler.load_state_dict(states[form])
        seen[form] = []
        for epoch in range(states[form]["epoch"] if states else 0, EPOCHS):
            sampler.set_epoch(epoch)
            last = int(steps) if epoch == EPOCHS - 1 and int(steps) > 0 else None
            seen[form].append([batch.tolist() for batch in itertools.islice(loader, last)])
            if last:
                of_samples = form in ("sampler", "shards as sampler")
                taken = {"samples": sum(map(len, seen[form][-1]))} if of_samples else {"batches": last}
                saved[form] = sampler.state_dict(**taken)
    rank = torch.distributed.get_rank()
    note(folder, rank, seen)
    pathlib.Path(folder, f"state{rank}.json").write_text(json.dumps(saved))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    programs = (lightning, accelerate, ranks)
    {program.__name__: program for program in programs}[sys.argv[1]](*sys.argv[2:])
