"""The public names of this room; each class is in the stub beside its module."""

from recstore.torch.datasets import RecordDataset

__all__ = ["RecordDataset"]
