"""The public names of this room; each class is in the stub beside its module."""

from recstore.torch.buckets import GroupSampler, LengthBatchSampler
from recstore.torch.datasets import RecordDataset
from recstore.torch.loader import Loader
from recstore.torch.samplers import BatchSampler, ShuffleSampler
from recstore.torch.weighted import WeightedSampler

__all__ = [
    "BatchSampler",
    "GroupSampler",
    "LengthBatchSampler",
    "Loader",
    "RecordDataset",
    "ShuffleSampler",
    "WeightedSampler",
]
