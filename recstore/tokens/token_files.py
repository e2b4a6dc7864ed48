"""The files of one format as one sequence of documents and one sequence of tokens.

A document is a run of tokens: the number of its first token in all files together, and its length. Each format has its
own way to find the run of a document. Tokens are then read by run alone, whatever the format.
"""

from __future__ import annotations

import os
from _bisect import bisect_left, bisect_right

import numpy as np

from recstore._core import native
from recstore.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    from recstore._core.native import FileMaps
    from recstore.containers.records import RecordList
    from recstore.tokens.ends import SharedEnds

    Int64s: TypeAlias = NDArray[np.int64]
    Array: TypeAlias = NDArray[Any]


def stamps_of(paths: Sequence[str]) -> bytes:
    """The size, modification time and inode of each file, as native.FileMaps takes them. Raises OSError."""
    states = map(os.stat, paths)
    return np.array([(s.st_size, s.st_mtime_ns, s.st_ino) for s in states], np.int64).tobytes()


class TokenFiles:
    """Mapped files, each one document. `offsets` are the bytes before the tokens of each file, `token_ends` the number
    of tokens in each file and those before it."""

    def __init__(self, files: FileMaps, dtype: np.dtype[Any], offsets: Int64s, token_ends: Int64s) -> None:
        self.files, self.dtype, self.offsets, self.token_ends = files, dtype, offsets, token_ends
        self.n_tokens = int(token_ends[-1]) if len(token_ends) else 0
        self.n_documents = len(token_ends)

    @property
    def paths(self) -> list[str]:
        return self.files.paths

    def spans(self, documents: Int64s) -> tuple[Int64s, Int64s]:
        """The number of the first token of each document, and its length."""
        starts = np.where(documents > 0, self.token_ends[documents - 1], 0)
        return starts, self.token_ends[documents] - starts

    def copy(self, starts: Int64s, counts: Int64s, places: Int64s, out: Array) -> None:
        """Copies runs of tokens to their places in `out`, a contiguous array of `dtype`."""
        size = self.dtype.itemsize
        native.copy_tokens(self.files, self.token_ends, self.offsets, size, starts, counts, places, out)

    def view(self, start: int, count: int) -> Array | None:
        """A read-only array over a run of tokens; None if the run is in several files."""
        i = bisect_right(self.token_ends, start)
        if count == 0 or start + count > self.token_ends[i]:
            return None
        first = start - int(self.token_ends[i - 1]) if i else start
        size = self.dtype.itemsize
        return np.frombuffer(self.files.lease(i, int(self.offsets[i]) + first * size, count * size), self.dtype)

    def require_open(self) -> None:
        """Raises ClosedError after `close`."""
        self.files.require_open()

    def close(self) -> None:
        """Raises BusyError, and closes nothing, while arrays over the files are alive."""
        self.files.close()


class MegatronFiles(TokenFiles):
    """Pairs of ``.bin`` and ``.idx`` files. `document_ends` counts the documents as `token_ends` does the tokens."""

    def __init__(
        self, files: FileMaps, dtype: np.dtype[Any], token_ends: Int64s, indexes: FileMaps, document_ends: Int64s
    ) -> None:
        super().__init__(files, dtype, np.zeros(len(token_ends), np.int64), token_ends)
        self.indexes, self.document_ends = indexes, document_ends
        self.n_documents = int(document_ends[-1]) if len(document_ends) else 0

    def spans(self, documents: Int64s) -> tuple[Int64s, Int64s]:
        starts, counts = np.empty(len(documents), np.int64), np.empty(len(documents), np.int64)
        size = self.dtype.itemsize
        native.index_spans(
            self.indexes, self.files, self.document_ends, self.token_ends, size, documents, starts, counts
        )
        return starts, counts

    def close(self) -> None:
        super().close()
        self.indexes.close()


class EndTokenFiles(TokenFiles):
    """Flat files whose documents end with an end token. `ends` has the number of tokens up to the end of each
    document."""

    def __init__(
        self, files: FileMaps, dtype: np.dtype[Any], offsets: Int64s, token_ends: Int64s, ends: SharedEnds
    ) -> None:
        super().__init__(files, dtype, offsets, token_ends)
        self.ends, self.n_documents = ends, len(ends.store())

    def spans(self, documents: Int64s) -> tuple[Int64s, Int64s]:
        return spans_of(self.ends.store(), documents)

    def close(self) -> None:
        super().close()
        self.ends.close()


class RecordFiles:
    """Stores of this library whose records are the documents; `column` is a list or a field of lists or arrays of
    ints."""

    def __init__(self, files: FileMaps, dtype: np.dtype[Any], column: Any, ends: SharedEnds) -> None:
        self.files, self.dtype, self.column, self.ends = files, dtype, column, ends
        self.n_documents = len(column)
        self.n_tokens = ends.store()[-1] if self.n_documents else 0

    @property
    def paths(self) -> list[str]:
        return self.files.paths

    def spans(self, documents: Int64s) -> tuple[Int64s, Int64s]:
        """As for TokenFiles."""
        return spans_of(self.ends.store(), documents)

    def copy(self, starts: Int64s, counts: Int64s, places: Int64s, out: Array) -> None:
        """As for TokenFiles."""
        ends = self.ends.store()
        for start, count, place in zip(starts.tolist(), counts.tolist(), places.tolist()):
            if count == 0:
                continue
            first = bisect_right(ends, start)
            last = bisect_left(ends, start + count, first)
            before = ends[first - 1] if first else 0
            values, _ = read_documents(self.column, first, last + 1, self.dtype)
            out[place : place + count] = values[start - before : start - before + count]

    def view(self, start: int, count: int) -> Array | None:
        """None: the records are decoded."""
        return None

    def require_open(self) -> None:
        """Raises ClosedError after `close`."""
        self.files.require_open()

    def close(self) -> None:
        """Closes the stores."""
        self.files.close()
        self.column.close()
        self.ends.close()


def spans_of(ends: RecordList[int], documents: Int64s) -> tuple[Int64s, Int64s]:
    """The spans of documents whose ends are the records of a list."""
    n = len(documents)
    if n and documents[-1] - documents[0] == n - 1 and bool((documents[1:] - documents[:-1] == 1).all()):
        first = int(documents[0])  # a range is read several times as fast as numbers in any order
        bounds = np.asarray(ends[max(first - 1, 0) : first + n], np.int64)
        bounds = bounds if first else np.concatenate(([0], bounds))
        return bounds[:-1], bounds[1:] - bounds[:-1]
    both = np.asarray(ends[np.concatenate((documents, np.maximum(documents - 1, 0)))], np.int64)
    starts = np.where(documents > 0, both[n:], 0)
    return starts, both[:n] - starts


def read_documents(column: Any, first: int, last: int, dtype: np.dtype[Any] | None) -> tuple[Array, Int64s]:
    """`(tokens, offsets)` of the documents [first, last) of a column. Raises InputError unless all are lists or arrays
    of ints that `dtype` can hold; None: any."""
    from recstore.containers import columns

    def where(i: int) -> str:
        return f"document {first + i}"

    view = column[first:last]
    gathered = native.read_column(view)
    try:
        if gathered is None:
            values, offsets = columns.from_values(list(view), True, where)
        else:
            values, offsets = columns.from_gathered(gathered, True, where)
    except ValueError as error:
        raise InputError(f"a document is a list or an array of ints: {error}") from None
    if len(values) == 0:
        return np.empty(0, dtype or np.int64), offsets
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise InputError(f"{where(0)} and the next hold {values.dtype}; a document is a list or an array of ints")
    if dtype is not None and values.dtype != dtype:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        wrong = np.flatnonzero((values < low) | (values > high))
        if len(wrong):
            i = bisect_right(offsets, wrong[0]) - 1
            raise InputError(f"{where(i)} has the token {values[wrong[0]]}, which {dtype} cannot hold: give dtype=")
        values = values.astype(dtype)
    return values, offsets
