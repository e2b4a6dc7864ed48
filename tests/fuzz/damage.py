"""Damages fields of a segment's layout, and repairs the checksums, so that the damage gets past them. mutator.c does
the same for the targets in C."""

import struct

from ref.reader import BLOCK, ENTRY, Block, crc32c

HEAP, BLOCKS, TREES, TREE_TABLE, KEY_INDEX, TABLES, SAVED_INDEX = 1, 4, 5, 6, 7, 9, 32769
HEADER_FIELDS = [(8, 2), (10, 2), (16, 8), (32, 8), (64, 4), (68, 4), (72, 8), (80, 8), (88, 8), (96, 8), (104, 4)]
ENTRY_FIELDS = [(0, 2), (2, 2), (8, 8), (16, 8), (24, 8)]
BLOCK_FIELDS = [
    (0, 8),
    (8, 4),
    (12, 4),
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 4),
    (44, 1),
    (45, 1),
    (48, 8),
    (56, 8),
    (72, 8),
]
NODE_FIELDS = [(0, 1), (1, 1), (2, 2), (4, 4), (8, 4), (12, 4), (16, 4), (20, 4)]
KEYS_FIELDS = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 4)]
SAVED_FIELDS = [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8)]
NODE = 24


class Layout:
    """The offsets of the parts of a segment that are within its bytes."""

    def __init__(self, data):
        self.data = data
        count, self.at = struct.unpack_from("<IQ", data, 68)
        self.count = count if count <= 64 and self.within(self.at, count * ENTRY.size) else 0
        self.entries = [ENTRY.unpack_from(data, self.at + i * ENTRY.size) for i in range(self.count)]

    def within(self, offset, size):
        return offset <= len(self.data) and size <= len(self.data) - offset

    def sections(self, wanted_kind):
        """Yields `(offset, size)` of each section of a kind, in every store."""
        for kind, _, _, offset, size, *_ in self.entries:
            if kind == wanted_kind and self.within(offset, size):
                yield offset, size

    def blocks(self):
        """Yields the position of each entry of BLOCKS and TABLES."""
        for kind in (BLOCKS, TABLES):
            for offset, size in self.sections(kind):
                yield from range(offset, offset + size // BLOCK.size * BLOCK.size, BLOCK.size)

    def trees(self):
        """Yields `(position of the element of TREE_TABLE, offset, size)` of each tree."""
        for (table, table_size), (trees, trees_size) in zip(self.sections(TREE_TABLE), self.sections(TREES)):
            for at in range(table, table + table_size // 16 * 16, 16):
                offset, size = struct.unpack_from("<QI", self.data, at)
                if offset <= trees_size and size <= trees_size - offset:
                    yield at, trees + offset, size

    def parts(self):
        """Yields `(offset, size, fields)` of every part that may change. Without fields, any byte may change."""
        yield 0, 128, HEADER_FIELDS
        for i in range(self.count):
            yield self.at + i * ENTRY.size, ENTRY.size, ENTRY_FIELDS
        for kind, _, _, offset, size, *_ in self.entries:
            fields = {KEY_INDEX: KEYS_FIELDS, SAVED_INDEX: SAVED_FIELDS}.get(kind)
            if size and self.within(offset, size):
                yield offset, size, None
                if fields:
                    yield offset, size, fields
        for at in self.blocks():
            block = Block(*BLOCK.unpack_from(self.data, at))
            yield at, BLOCK.size, BLOCK_FIELDS
            if block[4] and self.within(block.heap_offset, block.heap_size):
                yield block.heap_offset, block.heap_size, None
        for at, offset, size in self.trees():
            yield at, 12, [(0, 8), (8, 4)]
            n = struct.unpack_from("<I", self.data, offset)[0] if size >= 8 else 0
            for node in range(min(n, (size - 8) // NODE)):
                yield offset + 8 + NODE * node, NODE, NODE_FIELDS
            if size > 8 + NODE * n:
                yield offset + 8 + NODE * n, size - 8 - NODE * n, None


def interesting(rng, old, size, layout):
    """Returns a number that a check may get wrong."""
    numbers = (old + 1, old - 1, 1 << rng.randrange(8 * size), rng.randrange(-2, 40), len(layout.data), old * 2)
    return rng.choice((*numbers, rng.getrandbits(8 * size), old ^ 1 << rng.randrange(8 * size))) % (1 << 8 * size)


def change(rng, data, layout, part):
    offset, size, fields = part
    if fields:
        at, width = rng.choice(fields)
        if at + width > size:
            return
        at += offset
    else:
        width = rng.choice((1, 1, 1, 2, 4, 8))
        at = offset + rng.randrange(size)
        if at + width > offset + size:
            return
    old = int.from_bytes(data[at : at + width], "little")
    data[at : at + width] = interesting(rng, old, width, layout).to_bytes(width, "little")


def mend(data):
    """Computes every checksum again."""
    layout = Layout(data)

    def set_crc(at, offset, size):
        if layout.within(at, 4) and layout.within(offset, size):
            struct.pack_into("<I", data, at, crc32c(memoryview(data)[offset : offset + size]))

    for at in layout.blocks():
        block = Block(*BLOCK.unpack_from(data, at))
        set_crc(at + 64, block.heap_offset, block.heap_size)
        set_crc(at + 68, block.arrays_offset, block.arrays_size)
    for at, offset, size in layout.trees():
        set_crc(at + 12, offset, size)
    for i, (kind, _, _, offset, size, *_) in enumerate(layout.entries):
        if kind != HEAP:
            set_crc(layout.at + i * ENTRY.size + 32, offset, size)
    set_crc(108, layout.at, layout.count * ENTRY.size)
    set_crc(header_crc_at(data), 0, header_crc_at(data))


def header_crc_at(data):
    return 4092 if data[10] == 1 else 124


def lowered(data, most_values, most_bytes):
    """Returns the segment with the limits in its header lowered to at most these numbers."""
    values, size = struct.unpack_from("<QQ", data, 88)
    out = bytearray(data)
    struct.pack_into("<QQ", out, 88, min(values, most_values), min(size, most_bytes))
    at = header_crc_at(data)
    if crc32c(data[:at]) == int.from_bytes(data[at : at + 4], "little"):
        struct.pack_into("<I", out, at, crc32c(out[:at]))
    return bytes(out)


def damaged(rng, seed):
    """Returns a damaged copy of the bytes of a segment, with correct checksums."""
    data = bytearray(seed)
    layout = Layout(data)
    parts = list(layout.parts())
    # Opening the segment or compiling the tree finds most changes of fields, so other parts are changed more often.
    weights = [1 if fields else 8 for _, _, fields in parts]
    for part in rng.choices(parts, weights, k=rng.choice((1, 1, 1, 2, 3, 5))):
        change(rng, data, layout, part)
    if rng.randrange(30) == 0:
        del data[rng.randrange(header_crc_at(data) + 4, len(data) + 1) :]
    mend(data)
    return bytes(data)
