"""Tables of csrc/FORMAT.md: the fields of a table (rule 29) and symbol tables (rules 33 and 34)."""

import struct
from dataclasses import dataclass

from .cursor import Cursor, fail

VALUES, SYMBOLS = 1, 2


@dataclass
class Table:
    """A value table or a symbol table. fields has the layout of a block entry, with the kind in place of
    first_record."""

    fields: object
    tree: object = None  # of a value table
    segment: object = None  # of a value table: it finds the offsets of values
    symbols: object = None  # of a symbol table

    def cursor(self, number, budget):
        begin, end = self.segment.span(self.fields, number)
        start = self.fields.heap_offset
        return Cursor(
            self.segment.data, start + begin, start + end, (self.fields.arrays_offset, 0), budget, shared=True
        )


def check_fields(fields, at):
    """Checks the kind, and that the fields without a meaning for it are zero."""
    if fields.first_record not in (VALUES, SYMBOLS):
        fail("VERSION", at, f"a table of kind {fields.first_record}")
    if fields.arrays_size or fields.places_size:
        fail("BLOCK", at, "a table with arrays or places")
    if fields.first_record == SYMBOLS:
        if (
            fields.n_records
            or fields.tree
            or fields.index_offset
            or fields.row_size
            or fields.index_width
            or fields.index_bits
        ):
            fail("BLOCK", at, "a symbol table with fields of values")


class SymbolTable:
    """The symbols of a table of kind 2, all checked."""

    def __init__(self, data, start, size):
        if size < 8:
            fail("TRUNCATED", start, "a symbol table without a head")
        self.unit, reserved, self.n_short, n = struct.unpack_from("<BBHI", data, start)
        if reserved:
            fail("RESERVED", start + 1, "reserved of a symbol table")
        if self.unit not in (1, 2) or self.n_short > 256 or n > self.n_short + 256 * (256 - self.n_short):
            fail("VALUE", start, "a field of a symbol table")
        pool = start + 8 + 3 * n
        if 8 + 3 * n + 16 > size:
            fail("TRUNCATED", start, "a symbol table that ends too early")
        units, left_over = divmod(start + size - 16 - pool, self.unit)
        if left_over or units >= 1 << 20:
            fail("VALUE", start, "the pool of a symbol table")
        self.symbols = [self.read_symbol(data, at, pool, units) for at in range(start + 8, pool, 3)]

    def read_symbol(self, data, at, pool, units):
        """The text of a symbol; None for an escape."""
        entry = int.from_bytes(data[at : at + 3], "little")
        length, begin = entry & 15, entry >> 4
        if length == 0:
            return None
        if length > (15, 8)[self.unit - 1] or begin > units or length > units - begin:
            fail("VALUE", at, "a symbol outside the pool")
        return self.text(data[pool + begin * self.unit : pool + (begin + length) * self.unit])

    def text(self, raw):
        return "".join(map(chr, struct.unpack(f"<{len(raw) // self.unit}{'BH'[self.unit - 1]}", raw)))

    def decode(self, codes, offset):
        out, at = [], 0
        while at < len(codes):
            number, at = codes[at], at + 1
            if number >= self.n_short:
                if at == len(codes):
                    fail("VALUE", offset, "half a code")
                number, at = self.n_short + 256 * (number - self.n_short) + codes[at], at + 1
            if number >= len(self.symbols):
                fail("VALUE", offset, f"symbol {number} of {len(self.symbols)}")
            if self.symbols[number] is None:
                if self.unit > len(codes) - at:
                    fail("VALUE", offset, "an escape without its unit")
                out.append(self.text(codes[at : at + self.unit]))
                at += self.unit
            else:
                out.append(self.symbols[number])
        return "".join(out)
