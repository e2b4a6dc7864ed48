"""Tables of other libraries as records: pyarrow, polars, DuckDB and all others that export Arrow arrays or streams.
`RecordList(table)`, `RecordList.from_arrow` and `recstore.from_polars` end here; pandas and Hugging Face datasets have
modules of their own beside this one."""

from recstore.sources import reading
from recstore.sources.table_feed import ARRAY, STREAM, ArrowFeed, checked, exports, foreign, is_pandas, named
from recstore.text import an

__all__ = ["from_polars"]


def from_arrow(source, *, columns=None, missing="none", nanoseconds="exact", **options):
    """:meth:`recstore.RecordList.from_arrow`."""
    how = checked(columns, missing, nanoseconds)
    feed = feed_of(source, **how) or ArrowFeed(_batches(source), **how)
    return reading.store("RecordList.from_arrow", feed, options, **how)


def from_polars(frame, *, columns=None, missing="none", nanoseconds="exact", **options):
    """A RecordList of the rows of a polars DataFrame, each a dict; of a Series, of its values. A LazyFrame is collected
    first. Keyword arguments and errors are those of :meth:`recstore.RecordList.from_arrow`.

    Raises TypeError for an object that is not of polars. Safe from several threads at once.
    """
    kind = type(frame)
    if kind.__module__.partition(".")[0] != "polars" or not (hasattr(kind, STREAM) or hasattr(kind, "collect")):
        raise TypeError(f"from_polars reads a DataFrame, Series or LazyFrame of polars, not {foreign(frame)}")
    frame = frame if hasattr(kind, STREAM) else frame.collect()
    how = checked(columns, missing, nanoseconds)
    return reading.store("from_polars", ArrowFeed(frame, **how), options, **how)


def feed_of(source, **how):
    """The Feed of a table or column, with the keyword arguments of ArrowFeed; None for an object that is neither.

    Raises TypeError for an object that holds several tables, or that has to be collected first.
    """
    kind = type(source)
    library = kind.__module__.partition(".")[0]
    if library == "datasets":
        from recstore.sources import hf_in

        return hf_in.feed_of(source, **how)
    if is_pandas(source):
        from recstore.sources import pandas_in

        return pandas_in.PandasFeed(source, **how)
    if exports(source):
        return ArrowFeed(source, **how)
    if library == "polars" and hasattr(kind, "collect"):
        raise TypeError(f"records is {an(kind.__name__)}, which has no rows yet: write RecordList(frame.collect())")
    return None


def _batches(source):
    """`source`, which must be an iterable of tables. Raises TypeError for another object."""
    if isinstance(source, (str, bytes, dict)) or not hasattr(type(source), "__iter__"):
        raise TypeError(
            f"from_arrow reads an object with {STREAM} or {ARRAY}, such as a table, or an iterable of such objects; "
            f"{named(source)} is neither"
        )
    return source
