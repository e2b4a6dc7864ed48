"""The bodies of nodes of csrc/FORMAT.md: makes a record, or a value in a table, from its bytes and a tree."""

import struct

from .cursor import fail
from .dtypes import read_shape, stored_size
from .places import read_placed
from .steps import bit_field, in_order_of_bodies, read_str, signed, stored, table_value, union_child
from .texts import read_text_node
from .trees import (
    ANY,
    BOOL,
    BYTES,
    CONST,
    DECIMAL,
    DICT_CODED,
    EXT,
    FIXED,
    FLOAT,
    INT,
    LIST,
    MAP,
    MASK,
    NDARRAY,
    NUMBERS,
    OPTIONAL,
    REST,
    STR,
    STRUCT,
    TUPLE,
    UNION,
    ceil8,
)
from .values import add_keys, make_ext, read_any, read_data, refuse_ext

ABSENT = object()  # the value of an absent key


def read_alone(node, cur, depth=0):
    return read_body(node, cur, depth, bit_field(cur.take(ceil8(node.bits)), 0, node.bits))


def read_body(node, cur, depth, bits):
    """The value of a node whose bits have been read already."""
    kind, start = node.kind, cur.pos
    if kind == ANY:
        if node.payload:
            refuse_ext(cur)
        value = read_any(cur, depth)
        cur.spend_shared(cur.pos - start)
        return value
    if kind == EXT:
        return make_ext(node.param, node.extra, read_body(node.children[0], cur, depth, bits), start)
    if kind == CONST:
        return read_const(node, cur, depth)
    if kind == INT:
        return signed(node.base() + stored(node, cur, bits))
    if kind == FLOAT:
        return cur.unpack("d")
    if kind == BOOL:
        return bool(bits)
    if kind == DECIMAL:
        return decimal(node, stored(node, cur, bits))
    if kind == STR:
        value = read_str(node, cur)
        cur.spend_shared(len(value))
        return value
    if kind == BYTES:
        value = bytes(cur.take(cur.end - cur.pos if node.flags & REST else cur.varint()))
        cur.spend_shared(len(value))
        return value
    if kind == LIST:
        return read_list(node, cur, depth)
    if kind == MAP:
        return read_map(node, cur, depth)
    if kind == NUMBERS:
        return read_numbers(node, cur, depth)
    if kind == UNION:
        return read_alone(union_child(node, bits, start), cur, depth)
    if kind == DICT_CODED:
        with table_value(node, cur, bits) as (root, inner):
            return read_alone(root, inner, depth)
    if node.is_placed():
        return read_placed(node, cur, bits, read_body, read_alone, depth)
    if kind == OPTIONAL:
        if not bits & 1:
            return None if node.param else ABSENT
        return read_body(node.children[0], cur, depth, bits >> 1)
    return read_composed(node, cur, depth, bits)


def read_composed(node, cur, depth, bits):
    """The value of an ndarray, tuple, struct, concat, symbols, digits or hex node."""
    if node.kind == NDARRAY:
        flags, code, dtype, shape = node.array
        shape = read_shape(cur) if shape is None else shape
        value = read_data(cur, flags, code, dtype, shape)
        cur.spend_shared(stored_size(flags, dtype, shape, node.offset))
        return value
    if node.kind in (TUPLE, STRUCT):
        return read_tuple(node, cur, depth, bits)
    value = read_text_node(node, cur, bits)
    cur.spend(len(value))
    return value


def read_const(node, cur, depth):
    if node.aux.data[node.aux.pos] in (0x0D, 0x0E, 0x0F, 0x11):
        cur.spend(node.aux_size())
    return read_any(node.aux_cursor(cur.budget), depth)


def read_list(node, cur, depth):
    start, child = cur.pos, node.children[0]
    n = node.count if node.flags else cur.varint()
    cur.budget.enter(n, depth, start)
    group = cur.take(ceil8(n * child.bits))
    items = [read_body(child, cur, depth + 1, bit_field(group, i * child.bits, child.bits)) for i in range(n)]
    return tuple(items) if node.param else items


def read_map(node, cur, depth):
    start = cur.pos
    n = cur.varint()
    cur.budget.enter(n, depth, start)
    sides = []
    for child in node.children:
        group = cur.take(ceil8(n * child.bits))
        sides.append([read_body(child, cur, depth + 1, bit_field(group, i * child.bits, child.bits)) for i in range(n)])
    return add_keys(zip(*sides), n, start)


def read_tuple(node, cur, depth, own_bits):
    start = cur.pos
    bits, bodies = in_order_of_bodies(node, cur, own_bits)
    cur.budget.enter(sum(not kid.is_key() or own & 1 for kid, own in zip(node.children, bits)), depth, start)
    items = {i: read_body(kid, cur, depth + 1, own) for i, kid, own in bodies}
    items = [items[i] for i in range(len(items))]
    if node.kind == TUPLE:
        return tuple(items) if node.param else items
    keys = node.aux_cursor(cur.budget)
    pairs = [(read_any(keys, depth + 1), item) for item in items]
    with_absent = add_keys(pairs, len(pairs), start)  # checks rule 22 for absent keys too
    return {key: item for key, item in with_absent.items() if item is not ABSENT}


# ---- packed numbers --------------------------------------------------------------------------------------------------


def as_float(m, scale):
    return float(m) / float(10**scale)


def decimal(node, v):
    c, packed = node.packed.correction, node.packed
    value = as_float(signed(packed.base + (v >> c)), packed.scale)
    if not c:
        return value
    bits = struct.unpack("<Q", struct.pack("<d", value))[0] + (v & ((1 << c) - 1)) - (1 << c - 1)
    return struct.unpack("<d", struct.pack("<Q", bits & MASK))[0]


def read_fields(cur, n, width):
    group = cur.take(ceil8(n * width))
    return [bit_field(group, i * width, width) for i in range(n)]


def read_numbers(node, cur, depth):
    start, packed = cur.pos, node.packed
    n = node.count if node.flags & FIXED else cur.varint()
    cur.budget.enter(n, depth, start)
    numbers = read_packed(packed, cur, n) if n else []
    items = [as_float(m, packed.scale) for m in numbers] if packed.floats else numbers
    return tuple(items) if node.param else items


def read_packed(packed, cur, n):
    stride, start = packed.stride, cur.pos
    numbers = [signed(packed.base + f) for f in read_fields(cur, min(n, stride), packed.head_width)]
    chunks = -(-(n - len(numbers)) // 8)
    widths = [x and x + max(packed.max_width - 15, 0) for x in read_fields(cur, chunks, 4)]
    if max(widths, default=0) > packed.max_width:
        fail("VALUE", start, "a chunk wider than max_width")
    for width in widths:
        for f in read_fields(cur, min(8, n - len(numbers)), width):
            if stride == 0:
                numbers.append(signed(packed.base + f))
            else:
                numbers.append(signed(numbers[len(numbers) - stride] + (f >> 1 ^ -(f & 1))))
    return numbers
