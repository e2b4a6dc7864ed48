"""Tests of the reference's mappings: XXH64, canonical forms against Python's equality, and valid and broken hand-made
mappings."""

import enum
import math
import pathlib
import struct
import uuid
import zoneinfo
from collections import namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prop.checks import core_code
from ref import mapping
from ref import mapping_writer as mw
from ref import writer as w

Point = namedtuple("Point", "x y")
Color = enum.Enum("Color", "RED BLUE")
Level = enum.IntEnum("Level", "LOW HIGH")
CEST = timezone(timedelta(hours=2))
BIG = 1 << 1024

ODD_KEYS = [
    None, False, True, 0, 1, -1, 1.0, -0.0, 0.0, 0.5, 2**53 + 1, 2.0**70, 2**70, 2**70 + 1, BIG, BIG - 1, -BIG, 10**500, 1e300, int(1e300),
    math.inf, -math.inf, Decimal("Infinity"), Decimal(1), Decimal("0.5"), Decimal("0.1"), Decimal("1E+500"), Decimal("1E+999999"),
    Decimal("-0"), Decimal("1E-999999"), Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(1, 10), Fraction(BIG, 3), 0.1, 1 + 0j, 1 + 2j,
    complex(0.0, 1.0), complex(-0.0, 1.0), np.int8(1), np.uint64(2**63), 2**63, np.float32(0.5), np.float32(0.1), np.float64(0.1), np.bool_(True),
    np.complex64(1 + 2j), np.str_("a"), np.bytes_(b"a"), "a", b"a", "", b"", "é", "€", "😀", "\udc80", "a\0", (), (1, "a"), (1.0, "a"), (True, "a"),
    Point(1, "a"), ((),), frozenset(), frozenset({1, "a"}), frozenset({"a", True}), frozenset({frozenset()}), range(0), range(5, 5, 2),
    range(3), range(3), range(0, 3, 1), range(0, 1, 7), range(1), range(0, 6, 2), range(0, 5, 2), Ellipsis, Color.RED, Color.BLUE,
    Level.LOW, Level.HIGH, 2, date(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1, fold=1), datetime(2020, 1, 1, tzinfo=timezone.utc),
    datetime(2020, 1, 1, 2, tzinfo=CEST), time(12), time(12, tzinfo=timezone.utc), time(14, tzinfo=CEST), timedelta(1), timedelta(hours=24),
    timezone.utc, timezone(timedelta(0), "Z"), CEST, zoneinfo.ZoneInfo("Europe/Berlin"), uuid.UUID(int=7), pathlib.PurePosixPath("a/b"),
    pathlib.PosixPath("a/b"), pathlib.PureWindowsPath("A/b"), pathlib.PureWindowsPath("a/B"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "seed", "digest"), [
    (b"", 0, 0xEF46DB3751D8E999), (b"a", 0, 0xD24EC4F1A98C6E5B), (b"abc", 0, 0x44BC2CF5AD770999), (b"", 2654435761, 0xAC75FDA2929B17EF),
    (b"abcdefghijklmnopqrstuvwxyz", 0, 0xCFE1F278FA89835C), (b"message digest", 0, 0x066ED728FCEEB3BE),
])  # fmt: skip
def test_xxh64(data, seed, digest):
    assert mapping.xxh64(data, seed) == digest


def equal(a, b):
    """Whether a dict treats two keys as equal; both == and the hash count, because numpy's float32(0.1) == 0.1 but the
    hashes differ. None if the comparison raises, as for Decimal and numpy integers."""
    try:
        return hash(a) == hash(b) and bool(a == b)
    except TypeError:
        return None


def test_equal_keys_have_one_form():
    """Unequal keys of the table have different forms."""
    for a in ODD_KEYS:
        for b in ODD_KEYS:
            if equal(a, b) is not None:
                assert (mapping.canonical(a) == mapping.canonical(b)) == equal(a, b), (a, b)


numbers = st.one_of(st.integers(), st.integers(-3, 3), st.floats(allow_nan=False), st.fractions(), st.decimals(allow_nan=False),
                    st.booleans(), st.complex_numbers(allow_nan=False), st.integers(-40, 40).map(lambda n: n / 8),
                    st.integers(-40, 40).map(lambda n: Decimal(n) / 8), st.integers(-40, 40).map(lambda n: Fraction(n, 8)))  # fmt: skip
keys = st.recursive(st.one_of(numbers, st.text(max_size=3), st.binary(max_size=3), st.none()),
                    lambda inner: st.one_of(st.tuples(inner), st.tuples(inner, inner), st.frozensets(inner, max_size=3)), max_leaves=4)  # fmt: skip


@settings(max_examples=150)
@given(keys, keys)
def test_equality_implies_one_form(a, b):
    if equal(a, b):
        assert mapping.canonical(a) == mapping.canonical(b)


@pytest.mark.parametrize("key", [math.nan, complex(math.nan, 0), complex(0, math.nan), Decimal("NaN"), np.float32("nan"), (1, math.nan),
                                 frozenset({math.nan}), np.datetime64("2020"), np.timedelta64(1), object(),
                                 pathlib.PureWindowsPath("\u212a")], ids=lambda key: f"{key!r:.15}")  # fmt: skip
def test_opaque(key):
    with pytest.raises(mapping.Opaque):
        mapping.canonical(key)


# ---- hand-made mappings ----------------------------------------------------------------------------------------------

PAIRS = [("a", 1), (2, "two"), (None, []), ((1, "x"), {"y": 0.5}), (b"b", None), (0.25, True), ("é" * 40, 3)]


def segment_of(pairs=PAIRS, **options):
    return mw.mapping([k for k, _ in pairs], [v for _, v in pairs], **options)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_whole(n):
    data = segment_of(PAIRS[:n])
    assert mapping.check(data) == mapping.read(data) == PAIRS[:n]
    m = mapping.Mapping(data)
    assert [m.find(key) for key, _ in PAIRS] == [*range(n), *[None] * (7 - n)]
    assert m.find(2.0) == (1 if n > 1 else None)


def test_nan_is_opaque():
    data = segment_of([("a", 1), (math.nan, 2), ("b", 3)])
    m = mapping.Mapping(data)
    assert m.index.opaque() == (1,) and mapping.check(data)[0] == ("a", 1)
    assert (m.find("b"), m.find(math.nan)) == (2, None)


def test_order():
    pairs = [("a", 1), ("b", 2), ("a", 3), ("c", 4)]
    data = segment_of(pairs, order=[(0, 2), (1, 1), (3, 3)])
    assert mapping.check(data) == [("a", 3), ("b", 2), ("c", 4)]
    assert mapping.Mapping(data).find("c") == 2


def test_trees():
    data = segment_of([("a", 1), ("bc", 2)], roots=(w.int_(2, 1), w.str_()))
    assert mapping.check(data) == [("a", 1), ("bc", 2)]


FORMS = [mw.form(key) for key, _ in PAIRS]
MANY = [(f"k{i}", i) for i in range(40)]
BROKEN = {
    "no bit": (dict(features_required=0), "VERSION"),
    "other bit": (dict(features_required=2 | 1 << 40), "VERSION"),
    "content 1": (dict(content=1), "VERSION"),
    "content 3": (dict(content=3), "VERSION"),
    "no index": (dict(drop=[(1, 7)]), "SECTION"),
    "no keys": (dict(drop=[(1, kind) for kind in range(2, 8)]), "SECTION"),
    "no blocks": (dict(drop=[(1, 4)]), "SECTION"),
    "index of values": (dict(more=[(0, 7, b"", 0)]), "SECTION"),
    "two indexes": (dict(more=[(1, 7, b"", 0)]), "SECTION"),
    "heap of keys": (dict(more=[(1, 1, b"", 0)]), "SECTION"),
    "store 2": (dict(more=[(2, 2, b"", 0)]), "VERSION"),
    "kind 10": (dict(more=[(1, 10, b"", 0)]), "VERSION"),
    "short head": (dict(key_index=bytes(63)), "TRUNCATED"),
    "reserved": (dict(key_index=mw.key_index_of(FORMS, reserved=b"\1" * 12)), "RESERVED"),
    "factory": (dict(key_index=mw.key_index_of(FORMS, factory=13)), "VERSION"),
    "too few entries": (dict(key_index=mw.key_index_of(FORMS[:6])), "KEYS"),
    "n_slots": (dict(key_index=mw.key_index_of(FORMS, n_slots=11)), "KEYS"),
    "n_opaque": (dict(key_index=mw.key_index_of(FORMS, n_opaque=8)), "KEYS"),
    "longest probe 0": (dict(key_index=mw.key_index_of(FORMS, longest_probe=0)), "KEYS"),
    "longest probe": (dict(key_index=mw.key_index_of(FORMS, longest_probe=13)), "KEYS"),
    "slot width": (dict(key_index=mw.key_index_of(FORMS, slot_width=8)), "KEYS"),
    "index bits": (dict(key_index=mw.key_index_of(FORMS, index_bits=4)), "KEYS"),
    "too long": (dict(key_index=mw.key_index_of(FORMS) + bytes(8)), "KEYS"),
    "order too long": (dict(order=[(0, 0), (1, 1)], more=[], key_index=mw.key_index_of(FORMS[:1])), "KEYS"),
    "order beyond": (dict(order=[(0, 0), (1, 7)], key_index=mw.key_index_of(FORMS[:2])), "KEYS"),
    "order not ascending": (dict(order=[(1, 0), (0, 1)]), "KEYS"),
    "wrong seed": (dict(key_index=mw.key_index_of(FORMS, seed=1)[:0] + struct.pack("<Q", 2) + mw.key_index_of(FORMS, seed=1)[8:]), "KEYS"),
    "opaque without need and with a slot": (dict(key_index=mw.key_index_of([*FORMS[:6], None])[:-8] + struct.pack("<Q", 0)), "KEYS"),
    "opaque numbers fall": (dict(key_index=mw.key_index_of([None, None, *FORMS[2:]])[:-16] + struct.pack("<QQ", 1, 0)), "KEYS"),
    "another's slot": (dict(key_index=mw.key_index_of([FORMS[1], FORMS[0], *FORMS[2:]])), "KEYS"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name, tmp_path):
    options, code = BROKEN[name]
    data = segment_of(**options)
    with pytest.raises(mapping.FormatError) as caught:
        mapping.check(data)
    assert caught.value.code == f"RS_E_FMT_{code}" and core_code(tmp_path, data) == code


@pytest.mark.parametrize("options", [{}, {"order": [(0, 5), (2, 1)]}, {"key_index": mw.key_index_of([None, *FORMS[1:]])},
                                     {"key_index": mw.key_index_of(FORMS, seed=2**64 - 1, factory=12)}], ids=str)  # fmt: skip
def test_the_core_accepts(options, tmp_path):
    assert core_code(tmp_path, segment_of(**options)) is None
    assert len(mapping.check(segment_of(**options))) == (2 if "order" in options else 7)


def test_opaque_without_need():
    """A writer may list any entry as opaque."""
    data = segment_of(key_index=mw.key_index_of([None, *FORMS[1:]]))
    assert mapping.check(data) == PAIRS and mapping.Mapping(data).find("a") == 0


def test_equal_keys():
    with pytest.raises(mapping.FormatError, match="KEYS"):
        mapping.check(segment_of([("a", 1), ("a", 2)]))
