"""The error of a broken rule, the budget of a record, and a position in bytes, for the modules of the reference
reader."""

import struct
from dataclasses import dataclass

DEPTH = 200


class FormatError(Exception):
    """A broken rule: the name of its code and the offset in the segment."""

    def __init__(self, code, offset, text):
        super().__init__(f"{code} at byte {offset}: {text}")
        self.code, self.offset, self.text = code, offset, text


def fail(code, offset, text):
    raise FormatError("RS_E_FMT_" + code, offset, text)


@dataclass
class Budget:
    """The rest of the header's limits for a record that is being read (rule 23)."""

    values: int
    bytes: int
    depth: int = DEPTH

    def enter(self, n, depth, offset):
        """Counts a container of n elements inside `depth` others."""
        self.values -= n
        if self.values < 0:
            fail("LIMIT", offset, "more than max_values values")
        if depth >= self.depth:
            fail("LIMIT", offset, "containers nest deeper than max_depth")


@dataclass
class Cursor:
    """A position in data[:end]. arrays is (offset, size) of the block's arrays, None if array data must be
    inline. shared: the bytes are a value of a table or of an exception, which many records may use."""

    data: bytes
    pos: int
    end: int
    arrays: tuple | None
    budget: Budget
    shared: bool = False
    places: object = None  # the Places of the block; None in tables
    local: int = 0  # the number of the record in its block

    def spend(self, n):
        """Counts n bytes of a value that takes fewer bytes in the segment."""
        self.budget.bytes -= n
        if self.budget.bytes < 0:
            fail("LIMIT", self.pos, "more than max_bytes in consts, texts and tables")

    def spend_shared(self, n):
        if self.shared:
            self.spend(n)

    def take(self, n):
        if n > self.end - self.pos:
            fail("TRUNCATED", self.pos, f"{n} bytes needed, {self.end - self.pos} left")
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def within(self, begin, end):
        """A cursor at other bytes for the same record."""
        return Cursor(self.data, begin, end, self.arrays, self.budget, self.shared, self.places, self.local)

    def peek(self):
        """The next byte; None at the end."""
        return self.data[self.pos] if self.pos < self.end else None

    def u8(self):
        return self.take(1)[0]

    def unpack(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def varint(self):
        start, value = self.pos, 0
        for k in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << 7 * k
            if byte < 0x80:
                if value >> 64:
                    break
                return value
        fail("TRUNCATED", start, "varint of more than 64 bits or 10 bytes")

    def finish(self):
        if self.pos != self.end:
            fail("TRAILING", self.pos, f"{self.end - self.pos} bytes left over")
