"""Records as Arrow tables and pandas DataFrames. A column comes from one column read if the core can make it, else from
decoded values. ``to_arrow`` and ``to_pandas`` import this module, which then imports pyarrow or pandas."""

import numpy as np

from recstore import columns
from recstore._core import native

_NAN = float("nan")
_SMALL = 2**31 - 1  # the most bytes or elements of Arrow types with 32-bit offsets
_MISSING = object()


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


# ---- Arrow ----


def arrow_array(view, positions=None):
    """The items of a view as a pyarrow.Array."""
    pyarrow = _pyarrow()
    gathered = native.read_column(view, positions, nulls=True)
    out = None if gathered is None else _from_gathered(pyarrow, gathered)
    if out is None:
        return pyarrow.array(list(view) if positions is None else [view[int(i)] for i in positions])
    return out


def _from_gathered(pyarrow, gathered):
    shape, n, numbers, seen, offsets, text, valid = gathered
    bits = None if valid is None else pyarrow.py_buffer(np.packbits(np.frombuffer(valid, np.uint8), bitorder="little"))
    if shape == "scalars":
        return _numbers(pyarrow, numbers, seen, n, bits)
    offsets = np.frombuffer(offsets, np.int64)
    small = offsets[-1] <= _SMALL
    bounds = pyarrow.py_buffer(offsets.astype(np.int32) if small else offsets)
    if shape == "texts":
        kind = pyarrow.string() if small else pyarrow.large_string()
        return pyarrow.Array.from_buffers(kind, n, [bits, bounds, pyarrow.py_buffer(text)])
    if seen not in (1, 2, 4, 6):  # pyarrow refuses bools among other numbers, and finds no type for empty lists alone
        return None
    values = _numbers(pyarrow, numbers, seen, int(offsets[-1]), None)
    kind = (pyarrow.list_ if small else pyarrow.large_list)(values.type)
    return pyarrow.Array.from_buffers(kind, n, [bits, bounds], children=[values])


def _numbers(pyarrow, numbers, seen, n, bits):
    if seen == 1:
        packed = np.packbits(np.frombuffer(numbers, np.uint8), bitorder="little")
        return pyarrow.Array.from_buffers(pyarrow.bool_(), n, [bits, pyarrow.py_buffer(packed)])
    kind = pyarrow.float64() if seen & 4 else pyarrow.int64()
    return pyarrow.Array.from_buffers(kind, n, [bits, pyarrow.py_buffer(numbers)])


def to_arrow(records):
    """A Table of records that are dicts, else an Array of them."""
    pyarrow = _pyarrow()
    names = _names(records)
    if names is None:
        return _arrow_rows(pyarrow, list(records))
    found = {}
    for name in names:
        view = records.field((name,), default=None)
        column = arrow_array(view)
        if column.null_count < len(records) or _has(records, name):
            found[name] = column
    return pyarrow.table(found)


def _arrow_rows(pyarrow, rows):
    if not rows or not all(type(row) is dict for row in rows):
        return pyarrow.array(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    return pyarrow.table({name: pyarrow.array([row.get(name) for row in rows]) for name in _checked(names)})


# ---- pandas ----


def series(view, positions=None):
    """The items of a field view as a pandas.Series."""
    return _pandas().Series(_column(view, positions), name=view.name)


def _column(view, positions=None):
    """An array of numbers or a list, of which pandas makes the same column as of the list of values."""
    gathered = native.read_column(view, positions)
    if gathered is not None and gathered[0] == "scalars":
        return columns.numbers_of(gathered[2], gathered[3])
    if gathered is not None and gathered[0] == "texts":
        return columns.texts(gathered[5], np.frombuffer(gathered[4], np.int64))
    return list(view) if positions is None else [view[int(i)] for i in positions]


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
