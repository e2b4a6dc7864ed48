"""PyTorch, or None where it is not installed: `Fields` with ``output="numpy"`` works without it."""

try:
    import torch
    from torch.utils import data
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    torch = data = None

Tensor = () if torch is None else torch.Tensor  # isinstance(x, ()) is False
Dataset = object if torch is None else data.Dataset


def in_worker():
    """Whether this process is a worker of a DataLoader."""
    return data is not None and data.get_worker_info() is not None
