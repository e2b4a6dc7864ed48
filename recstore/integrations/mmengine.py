"""mmengine's `BaseDataset` over a store, and `SharedData`, a mixin for dataset classes of packages such as mmdet. One
process of a machine loads and filters the annotations. `Cached` is a step of a pipeline over a cache."""

from __future__ import annotations

import copy
import functools
import os
import pickle
from _blake2 import blake2b

from mmengine.dataset import BaseDataset as _BaseDataset
from mmengine.dataset import Compose

from recstore.building import fingerprints
from recstore.caching.cache import cache
from recstore.containers import records
from recstore.integrations import parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from mmengine.dataset import BaseDataset as _Mixed
    from typing_extensions import Unpack

    from recstore._types import CacheOptions
    from recstore.containers.records import RecordView
else:
    _Mixed = object  # the other base class has the methods

__all__ = ["BaseDataset", "Cached", "SharedData"]

# Attributes that are neither in the fingerprint nor stored for other processes as results of loading.
_IGNORED = ("_recstore", "data_list", "data_bytes", "data_address", "pipeline", "serialize_data", "max_refetch")


class SharedData(_Mixed):  # type: ignore[misc]
    """A mixin for subclasses of mmengine's BaseDataset, whose `data_list` becomes a :class:`recstore.RecordView`::

        @DATASETS.register_module()
        class SharedCoco(SharedData, CocoDataset):
            pass

    The constructor takes the arguments of the class, and ``shared="name"`` with `keep`, `fingerprint`, `dir` and
    `timeout` as in :func:`recstore.shared`. One process on the machine then runs `full_init` of the class, which loads,
    parses, filters and applies `indices`. The others attach without loading, and get the attributes that loading sets,
    such as `cat2label` and the entries of `metainfo`. Without `shared`, this process makes its own store, which its
    workers read without a copy. `serialize_data` has no effect.

    The default fingerprint is derived from the class, the attributes of the object before loading, except `pipeline`,
    `serialize_data` and `max_refetch`, and the size and time of each local file that an attribute names. If loading
    sets attributes that cannot be stored and are not needed afterwards, list them in `not_shared`.

    `get_data_info`, `get_subset`, `get_subset_`, `lazy_init` and the wrappers of mmengine work as before. A subset is a
    view. Raises EncodeError for records or attributes that cannot be stored, and the exceptions of the class. Reading
    is thread-safe.
    """

    not_shared: Sequence[str] = ()
    data_list: RecordView[dict[str, Any]]
    _fully_initialized: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._recstore = {name: kwargs.pop(name) for name in parts.SHARING if name in kwargs}
        super().__init__(*args, **kwargs)

    def full_init(self) -> None:
        """Loads the annotations, or attaches to the store of the process that loaded them."""
        if self._fully_initialized:
            return
        source, options = _DataList(self, super().full_init), dict(self._recstore)
        if options.get("shared") is not None and options.get("fingerprint") is None:
            options["fingerprint"] = _fingerprint(self)
        lists, rest = parts.of(parts.store(type(self).__name__, source, options))
        if not source.loaded:
            self.__dict__.update(rest["attributes"])
            for name, value in rest["metainfo"].items():
                self._metainfo.setdefault(name, value)
        self.data_list = lists["data_list"]
        self.serialize_data = False
        self._fully_initialized = True

    def get_data_info(self, idx: int) -> dict[str, Any]:
        """The annotation of one sample, with its `sample_idx`."""
        inherited: Any = super().get_data_info
        if inherited.__func__ is not _BaseDataset.get_data_info:
            return inherited(idx)  # type: ignore[no-any-return]
        if not self._fully_initialized:
            self.full_init()
        # mmengine makes a deep copy here, but a read from a store is a copy already.
        data_list = self.data_list._unwatched() if isinstance(self.data_list, records.RecordList) else self.data_list
        info: dict[str, Any] = data_list[idx]
        info["sample_idx"] = idx if idx >= 0 else len(self) + idx
        return info

    def _get_unserialized_subset(self, indices: int | Sequence[int]) -> Any:
        if isinstance(self.data_list, records.RecordList) and not isinstance(indices, int):
            if not hasattr(indices, "__getitem__") or hasattr(indices, "dtype"):
                raise TypeError(f"indices should be a int or sequence of int, but got {type(indices)}")
            return self.data_list[list(indices)]
        return super()._get_unserialized_subset(indices)


class BaseDataset(SharedData, _BaseDataset):  # type: ignore[misc]
    """mmengine's BaseDataset. One process of a machine loads the annotations; see :class:`SharedData`.

    >>> import json, os, tempfile
    >>> document = {"metainfo": {"classes": ["cat"]}, "data_list": [{"img_path": "1.jpg"}, {"img_path": "2.jpg"}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "train.json")
    ...     with open(path, "w") as file: json.dump(document, file)
    ...     dataset = BaseDataset(path, data_prefix={"img_path": "images"})
    >>> dataset[1], dataset.metainfo
    ({'img_path': 'images/2.jpg', 'sample_idx': 1}, {'classes': ['cat']})
    """


class _DataList(parts.PartsSource):
    """The annotations that `load`, the dataset's original full_init, makes."""

    loaded = False

    def __init__(self, dataset: Any, load: Callable[[], None]) -> None:
        super().__init__([])
        self.dataset, self.load = dataset, load

    def parts(self, bar: Any) -> Iterator[tuple[str, Iterable[Any]]]:
        dataset = self.dataset
        self.before = {name: _snapshot(value) for name, value in vars(dataset).items() if name not in _IGNORED}
        serialize, dataset.serialize_data = dataset.serialize_data, False
        try:
            self.load()
            data_list, dataset.data_list = dataset.data_list, []
        finally:
            dataset.serialize_data, dataset._fully_initialized = serialize, False
        yield "data_list", data_list
        self.loaded = True

    def rest(self) -> dict[str, Any]:
        changed = {
            name: value
            for name, value in vars(self.dataset).items()
            if name not in (*_IGNORED, "_metainfo", "_fully_initialized", *self.dataset.not_shared)
            and not (name in self.before and _same(self.before[name], value))
        }
        for name, value in changed.items():
            _require_storable(self.dataset, name, value)
        before = self.before.get("_metainfo", {})
        metainfo = {name: value for name, value in self.dataset._metainfo.items() if name not in before}
        _require_storable(self.dataset, "metainfo", metainfo)
        return {"attributes": changed, "metainfo": metainfo}


def _snapshot(value: Any) -> Any:
    """The value, or a copy if loading may change it in place."""
    return copy.deepcopy(value) if isinstance(value, (list, dict, set)) else value


def _same(before: object, after: object) -> bool:
    if before is after:
        return True
    try:
        return type(before) is type(after) and bool(before == after)
    except (TypeError, ValueError):  # arrays, for example
        return False


def _require_storable(dataset: SharedData, name: str, value: object) -> None:
    remedy = "delete it at the end of load_data_list, or name it in the class attribute not_shared"
    parts.require_storable(value, f"{type(dataset).__name__}.{name}, which loading sets,", remedy)


def _fingerprint(dataset: SharedData) -> str:
    state = {name: value for name, value in vars(dataset).items() if name not in _IGNORED}
    texts = [text for value in state.values() for text in (value if isinstance(value, (list, tuple)) else [value])]
    files = [text for text in texts if isinstance(text, (str, os.PathLike)) and os.path.isfile(text)]
    stamps = fingerprints.of_files(files)
    return fingerprints.derive(functools.partial(dict, cls=type(dataset), state=state, stamps=stamps))


class Cached:
    """The first steps of a pipeline, whose results are made once for all ranks and workers of a machine::

        pipeline = [dict(type=Cached, steps=[dict(type="LoadImageFromFile")], name="coco"), dict(type="RandomFlip")]

    Args:
        steps: transforms or their configs, without random ones.
        name: the name of the cache.
        options: `limit`, `dir`, `files`, `fingerprint`, `keep` and `arrays` of :func:`recstore.cache`. The default
            fingerprint covers the steps. It does not cover the content of files; if they change, give `files` or
            `fingerprint` too.

    The key of a sample is its whole annotation without `sample_idx`, so subsets and several datasets may use one cache.

    >>> count = Cached([lambda results: {**results, "n": len(results["text"])}], "doctest", limit="1MB")
    >>> count({"text": "four", "sample_idx": 7}), len(count.cache)
    ({'text': 'four', 'n': 4, 'sample_idx': 7}, 1)
    """

    def __init__(self, steps: Sequence[Any], name: str, **options: Unpack[CacheOptions]) -> None:
        self.steps = Compose(steps)
        if options.get("fingerprint") is None:
            options["fingerprint"] = fingerprints.derive(functools.partial(tuple, self.steps.transforms))
        self.cache = cache(name, **options)

    def __call__(self, results: dict[str, Any]) -> dict[str, Any] | None:
        rest = {name: value for name, value in results.items() if name != "sample_idx"}
        key = blake2b(pickle.dumps(rest, 4), digest_size=16).digest()
        made: dict[str, Any] | None = self.cache.get_or_make(key, self.steps, rest)
        if made is not None and "sample_idx" in results:
            made["sample_idx"] = results["sample_idx"]
        return made

    def __repr__(self) -> str:
        return f"Cached({self.steps!r}, {self.cache.name!r})"
