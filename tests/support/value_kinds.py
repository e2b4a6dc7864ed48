"""A value of every kind that docs/values.md names, and its equivalent in a table."""

import collections
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import uuid
import zoneinfo

import kinds
import numpy as np

try:
    import torch
except ImportError:
    torch = None

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 59, 999999)
EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))
BERLIN, TOKYO = zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("Asia/Tokyo")

PLAIN = {
    "None": None, "bool": True, "int": 3, "negative": -5, "int63": 2**63 - 1, "int53": 2**53 + 1, "uint64": 2**64 - 1,
    "int70": 2**70, "float": 2.5, "nan": float("nan"), "complex": 1 + 2j,
    "str": "a", "escaped": "\udc80x", "surrogate": "\ud800", "bytes": b"ab", "not_utf8": b"\xff", "bytearray": bytearray(b"xy"),
    "list": [1, 2], "empty": [], "texts": ["x"], "tuple": (1, 2), "mixed_tuple": (1, "x"), "no_items": (), "pairs": [(1, "x")],
    "dicts": [{"a": 1}], "dict": {"k": 1}, "no_keys": {}, "int_key": {1: 2}, "set": {1}, "frozenset": frozenset({2}),
    "enum_set": {kinds.Level.LOW}, "range": range(3), "slice": slice(1, 2), "ellipsis": ...,
    "ordered": collections.OrderedDict(k=2), "counter": collections.Counter("aab"), "chain": collections.ChainMap({"k": 1}),
    "deque": collections.deque([1, 2], 3), "default": collections.defaultdict(list, k=[1]),
    "date": dt.date(2024, 1, 2), "time": dt.time(1, 2, 3), "zoned_time": dt.time(1, 2, 3, tzinfo=EAST), "naive": MOMENT,
    "utc": MOMENT.replace(tzinfo=dt.timezone.utc), "east": MOMENT.replace(tzinfo=EAST), "berlin": MOMENT.replace(tzinfo=BERLIN),
    "tokyo": MOMENT.replace(tzinfo=TOKYO), "timedelta": dt.timedelta(1, 2, 3), "timezone": EAST, "zone": BERLIN,
    "decimal": decimal.Decimal("1.50"), "decimal_nan": decimal.Decimal("nan"), "long_decimal": decimal.Decimal(10) ** 80,
    "fraction": fractions.Fraction(1, 3), "uuid": uuid.UUID(int=5), "path": pathlib.PurePosixPath("a/b"),
    "enum": kinds.Color.RED, "int_enum": kinds.Level.LOW, "str_enum": kinds.Word.YES, "flag": kinds.Perm.R, "int_flag": kinds.IntPerm.R,
    "namedtuple": kinds.Pair(kinds.Level.LOW, "r"), "dataclass": kinds.Frozen(1, MOMENT.replace(tzinfo=BERLIN)), "attrs": kinds.AttrsDict(1),
}  # fmt: skip
DTYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 "
          "longdouble").split()  # fmt: skip
UNITS = "Y M W D h m s ms us ns ps".split()
NUMPY = {
    **{f"numpy_{name}": np.dtype(name).type(1) for name in DTYPES},
    **{f"array_{name}": np.ones(2, name) for name in DTYPES},
    **{f"datetime64_{unit}": np.datetime64(5, unit) for unit in UNITS},
    **{f"timedelta64_{unit}": np.timedelta64(5, unit) for unit in UNITS},
    "nat": np.datetime64("NaT", "s"), "no_unit": np.timedelta64(5), "numpy_str": np.str_("z"), "numpy_bytes": np.bytes_(b"z"),
    "array_times": np.array([1, 2], "M8[s]"), "array_S": np.array([b"a", b"b"]), "array_U": np.array([["a", "b"]]),
    "array_struct": np.zeros(2, [("x", "i4"), ("y", "f8")]), "void": np.zeros(1, [("x", "i4")])[0],
    "big_endian": np.array([1, 2], ">i4"), "array_0d": np.array(3), "array_2d": np.ones((2, 2)),
}  # fmt: skip
TENSORS = {} if torch is None else {
    "tensor": torch.tensor([1, 2]), "float_tensor": torch.tensor([1.5]), "bfloat16": torch.tensor([1.5], dtype=torch.bfloat16),
    "tensor_0d": torch.tensor(3),
}  # fmt: skip
KINDS = {**PLAIN, **NUMPY, **TENSORS}
# A representative of each kind that the library distinguishes, for all pairs and triples.
FEW = (
    "None bool int negative int63 uint64 int70 float complex str escaped bytes list texts tuple mixed_tuple dict no_keys "
    "int_key enum_set range ordered date zoned_time naive utc east berlin tokyo timedelta decimal fraction uuid path enum "
    "int_enum str_enum namedtuple dataclass numpy_bool numpy_int8 numpy_int64 numpy_uint64 numpy_float32 array_int16 "
    "array_complex64 datetime64_D datetime64_ns datetime64_Y timedelta64_s nat numpy_str array_U void"
).split()


def table_equivalent(value):
    """The value converted to a type of tables."""
    if torch is not None and isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray) and value.dtype.kind not in "Mm":
        return value.tolist()
    if isinstance(value, np.ndarray):
        return list(value)
    if isinstance(value, np.generic) and value.dtype.kind not in "Mm":
        return value.item()
    if isinstance(value, bytearray | pathlib.PurePath):
        return bytes(value) if isinstance(value, bytearray) else str(value)
    if type(value) is dt.time:
        return value.replace(tzinfo=None)
    if hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    return dict(vars(value)) if type(value).__module__ == kinds.__name__ else value


def stands_for(got, value):
    """Whether a value of a table, as pyarrow returns it, is the equivalent of a value of a record."""
    value = table_equivalent(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        wide = type(got).__name__ in ("Timestamp", "Timedelta")  # of pandas, for nanoseconds
        got = got.to_numpy() if wide else type(value)(got, "us") if got is not None else got
        return got is None if np.isnat(value) else type(got) is type(value) and got == value
    if value is None or isinstance(value, bool):
        return got is value
    if isinstance(value, int):
        return type(got) in (int, float) and got == value
    if isinstance(value, float):
        return type(got) is float and (got == value or got != got and value != value)
    if isinstance(value, dict):
        extra = [name for name in got if name not in value] if type(got) is dict else []
        return type(got) is dict and all(stands_for(got.get(name), one) for name, one in value.items()) and (
            not any(got[name] is not None for name in extra))  # fmt: skip
    if isinstance(value, tuple) and type(got) is dict:
        return stands_for(got, {str(i): item for i, item in enumerate(value)})
    if isinstance(value, set | frozenset | list | tuple | collections.deque):
        return type(got) is list and len(got) == len(value) and all(map(stands_for, got, value))
    if isinstance(value, dt.datetime):
        return isinstance(got, dt.datetime) and (got.tzinfo is None) == (value.tzinfo is None) and got == value
    return type(got) is type(value) and got == value
