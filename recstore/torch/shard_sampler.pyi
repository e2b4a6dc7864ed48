"""Types of ShardSampler. `x` is a set of shards or a dataset over one; with `boundaries` anything with a length."""

from collections.abc import Sized
from typing import Any, SupportsIndex

from recstore.torch.epochs import IndexSampler

__all__ = ["ShardSampler"]

class ShardSampler(IndexSampler):
    def __init__(
        self,
        x: SupportsIndex | Sized,
        *,
        boundaries: Any = None,
        window: SupportsIndex = 4,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        nodes: SupportsIndex | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
    ) -> None: ...
    @property
    def window(self) -> int: ...
    @property
    def nodes(self) -> int: ...
