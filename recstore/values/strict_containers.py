"""Records under RECSTORE_STRICT=1: dicts, lists, sets and bytearrays that warn when the program writes to them.

Their types are subclasses of the builtin ones, and equal to them. Calling the type, copying, pickling and operators
make an object of the builtin type, which the program owns and may write to.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings

from recstore._core import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, TypeAlias

    # (the place of the surrounding container, the key in it); (None, its number) for a record
    Place: TypeAlias = tuple[Any, Any]

_RECSTORE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep
_PACKAGE_FOLDERS = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"  # may be folders within _PYTHON

_reported: set[tuple[str, int]] = set()  # (file, line) of each write that was warned about
_OPERATORS = {
    "__setitem__": "[...] = ...", "__delitem__": "del ...[...]", "__iadd__": "+=", "__imul__": "*=", "__ior__": "|=",
    "__iand__": "&=", "__isub__": "-=", "__ixor__": "^=",
}  # fmt: skip


class _Type(type):
    """The metaclass of these types. Each equals its builtin type, for libraries that compare ``type(x) == list`` or
    look up functions by type. ``type(x) is list`` remains false."""

    def __eq__(cls, other: object) -> bool:
        return cls is other or other is cls.__dict__.get("_builtin")

    def __hash__(cls) -> int:
        return hash(cls.__dict__.get("_builtin"))


class _Watched:
    """The common base of the types. `_place` is a Place. An object without a `_place` belongs to the program."""

    __slots__ = ()

    _builtin: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._builtin(*args, **kwargs)

    def __reduce_ex__(self: Any, protocol: object) -> tuple[Any, ...]:
        builtin = self._builtin
        if builtin is dict:
            return dict, (), None, None, iter(self.items())
        if builtin is list:
            return list, (), None, iter(self)
        return builtin, ((list if builtin is set else bytes)(self),)

    def __repr__(self) -> str:
        return repr(self._builtin(self))

    def copy(self) -> Any:
        return self._builtin(self)


def _warning_method(builtin: type, name: str) -> Callable[..., Any]:
    """The method `name` of a builtin type, wrapped so that it warns first."""
    original = getattr(builtin, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name != "setdefault" or not args or args[0] not in self:
            _warn_of_write(self, name)
        return original(self, *args, **kwargs)

    return method


def _watched_type(name: str, builtin: type, methods: str) -> type:
    """A subclass of a builtin type whose methods named in `methods` warn."""
    members: dict[str, Any] = {method: _warning_method(builtin, method) for method in methods.split()}
    slots = ("_place",) if builtin.__weakrefoffset__ else ("_place", "__weakref__")
    members |= {"__slots__": slots, "__module__": __name__, "_builtin": builtin}
    watched_type = _Type(name, (_Watched, builtin), members)
    watched_type.__doc__ = f"A {builtin.__name__} of a record that was read, under RECSTORE_STRICT=1."
    native.add_strict_type(watched_type, builtin)
    return watched_type


StrictDict = _watched_type(
    "StrictDict", dict, "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update"
)  # fmt: skip
StrictList = _watched_type(
    "StrictList",
    list,
    "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse sort",
)
StrictSet = _watched_type(
    "StrictSet",
    set,
    "__iand__ __ior__ __isub__ __ixor__ add clear difference_update discard intersection_update pop remove "
    "symmetric_difference_update update",
)
StrictBytearray = _watched_type(
    "StrictBytearray",
    bytearray,
    "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse",
)


# ---- Conversion ----


def watched(value: Any, parent: Place | None, key: object) -> Any:
    """The value with its dicts, lists, sets and bytearrays replaced, in tuples too. Its place is `(parent, key)`."""
    make = _MAKERS.get(type(value))
    return value if make is None else make(value, (parent, key))


def _dict(value: Any, place: Place) -> Any:
    out: Any = dict.__new__(StrictDict)
    _fill(out, value)
    for key, item in value.items():
        make = _make_of(type(item))
        if make is not None:
            _set_item(out, key, make(item, (place, key)))
    out._place = place
    return out


def _list(value: Any, place: Place) -> Any:
    out: Any = list.__new__(StrictList)
    plain = _kinds.isdisjoint(map(type, value))  # most long lists are lists of numbers
    list.extend(out, value if plain else [watched(item, place, i) for i, item in enumerate(value)])
    out._place = place
    return out


def _tuple(value: Any, place: Place) -> Any:
    if _kinds.isdisjoint(map(type, value)):
        return value
    items = tuple([watched(item, place, i) for i, item in enumerate(value)])
    return items if any(a is not b for a, b in zip(items, value)) else value


def _set(value: Any, place: Place) -> Any:
    out: Any = set.__new__(StrictSet)
    set.update(out, value)
    out._place = place
    return out


def _bytearray(value: Any, place: Place) -> Any:
    out: Any = bytearray.__new__(StrictBytearray)
    bytearray.__init__(out, value)
    out._place = place
    return out


_MAKERS: dict[type, Callable[[Any, Place], Any]] = {
    dict: _dict,
    list: _list,
    tuple: _tuple,
    set: _set,
    bytearray: _bytearray,
}
_kinds, _make_of = _MAKERS.keys(), _MAKERS.get
_fill, _set_item = dict.update, dict.__setitem__


# ---- Warning ----


def _warn_of_write(container: Any, method: str) -> None:
    """Warns that a container is about to be changed, once for each line of the program."""
    place = getattr(container, "_place", None)
    if place is None:
        return
    frame = _frame_of_program()
    line = frame.f_code.co_filename, frame.f_lineno
    if line in _reported:
        return
    kind = type(container)._builtin.__name__
    copy_code = f"record = {kind}(record)" if place[0] is None else "record = copy.deepcopy(record)"
    _warn(
        f"{_name(place)}, read from a recstore store, is changed here by {_OPERATORS.get(method, method + '()')}: the "
        "store keeps the record as it was built, and the next read of it has the old value. Changed records need a new "
        f"store, of a list x = x.map(fn); to change your own copy, make it first: {copy_code}",
        frame,
    )
    _reported.add(line)


def _name(place: Place) -> str:
    """A place as text: `record 17["boxes"][0]`."""
    keys = []
    while place[0] is not None:
        keys.append(place[1])
        place = place[0]
    return f"record {place[1]}" + "".join([f"[{key!r:.40}]" for key in reversed(keys)])


def warn_of_many(n_records: int) -> None:
    """Warns that more than half of the records of a large store are alive."""
    _warn(
        f"more than half of the {n_records:,} records of a recstore store are alive as Python objects in this process "
        "(an estimate from a sample): they take the memory that the store saves, in every process that has them. Keep "
        f"{_INSTEAD}",
        _frame_of_program(),
    )


def check_all(records: native.Records[Any], method: str) -> None:
    """Warns if `method` makes objects of more than half of the records of a large store."""
    for segment, _ in records.selection.known_leaves():
        if segment.sample is not None and 2 * len(records) > segment.records:
            _warn(
                f"{method} makes Python objects of {len(records):,} records of a recstore store: they take the memory "
                f"that the store saves, in every process that has them. Keep {_INSTEAD}",
                _frame_of_program(),
            )
            return


_INSTEAD = (
    "the store and read x[i] where a record is needed; keep positions, or views such as x.filter(fn), in place of "
    "records; read one field of all records with x.field(name).to_numpy()"
)


def _frame_of_program() -> FrameType:
    """The innermost frame outside recstore and Python's library; without one, the caller's."""
    innermost = sys._getframe(1)
    frame: FrameType | None = innermost
    while frame is not None:
        if not _is_library(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return innermost


def _is_library(file: str) -> bool:
    if file.startswith((_RECSTORE, "<frozen ")):
        return True
    return file.startswith(_PYTHON) and not any(folder in file for folder in _PACKAGE_FOLDERS)


def _warn(text: str, frame: FrameType) -> None:
    names = frame.f_globals
    warnings.warn_explicit(
        text,
        RuntimeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=names.get("__name__", "<unknown>"),
        registry=names.setdefault("__warningregistry__", {}),
    )
