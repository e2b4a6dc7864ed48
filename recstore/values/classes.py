"""Registering classes, so that their values can be stored and read from files. What registration permits is decided
in recstore._core.trust."""

import sys

from recstore._core import trust

__all__ = ["register"]

_BASIC = {type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice}


def register(cls=None, *, encode=None, decode=None):
    """Lets values of a class be stored, and be read from files: a function and a decorator.

    Without `encode` and `decode` an object is stored as its ``__dict__`` and slots, and restored without calling
    ``__init__``. Dataclasses, attrs classes, namedtuples and enums are stored without being registered; registered,
    they are also read from stores of unknown origin, where others are read as :class:`recstore.Record`.

    Args:
        cls: the class; values of its subclasses are not covered.
        encode: a function from an object to a value that can be stored.
        decode: a function from what `encode` returned to the object; given together with `encode`.

    Returns the class. Raises TypeError for what is no class, for a basic type, and for one function without the other.
    It holds for the process; stores opened before see it too. A spawned worker registers again, as it imports modules.

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
        return lambda chosen: register(chosen, encode=encode, decode=decode)
    if not isinstance(cls, type):
        raise TypeError(f"register takes a class, not {type(cls).__name__}")
    if cls in _BASIC:
        raise TypeError(f"{cls.__name__} is stored as it is and cannot be registered")
    if (encode is None) != (decode is None):
        raise TypeError("register takes encode and decode together or neither")
    trust.registered[trust.name_of(cls)] = cls, encode, decode
    ext_types = sys.modules.get("recstore.values.ext_types")
    if ext_types is not None:
        ext_types.forget(cls)
    return cls


def registration(cls):
    """`(class, encode, decode)` as registered, or None."""
    entry = trust.registered.get(trust.name_of(cls))
    return entry if entry is not None and entry[0] is cls else None
