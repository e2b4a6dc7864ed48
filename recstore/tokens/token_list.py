"""TokenList: the documents of token files as a sequence of arrays, their lengths, and views of them."""

from __future__ import annotations

import operator
from _collections_abc import Sequence

import numpy as np

from recstore.containers import base
from recstore.containers.batch_method import batch_method, refuse_batches
from recstore.tokens.indices import integers, positions
from recstore.tokens.windows import Windows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, SupportsIndex, TypeAlias, overload

    from numpy.typing import ArrayLike, DTypeLike, NDArray
    from typing_extensions import Self

    from recstore._types import Index, Selector
    from recstore.tokens.token_files import Array, Int64s, RecordFiles, TokenFiles

    _Piece: TypeAlias = range | Int64s

__all__ = ["TokenList"]


class TokenList(Sequence):  # type: ignore[type-arg]
    """The documents of token files: a read-only sequence of arrays. :func:`recstore.open_tokens` makes one.

    ``t[i]`` is a read-only array over the mapped file, without a copy. A slice, or a list or an array of numbers or
    bools, gives a view: a TokenList of these documents. ``a + b`` has the documents of both. Documents of records of
    this library are copies.

    It pickles as the paths and what identifies the files, so workers read the same files by fork, spawn and
    forkserver. Every read compares the size, modification time and inode of each file that it reads, and raises
    InputError if they changed. A file that shrinks while an array over it is read ends the process with SIGBUS: replace
    files by a rename. Safe from several threads at once.

    >>> import numpy, recstore, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> numpy.array([5, 6, 0, 7, 0], numpy.uint16).tofile(f"{folder.name}/a.bin")
    >>> t = recstore.open_tokens(f"{folder.name}/a.bin", dtype="uint16", end=0, keep=False)
    >>> t[1], t.lengths[:]
    (array([7, 0], dtype=uint16), array([3, 2]))
    >>> t.windows(2)[[0, 1]]
    array([[5, 6],
           [0, 7]], dtype=uint16)
    >>> folder.cleanup()
    """

    __slots__ = "_groups", "_document_ends", "_token_ends", "_pieces", "_ends"

    _groups: tuple[TokenFiles | RecordFiles, ...]
    _pieces: list[_Piece]  # the numbers of the documents, in all groups together

    def __init__(self, groups: tuple[TokenFiles | RecordFiles, ...], pieces: list[_Piece] | None = None) -> None:
        self._groups = groups
        self._document_ends = np.cumsum([group.n_documents for group in groups], dtype=np.int64)
        self._token_ends = np.cumsum([group.n_tokens for group in groups], dtype=np.int64)
        self._pieces = [range(int(self._document_ends[-1]))] if pieces is None else pieces
        self._ends = np.cumsum([len(piece) for piece in self._pieces], dtype=np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenList, (self._groups, self._pieces)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a token."""
        return self._groups[0].dtype

    @property
    def lengths(self) -> Lengths:
        """The numbers of tokens of the documents: a sequence of ints that are read when they are needed.
        ``lengths[a:b]`` and ``lengths[numbers]`` are int64 arrays."""
        return Lengths(self)

    @property
    def nbytes(self) -> int:
        """The bytes of all tokens of the files, which are mapped and not copied."""
        return int(self._token_ends[-1]) * self.dtype.itemsize

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    if TYPE_CHECKING:
        # Selectors before SupportsIndex, because arrays define __index__ too.
        @overload
        def __getitem__(self, index: int) -> Array: ...
        @overload
        def __getitem__(self, index: Selector[Index]) -> TokenList: ...
        @overload
        def __getitem__(self, index: SupportsIndex) -> Array: ...

    def __getitem__(self, index: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(index, slice):
            return TokenList(self._groups, self._sliced(*index.indices(len(self))))
        if getattr(index, "ndim", 0) or not hasattr(index, "__index__"):
            return TokenList(self._groups, [self._numbers(positions(index, len(self)))])
        starts, counts = self._spans(positions([operator.index(index)], len(self)))
        return self._array(int(starts[0]), int(counts[0]))

    def _sliced(self, start: int, stop: int, step: int) -> list[_Piece]:
        chosen = range(start, stop, step)
        if step != 1 and len(self._pieces) > 1:
            return [self._numbers(np.arange(start, stop, step, dtype=np.int64))]
        if step != 1:
            return [piece[start : None if stop < 0 else stop : step] for piece in self._pieces]
        pieces, before = [], 0
        for piece in self._pieces:
            first, last = max(chosen.start - before, 0), min(chosen.stop - before, len(piece))
            if first < last:
                pieces.append(piece[first:last])
            before += len(piece)
        return pieces

    def __iter__(self) -> Iterator[Array]:
        for first in range(0, len(self), _BLOCK):
            starts, counts = self._spans(np.arange(first, min(first + _BLOCK, len(self)), dtype=np.int64))
            for start, count in zip(starts.tolist(), counts.tolist()):
                yield self._array(start, count)

    @batch_method
    def __getitems__(self, indices: Any) -> list[Array]:
        """The documents at `indices`, as a DataLoader asks for them."""
        refuse_batches(indices)
        starts, counts = self._spans(positions(indices, len(self)))
        return [self._array(start, count) for start, count in zip(starts.tolist(), counts.tolist())]

    def __add__(self, other: object) -> TokenList:
        if not isinstance(other, TokenList):
            return NotImplemented
        if other.dtype != self.dtype:
            raise TypeError(f"tokens of {self.dtype} and of {other.dtype} cannot be joined: write one of them again")
        n = int(self._document_ends[-1])
        shifted = [range(p.start + n, p.stop + n, p.step) if isinstance(p, range) else p + n for p in other._pieces]
        return TokenList(self._groups + other._groups, self._pieces + shifted)

    def gather(
        self,
        documents: ArrayLike,
        starts: ArrayLike | None = None,
        counts: ArrayLike | None = None,
        out: Array | None = None,
    ) -> Array:
        """The tokens of parts of documents, one part after another, in a one-dimensional array.

        Args:
            documents: the number of the document of each part.
            starts: the first token of each part in its document; None: 0.
            counts: the number of tokens of each part; None: up to the end of its document.
            out: an array for the tokens, contiguous, of this dtype and exactly as long. None: a new one.

        Raises IndexError for a part outside its document, ValueError for arrays of several lengths or another `out`.
        The tokens are copied by C without the GIL.
        """
        firsts, lengths = self._spans(positions(documents, len(self)))
        begin = np.zeros(len(firsts), np.int64) if starts is None else integers(starts, "starts")
        if len(begin) != len(firsts):
            raise ValueError(f"{len(firsts)} documents and {len(begin)} starts")
        n = lengths - begin if counts is None else integers(counts, "counts")
        if len(n) != len(firsts):
            raise ValueError(f"{len(firsts)} documents and {len(n)} counts")
        wrong = (begin < 0) | (n < 0) | (begin > lengths - n)
        if wrong.any():
            k = int(wrong.argmax())
            raise IndexError(f"part {k} is {n[k]} tokens from {begin[k]} of a document of {lengths[k]}")
        return self._copied(firsts + begin, n, out)

    def windows(self, length: SupportsIndex, *, stride: SupportsIndex | None = None, drop_last: bool = True) -> Windows:
        """The windows of `length` tokens over all documents, one document after another.

        Args:
            length: tokens in a window. For inputs and targets, ``windows(1025, stride=1024)``.
            stride: tokens from the start of a window to the start of the next; None: `length`.
            drop_last: what to do with tokens that do not fill a window at the end. True: leave them out. False: the
                last window ends with the last token, and overlaps the window before it.

        The result is a sequence: ``w[i]`` is a read-only array, over the file unless the window crosses files, and
        ``w[indices]`` a new array of shape (n, length). A view that is not a range of documents keeps 24 bytes a
        document in each process. Raises ValueError for a length or stride below 1.
        """
        size = operator.index(length)
        step = size if stride is None else operator.index(stride)
        if size < 1 or step < 1:
            raise ValueError(f"length and stride are 1 or more, not {size} and {step}")
        return Windows(self, size, step, drop_last)

    # ---- Runs of tokens ----

    def _numbers(self, indices: Int64s) -> Int64s:
        """The numbers of documents in all groups together."""
        out = np.empty(len(indices), np.int64)
        which = self._ends.searchsorted(indices, "right") if len(self._pieces) > 1 else np.zeros(1, np.int64)
        for k in np.unique(which).tolist() if len(indices) else ():
            piece, before = self._pieces[k], int(self._ends[k - 1]) if k else 0
            chosen = which == k if len(self._pieces) > 1 else slice(None)
            local = indices[chosen] - before
            out[chosen] = local * piece.step + piece.start if isinstance(piece, range) else piece[local]
        return out

    def _spans(self, indices: Int64s) -> tuple[Int64s, Int64s]:
        """The number of the first token of each document in all groups together, and its length."""
        documents = self._numbers(indices)
        if len(self._groups) == 1:
            return self._groups[0].spans(documents)
        starts, counts = np.empty(len(documents), np.int64), np.empty(len(documents), np.int64)
        which = self._document_ends.searchsorted(documents, "right")
        for k in np.unique(which).tolist():
            group, chosen = self._groups[k], which == k
            before = int(self._document_ends[k]) - group.n_documents
            starts[chosen], counts[chosen] = group.spans(documents[chosen] - before)
            starts[chosen] += int(self._token_ends[k]) - group.n_tokens
        return starts, counts

    def _array(self, start: int, count: int) -> Array:
        """A read-only array of a run of tokens."""
        if count:
            k = int(self._token_ends.searchsorted(start, "right"))
            group = self._groups[k]
            first = start - int(self._token_ends[k]) + group.n_tokens
            view = group.view(first, count) if first + count <= group.n_tokens else None
            if view is not None:
                return view
        out = self._copied(np.array([start], np.int64), np.array([count], np.int64))
        out.flags.writeable = False
        return out

    def _copied(self, starts: Int64s, counts: Int64s, out: Array | None = None) -> Array:
        """The runs one after another."""
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if out is None:
            out = np.empty(total, self.dtype)
        elif out.dtype != self.dtype or out.shape != (total,) or not out.flags.carray:
            raise ValueError(
                f"out must be a writable contiguous array of {self.dtype} with shape ({total},), not {out.dtype} with "
                f"{out.shape}"
            )
        places = ends - counts
        if len(self._groups) == 1:
            self._groups[0].copy(starts, counts, places, out)
            return out
        for end, group in zip(self._token_ends.tolist(), self._groups):
            low, high = np.maximum(starts, end - group.n_tokens), np.minimum(starts + counts, end)
            some = low < high
            first, n = low[some], (high - low)[some]
            group.copy(first - (end - group.n_tokens), n, (places + (low - starts))[some], out)
        return out

    def _runs(self) -> tuple[Int64s, Int64s]:
        """The runs of tokens that the documents are, and their lengths: one for each range of documents."""
        runs: tuple[list[Int64s], list[Int64s]] = [], []
        for piece, end in zip(self._pieces, self._ends.tolist()):
            first = end - len(piece)
            if isinstance(piece, range) and piece.step == 1 and len(piece) > 0:
                starts, counts = self._spans(np.array([first, end - 1], np.int64))
                starts, counts = starts[:1], starts[1:] + counts[1:] - starts[:1]
            else:
                starts, counts = self._spans(np.arange(first, end, dtype=np.int64))
            runs[0].append(starts)
            runs[1].append(counts)
        if not runs[0]:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(runs[0]), np.concatenate(runs[1])

    # ---- The rest ----

    def close(self) -> None:
        """Unmaps the files; this list and all its views then raise ClosedError. Raises BusyError while arrays over the
        files are alive."""
        for group in self._groups:
            group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        base.close_after(self, error)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        raise TypeError("documents have several lengths: t.gather(numbers) joins them, t.windows(length) stacks them")

    def __repr__(self) -> str:
        files = sum(len(group.paths) for group in self._groups)
        return f"TokenList({len(self):,} documents of {self.dtype} in {files:,} files)"


_BLOCK = 4096  # documents that an iterator locates at once


class Lengths(Sequence):  # type: ignore[type-arg]
    """The lengths of the documents of a TokenList. Numpy and PackSampler read it in ranges."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: TokenList) -> None:
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: Any) -> Any:
        n = len(self._tokens)
        if isinstance(index, slice):
            return self._tokens._spans(np.arange(*index.indices(n), dtype=np.int64))[1]
        if getattr(index, "ndim", 0) or not hasattr(index, "__index__"):
            return self._tokens._spans(positions(index, n))[1]
        return int(self._tokens._spans(positions([operator.index(index)], n))[1][0])

    def __iter__(self) -> Iterator[int]:
        for first in range(0, len(self), _BLOCK):
            yield from self[first : first + _BLOCK].tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("lengths are read from the files: leave copy=False out")
        out: Int64s = self[:]
        return out if dtype is None else out.astype(dtype)

    def __repr__(self) -> str:
        return f"<lengths of {self._tokens!r}>"
