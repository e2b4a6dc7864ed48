"""The values that samplers read from a store: a number for each record, or the records of each group.

Both come from a field (``x.field("n_tokens")``), or from a sequence, an array or a tensor with a value for each record.
"""

from __future__ import annotations

from recstore import errors
from recstore._core import native
from recstore.containers import grouping
from recstore.containers.fields import FieldView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.uint32] | NDArray[np.int64]


def numbers_of(values: Any, noun: str) -> NDArray[Any]:
    """A numpy array of one number for each record. Raises TypeError for values that are not numbers; the message calls
    them `noun`."""
    import numpy

    if isinstance(values, FieldView):
        column, source = values.to_numpy(), f"the field {values.name!r}"
        if isinstance(column, tuple):
            raise TypeError(
                f"{source} holds lists, but a {noun} is a number: use the lengths of the lists, numpy.diff(offsets)"
            )
    elif isinstance(values, (str, bytes)) or not (hasattr(values, "__len__") or hasattr(values, "__array__")):
        raise TypeError(f"give a field, a sequence or an array with a {noun} for each record, not {_named(values)}")
    else:
        column, source = numpy.asarray(values), type(values).__name__
    if column.ndim != 1:
        raise TypeError(f"{source} has the shape {column.shape}: it must have one dimension, a {noun} for each record")
    if len(column) and column.dtype.kind not in "biuf":
        raise TypeError(f"{source} holds values of type {column.dtype}, but a {noun} is a number: give a field of "
                        f"numbers, such as x.field('{noun}')")  # fmt: skip
    return column


class Groups:
    """The records grouped by value.

    A row is a position in the list of records sorted by group. Attributes: ``keys``, the value of each group;
    ``starts``, int64: the first row of each group, then the number of records. ``read`` maps rows to records.
    The rows of a field take `width` bytes per record; if the index was saved with the store, they stay in the file."""

    def __init__(self, keys: Any, starts: NDArray[np.int64], rows: Any, width: int) -> None:
        self.keys, self.starts, self.rows, self.width = keys, starts, rows, width

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of records of each group."""
        return self.starts[1:] - self.starts[:-1]

    def read(self, out: NDArray[np.int64]) -> None:
        """Replaces the row numbers in an int64 array with record numbers."""
        if isinstance(self.rows, native.Blob):
            native.read_entries(self.rows, self.width, out)
        elif self.rows is not None:
            out[:] = self.rows[out]

    def __getstate__(self) -> dict[str, Any]:
        import numpy

        rows = self.rows
        if isinstance(rows, native.Blob):
            rows = numpy.frombuffer(rows.content(), f"<u{self.width}")
        return {"keys": None, "starts": self.starts, "rows": rows, "width": self.width}


def groups_of(values: Any) -> Groups:
    """The Groups of the records by a field, or by a sequence with a value for each record. Raises TypeError for
    unhashable values, KeyError for a record that lacks the field, CorruptError for a damaged saved index."""
    import numpy

    starts: Any
    if isinstance(values, FieldView):
        keys, starts, rows, width = grouping.rows_of(values)
        starts = numpy.frombuffer(starts.content(), f"<u{width}").astype(numpy.int64)
        if starts[0] != 0 or starts[-1] != len(values) or (numpy.diff(starts) < 1).any():
            raise errors.CorruptError(f"the groups of the saved index by {values.name!r} do not fit its records")
        return Groups(keys, starts, rows, width)
    distinct, codes = _codes_of(values)
    starts = numpy.zeros(len(distinct) + 1, numpy.int64)
    numpy.cumsum(numpy.bincount(codes, minlength=len(distinct)), out=starts[1:])
    return Groups(distinct, starts, small(numpy.argsort(codes, kind="stable")), 0)


def _named(values: Any) -> str:
    """The type of `values` for a message; for a str, also the call that reads the field of that name."""
    return f"str: write x.field({values!r:.60})" if isinstance(values, str) else type(values).__name__


def _codes_of(values: Any) -> tuple[Sequence[Any], NDArray[np.int64]]:
    """The distinct values of a sequence, and the number of each record's value among them."""
    import numpy

    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise TypeError(f"give a field, a sequence or an array with a value for each record, not {_named(values)}")
    if hasattr(values, "__array__"):
        column = numpy.asarray(values)
        if column.ndim != 1:
            raise TypeError(
                f"the array has the shape {column.shape}: it must have one dimension, a value for each record"
            )
        if column.dtype.kind != "O":
            keys, codes = numpy.unique(column, return_inverse=True)
            return keys.tolist(), codes
    numbers: dict[Any, int] = {}
    codes = numpy.fromiter((numbers.setdefault(value, len(numbers)) for value in values), numpy.int64, len(values))
    return list(numbers), codes


def small(rows: NDArray[Any]) -> Rows:
    """Row numbers as uint32 if they fit."""
    import numpy

    return rows.astype(numpy.uint32) if len(rows) == 0 or rows.max() < 1 << 32 else rows
