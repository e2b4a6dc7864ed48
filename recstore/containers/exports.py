"""Exports to table libraries. The methods import `recstore.sources` when they are called."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["TableExports"]


class TableExports:
    """A mixin for RecordList and its views."""

    __slots__ = ()
    if TYPE_CHECKING:
        _require: Callable[[], None]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A PyCapsule with an Arrow C stream of the records, as used by ``pyarrow.table(x)`` and DuckDB's ``select ...
        from x``.

        Batches of up to 65,536 records are made on demand, without Python objects and without the GIL, unless only
        Python can read some values, such as enums. The types come from the blocks that the view reads, not from single
        records, so parts of a store usually have one schema. A record without a key, or with None, gives null; a record
        that is None gives a row of nulls. `requested_schema` changes the widths of integers, text and lists where no
        value can be lost, and is ignored elsewhere.

        A batch has private memory and outlives the store. A stream keeps the store alive; if the store is closed, the
        next batch of the stream is an error. Only one thread at a time may use a stream; each thread may use its own.

        Raises TypeError for a field without an Arrow type, with its name. An error while reading a record is an error
        of the stream.
        """
        from recstore.sources import arrow_out

        self._require()
        return arrow_out.stream(self, requested_schema)

    def to_arrow(self, *, names: Iterable[str] | None = None) -> Any:
        """A pyarrow.Table if records are dicts, tuples of one length, or objects with fields, else a pyarrow.Array.
        The columns are the keys, the numbers of a tuple's items (``"0"``, ``"1"``), or the fields; `names` renames
        them. A record without the key, or with None, gives null. Columns are made without Python objects, except in
        tables with values that only Python can read, such as enums.

        Raises TypeError for a field of several types, with its name, and for keys that are not str; ValueError for
        text with a lone surrogate, for an int beyond 2^53 among floats and for the wrong number of `names`; ImportError
        without pyarrow. Safe from several threads at once.

        >>> from recstore import RecordList
        >>> RecordList([("a.jpg", 0), ("b.jpg", 1)]).to_arrow(names=["path", "label"]).to_pylist()
        [{'path': 'a.jpg', 'label': 0}, {'path': 'b.jpg', 'label': 1}]
        """
        from recstore.sources import arrow_out

        self._require()
        return arrow_out.to_arrow(self, names)

    def to_polars(self) -> Any:
        """A polars.DataFrame of the records, or a polars.Series of other values, made from the stream of
        ``__arrow_c_stream__``. ``polars.DataFrame(x)`` gives an equal DataFrame, but reads `x` record by record.

        Raises TypeError for a field without an Arrow type, ImportError without polars. Safe from several threads at
        once.
        """
        from recstore.sources import arrow_out

        self._require()
        return arrow_out.to_polars(self)

    def to_pandas(self) -> Any:
        """The same pandas.DataFrame as ``DataFrame(x.to_list())``; columns of numbers are made without Python objects.
        Values of types that pandas lacks, and records of several forms, become a column of objects.

        Raises TypeError for keys that are not str, ImportError without pandas. Safe from several threads at once.
        """
        from recstore.sources import arrow_out

        self._require()
        return arrow_out.to_pandas(self)
