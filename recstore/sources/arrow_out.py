"""Records as Arrow streams, Arrow tables, and DataFrames of polars and pandas.

The core makes the columns without Python objects (recstore/_core/arrow/arrow_out.pyx). If only Python can read some
values, such as enums, this module decodes the records, and the core makes the columns from plain values.
`__arrow_c_stream__`, `to_arrow` and similar methods import this module. It imports pyarrow, polars and pandas lazily.
"""

from __future__ import annotations

import datetime
import enum
import importlib
import itertools
from collections.abc import Mapping

from recstore._core import native
from recstore.building import cores
from recstore.values import ext_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from recstore._core.native import ArrowExport, Records

    _T = TypeVar("_T")
    _Problem = tuple[tuple[str | None, ...], int, int, int]  # a field without an Arrow type, from native.arrow_export

_NAN = float("nan")
_MICROSECOND = datetime.timedelta(microseconds=1)
_SMALL = 2**31 - 1  # the most bytes or elements of Arrow types with 32-bit offsets
_MISSING = object()
_MOST_THREADS = 8
_RECORDS_PER_THREAD = 1 << 17  # two batches; for fewer records a thread takes longer to start than to read


def _library(name: str) -> Any:
    """Imports a library for `to_arrow` or a similar method."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"to_{name.removeprefix('py')} needs {name}: pip install {name}") from None


# ---- Streams ----


class _Stream:
    """Wraps a capsule for libraries that read an object with `__arrow_c_stream__`."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule


def _read(read: Callable[[_Stream], _T], export: ArrowExport) -> _T:
    """Returns `read(stream)` for the stream of an export. If the stream fails, a library raises an error of its own,
    even for a KeyboardInterrupt; this function raises the original error."""
    try:
        return read(_Stream(native.arrow_stream(export)))
    except Exception:
        if export.failure is not None:
            raise export.failure from None
        raise


def stream(records: Any, requested_schema: object = None) -> object:
    """The capsule of a stream: of structs if the records are dicts, tuples or objects, else of values."""
    export = _export(records, exact=False)
    export.settle(True, requested_schema)
    return native.arrow_stream(export)


def _export(records: Records[Any], exact: bool) -> ArrowExport:
    """An ArrowExport with a type for each column. Raises TypeError for a field without an Arrow type."""
    native_export = native.arrow_export(records, exact=exact)
    problems = native_export[1] if native_export else []
    if native_export and not problems:
        return native_export[0]
    for problem in problems:
        _, _, seen, others = problem
        if not seen & _SEEN_OTHER or others & ~_PLAIN_CODES:
            raise _refusal(records, problem)
    export, left = native.arrow_export_of(records, records._unwatched(), _plain, exact=exact)
    for problem in left:
        raise _refusal(records, next((known for known in problems if known[0] == problem[0]), problem))
    return export


def keys(records: Records[Any]) -> list[str] | None:
    """The keys of records that are dicts or None, in order; None if other records are among them."""
    export, problems = native.arrow_export(records) or native.arrow_export_of(records, records._unwatched(), _plain)
    return None if any(not path for path, *_ in problems) else export.names


def _plain(value: Any) -> tuple[int | None, Any, Any] | None:
    """The argument `plain` of native.arrow_export_of: converts a value that only Python reads to a value that the core
    reads. Returns None for other values."""
    kind = type(value)
    if kind is frozenset or kind is set or isinstance(value, native.Records):  # Records are the values of groups
        return None, None, list(value)
    if kind is datetime.datetime and type(value.tzinfo).__name__ == "ZoneInfo":
        since = value.replace(tzinfo=None) - datetime.datetime.min - value.utcoffset()
        return ext_codes.DATETIME, None, (since // _MICROSECOND, 0, value.tzinfo)
    if kind.__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind in "SUT":
        return None, None, value.tolist()
    if isinstance(value, enum.Enum) and isinstance(value, type(value._value_)):
        return None, None, value._value_
    return None


# ---- Messages ----

_KINDS = (
    ("None", "bool", "int", "int", "float", "str", "bytes", "list", "tuple", "dict")
    + ("date", "time", "datetime without a zone", "datetime with a zone", "timedelta", "Decimal", "UUID")
    + ("numpy int8", "numpy int16", "numpy int32", "numpy uint8", "numpy uint16", "numpy uint32")
    + ("numpy float16", "numpy float32", "numpy datetime64", "numpy timedelta64", "int beyond 64 bits", "", "")
)  # in the order of RS_ARROW_SEEN_* in csrc/arrow/rs_arrow_field.h
_SEEN_OTHER = 1 << 28
_WITHOUT_CODE = "numpy array of a dtype without an Arrow type"  # bit 0 of the kinds that only Python reads
# A bit for each kind whose values may have an Arrow type; only decoding shows whether they have one.
_PLAIN_CODES = 1 | sum(1 << getattr(ext_codes, name) for name in (
    "ENUM", "DATETIME", "ZONEINFO", "FROZENSET", "STRINGDTYPE", "NAMEDTUPLE", "DATACLASS", "ATTRS", "OBJECT"
))  # fmt: skip
_MIXED, _OTHER, _BIGINT, _KEY, _DIGITS, _DEPTH = range(1, 7)  # RS_ARROW_PROBLEM_*
REMEDY = "Change it with x.map(...), leave it out with x.fields(...), or read the records with to_list()"


def _refusal(records: Records[Any], problem: _Problem) -> TypeError:
    """The error for a field that has no Arrow type."""
    names, cause, seen, others = problem
    kinds = dict.fromkeys(kind for bit, kind in enumerate(_KINDS) if seen >> bit & 1 and kind)
    kinds.pop("None", None)
    for code in range(native.EXT_LAST + 1):
        if others >> code & 1:
            kinds[native.ext_name(code) if code else _WITHOUT_CODE] = None
    path = "".join("[]" if name is None else f".{name}" for name in names).lstrip(".")
    where = f"the field {path!r}" if path else "the list"
    field = getattr(records.projection, "path", None)
    if field is not None and not path:
        where = f"the field {str(field)!r}"
    if cause == _KEY:
        text = f"column names are strings, but {where} holds a dict with a key that is not a str"
    elif cause == _BIGINT:
        text = f"{where} holds ints that fit neither int64 nor uint64"
    elif cause == _DIGITS:
        text = f"{where} holds Decimals of more than 76 digits, Arrow's maximum"
    elif cause == _DEPTH:
        text = f"{where} holds values nested deeper than the 60 levels that libraries accept"
    elif cause == _OTHER:
        text = f"{where} holds values for which Arrow has no type: {' and '.join(kinds)}"
    elif len(kinds) == 1:
        text = f"{where} holds {next(iter(kinds))} of several units, but an Arrow column has one unit"
    else:
        text = f"{where} holds values of several types, {' and '.join(kinds)}, but an Arrow column has one type"
    return TypeError(f"{text}. {REMEDY}")


# ---- Arrow ----


def arrow_array(view: Records[Any]) -> Any:
    """The items of a view as a pyarrow.Array."""
    return _array(_library("pyarrow"), _export(view, exact=True))


def _array(pyarrow: Any, export: ArrowExport) -> Any:
    export.settle(False)
    return _whole(pyarrow, _read(pyarrow.chunked_array, export))


def _whole(pyarrow: Any, chunked: Any) -> Any:
    """The chunks as one array, with 64-bit offsets if 32 bits do not suffice."""
    if chunked.num_chunks == 1:
        return chunked.chunk(0)
    types, kind = pyarrow.types, chunked.type
    if chunked.nbytes > _SMALL:
        if types.is_string(kind) or types.is_binary(kind):
            chunked = chunked.cast(pyarrow.large_string() if types.is_string(kind) else pyarrow.large_binary())
        elif types.is_list(kind):
            chunked = chunked.cast(pyarrow.large_list(kind.value_type))
    out = chunked.combine_chunks()
    return pyarrow.concat_arrays(out.chunks) if isinstance(out, pyarrow.ChunkedArray) else out


def to_arrow(records: Any, names: Iterable[str] | None = None) -> Any:
    """A Table of records that are dicts, tuples or objects, else an Array of them."""
    pyarrow = _library("pyarrow")
    if names is not None and len(records) == 0:
        return pyarrow.table({name: pyarrow.nulls(0) for name in names})
    export = _export(records, exact=True)
    if not (export.is_rows and len(records)):
        return _named(_array(pyarrow, export), names)
    export.settle(True)
    return _named(_read(pyarrow.table, export), names)


def _named(table: Any, names: Iterable[str] | None) -> Any:
    if names is None:
        return table
    names = list(names)
    columns = getattr(table, "column_names", None)
    if columns is None or len(columns) != len(names):
        count = "no columns" if columns is None else f"{len(columns)} columns"
        raise ValueError(f"{len(names)} names for a table of {count}")
    return table.rename_columns(names)


# ---- polars ----


def to_polars(records: Any) -> Any:
    """A DataFrame of records that are dicts, tuples or objects, else a Series."""
    polars = _library("polars")
    # Not polars.Series(records): polars reads any sequence item by item.
    parts = _in_threads(records, polars.Series)
    series = parts[0] if len(parts) == 1 else polars.concat(parts, rechunk=False)
    return series.struct.unnest() if isinstance(series.dtype, polars.Struct) else series


def _in_threads(records: Records[Any], read: Callable[[_Stream], _T]) -> list[_T]:
    """`[read(stream), ...]` over parts of the records, in as many threads as pay off."""
    n = max(1, min(cores.available(), _MOST_THREADS, len(records) // _RECORDS_PER_THREAD))
    first = _export(records, exact=False)
    if not first.is_sure:
        n = 1
    exports = [first, *(_export(records, exact=False) for _ in range(n - 1))]
    for k, export in enumerate(exports):
        if n > 1:
            export.restrict(len(records) * k // n, len(records) * (k + 1) // n)
        export.settle(True, None, True)
    if n == 1:
        return [_read(read, exports[0])]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(_read, itertools.repeat(read), exports))


# ---- pandas ----


def series(view: Any) -> Any:
    """The items of a field view as a pandas.Series."""
    return _series(_library("pandas"), _column(view), view.name)


def _series(pandas: Any, values: Any, name: Any = None) -> Any:
    """The values as a Series, with dtype object if pandas cannot hold them otherwise: text with lone surrogates, and
    timedelta64 in units that pandas does not have."""
    try:
        return pandas.Series(values, name=name)
    except (TypeError, ValueError, ArithmeticError):
        from recstore.containers import columns

        return pandas.Series(columns.objects(values), dtype=object, name=name)


def _frame(pandas: Any, columns: Mapping[Any, Any]) -> Any:
    frame = pandas.DataFrame(dict(enumerate(columns.values())))
    try:
        frame.columns = pandas.Index(columns)
    except UnicodeEncodeError:  # a name with a lone surrogate
        frame.columns = pandas.Index(columns, dtype=object)
    return frame


def _column(view: Records[Any]) -> Any:
    """The values of a field view, as an array or list from which pandas makes the same column as from a list of the
    values."""
    gathered = native.read_column(view)
    if gathered is not None and gathered[0] in ("scalars", "texts"):
        import numpy as np

        from recstore.containers import columns

        if gathered[0] == "scalars":
            return columns.numbers_of(gathered[2], gathered[3])
        return columns.texts(gathered[5], np.frombuffer(gathered[4], np.int64))
    return list(view._unwatched())


def to_pandas(records: Any) -> Any:
    """A DataFrame of the records."""
    pandas = _library("pandas")
    names = native.field_names(records) if len(records) else None
    if names is None:
        return _frame_of_rows(pandas, list(records))
    columns = {}
    for name in _checked(names):
        column = _series(pandas, _column(records.field((name,), default=_NAN)))
        # field_names has the keys of all records of the store; the records of a view may lack some.
        if not column.isna().all() or any(v is not _MISSING for v in records.field((name,), default=_MISSING)):
            columns[name] = column
    return _frame(pandas, columns)


def _frame_of_rows(pandas: Any, rows: list[Any]) -> Any:
    """The frame that pandas makes from a list, or one with columns of objects if pandas raises. Records of several
    forms become a single column, because pandas would treat all of them like the first."""
    forms = {_form(pandas, row) for row in rows}
    if len(forms) > 1:
        return _frame(pandas, {0: _series(pandas, rows)})
    try:
        return pandas.DataFrame(rows)
    except (TypeError, ValueError, ArithmeticError):
        pass
    if forms == {Mapping}:
        names = _checked([*dict.fromkeys(name for row in rows for name in row)])
        return _frame(pandas, {name: _series(pandas, [row.get(name, _NAN) for row in rows]) for name in names})
    if all(isinstance(row, (list, tuple)) for row in rows):
        columns = list(map(list, itertools.zip_longest(*rows)))
        fields = getattr(rows[0], "_fields", None) or range(len(columns))
        return _frame(pandas, {name: _series(pandas, column) for name, column in zip(fields, columns)})
    return _frame(pandas, {0: _series(pandas, rows)})


def _form(pandas: Any, row: object) -> type | None:
    """How pandas treats a record: as a Mapping, an object of a class with fields, a list, or a value (None)."""
    kind = type(row)
    if isinstance(row, Mapping):
        return Mapping
    if hasattr(kind, "_fields") or hasattr(kind, "__dataclass_fields__"):
        return kind
    return list if pandas.api.types.is_list_like(row) else None


def _checked(names: list[Any]) -> list[str]:
    for name in names:
        if type(name) is not str:
            raise TypeError(f"column names are strings, but records have the key {name!r:.60}: use to_list()")
    return names
