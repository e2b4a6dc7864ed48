"""A small GPT that trains from JSON lines in place or from token files, mixed and packed, for test_gpt_runs.

`gpt_runs.py FOLDER STEPS STORE RANK RANKS`: one rank of a run. The ranks meet in the new file STORE. It resumes from the
checkpoint in FOLDER, saves one after each step, and writes the loss of each step to a file of its own."""

import json
import os
import pathlib
import sys

import numpy
import torch
from torch import nn

import recstore
from recstore.torch import Field, Fields, Items, Loader, MixSampler, PackSampler, Steps

LENGTH, BATCH, VOCABULARY, END = 64, 4, 97, 0
SHARES = 0.7, 0.3


def make_files(folder):
    """Writes two sources in each format. Returns their documents."""
    rng = numpy.random.default_rng(0)
    starts, counts = rng.integers(1, VOCABULARY, 150), rng.integers(4, 90, 150)
    documents = [
        numpy.append((start + 3 * numpy.arange(n)) % (VOCABULARY - 1) + 1, END) for start, n in zip(starts, counts)
    ]
    for name, part in (("a", documents[:90]), ("b", documents[90:])):
        numpy.concatenate(part).astype(numpy.uint16).tofile(folder / f"{name}.bin")
        with open(folder / f"{name}.jsonl", "w") as file:
            for tokens in part:
                file.write(json.dumps({"tokens": tokens.tolist(), "n_tokens": len(tokens)}) + "\n")
    return documents


def data_of(form, folder):
    """The batches of rows, and a function from a rank and the number of ranks to their sampler."""
    if form == "jsonl":
        parts = [recstore.read_jsonl(folder / f"{name}.jsonl", in_place=True) for name in "ab"]
        lengths = [part.field("n_tokens") for part in parts]
    else:
        parts = [
            recstore.open_tokens(str(folder / f"{name}.bin"), dtype="uint16", end=END, dir=folder) for name in "ab"
        ]
        lengths = [part.lengths for part in parts]
    packed = [PackSampler(column, LENGTH, seed=seed) for seed, column in enumerate(lengths)]

    def sampler_of(rank=0, ranks=1):
        return MixSampler(list(zip(packed, SHARES)), seed=5, rank=rank, world_size=ranks)

    return Rows(Fields(parts[0] + parts[1], tokens=Field("packed", length=LENGTH))), sampler_of


class Rows:
    """Fields whose batches also say which parts of which documents they have."""

    def __init__(self, fields):
        self.fields = fields

    def __len__(self):
        return len(self.fields)

    def __getitem__(self, rows):
        batch = dict(self.fields[rows])
        batch["rows"] = [numpy.stack([row.documents, row.starts, row.counts], 1).tolist() for row in rows]
        return batch


class GPT(nn.Module):
    """Two layers, 64 wide. A token sees the tokens of its document before it."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, 64), nn.Embedding(128, 64)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(64, VOCABULARY)

    def loss(self, batch):
        tokens, documents = batch["tokens"], batch["tokens_documents"]
        seen = (documents[:, :, None] == documents[:, None, :]) & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        hidden = self.tokens(tokens) + self.positions(batch["tokens_positions"])
        for layer in self.layers:
            hidden = layer(hidden, src_mask=~seen.repeat_interleave(4, 0))
        labels = tokens[:, 1:].masked_fill((documents[:, 1:] != documents[:, :-1]) | (documents[:, 1:] < 0), -100)
        return nn.functional.cross_entropy(self.head(hidden[:, :-1]).flatten(0, 1), labels.flatten())


class Trainer:
    """The model and its optimizer, the same on each rank."""

    def __init__(self):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = GPT()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 3e-3)

    def step(self, batches, ranks, all_reduce=lambda gradient: None):
        """Trains on the batches of the ranks of this process. Returns the sum of their losses."""
        losses = [self.model.loss(batch) for batch in batches]
        self.optimizer.zero_grad()
        for loss in losses:
            loss.backward()
        for parameter in self.model.parameters():
            all_reduce(parameter.grad)
            parameter.grad /= ranks
        self.optimizer.step()
        return sum(loss.item() for loss in losses)

    def state_dict(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


# ---- The ways to feed it ----


class Loaders:
    """A Loader for each rank, in one process."""

    def __init__(self, form, folder, ranks, state=None):
        rows, sampler_of = data_of(form, folder)
        self.steps = [Steps(Loader(rows, BATCH, sampler=sampler_of(rank, ranks))) for rank in range(ranks)]
        for steps in self.steps if state else ():
            steps.load_state_dict(state)
        self.iterators = [iter(steps) for steps in self.steps]

    def __next__(self):
        return [next(iterator) for iterator in self.iterators]

    def state_dict(self):
        states = [steps.state_dict() for steps in self.steps]
        assert all(state == states[0] for state in states)
        return states[0]

    def close(self):
        for steps in self.steps:
            steps.loader.close()


class Grains:
    """A pipeline of Grain for each rank, in one process. The state is the number of rows that all ranks have read."""

    def __init__(self, form, folder, ranks, state=None):
        import grain

        rows, sampler_of = data_of(form, folder)
        self.first = state["rows"] if state else 0
        items = grain.MapDataset.source(Items(sampler_of(), epochs=3))[self.first :]
        self.iterators = [
            iter(items[rank::ranks].batch(BATCH, batch_fn=list).map(rows.__getitem__).to_iter_dataset())
            for rank in range(ranks)
        ]

    def __next__(self):
        return [next(iterator) for iterator in self.iterators]

    def state_dict(self):
        [batches] = {iterator.get_state()["next_index"] for iterator in self.iterators}
        return {"rows": self.first + batches * BATCH * len(self.iterators)}

    def close(self):
        self.iterators.clear()


# ---- One of several processes ----


def main(folder, steps, store, rank, ranks):
    meeting = torch.distributed.FileStore(store, ranks)
    torch.distributed.init_process_group("gloo", store=meeting, rank=rank, world_size=ranks)
    rows, sampler_of = data_of("jsonl", folder)
    trainer, checkpoint, first = Trainer(), folder / "checkpoint.pt", 0
    run = Steps(Loader(rows, BATCH, sampler=sampler_of(rank, ranks)))
    if checkpoint.exists():
        state = torch.load(checkpoint)
        trainer.load_state_dict(state["trainer"]), run.load_state_dict(state["steps"])
        first = state["number"]
    torch.distributed.barrier()  # all ranks have read the checkpoint before it is replaced
    for number, batch in zip(range(first, steps), run):
        loss = torch.tensor(trainer.step([batch], ranks, torch.distributed.all_reduce))
        torch.distributed.all_reduce(loss)
        with open(folder / f"seen{rank}.jsonl", "a") as file:
            file.write(json.dumps([number, loss.item(), batch["rows"]]) + "\n")
        torch.distributed.barrier()  # a step that a checkpoint counts is written by all ranks
        if rank == 0:
            state = {"trainer": trainer.state_dict(), "steps": run.state_dict(), "number": number + 1}
            torch.save(state, folder / "new.pt")
            os.replace(folder / "new.pt", checkpoint)
        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
