"""The places of a block of csrc/FORMAT.md: rising numbers, runs and exceptions. The numbers in comments are rules."""

import struct

from .cursor import fail
from .steps import bit_field, signed
from .trees import MASK, RISING, RUNS, ceil8


class Places:
    """The sections of the places of one block, with their heads checked (40)."""

    def __init__(self, data, block, tree):
        self.data, self.n = data, block.n_records
        self.end = block.heap_offset + block.heap_size
        self.start = self.end - block.places_size
        nodes = [node for node in tree.nodes if node.is_placed()]
        if (block.places_size == 0) != (not nodes) or block.places_size < 4 * len(nodes):
            fail("BLOCK", self.start, "the size of the places does not match the tree")
        self.sections = {}
        for k, node in enumerate(nodes):
            at = self.start + struct.unpack_from("<I", data, self.start + 4 * k)[0]
            self.sections[id(node)] = (Rising if node.kind == RISING else Marked)(self, node, at)

    def take(self, at, size, what):
        """The `size` bytes at `at`, which must be in the places."""
        if at > self.end or size > self.end - at:
            fail("BLOCK", at, f"{what} beyond the places")
        return self.data[at : at + size]

    def of(self, node):
        return self.sections[id(node)]

    def check(self):
        for section in self.sections.values():
            section.check()


class Rising:
    """The section of a rising node."""

    def __init__(self, places, node, at):
        self.at, self.places = at, places
        head = places.take(at, 24, "the head of a rising node")
        self.base, self.step, self.shift, self.form, self.width, reserved = struct.unpack("<QqBBB5s", head)
        if reserved != bytes(5):
            fail("RESERVED", at, "reserved of a rising node")
        if self.shift > 47 or self.form > 1 or self.width > 64:
            fail("BLOCK", at, "a field of a rising node")
        frames = -(-places.n // 64)
        if self.form == 0:
            self.residuals = places.take(at + 24, ceil8(places.n * self.width), "residuals")
            return
        size = ceil8((frames + 1) * self.width)
        self.corners = places.take(at + 24, size, "corners")
        self.starts = struct.unpack(f"<{frames + 1}H", places.take(at + 24 + size, 2 * frames + 2, "starts"))
        self.residuals = places.data[at + 24 + size + 2 * frames + 2 : places.end]

    def corner(self, f):
        return bit_field(self.corners, f * self.width, self.width)

    def number(self, j):
        line = self.base + (signed(self.step * j & MASK) >> self.shift)
        if self.form == 0:
            return line + bit_field(self.residuals, j * self.width, self.width) & MASK
        f, k = divmod(j, 64)
        w = self.starts[f + 1] - self.starts[f]
        if not 0 <= w <= 64 or 8 * self.starts[f + 1] > len(self.residuals):  # 41
            fail("VALUE", self.at, "the starts of a rising node")
        way = signed((signed(self.corner(f + 1) - self.corner(f) & MASK) * k) & MASK) >> 6
        field = bit_field(self.residuals, 64 * self.starts[f] + k * w, w) - (1 << w - 1) if w else 0
        return line + self.corner(f) + way + field & MASK

    def check(self):
        pass


class Marked:
    """The section of a runs or exceptions node."""

    def __init__(self, places, node, at):
        self.at, self.places, self.node = at, places, node
        self.m, self.form, reserved = struct.unpack("<IB3s", places.take(at, 8, "the head of marks"))
        if reserved != bytes(3):
            fail("RESERVED", at, "reserved of marks")
        if self.m > 65535 or self.form > 1:
            fail("BLOCK", at, "a field of marks")
        self.part_size = (256, 64)[self.form]
        parts = -(-places.n // self.part_size)
        size = 10 * parts if self.form else 2 * parts + self.m
        self.marks = places.take(at + 8, size, "marks")
        self.data = at + 8 + size
        child = node.children[0]
        self.value_size = ceil8(child.bits) + child.size if node.kind == RUNS else 0
        places.take(self.data, (self.m + 1) * self.value_size if node.kind == RUNS else 4 * self.m, "values or ends")

    def before(self, part):
        """The number of marks before a part, and the positions of its marks within it."""
        if self.form:
            count, bits = struct.unpack_from("<HQ", self.marks, 10 * part)
            return count, [k for k in range(64) if bits >> k & 1]
        parts = -(-self.places.n // 256)
        begin = struct.unpack_from("<H", self.marks, 2 * part)[0]
        end = struct.unpack_from("<H", self.marks, 2 * part + 2)[0] if part + 1 < parts else self.m
        if not begin <= end <= self.m:  # 41
            fail("VALUE", self.at, "the counts of marks")
        return begin, list(self.marks[2 * parts + begin : 2 * parts + end])

    def rank(self, j):
        """The number of marks up to and including record j, and whether record j is marked."""
        part, low = divmod(j, self.part_size)
        before, lows = self.before(part)
        rank = before + sum(x <= low for x in lows)
        if rank > self.m:
            fail("VALUE", self.at, "a rank above the number of marks")
        return rank, low in lows

    def run(self, j):
        """The offset of the value of record j."""
        return self.data + self.rank(j)[0] * self.value_size

    def exception(self, j):
        """The begin and end of the exception of record j; None if it has none."""
        rank, marked = self.rank(j)
        if not marked:
            return None
        ends = struct.unpack_from(f"<{self.m}I", self.places.data, self.data)
        begin, end = ends[rank - 2] if rank > 1 else 0, ends[rank - 1]
        first = self.data + 4 * self.m
        if not begin <= end <= self.places.end - first:  # 41
            fail("VALUE", self.at, "the ends of exceptions")
        return first + begin, first + end

    def check(self):  # 42
        seen = 0
        for part in range(-(-self.places.n // self.part_size)):
            before, lows = self.before(part)
            left = self.places.n - part * self.part_size
            if before != seen or sorted(set(lows)) != lows or any(x >= left for x in lows):
                fail("BLOCK", self.at, "marks that do not add up")
            seen += len(lows)
        if seen != self.m or (self.node.kind == RUNS and self.rank(0)[1]):
            fail("BLOCK", self.at, "marks that do not add up")


def read_placed(node, cur, bits, read_body, read_alone, depth):
    """The value of a placed node of the record that `cur` reads."""
    section, child = cur.places.of(node), node.children[0]
    if node.kind == RISING:
        return read_body(child, cur, depth, section.number(cur.local))
    if node.kind == RUNS:
        inner = cur.within(section.run(cur.local), cur.places.end)
        return read_alone(child, inner, depth)
    span = section.exception(cur.local)
    if span is None:
        return read_body(child, cur, depth, bits)
    if child.size is not None:
        cur.take(child.size)
    inner = cur.within(*span)
    inner.shared = True
    value = read_alone(node.children[1], inner, depth)
    inner.finish()  # 41
    return value
