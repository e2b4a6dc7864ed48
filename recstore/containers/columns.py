"""The numpy array of a field: from the result of a column read of the core, or from decoded values, with equal results.
``to_numpy`` and ``__array__`` import this module; ``import recstore`` does not."""

from __future__ import annotations

import numpy as np

from recstore._core import native
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from numpy.typing import DTypeLike, NDArray

    from recstore._core.native import Buffer, Gathered

    _Column: TypeAlias = NDArray[Any] | tuple[NDArray[Any], NDArray[np.int64]]  # the pair: values, offsets
    _Where: TypeAlias = Callable[[int], str]  # the number of an item -> its name in messages

_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)
_EXACT = 2**53  # up to here a float holds every int
_REMEDY = "read it with to_list(), or give ragged=True"


def from_gathered(gathered: Gathered, ragged: bool | None, where: _Where) -> _Column:
    """The column for a result of `native.read_column`."""
    shape, n, numbers, seen, offsets, text = gathered
    if shape == "texts":
        return _no_lists(strings(text, np.frombuffer(offsets, np.int64)), ragged)
    array = numbers_of(numbers, seen)
    if shape == "scalars":
        return _no_lists(array, ragged)
    return _lists(array, np.frombuffer(offsets, np.int64), ragged, where)


def shared(gathered: tuple[memoryview, str, tuple[int, ...], tuple[int, ...], int]) -> NDArray[Any]:
    """A read-only array over the bytes that `native.column_view` returned."""
    buffer, dtype, shape, strides, offset = gathered
    return np.ndarray(shape, dtype, buffer, offset, strides)


def array(records: Any, dtype: DTypeLike | None) -> NDArray[Any]:
    """The same array as numpy.array(list(records), dtype), in one pass if records are numbers, texts or lists of
    numbers with one length."""
    gathered = native.read_column(records)
    out = None if gathered is None else _as_numpy_does(gathered)
    if out is not None and dtype is not None and np.dtype(dtype) != out.dtype:
        out = _as_floats(out, np.dtype(dtype))
    return np.array(list(records), dtype=dtype) if out is None else out


def _as_floats(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """The numbers as `dtype`, converted through double as numpy converts a list. None for other dtypes, for which numpy
    refuses some values of a list that it accepts in an array."""
    if array.dtype.kind not in "bif" or dtype.kind != "f" or dtype.itemsize > 8:
        return None
    with np.errstate(over="ignore"):
        return array.astype(np.float64, copy=False).astype(dtype)


def _as_numpy_does(gathered: Gathered) -> NDArray[Any] | None:
    shape, n, numbers, seen, offsets, text = gathered
    if shape == "scalars":
        return numbers_of(numbers, seen)
    offsets = np.frombuffer(offsets, np.int64)
    if shape == "texts":
        width = max(native.longest_text(text, offsets), 1)
        out = np.zeros(n * width, np.uint32)
        native.widen_texts(text, offsets, width, out)
        return out.view(f"U{width}")
    count = int(offsets[1])
    if seen == 0 or not bool((offsets[1:] - offsets[:-1] == count).all()):
        return None
    return numbers_of(numbers, seen).reshape(n, count)


def numbers_of(numbers: Buffer, seen: int) -> NDArray[Any]:
    """The array over the numbers of a column read; `seen` has the flags of their types."""
    kind: type[np.generic] = np.bool_ if seen == 1 else np.float64 if seen & 4 else np.int64
    return np.frombuffer(numbers, kind)


def strings(text: Buffer, offsets: NDArray[np.int64]) -> NDArray[Any]:
    """Texts as an array of numpy's StringDType, or of objects if numpy lacks it.

    numpy makes strings from fixed-width bytes in half the time that it needs for str objects, which would have to be
    made first. The bytes are made for up to 512 texts at a time, in rows as wide as the longest of them. Fixed-width
    bytes lose NULs at the end, so if any text has a NUL, all are converted as str objects.
    """
    dtype = _string_dtype()
    if dtype is None:
        return objects(texts(text, offsets))
    n = len(offsets) - 1
    out = np.empty(n, dtype)
    sizes = np.diff(offsets)
    raw = np.frombuffer(text, np.uint8)
    plain = not bool((raw == 0).any()) and (_takes_utf8() or not bool((raw > 127).any()))
    buffer = np.empty(_PIECE_BYTES, np.uint8)
    begin = 0
    while begin < n:
        end = min(begin + _PIECE_TEXTS, n)
        width = max(int(sizes[begin:end].max()), 1)
        if not plain or width * (end - begin) > _PIECE_BYTES:
            end = min(begin + _PIECE_TEXTS // 8, n)
            width = max(int(sizes[begin:end].max()), 1)
        if plain and width * (end - begin) <= _PIECE_BYTES:
            rows = buffer[: width * (end - begin)]
            native.pad_texts(text, offsets, begin, end - begin, width, rows)
            out[begin:end] = rows.view(f"S{width}")
        else:
            out[begin:end] = texts(text, offsets[begin : end + 1])
        begin = end
    return out


def texts(text: Buffer, offsets: NDArray[np.int64]) -> list[str]:
    """Texts as a list of str."""
    whole = memoryview(text)
    ends = offsets.tolist()
    return [str(whole[begin:end], "utf-8") for begin, end in zip(ends, ends[1:])]


_PIECE_TEXTS = 512
_PIECE_BYTES = 1 << 20


def _string_dtype() -> Any:
    kind = getattr(getattr(np, "dtypes", None), "StringDType", None)
    return None if kind is None else kind()


def _takes_utf8() -> bool:
    """Whether numpy decodes bytes as UTF-8 when it makes strings of them; its documentation promises only ASCII."""
    try:
        return bool(np.array(["\u00e9\u4e16".encode()]).astype(_string_dtype())[0] == "\u00e9\u4e16")
    except (UnicodeError, ValueError, TypeError):
        return False


def _no_lists(array: NDArray[Any], ragged: bool | None) -> NDArray[Any]:
    if ragged:
        raise ValueError("ragged=True is for lists, and these values are not lists")
    return array


def _lists(array: NDArray[Any], offsets: NDArray[np.int64], ragged: bool | None, where: _Where) -> _Column:
    """Rows, or values and offsets. If `ragged` is None, rows if all lists have one length."""
    n = len(offsets) - 1
    first = int(offsets[1]) if n else 0
    alike = int(offsets[-1]) == n * first and bool((offsets[1:] - offsets[:-1] == first).all())
    if ragged is None:
        ragged = not alike
    if ragged:
        return array, offsets
    if not alike:
        lengths = np.diff(offsets)
        i = int(np.flatnonzero(lengths != first)[0])
        raise ValueError(f"{where(i)} has {lengths[i]} elements, others {first}: {_REMEDY}")
    return array.reshape(n, first)


def _offsets(values: Sequence[Any]) -> NDArray[np.int64]:
    """The offsets of the sequences in their concatenation."""
    return np.cumsum([0, *map(len, values)], dtype=np.int64)


def from_values(values: list[Any], ragged: bool | None, where: _Where) -> _Column:
    """The column of decoded values."""
    kinds = {_kind(value) for value in values}
    if not values:
        return (np.empty(0), np.zeros(1, np.int64)) if ragged else np.empty(0)
    if kinds == {"list"}:
        return _from_lists(values, ragged, where)
    if kinds == {"array"}:
        return _from_arrays(values, ragged, where)
    if kinds & {"number", "list", "array"} and kinds != {"number"}:
        kind = next(kind for kind in ("number", "list", "array") if kind in kinds)
        odd = next(i for i, value in enumerate(values) if _kind(value) != kind)
        mixed = f"{_brief(values[odd])} among {kind}s"
        raise ValueError(f"{where(odd)} is {mixed}, which cannot be a column of numbers; use to_list()")
    if kinds == {"number"}:
        return _no_lists(_from_numbers(values), ragged)
    if kinds == {"scalar"} and len({type(value) for value in values}) == 1:
        return _no_lists(np.array(values), ragged)  # numpy converts times in several units to the finest of them
    return _no_lists(_from_text(values) if kinds == {"text"} else objects(values), ragged)


def _kind(value: object) -> str:
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


def _brief(value: object) -> str:
    return "None" if value is None else an(type(value).__name__)


def _from_numbers(values: list[Any]) -> NDArray[Any]:
    """An array of numbers that keeps every int: of objects if ints fit no int dtype, or if ints beyond 2^53 are mixed
    with floats."""
    types = set(map(type, values))
    if float in types:
        exact = all(type(value) is float or -_EXACT <= value <= _EXACT for value in values)
        return np.array(values, np.float64) if exact else objects(values)
    if types == {bool}:
        return np.array(values, np.bool_)
    if all(value in _INT64 for value in values):
        return np.array(values, np.int64)
    return np.array(values, np.uint64) if all(value in _UINT64 for value in values) else objects(values)


def _from_text(values: list[Any]) -> NDArray[Any]:
    dtype = _string_dtype()
    try:
        return objects(values) if dtype is None else np.array(values, dtype)
    except UnicodeEncodeError:  # lone surrogates
        return objects(values)


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """An array of objects."""
    out = np.empty(len(values), object)
    for i, value in enumerate(values):  # np.array would make dimensions of sequences
        out[i] = value
    return out


def _from_lists(values: list[Any], ragged: bool | None, where: _Where) -> _Column:
    """The column of lists: numbers as rows or as values and offsets, nested lists of one shape stacked, other lists as
    objects."""
    flat = [item for value in values for item in value]
    kinds = set(map(_kind, flat))
    if kinds <= {"number"}:
        array = _from_numbers(flat) if flat else np.empty(0, np.int64)
        return _lists(array, _offsets(values), ragged, where)
    if "number" in kinds:
        odd = next(i for i, value in enumerate(values) if {_kind(item) for item in value} - {"number"})
        item = next(item for item in values[odd] if _kind(item) != "number")
        raise ValueError(f"{where(odd)} holds {_brief(item)} among numbers: use to_list()")
    if kinds == {"list"}:
        return _from_nested(values, ragged, where)
    return _no_lists(objects(values), ragged)


def _from_nested(values: list[Any], ragged: bool | None, where: _Where) -> NDArray[Any]:
    common = _shape(values[0])
    for i, shape in enumerate(map(_shape, values)):
        if shape is None or shape != common:
            shapes = "several lengths" if shape is None else f"shape {shape}, others {common}"
            remedy = "use to_list(), or a field of the elements, field((name, 0))"
            raise ValueError(f"{where(i)} holds nested lists of {shapes}, which an array cannot hold: {remedy}")
    if ragged:
        raise ValueError("ragged=True is for lists of numbers, and these are nested")
    flat = values
    for _ in common or ():
        flat = [item for value in flat for item in value]
    if {_kind(item) for item in flat} <= {"number"}:
        return _from_numbers(flat).reshape(len(values), *common or ())
    raise ValueError(f"{where(0)} holds nested lists with other values than numbers: use to_list()")


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of nested lists; None if their lengths differ."""
    if type(value) not in (list, tuple):
        return ()
    shape, *others = {_shape(item) for item in value} or {()}
    return None if others or shape is None else (len(value), *shape)


def _from_arrays(values: list[NDArray[Any]], ragged: bool | None, where: _Where) -> _Column:
    """The column of arrays: stacked if they have one shape, ragged if they have one dimension and several lengths."""
    dtypes = {value.dtype for value in values}
    if len(dtypes) > 1 and not all(dtype.kind in "biufc" for dtype in dtypes):
        i = _first_different(values, "dtype")
        raise ValueError(f"{where(i)} is an array of {values[i].dtype}, others {values[0].dtype}: use to_list()")
    if all(value.ndim == 1 for value in values):
        return _lists(np.concatenate(values), _offsets(values), ragged, where)
    if len({value.shape for value in values}) > 1:
        i = _first_different(values, "shape")
        raise ValueError(f"{where(i)} has shape {values[i].shape}, others {values[0].shape}: use to_list()")
    if ragged:
        raise ValueError("ragged=True is for lists and arrays of one dimension")
    return np.stack(values)


def _first_different(values: list[NDArray[Any]], attribute: str) -> int:
    return next(i for i, value in enumerate(values) if getattr(value, attribute) != getattr(values[0], attribute))
