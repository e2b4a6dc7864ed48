"""Hypothesis strategies for the values that recstore stores, and `same`, the equality that a round trip must keep.
prop.ext_values has the strategies for ext values.

The records of a list are either any values or *similar*. Without similar records, the writer would infer no schema and
only the `any` node would be tested.
"""

import math
import struct

import numpy as np
from hypothesis import strategies as st
from ref.ext_values import Ext, ext_of

# ---- equality --------------------------------------------------------------------------------------------------------


def same(a, b):
    """Whether types and values are equal: float bits, order of dicts, and dtype, shape, layout and bytes of arrays."""
    a, b = as_reference(a), as_reference(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, (set, frozenset)):
        return len(a) == len(b) and all(any(map(same, [x] * len(b), b)) for x in a)
    ext = ext_of(a)
    if ext is not None:
        return same(ext, ext_of(b))
    if isinstance(a, float) and not isinstance(a, np.generic):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, np.ndarray):
        return (
            same_dtype(a.dtype, b.dtype)
            and a.shape == b.shape
            and significant(a) == significant(b)
            and layout(a) == layout(b)
        )
    if isinstance(a, (np.str_, np.bytes_)):
        return len(a) == len(b) and str.__eq__(a, b) if isinstance(a, np.str_) else bytes.__eq__(a, b)
    if isinstance(a, np.generic):
        return same_dtype(a.dtype, b.dtype) and significant(a) == significant(b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) for p, q in zip(a.items(), b.items()) for x, y in zip(p, q))
    return a == b


def as_reference(value):
    """The value with each Record of an unknown class replaced by the reference's Ext."""
    if type(value).__name__ != "Record":
        return value
    code, extra = value._origin
    values = tuple(value.values())
    return Ext(code, extra, values if len(extra) == 3 else values[0])


def same_dtype(a, b):
    """Whether dtypes are equal for numpy and agree in byte order and in the layout of structs."""
    return a == b and a.str == b.str and repr(a.fields) == repr(b.fields) and a.isalignedstruct == b.isalignedstruct


def significant(value):
    """The bytes of an array or numpy scalar that numpy copies, without gaps in structs and padding of long doubles."""
    if value.dtype.names is not None:
        return [significant(value[name]) for name in value.dtype.names]
    raw, skip = value.tobytes(), 6 * (value.dtype.str[0] == ">")
    return (
        [raw[i + skip : i + skip + 10] for i in range(0, len(raw), 16)]
        if value.dtype.str[1:] in ("f16", "c32")
        else raw
    )


def layout(array):
    """The memory order of an array. C and Fortran order are the same if the array is contiguous both ways."""
    return array.flags.c_contiguous, array.flags.f_contiguous


# ---- plain values ----------------------------------------------------------------------------------------------------

EDGES = sorted({sign * (1 << bits) + d for bits in [*range(65), 71, 72, 127, 128, 1015, 4000] for sign in (1, -1)
                for d in (-1, 0, 1)} | {-17, -16, 111, 112})  # fmt: skip
WIDE_FLOATS = [0.0, -0.0, math.inf, -math.inf, 5e-324, 2.0**53, 1e308]


def bits_to_float(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


ints = st.one_of(st.integers(-20, 120), st.sampled_from(EDGES), st.integers())
nans = st.builds(
    lambda sign, payload: bits_to_float(sign << 63 | 0x7FF << 52 | payload),
    st.integers(0, 1),
    st.integers(1, (1 << 52) - 1),
)
floats = st.one_of(st.floats(), st.sampled_from(WIDE_FLOATS), nans)
code_points = st.one_of(st.integers(0, 0x7F), st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0xD800, 0xDFFF),
                        st.integers(0x10000, 0x10FFFF), st.sampled_from([0, 0xFF, 0x100, 0xFFFF, 0x10000, 0x10FFFF]))  # fmt: skip
texts = st.one_of(
    st.text(max_size=8),
    st.lists(code_points, max_size=8).map(lambda us: "".join(map(chr, us))),
    st.integers(120, 300).map(lambda n: "é" * n),
)
blobs = st.one_of(st.binary(max_size=8), st.integers(120, 300).map(bytes))
scalars = st.one_of(st.none(), st.booleans(), ints, floats, texts, blobs)

# ---- numpy -----------------------------------------------------------------------------------------------------------

UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25us", "7D"]
NUMBERS = ["?", *(order + kind for order in "<>" for kind in ("i2 i4 i8 u2 u4 u8 f2 f4 f8 c8 c16".split())), "i1", "u1"]
dtypes = st.one_of(
    st.sampled_from(NUMBERS),
    st.builds(
        lambda order, kind, unit: f"{order}{kind}8[{unit}]",
        st.sampled_from("<>"),
        st.sampled_from("mM"),
        st.sampled_from(UNITS),
    ),
    st.sampled_from(["<M8", ">m8", "S1", "S5", "V1", "V7", "<U1", ">U3", "<U300"]),
).map(np.dtype)
shapes = st.one_of(
    st.sampled_from([(), (0,), (0, 3), (3, 0), (1,), (1, 1), (127,), (128,), (129,), (1023,), (1024,)]),
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
    st.lists(st.integers(1, 12), min_size=2, max_size=3).map(tuple),
)


def fill(dtype, n, seed):
    """n bytes that are legal for the dtype: code points for U, 0 and 1 for bool, any bytes for numbers."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "U":
        return rng.integers(1, 0x110000, n // 4).astype(dtype.str[0] + "u4").tobytes()
    if dtype.str[1:] == "M8":  # without a unit, numpy can print and hash only NaT
        return np.full(n // 8, -1 << 63, dtype.str[0] + "i8").tobytes()
    return rng.integers(0, 2 if dtype.kind == "b" else 256, n, dtype="u1").tobytes()


@st.composite
def arrays(draw, dtype=None, shape=None):
    dtype = draw(dtypes) if dtype is None else dtype
    shape = draw(shapes) if shape is None else shape
    data = fill(dtype, math.prod(shape) * dtype.itemsize, draw(st.integers(0, 1 << 30)))
    return np.ndarray(shape, dtype, buffer=bytearray(data), order=draw(st.sampled_from("CF")))


def scalar_of(dtype, seed):
    """Returns a scalar. Its dtype is native, because numpy has no big-endian scalars."""
    return np.ndarray((), dtype, buffer=fill(dtype, dtype.itemsize, seed))[()]


np_scalars = st.one_of(
    st.builds(scalar_of, dtypes.filter(lambda d: d.kind not in "SUV"), st.integers(0, 1 << 30)),
    texts.map(np.str_),
    blobs.map(np.bytes_),
    st.binary(min_size=1, max_size=9).map(np.void),
    st.just(np.datetime64("NaT", "s")),
)
numpys = st.one_of(arrays(), np_scalars)

# ---- containers ------------------------------------------------------------------------------------------------------


def is_key(value):
    """Whether numpy can hash a value. It cannot hash V scalars, times without a unit and, since 2.5, times far from
    1970."""
    try:
        hash(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


keys = st.one_of(texts, texts, ints, st.none(), st.booleans(), floats, blobs, np_scalars.filter(is_key),
                 st.tuples(texts, ints), st.tuples(), st.tuples(st.tuples(ints), floats))  # fmt: skip


def containers(items):
    return st.one_of(
        st.lists(items, max_size=5),
        st.lists(items, max_size=5).map(tuple),
        st.dictionaries(texts, items, max_size=5),
        st.dictionaries(keys, items, max_size=4),
    )


values = st.recursive(st.one_of(scalars, scalars, numpys), containers, max_leaves=12)


def only(value):
    """Like st.just, but hypothesis does not hash the value. numpy's times without a unit cannot be hashed."""
    return st.none().map(lambda _: value)


# ---- similar records -------------------------------------------------------------------------------------------------


def narrow_ints(base_and_width):
    base, width = base_and_width
    return st.integers(base, min(base + (1 << width) - 1, (1 << 63) - 1))


int_columns = st.tuples(
    st.one_of(
        st.sampled_from([0, -1, 1, -16, 111, -(1 << 63), (1 << 63) - 1, 1 << 40]),
        st.integers(-(1 << 63), (1 << 63) - 1),
    ),
    st.integers(0, 64),
).map(narrow_ints)


@st.composite
def array_columns(draw):
    """A strategy of arrays with one dtype and mostly one shape."""
    dtype, shape = draw(dtypes), draw(shapes)
    return arrays(dtype, shape) if draw(st.booleans()) else st.one_of(arrays(dtype, shape), arrays(dtype))


leaf_columns = st.one_of(
    int_columns, int_columns, st.just(ints), st.just(floats), st.just(st.one_of(st.integers(-5, 5), floats)),
    st.just(st.booleans()), st.just(texts), st.just(st.text("abc", max_size=5)), st.just(blobs), st.just(st.none()),
    scalars.map(only), values.map(only), st.just(st.sampled_from(["cat", "dog", None])), array_columns(), st.just(values),
)  # fmt: skip


def list_column(child, kind):
    return st.lists(child, max_size=6) if kind == "list" else st.lists(child, max_size=6).map(tuple)


def record_columns(children):
    """Strategies of similar values: structs with optional fields, lists of any length or of one length."""
    fields = st.dictionaries(texts, st.tuples(children, st.booleans()), max_size=6)
    return st.one_of(
        fields.map(
            lambda f: st.fixed_dictionaries(
                {k: c for k, (c, must) in f.items() if must}, optional={k: c for k, (c, must) in f.items() if not must}
            )
        ),
        st.builds(list_column, children, st.sampled_from(["list", "tuple"])),
        st.builds(lambda child, n: st.lists(child, min_size=n, max_size=n), children, st.integers(0, 9)),
        st.lists(children, max_size=5).map(lambda cs: st.tuples(*cs)),
        st.lists(children, max_size=5).map(lambda cs: st.tuples(*cs).map(list)),
        st.lists(children, min_size=2, max_size=4).map(lambda cs: st.one_of(*cs)),
    )


columns = st.recursive(leaf_columns, record_columns, max_leaves=8)


@st.composite
def similar_records(draw, of=columns, max_size=12):
    """Records of one column, sometimes repeated many times, and sometimes with one record that does not fit."""
    column = draw(of)
    records = draw(st.lists(column, min_size=draw(st.sampled_from([2, 5, 0])), max_size=max_size))
    records = records * draw(st.sampled_from([1, 1, 1, 1, 6, 40]))
    if draw(st.integers(0, 7)) == 0:
        records.insert(draw(st.integers(0, len(records))), draw(values))
    return records


record_lists = st.one_of(st.lists(values, max_size=8), similar_records(), similar_records(), similar_records())
