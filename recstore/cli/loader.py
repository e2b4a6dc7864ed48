"""The demo's row with a real torch DataLoader: one epoch, shuffled, persistent workers."""

from __future__ import annotations

import os
import time
import warnings

import torch.utils.data

from recstore.cli.workers import touch
from recstore.shm import process_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from recstore.shm.process_memory import Identity


class Samples(torch.utils.data.Dataset):  # type: ignore[misc]
    """A Dataset as users write it, with records and a transform that reads them."""

    def __init__(self, records: Any) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> int:
        record = self.records[index]
        touch(record)
        return 1


def collate(batch: list[int]) -> int:
    """Sends back only the number of records: tensors would cost the same for any container."""
    return len(batch)


def loader_pass(
    records: Any, workers: int, segments: dict[Identity, int], progress: Callable[[int], None]
) -> dict[str, Any]:
    """One epoch; the same keys as workers.full_pass."""
    # On fewer cores than workers torch advises fewer workers; the demo compares containers at a given number.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    loader = torch.utils.data.DataLoader(
        Samples(records),
        batch_size=256,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
        collate_fn=collate,
    )
    begin = time.monotonic()
    first = None
    seen = reported = 0
    batches = iter(loader)
    for size in batches:
        if first is None:
            first = time.monotonic() - begin
        seen += size
        if seen - reported >= len(records) // 50:
            progress(seen - reported)
            reported = seen
    # The workers' processes are no public attribute; all that live below this process are close enough elsewhere.
    crew = [process.pid for process in getattr(batches, "_workers", ())]
    pids = process_memory.family(os.getpid())
    readings = [process_memory.usage(pid) for pid in crew or pids[1:]]
    result = {
        "first_s": first,
        "pass_s": time.monotonic() - begin,
        "uss": [None if one is None else one.uss for one in readings],
        "total": process_memory.total(pids, segments),
        "processes": len(pids),
    }
    del batches, loader
    return result
