"""The key range and key filter of a shard. They exclude most keys without reading the shard.

The object `<hash>.keys` is the filter of a mapping's shard. All numbers are little-endian:

    8 bytes   "RECSKEY" and the version, 2
    16 bytes  BLAKE2b-128 of all following bytes
    20 bytes  the hash of the shard, because a filter of another shard would hide keys
    u64       n, the number of keys that have a hash
    u64       the number of opaque keys that can equal another object. If not 0, the filter excludes no key
    u64       b, the number of buckets
    u32 x b+1 the number of the first fingerprint of each bucket, then n
    u16 x n   the fingerprints by bucket, ascending within a bucket

The hash of a key is the hash in csrc/FORMAT.md, "Keys", with seed 0. A key with hash h has the bucket
`(h >> 16) * b >> 48` and the fingerprint `h & 0xFFFF`. Buckets have 32 keys on average, so a filter takes 17 bits per
key, with one false positive in about 2,000. A Bloom filter of 10 bits per key would have one in 100. With
``lazy=True`` each false positive fetches a whole shard.
"""

from __future__ import annotations

import re
import sys
from array import array
from hashlib import blake2b

from recstore._core import native
from recstore.building import pairs
from recstore.errors import CorruptError, VersionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore.remote.set.manifest import Key

MAGIC = b"RECSKEY\2"
SEED = 0
_KEYS_PER_BUCKET = 32
_BODY = len(MAGIC) + 16
_NUMBERS = _BODY + 20
_HEAD = _NUMBERS + 3 * 8
_MOST_KEYS = 2**32 - 1
_PIECE = 1 << 16  # keys read at once
_LONGEST = 64  # characters of a bound; longer keys are truncated to keep manifests small
_LAST = "\U0010ffff"
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = (str, int, float, bytes, tuple, bool, type(None))  # str and numbers; values of the others equal neither


# ---- Making ----


def make(segment: native.Segment) -> bytes:
    """The filter of the keys of a mapping's segment. `bound` turns it into the bytes of the object.

    Raises CorruptError for an unreadable segment, ValueError for too many keys. Takes about 90 bytes of memory per key.
    """
    return _packed(*hashes_in(segment))


def hashes_in(segment: native.Segment) -> tuple[array[int], int]:
    """The hashes of the keys of a mapping's segment, and the number of opaque keys, which have none and can equal
    another object. Raises the errors of `make`."""
    hashes, opaque, seen = array("Q"), 0, 0
    keys = iter(_keys_of(segment))
    while True:
        collected = native.KeyHashes(SEED)
        for _, key in zip(range(_PIECE), keys):
            collected.append(key)
        if not collected.n:
            break
        piece = array("Q", collected.since(0))
        unhashed = sorted((number for numbers in collected.opaque.values() for number in numbers), reverse=True)
        # A NaN equals nothing, so no lookup finds it.
        opaque += sum(len(numbers) for key, numbers in collected.opaque.items() if type(key) is not float)
        for number in unhashed:
            del piece[number]
        hashes.extend(piece)
        seen += collected.n
        if seen > _MOST_KEYS:
            raise ValueError(f"a filter holds at most {_MOST_KEYS:,} keys, not {seen:,}: write smaller shards")
    return hashes, opaque


def _packed(hashes: array[int], opaque: int) -> bytes:
    """The filter of an unordered array of hashes."""
    n = len(hashes)
    n_buckets = max(1, n // _KEYS_PER_BUCKET)
    ordered = sorted(hashes)
    starts, bucket = array("I", [0]), 0
    for number, h in enumerate(ordered):
        own = (h >> 16) * n_buckets >> 48
        while bucket < own:
            starts.append(number)
            bucket += 1
    starts.extend([n] * (n_buckets - bucket))
    prints = array("H", [h & 0xFFFF for h in ordered])
    if sys.byteorder == "big":
        starts.byteswap()
        prints.byteswap()
    numbers = b"".join(number.to_bytes(8, "little") for number in (n, opaque, n_buckets))
    return b"".join([numbers, starts.tobytes(), prints.tobytes()])


def bound(unbound: bytes, shard: str) -> bytes:
    """The bytes of the filter object: the result of `make`, bound to the hash of a shard (40 hex digits)."""
    body = bytes.fromhex(shard) + unbound
    return MAGIC + blake2b(body, digest_size=16).digest() + body


def most_bytes(records: int) -> int:
    """The maximum size in bytes of the filter of a shard of `records` records."""
    return _HEAD + 4 * (max(1, records // _KEYS_PER_BUCKET) + 1) + 2 * records


def bounds(segment: native.Segment) -> tuple[Key, Key]:
    """`(low, high)`: bounds of the keys of a mapping's segment, both str or both int. `(None, None)` without keys, for
    mixed or other key types (bool and float included), for ints beyond 64 bits, for a bound with a surrogate, and for
    an upper bound with U+10FFFF after 64 characters.

    Keys longer than 64 characters are truncated: the lower bound to a smaller str, the upper bound to a greater str.
    """
    low: Any = None
    high: Any = None
    kind = None
    for key in _keys_of(segment):
        if kind is None:
            low, high, kind = key, key, type(key)
            if kind is not str and kind is not int:
                return None, None
        elif type(key) is not kind:
            return None, None
        elif key < low:
            low = key
        elif key > high:
            high = key
    if kind is int and not -(2**63) <= low <= high < 2**63:
        return None, None
    if kind is str:
        if _SURROGATE.search(low) or _SURROGATE.search(high):
            return None, None  # JSON would join two surrogates into one character
        low = low[:_LONGEST]
        if len(high) > _LONGEST:
            if high[_LONGEST] == _LAST:
                return None, None
            high = high[:_LONGEST] + _LAST
    return low, high


def _keys_of(segment: native.Segment) -> native.Records[Any]:
    """The keys of a mapping's segment."""
    keys: native.Records[Any] = native.Records.__new__(native.Records)
    return keys._set(pairs.selections(segment)[0])


# ---- Lookups ----


def equals_only_its_kind(key: object) -> bool:
    """Whether a key that is neither a str nor a number can never equal a str or int. An object of a user's class may
    equal both."""
    return type(key) in _PLAIN


def hash_of(key: object) -> int | None:
    """The hash of a key in filters; None if keys with other hashes may equal it. Raises the TypeError of hash(key)."""
    collected = native.KeyHashes(SEED)
    collected.append(key)
    return None if collected.opaque else int.from_bytes(collected.since(0), "little")


class KeyFilter:
    """The filter of the shard with the hash `shard`. Keeps `nbytes` bytes in memory. Safe from several threads at once.

    Raises CorruptError and VersionError with `where` as the file name.
    """

    __slots__ = ("_buckets", "_data", "_first", "_n", "_prints", "nbytes", "opaque")

    def __init__(self, data: bytes, where: str, shard: str) -> None:
        view = memoryview(data).cast("B")
        if len(view) < _HEAD or bytes(view[: len(MAGIC) - 1]) != MAGIC[:-1]:
            raise CorruptError(
                "the object is not a key filter: fetch it again, or write the shard again", filename=where
            )
        if view[len(MAGIC) - 1] != MAGIC[-1]:
            raise VersionError(
                f"the key filter has version {view[len(MAGIC) - 1]}, and this recstore reads version {MAGIC[-1]}: "
                "update recstore, or write the shard again",
                filename=where,
            )
        if blake2b(view[_BODY:], digest_size=16).digest() != view[len(MAGIC) : _BODY]:
            raise CorruptError("the key filter has a wrong checksum: it was truncated or changed", filename=where)
        own = bytes(view[_BODY:_NUMBERS]).hex()
        if own != shard:
            raise CorruptError(f"the key filter belongs to the shard file {own}", filename=where)
        self._n, self.opaque, self._buckets = (
            int.from_bytes(view[at : at + 8], "little") for at in range(_NUMBERS, _HEAD, 8)
        )
        self._first, self._prints = _HEAD, _HEAD + 4 * (self._buckets + 1)
        if not self._buckets or self._prints + 2 * self._n != len(view):
            raise CorruptError(
                f"a key filter of {self._n} keys in {self._buckets} buckets has {len(view)} bytes", filename=where
            )
        self._data, self.nbytes = bytes(data), len(view)  # bytes.find is much faster than a loop over a memoryview

    def may_have(self, h: int | None) -> bool:
        """Whether the shard may have a key with this result of `hash_of`."""
        if h is None or self.opaque:
            return True
        at = self._first + 4 * ((h >> 16) * self._buckets >> 48)
        begin = self._prints + 2 * int.from_bytes(self._data[at : at + 4], "little")
        end = self._prints + 2 * int.from_bytes(self._data[at + 4 : at + 8], "little")
        fingerprint = (h & 0xFFFF).to_bytes(2, "little")
        match = self._data.find(fingerprint, begin, end)
        while match >= 0 and (match - begin) & 1:  # it straddles two fingerprints
            match = self._data.find(fingerprint, match + 1, end)
        return match >= 0
