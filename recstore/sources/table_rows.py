"""Sources of tables, which append rows to a builder, and the arguments that all readers of tables share."""

from __future__ import annotations

import sys
from functools import partial

from recstore._core import native
from recstore.building import build_options, streaming
from recstore.building import progress as bars
from recstore.building.source import Source
from recstore.errors import InputError
from recstore.shm import registry
from recstore.sources import reading
from recstore.text import an
from recstore.values.zone_spans import zone_spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypedDict

    from typing_extensions import Unpack

    from recstore._types import Missing, Nanoseconds

    class How(TypedDict, total=False):
        """The keyword arguments of TableRows."""

        columns: list[str] | None
        missing: Missing
        nanoseconds: Nanoseconds


STREAM, ARRAY = "__arrow_c_stream__", "__arrow_c_array__"
_BAR_ROWS = 1 << 16  # rows per step of a progress bar
_DECODED_ROWS = 1 << 12  # rows decoded to Python objects at once
_HOW = {"missing": ("none", "absent"), "nanoseconds": ("exact", "floor", "numpy")}


def exports(source: object) -> bool:
    """Whether an object exports Arrow."""
    return hasattr(type(source), STREAM) or hasattr(type(source), ARRAY)


def is_pandas(source: object) -> bool:
    """Whether an object is a pandas DataFrame or Series, or of a subclass without its own Arrow export."""
    pandas = sys.modules.get("pandas")
    for base in (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)):
        if isinstance(base, type) and isinstance(source, base):
            return getattr(type(source), STREAM, None) is getattr(base, STREAM, None)
    return False


def checked(columns: Iterable[str] | None, missing: Missing, nanoseconds: Nanoseconds) -> How:
    """Checks the arguments, and returns them as keyword arguments of TableRows. Raises TypeError and ValueError."""
    for name, value in (("missing", missing), ("nanoseconds", nanoseconds)):
        build_options.check_choice(name, value, _HOW[name])
    names = reading.keys_of(columns)
    for name in names or ():
        if type(name) is not str:
            raise TypeError(f"columns must be names, not {name!r:.60}")
    return {"columns": names, "missing": missing, "nanoseconds": nanoseconds}


class TableRows(Source):
    """The rows of tables. Subclasses implement `parts`.

    `columns`: the names of the columns to read, in this order; None for all. `missing`: "none" stores None for a null
    field of a row or struct, "absent" omits it. `nanoseconds`: "exact", "floor" or "numpy".
    """

    rows: int | None = None  # the number of rows, if known
    schema: Any = None  # the schema that check_names checked last

    def __init__(
        self, columns: list[str] | None = None, missing: Missing = "none", nanoseconds: Nanoseconds = "exact"
    ) -> None:
        self.columns = columns
        self.missing: Missing = missing
        self.nanoseconds: Nanoseconds = nanoseconds

    def parts(self) -> Iterator[Any]:
        """Yields the rows in order, in tables that export Arrow or in lists of records."""
        raise NotImplementedError

    def _identity(self) -> str:
        if self.fingerprint is None:
            raise TypeError("a table does not identify its data; give fingerprint=, a text that identifies it")
        return self.fingerprint

    def append_to(self, builder: Any) -> None:
        self._fill(builder, False)

    def _fill(self, builder: Any, progress: bool) -> None:
        # This process appends all rows, which is faster than sending them to workers.
        with bars.Bar(progress, self.rows) as bar:
            for part in self.parts():
                if isinstance(part, list):
                    builder.extend(part)
                    bar.advance(len(part))
                else:
                    self._append(part, builder, bar)
                part = None  # frees the table before the next one exists

    def _append(self, table: Any, builder: Any, bar: bars.Bar) -> None:
        self.check_names(table)
        names = None if self.columns is None else [name.encode("utf-8", "surrogatepass") for name in self.columns]
        reader = native.ArrowReader(table, zone_spans, names, self.missing == "absent", self.nanoseconds)
        append = _appending(builder)
        try:
            while reader.next():
                while reader.left:
                    bar.advance(append(reader, _BAR_ROWS if bar.rich_bar is not None else reader.left))
        finally:
            reader.close()

    def check_names(self, table: Any) -> None:
        """Raises InputError for a column or field with a NUL in its name, which Arrow's C interface cannot hold:
        pyarrow would truncate the name, and polars would abort the process."""
        library, schema = type(table).__module__.partition(".")[0], getattr(table, "schema", None)
        if library == "pyarrow":
            if schema is not None and schema == self.schema:
                return
            names = _names([("", table.type)] if schema is None else ((field.name, field.type) for field in schema))
        elif library == "polars":
            names = _names([(table.name, table.dtype)] if schema is None else schema.items())
        else:
            return
        for name in names:
            if "\0" in name:
                raise InputError(f"the column or field {name!r:.80} has a NUL in its name; rename it")
        self.schema = schema


def _appending(builder: Any) -> Callable[[native.ArrowReader, int], int]:
    """`append(reader, most)`: a function that appends up to `most` rows of an ArrowReader to a builder, and returns
    their number."""
    if isinstance(builder, (native.Builder, native.ListEncoder)):
        return lambda reader, most: reader.append_to(builder, most)
    # A writer of shards has append_rows, which checks the size of the shard between runs of rows.
    return getattr(builder, "append_rows", None) or partial(_append_decoded, builder)


def _names(pairs: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The names of Arrow fields and their nested fields, from pairs `(name, type)` of pyarrow or polars."""
    for name, kind in pairs:
        yield name
        children = [kind.field(i) for i in range(kind.num_fields)] if hasattr(kind, "num_fields") else ()
        yield from _names((child.name, child.type) for child in children)
        while hasattr(kind, "inner"):
            kind = kind.inner
        yield from _names((child.name, child.dtype) for child in getattr(kind, "fields", None) or () if not children)


class ArrowRows(TableRows):
    """The rows of an object that exports Arrow, or of an iterable of such objects."""

    def __init__(self, source: Any, **how: Unpack[How]) -> None:
        super().__init__(**how)
        _refuse_objects(source)
        self.source = source
        self.is_single = exports(source)
        self.left = 1 if hasattr(type(source), "__next__") else sys.maxsize  # how often the source can still be read
        if self.is_single and hasattr(type(source), "__len__"):
            self.rows = len(source)

    def parts(self) -> Iterator[Any]:
        if not self.left:
            raise InputError(
                f"the source was read before, and {an(type(self.source).__name__)} can be read only once: make another"
            )
        self.left -= 1
        if self.is_single:
            yield self.source
            return
        for number, part in enumerate(self.source):
            if not exports(part):
                kind = an(type(part).__name__)
                raise InputError(
                    f"item {number} is {kind}, which does not export Arrow; for an iterable of records write "
                    "RecordList(records)"
                )
            yield part


def _refuse_objects(source: Any) -> None:
    """Raises InputError for a polars table with a column of Python objects, because polars would export addresses."""
    if type(source).__module__.partition(".")[0] != "polars":
        return
    kinds = source.schema if hasattr(source, "schema") else {source.name: source.dtype}
    for name, kind in kinds.items():
        if str(kind) == "Object":
            raise InputError(
                f"the column {name!r} holds Python objects, which polars cannot export: drop or cast it, or write "
                "RecordList(frame.iter_rows(named=True))"
            )


def plain_rows(table: Any, missing: Missing, nanoseconds: Nanoseconds) -> list[Any]:
    """The rows of a table as Python objects, with the values that a store would return."""
    return _decoded(ArrowRows(table, missing=missing, nanoseconds=nanoseconds))


# ---- A user's builders, which take only Python objects ----


class _Run(Source):
    """The next rows of an ArrowReader, up to `most`. `append_to` sets `count` to their number."""

    def __init__(self, reader: native.ArrowReader, most: int) -> None:
        self.reader, self.most = reader, most

    def append_to(self, builder: Any) -> None:
        self.count = self.reader.append_to(builder, self.most)


def _append_decoded(builder: Any, reader: native.ArrowReader, most: int) -> int:
    run = _Run(reader, min(most, _DECODED_ROWS))
    builder.extend(_decoded(run))
    return run.count


def _decoded(source: Source) -> list[Any]:
    built = streaming.build_records(source, build_options.Options(compression="none"))
    with registry.container_of(built) as store:
        rows: list[Any] = store.to_list()
        return rows
