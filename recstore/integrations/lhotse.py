"""Manifests of lhotse over stores: `CutSet`, `RecordingSet` and `SupervisionSet`, lazy and with random access. One
process of a machine reads the JSONL file."""

from __future__ import annotations

import os
import random
from array import array
from typing import Any, overload

import lhotse
from lhotse.lazy import LazyIteratorChain
from lhotse.serialization import deserialize_item, resolve_manifest_set_class
from lhotse.utils import split_sequence

from recstore.integrations import parts
from recstore.sources import jsonl_files
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from lhotse.serialization import Serializable as _Manifest
    from typing_extensions import Self, Unpack

    from recstore._types import Files, SharedOptions
    from recstore.containers.dicts import RecordDict
    from recstore.containers.records import RecordList

    class _JsonlOptions(SharedOptions, total=False):
        errors: Literal["raise", "skip"]
        columns: Iterable[str] | None
        where: Callable[[Any], object] | None
        n_rows: int | None
else:
    _Manifest = object  # the other base class, from lhotse, has the methods

__all__ = ["CutSet", "Items", "RecordingSet", "SupervisionSet", "load_manifest"]


class Items:
    """The items of a manifest, such as cuts, over a store of their dicts. For lhotse it is a lazy manifest: each
    iteration makes new objects and keeps no list of them.

    ``items[3]`` is an item, ``items["id"]`` is the item with that id, and ``items[2:5]`` or ``items[[3, 1]]`` are Items
    over the same store. If the store has no index of ids, the first lookup of an id makes one. Thread-safe.
    """

    def __init__(self, store: RecordList[dict[str, Any]]) -> None:
        self.store = store
        self._by_id: RecordDict[str, dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.store)

    def __iter__(self) -> Iterator[Any]:
        return map(deserialize_item, self.store._unwatched())  # deserialize_item removes keys of the dicts

    @overload
    def __getitem__(self, key: int | str) -> Any: ...
    @overload
    def __getitem__(self, key: Any) -> Items: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return deserialize_item(self.by_id[key])
        selected = self.store._unwatched()[key]
        return deserialize_item(selected) if isinstance(selected, dict) else Items(selected)

    def __add__(self, other: Any) -> Any:
        return Items(self.store + other.store) if isinstance(other, Items) else LazyIteratorChain(self, other)

    def __eq__(self, other: object) -> bool:
        return self.store == other.store if isinstance(other, Items) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def by_id(self) -> RecordDict[str, dict[str, Any]]:
        """A RecordDict from ids to the dicts of the items."""
        if self._by_id is None:
            index = self.store.index_by("id")
            self._by_id = index._with_values(index._values._unwatched())
        return self._by_id

    def __repr__(self) -> str:
        return f"Items({self.store!r})"


_ARGUMENTS = ("errors", "columns", "where", "n_rows")  # the arguments of sources.jsonl


class _OverStore(_Manifest):  # type: ignore[misc]
    """The methods of manifests that use the store directly. `filter` and `map` return lhotse's own lazy manifests."""

    @classmethod
    def from_jsonl_lazy(cls, path: Files, **options: Unpack[_JsonlOptions]) -> Self:
        """The manifest of JSONL files, which may be compressed.

        Args:
            path: a path, a pattern or a list of these, as in :func:`recstore.read_jsonl`.
            options: the arguments of :func:`recstore.sources.jsonl` and the options of :class:`recstore.RecordList`;
                and ``shared="name"`` for one copy per machine, with `keep`, `fingerprint`, `dir` and `timeout`.

        Raises OSError for a file that cannot be read, and InputError for a bad line.
        """
        build: dict[str, Any] = {"index_by": "id", **options}
        arguments = {name: build.pop(name) for name in _ARGUMENTS if name in build}
        return cls(Items(parts.store("from_jsonl", jsonl_files.jsonl(path, **arguments), build)))

    @classmethod
    def from_jsonl(cls, path: Files, **options: Unpack[_JsonlOptions]) -> Self:
        """See from_jsonl_lazy."""
        return cls.from_jsonl_lazy(path, **options)

    @classmethod
    def from_file(cls, path: Files, **options: Unpack[_JsonlOptions]) -> Self:
        """See from_jsonl_lazy."""
        return cls.from_jsonl_lazy(path, **options)

    @property
    def ids(self) -> Iterable[str]:
        """The ids of the items."""
        return self.data.store.field("id") if isinstance(self.data, Items) else (item.id for item in self)

    def __contains__(self, other: Any) -> bool:
        if not isinstance(self.data, Items):
            return super().__contains__(other)  # type: ignore[no-any-return]
        return (other if isinstance(other, str) else other.id) in self.data.by_id

    def shuffle(self, rng: random.Random | None = None, buffer_size: int = 10_000) -> Self:
        """The manifest, fully shuffled without a buffer, in the order that ``rng.shuffle`` gives a list."""
        if not isinstance(self.data, Items):
            return super().shuffle(rng, buffer_size)  # type: ignore[no-any-return]
        order = array("q", range(len(self)))
        (rng or random).shuffle(order)
        return type(self)(self.data[order])

    def split(self, num_splits: int, shuffle: bool = False, drop_last: bool = False) -> list[Any]:
        """A list of `num_splits` manifests, of equal size with `drop_last`, else about equal."""
        if not isinstance(self.data, Items):
            return super().split(num_splits, shuffle=shuffle, drop_last=drop_last)  # type: ignore[no-any-return]
        selections = split_sequence(range(len(self)), num_splits=num_splits, shuffle=shuffle, drop_last=drop_last)
        return [type(self)(self.data[selection]) for selection in selections]

    def subset(self, first: int | None = None, last: int | None = None, **options: Any) -> Any:
        """The first or last items. lhotse handles all other arguments."""
        count = first if last is None else last
        others = [value for value in (first if last is not None else None, *options.values()) if value is not None]
        if not isinstance(self.data, Items) or others or count is None or count <= 0:
            return super().subset(first=first, last=last, **options)
        return type(self)(self.data[:count] if last is None else self.data[-count:])


class CutSet(_OverStore, lhotse.CutSet):  # type: ignore[misc]
    """lhotse's CutSet over a store; `from_file`, `from_jsonl` and `from_jsonl_lazy` take ``shared="name"``.

    All samplers for lazy manifests work; `SimpleCutSampler` shuffles fully.

    >>> import json, os, tempfile
    >>> cut = {"id": "a", "start": 0, "duration": 2.5, "channel": 0, "supervisions": [], "type": "MonoCut"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cuts.jsonl")
    ...     with open(path, "w") as file: file.writelines(json.dumps({**cut, "id": name}) + chr(10) for name in "abc")
    ...     cuts = CutSet.from_file(path)
    >>> cuts["b"].duration, cuts[-1].id, "x" in cuts, cuts.is_lazy
    (2.5, 'c', False, True)
    """


class RecordingSet(_OverStore, lhotse.RecordingSet):  # type: ignore[misc]
    """lhotse's RecordingSet over a store; see :class:`CutSet`."""


class SupervisionSet(_OverStore, lhotse.SupervisionSet):  # type: ignore[misc]
    """lhotse's SupervisionSet over a store; see :class:`CutSet`."""


def load_manifest(path: Files, **options: Unpack[_JsonlOptions]) -> CutSet | RecordingSet | SupervisionSet:
    """The CutSet, RecordingSet or SupervisionSet over a store of JSONL files, depending on the first item. `path` and
    `options` are as in ``CutSet.from_file``, except that `path` cannot be a file object, which is readable only once.

    Raises OSError, InputError, TypeError for a file object, and ValueError for files without items or with items of
    another kind.
    """
    if hasattr(path, "read") and not isinstance(path, os.PathLike):
        raise TypeError(
            "load_manifest reads the first item separately: give a path, or call CutSet.from_file or the like"
        )
    with jsonl_files.read_jsonl(path, errors=options.get("errors", "raise"), n_rows=1) as first:
        if not len(first):
            raise ValueError(f"{path}: a manifest without items has no kind: use CutSet.from_file or the like")
        kind = resolve_manifest_set_class(deserialize_item(first._unwatched()[0]))
    classes: tuple[type[CutSet | RecordingSet | SupervisionSet], ...] = (CutSet, RecordingSet, SupervisionSet)
    for cls in classes:
        if issubclass(cls, kind):
            return cls.from_file(path, **options)
    raise ValueError(f"{path}: {an(kind.__name__)} cannot use a store; load it with lhotse.load_manifest")
