"""RecordDict, a read-only mapping in shared memory, and its views of keys, values and items. The compiled base class
`native.Mapping` finds keys and decodes values."""

# For pyright, `self` is not the class of the stub beside this file, which other modules import.
# pyright: reportArgumentType=false

from __future__ import annotations

import errno
import sys
from _collections_abc import ItemsView as _SetOfPairs
from _collections_abc import KeysView as _SetOfKeys
from _collections_abc import Mapping, Sequence, ValuesView

from recstore._core import native
from recstore._core.native import new_blob
from recstore.building import build_options, saving, streaming
from recstore.building.pairs import selections
from recstore.building.source import check_pairs
from recstore.containers import base
from recstore.containers.records import RecordView
from recstore.errors import CorruptError, SegmentNotFoundError
from recstore.shm import registry
from recstore.text import an, counted
from recstore.values.factories import FACTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from typing import Any, SupportsIndex

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from recstore._types import FieldName
    from recstore.containers.info import MappingInfo

__all__ = ["RecordDict", "RecordItems", "RecordKeys", "RecordValues"]

_MISSING = object()
_INSTEAD = {
    "update": "make another one: d = d | more",
    "setdefault": "read with d.get(key, default)",
    "pop": "select the others: d = d.select(k for k in d if k != key)",
    "popitem": "select the others: d = d.select(d.keys()[:-1])",
    "clear": "close it: d.close()",
    "fromkeys": "build one: RecordDict((key, value) for key in keys)",
    "__setitem__": "make another one: d = d | {key: value}",
    "__delitem__": "select the others: d = d.select(k for k in d if k != key)",
}


class RecordDict(base.Container, native.Mapping):  # type: ignore[type-arg]  # see the stub
    """A read-only mapping in shared memory, in insertion order, built once from a mapping or from pairs.

    Args:
        mapping_or_pairs: a mapping; an iterable of (key, value) pairs; or a :class:`recstore.sources.Source` of pairs,
            such as ``recstore.sources.json(path, entries=True)``. The constructor reads a generator item by
            item and never holds all of it. A repeated key keeps its first position and takes its last value. The store
            of a defaultdict with a builtin factory keeps the factory: ``d[missing]`` is ``factory()``, which is not
            stored. If the argument is a RecordDict and there are no options, the result is a second object over the
            same store: closing one closes both.
        options: the options of :class:`RecordList`, without `index_by` and `group_by`.
        workers: with N, N processes read and encode, as for RecordList. The argument is then an iterable of shards,
            each a mapping or an iterable of pairs. A key may be repeated in another shard.

    Raises:
        EncodeError: a key or value cannot be stored.
        TypeError: a key cannot be hashed, an item is not a pair, or the argument is a table or a function.
        OutOfSpaceError: the store would pass a memory limit or fill the disk.
        Exception: any that the iterable raises. After an error no part of the store remains.

    Keys compare as in a dict: 1, 1.0 and True are one key. Every read makes new objects, so a caller may change them
    without changing the store. A lookup never finds a NaN key, because a dict finds NaN only as the same object;
    ``d.to_dict()`` and ``d.items()`` include it.
    A key of a class with its own ``__eq__``, such as a dataclass, is found by comparison: the first such lookup in a
    process decodes all keys of such classes.

    Every method is safe from several threads at once; ``close`` waits for the calls of other threads. The calling
    thread iterates over the argument. An iterator over the mapping belongs to one thread.

    >>> d = RecordDict({"utt1": "./t1.wav", "utt2": "./t2.wav"})
    >>> d["utt2"], len(d), "utt3" in d, d.get("utt3")
    ('./t2.wav', 2, False, None)
    >>> d.keys()[1], list(d.items()[:1])
    ('utt2', [('utt1', './t1.wav')])
    >>> d.close()
    """

    __slots__ = ("__weakref__", "_shared_as")  # _shared_as: see RecordView
    _kind = registry.MAPPING
    _instead = _INSTEAD
    _plain = "dict"

    def __init__(self, mapping_or_pairs: Any = (), /, **arguments: Any) -> None:
        options = build_options.of("RecordDict", arguments)
        if type(mapping_or_pairs) is RecordDict and options == build_options.Options():
            source = mapping_or_pairs
            source._require()
            self._set(source._keys, source._values, source.key_index, source.factory, source.detached)
            return
        check_pairs(mapping_or_pairs)
        segment = streaming.build_mapping(mapping_or_pairs, options)
        self._set(*_whole(segment))

    @staticmethod
    def _blank() -> RecordDict:
        return native.Mapping.__new__(RecordDict)

    @staticmethod
    def _of_sides(keys: RecordView, values: RecordView, factory: type | None = None) -> RecordDict:
        """A mapping whose entry i has the i-th key and the i-th value. Copies no records, but makes a new key index. A
        repeated key keeps its first position and takes its last value."""
        index, order = native.hash_keys(keys)
        if order is not None:
            keys = keys._derive(keys.selection.taken(order[0]))
            values = values._derive(values.selection.taken(order[1]))
        return RecordDict._blank()._set(keys, values, native.KeyIndex.of_blob(new_blob(index)), factory)

    @classmethod
    def _of_segment(cls, segment: native.Segment) -> RecordDict:
        """The mapping of all entries of a mapping segment."""
        return cls._blank()._set(*_whole(segment))

    # ---- Reading ----

    def keys(self) -> RecordKeys:
        """A live, set-like view of the keys, which can also be indexed and sliced by position."""
        return RecordKeys(self)

    def values(self) -> RecordValues:
        """A view of the values, which can also be indexed and sliced by position."""
        return RecordValues(self)

    def items(self) -> RecordItems:
        """A live, set-like view of the (key, value) pairs, which can also be indexed and sliced by position."""
        return RecordItems(self)

    def get_many(self, keys: Iterable[Any], default: object = _MISSING) -> list[Any]:
        """A list of the values of `keys`, in the order of `keys`; `default` is the value for a missing key.

        Raises KeyError for a missing key without a default.

        >>> with RecordDict({"a": 1, "b": 2}) as d: d.get_many(["b", "x"], default=0)
        [2, 0]
        """
        return self._many(keys, None if default is _MISSING else default, default is not _MISSING)

    def select(self, keys: Iterable[Any]) -> RecordDict:
        """A RecordDict of only these keys, in the given order, over the same bytes. Raises KeyError for a missing key.

        >>> with RecordDict({"a": 1, "b": 2, "c": 3}) as d: d.select(["c", "a"])
        RecordDict({'c': 3, 'a': 1})
        """
        entries: dict[int, None] = {}
        for key in keys:
            entry = self._entry(key)
            if entry is None:
                raise KeyError(key)
            entries[entry] = None
        return self._of_sides(
            self._keys._derive(self._keys.selection.taken(entries)),
            self._values._derive(self._values.selection.taken(entries)),
            self.factory,
        )

    def lazy(self) -> RecordDict:
        """The same mapping with values that decode each field on access; see :meth:`RecordList.lazy`."""
        return self._with_values(self._values.lazy())

    def field(self, name: FieldName, default: object = _MISSING) -> RecordDict:
        """The same mapping with one field of each value; see :meth:`RecordList.field`.

        If the values are groups of records, a value of the result holds the field of each record of its group.

        >>> from recstore import RecordList
        >>> x = RecordList([{"id": 1, "image": 5}, {"id": 2, "image": 5}])
        >>> x.group_by("image").field("id")[5].to_list()
        [1, 2]
        >>> x.close()
        """
        return self._with_values(self._values.field(name, *(() if default is _MISSING else (default,))))

    def fields(self, *names: FieldName) -> RecordDict:
        """The same mapping with values that hold only these fields; see :meth:`RecordList.fields`."""
        return self._with_values(self._values.fields(*names))

    def _with_values(self, values: RecordView) -> RecordDict:
        return RecordDict._blank()._set(self._keys, values, self.key_index, self.factory, self.detached)

    def to_dict(self) -> dict[Any, Any]:
        """All entries as a plain dict."""
        self._require()
        try:
            return dict(zip(self._keys, base.owned(self._values, "to_dict()")))
        except TypeError:
            for entry, key in enumerate(self._keys):
                if type(key) in (list, dict, set, bytearray):
                    raise CorruptError(f"entry {entry} has {an(type(key).__name__)} as its key") from None
            raise  # the __hash__ of a key of a user's class raised it

    def copy(self) -> Self:
        """The mapping itself, which is immutable."""
        return self

    def __reversed__(self) -> Iterator[Any]:
        self._require()
        return reversed(self._keys)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (RecordDict, dict)):
            return NotImplemented
        self._require()
        if self is other or len(self) != len(other):
            return self is other
        for key, value in self.items():
            other_value = other.get(key, _MISSING)
            if other_value is _MISSING or not (other_value is value or other_value == value):
                return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: RecordDict | dict[Any, Any]) -> RecordDict:
        """A new store of the entries of both, where `other` has precedence. It has the options `arrays` and
        `on_unsupported` of this mapping."""
        if not isinstance(other, (RecordDict, dict)):
            return NotImplemented
        pairs = (pair for side in (self, other) for pair in side.items())
        return RecordDict._of_segment(
            streaming.build_mapping(pairs, build_options.Options.beside(self.segments), self.factory)
        )

    def __ror__(self, other: object) -> dict[Any, Any]:
        """A plain dict of the entries of both, where this mapping has precedence."""
        if not isinstance(other, dict):
            return NotImplemented
        return other | dict(self.items())

    # ---- Information ----

    def _require(self) -> None:
        if self.detached is not None:
            raise SegmentNotFoundError(errno.ENOENT, self.detached)
        stores: list[native.Segment | native.Shards] = [*self.segments, *self.sets]
        for store in stores:
            store.require_open()

    @property
    def segments(self) -> list[native.Segment]:  # type: ignore[override]
        """The distinct segments of the mapping; none for a detached mapping."""
        if self.detached is not None or self.key_index is None:
            return []
        owners = (*self._keys.segments, *self._values.segments, self.key_index.segment)
        return list({id(segment): segment for segment in owners if segment is not None}.values())

    @property
    def sets(self) -> list[native.Shards]:  # type: ignore[override]
        """The distinct sets of shards of the mapping."""
        if self.detached is not None or self.key_index is None:
            return []
        return list({id(shards): shards for shards in (*self._keys.sets, *self._values.sets)}.values())

    @property
    def blobs(self) -> list[native.Blob]:  # type: ignore[override]
        """The distinct blobs of the mapping: index arrays, and a key index outside the segments."""
        if self.detached is not None or self.key_index is None:
            return []
        owners = (*self._keys.blobs, *self._values.blobs, self.key_index.blob)
        return list({id(blob): blob for blob in owners if blob is not None}.values())

    @property
    def _is_whole(self) -> bool:
        """Whether the mapping consists of all entries of one mapping segment, read as whole values."""
        index, values = self.key_index, self._values
        return index.saved is None and values.projection is None and values.segments == [index.segment]

    @property
    def nbytes(self) -> int:
        """The bytes of all sections of the segments, of all files of a set of shards, and of a key index outside
        them. A part of a mapping counts the bytes of the whole mapping."""
        self._require()
        return base.stored_bytes(self) + self.index_nbytes * (self.key_index.segment is None)

    @property
    def index_nbytes(self) -> int:
        """The bytes of the key index."""
        self._require()
        return self.key_index.nbytes

    def info(self, *, fields: bool = False) -> MappingInfo:
        """Figures of the store: a :class:`recstore.containers.info.MappingInfo`, which prints as readable text. With
        ``fields=True`` it has the bytes of each field; see :meth:`RecordList.info`."""
        from recstore.containers import info

        self._require()
        return info.describe_mapping(self, fields)

    def __repr__(self) -> str:
        more = f", detached: {self.detached}" if self.detached is not None else ", closed" if self.closed else ""
        if more or len(self) > 8:
            return f"<{type(self).__name__}: {counted(len(self), 'entry', 'entries')}{more}>"
        return f"{type(self).__name__}({self.to_dict()!r})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the mapping to a new file in the folder of `path` and renames it to `path`. The file of a part of a
        mapping holds only that part; groups are saved as lists.

        Raises OSError: FileNotFoundError for a missing folder, OutOfSpaceError for a full disk. After an error an older
        file at `path` is unchanged. Safe from several threads at once; the last of several saves to one path stays.
        """
        self._require()
        saving.save_mapping(self, path)


Mapping.register(RecordDict)
registry.register_container(registry.MAPPING, lambda: RecordDict)


def _whole(segment: native.Segment) -> tuple[RecordView, RecordView, native.KeyIndex, type | None]:
    """The arguments of `Mapping._set` for the RecordDict of a mapping segment."""
    keys, values = (RecordView._blank()._set(selection) for selection in selections(segment))
    index = native.KeyIndex.of_segment(segment)
    return keys, values, index, FACTORIES[index.factory]


class _Positions(base.InNotebooks, Sequence):  # type: ignore[type-arg]
    """Access by position for RecordKeys, RecordValues and RecordItems.

    A collate function may call the class with a plain iterable (``type(x)([...])``). The call returns a plain
    list, as it does for RecordView.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        _mapping: RecordDict

        @property
        def _records(self) -> RecordView | RecordPairs: ...

    def __new__(cls, mapping: Any = ()) -> Self:
        return object.__new__(cls) if isinstance(mapping, RecordDict) else list(mapping)  # type: ignore[return-value]

    @property
    def mapping(self) -> RecordDict:
        """The mapping under this view."""
        return self._mapping

    def __len__(self) -> int:
        return len(self._mapping)

    def __getitem__(self, key: Any) -> Any:
        return self._records[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._records)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._records)

    def index(self, value: object, start: SupportsIndex = 0, stop: SupportsIndex = sys.maxsize, /) -> int:
        """The position of the first item equal to `value` within [start, stop); ValueError if there is none."""
        return base.index_in(self, value, start, stop)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._mapping,)

    def __repr__(self) -> str:
        name, n = type(self).__name__, len(self)
        return f"{name}({list(self)!r})" if n <= 8 else f"<{name}: {n:,} of {self._mapping!r}>"


class RecordKeys(_Positions, base.RecordsOf, _SetOfKeys):  # type: ignore[type-arg]
    """The keys of a RecordDict: set-like, as in a dict, and a sequence. ``RecordList(d.keys())`` copies
    nothing. Safe from several threads at once."""

    __slots__ = ()

    @property
    def _records(self) -> RecordView:
        self._mapping._require()
        return self._mapping._keys

    def __contains__(self, key: object) -> bool:
        return key in self._mapping

    def index(self, key: object, start: SupportsIndex = 0, stop: SupportsIndex = sys.maxsize) -> int:
        """The position of a key within [start, stop); ValueError if the key is not in that range."""
        entry = self._mapping._entry(key)
        if entry is None or entry not in range(*base.bounds(start, stop, len(self))):
            raise ValueError(f"{key!r:.80} is not in the {type(self).__name__}")
        return entry

    def count(self, key: object) -> int:
        """1 if the mapping has the key, else 0."""
        return int(key in self)


class RecordValues(_Positions, base.RecordsOf, ValuesView):  # type: ignore[type-arg]
    """The values of a RecordDict, which are also a sequence. Safe from several threads at once."""

    __slots__ = ()

    @property
    def _records(self) -> RecordView:
        self._mapping._require()
        return self._mapping._values

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self._records.__array__(dtype, copy)

    def __contains__(self, value: object) -> bool:
        return any(v is value or v == value for v in self._records)


class RecordItems(_Positions, _SetOfPairs):  # type: ignore[type-arg]
    """The (key, value) pairs of a RecordDict: set-like, as in a dict, and a sequence. A slice is a
    :class:`RecordPairs`. Safe from several threads at once."""

    __slots__ = ()

    @property
    def _records(self) -> RecordPairs:
        self._mapping._require()
        return RecordPairs(self._mapping._keys, self._mapping._values)

    def __contains__(self, item: Any) -> bool:
        entry = self._mapping._entry(item[0]) if isinstance(item, tuple) and len(item) == 2 else None
        if entry is None:
            return False
        value = self._mapping._values[entry]
        return value is item[1] or value == item[1]


class RecordPairs(base.InNotebooks, Sequence):  # type: ignore[type-arg]
    """Pairs the items of two containers by position, without copying them. A call with only an iterable returns a plain
    list. Safe from several threads at once.

    >>> with RecordDict({"a": 1, "b": 2, "c": 3}) as d: d.items()[::-1][0]
    ('c', 3)
    """

    __slots__ = ("_keys", "_values")
    index = _Positions.index

    def __new__(cls, keys: Iterable[Any] = (), values: Any = None) -> Self:
        return list(keys) if values is None else object.__new__(cls)  # type: ignore[return-value]

    def __init__(self, keys: RecordView, values: RecordView) -> None:
        self._keys, self._values = keys, values

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, key: Any) -> Any:
        # Every array of numpy or torch has __index__, whatever its shape.
        if hasattr(type(key), "__index__") and not getattr(key, "ndim", 0):
            return self._keys[key], self._values[key]
        if not isinstance(key, slice):
            # Read the indices once: another thread may write to the array, and keys and values must match.
            key = native.positions(key, len(self), name=type(self).__name__)
        return RecordPairs(self._keys[key], self._values[key])

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return zip(self._keys, self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (RecordPairs, list)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordPairs, (self._keys, self._values)

    def __repr__(self) -> str:
        return f"RecordPairs({list(self)!r})" if len(self) <= 8 else f"<RecordPairs: {len(self):,}>"
