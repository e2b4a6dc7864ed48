"""What the workers of tests/mp/test_torch_fields.py read: importable by name, as spawn and forkserver need it."""

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
    """Batches of 100 records that are too large for a message."""
    return Fields(x, "id", tokens=Field("padded", length=2000), **more)


def shifted(batch):
    """Replaces an entry, adds some, and looks at a jagged tensor."""
    batch["box"] = batch["box"] + 1
    batch["sum"] = batch["tokens"].values().sum()
    batch["row"] = torch.arange(1000)[3:5]
    return batch


class Strategy:
    """The worker_init_fn that sets how tensors are shared."""

    def __init__(self, strategy):
        self.strategy = strategy

    def __call__(self, worker):
        torch.multiprocessing.set_sharing_strategy(self.strategy)


class Killed:
    """A transform that kills the worker; in the process that made it, it gives the batch."""

    def __init__(self, parent):
        self.parent = parent

    def __call__(self, batch):
        if os.getpid() != self.parent:
            assert batch["tokens"].is_shared()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch
