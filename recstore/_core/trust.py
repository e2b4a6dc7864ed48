"""Trust: how the bytes of a store are read, and what its builder has seen.

Bytes that this process or the sender of a handle wrote are trusted. Bytes reached by a path are not: there a class is
found only if it was given or registered, and nothing that stands in the bytes is imported or unpickled.
"""

import sys
from _weakref import ref

from recstore.errors import EncodeError, Error

registered = {}  # (module, qualname) -> (class, encode, decode), filled by values.classes.register
_seen = {}  # (module, qualname) -> weak reference to the class last stored under this name


def name_of(cls):
    """`(module, qualname)` of a class."""
    return cls.__module__, cls.__qualname__


class Writer:
    """What encoding needs and learns beyond the bytes: one for each builder."""

    __slots__ = ("pickled", "arrays", "seen", "foreign")

    def __init__(self, pickled=False, arrays="copy"):
        self.pickled = pickled  # whether what cannot be stored is pickled
        self.arrays = arrays
        self.seen = None  # (module, qualname) -> class
        self.foreign = False  # whether a Record was stored: its class must not be imported when it is read back

    def note(self, name, cls):
        """Remembers the class of a value. EncodeError when another one of this name was seen: readers could not
        tell."""
        if self.seen is None:
            self.seen = {}
        known = self.seen.get(name)
        if known is cls:
            return
        if known is not None:
            raise EncodeError(f"two classes are named {'.'.join(name)}; give one of them another __qualname__")
        self.seen[name] = cls
        _seen[name] = ref(cls)

    def reader(self):
        """How the finished store is read in this process; None for the defaults."""
        if self.foreign:
            # A name from a file must not be imported, also not by the workers that get a handle.
            return Reader(False, True, self.arrays, classes=self.seen or {}, pickles=self.pickled)
        if self.seen is None and self.arrays == "copy" and not self.pickled:
            return None
        return Reader(arrays=self.arrays, seen=self.seen, pickles=self.pickled)


class Reader:
    """How a segment is read. Immutable once a segment has it.

    Attributes: ``trusted``; ``allow_pickle`` (for untrusted bytes); ``arrays`` ("copy" or "view"); ``classes``, those
    given by the caller, by name; ``seen``, those that this process stored; ``checking``: values of classes are not made
    at all, for the deep check; ``pickles``: what a store beside this one cannot store, as ``x + records`` makes one, is
    pickled.
    """

    __slots__ = ("trusted", "allow_pickle", "arrays", "classes", "seen", "checking", "pickles")

    def __init__(
        self, trusted=True, allow_pickle=False, arrays="copy", classes=None, seen=None, checking=False, pickles=False
    ):
        self.trusted = trusted
        self.allow_pickle = trusted or allow_pickle
        self.arrays = arrays
        self.classes = classes or {}
        self.seen = seen or {}
        self.checking = checking
        self.pickles = pickles

    def key(self):
        """Two readers with equal keys read alike; None for the defaults."""
        if self.trusted and self.arrays == "copy" and not self.pickles:
            return None
        return self.trusted, self.allow_pickle, self.arrays, self.pickles, frozenset(self.classes.items())

    def find(self, module, qualname):
        """The class of this name; None where the bytes are not trusted and nobody allowed one.

        Raises Error where it ought to be had and cannot.
        """
        name = module, qualname
        cls = self.classes.get(name) or self.seen.get(name)
        if cls is None and name in registered:
            cls = registered[name][0]
        if cls is not None or not self.trusted:
            return cls
        known = _seen.get(name)
        cls = known and known()
        return cls if cls is not None else _load(module, qualname)


CHECKING = Reader(trusted=False, checking=True)


def _load(module, qualname):
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
        raise Error(f"cannot load class {full}: it is a {type(found).__name__}")
    return found


def given(classes):
    """The classes that a caller allows, by name: from an iterable of them, or a mapping from full names to them."""
    out = {}
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


def _splits(full):
    """Every `(module, qualname)` that reads as `full`."""
    parts = full.split(".")
    return [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
