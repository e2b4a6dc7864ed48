"""Openers map the shard files of a set for native.Shards, in place or from the cache on this machine."""

from __future__ import annotations

import errno
import functools
import logging
import time
import weakref

from recstore._core import native
from recstore.errors import CorruptError, OutOfSpaceError, SegmentNotFoundError
from recstore.remote import cached_manifests, tokens
from recstore.remote.cache import cache as caches
from recstore.remote.cache import cache_room, counters, fetch_client
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.places.helper import HELPER
from recstore.remote.places.storage import Storage, reread
from recstore.remote.set import key_filters, manifest, names, ranges, tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from recstore.remote.cache.counters import Counters

_TRIES = 20  # attempts to read a filter that other processes keep evicting
_MOST_FETCHED = 1 << 30  # the bytes in memory of a set that is read by ranges, without limit=
_MOST_MAPPED = 2**62  # bytes
FILTER_BYTES = 128 << 20  # the maximum size of the filters in memory, per process and set: about 60 million keys

_openers: weakref.WeakValueDictionary[bytes, Opener] = weakref.WeakValueDictionary()  # the Openers by token


def new(reading: tokens.Reading, storage: Storage, reference: int | str | None, fingerprint: str = "") -> Opener:
    """A new Opener of the manifest with this number or tag, or of the newest. Takes the manifest from the cache if its
    fingerprint begins with `fingerprint`. Otherwise loads it from the storage, where the set may have been
    rewritten."""
    if reading.cache is None and reading.lazy != "records":
        return Opener(reading, tags.load(storage, reference), storage)
    into = None if reading.cache is None else caches.Cache(reading.cache, reading.limit)
    client = fetch_client.Client(storage, into)
    remote = cached_manifests.ClientStorage(client)
    try:
        if into is None:
            return RangesOpener(reading, tags.load(remote, reference), storage, client)
        reading.place = reading.place or cached_manifests.place_of(reading.options)
        number = tags.number_of(remote, reference) if isinstance(reference, str) else reference
        contents, lease = cached_manifests.load(reading, client, number, fingerprint)
    except BaseException:
        client.close()
        raise
    return CachedOpener(reading, contents, storage, client, lease)


# ---- The opener ----


class Opener:
    """Opens the shard files of a set by number for native.Shards. This class maps local files in place.

    Attributes: ``manifest``; ``token``, the bytes with which another process opens the same set; ``nbytes`` and
    ``attributes`` of the set; ``fingerprint`` and ``where``, `(URL, number)`, of the manifest; ``lazy``, whether shard
    files are fetched at first read; ``most_mapped``, the maximum bytes of mapped files.

    Safe from several threads at once.
    """

    lazy = False
    most_mapped: int | None = None

    def __init__(self, reading: tokens.Reading, contents: manifest.Manifest, storage: Storage) -> None:
        self.reading, self.manifest, self.storage = reading, contents, storage
        self.nbytes, self.attributes, self.fingerprint = contents.nbytes, contents.attributes, contents.fingerprint
        self.where = storage.url, contents.number
        self._private = tokens.Private(reading.options, reading.reader.classes)
        self.mapped: Callable[[], SetShards | None] = lambda: None  # a weak reference while the set is open
        self.shards: weakref.WeakValueDictionary[int, native.Shards] = weakref.WeakValueDictionary()  # by store number

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
            actual, expected = key_filters.bounds(segment), (bounds[0][i], bounds[1][i])
            if actual != expected:
                segment.close()
                raise CorruptError(
                    f"the manifest says that the keys of {self.name(i)} range from {expected[0]!r:.80} to "
                    f"{expected[1]!r:.80}, not from {actual[0]!r:.80} to {actual[1]!r:.80}; write the set again",
                    filename=self.storage.of(manifest.name_of(self.manifest.number)),
                )
        segment.reader = self.reading.reader
        return segment

    def _gone(self, path: str) -> SegmentNotFoundError:
        return SegmentNotFoundError(
            errno.ENOENT,
            f"a shard file of manifest {self.manifest.number} is gone: gc or somebody else removed it; open the newest "
            "manifest",
            path,
        )

    def _open(self, i: int, full: bool) -> native.Segment:
        path = self.storage.path(self.name(i))
        try:
            segment = native.open_path(path, self.reading.limits)
        except SegmentNotFoundError:
            raise self._gone(path) from None
        if segment.nbytes != self.manifest.sizes[i]:
            nbytes = segment.nbytes
            segment.close()
            raise CorruptError(
                f"the shard file has {nbytes:,} bytes instead of {self.manifest.sizes[i]:,}", filename=path
            )
        if full:
            with open(path, "rb") as file:
                is_intact = names.hash_of(file) == self.manifest.hashes[i]
            if not is_intact:
                segment.close()
                raise CorruptError(
                    "the content of the shard file does not match its name: it was replaced; write it again",
                    filename=path,
                )
            segment.verify(self.reading.limits)
        return segment

    def fetch_all(self) -> None:
        """Fetches the files missing from the cache, unless the set is lazy."""

    def open(self) -> None:
        """Marks the set as open in the cache. Called when its shards are first mapped, also after `close`."""

    def counters(self) -> tuple[str, Counters] | None:
        """The path of the cache, or the URL of a set that is read by ranges, and its counters."""
        return None

    def close(self) -> None:
        """Ends the use of the helper process. Marks the set as closed."""

    def pause(self) -> None:
        """Ends the use of the helper process unless the set is lazy."""

    def check_window(self, numbers: Iterable[int]) -> None:
        """Warns if shard files that are read at the same time exceed the limit of the cache."""

    def fetch_ahead(self, numbers: Iterable[int]) -> None:
        """Requests the shard files that will be read next, in the order of their use. Returns at once."""

    def fetch_filters(self, numbers: Iterable[int]) -> None:
        """Fetches, in one request, the filters of shard files that are not on this machine."""

    def may_have(self, i: int, h: int | None) -> bool:
        """Whether shard file i may have a key with this hash. True if the file is on this machine."""
        return True


class CachedOpener(Opener):
    """Fetches shard files into the cache on this machine and maps them."""

    def __init__(
        self,
        reading: tokens.Reading,
        contents: manifest.Manifest,
        storage: Storage,
        client: fetch_client.Client,
        lease: cache_room.Lease,
    ) -> None:
        super().__init__(reading, contents, storage)
        self.client, self.cache, self.lease, self.lazy = client, client.cache, lease, bool(reading.lazy)
        # An evicted file takes space on the disk until it is unmapped.
        self.most_mapped = min(self.cache.limit or 0, _MOST_MAPPED) if self.lazy else None
        self._has_warned = False
        self._filters: dict[int, key_filters.KeyFilter] = {}
        self._filter_bytes = 0

    def _pair(self, i: int) -> tuple[str, int]:
        return self.name(i), self.manifest.sizes[i]

    def _open(self, i: int, full: bool) -> native.Segment:
        return self.cache.open_segment(*self._pair(i), self._fetch, self.reading.limits, full)

    def _fetch(self, name: str, nbytes: int | None, *max_bytes: int) -> None:
        if not HELPER.running:  # waiting for another process needs no helper process
            wait = caches.Wait(self.storage.of(name))
            while self.cache.is_being_fetched(name):
                with self.cache.waiting("process_ns"):
                    wait.pause()
            if self.cache.has(name, nbytes):
                return
        with self.cache.waiting("fetch_ns"):
            self.client.ask("fetch", [(name, nbytes, *max_bytes)])

    def _missing(self, cached: Collection[str]) -> list[tuple[str, int]]:
        """The `(name, bytes)` of the shard files whose names are not in `cached`. `Cache.open` checks the files."""
        files = zip(self.manifest.hashes, self.manifest.sizes)
        return [(name, nbytes) for hash_, nbytes in files if (name := hash_ + names.RECORDS) not in cached]

    def open(self) -> None:
        self.lease.open()
        if not self.lazy:
            self.lease.read_at_a_time(self.nbytes)

    def fetch_all(self) -> None:
        cached = self.cache.sweep()
        if self.lazy:
            return
        if self.cache.limit is not None and self.nbytes > self.cache.limit:
            raise OutOfSpaceError(
                errno.ENOSPC,
                f"{self.storage.url} has {self.nbytes:,} bytes, more than limit={self.cache.limit:,} of the cache: "
                "raise it, or give lazy=True to fetch and evict shard files as needed",
            )
        if not self._missing(cached):
            return
        if self.cache.limit is not None:  # the missing files must not take the room of the others
            for name in map(self.name, range(len(self.manifest))):
                if name in cached:
                    self.cache.use(name)
        try:
            id_ = cached_manifests.set_id(self.storage.url, self.manifest.number, self.reading.place)
            fetch_client.ensure(self._missing, self.client, id_)
        except BaseException:
            self.client.close()
            self.cache.sweep()  # removes the other unfinished downloads
            raise

    def counters(self) -> tuple[str, Counters]:
        return self.cache.user_path, counters.read(self.cache.folder)

    def close(self) -> None:
        self.client.close()
        self.lease.close()

    def pause(self) -> None:
        if not self.lazy:
            self.client.close()

    def check_window(self, numbers: Iterable[int]) -> None:
        limit, numbers = self.cache.limit, list(numbers)
        nbytes = sum(self.manifest.sizes[i] for i in numbers)
        if not self.lazy or limit is None or nbytes <= limit or self._has_warned:
            return
        self._has_warned = True
        # A record is read from a shard that was evicted, with the probability of the part beyond the limit.
        records = sum(self.manifest.counts[i] for i in numbers) / len(numbers)
        logging.getLogger("recstore").warning(
            f"a window of {len(numbers)} shards of {self.storage.url} has {nbytes:,} bytes, more than limit={limit:,} "
            f"of the cache: each shard may be fetched {1 + records * (1 - limit / nbytes):.1f} times in an epoch; use "
            "a smaller window=, or raise limit="
        )

    def fetch_ahead(self, numbers: Iterable[int]) -> None:
        if not self.lazy:
            return
        limit, missing, total = self.cache.limit, [], 0
        for name, nbytes in map(self._pair, numbers):
            if limit is not None and total + nbytes > limit - (limit >> cache_room.SMALL):
                break  # it would take the room of a shard that is read earlier, or of manifests
            total += nbytes
            if self.cache.has(name, nbytes):
                self.cache.use(name)
            else:
                missing.append((name, nbytes))
        self.lease.read_at_a_time(total)
        if missing:
            self.client.hint(missing)

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
                return  # `may_have` raises the error if the lookup needs the filter

    def may_have(self, i: int, h: int | None) -> bool:
        if not self.lazy or self._is_here(i):
            return True
        key_filter = self._filters.get(i)
        if key_filter is None:
            try:
                key_filter = self._filter(i)
            except SegmentNotFoundError:
                return True  # the filter was removed: look into the shard file
            self._keep(i, key_filter)
        return key_filter.may_have(h)

    def _keep(self, i: int, key_filter: key_filters.KeyFilter) -> None:
        """Keeps a filter in memory, and drops the oldest filters beyond FILTER_BYTES."""
        self._filters[i] = key_filter
        self._filter_bytes += key_filter.nbytes
        if self._filter_bytes <= FILTER_BYTES:
            return
        filters = list(self._filters.items())
        total = sum(old.nbytes for _, old in filters)
        for number, old in filters[:-1]:
            if total <= FILTER_BYTES // 4 * 3:  # free a quarter, so that this loop runs rarely
                break
            self._filters.pop(number, None)
            total -= old.nbytes
        self._filter_bytes = total

    def _filter(self, i: int) -> key_filters.KeyFilter:
        name, _, max_bytes = pair = self._filter_pair(i)
        for _ in range(_TRIES):
            data = self.cache.read(name, max_bytes)
            if data is not None:
                try:
                    return key_filters.KeyFilter(data, self.storage.of(name), self.manifest.hashes[i])
                except CorruptError:
                    self.cache.discard(name)
            self._fetch(*pair)
        raise self.cache.keeps_evicting(name)


class RangesOpener(Opener):
    """Opens shard files and fetches only the bytes that reads need. `fetched_bytes` is the number of these bytes in all
    open files."""

    lazy = True

    def __init__(
        self, reading: tokens.Reading, contents: manifest.Manifest, storage: Storage, client: fetch_client.Client
    ) -> None:
        super().__init__(reading, contents, storage)
        self.client, self.fetched_bytes = client, 0
        self._requests = self._nbytes = self._fetch_ns = 0
        self.most_mapped = _MOST_FETCHED if reading.limit is None else min(max(1, reading.limit), _MOST_MAPPED)

    def _open(self, i: int, full: bool) -> native.Segment:
        try:
            return reread(lambda: self._try(i, full), CorruptError)
        except SegmentNotFoundError:
            raise self._gone(self.storage.of(self.name(i))) from None

    def _try(self, i: int, full: bool) -> native.Segment:
        read = functools.partial(self._read, self.name(i))
        where, nbytes = self.storage.of(self.name(i)), self.manifest.sizes[i]
        bytes_ = ranges.Ranges(read, nbytes, where, self._count)
        bytes_.fetch_head()
        segment = native.open_ranges(bytes_, self.reading.limits, where)
        if full:
            bytes_(0, nbytes)
            digest = names.new_hash()
            digest.update(bytes_.memory)
            if digest.hexdigest() != self.manifest.hashes[i]:
                segment.close()
                raise CorruptError("the content of the shard file does not match its name", filename=where)
            segment.verify(self.reading.limits)
        return segment

    def _read(self, name: str, begin: int, size: int) -> bytes:
        started = time.monotonic_ns()
        data: bytes = self.client.ask("read_range", name, begin, size)
        n, ns = len(data), time.monotonic_ns() - started
        self._requests += 1
        self._nbytes += n
        self._fetch_ns += ns
        return data

    def counters(self) -> tuple[str, Counters]:
        return self.storage.url, counters.Counters(
            requests=self._requests, nbytes=self._nbytes, fetch_ns=self._fetch_ns
        )

    def _count(self, n: int) -> None:
        self.fetched_bytes += n

    def close(self) -> None:
        self.client.close()


# ---- Shards by token ----


class SetShards(native.MappedShards):
    """The native.MappedShards of a set. Closing it also ends the use of the helper process."""

    def close(self) -> None:
        """Closes the set and its open segments. Raises BusyError, without closing anything, while arrays over a segment
        are alive."""
        super().close()
        self.opener.close()


def shards(opener: Opener, store: int = 0) -> native.Shards:
    """The native.Shards of a store of a set. All stores and unpickled copies of a set share one SetShards, which closes
    them together."""
    mapped = opener.mapped()
    if mapped is None or mapped.closed:
        stores = (0, 1) if opener.manifest.kind == "mapping" else (0,)
        mapped = SetShards(len(opener.manifest.counts), opener, stores)
        opener.open()
        opener.mapped = weakref.ref(mapped)
    existing = opener.shards.get(store)
    if existing is None or existing.mapped is not mapped:
        existing = opener.shards[store] = native.Shards(opener.manifest.counts, mapped, store)
    return existing


def opener_of(token: bytes) -> Opener:
    """The Opener for a token, shared within the process. Raises SegmentNotFoundError for an unreachable set;
    CorruptError."""
    known = _openers.get(token)
    if known is not None:
        return known
    reading, number, fingerprint = tokens.unpack(token)
    try:
        opener = new(reading, storage_of(reading.url, reading.options), number, fingerprint)
        opener.pause()
    except SegmentNotFoundError:
        raise
    except (OSError, ValueError, ImportError) as error:  # unpickling turns the error below into a detached container
        raise SegmentNotFoundError(errno.ENOENT, f"{reading.url}@{number} cannot be opened here: {error}") from None
    if not opener.manifest.fingerprint.startswith(fingerprint):
        raise SegmentNotFoundError(
            errno.ENOENT, f"manifest {number} of {reading.url} has changed: the set was removed and written again"
        )
    return opener
