"""The demo's row with torch's DataLoader: one shuffled epoch with persistent workers."""

from __future__ import annotations

import os
import time
import warnings

import torch.utils.data

from recstore.cli.workers import memory_of, touch
from recstore.shm import process_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore.shm.process_memory import Identity


class Samples(torch.utils.data.Dataset[int]):
    """A Dataset as users write it: records and a transform that reads them."""

    def __init__(self, records: Any) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> int:
        record = self.records[index]
        touch(record)
        return 1


def collate(batch: list[int]) -> int:
    """Returns only the number of records: sending tensors would cost the same for any container."""
    return len(batch)


def loader_pass(records: Any, workers: int, segments: dict[Identity, int]) -> dict[str, Any]:
    """Runs one epoch; the result has the same keys as workers.full_pass."""
    # torch advises against more workers than cores; the demo compares containers at a given number of workers.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": True, "collate_fn": collate}
    loader = torch.utils.data.DataLoader(Samples(records), batch_size=256, shuffle=True, **options)
    begin = time.monotonic()
    batches = iter(loader)
    next(batches)
    result = {"first_s": time.monotonic() - begin}
    for _ in batches:
        pass
    result["pass_s"] = time.monotonic() - begin
    # torch has no public attribute for its worker processes; without the private one, take all descendants.
    crew = [process.pid for process in getattr(batches, "_workers", ())]
    result |= memory_of(crew or process_memory.family(os.getpid())[1:], segments)
    del batches, loader
    return result
