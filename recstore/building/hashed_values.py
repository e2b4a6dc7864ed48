"""Hashes of values for a fingerprint. Values of the same type and content (for dicts, also the same order) have equal
hashes in every process; different values have different hashes.

The hash covers the type of a value, then its size, then its content. This module reads data only and runs no method of
the program. The module fingerprints adds functions, classes and modules, and runs one kind of method: the `__getattr__`
of an object that reads attributes as items, such as EasyDict.
"""

from __future__ import annotations

import marshal
import sys
from _blake2 import blake2b
from types import SimpleNamespace

from recstore.text import an, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, NoReturn, TypeAlias

    _ListOrTuple: TypeAlias = "list[Any] | tuple[Any, ...]"
    # The name of a value: a str, or a pair of the container's Where and the key in the container.
    Where: TypeAlias = "str | tuple[Where, object]"

REMEDY = (
    '; give fingerprint="..." (a str that changes whenever the records would; files= adds the files that are read), or'
    " make or read the value within the function"
)
_TEXT = frozenset((type(None), bool, str, bytes, bytearray, type(...)))
_FLAT = frozenset((type(None), bool, int, float, str, bytes))
_SORTABLE = _FLAT - {float}  # NaNs cannot be sorted
_CHUNK = 1 << 16
_DEPTH = 50
MOST_BYTES = 256 << 20
MOST_VALUES = 1_000_000

# Types of the standard library whose pickled form contains their value and nothing else.
_BY_PICKLE = {
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "zoneinfo": ("ZoneInfo",),
    "decimal": ("Decimal",),
    "collections": ("OrderedDict", "deque", "defaultdict", "Counter"),
    "array": ("array",),
    "random": ("Random",),
    "operator": ("itemgetter", "attrgetter", "methodcaller"),
}
# Types whose repr contains the whole value.
_BY_REPR = {
    "numpy": ("ufunc",),
    "torch": ("dtype", "device", "Size"),
}
_ARRAYS = frozenset(("numpy.ndarray", "numpy.memmap"))
_TENSORS = frozenset(("torch.Tensor", "torch.nn.parameter.Parameter"))

# Builtin type -> function that returns the content of an instance of a subclass, without calling its methods.
_CONTENTS: dict[type, Callable[[Any], object]] = {
    list: lambda value: tuple(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: frozenset(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    complex: lambda value: complex(value.real, value.imag),
}


class Whole:
    """A value that counts as a whole."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class ValueHash:
    """Feeds values to a hash. `user` is the function or class being read, for messages."""

    def __init__(self, outer: ValueHash | None = None) -> None:
        self.hash = blake2b(digest_size=8)
        self.open: list[int] = []  # ids of the values that contain the current one
        # (id of a function or class, id of its bound object) -> (number, function or class, other arguments).
        self.known: dict[tuple[int, int], tuple[int, object, tuple[Any, ...]]] = {}
        self.pending: list[tuple[Any, ...]] = []  # the numbered functions and classes still to be read
        self.user = ""
        # How much a fingerprint may still read. It is limited because every process that calls `shared` computes it.
        self.budget = SimpleNamespace(bytes=MOST_BYTES, values=MOST_VALUES)
        if outer is not None:
            self.open, self.known, self.user, self.budget = outer.open, dict(outer.known), outer.user, outer.budget

    # ---- Bytes ----

    def put(self, kind: str, data: bytes = b"") -> None:
        self.hash.update(b"%s%d:" % (kind.encode(), len(data)))
        if data:
            self.hash.update(data)

    def text(self, kind: str, text: str) -> None:
        self.put(kind, text.encode("utf-8", "surrogatepass"))

    def spend(self, size: int, where: Where) -> None:
        self.budget.bytes -= size
        if self.budget.bytes < 0:
            self.refuse(where, f"takes the fingerprint past {size_text(MOST_BYTES)} of values")

    def refuse(self, where: Where, why: str) -> NoReturn:
        """Raises TypeError with the name of the value, the function that uses it, the reason and the remedy."""
        user = f", which {self.user} uses," if self.user else ""
        raise TypeError(f"no fingerprint can be derived: {spelled(where)}{user} {why}{REMEDY}")

    def digest(self) -> bytes:
        """The bytes of the finished hash."""
        return self.hash.digest()

    # ---- Values ----

    def add(self, value: Any, where: Where) -> None:
        """Feeds one value to the hash. Raises TypeError for a value that cannot be hashed; the message names it."""
        kind = type(value)
        self.budget.values -= 1
        if self.budget.values < 0:
            self.refuse(where, f"takes the fingerprint past {MOST_VALUES:,} values")
        if kind in _TEXT:
            text = repr(value)
            self.spend(len(text), where)
            self.text(kind.__name__, text)
        elif kind is int:
            text = hex(value)  # repr() raises ValueError for more than 4,300 digits
            self.spend(len(text), where)
            self.text("int", text)
        elif kind in (float, complex):
            self.text(kind.__name__, value.hex() if kind is float else f"{value.real.hex()} {value.imag.hex()}")
        elif id(value) in self.open:
            # A list may contain itself.
            self.put("within", b"%d" % self.open.index(id(value)))
        elif len(self.open) > _DEPTH:
            self.refuse(where, "nests too deeply")
        else:
            self.open.append(id(value))
            try:
                self.compound(value, kind, where)
            finally:
                self.open.pop()

    def many(self, kind: str, values: _ListOrTuple, where: Where) -> None:
        self.put(kind, b"%d" % len(values))
        if len(values) > 1 and _FLAT.issuperset(map(type, values)):
            # Version 2 of marshal's format does not record identities, so equal values give equal bytes.
            for i in range(0, len(values), _CHUNK):
                data = marshal.dumps(values[i : i + _CHUNK], 2)
                self.spend(len(data), where)
                self.put("flat", data)
            return
        for i, value in enumerate(values):
            self.add(value, (where, i))

    def compound(self, value: Any, kind: type, where: Where) -> None:
        if kind in (list, tuple):
            self.many(kind.__name__, value, where)
        elif kind is dict:
            self.items("dict", value, where)
        elif kind in (set, frozenset):
            self.members(kind.__name__, value, where)
        elif kind in (range, slice):
            self.many(kind.__name__, (value.start, value.stop, value.step), where)
        else:
            self.instance(value, kind, where)

    def items(self, kind: str, mapping: dict[Any, Any], where: Where) -> None:
        keys, values = list(dict.keys(mapping)), list(dict.values(mapping))
        self.many(f"{kind} keys", keys, (where, "keys"))
        self.put("values")
        if len(values) > 1 and _FLAT.issuperset(map(type, values)):
            self.many("flat values", values, where)
            return
        for key, value in zip(keys, values):
            self.add(value, (where, key))

    def members(self, kind: str, members: Collection[Any], where: Where) -> None:
        """Feeds a set. Its members or their hashes are sorted, because the order of a set differs between processes."""
        kinds = set(map(type, members))
        if _SORTABLE.issuperset(kinds):
            self.put(kind, b"%d" % len(members))
            for kind_ in sorted(kinds, key=lambda kind: kind.__name__):
                self.many(kind_.__name__, sorted(member for member in members if type(member) is kind_), where)
            return
        digests = []
        for member in members:
            part = type(self)(self)
            part.add(member, (where, "member"))
            digests.append(part.digest())
        self.put(kind, b"".join(sorted(digests)))

    # ---- Objects ----

    def instance(self, value: Any, kind: type, where: Where) -> None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        enum: Any = sys.modules.get("enum")  # another thread may still be importing enum or pathlib
        pathlib: Any = sys.modules.get("pathlib")
        # isinstance() would read the attribute `__class__`, which is a property of a lazy proxy.
        if hasattr(pathlib, "PurePath") and issubclass(kind, pathlib.PurePath):
            self.text(kind.__name__, pathlib.PurePath.__str__(value))
        elif hasattr(enum, "Flag") and issubclass(kind, enum.Enum):
            self.add(kind, where)
            self.text("member", str(attributes(value)["_name_"]))
            if issubclass(kind, enum.Flag):  # before Python 3.11 two flags together have no name
                self.add(attributes(value)["_value_"], where)
        elif kind.__qualname__ in _BY_PICKLE.get(kind.__module__, ()):
            _, arguments, *rest = value.__reduce_ex__(4)
            self.text("pickle", name)
            self.many("arguments", arguments, where)
            self.many(
                "rest", [part if part is None or type(part) in (dict, tuple) else list(part) for part in rest], where
            )
        elif kind.__module__ in ("typing", "types") and getattr(value, "__args__", None) is not None:
            # The repr of a type such as Annotated[int, x] may contain an address.
            origin = getattr(value, "__origin__", None)  # `int | str` has none
            self.many(name, (origin, value.__args__, getattr(value, "__metadata__", ())), where)
        elif kind.__qualname__ in _BY_REPR.get(kind.__module__, ()) or kind.__module__ == "typing":
            self.text(name, repr(value))
        elif name == "re.Pattern":
            self.many(name, (value.pattern, value.flags), where)
        elif name in ("types.SimpleNamespace", "builtins.mappingproxy"):
            content = vars(value) if name == "types.SimpleNamespace" else dict(value)
            self.items(name, content, where)
        elif name in ("logging.Logger", "logging.RootLogger"):
            self.text(name, value.name)
        elif name in _ARRAYS or kind.__module__ == "numpy" and hasattr(kind, "dtype") and hasattr(kind, "tobytes"):
            self.array(value, where)
        elif name in _TENSORS:
            self.tensor(value, where)
        elif kind.__module__.startswith("numpy.dtypes") or name == "numpy.dtype":
            self.text("dtype", repr(value))
        elif "_kind" in vars(kind) and kind.__module__.startswith("recstore.containers."):
            self.text("records", value.fingerprint)
        elif kind.__module__.partition(".")[0] == "recstore":
            self.refuse(where, f"is {an(kind.__name__)} of recstore, which has no record of its source")
        else:
            self.made_in_python(value, kind, where)

    def array(self, value: Any, where: Where) -> None:
        """Feeds a numpy array or scalar: type, shape and bytes."""
        if value.dtype.hasobject:
            self.refuse(where, "is an array of objects; a list of them can be hashed")
        if type(value).__name__ not in ("ndarray", "memmap") and value.shape:
            self.refuse(where, f"is {an(type(value).__name__)}")
        self.spend(value.nbytes, where)
        self.text("array", f"{value.dtype!r} {value.shape}")
        self.put("bytes", value.tobytes())

    def tensor(self, value: Any, where: Where) -> None:
        torch = sys.modules["torch"]
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized:
            self.refuse(where, f"is a tensor on {value.device}, not a plain CPU tensor; value.cpu() can be hashed")
        self.spend(value.numel() * value.element_size(), where)
        self.text("tensor", f"{value.dtype} {tuple(value.shape)}")
        data = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        self.put("bytes", data.view(torch.uint8).numpy().tobytes() if data.numel() else b"")

    def made_in_python(self, value: Any, kind: type, where: Where) -> None:
        """Feeds an instance of a class written in Python: its class, the content of the builtin type that it extends,
        and its attributes."""
        if kind is object:
            self.put("object")  # a marker such as _MISSING
            return
        if not all(written_in_python(cls) for cls in kind.__mro__):
            name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            self.refuse(where, f"is {an(name)}, whose value cannot be hashed")
        self.add(kind, where)
        if issubclass(kind, dict):
            self.items("dict", value, where)
        for base, content in _CONTENTS.items():
            if issubclass(kind, base):
                self.add(content(value), where)
        for name, attribute in sorted(attributes(value).items()):
            self.text("attribute", name)
            self.add(attribute, f"{spelled(where)}.{name}")


def spelled(where: Where) -> str:
    """The name of a value, for messages."""
    keys = []
    while isinstance(where, tuple):
        where, key = where
        # The repr of another type might run a method of the program.
        keys.append(f"[{key!r:.40}]" if type(key) in _TEXT or type(key) is int and key.bit_length() < 128 else "[...]")
    return where + "".join(reversed(keys))


_DICT_KINDS = ("getset_descriptor", "member_descriptor")


def attributes(value: object) -> dict[str, Any]:
    """The attributes of an instance, by name, from `__dict__` and slots."""
    out = {}
    for cls in type(value).__mro__:
        for name, slot in vars(cls).items():
            if type(slot).__name__ == "member_descriptor" and getattr(slot, "__objclass__", None) is cls:
                try:
                    out[name] = slot.__get__(value)
                except AttributeError:
                    continue  # never assigned
    for cls in type(value).__mro__:
        own = vars(cls).get("__dict__")  # in a class of lazy proxies this may be a property
        if own is not None and type(own).__name__ in _DICT_KINDS:
            out.update(own.__get__(value))
            break
    return out


_FROM_C = frozenset(("method_descriptor", "wrapper_descriptor", "classmethod_descriptor", "getset_descriptor"))


def written_in_python(cls: type) -> bool:
    """Whether instances of the class hold only attributes and the content of builtin types."""
    if cls is object or cls is dict or cls in _CONTENTS or cls.__module__ == "typing":
        return True
    if not cls.__flags__ & 1 << 9:  # Py_TPFLAGS_HEAPTYPE
        return False
    for name, member in vars(cls).items():
        kind = type(member).__name__
        if name == "__dict__" and kind not in _DICT_KINDS and cls.__dictoffset__:
            return False  # the class hides the real attributes
        if name == "__new__" and kind == "builtin_function_or_method":
            return False
        if kind in _FROM_C and name not in ("__dict__", "__weakref__") and member.__objclass__ is cls:
            return False
    return True
