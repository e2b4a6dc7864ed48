"""Datasets of rendered images for tests of CachedDataset, and the program of a rank. Workers import this module."""

import hashlib
import json
import os
import pathlib
import random
import signal
import sys
import time

import numpy as np
import torch.utils.data

from recstore.torch import BatchSampler, CachedDataset, ShuffleSampler

SIZE = 48
BATCH = 8


def render(folder, n):
    """Writes n images as PPM files."""
    y, x = np.mgrid[:SIZE, :SIZE]
    for i in range(n):
        image = np.stack([x * (i % 7), y * (i % 11), (x + y) * i], 2).astype(np.uint8)
        pathlib.Path(folder, f"{i}.ppm").write_bytes(b"P6 %d %d 255\n" % (SIZE, SIZE) + image.tobytes())


class Images(torch.utils.data.Dataset):
    def __init__(self, folder, n, delay_s=0.0):
        self.folder, self.n, self.delay_s = folder, n, delay_s

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        with open(os.path.join(self.folder, f"{i}.ppm"), "rb") as file:
            data = file.read()
        time.sleep(self.delay_s)
        return np.frombuffer(data, np.uint8, SIZE * SIZE * 3, len(data) - SIZE * SIZE * 3).reshape(
            SIZE, SIZE, 3
        ).copy(), i


class Then(torch.utils.data.Dataset):
    """Applies a function to the samples of a dataset, without a cache."""

    def __init__(self, dataset, then):
        self.dataset, self.then = dataset, then

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        return self.then(self.dataset[i])


def augmented(sample):
    """Changes an image in place, at random."""
    image, label = sample
    image += np.uint8(random.randrange(9) + np.random.randint(9))
    return image, label + torch.randint(1000, ())


def brightened(sample):
    """Changes an image in place."""
    image, label = sample
    image += np.uint8(label % 5 + 1)
    return image, label


# ---- A rank of a job whose workers are killed ----


def digest(batch):
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in batch)).hexdigest()


def order(n, rank, ranks, epoch):
    batches = BatchSampler(ShuffleSampler(n, seed=5, rank=rank, world_size=ranks), BATCH)
    batches.set_epoch(epoch)
    return [batch.tolist() for batch in batches]


def say(*values):
    print(json.dumps(values), flush=True)


def train(dataset, batches):
    """Returns the digests of the batches. If a worker is killed, a new loader continues."""
    out = []
    while len(out) < len(batches):
        try:
            for batch in torch.utils.data.DataLoader(dataset, batch_sampler=batches[len(out) :], num_workers=2):
                out.append(digest(batch))
        except Exception as error:
            if not is_from_killed_worker(error):
                raise
            say("killed")
    return out


def is_from_killed_worker(error):
    """Returns whether a loader missed its worker, or a batch was on its way from a killed worker."""
    return "DataLoader worker" in str(error) or isinstance(error, (ConnectionError, EOFError))


def ignore_ends_of_workers():
    """Resets SIGCHLD, for which the first loader of a process sets a handler. The handler raises an error wherever the
    process is when a worker ends, even in an `except` block. Without it, a loader misses a worker within 5 seconds."""
    list(torch.utils.data.DataLoader([0], num_workers=1))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def main(folder, name, n, rank, ranks):
    ignore_ends_of_workers()
    dataset = CachedDataset(Images(folder, n, 0.02), name, limit="64MB", then=brightened, fingerprint="images")
    say("ready")
    for epoch in range(2):
        sys.stdin.readline()
        say("done", train(dataset, order(n, rank, ranks, epoch)))
    sys.stdin.readline()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
