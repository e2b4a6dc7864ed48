"""Values of a field to a numpy array: from numbers that the core gathered, or from the decoded values, with the same
answer.

Imported by ``to_numpy``, never by ``import recstore``.
"""

import operator

import numpy as np

_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)
_REMEDY = "read it with to_list(), or give ragged=True"


def positions(indices, length):
    """Indices as an array of positions; IndexError, TypeError."""
    out = np.fromiter((operator.index(i) for i in indices), np.int64)
    wrong = np.flatnonzero((out < -length) | (out >= length))
    if len(wrong):
        raise IndexError(f"index {out[wrong[0]]} is out of range: {length} records")
    out[out < 0] += length
    return out.tolist()


def from_numbers(numbers, seen, lengths, ragged, where):
    """The column of numbers gathered as 8 bytes each: i64, or f64 when `seen` says so. `lengths` is None for
    scalars."""
    array = np.frombuffer(numbers, np.float64 if seen & 4 else np.int64)
    if seen == 1:
        array = array.astype(np.bool_)
    if lengths is None:
        return _no_lists(array, ragged)
    return _lists(array, np.frombuffer(lengths, np.int64), ragged, where)


def _no_lists(array, ragged):
    if ragged:
        raise ValueError("ragged=True is for lists, and these are none")
    return array


def _lists(array, lengths, ragged, where):
    """Rows where all lists are of one length, unless told otherwise; else values and offsets."""
    alike = len(lengths) == 0 or bool((lengths == lengths[0]).all())
    if ragged is None:
        ragged = not alike
    if ragged:
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return array, offsets
    if not alike:
        i = int(np.flatnonzero(lengths != lengths[0])[0])
        raise ValueError(f"{where(i)} has {lengths[i]} elements, others {lengths[0]}: {_REMEDY}")
    return array.reshape(len(lengths), int(lengths[0]) if len(lengths) else 0)


def from_values(values, ragged, where):
    """The column of decoded values."""
    kinds = {_kind(value) for value in values}
    if not values:
        return _lists(np.empty(0), np.empty(0, np.int64), True, where) if ragged else np.empty(0)
    if kinds == {"list"}:
        return _from_lists(values, ragged, where)
    if kinds == {"array"}:
        return _from_arrays(values, ragged, where)
    if kinds & {"number", "list", "array"} and kinds != {"number"}:
        kind = next(kind for kind in ("number", "list", "array") if kind in kinds)
        odd = next(i for i, value in enumerate(values) if _kind(value) != kind)
        what = f"{_brief(values[odd])} among {kind}s"
        raise ValueError(f"{where(odd)} is {what}: a column of numbers takes nothing else; use to_list()")
    if kinds == {"number"}:
        return _no_lists(_from_numbers(values), ragged)
    if kinds == {"scalar"} and len({type(value) for value in values}) == 1:
        return _no_lists(_from_scalars(values), ragged)
    return _no_lists(_from_text(values) if kinds == {"text"} else _objects(values), ragged)


def _kind(value):
    t = type(value)
    if t is int or t is float or t is bool:
        return "number"
    if t is list or t is tuple:
        return "list"
    if t is str:
        return "text"
    if isinstance(value, np.ndarray):
        return "array"
    return "scalar" if isinstance(value, np.generic) and value.dtype.kind in "biufcmM" else "other"


def _brief(value):
    return "None" if value is None else f"a {type(value).__name__}"


def _from_numbers(values):
    """Never a dtype in which an int is another number, but for floats among them, as numpy does."""
    types = set(map(type, values))
    if float in types:
        try:
            return np.array(values, np.float64)
        except OverflowError:
            return _objects(values)
    if types == {bool}:
        return np.array(values, np.bool_)
    if all(value in _INT64 for value in values):
        return np.array(values, np.int64)
    return np.array(values, np.uint64) if all(value in _UINT64 for value in values) else _objects(values)


def _from_scalars(values):
    """numpy scalars of one type; times may differ in unit, and numpy then finds the finer one."""
    return np.array(values)


def _from_text(values):
    dtypes = getattr(np, "dtypes", None)
    if hasattr(dtypes, "StringDType"):
        try:
            return np.array(values, dtypes.StringDType())
        except UnicodeEncodeError:  # lone surrogates
            pass
    return _objects(values)


def _objects(values):
    out = np.empty(len(values), object)
    for i, value in enumerate(values):  # one by one: numpy would look into sequences
        out[i] = value
    return out


def _from_lists(values, ragged, where):
    """Lists of numbers by their lengths; deeper ones where all are of one shape; others as objects."""
    flat = [item for value in values for item in value]
    kinds = set(map(_kind, flat))
    if kinds <= {"number"}:
        array = _from_numbers(flat) if flat else np.empty(0, np.int64)
        return _lists(array, np.array([len(value) for value in values], np.int64), ragged, where)
    if "number" in kinds:
        odd = next(i for i, value in enumerate(values) if {_kind(item) for item in value} - {"number"})
        item = next(item for item in values[odd] if _kind(item) != "number")
        raise ValueError(f"{where(odd)} holds {_brief(item)} among numbers: use to_list()")
    if kinds == {"list"}:
        return _from_nested(values, ragged, where)
    return _no_lists(_objects(values), ragged)


def _from_nested(values, ragged, where):
    shapes = [_shape(value) for value in values]
    for i, shape in enumerate(shapes):
        if shape is None or shape != shapes[0]:
            what = "several lengths" if shape is None else f"shape {shape}, others {shapes[0]}"
            remedy = "use to_list(), or the fields within, field((name, 0))"
            raise ValueError(f"{where(i)} holds nested lists of {what}, which no array holds: {remedy}")
    if ragged:
        raise ValueError("ragged=True is for lists of numbers, and these are nested")
    flat = values
    for _ in shapes[0]:
        flat = [item for value in flat for item in value]
    if {_kind(item) for item in flat} <= {"number"}:
        return _from_numbers(flat).reshape(len(values), *shapes[0])
    raise ValueError(f"{where(0)} holds nested lists of what are not all numbers: use to_list()")


def _shape(value):
    """The shape of nested lists; None where they are uneven."""
    if type(value) not in (list, tuple):
        return ()
    inner = {_shape(item) for item in value}
    if len(inner) > 1 or None in inner:
        return None
    return (len(value), *(inner.pop() if inner else ()))


def _from_arrays(values, ragged, where):
    """Arrays of one shape stack; of one dimension and several lengths they are ragged."""
    dtypes = {value.dtype for value in values}
    if len(dtypes) > 1 and not all(dtype.kind in "biufc" for dtype in dtypes):
        i = _other(values, "dtype")
        raise ValueError(f"{where(i)} is an array of another dtype than that of the first: use to_list()")
    if all(value.ndim == 1 for value in values):
        return _lists(np.concatenate(values), np.array([len(value) for value in values], np.int64), ragged, where)
    if len({value.shape for value in values}) > 1:
        i = _other(values, "shape")
        shapes = f"{values[i].shape}, the first one's is {values[0].shape}"
        raise ValueError(f"{where(i)} is an array of shape {shapes}: use to_list()")
    if ragged:
        raise ValueError("ragged=True is for lists and arrays of one dimension")
    return np.stack(values)


def _other(values, attribute):
    return next(i for i, value in enumerate(values) if getattr(value, attribute) != getattr(values[0], attribute))
