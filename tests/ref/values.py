"""The values of a record as csrc/FORMAT.md says them: `any` values, arrays, trees and the bodies of their nodes.

Slow on purpose and written from the page alone, never from the C code, so that a mistake has to be made twice to go
unseen. Where the page leaves a code open the choice is marked "open:".
"""

import struct
from dataclasses import dataclass, field

import numpy as np

from .cursor import DEPTH, Budget, Cursor, FormatError, fail
from .dtypes import data_size, read_dtype, read_shape
from .extended import make, parts

ARRAY_INLINE = 1024
TREE_NODES, TREE_SHAPES, TREE_BYTES = 4096, 1024, 1 << 20

ANY, CONST, INT, FLOAT, BOOL, STR, BYTES, LIST, TUPLE, STRUCT, UNION, NDARRAY, EXT = range(1, 14)
EXTRA_DEPTH = 4
EXT_CODES = range(1, 31)


# ---- any values ------------------------------------------------------------------------------------------------------

def read_text(cur, n, width):
    raw = cur.take(n * width)
    units = struct.unpack(f"<{n}{'BHxI'[width - 1]}", raw)
    if any(u > 0x10FFFF for u in units):
        fail("VALUE", cur.pos, "code point above 0x10FFFF")
    return "".join(map(chr, units))


def add_keys(pairs, n, offset):
    """The dict of the pairs; keys that are unhashable or equal are refused (as Python compares them)."""
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
    """None, int, str, and tuples of these. It counts for nothing, so it has a budget that nothing passes."""
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
    """The value; whatever Python raises for parts that make none is a matter of the bytes."""
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
    """Bytes of the value as one `any` value, shortest forms; a lower bound for arrays outside (their varint differs)."""
    ext = parts(value)
    if ext is not None:
        return 2 + any_size(ext[1]) + any_size(ext[2])
    if isinstance(value, (np.ndarray, np.generic)):
        data = value.nbytes if not isinstance(value, np.str_) else 4 * len(value)
        shape = 0 if isinstance(value, np.generic) else 1 + sum(map(varint_size, value.shape))
        return 3 + shape + (data if data < ARRAY_INLINE else 1)
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int):
        for low, high, size in ((-16, 111, 1), (-128, 127, 2), (-1 << 15, 32767, 3), (-1 << 31, (1 << 31) - 1, 5),
                                (-1 << 63, (1 << 63) - 1, 9)):
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
    size = data_size(dtype, shape, start)
    if size < ARRAY_INLINE:
        data = cur.take(size)
    else:
        at = cur.varint() * 64
        if cur.arrays is None or at > cur.arrays[1] or size > cur.arrays[1] - at:
            fail("VALUE", start, "array data outside the block's arrays")
        data = cur.data[cur.arrays[0] + at:cur.arrays[0] + at + size]
    value = make_scalar(code, dtype, data, start) if flags & 2 else make_array(flags, dtype, shape, data)
    if code in (16, 20):
        check_text(value, start)
    return value


def check_text(value, offset):
    """Units of U arrays, and of U fields wherever they are."""
    for name in value.dtype.names or ():
        check_text(value[name], offset)
    if value.dtype.kind == "U" and isinstance(value, np.ndarray) and value.nbytes:
        units = np.frombuffer(value.tobytes(), value.dtype.str[0] + "u4")
        if units.max() > 0x10FFFF:
            fail("VALUE", offset, "code point above 0x10FFFF")


def make_array(flags, dtype, shape, data):
    return np.ndarray(shape, dtype, buffer=bytearray(data), order="F" if flags & 1 else "C")


def make_scalar(code, dtype, data, offset):
    """S, U and V from their bytes, since the way through an array drops zeros at the end (open: page is silent)."""
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


# ---- trees -----------------------------------------------------------------------------------------------------------

@dataclass
class Node:
    """A node with its children and what follows from them. size is the body's, None when the node is not fixed."""

    kind: int
    param: int
    flags: int
    count: int
    offset: int
    aux: Cursor
    children: list = field(default_factory=list)
    bits: int = 0
    size: int | None = None
    array: tuple = ()
    extra: object = None
    payload: bool = False  # its value is the payload of an ext node, perhaps by way of unions

    def aux_cursor(self, budget):
        return Cursor(self.aux.data, self.aux.pos, self.aux.end, None, budget)

    def alone(self):
        return None if self.size is None else ceil8(self.bits) + self.size


def ceil8(bits):
    return (bits + 7) // 8


def read_tree(data, start, size):
    """The root of the tree in data[start:start + size], rules 17 to 19 checked but for the crc."""
    if size > TREE_BYTES or size < 8:
        fail("TREE", start, f"tree of {size} bytes")
    n_nodes, aux_size = struct.unpack_from("<II", data, start)
    aux_start = start + 8 + 24 * n_nodes
    if not 1 <= n_nodes <= TREE_NODES or 8 + 24 * n_nodes + aux_size != size:
        fail("TREE", start, f"{n_nodes} nodes and {aux_size} bytes aux in {size} bytes")
    nodes, spans, following = [], [], 1
    for i in range(n_nodes):
        at = start + 8 + 24 * i
        kind, param, flags, n_children, first, aux_at, aux_n, count = struct.unpack_from("<BBHIIIII", data, at)
        if kind > EXT or (kind == EXT and param not in EXT_CODES):
            fail("VERSION", at, f"node kind {kind}, param {param}")
        if first != (following if n_children else 0) or n_children > n_nodes - following:
            fail("TREE", at, "not in breadth-first order")
        if aux_at > aux_size or aux_n > aux_size - aux_at:
            fail("TREE", at, "aux range")
        aux = Cursor(data, aux_start + aux_at, aux_start + aux_at + aux_n, None, None)
        nodes.append(Node(kind, param, flags, count, at, aux))
        spans.append((following, following + n_children))
        following += n_children
    if following != n_nodes or any(first <= i for i, (first, end) in enumerate(spans) if end > first):
        fail("TREE", start, "not in breadth-first order")
    if sum(node.kind == STRUCT for node in nodes) > TREE_SHAPES:
        fail("TREE", start, "too many struct nodes")
    for node, (first, end) in reversed(list(zip(nodes, spans))):  # children before parents
        node.children = nodes[first:end]
        check_node(node)
    check_depth(nodes, spans)
    check_payloads(nodes)
    return nodes[0]


def check_depth(nodes, spans):
    """Depth counts containers only (open: whether unions count)."""
    depths = [0] * len(nodes)
    for i, (first, end) in enumerate(spans):
        depths[i] += nodes[i].kind in (LIST, TUPLE, STRUCT)
        if depths[i] > DEPTH:
            fail("TREE", nodes[i].offset, "tree too deep")
        depths[first:end] = [depths[i]] * (end - first)


def check_payloads(nodes):
    """No ext directly within an ext, unions between them or not; an `any` there is looked at when it is read."""
    for node in nodes:  # parents before children
        if node.payload and (node.kind == EXT or (node.kind == CONST and node.aux.peek() == 0x11)):
            fail("TREE", node.offset, "an ext directly within an ext")
        for child in node.children:
            child.payload = node.kind == EXT or (node.kind == UNION and node.payload)


LEGAL = {  # kind: children, params, flags, aux size (None: own rule)
    ANY: ((0, 0), {0}, {0}, 0), CONST: ((0, 0), {0}, {0}, None), INT: ((0, 0), set(range(65)), {0}, 8),
    FLOAT: ((0, 0), {0}, {0}, 0), BOOL: ((0, 0), {0}, {0}, 0), STR: ((0, 0), {0, 1, 2, 4}, {0}, 0),
    BYTES: ((0, 0), {0}, {0}, 0), LIST: ((1, 1), {0, 1}, {0, 1}, 0), TUPLE: ((0, 4096), {0, 1}, {0}, 0),
    STRUCT: ((0, 4096), {0}, {0}, None), UNION: ((2, 256), {0}, {0}, 0), NDARRAY: ((0, 0), {0}, {0, 1}, None),
    EXT: ((1, 1), set(EXT_CODES), {0}, None),
}


def check_node(node):
    if node.kind == 0:
        fail("TREE", node.offset, "node kind 0")
    (low, high), params, flags, aux_size = LEGAL[node.kind]
    if not low <= len(node.children) <= high or node.param not in params or node.flags not in flags:
        fail("TREE", node.offset, f"children, param or flags of a node of kind {node.kind}")
    if node.count and not (node.kind == LIST and node.flags):
        fail("TREE", node.offset, "count without meaning")
    if aux_size is not None and node.aux.end - node.aux.pos != aux_size:
        fail("TREE", node.offset, "aux size")
    try:
        if node.kind in (CONST, STRUCT):
            read_node_values(node)
        elif node.kind == NDARRAY:
            node.array = read_node_array(node)
        elif node.kind == EXT:
            cur = node.aux_cursor(Budget(0, 0))
            node.extra = read_extra(cur)
            cur.finish()
    except FormatError as error:
        if error.code != "RS_E_FMT_VERSION":
            fail("TREE", error.offset, error.text)
        raise
    measure(node)


def read_node_values(node):
    cur = node.aux_cursor(Budget(1 << 64, 1 << 64))
    n = 1 if node.kind == CONST else len(node.children)
    values = [read_any(cur) for _ in range(n)]
    cur.finish()
    if node.kind == STRUCT:
        add_keys([(key, None) for key in values], n, node.offset)


def read_node_array(node):
    cur = node.aux_cursor(None)
    flags, code, dtype = read_dtype(cur)
    shape = read_shape(cur) if node.flags & 1 else () if flags & 2 else None
    if flags & 2 and node.flags & 1:
        fail("TREE", node.offset, "a scalar with a shape")
    cur.finish()
    if shape is not None:
        data_size(dtype, shape, node.offset)
    return flags, code, dtype, shape


def measure(node):
    """bits and size of a node whose children have theirs."""
    kind, kids = node.kind, node.children
    sizes = [k.size for k in kids]
    if kind in (CONST, BOOL):
        node.bits, node.size = int(kind == BOOL), 0
    elif kind == INT:
        whole = node.param in (8, 16, 32, 64)
        node.bits, node.size = (0, node.param // 8) if whole else (node.param, 0)
    elif kind == FLOAT:
        node.size = 8
    elif kind == LIST and node.flags and sizes[0] is not None:
        node.size = ceil8(node.count * kids[0].bits) + node.count * sizes[0]
    elif kind in (TUPLE, STRUCT) and None not in sizes:
        node.size = ceil8(sum(k.bits for k in kids)) + sum(sizes)
    elif kind == UNION:
        node.bits = (len(kids) - 1).bit_length()
        alone = {k.alone() for k in kids}
        node.size = alone.pop() if len(alone) == 1 else None
    elif kind == EXT:
        node.bits, node.size = kids[0].bits, kids[0].size
    elif kind == NDARRAY and node.array[3] is not None:
        size = data_size(node.array[2], node.array[3], node.offset)
        node.size = size if size < ARRAY_INLINE else None
    if node.size is not None and node.size >= 1 << 31:
        fail("TREE", node.offset, f"a fixed body of {node.size} bytes")


# ---- bodies ----------------------------------------------------------------------------------------------------------

def bit_field(group, start, width):
    """The field of `width` bits that starts at bit `start` of the bytes `group`."""
    part = group[start // 8:ceil8(start + width)]
    return (int.from_bytes(part, "little") >> start % 8) & ((1 << width) - 1)


def read_alone(node, cur, depth=0):
    return read_body(node, cur, depth, bit_field(cur.take(ceil8(node.bits)), 0, node.bits))


def read_body(node, cur, depth, bits):
    """The value of a node whose bits have been read already."""
    kind, start = node.kind, cur.pos
    if kind == ANY:
        if node.payload:
            refuse_ext(cur)
        return read_any(cur, depth)
    if kind == EXT:
        return make_ext(node.param, node.extra, read_body(node.children[0], cur, depth, bits), start)
    if kind == CONST:
        return read_const(node, cur, depth)
    if kind == INT:
        stored = int.from_bytes(cur.take(node.size), "little") if node.size else bits
        base = struct.unpack_from("<Q", node.aux.data, node.aux.pos)[0]
        value = (base + stored) % (1 << 64)
        return value - (1 << 64) if value >> 63 else value
    if kind == FLOAT:
        return cur.unpack("d")
    if kind == BOOL:
        return bool(bits)
    if kind == STR:
        n, width = cur.varint(), node.param
        if width == 0:
            n, width = n >> 2, 1 << (n & 3)
            if width == 8:
                fail("VALUE", start, "str k is 3")
        return read_text(cur, n, width)
    if kind == BYTES:
        return bytes(cur.take(cur.varint()))
    if kind == LIST:
        return read_list(node, cur, depth)
    if kind in (TUPLE, STRUCT):
        return read_tuple(node, cur, depth)
    if kind == UNION:
        if bits >= len(node.children):
            fail("VALUE", start, f"union number {bits}")
        return read_alone(node.children[bits], cur, depth)
    flags, code, dtype, shape = node.array
    return read_data(cur, flags, code, dtype, read_shape(cur) if shape is None else shape)


def read_const(node, cur, depth):
    if node.aux.data[node.aux.pos] in (0x0D, 0x0E, 0x0F, 0x11):
        cur.budget.bytes -= node.aux.end - node.aux.pos
        if cur.budget.bytes < 0:
            fail("LIMIT", node.offset, "more than max_bytes in consts")
    return read_any(node.aux_cursor(cur.budget), depth)


def read_list(node, cur, depth):
    start, child = cur.pos, node.children[0]
    n = node.count if node.flags else cur.varint()
    cur.budget.enter(n, depth, start)
    group = cur.take(ceil8(n * child.bits))
    items = [read_body(child, cur, depth + 1, bit_field(group, i * child.bits, child.bits)) for i in range(n)]
    return tuple(items) if node.param else items


def read_tuple(node, cur, depth):
    kids, start = node.children, cur.pos
    cur.budget.enter(len(kids), depth, start)
    group = cur.take(ceil8(sum(k.bits for k in kids)))
    at, bits, items = 0, [], [None] * len(kids)
    for kid in kids:
        bits.append(bit_field(group, at, kid.bits))
        at += kid.bits
    for fixed in (True, False):
        for i, kid in enumerate(kids):
            if (kid.size is not None) == fixed:
                items[i] = read_body(kid, cur, depth + 1, bits[i])
    if node.kind == TUPLE:
        return tuple(items) if node.param else items
    keys = node.aux_cursor(cur.budget)
    return dict(zip([read_any(keys, depth + 1) for _ in kids], items))
