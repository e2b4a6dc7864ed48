"""mmengine's `BaseDataset` over a store, and `SharedData`, a mixin for dataset classes of other packages such as mmdet:
one process of a machine loads and filters the annotations."""

from __future__ import annotations

import copy
import functools
import os

from mmengine.dataset import BaseDataset as _BaseDataset

from recstore.building import fingerprints
from recstore.containers import records
from recstore.integrations import parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from mmengine.dataset import BaseDataset as _Mixed

    from recstore.containers.records import RecordView
else:
    _Mixed = object  # the class beside it has the methods

__all__ = ["BaseDataset", "SharedData"]

# Attributes that neither decide which records are loaded nor are set by loading them.
_OWN = ("_recstore", "data_list", "data_bytes", "data_address", "pipeline", "serialize_data", "max_refetch")


class SharedData(_Mixed):  # type: ignore[misc]
    """A mixin for subclasses of mmengine's BaseDataset, whose `data_list` becomes a :class:`recstore.RecordView`::

        @DATASETS.register_module()
        class SharedCoco(SharedData, CocoDataset):
            pass

    The constructor takes, beside the arguments of the class, ``shared="name"`` with `keep`, `fingerprint`, `dir` and
    `timeout` as of :func:`recstore.shared`. One process of the machine then runs `full_init` of the class: it loads,
    parses, filters and takes `indices`. The others attach, load nothing, and get the attributes that loading sets, such
    as `cat2label` and the entries of `metainfo`. Without `shared`, this process has a store of its own, which its
    workers read without a copy. `serialize_data` has no effect.

    The fingerprint is derived from the class, its attributes before loading, except `pipeline`, and the size and time
    of each local file that an attribute names. `not_shared` names attributes that loading sets, that cannot be stored,
    and that the class does not need afterwards.

    `get_data_info`, `get_subset`, `get_subset_`, `lazy_init` and the wrappers of mmengine work as before. A subset is a
    view. Raises EncodeError for records or attributes that cannot be stored, and the exceptions of the class. Safe to
    read from several threads at once.
    """

    not_shared: Sequence[str] = ()
    data_list: RecordView[dict[str, Any]]
    _fully_initialized: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._recstore = {name: kwargs.pop(name) for name in parts.SHARING if name in kwargs}
        super().__init__(*args, **kwargs)

    def full_init(self) -> None:
        """Loads the annotations, or attaches to the store of the process that did."""
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
        # mmengine would make a deep copy; a record that is read is a copy already.
        own = self.data_list._unwatched() if isinstance(self.data_list, records.RecordList) else self.data_list
        info: dict[str, Any] = own[idx]
        info["sample_idx"] = idx if idx >= 0 else len(self) + idx
        return info

    def _get_unserialized_subset(self, indices: int | Sequence[int]) -> Any:
        if isinstance(self.data_list, records.RecordList) and not isinstance(indices, int):
            if not hasattr(indices, "__getitem__") or hasattr(indices, "dtype"):
                raise TypeError(f"indices should be a int or sequence of int, but got {type(indices)}")
            return self.data_list[list(indices)]
        return super()._get_unserialized_subset(indices)


class BaseDataset(SharedData, _BaseDataset):  # type: ignore[misc]
    """mmengine's BaseDataset whose annotations are loaded by one process of a machine; see :class:`SharedData`.

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
    """The annotations that `load`, a dataset's own full_init, makes."""

    loaded = False

    def __init__(self, dataset: Any, load: Callable[[], None]) -> None:
        super().__init__([])
        self.dataset, self.load = dataset, load

    def parts(self, bar: Any) -> Iterator[tuple[str, Iterable[Any]]]:
        dataset = self.dataset
        self.before = {name: _held(value) for name, value in vars(dataset).items() if name not in _OWN}
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
            if name not in (*_OWN, "_metainfo", "_fully_initialized", *self.dataset.not_shared)
            and not (name in self.before and _same(self.before[name], value))
        }
        for name, value in changed.items():
            _require_storable(self.dataset, name, value)
        known = self.before.get("_metainfo", {})
        metainfo = {name: value for name, value in self.dataset._metainfo.items() if name not in known}
        _require_storable(self.dataset, "metainfo", metainfo)
        return {"attributes": changed, "metainfo": metainfo}


def _held(value: Any) -> Any:
    """The value, or a copy of one that loading may change in place."""
    return copy.deepcopy(value) if isinstance(value, (list, dict, set)) else value


def _same(before: object, after: object) -> bool:
    if before is after:
        return True
    try:
        return type(before) is type(after) and bool(before == after)
    except (TypeError, ValueError):  # arrays have no single answer
        return False


def _require_storable(dataset: SharedData, name: str, value: object) -> None:
    instead = "delete it at the end of load_data_list, or name it in the class attribute not_shared"
    parts.require_storable(value, f"{type(dataset).__name__}.{name}, which loading sets,", instead)


def _fingerprint(dataset: SharedData) -> str:
    state = {name: value for name, value in vars(dataset).items() if name not in _OWN}
    texts = [text for value in state.values() for text in (value if isinstance(value, (list, tuple)) else [value])]
    files = [text for text in texts if isinstance(text, (str, os.PathLike)) and os.path.isfile(text)]
    stamps = fingerprints.of_files(files)
    return fingerprints.derive(functools.partial(dict, cls=type(dataset), state=state, stamps=stamps))
