"""The str of concat, symbols, digits, hex and alphabet nodes of csrc/FORMAT.md, and of the parts of a concat, which may be
entries of tables."""

import math

from .cursor import Cursor, fail
from .steps import bit_field, in_order_of_bodies, read_str, stored, table_value, union_child
from .trees import (
    ALPHABET,
    ANY,
    CONCAT,
    CONST,
    DICT_CODED,
    DIGITS,
    FIXED,
    HEX,
    MASK,
    OPTIONAL,
    REST,
    SAME,
    STR,
    SYMBOLS,
    UNION,
    ceil8,
    letters_size,
)  # fmt: skip
from .values import read_any

TEXT_PARTS = 8192


def read_text_node(node, cur, bits):
    """The str of a concat, symbols, digits, hex or alphabet node."""
    return read_part(node, cur, bits, [TEXT_PARTS])


def read_part(node, cur, bits, left):
    """The str of a node that is a part. left[0] is how many parts the whole str may still have."""
    start = cur.pos
    if node.kind == CONCAT:
        return read_concat(node, cur, left)
    if node.kind == SYMBOLS:
        codes = cur.take(cur.end - cur.pos if node.flags & REST else cur.varint())
        text = node.tables[0].symbols.decode(codes, start)
        return join_pairs(text, start) if node.param else text
    if node.kind == DIGITS:
        return str((node.base() + stored(node, cur, bits)) & MASK).zfill(node.count)
    if node.kind == HEX:
        digits = cur.take(ceil8(4 * node.count)).hex()[: node.count]
        return digits.upper() if node.param else digits
    if node.kind == ALPHABET:
        return read_letters(node, cur)
    if node.kind == STR:
        return read_str(node, cur)
    if node.kind == DICT_CODED:
        with table_value(node, cur, bits) as (root, inner):
            return read_alone_part(root, inner, left)
    if node.kind == UNION:
        return read_alone_part(union_child(node, bits, start), cur, left)
    if node.kind == OPTIONAL and bits & 1:
        return read_part(node.children[0], cur, bits >> 1, left)
    if node.kind in (CONST, ANY):
        return read_any_str(
            cur if node.kind == ANY else Cursor(node.aux.data, node.aux.pos, node.aux.end, None, cur.budget)
        )
    fail("VALUE", start, f"a part of a concat is of kind {node.kind}")


def join_pairs(text, start):
    """The str of units of UTF-16."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        fail("VALUE", start, "half a surrogate pair")


def read_letters(node, cur):
    letters = node.letters().decode()
    bits = len(letters).bit_length() - 1
    if node.flags & REST:
        raw = cur.take(cur.end - cur.pos)
        n = -(-8 * len(raw) // bits)
    else:
        n = node.count if node.flags & FIXED else cur.varint()
        raw = cur.take(letters_size(node, n))
    digits = "".join(f"{byte:08b}" for byte in raw).ljust(n * bits, "0")
    text = "".join(letters[int(digits[i * bits : (i + 1) * bits], 2)] for i in range(n))
    if node.param == 2:
        text += "=" * (-n % (8 // math.gcd(8, bits)))
    if node.param == 3:
        text = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return text


def read_alone_part(node, cur, left):
    return read_part(node, cur, bit_field(cur.take(ceil8(node.bits)), 0, node.bits), left)


def read_any_str(cur):
    if cur.peek() not in (None, 9, 10, 11):
        fail("VALUE", cur.pos, "a part of a concat that is not a str")
    return read_any(cur)


def read_concat(node, cur, left):
    start, parts = cur.pos, {}
    left[0] -= len(node.children)
    if left[0] < 0:
        fail("LIMIT", start, "a str of too many parts")
    for i, kid, bits in in_order_of_bodies(node, cur)[1]:
        if kid.kind != SAME:
            parts[i] = read_part(kid, cur, bits, left)
    text = "".join(parts[kid.count if kid.kind == SAME else i] for i, kid in enumerate(node.children))
    if len(text) > cur.budget.bytes:
        fail("LIMIT", start, "a str longer than max_bytes")
    return text
