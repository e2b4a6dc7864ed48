"""Which bytes are trusted, and which classes they may name.

Bytes that this process or the sender of a handle wrote are trusted. Bytes reached by a path are not: a class in them is
found only if the caller passed or registered it. No module named in them is imported, and no pickle in them is loaded
unless the caller allows it.
"""

from __future__ import annotations

import sys
from _weakref import ref

from recstore.errors import EncodeError, Error, UntrustedError
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias

    ClassName: TypeAlias = tuple[str, str]  # (module, qualname)
    _Function: TypeAlias = Callable[[Any], Any]
    Registration: TypeAlias = tuple[type, _Function | None, _Function | None]  # class, encode, decode
    ReadingKey: TypeAlias = tuple[bool, bool, str, bool, frozenset[tuple[ClassName, type]]]

registered: dict[ClassName, Registration] = {}  # filled by values.classes.register
_seen: dict[ClassName, ref[type]] = {}  # weak reference to the class last stored under this name


def name_of(cls: type) -> ClassName:
    """`(module, qualname)` of a class."""
    return main_name(cls.__module__), cls.__qualname__


def unregistered(names: Iterable[ClassName]) -> str:
    """The error message for unregistered classes: other processes never import a class that a cache names."""
    return (
        f"a cache holds objects of registered classes only: call recstore.register() for "
        f"{' and '.join(map('.'.join, names))} in a module that every process imports"
    )


def main_name(module: str) -> str:
    """The name of a module in the process that started this one: a spawned process imports the main module as
    `__mp_main__`, and both must find the classes that the other one stores."""
    return "__main__" if module == "__mp_main__" else module


class Writer:
    """The encoding options of one builder, and the classes of the values that it has stored."""

    __slots__ = (
        "pickled",
        "arrays",
        "narrows",
        "seen",
        "foreign",
        "plain",
        "refuses",
        "offers_pickle",
        "registered_only",
    )

    def __init__(
        self,
        pickled: bool = False,
        arrays: str = "copy",
        plain: Callable[[Any], Any] | None = None,
        offers_pickle: bool = True,
        registered_only: bool = False,
    ) -> None:
        self.pickled = pickled  # whether unsupported values are pickled
        self.offers_pickle = offers_pickle  # whether the caller has the option to pickle
        self.registered_only = registered_only  # whether classes that are not registered are refused
        self.arrays = arrays
        self.narrows = arrays == "copy"  # whether integers of arrays are stored in fewer bits
        self.seen: dict[ClassName, type] | None = None
        self.plain = plain  # returns `(code, EXTRA, payload)` to store in place of a value, or None; see encode.pyx
        self.foreign = False  # whether a Record of a class was stored: reading it must not import that class
        # Returns the reason why a value must not be stored, or None. Not called for values of basic types.
        self.refuses: Callable[[Any], str | None] | None = None

    def note(self, name: ClassName, cls: type) -> bool:
        """Remembers the class of a value. Returns false if the class must be registered and is not. Raises EncodeError
        if another class of the same name was stored, because readers cannot distinguish the two."""
        if self.registered_only and name not in registered:
            return False
        if self.seen is None:
            self.seen = {}
        known = self.seen.get(name)
        if known is None:
            self.seen[name] = cls
            _seen[name] = ref(cls)
        elif known is not cls:
            raise EncodeError(f"two classes are named {'.'.join(name)}; give one of them another __qualname__")
        return True

    def reader(self) -> Reader | None:
        """The Reader of this process for the finished store; None for the defaults."""
        if self.foreign:
            # A class name from a file must not be imported, not even by workers that receive a handle.
            return Reader(False, True, self.arrays, classes=self.seen or {}, pickles=self.pickled)
        if self.seen is None and self.arrays == "copy" and not self.pickled:
            return None
        return Reader(arrays=self.arrays, seen=self.seen, pickles=self.pickled)


class Reader:
    """How a segment is read. Immutable once a segment uses it.

    Attributes:
        trusted: whether the bytes are trusted.
        allow_pickle: whether pickled values are loaded; true for trusted bytes.
        arrays: "copy" or "view".
        classes: {(module, qualname): class} from the caller.
        seen: {(module, qualname): class} that this process stored in the segment.
        checking: whether the reader is for the deep check, which makes no objects of classes.
        pickles: whether the store was built with on_unsupported="pickle"; ``x + records`` then pickles too.
        requires: whether a class that is not found raises an error instead of becoming a Record.
        verbatim: whether objects of classes, tensors and pickled values become Records, which store the same bytes
            again without running code of a class.
    """

    __slots__ = ("trusted", "allow_pickle", "arrays", "classes", "seen", "checking", "pickles", "requires", "verbatim")

    def __init__(
        self,
        trusted: bool = True,
        allow_pickle: bool = False,
        arrays: str = "copy",
        classes: Mapping[ClassName, type] | None = None,
        seen: Mapping[ClassName, type] | None = None,
        checking: bool = False,
        pickles: bool = False,
        requires: bool = False,
        verbatim: bool = False,
    ) -> None:
        self.trusted = trusted
        self.allow_pickle = trusted or allow_pickle
        self.arrays = arrays
        self.classes = classes or {}
        self.seen = seen or {}
        self.checking = checking
        self.pickles = pickles
        self.requires = requires
        self.verbatim = verbatim

    def key(self) -> ReadingKey | None:
        """A value that is equal for Readers with equal options; None for the defaults."""
        if self.trusted and self.arrays == "copy" and not self.pickles:
            return None
        return self.trusted, self.allow_pickle, self.arrays, self.pickles, frozenset(self.classes.items())

    def find(self, module: str, qualname: str) -> type | None:
        """The class of this name. For bytes that are not trusted, None unless the class is in `classes` or registered.

        Raises Error if the bytes are trusted and the class cannot be imported, and UntrustedError if `requires` is set
        and the class is not in `classes`, `seen` or registered.
        """
        if self.verbatim:
            return None
        name = main_name(module), qualname
        cls = self.classes.get(name) or self.seen.get(name)
        if cls is None and name in registered:
            cls = registered[name][0]
        if cls is None and self.requires:
            raise UntrustedError(
                f"the class {'.'.join(name)} is not registered in this process: call recstore.register() for it in a "
                "module that every process imports"
            )
        if cls is not None or not self.trusted:
            return cls
        known = _seen.get(name)
        cls = known() if known is not None else None
        return cls if cls is not None else _load(module, qualname)


CHECKING = Reader(trusted=False, checking=True)
VERBATIM = Reader(trusted=False, verbatim=True)


def _load(module: str, qualname: str) -> type:
    full = f"{module}.{qualname}"
    value = sys.modules.get(module)
    try:
        if value is None:
            import importlib

            value = importlib.import_module(module)
        for part in qualname.split("."):
            value = getattr(value, part)
    except Exception as e:
        hint = "; other processes find only classes at the top of a module" if "<locals>" in qualname else ""
        raise Error(f"cannot load class {full}: {type(e).__name__}: {e}{hint}") from None
    if not isinstance(value, type):
        raise Error(f"cannot load class {full}: it is {an(type(value).__name__)}")
    return value


def class_table(classes: Any) -> dict[ClassName, type]:
    """`{(module, qualname): class}` for the argument `classes` of a reader: an iterable of classes, or a mapping of
    full names to classes. Raises TypeError for anything else."""
    out: dict[ClassName, type] = {}
    if hasattr(classes, "keys"):
        for full in classes.keys():
            if not isinstance(full, str) or not isinstance(classes[full], type):
                raise TypeError(f"classes maps full names to classes, not {full!r:.80} to {classes[full]!r:.80}")
            for name in _splits(full):
                out[name] = classes[full]
        return out
    for cls in classes:
        if not isinstance(cls, type):
            raise TypeError(f"classes holds classes, not {cls!r:.80}")
        out[name_of(cls)] = cls
    return out


def _splits(full: str) -> list[ClassName]:
    """Every `(module, qualname)` whose full name is `full`."""
    parts = full.split(".")
    return [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
