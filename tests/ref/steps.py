"""Steps in reading a body: fields of bits, stored numbers, children in the order of their bodies, values of tables."""

import contextlib

from .cursor import fail
from .trees import MASK, REST, ceil8
from .values import read_text


def bit_field(group, start, width):
    """The field of `width` bits that starts at bit `start` of the bytes `group`."""
    part = group[start // 8 : ceil8(start + width)]
    return (int.from_bytes(part, "little") >> start % 8) & ((1 << width) - 1)


def signed(number):
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


def stored(node, cur, bits):
    """The stored number of an int, decimal or digits node: its body, or its bits if the body is empty."""
    return int.from_bytes(cur.take(node.size), "little") if node.size else bits


def union_child(node, bits, offset):
    if bits >= len(node.children):
        fail("VALUE", offset, f"union number {bits}")
    return node.children[bits]


@contextlib.contextmanager
def table_value(node, cur, number):
    """The root of value `number` of a dict-coded node, and a cursor at the value. Fails on exit if bytes of the value
    are left (rule 31)."""
    if number >= node.count:
        fail("VALUE", cur.pos, f"value {number} of {node.count} of a dict-coded node")
    for table in node.tables:
        if number < table.fields.n_records:
            break
        number -= table.fields.n_records
    inner = table.cursor(number, cur.budget)
    yield table.tree.root(), inner
    inner.finish()


def read_str(node, cur):
    start, width = cur.pos, node.param
    if node.flags & REST:
        if (cur.end - cur.pos) % width:
            fail("VALUE", start, "the rest is not a multiple of the unit")
        return read_text(cur, (cur.end - cur.pos) // width, width)
    n = cur.varint()
    if width == 0:
        n, width = n >> 2, 1 << (n & 3)
        if width == 8:
            fail("VALUE", start, "str k is 3")
    return read_text(cur, n, width)


def in_order_of_bodies(node, cur, own=0):
    """The bits of all children of a node with its own bits; and (number, child, bits) of each, for reading its body: first
    the children that are fixed, then the others."""
    n_rare = sum(kid.is_rare() for kid in node.children)
    at, rare_at, bits = (n_rare + 7) // 8, 0, []
    width = ceil8(at + sum(kid.bits for kid in node.children) - n_rare)
    group = own.to_bytes(width, "little") if node.is_in_bits() else cur.take(width)
    after = cur.within(cur.pos, cur.end)
    after.take(sum(kid.size or 0 for kid in node.children))
    rare = b"".join(after.take(1) if bit_field(group, k, 1) else bytes(1) for k in range(at))
    for kid in node.children:
        if kid.is_rare():
            bits.append(bit_field(rare, rare_at, 1))
            rare_at += 1
        else:
            bits.append(bit_field(group, at, kid.bits))
            at += kid.bits
    return bits, each_body(node, cur, after.pos, bits)


def each_body(node, cur, after, bits):
    """The children in the order of their bodies. Those that are not fixed begin at `after`."""
    for fixed in (True, False):
        for i, kid in enumerate(node.children):
            if (kid.size is not None) == fixed:
                yield i, kid, bits[i]
        cur.pos = max(cur.pos, after)
