"""Sampling by weight, of records or of classes of records."""

from __future__ import annotations

import zlib

from recstore._core import native
from recstore.lazy_names import named_arguments
from recstore.torch import places, rows, sampler_base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, SupportsIndex

    import numpy as np
    from numpy.typing import NDArray


__all__ = ["WeightedSampler"]

_DRAWS = 0x77656967687465  # mixed into the key, so that draws are independent of a shuffled order with the same seed


class WeightedSampler(sampler_base.IndexSampler):
    """Indices drawn at random by weight.

    Args:
        weights: the weight of each record, a number that is not negative: a field (``x.field("weight")``), a sequence
            or an array. With `classes`, a mapping from each class to its share of the draws, or "balanced" for equal
            shares; the records of a class are equally likely. Weights need not sum to 1.
        num_samples: the number of indices in an epoch, over all ranks. None: the number of records; without
            replacement, the number of records with a weight above 0.
        classes: the class of each record: a field (``x.field("label")``), a sequence or an array. If `weights` names
            a class without records, that is an error unless its weight is 0.
        replacement: True: draws are independent, so an index may repeat, and each draw takes constant time. False: an
            index comes at most once, and records with large weights tend to come early.
        seed, rank, world_size, drop_last: as in :class:`ShuffleSampler`.

    Memory: 12 bytes per record with replacement. With `classes`, 20 bytes per class, and 4 bytes per record for the
    index by class, unless the index was saved with the store. Without replacement, 8 bytes per record for the weights,
    and 4 bytes per sample. Each draw then depends on all earlier ones, so the order of an epoch is computed at its
    start.

    The same weights, seed and epoch give the same draws on every machine. Raises TypeError for weights that are not
    numbers. Raises ValueError for a weight that is negative or not finite, if all weights are 0, for a class without a
    weight, and without replacement for more samples than records with a weight above 0. One thread at a time may
    iterate.

    >>> from recstore.torch import WeightedSampler
    >>> list(WeightedSampler([0, 1, 3], 8, rank=0, world_size=1))
    [2, 1, 2, 2, 2, 2, 1, 2]
    >>> sampler = WeightedSampler("balanced", 8, classes=["cat", "cat", "cat", "dog"], rank=0, world_size=1)
    >>> list(sampler)
    [1, 3, 3, 3, 3, 3, 2, 3]
    """

    _kind = "WeightedSampler"

    @named_arguments
    def __init__(
        self,
        weights: Any,
        num_samples: SupportsIndex | None = None,
        *,
        classes: Any = None,
        replacement: bool = True,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement must be True or False, not {replacement!r:.60}")
        self.replacement = replacement
        self._groups: rows.Groups | None = None
        self._order: tuple[int, rows.Rows] | None = None  # the key of an epoch, and its draws without replacement
        if classes is None:
            column = checked(rows.numbers_of(weights, "weight"), lambda i: f"record {i}")
            self._records = len(column)
        else:
            groups = rows.groups_of(classes)
            self._records = int(groups.starts[-1])
            column = checked(_shares(weights, groups.keys), lambda i: f"class {groups.keys[i]!r:.60}")
            if replacement:
                self._groups = groups
            else:
                column = _per_record(column, groups)
        self._fingerprint = zlib.crc32(column.data)
        n_nonzero = int((column > 0).sum()) if len(column) else 0
        length = _samples(num_samples, self._records, n_nonzero, replacement)
        self._set(length, seed, rank, world_size, drop_last)
        if length and not n_nonzero:
            raise ValueError("all weights are 0, so nothing can be drawn")
        self._table = native.AliasTable(column) if replacement and length else None
        if not replacement:
            self._weights = column

    def _fill(self, out: Any, live: sampler_base.Iteration, taken: int) -> None:
        if live.length == 0:
            return
        key = native.mixed(native.permutation_seed(self.seed, live.epoch) ^ _DRAWS)
        array = as_int64(out)
        if self._table is None:
            native.fill_permutation(array, live.length, None, live.position(taken), live.world_size)
            array[:] = self._order_of(key)[array]
            return
        arguments = key, live.position(taken), live.world_size, live.length
        self._table.draw(array, *arguments)
        if self._groups is not None:
            first = self._groups.starts[array]
            array[:] = self._groups.starts[array + 1] - first
            native.draw_below(array, *arguments)
            array += first
            self._groups.read(array)

    def _order_of(self, key: int) -> rows.Rows:
        """The indices of an epoch without replacement, in the order of their draws."""
        import numpy

        if self._order is None or self._order[0] != key:
            keys = self._weights.copy()
            native.draw_keys(keys, key)
            last = numpy.partition(keys, self._length - 1)[self._length - 1]
            chosen = numpy.flatnonzero(keys <= last)  # may be too many if keys are equal
            chosen = chosen[numpy.argsort(keys[chosen], kind="stable")[: self._length]]
            self._order = key, rows.small(chosen)
        return self._order[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_order": None}  # made again on demand

    def _identity(self) -> dict[str, Any]:
        own = {"records": self._records, "replacement": self.replacement, "weights": self._fingerprint}
        return {**super()._identity(), **own}

    def __repr__(self) -> str:
        mode = "" if self.replacement else ", replacement=False"
        return f"WeightedSampler({self._length} of {self._records}{mode}, seed={self.seed}, epoch={self._epoch})"


def as_int64(buffer: Any) -> NDArray[np.int64]:
    """An int64 array over the memory of a numpy array or array.array."""
    import numpy

    return numpy.asarray(buffer, numpy.int64)


def checked(weights: Any, name: Callable[[int], str]) -> NDArray[np.float64]:
    """The weights as doubles. Raises ValueError for a weight that is negative or not finite; `name(i)` names its owner
    in the message."""
    import numpy

    column = numpy.ascontiguousarray(weights, numpy.float64)
    bad = numpy.flatnonzero(~((column >= 0) & (column < numpy.inf)))
    if len(bad):
        raise ValueError(
            f"the weight of {name(int(bad[0]))} is {column[bad[0]]}: weights must be finite and not negative"
        )
    return column


def _shares(weights: Any, keys: Sequence[Any]) -> list[float]:
    """The share of each class."""
    if isinstance(weights, str) and weights == "balanced":
        return [1.0] * len(keys)
    if not hasattr(weights, "keys"):
        raise TypeError(
            f'with classes, weights must be a mapping from each class to its share, or "balanced", not {weights!r:.60}'
        )
    shares = []
    for key in keys:
        if key not in weights:
            raise ValueError(f"class {key!r:.60} has no weight: give 0 to leave its records out")
        shares.append(_number(weights[key], key))
    classes = set(keys)
    for key in weights:
        weight = weights[key]  # pyright: ignore[reportArgumentType]
        if key not in classes and _number(weight, key) != 0:
            raise ValueError(f"no record has class {key!r:.60}, which has a weight of {weight!r:.60}")
    return shares


def _number(weight: Any, key: Any) -> float:
    try:
        if not isinstance(weight, (str, bytes)):
            return float(weight)
    except TypeError:
        pass
    raise TypeError(f"the weight of class {key!r:.60} must be a number, not {weight!r:.60}")


def _per_record(shares: NDArray[np.float64], groups: rows.Groups) -> NDArray[np.float64]:
    """The weight of each record, from the shares of the classes."""
    import numpy

    sizes = groups.sizes
    records = numpy.arange(groups.starts[-1], dtype=numpy.int64)
    groups.read(records)
    out = numpy.zeros(len(records))
    out[records] = numpy.repeat(shares / numpy.maximum(sizes, 1), sizes)
    return out


def _samples(num_samples: SupportsIndex | None, records: int, n_nonzero: int, replacement: bool) -> int:
    """The number of samples in an epoch."""
    if num_samples is None:
        return records if replacement else n_nonzero
    num_samples = places.integer(num_samples, "num_samples")
    if num_samples < 0 or num_samples > sampler_base.MOST:
        raise ValueError(f"num_samples must be from 0 to 2**48, not {num_samples}")
    if not replacement and num_samples > n_nonzero:
        raise ValueError(
            f"num_samples={num_samples} without replacement, but only {n_nonzero} records have a weight above 0: lower "
            "it, or give replacement=True"
        )
    return num_samples
