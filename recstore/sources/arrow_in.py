"""`sources.table`: tables of pyarrow, polars, DuckDB and other libraries that export Arrow arrays or streams, as
records. `RecordList(table)` uses this too. pandas_in and hf_in read pandas and Hugging Face datasets."""

from __future__ import annotations

from recstore.lazy_names import named_arguments
from recstore.sources.table_rows import ARRAY, STREAM, ArrowRows, checked, exports, is_pandas
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from typing_extensions import Unpack

    from recstore._types import ArrowArray, ArrowStream, Missing, Nanoseconds
    from recstore.sources import Source
    from recstore.sources.table_rows import How, TableRows

__all__ = ["table"]


@named_arguments
def table(
    table: ArrowStream | ArrowArray | Iterable[ArrowStream] | Iterable[ArrowArray],
    *,
    columns: Iterable[str] | None = None,
    missing: Missing = "none",
    nanoseconds: Nanoseconds = "exact",
) -> Source[Any]:
    """The rows of another library's table, each a dict, or the values of a column. Reading creates no Python objects
    and lets other threads run. ``RecordList(table)`` reads a table with the default arguments.

    Args:
        table: an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a table, column or stream of pyarrow,
            polars, DuckDB and other libraries; a DataFrame or Series of pandas; a Dataset or IterableDataset of Hugging
            Face; or an iterable of tables, which is read one by one.
        columns: the names of the columns to read, in this order. None for all.
        missing: "none" stores None for a null field of a row or struct, "absent" omits its key.
        nanoseconds: how to store timestamps and durations in nanoseconds, which do not fit Python's types: "exact" as
            datetimes and timedeltas, with an EncodeError for a value that is not a whole microsecond; "floor" rounds
            such a value down; "numpy" stores numpy.datetime64 and timedelta64, in UTC and without the zone.

    Values have the types of pyarrow's ``to_pylist()``; ``docs/tables.md`` lists the differences, and the rules for
    pandas and Hugging Face. The building process itself appends the rows, whatever `workers` is.
    :func:`recstore.shared` needs a `fingerprint`.

    Raises TypeError for another object. A build raises InputError for data that break the rules of the interface, two
    columns with the same name, and a name in `columns` that the table lacks; EncodeError for a value that Python's type
    cannot hold; and the exceptions of the producer. Safe from several threads at once; the building thread reads the
    table.

    >>> import pyarrow, recstore
    >>> rows = pyarrow.table({"path": ["a.jpg", "b.jpg"], "label": [1, None]})
    >>> with recstore.RecordList(table(rows, missing="absent")) as x: x.to_list()
    [{'path': 'a.jpg', 'label': 1}, {'path': 'b.jpg'}]
    """
    options = checked(columns, missing, nanoseconds)
    return source_of(table, **options) or ArrowRows(_checked_iterable(table), **options)


def source_of(source: Any, **how: Unpack[How]) -> TableRows | None:
    """The source of a table or column, with the keyword arguments of ArrowRows; None for any other object.

    Raises TypeError for an object that holds several tables, and for a lazy frame.
    """
    kind = type(source)
    library = kind.__module__.partition(".")[0]
    if library == "datasets":
        from recstore.sources import hf_in

        return hf_in.source_of(source, **how)
    if is_pandas(source):
        from recstore.sources import pandas_in

        return pandas_in.PandasRows(source, **how)
    if exports(source):
        return ArrowRows(source, **how)
    if library == "polars" and hasattr(kind, "collect"):
        raise TypeError(f"records is {an(kind.__name__)}, which has no rows yet: write RecordList(frame.collect())")
    return None


def _checked_iterable(source: Any) -> Any:
    """`source`, which must be an iterable of tables. Raises TypeError for another object."""
    if isinstance(source, (str, bytes, dict)) or not hasattr(type(source), "__iter__"):
        raise TypeError(
            f"table() reads a table, which is an object with {STREAM} or {ARRAY}, or an iterable of tables, not "
            f"{an(type(source).__name__)}"
        )
    return source
