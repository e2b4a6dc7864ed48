"""Key forms (the canonical forms of csrc/FORMAT.md, "Keys") of the less common dict keys. _core/read/keys.pyx has the
common ones, and imports this module when it meets the first other key.

A key has a form if all keys that are equal to it in Python have the same form. Keys whose class defines equality in its
own way are opaque: they have no form, and lookups find them by comparing.
"""

import sys

from recstore._core import native
from recstore._core.native import TAG_EXT, TAG_TUPLE
from recstore.values.ext_codes import (
    DATE,
    DATETIME,
    ELLIPSIS,
    ENUM,
    FRACTION,
    PATH,
    RANGE,
    SLICE,
    TIME,
    TIMEDELTA,
    TIMEZONE,
    UUID,
    ZONEINFO,
)

# A subclass that inherits __eq__ and __hash__ from one of these compares as its base does.
_BASES = (str, int, float, complex, bytes, tuple, frozenset)


def form(key, strict=False, depth=0):
    """The form of a key whose type _core/read/keys.pyx does not handle; None for an opaque key. `depth` counts the
    tuples and frozensets around it. With `strict`, a key that is stored as an object of its class or pickled is opaque
    too."""
    kind = type(key)
    numpy = sys.modules.get("numpy")
    if hasattr(numpy, "generic") and issubclass(kind, numpy.generic):  # it lacks it while another thread imports it
        return _numpy_form(key, numpy)
    if key is ...:
        return _ext(ELLIPSIS, _NONE, _NONE)
    make = _maker(kind)
    if make is not None:
        return make(key)
    enum = sys.modules.get("enum")
    is_member = hasattr(enum, "Enum") and issubclass(kind, enum.Enum)
    for base in _BASES:
        if issubclass(kind, base) and _compares_as(kind, base):
            # csrc/FORMAT.md defines forms for enums of str and int and for namedtuples. Other subclasses are opaque
            # where they are stored as such.
            known = base in (str, int) if is_member else base is tuple and type(getattr(kind, "_fields", None)) is tuple
            return native.key_form(_BARE[base](key), strict, depth) if known or not strict else None
    if is_member and _compares_as(kind, enum.Enum):
        return _enum_form(key)
    return None


def _maker(kind):
    """The function that makes the form of keys of a class of the standard library. None for other classes, even if
    they have the name of such a class."""
    module, name = kind.__module__, kind.__qualname__
    make = _FORMS.get((module, name)) if type(module) is str else None
    return make if make is not None and getattr(sys.modules.get(module), name, None) is kind else None


def _compares_as(kind, base):
    return kind.__eq__ is base.__eq__ and kind.__hash__ is base.__hash__


_BARE = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: lambda z: complex(z.real, z.imag),
    bytes: lambda b: bytes(memoryview(b)),
    tuple: lambda t: tuple.__getitem__(t, slice(None)),
    frozenset: lambda s: frozenset(frozenset.__iter__(s)),
}


def _plain(value):
    """The form of a value of built-in types."""
    return native.key_form(value)


def _ext(code, extra, payload):
    return bytes([TAG_EXT, code]) + extra + payload


_NONE = _plain(None)


def _row(*parts):
    """The form of a tuple, from the forms of its elements; None if one of these is None."""
    return None if None in parts else bytes([TAG_TUPLE, len(parts)]) + b"".join(parts)


def _wrap(code, payload):
    return None if payload is None else _ext(code, _NONE, payload)


def _number_form(key):
    """The form of a Decimal or Fraction: that of its exact value, because Python compares numbers of different types by
    value."""
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
    return _ext(FRACTION, _NONE, _plain(hash(key)))


def _big_exponent(key):
    """Whether a Decimal has too many digits to compute its ratio. Its form is then made of its hash, which is fast."""
    return key.is_finite() and not key.is_zero() and abs(key.adjusted()) > 5000


def _decimal_form(key):
    if key.is_nan():
        return None
    if _big_exponent(key):
        return _ext(FRACTION, _NONE, _plain(hash(key)))
    return _number_form(key)


def _numpy_form(key, numpy):
    if isinstance(key, numpy.bool_):
        return _plain(int(key))
    if isinstance(key, numpy.timedelta64):  # an integer to numpy
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


def _range_form(key):
    n = len(key) if -(2**63) < key.stop - key.start < 2**63 else max(0, -((key.start - key.stop) // key.step))
    return _ext(RANGE, _NONE, _plain((n, key.start if n else None, key.step if n > 1 else None)))


def _slice_form(key):
    return _wrap(SLICE, _plain((key.start, key.stop, key.step)))


def _microseconds(delta):
    return (delta.days * 86400 + delta.seconds) * 1000000 + delta.microseconds


_UTC = _ext(TIMEZONE, _NONE, _plain((0, None)))


def _clock_form(code, key, moment):
    """The form of a time or datetime. Aware ones are converted to offset 0, because zones do not count in equality."""
    offset = key.replace(fold=0).utcoffset()
    if offset is None:
        return _ext(code, _NONE, _row(_plain(moment), _plain(0), _NONE))
    return _ext(code, _NONE, _row(_plain(moment - _microseconds(offset)), _plain(0), _UTC))


def _time_form(key):
    return _clock_form(TIME, key, ((key.hour * 60 + key.minute) * 60 + key.second) * 1000000 + key.microsecond)


def _datetime_form(key):
    seconds = ((key.toordinal() - 1) * 24 + key.hour) * 3600 + key.minute * 60 + key.second
    return _clock_form(DATETIME, key, seconds * 1000000 + key.microsecond)


def _timezone_form(key):
    return _ext(TIMEZONE, _NONE, _plain((_microseconds(key.utcoffset(None)), None)))


def _zoneinfo_form(key):
    return None if key.key is None else _ext(ZONEINFO, _NONE, _plain(key.key))


def _path_form(key):
    text = str(key)
    if "Windows" not in type(key).__name__:
        return _ext(PATH, _plain("PurePosixPath"), _plain(text))
    return _ext(PATH, _plain("PureWindowsPath"), _plain(text.lower())) if text.isascii() else None


def _enum_form(key):
    kind, name = type(key), key.name
    single = name is not None and kind.__members__.get(name) is key
    return _ext(ENUM, _plain((kind.__module__, kind.__qualname__)), _plain(name if single else int(key.value)))


def _int_form(key):
    """The form of an int that is too large for a float."""
    return _ext(FRACTION, _NONE, _plain(hash(key)))


_FORMS = {
    ("builtins", "int"): _int_form,
    ("builtins", "range"): _range_form,
    ("builtins", "slice"): _slice_form,
    ("decimal", "Decimal"): _decimal_form,
    ("fractions", "Fraction"): _number_form,
    ("datetime", "date"): lambda key: _ext(DATE, _NONE, _plain(key.toordinal())),
    ("datetime", "time"): _time_form,
    ("datetime", "datetime"): _datetime_form,
    ("datetime", "timedelta"): lambda key: _ext(TIMEDELTA, _NONE, _plain(_microseconds(key))),
    ("datetime", "timezone"): _timezone_form,
    ("zoneinfo", "ZoneInfo"): _zoneinfo_form,
    ("uuid", "UUID"): lambda key: _ext(UUID, _NONE, _plain(key.bytes)),
}
for _module in ("pathlib", "pathlib._local"):  # Python 3.13 moved the classes to _local
    for _name in ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath"):
        _FORMS[_module, _name] = _path_form
