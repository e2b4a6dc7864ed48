"""The public names of this package, imported on first access."""

from recstore.torch.batches import Batch
from recstore.torch.bottleneck import Headroom, headroom
from recstore.torch.buckets import GroupSampler, LengthBatchSampler
from recstore.torch.cached import CachedDataset
from recstore.torch.datasets import RecordDataset
from recstore.torch.fields import Fields
from recstore.torch.forms import Field, Ragged
from recstore.torch.items import Items
from recstore.torch.loader import Loader
from recstore.torch.mixing import MixSampler
from recstore.torch.packed_rows import Row
from recstore.torch.packing import PackSampler
from recstore.torch.samplers import BatchSampler, ShuffleSampler
from recstore.torch.shard_sampler import ShardSampler
from recstore.torch.steps import Steps
from recstore.torch.weighted import WeightedSampler

__all__ = [
    "Batch",
    "BatchSampler",
    "CachedDataset",
    "Field",
    "Fields",
    "GroupSampler",
    "Headroom",
    "Items",
    "LengthBatchSampler",
    "Loader",
    "MixSampler",
    "PackSampler",
    "Ragged",
    "RecordDataset",
    "Row",
    "ShardSampler",
    "ShuffleSampler",
    "Steps",
    "WeightedSampler",
    "headroom",
]
