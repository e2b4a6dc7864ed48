"""Importable transforms and datasets for DataLoader workers."""

import os
import signal

try:
    from torch.utils.data import ConcatDataset, StackDataset, Subset, random_split
except ImportError:  # the tests skip
    KINDS = []
else:

    class Delegating:
        """A wrapper that forwards unknown attributes."""

        def __init__(self, dataset):
            self.inner = dataset

        def __len__(self):
            return len(self.inner)

        def __getitem__(self, index):
            return "wrapped", *self.inner[index]

        def __getattr__(self, name):
            if name == "inner":
                raise AttributeError(name)  # during unpickling
            return getattr(self.inner, name)

    def subset(dataset):
        return Subset(dataset, range(100, 0, -3))

    def part(dataset):
        return random_split(dataset, [60, 41])[1]

    def concatenated(dataset):
        return ConcatDataset([dataset, Delegating(dataset)])

    def stacked(dataset):
        return StackDataset(a=dataset, b=Delegating(dataset))

    def subset_of_delegating(dataset):
        return Subset(Delegating(dataset), [4, 2])

    def all_of(dataset):
        whole = Subset(dataset, range(100, -1, -1))
        return StackDataset(whole, Subset(concatenated(dataset), range(50, 151)), Delegating(dataset))

    KINDS = [Delegating, subset, part, concatenated, stacked, subset_of_delegating]


def pair(record):
    return record["id"], record["name"]


def fail_at_nine(record):
    return -(record["id"] - 9) if record["id"] != 9 else 1 / 0


def kill_at_forty(record):
    if record["id"] == 40:
        os.kill(os.getpid(), signal.SIGKILL)
    return record
