"""Importable stores and fields for the workers of tests/mp/test_torch_fields.py."""

import os
import signal

import torch
import torch.multiprocessing

from recstore import RecordList
from recstore.torch import Field, Fields


def record(i):
    out = {
        "id": i, "box": [i, i + 0.5, 1, 2], "name": f"{i}.jpg", "tokens": list(range(i % 13)),
        "polygons": [[float(i)] * (2 * k + 2) for k in range(i % 3)]
    }  # fmt: skip
    if i % 2:
        out["score"] = i / 3
    return out


def build(n):
    return RecordList(record(i) for i in range(n))


def fields(x, **more):
    return Fields(
        x, "id", "box", "name", tokens="jagged", padded=Field("padded", "tokens", pad=-1),
        packed=Field("packed", "tokens", length=32), polygons="ragged", score=Field(missing="mask"), **more
    )  # fmt: skip


def large_fields(x, **more):
    """Fields whose batches of 100 records are too large for a message."""
    return Fields(x, "id", tokens=Field("padded", length=2000), **more)


def shifted(batch):
    """Replaces an entry, adds entries, and reads a jagged tensor."""
    batch["box"] = batch["box"] + 1
    batch["sum"] = batch["tokens"].values().sum()
    batch["row"] = torch.arange(1000)[3:5]
    return batch


class Strategy:
    """A worker_init_fn that sets the sharing strategy."""

    def __init__(self, strategy):
        self.strategy = strategy

    def __call__(self, worker):
        torch.multiprocessing.set_sharing_strategy(self.strategy)


class Killed:
    """A transform that kills a worker, and returns the batch in the parent."""

    def __init__(self, parent):
        self.parent = parent

    def __call__(self, batch):
        if os.getpid() != self.parent:
            assert batch["tokens"].is_shared()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch
