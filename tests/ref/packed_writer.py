"""Nodes of kinds 14 to 22, 24 and 30 of csrc/FORMAT.md for `writer`, and the bytes of their values. It chooses only
the width of a chunk of numbers (the narrowest) and the symbols of a text (the longest that fit).
"""

import struct
from dataclasses import dataclass, replace
from fractions import Fraction

from .dtypes import varint

DECIMAL, NUMBERS, DICT_CODED, SYMBOLS, CONCAT, DIGITS, HEX, SAME, OPTIONAL = range(14, 23)
ALPHABET = 24
RISING, RUNS, EXCEPTIONS = range(26, 29)
MAP = 30
FIXED, REST, RARE, IN_BITS = 1, 2, 4, 8
MASK = (1 << 64) - 1


@dataclass
class Node:
    """A node of a tree to write."""

    kind: int
    children: tuple = ()
    param: int = 0
    flags: int = 0
    aux: bytes = b""
    count: int = 0
    data_size: int | None = None  # for arrays whose size is in the tree


@dataclass
class Placed(Node):
    """A node of kind 26 to 28. `how` says how `places_writer` writes its section."""

    how: object = None


@dataclass
class Own:
    """A value of an exceptions node, stored in the places."""

    value: object


@dataclass
class Joined:
    """The value of a concat: the values of its children (None for same), and the str that they make."""

    values: list
    value: str


@dataclass
class Pick:
    """The value of a union: the number of the child and its value."""

    number: int
    value: object


@dataclass
class Pairs:
    """The value of a map, and its key-value pairs in the order of the bytes."""

    pairs: list
    value: dict


@dataclass
class Stored:
    """A stored number, and the value that it stands for."""

    number: int
    value: object


@dataclass
class Narrow:
    """A narrow array: the array, the width and the base."""

    value: object
    width: int
    base: int = 0

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)
    flags = property(lambda self: self.value.flags)

    def tobytes(self, order):
        """Base and bit group."""
        items, size = self.value.tobytes(order), self.dtype.itemsize
        numbers = [int.from_bytes(items[at : at + size], "little") for at in range(0, len(items), size)]
        fields = pack([(number - self.base) % (1 << 8 * size) for number in numbers], self.width)
        return (self.base % (1 << 8 * size)).to_bytes(size, "little") + fields


class Nothing:
    """The value of an optional without a value: an absent key, or None."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


ABSENT, NONE = Nothing("ABSENT"), Nothing("NONE")


# ---- nodes -----------------------------------------------------------------------------------------------------------


def decimal_aux(base, scale, correction):
    return struct.pack("<QBB", base & MASK, scale, correction)


def numbers_aux(base, floats, scale, stride, head_width, max_width, reserved=bytes(3)):
    return struct.pack("<QBBBBB3s", base & MASK, floats, scale, stride, head_width, max_width, reserved)


def decimal(width, base=0, scale=0, correction=0):
    return Node(DECIMAL, param=width, aux=decimal_aux(base, scale, correction))


def numbers(base=0, floats=False, scale=0, stride=0, head_width=0, max_width=64, param=0, count=None):
    return Node(
        NUMBERS,
        (),
        param,
        int(count is not None),
        numbers_aux(base, floats, scale, stride, head_width, max_width),
        count or 0,
    )


def dict_coded(tables, width, count):
    return Node(DICT_CODED, param=width, aux=struct.pack(f"<{len(tables)}I", *tables), count=count)


def symbols(table, rest=False, pairs=False):
    return Node(SYMBOLS, (), int(pairs), flags=REST * rest, aux=struct.pack("<I", table))


def concat(children):
    return Node(CONCAT, tuple(children))


def digits(width, base=0, count=0):
    return Node(DIGITS, param=width, aux=struct.pack("<Q", base % (1 << 64)), count=count)


def hex_(count, upper=False):
    return Node(HEX, param=int(upper), count=count)


def alphabet(letters, param=0, count=None, rest=False):
    flags = FIXED if count is not None else REST * rest
    return Node(ALPHABET, param=param, flags=flags, aux=letters.encode(), count=count or 0)


def same(number):
    return Node(SAME, count=number)


def optional(child, key=False, rare=False):
    return Node(OPTIONAL, (child,), int(not key), RARE * rare)


def is_rare(node):
    return node.kind == OPTIONAL and node.flags & RARE


def in_bits(row):
    """The tuple or struct node, with its bits in the bit group of its parent."""
    return replace(row, flags=IN_BITS)


def is_in_bits(node):
    return node.kind in (9, 10) and node.flags & IN_BITS


def map_(key, value):
    return Node(MAP, (key, value))


# ---- bodies ----------------------------------------------------------------------------------------------------------


def whole(value, scale):
    """The integer m for which the float is m / 10^scale."""
    m = round(Fraction(value) * 10**scale)
    assert float(m) / float(10**scale) == value, (value, scale)
    return m


def stored_of(node, value):
    """The stored number of a decimal or digits node."""
    if isinstance(value, Stored):
        return value.number
    base = struct.unpack_from("<Q", node.aux)[0]
    if node.kind == DIGITS:
        return (int(value) - base) & MASK
    scale, c = node.aux[8:]
    m = whole(value, scale)
    return ((m - base) & MASK) << c | (1 << c >> 1)


def pack(fields, width):
    group = sum(value << i * width for i, value in enumerate(fields))
    return group.to_bytes((len(fields) * width + 7) // 8, "little")


def numbers_body(node, values):
    """Count and packed numbers. `values` may be a Stored whose number is the list of integers."""
    base, floats, scale, stride, head_width, max_width = struct.unpack_from("<QBBBBB", node.aux)
    integers = (
        values.number if isinstance(values, Stored) else [whole(v, scale) for v in values] if floats else list(values)
    )
    count = b"" if node.flags & FIXED else varint(len(integers))
    if not integers:
        return count
    head, fields = integers[:stride], []
    for i, number in list(enumerate(integers))[len(head) :]:
        difference = (number - integers[i - stride]) & MASK if stride else (number - base) & MASK
        fields.append((difference << 1 ^ -(difference >> 63)) & MASK if stride else difference)
    least, codes, chunks = max(max_width - 15, 0), [], b""
    for at in range(0, len(fields), 8):
        width = max(fields[at : at + 8]).bit_length()
        width = width and max(width, least + 1)
        codes.append(width and width - least)
        chunks += pack(fields[at : at + 8], width)
    return count + pack([(number - base) & MASK for number in head], head_width) + pack(codes, 4) + chunks


def map_sides(node, value):
    """The number of entries of a map, and each child with its items. The value is a dict or Pairs."""
    entries = list(value.items()) if isinstance(value, dict) else value.pairs
    return len(entries), zip(node.children, zip(*entries) if entries else ((), ()))


def hex_body(text):
    return bytes.fromhex(text + "0" * (len(text) % 2))


def alphabet_size(node, n):
    bits = n * (len(node.aux).bit_length() - 1)
    return bits // 8 if node.param in (1, 2) else (bits + 7) // 8


def alphabet_body(node, text):
    width, letters = len(node.aux).bit_length() - 1, node.aux.decode()
    text = text.rstrip("=") if node.param == 2 else text.replace("-", "") if node.param == 3 else text
    number = 0
    for letter in text:
        number = number << width | letters.index(letter)
    raw = (number << -len(text) * width % 8).to_bytes((len(text) * width + 7) // 8, "big")
    return (b"" if node.flags else varint(len(text))) + raw[: alphabet_size(node, len(text))]


# ---- symbol tables ---------------------------------------------------------------------------------------------------


def code(number, n_short):
    """The code of a symbol."""
    return (
        bytes([number]) if number < n_short else bytes([n_short + (number - n_short) // 256, (number - n_short) % 256])
    )


def symbol_table(symbols, n_short=255, unit=1, **fields):
    """The bytes of a symbol table with these texts, None for an escape. fields: fields of the head to override."""
    pool, entries = b"", b""
    for text in symbols:
        raw = b"".join(ord(c).to_bytes(unit, "little") for c in text or "")
        entries += (len(pool) // unit << 4 | len(text or "")).to_bytes(3, "little")
        pool += raw
    head = {"unit": unit, "reserved": 0, "n_short": n_short, "n": len(symbols), **fields}
    return struct.pack("<BBHI", *head.values()) + entries + pool + bytes(16)


def coded(text, symbols, n_short=255, unit=1):
    """The text as codes: at each place the longest symbol that fits, else the escape."""
    out, at = b"", 0
    while at < len(text):
        fitting = [i for i, symbol in enumerate(symbols) if symbol and text.startswith(symbol, at)]
        if fitting:
            best = max(fitting, key=lambda i: len(symbols[i]))
            out, at = out + code(best, n_short), at + len(symbols[best])
        else:
            out += code(symbols.index(None), n_short) + ord(text[at]).to_bytes(unit, "little")
            at += 1
    return out
