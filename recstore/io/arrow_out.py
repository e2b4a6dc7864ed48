"""Records as Arrow streams, Arrow tables and pandas DataFrames.

The core makes the columns without Python objects (recstore/_core/arrow_out.pyx). Columns of values that only Python
reads, such as enums, are made of decoded values by pyarrow. `__arrow_c_stream__`, `to_arrow` and the like import this
module. It imports pyarrow, polars or pandas only where it needs them.
"""

import itertools

from recstore._core import native
from recstore.build import cores

_NAN = float("nan")
_SMALL = 2**31 - 1  # the most bytes or elements of Arrow types with 32-bit offsets
_MISSING = object()
_MOST_THREADS = 8
_RECORDS_A_THREAD = 1 << 17  # two batches: fewer records are read sooner than threads start


def _pyarrow():
    try:
        import pyarrow
    except ImportError:
        raise ImportError("to_arrow needs pyarrow: pip install pyarrow") from None
    return pyarrow


def _pandas():
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install pandas") from None
    return pandas


# ---- Streams ----


class _Stream:
    """What pyarrow reads a stream from."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self._capsule


def _read(read, export):
    """`read(stream)` of an export. Libraries make an error of their own of one in the middle of a stream, even of a
    KeyboardInterrupt; here the first one comes out."""
    try:
        return read(_Stream(native.arrow_stream(export)))
    except Exception:
        if export.failure is not None:
            raise export.failure from None
        raise


def stream(records, requested_schema=None, views=False):
    """The capsule of a stream of the records: of structs if they are dicts, tuples or objects, else of their values.
    With `views`, text is of the types with views."""
    exported = native.arrow_export(records)
    if exported is not None and not exported[1]:
        exported[0].settle(True, requested_schema, views)
        return native.arrow_stream(exported[0])
    for problem in exported[1] if exported else ():
        if problem[1] not in (_MIXED, _OTHER):
            raise _refusal(records, problem)
    try:
        import pyarrow
    except ImportError:
        raise (_refusal(records, exported[1][0]) if exported else _unread(records)) from None
    table = to_arrow(records)
    chunked = table if isinstance(table, pyarrow.Table) else pyarrow.chunked_array([table])
    return chunked.__arrow_c_stream__(requested_schema)


def _unread(records):
    return ImportError(
        "the items of this view are read by Python code, so their export needs pyarrow: pip install pyarrow"
    )


# ---- Messages ----

_KINDS = (
    ("None", "bool", "int", "int", "float", "str", "bytes", "list", "tuple", "dict")
    + ("date", "time", "datetime without a zone", "datetime with a zone", "timedelta", "Decimal", "UUID")
    + ("numpy int8", "numpy int16", "numpy int32", "numpy uint8", "numpy uint16", "numpy uint32")
    + ("numpy float16", "numpy float32", "numpy datetime64", "numpy timedelta64", "int beyond 64 bits", "", "")
)  # in the order of RS_ARROW_SEEN_* in csrc/read/rs_arrow_field.h
_MIXED, _OTHER, _BIGINT, _KEY, _DIGITS, _DEPTH = range(1, 7)  # RS_ARROW_PROBLEM_*
_REMEDY = "Change it with x.map(...), leave it out with x.fields(...), or read the records with to_list()"


def _refusal(records, problem):
    """The error for a field that has no Arrow type."""
    names, why, seen, other = problem
    found = dict.fromkeys(kind for bit, kind in enumerate(_KINDS) if seen >> bit & 1 and kind)
    found.pop("None", None)
    if seen >> 28 & 1:
        found[native.ext_name(other) if other else "numpy array of a dtype without an Arrow type"] = None
    path = "".join("[]" if name is None else f".{name}" for name in names).lstrip(".")
    where = f"the field {path!r}" if path else "the records"
    if getattr(records.projection, "path", None) is not None and not path:
        where = f"the field {str(records.projection.path)!r}"
    if why == _KEY:
        return TypeError(f"a table has columns by str, and {where} have a key that is no str. {_REMEDY}")
    if why == _BIGINT:
        text = f"{where} holds ints that neither 64 bits with a sign nor 64 bits without one hold"
    elif why == _DIGITS:
        text = f"{where} holds Decimals of more than 76 digits, Arrow's most"
    elif why == _DEPTH:
        text = f"{where} lies deeper than the 60 levels that libraries accept"
    elif why == _OTHER:
        text = f"{where} holds values for which Arrow has no type: {' and '.join(found)}"
    else:
        text = f"{where} holds values of several types, {' and '.join(found)}, and an Arrow column has one"
    return TypeError(f"{text}. {_REMEDY}")


# ---- Arrow ----


def arrow_array(view):
    """The items of a view as a pyarrow.Array."""
    pyarrow = _pyarrow()
    exported = native.arrow_export(view, exact=True)
    if exported is None:
        return _made(pyarrow, list(view._unwatched()))
    if exported[1]:
        return _decoded(pyarrow, view, list(view._unwatched()), exported[1][0])
    exported[0].settle(False)
    return _whole(pyarrow, _read(pyarrow.chunked_array, exported[0]))


def _made(pyarrow, values):
    """The array that pyarrow makes of values. It puts bytes beside text in a list of text unchecked: ArrowInvalid where
    they are not UTF-8."""
    out = pyarrow.array(values)
    out.validate(full=True)
    return out


def _decoded(pyarrow, records, values, problem):
    """The array that pyarrow makes of decoded values of which the core has no type."""
    try:
        return _made(pyarrow, values)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise _refusal(records, problem) from e


def _whole(pyarrow, chunked):
    """The chunks as one array, of a type with 64-bit offsets where 32 bits do not suffice."""
    if chunked.num_chunks == 1:
        return chunked.chunk(0)
    types = pyarrow.types
    kind = chunked.type
    if chunked.nbytes > _SMALL:
        if types.is_string(kind) or types.is_binary(kind):
            chunked = chunked.cast(pyarrow.large_string() if types.is_string(kind) else pyarrow.large_binary())
        elif types.is_list(kind):
            chunked = chunked.cast(pyarrow.large_list(kind.value_type))
    out = chunked.combine_chunks()
    return pyarrow.concat_arrays(out.chunks) if isinstance(out, pyarrow.ChunkedArray) else out


def to_arrow(records, names=None):
    """A Table of records that are dicts, tuples or objects, else an Array of them."""
    pyarrow = _pyarrow()
    exported = native.arrow_export(records, exact=True)
    if exported is None:
        return _named(_arrow_rows(pyarrow, list(records)), names)
    export, problems = exported
    if any(not path for path, *_ in problems):
        return _decoded(pyarrow, records, list(records), problems[0])
    if not problems and not (export.is_rows and len(records)):
        export.settle(False)
        return _whole(pyarrow, _read(pyarrow.chunked_array, export))
    if problems:
        return _named(_mixed_table(pyarrow, records, export.names(), problems), names)
    export.settle(True)
    return _named(_read(pyarrow.table, export), names)


def _mixed_table(pyarrow, records, names, problems):
    """A table of which the core makes some columns and pyarrow, of decoded values, those with problems."""
    wrong = {}
    for problem in problems:
        wrong.setdefault(problem[0][0], problem)
    found = {}
    good = [name for name in names if name not in wrong]
    if good:
        export, _ = native.arrow_export(records, good, exact=True)
        export.settle(True)
        table = _read(pyarrow.table, export)
        found = dict(zip(table.column_names, table.columns))
    for name, problem in wrong.items():
        values = [None if row is None else row.get(name) for row in records._only([(name,)])]
        found[name] = _decoded(pyarrow, records, values, problem)
    return pyarrow.table({name: found[name] for name in names if name in found})


def _named(table, names):
    if names is None:
        return table
    names = list(names)
    found = getattr(table, "column_names", None)
    if found is None or len(found) != len(names):
        count = "no columns" if found is None else f"{len(found)} columns"
        raise ValueError(f"{len(names)} names for a table of {count}")
    return table.rename_columns(names)


def _arrow_rows(pyarrow, rows):
    if not rows or not all(type(row) is dict for row in rows):
        return _made(pyarrow, rows)
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:  # the number of rows is all that the table has
        empty = pyarrow.array(rows, pyarrow.struct([]))
        return pyarrow.Table.from_batches([pyarrow.RecordBatch.from_struct_array(empty)])
    return pyarrow.table({name: _made(pyarrow, [row.get(name) for row in rows]) for name in _checked(names)})


# ---- polars ----


def to_polars(records):
    """A DataFrame of records that are dicts, tuples or objects, else a Series."""
    try:
        import polars
    except ImportError:
        raise ImportError("to_polars needs polars: pip install polars") from None
    # polars reads any sequence item by item; a stream by itself is none.
    parts = _in_threads(records, polars.Series)
    made = parts[0] if len(parts) == 1 else polars.concat(parts, rechunk=False)
    return made.struct.unnest() if isinstance(made.dtype, polars.Struct) else made


def _in_threads(records, read):
    """`[read(stream), ...]` of as many parts of the records as threads are worth while."""
    n = max(1, min(cores.available(), _MOST_THREADS, len(records) // _RECORDS_A_THREAD))
    exports = [native.arrow_export(records) for _ in range(n)]
    if exports[0] is None or exports[0][1]:
        return [read(_Stream(stream(records, views=True)))]
    if not all(export.is_sure for export, _ in exports):
        n = 1
    exports = [export for export, _ in exports[:n]]
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


def series(view):
    """The items of a field view as a pandas.Series."""
    return _pandas().Series(_column(view), name=view.name)


def _column(view):
    """An array of numbers or a list, of which pandas makes the same column as of the list of values."""
    gathered = native.read_column(view)
    if gathered is not None and gathered[0] in ("scalars", "texts"):
        import numpy as np

        from recstore import columns

        if gathered[0] == "scalars":
            return columns.numbers_of(gathered[2], gathered[3])
        return columns.texts(gathered[5], np.frombuffer(gathered[4], np.int64))
    return list(view._unwatched())


def to_pandas(records):
    """A DataFrame of the records."""
    pandas = _pandas()
    names = _names(records)
    if names is None:
        return pandas.DataFrame(list(records))
    found = {}
    for name in names:
        column = pandas.Series(_column(records.field((name,), default=_NAN)))
        if not column.isna().all() or _has(records, name):
            found[name] = column
    return pandas.DataFrame(found)


# ---- Names ----


def _names(records):
    """The keys of the records if the core knows all of them to be dicts, else None. Raises TypeError for a key that is
    no str."""
    if len(records) == 0:
        return None
    names = native.field_names(records)
    return None if names is None else _checked(names)


def _checked(names):
    for name in names:
        if type(name) is not str:
            raise TypeError(f"a table has columns by str, and records have the key {name!r:.60}: use to_list()")
    return names


def _has(records, name):
    """Whether at least one record has the key. The schema trees name the keys of all records of a store, of which a
    view may have only some."""
    return any(value is not _MISSING for value in records.field((name,), default=_MISSING))
