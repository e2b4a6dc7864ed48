"""numpy arrays and scalars to and from the dtype descriptors of csrc/FORMAT.md ("Arrays").

Imported by the codec when it meets the first array, never by ``import recstore``.
"""

import sys

import numpy as np

from recstore.errors import CorruptError

_CODES = {"b1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "u1": 6, "u2": 7, "u4": 8, "u8": 9, "f2": 10, "f4": 11,
          "f8": 12, "c8": 13, "c16": 14}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
_SIZED = {"S": 15, "U": 16, "V": 17}
_TIMES = {"M": 18, "m": 19}
# By number, as numpy counts them: 3 was business days once and is no unit now.
_UNITS = ("Y", "M", "W", None, "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
_UNIT_NONE = 14
_BIG_ENDIAN = 0x80
_FORTRAN = 1
_SCALAR = 2


def _varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _describe_dtype(dtype):
    """The descriptor of a dtype without the array flags; None for one that the format does not know."""
    if dtype.kind in _SIZED and dtype.fields is None and dtype.subdtype is None:
        code, parameters = _SIZED[dtype.kind], _varint(dtype.itemsize)
    elif dtype.kind in _TIMES:
        unit, multiple = np.datetime_data(dtype)
        unit = _UNIT_NONE if unit == "generic" else _UNITS.index(unit)
        code, parameters = _TIMES[dtype.kind], bytes([unit]) + _varint(multiple)
    else:
        code, parameters = _CODES.get(dtype.kind + str(dtype.itemsize)), b""
    if code is None or dtype.metadata:
        return None
    big = dtype.byteorder == ">"
    return bytes([code | (_BIG_ENDIAN if big else 0)]) + parameters


def describe(value):
    """`(head, data)` of an ndarray or numpy scalar: flags, dtype and shape as bytes, and an object whose buffer is the
    data. None when its dtype cannot be stored."""
    scalar = not isinstance(value, np.ndarray)
    descriptor = _describe_dtype(value.dtype)
    if descriptor is None:
        return None
    if scalar:
        # Through the methods of bytes and str: an array, and str() of a numpy string, strip trailing NULs.
        if isinstance(value, bytes):
            data = bytes(value)
            descriptor = bytes([_SIZED["S"]]) + _varint(len(data))
        elif isinstance(value, str):
            data = str.encode(value, "utf-32-le", "surrogatepass")
            descriptor = bytes([_SIZED["U"]]) + _varint(len(data))
        else:
            data = value.tobytes()
        return bytes([_SCALAR]) + descriptor, data
    fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    shape = bytes([value.ndim]) + b"".join(map(_varint, value.shape))
    if value.dtype.kind in "Mm" or value.dtype.itemsize == 0 or not (fortran or value.flags.c_contiguous):
        data = value.tobytes("F" if fortran else "C")  # dates have no buffer of their own
    else:
        data = value.ravel("K").view(np.uint8) if value.size else b""
    return bytes([_FORTRAN if fortran else 0]) + descriptor + shape, data


def _take_varint(descriptor, at):
    value = shift = 0
    while True:
        byte = descriptor[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value


def dtype_of(descriptor):
    """The numpy dtype of array flags and dtype, as the core has checked them."""
    code = descriptor[1]
    order = ">" if code & _BIG_ENDIAN else "<"
    code &= 0x7F
    if code in _NAMES:
        return np.dtype(order + _NAMES[code])
    if code in (18, 19):
        unit, multiple = descriptor[2], _take_varint(descriptor, 3)
        kind = "M8" if code == 18 else "m8"
        return np.dtype(f"{order}{kind}" + ("" if unit == _UNIT_NONE else f"[{multiple}{_UNITS[unit]}]"))
    size = _take_varint(descriptor, 2)
    if code == _SIZED["U"]:
        size //= 4
    return np.dtype(f"{order}{'SUV'[code - 15]}{size}")


def make_array(dtype, shape, fortran, memory):
    """A writable array of its own over a copy of `memory`."""
    order = "F" if fortran else "C"
    try:
        if not memory.nbytes:
            # Through a buffer: numpy's own constructors widen S0 and U0 to one character.
            return np.ndarray(shape, dtype, bytearray(1), order=order)
        array = np.ndarray(shape, dtype, memory, order=order).copy(order)
    except ValueError as e:
        raise CorruptError(f"an array that numpy refuses: {e}") from None
    if dtype.kind == "U" and array.ravel("K").view(dtype.byteorder.replace("=", "<") + "u4").max() > sys.maxunicode:
        raise CorruptError("an array of text with a code point above 0x10FFFF")
    return array


def make_scalar(dtype, memory):
    """A numpy scalar."""
    if dtype.kind == "S":
        return np.bytes_(bytes(memory))
    if dtype.kind == "U":
        try:
            return np.str_(bytes(memory).decode("utf-32-le", "surrogatepass"))
        except UnicodeDecodeError as e:
            raise CorruptError(f"a numpy string that is no text: {e}") from None
    if not memory.nbytes:
        return np.zeros((), dtype)[()]
    return np.ndarray((), dtype, bytes(memory))[()]
