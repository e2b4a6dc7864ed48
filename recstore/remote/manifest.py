"""Manifests: which shard files a set has, in which order.

A set of shards is a folder, or what stands below a URL. It has immutable objects alone: shard files, `<hash>.recs`,
each named by the hash of its content, BLAKE2b of 160 bits; and `manifest-<n>.json`, n = 1, 2, 3, ... A change of the
set is manifest n + 1, which one conditional put makes: of two writers one gets the number, and the other one loads that
manifest and applies its change to it. Readers keep to the manifest that they opened. A manifest is JSON with a column
for each property:

    {"recstore": "manifest", "format": 1, "number": 3, "kind": "list", "created": "2026-01-31T12:00:00Z",
     "fingerprint": "<40 hex digits>", "records": 2000, "bytes": 268435456, "attributes": {},
     "shards": {"hash": ["<40 hex>", ...], "bytes": [...], "records": [...], "low": [...], "high": [...]}}

`low` and `high` are the bounds of a shard file's keys, in sets of mappings. `fingerprint` is a hash of the kind, the
hashes, the numbers of records, the bounds and the attributes. Earlier manifests have one without the bounds: theirs are
not used. A commit names no file twice: who repeats one, because its answer was lost, finds its files there.
"""

from __future__ import annotations

import errno
import json
import math
import random
import re
import time
from array import array
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from recstore.errors import ConflictError, CorruptError, RemoteError, SegmentNotFoundError, VersionError
from recstore.remote.objects import MOST_READ
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    from recstore.remote.objects import Storage

    Key: TypeAlias = str | int | None
    _Columns: TypeAlias = dict[str, list[Any]]

FORMAT = 1
KINDS = ("list", "mapping")
_HEX = b"0123456789abcdef"
_NAME = re.compile(r"manifest-([1-9][0-9]{0,17})\.json")
_MOST = 2**63 - 1
_MOST_RECORDS = 2**48  # as of one store
_MOST_CONTAINERS = 2**20  # of the JSON: before it is known to be a manifest, each takes some 90 bytes of memory
_LAST = 10**18 - 1  # the highest number of a manifest
_TURNS = 10  # of looking for a manifest that is there and is not listed
_FIELDS = dict(number=int, kind=str, created=str, fingerprint=str, records=int, bytes=int, attributes=dict, shards=dict)


class Shard(NamedTuple):
    """A shard file as a manifest names it. The bounds of its keys are None where there are none."""

    hash: str
    nbytes: int
    records: int
    low: Key = None
    high: Key = None


def name_of(number: int) -> str:
    """The name of a manifest.

    >>> name_of(12)
    'manifest-12.json'
    """
    return f"manifest-{number}.json"


def number_in(name: str) -> int:
    """The number of the manifest of this name; 0 for another name.

    >>> number_in("manifest-12.json"), number_in("manifest-012.json"), number_in("x.recs")
    (12, 0, 0)
    """
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


class Manifest:
    """The shard files of a set, in order. `kind` is "list" or "mapping". `hashes` is a list; `sizes` and `counts` are
    arrays of the files' bytes and records; `bounds` are two lists, of the lowest and of the highest keys, or None.

    `number` is 0 until a commit gives it one. Nothing changes a manifest that has one. Safe from several threads.
    """

    def __init__(
        self, kind: str = "list", shards: Iterable[Shard] = (), attributes: dict[str, Any] | None = None
    ) -> None:
        shards = list(shards)
        self.number, self.kind, self.created = 0, kind, ""
        self.hashes = [shard.hash for shard in shards]
        self.sizes = array("q", [shard.nbytes for shard in shards])
        self.counts = array("q", [shard.records for shard in shards])
        bounded = kind == "mapping" and any(shard.low is not None for shard in shards)
        self.bounds = ([shard.low for shard in shards], [shard.high for shard in shards]) if bounded else None
        self.attributes = attributes or {}
        self._settle()

    def _settle(self) -> None:
        self.length, self.nbytes = sum(self.counts), sum(self.sizes)
        self.fingerprint = _fingerprint(self)

    def __len__(self) -> int:
        return len(self.hashes)

    def __repr__(self) -> str:
        what = f"{self.kind} of {counted(self.length, 'record')} in {counted(len(self), 'shard file')}"
        return f"<Manifest {self.number}: {what}>"

    def ends(self) -> array[int]:
        """For each shard file the records up to its end, as an array."""
        return array("q", accumulate(self.counts))

    def shards(self) -> list[Shard]:
        """The shard files as a list of Shard."""
        n = len(self.hashes)
        lows, highs = self.bounds or ([None] * n, [None] * n)
        return [Shard(*one) for one in zip(self.hashes, self.sizes, self.counts, lows, highs)]

    def dump(self) -> bytes:
        """The bytes of the manifest."""
        columns = {"hash": self.hashes, "bytes": self.sizes.tolist(), "records": self.counts.tolist()}
        if self.bounds is not None:
            columns["low"], columns["high"] = self.bounds
        head = {"recstore": "manifest", "format": FORMAT, "number": self.number, "kind": self.kind}
        head |= {"created": self.created, "fingerprint": self.fingerprint, "records": self.length}
        head |= {"bytes": self.nbytes, "attributes": self.attributes, "shards": columns}
        return json.dumps(head, separators=(",", ":"), allow_nan=False).encode("ascii")

    @classmethod
    def parse(cls, data: bytes, where: str) -> Manifest:
        """The manifest that these bytes of the object `where` are. Nothing in them is trusted.

        Raises VersionError for a manifest of another format, CorruptError for bytes that are none.
        """
        return _Parsing(cls.__new__(cls), where).parse(data)


class _Parsing:
    """Fills a new Manifest from bytes that nobody vouches for. The checks of columns are a few calls of C each, since a
    set may have 100,000 shard files."""

    def __init__(self, manifest: Manifest, where: str) -> None:
        self.manifest, self.where = manifest, where

    def require(self, true: bool, text: str) -> None:
        if not true:
            raise self.damaged(text)

    def damaged(self, text: str) -> CorruptError:
        return CorruptError(f"the manifest is damaged: {text}; open an older one, or remove it", filename=self.where)

    def constant(self, text: str) -> None:
        raise self.damaged("it has a number that JSON does not have")

    def real(self, text: str) -> float:
        number = float(text)
        self.require(math.isfinite(number), "it has a number beyond those of floats")
        return number

    def parse(self, data: bytes) -> Manifest:
        self.require(data.count(b"[") + data.count(b"{") <= _MOST_CONTAINERS, "it has too many lists and dicts")
        try:
            head = json.loads(data, parse_constant=self.constant, parse_float=self.real)
        except RecursionError:
            raise self.damaged("it is nested too deeply") from None
        except ValueError as error:
            if isinstance(error, CorruptError):
                raise
            raise self.damaged(f"it is not JSON ({error})") from None
        self.require(type(head) is dict and head.get("recstore") == "manifest", "it does not say that it is one")
        if type(head.get("format")) is not int or head["format"] != FORMAT:
            other = f"{head.get('format')!r:.40}"
            raise VersionError(
                f"a manifest of format {other}; this recstore reads format {FORMAT}: update recstore",
                filename=self.where,
            )
        for name, kind in _FIELDS.items():
            self.require(type(head.get(name)) is kind, f"{name!r} is missing or not a {kind.__name__}")
        found = self.manifest
        found.number, found.kind, found.created = head["number"], head["kind"], head["created"]
        found.attributes = head["attributes"]
        self.require(1 <= found.number <= _LAST, "its number is not valid")
        self.require(found.kind in KINDS, f"its kind {found.kind!r:.40} is not valid")
        self.require(len(found.created) <= 40, "its time is not valid")
        self.columns(head["shards"])
        try:
            found._settle()
        except RecursionError:
            raise self.damaged("its attributes are nested too deeply") from None
        self.require(found.length == head["records"] <= _MOST_RECORDS, "the records of its shard files do not add up")
        self.require(found.nbytes == head["bytes"] <= _MOST, "the bytes of its shard files do not add up")
        if found.fingerprint != head["fingerprint"] and found.bounds is not None:
            found.bounds = None  # nothing vouches for them
            found._settle()
        self.require(found.fingerprint == head["fingerprint"], "its fingerprint is that of another content")
        return found

    def columns(self, columns: _Columns) -> None:
        found = self.manifest
        for name in ("hash", "bytes", "records"):
            self.require(type(columns.get(name)) is list, f"the column {name!r} is missing")
        found.hashes = hashes = columns["hash"]
        n = len(hashes)
        found.sizes, found.counts = self.numbers(columns, "bytes", n), self.numbers(columns, "records", n)
        # A store has 4 bytes for each group of 64 records, whatever they are.
        fit = all(count <= 16 * size for count, size in zip(found.counts, found.sizes))
        self.require(fit, "a shard file has more records than its bytes can hold")
        self.require(set(map(type, hashes)) <= {str} and set(map(len, hashes)) <= {40}, "a hash is not valid")
        text = "".join(hashes)
        self.require(text.isascii() and not text.encode().translate(None, _HEX), "a hash is not valid")
        found.bounds = None
        if columns.get("low") is not None or columns.get("high") is not None:
            self.require(found.kind == "mapping", "a list has bounds of keys")
            found.bounds = self.bounds(columns, n)

    def numbers(self, columns: _Columns, name: str, n: int) -> array[int]:
        given = columns.pop(name)  # a large list, which nothing needs after this
        self.require(len(given) == n, f"the column {name!r} has another length")
        self.require(set(map(type, given)) <= {int}, f"the column {name!r} has a value that is not an int")
        try:
            numbers = array("q", given)
        except OverflowError:
            raise self.damaged(f"the column {name!r} has a number that is too large") from None
        self.require(not n or min(numbers) > 0, f"the column {name!r} has a number below 1")
        return numbers

    def bounds(self, columns: _Columns, n: int) -> tuple[list[Key], list[Key]]:
        lows: Any = columns.get("low")
        highs: Any = columns.get("high")
        self.require(type(lows) is list and type(highs) is list, "a column of bounds is missing")
        self.require(len(lows) == len(highs) == n, "a column of bounds has another length")
        kinds = list(map(type, lows))
        self.require(set(kinds) <= {str, int, type(None)}, "a bound is not a key")
        self.require(kinds == list(map(type, highs)), "the bounds of a shard file are of different types")
        ordered = all(low <= high for low, high in zip(lows, highs) if low is not None)
        self.require(ordered, "the bounds of a shard file are in the wrong order")
        return lows, highs


def _fingerprint(manifest: Manifest) -> str:
    told = blake2b(digest_size=20)
    attributes = json.dumps(manifest.attributes, sort_keys=True, separators=(",", ":"))
    told.update(f"recstore set\n{manifest.kind}\n{attributes}\n".encode("ascii"))
    told.update("".join(manifest.hashes).encode("ascii"))
    counts = manifest.counts
    if array("H", [1]).tobytes() != b"\1\0":
        counts = counts[:]
        counts.byteswap()
    told.update(counts.tobytes())
    if manifest.bounds is not None:
        told.update(json.dumps(manifest.bounds, separators=(",", ":")).encode("ascii"))
    return told.hexdigest()


# ---- In a storage ----


def newest(storage: Storage) -> int:
    """The number of the newest manifest; 0 if there is none. Raises RemoteError."""
    return max((number_in(name) for name, _, _ in storage.list("manifest-")), default=0)


def existing(storage: Storage) -> int:
    """As newest; SegmentNotFoundError if there is none."""
    number = newest(storage)
    if not number:
        raise SegmentNotFoundError(
            errno.ENOENT, "there is no set of shards: it has no manifest. Write one, or look at the path", storage.url
        )
    return number


def load(storage: Storage, number: int) -> Manifest:
    """The manifest of this number. Raises SegmentNotFoundError, CorruptError, VersionError and RemoteError."""
    where = storage.of(name_of(number))
    try:
        data = storage.read(name_of(number))
    except SegmentNotFoundError:
        raise SegmentNotFoundError(
            errno.ENOENT, "there is no such manifest: it was never written, or gc has removed it", where
        ) from None
    found = Manifest.parse(data, where)
    if found.number != number:
        raise CorruptError(f"the manifest says that it is number {found.number}", filename=where)
    return found


def commit(storage: Storage, change: Callable[[Manifest | None], Manifest], base: int | None = None) -> Manifest:
    """Makes the next manifest, and returns it.

    `change(manifest)` gets the newest one, or None if there is none, and returns a new one, or the same if there is
    nothing to change. If another writer is faster, its manifest is loaded and `change` is called again. With `base`,
    the number of a manifest or 0, it is an error if that is not the newest one any more.

    Raises ConflictError, which only a given `base` can cause; RemoteError; the exceptions of `change`. Until this
    returns no reader sees a change; after an error a reader sees all of it or nothing.
    """
    turn = taken = 0
    while True:
        number = newest(storage)
        if base is not None and number != base:
            raise _conflict(storage, base, number)
        if number >= taken:
            old = load(storage, number) if number else None
        else:
            number, old = taken, _unlisted(storage, taken, turn)
            if old is None:
                turn = _paused(turn)
                continue
        new = change(old)
        if new is old:
            return old
        if number == _LAST:
            where = storage.of(name_of(number))
            raise RemoteError(f"no manifest can follow number {number:,}: remove {where}", url=where)
        new.number, new.created = number + 1, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        data = new.dump()
        if len(data) > MOST_READ:
            raise ValueError(
                f"the manifest of {len(new):,} shard files would have {len(data):,} bytes, and readers take "
                f"{MOST_READ:,}: write larger shard files, or more than one set"
            )
        if storage.create(name_of(new.number), data):
            return new
        if base is not None:
            raise _conflict(storage, base, new.number)
        # Somebody else has committed, so all together get on; a random pause lets this one be first some time.
        taken, turn = new.number, _paused(turn)


def _paused(turn: int) -> int:
    turn += 1
    time.sleep(random.random() * min(1.0, 0.01 * 2 ** min(turn, 7)))
    return turn


def _unlisted(storage: Storage, number: int, turn: int) -> Manifest | None:
    """The manifest of a name that is taken, where a listing shows none of this number: a mounted folder may list late.
    None if it is not there, to look once more. RemoteError for a name that another thing has."""
    try:
        return load(storage, number)
    except SegmentNotFoundError:
        if turn < _TURNS:
            return None
    where = storage.of(name_of(number))
    raise RemoteError(
        f"{where} cannot be written, as the name is taken, and no manifest can be read there: look what has this name, "
        "such as a link, and remove it",
        url=where,
    )


def _conflict(storage: Storage, base: int, number: int) -> ConflictError:
    return ConflictError(
        f"{storage.url}: manifest {number} is there, so {base} is not the newest: open it, and decide again",
        url=storage.url,
    )
