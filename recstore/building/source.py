"""Where the records of a build come from: `Source`, the base class of the readers of files and tables, and the checks
of the argument of RecordList and RecordDict. They refuse arguments that do not iterate over records, such as functions;
the message suggests a call that does."""

from __future__ import annotations

import os
from _collections_abc import Mapping, Sequence

from recstore._core import native
from recstore.errors import InputError
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Generic, Protocol

    from typing_extensions import TypeVar, Unpack

    from recstore._types import BuildOptions

    _T_co = TypeVar("_T_co", covariant=True, default=Any)

    class _Builder(Protocol):
        """The destination of a Source's records."""

        def extend(self, records: Iterable[Any], /) -> None: ...

else:
    _T_co = None
    Generic = {_T_co: object}  # so that a class may name its parameter without typing


class Source(Generic[_T_co]):
    """Records to be read when a store is built: the result of the functions of ``recstore.sources``, and the base class
    for sources of your own. Pass it to :class:`recstore.RecordList`, or to :class:`recstore.RecordDict` if `pairs` is
    true; to :func:`recstore.shared`; or to the ``write`` of a :class:`recstore.remote.ShardWriter`.

    A subclass defines :meth:`append_to`, and :meth:`split` if worker processes should read parts of it. It may set
    these attributes, on the class or on its objects:

    - ``pairs``: True if its records are the (key, value) pairs of a mapping.
    - ``attributes``: a dict that JSON can express, which a list keeps as ``x.attributes``; it may be set while the
      records are appended.
    - ``files``: the paths of the files that it reads. A build raises InputError if one of them changes while it runs.
    - ``fingerprint``: for `recstore.shared`, a text that identifies the data. If None, it is derived from the code and
      the attributes of the source. The sizes, times and inodes of `files` are added.

    A source is a description: it can be read several times, and pickled to other processes.

    >>> from recstore import RecordList
    >>> class Squares(Source):
    ...     def __init__(self, start, stop):
    ...         self.start, self.stop = start, stop
    ...     def append_to(self, builder):
    ...         builder.extend({"n": n, "square": n * n} for n in range(self.start, self.stop))
    ...     def split(self):
    ...         return [Squares(n, min(n + 100, self.stop)) for n in range(self.start, self.stop, 100)]
    >>> with RecordList(Squares(0, 250)) as x: len(x), x[-1]
    (250, {'n': 249, 'square': 62001})
    """

    pairs: bool = False
    attributes: dict[str, Any] | None = None
    files: Sequence[str | os.PathLike[str]] = ()
    fingerprint: str | None = None

    if not TYPE_CHECKING:

        def __class_getitem__(cls, item):
            return cls

    def append_to(self, builder: _Builder) -> None:
        """Appends all records, in order, by any number of calls of ``builder.extend(records)``. An exception ends the
        build, and no part of the store remains."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define append_to(builder), which appends its records"
        )

    def split(self) -> Sequence[Source[_T_co] | Iterable[_T_co]] | None:
        """The parts that worker processes read, in order: sources or iterables that can be pickled. With None, the
        default, the building process appends all records."""
        return None

    def save(self, path: str | os.PathLike[str], **options: Unpack[BuildOptions]) -> None:
        """Builds the store in the file `path` instead of memory; :func:`recstore.open` reads it. `options` are those of
        :class:`recstore.RecordList`, without `name` and `backing`.

        Raises the exceptions of a build and of ``x.save(path)``. After an error an older file at `path` is
        unchanged.
        """
        from recstore.building import streaming

        streaming.save(self, path, options)

    # ---- Steps of a build that the readers of the package redefine ----

    def _begun(self) -> Source[_T_co]:
        """The source for one build, which keeps the state of that build."""
        return _Watched(self) if self.files else self

    def _fill(self, builder: Any, progress: bool) -> None:
        """Appends all records, with a progress bar if `progress` is true."""
        from recstore.building import progress as bars

        with bars.Bar(progress) as bar:
            append: Any = self.append_to
            returned = append(bars.Counting(builder, bar) if progress else builder)
        if returned is not None:
            raise TypeError(
                f"append_to() of {an(type(self).__name__)} returned {an(type(returned).__name__)}; it appends the "
                "records: builder.extend(records)"
            )

    def _check(self) -> None:
        """Called after all records were appended. Raises InputError if the source has changed since `_begun`."""

    def _report(self) -> object:
        """The report of `_fill`, a picklable value that a worker sends back, or None."""
        return None

    def _take_reports(self, reports: list[Any]) -> None:
        """Called at the end with the reports of all parts, in order."""

    def _identity(self) -> str:
        """The fingerprint for `shared`, the same in every process on the machine."""
        from recstore.building import fingerprints

        build = self.append_to if self.fingerprint is None else None
        text: str = fingerprints.full(build, self.fingerprint, self.files or None)
        return text


Source.__module__ = "recstore.sources"


class _Watched(Source):
    """A source with `files`, during a build."""

    def __init__(self, source: Source) -> None:
        from recstore.building import fingerprints

        self.source, self.pairs, self.files = source, source.pairs, paths_of(source.files)
        self.of_files = fingerprints.of_files
        self.stamps = [self.of_files(path) for path in self.files]

    @property
    def attributes(self) -> dict[str, Any] | None:  # type: ignore[override]  # set while the records are appended
        return self.source.attributes

    def split(self) -> Sequence[Any] | None:
        return parts_of(self.source)

    def _fill(self, builder: Any, progress: bool) -> None:
        self.source._fill(builder, progress)

    def _identity(self) -> str:
        return self.source._identity()

    def _check(self) -> None:
        for path, stamp in zip(self.files, self.stamps):
            if self.of_files(path) != stamp:
                raise InputError(f"{path}: the file changed while it was read; read it again when it is complete")


def parts_of(source: Source) -> Sequence[Any] | None:
    """The result of a source's `split`. Raises TypeError if it is not a sequence of parts."""
    parts: Any = source.split()
    if parts is not None and (isinstance(parts, (str, bytes, bytearray)) or not isinstance(parts, Sequence)):
        raise TypeError(
            f"split() of {an(type(source).__name__)} returned {an(type(parts).__name__)}; it returns a list of sources "
            "or iterables, one for each part, or None"
        )
    return parts


def append_all(source: Source, builder: Any) -> Source:
    """Appends all records of a source to a builder. Returns the source made for this build, with complete
    `attributes`."""
    source = source._begun()
    source._fill(builder, False)
    source._check()
    source._take_reports([source._report()])
    return source


def append_part(part: Source, builder: Any) -> object:
    """Appends all records of one part of a source. Returns the part's report, for `_take_reports` of the whole
    source. Returns None if the part keeps its own state, and so takes its report itself."""
    source = part._begun()
    source._fill(builder, False)
    report = source._report()
    if source is not part:
        source._check()
        source._take_reports([report])
        return None
    return report


def paths_of(files: Any) -> Sequence[Any]:
    """The attribute `files` of a source, as a sequence even if it is a single path."""
    return [files] if isinstance(files, (str, bytes, os.PathLike)) else files


def items_of(source: Any) -> Any:
    """An iterable over the items of `source`. A sequence without its own ``__iter__``, such as a map-style dataset, is
    read by its length: Python's iteration would treat any IndexError from ``__getitem__`` as the end."""
    kind = type(source)
    if not hasattr(kind, "__getitem__") or getattr(kind, "__iter__", None) not in (None, Sequence.__iter__):
        return source
    try:
        return _by_length(source, len(source))
    except (TypeError, NotImplementedError):  # no length
        return source


def _by_length(source: Any, n: int) -> Iterator[Any]:
    for number in range(n):
        try:
            item = source[number]
        except (IndexError, StopIteration) as error:
            # A generator may not raise StopIteration.
            kind = IndexError if isinstance(error, IndexError) else RuntimeError
            raise kind(f"record {number:,} of {an(type(source).__name__)} of {n:,}: {error!r}") from error
        yield item
        item = None  # frees the record before the next one is made


def source_of(source: object) -> Source | None:
    """The Source that reads `source`: `source` itself if it is a Source; for a table or column of another library
    (pyarrow, polars, pandas, Hugging Face datasets and others), a Source over its Arrow arrays. None for any other
    object."""
    if isinstance(source, Source):
        return source
    kind = type(source)
    # Stores, and the keys or values of a mapping, may have records that Arrow cannot hold.
    if isinstance(source, (native.Records, native.Mapping)) or kind.__module__.partition(".")[0] == "recstore":
        return None
    exports = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")
    # Old versions of pandas do not export Arrow, nor do datasets and polars' LazyFrames.
    if not exports and kind.__module__.partition(".")[0] not in ("pandas", "polars", "datasets"):
        if not hasattr(kind, "__dataframe__"):
            return None
    from recstore.sources import arrow_in

    return arrow_in.source_of(source)


def check_records(source: object, workers: int = 0) -> None:
    """Raises TypeError for a source of a RecordList that is a Source of pairs, a str, bytes, a path, a table, a mapping
    or a function. With workers, parallel_build refuses a Mapping."""
    kind = type(source).__name__
    if isinstance(source, Source):
        if source.pairs:
            raise TypeError(f"records is {an(kind)} of (key, value) pairs: write RecordDict(source)")
        return
    if isinstance(source, (str, bytes)):
        remedy = "give an iterable of records, e.g. [records]; recstore.read_jsonl, read_csv and others read files"
        raise TypeError(f"records is {an(kind)}; {remedy}")
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
        remedy = "RecordList(d.values()), RecordList(d.keys()) or RecordList(d.items())"
        raise TypeError(f"records is {an(kind)}, which iterates over its keys: write {remedy}")
    if isinstance(source, Mapping) and not workers:
        remedy = "RecordDict(d) to keep its keys, or RecordList(d.values())"
        raise TypeError(f"records is {an(kind)}, which iterates over its keys: write {remedy}")
    _refuse_function("records", source, "RecordList")


def check_pairs(source: object) -> None:
    """Raises TypeError for a source of a RecordDict that is a Source of records, a table or a function."""
    if isinstance(source, Source):
        if not source.pairs:
            raise TypeError(
                f"the mapping is {an(type(source).__name__)} of records, not of pairs: write RecordList(source)"
            )
        return
    rows = rows_of_table(source)
    if rows is not None:
        rows = 'df.to_dict("index")' if rows == _PANDAS else f"(row[key], row) for row in {rows}"
        raise TypeError(f"the mapping is {an(type(source).__name__)}, a table of columns: write RecordDict({rows})")
    _refuse_function("the mapping", source, "RecordDict")


_PANDAS = 'df.to_dict("records")'


def rows_of_table(source: object) -> str | None:
    """The expression that gives the rows of a DataFrame or an Arrow table as dicts; None for any other source.

    A single column (a Series of pandas or polars) is not a table: iteration over it gives its values.
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


def _refuse_function(argument: str, source: object, container: str) -> None:
    kind = type(source)
    if callable(source) and not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        name = getattr(source, "__name__", "function")
        call = f"{name}()" if name.isidentifier() else "function()"
        raise TypeError(f"{argument} is {an(kind.__name__)}; call it first: write {container}({call})")
