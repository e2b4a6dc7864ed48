"""Which bytes are trusted, and which classes they may name.

Bytes that this process or the sender of a handle wrote are trusted. Bytes that were reached by a path are not: a class
in them is found only if the caller gave it or it is registered. No module named in them is imported, and no pickle in
them is loaded unless the caller allows it.
"""

from __future__ import annotations

import sys
from _weakref import ref

from recstore.errors import EncodeError, Error
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    ClassName: TypeAlias = tuple[str, str]  # (module, qualname)
    _Function: TypeAlias = Callable[[Any], Any]
    Registration: TypeAlias = tuple[type, _Function | None, _Function | None]  # class, encode, decode
    ReadingKey: TypeAlias = tuple[bool, bool, str, bool, frozenset[tuple[ClassName, type]]]

registered: dict[ClassName, Registration] = {}  # filled by values.classes.register
_seen: dict[ClassName, ref[type]] = {}  # weak reference to the class last stored under this name


def name_of(cls: type) -> ClassName:
    """`(module, qualname)` of a class."""
    return cls.__module__, cls.__qualname__


class Writer:
    """The options of encoding, and the classes that it meets. One for each builder."""

    __slots__ = ("pickled", "arrays", "narrows", "seen", "foreign", "plain", "refuses")

    def __init__(self, pickled: bool = False, arrays: str = "copy", plain: Callable[[Any], Any] | None = None) -> None:
        self.pickled = pickled  # whether unsupported values are pickled
        self.arrays = arrays
        self.narrows = arrays == "copy"  # whether integers of arrays are stored in fewer bits; no array is a view then
        self.seen: dict[ClassName, type] | None = None
        self.plain = plain  # a function that gives values another form than that of a store, as encode.pyx calls it
        self.foreign = False  # whether a Record of a class was stored: reading it must not import that class
        # Gives the reason why a value of another than a basic type must stay.
        self.refuses: Callable[[Any], str | None] | None = None

    def note(self, name: ClassName, cls: type) -> None:
        """Remembers the class of a value. EncodeError if another class of the same name was stored: readers could not
        tell the two apart."""
        if self.seen is None:
            self.seen = {}
        known = self.seen.get(name)
        if known is cls:
            return
        if known is not None:
            raise EncodeError(f"two classes are named {'.'.join(name)}; give one of them another __qualname__")
        self.seen[name] = cls
        _seen[name] = ref(cls)

    def reader(self) -> Reader | None:
        """The Reader of this process for the finished store; None for the defaults."""
        if self.foreign:
            # A class name from a file must not be imported, not even by workers that get a handle.
            return Reader(False, True, self.arrays, classes=self.seen or {}, pickles=self.pickled)
        if self.seen is None and self.arrays == "copy" and not self.pickled:
            return None
        return Reader(arrays=self.arrays, seen=self.seen, pickles=self.pickled)


class Reader:
    """How a segment is read. Nobody changes a Reader that a segment has.

    Attributes:
        trusted: whether the bytes are trusted.
        allow_pickle: whether pickled values are loaded; true for trusted bytes unless it is changed.
        arrays: "copy" or "view".
        classes: {(module, qualname): class} that the caller gave.
        seen: {(module, qualname): class} that this process stored in the segment.
        checking: for the deep check, which makes no objects of classes.
        pickles: whether the store was built with on_unsupported="pickle"; ``x + records`` builds another one so.
    """

    __slots__ = ("trusted", "allow_pickle", "arrays", "classes", "seen", "checking", "pickles")

    def __init__(
        self,
        trusted: bool = True,
        allow_pickle: bool = False,
        arrays: str = "copy",
        classes: Mapping[ClassName, type] | None = None,
        seen: Mapping[ClassName, type] | None = None,
        checking: bool = False,
        pickles: bool = False,
    ) -> None:
        self.trusted = trusted
        self.allow_pickle = trusted or allow_pickle
        self.arrays = arrays
        self.classes = classes or {}
        self.seen = seen or {}
        self.checking = checking
        self.pickles = pickles

    def key(self) -> ReadingKey | None:
        """A value that is equal for Readers that read in the same way; None for the defaults."""
        if self.trusted and self.arrays == "copy" and not self.pickles:
            return None
        return self.trusted, self.allow_pickle, self.arrays, self.pickles, frozenset(self.classes.items())

    def find(self, module: str, qualname: str) -> type | None:
        """The class of this name; None if the bytes are not trusted and the class is neither given nor registered.

        Raises Error if the bytes are trusted and the class cannot be imported.
        """
        name = module, qualname
        cls = self.classes.get(name) or self.seen.get(name)
        if cls is None and name in registered:
            cls = registered[name][0]
        if cls is not None or not self.trusted:
            return cls
        known = _seen.get(name)
        cls = known() if known is not None else None
        return cls if cls is not None else _load(module, qualname)


CHECKING = Reader(trusted=False, checking=True)


def _load(module: str, qualname: str) -> type:
    full = f"{module}.{qualname}"
    found = sys.modules.get(module)
    try:
        if found is None:
            import importlib

            found = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except Exception as e:
        hint = "; only classes at the top of a module can be found by other processes" if "<locals>" in qualname else ""
        raise Error(f"cannot load class {full}: {type(e).__name__}: {e}{hint}") from None
    if not isinstance(found, type):
        raise Error(f"cannot load class {full}: it is {an(type(found).__name__)}")
    return found


def given(classes: Any) -> dict[ClassName, type]:
    """`{(module, qualname): class}` for the argument `classes` of a reader: an iterable of classes, or a mapping of
    full names to classes. TypeError for others."""
    out: dict[ClassName, type] = {}
    if hasattr(classes, "keys"):
        for full in classes.keys():
            if not isinstance(full, str) or not isinstance(classes[full], type):
                raise TypeError(f"classes maps full names to classes, not {full!r:.80} to {classes[full]!r:.80}")
            out.update(dict.fromkeys(_splits(full), classes[full]))
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
