"""Stores values beyond the basic types as ext values of csrc/FORMAT.md: a code, an EXTRA, and a payload.

The compiled core imports this module for the first such value. Encoding need not import the module of a type: if a
value exists, the module is loaded. Decoding checks every payload, because the bytes may be hostile.
"""

from __future__ import annotations

import functools
import math
import sys
from weakref import WeakKeyDictionary, WeakSet

from recstore._core import hooks, native
from recstore.errors import CorruptError, EncodeError, Error, UntrustedError
from recstore.text import an
from recstore.values import ext_codes as codes
from recstore.values import factories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, time
    from typing import Any, NoReturn, TypeAlias

    from recstore._core.trust import Reader, Writer

    Described: TypeAlias = tuple[int, Any, Any]  # code, EXTRA, payload
    Handler: TypeAlias = Callable[[Any], Described | None]
    Make: TypeAlias = Callable[[Any], Any]  # makes a value from a payload
    Prepare: TypeAlias = Callable[[Any], Make]  # makes a Make for an EXTRA

_DAY = 86_400_000_000
_PATHS = ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath")
_ZONE_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/")


# ---- Encoding: describe(value) -> (code, EXTRA, payload) ----


def _decimal_text(value: Any) -> str:
    # In a context with capitals=0, str() writes the E of the exponent in lower case.
    return str(value).replace("e", "E")


def _naive_microseconds(value: datetime | time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _describe_datetime(value: Any) -> Described:
    us = (value.toordinal() - 1) * _DAY + _naive_microseconds(value)
    return codes.DATETIME, None, (us, value.fold, value.tzinfo)


def _describe_timedelta(value: Any) -> Described:
    return codes.TIMEDELTA, None, (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def _describe_timezone(value: Any) -> Described:
    offset, *name = value.__getinitargs__()
    return codes.TIMEZONE, None, (_describe_timedelta(offset)[2], name[0] if name else None)


def _describe_defaultdict(value: Any) -> Described | None:
    factory = value.default_factory
    name = factories.NAMES.get(factory) if type(factory) is type else None
    return None if name is None and factory is not None else (codes.DEFAULTDICT, name, dict(value))


def _describe_zoneinfo(value: Any) -> Described | None:
    return (codes.ZONEINFO, None, value.key) if type(value.key) is str and set(value.key) <= _ZONE_CHARACTERS else None


def _without_attributes(code: int, copy: Callable[[Any], Any]) -> Handler:
    """The handler for a dict type whose values have a ``__dict__``; a value with attributes cannot be stored."""
    return lambda value: None if value.__dict__ else (code, None, copy(value))


def _describe_chainmap(value: Any) -> Described | None:
    return (codes.CHAINMAP, None, list(value.maps)) if len(value.__dict__) == 1 and type(value.maps) is list else None


_BUILTIN: dict[type, Handler] = {
    complex: lambda v: (codes.COMPLEX, None, (v.real, v.imag)),
    bytearray: lambda v: (codes.BYTEARRAY, None, bytes(v)),
    set: lambda v: (codes.SET, None, list(v)),
    frozenset: lambda v: (codes.FROZENSET, None, tuple(v)),
    range: lambda v: (codes.RANGE, None, (v.start, v.stop, v.step)),
    slice: lambda v: (codes.SLICE, None, (v.start, v.stop, v.step)),
    type(Ellipsis): lambda v: (codes.ELLIPSIS, None, None),
}
# {(module, name): handler}. A type must be the object that the loaded module has under this name.
_BY_NAME: dict[tuple[str, str], Handler] = {
    ("collections", "OrderedDict"): _without_attributes(codes.ORDEREDDICT, dict),
    ("collections", "Counter"): _without_attributes(codes.COUNTER, dict),
    ("collections", "defaultdict"): _describe_defaultdict,
    ("collections", "ChainMap"): _describe_chainmap,
    ("collections", "deque"): lambda v: (codes.DEQUE, v.maxlen, list(v)),
    ("datetime", "date"): lambda v: (codes.DATE, None, v.toordinal()),
    ("datetime", "time"): lambda v: (codes.TIME, None, (_naive_microseconds(v), v.fold, v.tzinfo)),
    ("datetime", "datetime"): _describe_datetime,
    ("datetime", "timedelta"): _describe_timedelta,
    ("datetime", "timezone"): _describe_timezone,
    ("zoneinfo", "ZoneInfo"): _describe_zoneinfo,
    ("decimal", "Decimal"): lambda v: (codes.DECIMAL, None, _decimal_text(v)),
    ("fractions", "Fraction"): lambda v: (codes.FRACTION, None, (v.numerator, v.denominator)),
    ("uuid", "UUID"): lambda v: (codes.UUID, None, v.bytes),
    ("torch", "Tensor"): lambda v: hooks.module("tensors").describe(v),
    ("numpy", "ndarray"): lambda v: _string_array(v),
    **{("pathlib", name): lambda v: (codes.PATH, type(v).__name__, str(v)) for name in _PATHS},
}


def _string_array(value: Any) -> Described | None:
    """The ext value of an array of numpy's StringDType without options; None for other arrays."""
    kind = getattr(getattr(sys.modules["numpy"], "dtypes", None), "StringDType", None)
    if kind is None or not isinstance(value.dtype, kind) or value.dtype != kind():
        return None
    return codes.STRINGDTYPE, None, (value.shape, value.ravel().tolist())


def is_known(kind: type) -> bool:
    """Whether a class is in `_BY_NAME`, and not just another class of the same name."""
    module = kind.__module__.partition(".")[0] if type(kind.__module__) is str else ""
    return (module, kind.__name__) in _BY_NAME and getattr(sys.modules.get(module), kind.__name__, None) is kind


def _find_handler(value: Any) -> Handler | None:
    """The function that describes values of this type; None if they cannot be stored."""
    kind = type(value)
    if is_known(kind):  # before registrations, which do not affect known types
        return _BY_NAME[kind.__module__.partition(".")[0], kind.__name__]
    if kind in _BUILTIN:
        return _BUILTIN[kind]
    from recstore.values import class_types

    return class_types.handler(value)


_tested_types: WeakSet[type] = WeakSet()  # the types with a pickle that was loaded as a test
_handlers: WeakKeyDictionary[type, Handler | None] = WeakKeyDictionary()  # weak, so that a program can drop a class


def forget(cls: type) -> None:
    """Drops the cached handler of a newly registered class."""
    _handlers.pop(cls, None)


def describe(value: Any, writer: Writer | None = None) -> Described | None:
    """`(code, EXTRA, payload)` of a value; None if it cannot be stored. Notes the class of an object in `writer`."""
    kind = type(value)
    if kind is native.Record:
        return _describe_record(value, writer)
    try:
        handler = _handlers[kind]
    except KeyError:
        handler = _handlers[kind] = _find_handler(value)
    if handler is None:
        return None
    described = handler(value)
    if described is not None and writer is not None and codes.ENUM <= described[0] <= codes.OBJECT:
        if not writer.note(described[1][:2], kind):
            return None
    return described


def _describe_record(value: Any, writer: Writer | None) -> Described | None:
    if value._origin is None:
        return None
    if writer is not None:
        writer.foreign = True
    code, extra = value._origin
    values = tuple(value.values())
    return code, extra, values if codes.ENUM < code <= codes.OBJECT else values[0]


def pickled(value: Any, refuses: Callable[[Any], str | None] | None = None) -> tuple[int, None, bytes]:
    """The ext value with the pickle of a value. The first pickle of a class is loaded as a test. Raises the errors of
    pickling and loading, TypeError if the value contains a store, and EncodeError with the reason that `refuses`, as in
    trust.Writer, gives for a part."""
    import io
    import pickle

    out = io.BytesIO()
    pickler = _pickler()(out, protocol=4)
    pickler.refuses = refuses
    pickler.dump(value)
    if type(value) not in _tested_types:
        pickle.loads(out.getvalue())
        _tested_types.add(type(value))
    return codes.PICKLED, None, out.getvalue()


@functools.cache
def _pickler() -> Any:
    """A Pickler that refuses stores: a store pickles as a handle, and its data would end with the process."""
    import pickle

    class Pickler(pickle.Pickler):
        refuses: Callable[[Any], str | None] | None

        def reducer_override(self, value: Any) -> Any:
            if issubclass(type(value), (native.Records, native.Mapping)):
                kind = an(type(value).__name__)
                raise TypeError(f"{kind} pickles as a handle, which holds no records; {store_remedy(value)}")
            reason = None if self.refuses is None else self.refuses(value)
            if reason is not None:
                raise EncodeError(reason)
            return NotImplemented

    return Pickler


def store_remedy(store: object) -> str:
    """The remedy for a value that is a store."""
    return f"store {'x.to_list()' if issubclass(type(store), native.Records) else 'x.to_dict()'}"


# ---- Decoding: maker(code, EXTRA, reader) returns the function from payload to value ----


def _expect(ok: bool, message: str) -> None:
    if not ok:
        raise CorruptError(message)


def _typed(payload: Any, kind: type, name: str) -> Any:
    if type(payload) is not kind:
        raise CorruptError(f"{name} made of {an(type(payload).__name__)}")
    return payload


def _parts(payload: Any, kinds: tuple[type, ...], name: str) -> Any:
    _expect(type(payload) is tuple and len(payload) == len(kinds), f"{name} without {len(kinds)} parts")
    for part, kind in zip(payload, kinds):
        _expect(kind is object or type(part) is kind, f"{name} with a part that is {an(type(part).__name__)}")
    return payload


def _make_set(kind: type, carrier: type) -> Make:
    def make(payload: Any) -> Any:
        out = kind(_typed(payload, carrier, "a set"))
        # Records may be equal although the objects that they replace were not.
        repeated = len(out) != len(payload) and not any(type(e) is native.Record for e in out)
        _expect(not repeated, "a set with a repeated element")
        return out

    return make


def _make_dict(name: str) -> Make:
    import collections

    kind = getattr(collections, name)
    update = dict.update if name == "Counter" else kind.update  # Counter.update would add up counts

    def make(payload: Any) -> Any:
        out = kind()
        update(out, _typed(payload, dict, name))
        return out

    return make


def _make_defaultdict(extra: Any) -> Make:
    from collections import defaultdict

    _expect(extra is None or extra in factories.BY_NAME, f"a defaultdict whose factory is {extra!r:.80}")
    factory = None if extra is None else factories.BY_NAME[extra]
    return lambda payload: defaultdict(factory, _typed(payload, dict, "a defaultdict"))


def _make_chainmap(extra: Any) -> Make:
    from collections import ChainMap

    def make(payload: Any) -> Any:
        out: ChainMap[Any, Any] = ChainMap()
        out.maps = _typed(payload, list, "a ChainMap")  # the constructor would add a dict to an empty list
        return out

    return make


def _make_deque(extra: Any) -> Make:
    from collections import deque

    def make(payload: Any) -> Any:
        _expect(extra is None or len(payload) <= extra, "a deque of more elements than its maxlen")
        return deque(_typed(payload, list, "a deque"), extra)

    return make


def _make_time(extra: Any) -> Make:
    import datetime

    def make(payload: Any) -> Any:
        us, fold, tz = _parts(payload, (int, int, object), "a time")
        _expect(0 <= us < _DAY, "a time of another day")
        seconds, us = divmod(us, 1_000_000)
        return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, us, tz, fold=fold)

    return make


def _make_datetime(extra: Any) -> Make:
    from datetime import datetime, timedelta

    def make(payload: Any) -> Any:
        us, fold, tz = _parts(payload, (int, int, object), "a datetime")
        out = datetime.min + timedelta(0, 0, us)
        return out if tz is None and fold == 0 else out.replace(tzinfo=tz, fold=fold)

    return make


def _make_date(extra: Any) -> Make:
    from datetime import date

    return lambda payload: date.fromordinal(_typed(payload, int, "a date"))


def _make_timedelta(extra: Any) -> Make:
    from datetime import timedelta

    return lambda payload: timedelta(microseconds=_typed(payload, int, "a timedelta"))


def _make_timezone(extra: Any) -> Make:
    from datetime import timedelta, timezone

    def make(payload: Any) -> Any:
        us, name = _parts(payload, (int, object), "a timezone")
        return timezone(timedelta(microseconds=us)) if name is None else timezone(timedelta(microseconds=us), name)

    return make


def _make_zoneinfo(extra: Any) -> Make:
    import zoneinfo

    def make(payload: Any) -> Any:
        _expect(type(payload) is str and set(payload) <= _ZONE_CHARACTERS, "a time zone without a valid name")
        try:
            return zoneinfo.ZoneInfo(payload)
        except (zoneinfo.ZoneInfoNotFoundError, OSError):
            raise Error(f"this system does not know the time zone {payload!r:.80}; pip install tzdata") from None

    return make


def _make_decimal(extra: Any) -> Make:
    from decimal import Decimal

    def make(payload: Any) -> Any:
        out = Decimal(_typed(payload, str, "a Decimal"))
        _expect(_decimal_text(out) == payload, "a Decimal that is not in canonical form")
        return out

    return make


def _make_fraction(extra: Any) -> Make:
    from fractions import Fraction

    def make(payload: Any) -> Any:
        numerator, denominator = _parts(payload, (int, int), "a Fraction")
        out = Fraction(numerator, denominator)
        _expect(out.denominator == denominator, "a Fraction that is not in lowest terms")
        return out

    return make


def _make_uuid(extra: Any) -> Make:
    from uuid import UUID as kind

    return lambda payload: kind(bytes=_typed(payload, bytes, "a UUID"))


def _make_path(extra: Any) -> Make:
    import os
    import pathlib

    _expect(extra in _PATHS, f"a path of class {extra!r:.80}")
    if extra == ("PosixPath" if os.name == "nt" else "WindowsPath"):
        extra = "Pure" + extra  # pathlib cannot make concrete paths of the other system
    kind = getattr(pathlib, extra)
    return lambda payload: kind(_typed(payload, str, "a path"))


def _make_string_array(extra: Any) -> Make:
    import numpy as np

    if not hasattr(getattr(np, "dtypes", None), "StringDType"):
        raise Error("an array of StringDType needs numpy 2 or later")
    dtype = np.dtypes.StringDType()

    def make(payload: Any) -> Any:
        shape, strings = _parts(payload, (tuple, list), "an array of strings")
        _expect(all(type(n) is int and n >= 0 for n in shape), "an array of strings with an invalid shape")
        _expect(math.prod(shape) == len(strings), "an array of strings whose number does not match its shape")
        _expect(all(type(s) is str for s in strings), "an array of strings with other values")
        out = np.empty(len(strings), dtype)
        out[:] = strings
        return out.reshape(shape)

    return make


def _make_simple(kind: type, kinds: tuple[type, ...], name: str) -> Prepare:
    return lambda extra: lambda payload: kind(*_parts(payload, kinds, name))


def _make_ellipsis(payload: Any) -> Any:
    _expect(payload is None, "an Ellipsis with a payload")
    return Ellipsis


_MAKERS = {
    codes.COMPLEX: _make_simple(complex, (float, float), "a complex number"),
    codes.BYTEARRAY: lambda extra: lambda payload: bytearray(_typed(payload, bytes, "a bytearray")),
    codes.SET: lambda extra: _make_set(set, list),
    codes.FROZENSET: lambda extra: _make_set(frozenset, tuple),
    codes.RANGE: _make_simple(range, (int, int, int), "a range"),
    codes.SLICE: _make_simple(slice, (object, object, object), "a slice"),
    codes.ELLIPSIS: lambda extra: _make_ellipsis,
    codes.ORDEREDDICT: lambda extra: _make_dict("OrderedDict"),
    codes.COUNTER: lambda extra: _make_dict("Counter"),
    codes.DEFAULTDICT: _make_defaultdict,
    codes.CHAINMAP: _make_chainmap,
    codes.DEQUE: _make_deque,
    codes.DATE: _make_date,
    codes.TIME: _make_time,
    codes.DATETIME: _make_datetime,
    codes.TIMEDELTA: _make_timedelta,
    codes.TIMEZONE: _make_timezone,
    codes.ZONEINFO: _make_zoneinfo,
    codes.DECIMAL: _make_decimal,
    codes.FRACTION: _make_fraction,
    codes.UUID: _make_uuid,
    codes.PATH: _make_path,
    codes.TENSOR: lambda extra: hooks.module("tensors").maker(extra),
    codes.STRINGDTYPE: _make_string_array,
}
_WITH_EXTRA = {codes.DEFAULTDICT, codes.DEQUE, codes.PATH, codes.TENSOR}


def _guarded(make: Make) -> Make:
    """Wraps a maker: an error of a constructor means a bad payload and becomes a CorruptError."""

    def guarded(payload: Any) -> Any:
        try:
            return make(payload)
        except CorruptError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError) as e:
            raise CorruptError(f"a value that cannot be made: {type(e).__name__}: {e}") from None

    return guarded


def _unpickle(payload: Any) -> Any:
    import pickle

    return pickle.loads(_typed(payload, bytes, "a pickled value"))


def _refuse_pickle(payload: Any) -> NoReturn:
    raise UntrustedError(
        "a pickled value, and loading a pickle can run any code; open with allow_pickle=True if you trust who wrote "
        "the file"
    )


def maker(code: int, extra: Any, reader: Reader) -> tuple[Make, bool]:
    """`(make, keep)`: the function from payload to value, and whether the caller may cache it.

    Raises CorruptError for an unknown code or an invalid EXTRA, and Error for a class or dtype that cannot be loaded.
    """
    if codes.ENUM <= code <= codes.OBJECT or reader.verbatim and code in (codes.PICKLED, codes.TENSOR):
        from recstore.values import class_types

        return class_types.maker(code, extra, reader)
    if code == codes.LINE:
        from recstore.sources import line_values

        return line_values.maker(extra, reader.checking), True
    _expect(extra is None or code in _WITH_EXTRA, f"an ext value of code {code} with EXTRA")
    if code == codes.PICKLED:
        if reader.checking:
            return lambda payload: _typed(payload, bytes, "a pickled value"), True
        return (_unpickle if reader.allow_pickle else _refuse_pickle), True
    if code == codes.TENSOR and reader.checking:
        return hooks.module("tensors").check, True
    _expect(code in _MAKERS, f"ext code {code} has no meaning")
    return _guarded(_MAKERS[code](extra)), True
