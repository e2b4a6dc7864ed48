"""The range and the filter of a shard's keys. They tell of most keys, without the shard, that it does not have them.

The object `<hash>.keys` of a shard of a mapping is its filter, all numbers little-endian:

    8 bytes   "RECSKEY" and the version, 2
    16 bytes  BLAKE2b-128 of all bytes that follow
    20 bytes  the hash of the shard: with the filter of another one, keys would not be found
    u64       n, the number of keys that have a hash
    u64       the number of opaque keys that can equal another object. With one the filter excludes no key
    u64       b, the number of buckets
    u32 x b+1 for each bucket the number of its first fingerprint; at last n
    u16 x n   the fingerprints: by bucket, and rising within one

The hash of a key is that of csrc/FORMAT.md, "Keys", with seed 0. A key with hash h has the bucket `(h >> 16) * b >> 48`
and the fingerprint `h & 0xFFFF`. Buckets have 32 keys on average, so a filter takes 17 bits a key, and of the keys that
are not in the shard one in some 2,000 passes. A Bloom filter of 10 bits a key would pass one in 100. With ``lazy=True``
each of them costs the fetching of a whole shard.
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

    from recstore.remote.manifest import Key

MAGIC = b"RECSKEY\2"
SEED = 0
_KEYS_A_BUCKET = 32
_BODY = len(MAGIC) + 16
_NUMBERS = _BODY + 20
_HEAD = _NUMBERS + 3 * 8
_MOST_KEYS = 2**32 - 1
_PIECE = 1 << 16  # keys that are read at once
_LONGEST = 64  # characters of a bound; longer keys are cut, so that a manifest stays small
_LAST = "\U0010ffff"
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = (str, int, float, bytes, tuple, bool, type(None))  # types of which no object equals one of another kind


# ---- Making ----


def make(segment: native.Segment) -> bytes:
    """The filter of the keys of a mapping's segment, of which `bound` makes the bytes of the object.

    Raises CorruptError for a segment that cannot be read. Takes some 16 bytes of memory for each key.
    """
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
            raise ValueError(f"a filter of {seen:,} keys: {_MOST_KEYS:,} are the most; write smaller shards")
    return _packed(hashes, opaque)


def _packed(hashes: array[int], opaque: int) -> bytes:
    """The filter of these hashes, which an array has in any order."""
    n = len(hashes)
    n_buckets = max(1, n // _KEYS_A_BUCKET)
    ordered = sorted(hashes)
    starts, bucket = array("I", [0]), 0
    for number, h in enumerate(ordered):
        own = (h >> 16) * n_buckets >> 48
        while bucket < own:
            starts.append(number)
            bucket += 1
    starts.extend([n] * (n_buckets - bucket))
    prints = array("H", [h & 0xFFFF for h in ordered])
    # The order within a bucket is that of the hashes: it is not that of the fingerprints, which readers do not need.
    if sys.byteorder == "big":
        starts.byteswap()
        prints.byteswap()
    numbers = b"".join(number.to_bytes(8, "little") for number in (n, opaque, n_buckets))
    return b"".join([numbers, starts.tobytes(), prints.tobytes()])


def bound(made: bytes, shard: str) -> bytes:
    """The bytes of the object with a filter that `make` made, for the shard with this hash, of 40 hex digits."""
    body = bytes.fromhex(shard) + made
    return MAGIC + blake2b(body, digest_size=16).digest() + body


def most_bytes(records: int) -> int:
    """The most bytes that the filter of a shard of so many records can have."""
    return _HEAD + 4 * (max(1, records // _KEYS_A_BUCKET) + 1) + 2 * records


def bounds(segment: native.Segment) -> tuple[Key, Key]:
    """`(low, high)`: bounds of the keys of a mapping's segment, both str or both int. `(None, None)` where keys are of
    other types or of both, beyond 64 bits, where there are none, and where a bound would have a surrogate.

    They are the least and the greatest key, unless these are longer than 64 characters: then they are cut, the low one
    to a str before it, the high one to a str after it. Bools and floats that equal ints have no bounds here.
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
            return None, None  # JSON would join two of them to one character
        low = low[:_LONGEST]
        if len(high) > _LONGEST:
            if high[_LONGEST] == _LAST:
                return None, None
            high = high[:_LONGEST] + _LAST
    return low, high


def _keys_of(segment: native.Segment) -> native.Records[Any]:
    """The keys of a mapping's segment, decoded one by one."""
    keys: native.Records[Any] = native.Records.__new__(native.Records)
    return keys._set(pairs.selections(segment)[0])


# ---- Asking ----


def equals_its_kind_alone(key: object) -> bool:
    """Whether no key that is a str or an int equals this one, which is neither. An object of a class may equal any."""
    return type(key) in _PLAIN


def hash_of(key: object) -> int | None:
    """The hash by which filters know a key; None for a key that may equal one with any hash. Raises the TypeError of
    hash(key)."""
    collected = native.KeyHashes(SEED)
    collected.append(key)
    return None if collected.opaque else int.from_bytes(collected.since(0), "little")


class KeyFilter:
    """An opened filter over bytes, of which it keeps `nbytes`, for the shard with the hash `shard`. Safe from several
    threads at once.

    Raises CorruptError and VersionError, which name the object `where`.
    """

    __slots__ = ("_buckets", "_data", "_first", "_n", "_prints", "nbytes", "opaque")

    def __init__(self, data: bytes, where: str, shard: str) -> None:
        view = memoryview(data).cast("B")
        if len(view) < _HEAD or bytes(view[: len(MAGIC) - 1]) != MAGIC[:-1]:
            raise CorruptError(
                "the object is not a filter of keys: fetch it again, or write the shard again", filename=where
            )
        if view[len(MAGIC) - 1] != MAGIC[-1]:
            raise VersionError(
                f"a filter of keys of version {view[len(MAGIC) - 1]}; this recstore reads version "
                f"{MAGIC[-1]}: update recstore, or write the shard again",
                filename=where,
            )
        if blake2b(view[_BODY:], digest_size=16).digest() != view[len(MAGIC) : _BODY]:
            raise CorruptError("the checksum of the filter of keys is wrong: it was cut or changed", filename=where)
        own = bytes(view[_BODY:_NUMBERS]).hex()
        if own != shard:
            raise CorruptError(f"the filter of keys is that of the shard file {own}", filename=where)
        self._n, self.opaque, self._buckets = (
            int.from_bytes(view[at : at + 8], "little") for at in range(_NUMBERS, _HEAD, 8)
        )
        self._first, self._prints = _HEAD, _HEAD + 4 * (self._buckets + 1)
        if not self._buckets or self._prints + 2 * self._n != len(view):
            raise CorruptError(
                f"a filter of {self._n} keys in {self._buckets} buckets has {len(view)} bytes", filename=where
            )
        self._data, self.nbytes = bytes(data), len(view)  # `find` is many times as fast as a loop over a memoryview

    def may_have(self, h: int | None) -> bool:
        """Whether the shard may have a key with this hash, which `hash_of` gave."""
        if h is None or self.opaque:
            return True
        at = self._first + 4 * ((h >> 16) * self._buckets >> 48)
        begin = self._prints + 2 * int.from_bytes(self._data[at : at + 4], "little")
        end = self._prints + 2 * int.from_bytes(self._data[at + 4 : at + 8], "little")
        wanted = (h & 0xFFFF).to_bytes(2, "little")
        found = self._data.find(wanted, begin, end)
        while found >= 0 and (found - begin) & 1:  # half of one fingerprint and half of the next
            found = self._data.find(wanted, found + 1, end)
        return found >= 0
