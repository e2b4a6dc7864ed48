"""Walks the values that an object holds, and replaces them, without running code of the object's class.

It reads attributes from instance dictionaries, and from `__slots__` through the interpreter's own descriptors. It never
calls properties, `__getattr__`, `__getattribute__` or `__setattr__`.
"""

from __future__ import annotations

import sys
import types
from collections import deque

from recstore._core import native
from recstore._core.native import Record
from recstore.containers import dicts
from recstore.values.static_types import bases
from recstore.values.static_types import instance_dict as instance_dict
from recstore.values.static_types import is_a as is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# The walk does not enter objects of the standard library, because a logger or a queue leads to half the process. These
# modules are exceptions.
_WALKED = {"argparse", "collections", "types"}
# The walk does not enter objects of libraries that manage their own memory.
_OPAQUE = {
    "PIL",
    "av",
    "cv2",
    "datasets",
    "decord",
    "fsspec",
    "h5py",
    "jax",
    "lmdb",
    "matplotlib",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "sklearn",
    "tensorflow",
    "tokenizers",
    "transformers",
    "zarr",
}
_WALKED_TORCH = ("torch.utils.data", "torch.nn")
_WALKED_MODULES = ("multiprocessing.sharedctypes", "multiprocessing.shared_memory")
# Classes whose values are memory outside Python objects, which other objects may share.
_BUFFERS = {
    ("_ctypes", "_CData"),
    ("array", "array"),
    ("builtins", "bytearray"),
    ("mmap", "mmap"),
    ("pyarrow", "Buffer"),
}
CONTAINERS = (list, dict, tuple, set, frozenset)

_members: dict[type, list[tuple[str, types.MemberDescriptorType]]] = {}  # caches by class, cleared when they are full
_is_buffer: dict[type, bool] = {}


class Slot:
    """A reference to a value: an attribute or an entry. `path` is the code that leads to it from the root object, such
    as "train.samples"."""

    __slots__ = ("path", "holder", "key")

    def __init__(self, path: str, holder: Any, key: Any) -> None:
        self.path = path
        self.holder = holder
        self.key = key


class ItemSlot(Slot):
    """An entry of a list or dict, or an attribute, which is an entry of the instance dictionary."""

    __slots__ = ()

    def get(self) -> Any:
        if is_a(self.holder, dict):
            return dict.get(self.holder, self.key)
        return list.__getitem__(self.holder, self.key) if self.key < list.__len__(self.holder) else None

    def put(self, value: object) -> None:
        (dict if is_a(self.holder, dict) else list).__setitem__(self.holder, self.key, value)


class MemberSlot(Slot):
    """An attribute in `__slots__`; the key is its descriptor."""

    __slots__ = ()

    def get(self) -> Any:
        try:
            return self.key.__get__(self.holder)
        except AttributeError:
            return None

    def put(self, value: object) -> None:
        self.key.__set__(self.holder, value)


class ClassSlot(Slot):
    """An attribute of a class."""

    __slots__ = ()

    def get(self) -> Any:
        return self.holder.__dict__.get(self.key)

    def put(self, value: object) -> None:
        type.__setattr__(self.holder, self.key, value)


class TupleSlot(Slot):
    """An entry of a plain tuple. To change it, the whole tuple is replaced."""

    __slots__ = ()


class FixedSlot(Slot):
    """A slot that cannot be changed; the key is the reason."""

    __slots__ = ()


def base_of(value: object) -> Any:
    """The builtin container that the class of a value is or inherits from, or None."""
    kind = type(value)
    for base in CONTAINERS:
        if kind is base or issubclass(kind, base):
            return base
    return None


def length(value: object) -> int:
    """The number of entries of a builtin container. It does not call `__len__` of a subclass."""
    return base_of(value).__len__(value)  # type: ignore[no-any-return]


def entries(value: Any) -> Iterator[Any]:
    """The entries of a builtin container, of a dict as pairs. It does not call methods of a subclass."""
    return iter(dict.items(value)) if is_a(value, dict) else base_of(value).__iter__(value)


def module_of(cls: type) -> tuple[str, str]:
    """`(top-level package, module)` of a class."""
    module = cls.__dict__.get("__module__", "builtins")
    module = module if isinstance(module, str) else ""
    return module.partition(".")[0], module


def type_name(value: object) -> str:
    """The name of a value's class, for messages."""
    return type(value).__name__


def is_store(value: object) -> bool:
    """Whether a value is a container of recstore or a part of one, whose records are shared already."""
    return is_store_class(type(value))


def is_store_class(cls: type) -> bool:
    return issubclass(cls, (native.Records, native.Mapping, dicts._Positions, dicts.RecordPairs, Record))


def is_array(value: object) -> bool:
    """Whether a value is a numpy array. It does not import numpy."""
    numpy = sys.modules.get("numpy")
    return hasattr(numpy, "ndarray") and is_a(value, numpy.ndarray)  # type: ignore[union-attr]


def is_tensor(value: object) -> bool:
    """Whether a value is a torch tensor. It does not import torch."""
    torch = sys.modules.get("torch")
    return hasattr(torch, "Tensor") and is_a(value, torch.Tensor)  # type: ignore[union-attr]


def is_wrapper(tensor: Any) -> bool:
    """Whether a tensor's class wraps other tensors: its attributes hold the tensors with the memory."""
    return type(tensor).__torch_dispatch__ is not sys.modules["torch"].Tensor.__torch_dispatch__


def is_buffer(cls: type) -> bool:
    """Whether a class is one of _BUFFERS or inherits from one."""
    known = _is_buffer.get(cls)
    if known is None:
        if len(_is_buffer) > 1000:
            _is_buffer.clear()
        known = _is_buffer[cls] = any(base in _BUFFERS for base in bases(cls))
    return known


def holds_arrays(cls: type) -> bool:
    """Whether objects of this class may hold arrays that are not counted in their size. Classes of numpy and pandas are
    left out: a program has many of their scalars, and their other objects count all their memory."""
    return module_of(cls)[0] in _OPAQUE - {"numpy", "pandas"}


def is_walked(value: object) -> bool:
    """Whether the walk enters the attributes of a value."""
    return is_walked_class(type(value))


def is_walked_class(cls: type) -> bool:
    """Whether the walk enters the attributes of the objects of a class."""
    # deque is here because its module is `collections` in CPython 3.12 and later.
    if issubclass(cls, (type, types.ModuleType, deque)) or is_buffer(cls):
        return False
    top, module = module_of(cls)
    if module == "recstore.dataset.reports":
        return False
    if module in _WALKED_MODULES:
        return True
    if top == "torch":
        return module.startswith(_WALKED_TORCH)
    return top in _WALKED or not (top in _OPAQUE or top in sys.stdlib_module_names)


def _members_of(cls: type) -> list[tuple[str, types.MemberDescriptorType]]:
    members = _members.get(cls)
    if members is None:
        if len(_members) > 1000:
            _members.clear()
        members = _members[cls] = [
            (name, member)
            for base in cls.__mro__
            if "__slots__" in base.__dict__
            for name, member in base.__dict__.items()
            if type(member) is types.MemberDescriptorType
        ]
    return members


def attributes(value: object, path: str = "") -> Iterator[tuple[Slot, Any]]:
    """A Slot and a value for each attribute of an object."""
    dot = f"{path}." if path else ""
    entries = instance_dict(value)
    if entries is not None:
        for name in list(dict.keys(entries)):
            yield ItemSlot(f"{dot}{name}", entries, name), dict.get(entries, name)
    for name, member in _members_of(type(value)):
        slot = MemberSlot(f"{dot}{name}", value, member)
        child = slot.get()
        if child is not None:
            yield slot, child


def tensor_attributes(value: Any, path: str) -> Iterator[tuple[FixedSlot, Any]]:
    """A Slot and a value for each attribute of a tensor. The tensor that replaces it gets the same attributes."""
    from recstore.values import tensors

    for name, child in tensors.state_of(value).items():
        yield FixedSlot(f"{path}.{name}", value, "it is an attribute of a tensor, which keeps it"), child


def class_attributes(value: object, path: str) -> Iterator[tuple[ClassSlot, Any]]:
    """A Slot and a value for each list, dict, array and tensor among the attributes of an object's classes."""
    dot = f"{path}." if path else ""
    for cls in type(value).__mro__:
        if cls.__flags__ & 1 << 9:  # Py_TPFLAGS_HEAPTYPE, as classes of Python code have
            for name, child in list(cls.__dict__.items()):
                if not name.startswith("__") and (type(child) in (list, dict) or is_array(child) or is_tensor(child)):
                    yield ClassSlot(f"{dot}__class__.{name}", cls, name), child


def items(value: Any, path: str) -> Iterator[tuple[Slot, Any]]:
    """A Slot and a value for each entry of a builtin container, or of an instance of a subclass of one."""
    base = base_of(value)
    if base is dict:
        for key, item in list(dict.items(value)):
            yield ItemSlot(f"{path}[{shown(key)}]", value, key), item
        return
    names = getattr(type(value), "_fields", ()) if base is tuple else ()
    for i, item in enumerate(list(entries(value))):
        if base is list:
            yield ItemSlot(f"{path}[{i}]", value, i), item
        elif type(value) is tuple:
            yield TupleSlot(f"{path}[{i}]", value, i), item
        elif base is tuple:
            name = f".{names[i]}" if i < len(names) else f"[{i}]"
            reason = f"it is in a {type_name(value)}, which is a tuple and cannot be changed"
            yield FixedSlot(f"{path}{name}", value, reason), item
        else:
            reason = "it is in a set, whose entries cannot be replaced"
            yield FixedSlot(f"{path}{{{shown(item)}}}", value, reason), item


def arrays_in(value: Any) -> Iterator[Any]:
    """All distinct arrays and tensors that a value leads to."""
    todo, seen = [value], {}  # `seen` keeps the values alive, since an id may be reused
    while todo:
        item = todo.pop()
        if item is None or type(item) in (bool, int, float, str, bytes) or id(item) in seen:
            continue
        seen[id(item)] = item
        if is_array(item) or is_tensor(item):
            yield item
            continue
        base = base_of(item)
        if base is dict:
            todo.extend(dict.values(item))
        elif base is not None:
            todo.extend(base.__iter__(item))
        if not is_store(item) and is_walked(item):
            todo.extend(child for _, child in attributes(item))


def shown(key: object) -> str:
    """A dict key or set entry as text for a path: the start of its repr if it has a basic type, else its type."""
    if type(key) in (str, bytes, int, float, bool, type(None)):
        text = repr(key)
        return text if len(text) <= 40 else text[:37] + "..."
    return f"<{type(key).__name__}>"
