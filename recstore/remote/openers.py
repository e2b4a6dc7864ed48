"""Openers: what native.Shards asks for the shard files of a set. One has the set's manifest, and maps its files where
they lie or from the cache of this machine."""

from __future__ import annotations

import errno
import os
import re
import weakref
from hashlib import blake2b

from recstore._core import native
from recstore.errors import CorruptError, OutOfSpaceError, SegmentNotFoundError
from recstore.remote import cache as caches
from recstore.remote import fetching, key_filters, manifest, names, tokens
from recstore.remote.objects import MOST_READ, Storage
from recstore.remote.storage import storage_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

    from recstore.remote.objects import Listed, Options

_TRIES = 20  # of reading a filter that other processes remove again and again
_MOST_MAPPED = 2**62  # bytes
FILTER_BYTES = 128 << 20  # of filters that a process keeps in memory for a set: of some 60 million keys

_ENVIRONMENTS = "AWS_", "AZURE_", "GOOGLE_", "GCS_"
_TELLS_PLACE = re.compile("endpoint|region|account|host|project|profile")
_IS_SECRET = re.compile("key|secret|token|password|credential|sas|signature")

_openers: weakref.WeakValueDictionary[bytes, Opener] = weakref.WeakValueDictionary()  # by token, of this process


def new(reading: tokens.Reading, storage: Storage, number: int | None, fingerprint: str = "") -> Opener:
    """A new Opener. The manifest comes from the cache, if its number is given, and the fingerprint of that in the cache
    begins so; else from the storage, where a set may have been removed and written anew."""
    if reading.cache is None:
        number = number or manifest.existing(storage)
        return Opener(reading, manifest.load(storage, number), storage)
    into = caches.Cache(reading.cache, reading.limit)
    reading.place = reading.place or place_of(reading.options)
    client = fetching.Client(storage, into)
    try:
        found = _cached_manifest(into, storage, number, reading.place) if number else None
        if found is None or not found.fingerprint.startswith(fingerprint):
            asked = _Asked(client)
            found = manifest.load(asked, number or manifest.existing(asked))
            data = found.dump()
            with into.new_part(_manifest_name(storage.url, found.number, reading.place), len(data)) as part:
                part.write(data)
                part.publish()
    except BaseException:
        client.close()
        raise
    return CachedOpener(reading, found, storage, client)


# ---- Manifests in the cache ----


def place_of(options: Options) -> str:
    """8 bytes as hex digits that tell the endpoint, region and account where a URL leads: sets of two stores have one
    URL where their buckets have one name. They are a hash of options and of the environment, without what is secret."""
    found = [(name, value) for name, value in os.environ.items() if name.upper().startswith(_ENVIRONMENTS)]
    told = [repr(_telling(dict(found))), repr(_telling(options or {}))]
    return blake2b("\n".join(told).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def _telling(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The options that say where a store is, sorted; also those within others, as fsspec has them."""
    out = []
    for name, value in options.items():
        name = str(name).lower()
        if isinstance(value, dict):
            out += [(f"{name}.{inner}", told) for inner, told in _telling(value)]
        elif isinstance(value, (str, int)) and _TELLS_PLACE.search(name) and not _IS_SECRET.search(name):
            out.append((name, str(value)))
    return sorted(out)


def set_id(url: str, number: int, place: str) -> str:
    """The id of a manifest in a cache."""
    return blake2b(f"{url}@{number} {place}".encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()


def _manifest_name(url: str, number: int, place: str) -> str:
    return os.path.join("sets", f"{set_id(url, number, place)}.json")


def _cached_manifest(into: caches.Cache, storage: Storage, number: int, place: str) -> manifest.Manifest | None:
    """The manifest as an earlier opening left it; None if there is none, or a damaged one."""
    name = _manifest_name(storage.url, number, place)
    data = into.read(name)
    if data is None:
        return None
    try:
        found = manifest.Manifest.parse(data, storage.of(manifest.name_of(number)))
    except CorruptError:
        into.discard(name)
        return None
    return found if found.number == number else None


class _Asked(Storage):
    """The part of a Storage that loads a manifest, through the fetching process."""

    def __init__(self, client: fetching.Client) -> None:
        super().__init__(client.storage.url)
        self.client = client

    def read(self, name: str, limit: int = MOST_READ) -> bytes:
        return self.client.ask("read", name)  # type: ignore[no-any-return]

    def list(self, prefix: str = "") -> Iterable[Listed]:
        return self.client.ask("list", prefix)  # type: ignore[no-any-return]


# ---- The opener ----


class Opener:
    """Opens the shard files of a set for native.Shards, by their numbers: it maps them where they lie.

    Attributes: ``manifest``; ``token``, the bytes by which another process opens the same set; ``nbytes`` and
    ``attributes`` of the set; ``fingerprint`` and ``where``, `(URL, number)`, of the manifest; ``lazy``, whether shard
    files come when they are first read; ``most_mapped``, the bytes of files that are to stay mapped at most.

    Safe from several threads at once.
    """

    lazy = False
    most_mapped: int | None = None

    def __init__(self, reading: tokens.Reading, found: manifest.Manifest, storage: Storage) -> None:
        self.reading, self.manifest, self.storage = reading, found, storage
        self.nbytes, self.attributes, self.fingerprint = found.nbytes, found.attributes, found.fingerprint
        self.where = storage.url, found.number
        self._private = tokens.Private(reading.options, reading.reader.classes)
        self.mapped: Callable[[], SetShards | None] = lambda: None  # there is one while it is open
        self.shards: weakref.WeakValueDictionary[int, native.Shards] = weakref.WeakValueDictionary()  # by store

    @property
    def token(self) -> bytes:
        token = tokens.pack(self.reading, self.manifest.number, self.manifest.fingerprint, self._private)
        _openers[token] = self
        return token

    def name(self, i: int) -> str:
        return self.manifest.hashes[i] + names.RECORDS

    def __call__(self, i: int) -> native.Segment:
        """The Segment of shard file i. Raises SegmentNotFoundError if it was removed; CorruptError; RemoteError;
        OutOfSpaceError."""
        segment, bounds = self._open(i, self.reading.verify == "full"), self.manifest.bounds
        if self.reading.verify == "full" and bounds is not None:
            found, given = key_filters.bounds(segment), (bounds[0][i], bounds[1][i])
            if found != given:
                segment.close()
                raise CorruptError(
                    f"the manifest says that the keys of {self.name(i)} lie between {given[0]!r:.80} and "
                    f"{given[1]!r:.80}, not {found[0]!r:.80} and {found[1]!r:.80}; write the set again",
                    filename=self.storage.of(manifest.name_of(self.manifest.number)),
                )
        segment.reader = self.reading.reader
        return segment

    def _open(self, i: int, full: bool) -> native.Segment:
        path = self.storage.path(self.name(i))
        try:
            segment = native.open_path(path, self.reading.limits)
        except SegmentNotFoundError:
            raise SegmentNotFoundError(
                errno.ENOENT,
                f"a shard file of manifest {self.manifest.number} is gone: gc or somebody else has removed it; open "
                "the newest manifest",
                path,
            ) from None
        if segment.nbytes != self.manifest.sizes[i]:
            found = segment.nbytes
            segment.close()
            raise CorruptError(
                f"the shard file has {found:,} bytes in place of {self.manifest.sizes[i]:,}", filename=path
            )
        if full:
            with open(path, "rb") as file:
                is_intact = names.hash_of(file) == self.manifest.hashes[i]
            if not is_intact:
                segment.close()
                raise CorruptError(
                    "the shard file has another content than its name promises: it was replaced; write it again",
                    filename=path,
                )
            segment.verify(self.reading.limits)
        return segment

    def fetch_all(self) -> None:
        """Fetches what the cache lacks, unless shard files come when they are first read."""

    def close(self) -> None:
        """Ends the fetching process, if there is one. It starts again when it is needed."""

    def pause(self) -> None:
        """Ends the fetching process of a set that has all its files."""
        if not self.lazy:
            self.close()

    def wanted(self, numbers: Iterable[int]) -> None:
        """Notes which shard files are read next, so that they are fetched before. Returns at once."""

    def fetch_filters(self, numbers: Iterable[int]) -> None:
        """Fetches the filters, in one request, of the shard files that would have to be fetched."""

    def may_have(self, i: int, h: int | None) -> bool:
        """Whether shard file i may have a key with this hash, for a file that would have to be fetched to know."""
        return True


class CachedOpener(Opener):
    """Maps shard files from the cache of this machine, where they are fetched. A forked child has its own fetching
    process."""

    def __init__(
        self, reading: tokens.Reading, found: manifest.Manifest, storage: Storage, client: fetching.Client
    ) -> None:
        super().__init__(reading, found, storage)
        self.client, self.cache, self.lazy = client, client.cache, reading.lazy
        # A file that the cache has removed takes its room on the disk until it is unmapped too.
        self.most_mapped = min(self.cache.limit or 0, _MOST_MAPPED) if self.lazy else None
        self._filters: dict[int, key_filters.KeyFilter] = {}
        self._filter_bytes = 0

    def _pair(self, i: int) -> tuple[str, int]:
        return self.name(i), self.manifest.sizes[i]

    def _open(self, i: int, full: bool) -> native.Segment:
        return self.cache.opened(*self._pair(i), self._fetch, self.reading.limits, full)

    def _fetch(self, name: str, nbytes: int | None, *most: int) -> None:
        if not self.client.running:  # it need not be started to wait for another one
            wait = caches.Wait(self.storage.of(name))
            while self.cache.is_being_fetched(name):
                wait.pause()
            if self.cache.has(name, nbytes):
                return
        self.client.ask("fetch", [(name, nbytes, *most)])

    def _missing(self, there: Collection[str]) -> list[tuple[str, int]]:
        """The `(name, bytes)` of the shard files that are not among these names. `Cache.open` looks closely."""
        found = zip(self.manifest.hashes, self.manifest.sizes)
        return [(name, nbytes) for one, nbytes in found if (name := one + names.RECORDS) not in there]

    def fetch_all(self) -> None:
        there = self.cache.sweep()
        if self.lazy:
            return
        if self.cache.limit is not None and self.nbytes > self.cache.limit:
            raise OutOfSpaceError(
                errno.ENOSPC,
                f"{self.storage.url} has {self.nbytes:,} bytes, more than limit={self.cache.limit:,} of the cache: "
                "raise it, or say lazy=True, and shard files come and go",
            )
        if not self._missing(there):
            return
        try:
            id_ = set_id(self.storage.url, self.manifest.number, self.reading.place)
            fetching.ensure(self._missing, self.client, id_)
        except BaseException:
            self.client.close()
            self.cache.sweep()  # what was being fetched beside the object that failed
            raise

    def close(self) -> None:
        self.client.close()

    def wanted(self, numbers: Iterable[int]) -> None:
        if self.lazy:
            pairs = [pair for pair in map(self._pair, numbers) if not self.cache.has(*pair)]
            if pairs:
                self.client.hint(pairs)

    # ---- Filters of keys ----

    def _is_here(self, i: int) -> bool:
        mapped = self.mapped()
        return mapped is not None and mapped.has(i) or self.cache.has(*self._pair(i))

    def _filter_pair(self, i: int) -> tuple[str, None, int]:
        return self.manifest.hashes[i] + names.KEYS, None, key_filters.most_bytes(self.manifest.counts[i])

    def fetch_filters(self, numbers: Iterable[int]) -> None:
        if not self.lazy:
            return
        unknown = [i for i in numbers if i not in self._filters and not self._is_here(i)]
        pairs = [pair for pair in map(self._filter_pair, unknown) if not self.cache.has(pair[0])]
        if pairs:
            try:
                self.client.ask("fetch", pairs)
            except (CorruptError, SegmentNotFoundError):
                return  # `may_have` raises it, if the lookup gets as far as that file

    def may_have(self, i: int, h: int | None) -> bool:
        if not self.lazy or self._is_here(i):
            return True
        found = self._filters.get(i)
        if found is None:
            try:
                found = self._filter(i)
            except SegmentNotFoundError:
                return True  # somebody has removed the filter: the shard file itself knows
            self._keep(i, found)
        return found.may_have(h)

    def _keep(self, i: int, found: key_filters.KeyFilter) -> None:
        """Keeps a filter in memory, and forgets the oldest ones where there are too many."""
        self._filters[i] = found
        self._filter_bytes += found.nbytes
        if self._filter_bytes <= FILTER_BYTES:
            return
        kept = list(self._filters.items())
        total = sum(one.nbytes for _, one in kept)
        for number, one in kept[:-1]:
            if total <= FILTER_BYTES // 4 * 3:  # some room, so that not each further filter comes here
                break
            self._filters.pop(number, None)
            total -= one.nbytes
        self._filter_bytes = total

    def _filter(self, i: int) -> key_filters.KeyFilter:
        name, _, most = pair = self._filter_pair(i)
        for _ in range(_TRIES):
            data = self.cache.read(name, most)
            if data is not None:
                try:
                    return key_filters.KeyFilter(data, self.storage.of(name), self.manifest.hashes[i])
                except CorruptError:
                    self.cache.discard(name)
            self._fetch(*pair)
        raise self.cache.removed_again(name)


# ---- What a token names ----


class SetShards(native.MappedShards):
    """The native.MappedShards of a set. Its end is that of the fetching process of a lazy set."""

    def close(self) -> None:
        """Closes the set and its open segments. While arrays over one of them are alive: BusyError, and nothing is
        closed."""
        super().close()
        self.opener.close()


def shards(opener: Opener, store: int = 0) -> native.Shards:
    """The native.Shards of a set. Its keys, its values and the copies that handles make are closed together."""
    mapped = opener.mapped()
    if mapped is None or mapped.closed:
        stores = (0, 1) if opener.manifest.kind == "mapping" else (0,)
        mapped = SetShards(len(opener.manifest.counts), opener, stores)
        opener.mapped = weakref.ref(mapped)
    found = opener.shards.get(store)
    if found is None or found.mapped is not mapped:
        found = opener.shards[store] = native.Shards(opener.manifest.counts, mapped, store)
    return found


def opener_of(token: bytes) -> Opener:
    """The Opener of the set that a token names: of this process, if it has one. Raises SegmentNotFoundError for a set
    that this machine cannot reach, CorruptError."""
    known = _openers.get(token)
    if known is not None:
        return known
    reading, number, fingerprint = tokens.unpack(token)
    try:
        opener = new(reading, storage_of(reading.url, reading.options), number, fingerprint)
        opener.pause()
    except SegmentNotFoundError:
        raise
    except (OSError, ValueError, ImportError) as error:  # a checkpoint that names the set must load in any case
        raise SegmentNotFoundError(errno.ENOENT, f"{reading.url}@{number} cannot be opened here: {error}") from None
    if not opener.manifest.fingerprint.startswith(fingerprint):
        raise SegmentNotFoundError(
            errno.ENOENT, f"manifest {number} of {reading.url} is another one by now: the set was written anew"
        )
    return opener
