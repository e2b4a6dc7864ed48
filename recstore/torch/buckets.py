"""Samplers of batches of similar records: of similar lengths, or of one group.

The records are divided into buckets, each a range of rows. An epoch shuffles each bucket, cuts it into batches, and
shuffles the batches of all buckets. Both orders are computed on the fly, so batch p of an epoch depends on p alone, and
an epoch begins at once.
"""

from __future__ import annotations

import zlib

from torch.utils.data import BatchSampler as _TorchBatchSampler
from torch.utils.data import Sampler

from recstore._core import native
from recstore.lazy_names import named_arguments
from recstore.torch import places, rows, sampler_base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, SupportsIndex

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

__all__ = ["GroupSampler", "LengthBatchSampler"]

_LEAST_BATCHES = 2  # the least batches of a bucket, so that its records mix; a small dataset gets fewer buckets
_STEPS = 16  # a bucket has lengths down to 15/16 of its longest, or shorter for `multiple_of` or _LEAST_BATCHES


class _BucketSampler(sampler_base.EpochSampler[list[int]], _TorchBatchSampler):
    """Batches from buckets. It subclasses torch's BatchSampler because accelerate checks for that."""

    _unit = "batches"
    _yields_batches = True
    batch_size = None  # type: ignore[assignment]  # batches differ in size, and accelerate would drop some

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
        """Sets the attributes. `groups` has the rows of each bucket, `sizes` its batch size."""
        import numpy

        self._set(0, seed, rank, world_size, drop_last, shuffle)
        self._groups, self._sizes = groups, sizes
        batches = groups.sizes // sizes if drop_last else -(-groups.sizes // sizes)
        self._ends = numpy.cumsum(batches, dtype=numpy.int64)
        self._length = int(self._ends[-1]) if len(self._ends) else 0

    @property
    def sampler(self) -> Self:  # type: ignore[override]
        """The sampler itself: loaders look for ``set_epoch`` here."""
        return self

    def __iter__(self) -> Iterator[Any]:  # arrays, although DataLoader's type asks for lists
        """Yields the batches of this rank as int64 arrays, or as lists for accelerate. The epoch is fixed when the
        first batch is drawn. One thread at a time may use the iterator."""
        live = self._begin()
        for taken in range(live.count):
            batch = self._batch(live.epoch, live.position(taken) % live.length)
            live.taken = taken + 1
            yield batch.tolist() if live.as_lists else batch

    def _items(self, epoch: int, first: int, n: int) -> list[NDArray[np.int64]]:
        """The `n` batches of an epoch from position `first` on, before ranks divide them."""
        return [self._batch(epoch, position) for position in range(first, first + n)]

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
        """The state of the latest iteration as a dict of ints and strs. It counts the batches consumed by all ranks.

        Args:
            batches: how many batches of the iteration this rank's loop has consumed. None: as many as the iterator has
                yielded. A DataLoader with workers draws more than the loop has seen, so pass the number there.

        A run may resume on another number of ranks or workers, but not with another batch size or length. Raises
        TypeError if `batches` is not an integer, ValueError if the iteration has fewer."""
        return self._state(batches)


class LengthBatchSampler(_BucketSampler):
    """Batches of records of similar lengths, with a bound on the size of the padded batch.

    Args:
        lengths: the length of each record: a field (``x.field("n_tokens")``), a sequence or an array of ints.
        max_tokens: the largest padded batch: its number of records times its longest length.
        max_batch: the most records of a batch; None: no limit.
        multiple_of: the longest length is rounded up to a multiple of this, as padding does.
        buckets: the most length ranges. None: enough to keep the lengths of a bucket within a sixteenth of each
            other, if the dataset is large enough. Fewer buckets mix more records, more buckets pad less.
        seed, rank, world_size, shuffle: as in :class:`ShuffleSampler`; ``shuffle=False`` yields the longest first.
        drop_last: drop the batch that is not full, at most one per epoch, made of the shortest records. Also drop
            fewer than world_size batches at the end, so that all ranks have the same number of batches. False: repeat
            the first batches instead.

    Each epoch shuffles the records of a bucket and the order of the batches again. The number of batches is the same in
    each epoch. Use it as ``DataLoader(dataset, batch_sampler=...)``, or as `sampler` with ``batch_size=None``.

    Memory: 4 bytes per record, 20 while the constructor runs. Raises ValueError for records whose padded length
    exceeds `max_tokens`, and for negative lengths; the message names the worst record. Raises TypeError for lengths
    that are not integers. One thread at a time may iterate.

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
        """``(longest length, records, batch size)`` of each bucket."""
        return list(zip(self._longest, self._groups.sizes.tolist(), self._sizes.tolist()))

    def _divided(
        self, column: NDArray[Any], order: rows.Rows, buckets: int | None
    ) -> tuple[list[int], list[int], list[int]]:
        """`(starts, batch sizes, longest lengths)` of the buckets over records in descending order of length.

        All buckets but the last have only full batches, so at most one batch of an epoch is not full."""
        n, starts, sizes, longest = len(order), [0], [], []
        while starts[-1] < n:
            first = starts[-1]
            longest.append(int(column[order[first]]))
            padded = _padded(longest[-1], self.multiple_of)
            size = min(self.max_tokens // padded, self.max_batch or n, sampler_base.MOST)
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
    """Batches whose records all belong to one group, such as images of one aspect ratio.

    Args:
        groups: the group of each record: a field (``x.field("aspect")``), a sequence or an array.
        batch_size: the number of records in a batch.
        drop_last: drop the batches that are not full, at most one per group. Also drop fewer than world_size
            batches at the end, so that all ranks have the same number of batches. False: repeat the first batches
            instead.
        seed, rank, world_size, shuffle: as in :class:`ShuffleSampler`; ``shuffle=False`` yields group after group.

    Each epoch shuffles the records of a group and the order of the batches again. The number of batches is the same in
    each epoch. Use it as ``DataLoader(dataset, batch_sampler=...)``, or as `sampler` with ``batch_size=None``.

    Memory: 24 bytes per group and 4 bytes per record. If the index of the field was saved with the store, the 4 bytes
    per record are in the store. Raises KeyError for a record that lacks the field, TypeError for unhashable values. One
    thread at a time may iterate.

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
                "groups must be a field, a sequence or an array with a value for each record, not "
                f"{type(groups).__name__}. Lightning replaces a batch_sampler: give the DataLoader sampler= and "
                "batch_size=None"
            )
        self._size = places.at_least(1, batch_size, "batch_size")
        groups = rows.groups_of(groups)
        sizes = numpy.full(len(groups.starts) - 1, min(self._size, sampler_base.MOST), numpy.int64)
        self._fill_buckets(groups, sizes, seed, rank, world_size, drop_last, shuffle)

    def __repr__(self) -> str:
        groups = f"{len(self._sizes)} groups, batch_size={self._size}"
        return f"GroupSampler({groups}, seed={self.seed}, epoch={self._epoch})"


def _padded(length: int, multiple_of: int) -> int:
    """The length that a row is padded to. A record of length 0 counts as length 1, to keep batches finite."""
    return -(-max(length, 1) // multiple_of) * multiple_of


def _lengths(lengths: Any, max_tokens: int, multiple_of: int) -> NDArray[Any]:
    """The lengths as an array of ints. Raises TypeError for other values, ValueError for a length out of range."""
    column = rows.numbers_of(lengths, "length")
    if len(column) and column.dtype.kind not in "iu":
        raise TypeError(f"lengths must be integers, not {column.dtype}")
    if len(column) and (low := int(column.argmin())) >= 0 and column[low] < 0:
        raise ValueError(f"record {low} has a length of {column[low]}: lengths must be at least 0")
    if len(column) and _padded(int(column[(high := int(column.argmax()))]), multiple_of) > max_tokens:
        raise ValueError(
            f"record {high} has a length of {column[high]}, more than a batch of max_tokens={max_tokens} holds: filter "
            "long records out (x.filter), truncate them and pass the truncated lengths, or raise max_tokens"
        )
    return column


def _longest_first(column: NDArray[Any]) -> rows.Rows:
    """The records in descending order of length; records of equal length keep their order."""
    import numpy

    if len(column) == 0:
        return numpy.empty(0, numpy.uint32)
    longest = int(column.max())
    dtype = numpy.uint16 if longest < 1 << 16 else numpy.uint64  # numpy radix-sorts uint16
    return rows.small(numpy.argsort(longest - column.astype(dtype), kind="stable"))


def _first_below(column: NDArray[Any], order: rows.Rows, first: int, least: int) -> int:
    """The first row, from `first` on, with a record that is not longer than `least`. A binary search."""
    low, high = first, len(order)
    while low < high:
        middle = (low + high) // 2
        if column[order[middle]] > least:
            low = middle + 1
        else:
            high = middle
    return low
