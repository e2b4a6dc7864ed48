"""PyTorch, or None if it is not installed: `Fields` with ``output="numpy"`` works without it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
    from torch.utils import data as data
    from torch.utils.data import Dataset as Dataset
else:
    try:
        import torch
        from torch.utils import data
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from typing import Generic as Dataset

        torch, data, Tensor = None, None, ()  # isinstance(x, ()) is False
    else:
        Tensor, Dataset = torch.Tensor, data.Dataset


def in_worker() -> bool:
    """Whether this process is a worker of a DataLoader."""
    return data is not None and data.get_worker_info() is not None
