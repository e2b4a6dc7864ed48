"""Classes of stored values, in a module that other processes can import.

Reading a value must not run a constructor, so the constructors of some classes count their calls.
"""

import collections
import dataclasses
import enum
import functools
import typing

import attrs

constructor_calls = collections.Counter()


def counting(cls):
    """Makes the class's own constructors count their calls in `made`."""
    for name in ("__init__", "__post_init__", "__attrs_post_init__", "__setstate__"):
        inner = vars(cls).get(name)
        if inner is not None:

            @functools.wraps(inner)
            def outer(*args, _inner=inner, **kwargs):
                constructor_calls[cls.__name__] += 1
                return _inner(*args, **kwargs)

            setattr(cls, name, outer)
    return cls


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    BLUE = (1, 2)
    ROT = 1  # an alias


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):
    YES = "yes"
    NO = "no"


class Perm(enum.Flag):
    R = 4
    W = 2
    X = 1
    RW = 6


class IntPerm(enum.IntFlag):
    R = 4
    W = 2


Pair = collections.namedtuple("Pair", "left right")
Renamed = collections.namedtuple("Renamed", ["a", "def"], rename=True)


class Typed(typing.NamedTuple):
    x: int
    y: "list" = ()


class Subpair(Pair):
    """Has a __dict__, which is usually empty."""


@counting
@dataclasses.dataclass
class Plain:
    x: int
    y: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.extra = "not a field"


@counting
@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    y: object = None


@counting
@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    y: "Slotted" = None


@counting
@dataclasses.dataclass
class Child(Plain):
    z: object = None


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Unset:
    """Has a field that is never set."""

    a: int
    b: int = dataclasses.field(init=False)

    def __eq__(self, other):
        return self.a == other.a and hasattr(self, "b") == hasattr(other, "b")

    def __repr__(self):
        return f"Unset({self.a!r}{', b' if hasattr(self, 'b') else ''})"


@counting
@dataclasses.dataclass(kw_only=True)
class KwOnly:
    a: int
    b: int = 2
    c: typing.ClassVar[int] = 3
    d: dataclasses.InitVar[int] = 4


@dataclasses.dataclass
class Half:
    """Has a slot and a __dict__."""

    __slots__ = ("x", "__dict__")
    x: int


@dataclasses.dataclass
class WithProperty:
    """A test makes the field a property of the class; reading back must not run the property."""

    value: int


class Guarded(WithProperty):
    def __setattr__(self, name, value):
        if constructor_calls["guard"]:
            raise RuntimeError("__setattr__ was called")
        super().__setattr__(name, value)


@dataclasses.dataclass(eq=False)
class ByIdentity:
    x: int


@dataclasses.dataclass
class DictLike(dict):
    x: int = 1


@counting
@attrs.define
class Attrs:
    x: int
    y: list = attrs.Factory(list)


@counting
@attrs.define(slots=False)
class AttrsDict:
    x: int

    def __attrs_post_init__(self):
        self.more = 1


@attrs.frozen(cache_hash=True)
class AttrsHash:
    x: str


class Point:
    """For register(): attributes of any kind."""

    def __init__(self, x, y):
        constructor_calls["Point"] += 1
        self.x, self.y = x, y

    def __eq__(self, other):
        return type(other) is Point and vars(other) == vars(self)

    def __repr__(self):
        return f"Point({self.x!r}, {self.y!r})"

    __hash__ = None


class Base:
    __slots__ = ("a",)


class Private(Base):
    """Slots in a class and its base; one is private, one is not set."""

    __slots__ = ("__hidden", "unset", "__weakref__")

    def __init__(self, a, hidden):
        self.a, self.__hidden = a, hidden

    def __eq__(self, other):
        return (self.a, self.__hidden) == (other.a, other.__hidden)

    def __repr__(self):
        return f"Private({self.a!r}, {self.__hidden!r})"

    __hash__ = None


class Box:
    """For register() with a pair of functions."""

    def __init__(self, numbers):
        self.numbers = memoryview(bytes(numbers))

    def __eq__(self, other):
        return type(other) is Box and self.numbers == other.numbers

    def __hash__(self):
        return hash(bytes(self.numbers))

    def __repr__(self):
        return f"Box({list(self.numbers)})"


def pack(box):
    return {"n": bytes(box.numbers)}


def unpack(packed):
    return Box(packed["n"])


class Outer:
    @dataclasses.dataclass
    class Inner:
        x: int


def local_class():
    @dataclasses.dataclass
    class Local:
        x: int

    return Local


class Unlucky:
    """Counts how often it is unpickled."""

    def __reduce__(self):
        return _trace, ()


def _trace():
    constructor_calls["pickle"] += 1
    return "unpickled"


def open_from_handle(store):
    """The store opened again from its handle: its Reader has seen no classes, but `trust._seen` has them."""
    from recstore.shm import registry

    function, arguments = store.__reduce__()
    registry._attached.clear()
    return function(*arguments)


# ---- Functions for other processes ----


def look(reads, connection):
    """Sends the class name and the repr of record i of a store for each `(store, i)`, as this process reads it, or
    the error."""
    out = []
    for store, i in reads:
        try:
            value = store[i]
            out.append((f"{type(value).__module__}.{type(value).__qualname__}", repr(value)))
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    connection.send(out)
    connection.close()


def look_at_array(store, connection):
    """Sends whether record 0, an array, is writeable, its sum, and the number of exported arrays."""
    array = store[0]
    connection.send((array.flags.writeable, float(array.sum()), store.segment.exported))
    connection.close()
