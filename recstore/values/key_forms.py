"""Key forms (the canonical forms of csrc/FORMAT.md, "Keys") of the less common dict keys. _core/read/key_index.pyx has
the common ones, and imports this module for the first other key.

All keys that are equal in Python have the same form. A key whose class defines its own equality is opaque: it has no
form, and lookups find it by comparison.
"""

from __future__ import annotations

import sys

from recstore._core import native, trust
from recstore._core.native import TAG_EXT
from recstore.values import ext_codes as codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any

# A subclass that inherits __eq__ and __hash__ from one of these compares like its base.
_BASES = (str, int, float, complex, bytes, tuple, frozenset)


def form(key: Any, strict: bool = False, depth: int = 0) -> bytes | None:
    """The form of a key whose type _core/read/key_index.pyx does not handle; None for an opaque key. `depth` is the
    number of tuples and frozensets around it. With `strict`, a key that is stored as an object of its class or pickled
    is opaque too."""
    kind = type(key)
    numpy: Any = sys.modules.get("numpy")
    if hasattr(numpy, "generic") and issubclass(kind, numpy.generic):  # hasattr: another thread may be importing numpy
        return _numpy_form(key, numpy)
    if key is ...:
        return _ext(codes.ELLIPSIS, _NONE)
    make = _maker(kind)
    if make is not None:
        return make(key)
    enum: Any = sys.modules.get("enum")
    is_member = hasattr(enum, "Enum") and issubclass(kind, enum.Enum)
    for base in _BASES:
        if issubclass(kind, base) and _compares_as(kind, base):
            # csrc/FORMAT.md defines forms for enums of str and int and for namedtuples. With `strict`, other
            # subclasses are opaque.
            known = base in (str, int) if is_member else base is tuple and type(getattr(kind, "_fields", None)) is tuple
            return native.key_form(_AS_BASE[base](key), strict, depth) if known or not strict else None
    if is_member and _compares_as(kind, enum.Enum):
        return _enum_form(key)
    return None


def _maker(kind: type) -> Callable[[Any], bytes | None] | None:
    """The function for the keys of a class of the standard library; None for other classes, even of the same name."""
    module, name = kind.__module__, kind.__qualname__
    make = _FORMS.get((module, name)) if type(module) is str else None
    return make if make is not None and getattr(sys.modules.get(module), name, None) is kind else None


def _compares_as(kind: type, base: type) -> bool:
    return kind.__eq__ is base.__eq__ and kind.__hash__ is base.__hash__


_AS_BASE: dict[type, Callable[[Any], object]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: lambda z: complex(z.real, z.imag),
    bytes: lambda b: bytes(memoryview(b)),
    tuple: lambda t: tuple.__getitem__(t, slice(None)),
    frozenset: lambda s: frozenset(frozenset.__iter__(s)),
}


_plain = native.key_form  # for built-in types
_NONE = _plain(None)


def _ext(code: int, payload: bytes | None, extra: bytes | None = _NONE) -> bytes | None:
    """The form of an ext value, from the forms of its payload and its EXTRA; None if one of these is None."""
    return None if payload is None or extra is None else bytes([TAG_EXT, code]) + extra + payload


def _number_form(key: Any) -> bytes | None:
    """The form of a Decimal or Fraction: the form of its exact value, because Python compares numbers of different
    types by value."""
    try:
        top, bottom = key.as_integer_ratio()
    except OverflowError:  # infinite
        return _plain(float(key))
    except ValueError:  # NaN
        return None
    if bottom == 1 and abs(top) < 1 << 1024:
        return _plain(top)
    try:
        near = top / bottom
    except OverflowError:
        near = None
    if near is not None and bottom != 1 and near.as_integer_ratio() == (top, bottom):
        return _plain(near)
    return _ext(codes.FRACTION, _plain(hash(key)))


def _big_exponent(key: Any) -> bool:
    """Whether the exponent of a Decimal is too large to compute its ratio quickly. Its form is then its hash."""
    return key.is_finite() and not key.is_zero() and abs(key.adjusted()) > 5000


def _decimal_form(key: Any) -> bytes | None:
    if key.is_nan():
        return None
    if _big_exponent(key):
        return _ext(codes.FRACTION, _plain(hash(key)))
    return _number_form(key)


def _numpy_form(key: Any, numpy: Any) -> bytes | None:
    if isinstance(key, numpy.bool_):
        return _plain(int(key))
    if isinstance(key, numpy.timedelta64):  # a subclass of numpy.integer
        return None
    if isinstance(key, numpy.integer):
        return _plain(int(key))
    if isinstance(key, numpy.longdouble):
        return _plain(float(key)) if float(key) == key else None
    if isinstance(key, numpy.floating):
        return _plain(float(key))
    if isinstance(key, numpy.clongdouble):
        return _plain(complex(key)) if complex(key) == key else None
    if isinstance(key, numpy.complexfloating):
        return _plain(complex(key))
    if isinstance(key, numpy.str_):
        return _plain(str.__str__(key))
    if isinstance(key, numpy.bytes_):
        return _plain(bytes(memoryview(key)))
    return None


def _range_form(key: Any) -> bytes | None:
    n = len(key) if -(2**63) < key.stop - key.start < 2**63 else max(0, -((key.start - key.stop) // key.step))
    return _ext(codes.RANGE, _plain((n, key.start if n else None, key.step if n > 1 else None)))


def _slice_form(key: Any) -> bytes | None:
    return _ext(codes.SLICE, _plain((key.start, key.stop, key.step)))


def _microseconds(delta: timedelta) -> int:
    return (delta.days * 86400 + delta.seconds) * 1000000 + delta.microseconds


def _clock_form(code: int, key: Any, moment: int) -> bytes | None:
    """The form of a time or datetime, converted to UTC if it is aware, because equality ignores zones."""
    offset = key.replace(fold=0).utcoffset()
    if offset is None:
        return _ext(code, _plain((moment, 0, None)))
    return _ext(code, _plain((moment - _microseconds(offset), 0, sys.modules["datetime"].timezone.utc)))


def _time_form(key: Any) -> bytes | None:
    return _clock_form(codes.TIME, key, ((key.hour * 60 + key.minute) * 60 + key.second) * 1000000 + key.microsecond)


def _datetime_form(key: Any) -> bytes | None:
    seconds = ((key.toordinal() - 1) * 24 + key.hour) * 3600 + key.minute * 60 + key.second
    return _clock_form(codes.DATETIME, key, seconds * 1000000 + key.microsecond)


def _timezone_form(key: Any) -> bytes | None:
    return _ext(codes.TIMEZONE, _plain((_microseconds(key.utcoffset(None)), None)))


def _zoneinfo_form(key: Any) -> bytes | None:
    return None if key.key is None else _ext(codes.ZONEINFO, _plain(key.key))


def _path_form(key: Any) -> bytes | None:
    text = str(key)
    if "Windows" not in type(key).__name__:
        return _ext(codes.PATH, _plain(text), _plain("PurePosixPath"))
    return _ext(codes.PATH, _plain(text.lower()), _plain("PureWindowsPath")) if text.isascii() else None


def _enum_form(key: Any) -> bytes | None:
    kind, name = type(key), key.name
    single = name is not None and kind.__members__.get(name) is key
    payload = _plain(name if single else int(key.value))
    return _ext(codes.ENUM, payload, _plain(trust.name_of(kind)))


def _int_form(key: Any) -> bytes | None:
    """The form of an int that is too large for a float."""
    return _ext(codes.FRACTION, _plain(hash(key)))


_FORMS = {
    ("builtins", "int"): _int_form,
    ("builtins", "range"): _range_form,
    ("builtins", "slice"): _slice_form,
    ("decimal", "Decimal"): _decimal_form,
    ("fractions", "Fraction"): _number_form,
    ("datetime", "date"): lambda key: _ext(codes.DATE, _plain(key.toordinal())),
    ("datetime", "time"): _time_form,
    ("datetime", "datetime"): _datetime_form,
    ("datetime", "timedelta"): lambda key: _ext(codes.TIMEDELTA, _plain(_microseconds(key))),
    ("datetime", "timezone"): _timezone_form,
    ("zoneinfo", "ZoneInfo"): _zoneinfo_form,
    ("uuid", "UUID"): lambda key: _ext(codes.UUID, _plain(key.bytes)),
}
for _module in ("pathlib", "pathlib._local"):  # Python 3.13 moved the classes to _local
    for _name in ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath"):
        _FORMS[_module, _name] = _path_form
