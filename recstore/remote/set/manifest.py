"""Manifests list the shard files of a set in order.

A set of shards is a folder or a URL prefix. It has immutable objects: shard files `<hash>.recs`, named by the
BLAKE2b-160 hash of their content, the key filters `<hash>.keys` of a mapping, and `manifest-<n>.json`, n = 1, 2, 3, ...
A conditional put of manifest n + 1 commits a change: one of two writers gets the number, and the other loads that
manifest and applies its change to it. Readers keep the manifest that they opened. A manifest is JSON with a column for
each property:

    {"recstore": "manifest", "format": 1, "number": 3, "kind": "list", "created": "2026-01-31T12:00:00Z",
     "fingerprint": "<40 hex digits>", "records": 2000, "bytes": 268435456, "attributes": {},
     "shards": {"hash": ["<40 hex>", ...], "bytes": [...], "records": [...], "low": [...], "high": [...]}}

`low` and `high` are the bounds of a shard file's keys, in sets of mappings. `fingerprint` is a hash of the kind, the
hashes, the record counts, the bounds and the attributes. The fingerprint of old manifests omits the bounds, so their
bounds are ignored. A manifest names each file once, so a commit repeated after a lost answer adds nothing.

The only objects that change are tags, `tag-<name>.json`. A tag names a manifest, and `gc` keeps that manifest. One put
replaces the object, so a reader finds the old number or the new one. A name is a letter, then at most 99 letters,
digits, `.`, `_` and `-`, all ASCII. A tag is JSON of at most 4,096 bytes:

    {"recstore": "tag", "format": 1, "name": "best", "number": 3, "fingerprint": "<40 hex digits>"}

`fingerprint` is the BLAKE2b-160 hash of "recstore tag", a line feed, the name, a line feed and the number in decimal.
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
from typing import NamedTuple

from recstore.errors import ConflictError, CorruptError, RemoteError, SegmentNotFoundError, VersionError
from recstore.remote.places.storage import MOST_READ, reread
from recstore.remote.set import names
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    from recstore.remote.places.storage import Storage

    Key: TypeAlias = str | int | None
    _Columns: TypeAlias = dict[str, list[Any]]

FORMAT = 1
KINDS = ("list", "mapping")
_HEX = b"0123456789abcdef"
_NAME = re.compile(r"manifest-([1-9][0-9]{0,17})\.json")
_MOST = 2**63 - 1
_MOST_RECORDS = 2**48  # the limit of one store
_MOST_CONTAINERS = 2**20  # lists and dicts in the JSON; each takes about 90 bytes of memory
_LAST = 10**18 - 1  # the highest manifest number
_LOOKS = 16  # the most remote objects that are looked at one by one; for more, the storage is listed
_TURNS = 10  # attempts to load a manifest that exists but is not listed
_FIELDS = dict(number=int, kind=str, created=str, fingerprint=str, records=int, bytes=int, attributes=dict, shards=dict)


class Shard(NamedTuple):
    """A shard file in a manifest. The key bounds are None if unknown."""

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
    """The number in the name of a manifest; 0 for other names.

    >>> number_in("manifest-12.json"), number_in("manifest-012.json"), number_in("x.recs")
    (12, 0, 0)
    """
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else 0


class Manifest:
    """The shard files of a set, in order. `kind` is "list" or "mapping". `hashes` is a list. The arrays `sizes` and
    `counts` have the bytes and records of each file. `bounds` is None or two lists: the lowest and the highest keys.

    `number` is 0 until the commit. A committed manifest never changes. Safe from several threads.
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
        records, files = counted(self.length, "record"), counted(len(self), "shard file")
        return f"<Manifest {self.number}: {self.kind} of {records} in {files}>"

    def shards(self) -> list[Shard]:
        """The shard files as a list of Shard."""
        n = len(self.hashes)
        lows, highs = self.bounds or ([None] * n, [None] * n)
        return list(map(Shard, self.hashes, self.sizes, self.counts, lows, highs))

    def dump(self) -> bytes:
        """The manifest as JSON."""
        columns = {"hash": self.hashes, "bytes": self.sizes.tolist(), "records": self.counts.tolist()}
        if self.bounds is not None:
            columns["low"], columns["high"] = self.bounds
        head = {"recstore": "manifest", "format": FORMAT, "number": self.number, "kind": self.kind}
        head |= {"created": self.created, "fingerprint": self.fingerprint, "records": self.length}
        head |= {"bytes": self.nbytes, "attributes": self.attributes, "shards": columns}
        return json.dumps(head, separators=(",", ":"), allow_nan=False).encode("ascii")

    @classmethod
    def parse(cls, data: bytes, where: str) -> Manifest:
        """Parses the untrusted bytes of the object `where`.

        Raises VersionError for another format, CorruptError for anything else.
        """
        return _Parsing(cls.__new__(cls), where).parse(data)


class _Parsing:
    """Fills a new Manifest from untrusted bytes. Most checks of a column are a few C calls, because a set may have
    100,000 shard files."""

    def __init__(self, manifest: Manifest, where: str) -> None:
        self.manifest, self.where = manifest, where

    def require(self, condition: bool, text: str) -> None:
        if not condition:
            raise self.damaged(text)

    def damaged(self, text: str) -> CorruptError:
        return CorruptError(f"the manifest is damaged: {text}; open an older one, or remove it", filename=self.where)

    def constant(self, text: str) -> None:
        raise self.damaged("it has a NaN or an infinity")

    def real(self, text: str) -> float:
        number = float(text)
        self.require(math.isfinite(number), "it has a number beyond the range of floats")
        return number

    def parse(self, data: bytes) -> Manifest:
        self.require(data.count(b"[") + data.count(b"{") <= _MOST_CONTAINERS, "it has too many lists and dicts")
        try:
            parsed = json.loads(data, parse_constant=self.constant, parse_float=self.real)
        except RecursionError:
            raise self.damaged("it is nested too deeply") from None
        except ValueError as error:
            if isinstance(error, CorruptError):
                raise
            raise self.damaged(f"it is not JSON ({error})") from None
        self.require(type(parsed) is dict and parsed.get("recstore") == "manifest", "it is not a recstore manifest")
        head: dict[str, Any] = parsed
        if type(head.get("format")) is not int or head["format"] != FORMAT:
            other = f"{head.get('format')!r:.40}"
            raise VersionError(
                f"the manifest has format {other}, and this recstore reads format {FORMAT}: update recstore",
                filename=self.where,
            )
        for name, kind in _FIELDS.items():
            self.require(type(head.get(name)) is kind, f"{name!r} is missing or not a {kind.__name__}")
        manifest = self.manifest
        manifest.number, manifest.kind, manifest.created = head["number"], head["kind"], head["created"]
        manifest.attributes = head["attributes"]
        self.require(1 <= manifest.number <= _LAST, "its number is not valid")
        self.require(manifest.kind in KINDS, f"its kind {manifest.kind!r:.40} is not valid")
        self.require(len(manifest.created) <= 40, "its time is not valid")
        self.columns(head["shards"])
        try:
            manifest._settle()
        except RecursionError:
            raise self.damaged("its attributes are nested too deeply") from None
        same_records = manifest.length == head["records"] <= _MOST_RECORDS
        self.require(same_records, "the records of its shard files do not add up")
        self.require(manifest.nbytes == head["bytes"] <= _MOST, "the bytes of its shard files do not add up")
        if manifest.fingerprint != head["fingerprint"] and manifest.bounds is not None:
            manifest.bounds = None  # an old fingerprint omits the bounds, so nothing checks them
            manifest._settle()
        self.require(manifest.fingerprint == head["fingerprint"], "its fingerprint does not match its content")
        return manifest

    def columns(self, columns: _Columns) -> None:
        manifest = self.manifest
        for name in ("hash", "bytes", "records"):
            self.require(type(columns.get(name)) is list, f"the column {name!r} is missing")
        manifest.hashes = hashes = columns["hash"]
        n = len(hashes)
        manifest.sizes, manifest.counts = self.numbers(columns, "bytes", n), self.numbers(columns, "records", n)
        # Any store has at least 4 bytes for each group of 64 records.
        fit = all(count <= 16 * size for count, size in zip(manifest.counts, manifest.sizes))
        self.require(fit, "a shard file has more records than its bytes can hold")
        self.require(set(map(type, hashes)) <= {str} and set(map(len, hashes)) <= {40}, "a hash is not valid")
        text = "".join(hashes)
        self.require(text.isascii() and not text.encode().translate(None, _HEX), "a hash is not valid")
        self.require(len(set(hashes)) == n, "it names a shard file twice")
        manifest.bounds = None
        if columns.get("low") is not None or columns.get("high") is not None:
            self.require(manifest.kind == "mapping", "a set of lists cannot have key bounds")
            manifest.bounds = self.bounds(columns, n)

    def numbers(self, columns: _Columns, name: str, n: int) -> array[int]:
        column = columns.pop(name)  # frees a large list
        self.require(len(column) == n, f"the column {name!r} has another length")
        self.require(set(map(type, column)) <= {int}, f"the column {name!r} has a value that is not an int")
        try:
            numbers = array("q", column)
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
    digest = blake2b(digest_size=20)
    attributes = json.dumps(manifest.attributes, sort_keys=True, separators=(",", ":"))
    digest.update(f"recstore set\n{manifest.kind}\n{attributes}\n".encode("ascii"))
    digest.update("".join(manifest.hashes).encode("ascii"))
    counts = manifest.counts
    if array("H", [1]).tobytes() != b"\1\0":
        counts = counts[:]
        counts.byteswap()
    digest.update(counts.tobytes())
    if manifest.bounds is not None:
        digest.update(json.dumps(manifest.bounds, separators=(",", ":")).encode("ascii"))
    return digest.hexdigest()


# ---- In a storage ----


def newest(storage: Storage) -> int:
    """The number of the newest manifest; 0 if there is none. Raises RemoteError."""
    return _newest(storage)[0]


def existing(storage: Storage) -> tuple[int, str]:
    """The number of the newest manifest, and a text that changes when another object gets its name. Raises
    SegmentNotFoundError if there is none; RemoteError."""
    found = _newest(storage)
    if not found[0]:
        raise SegmentNotFoundError(errno.ENOENT, "no set of shards here: write one, or check the path", storage.url)
    return found


def _newest(storage: Storage) -> tuple[int, str]:
    return max(((number_in(name), repr(facts)) for name, *facts in storage.list("manifest-")), default=(0, ""))


def load(storage: Storage, number: int) -> Manifest:
    """The manifest of this number. Raises SegmentNotFoundError, CorruptError, VersionError and RemoteError."""
    where = storage.of(name_of(number))

    def read() -> Manifest:
        manifest = Manifest.parse(storage.read(name_of(number)), where)
        if manifest.number != number:
            raise CorruptError(f"the manifest says that it is number {manifest.number}", filename=where)
        return manifest

    try:
        return reread(read, CorruptError, VersionError)  # the network may have damaged it
    except SegmentNotFoundError:
        raise SegmentNotFoundError(
            errno.ENOENT, "no such manifest: it was never written, or gc removed it", where
        ) from None


def missing(storage: Storage, kind: str, shards: Iterable[Shard]) -> list[str]:
    """The names of shard files, and of key filters of a mapping, that a storage lacks or has in another size."""
    sizes: dict[str, int | None] = {shard.hash + names.RECORDS: shard.nbytes for shard in shards}
    if kind == "mapping":
        sizes |= {name.removesuffix(names.RECORDS) + names.KEYS: None for name in sizes}
    if storage.local or len(sizes) <= _LOOKS:
        found = {name: storage.size(name) for name in sizes}
    else:
        found = {name: size for name, size, *_ in storage.list() if name in sizes}
    return [name for name, size in sizes.items() if found.get(name) is None or size not in (None, found[name])]


def commit(storage: Storage, change: Callable[[Manifest | None], Manifest], base: int | None = None) -> Manifest:
    """Writes the next manifest, and returns it.

    `change(manifest)` gets the newest manifest or None, and returns a new manifest, or the same object if nothing
    changes. If another writer commits first, `change` is called again with its manifest. `base` is the number of the
    expected newest manifest, or 0 for none.

    Raises ConflictError if `base` is given and not the newest; ValueError if the manifest is too large; the errors of
    `load` and `change`. The commit is atomic, even if it raises.
    """
    turn = occupied = 0  # `occupied` is the highest number known to be used by another writer
    while True:
        number = newest(storage)
        if base is not None and number != base:
            raise _conflict(storage, base, number)
        if number >= occupied:
            old = load(storage, number) if number else None
        else:
            number, old = occupied, _unlisted(storage, occupied, turn)
            if old is None:
                turn = _paused(turn)
                continue
        new = change(old)
        if new is old:
            return new
        if number == _LAST:
            where = storage.of(name_of(number))
            raise RemoteError(f"no manifest can follow number {number:,}: remove {where}", url=where)
        new.number, new.created = number + 1, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        data = new.dump()
        if len(data) > MOST_READ:
            raise ValueError(
                f"the manifest of {len(new):,} shard files would have {len(data):,} bytes, and readers accept "
                f"{MOST_READ:,}: write larger shard files, or several sets"
            )
        if storage.create(name_of(new.number), data):
            return new
        if base is not None:
            raise _conflict(storage, base, new.number)
        # Another writer committed. The random pause gives each writer a chance.
        occupied, turn = new.number, _paused(turn)


def _paused(turn: int) -> int:
    turn += 1
    time.sleep(random.random() * min(1.0, 0.01 * 2 ** min(turn, 7)))
    return turn


def _unlisted(storage: Storage, number: int, turn: int) -> Manifest | None:
    """Loads a manifest that exists but is not listed yet, as a mounted folder may list late. Returns None if the caller
    should try again. Raises RemoteError if the name exists but leads to no file."""
    try:
        return load(storage, number)
    except SegmentNotFoundError:
        if turn < _TURNS:
            return None
    where = storage.of(name_of(number))
    raise RemoteError(
        f"{where} exists and is not a readable manifest: find out what has this name, such as a link, and remove it",
        url=where,
    )


def _conflict(storage: Storage, base: int, number: int) -> ConflictError:
    return ConflictError(
        f"{storage.url}: manifest {base} is not the newest: open manifest {number}, and repeat the change",
        url=storage.url,
    )
