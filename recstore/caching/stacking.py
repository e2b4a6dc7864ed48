"""The values of many keys as one array or tensor, and the comparison of two values."""

from __future__ import annotations

import sys

from recstore.errors import CorruptError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from recstore.caching.cache import Cache


def stacked(cache: Cache, keys: list[Any], make: Callable[[Any], Any] | None, out: Any) -> Any:
    """See `Cache.get_many`. Hits are copied before `make` runs."""
    file = cache._file
    if not keys:
        raise ValueError("no keys to stack: the shape of the values is unknown")
    if make is not None and cache._strict:
        return _one_by_one(cache, keys, make, out)
    try:
        batch = file.locate(keys)
    except CorruptError as error:
        if make is None:
            raise
        cache._warn_of_damage(error)
        return _one_by_one(cache, keys, make, out)
    hits, misses = batch.hits, batch.misses
    made: dict[Any, Any] = {}
    if misses and make is None:
        raise KeyError(keys[misses[0]])
    if hits:
        model = file.value_of(batch, 0)
    elif make is not None:
        model = made[keys[0]] = cache._make(keys[0], make, (keys[0],))
    result, out = _fitting(out, model, len(keys))
    memory = _bytes_of(out)
    if hits and (memory is None or file.copy_rows(batch, memory, len(memory) // len(keys)) >= 0):
        for number, i in enumerate(hits):
            _put_row(out, i, file.value_of(batch, number), keys[i])
    del batch
    for i in misses:
        key = keys[i]
        if key not in made and make is not None:
            made[key] = cache._make(key, make, (key,))
        _put_row(out, i, made[key], key)
    return result


def _one_by_one(cache: Cache, keys: list[Any], make: Callable[[Any], Any], out: Any) -> Any:
    values = [cache.get_or_make(key, make, key) for key in keys]
    result, out = _fitting(out, values[0], len(keys))
    for i, value in enumerate(values):
        _put_row(out, i, value, keys[i])
    return result


def _fitting(out: Any, model: Any, n: int) -> tuple[Any, Any]:
    """`(out, rows)`. If `out` is None, it becomes a new array or tensor for n values like `model`. `rows` is the same
    memory, as a tensor if the values are tensors, else as an array. Raises ValueError and TypeError."""
    if not hasattr(model, "shape"):
        raise ValueError(f"only arrays and tensors can be stacked, not {type(model).__name__}")
    if out is None:
        out = _new(model, n)
    if not hasattr(out, "dtype"):
        raise TypeError(f"out is an array or a tensor, not {type(out).__name__}")
    if hasattr(out, "flags") and not out.flags.writeable:
        raise ValueError("out is read-only")
    rows = out
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(out, torch.Tensor) != isinstance(model, torch.Tensor):
        rows = out.numpy() if isinstance(out, torch.Tensor) else torch.from_numpy(out)
    if tuple(rows.shape) != (n, *model.shape) or rows.dtype != model.dtype:
        raise ValueError(
            f"out has the shape {tuple(rows.shape)} and {rows.dtype}, but {n} values need "
            f"{(n, *model.shape)} and {model.dtype}"
        )
    return out, rows


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
