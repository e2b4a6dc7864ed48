"""Types of the bases of the samplers. The rest of the module is internal."""

from collections.abc import Iterator
from typing import Any, TypeVar

from torch.utils.data.distributed import DistributedSampler

_T_co = TypeVar("_T_co", covariant=True)

class EpochSampler(DistributedSampler[_T_co]):
    # Properties, which a checker does not let replace the attributes of DistributedSampler.
    rank: int
    num_replicas: int
    epoch: int
    seed: int
    shuffle: bool
    drop_last: bool
    num_samples: int
    total_size: int
    @property
    def world_size(self) -> int: ...
    def __len__(self) -> int: ...
    def set_epoch(self, epoch: int) -> None: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...

class IndexSampler(EpochSampler[int]):
    def __iter__(self) -> Iterator[int]: ...
    def state_dict(self, samples: int | None = None) -> dict[str, Any]: ...
