"""Describes numpy arrays and scalars as csrc/FORMAT.md ("Arrays") stores them, and builds them from their bytes.

The compiled core imports this module for the first array; ``import recstore`` does not.
"""

from __future__ import annotations

import functools
import sys

import numpy as np

from recstore._core.native import varint
from recstore.errors import CorruptError, VersionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal, TypeAlias

    Dtype: TypeAlias = np.dtype[Any]

_CODES = {"b1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "u1": 6, "u2": 7, "u4": 8, "u8": 9, "f2": 10, "f4": 11,
          "f8": 12, "c8": 13, "c16": 14}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
_SIZED = {"S": 15, "U": 16, "V": 17}
_TIMES = {"M": 18, "m": 19}
# Indexed by numpy's number of the unit. Number 3, formerly business days, is unused.
_UNITS = ("Y", "M", "W", None, "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
_UNIT_NONE = 14
_STRUCT = 20
_STRUCT_LEVELS, _STRUCT_FIELDS = 8, 1024
_LONG_DOUBLES = {"f": 21, "c": 22}
# Codes 21 and 22 are the 80-bit numbers of the x86-64 ABI, in 16 bytes. Other machines have another long double.
_HAS_X87 = np.dtype(np.longdouble).itemsize == 16 and np.finfo(np.longdouble).nmant == 63
_BIG_ENDIAN = 0x80
_FORTRAN = 1
_SCALAR = 2
_scalar_dtype = np.generic.__dict__["dtype"].__get__  # a subclass may redefine the attribute


def _describe_dtype(dtype: Dtype, levels: int = _STRUCT_LEVELS) -> bytes | None:
    """The descriptor of a dtype without the array flags; None if the format has no code for it."""
    if not 0 <= dtype.num < 256:
        return None  # StringDType or a dtype of another package, perhaps with the kind and size of a numpy dtype
    if dtype.names is not None:
        return _describe_struct(dtype, levels)
    if dtype.kind in _LONG_DOUBLES and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        code, parameters = _LONG_DOUBLES[dtype.kind] if _HAS_X87 else None, b""
    elif dtype.kind in _SIZED and dtype.type in (np.bytes_, np.str_, np.void) and dtype.subdtype is None:
        code, parameters = _SIZED[dtype.kind], varint(dtype.itemsize)
    elif dtype.kind in _TIMES:
        unit, multiple = np.datetime_data(dtype)
        number = _UNIT_NONE if unit == "generic" else _UNITS.index(unit)
        code, parameters = _TIMES[dtype.kind], bytes([number]) + varint(multiple)
    else:
        code, parameters = _CODES.get(dtype.kind + str(dtype.itemsize)), b""
    if code is None or dtype.metadata:
        return None
    big = dtype.byteorder == ">"
    return bytes([code | (_BIG_ENDIAN if big else 0)]) + parameters


def _describe_struct(dtype: Any, levels: int) -> bytes | None:
    """The descriptor of a structured dtype: item size, aligned flag, fields. None if the format lacks it, as it lacks
    titles and the dtypes of record arrays."""
    if levels == 0 or dtype.type is not np.void or dtype.metadata:
        return None
    fields = []
    for name in dtype.names:
        inner, offset, *title = dtype.fields[name]
        base, shape = inner.subdtype or (inner, ())
        described = _describe_dtype(base, levels - 1)
        if title or described is None or not name:
            return None
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            return None
        shape = bytes([len(shape)]) + b"".join(map(varint, shape))
        fields.append(varint(len(encoded)) + encoded + varint(offset) + described + shape)
    if levels == _STRUCT_LEVELS and _count_fields(dtype) > _STRUCT_FIELDS:
        return None
    head = bytes([_STRUCT]) + varint(dtype.itemsize) + bytes([dtype.isalignedstruct])
    return head + varint(len(fields)) + b"".join(fields)


def _count_fields(dtype: Dtype) -> int:
    if dtype.subdtype:
        return _count_fields(dtype.subdtype[0])
    return sum(1 + _count_fields(inner) for inner, *_ in (dtype.fields or {}).values())


def describe(value: Any) -> tuple[bytes, Any] | None:
    """`(head, data)` of an ndarray or numpy scalar: the bytes of flags, dtype and, for an ndarray, shape; and an object
    with a buffer. None if it cannot be stored."""
    scalar = type(value) is not np.ndarray
    if scalar and type(value) is not _scalar_dtype(value).type:
        return None
    descriptor = _describe_dtype(value.dtype)
    if descriptor is None:
        return None
    if scalar:
        # bytes() and str.encode keep trailing NULs; an array, or str() of a numpy string, strips them.
        if isinstance(value, bytes):
            data = bytes(value)
            descriptor = bytes([_SIZED["S"]]) + varint(len(data))
        elif isinstance(value, str):
            data = str.encode(value, "utf-32-le", "surrogatepass")
            descriptor = bytes([_SIZED["U"]]) + varint(len(data))
        else:
            data = value.tobytes()
        return bytes([_SCALAR]) + descriptor, data
    fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    shape = bytes([value.ndim]) + b"".join(map(varint, value.shape))
    if value.dtype.names is not None and not (fortran or value.flags.c_contiguous):
        # numpy copies only the fields, so the padding between them would be uninitialized memory.
        packed = np.zeros(value.shape, value.dtype)
        packed[...] = value
        data = packed.tobytes()
    elif value.dtype.kind in "Mm" or value.dtype.itemsize == 0 or not (fortran or value.flags.c_contiguous):
        data = value.tobytes("F" if fortran else "C")  # dates do not support the buffer protocol
    else:
        data = value.ravel("K").view(np.uint8) if value.size else b""
    return bytes([_FORTRAN if fortran else 0]) + descriptor + shape, data


def _take_varint(descriptor: bytes, at: int) -> tuple[int, int]:
    """`(value, end)` of the varint that begins at `at`."""
    value = shift = 0
    while True:
        byte = descriptor[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


@functools.lru_cache(256)
def dtype_of(descriptor: bytes) -> Dtype:
    """The numpy dtype of a descriptor, which the core has checked: array flags, then dtype."""
    if descriptor[1] == _STRUCT:
        try:
            return _take_struct(descriptor, 1)[0]
        except (ValueError, TypeError) as e:
            raise CorruptError(f"a structured dtype that numpy refuses: {e}") from None
    return _take_dtype(descriptor, 1)[0]


def _take_struct(descriptor: bytes, at: int) -> tuple[Dtype, int]:
    size, at = _take_varint(descriptor, at + 1)
    aligned = bool(descriptor[at])
    n, at = _take_varint(descriptor, at + 1)
    names, formats, offsets = [], [], []
    for _ in range(n):
        length, at = _take_varint(descriptor, at)
        names.append(descriptor[at : at + length].decode())
        offset, at = _take_varint(descriptor, at + length)
        offsets.append(offset)
        dtype, at = _take_dtype(descriptor, at)
        shape, ndim, at = [], descriptor[at], at + 1
        for _ in range(ndim):
            dim, at = _take_varint(descriptor, at)
            shape.append(dim)
        formats.append((dtype, tuple(shape)) if shape else dtype)
    spec: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    return np.dtype(spec, align=aligned), at


def _take_dtype(descriptor: bytes, at: int) -> tuple[Dtype, int]:
    """`(dtype, end)` of the dtype that begins at `at` in a descriptor."""
    code = descriptor[at]
    if code == _STRUCT:
        return _take_struct(descriptor, at)
    order = ">" if code & _BIG_ENDIAN else "<"
    code &= 0x7F
    if code in _NAMES:
        return np.dtype(order + _NAMES[code]), at + 1
    if code in (21, 22):
        if not _HAS_X87:
            raise VersionError("an array of x86-64 long doubles, which this machine does not have")
        return np.dtype(order + ("f16" if code == 21 else "c32")), at + 1
    if code in (18, 19):
        unit, (multiple, end) = descriptor[at + 1], _take_varint(descriptor, at + 2)
        kind = "M8" if code == 18 else "m8"
        return np.dtype(f"{order}{kind}" + ("" if unit == _UNIT_NONE else f"[{multiple}{_UNITS[unit]}]")), end
    size, end = _take_varint(descriptor, at + 1)
    if code == _SIZED["U"]:
        size //= 4
    return np.dtype(f"{order}{'SUV'[code - 15]}{size}"), end


def make_array(
    dtype: Dtype, shape: tuple[int, ...], fortran: bool, memory: Any, size: int, copy: bool
) -> np.ndarray[Any, Any]:
    """An array over `memory`, an object with a buffer of `size` bytes; with `copy`, a writable array with its own
    memory."""
    order: Literal["F", "C"] = "F" if fortran else "C"
    try:
        if not size:
            # From a buffer, because numpy's other constructors widen S0 and U0 to one character.
            return np.ndarray(shape, dtype, bytearray(1), order=order)
        if dtype.names is not None and copy:
            memory, copy = bytearray(memory), False  # array.copy() would lose the padding between the fields
        array = np.ndarray(shape, dtype, memory, order=order)
        if copy:
            array = array.copy(order)
    except ValueError as e:
        raise CorruptError(f"an array that numpy refuses: {e}") from None
    _check_text(dtype, memory, size, "an array of text with a code point above 0x10FFFF")
    return array


def empty_array(dtype: Dtype, shape: tuple[int, ...], fortran: bool) -> np.ndarray[Any, Any]:
    """An uninitialized array: the core writes the items of a narrow array to it."""
    try:
        return np.empty(shape, dtype, order="F" if fortran else "C")
    except ValueError as e:
        raise CorruptError(f"an array that numpy refuses: {e}") from None


def _check_text(dtype: Dtype, memory: Any, size: int, message: str) -> None:
    """Raises CorruptError for code points out of range, because numpy would make invalid strings of them."""
    if dtype.kind not in "UV":
        return
    for offset, order, dims, strides in _texts(dtype, 0, (), ()):
        n = size // dtype.itemsize
        units = np.ndarray((n, *dims), order + "u4", memory, offset, (dtype.itemsize, *strides))
        if units.size and units.max() > sys.maxunicode:
            raise CorruptError(message)


def _texts(
    dtype: Dtype, offset: int, dims: tuple[int, ...], strides: tuple[int, ...]
) -> Iterator[tuple[int, str, tuple[int, ...], tuple[int, ...]]]:
    """Yields `(offset, byte order, shape, strides)` of the code units of each text in an item, fields included."""
    if dtype.subdtype:
        base, shape = dtype.subdtype
        steps = np.cumprod((base.itemsize, *shape[:0:-1])).tolist()[::-1]
        yield from _texts(base, offset, dims + shape, (*strides, *steps))
    elif dtype.kind == "U" and dtype.itemsize:
        yield offset, dtype.byteorder.replace("=", "<"), (*dims, dtype.itemsize // 4), (*strides, 4)
    for inner, start, *_ in (dtype.fields or {}).values():
        yield from _texts(inner, offset + start, dims, strides)


def make_scalar(dtype: Dtype, memory: memoryview) -> Any:
    """The numpy scalar of the bytes in `memory`."""
    if dtype.kind == "S":
        return np.bytes_(bytes(memory))
    if dtype.kind == "U":
        try:
            return np.str_(bytes(memory).decode("utf-32-le", "surrogatepass"))
        except UnicodeDecodeError as e:
            raise CorruptError(f"a numpy string with invalid code points: {e}") from None
    if not memory.nbytes:
        return np.zeros((), dtype)[()]
    _check_text(dtype, memory, memory.nbytes, "a numpy value of text with a code point above 0x10FFFF")
    return np.ndarray((), dtype, bytearray(memory))[()]
