"""detectron2's dataset dicts over a store: one process of a machine parses, filters and completes them."""

from __future__ import annotations

import functools
import os
import types

from detectron2 import data
from detectron2.structures import BoxMode

from recstore import sharing
from recstore.building import fingerprints
from recstore.containers import records
from recstore.integrations import parts
from recstore.values.classes import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from typing_extensions import Unpack

    from recstore._types import Sharing
    from recstore.containers.records import RecordView

__all__ = ["get", "get_detection_dataset_dicts", "serializer"]

register(BoxMode)  # each annotation has one; attached processes would read a Record instead

_LIST = "dataset_dicts"
_PLAIN = (type(None), bool, int, float, str, bytes, os.PathLike)


def get_detection_dataset_dicts(names: str | Iterable[str], *args: Any, **options: Any) -> RecordView[dict[str, Any]]:
    """The dataset dicts of registered datasets as a :class:`recstore.RecordView`. Call it in place of the function of
    this name in ``detectron2.data``.

    Args:
        names: a name in ``DatasetCatalog``, or a list of them.
        args, options: the arguments of detectron2's function, such as `filter_empty` and `proposal_files`; and
            ``shared="name"`` with `keep`, `fingerprint`, `dir` and `timeout` as in :func:`recstore.shared`. One process
            on the machine then calls detectron2's function. The others attach without parsing, and get its
            ``MetadataCatalog`` entries for these names. Without `shared` this process makes its own store, which its
            workers read without a copy.

    Pass the result to ``build_detection_train_loader(cfg, dataset=dicts)``. detectron2 then neither copies nor
    serializes it.

    The default fingerprint is derived from the code of the registered functions (not of functions that they call), from
    all arguments, and from the size and time of local files that these or ``json_file`` in the metadata name. Raises
    the exceptions of detectron2, and EncodeError for dicts or metadata that cannot be stored. Reading is thread-safe.
    """
    names = [names] if isinstance(names, str) else list(names)
    sharing_options = {name: options.pop(name) for name in parts.SHARING if name in options}
    load = functools.partial(data.get_detection_dataset_dicts, names, *args, **options)
    return _loaded("get_detection_dataset_dicts", names, load, sharing_options)


def get(name: str, **options: Unpack[Sharing]) -> RecordView[dict[str, Any]]:
    """The dicts of one registered dataset, unfiltered. Call it in place of ``DatasetCatalog.get``. `options` and the
    result are as in :func:`get_detection_dataset_dicts`."""
    for option in options:
        if option not in parts.SHARING:
            raise TypeError(f"get() got an unexpected keyword argument {option!r}")
    return _loaded("get", [name], functools.partial(data.DatasetCatalog.get, name), options)


def serializer(
    shared: str | None = None, **options: Any
) -> Callable[[Iterable[dict[str, Any]]], records.RecordList[dict[str, Any]]]:
    """A function that turns a list of dicts into a store, for the argument `serialize` of
    ``detectron2.data.DatasetFromList`` and for ``set_default_dataset_from_list_serialize_method``::

        with set_default_dataset_from_list_serialize_method(serializer(shared="coco-train")):
            loader = build_detection_train_loader(cfg)

    With ``shared="name"`` all processes on the machine with equal lists share one store; `options` are then `keep`,
    `dir` and `timeout` as in :func:`recstore.shared`. Each process still makes its list first. To avoid that, use
    :func:`get_detection_dataset_dicts`.
    """
    for option in options:
        if option not in parts.SHARING or shared is None or option == "fingerprint":
            raise TypeError(f"serializer() got an unexpected keyword argument {option!r}")

    def serialize(dicts: Iterable[dict[str, Any]]) -> records.RecordList[dict[str, Any]]:
        own = records.RecordList(dicts)
        if shared is None:
            return own
        store = sharing.shared(shared, lambda: own, fingerprint=own.fingerprint, **options)
        own.close()
        return store

    return serialize


def _loaded(
    caller: str, names: Sequence[str], load: functools.partial[Any], options: Any
) -> RecordView[dict[str, Any]]:
    if options.get("shared") is not None and options.get("fingerprint") is None:
        options["fingerprint"] = _fingerprint(caller, names, load)
    lists, rest = parts.of(parts.store(caller, _Dicts(names, load), options))
    for name, stored in rest["metadata"].items():
        metadata = data.MetadataCatalog.get(name)
        for key, value in stored.items():
            if key not in vars(metadata):
                setattr(metadata, key, value)
    return lists[_LIST]


class _Dicts(parts.PartsSource):
    """The dicts that `load` returns, and the metadata of their datasets."""

    def __init__(self, names: Sequence[str], load: functools.partial[Any]) -> None:
        super().__init__([])
        self.names, self.load = names, load

    def parts(self, bar: Any) -> Iterator[tuple[str, Iterable[Any]]]:
        dicts = self.load()
        yield _LIST, dicts if hasattr(dicts, "__iter__") else map(dicts.__getitem__, range(len(dicts)))

    def rest(self) -> dict[str, Any]:
        metadata = {name: dict(data.MetadataCatalog.get(name).as_dict()) for name in self.names}
        for name, entries in metadata.items():
            for key, value in entries.items():
                description = f"{key} in the metadata of the dataset {name!r}"
                parts.require_storable(value, description, "set it in every process, after the dataset was loaded")
        return {"metadata": metadata}


# ---- The fingerprint ----


def _fingerprint(caller: str, names: Sequence[str], load: functools.partial[Any]) -> str:
    """The default fingerprint. It leaves out globals of the registered functions, because they include the catalogs of
    detectron2, which loading changes."""
    functions = [_parts(data.DatasetCatalog[name]) for name in names if name in data.DatasetCatalog]
    json_files = [data.MetadataCatalog.get(name).as_dict().get("json_file") for name in names]
    values = list(_flat([caller, *functions, *json_files, *load.args, *load.keywords.items()]))
    plain = [value for value in values if isinstance(value, (*_PLAIN, types.CodeType))]
    files = sorted({os.fspath(text) for text in plain if isinstance(text, (str, os.PathLike)) and os.path.isfile(text)})
    return fingerprints.derive(functools.partial(dict, plain=plain, stamps=fingerprints.of_files(files)))


def _parts(function: Any) -> list[Any]:
    """The code of a function and its values: arguments of functools.partial, closure, defaults, object of a method."""
    out = []
    while isinstance(function, functools.partial):
        out += [*function.args, *function.keywords.items()]
        function = function.func
    if isinstance(function, types.MethodType):
        out += vars(function.__self__).items() if hasattr(function.__self__, "__dict__") else ()
        function = function.__func__
    if not isinstance(function, types.FunctionType):  # an object with __call__, or a builtin function
        out += getattr(function, "__dict__", {}).items()
        return [*out, type(function).__module__, type(function).__qualname__, getattr(function, "__qualname__", "")]
    for cell in function.__closure__ or ():
        try:
            out.append(cell.cell_contents)
        except ValueError:
            continue  # the cell is empty
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    return [*out, *defaults, function.__module__, function.__qualname__, function.__code__]


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        elif isinstance(value, dict):
            yield from _flat([*value.keys(), *value.values()])
        else:
            yield value
