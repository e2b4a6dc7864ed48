"""PyTorch, or None where it is not installed: `Fields` with ``output="numpy"`` works without it."""


def _imported():
    try:
        import torch
        from torch.utils import data
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return None, None
    return torch, data


torch, data = _imported()
Tensor = () if torch is None else torch.Tensor  # isinstance(x, ()) is False
Dataset = object if torch is None else data.Dataset


def in_worker():
    """Whether this process is a worker of a DataLoader."""
    return data is not None and data.get_worker_info() is not None
