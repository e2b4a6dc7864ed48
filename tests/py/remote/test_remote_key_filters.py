"""recstore.remote.set.key_filters: the key filter and key range of a shard."""

import hashlib
import random
from decimal import Decimal
from fractions import Fraction

import pytest

import recstore
from recstore.remote.set import key_filters
from recstore.remote.set.key_ranges import KeyRanges

NAN = float("nan")


class Name(str):
    """Equals a str, and is stored as a custom object."""


class Equal:
    """Equals the given object."""

    def __init__(self, other):
        self.other = other

    def __eq__(self, other):
        return other == self.other

    def __hash__(self):
        return hash(self.other)


def segment_of(entries):
    d = recstore.RecordDict(entries, on_unsupported="pickle")
    return d.key_index.segment


SHARD = "5a" * 20


def bytes_of(entries):
    return key_filters.bound(key_filters.make(segment_of(entries)), SHARD)


def filter_of(entries):
    return key_filters.KeyFilter(bytes_of(entries), "here.keys", SHARD)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 65, 5000])
def test_no_key_is_missed_and_false_positives_are_few(n):
    keys = [f"key {i}" if i % 3 else i for i in range(n)]
    key_filter = filter_of(dict.fromkeys(keys, 0))
    assert all(key_filter.may_have(key_filters.hash_of(key)) for key in keys)
    false_positives = sum(key_filter.may_have(key_filters.hash_of(f"other {i}")) for i in range(20_000))
    assert false_positives <= 60  # about 10 are expected: 32 of 65,536 fingerprints in a bucket


def test_more_keys_than_are_read_at_once(monkeypatch):
    monkeypatch.setattr(key_filters, "_PIECE", 7)
    key_filter = filter_of({i: i for i in range(100)})
    assert all(key_filter.may_have(key_filters.hash_of(i)) for i in range(100))
    assert key_filter._n == 100


def test_equal_keys_of_other_types_are_found():
    key_filter = filter_of({1: 0, 2.5: 0, "text": 0, (1, "a"): 0})
    for key in (1.0, True, Fraction(5, 2), Decimal("2.5"), Name("text"), (1.0, "a"), Equal(1)):
        assert key_filter.may_have(key_filters.hash_of(key)), key


def test_opaque_keys_disable_the_filter_except_nan():
    key_filter = filter_of({NAN: 1, "a": 2})
    assert key_filter.opaque == 0 and key_filter._n == 1
    assert not any(key_filter.may_have(key_filters.hash_of(f"b{i}")) for i in range(20))
    key_filter = filter_of({Name("a"): 1})
    assert key_filter.opaque == 1 and key_filter.may_have(key_filters.hash_of("b"))


@pytest.mark.parametrize(
    "keys, low, high",
    [
        ([], None, None),
        (["b", "a", "c"], "a", "c"),
        ([3, -5, 2**62], -5, 2**62),
        ([3, "a"], None, None),
        ([True, 2], None, None),
        ([1, 2.0], None, None),
        ([2**63], None, None),
        ([b"a"], None, None),
        ([(1, 2)], None, None),
        (["\ud800", "a"], None, None),  # JSON may turn it into another character
        (["a", "\ud83d\ude00"], None, None),
        (["x" * 65, "y" * 70], "x" * 64, "y" * 64 + "\U0010ffff"),
        (["\U0010ffff" * 65], None, None),
    ],
)
def test_bounds(keys, low, high):
    assert key_filters.bounds(segment_of(dict.fromkeys(keys, 0))) == (low, high)
    assert all(may_be_within(key, low, high) for key in keys)


def may_be_within(key, low, high):
    return KeyRanges(([low], [high]), 1).candidates(key) == [0]


def test_within():
    assert may_be_within(5, 3, 9) and may_be_within(5.5, 3, 9) and may_be_within(True, 0, 1)
    assert not may_be_within(2, 3, 9) and not may_be_within("5", 3, 9) and not may_be_within(NAN, 3, 9)
    assert not may_be_within(b"x", "a", "z") and not may_be_within(None, "a", "z")
    assert may_be_within(Fraction(99), 3, 9) and may_be_within(Name("zz"), "a", "b")
    assert may_be_within(1, None, None)


def test_damage_is_detected():
    good = bytes_of({i: i for i in range(200)})
    chance = random.Random(3)
    for _ in range(200):
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        with pytest.raises((recstore.errors.CorruptError, recstore.errors.VersionError)):
            key_filters.KeyFilter(bad, "here.keys", SHARD)
    for cut in (0, 7, 30, len(good) - 1):
        with pytest.raises(recstore.errors.CorruptError, match=r"here\.keys"):
            key_filters.KeyFilter(good[:cut], "here.keys", SHARD)
    with pytest.raises(recstore.errors.VersionError, match="version 3"):
        key_filters.KeyFilter(good[:7] + b"\3" + good[8:], "here.keys", SHARD)


def test_a_filter_is_bound_to_its_shard():
    with pytest.raises(recstore.errors.CorruptError, match=f"shard file {SHARD}"):
        key_filters.KeyFilter(bytes_of({1: 1}), "here.keys", "00" * 20)


def test_forged_numbers_do_not_crash():
    forged = bytearray(bytes_of({i: i for i in range(200)}))
    forged[60:68] = (2**40).to_bytes(8, "little")
    forged[8:24] = hashlib.blake2b(forged[24:], digest_size=16).digest()
    with pytest.raises(recstore.errors.CorruptError, match="buckets"):
        key_filters.KeyFilter(forged, "here.keys", SHARD)
    forged = bytearray(bytes_of({i: i for i in range(200)}))
    n_buckets = int.from_bytes(forged[60:68], "little")
    forged[68 : 68 + 4 * (n_buckets + 1)] = b"\xff" * 4 * (n_buckets + 1)
    forged[8:24] = hashlib.blake2b(forged[24:], digest_size=16).digest()
    key_filter = key_filters.KeyFilter(forged, "here.keys", SHARD)
    assert not any(key_filter.may_have(key_filters.hash_of(i)) for i in range(200))
