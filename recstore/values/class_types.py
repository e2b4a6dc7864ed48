"""Stores objects of classes that Python code defines: enums, namedtuples, dataclasses, attrs classes and registered
classes.

The state of an object is its ``__dict__`` and slots. Reading and writing it runs no code of the class: no ``__init__``,
``__post_init__``, property or ``__setattr__``. A tree stores the class and the names of the fields once; the values are
a tuple.
"""

from __future__ import annotations

import sys
from types import GetSetDescriptorType, MemberDescriptorType

from recstore._core import trust
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

# attrs caches a hash in this attribute. It differs between processes; None makes attrs compute it again.
_ATTRS_HASH = "_attrs_cached_hash"
_ALL = slice(None)


# ---- Encoding ----


def handler(value: Any) -> Handler | None:
    """The function that returns `(code, EXTRA, payload)` for values of the class of `value`; None if they cannot be
    stored.

    The function must not refer to the class, which is its key in a WeakKeyDictionary.
    """
    cls = type(value)
    module, qualname = static_types.names(cls)
    if not module:
        return None
    name = trust.main_name(module), qualname
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
    code, order = _code_and_fields(cls)
    if code == OBJECT and entry is None or refusal(value) is not None:
        return None
    state_of = _state_reader(cls)
    rank = {field: i for i, field in enumerate(order)}
    return lambda v: _describe_object(state_of(v), code, name, rank)


def _state_reader(cls: type) -> Callable[[Any], dict[str, Any]]:
    """The function `state` for the objects of a class, or a faster function if no member of the class hides a slot or
    the instance dictionary."""
    slots, get = tuple(classes.slots_of(cls) or ()), object.__getattribute__
    has_dict = static_types.dict_getter(cls) is not None
    names = (*slots, "__dict__") if has_dict else slots
    if any(
        type(static_types.member_of(cls, name)) not in (MemberDescriptorType, GetSetDescriptorType) for name in names
    ):
        return lambda v: state(v) or {}
    if not slots:
        return (lambda v: dict(get(v, "__dict__"))) if has_dict else lambda v: {}

    def read(value: Any) -> dict[str, Any]:
        out = {}
        for name in slots:
            try:
                out[name] = get(value, name)
            except AttributeError:
                continue  # an unset slot
        if has_dict:
            out.update(get(value, "__dict__"))
        return out

    return read


def _code_and_fields(cls: type) -> tuple[int, tuple[str, ...]]:
    """`(code, declared names)` of a class whose objects are stored by their attributes."""
    fields = static_types.member_of(cls, "__dataclass_fields__")
    if type(fields) is dict:
        return DATACLASS, tuple(fields)
    fields = static_types.member_of(cls, "__attrs_attrs__")
    if isinstance(fields, tuple):
        return ATTRS, tuple(field.name for field in fields)
    return OBJECT, ()


def refusal(value: Any) -> str | None:
    """The reason why a new object with the attributes of `value` would not equal it; None if it would.

    It makes such an object, without running code of its class.
    """
    cls = type(value)
    slots = classes.slots_of(cls)
    if slots is None:
        return "its class has state that only C code can reach"
    if _is_kept(value, cls):
        return "its class keeps one object of each value, and a copy would be another object"
    state = _state_of(value, slots)
    try:
        copy = object.__new__(cls)
        for name, put in _setters(cls, slots, state):
            put(copy, name, state[name])
    except (TypeError, AttributeError) as e:
        return f"an object of its class cannot be made: {e}"
    copied = _state_of(copy, slots)
    same = copied.keys() == state.keys() and all(copied[name] is item for name, item in state.items())
    return None if same else "its class has attributes that cannot be set"


_MOST_SEARCHED = 1000  # how many entries of a table are searched


def _is_kept(value: Any, cls: type) -> bool:
    """Whether a class with its own `__new__` or metaclass keeps the object, as a singleton or in a table."""
    meta: type = type(cls)
    new = static_types.member_of(cls, "__new__")
    if new is object.__new__ and not static_types.is_own(meta, "__call__", type):
        return False
    new = new.__func__ if type(new) is staticmethod else new
    if type(new).__name__ == "_lru_cache_wrapper":
        return True
    weak = getattr(sys.modules.get("weakref"), "WeakValueDictionary", None)
    for base in (*cls.__mro__, *meta.__mro__):
        for member in list(vars(base).values()):
            if member is value:
                return True
            if type(member) is dict or type(member) is weak:
                if any(item is value for _, item in zip(range(_MOST_SEARCHED), list(member.values()))):
                    return True
    return False


def state(value: object) -> dict[str, Any] | None:
    """`{name: value}` of the slots and the instance dictionary of an object; None for state that only C code can
    reach."""
    slots = classes.slots_of(type(value))
    return None if slots is None else _state_of(value, slots)


def _state_of(value: Any, slots: Slots) -> dict[str, Any]:
    out = {}
    for name, descriptor in slots.items():
        try:
            out[name] = descriptor.__get__(value)
        except AttributeError:
            continue  # an unset slot
    out.update(static_types.instance_dict(value) or ())
    return out


def _describe_tensor(value: Any, name: ClassName) -> Described | None:
    from recstore.values import tensors

    parts = tensors.parts(value)
    return None if parts is None else (OBJECT, (*name, None), (parts,))


def _describe_enum(value: Any, name: ClassName) -> Described | None:
    from enum import Flag

    get = object.__getattribute__  # the class may redefine it
    member = get(value, "_name_")
    if member is not None and type(value)._member_map_.get(member) is value:
        return ENUM, name, member
    number = get(value, "_value_")
    return (ENUM, name, number) if issubclass(type(value), Flag) and type(number) is int else None


def _named_tuple_handler(cls: type, name: ClassName) -> Handler | None:
    fields = static_types.member_of(cls, "_fields")
    if type(fields) is not tuple or not all(type(f) is str for f in fields) or len(set(fields)) != len(fields):
        return None
    extra = (*name, fields)
    has_dict = static_types.dict_getter(cls) is not None

    def describe(value: Any) -> Described | None:
        # A getter of the class would keep the class alive here.
        get_dict = static_types.dict_getter(type(value)) if has_dict else None
        if tuple.__len__(value) != len(fields) or (get_dict is not None and get_dict(value)):
            return None
        return NAMEDTUPLE, extra, tuple.__getitem__(value, _ALL)

    return describe


def _describe_object(state: dict[str, Any], code: int, name: ClassName, rank: dict[str, int]) -> Described | None:
    if _ATTRS_HASH in state:
        state[_ATTRS_HASH] = None
    # Declared fields come first, in their order, so that all objects share a tree.
    names = sorted(state, key=lambda f: rank.get(f, len(rank))) if rank and tuple(state) != tuple(rank) else state
    if not all(type(field) is str for field in names):
        return None
    return code, (*name, tuple(names)), tuple([state[field] for field in names])


# ---- Decoding ----


def maker(code: int, extra: Any, reader: Reader) -> tuple[Make, bool]:
    """Like ext_types.maker, for the codes of classes, and for others whose payload a verbatim reader does not read."""
    if code > OBJECT:
        return lambda payload: Record(_new_name(), {"": payload}, _origin=(code, extra)), True
    length = 2 if code == ENUM else 3
    if type(extra) is not tuple or len(extra) != length or type(extra[0]) is not str or type(extra[1]) is not str:
        raise CorruptError(f"an ext value of code {code} without a class name")
    names = extra[2] if length == 3 else ("name",)
    if names is None and code == OBJECT:
        names = ("value",)
    elif type(names) is not tuple or not all(type(name) is str for name in names) or len(set(names)) != len(names):
        raise CorruptError("field names that are not distinct strings")
    if reader.checking:
        return _checker(code, len(names)), True
    cls = reader.find(extra[0], extra[1])
    if cls is None:
        return _record_maker(code, extra, names, reader.verbatim), False
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
    """The function that checks a payload. It returns a placeholder that equals nothing else, because equality is
    defined by the class, which is not loaded."""

    def check(payload: Any) -> object:
        _enum_payload(payload) if code == ENUM else _values(payload, n)
        return object()

    return check


def _new_name() -> Any:
    """The name of the class of one verbatim Record. Objects with equal fields may be different keys of a dict."""
    return object()


def _record_maker(code: int, extra: Any, names: tuple[str, ...], verbatim: bool) -> Make:
    full, origin = f"{extra[0]}.{extra[1]}", (code, extra)

    def make(payload: Any) -> Record:
        name = _new_name() if verbatim else full
        if code == ENUM:
            payload = (_enum_payload(payload),)
            fields = names if type(payload[0]) is str else ("value",)
            return Record(name, zip(fields, payload), _origin=origin)
        return Record(name, zip(names, _values(payload, len(names))), _origin=origin)

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
            remedy = "it was stored by an encode function; register it with its decode function first"
            raise Error(f"cannot load class {full}: {remedy}")
        return entry[2](_values(payload, 1)[0])

    return make


def _object_maker(cls: Any, full: str, names: tuple[str, ...]) -> Make:
    slots = classes.slots_of(cls)
    if slots is None or issubclass(cls, (tuple, type)) or classes.is_enum(cls):
        raise Error(f"cannot load class {full}: its objects now have state other than attributes")
    has_dict = cls.__dictoffset__ != 0
    missing = [name for name in names if name not in slots and not has_dict]
    if missing:
        raise Error(f"cannot load class {full}: it has no slot {missing[0]!r} now")
    new, setters = object.__new__, _setters(cls, slots, names)

    def make(payload: Any) -> Any:
        try:
            out = new(cls)
        except TypeError as e:
            raise Error(f"cannot load class {full}: {e}") from None
        for (name, put), value in zip(setters, _values(payload, len(names))):
            put(out, name, value)
        return out

    return make


def _setters(cls: type, slots: Slots, names: Iterable[str]) -> list[tuple[str, Put]]:
    """`(name, put)` for each attribute: `put(object, name, value)` sets it. A descriptor of the class that hides the
    attribute, such as a property, is not called."""
    out = []
    for name in names:
        if name in slots and static_types.member_of(cls, name) is not slots[name]:
            put = _slot_setter(slots[name])
        elif name not in slots and _is_data_descriptor(cls, name):
            put = _entry_setter(static_types.dict_getter(cls))
        else:
            put = object.__setattr__
        out.append((name, put))
    return out


def _slot_setter(descriptor: MemberDescriptorType) -> Put:
    return lambda out, name, value: descriptor.__set__(out, value)


def _entry_setter(get_dict: Any) -> Put:
    return lambda out, name, value: get_dict(out).__setitem__(name, value)


def _is_data_descriptor(cls: type, name: str) -> bool:
    """Whether setting the attribute would call a descriptor of the class, such as a property."""
    kind = type(static_types.member_of(cls, name))
    return static_types.member_of(kind, "__set__") is not None or static_types.member_of(kind, "__delete__") is not None
