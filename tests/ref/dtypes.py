"""Converts dtypes between the codes and parameters of csrc/FORMAT.md and numpy, including structs with their fields."""

import numpy as np

from .cursor import fail

LEVELS, FIELDS = 8, 1024
STRUCT = 20
DTYPES = {1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8", 10: "f2", 11: "f4", 12: "f8",
          13: "c8", 14: "c16", 15: "S", 16: "U", 17: "V", 18: "M8", 19: "m8", STRUCT: None, 21: "f16", 22: "c32"}  # fmt: skip
CODES = {"b1": 1, **{name: code for code, name in DTYPES.items() if name and name != "?"}}
NO_ORDER = {1, 2, 6, 15, 17, STRUCT}
UNITS = dict(enumerate(["Y", "M", "W", None, "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", ""]))
del UNITS[3]  # formerly numpy's business day
UNIT_NUMBERS = {name or "generic": number for number, name in UNITS.items()}


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_dtype(cur):
    """Array flags, dtype code without the order bit, and the numpy dtype."""
    start = cur.pos
    flags = cur.u8()
    code, dtype = read_code(cur, LEVELS, [FIELDS])
    if flags >> 2 and (
        flags & 2 or code not in range(2, 10) or flags >> 2 >= 8 * dtype.itemsize or dtype.str[0] == ">"
    ):
        fail("VALUE", start, f"array flags {flags}")
    return flags, code, dtype


def read_code(cur, levels, fields):
    """Code and dtype. At most `levels` more levels of structs may be entered, and fields[0] more fields read."""
    start, code = cur.pos, cur.u8()
    big, code = code & 0x80, code & 0x7F
    if code not in DTYPES and code:
        fail("VERSION", start, f"dtype code {code}")
    if code == 0 or (big and code in NO_ORDER - {STRUCT}):
        fail("TAG", start, f"dtype code {code}")
    name = DTYPES[code]
    if code == STRUCT:
        return code, read_struct(cur, big, levels, fields)
    if name in "SUV":
        size = cur.varint()
        if size >= 1 << 31 or (name == "U" and size % 4):
            fail("VALUE", start + 1, f"item size {size}")
        name += str(size // 4 if name == "U" else size)
    elif name in ("M8", "m8"):
        unit, multiple = cur.u8(), cur.varint()
        if unit not in UNITS:
            fail("TAG", start + 1, f"unit {unit}")
        if not 0 < multiple < 1 << 31:
            fail("TAG", start + 2, f"unit multiple {multiple}")
        name += f"[{multiple}{UNITS[unit]}]" if UNITS[unit] else ""
    return code, np.dtype((">" if big else "<") + name)


def read_struct(cur, big, levels, fields):
    start, size, aligned, n = cur.pos, cur.varint(), cur.u8(), cur.varint()
    if big:
        fail("TAG", start, "a struct dtype that is big-endian")
    if size >= 1 << 31 or aligned > 1 or levels == 0 or n > fields[0]:
        fail("VALUE", start, f"a struct dtype of {size} bytes and {n} fields")
    fields[0] -= n
    names, offsets, formats = [], [], []
    for _ in range(n):
        names.append(read_name(cur))
        offsets.append(cur.varint())
        _, base = read_code(cur, levels - 1, fields)
        shape = read_shape(cur)
        if offsets[-1] + data_size(base, shape, cur.pos) > size:
            fail("VALUE", cur.pos, "a field beyond its item")
        formats.append((base, shape) if shape else base)
    try:
        return np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": size, "aligned": bool(aligned)}
        )
    except ValueError as error:  # two fields of the same name, or an offset that is not aligned
        fail("VALUE", start, str(error))


def read_name(cur):
    start, raw = cur.pos, bytes(cur.take(cur.varint()))
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        name = ""
    return name or fail("VALUE", start, "a field name that is empty or not UTF-8")


def read_shape(cur):
    start, ndim = cur.pos, cur.u8()
    if ndim > 64:
        fail("VALUE", start, f"{ndim} dimensions")
    return tuple(cur.varint() for _ in range(ndim))


def data_size(dtype, shape, offset):
    """The size of the data in bytes. The bound ignores dimensions of 0, as in numpy."""
    product, nonzero = dtype.itemsize, max(dtype.itemsize, 1)
    for n in shape:
        product *= n
        nonzero *= n or 1
    if max([nonzero, *shape]) > (1 << 63) - 1:
        fail("VALUE", offset, "array too large")
    return product


def stored_size(flags, dtype, shape, offset):
    """The size of the stored data in bytes. A narrow array stores its base and the bit group."""
    size, width = data_size(dtype, shape, offset), flags >> 2
    return dtype.itemsize - (-(size // dtype.itemsize) * width // 8) if width else size


# ---- writing ---------------------------------------------------------------------------------------------------------


def varint(n, pad=0):
    """A varint (LEB128), lengthened by `pad` bytes that do not change the value."""
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    if pad:
        out[-1] |= 0x80
        out += b"\x80" * (pad - 1) + b"\0"
    return bytes(out)


def shape_bytes(shape):
    return bytes([len(shape)]) + b"".join(map(varint, shape))


def code_bytes(dtype, item_size=None):
    """Code and parameters. `item_size` is for scalars, whose dtype does not count trailing zeros."""
    size = dtype.itemsize if item_size is None else item_size
    big = 0x80 if dtype.str[0] == ">" else 0
    if dtype.names is not None:
        fields = b"".join(field_bytes(name, dtype.fields[name]) for name in dtype.names)
        return bytes([STRUCT]) + varint(size) + bytes([dtype.isalignedstruct]) + varint(len(dtype.names)) + fields
    if dtype.kind in "SUV":
        return bytes([CODES[dtype.kind] | big]) + varint(size)
    if dtype.kind in "mM":
        unit, multiple = np.datetime_data(dtype)
        return bytes([CODES[dtype.kind + "8"] | big, UNIT_NUMBERS[unit]]) + varint(multiple)
    return bytes([CODES[dtype.str[1:]] | big])


def field_bytes(name, field):
    raw, (dtype, offset) = name.encode(), field[:2]
    return varint(len(raw)) + raw + varint(offset) + code_bytes(dtype.base) + shape_bytes(dtype.shape)
