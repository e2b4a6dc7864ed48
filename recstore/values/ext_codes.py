"""The codes of ext values, by name. Their numbers are in RS_FMT_EXT_ROWS of csrc/format/rs_format.h."""

from __future__ import annotations

from recstore._core import native

_code = {native.ext_name(code).upper(): code for code in range(1, native.EXT_LAST + 1)}.__getitem__

COMPLEX, BYTEARRAY, SET, FROZENSET = map(_code, ("COMPLEX", "BYTEARRAY", "SET", "FROZENSET"))
RANGE, SLICE, ELLIPSIS = map(_code, ("RANGE", "SLICE", "ELLIPSIS"))
ORDEREDDICT, COUNTER, DEFAULTDICT = map(_code, ("ORDEREDDICT", "COUNTER", "DEFAULTDICT"))
CHAINMAP, DEQUE = map(_code, ("CHAINMAP", "DEQUE"))
DATE, TIME, DATETIME, TIMEDELTA = map(_code, ("DATE", "TIME", "DATETIME", "TIMEDELTA"))
TIMEZONE, ZONEINFO = map(_code, ("TIMEZONE", "ZONEINFO"))
DECIMAL, FRACTION, UUID, PATH = map(_code, ("DECIMAL", "FRACTION", "UUID", "PATH"))
ENUM, NAMEDTUPLE, DATACLASS, ATTRS = map(_code, ("ENUM", "NAMEDTUPLE", "DATACLASS", "ATTRS"))
OBJECT, PICKLED, TENSOR, STRINGDTYPE, LINE = map(_code, ("OBJECT", "PICKLED", "TENSOR", "STRINGDTYPE", "LINE"))
