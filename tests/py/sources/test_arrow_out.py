"""Exports to Arrow equal the table that pyarrow makes from the decoded records: for values of every type, for views,
and for the libraries that read streams."""

import collections
import dataclasses
import datetime as dt
import decimal
import gc
import pathlib
import random
import threading
import uuid

import numpy as np
import pytest
from arrow_results import check_table, check_values
from real_records import LISTS

import recstore
from recstore import RecordDict, RecordList

pa = pytest.importorskip("pyarrow")

UTC, EAST = dt.timezone.utc, dt.timezone(dt.timedelta(hours=5, minutes=30))
Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Box:
    left: int
    name: str


# ---- Values of every type ----

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 59, 999999)
COLUMNS = {
    "int": [1, -5, 2**62, -(2**63), 2**63 - 1],
    "number": [1, 2.5, -3],
    "bool": [True, False],
    "text": ["", "a", "é", "世界", "😀", "a\0b", "x" * 3000],
    "bytes": [b"", b"\0\xff" * 9],
    "none": [None],
    "opt": [None, 3, None],
    "opt_text": [None, "", "z"],
    "opt_bool": [None, True],
    "list": [[], [1], [1, 2, 3]],
    "list_opt": [None, [], [None, 2.5]],
    "lists": [[[1, 2], []], [[3]], []],
    "texts": [["a", "b"], [], ["é"]],
    "row": [[1.5, 2.5, 3.5, 4.5]],
    "tuple": [(1, 2), (3, 4)],
    "ragged": [(1,), (2, 3), ()],
    "struct": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
    "partial": [{"a": 1}, {"b": "x"}, {}, {"a": None, "b": None}],
    "structs": [[{"k": 1, "v": [1.5]}], [], [{"k": 2, "v": []}, {"k": 3, "v": [2.5]}]],
    "nested": [{"a": {"b": {"c": i}}} for i in range(3)],
    "null_struct": [None, {"a": 1}],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)],
    "time": [dt.time(0), dt.time(23, 59, 59, 999999)],
    "naive": [MOMENT, dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1)],
    "utc": [MOMENT.replace(tzinfo=UTC)],
    "east": [MOMENT.replace(tzinfo=EAST), None],
    "timedelta": [dt.timedelta(0), dt.timedelta(days=-3, microseconds=7)],
    "decimal": [decimal.Decimal("1.50"), decimal.Decimal("-100"), decimal.Decimal("0.001"), decimal.Decimal("2E+3")],
    "long_decimal": [decimal.Decimal(10) ** 50 + decimal.Decimal("1e-9"), decimal.Decimal(-1)],
    "uuid": [uuid.UUID(int=5), uuid.UUID(int=2**128 - 1)],
    "bytearray": [bytearray(b"abc")],
    "set": [{1}, {2}],
    "ordered": [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "array": [np.array([1, 2], np.int32), np.array([], np.int32)],
    "floats32": [np.array([1.5, -2.5], np.float32)],
    "halves": [np.array([1.5, 6e-8, 65504, -0.0, float("inf")], np.float16)],
    "uint64": [np.array([2**64 - 1, 0], np.uint64)],
    "big_endian": [np.array([1, 258], ">i4")],
    "bools": [np.array([True, False, True])],
    "seconds": [np.array(["2020-01-01T00:00:01", "1969-12-31T23:59:59"], "datetime64[s]")],
    "int8": [np.int8(-3), np.int8(4)],
    "uint16": [np.uint16(60000)],
    "float32": [np.float32(0.1)],
    "mixed_ints": [np.int8(1), np.int32(-70000)],
    "mixed_list": [[1, 2.5], [3]],
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(("times", "compression"), [(1, "auto"), (40, "auto"), (1, "none")])
def test_columns_equal_the_columns_of_pyarrow(name, times, compression):
    values = COLUMNS[name] * times
    expected = pa.array(native_order(values))
    with (
        RecordList(values, compression=compression) as x,
        RecordList([{"v": v, "w": "x" * (i % 3)} for i, v in enumerate(values)], compression=compression) as y,
    ):
        if not any(isinstance(v, (dict, tuple)) for v in values):
            check_values(x.to_arrow(), expected)
            check_values(pa.chunked_array(x).combine_chunks(), expected)
        check_values(y.field("v").to_arrow(), expected)
        check_values(y.to_arrow()["v"].combine_chunks(), expected)
        check_values(pa.table(y[::-1])["v"].combine_chunks(), expected.take(list(range(len(values)))[::-1]))


def native_order(values):
    """Returns the values with arrays in native byte order, because pyarrow takes no other."""
    return [v.astype(v.dtype.newbyteorder("=")) if isinstance(v, np.ndarray) else v for v in values]


def test_arrays_of_several_dimensions_are_lists_of_lists():
    values = [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.zeros((0, 3), np.int16),
        np.asfortranarray(np.ones((2, 2), np.int16)),
    ]
    with RecordList([{"a": v} for v in values] * 5) as x:
        assert x.to_arrow()["a"].to_pylist() == [v.tolist() for v in values] * 5
        assert x.to_arrow()["a"].type == pa.list_(pa.list_(pa.int16()))


def test_ints_from_two_to_the_63_on():
    with RecordList([{"a": 2**64 - 1}, {"a": 2**63}, {"a": 5}] * 3) as x:
        assert x.to_arrow()["a"].type == pa.uint64() and x.to_arrow()["a"].to_pylist()[:3] == [2**64 - 1, 2**63, 5]
    for values in ([2**63, -1], [2**64], [-(2**63) - 1]):
        with RecordList([{"a": value} for value in values]) as x:
            for export in (x.to_arrow, x.__arrow_c_stream__):
                with pytest.raises(TypeError, match="'a' holds ints"):
                    export()


# ---- Tuples and objects ----


@pytest.mark.parametrize(
    "rows", [[("a.jpg", 0, None), ("b.jpg", 1, 2.5)] * 20, [(1, 2), (3, 4)] * 20, [(1,)], [((1, 2), "a")] * 9]
)
def test_tuples_are_rows(rows):
    with RecordList(rows) as x:
        for table in (x.to_arrow(), pa.table(x)):
            table.validate(full=True)
            assert table.column_names == [str(i) for i in range(len(rows[0]))]
            assert [tuple(map(tuple_of, row.values())) for row in table.to_pylist()] == rows
        names = ["path", "label", "score"][: len(rows[0])]
        assert x.to_arrow(names=names).column_names == names
        for wrong in ([*names, "more"], names[1:]):
            with pytest.raises(ValueError, match="names for a table of"):
                x.to_arrow(names=wrong)


def tuple_of(value):
    return tuple(value) if isinstance(value, list) else value


def test_tuples_of_several_lengths_are_lists():
    with RecordList([(1, 2), (3,)]) as x:
        assert x.to_arrow().to_pylist() == [[1, 2], [3]]


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_objects_are_rows_by_their_fields(compression):
    for second in (lambda i: i + 0.5, lambda i: i):
        with RecordList([Point(i, second(i)) for i in range(30)], compression=compression) as x:
            assert x.to_arrow().to_pylist() == [{"x": i, "y": second(i)} for i in range(30)]
    with RecordList([{"b": Box(i, f"n{i}"), "p": Point(1, 2)} for i in range(30)], compression=compression) as x:
        table = x.to_arrow()
        assert table["b"].to_pylist() == [{"left": i, "name": f"n{i}"} for i in range(30)]
        assert table["p"].to_pylist() == [{"x": 1, "y": 2}] * 30
    with RecordList([{"p": pathlib.PurePosixPath("a/b")}] * 3, compression=compression) as x:
        assert x.to_arrow()["p"].to_pylist() == ["a/b"] * 3


# ---- Views ----

RECORDS = [
    {"id": i, "name": f"n{i % 7}", "score": i / 3, "tags": ["t"] * (i % 3), "o": None if i % 4 else i}
    | ({"late": i} if i >= 1500 else {})
    for i in range(3000)
]


@pytest.fixture(scope="module", params=["auto", "none"])
def x(request):
    with RecordList(RECORDS, compression=request.param) as store:
        yield store


VIEWS = [
    lambda x: x,
    lambda x: x[[5, 5, 2999, 0]],
    lambda x: x.shuffled(3)[100:200],
    lambda x: x[:5] + x[2990:] + x[::500],
    lambda x: x * 2,
    lambda x: x.filter(lambda r: r["id"] % 100 == 7),
    lambda x: x.lazy(),
    lambda x: x.group_by("name")["n3"],
    lambda x: x.sorted_by("score", reverse=True),
    lambda x: x.fields("late", "id")[1400:1600],
    lambda x: x + RecordList([{"id": 1.5, "name": "other", "more": [1]}]),
]


@pytest.mark.parametrize("view", VIEWS)
def test_views(x, view):
    records = view(x)
    check_table([dict(record) for record in records], records)


def test_nested_fields():
    records = [{"m": {"a": i, "b": "x", "c": [i]}, "d.e": i, "z": 1} for i in range(20)]
    with RecordList(records) as x:
        for names in (("m.a",), ("m.c", "z"), ("m.b", "m.a"), (("m", "a"), "z"), ("d.e",), ("m", "m.a")):
            view = x.fields(*names)
            assert pa.table(view).to_pylist() == view.to_list() == view.to_arrow().to_pylist()
        assert pa.table(x).column_names == ["m", "d.e", "z"] and pa.table(x.fields("z", "m")).column_names == ["z", "m"]
        assert pa.chunked_array(x.field("m.a")).to_pylist() == list(range(20))
        assert pa.table(x.field("m")).to_pylist() == [r["m"] for r in records]
        assert pa.chunked_array(x.field(("m", "c", 0))).to_pylist() == list(range(20))
        assert pa.chunked_array(x.field("m.no", default=None)).to_pylist() == [None] * 20
        assert pa.chunked_array(x.field("m.no", default=7)).to_pylist() == [7] * 20
        with pytest.raises(KeyError, match="record 0 has no field 'm.no'"):
            pa.chunked_array(x.field("m.no"))


def test_only_chosen_columns_and_rows_are_read():
    records = [{"a": i, "b": "x", "odd": i if i % 2 else "s"} for i in range(100)]
    with RecordList(records) as x:
        with pytest.raises(TypeError, match="'odd' holds values of several types, int and str"):
            pa.table(x)
        assert pa.table(x.fields("a", "b")).num_rows == 100
        assert pa.table(x.filter(lambda r: type(r["odd"]) is int)).column("odd").to_pylist() == list(range(1, 100, 2))
        assert pa.table(x[::2])["odd"].to_pylist() == ["s"] * 50


def test_views_of_a_store_have_one_schema():
    """The stream of a view has the columns of its blocks, so that views can be concatenated."""
    with RecordList([{"a": i, "o": None if i < 500 else 2.5} for i in range(1000)]) as x:
        schemas = {str(pa.table(part).schema) for part in (x, x[:10], x[990:], x[:0], x.shuffled(1))}
        assert len(schemas) == 1
        assert x[:10].to_arrow()["o"].type == pa.null()


def test_dicts():
    with RecordDict({f"k{i}": {"v": i, "t": "x" * i} for i in range(50)}) as d:
        assert pa.table(d.values()).to_pylist() == list(d.values())
        assert pa.chunked_array(d.keys()).to_pylist() == list(d)
    with RecordDict([("a", {"v": 1}), ("b", {"v": 2.5}), ("a", {"v": 3})]) as d:
        assert pa.table(d.values()).to_pylist() == [{"v": 3}, {"v": 2.5}]


def test_several_blocks_and_batches():
    records = [{"i": i, "t": f"text {i % 1000}", "f": i / 7 if i > 70000 else i} for i in range(140_000)]
    with RecordList(records) as x:
        batches = list(pa.RecordBatchReader.from_stream(x))
        assert [len(batch) for batch in batches] == [65536, 65536, 8928]
        assert pa.Table.from_batches(batches).to_pylist() == records
        order = x.shuffled(5).field("i").to_list()
        assert pa.table(x.shuffled(5)).equals(pa.Table.from_batches(batches).take(order))


# ---- Odd shapes ----


def test_stores_without_columns():
    with RecordList([]) as x:
        assert pa.table(x).shape == (0, 0) and len(x.to_arrow()) == 0
    with RecordList([{}, {}]) as x:
        assert pa.table(x).num_columns == 0 and x.to_arrow().num_columns == 0
    with RecordList([None, None]) as x:
        assert x.to_arrow().to_pylist() == [None, None]
    with RecordList([None, {"a": 1}] * 5) as x:
        assert pa.table(x).to_pylist() == [{"a": None}, {"a": 1}] * 5
        assert x.to_arrow().to_pylist() == [None, {"a": 1}] * 5


def test_lone_surrogates():
    with RecordList([{"t": "fine"}, {"t": "\udc80"}]) as x:
        with pytest.raises(ValueError, match="record 1: the field 't' has a str with a lone surrogate"):
            x.to_arrow()
        with pytest.raises(Exception, match="record 1: the field 't' has a str with a lone surrogate"):
            pa.table(x)
    with RecordList([{"\udc80": 1}]) as x, pytest.raises(ValueError, match="surrogate"):
        x.to_arrow()


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_depth(compression):
    def nested(depth):
        value = 1
        for _ in range(depth):
            value = [value]
        return {"v": value}

    with RecordList([nested(50)] * 3, compression=compression) as x:
        assert pa.table(x).to_pylist() == [nested(50)] * 3
    with RecordList([nested(150)] * 3, compression=compression) as x:
        with pytest.raises(TypeError, match="60 levels"):
            x.__arrow_c_stream__()


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_values_without_an_arrow_type(compression):
    for values, match in (
        ([1, "a"], "'a.b' holds values of several types, int and str"),
        ([[1], {"k": 1}], "list and dict"),
        ([[1], ["x"]], r"'a.b\[\]' holds values of several types, int and str"),
        ([True, 1], "bool and int"),
        ([1j], "'a.b' holds values for which Arrow has no type: complex"),
        ([{1: 2}], "a key that is not a str"),
        ([range(3)], "range"),
    ):
        with RecordList([{"a": {"b": value}, "c": 1} for value in values * 3], compression=compression) as x:
            for export in (x.to_arrow, x.__arrow_c_stream__, lambda: pa.table(x)):
                with pytest.raises(TypeError, match=match):
                    export()
            with pytest.raises(TypeError, match="Change it with x.map"):
                x.field("a.b").to_arrow()
            assert x.fields("c").to_arrow().num_rows == len(x)


@pytest.mark.parametrize("value", [["", b"\x80"], ["a", b"b", b"\xff"]])
def test_mixed_bytes_and_text_are_not_exported_as_invalid_text(value):
    with (
        RecordList([{"a": value}]) as x,
        pytest.raises(TypeError, match="'a.*' holds values of several types, str and bytes"),
    ):
        x.to_arrow()


@pytest.mark.parametrize("pair", [(dt.date(2000, 1, 1), 0), (b"", ""), (0.5, True)])
def test_types_that_pyarrow_would_change_are_refused(pair):
    with RecordList([{"a": value} for value in pair]) as x, pytest.raises(TypeError):
        x.to_arrow()


def test_names_that_arrow_cannot_hold():
    for records in ([{"a\0b": 1}], [{"a": {"\0": None}}]):
        with RecordList(records) as x, pytest.raises(ValueError, match="has a NUL"):
            pa.table(x)


# ---- Damage ----


@pytest.mark.parametrize(
    ("records", "paths"),
    [
        ([{"t": (i, i + 1)} for i in range(100)], ["t.1"]),
        ([{"t": (i, str(i))} for i in range(100)], ["t.1", "t.0"]),
        ([{"t": [1, 2]}] * 5, ["t.x"]),
        ([{"t": 5}, {"t": {"x": 1}}], ["t.x"]),
        ([{"t": (5, 6)}], ["t.5"]),
        ([{"a": {"b": {"c": 1}}}, {"a": {"b": (1, 2)}}], ["a.b.c"]),
        ([{"t": {"x": (1, 2)}}, {"t": None}], ["t.x"]),
        ([1, 2, 3], ["a"]),
    ],
)
def test_paths_into_values_that_are_not_dicts(records, paths):
    """Such paths select nothing. Before a fix, they led to a crash and to values of other fields."""
    with RecordList(records) as x:
        chosen = x._only(paths)
        table = chosen.to_arrow()
        assert table.num_rows == len(records)
        columns = {name: pa.array([row.get(name) for row in chosen]).to_pylist() for row in chosen for name in row}
        assert table.to_pydict() == columns


@pytest.mark.parametrize("make", [lambda value: value, lambda value: [value] * 3, lambda value: [{"b": value}]])
@pytest.mark.parametrize("compression", ["none", "auto"])
def test_ints_beside_ints_from_two_to_the_63_on(make, compression):
    """The width of an int node says too much of its ints, and a rising node is not in them."""
    rng = random.Random(1)
    positive = [{"a": make(rng.randrange(2**64))} for _ in range(400)]
    with RecordList(positive, compression=compression) as x:
        assert x.to_arrow().to_pylist() == positive
    with RecordList([{"a": make(2**63 + i if i % 2 else -i)} for i in range(400)], compression=compression) as x:
        pytest.raises(TypeError, x.to_arrow).match("fit neither int64 nor uint64")


# ---- Requested types ----


def test_requested_types_are_used_if_nothing_is_lost():
    records = [{"i": i % 7, "big": i % 7 << 40, "t": f"t{i}", "b": b"x", "n": None, "l": [i]} for i in range(200)]
    records = [{**record, "f": i / 2} for i, record in enumerate(records)]
    requested = pa.schema(
        {"i": pa.int16(), "big": pa.int32(), "t": pa.large_string(), "b": pa.binary_view(), "n": pa.float32(),
         "l": pa.large_list(pa.uint16()), "f": pa.float32()}
    )  # fmt: skip
    expected = ["int16", "int64", "large_string", "binary_view", "float", "large_list<item: uint16>", "double"]
    with RecordList(records) as x:
        array = pa.chunked_array(Requesting(x, pa.struct(list(requested))))
        assert [str(field.type) for field in array.type] == expected
        array.validate(full=True)
        assert array.to_pylist() == records
        with pytest.raises(ValueError, match="PyCapsule"):
            x.__arrow_c_stream__("not a capsule")


class Requesting:
    """A wrapper that requests a schema from the stream of a container."""

    def __init__(self, container, schema):
        self.container, self.schema = container, schema

    def __arrow_c_stream__(self, requested_schema=None):
        return self.container.__arrow_c_stream__(self.schema.__arrow_c_schema__())


def test_text_as_views():
    texts = ["", "a", "x" * 4, "y" * 8, "z" * 12, "w" * 13, "é" * 6, "é" * 7, None, "long " * 99]
    with RecordList([{"t": t, "l": [t, t]} for t in texts * 30]) as x:
        array = pa.chunked_array(Requesting(x, pa.struct({"t": pa.string_view(), "l": pa.list_(pa.string_view())})))
        array.validate(full=True)
        assert str(array.type) == "struct<t: string_view, l: list<item: string_view>>"
        assert array.to_pylist() == x.to_list()


# ---- Lifetimes and threads ----


def test_closing_ends_a_stream():
    x = RecordList([{"a": i} for i in range(200_000)])
    reader = pa.RecordBatchReader.from_stream(x)
    assert reader.read_next_batch().num_rows == 65536
    x.close()
    with pytest.raises(Exception, match="ClosedError: the store is closed"):
        reader.read_next_batch()
    with pytest.raises(recstore.errors.ClosedError):
        x.__arrow_c_stream__()


def test_tables_outlive_the_store_and_a_stream_keeps_it():
    records = [{"a": i, "t": f"t{i}", "l": [i]} for i in range(1000)]
    x = RecordList(records)
    table, array = pa.table(x), x.field("a").to_arrow()
    x.__arrow_c_stream__()  # a capsule that nobody reads
    x.close()
    assert table.to_pylist() == records and array.to_pylist() == list(range(1000))
    reader = pa.RecordBatchReader.from_stream(RecordList([{"a": i} for i in range(70_000)]))
    gc.collect()
    assert reader.read_all()["a"].to_pylist() == list(range(70_000))


def test_threads_read_streams_of_one_store():
    records = [{"a": i, "t": f"t{i % 99}"} for i in range(100_000)]
    results = []
    with RecordList(records) as x:

        def read(seed):
            results.append(pa.table(x.shuffled(seed)).sort_by("a").equals(expected))

        expected = pa.table(x)
        threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 4


def test_polars_in_threads(monkeypatch):
    pytest.importorskip("polars")
    from recstore.sources import arrow_out

    records = [{"i": i, "t": f"t{i % 1000}", "late": 1.5 if i > 2500 else None} for i in range(3000)]
    with RecordList(records) as x:
        whole = x.to_polars()
        monkeypatch.setattr(arrow_out, "_RECORDS_PER_THREAD", 700)
        monkeypatch.setattr(arrow_out.cores, "available", lambda: 3)
        parts = x.to_polars()
        assert parts.n_chunks() == 3 and parts.equals(whole) and parts.to_dicts() == records
        assert x.shuffled(1).to_polars().to_dicts() == x.shuffled(1).to_list()
        assert x.field("t").to_polars().to_list() == [r["t"] for r in records]
    with RecordList([{"t": "\udc80" if i == 2999 else "x"} for i in range(3000)]) as x:
        with pytest.raises(ValueError, match="record 2999: the field 't'"):
            x.to_polars()


# ---- Real files ----


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_real_files(name):
    records = LISTS[name]()
    with RecordList(records) as x:
        if not isinstance(records[0], dict):
            check_values(x.to_arrow(), pa.array(records))
            return
        try:
            for name in {name for record in records for name in record}:
                pa.array([record.get(name) for record in records])
        except (pa.ArrowException, TypeError):
            with pytest.raises(TypeError, match="several types"):
                x.to_arrow()
            return
        check_table(records, x)
