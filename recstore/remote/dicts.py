"""A RecordDict over shard files: a key leads to its file by the range of the file's keys, or else by filters.

Each shard file is a mapping with a key index of its own, which finds the key in it. Keys and values are two
native.Shards over the same files, so that entry e has the e-th key and the e-th value.
"""

from recstore._core import native
from recstore.containers.dicts import RecordDict
from recstore.containers.records import RecordView
from recstore.errors import CorruptError, SegmentNotFoundError
from recstore.remote import key_filters, openers
from recstore.remote.key_ranges import KeyRanges
from recstore.shm import registry

# `Mapping._set` takes a key index, or the reason why there is none. The compiled lookups, which would need the index,
# are replaced below.
_NO_INDEX = "the keys of a set of shards are found file by file"

_FILTERS = 64  # that a lookup fetches at once


class ShardDict(RecordDict):
    """A RecordDict over the shard files of a set, which ``recstore.open`` returns.

    Keys are unique over the set if its writer has seen to it. A key that several files have leads to the value of the
    last one; ``len``, iteration, ``keys()``, ``values()`` and ``items()`` have an entry for each.

    A lookup opens the files that may have the key, by their ranges. With ``lazy=True`` it first asks the filters of
    those that would have to be fetched. Safe from several threads at once.
    """

    __slots__ = ("_finder",)
    _kind = registry.MAPPING

    @staticmethod
    def _blank():
        return native.Mapping.__new__(ShardDict)

    def _over(self, keys, values, finder):
        self._set(keys, values, None, None, _NO_INDEX)
        self._finder = finder
        return self

    @property
    def detached(self):
        """None: a set of shards that cannot be reached has no such mapping."""
        return None

    # ---- Finding ----

    def _entry(self, key):
        self._require()
        return self._finder.entry(key)

    def __contains__(self, key):
        return self._entry(key) is not None

    def __getitem__(self, key):
        entry = self._entry(key)
        if entry is None:
            raise KeyError(key)
        return self._values[entry]

    def get(self, key, default=None, /):
        """The value of `key`, or `default`."""
        entry = self._entry(key)
        return default if entry is None else self._values[entry]

    def _many(self, keys, default, has_default):
        self._require()
        if hasattr(keys, "__array__") and getattr(getattr(keys, "dtype", None), "kind", "") in ("i", "u", "U"):
            keys = keys.tolist()  # as for a RecordDict: numbers and text of numpy are looked up as those of Python
        keys = list(keys)
        entries = list(map(self._finder.entry, keys))
        if None not in entries:
            return self._values.get_many(entries)
        if not has_default:
            raise KeyError(keys[entries.index(None)])
        found = iter(self._values.get_many([entry for entry in entries if entry is not None]))
        return [default if entry is None else next(found) for entry in entries]

    def __iter__(self):
        self._require()
        return iter(self._keys)

    def __len__(self):
        return len(self._keys)

    # ---- Views ----

    def _with_values(self, values):
        return ShardDict._blank()._over(self._keys, values, self._finder)

    # ---- What it is ----

    @property
    def segments(self):
        """No segment is the mapping's own: `sets` has those of its files."""
        return []

    @property
    def sets(self):
        """The two sets of shards that the mapping reads: keys and values."""
        return list({id(one): one for one in (*self._keys.sets, *self._values.sets)}.values())

    @property
    def blobs(self):
        """None: its files have the key indexes."""
        return []

    @property
    def _is_whole(self):
        """False: it is no single segment."""
        return False

    @property
    def nbytes(self):
        """Bytes of all shard files."""
        self._require()
        return self._finder.opener.nbytes

    @property
    def index_nbytes(self):
        """Bytes of the key indexes of the shard files that are open."""
        self._require()
        return self._finder.index_nbytes()

    def __reduce__(self):
        self._require()
        projection = self._values.projection
        how = () if projection is None else (self._values._kind, projection.describe())
        return attach, (self._finder.opener.token, len(self), *how)


class Finder:
    """Finds the entries of keys in the files of a set. Safe from several threads at once."""

    def __init__(self, opener, shards):
        self.opener, self.shards = opener, shards  # the native.Shards of the keys
        found = opener.manifest
        self.ranges = KeyRanges(found.lows, found.highs, len(found))
        self.mappings = shards.mapped.beside  # by the number of a file that is mapped: its RecordDict

    def entry(self, key):
        """The entry of a key: the number of its first record in the set; None if no file has it."""
        candidates = self.ranges.candidates(key)
        if not candidates:
            hash(key)
            return None
        h = key_filters.hash_of(key) if self.opener.lazy else None
        for number, i in enumerate(candidates):
            if h is not None and number % _FILTERS == 0:
                self.opener.fetch_filters(candidates[number : number + _FILTERS])
            if h is None or self.opener.may_have(i, h):
                entry = self.mapping(i)._entry(key)
                if entry is not None:
                    return self.shards.range(i)[0] + entry
        return None

    def mapping(self, i):
        """The RecordDict of a shard file."""
        segment = self.shards.segment(i)
        found = self.mappings.get(i)
        if found is None:
            if not segment.is_mapping or segment.order() is not None:
                raise CorruptError(
                    "a shard file of a mapping has a list, or repeats keys: write it again", filename=segment.path
                )
            found = RecordDict._of_segment(segment)
            if len(found) != self.opener.manifest.counts[i]:
                raise CorruptError(
                    f"a shard file of {len(found)} entries, where its set names {self.opener.manifest.counts[i]}",
                    filename=segment.path,
                )
            self.mappings[i] = found
        return found

    def index_nbytes(self):
        return sum(one.index_nbytes for one in list(self.mappings.values()))


def mapping_of(opener):
    """The ShardDict of a set."""
    sets = [openers.shards(opener, store) for store in (1, 0)]
    keys, values = (RecordView._blank()._set(native.Selection.of_shards(one)) for one in sets)
    return ShardDict._blank()._over(keys, values, Finder(opener, sets[0]))


def attach(token, length, kind=None, described=None):
    """Unpickling calls this. A set that cannot be reached gives a detached mapping, whose first read raises."""
    try:
        whole = mapping_of(openers.opener_of(token))
    except SegmentNotFoundError as error:
        nothing = native.Selection.of_nothing(length)
        reason = error.strerror or str(error)
        sides = (RecordView._blank()._set(nothing, None, reason) for _ in range(2))
        return RecordDict._blank()._set(*sides, None, None, reason)
    if described is None:
        return whole
    values = registry.container_class(kind)._blank()
    return whole._with_values(values._set(whole._values.selection, native.projection_from(described)))
