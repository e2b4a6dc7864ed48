"""Stores objects of classes that Python code defines: enums, namedtuples, dataclasses, attrs classes and registered
classes.

The state of an object is its ``__dict__`` and slots. Reading and writing it runs no code of the class: no ``__init__``,
``__post_init__``, property or ``__setattr__``. The names of the fields are stored once in a tree, with the class; the
values are a tuple.
"""

from recstore._core import trust
from recstore._core.native import Record
from recstore.errors import CorruptError, Error
from recstore.values import classes
from recstore.values.ext_codes import ATTRS, DATACLASS, ENUM, NAMEDTUPLE, OBJECT

# attrs caches a hash in this attribute, which differs between processes. None makes attrs compute it again.
_ATTRS_HASH = "_attrs_cached_hash"


# ---- Encoding ----


def handler(value):
    """The function that returns `(code, EXTRA, payload)` for values of this class; None if it cannot be stored.

    The function must not refer to the class, because it is kept in a WeakKeyDictionary with the class as key.
    """
    cls = type(value)
    name = trust.name_of(cls)
    if type(name[0]) is not str:
        return None
    entry = classes.registration(cls)
    if entry is not None and entry[1] is not None:
        return lambda v: (OBJECT, (*name, None), (classes.registration(type(v))[1](v),))
    if classes.is_tensor_class(cls):
        return lambda v: _describe_tensor(v, name)
    if classes.is_enum(cls):
        return lambda v: _describe_enum(v, name)
    if isinstance(value, tuple):
        return _named_tuple_handler(cls, name)
    if hasattr(cls, "__dataclass_fields__"):
        code, order = DATACLASS, tuple(cls.__dataclass_fields__)
    elif hasattr(cls, "__attrs_attrs__"):
        code, order = ATTRS, tuple(field.name for field in cls.__attrs_attrs__)
    elif entry is not None:
        code, order = OBJECT, ()
    else:
        return None
    slots = classes.slots_of(cls)
    if slots is None:
        return None
    slots = tuple((at, descriptor.__get__) for at, descriptor in slots.items())
    rank = {at: i for i, at in enumerate(order)}
    return lambda v: _describe_object(v, code, name, slots, rank)


def _describe_tensor(value, name):
    from recstore.values import tensors

    parts = tensors.parts(value)
    return None if parts is None else (OBJECT, (*name, None), (parts,))


def _describe_enum(value, name):
    from enum import Flag

    member = value._name_
    if member is not None and type(value)._member_map_.get(member) is value:
        return ENUM, name, member
    if isinstance(value, Flag) and type(value._value_) is int:
        return ENUM, name, value._value_
    return None


def _named_tuple_handler(cls, name):
    fields = getattr(cls, "_fields", None)
    if type(fields) is not tuple or not all(type(f) is str for f in fields) or len(set(fields)) != len(fields):
        return None
    extra = (*name, fields)

    def describe(value):
        if len(value) != len(fields) or getattr(value, "__dict__", None):
            return None
        return NAMEDTUPLE, extra, tuple(value)

    return describe


def _describe_object(value, code, name, slots, rank):
    state = {}
    for at, get in slots:
        try:
            state[at] = get(value)
        except AttributeError:
            continue  # a slot that was never set
    try:
        state.update(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        pass  # slots only
    if _ATTRS_HASH in state:
        state[_ATTRS_HASH] = None
    # Declared fields come first and in their order, so that objects share a tree whatever order __init__ set them in.
    names = sorted(state, key=lambda at: rank.get(at, len(rank))) if rank and tuple(state) != tuple(rank) else state
    if not all(type(at) is str for at in names):
        return None
    return code, (*name, tuple(names)), tuple([state[at] for at in names])


# ---- Decoding ----


def maker(code, extra, reader):
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


def _values(payload, n):
    if type(payload) is not tuple or len(payload) != n:
        raise CorruptError(f"the values of {n} fields made of a {type(payload).__name__}")
    return payload


def _enum_payload(payload):
    if type(payload) is not str and type(payload) is not int:
        raise CorruptError(f"a member of an enum made of a {type(payload).__name__}")
    return payload


def _checker(code, n):
    """The function that checks a payload. It returns an object that equals nothing else, because the class, which
    defines equality, is not loaded."""

    def check(payload):
        _enum_payload(payload) if code == ENUM else _values(payload, n)
        return object()

    return check


def _record_maker(code, extra, names):
    full, origin = f"{extra[0]}.{extra[1]}", (code, extra)

    def make(payload):
        if code == ENUM:
            payload = (_enum_payload(payload),)
            at = names if type(payload[0]) is str else ("value",)
            return Record(full, zip(at, payload), _origin=origin)
        return Record(full, zip(names, _values(payload, len(names))), _origin=origin)

    return make


def _enum_maker(cls, full):
    if not classes.is_enum(cls):
        raise Error(f"{full} was an enum when it was stored and is not one now")
    members = cls._member_map_

    def make(payload):
        if type(_enum_payload(payload)) is str:
            if payload not in members:
                raise Error(f"enum {full} has no member {payload} now")
            return members[payload]
        try:
            return cls(payload)
        except ValueError as e:
            raise Error(f"enum {full} has no value {payload} now: {e}") from None

    return make


def _named_tuple_maker(cls, full, names):
    if not issubclass(cls, tuple) or getattr(cls, "_fields", None) != names:
        fields = getattr(cls, "_fields", "none")
        raise Error(f"namedtuple {full} had the fields {names} when it was stored and has {fields} now")
    new = tuple.__new__
    return lambda payload: new(cls, _values(payload, len(names)))


def _pair_maker(cls, full):
    def make(payload):
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


def _object_maker(cls, full, names):
    slots = classes.slots_of(cls)
    if slots is None or issubclass(cls, (tuple, type)) or classes.is_enum(cls):
        raise Error(f"cannot load class {full}: its objects hold more than attributes now")
    has_dict = cls.__dictoffset__ != 0
    missing = [at for at in names if at not in slots and not has_dict]
    if missing:
        raise Error(f"cannot load class {full}: it has no slot {missing[0]!r} now")
    new, put = object.__new__, object.__setattr__
    beside = {at for at in names if at not in slots and _is_data_descriptor(cls, at)}

    def make(payload):
        try:
            out = new(cls)
        except TypeError as e:
            raise Error(f"cannot load class {full}: {e}") from None
        for at, value in zip(names, _values(payload, len(names))):
            if at in beside:
                object.__getattribute__(out, "__dict__")[at] = value
            else:
                put(out, at, value)
        return out

    return make


def _is_data_descriptor(cls, name):
    """Whether setting the attribute would call a descriptor of the class, such as a property, instead of storing it."""
    for base in cls.__mro__:
        if name in vars(base):
            kind = type(vars(base)[name])
            return hasattr(kind, "__set__") or hasattr(kind, "__delete__")
    return False
