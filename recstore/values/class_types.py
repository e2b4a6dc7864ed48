"""Stores objects of classes that Python code defines: enums, namedtuples, dataclasses, attrs classes and registered
classes.

The state of an object is its ``__dict__`` and slots. Reading and writing it runs no code of the class: no ``__init__``,
``__post_init__``, property or ``__setattr__``. The names of the fields are stored once in a tree, with the class; the
values are a tuple.
"""

from __future__ import annotations

import sys
from types import GetSetDescriptorType, MemberDescriptorType

from recstore._core.native import Record
from recstore.errors import CorruptError, Error
from recstore.text import an
from recstore.values import classes, static_types
from recstore.values.ext_codes import ATTRS, DATACLASS, ENUM, NAMEDTUPLE, OBJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    from recstore._core.trust import ClassName, Reader
    from recstore.values.ext_types import Described, Handler, Make

    Slots: TypeAlias = dict[str, MemberDescriptorType]
    Put: TypeAlias = Callable[[Any, str, Any], None]  # object, name, value

# attrs caches a hash in this attribute, which differs between processes. None makes attrs compute it again.
_ATTRS_HASH = "_attrs_cached_hash"
_ALL = slice(None)


# ---- Encoding ----


def handler(value: Any) -> Handler | None:
    """The function that returns `(code, EXTRA, payload)` for values of this class; None if it cannot be stored.

    The function must not refer to the class, because it is kept in a WeakKeyDictionary with the class as key.
    """
    cls = type(value)
    name = static_types.names(cls)
    if not name[0]:
        return None
    entry = classes.registration(cls)
    encode = None if entry is None else entry[1]
    if encode is not None:
        return lambda v: (OBJECT, (*name, None), (encode(v),))
    if classes.is_tensor_class(cls):
        return lambda v: _describe_tensor(v, name)
    if classes.is_enum(cls):
        return lambda v: _describe_enum(v, name)
    if issubclass(cls, tuple):
        return _named_tuple_handler(cls, name)
    code, order = _declared(cls)
    if code == OBJECT and entry is None or refusal(value) is not None:
        return None
    state_of = _state_reader(cls)
    rank = {at: i for i, at in enumerate(order)}
    return lambda v: _describe_object(state_of(v), code, name, rank)


def _state_reader(cls: type) -> Callable[[Any], dict[str, Any]]:
    """The function `state` for the objects of a class; a faster one where the class hides no slot and no instance
    dictionary behind a member of its own."""
    slots, get = tuple(classes.slots_of(cls) or ()), object.__getattribute__
    has_dict = static_types.dict_getter(cls) is not None
    names = (*slots, "__dict__") if has_dict else slots
    if any(type(static_types.found(cls, at)) not in (MemberDescriptorType, GetSetDescriptorType) for at in names):
        return lambda v: state(v) or {}
    if not slots:
        return (lambda v: dict(get(v, "__dict__"))) if has_dict else lambda v: {}

    def read(value: Any) -> dict[str, Any]:
        out = {}
        for at in slots:
            try:
                out[at] = get(value, at)
            except AttributeError:
                continue  # a slot that was never set
        if has_dict:
            out.update(get(value, "__dict__"))
        return out

    return read


def _declared(cls: type) -> tuple[int, tuple[str, ...]]:
    """The code of a class whose objects are stored by their attributes, and the names that it declares."""
    fields = static_types.found(cls, "__dataclass_fields__")
    if type(fields) is dict:
        return DATACLASS, tuple(fields)
    fields = static_types.found(cls, "__attrs_attrs__")
    if isinstance(fields, tuple):
        return ATTRS, tuple(field.name for field in fields)
    return OBJECT, ()


def refusal(value: Any) -> str | None:
    """Why an object that is made anew and given the attributes of `value` would be another value; None if it would not.

    It makes such an object, without running code of its class.
    """
    cls = type(value)
    slots = classes.slots_of(cls)
    if slots is None:
        return "its class has state that only C code can reach"
    if _is_kept(value, cls):
        return "its class gives the same object again, so that a copy would be another value"
    state = _state_of(value, slots)
    try:
        copy = object.__new__(cls)
        for at, put in _setters(cls, slots, state):
            put(copy, at, state[at])
    except (TypeError, AttributeError) as e:
        return f"an object of its class cannot be made anew: {e}"
    made = _state_of(copy, slots)
    same = made.keys() == state.keys() and all(made[at] is item for at, item in state.items())
    return None if same else "its class has attributes that cannot be set"


_MOST_KEPT = 1000  # entries of a table of objects


def _is_kept(value: Any, cls: type) -> bool:
    """Whether a class with a `__new__` or metaclass of its own keeps the object, by itself or in a table, as classes do
    that have one object or one for each value."""
    meta: type = type(cls)
    new = static_types.found(cls, "__new__")
    if new is object.__new__ and not static_types.is_own(meta, "__call__", type):
        return False
    new = new.__func__ if type(new) is staticmethod else new
    if type(new).__name__ == "_lru_cache_wrapper":
        return True
    weak = getattr(sys.modules.get("weakref"), "WeakValueDictionary", None)
    for base in (*cls.__mro__, *meta.__mro__):
        for held in list(vars(base).values()):
            if held is value:
                return True
            if type(held) is dict or type(held) is weak:
                if any(one is value for _, one in zip(range(_MOST_KEPT), list(held.values()))):
                    return True
    return False


def state(value: object) -> dict[str, Any] | None:
    """`{name: value}` of the slots and the instance dictionary of an object; None for state that only C code can
    reach."""
    slots = classes.slots_of(type(value))
    return None if slots is None else _state_of(value, slots)


def _state_of(value: Any, slots: Slots) -> dict[str, Any]:
    out = {}
    for at, descriptor in slots.items():
        try:
            out[at] = descriptor.__get__(value)
        except AttributeError:
            continue  # a slot that was never set
    out.update(static_types.instance_dict(value) or ())
    return out


def _describe_tensor(value: Any, name: ClassName) -> Described | None:
    from recstore.values import tensors

    parts = tensors.parts(value)
    return None if parts is None else (OBJECT, (*name, None), (parts,))


def _describe_enum(value: Any, name: ClassName) -> Described | None:
    from enum import Flag

    get = object.__getattribute__  # the class may have one of its own
    member = get(value, "_name_")
    if member is not None and type(value)._member_map_.get(member) is value:
        return ENUM, name, member
    number = get(value, "_value_")
    return (ENUM, name, number) if issubclass(type(value), Flag) and type(number) is int else None


def _named_tuple_handler(cls: type, name: ClassName) -> Handler | None:
    fields = static_types.found(cls, "_fields")
    if type(fields) is not tuple or not all(type(f) is str for f in fields) or len(set(fields)) != len(fields):
        return None
    extra = (*name, fields)
    get_dict = static_types.dict_getter(cls)

    def describe(value: Any) -> Described | None:
        if tuple.__len__(value) != len(fields) or (get_dict is not None and get_dict(value)):
            return None
        return NAMEDTUPLE, extra, tuple.__getitem__(value, _ALL)

    return describe


def _describe_object(state: dict[str, Any], code: int, name: ClassName, rank: dict[str, int]) -> Described | None:
    if _ATTRS_HASH in state:
        state[_ATTRS_HASH] = None
    # Declared fields come first and in their order, so that objects share a tree whatever order __init__ set them in.
    names = sorted(state, key=lambda at: rank.get(at, len(rank))) if rank and tuple(state) != tuple(rank) else state
    if not all(type(at) is str for at in names):
        return None
    return code, (*name, tuple(names)), tuple([state[at] for at in names])


# ---- Decoding ----


def maker(code: int, extra: Any, reader: Reader) -> tuple[Make, bool]:
    """The function ext_types.maker for the codes of classes."""
    length = 2 if code == ENUM else 3
    if type(extra) is not tuple or len(extra) != length or type(extra[0]) is not str or type(extra[1]) is not str:
        raise CorruptError(f"an ext value of code {code} without a class name")
    names = extra[2] if length == 3 else ("name",)
    if names is None and code == OBJECT:
        names = ("value",)
    elif type(names) is not tuple or not all(type(at) is str for at in names) or len(set(names)) != len(names):
        raise CorruptError("field names that are no distinct strings")
    if reader.checking:
        return _checker(code, len(names)), True
    cls = reader.find(extra[0], extra[1])
    if cls is None:
        return _record_maker(code, extra, names), False
    full = f"{extra[0]}.{extra[1]}"
    if code == ENUM:
        return _enum_maker(cls, full), True
    if code == NAMEDTUPLE:
        return _named_tuple_maker(cls, full, names), True
    if extra[2] is None:
        return _pair_maker(cls, full), True
    return _object_maker(cls, full, names), True


def _values(payload: Any, n: int) -> tuple[Any, ...]:
    if type(payload) is not tuple or len(payload) != n:
        raise CorruptError(f"the values of {n} fields made of {an(type(payload).__name__)}")
    return payload


def _enum_payload(payload: Any) -> str | int:
    if type(payload) is not str and type(payload) is not int:
        raise CorruptError(f"a member of an enum made of {an(type(payload).__name__)}")
    return payload


def _checker(code: int, n: int) -> Make:
    """The function that checks a payload. It returns an object that equals nothing else, because the class, which
    defines equality, is not loaded."""

    def check(payload: Any) -> object:
        _enum_payload(payload) if code == ENUM else _values(payload, n)
        return object()

    return check


def _record_maker(code: int, extra: Any, names: tuple[str, ...]) -> Make:
    full, origin = f"{extra[0]}.{extra[1]}", (code, extra)

    def make(payload: Any) -> Record:
        if code == ENUM:
            payload = (_enum_payload(payload),)
            at = names if type(payload[0]) is str else ("value",)
            return Record(full, zip(at, payload), _origin=origin)
        return Record(full, zip(names, _values(payload, len(names))), _origin=origin)

    return make


def _enum_maker(cls: Any, full: str) -> Make:
    if not classes.is_enum(cls):
        raise Error(f"{full} was an enum when it was stored and is not one now")
    members = cls._member_map_

    def make(payload: Any) -> Any:
        if type(_enum_payload(payload)) is str:
            if payload not in members:
                raise Error(f"enum {full} has no member {payload} now")
            return members[payload]
        try:
            return cls(payload)
        except ValueError as e:
            raise Error(f"enum {full} has no value {payload} now: {e}") from None

    return make


def _named_tuple_maker(cls: Any, full: str, names: tuple[str, ...]) -> Make:
    if not issubclass(cls, tuple) or getattr(cls, "_fields", None) != names:
        fields = getattr(cls, "_fields", "none")
        raise Error(f"namedtuple {full} had the fields {names} when it was stored and has {fields} now")
    new = tuple.__new__
    return lambda payload: new(cls, _values(payload, len(names)))


def _pair_maker(cls: Any, full: str) -> Make:
    def make(payload: Any) -> Any:
        # Looked up for each value, because the registration may be replaced.
        entry = classes.registration(cls)
        if (entry is None or entry[2] is None) and classes.is_tensor_class(cls):
            from recstore.values import tensors

            return tensors.made_of(cls, _values(payload, 1)[0])
        if entry is None or entry[2] is None:
            why = "it was stored by an encode function; register it with its decode function first"
            raise Error(f"cannot load class {full}: {why}")
        return entry[2](_values(payload, 1)[0])

    return make


def _object_maker(cls: Any, full: str, names: tuple[str, ...]) -> Make:
    slots = classes.slots_of(cls)
    if slots is None or issubclass(cls, (tuple, type)) or classes.is_enum(cls):
        raise Error(f"cannot load class {full}: its objects hold more than attributes now")
    has_dict = cls.__dictoffset__ != 0
    missing = [at for at in names if at not in slots and not has_dict]
    if missing:
        raise Error(f"cannot load class {full}: it has no slot {missing[0]!r} now")
    new, setters = object.__new__, _setters(cls, slots, names)

    def make(payload: Any) -> Any:
        try:
            out = new(cls)
        except TypeError as e:
            raise Error(f"cannot load class {full}: {e}") from None
        for (at, put), value in zip(setters, _values(payload, len(names))):
            put(out, at, value)
        return out

    return make


def _setters(cls: type, slots: Slots, names: Iterable[str]) -> list[tuple[str, Put]]:
    """`(name, function of object, name and value)` for each attribute. A descriptor of the class that hides it, such as
    a property, is passed by."""
    out = []
    for at in names:
        if at in slots and static_types.found(cls, at) is not slots[at]:
            put = _slot_setter(slots[at])
        elif at not in slots and _is_data_descriptor(cls, at):
            put = _entry_setter(static_types.dict_getter(cls))
        else:
            put = object.__setattr__
        out.append((at, put))
    return out


def _slot_setter(descriptor: MemberDescriptorType) -> Put:
    return lambda out, at, value: descriptor.__set__(out, value)


def _entry_setter(get_dict: Any) -> Put:
    return lambda out, at, value: get_dict(out).__setitem__(at, value)


def _is_data_descriptor(cls: type, name: str) -> bool:
    """Whether setting the attribute would call a descriptor of the class, such as a property, instead of storing it."""
    kind = type(static_types.found(cls, name))
    return static_types.found(kind, "__set__") is not None or static_types.found(kind, "__delete__") is not None
