"""recstore.cache: values that one process makes and all processes on the machine read."""

from __future__ import annotations

import errno
import operator
import os
import time

from recstore._core import native, trust
from recstore.building import fingerprints
from recstore.caching import cache_size, random_state, stacking, warming
from recstore.caching.info import CacheInfo, CacheUse
from recstore.containers import base
from recstore.errors import (
    CorruptError,
    EncodeError,
    OutOfSpaceError,
    UntrustedError,
    WaitTimeoutError,
    warn_caller,
)
from recstore.shm import named_caches, named_segments, process_identity, registry
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Any

    from recstore._types import Arrays, Path, Paths
    from recstore.containers.dicts import RecordDict
    from recstore.containers.records import RecordList

__all__ = ["Cache", "cache"]

_MISSING, _UNREADABLE = object(), object()
_STRICT_EVERY = 100  # hits per value that strict mode makes again
_SAMPLE = 1000  # the most keys whose misses are counted, to see whether the cache helps
_SAMPLE_LEAST = 32  # the fewest such keys for a warning, without slots=
_SEAL_DELAY_S, _SEAL_WAIT_S = 0.01, 600.0  # seconds between two looks at another process that seals, and of all looks


def cache(
    name: str,
    *,
    limit: int | str = "60%",
    dir: Path | None = None,
    code: Callable[..., Any] | None = None,
    files: Paths | None = None,
    fingerprint: str | None = None,
    slots: int | None = None,
    keep: bool | float | str | None = None,
    arrays: Arrays = "copy",
) -> Cache:
    """Opens the cache of this name, or creates it. All processes of this user on this machine share the cache.

    Args:
        name: up to 64 characters.
        limit: the most bytes of values, such as ``"20GiB"``, or a share such as ``"60%"`` of the memory that is free at
            creation (the least of the machine, cgroups, ulimit -v and /dev/shm) or, on a disk, of the free disk space.
        dir: a folder on a local disk, where the cache survives a restart. None: RECSTORE_DIR or, in memory, /dev/shm.
        code: the function that makes the values. Its code, and the values that it reads, become part of the
            fingerprint (docs/fingerprints.md), so that a changed function gets a new cache.
        files: paths whose sizes, times and inodes become part of the fingerprint.
        fingerprint: a str. Caches of one name with different fingerprints are different caches.
        slots: the number of int keys, 0 to slots - 1, which share the limit: leave it out for ids with large gaps.
            None: a key is any key of a RecordDict, such as a str or a tuple ``(episode, camera, frame)``.
        keep: whether the cache stays without users: False, True, or a duration such as ``"2h"``. None: only with `dir`.
        arrays: "copy": a hit is a writable copy. "view": its arrays are read-only views of the shared bytes, and its
            tensors are copies.

    A cache that exists keeps the `limit` and `keep` that it was created with; another size or `keep` gives a warning.
    Nobody owns the cache, and no process waits for another. A value appears whole or not at all, even if its writer
    is killed. Values are never evicted. If they do not fit within the limit, a cache with `slots` keeps the keys that a
    hash selects, and any other cache keeps the values that came first. Classes in values must be registered.

    Raises TypeError if `code` has no fingerprint, ValueError for a wrong limit or for a cache with other slots,
    OutOfSpaceError, VersionError, PermissionError, and OSError for a network file system.

    >>> import recstore
    >>> with recstore.cache("doctest", slots=100, limit="1MB") as squares:
    ...     squares.get_or_make(7, lambda n: {"square": n * n}, 7), squares.get(7), squares.get(8)
    ({'square': 49}, {'square': 49}, None)
    """
    named_segments.check_name(name)
    if slots is not None and hasattr(slots, "__index__") and not isinstance(slots, bool):
        slots = operator.index(slots)  # accepts numpy's ints too
    dir = dir or None  # "" may come from an environment variable that is not set
    if slots is not None and (not isinstance(slots, int) or isinstance(slots, bool) or slots < 1):
        raise ValueError(f"slots is the number of int keys, at least 1, not {slots!r:.80}")
    if code is not None and not callable(code):
        raise TypeError(f"code is the function that makes the values, not {type(code).__name__}")
    if arrays not in ("copy", "view"):
        raise ValueError(f'arrays is "copy" or "view", not {arrays!r:.80}')
    own = "-" if fingerprint is None else fingerprint
    parts = [] if fingerprint is None and files is None else [fingerprints.full(None, own, files)]
    if code is not None:
        parts.append(fingerprints.derive(code, "code"))
    kept = named_segments.seconds(dir is not None if keep is None else keep)
    opened = Cache(name, "+".join(parts), limit, slots, kept, dir, arrays, _code_label(code))
    opened._warn_of_other_settings(limit, keep)
    return opened


def _code_label(code: Any) -> str:
    """The name and place of a function, for the label of a cache."""
    function = getattr(code, "func", code)
    function = getattr(function, "__func__", function)
    lines = getattr(function, "__code__", None)
    if lines is None:
        return "" if code is None else type(code).__qualname__
    return f"{function.__qualname__} ({os.path.basename(lines.co_filename)}:{lines.co_firstlineno})"


def _segment_of_keys(keys: list[Any]) -> native.Segment:
    """A mapping with these keys in this order, whose values are None."""
    from recstore.containers.dicts import RecordDict

    segment: native.Segment
    (segment,) = RecordDict((key, None) for key in keys).segments
    return segment


class Cache:
    """A cache, made by :func:`recstore.cache`. Safe from several threads at once. It pickles as its name: a process
    that unpickles it uses the same cache, or an empty cache if that cache has ended.

    >>> import recstore
    >>> with recstore.cache("doctest", limit="1MB") as frames:
    ...     frames.put(("episode 1", 0), [1, 2]), frames.put(("episode 1", 0), [3, 4])
    ...     ("episode 1", 0) in frames, len(frames), list(frames)
    (True, False)
    (True, 1, [('episode 1', 0)])
    """

    def __init__(
        self,
        name: str,
        fingerprint: str,
        limit: int | str,
        slots: int | None,
        keep: float | str | None,
        dir: Path | None,
        arrays: Arrays,
        code: str = "",
    ) -> None:
        target = named_segments.Target(name, fingerprint, keep, dir)
        named_segments.collect_first(target.folder, name)
        # A process that unpickles the cache may have another RECSTORE_DIR, such as a fork server that started earlier.
        self._arguments = name, fingerprint, limit, slots, keep, target.folder, arrays, code
        self._dir, self._slots, self._warned = dir, slots, set[str]()
        self._file = named_caches.open_cache_file(target, slots or 0, cache_size.parse(limit, target.folder), code)
        self._file.set_options(trust.Reader(trusted=False, arrays=arrays, requires=True), process_identity.start_time)
        registry.announce_cache(self._file)
        self._strict = os.environ.get("RECSTORE_STRICT") == "1"
        self._hits = 0
        self._missed_once: set[Any] = set()
        self._missed_twice: set[Any] = set()

    # ---- One value ----

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or `default`. A stored None is a value: ``key in cache`` shows whether there is one.
        Raises IndexError for an int key beyond the slots, TypeError for an unsupported key, CorruptError for a
        damaged file, UntrustedError for a value of a class that is not registered."""
        value = self._file.get(key, _MISSING)
        if value is not _MISSING:
            return value
        self._count_miss(key)
        return default

    def put(self, key: Any, value: Any) -> bool:
        """Stores a value. Returns False if the key has a value, or the cache is full or sealed; `info` counts both.
        Raises EncodeError for a value that cannot be stored, and IndexError, TypeError and CorruptError as `get`
        does."""
        if not self._file.admits(key):
            self._file.note(native.CACHE_FULL)
            return False
        try:
            outcome = self._file.put(key, value)
        except OutOfSpaceError as error:
            self._file.note(native.CACHE_FULL)
            self._warn("space", f"the cache {self.name!r} has no space: {error}; its further values are not kept")
            return False
        except EncodeError:
            self._file.note(native.CACHE_REFUSED)
            raise
        return outcome == native.CACHE_STORED

    def get_or_make(self, key: Any, make: Callable[..., Any], *args: Any) -> Any:
        """The value of a key. Without a value, calls ``make(*args)`` and stores the result. Raises the exceptions of
        `make`.

        Two processes may make the same value at once; one of the two is stored. The random number generators of Python,
        numpy and torch have the same state afterwards whether `make` was called or not: cache the deterministic part.
        All threads share them: numbers that another thread draws during `make` are drawn a second time.
        A value that cannot be stored is returned, with one warning.
        """
        value = self._lookup(key)
        if value is _MISSING or value is _UNREADABLE:
            return self._make(key, make, args, stores=value is _MISSING)
        if self._strict:
            self._compare(key, value, make, args)
        return value

    def __contains__(self, key: object) -> bool:
        return self._file.contains(key)

    def __len__(self) -> int:
        """The number of values, counted in the table: a millisecond for a million slots."""
        return self._file.count()[0]

    def __iter__(self) -> Iterator[Any]:
        """The keys that have a value. Keys that are added during the iteration may be missing."""
        position: int | None = 0
        while position is not None:
            keys, position = self._file.keys_from(position, 1024)
            yield from keys

    # ---- Many values ----

    def get_many(
        self, keys: Iterable[Any], make: Callable[[Any], Any] | None = None, *, out: Any = None, stack: bool = False
    ) -> Any:
        """The values of many keys, as a list, or with `stack` as one array.

        Args:
            keys: the keys, in any order; they may repeat.
            make: called as ``make(key)`` for each key without a value; the result is stored.
            out: an array or CPU tensor to copy the values into, such as pinned or shared memory. Its first axis has the
                length of `keys`. Implies `stack`.
            stack: return one array, or tensor if the values are tensors: ``out[i]`` has the value of ``keys[i]``. The
                values must have one shape and dtype. Hits are copied in C without the interpreter lock.

        Raises KeyError for a key without a value if `make` is None; ValueError if the values cannot be stacked.
        """
        key_list = list(keys)
        if out is not None or stack:
            return stacking.stacked(self, key_list, make, out)
        if make is None:
            values = [self._file.get(key, _MISSING) for key in key_list]
            for key, value in zip(key_list, values):
                if value is _MISSING:
                    self._count_miss(key)
                    raise KeyError(key)
            return values
        return [self.get_or_make(key, make, key) for key in key_list]

    def warm(
        self, keys: Iterable[Any], make: Callable[[Any], Any], workers: int = 0, progress: bool = False
    ) -> CacheInfo:
        """Makes the missing values of keys with ``make(key)``, in `workers` processes or, for 0, in this one, and
        returns the `info`. With workers, `make` must be picklable. `progress` shows a bar, which needs rich. Raises the
        exception of `make`."""
        warming.warm(self, keys, make, workers, progress)
        return self.info()

    # ---- The whole ----

    def info(self) -> CacheInfo:
        """The CacheInfo of the cache as it is now."""
        filled, table_bytes = self._file.count()
        running = process_identity.start_time
        uses = [CacheUse(pid, start, running(pid) == start, counters) for pid, start, counters in self._file.rows()]
        return CacheInfo(
            name=self.name,
            fingerprint=self._arguments[1],
            path=self._file.path,
            slots=self._slots,
            filled=filled,
            nbytes=self._file.used(),
            table_bytes=table_bytes,
            limit=self._file.limit,
            processes=uses,
        )

    def seal(self) -> RecordList[Any] | RecordDict[Any, Any]:
        """Ends storing for all processes, and returns the values as a RecordList of all slots, or as a RecordDict. The
        store reads the file of the cache; only keys are copied. It is the same store in every process, without values
        that another process was just storing. As in a saved file, instances of unregistered classes are Records.

        Waits while another process seals the cache. Raises ValueError if a slot has no value, SegmentNotFoundError if
        the cache has been removed, CorruptError for a damaged value, UntrustedError for a key of a class that is not
        registered, OutOfSpaceError, WaitTimeoutError, and OSError on a system without locks on ranges of a file
        (macOS).

        >>> import recstore
        >>> with recstore.cache("doctest", limit="1MB") as frames:
        ...     frames.put("a", [1, 2]), frames.seal()["a"], frames.put("b", 3)
        (True, [1, 2], False)
        """
        filled = len(self)
        if self._slots is not None and filled < self._slots:
            raise ValueError(
                f"{self._slots - filled:,} of {self._slots:,} slots of the cache {self.name!r} have no value: call "
                "warm()"
            )
        label = named_segments.Label.unpacked(self._file.label()).pack()
        named_caches.require_named(self._file)
        begin = time.monotonic()
        while not self._file.seal(_segment_of_keys, label):
            if time.monotonic() - begin > _SEAL_WAIT_S:
                raise WaitTimeoutError(errno.ETIMEDOUT, "another process has begun to seal the cache", self._file.path)
            time.sleep(_SEAL_DELAY_S)
        segment = named_caches.open_sealed(self._file)
        segment.reader = trust.Reader(trusted=False, arrays=self._arguments[6])
        store: RecordList[Any] | RecordDict[Any, Any] = registry.container_of(registry.announce(segment))
        return store

    @property
    def name(self) -> str:
        return self._arguments[0]

    @property
    def slots(self) -> int | None:
        """The number of int keys; None for other keys."""
        return self._slots

    def close(self) -> None:
        """Ends the use of the cache. The last user of a cache that is not kept removes it. Raises BusyError while
        arrays over it are alive."""
        self._file.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        base.close_after(self, error)

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, self._arguments

    def __repr__(self) -> str:
        if self._file.closed:
            return f"<Cache {self.name!r}, closed>"
        return f"<Cache {self.name!r}: {len(self):,} values, {size_text(self._file.used())}>"

    # ---- Making ----

    def _lookup(self, key: Any) -> Any:
        """The value of a key, _MISSING, or _UNREADABLE for a value that can be made again, but not replaced."""
        try:
            return self._file.get(key, _MISSING)
        except stacking.UNREADABLE as error:
            self._warn_of(error)
            return _UNREADABLE

    def _warn_of(self, error: Exception) -> None:
        """Warns of an error of stacking.UNREADABLE."""
        if isinstance(error, UntrustedError):
            self._warn(f"class {error}", f"values of the cache {self.name!r} are made at each use: {error}")
        else:
            self._warn("damage", f"the cache {self.name!r} is damaged, and its damaged values are made again: {error}")

    def _make(self, key: Any, make: Callable[..., Any], args: tuple[Any, ...], stores: bool = True) -> Any:
        with random_state.restored() as used:
            value = make(*args)
        if used:
            self._warn(
                "random",
                f"making a value for the cache {self.name!r} drew random numbers of {' and '.join(used)}: the value "
                "stays as it was drawn, and each value draws the same numbers; cache the part before them, and draw "
                "them after reading (then= of a CachedDataset)",
            )
        if not stores:
            return value
        try:
            self.put(key, value)
            self._count_miss(key)
        except CorruptError as error:
            self._warn_of(error)
        except EncodeError as error:
            self._warn(
                f"type {error.reason}",
                f"a value for the cache {self.name!r} cannot be stored, so it is made at each use: {error}",
            )
            self._count_miss(key)
        return value

    def _compare(self, key: Any, value: Any, make: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """In strict mode, makes the value of every hundredth hit again, and warns if it differs."""
        self._hits += 1
        if self._hits % _STRICT_EVERY:
            return
        with random_state.restored():
            again = make(*args)
        if not stacking.same(value, again):
            self._warn(
                "strict",
                f"the cache {self.name!r} has another value for the key {key!r:.80} than make() returns now: make() is "
                "not deterministic, or it has changed; cache the deterministic part, and pass code= or fingerprint=",
            )

    def _count_miss(self, key: Any) -> None:
        """Counts a miss. Warns once if most counted keys missed twice and nearly all lookups of this process missed."""
        once, twice = self._missed_once, self._missed_twice
        if "hits" in self._warned:
            return
        try:
            if key not in once:
                if len(once) < _SAMPLE:
                    once.add(key)
                return
            twice.add(key)
        except TypeError:  # a slice has no hash before Python 3.12
            return
        least = _SAMPLE_LEAST if self._slots is None else min(self._slots, _SAMPLE) // 2
        if len(once) < least or 2 * len(twice) <= len(once):
            return
        counters = self._file.counters()
        hits, misses, full, refused = (
            counters[kind] for kind in (native.CACHE_HITS, native.CACHE_MISSES, native.CACHE_FULL, native.CACHE_REFUSED)
        )
        if 100 * hits >= hits + misses:
            return
        if not self._file.stores:
            reason = "it was sealed before their values were stored"
        elif refused > misses // 2:
            reason = "most values cannot be stored"
        elif full > misses // 2 and self._slots is not None and 0 < 2 * self._file.used() < self._file.limit:
            limit = size_text(self._file.limit)
            reason = f"its {self._slots:,} slots share the limit of {limit}; if few of them are used, leave out slots="
        elif full > misses // 2 or 10 * self._file.used() > 9 * self._file.limit:
            reason = f"the limit of {size_text(self._file.limit)} is reached"
        else:
            reason = self._elsewhere()
        self._warn("hits", f"{hits:,} of {hits + misses:,} lookups in the cache {self.name!r} were hits: {reason}")

    def _elsewhere(self) -> str:
        """A text that says where the values may be: under another fingerprint or another name."""
        known = [label for path, label in named_caches.all_caches(self._dir) if path != self._file.path]
        same_name = [label.code or f"fingerprint={label.fingerprint!r}" for label in known if label.name == self.name]
        if same_name:
            return f"other caches of this name have another fingerprint: {', '.join(same_name[:3])}"
        names = sorted({repr(label.name) for label in known})
        return "no process has stored its values" + (f"; other caches are {', '.join(names[:5])}" if names else "")

    def _warn_of_other_settings(self, limit: int | str, keep: bool | float | str | None) -> None:
        """Warns if the cache was created with another size or `keep`. A share, and a `keep` of None, match any."""
        size, made_with = self._file.limit, named_segments.Label.unpacked(self._file.label()).keep
        seconds, others = str(named_segments.seconds(keep) or ""), []
        if not cache_size.is_share(limit) and cache_size.parse(limit, self._file.path) != size:
            others.append(f"limit={size}, not {limit!r}")
        if keep is not None and seconds != made_with:
            others.append(f"keep={made_with or False}, not {seconds or False}")
        if others:
            settings = " and ".join(others)
            warn_caller(f"the cache {self.name!r} was made with {settings}; another fingerprint= makes another cache")

    def _warn(self, kind: str, text: str) -> None:
        """Warns once per kind in this process."""
        if kind not in self._warned:
            self._warned.add(kind)
            warn_caller(text)
