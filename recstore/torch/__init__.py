"""Data loading for PyTorch over a store: datasets, batches as tensors, a loader of threads, and samplers.

    import recstore.torch

    f = recstore.torch.Fields(x, "image_id", "bbox", segmentation="jagged")
    loader = recstore.torch.Loader(f, batch_size=256, shuffle=True)

Importing this package imports torch; `import recstore` does not import this package.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("recstore.torch needs PyTorch, which is not installed: pip install recstore[torch]") from None

from recstore.later import later

# The public names by module. Each module is imported when one of its names is first asked for.
_LATER = {
    "Batch": "batches",
    "BatchSampler": "samplers",
    "Field": "forms",
    "Fields": "fields",
    "GroupSampler": "buckets",
    "LengthBatchSampler": "buckets",
    "Loader": "loader",
    "Ragged": "forms",
    "RecordDataset": "datasets",
    "ShardSampler": "shard_sampler",
    "ShuffleSampler": "samplers",
    "WeightedSampler": "weighted",
}

__all__ = list(_LATER)
__getattr__, __dir__ = later(globals(), _LATER)
