"""Data loading for PyTorch over a store: datasets, batches as tensors, a threaded loader, and samplers.

    import recstore.torch

    f = recstore.torch.Fields(x, "image_id", "bbox", segmentation="jagged")
    loader = recstore.torch.Loader(f, batch_size=256, shuffle=True)

Importing this package imports torch; `import recstore` does not import this package. Without PyTorch only
`Fields(..., output="numpy")` works.
"""

from recstore.lazy_names import later
from recstore.torch.optional import torch as _torch

# The module of each public name. A module is imported on first access to one of its names.
_LATER = {
    "Batch": "batches",
    "BatchSampler": "samplers",
    "CachedDataset": "cached",
    "Field": "forms",
    "Fields": "fields",
    "GroupSampler": "buckets",
    "Headroom": "bottleneck",
    "Items": "items",
    "LengthBatchSampler": "buckets",
    "Loader": "loader",
    "MixSampler": "mixing",
    "PackSampler": "packing",
    "Ragged": "forms",
    "RecordDataset": "datasets",
    "Row": "packed_rows",
    "ShardSampler": "shard_sampler",
    "ShuffleSampler": "samplers",
    "Steps": "steps",
    "WeightedSampler": "weighted",
    "headroom": "bottleneck",
}

__all__ = list(_LATER)
_WITHOUT_TORCH = {"Batch", "Field", "Fields", "Ragged", "Row"}
_import_name, __dir__ = later(globals(), _LATER)


def __getattr__(name: str) -> object:
    if _torch is None and name in _LATER and name not in _WITHOUT_TORCH:
        raise ImportError(f"recstore.torch.{name} needs PyTorch, which is not installed: pip install recstore[torch]")
    return _import_name(name)
