"""Packing documents into rows over a whole epoch: row k is computed from (seed, epoch, k), without the rows before it.

The documents of an epoch come in the order of a keyed permutation, and their tokens one after another make the stream
of the epoch. Up to 4 million documents are permuted one by one; of more, *groups* of consecutive documents are
permuted, and the documents within a *stretch* of that order again. The number of tokens of a group is the same in all
epochs, so the groups before a stretch give its place in the stream. The place of every `_AT_ONCE` groups is kept.

The rows of an epoch divide the stream evenly. With "concat" a row is its part of the stream. With "best-fit" a block of
some hundred rows has its part of the stream, and the documents there are packed into its rows. So the number of rows is
known without packing, and every token of the epoch is in one row.
"""

from __future__ import annotations

import bisect
import mmap
import os
import pickle
import zlib
from _blake2 import blake2b
from typing import Any

import numpy

from recstore import errors
from recstore._core import native
from recstore.containers.fields import FieldView
from recstore.lazy_names import named_arguments
from recstore.sharing import shared
from recstore.tokens.token_list import Lengths
from recstore.torch import places, rows, sampler_base
from recstore.torch.packed_rows import Row, row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, SupportsIndex, TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Int64s: TypeAlias = NDArray[np.int64]

__all__ = ["PackSampler"]

_MOST_GROUPS = 1 << 22
_LEAST_STRETCH = 1 << 12  # documents
_MOST_STRETCHES = 1 << 16
_CHUNK = 1 << 16  # documents whose lengths are read at once; a multiple of the documents of a group
_AT_ONCE = 1 << 12  # groups whose tokens are looked up at once
_SLACK = 256  # "best-fit" has a row more for each so many full rows: with 1/256 of padding hardly a document is cut
_BLOCK_DOCUMENTS = 1 << 13
_BLOCK_ROWS = 32, 1024  # the least and the most rows of a block
_MOST_TOKENS = 1 << 40  # of one document
_KEEP = "1h"  # how long the tokens of groups stay shared after their last use, for a run that starts again
_DOCUMENTS, _ROWS = 0x646F63756D656E74, 0x726F7773  # mixed into keys, so that orders are independent


class PackSampler(sampler_base.ItemSampler[Row]):
    """Rows of documents for training on tokens, packed over the whole epoch. Its items are :class:`Row`.

    Args:
        lengths: the number of tokens of each document: a field (``x.field("n_tokens")``), the ``lengths`` of a
            TokenList, a sequence or an array of ints, such as a memmap. They are read where they lie.
        length: the number of tokens of a row.
        method: "best-fit": documents stay whole where a row has room for them, and 0.4% of the tokens of the epoch are
            padding. Longer documents are cut into full rows and a rest; so is the document at the border of two blocks
            of some hundred rows. "concat": the documents follow one another and are cut at the end of each row; only
            the last row has padding.
        seed, rank, world_size: as in :class:`ShuffleSampler`.
        drop_last: drop fewer than world_size rows at the end, so that all ranks have the same number, and with
            "concat" a last row that is not full. False: repeat the first rows instead.
        shuffle: whether each epoch has a new order. False: the documents in their own order. (The rows of a block of
            "best-fit" are then in the order of their longest documents.)

    Each token of the epoch is in one row, except for dropped and repeated rows; a document of 0 tokens is in none. All
    epochs have the same number of rows. ``state_dict`` counts the rows consumed by all ranks, so a run may resume with
    another number of ranks or workers, or another batch size, but not with other lengths. Read rows with
    :class:`Fields`: ``Fields(x, tokens=Field("packed", length=8192))[[row, row]]``.

    The constructor reads all lengths once. Rows are made in blocks, in less than a microsecond per document. A run that
    resumes passes over the documents before its row, up to 4 million groups: 0.1 seconds. Memory: under 1 MB beside the
    lengths. For more than 4 million documents also 4 bytes for each group; the processes of a machine share them if the
    lengths are a memmap or those of a TokenList, and the next start within an hour finds them (``recstore rm
    pack_lengths`` removes them).

    Raises TypeError for lengths that are not integers, ValueError for a negative length, and for arguments out of
    range; InputError, while it iterates, if lengths have changed. One thread at a time may iterate.

    >>> from recstore.torch import PackSampler
    >>> sampler = PackSampler([3, 9, 0, 4, 2], length=6, rank=0, world_size=1)
    >>> for row in sampler: print(row)
    Row([1, 0], [6, 0], [3, 3])
    Row([1], [0], [6])
    Row([3, 4], [0, 0], [4, 2])
    """

    _kind = "PackSampler"
    _unit = "rows"

    @named_arguments
    def __init__(
        self,
        lengths: Any,
        length: SupportsIndex = 8192,
        method: Literal["best-fit", "concat"] = "best-fit",
        *,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
    ) -> None:
        if method not in ("best-fit", "concat"):
            raise ValueError(f"method must be 'best-fit' or 'concat', not {method!r:.60}")
        self.method = method
        self.length = places.at_least(1, length, "length")
        if self.length >= 1 << 31:
            raise ValueError(f"length must be below 2**31, not {self.length}")
        self._lengths = _Lengths(lengths)
        tokens = self._lengths.tokens
        self._set(0, seed, rank, world_size, drop_last, shuffle)
        n_rows = -(-tokens // self.length)
        if method == "best-fit":
            n_rows = min(n_rows + tokens // (_SLACK * self.length), tokens)
        elif drop_last:
            n_rows = tokens // self.length
        most = _BLOCK_DOCUMENTS * n_rows // max(self._lengths.n, 1)
        self._n_blocks = -(-n_rows // max(_BLOCK_ROWS[0], min(most, _BLOCK_ROWS[1])))
        self._length = n_rows
        self._forget()

    def _forget(self) -> None:
        # Each is for a key. _begins has the first token of the parts of the stream, as far as known.
        self._begins: tuple[int | None, list[int]] = None, [0]
        self._part: tuple[tuple[int | None, int], Int64s] | None = None
        self._stretch: tuple[tuple[int | None, int], tuple[NDArray[Any], Int64s]] | None = None
        self._block: tuple[tuple[int | None, int], tuple[NDArray[Any], Any, Any]] | None = None

    # ---- The stream of an epoch ----

    def _stretch_at(self, key: int | None, token: int) -> tuple[int, int, int]:
        """The number of the stretch that has a token of the stream, its first token and that of the next stretch."""
        if self._begins[0] != key:
            self._begins = key, [0]
        begins = self._begins[1]
        while begins[-1] <= token:
            begins.append(int(self._starts_of(key, len(begins) - 1)[-1]))
        part = bisect.bisect_right(begins, token) - 1
        starts = self._starts_of(key, part)
        place = int(starts.searchsorted(token, "right")) - 1
        return part * self._lengths.stretches_at_once + place, int(starts[place]), int(starts[place + 1])

    def _starts_of(self, key: int | None, part: int) -> Int64s:
        """The first token of each stretch of a part of the stream, and the end of the part."""
        if self._part is None or self._part[0] != (key, part):
            lengths = self._lengths
            at_once = lengths.stretches_at_once * lengths.per_stretch
            first = part * at_once
            if first >= lengths.n_groups:
                raise _changed()
            groups = _order(lengths.n_groups, key, first, min(at_once, lengths.n_groups - first))
            bounds = numpy.arange(0, len(groups), lengths.per_stretch)
            starts = numpy.full(len(bounds) + 1, self._begins[1][part], numpy.int64)
            starts[1:] = numpy.add.reduceat(lengths.tokens_of(groups), bounds, dtype=numpy.int64)
            self._part = (key, part), numpy.cumsum(starts, out=starts)
        return self._part[1]

    def _stretch_of(self, key: int | None, number: int) -> tuple[NDArray[Any], Int64s]:
        """The documents of a stretch that have tokens, in order, and their bounds in the tokens of the stretch."""
        if self._stretch is None or self._stretch[0] != (key, number):
            self._stretch = None  # frees it before the next one is made
            lengths = self._lengths
            first = number * lengths.per_stretch
            groups = _order(lengths.n_groups, key, first, min(lengths.per_stretch, lengths.n_groups - first))
            documents, counts = lengths.read_groups(groups)
            if key is not None and lengths.group > 1:
                seed = native.permutation_seed(native.mixed(key ^ _DOCUMENTS), number)
                order = _order(len(documents), seed, 0, len(documents))
                documents, counts = documents[order], counts[order]
            documents, counts = rows.small(documents[counts > 0]), counts[counts > 0]
            bounds = numpy.zeros(len(counts) + 1, numpy.int64)
            numpy.cumsum(counts, dtype=numpy.int64, out=bounds[1:])
            self._stretch = (key, number), (documents, bounds)
        return self._stretch[1]

    def _between(self, key: int | None, begin: int, end: int) -> tuple[NDArray[Any], Int64s, int]:
        """The documents between two tokens of the stream, how many tokens of each are there, and the first one there of
        the first document."""
        documents, counts, at, first = [], [], begin, 0
        while at < end:
            number, start, stop = self._stretch_at(key, at)
            own, bounds = self._stretch_of(key, number)
            if bounds[-1] != stop - start:
                raise _changed()
            low, high = at - start, min(end, stop) - start
            i, j = int(bounds.searchsorted(low, "right")) - 1, int(bounds.searchsorted(high))
            documents.append(own[i:j])
            counts.append(numpy.diff(bounds[i : j + 1].clip(low, high)))
            if at == begin:
                first = low - int(bounds[i])
            at = start + high
        return numpy.concatenate(documents), numpy.concatenate(counts), first

    # ---- Rows ----

    def _items(self, epoch: int, first: int, n: int) -> list[Row]:
        """The `n` rows of an epoch from position `first` on, before ranks divide them."""
        key = self._key(epoch)
        return [self._row(key, position) for position in range(first, first + n)]

    def _row(self, key: int | None, position: int) -> Row:
        number = ((position + 1) * self._n_blocks - 1) // self._length
        parts, begins, ends = self._block_of(key, number)
        at = position - number * self._length // self._n_blocks
        return row_of(parts[:, begins[at] : ends[at]])

    def _block_of(self, key: int | None, number: int) -> tuple[NDArray[Any], Any, Any]:
        """The parts of documents in the rows of a block, and where each row begins and ends in them."""
        if self._block is None or self._block[0] != (key, number):
            self._block = None  # frees it before the next one is made
            first, last = (block * self._length // self._n_blocks for block in (number, number + 1))
            tokens = self._lengths.tokens
            if self.method == "concat":
                whole = self._between(key, first * self.length, min(last * self.length, tokens))
                parts, ends = _cut(*whole, self.length)
            else:
                whole = self._between(key, first * tokens // self._length, last * tokens // self._length)
                parts, ends = _packed(*whole, self.length, last - first)
            seed = None
            if key is not None and self.method != "concat":  # else the documents are in random order already
                seed = native.permutation_seed(native.mixed(key ^ _ROWS), number)
            order = _order(last - first, seed, 0, last - first)
            begins = numpy.where(order, ends[order - 1], 0)
            self._block = (key, number), (rows.small(parts), begins.data, ends[order].data)  # .data has ints
        return self._block[1]

    # ---- The state ----

    def _identity(self) -> dict[str, Any]:
        own = {"method": self.method, "row_length": self.length, "documents": self._lengths.n}
        return {**own, "lengths_crc32": self._lengths.checksum, **super()._identity()}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_begins": (None, [0]), "_part": None, "_stretch": None, "_block": None}  # made again

    def __repr__(self) -> str:
        rows_of = f"{self._length} rows of {self.length} tokens, {self._lengths.n} documents"
        return f"PackSampler({rows_of}, method={self.method!r}, seed={self.seed}, epoch={self._epoch})"


class _Lengths:
    """The lengths of all documents, and the tokens of groups of neighbouring documents.

    Arrays, fields and the lengths of a TokenList are read where they lie; other sequences become an array."""

    def __init__(self, lengths: Any) -> None:
        n = self.n = len(lengths) if hasattr(lengths, "__len__") else len(rows.numbers_of(lengths, "length"))
        self.group = 1  # documents
        while -(-n // self.group) > _MOST_GROUPS:
            self.group *= 2
        self._source = lengths if isinstance(lengths, (FieldView, Lengths)) else rows.numbers_of(lengths, "length")
        self.n_groups = -(-n // self.group)
        self.per_stretch = -(-max(_LEAST_STRETCH, n // _MOST_STRETCHES) // self.group)  # groups
        self.stretches_at_once = max(_AT_ONCE // self.per_stretch, 1)
        identity = _identity(lengths) if self.group > 1 else None
        if identity is None:
            self._sums = self._sums_of_groups()
        else:
            fingerprint = f"{identity} {self.group}"
            options: dict[str, Any] = {"keep": _KEEP, "compression": "none", "arrays": "view"}
            self._sums = shared("pack_lengths", self._sums_of_groups, fingerprint=fingerprint, **options)
        self.tokens, self.checksum = self._sums[0]

    def _sums_of_groups(self) -> Sequence[Any]:
        """`[(tokens of all documents, checksum), tokens of each group]`, the latter None for groups of one document.
        Checks all lengths."""
        tokens = checksum = 0
        sums = None if self.group == 1 else numpy.empty(self.n_groups, numpy.int64)
        for first in range(0, self.n, _CHUNK):
            counts = self._read(first, min(first + _CHUNK, self.n))
            if sums is not None:
                counts = numpy.add.reduceat(counts, numpy.arange(0, len(counts), self.group))
                sums[first // self.group :][: len(counts)] = counts
            checksum = zlib.crc32(numpy.ascontiguousarray(counts).data, checksum)
            tokens += int(counts.sum())
        return [(tokens, checksum), sums.astype(numpy.uint32) if sums is not None and sums.max() < 1 << 32 else sums]

    def _read(self, first: int, end: int) -> Int64s:
        """The lengths of neighbouring documents."""
        part = self._source[first:end]
        column = rows.numbers_of(part, "length")
        if column.dtype.kind not in "iu":
            raise TypeError(f"lengths must be integers, not {column.dtype}")
        for worst in (int(column.argmin()), int(column.argmax())):  # the column is not empty
            if not 0 <= column[worst] <= _MOST_TOKENS:
                raise ValueError(
                    f"document {first + worst} has a length of {column[worst]}: lengths must be from 0 to 2**40"
                )
        return column.astype(numpy.int64, copy=False)

    def tokens_of(self, groups: Int64s) -> NDArray[Any]:
        """The number of tokens of each group."""
        sums: NDArray[Any] | None = self._sums[1]
        return self._counts(groups) if sums is None else sums[groups]

    def read_groups(self, groups: Int64s) -> tuple[NDArray[Any], NDArray[Any]]:
        """The documents of some groups, one group after another, and their lengths."""
        if self.group == 1:
            return groups, self._counts(groups)
        documents = (groups[:, None] * self.group + numpy.arange(self.group)).reshape(-1)
        documents = documents[documents < self.n]
        return documents, self._counts(documents)

    def _counts(self, documents: Int64s) -> NDArray[Any]:
        """The lengths of any documents."""
        source = self._source
        column: NDArray[Any] = source.to_numpy(documents) if isinstance(source, FieldView) else source[documents]
        return column


def _packed(documents: NDArray[Any], counts: Int64s, first: int, length: int, n_rows: int) -> tuple[Int64s, Int64s]:
    """The parts of some rows, packed by best fit, and the end of each row. Arguments as `_between` returns them."""
    out, ends = numpy.empty((3, len(counts) + n_rows), numpy.int64), numpy.empty(n_rows, numpy.int64)
    native.pack_best_fit(counts, length, n_rows, out[0], out[1], out[2], ends)
    parts = out[:, : ends[-1]]
    parts[1] += numpy.where(parts[0], 0, first)
    parts[0] = documents[parts[0]]
    return parts, ends


def _cut(documents: NDArray[Any], counts: Int64s, first: int, length: int) -> tuple[Int64s, Int64s]:
    """The same for rows that the documents fill one after another."""
    ends = numpy.cumsum(counts)
    row_ends = numpy.minimum(numpy.arange(1, -(-ends[-1] // length) + 1) * length, ends[-1])
    new_ends = numpy.union1d(ends, row_ends)
    new_counts = numpy.diff(new_ends, prepend=0)
    part = numpy.searchsorted(ends, new_ends)
    new_starts = numpy.where(part, 0, first) + counts[part] - (ends[part] - new_ends) - new_counts
    return numpy.stack([documents[part], new_starts, new_counts]), numpy.searchsorted(new_ends, row_ends, "right")


def _changed() -> errors.InputError:
    return errors.InputError("the lengths of documents changed after the PackSampler was made: make it again")


def _identity(lengths: Any) -> str | None:
    """A text by which all processes of the machine know the same lengths. None for lengths of one process."""
    if isinstance(lengths, Lengths):
        key = pickle.dumps(lengths)
    elif isinstance(lengths, numpy.memmap) and isinstance(lengths.base, mmap.mmap):  # a whole mapping of a file
        stat = os.stat(str(lengths.filename))
        place = os.path.abspath(str(lengths.filename)), lengths.offset, lengths.dtype.str, lengths.shape
        key = repr((*place, stat.st_size, stat.st_mtime_ns, stat.st_ino)).encode()
    else:
        return None
    return blake2b(key, digest_size=16).hexdigest()


def _order(n: int, key: int | None, first: int, count: int) -> Int64s:
    """`count` elements of the permutation of n elements by `key`, from position `first` on."""
    out = numpy.empty(count, numpy.int64)
    native.fill_permutation(out, n, key, first, 1)
    return out
