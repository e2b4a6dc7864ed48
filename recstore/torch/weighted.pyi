"""Types of WeightedSampler."""

from typing import Any, SupportsIndex

from recstore.torch.epochs import IndexSampler

__all__ = ["WeightedSampler"]

class WeightedSampler(IndexSampler):
    def __init__(
        self,
        weights: Any,
        num_samples: SupportsIndex | None = None,
        *,
        classes: Any = None,
        replacement: bool = True,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
    ) -> None: ...
    @property
    def replacement(self) -> bool: ...
