"""Trees of csrc/FORMAT.md: parses nodes, checks rules 17 to 19 and 39, computes bits and fixed sizes. The numbers in
comments are rules."""

import struct
from dataclasses import dataclass, field

from .cursor import DEPTH, Budget, Cursor, FormatError, fail
from .dtypes import data_size, read_dtype, read_shape, stored_size
from .values import ARRAY_INLINE, EXT_CODES, read_any, read_extra

TREE_NODES, TREE_SHAPES, TREE_BYTES, TREE_LEVELS = 4096, 1024, 1 << 20, 400

(ANY, CONST, INT, FLOAT, BOOL, STR, BYTES, LIST, TUPLE, STRUCT, UNION, NDARRAY, EXT, DECIMAL, NUMBERS, DICT_CODED, SYMBOLS, CONCAT, DIGITS,
 HEX, SAME, OPTIONAL) = range(1, 23)  # fmt: skip
ALPHABET = 24
RISING, RUNS, EXCEPTIONS = range(26, 29)
MAP = 30
FIXED, REST, RARE, IN_BITS, RARE_BYTES = 1, 2, 4, 8, 64
TEXTS = {STR, SYMBOLS, DICT_CODED, DIGITS, HEX, ALPHABET}  # parts of a concat, with const and same
NO_KEYS = {2, 3, *range(8, 13), 29, 30, 31}  # ext codes of types that have no hash
MASK = (1 << 64) - 1


@dataclass
class Packed:
    """The aux of decimal and numbers."""

    base: int
    scale: int
    correction: int = 0
    floats: bool = True
    stride: int = 0
    head_width: int = 0
    max_width: int = 0


@dataclass
class Node:
    """A node with its children, and the bits and body size that follow from them. size is None when the node is not
    fixed."""

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
    payload: bool = False  # its value is the payload of an ext node; see check_payloads
    packed: Packed | None = None
    tables: list = field(default_factory=list)  # of dict-coded and symbols, set by Segment.link

    def aux_cursor(self, budget):
        return Cursor(self.aux.data, self.aux.pos, self.aux.end, None, budget)

    def aux_size(self):
        return self.aux.end - self.aux.pos

    def alone(self):
        return None if self.size is None else ceil8(self.bits) + self.size

    def base(self):
        return struct.unpack_from("<Q", self.aux.data, self.aux.pos)[0]

    def letters(self):
        """The characters of an alphabet, as bytes."""
        return bytes(self.aux.data[self.aux.pos : self.aux.end])

    def table_numbers(self):
        return struct.unpack_from(f"<{self.aux_size() // 4}I", self.aux.data, self.aux.pos)

    def is_placed(self):
        return self.kind in (RISING, RUNS, EXCEPTIONS)

    def is_rare(self):
        return self.kind == OPTIONAL and bool(self.flags & RARE)

    def is_in_bits(self):
        return self.kind in (TUPLE, STRUCT) and bool(self.flags & IN_BITS)

    def is_key(self):
        """Whether the node is the optional of a key that may be absent."""
        return self.kind == OPTIONAL and self.param == 0


@dataclass
class Tree:
    """All nodes, the root first. levels is the depth of nested nodes with children; Segment.link adds the levels of
    the tables."""

    nodes: list
    levels: int

    def root(self):
        return self.nodes[0]

    def links(self):
        return [node for node in self.nodes if node.kind in (DICT_CODED, SYMBOLS)]

    def tables_end(self):
        """The highest number of a table that the tree names, plus 1; 0 when it names none."""
        return max((number + 1 for node in self.links() for number in node.table_numbers()), default=0)


def ceil8(bits):
    return (bits + 7) // 8


def read_tree(data, start, size):
    """The tree in data[start:start + size], after rules 17 to 19 and 39, without the crc."""
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
        known = kind <= OPTIONAL or kind == ALPHABET or RISING <= kind <= EXCEPTIONS or kind == MAP
        if not known or (kind == EXT and param not in EXT_CODES):
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
    levels = check_depth(nodes, spans)
    check_payloads(nodes)
    check_positions(nodes)
    check_placed(nodes)
    return Tree(nodes, levels)


def check_depth(nodes, spans):  # 17
    """The depth of nesting of nodes with children: at most 400, with at most 200 containers."""
    depths, levels = [0] * len(nodes), [0] * len(nodes)
    for i, (first, end) in enumerate(spans):
        depths[i] += nodes[i].kind in (LIST, TUPLE, STRUCT, MAP)
        levels[i] += end > first
        if depths[i] > DEPTH or levels[i] > TREE_LEVELS:
            fail("TREE", nodes[i].offset, "tree too deep")
        depths[first:end] = [depths[i]] * (end - first)
        levels[first:end] = [levels[i]] * (end - first)
    return max(levels)


def check_payloads(nodes):  # 19
    """Refuses an ext value or dict-coded node as the payload of an ext node, directly or through unions, optionals and
    placed nodes. An any node is checked when it is read."""
    for node in nodes:  # parents before children
        if node.payload and (node.kind in (EXT, DICT_CODED) or (node.kind == CONST and node.aux.peek() == 0x11)):
            fail("TREE", node.offset, "an ext or dict-coded node directly within an ext")
        for child in node.children:
            child.payload = node.kind == EXT or (node.payload and (node.kind in (UNION, OPTIONAL) or node.is_placed()))


def check_positions(nodes):  # 18
    """Checks the nodes that are allowed only in some positions: REST, same, optional keys, parts of a concat."""
    tail = {id(nodes[0])}
    if nodes[0].kind == SAME or nodes[0].is_key() or nodes[0].is_rare() or nodes[0].is_in_bits():
        fail("TREE", nodes[0].offset, "a root of a kind that cannot be one")
    for node in nodes:
        if node.flags & REST and node.kind in (STR, BYTES, SYMBOLS, ALPHABET) and id(node) not in tail:
            fail("TREE", node.offset, "REST that is not in tail position")
        if id(node) in tail:
            tail.update(map(id, tail_children(node)))
        for child in node.children:
            if (child.kind == SAME and node.kind != CONCAT) or (
                (child.is_key() or child.is_rare()) and node.kind != STRUCT
            ):
                fail("TREE", child.offset, "same outside a concat, or an optional key or rare one outside a struct")
        if node.kind == CONCAT:
            check_parts(node)


def check_placed(nodes):  # 39
    """Checks that a record has at most one value of each placed node."""
    repeated = set()
    for node in nodes:
        if node.is_placed() and id(node) in repeated:
            fail("TREE", node.offset, "a placed node where a record may have several values")
        if id(node) in repeated or node.kind not in (TUPLE, STRUCT, UNION, EXT, OPTIONAL, EXCEPTIONS):
            repeated.update(map(id, node.children))


def tail_children(node):
    if node.kind == EXCEPTIONS:
        return node.children[:1]
    if node.kind in (UNION, EXT, OPTIONAL):
        return node.children
    if node.kind in (TUPLE, STRUCT, CONCAT):
        return [child for child in node.children if child.size is None][-1:]
    return []


def check_parts(node):
    for i, child in enumerate(node.children):
        text = child.kind in TEXTS or (child.kind == CONST and child.aux.peek() in (9, 10, 11))
        if child.kind == SAME:
            text = child.count < i and node.children[child.count].kind != SAME
        if not text:
            fail("TREE", child.offset, "a part of a concat that is not text")


LEGAL = {  # kind: children, params, flags, aux size (None: own rule)
    ANY: ((0, 0), {0}, {0}, 0), CONST: ((0, 0), {0}, {0}, None), INT: ((0, 0), set(range(65)), {0}, 8),
    FLOAT: ((0, 0), {0}, {0}, 0), BOOL: ((0, 0), {0}, {0}, 0), STR: ((0, 0), {0, 1, 2, 4}, {0, REST}, 0),
    BYTES: ((0, 0), {0}, {0, REST}, 0), LIST: ((1, 1), {0, 1}, {0, FIXED}, 0), TUPLE: ((0, 4096), {0, 1}, {0, IN_BITS}, 0),
    STRUCT: ((0, 4096), {0}, {0, IN_BITS}, None), UNION: ((1, 256), {0}, {0}, 0), NDARRAY: ((0, 0), {0}, {0, FIXED}, None),
    EXT: ((1, 1), set(EXT_CODES), {0}, None), DECIMAL: ((0, 0), set(range(65)), {0}, 10),
    NUMBERS: ((0, 0), {0, 1}, {0, FIXED}, 16), DICT_CODED: ((0, 0), set(range(33)), {0}, None), SYMBOLS: ((0, 0), {0, 1}, {0, REST}, 4),
    CONCAT: ((0, 64), {0}, {0}, 0), DIGITS: ((0, 0), set(range(65)), {0}, 8), HEX: ((0, 0), {0, 1}, {0}, 0),
    SAME: ((0, 0), {0}, {0}, 0), OPTIONAL: ((1, 1), {0, 1}, {0, RARE}, 0), MAP: ((2, 2), {0}, {0}, 0),
    ALPHABET: ((0, 0), {0, 1, 2, 3}, {0, FIXED, REST}, None), RISING: ((1, 1), {0}, {0}, 0), RUNS: ((1, 1), {0}, {0}, 0), EXCEPTIONS: ((2, 2), {0}, {0}, 0),
}  # fmt: skip
COUNTS = {
    DICT_CODED: range(1 << 32),
    DIGITS: range(21),
    HEX: range(1, 65536),
    SAME: range(64),
}  # kind: legal counts


def check_node(node):
    if node.kind == 0:
        fail("TREE", node.offset, "node kind 0")
    (low, high), params, flags, aux_size = LEGAL[node.kind]
    if not low <= len(node.children) <= high or node.param not in params or node.flags not in flags:
        fail("TREE", node.offset, f"children, param or flags of a node of kind {node.kind}")
    if node.kind == STR and node.param == 0 and node.flags:
        fail("TREE", node.offset, "REST of a str of param 0")
    counted = node.kind in (LIST, NUMBERS, ALPHABET) and node.flags & FIXED
    if not counted and node.count not in COUNTS.get(node.kind, range(1)):
        fail("TREE", node.offset, "count")
    if aux_size is not None and node.aux_size() != aux_size:
        fail("TREE", node.offset, "aux size")
    try:
        read_aux(node)
    except FormatError as error:
        if error.code != "RS_E_FMT_VERSION":
            fail("TREE", error.offset, error.text)
        raise
    measure(node)


def read_aux(node):
    if node.kind in (CONST, STRUCT):
        read_node_values(node)
    elif node.kind == NDARRAY:
        node.array = read_node_array(node)
    elif node.kind == EXT:
        cur = node.aux_cursor(Budget(0, 0))
        node.extra = read_extra(cur)
        cur.finish()
    elif node.kind == DICT_CODED:
        if node.aux_size() % 4 or not 1 <= node.aux_size() // 4 <= 64 or node.count > 1 << node.param:
            fail("TREE", node.offset, "the tables or the count of a dict-coded node")
    elif node.kind == DECIMAL:
        base, scale, correction = struct.unpack_from("<QBB", node.aux.data, node.aux.pos)
        if scale > 22 or correction > min(node.param, 32):
            fail("TREE", node.offset, "scale or correction of a decimal")
        node.packed = Packed(base, scale, correction)
    elif node.kind == NUMBERS:
        read_numbers_aux(node)
    elif node.kind == ALPHABET:
        check_alphabet(node)


def check_alphabet(node):
    letters = node.letters()
    if len(letters) not in (2, 4, 8, 16, 32, 64) or not letters.isascii():
        fail("TREE", node.offset, "an alphabet")
    if node.flags & REST and node.param not in (1, 2):
        fail("TREE", node.offset, "REST of an alphabet of this param")
    if node.flags & FIXED and not 1 <= node.count <= 65535:
        fail("TREE", node.offset, "count of an alphabet")
    if node.param == 3 and (len(letters), node.count) != (16, 32):
        fail("TREE", node.offset, "UUIDs that are not 32 of 16 characters")


def letters_size(node, n):
    """The bytes of n characters of an alphabet."""
    bits = n * (len(node.letters()).bit_length() - 1)
    return bits // 8 if node.param in (1, 2) else ceil8(bits)


def read_numbers_aux(node):
    base, kind, scale, stride, head, widest, reserved = struct.unpack_from("<QBBBBB3s", node.aux.data, node.aux.pos)
    if kind > 1 or scale > 22 * kind or stride > 16 or head > 64 or widest > 64 or reserved != bytes(3):
        fail("TREE", node.offset, "a field of numbers out of range")
    node.packed = Packed(base, scale, 0, kind == 1, stride, head, widest)


def read_node_values(node):
    cur = node.aux_cursor(Budget(1 << 64, 1 << 64))
    n = 1 if node.kind == CONST else len(node.children)
    for _ in range(n):
        if node.kind == STRUCT and not may_be_key(cur):
            fail("TREE", node.offset, "a key of a type that no dict has")
        read_any(cur)
    cur.finish()


def may_be_key(cur):
    """False if the type cannot be a key. The elements of a tuple, and whether keys are distinct, are checked when a
    dict is made (22)."""
    tag, following = (cur.data[cur.pos : cur.end] + b"\0\0")[:2]
    if tag == 0x10:
        return bool(following & 2)  # a numpy scalar
    return tag not in (0x0D, 0x0F) and not (tag == 0x11 and following in NO_KEYS)


def read_node_array(node):
    cur = node.aux_cursor(None)
    flags, code, dtype = read_dtype(cur)
    shape = read_shape(cur) if node.flags & FIXED else () if flags & 2 else None
    if flags & 2 and node.flags & FIXED:
        fail("TREE", node.offset, "a scalar with a shape")
    cur.finish()
    if shape is not None:
        data_size(dtype, shape, node.offset)
    return flags, code, dtype, shape


def measure(node):
    """Sets bits and size of a node. Those of its children are set already."""
    kind, kids = node.kind, node.children
    sizes = [k.size for k in kids]
    if kind in (CONST, BOOL, SAME):
        node.bits, node.size = int(kind == BOOL), 0
    elif kind in (INT, DECIMAL, DIGITS):
        whole = node.param in (8, 16, 32, 64)
        node.bits, node.size = (0, node.param // 8) if whole else (node.param, 0)
    elif kind == DICT_CODED:
        node.bits, node.size = node.param, 0
    elif kind == HEX:
        node.size = (node.count + 1) // 2
    elif kind == ALPHABET and node.flags & FIXED:
        node.size = letters_size(node, node.count)
    elif kind == FLOAT:
        node.size = 8
    elif kind == LIST and node.flags and sizes[0] is not None:
        node.size = ceil8(node.count * kids[0].bits) + node.count * sizes[0]
    elif kind == STRUCT and any(kid.is_rare() for kid in kids):
        rare = ceil8(sum(kid.is_rare() for kid in kids))
        if ceil8(rare + sum(kid.bits for kid in kids if not kid.is_rare())) + rare > RARE_BYTES:
            fail("TREE", node.offset, "a rare group that is too large")
    elif kind in (TUPLE, STRUCT, CONCAT) and None not in sizes:
        node.size = ceil8(0 if node.is_in_bits() else sum(k.bits for k in kids)) + sum(sizes)
    elif kind == UNION:
        node.bits = (len(kids) - 1).bit_length()
        alone = {k.alone() for k in kids}
        node.size = alone.pop() if len(alone) == 1 else None
    elif kind == EXT:
        node.bits, node.size = kids[0].bits, kids[0].size
    elif kind == OPTIONAL:
        node.bits, node.size = 1 + kids[0].bits, 0 if kids[0].size == 0 and not node.is_rare() else None
        if node.bits > (1 if node.is_rare() else 64):
            fail("TREE", node.offset, "an optional of too many bits")
    elif kind in (RISING, RUNS):
        node.size = 0
        stores = kids[0].kind != DICT_CODED and (kids[0].kind not in (INT, DECIMAL, DIGITS) or kids[0].param != 0)
        if stores if kind == RISING else sizes[0] is None:
            fail("TREE", node.offset, "the child of a placed node")
    elif kind == EXCEPTIONS:
        node.bits, node.size = kids[0].bits, sizes[0]
    elif kind == NDARRAY and node.array[3] is not None:
        flags, _, dtype, shape = node.array
        size = stored_size(flags, dtype, shape, node.offset)
        node.size = size if size < ARRAY_INLINE else None
    if node.is_in_bits():
        node.bits = sum(kid.bits for kid in kids)
        if node.bits > 64 or any(kid.is_rare() for kid in kids):
            fail("TREE", node.offset, "bits that do not fit the parent")
    if node.size is not None and node.size >= 1 << 31:
        fail("TREE", node.offset, f"a fixed body of {node.size} bytes")
