"""Types of LengthBatchSampler and GroupSampler. Lengths and groups are fields, sequences, arrays or tensors."""

from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from recstore.torch.epochs import EpochSampler

__all__ = ["GroupSampler", "LengthBatchSampler"]

# DataLoader's type asks for lists; the batches are arrays.
class _BucketSampler(EpochSampler[list[int]]):
    batch_size: None
    @property
    def sampler(self) -> Self: ...
    def __iter__(self) -> Iterator[NDArray[np.int64]]: ...  # type: ignore[override]
    def state_dict(self, batches: int | None = None) -> dict[str, Any]: ...

class LengthBatchSampler(_BucketSampler):
    max_tokens: int
    max_batch: int | None
    multiple_of: int
    def __init__(
        self,
        lengths: Any,
        max_tokens: SupportsIndex,
        max_batch: SupportsIndex | None = None,
        multiple_of: SupportsIndex = 1,
        buckets: SupportsIndex | None = None,
        *,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
    ) -> None: ...
    @property
    def buckets(self) -> list[tuple[int, int, int]]: ...

class GroupSampler(_BucketSampler):
    def __init__(
        self,
        groups: Any,
        batch_size: SupportsIndex,
        drop_last: bool = False,
        *,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        shuffle: bool = True,
    ) -> None: ...
