"""The rank of a sampler, and the numbers of ranks and nodes, from torch.distributed or the environment of torchrun or
srun; rank 0 of 1 under accelerate, which divides batches itself. Also, whether Lightning resumes in mid-epoch."""

from __future__ import annotations

import operator
import os
import sys

import torch.distributed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, SupportsIndex

_ACCELERATE = "accelerate.data_loader"
_LIGHTNING = ("lightning.pytorch.loops", "pytorch_lightning.loops")


def integer(value: SupportsIndex, name: str) -> int:
    """`value` as an int. Raises TypeError for a bool, a float or any other value that is not an integer."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r:.60}") from None


def at_least(least: int, value: SupportsIndex, name: str) -> int:
    """Like `integer`; raises ValueError for an int below `least`."""
    value = integer(value, name)
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    return value


def checked(rank: SupportsIndex | None, world_size: SupportsIndex | None) -> tuple[int, int] | None:
    """`(rank, world_size)` from the arguments of a constructor, or None if it got neither."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        raise TypeError("give both rank and world_size, or neither to take them from torch.distributed or torchrun")
    return _in_range(integer(rank, "rank"), at_least(1, world_size, "world_size"))


def _in_range(rank: int, world_size: int) -> tuple[int, int]:
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size}: ranks are 0 to {world_size - 1}")
    return rank, world_size


def current() -> tuple[int, int]:
    """`(rank, world_size)` of this process; (0, 1) under accelerate with several processes."""
    if accelerate_processes() > 1:
        return 0, 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        try:
            rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        except ValueError:
            values = f"RANK={os.environ['RANK']!r}, WORLD_SIZE={os.environ['WORLD_SIZE']!r}"
            raise ValueError(f"the environment has no valid rank: {values}; give rank and world_size") from None
        return _in_range(rank, at_least(1, world_size, "world_size"))
    return 0, 1


def nodes(world_size: int) -> int | None:
    """The number of nodes that `world_size` ranks run on, from the environment of torchrun or srun if it has as many
    ranks. Otherwise 1 for one rank, else None.

    The number must be the same on all ranks, or they would cut an epoch differently. LOCAL_WORLD_SIZE does not
    qualify, since nodes may have different numbers of ranks."""
    for size, name in (("WORLD_SIZE", "GROUP_WORLD_SIZE"), ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES")):
        if os.environ.get(size) == str(world_size) and name in os.environ:
            value = os.environ[name]
            if not value.isdecimal() or int(value) < 1:
                raise ValueError(f"the environment has no valid number of nodes: {name}={value!r}; give nodes")
            return min(int(value), world_size)
    return 1 if world_size == 1 else None


def accelerate_processes() -> int:
    """The number of processes of accelerate; 1 if this program does not use it."""
    state = getattr(sys.modules.get("accelerate.state"), "PartialState", None)
    processes: int = (getattr(state, "_shared_state", None) or {}).get("num_processes", 1)
    return processes


def _accelerate_loaders(frame: FrameType | None) -> list[Any]:
    """accelerate's loaders and batch samplers on the call stack, innermost first."""
    if _ACCELERATE not in sys.modules:
        return []
    owners = []
    while frame is not None:
        if frame.f_globals.get("__name__") == _ACCELERATE and "self" in frame.f_locals:
            owners.append(frame.f_locals["self"])
        frame = frame.f_back
    return owners


def at_iteration(sampler: object, place: tuple[int, int] | None) -> tuple[int, int, Any]:
    """`(rank, world_size, owner)` for a new iteration. `owner` is accelerate's loader that iterates, else its
    batch sampler, else None.

    accelerate divides the batches of a prepared loader among its processes, so the sampler must yield the batches of
    all ranks. Dividing twice would lose records, and not dividing would repeat them."""
    owners = _accelerate_loaders(sys._getframe(1))
    dividers = [owner for owner in owners if getattr(owner, "num_processes", 1) > 1 and hasattr(owner, "split_batches")]
    rank, world_size = place or current()
    if dividers and world_size > 1:
        raise ValueError(
            f"accelerate divides the batches of this {type(sampler).__name__} among its {dividers[0].num_processes} "
            f"processes, but the sampler is already for rank {rank} of {world_size}: leave rank and world_size out"
        )
    if place is None and not owners and accelerate_processes() > 1:
        raise RuntimeError(
            f"accelerate runs {accelerate_processes()} processes, but the loader of this {type(sampler).__name__} is "
            "not prepared: pass it to accelerator.prepare(), or give the sampler rank=accelerator.process_index and "
            "world_size=accelerator.num_processes"
        )
    loader = next((owner for owner in owners if hasattr(owner, "iteration")), None)
    return rank, world_size, loader if loader is not None else (owners[0] if owners else None)


def lightning_resumes() -> bool:
    """Whether Lightning starts the current iteration in the middle of an epoch, because it resumes from a checkpoint.
    False if it starts a new epoch, or validates."""
    if not any(name in sys.modules for name in _LIGHTNING):
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.startswith(_LIGHTNING):
            if name.endswith("evaluation_loop"):
                return False
            loop: Any = frame.f_locals.get("self")
            loop = getattr(loop, "epoch_loop", loop)
            if hasattr(loop, "batch_progress"):
                batches = loop.batch_progress.current.ready  # at the end of an epoch, the number of all batches
                return bool(loop.restarting) and 0 < batches < loop.trainer.num_training_batches
        frame = frame.f_back
    return False
