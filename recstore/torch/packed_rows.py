"""Row: a row of documents, or of parts of documents, which PackSampler makes and Fields reads. Needs no PyTorch.

Also how Fields reads rows and documents of a TokenList."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from recstore._core import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from recstore.tokens.token_list import TokenList

    Int64s: TypeAlias = NDArray[np.int64]

__all__ = ["Row"]


class Row:
    """A row of documents, or of parts of documents: an item of :class:`PackSampler`.

    ``documents``, ``starts`` and ``counts`` are read-only int64 arrays of one length: the row has the tokens
    ``starts[i] : starts[i] + counts[i]`` of document ``documents[i]``, one part after another. ``Fields`` reads rows:
    ``f[[row, row]]``. A Row is immutable, hashable and small when pickled.

    >>> from recstore.torch import Row
    >>> Row([4, 7], [0, 5], [3, 2]).shifted(10)
    Row([14, 17], [0, 5], [3, 2])
    """

    __slots__ = ("_parts",)

    def __init__(self, documents: Any, starts: Any, counts: Any) -> None:
        self._parts: NDArray[Any] = numpy.array([documents, starts, counts], numpy.int64)
        self._parts.flags.writeable = False

    @property
    def documents(self) -> Int64s:
        """The number of the document of each part."""
        out: Int64s = self._parts[0]
        return out

    @property
    def starts(self) -> Int64s:
        """The first token of each part in its document."""
        out: Int64s = self._parts[1]
        return out

    @property
    def counts(self) -> Int64s:
        """The number of tokens of each part."""
        out: Int64s = self._parts[2]
        return out

    def shifted(self, n: int) -> Row:
        """The same parts of the documents whose numbers are greater by `n`."""
        return Row(self.documents + n, self.starts, self.counts)

    def __eq__(self, other: object) -> bool:
        return numpy.array_equal(self._parts, other._parts) if isinstance(other, Row) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._parts.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return _row_of_bytes, (self._parts.tobytes(),)

    def __repr__(self) -> str:
        return f"Row({', '.join(str(part.tolist()) for part in self._parts)})"


def _row_of_bytes(data: bytes) -> Row:
    return row_of(numpy.frombuffer(data, numpy.int64).reshape(3, -1))


def row_of(parts: NDArray[Any]) -> Row:
    """A Row of a copy of an array with the documents, starts and counts: faster than the constructor."""
    out = object.__new__(Row)
    out._parts = parts.astype(numpy.int64)
    out._parts.flags.writeable = False
    return out


class Parts(NamedTuple):
    """The parts of the rows of a batch, one row after another."""

    documents: Int64s
    starts: Int64s
    counts: Int64s
    ends: Int64s  # of each row: the end of its parts


def are_rows(indices: Any) -> bool:
    """Whether `indices` is a list of rows. Raises TypeError for a list that begins with a row and has other items."""
    if not isinstance(indices, (list, tuple)) or not indices or not isinstance(indices[0], Row):
        return False
    for item in indices:
        if not isinstance(item, Row):
            raise TypeError(f"a batch has rows of a PackSampler or indices, not both: {item!r:.60}")
    return True


def parts_of(rows: Sequence[Row]) -> Parts:
    """The parts of some rows."""
    ends = numpy.cumsum([row._parts.shape[1] for row in rows], dtype=numpy.int64)
    documents, starts, counts = numpy.concatenate([row._parts for row in rows], axis=1)
    return Parts(documents, starts, counts, ends)


def read_tokens(x: TokenList, spec: native.GatherSpec, indices: Any, allocate: Callable[[int], Any]) -> Any:
    """The parts of a packed field, as a Gather returns them, of documents or rows of a TokenList."""
    if are_rows(indices):
        documents, starts, counts, ends = parts_of(indices)
        return native.gather_rows(spec, x.gather(documents, starts, counts), starts, counts, ends, allocate)
    documents = numpy.array(memoryview(indices), numpy.int64)
    counts = x.lengths[documents]
    return native.gather_rows(spec, x.gather(documents), numpy.zeros_like(counts), counts, None, allocate)
