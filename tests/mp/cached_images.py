"""Datasets of rendered images for tests of CachedDataset. Workers import this module."""

import hashlib
import os
import pathlib
import random

import numpy as np
import torch.utils.data

SIZE = 48


def render(folder, n):
    """Writes n images as PPM files."""
    y, x = np.mgrid[:SIZE, :SIZE]
    for i in range(n):
        image = np.stack([x * (i % 7), y * (i % 11), (x + y) * i], 2).astype(np.uint8)
        pathlib.Path(folder, f"{i}.ppm").write_bytes(b"P6 %d %d 255\n" % (SIZE, SIZE) + image.tobytes())


class Images(torch.utils.data.Dataset):
    def __init__(self, folder, n):
        self.folder, self.n = folder, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        with open(os.path.join(self.folder, f"{i}.ppm"), "rb") as file:
            data = file.read()
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


def digest(batch):
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in batch)).hexdigest()
