"""Trains a small language model on rows of 50 to 500 token ids.

A batch has rows of similar lengths, and at most MAX_TOKENS tokens, padding included. `tokens_before.py` keeps the
rows in a list, `tokens.py` in a store of recstore. `--help` lists the options.
"""

import argparse
import random
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

VOCABULARY = 512
MAX_TOKENS = 4096  # in a batch, padding included
PADDING = 0


def make_rows(count):
    """Yield a record for each document: its token ids, which follow a rule with some noise, and their number."""
    rng = random.Random(0)
    for number in range(count):
        token, ids = rng.randrange(1, VOCABULARY), []
        for _ in range(rng.randint(50, 500)):
            token = 1 + (token * 5 + 7) % (VOCABULARY - 1) if rng.random() < 0.9 else rng.randrange(1, VOCABULARY)
            ids.append(token)
        yield {"document": f"shard-{number % 16:02}/{number}", "n_tokens": len(ids), "input_ids": ids}


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor(self.rows[index]["input_ids"])


def collate(samples):
    return {
        "input_ids": pad_sequence(samples, batch_first=True, padding_value=PADDING),
        "input_ids_lengths": torch.tensor([len(ids) for ids in samples]),
    }


class LengthBatches(Sampler):
    """Lists of indices of rows of similar lengths. Each epoch has different lists in a different order."""

    def __init__(self, lengths, max_tokens):
        self.lengths = lengths
        self.max_tokens = max_tokens
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        rng = random.Random(self.epoch)
        order = sorted(range(len(self.lengths)), key=lambda index: (self.lengths[index] // 16, rng.random()))
        batches, batch, longest = [], [], 0
        for index in order:
            longest = max(longest, self.lengths[index])
            if batch and longest * (len(batch) + 1) > self.max_tokens:
                batches.append(batch)
                batch, longest = [], self.lengths[index]
            batch.append(index)
        batches.append(batch)
        rng.shuffle(batches)
        return iter(batches)


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 64, padding_idx=PADDING)
        self.rnn = nn.GRU(64, 64, batch_first=True)
        self.head = nn.Linear(64, VOCABULARY)

    def loss(self, ids):
        hidden, _ = self.rnn(self.embedding(ids[:, :-1]))
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PADDING)


def make_loader(rows, workers=0, start_method=None):
    rows = list(make_rows(rows))
    sampler = LengthBatches([row["n_tokens"] for row in rows], max_tokens=MAX_TOKENS)
    loader = DataLoader(
        Rows(rows),
        batch_sampler=sampler,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context=start_method,
        collate_fn=collate,
    )
    return loader, sampler


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--start-method", choices=["fork", "spawn", "forkserver"])
    options = parser.parse_args()

    torch.set_num_threads(1)  # the model is small: more threads would be slower
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader, sampler = make_loader(options.rows, options.workers, options.start_method)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        began, total, batches, tokens, cells = time.perf_counter(), 0.0, 0, 0, 0
        for batch in loader:
            loss = model.loss(batch["input_ids"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, batches = total + loss.item(), batches + 1
            tokens, cells = tokens + int(batch["input_ids_lengths"].sum()), cells + batch["input_ids"].numel()
        padding, seconds = 1 - tokens / cells, time.perf_counter() - began
        print(f"epoch {epoch}: loss {total / batches:.3f}, {padding:.1%} padding, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
