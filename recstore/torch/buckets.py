"""Samplers of batches whose records are alike: of like lengths, or of one group.

The records stand in buckets, each a run of rows. In an epoch each bucket has an order of its own, of which its batches
are the runs of its batch size, and the batches of all buckets have an order. Both orders are computed as they go, so
that batch p of an epoch is found from p alone, and an epoch begins at once.
"""

from __future__ import annotations

import zlib

from torch.utils.data import BatchSampler as _TorchBatchSampler
from torch.utils.data import Sampler

from recstore._core import native
from recstore.later import named_arguments
from recstore.torch import epochs, places, rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, SupportsIndex

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

__all__ = ["GroupSampler", "LengthBatchSampler"]

_LEAST_BATCHES = 2  # of a bucket, so that records meet others; fewer buckets than lengths ask for where records are few
_STEPS = 16  # a bucket has lengths from 15/16 of its longest on


class _BucketSampler(epochs.EpochSampler[list[int]], _TorchBatchSampler):
    """Batches from buckets. A BatchSampler by class too: accelerate asks for it."""

    _unit = "batches"
    batch_size = None  # type: ignore[assignment]  # they differ in size; accelerate drops those of another than this

    def _fill_buckets(
        self,
        groups: rows.Groups,
        sizes: NDArray[np.int64],
        seed: SupportsIndex,
        rank: SupportsIndex | None,
        world_size: SupportsIndex | None,
        drop_last: bool,
        shuffle: bool,
    ) -> None:
        """`sizes` has the batch size of each bucket; `groups` has the rows of the buckets."""
        import numpy

        self._set(0, seed, rank, world_size, drop_last, shuffle)
        self._groups, self._sizes = groups, sizes
        batches = groups.sizes // sizes if drop_last else -(-groups.sizes // sizes)
        self._ends = numpy.cumsum(batches, dtype=numpy.int64)
        self._length = int(self._ends[-1]) if len(self._ends) else 0

    @property
    def sampler(self) -> Self:  # type: ignore[override]
        """This sampler: loaders look for ``set_epoch`` there."""
        return self

    def __iter__(self) -> Iterator[Any]:  # arrays, where DataLoader's type asks for lists
        """The batches of this rank, int64 arrays. The iteration belongs to the epoch that is set when it gives its
        first one. One thread at a time may use it."""
        live = self._begin()
        for taken in range(live.count):
            batch = self._batch(live.epoch, live.position(taken) % live.length)
            live.taken = taken + 1
            yield batch.tolist() if live.as_lists else batch

    def _batch(self, epoch: int, position: int) -> NDArray[np.int64]:
        """The batch at a position of an epoch."""
        import numpy

        key, number = self._key(epoch), numpy.empty(1, numpy.int64)
        native.fill_permutation(number, self._length, key, position, 1)
        bucket = int(numpy.searchsorted(self._ends, number[0], "right"))
        first = int(number[0]) - (int(self._ends[bucket - 1]) if bucket else 0)
        start, end = int(self._groups.starts[bucket]), int(self._groups.starts[bucket + 1])
        size = int(self._sizes[bucket])
        batch = numpy.empty(min(size, end - start - first * size), numpy.int64)
        seed = None if key is None else native.permutation_seed(native.mixed(key), bucket + 1)
        native.fill_permutation(batch, end - start, seed, first * size, 1)
        batch += start
        self._groups.read(batch)
        return batch

    def _identity(self) -> dict[str, Any]:
        plan = zlib.crc32(self._sizes.data, zlib.crc32(self._groups.starts.data))
        own = {"records": int(self._groups.starts[-1]), "plan": plan, "drop_last": self.drop_last}
        return {**super()._identity(), **own}

    def state_dict(self, batches: SupportsIndex | None = None) -> dict[str, Any]:
        """The state of the latest iteration as a dict of ints and strs; it counts the batches consumed by all ranks.

        Args:
            batches: how many batches of the iteration this rank's loop has consumed. None: those that the iterator has
                given. A DataLoader with workers asks for more than the loop has seen, so there give the number.

        A run may go on with another number of ranks or workers, not with another batch size or length. Raises TypeError
        for a number that is no integer, ValueError for one that the iteration does not have."""
        return self._state(batches)


class LengthBatchSampler(_BucketSampler):
    """Batches of records of like lengths, with a bound on what a batch takes when its rows are padded.

    Args:
        lengths: the length of each record: a field (``x.field("n_tokens")``), a sequence or an array of ints.
        max_tokens: the most that the longest record of a batch times the records of the batch may be.
        max_batch: the most records of a batch; None for no such bound.
        multiple_of: the longest record counts as rounded up to a multiple of this, as it is padded.
        buckets: into how many runs of like lengths the records are divided. None: as many as keep lengths within a
            sixteenth of each other, where there are records enough. Few buckets let more records meet, many pad less.
        seed, rank, world_size, shuffle: as in :class:`ShuffleSampler`; ``shuffle=False`` gives the longest first.
        drop_last: leave out the batch that is not full, at most one an epoch, of the shortest records; and the last
            batches where their number is no multiple of world_size. False: repeat the first ones, so that each rank has
            as many batches.

    Each epoch has the batches in another order, and other records of a bucket meet in them. The number of batches is
    the same in each epoch. For ``DataLoader(dataset, batch_sampler=...)``, or with ``batch_size=None`` as `sampler`.

    Memory: 4 bytes a record; while the constructor runs, 20. Raises ValueError that names the first record that is
    longer than `max_tokens`, or whose length is negative, TypeError for lengths that are no integers. One thread at a
    time may iterate.

    >>> from recstore.torch import LengthBatchSampler
    >>> sampler = LengthBatchSampler([3, 9, 4, 8, 3, 1], max_tokens=18, rank=0, world_size=1, buckets=3)
    >>> sorted(sorted(batch.tolist()) for batch in sampler)
    [[0, 2, 4, 5], [1, 3]]
    >>> sampler.buckets
    [(9, 2, 2), (4, 4, 4)]
    """

    _kind = "LengthBatchSampler"

    @named_arguments
    def __init__(
        self,
        lengths: Any,
        max_tokens: SupportsIndex,
        max_batch: SupportsIndex | None = None,
        multiple_of: SupportsIndex = 1,
        buckets: SupportsIndex | None = None,
        *,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
    ) -> None:
        import numpy

        self.max_tokens = places.at_least(1, max_tokens, "max_tokens")
        self.max_batch = None if max_batch is None else places.at_least(1, max_batch, "max_batch")
        self.multiple_of = places.at_least(1, multiple_of, "multiple_of")
        column = _lengths(lengths, self.max_tokens, self.multiple_of)
        order = _longest_first(column)
        starts, sizes, self._longest = self._divided(
            column, order, None if buckets is None else places.at_least(1, buckets, "buckets")
        )
        groups = rows.Groups(None, numpy.array(starts, numpy.int64), order, 0)
        self._fill_buckets(groups, numpy.array(sizes, numpy.int64), seed, rank, world_size, drop_last, shuffle)

    @property
    def buckets(self) -> list[tuple[int, int, int]]:
        """A list of ``(longest record, records, batch size)`` of each bucket."""
        return list(zip(self._longest, self._groups.sizes.tolist(), self._sizes.tolist()))

    def _divided(
        self, column: NDArray[Any], order: rows.Rows, buckets: int | None
    ) -> tuple[list[int], list[int], list[int]]:
        """`(starts, batch sizes, longest lengths)` of the buckets over records in the order of falling lengths.

        All buckets but the last have whole batches, so an epoch has one batch at most that is not full."""
        n, starts, sizes, longest = len(order), [0], [], []
        while starts[-1] < n:
            first = starts[-1]
            longest.append(int(column[order[first]]))
            padded = _padded(longest[-1], self.multiple_of)
            size = min(self.max_tokens // padded, self.max_batch or n, epochs.MOST)
            if buckets is None:
                least = padded - max(self.multiple_of, padded // _STEPS)
                end = max(_first_below(column, order, first, least), first + _LEAST_BATCHES * size)
            else:
                end = first + -(-n // buckets)
            end = first + -(-(end - first) // size) * size
            starts.append(end if n - end >= size else n)
            sizes.append(size)
        return starts, sizes, longest

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "max_tokens": self.max_tokens, "multiple_of": self.multiple_of}

    def __repr__(self) -> str:
        bound = f"max_tokens={self.max_tokens}, max_batch={self.max_batch}"
        return f"LengthBatchSampler({len(self._groups.rows)} records, {bound}, seed={self.seed}, epoch={self._epoch})"


class GroupSampler(_BucketSampler):
    """Batches whose records are all of one group, such as images of one aspect.

    Args:
        groups: the group of each record: a field (``x.field("aspect")``), a sequence or an array.
        batch_size: the records of a batch.
        drop_last: leave out the batches that are not full, at most one a group; and the last batches where their number
            is no multiple of world_size. False: repeat the first ones, so that each rank has as many.
        seed, rank, world_size, shuffle: as in :class:`ShuffleSampler`; ``shuffle=False`` gives group after group.

    Each epoch has the batches in another order, and other records of a group meet in them. The number of batches is the
    same in each epoch. For ``DataLoader(dataset, batch_sampler=...)``, or with ``batch_size=None`` as `sampler`.

    Memory: 20 bytes a group and 4 bytes a record; a field whose index was saved with the store has the latter in the
    store. Raises KeyError for a record that lacks the field, TypeError for values that cannot be hashed. One thread at
    a time may iterate.

    >>> from recstore.torch import GroupSampler
    >>> sampler = GroupSampler(["wide", "tall", "wide", "wide", "tall"], 2, rank=0, world_size=1)
    >>> sorted(sorted(batch.tolist()) for batch in sampler)
    [[0, 2], [1, 4], [3]]
    """

    _kind = "GroupSampler"

    @named_arguments
    def __init__(
        self,
        groups: Any,
        batch_size: SupportsIndex,
        drop_last: bool = False,
        *,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        shuffle: bool = True,
    ) -> None:
        import numpy

        if isinstance(groups, Sampler):
            raise TypeError(
                "groups are a field, a sequence or an array with a value for each record, not "
                f"{type(groups).__name__}. Lightning replaces samplers given as batch_sampler: give sampler=, "
                "batch_size=None to the DataLoader"
            )
        self._size = places.at_least(1, batch_size, "batch_size")
        groups = rows.groups_of(groups)
        sizes = numpy.full(len(groups.starts) - 1, min(self._size, epochs.MOST), numpy.int64)
        self._fill_buckets(groups, sizes, seed, rank, world_size, drop_last, shuffle)

    def __repr__(self) -> str:
        what = f"{len(self._sizes)} groups, batch_size={self._size}"
        return f"GroupSampler({what}, seed={self.seed}, epoch={self._epoch})"


def _padded(length: int, multiple_of: int) -> int:
    """The length that a row is padded to. A record of length 0 counts as one of 1: a batch has to end somewhere."""
    return -(-max(length, 1) // multiple_of) * multiple_of


def _lengths(lengths: Any, max_tokens: int, multiple_of: int) -> NDArray[Any]:
    """The lengths as an array of ints that are in range."""
    column = rows.numbers_of(lengths, "length")
    if len(column) and column.dtype.kind not in "iu":
        raise TypeError(f"lengths are integers, not {column.dtype}")
    if len(column) and (low := int(column.argmin())) >= 0 and column[low] < 0:
        raise ValueError(f"record {low} has a length of {column[low]}: lengths are 0 or more")
    if len(column) and _padded(int(column[(high := int(column.argmax()))]), multiple_of) > max_tokens:
        raise ValueError(
            f"record {high} has a length of {column[high]}, and a batch has room for max_tokens={max_tokens}: leave "
            "longer records out (x.filter), cut them and give the lengths after the cut, or raise max_tokens"
        )
    return column


def _longest_first(column: NDArray[Any]) -> rows.Rows:
    """The records in the order of falling lengths, and of equal lengths in their own order."""
    import numpy

    if len(column) == 0:
        return numpy.empty(0, numpy.uint32)
    most = int(column.max())
    # From small ints on numpy sorts by radix.
    reach = numpy.uint16 if most < 1 << 16 else numpy.uint64
    return rows.small(numpy.argsort(most - column.astype(reach), kind="stable"))


def _first_below(column: NDArray[Any], order: rows.Rows, first: int, least: int) -> int:
    """The first row from `first` on whose record is not longer than `least`; found by halving."""
    low, high = first, len(order)
    while low < high:
        middle = (low + high) // 2
        if column[order[middle]] > least:
            low = middle + 1
        else:
            high = middle
    return low
