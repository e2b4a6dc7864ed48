"""Reads mappings, from csrc/FORMAT.md alone: entries, lookups by canonical forms, the deep check of a key index.

The form of a key is the form of the Python value from `reader`. A value that `reader` leaves as an `Ext` has no
form here, so `check` accepts such a key only in an opaque entry. The numbers in comments are the numbers
of rules of FORMAT.md.
"""

import enum
import math
import struct
from collections import namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .cursor import fail
from .reader import KEY_INDEX, MAPPING, ORDER, FormatError, Segment, deep_recursion
from .writer import any_value, varint

__all__ = ["FormatError", "Mapping", "Opaque", "canonical", "check", "read", "xxh64"]

HEAD = struct.Struct("<QQQQQIII12s")
Head = namedtuple("Head", "seed n_entries n_slots n_opaque longest_probe slot_width index_bits factory reserved")
PROBE_MEAN = 64
FACTORIES = (None, list, dict, set, str, float, bool, tuple, bytes, frozenset, complex, bytearray, int)
MASK = (1 << 64) - 1


class Opaque(Exception):
    """Raised for a value without a canonical form."""


# ---- XXH64, by the steps of its specification ------------------------------------------------------------------------

P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)  # fmt: skip


def rotate(v, by):
    return (v << by | v >> 64 - by) & MASK


def one_round(acc, lane):
    return rotate((acc + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data, seed=0):
    """
    >>> hex(xxh64(b""))
    '0xef46db3751d8e999'
    """
    whole = len(data) // 32 * 32
    acc = (seed + P5) & MASK
    if whole:
        four = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        for lanes in struct.iter_unpack("<4Q", data[:whole]):
            four = [one_round(a, lane) for a, lane in zip(four, lanes)]
        acc = sum(rotate(a, by) for a, by in zip(four, (1, 7, 12, 18))) & MASK
        for a in four:
            acc = ((acc ^ one_round(0, a)) * P1 + P4) & MASK
    acc = (acc + len(data)) & MASK
    rest = data[whole:]
    eights, fours = len(rest) // 8 * 8, len(rest) // 4 * 4
    for (lane,) in struct.iter_unpack("<Q", rest[:eights]):
        acc = (rotate(acc ^ one_round(0, lane), 27) * P1 + P4) & MASK
    for (lane,) in struct.iter_unpack("<I", rest[eights:fours]):
        acc = (rotate(acc ^ lane * P1 & MASK, 23) * P2 + P3) & MASK
    for byte in rest[fours:]:
        acc = rotate(acc ^ byte * P5 & MASK, 11) * P1 & MASK
    acc = (acc ^ acc >> 33) * P2 & MASK
    acc = (acc ^ acc >> 29) * P3 & MASK
    return acc ^ acc >> 32


# ---- canonical forms -------------------------------------------------------------------------------------------------

NONE = b"\0"


def ext_form(code, extra, payload):
    return bytes([0x11, code]) + extra + payload


def tuple_form(parts):
    parts = list(parts)
    return b"\x0e" + varint(len(parts)) + b"".join(parts)


def number(r):
    """The form of a finite real number."""
    if isinstance(r, Decimal) and r and r.adjusted() > 400:
        return ext_form(20, NONE, any_value(hash(r)))  # int(r) might not fit in memory
    if r == int(r) and abs(int(r)) < 1 << 1024:
        return any_value(int(r))
    try:
        as_float = float(r)
    except OverflowError:
        as_float = math.inf
    if r != int(r) and as_float == r:
        return any_value(as_float)
    return ext_form(20, NONE, any_value(hash(r)))


def real(r):
    if isinstance(r, Decimal):
        if r.is_nan():
            raise Opaque("NaN")
        return any_value(float(r)) if r.is_infinite() else number(r)
    if isinstance(r, np.longdouble) and r == r and float(r) != r:
        raise Opaque("a longdouble that is not an f64")
    if isinstance(r, (float, np.floating)):
        if r != r:
            raise Opaque("NaN")
        return any_value(float(r)) if math.isinf(r) else number(float(r))
    return number(r)


def complex_form(z):
    if z != z:
        raise Opaque("NaN")
    if z.imag == 0:
        return real(z.real)
    return ext_form(1, NONE, tuple_form(any_value(float(part) + 0.0) for part in (z.real, z.imag)))


MICROSECOND = timedelta(microseconds=1)
UTC_FORM = ext_form(17, NONE, tuple_form([any_value(0), NONE]))


def time_form(code, microseconds, offset):
    if offset is None:
        return ext_form(code, NONE, tuple_form([any_value(microseconds), any_value(0), NONE]))
    return ext_form(code, NONE, tuple_form([any_value(microseconds - offset // MICROSECOND), any_value(0), UTC_FORM]))


def moment(v):
    """The form of a date, time, datetime, timedelta or timezone."""
    if isinstance(v, datetime):
        naive = v.replace(tzinfo=None, fold=0)
        return time_form(15, (naive - datetime(1, 1, 1)) // MICROSECOND, v.replace(fold=0).utcoffset())
    if isinstance(v, date):
        return ext_form(13, NONE, any_value(v.toordinal()))
    if isinstance(v, time):
        since = ((v.hour * 60 + v.minute) * 60 + v.second) * 10**6 + v.microsecond
        return time_form(14, since, v.replace(fold=0).utcoffset())
    if isinstance(v, timedelta):
        return ext_form(16, NONE, any_value(v // MICROSECOND))
    return ext_form(17, NONE, tuple_form([any_value(v.utcoffset(None) // MICROSECOND), NONE]))


def range_form(v):
    n = len(v)
    return ext_form(
        5, NONE, tuple_form([any_value(n), any_value(v.start) if n else NONE, any_value(v.step) if n > 1 else NONE])
    )


def canonical(v):
    """The canonical form of a key. Raises Opaque for a key without one."""
    if v is None:
        return NONE
    if isinstance(v, enum.Enum) and not isinstance(v, (int, str)):
        cls = type(v)
        name = v.name if v.name in cls.__members__ else v.value  # later Pythons name composite Flags too
        return ext_form(23, tuple_form(map(any_value, (cls.__module__, cls.__qualname__))), any_value(name))
    if isinstance(v, str):
        return any_value("".join(v))
    if isinstance(v, bytes):
        return any_value(bytes(v))
    if isinstance(v, (complex, np.complexfloating)):
        return complex_form(v)
    if isinstance(v, (bool, np.bool_)):
        return any_value(int(v))
    if isinstance(v, (int, float, Decimal, Fraction, np.integer, np.floating)) and not isinstance(v, np.timedelta64):
        return real(int(v) if isinstance(v, (int, np.integer)) else v)
    if isinstance(v, tuple):
        return tuple_form(map(canonical, v))
    if isinstance(v, frozenset):
        return ext_form(4, NONE, tuple_form(sorted(map(canonical, v))))
    if isinstance(v, range):
        return range_form(v)
    if isinstance(v, slice):
        return ext_form(6, NONE, tuple_form(map(canonical, (v.start, v.stop, v.step))))
    if v is Ellipsis:
        return ext_form(7, NONE, NONE)
    if isinstance(v, (date, time, timedelta, timezone)):
        return moment(v)
    return other_form(v)


def other_form(v):
    """The form of a key of any other type. Raises Opaque for a type without a form."""
    from pathlib import PurePosixPath, PureWindowsPath
    from uuid import UUID
    from zoneinfo import ZoneInfo

    if isinstance(v, ZoneInfo):
        return ext_form(18, NONE, any_value(v.key))
    if isinstance(v, UUID):
        return ext_form(21, NONE, any_value(v.bytes))
    if isinstance(v, PurePosixPath):
        return ext_form(22, any_value("PurePosixPath"), any_value(str(v)))
    if isinstance(v, PureWindowsPath) and str(v).isascii():
        return ext_form(22, any_value("PureWindowsPath"), any_value(str(v).lower()))
    raise Opaque(type(v).__name__)


# ---- the key index ---------------------------------------------------------------------------------------------------


class KeyIndex:
    """A key index: data[start:start + size]."""

    def __init__(self, data, start, size):
        self.data, self.start = data, start
        if size < HEAD.size:  # 24
            fail("TRUNCATED", start, "shorter than its head")
        self.head = h = Head(*HEAD.unpack_from(data, start))
        if any(h.reserved):
            fail("RESERVED", start + 52, "reserved")
        if h.factory >= len(FACTORIES):
            fail("VERSION", start + 48, f"factory {h.factory}")
        n, m = h.n_entries, h.n_entries - h.n_opaque
        self.slots_end = start + 64 + h.n_slots * h.slot_width
        self.slots_read = 0  # by all lookups
        self.opaque_start = start + 64 + -(-h.n_slots * h.slot_width // 8) * 8
        if (
            n > 1 << 48
            or m < 0
            or h.n_slots != -(-8 * m // 5)
            or h.slot_width != (4 if n < 1 << 32 else 8)  # 25
            or h.index_bits != n.bit_length()
            or h.longest_probe > h.n_slots
            or (h.n_slots and not h.longest_probe)
            or self.opaque_start + 8 * h.n_opaque != start + size
        ):
            fail("KEYS", start, f"head of a key index: {h}")

    def slot(self, s):
        """Entry and check bits of a slot, None when it is empty."""
        h, at = self.head, self.start + 64 + s * self.head.slot_width
        value = int.from_bytes(self.data[at : at + h.slot_width], "little")
        if value == 0:
            return None
        entry = (value & (1 << h.index_bits) - 1) - 1
        if not 0 <= entry < h.n_entries:  # 27
            fail("KEYS", at, "a slot has the number of a missing entry")
        return entry, value >> h.index_bits

    def candidates(self, digest):
        h = self.head
        home, mask = digest * h.n_slots >> 64, (1 << 8 * h.slot_width - h.index_bits) - 1
        for step in range(h.longest_probe):
            slot = self.slot((home + step) % h.n_slots)
            self.slots_read += 1
            if slot is None:
                return
            if slot[1] == digest & mask:
                yield slot[0]

    def opaque(self):
        numbers = struct.unpack_from(f"<{self.head.n_opaque}Q", self.data, self.opaque_start)
        if any(e >= self.head.n_entries for e in numbers):  # 27
            fail("KEYS", self.opaque_start, "an opaque number is out of range")
        return numbers


class Mapping:
    """An opened mapping."""

    def __init__(self, data):
        self.values, self.keys = Segment(data), None
        if self.values.header.content != MAPPING:
            fail("VERSION", 64, "not a mapping")
        self.keys = Segment(data, 1)
        section = self.keys.sections[KEY_INDEX]
        self.index = KeyIndex(data, section.offset, section.size)
        self.order, n_records = self.keys.sections.get(ORDER), self.values.header.n_records
        self.width = 4 if n_records < 1 << 32 else 8
        self.n = self.index.head.n_entries
        if (
            self.n != section.count
            or self.n != (n_records if self.order is None else self.order.count)
            or self.n > n_records
        ):
            fail("KEYS", section.offset, f"{self.n} entries, {section.count} of the section, {n_records} records")  # 26
        if self.order and self.order.size != self.order.count * 2 * self.width:
            fail("KEYS", self.order.offset, "size of ORDER")

    def records(self, e):
        """The record numbers of the key and of the value of entry e."""
        if self.order is None:
            return e, e
        at = self.order.offset + e * 2 * self.width
        pair = struct.unpack_from("<II" if self.width == 4 else "<QQ", self.keys.data, at)
        if max(pair) >= self.values.header.n_records:  # 27
            fail("KEYS", at, "ORDER names no record")
        return pair

    def key(self, e):
        return self.keys.record(self.records(e)[0])

    def value(self, e):
        return self.values.record(self.records(e)[1])

    def find(self, key):
        """The entry of a key; None if the mapping lacks it."""
        try:
            candidates = self.index.candidates(xxh64(canonical(key), self.index.head.seed))
        except Opaque:
            candidates = range(self.n)
        entry = next((e for e in candidates if self.key(e) == key), None)
        return entry if entry is not None else next((e for e in self.index.opaque() if self.key(e) == key), None)

    def check(self):
        self.values.check()
        self.keys.check()
        index, opaque = self.index, self.index.opaque()
        if list(opaque) != sorted(set(opaque)):  # 28
            fail("KEYS", index.opaque_start, "opaque numbers do not increase")
        slots = [slot[0] for slot in map(index.slot, range(index.head.n_slots)) if slot]
        if sorted([*slots, *opaque]) != list(range(self.n)):
            fail("KEYS", index.start, "an entry is repeated or missing")
        if any(index.data[index.slots_end : index.opaque_start]):
            fail("KEYS", index.slots_end, "bytes after the slots")
        keys = [self.records(e)[0] for e in range(self.n)]
        if any(a >= b for a, b in zip(keys, keys[1:])):
            fail("KEYS", self.order.offset, "the keys of ORDER do not increase")
        index.slots_read = 0
        for e in sorted(set(range(self.n)) - set(opaque)):
            self.check_entry(e)
        if index.slots_read > PROBE_MEAN * (index.head.n_slots + 1):  # 45
            fail("KEYS", index.start, f"{index.slots_read} slots are read for {self.n} entries")

    def check_entry(self, e):
        key = self.key(e)
        try:
            digest = xxh64(canonical(key), self.index.head.seed)
        except Opaque:
            fail("KEYS", self.index.start, f"entry {e} has no form and is not opaque")
        if next((c for c in self.index.candidates(digest) if c == e or self.key(c) == key), None) != e:
            fail("KEYS", self.index.start, f"entry {e} cannot be found by its key")

    def items(self):
        return [(self.key(e), self.value(e)) for e in range(self.n)]


def read(data):
    """The pairs of keys and values, in order."""
    with deep_recursion():
        return Mapping(bytes(data)).items()


def check(data):
    """The pairs of keys and values, after a deep check."""
    with deep_recursion():
        mapping = Mapping(bytes(data))
        mapping.check()
        items = mapping.items()
        mapping.values.check_becomes()
        mapping.keys.check_becomes()
        return items
