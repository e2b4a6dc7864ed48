"""The records of the golden segments with ext values and struct dtypes (features EXT and DTYPES). They never change."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import uuid
import zoneinfo
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np

UTC = datetime.timezone.utc
EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=45, microseconds=1), "east")
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

ODD = [
    datetime.date(2020, 2, 29), datetime.date.min, datetime.date.max, datetime.time(23, 59, 59, 999999, UTC, fold=1), datetime.time.min,
    datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1), datetime.datetime(1999, 12, 31, 23, 59, 59, 999999, EAST),
    datetime.datetime.min, datetime.datetime.max, datetime.timedelta(-1, 1, 1), datetime.timedelta.max, UTC, EAST, BERLIN,
    complex(1.5, -0.0), complex(float("inf"), 2), bytearray(b"\0a"), bytearray(), {1, "a", (2, None)}, set(), frozenset({frozenset({1}), 2.5}),
    frozenset(), range(0), range(10, -5, -3), range(2**70), slice(None), slice(1, "b", [3]), ..., [..., (1j, {2: {3}})],
    OrderedDict(b=1, a=[2]), Counter("abracadabra"), defaultdict(list, {1: [2], "x": []}), defaultdict(None, a=1), defaultdict(frozenset),
    ChainMap({"a": 1}, {"a": 2, "b": 3}), deque([1, 2, 3], 5), deque(), decimal.Decimal("-0.00"), decimal.Decimal("1E+9999"),
    decimal.Decimal("NaN123"), decimal.Decimal("-Infinity"), fractions.Fraction(-22, 7), fractions.Fraction(2**80, 3), uuid.UUID(int=2**127 + 5),
    pathlib.PurePosixPath("a/b.txt"), pathlib.PureWindowsPath("C:/x"), pathlib.PurePosixPath("\udcff"),
    {datetime.date(2020, 1, 1): 1, 2j: 2, frozenset({3}): 3, decimal.Decimal("0.1"): 4, uuid.UUID(int=1): 5, range(3): 6, ...: 7},
]  # fmt: skip
ROWS = [
    {"day": datetime.date(2020, 1, 1) + datetime.timedelta(i), "at": datetime.datetime(2020, 1, 1, tzinfo=UTC) + datetime.timedelta(minutes=i),
     "took": datetime.timedelta(milliseconds=i * i), "price": decimal.Decimal(i) / 8, "path": pathlib.PurePosixPath(f"images/{i:06}.jpg"),
     "tags": {i % 3, i % 5}, "id": uuid.UUID(int=i * 2**96), "z": complex(i, -i), "queue": deque(range(i % 4), 3),
     "counts": Counter({"a": i, "b": 1}), "extra": [None, fractions.Fraction(i, 7), frozenset({i})][i % 3]}
    for i in range(120)
]  # fmt: skip
EXT = ODD + ROWS

PAIR = np.dtype([("id", "<u2"), ("box", "<f4", (2, 2)), ("näme", "S3")])
GAPS = np.dtype({"names": ["b", "a"], "formats": [">i4", PAIR], "offsets": [3, 8], "itemsize": 40})
STRUCTURED = [
    np.array([(1, [[1, 2], [3, 4.5]], b"ab"), (2, [[0, -1], [2, 3]], b"")], PAIR), np.zeros(0, PAIR), np.zeros((2, 1), GAPS),
    np.array([(7, 2.5)], np.dtype([("a", "i1"), ("b", "<f8")], align=True))[0], np.zeros(60, PAIR), np.zeros(3, []),
    np.array([("2020-02-29", True, "é")], [("t", "<M8[D]"), ("ok", "?"), ("s", "<U1")]),
]  # fmt: skip
STRUCTURED += [{"i": i, "row": np.array((i, [[i, 0], [0, i]], b"x"), PAIR)[()]} for i in range(60)]
LONG = [np.array([1.5, -0.25], "<f16"), np.array([1 - 2j], "<c32"), np.longdouble(0.5), np.array([3], ">f16")]

Point = namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Bits(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Box:
    corner: Point
    color: Color
    note: object = None


CLASSES = [Point, Color, Bits, Box]
OBJECTS = [Point(1, None), Color.BLUE, Bits.A, Bits.A | Bits.B, Bits(0), {Color.RED: Point(2, 3)}]
OBJECTS += [Box(Point(i, -i), list(Color)[i % 2], [None, i, "x"][i % 3]) for i in range(60)]

STORES = {"ext": EXT, "ext-plain": EXT, "structured": STRUCTURED, "long-doubles": LONG, "objects": OBJECTS}

# as in literals.DAMAGED
DAMAGED = {
    "ext-code": ("ext-plain", "VersionError", "VERSION", "read"),
    "ext-extra": ("ext-plain", "CorruptError", "VALUE", "read"),
    "ext-in-ext": ("ext-plain", "CorruptError", "VALUE", "read"),
    "ext-node-code": ("ext", "VersionError", "VERSION", "read"),
    "ext-node-extra": ("ext", "CorruptError", "TREE", "read"),
    "struct-offset": ("structured", "CorruptError", "TREE", "read"),
}
