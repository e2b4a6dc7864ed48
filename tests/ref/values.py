"""Values of csrc/FORMAT.md that need no tree: any values, ext values and arrays.

Written from that document, never from the C code, so that a comparison shows a mistake in either. Simple rather than
fast.
"""

import struct

import numpy as np

from .cursor import fail
from .dtypes import data_size, read_dtype, read_shape, stored_size
from .ext_values import ext_of, make

ARRAY_INLINE = 1024
EXTRA_DEPTH = 4
EXT_CODES = range(1, 32)


# ---- any values ------------------------------------------------------------------------------------------------------


def read_text(cur, n, width):
    raw = cur.take(n * width)
    units = struct.unpack(f"<{n}{'BHxI'[width - 1]}", raw)
    if any(u > 0x10FFFF for u in units):
        fail("VALUE", cur.pos, "code point above 0x10FFFF")
    return "".join(map(chr, units))


def add_keys(pairs, n, offset):
    """The dict of the pairs. Fails for unhashable keys and for equal keys."""
    result = {}
    try:
        for key, value in pairs:
            result[key] = value
    except (TypeError, ValueError):  # ValueError: the hash of a datetime64 without a unit
        fail("VALUE", offset, "unhashable key")
    if len(result) != n:
        fail("VALUE", offset, "equal keys")
    return result


def read_any(cur, depth=0):
    start = cur.pos
    tag = cur.u8()
    if tag >= 0x80:
        return tag - 0x90
    if tag <= 0x02:
        return (None, False, True)[tag]
    if tag <= 0x06:
        return cur.unpack("bhiq"[tag - 3])
    if tag == 0x07:
        return int.from_bytes(cur.take(cur.varint()), "little", signed=True)
    if tag == 0x08:
        return cur.unpack("d")
    if tag <= 0x0B:
        return read_text(cur, cur.varint(), 1 << (tag - 9))
    if tag == 0x0C:
        return bytes(cur.take(cur.varint()))
    if tag <= 0x0F:
        return read_any_container(cur, tag, depth, start)
    if tag == 0x10:
        flags, code, dtype = read_dtype(cur)
        return read_data(cur, flags, code, dtype, () if flags & 2 else read_shape(cur))
    if tag == 0x11:
        code = cur.u8()
        if code not in EXT_CODES:
            fail("VERSION", start, f"ext code {code}")
        extra = read_extra(cur)
        refuse_ext(cur)
        return make_ext(code, extra, read_any(cur, depth), start)
    fail("VERSION", start, f"tag {tag:#x}")


def read_extra(cur, levels=EXTRA_DEPTH):
    """None, int, str, and tuples of these. EXTRA does not count against the record's budget."""
    start, tag = cur.pos, cur.peek()
    if tag == 0x0E and levels:
        cur.u8()
        n = cur.varint()
        if n > cur.end - cur.pos:
            fail("TRUNCATED", start, f"tuple of {n}")
        return tuple(read_extra(cur, levels - 1) for _ in range(n))
    if tag is not None and not (tag in (0, *range(3, 8), 9, 10, 11) or tag >= 0x80):
        fail("VALUE", start, f"tag {tag:#x} in EXTRA")
    return read_any(cur)


def refuse_ext(cur):
    if cur.peek() == 0x11:
        fail("VALUE", cur.pos, "an ext value directly within an ext value")


def make_ext(code, extra, payload, offset):
    """The value. An exception while it is made means that the bytes are wrong, so the error is VALUE."""
    try:
        return make(code, extra, payload)
    except Exception as error:
        fail("VALUE", offset, f"ext code {code}: {type(error).__name__}: {error}")


def read_any_container(cur, tag, depth, start):
    n = cur.varint()
    if n * (2 if tag == 0x0F else 1) > cur.end - cur.pos:
        fail("TRUNCATED", start, f"container of {n}")
    cur.budget.enter(n, depth, start)
    if tag == 0x0F:
        return add_keys([(read_any(cur, depth + 1), read_any(cur, depth + 1)) for _ in range(n)], n, start)
    items = [read_any(cur, depth + 1) for _ in range(n)]
    return items if tag == 0x0D else tuple(items)


def any_size(value):
    """The size of `value` as an any value. A lower bound for numpy values, whose dtypes may take more bytes and whose
    data may be narrow or outside."""
    ext = ext_of(value)
    if ext is not None:
        return 2 + any_size(ext[1]) + any_size(ext[2])
    if isinstance(value, (np.ndarray, np.generic)):
        data = value.nbytes if not isinstance(value, np.str_) else 4 * len(value)
        if data < ARRAY_INLINE and isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            data = min(data, value.itemsize)
        shape = 0 if isinstance(value, np.generic) else 1 + sum(map(varint_size, value.shape))
        return 3 + shape + (data if data < ARRAY_INLINE else 1)
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int):
        for low, high, size in (
            (-16, 111, 1),
            (-128, 127, 2),
            (-1 << 15, 32767, 3),
            (-1 << 31, (1 << 31) - 1, 5),
            (-1 << 63, (1 << 63) - 1, 9),
        ):
            if low <= value <= high:
                return size
        n = (value if value >= 0 else ~value).bit_length() // 8 + 1
        return 1 + varint_size(n) + n
    if isinstance(value, float):
        return 9
    if isinstance(value, str):
        top = max(map(ord, value), default=0)
        return 1 + varint_size(len(value)) + len(value) * (1 if top < 256 else 2 if top < 65536 else 4)
    if isinstance(value, bytes):
        return 1 + varint_size(len(value)) + len(value)
    items = value if not isinstance(value, dict) else [x for pair in value.items() for x in pair]
    return 1 + varint_size(len(value)) + sum(map(any_size, items))


def varint_size(n):
    return max(1, (n.bit_length() + 6) // 7)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def read_data(cur, flags, code, dtype, shape):
    start = cur.pos
    size = stored_size(flags, dtype, shape, start)
    if size < ARRAY_INLINE:
        data = cur.take(size)
    else:
        at = cur.varint() * 64
        if cur.arrays is None or at > cur.arrays[1] or size > cur.arrays[1] - at:
            fail("VALUE", start, "array data outside the block's arrays")
        data = cur.data[cur.arrays[0] + at : cur.arrays[0] + at + size]
    value = make_scalar(code, dtype, data, start) if flags & 2 else make_array(flags, dtype, shape, data)
    if code in (16, 20):
        check_text(value, start)
    return value


def check_text(value, offset):
    """Checks the code points of U arrays and of nested U fields."""
    for name in value.dtype.names or ():
        check_text(value[name], offset)
    if value.dtype.kind == "U" and isinstance(value, np.ndarray) and value.nbytes:
        units = np.frombuffer(value.tobytes(), value.dtype.str[0] + "u4")
        if units.max() > 0x10FFFF:
            fail("VALUE", offset, "code point above 0x10FFFF")


def make_array(flags, dtype, shape, data):
    if flags >> 2:
        data = widened(flags >> 2, dtype, data, data_size(dtype, shape, 0) // dtype.itemsize)
    return np.ndarray(shape, dtype, buffer=bytearray(data), order="F" if flags & 1 else "C")


def widened(width, dtype, data, n):
    """The bytes of the items of a narrow array."""
    size = dtype.itemsize
    base, fields = int.from_bytes(data[:size], "little"), int.from_bytes(data[size:], "little")
    items = ((fields >> i * width & (1 << width) - 1) + base & (1 << 8 * size) - 1 for i in range(n))
    return b"".join(item.to_bytes(size, "little") for item in items)


def make_scalar(code, dtype, data, offset):
    """A numpy scalar. S and U are made from their bytes, because arrays strip trailing NULs."""
    if code == 15:
        return np.bytes_(data)
    if code == 17:
        return np.void(data) if data else np.ndarray((), dtype, buffer=b"")[()]
    if code == 16:
        units = struct.unpack(dtype.str[0] + f"{len(data) // 4}I", data)
        if any(u > 0x10FFFF for u in units):
            fail("VALUE", offset, "code point above 0x10FFFF")
        return np.str_("".join(map(chr, units)))
    return np.ndarray((), dtype, buffer=data)[()]
