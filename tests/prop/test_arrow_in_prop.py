"""Arrow arrays of random types and values give the values and types of pyarrow's `to_pylist()`, even if they are
nested, sliced, chunked or have nulls."""

import datetime
import decimal

import pytest
from alike import alike
from hypothesis import given, settings
from hypothesis import strategies as st

from recstore import RecordList, sources

pa = pytest.importorskip("pyarrow", minversion="19")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.lists(TEXT.filter(lambda name: "\0" not in name), max_size=4, unique=True)


def _signed(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _per_second(unit):
    return {"s": 1, "ms": 10**3, "us": 10**6}[unit]


def _stamps(unit, zone=None):
    count = st.integers(-62_135_000_000 * _per_second(unit), 253_402_000_000 * _per_second(unit))
    return pa.timestamp(unit, zone), count


LEAVES = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    *((getattr(pa, f"int{bits}")(), _signed(bits)) for bits in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{bits}")(), st.integers(0, 2**bits - 1)) for bits in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    *((kind, TEXT) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, st.binary(max_size=20)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.decimal128(38, 5), st.integers(-(10**30), 10**30).map(lambda n: decimal.Decimal(n).scaleb(-5))),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.duration("us"), st.timedeltas(datetime.timedelta(-(10**8)), datetime.timedelta(10**8))),
    *(_stamps(unit) for unit in ("s", "ms", "us")),
    *(_stamps("us", zone) for zone in ("UTC", "Europe/Paris", "-03:30")),
]


def _list_of(kind, values, make):
    return make(kind), st.lists(st.none() | values, max_size=4)


@st.composite
def columns(draw, depth=3):
    """`(type, strategy of a value)`."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(LEAVES))
    which = draw(st.integers(0, 6))
    if which == 0:
        names = draw(NAMES)
        fields = {name: draw(columns(depth - 1)) for name in names}
        members = {name: st.none() | values for name, (_, values) in fields.items()}
        return pa.struct([(name, kind) for name, (kind, _) in fields.items()]), st.fixed_dictionaries(members)
    kind, values = draw(columns(depth - 1))
    if which == 1:
        return pa.map_(pa.int32(), kind), st.lists(st.tuples(_signed(32), st.none() | values), max_size=3)
    if which == 2:
        n = draw(st.integers(0, 3))
        return pa.list_(kind, n), st.lists(st.none() | values, min_size=n, max_size=n)
    makers = {3: pa.list_, 4: pa.large_list, 5: pa.list_view, 6: pa.large_list_view}
    return _list_of(kind, values, makers[which])


@st.composite
def arrays(draw):
    kind, values = draw(columns())
    rows = draw(st.lists(st.none() | values, max_size=12))
    array = pa.array(rows, kind)
    how = draw(st.sampled_from(["plain", "dictionary", "runs", "struct"]))
    if how == "dictionary" and len(array) > 0:
        picks = draw(st.lists(st.none() | st.integers(0, len(array) - 1), max_size=12))
        array = pa.DictionaryArray.from_arrays(pa.array(picks, pa.int16()), array)
    if how == "runs" and len(array) > 0:
        lengths = draw(st.lists(st.integers(1, 4), min_size=len(array), max_size=len(array)))
        ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
        array = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), array)
    if how == "struct":
        array = pa.StructArray.from_arrays([array, pa.array(range(len(array)))], ["a", "b"])
    begin, end = sorted(draw(st.tuples(*[st.integers(0, len(array))] * 2)))
    return array[begin:end]


@settings(max_examples=150)
@given(arrays(), st.booleans())
def test_any_array(array, as_table):
    source = pa.table({"column": array}) if as_table else array
    rows = source.to_pylist()
    with RecordList(source) as x:
        assert alike(x.to_list(), rows)
        with RecordList(rows) as y:
            assert x.fingerprint == y.fingerprint


def _without_nones(value):
    if isinstance(value, dict):
        return {k: _without_nones(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_without_nones, value))
    return value


@settings(max_examples=50)
@given(arrays(), arrays())
def test_chunks_without_missing_fields(first, second):
    source = [pa.table({"column": first}), pa.table({"column": second, "other": second})]
    rows = [_without_nones(row) for table in source for row in table.to_pylist()]
    with RecordList(sources.table(source, missing="absent")) as x:
        assert alike(x.to_list(), rows)
