"""The values of many keys as one array or tensor, and the comparison of two values."""

from __future__ import annotations

import sys

from recstore.errors import CorruptError, UntrustedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from recstore._core.native import CacheFile
    from recstore.caching.cache import Cache

UNREADABLE = CorruptError, UntrustedError  # the errors of values that can be made again


def stacked(cache: Cache, keys: list[Any], make: Callable[[Any], Any] | None, out: Any) -> Any:
    """See `Cache.get_many`."""
    if not keys:
        raise ValueError("no keys to stack: the shape of the values is unknown")
    if make is not None and cache._strict:
        return _one_by_one(cache, keys, make, out)
    try:
        result, rows, misses = _hits(cache._file, keys, make is not None, out)
    except UNREADABLE as error:
        if make is None:
            raise
        cache._warn_of(error)
        return _one_by_one(cache, keys, make, out)
    made: dict[Any, Any] = {}
    for i in misses:
        key = keys[i]
        if key not in made and make is not None:
            made[key] = cache._make(key, make, (key,))
        if rows is None:
            result, rows = _fitting(out, made[key], len(keys))
        _put_row(rows, i, made[key], key)
    return result


def _hits(file: CacheFile, keys: list[Any], makes: bool, out: Any) -> tuple[Any, Any, list[int]]:
    """`(result, rows, positions of the misses)`. `result` is `out` or a new array, filled with the hits; `rows` is
    as in `_fitting`. Both are None without a hit."""
    with file.locate(keys) as batch:
        if batch.misses and not makes:
            raise KeyError(keys[batch.misses[0]])
        if not batch.hits:
            return None, None, batch.misses
        result, rows = _fitting(out, file.value_of(batch, 0), len(keys))
        memory = _bytes_of(rows)
        if memory is None or file.copy_rows(batch, memory, len(memory) // len(keys)) >= 0:
            for number, i in enumerate(batch.hits):
                _put_row(rows, i, file.value_of(batch, number), keys[i])
        return result, rows, batch.misses


def _one_by_one(cache: Cache, keys: list[Any], make: Callable[[Any], Any], out: Any) -> Any:
    values = [cache.get_or_make(key, make, key) for key in keys]
    result, rows = _fitting(out, values[0], len(keys))
    for i, value in enumerate(values):
        _put_row(rows, i, value, keys[i])
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
    """The memory of an array or CPU tensor in C order; None for any other, and for an empty array."""
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
    """Whether two values are equal, including arrays, types and the order of keys. A NaN equals a NaN."""
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
