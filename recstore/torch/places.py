"""Which rank a sampler is for, and of how many: of torch.distributed, of torchrun's environment, or under accelerate,
which shares batches out itself. And whether Lightning goes on in the middle of an epoch."""

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
    """`value` as an int. TypeError for a bool, a float and what else is no integer."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        raise TypeError(f"{name} is an integer, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is an integer, not {value!r:.60}") from None


def at_least(least: int, value: SupportsIndex, name: str) -> int:
    """`value` as an int. ValueError for one below `least`."""
    value = integer(value, name)
    if value < least:
        raise ValueError(f"{name} is at least {least}, not {value}")
    return value


def checked(rank: SupportsIndex | None, world_size: SupportsIndex | None) -> tuple[int, int] | None:
    """`(rank, world_size)` as a caller gave them, or None if it gave neither."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        raise TypeError(
            "give both rank and world_size, or neither: then they are those of torch.distributed or torchrun"
        )
    return _in_range(integer(rank, "rank"), at_least(1, world_size, "world_size"))


def _in_range(rank: int, world_size: int) -> tuple[int, int]:
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size}: ranks are 0 to {world_size - 1}")
    return rank, world_size


def found() -> tuple[int, int]:
    """`(rank, world_size)` of this process: under accelerate with several processes 0 of 1."""
    if accelerate_processes() > 1:
        return 0, 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        try:
            rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        except ValueError:
            values = f"RANK={os.environ['RANK']!r}, WORLD_SIZE={os.environ['WORLD_SIZE']!r}"
            raise ValueError(f"the environment names no rank: {values}; give rank and world_size") from None
        return _in_range(rank, at_least(1, world_size, "world_size"))
    return 0, 1


def nodes(world_size: int) -> int:
    """The number of nodes on which `world_size` ranks run, as torchrun or srun tell; 1 where they do not.

    Only numbers count that are the same on all ranks, or ranks would cut an epoch in different ways. LOCAL_WORLD_SIZE
    is none: a node may have fewer ranks than another."""
    for size, name in (("WORLD_SIZE", "GROUP_WORLD_SIZE"), ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES")):
        if os.environ.get(size) == str(world_size) and name in os.environ:
            value = os.environ[name]
            if not value.isdecimal() or int(value) < 1:
                raise ValueError(f"the environment names no number of nodes: {name}={value!r}; give nodes")
            return min(int(value), world_size)
    return 1


def accelerate_processes() -> int:
    """The number of processes of accelerate; 1 if this program does not use it."""
    state = getattr(sys.modules.get("accelerate.state"), "PartialState", None)
    processes: int = (getattr(state, "_shared_state", None) or {}).get("num_processes", 1)
    return processes


def _accelerate_frames(frame: FrameType | None) -> list[Any]:
    """The loaders of accelerate whose methods have called the caller, the nearest first."""
    if _ACCELERATE not in sys.modules:
        return []
    owners = []
    while frame is not None:
        if frame.f_globals.get("__name__") == _ACCELERATE and "self" in frame.f_locals:
            owners.append(frame.f_locals["self"])
        frame = frame.f_back
    return owners


def at_iteration(sampler: object, given: tuple[int, int] | None) -> tuple[int, int, Any]:
    """`(rank, world_size, sharer)` for an iteration that begins. `sharer` is None, or the loader of accelerate that
    iterates.

    accelerate shares the batches of a prepared loader out to its processes, so the sampler must be for all of them. A
    sampler that is shared out twice would lose records, and one that nobody shares out would repeat them."""
    owners = _accelerate_frames(sys._getframe(1))
    sharded = [owner for owner in owners if getattr(owner, "num_processes", 1) > 1 and hasattr(owner, "split_batches")]
    rank, world_size = found() if given is None else given
    if sharded and world_size > 1:
        raise ValueError(
            f"accelerate shares the batches of this {type(sampler).__name__} out to its {sharded[0].num_processes} "
            f"processes, and the sampler is for rank {rank} of {world_size} already: leave rank and world_size out"
        )
    if given is None and not owners and accelerate_processes() > 1:
        raise RuntimeError(
            f"accelerate runs {accelerate_processes()} processes, and the loader of this {type(sampler).__name__} is "
            "not prepared: give it to accelerator.prepare(), or give the sampler rank=accelerator.process_index and "
            "world_size=accelerator.num_processes"
        )
    loader = next((owner for owner in owners if hasattr(owner, "iteration")), None)
    return rank, world_size, loader if loader is not None else (owners[0] if owners else None)


def lightning_goes_on() -> bool:
    """Whether an iteration that begins is that of an epoch in the middle of which Lightning goes on from a checkpoint.
    It is not where Lightning begins an epoch, or validates."""
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
                begun = loop.batch_progress.current.ready  # a checkpoint of the end of an epoch has all its batches
                return bool(loop.restarting) and 0 < begun < loop.trainer.num_training_batches
        frame = frame.f_back
    return False
