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
    "ShuffleSampler": "samplers",
    "WeightedSampler": "weighted",
}

__all__ = list(_LATER)


def __getattr__(name):
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(__import__(f"{__name__}.{module}", fromlist=[name]), name)
    return found


def __dir__():
    return sorted({*globals(), *_LATER})
