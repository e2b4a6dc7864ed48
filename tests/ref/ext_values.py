"""Ext values of csrc/FORMAT.md. `make` builds a Python value from code, EXTRA and payload; `ext_of` is its inverse.

Codes 23 to 28 are classes and pickles, which this reader does not load; code 29 is a tensor, code 31 a line of a text
file. These values stay an `Ext`.
"""

import collections
import datetime
import decimal
import fractions
import math
import pathlib
import uuid
import zoneinfo
from dataclasses import dataclass

import numpy as np

(COMPLEX, BYTEARRAY, SET, FROZENSET, RANGE, SLICE, ELLIPSIS, ORDEREDDICT, COUNTER, DEFAULTDICT, CHAINMAP, DEQUE, DATE, TIME,
 DATETIME, TIMEDELTA, TIMEZONE, ZONEINFO, DECIMAL, FRACTION, UUID, PATH, ENUM, NAMEDTUPLE, DATACLASS, ATTRS, OBJECT, PICKLED,
 TENSOR, STRINGDTYPE, LINE) = range(1, 32)  # fmt: skip
FACTORIES = {
    t.__name__: t for t in (list, int, dict, set, str, float, bool, tuple, bytes, frozenset, complex, bytearray)
}
PATHS = {"PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath"}
SECOND, DAY = 10**6, 86400 * 10**6
MICRO = datetime.timedelta(microseconds=1)
FIRST = datetime.datetime(1, 1, 1)
STRING_ARRAYS = hasattr(getattr(np, "dtypes", None), "StringDType")


@dataclass(frozen=True)
class Ext:
    """An ext value without a Python value: its code, EXTRA and payload."""

    code: int
    extra: object
    payload: object


# ---- reading ---------------------------------------------------------------------------------------------------------


def want(ok, text):
    if not ok:
        raise ValueError(text)


def typed(value, *types):
    """Returns the value, whose exact type must be in `types`."""
    want(type(value) in types, f"{type(value).__name__} in place of {types}")
    return value


def fields(payload, *types):
    """The payload, which must be a tuple with one element of each of `types`; `object` allows any."""
    want(type(payload) is tuple and len(payload) == len(types), f"not a tuple of {len(types)}")
    want(all(t is object or type(item) is t for item, t in zip(payload, types)), f"not a tuple of {types}")
    return payload


def unique(kind, items):
    result = kind(items)
    want(len(result) == len(items), "equal elements")
    return result


def chain_map(maps):
    return collections.ChainMap(*typed(maps, list))


def default_dict(extra, payload):
    want(extra is None or extra in FACTORIES, "factory")
    return collections.defaultdict(FACTORIES.get(extra), typed(payload, dict))


def bounded_deque(extra, payload):
    want(extra is None or len(payload) <= extra, "longer than maxlen")
    return collections.deque(typed(payload, list), extra)


def zone(tz):
    want(tz is None or type(tz) in (datetime.timezone, zoneinfo.ZoneInfo), "tz of another type")
    return tz


def clock(payload):
    us, fold, tz = fields(payload, int, int, object)
    want(0 <= us < DAY, "not within a day")
    return (FIRST + us * MICRO).time().replace(fold=fold, tzinfo=zone(tz))


def moment(payload):
    us, fold, tz = fields(payload, int, int, object)
    want(us >= 0, "before the first year")
    return (FIRST + us * MICRO).replace(fold=fold, tzinfo=zone(tz))


def time_zone(payload):
    us, name = payload if type(payload) is tuple and len(payload) == 2 else (None, None)
    want(type(us) is int and (name is None or type(name) is str), "not a timezone")
    return datetime.timezone(us * MICRO, *([] if name is None else [name]))


def number(payload):
    value = decimal.Decimal(typed(payload, str))
    want(str(value) == payload, "a Decimal written in another way")
    return value


def fraction(payload):
    value = fractions.Fraction(*fields(payload, int, int))
    want((value.numerator, value.denominator) == payload, "not in lowest terms")
    return value


def path(extra, payload):
    want(extra in PATHS, "path class")
    return getattr(pathlib, extra)(typed(payload, str))


def string_array(payload):
    shape, strings = fields(payload, tuple, list)
    want(all(type(n) is int and n >= 0 for n in shape) and math.prod(shape) == len(strings), "shape")
    want(all(type(s) is str for s in strings), "not all str")
    return np.array(strings, np.dtypes.StringDType()).reshape(shape)


MAKERS = {
    COMPLEX: lambda p: complex(*fields(p, float, float)),
    BYTEARRAY: lambda p: bytearray(typed(p, bytes)),
    SET: lambda p: unique(set, typed(p, list)),
    FROZENSET: lambda p: unique(frozenset, typed(p, tuple)),
    RANGE: lambda p: range(*fields(p, int, int, int)),
    SLICE: lambda p: slice(*fields(p, object, object, object)),
    ELLIPSIS: lambda p: want(p is None, "payload") or Ellipsis,
    ORDEREDDICT: lambda p: collections.OrderedDict(typed(p, dict)),
    COUNTER: lambda p: collections.Counter(typed(p, dict)),
    CHAINMAP: chain_map,
    DATE: lambda p: datetime.date.fromordinal(typed(p, int)),
    TIME: clock,
    DATETIME: moment,
    TIMEDELTA: lambda p: datetime.timedelta(microseconds=typed(p, int)),
    TIMEZONE: time_zone,
    ZONEINFO: lambda p: zoneinfo.ZoneInfo(typed(p, str)),
    DECIMAL: number,
    FRACTION: fraction,
    UUID: lambda p: uuid.UUID(bytes=typed(p, bytes)),
    STRINGDTYPE: string_array,
}


def check_extra(code, extra, payload):
    """Checks a value that stays an Ext. EXTRA of a class is its module and qualname and, except for an enum, the field
    names."""
    if code == PICKLED:
        return want(extra is None, "EXTRA") or typed(payload, bytes)
    if code == TENSOR:
        typed(extra, str, type(None))
        return typed(payload, np.ndarray)
    if code == LINE:
        want(type(extra) is tuple and len(extra) == 6 and extra[0] in ("json", "text", "csv"), "format")
        arguments = fields(extra[1:], str, int, int, int, tuple)[4]
        if extra[0] == "csv":
            check_csv(*fields(arguments, str, object, str, int, str, tuple, int, tuple))
        return want(0 <= typed(payload, int) < extra[2], "not within the file")
    if code == ENUM:
        return fields(extra, str, str) and typed(payload, str, int)
    names = fields(extra, str, str, tuple)[2]
    want(all(type(name) is str for name in names) and len(set(names)) == len(names), "names")
    return want(len(typed(payload, tuple)) == len(names), "fields")


def check_csv(delimiter, quote, empty, begin, missing, nulls, width, columns):
    marks = [delimiter] if quote is None else [delimiter, quote]
    want(all(type(c) is str and len(c) == 1 and 0 < ord(c) < 128 and c not in "\r\n" for c in marks), "characters")
    want(empty in ("keep", "skip") and missing in ("none", "absent") and begin >= 0, "arguments")
    want(all(type(text) is str for text in nulls), "nulls")
    for column in columns:
        _, cell, kind = fields(column, str, int, str)
        want(0 <= cell < width and kind in ("bool", "int64", "uint64", "float64", "string"), "columns")


def make(code, extra, payload):
    """Returns the Python value, or an Ext for codes 23 to 29 and 31. If Python cannot build the value, raises Python's error:
    ValueError, TypeError, OverflowError and others."""
    if ENUM <= code <= TENSOR or code == LINE:
        check_extra(code, extra, payload)
        return Ext(code, extra, payload)
    if code in (DEFAULTDICT, DEQUE, PATH):
        return {DEFAULTDICT: default_dict, DEQUE: bounded_deque, PATH: path}[code](extra, payload)
    want(extra is None, "EXTRA")
    return MAKERS[code](payload)


# ---- writing ---------------------------------------------------------------------------------------------------------


def time_parts(value):
    us = ((value.hour * 60 + value.minute) * 60 + value.second) * SECOND + value.microsecond
    return None, (us, value.fold, value.tzinfo)


def zone_parts(value):
    offset, *name = value.__getinitargs__()
    return None, (offset // MICRO, name[0] if name else None)


KINDS = {  # type: (code, function that returns (EXTRA, payload))
    complex: (COMPLEX, lambda v: (None, (v.real, v.imag))),
    bytearray: (BYTEARRAY, lambda v: (None, bytes(v))),
    set: (SET, lambda v: (None, list(v))),
    frozenset: (FROZENSET, lambda v: (None, tuple(v))),
    range: (RANGE, lambda v: (None, (v.start, v.stop, v.step))),
    slice: (SLICE, lambda v: (None, (v.start, v.stop, v.step))),
    type(...): (ELLIPSIS, lambda v: (None, None)),
    collections.OrderedDict: (ORDEREDDICT, lambda v: (None, dict(v))),
    collections.Counter: (COUNTER, lambda v: (None, dict(v))),
    collections.defaultdict: (DEFAULTDICT, lambda v: (v.default_factory and v.default_factory.__name__, dict(v))),
    collections.ChainMap: (CHAINMAP, lambda v: (None, list(v.maps))),
    collections.deque: (DEQUE, lambda v: (v.maxlen, list(v))),
    datetime.date: (DATE, lambda v: (None, v.toordinal())),
    datetime.time: (TIME, time_parts),
    datetime.datetime: (DATETIME, lambda v: (None, ((v.replace(tzinfo=None) - FIRST) // MICRO, v.fold, v.tzinfo))),
    datetime.timedelta: (TIMEDELTA, lambda v: (None, v // MICRO)),
    datetime.timezone: (TIMEZONE, zone_parts),
    zoneinfo.ZoneInfo: (ZONEINFO, lambda v: (None, v.key)),
    decimal.Decimal: (DECIMAL, lambda v: (None, str(v))),
    fractions.Fraction: (FRACTION, lambda v: (None, (v.numerator, v.denominator))),
    uuid.UUID: (UUID, lambda v: (None, v.bytes)),
    **{getattr(pathlib, name): (PATH, lambda v, name=name: (name, str(v))) for name in PATHS},
}


def ext_of(value):
    """`(code, EXTRA, payload)` of a value that is stored as an ext value; None for any other value."""
    if type(value) is Ext:
        return value.code, value.extra, value.payload
    if STRING_ARRAYS and type(value) is np.ndarray and isinstance(value.dtype, np.dtypes.StringDType):
        return STRINGDTYPE, None, (value.shape, value.ravel().tolist())
    if type(value) not in KINDS:
        return None
    code, take = KINDS[type(value)]
    return code, *take(value)
