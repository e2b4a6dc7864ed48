"""Makes segments by hand as csrc/FORMAT.md says, from trees and the values or bytes of records. The caller may
override fields.

It shares the crc, dtype codes and ext values with the reader. It chooses no tree and checks nothing, so tests
can make broken segments with valid checksums.
"""

import struct
from dataclasses import dataclass, field

import numpy as np

from .dtypes import code_bytes, shape_bytes, varint
from .ext_values import ext_of, make
from .offset_writer import line_groups, offset_groups

# isort: off
from .packed_writer import (  # noqa: F401 - callers use `writer` alone
    ABSENT, ALPHABET, CONCAT, DECIMAL, DICT_CODED, DIGITS, EXCEPTIONS, HEX, IN_BITS, MAP, NONE, NUMBERS, OPTIONAL, REST, RISING, RUNS, SAME, SYMBOLS, Joined, Narrow,
    Node, Nothing, Own, Pairs, Pick, Stored, alphabet, alphabet_body, alphabet_size, code, coded, concat, decimal, dict_coded, digits, hex_, hex_body, in_bits, is_in_bits, is_rare, map_, map_sides, numbers, numbers_body, optional, same, stored_of, symbol_table, symbols,
)  # fmt: skip

# isort: on
from .reader import crc32c


@dataclass
class Coded:
    """An any value with other bytes than `any_value` makes."""

    raw: bytes
    value: object


@dataclass
class ExtParts:
    """The value of an ext node: code, EXTRA and payload, which may hold Picks."""

    code: int
    extra: object
    payload: object


@dataclass
class Block:
    """The bytes of records, in order, under one tree. With index_width 0 all records have the same length."""

    records: list
    tree: int = 0
    index_width: int = 4
    arrays: bytes = b""
    fields: dict = field(default_factory=dict)  # fields of the entry to override
    index_bits: int = 0  # with index_width 1
    places: bytes = b""


@dataclass
class Table(Block):
    """A value table: its values are the records of a block."""

    kind: int = 1


@dataclass
class SymbolTable:
    """A symbol table: the bytes of its heap."""

    heap: bytes
    fields: dict = field(default_factory=dict)
    kind: int = 2


def plain(value):
    """The Python value of a value that contains wrappers such as Pick and Coded."""
    if isinstance(value, (Own, Pick)):
        return plain(value.value)
    if isinstance(value, (Coded, Joined, Pairs, Stored, Narrow)):
        return value.value
    if isinstance(value, Nothing):
        return None
    if isinstance(value, ExtParts):
        return make(value.code, value.extra, plain(value.payload))
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {plain(k): plain(v) for k, v in value.items() if v is not ABSENT}
    return value


# ---- values ----------------------------------------------------------------------------------------------------------


def text(value, width):
    return b"".join(ord(c).to_bytes(width, "little") for c in value)


def str_width(value):
    top = max(map(ord, value), default=0)
    return 1 if top < 0x100 else 2 if top < 0x10000 else 4


def int_value(value):
    if -16 <= value <= 111:
        return bytes([value + 0x90])
    for tag, size in ((3, 1), (4, 2), (5, 4), (6, 8)):
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return bytes([tag]) + value.to_bytes(size, "little", signed=True)
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return b"\x07" + varint(size) + value.to_bytes(size, "little", signed=True)


def any_value(value, arrays=None):
    """The bytes that a writer must store for an any value. arrays: a bytearray for array data of 1024 bytes or more."""
    if isinstance(value, Coded):
        return value.raw
    ext = ext_of(value)
    if ext is not None:
        return bytes([0x11, ext[0]]) + any_value(ext[1]) + any_value(ext[2], arrays)
    if isinstance(value, (np.ndarray, np.generic, Narrow)):
        shape = b"" if isinstance(value, np.generic) else shape_bytes(value.shape)
        return b"\x10" + dtype_bytes(value) + shape + data_bytes(value, arrays)
    if value is None or isinstance(value, bool):
        return bytes([{None: 0, False: 1, True: 2}[value]])
    if isinstance(value, int):
        return int_value(value)
    if isinstance(value, float):
        return b"\x08" + struct.pack("<d", value)
    if isinstance(value, str):
        width = str_width(value)
        return bytes([{1: 9, 2: 10, 4: 11}[width]]) + varint(len(value)) + text(value, width)
    if isinstance(value, bytes):
        return b"\x0c" + varint(len(value)) + value
    tag = {list: 0x0D, tuple: 0x0E, dict: 0x0F}[type(value)]
    items = [x for pair in value.items() for x in pair] if tag == 0x0F else value
    return bytes([tag]) + varint(len(value)) + b"".join(any_value(x, arrays) for x in items)


def array_flags(value):
    if isinstance(value, np.generic):
        return 2
    return int(value.flags.f_contiguous and not value.flags.c_contiguous) | getattr(value, "width", 0) << 2


def dtype_bytes(value):
    """Array flags and dtype."""
    size = 4 * len(value) if isinstance(value, np.str_) else len(value) if isinstance(value, np.bytes_) else None
    return bytes([array_flags(value)]) + code_bytes(value.dtype, size)


def raw_data(value):
    if isinstance(value, np.str_):
        return text(value, 4)
    return bytes(value) if isinstance(value, np.bytes_) else value.tobytes("F" if array_flags(value) & 1 else "C")


def data_bytes(value, arrays):
    data = raw_data(value)
    if len(data) < 1024:
        return data
    arrays += bytes(-len(arrays) % 64)
    at = len(arrays) // 64
    arrays += data
    return varint(at)


# ---- trees -----------------------------------------------------------------------------------------------------------


def any_():
    return Node(1)


def const(value):
    return Node(2, aux=any_value(value))


def int_(width, base=0):
    return Node(3, param=width, aux=struct.pack("<q", base))


def float_():
    return Node(4)


def bool_():
    return Node(5)


def str_(param=0, rest=False):
    return Node(6, param=param, flags=REST * rest)


def bytes_(rest=False):
    return Node(7, flags=REST * rest)


def list_(child, param=0, count=None):
    return Node(8, (child,), param, int(count is not None), count=count or 0)


def tuple_(children, param=1):
    return Node(9, tuple(children), param)


def struct_(children):
    """A struct node of a dict {key: child}. A key may be Coded."""
    return Node(10, tuple(children.values()), aux=b"".join(map(any_value, children)))


def union(children):
    return Node(11, tuple(children))


def ndarray(like, with_shape=False):
    """A node for arrays of the dtype and order of `like`. with_shape: and of its shape."""
    known = with_shape or isinstance(like, np.generic)
    aux = dtype_bytes(like) + (shape_bytes(like.shape) if with_shape else b"")
    return Node(12, flags=int(with_shape), aux=aux, data_size=len(raw_data(like)) if known else None)


def ext(code, extra, child):
    return Node(13, (child,), code, aux=any_value(extra))


def tree_bytes(root):
    order = [root]
    for node in order:  # breadth first: the loop extends the list
        order.extend(node.children)
    rows, aux, following = b"", b"", 1
    for node in order:
        n = len(node.children)
        rows += struct.pack("<BBHIIIII", node.kind, node.param, node.flags, n, following if n else 0, len(aux), len(node.aux),
                            node.count)  # fmt: skip
        aux += node.aux
        following += n
    return struct.pack("<II", len(order), len(aux)) + rows + aux


def node_bits(node):
    if node.kind in (3, DECIMAL, DIGITS):
        return 0 if node.param in (8, 16, 32, 64) else node.param
    if node.kind in (13, OPTIONAL, EXCEPTIONS):
        return (node.kind == OPTIONAL) + node_bits(node.children[0])
    row = sum(map(node_bits, node.children)) if is_in_bits(node) else 0
    return {5: 1, 11: (len(node.children) - 1).bit_length(), DICT_CODED: node.param}.get(node.kind, row)


def fixed_size(node):
    """The size of the body in bytes; None if the node is not fixed."""
    sizes = [fixed_size(kid) for kid in node.children]
    bits = [node_bits(kid) for kid in node.children]
    if node.kind in (2, 4, 5):
        return 8 if node.kind == 4 else 0
    if node.kind in (3, DECIMAL, DIGITS):
        return node.param // 8 if node_bits(node) == 0 else 0
    if node.kind in (DICT_CODED, HEX, SAME, RISING, RUNS):
        return (node.count + 1) // 2 if node.kind == HEX else 0
    if node.kind == ALPHABET:
        return alphabet_size(node, node.count) if node.flags & 1 else None
    if node.kind == OPTIONAL:
        return 0 if sizes[0] == 0 and not is_rare(node) else None
    if node.kind == 8:
        return None if not node.flags or sizes[0] is None else (node.count * bits[0] + 7) // 8 + node.count * sizes[0]
    if node.kind in (9, 10, CONCAT):
        return None if None in sizes else (0 if is_in_bits(node) else (sum(bits) + 7) // 8) + sum(sizes)
    if node.kind == 11:
        alone = {None if size is None else (b + 7) // 8 + size for size, b in zip(sizes, bits)}
        return alone.pop() if len(alone) == 1 else None
    if node.kind == 12 and node.data_size is not None:
        return node.data_size if node.data_size < 1024 else None
    return sizes[0] if node.kind in (13, EXCEPTIONS) else None


# ---- bodies ----------------------------------------------------------------------------------------------------------


def pack_bits(fields):
    """(value, width) pairs as a bit group."""
    group = at = 0
    for value, width in fields:
        group |= value << at
        at += width
    return group.to_bytes((at + 7) // 8, "little")


def encode(node, value, arrays=None):
    """The bytes of a standalone value: a record, if node is the root. Values of unions are Picks."""
    bits, body = encode_parts(node, value, arrays)
    return pack_bits([(bits, node_bits(node))]) + body


def encode_parts(node, value, arrays):
    """The bits (as a number) and the body of a value."""
    kind = node.kind
    if kind == 1:
        return 0, any_value(value, arrays)
    if kind == 2:
        return 0, b""
    if kind == 3:
        stored = (value - struct.unpack("<q", node.aux)[0]) % (1 << 64)
        width = node.param
        return (0, stored.to_bytes(width // 8, "little")) if width in (8, 16, 32, 64) else (stored, b"")
    if kind == 4:
        return 0, struct.pack("<d", value)
    if kind == 5:
        return int(value), b""
    if kind == 6 and node.flags & REST:
        return 0, text(value, node.param)
    if kind == 6:
        if node.param:
            return 0, varint(len(value)) + text(value, node.param)
        width = str_width(value)
        return 0, varint(4 * len(value) + width.bit_length() - 1) + text(value, width)
    if kind == 7:
        return 0, (b"" if node.flags & REST else varint(len(value))) + value
    if kind == 8:
        return 0, (b"" if node.flags else varint(len(value))) + encode_items(node.children[0], value, arrays)
    if kind in (9, 10):
        return encode_tuple(node, value.values() if kind == 10 else value, arrays)
    if kind == 11:
        return value.number, encode(node.children[value.number], value.value, arrays)
    if kind == 13:
        return encode_parts(node.children[0], value.payload, arrays)
    if kind >= DECIMAL:
        return encode_later(node, value, arrays)
    shape = b"" if node.flags & 1 or isinstance(value, np.generic) else shape_bytes(value.shape)
    return 0, shape + data_bytes(value, arrays)


def encode_later(node, value, arrays):
    """encode_parts for kinds 14 to 30."""
    kind = node.kind
    if kind == MAP:
        n, sides = map_sides(node, value)
        return 0, varint(n) + b"".join(encode_items(*side, arrays) for side in sides)
    if kind in (DECIMAL, DIGITS):
        stored = stored_of(node, value)
        return (stored, b"") if node_bits(node) or not node.param else (0, stored.to_bytes(node.param // 8, "little"))
    if kind == DICT_CODED:
        return value.number, b""
    if kind == SYMBOLS:
        return 0, (b"" if node.flags & REST else varint(len(value.raw))) + value.raw
    if kind in (HEX, ALPHABET):
        return 0, hex_body(value) if kind == HEX else alphabet_body(node, value)
    if kind == CONCAT:
        return encode_tuple(node, value.values, arrays)
    if kind == OPTIONAL:
        if value is (NONE if node.param else ABSENT):
            return 0, b""
        bits, body = encode_parts(node.children[0], value, arrays)
        return bits << 1 | 1, body
    if kind == EXCEPTIONS:
        kid = node.children[0]
        return (0, bytes(fixed_size(kid) or 0)) if isinstance(value, Own) else encode_parts(kid, value, arrays)
    return 0, numbers_body(node, value) if kind == NUMBERS else b""


def encode_items(child, items, arrays):
    """The bit group and the bodies of values of one child."""
    parts = [encode_parts(child, item, arrays) for item in items]
    width = node_bits(child)
    return pack_bits([(bits, width) for bits, _ in parts]) + b"".join(body for _, body in parts)


def encode_tuple(node, values, arrays):
    both = [(kid, encode_parts(kid, item, arrays)) for kid, item in zip(node.children, values, strict=True)]
    rare = pack_bits([(bits, 1) for kid, (bits, _) in both if is_rare(kid)])
    group = [(byte != 0, 1) for byte in rare] + [(bits, node_bits(kid)) for kid, (bits, _) in both if not is_rare(kid)]
    fixed, others = (b"".join(x for k, (_, x) in both if (fixed_size(k) is None) == last) for last in (False, True))
    group, bodies = pack_bits(group), fixed + rare.replace(b"\0", b"") + others
    return (int.from_bytes(group, "little"), bodies) if is_in_bits(node) else (0, group + bodies)


# ---- segments --------------------------------------------------------------------------------------------------------


def align(buffer, to=64):
    buffer += bytes(-len(buffer) % to)
    return len(buffer)


BLOCK_FIELDS = (
    "first_record n_records tree heap_offset heap_size index_offset row_size index_width index_bits reserved1 "
    "arrays_offset arrays_size heap_crc arrays_crc places_size"
).split()
BLOCK_ENTRY = "<QIIQQQIBBHQQIIQ"
HEADER_FIELDS = {"magic": "8s", "version": "H", "reader_version": "H", "header_size": "I", "features_required": "Q",
                 "features_optional": "Q", "segment_size": "Q", "segment_id": "16s", "created": "Q", "content": "I",
                 "directory_count": "I", "directory_offset": "Q", "n_records": "Q", "max_values": "Q", "max_bytes": "Q",
                 "max_depth": "I", "directory_crc": "I", "raw_size": "Q"}  # fmt: skip


def block_entries(out, blocks, index_start, index):
    """The section BLOCKS or TABLES. Heaps and arrays go to `out`, offset groups to `index`, which has offset
    `index_start`."""
    entries, first = b"", 0
    for block in blocks:
        if isinstance(block, SymbolTable):
            entries += symbol_entry(out, block)
            continue
        heap = b"".join(block.records) + block.places
        entry = dict.fromkeys(BLOCK_FIELDS, 0)
        entry.update(first_record=getattr(block, "kind", first), n_records=len(block.records), tree=block.tree, heap_offset=align(out),
                     heap_size=len(heap), index_width=block.index_width, index_bits=block.index_bits, heap_crc=crc32c(heap),
                     arrays_size=len(block.arrays), arrays_crc=crc32c(block.arrays), places_size=len(block.places))  # fmt: skip
        out += heap
        entry["arrays_offset"] = align(out)
        out += block.arrays
        if block.index_width:
            entry["index_offset"] = index_start + len(index)
            if block.index_width == 1:
                index += line_groups(block.records, block.index_bits)
            else:
                index += offset_groups(block.records, block.index_width)
        else:
            entry["row_size"] = len(block.records[0])
        first += len(block.records)
        entries += struct.pack(BLOCK_ENTRY, *{**entry, **block.fields}.values())
    return entries


def symbol_entry(out, table):
    entry = dict.fromkeys(BLOCK_FIELDS, 0)
    entry.update(first_record=table.kind, heap_offset=align(out), heap_size=len(table.heap),
                 heap_crc=crc32c(table.heap))  # fmt: skip
    out += table.heap
    entry["arrays_offset"] = align(out)
    return struct.pack(BLOCK_ENTRY, *{**entry, **table.fields}.values())


def tree_sections(trees):
    """TREES and TREE_TABLE."""
    table, body = b"", b""
    for tree in trees:
        raw = tree if isinstance(tree, bytes) else tree_bytes(tree)
        body += bytes(-len(body) % 8)
        table += struct.pack("<QII", len(body), len(raw), crc32c(raw))
        body += raw
    return body, table


def segment(blocks, trees, groups=None, extra=(), tables=None, front=(), **header):
    """A whole segment. trees: roots or bytes; groups: the numbers of GROUPS in place of the right ones;
    extra: further sections as (kind, bytes) or (kind, bytes, count); tables: the tables, or None; front: the kinds of
    the sections in the header, in this order, never OFFSETS; header: fields to override."""
    heap = bytearray(4096)
    block_entries(heap, [*blocks, *(tables or ())], 0, bytearray())
    align(heap)
    out, index = bytearray(4096), bytearray()
    entries = block_entries(out, blocks, len(heap), index)  # again, now that OFFSETS has its place
    table_entries = block_entries(out, tables or (), len(heap), index)
    align(out)
    if groups is None:
        owners = [b for b, block in enumerate(blocks) for _ in block.records]
        groups = owners[::64]
    body, table = tree_sections(trees)
    n_records = sum(len(block.records) for block in blocks)
    directory = struct.pack("<HHIQQQII", 1, 0, 0, 4096, len(out) - 4096, len(blocks), 0, 0)
    sections = [
        (2, index, 0),
        (3, struct.pack(f"<{len(groups)}I", *groups), (n_records + 63) // 64),
        (4, entries, len(blocks)),
        (5, body, len(trees)),
        (6, table, len(trees)),
        *([] if tables is None else [(9, table_entries, len(tables))]),
        *((k, raw, *(more or [0])) for k, raw, *more in extra),
    ]
    at, inside = 128, b""
    for kind, raw, count in sorted((s for s in sections if s[0] in front), key=lambda s: front.index(s[0])):
        inside += struct.pack("<HHIQQQII", kind, 0, 0, at, len(raw), count, crc32c(raw), 0)
        out[at : at + len(raw)] = raw
        at += -(-len(raw) // 64) * 64
    directory = inside + directory
    for kind, raw, count in sections:
        if kind in front:
            continue
        directory += struct.pack("<HHIQQQII", kind, 0, 0, align(out), len(raw), count, crc32c(raw), 0)
        out += raw
    at = align(out)
    out += directory
    values = {"magic": b"\x89RECS\r\n\x1a", "version": 1, "reader_version": 1, "header_size": 4096, "features_required": 0,
              "features_optional": 0, "segment_size": len(out), "segment_id": bytes(range(16)), "created": 0, "content": 1,
              "directory_count": len(directory) // 40, "directory_offset": at, "n_records": n_records, "max_values": 1 << 20,
              "max_bytes": 1 << 24, "max_depth": 200, "directory_crc": crc32c(directory), "raw_size": 0, **header}  # fmt: skip
    out[:120] = struct.pack("<" + "".join(HEADER_FIELDS.values()), *(values[name] for name in HEADER_FIELDS))
    return reseal(out)


def reseal(data):
    """The segment with a valid header_crc."""
    out, at = bytearray(data), 4092 if data[10] == 1 else 124
    struct.pack_into("<I", out, at, crc32c(out[:at]))
    return bytes(out)


def simple(root, values, index_width=4, **header):
    """A segment of one block: the values under one tree."""
    arrays = bytearray()
    records = [encode(root, value, arrays) for value in values]
    return segment([Block(records, 0, index_width, bytes(arrays))] if records else [], [root], **header)
