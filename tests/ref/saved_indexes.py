"""Reads saved indexes, from csrc/FORMAT.md alone: lookups by field and the deep check. The numbers in comments are the
rules of that document."""

import struct

from .cursor import Budget, Cursor, FormatError, fail
from .mapping import KeyIndex, Opaque, canonical, xxh64
from .reader import ENTRY, LIST, Entry, Segment, check_crc, deep_recursion
from .reader import check as check_records
from .values import read_any

SAVED_INDEX, RECORDS, GROUPS, MAX_INDEXES = 32769, 1, 2, 16
HEAD = struct.Struct("<IIQQQ32s")


def sections_of(data, header):
    """The directory entries of the saved indexes, at most MAX_INDEXES."""
    if header.content != LIST:
        return []
    at = header.directory_offset
    entries = [Entry(*ENTRY.unpack_from(data, at + 40 * i)) for i in range(header.directory_count)]
    return [entry for entry in entries if entry.kind == SAVED_INDEX and entry.store == 0][:MAX_INDEXES]


def take(value, step):
    """The child of a plain value under a key or at a position: `(whether it exists, value)`."""
    if isinstance(value, dict):
        return (True, value[step]) if step in value else (False, None)
    if isinstance(value, (list, tuple)) and isinstance(step, int) and -len(value) <= step < len(value):
        return True, value[step]
    return False, None


def field(value, path):
    """The field of a record: `(whether it exists, value)`."""
    for step in path:
        found, inner = take(value, step[0] if isinstance(step, tuple) else step)
        if not found and isinstance(step, str):
            inner, found = value, True
            for part in step.split("."):
                found, inner = take(inner, part) if found else (False, None)
        if not found:
            return False, None
        value = inner
    return True, value


def is_path(path):
    steps = isinstance(path, tuple) and path
    return steps and all(
        (isinstance(step, tuple) and len(step) == 1) or (isinstance(step, str) and "." in step) for step in path
    )


class SavedIndex:
    """The saved index of a directory entry, over the records of an opened Segment."""

    def __init__(self, segment, entry):
        data, at, end = segment.data, entry.offset, entry.offset + entry.size
        self.segment, self.entry = segment, entry
        if entry.size < HEAD.size:  # 36
            fail("TRUNCATED", at, "shorter than its head")
        self.kind, self.in_order, n_records, path_size, keys_size, reserved = HEAD.unpack_from(data, at)
        if self.kind not in (RECORDS, GROUPS):
            return  # of a later kind
        if any(reserved):
            fail("RESERVED", at + 32, "reserved")
        if self.in_order > 1 or n_records != segment.header.n_records or not 1 <= path_size <= 65536:
            fail("KEYS", at, "head of a saved index")
        keys = at + HEAD.size + -(-path_size // 8) * 8
        if keys + keys_size > end:
            fail("TRUNCATED", at, "path or key index")
        self.path_at, self.path_size, self.n_records = at + HEAD.size, path_size, n_records
        self.index = KeyIndex(data, keys, keys_size)
        self.n, r = self.index.head.n_entries, n_records
        self.numbers_at, width = keys + keys_size, 4 if r < 1 << 32 else 8
        if self.kind == RECORDS:
            legal, count = self.n == r if self.in_order else self.n < r, 0 if self.in_order else 2 * self.n
        else:
            legal, count = self.n <= r and (self.n == 0) == (r == 0), self.n + 1 + (0 if self.in_order else r)
        if not legal or self.index.head.factory or self.n != entry.count or self.numbers_at + count * width != end:
            fail("KEYS", at, "sizes, entries or factory of a saved index")
        self.numbers = struct.unpack_from(f"<{count}{'I' if width == 4 else 'Q'}", data, self.numbers_at)

    def path(self):
        cur = Cursor(self.segment.data, self.path_at, self.path_at + self.path_size, None, Budget(65536, 65536))
        try:
            path = read_any(cur)
            cur.finish()
        except FormatError:
            fail("KEYS", self.path_at, "not one any value")
        return path

    def records(self, e):
        """The records of an entry: for kind 1 the first and the last, for kind 2 its group."""
        if self.kind == RECORDS:
            out = (e, e) if self.in_order else self.numbers[2 * e : 2 * e + 2]
        else:
            begin, end = self.numbers[e : e + 2]
            if not begin < end <= self.n_records:  # 37
                fail("KEYS", self.numbers_at, f"rows of group {e}")
            rows = range(self.n_records) if self.in_order else self.numbers[self.n + 1 :]
            out = rows[begin:end]
        if any(record >= self.n_records for record in out):  # 37
            fail("KEYS", self.numbers_at, f"entry {e} names no record")
        return list(out)

    def key(self, record):
        found, key = field(self.segment.record(record), self.path())
        if not found:
            fail("KEYS", self.entry.offset, f"record {record} has no such field")
        return key

    def find(self, key):
        """The records of a key, in order; for kind 1, only the last. An empty list if no record has the key."""
        try:
            candidates = self.index.candidates(xxh64(canonical(key), self.index.head.seed))
        except Opaque:
            candidates = range(self.n)
        found = next((e for e in (*candidates, *self.index.opaque()) if self.key(self.records(e)[0]) == key), None)
        if found is None:
            return []
        records = self.records(found)[-1:] if self.kind == RECORDS else self.records(found)
        if any(self.key(record) != key for record in records):  # 37
            fail("KEYS", self.numbers_at, "a record of another key")
        return records

    def check(self):
        path = self.path()
        if not is_path(path):  # 38
            fail("KEYS", self.path_at, "not a path")
        index, opaque = self.index, self.index.opaque()
        slots = [slot[0] for slot in map(index.slot, range(index.head.n_slots)) if slot]
        if sorted([*slots, *opaque]) != list(range(self.n)) or list(opaque) != sorted(set(opaque)):  # 28
            fail("KEYS", index.start, "an entry is repeated or missing")
        if any(index.data[index.slots_end : index.opaque_start]):
            fail("KEYS", index.slots_end, "bytes after the slots")
        groups = [self.records(e) for e in range(self.n)]
        firsts = [group[0] for group in groups]
        if any(a >= b for a, b in zip(firsts, firsts[1:])):
            fail("KEYS", self.numbers_at, "first records do not increase")
        if self.kind == RECORDS:
            lasts = [group[1] for group in groups]
            if len(set(lasts)) != len(lasts) or any(a > b for a, b in groups):
                fail("KEYS", self.numbers_at, "last records")
        else:
            if any(a >= b for group in groups for a, b in zip(group, group[1:])):
                fail("KEYS", self.numbers_at, "rows do not ascend")
            if (
                sorted(sum(groups, [])) != list(range(self.n_records))
                or self.numbers[0]
                or (self.numbers[self.n] != self.n_records)
            ):
                fail("KEYS", self.numbers_at, "groups that do not hold each record once")
        for e, group in enumerate(groups):
            self.check_entry(e, [self.key(record) for record in group], set(opaque))

    def check_entry(self, e, keys, opaque):
        if e in opaque:
            return
        if any(key != keys[0] for key in keys):
            fail("KEYS", self.numbers_at, f"records of entry {e} with another key")
        digest = xxh64(canonical(keys[0]), self.index.head.seed)
        first = next((c for c in self.index.candidates(digest) if self.key(self.records(c)[0]) == keys[0]), None)
        if first != e:
            fail("KEYS", self.index.start, f"entry {e} cannot be found by its key")


def open_all(data):
    """The SavedIndexes of known kinds in a segment."""
    segment = Segment(bytes(data))
    indexes = [SavedIndex(segment, entry) for entry in sections_of(segment.data, segment.header)]
    return [index for index in indexes if index.kind in (RECORDS, GROUPS)]


def check(data):
    """Checks the records and the saved indexes deeply. Returns the saved indexes."""
    data = bytes(data)
    check_records(data)
    with deep_recursion():
        for entry in sections_of(data, Segment(data).header):
            check_crc(data, entry.offset, entry.size, entry.crc, "a saved index")
        indexes = open_all(data)
        for index in indexes:
            index.check()
        if len({(index.kind, index.path()) for index in indexes}) != len(indexes):  # 38
            fail("KEYS", 0, "two indexes of one path")
    return indexes
