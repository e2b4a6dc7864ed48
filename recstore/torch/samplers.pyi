"""Types of ShuffleSampler and BatchSampler."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any, SupportsIndex

import numpy as np
import torch.utils.data
from numpy.typing import NDArray

from recstore.torch.epochs import IndexSampler

__all__ = ["BatchSampler", "ShuffleSampler"]

class ShuffleSampler(IndexSampler):
    def __init__(
        self,
        n: SupportsIndex | Sized,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
    ) -> None: ...

# The class in PyTorch gives lists; that its batches are arrays is what this one is for.
class BatchSampler(torch.utils.data.BatchSampler):
    def __init__(self, sampler: Iterable[int], batch_size: SupportsIndex, drop_last: bool = False) -> None: ...
    def __iter__(self) -> Iterator[NDArray[np.int64]]: ...  # type: ignore[override]
    def __len__(self) -> int: ...
    def set_epoch(self, epoch: int) -> None: ...
    def state_dict(self, batches: int | None = None) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
