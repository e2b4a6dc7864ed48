"""Hypothesis strategies for ext values of Python's own types, for numpy structs, and for classes as the reference keeps
them (`Ext`)."""

import collections
import datetime
import decimal
import math
import pathlib
import uuid
import zoneinfo

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from prop import strategies as own
from ref.ext_values import ATTRS, DATACLASS, ENUM, FACTORIES, NAMEDTUPLE, OBJECT, STRING_ARRAYS, Ext

US = datetime.timedelta(microseconds=1)
LONGEST = 86400 * 10**6 - 1  # of a timezone's offset, in microseconds

# ---- Python's own types ----------------------------------------------------------------------------------------------

offsets = st.one_of(st.integers(-LONGEST, LONGEST), st.integers(-23, 23).map(lambda h: h * 3600 * 10**6)).map(
    lambda n: n * US
)
zones = st.one_of(
    st.none(),
    st.just(datetime.timezone.utc),
    st.builds(datetime.timezone, offsets),
    st.builds(datetime.timezone, offsets, own.texts),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]).map(zoneinfo.ZoneInfo),
)
folds = st.integers(0, 1)
dates = st.one_of(st.dates(), st.sampled_from([datetime.date.min, datetime.date.max, datetime.date(2020, 2, 29)]))
times = st.builds(
    lambda t, tz, fold: t.replace(tzinfo=tz, fold=fold), st.one_of(st.times(), st.just(datetime.time.max)), zones, folds
)
moments = st.builds(
    lambda t, tz, fold: t.replace(tzinfo=tz, fold=fold),
    st.one_of(st.datetimes(), st.sampled_from([datetime.datetime.min, datetime.datetime.max])),
    zones,
    folds,
)
spans = st.one_of(st.timedeltas(), st.sampled_from([datetime.timedelta.min, datetime.timedelta.max, -US]))
ODD_DECIMALS = ["-0", "0.00", "1E+999999", "-Infinity", "NaN123", "sNaN", "-sNaN9", "1.10"]
decimals = st.one_of(st.decimals(), st.sampled_from(ODD_DECIMALS).map(decimal.Decimal))


@st.composite
def ints(draw):
    """own.ints, wrapped so that hypothesis does not print its many edge cases as arguments of other strategies."""
    return draw(own.ints)


bounds = st.one_of(st.none(), ints())
names = st.text("abc./\\: é\ud800", max_size=8)
path_classes = [pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())]
# Python 3.11 changes PureWindowsPath("//a/") when it goes through str or pickle.
paths = st.builds(lambda cls, s: cls(s), st.sampled_from(path_classes), names).filter(
    lambda p: type(p)(str(p)).parts == p.parts
)
uuids = st.binary(min_size=16, max_size=16).map(lambda raw: uuid.UUID(bytes=raw))
complexes = st.builds(complex, own.floats, own.floats)

hashable = st.one_of(  # mostly equal only to values of their own type; a set keeps one of equal numbers
    complexes,
    st.builds(lambda a, b, c: range(a, b, c or 1), ints(), ints(), ints()),
    st.just(...),
    dates,
    times,
    moments,
    spans,
    zones,
    decimals.filter(lambda d: not d.is_snan()),
    st.fractions(),
    uuids,
    paths,
    st.frozensets(st.one_of(ints(), own.texts, st.frozensets(own.texts, max_size=2)), max_size=4),
)
plain_keys = st.one_of(own.texts, ints(), hashable)
atoms = st.one_of(
    hashable,
    hashable,
    st.binary(max_size=20).map(bytearray),
    st.builds(slice, bounds, bounds, bounds),
    decimals,
    st.sets(st.one_of(ints(), own.texts, hashable), max_size=5),
)


def make_counter(counts):
    """A Counter with these counts, which may be any values."""
    counter = collections.Counter()
    dict.update(counter, counts)
    return counter


def make_deque(items, spare):
    return collections.deque(items, None if spare is None else len(items) + spare)


def containers(items):
    """Containers of plain items and ext values."""
    dicts = st.dictionaries(st.one_of(own.texts, plain_keys), items, max_size=4)
    return st.one_of(
        st.lists(items, max_size=4),
        st.lists(items, max_size=4).map(tuple),
        dicts,
        dicts.map(collections.OrderedDict),
        dicts.map(make_counter),
        st.builds(collections.defaultdict, st.sampled_from([None, *FACTORIES.values()]), dicts),
        st.lists(dicts, min_size=1, max_size=3).map(lambda maps: collections.ChainMap(*maps)),
        st.builds(make_deque, st.lists(items, max_size=4), st.one_of(st.none(), st.integers(0, 3))),
        st.tuples(items, items, items).map(lambda t: slice(*t)),
    )


values = st.recursive(st.one_of(atoms, atoms, own.scalars), containers, max_leaves=10)

# ---- numpy: structs, long doubles, strings of any length -------------------------------------------------------------

field_names = st.one_of(
    st.text("abcé€", min_size=1, max_size=3), st.text(min_size=1, max_size=4).filter(lambda s: "\0" not in s)
)
long_doubles = st.sampled_from(["<f16", ">f16", "<c32", ">c32"]).map(np.dtype)


@st.composite
def structs(draw, children):
    """Struct dtypes that are packed, aligned, or have unnamed gaps. Fields may be sub-arrays and structs."""
    chosen = draw(st.lists(field_names, max_size=4, unique=True))
    shapes = st.one_of(st.just(()), st.just(()), st.lists(st.integers(0, 3), min_size=1, max_size=2).map(tuple))
    formats = [(draw(children), draw(shapes)) for _ in chosen]
    formats = [(base, shape) if shape else base for base, shape in formats]
    if draw(st.booleans()):
        return np.dtype({"names": chosen, "formats": formats}, align=draw(st.booleans()))
    offsets, end = [], 0
    for item in formats:
        offsets.append(end + draw(st.integers(0, 5)))
        end = offsets[-1] + np.dtype(item).itemsize
    return np.dtype(
        {"names": chosen, "formats": formats, "offsets": offsets, "itemsize": end + draw(st.integers(0, 9))}
    )


def takes_any_bytes(dtype):
    """Whether random bytes are legal for the dtype. They are not legal text, nor legal times without a unit."""
    if dtype.names is not None:
        return all(takes_any_bytes(dtype[name]) for name in dtype.names)
    return dtype.base.kind != "U" and dtype.base.str[1:] not in ("M8", "m8")


bases = st.one_of(own.dtypes.filter(takes_any_bytes).filter(lambda d: d.kind != "b"), long_doubles)
dtypes = st.one_of(st.recursive(bases, structs, max_leaves=6), structs(bases))
shapes = st.one_of(st.sampled_from([(), (0,), (3,), (2, 3), (70,)]), st.lists(st.integers(0, 3), max_size=3).map(tuple))


@st.composite
def array_of(draw, some_dtypes, some_shapes):
    dtype, shape = draw(some_dtypes), draw(some_shapes)
    assume(dtype.itemsize * math.prod(shape) < 1 << 20)  # fields of fields have shapes too
    data = own.fill(dtype, dtype.itemsize * math.prod(shape), draw(st.integers(0, 1 << 30)))
    return np.ndarray(shape, dtype, bytearray(data), order=draw(st.sampled_from("CF")))


def string_array(strings, columns):
    """A string array of one dimension, or of two with `columns` columns."""
    rows = len(strings) // columns
    return np.array(strings[: rows * columns], np.dtypes.StringDType()).reshape(
        (rows, columns) if columns > 1 else rows
    )


struct_arrays = array_of(dtypes, shapes)
struct_scalars = array_of(structs(bases).filter(lambda dtype: dtype.itemsize), st.just(())).map(lambda a: a[()])
long_scalars = st.one_of(own.floats.map(np.longdouble), st.builds(np.clongdouble, own.floats))
string_arrays = (
    st.builds(string_array, st.lists(st.text(max_size=40), max_size=8), st.integers(1, 3))
    if STRING_ARRAYS
    else st.nothing()
)
numpys = st.one_of(struct_arrays, struct_scalars, long_scalars, string_arrays)

# ---- classes, which the reference reads as Ext ----------------------------------------------------------------------

words = st.text("abXY_", min_size=1, max_size=4)
modules = st.builds(lambda a, b: f"{a}.{b}", words, words)


@st.composite
def classes(draw):
    """Draws the code and EXTRA of a class with fields."""
    names = draw(st.lists(words, max_size=4, unique=True))
    return draw(st.sampled_from([NAMEDTUPLE, DATACLASS, ATTRS, OBJECT])), (draw(modules), draw(words), tuple(names))


def objects_of(items):
    """Objects of one drawn class."""
    return classes().flatmap(lambda c: st.tuples(*[items] * len(c[1][2])).map(lambda payload: Ext(*c, payload)))


members = st.builds(
    lambda module, name, member: Ext(ENUM, (module, name), member), modules, words, st.one_of(words, ints())
)

# ---- everything ------------------------------------------------------------------------------------------------------

leaves = st.one_of(atoms, atoms, own.scalars, numpys, own.numpys)
storable = st.recursive(leaves, containers, max_leaves=10)  # values that recstore stores
known = st.recursive(
    st.one_of(leaves, members), lambda items: st.one_of(containers(items), objects_of(items)), max_leaves=10
)


def container_columns(children):
    """Strategies that each draw similar containers, of plain types or of ext values."""
    rows = st.dictionaries(own.texts, children, max_size=4).map(st.fixed_dictionaries)
    return st.one_of(
        own.record_columns(children),
        rows.map(lambda r: r.map(collections.OrderedDict)),
        rows.map(lambda r: r.map(make_counter)),
        st.builds(
            lambda r, f: r.map(lambda d: collections.defaultdict(f, d)), rows, st.sampled_from([None, int, list])
        ),
        children.map(lambda c: st.lists(c, max_size=5).map(collections.deque)),
        st.lists(children, min_size=3, max_size=3).map(lambda cs: st.tuples(*cs).map(lambda t: slice(*t))),
    )


same_type = [
    complexes,
    dates,
    times,
    moments,
    spans,
    decimals,
    uuids,
    st.fractions(),
    st.binary(max_size=9).map(bytearray),
    st.sets(ints(), max_size=5),
    st.frozensets(own.texts, max_size=3),
    names.map(pathlib.PurePosixPath),
]
leaf_columns = st.one_of(
    st.sampled_from(same_type),
    st.sampled_from(same_type),
    own.leaf_columns,
    storable.map(own.only),
    st.just(storable),
    st.builds(lambda d: array_of(st.just(d), st.sampled_from([(), (2,)])), dtypes),
)
columns = st.recursive(leaf_columns, container_columns, max_leaves=8)
record_lists = st.one_of(st.lists(storable, max_size=8), own.similar_records(columns), own.similar_records(columns))
