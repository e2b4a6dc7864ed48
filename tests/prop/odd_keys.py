"""Dict keys that are easily confused: equal keys of different types, different keys with equal hashes, and keys that
look alike. A mapping must distinguish them exactly as a dict does."""

import collections
import dataclasses
import datetime
import enum
import pathlib
import uuid
import zoneinfo
from decimal import Decimal
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from prop import ext_values

MODULUS = 2**61 - 1  # Python hashes numbers modulo this: hash(n) == hash(n + MODULUS)


class Color(enum.Enum):
    RED = 1
    BLUE = "b"
    ALIAS = 1


class Level(enum.IntEnum):
    ZERO = 0
    ONE = 1
    WIDE = 2**70


class Word(str, enum.Enum):
    A = "a"
    E = "é"


class Real(float, enum.Enum):
    HALF = 0.5


class Raw(bytes, enum.Enum):
    A = b"a"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Mode(enum.IntFlag):
    READ = 1
    WRITE = 2


class Day(datetime.date, enum.Enum):
    FIRST = 2020, 1, 1


Pair = collections.namedtuple("Pair", "x y")
Other = collections.namedtuple("Other", "a b")


@dataclasses.dataclass(frozen=True)
class Point:
    x: object
    y: object = None


@dataclasses.dataclass(frozen=True)
class Spot:
    x: object
    y: object = None


class Text(str):
    """A key that equals its str. It is stored pickled."""


class Number(int):
    """A key that equals its int. It is stored pickled."""


class Named:
    """A key that equals its name, as objects of some libraries do."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self.name == (other.name if isinstance(other, Named) else other)

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"Named({self.name!r})"


NAN = float("nan")
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
UTC = datetime.timezone.utc
HOUR = datetime.timezone(datetime.timedelta(hours=1), "an hour")
ODD_ZONE = datetime.timezone(datetime.timedelta(seconds=1, microseconds=500000))
NOON = datetime.datetime(2020, 6, 1, 12, tzinfo=UTC)
TWICE = datetime.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN)  # this local time occurred twice
NEVER = datetime.datetime(2020, 3, 29, 2, 30, tzinfo=BERLIN)  # this local time did not occur
WITH_SLICES = [slice(1), slice(None, 1, None), slice(1.0)] if slice.__hash__ else []

ZEROS = [0, 0.0, -0.0, False, 0j, complex(-0.0, -0.0), Decimal(0), Decimal("-0"), Decimal("0E+9999"), Decimal("0E-999"), Fraction(0), Level.ZERO,
         np.int8(0), np.uint64(0), np.float16(-0.0), np.float64(0), np.bool_(False), np.complex64(0), np.longdouble(0), Mode(0), Number(0)]  # fmt: skip
ONES = [1, 1.0, True, 1 + 0j, complex(1, -0.0), Decimal(1), Decimal("1.00"), Decimal("1" + "0" * 9 + "E-9"), Fraction(1), Level.ONE, Mode.READ, np.int8(1),
        np.int64(1), np.uint8(1), np.float16(1), np.float32(1), np.float64(1), np.bool_(True), np.complex128(1), np.clongdouble(1), np.longdouble(1), Number(1)]  # fmt: skip
REALS = [0.5, Fraction(1, 2), Decimal("0.5"), np.float32(0.5), Real.HALF, 0.1, Fraction(0.1), Decimal(0.1), Decimal("0.1"), Fraction(1, 10), np.float16(0.1),
         np.float32(0.1), np.longdouble("0.1"), np.longdouble(0.1), 0.5 + 1j, np.complex64(0.5 + 1j), complex(0.0, 1), complex(-0.0, 1), np.clongdouble(1j),
         Fraction(1, 3), Fraction(1 + MODULUS, 3), Decimal("1E-400"), Fraction(1, 10**400), Decimal("1E-6000"), 5e-324, Fraction(5e-324)]  # fmt: skip
WIDE = [-1, -2, MODULUS, MODULUS + 1, -MODULUS, 2**53, 2.0**53, 2**53 + 1, 2**63, 2.0**63, np.uint64(2**63), -(2**63), np.int64(-(2**63)), 2**64, Fraction(2**64), Level.WIDE,
        2**70, 2.0**70, Decimal(2**70), int(1e300), 1e300, Decimal(1e300), 10**300, Decimal("1E+300"), 2**1024 - 1, 2**1024, Decimal(2**1024),
        Fraction(2**1024), -(2**1024), Decimal(-(2**1024)), 10**400, Decimal("1E+400"), Fraction(10**400), 10**6000, Decimal("1E+6000"), Fraction(10**6000),
        Decimal("1E+6000") + 0, Decimal("1.0E+6000"), 2**70 + MODULUS * 4]  # fmt: skip
LIMITS = [float("inf"), Decimal("Infinity"), np.float32("inf"), float("-inf"), Decimal("-Infinity"), complex("inf"), complex(0, float("inf")),
          NAN, NAN, float("nan"), Decimal("NaN"), complex(NAN, 1), np.float32("nan"), (NAN,), (NAN,), frozenset([NAN])]  # fmt: skip
TEXTS = ["a", "A", np.str_("a"), Word.A, Text("a"), Named("a"), b"a", np.bytes_(b"a"), Raw.A, "é", Word.E, "e\u0301", "\ud800", "€", "😀", "", b"", Named(1), Named((1, 2)),
         np.str_(""), "a\0", "1", None, ...]  # fmt: skip
ROWS = [(), (1, 2), (1.0, 2), (True, Decimal(2)), Pair(1, 2), Pair(1.0, np.int8(2)), Other(1, 2), Pair(2, 1), ((1, 2),), ((1.0, 2),), (Pair(1, 2),), (Word.A,), ("a",), (None,),
        frozenset(), frozenset([1]), frozenset([1.0]), frozenset([True, "a"]), frozenset(["a", 1]), frozenset([frozenset([1])]), frozenset([frozenset([1.0])]),
        frozenset(range(20)), frozenset(map(float, reversed(range(20)))), (frozenset([2**1024]),), (frozenset([Fraction(2**1024)]),), (Named("a"),), (Text("a"),)]  # fmt: skip
SPANS = [range(0), range(5, 5), range(7, 2), range(3), range(0, 3, 1), range(0, 3, 2), range(0, 4, 2), range(1), range(0, 1, 9), range(2**70), range(0, 2**70, 1), range(2**70, 2**71, 2**70),
         range(2**70, 2**70 + 1), range(0, -5, -2), range(0, -6, -2), *WITH_SLICES]  # fmt: skip
TIMES = [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), Day.FIRST, np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00", "us"), np.datetime64("NaT"), NOON, NOON.astimezone(HOUR),
         NOON.astimezone(BERLIN), NOON.astimezone(NEW_YORK), NOON.replace(tzinfo=None), NOON.astimezone(ODD_ZONE), TWICE, TWICE.replace(fold=1), TWICE.astimezone(UTC),
         TWICE.replace(fold=1).astimezone(UTC), TWICE.astimezone(NEW_YORK), TWICE.replace(tzinfo=None), NEVER, NEVER.replace(fold=1), NEVER.astimezone(UTC),
         datetime.datetime.min.replace(tzinfo=HOUR), datetime.datetime.max.replace(tzinfo=UTC), datetime.datetime.min, datetime.time(1), datetime.time(1, fold=1),
         datetime.time(1, tzinfo=UTC), datetime.time(2, tzinfo=HOUR), datetime.time(0, 30, tzinfo=HOUR), datetime.time(1, tzinfo=BERLIN), datetime.time(1, tzinfo=ODD_ZONE),
         datetime.time(0, 0, 0, tzinfo=HOUR), datetime.timedelta(0), datetime.timedelta(microseconds=5), np.timedelta64(5, "us"), np.timedelta64(5000, "ns"), 5, datetime.timedelta(days=-1),
         UTC, HOUR, datetime.timezone(datetime.timedelta(hours=1)), BERLIN, NEW_YORK, zoneinfo.ZoneInfo("UTC")]  # fmt: skip
NAMES = [pathlib.PurePosixPath("a"), pathlib.Path("a"), pathlib.PurePosixPath("a/"), pathlib.PurePosixPath("A"), pathlib.PureWindowsPath("a"), pathlib.PureWindowsPath("A"),
         pathlib.PureWindowsPath("É"), pathlib.PureWindowsPath("é"), pathlib.PureWindowsPath("C:/x"), pathlib.PureWindowsPath("c:\\X"), uuid.UUID(int=5), uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe),
         uuid.UUID(int=6), Color.RED, Color.ALIAS, Color.BLUE, Access.READ, Access.READ | Access.WRITE, Access(0), Mode.READ | Mode.WRITE, 3, Mode(8), 8,
         Point(1), Point(1.0), Spot(1), Point(1, 2), (1, 2), Point(NAN), Point((1, Fraction(2)))]  # fmt: skip

GROUPS = [ZEROS, ONES, REALS, WIDE, LIMITS, TEXTS, ROWS, SPANS, TIMES, NAMES]
POOL = [key for group in GROUPS for key in group]

# Half of the lists have keys of one group, which are similar. Hypothesis draws indices, because it would compare and
# print keys.
of_pool = st.integers(0, len(POOL) - 1).map(POOL.__getitem__)
of_a_group = st.sampled_from(range(len(GROUPS))).flatmap(
    lambda number: st.lists(st.integers(0, len(GROUPS[number]) - 1).map(GROUPS[number].__getitem__), max_size=30)
)
generated = st.one_of(
    ext_values.plain_keys, st.tuples(ext_values.plain_keys, of_pool), st.frozensets(ext_values.plain_keys, max_size=3)
)
key_lists = st.one_of(
    of_a_group, of_a_group, st.lists(of_pool, max_size=40), st.lists(st.one_of(of_pool, generated), max_size=20)
)


def alike(a, b):
    """Whether type and value are the same, including the sign of zeros and the fold of times."""
    if isinstance(a, frozenset):
        return type(a) is type(b) and len(a) == len(b) and all(any(alike(x, y) for y in b) for x in a)
    if type(a) is tuple:
        return type(b) is tuple and len(a) == len(b) and all(map(alike, a, b))
    # The repr of a wide int raises ValueError.
    return type(a) is type(b) and (a == b if isinstance(a, (int, Fraction)) else repr(a) == repr(b))
