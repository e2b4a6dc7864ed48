"""Sampling by weight: of a record, or of a class of records."""

import zlib

from recstore._core import native
from recstore.later import named_arguments
from recstore.torch import epochs, places, rows

__all__ = ["WeightedSampler"]

_DRAWS = 0x77656967687465  # sets the random words of draws apart from those of a shuffled order of the same seed


class WeightedSampler(epochs.IndexSampler):
    """Indices drawn at random by weight.

    Args:
        weights: a number from 0 on for each record: a field (``x.field("weight")``), a sequence or an array. With
            `classes` a mapping from each class to its share of the draws, or "balanced": each class has the same share.
            Within a class each record is as likely. Weights need not sum to 1.
        num_samples: the indices of an epoch, over all ranks. None: as many as there are records, or, without
            replacement, as many as have a weight above 0.
        classes: the class of each record: a field (``x.field("label")``), a sequence or an array. A class that
            `weights` names and no record has is an error, unless its weight is 0.
        replacement: True: draws do not depend on each other, so an index may come more than once, and each draw takes
            constant time. False: an index comes once at most, and heavy ones tend to come early.
        seed, rank, world_size, drop_last: as in :class:`ShuffleSampler`.

    Memory: with replacement 12 bytes a record; with `classes` 20 bytes a class, and the index of their records, 4 bytes
    a record unless it was saved with the store. Without replacement, weights of 8 bytes a record, and 4 bytes a
    sample; a draw then depends on all earlier ones, so the order of an epoch is made at its start.

    The same weights, seed and epoch give the same draws on every machine. Raises TypeError for weights that are no
    numbers, ValueError for a negative or infinite one, for weights that are all 0, for a class without a weight, and
    for more samples than records without replacement. One thread at a time may iterate.

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
        weights,
        num_samples=None,
        *,
        classes=None,
        replacement=True,
        seed=0,
        rank=None,
        world_size=None,
        drop_last=False,
    ):
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement is True or False, not {replacement!r:.60}")
        self._replacement = replacement
        self._groups = self._order = None
        if classes is None:
            column = checked(rows.numbers_of(weights, "weight"), lambda i: f"record {i}")
            self._records = len(column)
        else:
            self._groups = rows.groups_of(classes)
            self._records = int(self._groups.starts[-1])
            column = checked(_shares(weights, self._groups.keys), lambda i: f"class {self._groups.keys[i]!r:.60}")
            if not replacement:
                column, self._groups = _per_record(column, self._groups), None
        self._fingerprint = zlib.crc32(column)
        possible = int((column > 0).sum()) if len(column) else 0
        length = _samples(num_samples, self._records, possible, replacement)
        self._set(length, seed, rank, world_size, drop_last)
        if length and not possible:
            raise ValueError("no weight is above 0, so nothing can be drawn")
        self._weights = None if replacement else column
        self._table = native.AliasTable(column) if replacement and length else None

    @property
    def replacement(self):
        """Whether an index may come more than once."""
        return self._replacement

    def _fill(self, out, live, taken):
        if live.length == 0:
            return
        key = self._words(live.epoch)
        if self._weights is not None:
            native.fill_permutation(out, live.length, None, live.position(taken), live.world_size)
            out_of(out)[:] = self._order_of(live.epoch, key)[out_of(out)]
            return
        run = key, live.position(taken), live.world_size, live.length
        self._table.draw(out, *run)
        if self._groups is not None:
            array = out_of(out)
            first = self._groups.starts[array]
            array[:] = self._groups.starts[array + 1] - first
            native.draw_below(out, *run)
            array += first
            self._groups.read(array)

    def _words(self, epoch):
        """The key of the random words of an epoch."""
        return native.mixed(self._key(epoch) ^ _DRAWS)

    def _order_of(self, epoch, key):
        """The indices of an epoch without replacement, in the order of their draws."""
        import numpy

        if self._order is None or self._order[0] != epoch:
            keys = self._weights.copy()
            native.draw_keys(keys, key)
            last = numpy.partition(keys, self._length - 1)[self._length - 1]
            chosen = numpy.flatnonzero(keys <= last)  # more than needed where keys are equal: the first ones count
            chosen = chosen[numpy.argsort(keys[chosen], kind="stable")[: self._length]]
            self._order = epoch, rows.small(chosen)
        return self._order[1]

    def __getstate__(self):
        return {**vars(self), "_order": None}  # made again where it is needed

    def _identity(self):
        own = {"records": self._records, "replacement": self._replacement, "weights": self._fingerprint}
        return {**super()._identity(), **own}

    def __repr__(self):
        how = "" if self._replacement else ", replacement=False"
        return f"WeightedSampler({self._length} of {self._records}{how}, seed={self._seed}, epoch={self._epoch})"


def out_of(buffer):
    """An int64 array over a buffer that `_fill` gets: an array of numpy, or one of the array module."""
    import numpy

    return numpy.frombuffer(buffer, numpy.int64) if not isinstance(buffer, numpy.ndarray) else buffer


def checked(weights, name):
    """The weights as doubles. ValueError for one that is negative or not finite; `name(i)` says whose it is."""
    import numpy

    weights = numpy.ascontiguousarray(weights, numpy.float64)
    bad = numpy.flatnonzero(~((weights >= 0) & (weights < numpy.inf)))
    if len(bad):
        raise ValueError(f"the weight of {name(int(bad[0]))} is {weights[bad[0]]}: weights are finite and from 0 on")
    return weights


def _shares(weights, keys):
    """The share of each class as `weights` has it."""
    if isinstance(weights, str) and weights == "balanced":
        return [1.0] * len(keys)
    if not hasattr(weights, "keys"):
        raise TypeError(
            f'with classes, weights are a mapping from each class to its share, or "balanced", not {weights!r:.60}'
        )
    shares, there = [], set()
    for key in keys:
        if key not in weights:
            raise ValueError(f"no weight for class {key!r:.60}: 0 leaves its records out")
        shares.append(_number(weights[key], key))
        there.add(key)
    for key in weights:
        if key not in there and _number(weights[key], key) != 0:
            raise ValueError(f"no record has class {key!r:.60}, which has a weight of {weights[key]!r:.60}")
    return shares


def _number(weight, key):
    if isinstance(weight, (str, bytes)):
        raise TypeError(f"the weight of class {key!r:.60} is {weight!r:.60}: a weight is a number")
    try:
        return float(weight)
    except TypeError:
        raise TypeError(f"the weight of class {key!r:.60} is {weight!r:.60}: a weight is a number") from None


def _per_record(shares, groups):
    """The weight of each record, for shares of classes."""
    import numpy

    sizes = groups.sizes
    records = numpy.arange(groups.starts[-1], dtype=numpy.int64)
    groups.read(records)
    out = numpy.zeros(len(records))
    out[records] = numpy.repeat(shares / numpy.maximum(sizes, 1), sizes)
    return out


def _samples(num_samples, records, possible, replacement):
    """The samples of an epoch."""
    if num_samples is None:
        return records if replacement else possible
    num_samples = places.integer(num_samples, "num_samples")
    if num_samples < 0 or num_samples > epochs.MOST:
        raise ValueError(f"num_samples is from 0 to 2**48, not {num_samples}")
    if not replacement and num_samples > possible:
        raise ValueError(
            f"num_samples={num_samples} without replacement, and {possible} records have a weight above 0: lower it, "
            "or give replacement=True"
        )
    return num_samples
