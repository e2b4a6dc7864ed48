"""The sources of a build: `Feed`, the base class of the readers of files and tables, and the checks of the argument of
RecordList and RecordDict. Mappings and functions are refused, because iteration over them gives no records. The error
says which call gives the records."""

from _collections_abc import Mapping, Sequence

from recstore._core import native
from recstore.text import an


class Feed:
    """A source that appends its records to a builder by itself, instead of being iterated over. The base class of all
    readers of files and tables.

    `options` are the build_options.Options to build with, or None for those that the caller of the build gives.
    """

    options = None
    pairs = False  # whether the records are the (key, value) pairs of a mapping
    attributes = None  # what holds for all records: a dict that JSON can express, known once all records were appended

    def fill(self, builder, options):
        """Appends all records to `builder`: a native.Builder, or in a worker process the ListEncoder of a shard. It
        shows a progress bar if options.progress is true. In a worker `options` is None."""
        raise NotImplementedError

    def shards(self):
        """The parts to read with workers=N, in order: a list of picklable shards. A shard is an iterable of records or
        a Feed. None: the feed is not divided, and the building process appends its records. The default is one shard,
        this feed."""
        return [self]

    def report(self):
        """What `fill` has to tell at its end, as a picklable value. A worker sends it back."""
        return None

    def told(self, reports):
        """Called at the end with the reports of all parts, in order."""

    def check(self):
        """Called after all records were appended. Raises InputError if the source changed meanwhile."""


def items_of(source):
    """The iterable whose items are those of `source`. A sequence without an ``__iter__`` of its own, such as a
    map-style dataset, is read by its length: Python's iteration would take an IndexError within ``__getitem__`` for the
    end."""
    kind = type(source)
    if not hasattr(kind, "__getitem__") or getattr(kind, "__iter__", None) not in (None, Sequence.__iter__):
        return source
    try:
        return _by_length(source, len(source))
    except (TypeError, NotImplementedError):  # no length
        return source


def _by_length(source, n):
    for number in range(n):
        try:
            item = source[number]
        except IndexError as error:
            raise IndexError(f"record {number:,} of a {type(source).__name__} of {n:,}: {error}") from error
        yield item
        item = None  # frees the record before the next one is made


def feed_of(source):
    """The Feed that reads `source`: itself for a Feed, one over its Arrow arrays for a table or column of another
    library (pyarrow, polars, pandas, Hugging Face datasets and others). None for any other object."""
    if isinstance(source, Feed):
        return source
    kind = type(source)
    # A store, and the keys or values of a mapping, give records as they are, which Arrow may not hold.
    if isinstance(source, (native.Records, native.Mapping)) or kind.__module__.partition(".")[0] == "recstore":
        return None
    exports = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")
    # Old versions of pandas export no Arrow, nor do datasets and frames of polars that have to be collected.
    if not exports and kind.__module__.partition(".")[0] not in ("pandas", "polars", "datasets"):
        if not hasattr(kind, "__dataframe__"):
            return None
    from recstore.sources import arrow_in

    return arrow_in.feed_of(source)


def check_records(source, workers=0):
    """Raises TypeError for a source of a RecordList that is a str, a table, a mapping or a function. With workers,
    parallel_build checks a mapping."""
    kind = type(source).__name__
    if isinstance(source, (str, bytes)):
        ways = "give an iterable of records, e.g. [records]; recstore.read_jsonl, read_csv and others read files"
        raise TypeError(f"records is {an(kind)}; {ways}")
    if hasattr(type(source), "__fspath__") and not hasattr(type(source), "__iter__"):
        raise TypeError(
            f"records is {an(kind)}, a path; recstore.read_jsonl, read_csv, read_lines and others read files"
        )
    rows = rows_of_table(source)
    if rows is not None:
        raise TypeError(
            f"records is {an(kind)}, a table, which does not iterate over its rows: write RecordList({rows})"
        )
    if isinstance(source, native.Mapping):
        ways = "RecordList(d.values()), RecordList(d.keys()) or RecordList(d.items())"
        raise TypeError(f"records is {an(kind)}, which iterates over its keys: write {ways}")
    if isinstance(source, Mapping) and not workers:
        ways = "RecordDict(d) to keep its keys, or RecordList(d.values())"
        raise TypeError(f"records is {an(kind)}, which iterates over its keys: write {ways}")
    _refuse_function("records", source, "RecordList")


def check_pairs(source):
    """Raises TypeError for a source of a RecordDict that is a table or a function."""
    rows = rows_of_table(source)
    if rows is not None:
        rows = 'df.to_dict("index")' if rows == _PANDAS else f"(row[key], row) for row in {rows}"
        raise TypeError(f"the mapping is {an(type(source).__name__)}, a table of columns: write RecordDict({rows})")
    _refuse_function("the mapping", source, "RecordDict")


_PANDAS = 'df.to_dict("records")'


def rows_of_table(source):
    """The expression that gives the rows of a DataFrame or an Arrow table as dicts; None for any other source.

    A single column (a Series of pandas or polars) is no table: iteration over it gives its values.
    """
    kind = type(source)
    has_columns = hasattr(kind, "schema") or hasattr(kind, "columns")
    if not hasattr(kind, "__dataframe__") and not (hasattr(kind, "__arrow_c_stream__") and has_columns):
        return None
    if hasattr(kind, "to_dicts"):
        return "df.to_dicts()"
    if hasattr(kind, "to_pylist"):
        return "table.to_pylist()"
    if hasattr(kind, "read_all"):
        return "reader.read_all().to_pylist()"
    return _PANDAS if hasattr(kind, "to_dict") else "rows, an iterable with a dict for each row"


def _refuse_function(what, source, container):
    kind = type(source)
    if callable(source) and not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        name = getattr(source, "__name__", "function")
        called = f"{name}()" if name.isidentifier() else "function()"
        raise TypeError(f"{what} is {an(kind.__name__)}, which has to be called first: write {container}({called})")
