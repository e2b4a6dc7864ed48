"""A slow and strict reader of whole segments, written from csrc/FORMAT.md alone. Property tests compare the package
with it.

`read` makes the checks that every reader must make; `check` adds the deep check. Both need numpy and no part of the
package, so they also recover data where the package cannot be installed. This module reads lists, and each store of a
mapping; the module `mapping` reads mappings. The numbers in comments are the rules of that document.
"""

import contextlib
import struct
import sys
from collections import namedtuple

from .bodies import read_alone
from .cursor import DEPTH, Budget, Cursor, FormatError, fail
from .places import Places
from .tables import SYMBOLS, SymbolTable, Table, check_fields
from .trees import DICT_CODED, TREE_LEVELS, read_tree
from .values import any_size

__all__ = ["FormatError", "check", "crc32c", "read", "segment_in"]

MAGIC = bytes.fromhex("89 52 45 43 53 0D 0A 1A")
CACHE_MAGIC, CACHE_SEGMENT = bytes.fromhex("89 52 53 43 41 43 48 0A"), 72
HEADER_SIZES = {1: 4096, 3: 128}  # by reader_version
READER_VALUES, READER_BYTES = 1 << 28, 1 << 32
BECOMES_VALUES, BECOMES_BYTES, TABLE_LEVELS = 64, 1024, 8
FEATURE_EXT, FEATURE_DTYPES, FEATURE_PACKED, FEATURE_TABLES, FEATURE_TEXT, FEATURE_OPTIONAL = 1, 4, 8, 16, 32, 64
FEATURE_MAP, FEATURE_PLACED, FEATURE_ENDS, FEATURE_ALONE, FEATURE_FRONT = 128, 256, 2048, 512, 1024
FEATURE_NARROW, FEATURE_LINE, FEATURE_ALPHABET, FEATURE_PAIRS, FEATURE_RARE = 4096, 8192, 32768, 65536, 131072
FEATURE_IN_BITS = 1 << 18
FRONT, FRONT_END = 128, 4092  # the range of sections in a long header
DIRECTORY_ENTRIES = 64
HEAP, OFFSETS, GROUPS, BLOCKS, TREES, TREE_TABLE, KEY_INDEX, ORDER, TABLES = range(1, 10)
LIST, MAPPING = 1, 2
FEATURES = {LIST: 0, MAPPING: 2}  # the bit that goes with each content
KNOWN_FEATURES = FEATURES[MAPPING] + sum(bit for name, bit in vars().items() if name.startswith("FEATURE_"))
KINDS = ({*range(HEAP, KEY_INDEX), TABLES}, set(range(OFFSETS, TABLES + 1)))  # of store 0 and store 1
LIST_KINDS = {*range(HEAP, KEY_INDEX), TABLES}
ENTRY_SIZES = {GROUPS: 4, BLOCKS: 80, TREE_TABLE: 16, TABLES: 80}

Header = namedtuple(
    "Header",
    "magic version reader_version header_size features_required features_optional segment_size "
    "segment_id created content directory_count directory_offset n_records max_values max_bytes max_depth "
    "directory_crc raw_size",
)
HEADER = struct.Struct("<8sHHIQQQ16sQIIQQQQIIQ")
Entry = namedtuple("Entry", "kind store flags offset size count crc reserved")
ENTRY = struct.Struct("<HHIQQQII")
Block = namedtuple(
    "Block",
    "first_record n_records tree heap_offset heap_size index_offset row_size index_width index_bits reserved1 "
    "arrays_offset arrays_size heap_crc arrays_crc places_size",
)
BLOCK = struct.Struct("<QIIQQQIBBHQQIIQ")
assert HEADER.size == 120 and ENTRY.size == 40 and BLOCK.size == 80


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def check_crc(data, offset, size, crc, what):
    if crc32c(data[offset : offset + size]) != crc:
        fail("CHECKSUM", offset, f"crc of {what}")


def aligned(n, to=64):
    return n % to == 0


def within(offset, size, low, high):
    return low <= offset <= high and size <= high - offset


# ---- opening ---------------------------------------------------------------------------------------------------------


def group_size(block):
    """The size of an offset group in bytes."""
    return 8 + 8 * block.index_bits if block.index_width == 1 else 8 + 64 * block.index_width


def line_ends(group, k, bits):
    """The begin and end of record k of a group whose ends are distances from a line."""
    base, slope = struct.unpack_from("<II", group)
    fields = int.from_bytes(group[8:], "little")

    def end(k):
        field = fields >> bits * k & (1 << bits) - 1
        return (base + ((k + 1) * slope >> 16) + field - (1 << bits - 1)) % (1 << 64)

    return end(k - 1) if k else base, end(k)


def read_header(data):
    if len(data) < HEADER.size:  # 1
        fail("TRUNCATED", len(data), "shorter than a header")
    h = Header(*HEADER.unpack_from(data))
    if h.magic != MAGIC:  # 2
        fail("MAGIC", 0, "magic")
    if h.reader_version not in HEADER_SIZES:  # 3
        fail("VERSION", 10, f"reader_version {h.reader_version}")
    header_size = HEADER_SIZES[h.reader_version]
    if len(data) < header_size:  # 1
        fail("TRUNCATED", len(data), "shorter than its header")
    crc_at = header_size - 4
    check_crc(data, 0, crc_at, struct.unpack_from("<I", data, crc_at)[0], "the header")  # 4
    if h.features_required & ~KNOWN_FEATURES or FEATURES.get(h.content) != h.features_required & FEATURES[MAPPING]:  # 5
        fail("VERSION", 16, f"features {h.features_required:#x}, content {h.content}")
    if h.header_size != header_size or h.max_depth > DEPTH:  # 6
        fail("VALUE", 12, f"header_size {h.header_size}, max_depth {h.max_depth}")
    if not header_size <= h.segment_size <= len(data):  # 7
        fail("TRUNCATED", len(data), f"segment_size {h.segment_size}")
    if h.max_values > READER_VALUES or h.max_bytes > READER_BYTES:  # 8
        fail("LIMIT", 88, f"max_values {h.max_values}, max_bytes {h.max_bytes}")
    return h


def read_directory(data, h):
    """The sections by kind, of store 0 and of store 1."""
    size = h.directory_count * ENTRY.size
    if (
        h.directory_count > DIRECTORY_ENTRIES
        or not aligned(h.directory_offset)
        or not within(h.directory_offset, size, h.header_size, h.segment_size)
    ):  # 9
        fail("SECTION", 68, "directory out of place")
    check_crc(data, h.directory_offset, size, h.directory_crc, "the directory")
    stores, end = ({}, {}), FRONT if h.features_required & FEATURE_FRONT else h.header_size
    for at in range(h.directory_offset, h.directory_offset + size, ENTRY.size):
        entry = Entry(*ENTRY.unpack_from(data, at))
        high = FRONT_END if entry.offset < h.header_size else h.directory_offset
        if not aligned(entry.offset) or not within(entry.offset, entry.size, end, high):  # 10
            fail("SECTION", at, f"section of kind {entry.kind} out of place")
        end = entry.offset + entry.size
        if entry.flags or entry.reserved:  # 11
            fail("RESERVED", at, "flags or reserved")
        if entry.kind == 0:
            fail("SECTION", at, "kind 0")
        if entry.kind >= 0x8000:
            continue
        if (
            entry.kind > TABLES
            or entry.store > (h.content == MAPPING)
            or (h.content == LIST and entry.kind not in LIST_KINDS)
        ):
            fail("VERSION", at, f"section kind {entry.kind}, store {entry.store}")
        sections = stores[entry.store]
        if entry.kind in sections or entry.kind not in KINDS[entry.store]:  # 11
            fail("SECTION", at, f"kind {entry.kind} twice, or in store {entry.store}")
        if entry.kind in ENTRY_SIZES and entry.count * ENTRY_SIZES[entry.kind] != entry.size:  # 10
            fail("SECTION", at, f"count of kind {entry.kind}")
        sections[entry.kind] = entry
    for store, sections in enumerate(stores[: h.content]):
        if KINDS[store] - {ORDER, TABLES} - set(sections):  # 11
            fail("SECTION", h.directory_offset, "a kind is missing")
    for sections in stores[: h.content]:
        check_counts(h, sections)
    stores[1][HEAP] = stores[0][HEAP]  # this HEAP has the heaps of the keys too
    return stores


def check_counts(h, sections):
    count = {kind: entry.count for kind, entry in sections.items()}
    n, blocks = h.n_records, count[BLOCKS]
    if (n == 0) != (blocks == 0) or n > 1 << 48 or blocks > n or max(blocks, count[TREE_TABLE]) >= 1 << 32:  # 12
        fail("BLOCK", 80, f"{n} records in {blocks} blocks")
    if count[GROUPS] != (n + 63) // 64:  # 10
        fail("SECTION", h.directory_offset, "the counts of the sections do not agree")
    if count.get(TABLES, 0) >= 1 << 32:  # 29
        fail("BLOCK", h.directory_offset, "2^32 tables")


# ---- reading ---------------------------------------------------------------------------------------------------------


class Segment:
    """A store of an opened segment. Reads blocks, trees and tables when a record first needs them."""

    def __init__(self, data, store=0):
        self.data = data
        self.header = read_header(data)
        self.sections = read_directory(data, self.header)[store]
        self.blocks, self.trees, self.tables, self.places = {}, {}, {}, {}
        self.n_tables = self.sections[TABLES].count if TABLES in self.sections else 0
        self.left = {kind: self.sections[kind].size for kind in (HEAP, TREES)}  # bytes that nothing has used
        self.counted = {}  # values and bytes of each record that was read

    def take(self, kind, size, code, at):  # 44
        self.left[kind] -= size
        if self.left[kind] < 0:
            fail(code, at, "the bytes of two blocks, tables or trees overlap")

    def block(self, b):
        if b not in self.blocks:
            block = self.read_block(b)
            self.take(HEAP, block.heap_size + block.arrays_size, "BLOCK", block.heap_offset)
            self.blocks[b] = block
        return self.blocks[b]

    def read_block(self, b):
        at = self.sections[BLOCKS].offset + b * BLOCK.size
        block = Block(*BLOCK.unpack_from(self.data, at))
        self.check_block(block, at)
        return block

    def check_block(self, block, at, symbols=False):  # 14
        if block.reserved1:
            fail("RESERVED", at, "reserved of a block")
        heap, offsets = self.sections[HEAP], self.sections[OFFSETS]
        for start, size in ((block.heap_offset, block.heap_size), (block.arrays_offset, block.arrays_size)):
            if not aligned(start) or not within(start, size, heap.offset, heap.offset + heap.size):  # even if empty
                fail("BLOCK", at, "heap or arrays outside HEAP")
        if block.places_size > block.heap_size:
            fail("BLOCK", at, "places beyond the heap")
        n, width = block.n_records, block.index_width
        if symbols:  # check_fields has checked that the other fields are zero
            return
        if (
            block.first_record >= 1 << 48
            or not 1 <= n <= 65536
            or width not in (0, 1, 2, 4, 8)
            or not (1 <= block.index_bits <= 32 if width == 1 else block.index_bits == 0)
            or block.tree >= self.sections[TREE_TABLE].count
        ):
            fail("BLOCK", at, "first_record, n_records, index_width or tree")
        if width == 0:
            if block.index_offset:
                fail("BLOCK", at, "index_offset of a block without offsets")
            if n * block.row_size > block.heap_size - block.places_size:
                fail("BLOCK", at, "rows beyond the heap")
        elif (
            block.row_size
            or not aligned(block.index_offset, 8)
            or not within(
                block.index_offset, (n + 63) // 64 * group_size(block), offsets.offset, offsets.offset + offsets.size
            )
        ):
            fail("BLOCK", at, "offset groups")

    def tree(self, t, below=None):
        """Tree t with its tables. `below` is the number of the table that has the tree, None for a block's tree."""
        if t not in self.trees:
            table, trees = self.sections[TREE_TABLE], self.sections[TREES]
            offset, size, crc = struct.unpack_from("<QII", self.data, table.offset + 16 * t)
            if not aligned(offset, 8) or not within(offset, size, 0, trees.size):
                fail("TREE", table.offset + 16 * t, "tree outside TREES")
            check_crc(self.data, trees.offset + offset, size, crc, f"tree {t}")  # 17
            tree = read_tree(self.data, trees.offset + offset, size)
            self.link(tree, self.n_tables if below is None else below)
            self.take(TREES, size, "TREE", trees.offset + offset)
            self.trees[t] = tree
        if below is not None and self.trees[t].tables_end() > below:  # 30
            fail(
                "TREE",
                self.sections[TREES].offset,
                f"tree {t} of table {below} names a table that is not below {below}",
            )
        return self.trees[t]

    def link(self, tree, end):  # 30
        deepest = 0
        for node in tree.links():
            numbers = node.table_numbers()
            if max(numbers) >= end:
                fail("TREE", node.offset, f"tables {numbers}, of {end} that may be named")
            node.tables = [self.table(number) for number in numbers]
            if any((table.symbols is None) != (node.kind == DICT_CODED) for table in node.tables):
                fail("TREE", node.offset, "a table of the wrong kind")
            if node.kind != DICT_CODED and node.param and node.tables[0].symbols.unit != 2:
                fail("TREE", node.offset, "UTF-16 in units of 1 byte")
            if node.kind == DICT_CODED:
                if sum(table.fields.n_records for table in node.tables) != node.count:
                    fail("TREE", node.offset, "the count of a dict-coded node differs from its tables")
                deepest = max([deepest, *(1 + table.tree.levels for table in node.tables)])
        tree.levels += deepest
        if tree.levels > TREE_LEVELS:
            fail("TREE", tree.root().offset, "too many levels, those of tables included")

    def table(self, number):
        if number not in self.tables:
            at = self.sections[TABLES].offset + number * BLOCK.size
            fields = Block(*BLOCK.unpack_from(self.data, at))
            check_fields(fields, at)  # 29
            self.check_block(fields, at, fields.first_record == SYMBOLS)
            self.take(HEAP, fields.heap_size + fields.arrays_size, "BLOCK", fields.heap_offset)
            if fields.first_record == SYMBOLS:
                self.tables[number] = Table(
                    fields, symbols=SymbolTable(self.data, fields.heap_offset, fields.heap_size)
                )
            else:
                tree = self.tree(fields.tree, number)
                if any(node.is_placed() for node in tree.nodes):  # 39
                    fail("TREE", at, f"placed nodes in the tree of table {number}")
                self.tables[number] = Table(fields, tree, self)
        return self.tables[number]

    def find(self, i):
        """The block of record i, and the number of the record in the block."""
        at = self.sections[GROUPS].offset + i // 64 * 4
        first = struct.unpack_from("<I", self.data, at)[0]
        for b in range(first, first + 64):
            if b >= self.sections[BLOCKS].count or self.block(b).first_record > i:  # 13
                fail("BLOCK", at, f"group {i // 64} leads to block {b}")
            if i - self.block(b).first_record < self.block(b).n_records:
                return b, i - self.block(b).first_record
        fail("BLOCK", at, f"record {i} not found")

    def span(self, block, j):
        if block.index_width == 0:
            return j * block.row_size, (j + 1) * block.row_size
        w, k = block.index_width, j % 64
        at = block.index_offset + j // 64 * group_size(block)
        if w == 1:
            begin, end = line_ends(self.data[at : at + group_size(block)], k, block.index_bits)
        else:
            base = struct.unpack_from("<Q", self.data, at)[0]
            ends = [0] + [
                int.from_bytes(self.data[at + 8 + x * w : at + 8 + x * w + w], "little") for x in range(k + 1)
            ]
            begin, end = base + ends[k], base + ends[k + 1]
        if not begin <= end <= block.heap_size - block.places_size:  # 15
            fail("OFFSET", at, f"record {j} of its block at {begin} to {end}")
        return begin, end

    def record(self, i):
        b, j = self.find(i)
        block = self.block(b)
        begin, end = self.span(block, j)
        cur = Cursor(
            self.data,
            block.heap_offset + begin,
            block.heap_offset + end,
            (block.arrays_offset, block.arrays_size),
            self.budget(),
            places=self.places_of(b),
            local=j,
        )
        value = read_alone(self.tree(block.tree).root(), cur)
        cur.finish()  # 21
        self.counted[i] = self.spent(cur)
        return value

    def spent(self, cur):
        whole = self.budget()
        return whole.values - cur.budget.values + 1, whole.bytes - cur.budget.bytes

    def check_becomes(self, counted=None, times=1):  # 43
        counted = self.counted.values() if counted is None else counted
        values, size = (sum(column) for column in zip(*counted, strict=True)) if counted else (0, 0)
        scaled_size = times * self.header.segment_size
        if values > BECOMES_VALUES * scaled_size or size > BECOMES_BYTES * scaled_size:
            fail("LIMIT", 88, f"{values} values and {size} bytes of a segment of {self.header.segment_size}")

    def check_spans(self, block):  # 43
        spans = (self.span(block, j) for j in range(block.n_records))
        if sum(end - begin for begin, end in spans) > block.heap_size:
            fail("OFFSET", block.heap_offset, "the records of a block overlap")

    def places_of(self, b):
        if b not in self.places:
            block = self.block(b)
            self.places[b] = Places(self.data, block, self.tree(block.tree))
        return self.places[b]

    def budget(self):
        if self.header.max_values == 0:
            fail("LIMIT", 88, "max_values is 0")
        size = self.header.segment_size
        limits = (
            min(self.header.max_values, BECOMES_VALUES * size),
            min(self.header.max_bytes, BECOMES_BYTES * size),
        )  # 43
        return Budget(limits[0] - 1, limits[1], self.header.max_depth)

    def check(self):
        """The part of the deep check beyond reading all records."""
        for kind, entry in self.sections.items():
            if kind != HEAP:
                check_crc(self.data, entry.offset, entry.size, entry.crc, f"section {kind}")
        self.check_tables()
        for t in range(self.sections[TREE_TABLE].count):
            self.tree(t)
        following = 0
        for b in range(self.sections[BLOCKS].count):
            block = self.block(b)
            if block.first_record != following:  # 16
                fail("BLOCK", self.sections[BLOCKS].offset + b * BLOCK.size, "a gap before the block")
            following += block.n_records
            check_crc(self.data, block.heap_offset, block.heap_size, block.heap_crc, f"the heap of block {b}")
            self.places_of(b).check()
            self.check_spans(block)
            check_crc(self.data, block.arrays_offset, block.arrays_size, block.arrays_crc, f"the arrays of block {b}")
        if following != self.header.n_records:  # 16
            fail("BLOCK", 80, f"{following} records in the blocks")
        self.check_groups()

    def check_tables(self):  # 32
        counted = []
        for number in range(self.n_tables):
            table = self.table(number)
            check_crc(
                self.data, table.fields.heap_offset, table.fields.heap_size, table.fields.heap_crc, f"table {number}"
            )
            for i in range(table.fields.n_records):
                cur = table.cursor(i, self.budget())
                read_alone(table.tree.root(), cur)
                cur.finish()
                counted.append(self.spent(cur))
        self.check_becomes(counted, TABLE_LEVELS)

    def check_groups(self):
        for i in range(0, self.header.n_records, 64):
            at = self.sections[GROUPS].offset + i // 64 * 4
            if struct.unpack_from("<I", self.data, at)[0] != self.find(i)[0]:  # 16
                fail("BLOCK", at, f"group {i // 64} does not name the block of its first record")


@contextlib.contextmanager
def deep_recursion():
    """Raises the recursion limit: a tree may have 400 levels, each with several Python frames."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def segment_in(file):  # 50
    """The segment in the bytes of a file, which may be a sealed cache."""
    if len(file) < CACHE_SEGMENT + 8 or file[:8] != CACHE_MAGIC:
        return file
    start = struct.unpack_from("<Q", file, CACHE_SEGMENT)[0]
    if start % 65536:
        fail("VALUE", CACHE_SEGMENT, f"a segment at {start}")
    if start >= len(file):
        fail("TRUNCATED", CACHE_SEGMENT, f"a segment at {start} of {len(file)} bytes")
    return file[start:]


def read(data):
    """The records of the segment in `data`; raises FormatError for the first broken rule met."""
    with deep_recursion():
        segment = Segment(bytes(data))
        return [segment.record(i) for i in range(segment.header.n_records)]


def check(data):
    """The records after a deep check of every rule and every checksum."""
    with deep_recursion():
        segment = Segment(bytes(data))
        segment.check()
        records = [segment.record(i) for i in range(segment.header.n_records)]
        segment.check_becomes()
        for i, record in enumerate(records):
            if any_size(record) > segment.header.max_bytes:  # 23
                fail("LIMIT", 96, f"record {i} is longer than max_bytes")
        return records
