"""Registers classes, so that their objects can be stored and read from files. recstore._core.trust decides which
classes a reader may load."""

from __future__ import annotations

import sys
from types import MemberDescriptorType

from recstore._core import hooks, trust
from recstore._core.native import Record
from recstore.values import static_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    _C = TypeVar("_C")

__all__ = ["register"]

_BASICSIZE = object.__basicsize__
_POINTER = tuple.__itemsize__
_HEAP_TYPE = 1 << 9
_BASIC = {bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice, Record}
_BASIC |= {type(None), type(...)}


if TYPE_CHECKING:

    @overload
    def register(cls: type[_C], *, encode: None = None, decode: None = None) -> type[_C]: ...
    @overload
    def register(cls: type[_C], *, encode: Callable[[_C], Any], decode: Callable[[Any], _C]) -> type[_C]: ...
    @overload
    def register(cls: None = None, *, encode: None = None, decode: None = None) -> Callable[[type[_C]], type[_C]]: ...

    # Not Callable[[_C], Any]: functions passed to the decorator name the decorated class, a cycle for type checkers.
    @overload
    def register(
        cls: None = None, *, encode: Callable[[Any], Any], decode: Callable[[Any], Any]
    ) -> Callable[[type[_C]], type[_C]]: ...


def register(
    cls: type | None = None, *, encode: Callable[[Any], Any] | None = None, decode: Callable[[Any], Any] | None = None
) -> Any:
    """Registers a class, so that its objects can be stored and read from files. Also a decorator.

    Without `encode` and `decode` an object is stored as its ``__dict__`` and slots, and restored without calling
    ``__init__``. Dataclasses, attrs classes, namedtuples, enums and subclasses of torch.Tensor can be stored without
    registration. Objects of unregistered classes are read from a file as :class:`recstore.Record`.

    Args:
        cls: the class. Its subclasses are not registered with it.
        encode: a function that takes an object and returns a value that can be stored.
        decode: a function that takes this value and returns the object. Required with `encode`.

    Returns the class. Raises TypeError if `cls` is not a class or is a type with its own form in files, such as dict,
    datetime or numpy.ndarray, or for one function without the other. Storing an object that could not be read back,
    such as an object with state in C, is an error. The registration holds for this process, for open stores too.
    A spawned worker does not inherit it, so register at the top of a module that workers import. Safe from several
    threads at once.

    >>> @register
    ... class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> from recstore import RecordList
    >>> with RecordList([Point(1, 2)]) as store:
    ...     vars(store[0])
    {'x': 1, 'y': 2}
    """
    if cls is None:
        return lambda decorated: register(decorated, encode=encode, decode=decode)  # type: ignore[arg-type]
    if not isinstance(cls, type):
        raise TypeError(f"register takes a class, not {type(cls).__name__}")
    ext_types = hooks.module("ext_types")
    if cls in _BASIC or ext_types.is_known(cls) or _is_numpy_scalar(cls):
        raise TypeError(f"{cls.__name__} is stored without registration and cannot be registered")
    if (encode is None) != (decode is None):
        raise TypeError("register takes encode and decode together or neither")
    trust.registered[trust.name_of(cls)] = cls, encode, decode
    ext_types.forget(cls)
    return cls


def _is_numpy_scalar(cls: type) -> bool:
    generic = getattr(sys.modules.get("numpy"), "generic", Record)
    return issubclass(cls, generic) and cls.__module__ == "numpy"


def registration(cls: type) -> trust.Registration | None:
    """`(class, encode, decode)` of a registered class, else None."""
    entry = trust.registered.get(trust.name_of(cls))
    return entry if entry is not None and entry[0] is cls else None


# ---- The state of objects ----


def is_tensor_class(cls: type) -> bool:
    """Whether a class is derived from torch.Tensor. Imports neither torch nor numpy."""
    torch: Any = sys.modules.get("torch")
    return hasattr(torch, "Tensor") and cls is not torch.Tensor and issubclass(cls, torch.Tensor)


def is_enum(cls: type) -> bool:
    enum: Any = sys.modules.get("enum")  # without Enum while another thread imports the module
    return hasattr(enum, "Enum") and issubclass(cls, enum.Enum)


def slots_of(cls: type) -> dict[str, MemberDescriptorType] | None:
    """`{name: descriptor}` of a class's slots; None for a class with state that slots and ``__dict__`` do not give."""
    if any(base is not object and not base.__flags__ & _HEAP_TYPE for base in cls.__mro__):
        return None  # only the constructor of a base written in C may make its objects
    members = [(name, d) for base in cls.__mro__ for name, d in vars(base).items() if type(d) is MemberDescriptorType]
    # The same test as in copyreg: an object that is larger than its slots has state that only C code can reach.
    expected = _BASICSIZE + _POINTER * (len(members) + (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0))
    if cls.__itemsize__ or cls.__basicsize__ > expected:
        return None
    if cls.__dictoffset__ and static_types.dict_getter(cls) is None:
        return None  # a member of the class hides the instance dictionary
    if len({name for name, _ in members}) != len(members):
        return None  # a slot that hides another of the same name
    return dict(members)
