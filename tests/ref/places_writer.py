"""The places of a block of csrc/FORMAT.md, for `writer`. The nodes give the forms and the lines.

The value of an exceptions node is a value of its child 0, or Own with a value of its child 1.
"""

import struct
from dataclasses import dataclass

from .packed_writer import DECIMAL, DICT_CODED, MASK, OPTIONAL, Nothing, Own, Placed, pack, stored_of
from .writer import encode

EXT, UNION = 13, 11


@dataclass
class Line:
    """How a rising node writes its numbers: the line, and the form."""

    step: int = 0
    shift: int = 0
    form: int = 0


def rising(child, step=0, shift=0, form=0):
    return Placed(26, (child,), how=Line(step, shift, form))


def runs(child, form=0):
    return Placed(27, (child,), how=form)


def exceptions(child, other, form=0):
    return Placed(28, (child, other), how=form)


def signed(number):
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


def bits_of(number, width):
    return number & ((1 << width) - 1)


def collect(node, value, j, by_node):
    """Adds the values of all placed nodes of record j to `by_node`."""
    if isinstance(node, Placed):
        by_node[id(node)].append((j, value))
        if node.kind == 28 and not isinstance(value, Own):
            collect(node.children[0], value, j, by_node)
        return
    if isinstance(value, Nothing):
        return
    if node.kind in (9, 10):
        for child, item in zip(node.children, value.values() if node.kind == 10 else value, strict=True):
            collect(child, item, j, by_node)
    elif node.kind == UNION:
        collect(node.children[value.number], value.value, j, by_node)
    elif node.kind in (EXT, OPTIONAL):
        collect(node.children[0], value.payload if node.kind == EXT else value, j, by_node)


def number_of(child, value):
    """The stored number of a value under the child of a rising node."""
    if child.kind == DICT_CODED:
        return value.number
    if child.kind == DECIMAL:
        return stored_of(child, value)
    if child.kind == 3:
        return value - struct.unpack("<q", child.aux)[0] & MASK
    return stored_of(child, value)


def marks_head(form, n, marked):
    """Head and marks of a runs or exceptions node."""
    part_size = (256, 64)[form]
    starts = range(0, n, part_size)
    counts = [sum(j < at for j in marked) for at in starts]
    if form:
        marks = b"".join(
            struct.pack("<HQ", count, sum(1 << j - at for j in marked if at <= j < at + 64))
            for count, at in zip(counts, starts)
        )
    else:
        marks = struct.pack(f"<{len(counts)}H", *counts) + bytes(j % 256 for j in marked)
    return struct.pack("<IB3x", len(marked), form) + marks


def runs_section(node, n, pairs):
    child = node.children[0]
    values = [(j, encode(child, value)) for j, value in pairs]
    run_values = [values[i] for i in range(len(values)) if i == 0 or values[i][1] != values[i - 1][1]]
    return marks_head(node.how, n, [j for j, _ in run_values[1:]]) + b"".join(raw for _, raw in run_values)


def exceptions_section(node, n, pairs):
    own = [(j, encode(node.children[1], value.value)) for j, value in pairs if isinstance(value, Own)]
    ends, at = b"", 0
    for _, raw in own:
        at += len(raw)
        ends += struct.pack("<I", at)
    return marks_head(node.how, n, [j for j, _ in own]) + ends + b"".join(raw for _, raw in own)


def rising_section(node, n, pairs):
    """A record without a value has the number of the record before it, or of the first value."""
    line = node.how
    stored = {j: number_of(node.children[0], value) for j, value in pairs}
    last = stored[pairs[0][0]]
    numbers = [last := stored.get(j, last) for j in range(n)]
    offsets = [number - (signed(line.step * j) >> line.shift) & MASK for j, number in enumerate(numbers)]
    if line.form == 0:
        base = min(offsets)
        width = (max(offsets) - base).bit_length()
        return struct.pack("<QqBBB5x", base, line.step, line.shift, 0, width) + pack([o - base for o in offsets], width)
    frames = -(-n // 64)
    base = min(offsets)
    corners = [offsets[min(64 * f, n - 1)] - base for f in range(frames + 1)]
    width = max(corners).bit_length()
    starts, residuals = [0], b""
    for f in range(frames):
        way = [signed(signed(corners[f + 1] - corners[f]) * k) >> 6 for k in range(64)]
        left = [signed(o - base - corners[f] - way[k]) for k, o in enumerate(offsets[64 * f : 64 * f + 64])]
        w = max((z if z >= 0 else ~z).bit_length() + 1 if z else 0 for z in left)
        assert w <= 64
        half = 1 << w - 1 if w else 0
        fields = [bits_of(z + half, w) for z in left]
        residuals += pack(fields + [0] * (64 - len(fields)), w)
        starts.append(starts[-1] + w)
    head = struct.pack("<QqBBB5x", base, line.step, line.shift, 1, width)
    return head + pack(corners, width) + struct.pack(f"<{len(starts)}H", *starts) + residuals


SECTIONS = {26: rising_section, 27: runs_section, 28: exceptions_section}


def places(root, values):
    """The places of a block with these values under a tree."""
    order = [root]
    for node in order:  # breadth first, the order of a tree's nodes: the loop extends the list
        order.extend(node.children)
    placed = [node for node in order if isinstance(node, Placed)]
    by_node = {id(node): [] for node in placed}
    for j, value in enumerate(values):
        collect(root, value, j, by_node)
    sections = [SECTIONS[node.kind](node, len(values), by_node[id(node)]) for node in placed]
    starts = [4 * len(placed) + sum(map(len, sections[:k])) for k in range(len(placed))]
    return struct.pack(f"<{len(placed)}I", *starts) + b"".join(sections)
