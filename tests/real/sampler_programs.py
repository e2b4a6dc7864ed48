"""The ranks of test_samplers_real and test_shard_sampler_real: `sampler_programs.py PROGRAM FOLDER ...`.

Each rank writes a JSON file: the batches that it trains on in each epoch, or the message of an expected error."""

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


def note(folder, rank, seen):
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(seen))


def lightning(folder, form, workers="0"):
    """Trains in two ranks, which Lightning starts."""
    sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
    import vision

    vision.prepare()
    from lightning.pytorch import LightningModule, Trainer

    seen = [[] for _ in range(EPOCHS)]

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, number):
            seen[self.current_epoch].append(batch.tolist())
            return self.layer(batch[:, None].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.0)

    _, loader = loader_of(form, int(workers))
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(Module(), loader)
    note(folder, trainer.global_rank, seen)


def accelerate(folder, form, workers="0"):
    from accelerate import Accelerator

    sampler, loader = loader_of(form, int(workers))  # before the Accelerator, as many scripts do
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(loader)
    steps, seen = len(loader), []
    for _ in range(EPOCHS):
        seen.append([batch.tolist() for batch in loader])
        assert len(seen[-1]) == steps
    note(folder, accelerator.process_index, seen)


def resume(folder, form, forget_epoch=""):
    """A run that resumes in the second epoch. The loop must set the epoch."""
    from accelerate import Accelerator

    sampler, loader = loader_of(form)
    sampler.load_state_dict({**sampler.state_dict(), "epoch": 1, "consumed": 40})
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(loader)
    if not forget_epoch:
        loader.set_epoch(1)
    try:
        seen = [[batch.tolist() for batch in loader] for _ in range(2)]
    except ValueError as error:
        seen = str(error)
    note(folder, accelerator.process_index, seen)


def unprepared(folder, form="sampler"):
    """A loader that accelerate did not prepare, which must raise instead of repeating records."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    _, loader = loader_of(form)
    try:
        next(iter(loader))
        message = "nothing"
    except RuntimeError as error:
        message = str(error)
    note(folder, accelerator.process_index, message)


def twice(folder, form="sampler"):
    """A sampler that is already for one rank, in a loader that accelerate prepares."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    sampler = ShuffleSampler(N, rank=accelerator.process_index, world_size=accelerator.num_processes)
    loader = accelerator.prepare(DataLoader(Indices(), batch_size=BATCH, sampler=sampler))
    try:
        next(iter(loader))
        message = "nothing"
    except ValueError as error:
        message = str(error)
    note(folder, accelerator.process_index, message)


def ranks(folder, form, steps="-1", state=""):
    """A rank of torchrun. It resumes from `state`, if given. After step `steps` of the second epoch, it writes its
    state and stops; -1 means never."""
    torch.distributed.init_process_group("gloo")
    sampler, loader = loader_of(form, 2)
    seen, first = [], 0
    if state:
        state = json.loads(state)
        sampler.load_state_dict(state)
        first = state["epoch"]
    for epoch in range(first, EPOCHS):
        sampler.set_epoch(epoch)
        seen.append([])
        for number, batch in enumerate(loader):
            seen[-1].append(batch.tolist())
            if epoch == EPOCHS - 1 and number + 1 == int(steps):
                of_samples = form in ("sampler", "shards as sampler")
                taken = {"samples": sum(map(len, seen[-1]))} if of_samples else {"batches": number + 1}
                pathlib.Path(folder, f"state{torch.distributed.get_rank()}.json").write_text(
                    json.dumps(sampler.state_dict(**taken))
                )
                break
    note(folder, torch.distributed.get_rank(), seen)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    programs = (lightning, accelerate, resume, unprepared, twice, ranks)
    {program.__name__: program for program in programs}[sys.argv[1]](*sys.argv[2:])
