"""A RecordDict over shard files. Key ranges and filters select the files that may have a key.

Each shard file is a mapping with its own key index. Keys and values are two native.Shards over the same files, so
entry e has the e-th key and the e-th value.
"""

from __future__ import annotations

from recstore._core import native
from recstore.containers.dicts import RecordDict
from recstore.errors import CorruptError, SegmentNotFoundError
from recstore.remote import openers
from recstore.remote.set import key_filters
from recstore.remote.set.key_ranges import KeyRanges
from recstore.shm import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from recstore.remote.openers import Opener

# `Mapping._set` takes a key index, or the reason why there is none. ShardDict overrides the compiled lookups, which
# need an index.
_NO_INDEX = "the keys of a set of shards are found file by file"

_FILTERS = 64  # filters that a lookup fetches at once


class ShardDict(RecordDict):  # type: ignore[type-arg]
    """A RecordDict over the shard files of a set, returned by ``recstore.open``.

    The writer is responsible for unique keys. If several files have a key, a lookup returns the value of the last file;
    ``len``, iteration, ``keys()``, ``values()`` and ``items()`` have an entry for each.

    A lookup opens the files whose key range includes the key. With ``lazy=True`` it first asks the filters of files
    that are not in the cache. Safe from several threads at once.
    """

    __slots__ = ("_finder",)
    if TYPE_CHECKING:
        _finder: Finder

        def _require(self) -> None: ...

    _kind = registry.MAPPING

    @staticmethod
    def _blank() -> ShardDict:
        blank: ShardDict = native.Mapping.__new__(ShardDict)
        return blank

    def _over(self, keys: Any, values: Any, finder: Finder) -> ShardDict:
        self._set(keys, values, None, None, _NO_INDEX)
        self._finder = finder
        return self

    @property
    def detached(self) -> None:  # type: ignore[override]
        """Always None: an unreachable set unpickles as a plain detached RecordDict."""
        return None

    # ---- Lookups ----

    def _entry(self, key: object) -> int | None:
        self._require()
        return self._finder.entry(key)

    def __contains__(self, key: object) -> bool:
        return self._entry(key) is not None

    def __getitem__(self, key: Any) -> Any:
        entry = self._entry(key)
        if entry is None:
            raise KeyError(key)
        return self._values[entry]

    def get(self, key: Any, default: Any = None, /) -> Any:
        """The value of `key`, or `default`."""
        entry = self._entry(key)
        return default if entry is None else self._values[entry]

    def _many(self, keys: Any, default: Any, has_default: bool) -> list[Any]:
        self._require()
        if hasattr(keys, "__array__") and getattr(getattr(keys, "dtype", None), "kind", "") in ("i", "u", "U"):
            keys = keys.tolist()  # as in a RecordDict, numpy ints and text act as Python objects
        keys = list(keys)
        entries = list(map(self._finder.entry, keys))
        if None not in entries:
            return self._values.get_many(entries)  # type: ignore[arg-type]  # no entry is None
        if not has_default:
            raise KeyError(keys[entries.index(None)])
        values = iter(self._values.get_many([entry for entry in entries if entry is not None]))
        return [default if entry is None else next(values) for entry in entries]

    def __iter__(self) -> Iterator[Any]:
        self._require()
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    # ---- Views ----

    def _with_values(self, values: Any) -> ShardDict:
        return ShardDict._blank()._over(self._keys, values, self._finder)

    # ---- Properties ----

    @property
    def segments(self) -> list[native.Segment]:  # type: ignore[override]
        """Empty: `sets` has the segments of the files."""
        return []

    @property
    def sets(self) -> list[native.Shards]:  # type: ignore[override]
        """The native.Shards of the keys and of the values."""
        return list({id(shards): shards for shards in (*self._keys.sets, *self._values.sets)}.values())

    @property
    def blobs(self) -> list[native.Blob]:  # type: ignore[override]
        """Empty: the key indexes are in the files."""
        return []

    @property
    def _is_whole(self) -> bool:
        return False

    @property
    def nbytes(self) -> int:
        """Bytes of all shard files."""
        self._require()
        return self._finder.opener.nbytes

    @property
    def index_nbytes(self) -> int:
        """Bytes of the key indexes that lookups have read in the open shard files."""
        self._require()
        return self._finder.index_nbytes()

    def __reduce__(self) -> tuple[Any, ...]:
        self._require()
        projection = self._values.projection
        recipe = () if projection is None else (self._values._kind, projection.describe())
        return attach, (self._finder.opener.token, len(self), *recipe)


class Finder:
    """Finds the entries of keys in the files of a set. Safe from several threads at once."""

    def __init__(self, opener: Opener, shards: native.Shards) -> None:
        self.opener, self.shards = opener, shards  # the native.Shards of the keys
        self.ranges = KeyRanges(opener.manifest.bounds, len(opener.manifest))
        self.mappings = shards.mapped.beside  # the RecordDicts of the mapped files, by file number

    def entry(self, key: object) -> int | None:
        """The entry of a key in the set; None if no file has the key."""
        candidates = self.ranges.candidates(key)
        if not candidates:
            hash(key)
            return None
        h = key_filters.hash_of(key) if self.opener.lazy else None
        for number, i in enumerate(candidates):
            if h is not None and number % _FILTERS == 0:
                self.opener.fetch_filters(candidates[number : number + _FILTERS])
            if h is None or self.opener.may_have(i, h):
                entry: int | None = self.mapping(i)._entry(key)
                if entry is not None:
                    return self.shards.range(i)[0] + entry
        return None

    def mapping(self, i: int) -> Any:
        """The RecordDict of a shard file."""
        segment = self.shards.segment(i)
        mapping = self.mappings.get(i)
        if mapping is None:
            if not segment.is_mapping or segment.order() is not None:
                raise CorruptError(
                    "a shard file of a mapping holds a list or repeats keys: write it again", filename=segment.path
                )
            mapping = registry.container_of(segment)
            expected = self.opener.manifest.counts[i]
            if len(mapping) != expected:
                raise CorruptError(
                    f"the shard file has {len(mapping)} entries and its manifest says {expected}",
                    filename=segment.path,
                )
            self.mappings[i] = mapping
        return mapping

    def index_nbytes(self) -> int:
        return sum(mapping.index_nbytes for mapping in list(self.mappings.values()))


def mapping_of(opener: Opener) -> ShardDict:
    """The ShardDict of a set."""
    sets = [openers.shards(opener, store) for store in (1, 0)]
    view = registry.container_class(registry.VIEW)
    keys, values = (view._blank()._set(native.Selection.of_shards(shards)) for shards in sets)
    return ShardDict._blank()._over(keys, values, Finder(opener, sets[0]))


def attach(token: bytes, length: int, kind: int = registry.VIEW, described: object = None) -> Any:
    """Unpickles a mapping. For an unreachable set, returns a detached mapping whose first read raises."""
    try:
        whole = mapping_of(openers.opener_of(token))
    except SegmentNotFoundError as error:
        nothing = native.Selection.of_nothing(length)
        reason = error.strerror or str(error)
        view, mapping = map(registry.container_class, (registry.VIEW, registry.MAPPING))
        sides = (view._blank()._set(nothing, None, reason) for _ in range(2))
        return mapping._blank()._set(*sides, None, None, reason)
    if described is None:
        return whole
    values = registry.container_class(kind)._blank()
    return whole._with_values(values._set(whole._values.selection, native.projection_from(described)))
