"""The values of many keys as one array or tensor, and the comparison of two values."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from recstore.caching.cache import Cache


def stacked(cache: Cache, keys: list[Any], make: Callable[[Any], Any] | None, out: Any) -> Any:
    """See `Cache.get_many`. Hits are copied before `make` runs."""
    file = cache._file
    batch = file.locate(keys)
    hits, misses = batch.hits, batch.misses
    made: dict[Any, Any] = {}
    if misses and make is None:
        raise KeyError(keys[misses[0]])
    if hits:
        model = file.value_of(batch, 0)
    elif misses and make is not None:
        model = made[keys[misses[0]]] = cache._made(keys[misses[0]], make, (keys[misses[0]],))
    else:
        raise ValueError("no keys to stack: the shape of the values is unknown")
    if not hasattr(model, "shape"):
        raise ValueError(f"only arrays and tensors can be stacked, not {type(model).__name__}")
    if out is None:
        out = _new(model, len(keys))
    elif not hasattr(out, "dtype"):
        raise TypeError(f"out is an array or a tensor, not {type(out).__name__}")
    elif tuple(out.shape) != (len(keys), *model.shape) or out.dtype != model.dtype:
        raise ValueError(
            f"out has the shape {tuple(out.shape)} and {out.dtype}, but {len(keys)} values need "
            f"{(len(keys), *model.shape)} and {model.dtype}"
        )
    memory = _bytes_of(out)
    if hits and (memory is None or file.copy_rows(batch, memory, len(memory) // len(keys)) >= 0):
        for number, i in enumerate(hits):
            _put_row(out, i, file.value_of(batch, number), keys[i])
    del batch
    for i in misses:
        key = keys[i]
        if key not in made and make is not None:
            made[key] = cache._made(key, make, (key,))
        _put_row(out, i, made[key], key)
    return out


def _new(model: Any, n: int) -> Any:
    """An array or tensor for n values like `model`."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.Tensor):
        return torch.empty((n, *model.shape), dtype=model.dtype)
    import numpy as np

    return np.empty((n, *model.shape), dtype=model.dtype)


def _bytes_of(out: Any) -> memoryview | None:
    """The memory of an array or CPU tensor in C order; None for another order."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(out, torch.Tensor):
        if not out.is_contiguous() or out.device.type != "cpu":
            return None
        return memoryview(out.detach().reshape(-1).view(torch.uint8).numpy())
    if not out.flags.c_contiguous or out.size == 0:
        return None
    return memoryview(out.reshape(-1).view("u1"))


def _put_row(out: Any, i: int, value: Any, key: Any) -> None:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or tuple(shape) != tuple(out.shape[1:]) or dtype != out.dtype:
        kind = type(value).__name__ if shape is None else f"{tuple(shape)} of {dtype}"
        raise ValueError(
            f"the values cannot be stacked: {tuple(out.shape[1:])} of {out.dtype}, and {kind} for the key {key!r:.80}"
        )
    out[i] = value


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, with arrays and NaNs in them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "dtype"):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        equal = (one == other) | ((one != one) & (other != other))
        return bool(equal.all())
    return bool(one == other) or (one != one and other != other)
