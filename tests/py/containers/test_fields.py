"""lazy, Record, field and fields: names, missing fields, Records, columns."""

import collections
import copy
import functools
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

import recstore
from recstore._core.native import projection_from
from recstore.containers.fields import FieldView

RECORDS = [
    {"id": i, "segmentation": [[1.5] * (i % 5)] * (i % 3), "bbox": [i * 1.0, 2, 3.5, i / 4], "name": f"né{i}", "ok": i % 2 == 0,
     "meta": {"camera": {"id": i % 7, "lens.mm": 50}, "tags": ["a"] * (i % 3)}, "none": None, "a.b": -i, "ids": [i] * (i % 4)}
    for i in range(500)
]  # fmt: skip


@pytest.fixture(scope="module", params=["auto", "none"])
def x(request):
    with recstore.RecordList(RECORDS, compression=request.param) as x:
        yield x


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names(x):
    assert x.field("meta.camera.id").to_list() == [r["meta"]["camera"]["id"] for r in RECORDS]
    assert x.field("meta").field("camera") == x.field("meta.camera") == [r["meta"]["camera"] for r in RECORDS]
    assert x.field("a.b")[3] == -3, "the whole name, if a record has it"
    assert x.field(("meta", "camera", "lens.mm"))[0] == 50
    assert x.field("meta.camera").field("lens.mm")[0] == 50
    assert x.field(("bbox", 1)).to_list() == [2] * 500
    assert x.field(("bbox", -1))[8] == 2.0
    assert x.field("meta.camera").name == "meta.camera"


def test_the_whole_name_has_precedence_in_each_record():
    with recstore.RecordList([{"a": {"b": 1}}, {"a.b": 2}, {"a.b": 3, "a": {"b": 4}}, {"q": {"a.b": 5}}]) as x:
        assert x.field("a.b", default=None).to_list() == [1, 2, 3, None]
        assert x.field(("a", "b"), default=None).to_list() == [1, None, 4, None]
        assert x.field("q").field("a.b")[3] == 5
        assert x.fields("a.b").to_list() == [{"a": {"b": 1}}, {"a.b": 2}, {"a.b": 3}, {}]


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_keys_that_are_not_str(compression):
    record = {1: "int", (2, "x"): "tuple", None: "none", b"b": "bytes", 2.5: "float"}
    with recstore.RecordList([record] * 100, compression=compression) as x:
        for key in record:
            assert x.field((key,))[50] == record[key] == x.lazy()[50][key]
        assert x.field((True,))[0] == "int" == x.lazy()[0][1.0], "keys compare as in a dict"
        assert x.field((3,), default="no")[0] == "no"


@pytest.mark.parametrize("name", [None, 2.5, True, ["a"], (), {"a"}])
def test_invalid_names(x, name):
    pytest.raises(TypeError, lambda: x.field(name)).match("a field is a str, an int, or a tuple of keys")
    pytest.raises(TypeError, lambda: x.fields("id", name))
    pytest.raises(TypeError, lambda: x.field(([],))).match("unhashable")


def test_missing_fields(x):
    caught = pytest.raises(KeyError, lambda: x.field("meta.camera.focus")[7])
    assert caught.value.args == ("record 7 has no field 'meta.camera.focus'",)
    assert x.field("meta.camera.focus", default=5)[7] == 5
    default = []
    assert x.field("q", default=default)[0] is default
    for path in (("bbox", 4), ("bbox", -5), ("bbox", "x"), ("id", "x"), ("name", 0), ("none", "x"), ("meta", 0)):
        assert x.field(path, default="lacking")[3] == "lacking"
    with recstore.RecordList(["text", [1, 2], 3]) as y:
        assert y.field("a", default=None).to_list() == [None] * 3
        assert y.field((1,), default=None).to_list() == [None, 2, None]
        assert y.fields((1,)).to_list() == [{}, {1: 2}, {}]


def test_fields(x):
    got = x.fields("bbox", "meta.camera.id", "id")
    assert got[9] == {"bbox": RECORDS[9]["bbox"], "meta": {"camera": {"id": 2}}, "id": 9}
    assert list(got[9]) == ["bbox", "meta", "id"]
    assert x.fields("meta.tags", "meta.camera.id")[1] == {"meta": {"tags": ["a"], "camera": {"id": 1}}}
    assert (
        x.fields("meta", "meta.camera.id")[1] == {"meta": RECORDS[1]["meta"]} == x.fields("meta.camera.id", "meta")[1]
    )
    assert x.fields(("bbox", 0))[4] == {"bbox": {0: 4.0}}
    assert x.fields()[0] == {}
    assert type(got) is recstore.RecordView and type(got[3:5]) is recstore.RecordView and got[3:5][0] == got[3]


# ---- views -----------------------------------------------------------------------------------------------------------


def test_field_views_are_views(x):
    view = x.field("id")
    assert type(view) is FieldView and isinstance(view, recstore.RecordList)
    assert type(view[5:10]) is FieldView and view[5:10].to_list() == [5, 6, 7, 8, 9]
    assert view[::-1][0] == 499 and view[-1] == 499 and 17 in view and view.index(17) == 17 and view.count(3) == 1
    assert view[490:].to_numpy().tolist() == list(range(490, 500))
    assert x[100:].field("id")[0] == 100 == x[100:].lazy()[0]["id"]
    assert type(view)([1, 2]) == [1, 2]
    assert copy.copy(view) is view
    pytest.raises(IndexError, lambda: view[500])


def test_parts_of_parts(x):
    assert x.lazy().field("id")[5] == 5
    assert x.lazy().lazy()[5]["id"] == 5
    record = x.field("meta.camera").lazy()[8]
    assert type(record) is recstore.Record and dict(record) == RECORDS[8]["meta"]["camera"]
    assert x.fields("meta.camera.id", "id").field("meta.camera.id")[8] == 1
    assert x.fields("id", "ok").fields("id")[3] == {"id": 3}
    assert x.fields("id").field("name", default=0)[3] == 0
    assert dict(x.fields("id").lazy()[3]) == {"id": 3}
    assert x.field("meta").fields("tags")[1] == {"tags": ["a"]}
    assert x.field("q", default={"a": 1}).field("a")[0] == 1
    assert x.field("q", default={"a": 1}).lazy()[0]["a"] == 1
    pytest.raises(KeyError, lambda: x.field("q").fields("id")[0])
    pytest.raises(KeyError, lambda: x.field("q").lazy()[0])


def projections(x):
    views = [x.lazy(), x.field("a.b"), x.field("a.b", default=None), x.field("q", default=[1, {"x": 2.5}]), x.field((1, "a", None)),
             x._only(["a", "b.c"]), x.field("meta").lazy(), x.field("meta")._only(["a"]), x._only(["a"]).field("b").lazy(),
             x.field("q", default=np.arange(300)).field("a")]  # fmt: skip
    return [view.projection for view in views]


def test_defaults_compare_by_their_stored_values():
    big, other = np.arange(300), np.arange(300)
    with recstore.RecordList([{"a": 1}, {"b": 2}]) as x:
        view = x.field("q", default=big)
        assert view.projection == x.field("q", default=big).projection == x.field("q", default=other).projection
        assert len(view + x.field("q", default=other)) == 4
        for unlike in (np.arange(301), np.arange(300.0), list(range(300)), None):
            assert view.projection != x.field("q", default=unlike).projection
        assert view.projection != x.field("q").projection and view.projection != x.field("p", default=big).projection
        assert x.field("q", default=1).projection != x.field("q", default=True).projection
        for value in (float("nan"), print):
            assert x.field("q", default=value).projection == x.field("q", default=value).projection
        assert x.field("q", default=print).projection != x.field("q", default=repr).projection


def test_descriptions_of_projections_are_plain_values(x):
    def plain(value):
        return (
            value is None or type(value) in (str, int, bytes, bool) or type(value) is tuple and all(map(plain, value))
        )

    for projection in projections(x)[:-1]:
        assert plain(projection.describe())
        again = projection_from(projection.describe())
        assert again == projection and hash(again) == hash(projection) and type(again) is type(projection)
    assert len({projection.describe() for projection in projections(x)}) == len(projections(x))
    assert projection_from(None) is None
    assert (projection_from(projections(x)[-1].describe()).base.default == np.arange(300)).all()


DEEP = functools.reduce(lambda inner, _: ("lazy", None, inner), range(100), None)
FORGED = [DEEP, (), 3, "x", b"lazy", ("lazy",), ("lazy", 1, None), ("lazy", (b"", b""), None), ("field", None, None, None), ("what", 1),
          ("field", (b"\x90", b""), None, None), ("field", (b"\x0e\x01\x90", b""), None, None), ("fields", 3, None, None),
          ("field", (b"\x0e\x01\x0e\x01\x0d\x00", b""), None, None), ("fields", (None,), None, None), ("lazy", None, 5),
          ("field", (b"\x0e\x01\x0e\x01\x90", b""), (b"\x0d\xff\xff\xff\x7f", b""), None), ("field", ("a", "b"), None, None)]  # fmt: skip


@pytest.mark.parametrize("description", FORGED, ids=lambda description: f"{description!r:.40}")
def test_forged_descriptions(description):
    """Damaged bytes of a handle."""
    pytest.raises((recstore.errors.CorruptError, recstore.errors.VersionError), lambda: projection_from(description))


# ---- Record ----------------------------------------------------------------------------------------------------------


def test_a_record_is_a_mapping(x):
    r, plain = x.lazy()[33], RECORDS[33]
    assert isinstance(r, Mapping) and type(r) is recstore.Record and not isinstance(r, dict)
    assert r["bbox"] == plain["bbox"] and r["meta"] == plain["meta"] and type(r["meta"]) is dict
    assert len(r) == len(plain) and list(r) == list(plain) and "bbox" in r and "q" not in r and bool(r)
    assert r.keys() == plain.keys() and list(r.values()) == list(plain.values())
    assert list(r.items()) == list(plain.items())
    assert r.get("id") == 33 and r.get("q") is None and r.get("q", 7) == 7
    assert dict(r) == plain == {**r} and type(dict(r)) is dict
    assert r == plain and plain == r and r == x.lazy()[33] and r != x.lazy()[34] and r != 3
    assert r.class_name is None
    caught = pytest.raises(KeyError, lambda: r["q"])
    assert caught.value.args == ("q",)
    pytest.raises(TypeError, lambda: r[[]]).match("unhashable")
    with pytest.raises(TypeError):
        r["id"] = 4
    r["meta"]["camera"].clear()  # a value belongs to the caller
    assert r["meta"] == plain["meta"]
    match r:
        case {"id": number, "ok": False}:
            assert number == 33
        case _:
            pytest.fail("no mapping pattern")


def test_records_of_other_kinds():
    values = ["text", [1, {"a": 2}], 3, None, {"a": 1}, (1, 2), {}]
    for compression in ("auto", "none"):
        with recstore.RecordList(values * 30, compression=compression) as x:
            got = x.lazy().to_list()
            assert got == values * 30
            assert [type(g) is recstore.Record for g in got] == [type(v) is dict for v in values * 30]
    keys = {f"key{i}": i for i in range(300)}
    for record in ({"a": [1, 2], "b": {"c": "d"}}, keys):  # a constant
        with recstore.RecordList([record] * 500) as x:
            r = x.lazy()[499]
            assert len(r) == len(record) and all(r[key] == value for key, value in record.items()) and "no" not in r
            assert all(x.field(key)[3] == value for key, value in record.items())


def test_repr_is_short(x):
    assert repr(x.lazy()[3]) == "<Record: id, segmentation, bbox, name, ok, meta, none, a.b, and 1 more>"
    assert repr(recstore.Record("shapes.Box", {"x": 1})) == "Record(shapes.Box: {'x': 1})"


def test_pickle_and_copy(x):
    r = x.lazy()[3]
    for again in (pickle.loads(pickle.dumps(r)), copy.deepcopy(r), copy.copy(r)):
        assert type(again) is recstore.Record and again == r == RECORDS[3]
    with recstore.RecordList([{"a": 1}]) as y:
        r = y.lazy()[0]
        copies = pickle.loads(pickle.dumps(r)), copy.deepcopy(r)
    assert copies == ({"a": 1}, {"a": 1}), "the copies need no store"


def test_a_record_with_its_own_values():
    r = recstore.Record("shapes.Box", {"x": 1, "y": [2]}, _origin=(27, ()))
    assert r["x"] == 1 and list(r) == ["x", "y"] and len(r) == 2 and r.class_name == "shapes.Box"
    assert r._origin == (27, ())
    again = pickle.loads(pickle.dumps(r))
    assert again == r and again._origin == (27, ()) and again.class_name == "shapes.Box"
    assert r != recstore.Record("shapes.Circle", {"x": 1, "y": [2]}) and r != {"x": 1, "y": [2]}
    assert recstore.Record(None, {"x": 1}) == {"x": 1} and repr(recstore.Record(None, {})) == "Record({})"
    assert isinstance(r, Mapping) and "x" in r and r.get("z", 5) == 5 and dict(r) == {"x": 1, "y": [2]}
    assert r == recstore.Record("shapes.Box", {"y": [2], "x": 1}) and list(r.items()) == [("x", 1), ("y", [2])]
    with pytest.raises(TypeError):
        r["x"] = 2
    pytest.raises(KeyError, lambda: r["z"])
    with recstore.RecordList([recstore.Record(None, {"a": 1})]) as stored:
        assert type(stored[0]) is dict and stored[0] == {"a": 1}
    assert hash(recstore.Record("a.B", {"x": 1})) == hash(recstore.Record("a.B", {"x": 1}))
    pytest.raises(TypeError, lambda: hash(r)).match("unhashable")
    deep = copy.deepcopy(r)
    deep["y"].append(3)
    assert r["y"] == [2] and recstore.Record._of("a.B", {"x": 1})["x"] == 1


def test_closed():
    x = recstore.RecordList([{"a": [1]}] * 3)
    r, view, lazy = x.lazy()[1], x.field("a"), x.lazy()
    x.close()
    for use in (lambda: r["a"], lambda: list(r), lambda: len(r), lambda: "a" in r, lambda: dict(r), lambda: r == {}, lambda: lazy[0],
                lambda: view[0], view.to_numpy, lambda: r.get("a"), lambda: r.class_name):  # fmt: skip
        pytest.raises(recstore.errors.ClosedError, use)
    assert repr(r) == "<Record: closed>"


def test_a_key_that_closes_the_store():
    x = recstore.RecordList([{"a": 1, b"b": 2}], compression="none")

    class Key:
        def __hash__(self):
            return hash("a")

        def __eq__(self, other):
            x.close()
            return other == "a"

    assert x.lazy()[0][Key()] == 1
    assert x.closed


def test_keys_that_raise(x):
    class Key:
        def __hash__(self):
            raise ZeroDivisionError

    for use in (lambda: x.lazy()[0][Key()], lambda: Key() in x.lazy()[0], lambda: x.field((Key(),))):
        pytest.raises(ZeroDivisionError, use)


# ---- columns ---------------------------------------------------------------------------------------------------------


def test_columns(x):
    """test_ways_out.py of tests/prop compares the columns of any records."""

    def check(got, dtype, expected):
        assert got.dtype == dtype and np.array_equal(got, expected)
        assert got.flags.writeable

    check(x.field("id").to_numpy([3, -1, 3]), np.int64, [3, 499, 3])
    check(x.field("id").to_numpy(np.array([2, 4])), np.int64, [2, 4])
    check(x[::-2].field("id").to_numpy(), np.int64, np.arange(499, -1, -2))
    values, offsets = x.field("ids").to_numpy()
    check(values, np.int64, np.concatenate([r["ids"] for r in RECORDS]))
    check(offsets, np.int64, np.cumsum([0] + [len(r["ids"]) for r in RECORDS]))
    assert x.field("meta").to_numpy().dtype == object and x.field("meta").to_numpy()[3] == RECORDS[3]["meta"]
    assert x.field("id").to_numpy([]).shape == (0,)
    pytest.raises(IndexError, lambda: x.field("id").to_numpy([500])).match("500 is out of range: 500 records")
    pytest.raises(TypeError, lambda: x.field("id").to_numpy([2.5]))
    pytest.raises(KeyError, lambda: x.field("no").to_numpy()).match("record 0 has no field 'no'")


def test_arrow_arrays_of_some_records(x):
    pytest.importorskip("pyarrow")
    assert x.field("id").to_arrow([3, 1]).to_pylist() == [3, 1]


def test_tensors(x):
    torch = pytest.importorskip("torch")
    assert x.field("bbox").to_torch([1, 2]).shape == (2, 4)
    values, offsets = x.field("ids").to_torch()
    assert offsets.dtype is torch.int64 and len(offsets) == 501 and int(offsets[-1]) == len(values)
    pytest.raises(TypeError, lambda: x.field("name").to_torch()).match("'name' is a column of ")


def test_the_argument_ragged():
    with recstore.RecordList([{"a": [1, 2]}, {"a": [3, 4]}, {"a": [5]}]) as x:
        assert [c.tolist() for c in x.field("a").to_numpy()] == [[1, 2, 3, 4, 5], [0, 2, 4, 5]]
        assert x.field("a").to_numpy([0, 1]).tolist() == [[1, 2], [3, 4]]
        assert [c.tolist() for c in x.field("a").to_numpy([0, 1], ragged=True)] == [[1, 2, 3, 4], [0, 2, 4]]
        with pytest.raises(ValueError, match="'a' of record 2 has 1 elements, others 2"):
            x.field("a").to_numpy(ragged=False)
        pytest.raises(ValueError, lambda: x.field(("a", 0)).to_numpy(ragged=True)).match("ragged=True is for lists")


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize(
    "values, message",
    [
        ([1, None, 2], "'v' of record 1 is None among numbers"),
        ([None, 1.5], "'v' of record 0 is None among numbers"),
        ([1, "a"], "'v' of record 1 is a str among numbers"),
        ([[1], 2], "'v' of record 0 is a list among numbers"),
        ([[1], None], "'v' of record 1 is None among lists"),
        ([[1, None]], "'v' of record 0 holds None among numbers"),
        ([[[1]], [[1, 2]]], "'v' of record 1 holds nested lists of shape (1, 2), others (1, 1)"),
        ([[[1], [1, 2]]], "'v' of record 0 holds nested lists of several lengths"),
        (
            [np.zeros((2, 2)), np.zeros((3, 2))],
            "'v' of record 1 has shape (3, 2), others (2, 2)",
        ),
    ],
    ids=repr,
)
def test_values_that_are_not_columns(values, message, compression):
    with recstore.RecordList([{"v": v} for v in values], compression=compression) as x:
        caught = pytest.raises(ValueError, lambda: x.field("v").to_numpy())
        assert message in str(caught.value) and "to_list()" in str(caught.value)


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize(
    "values, dtype",
    [
        ([True, 2], "int64"), ([1, 2.5], "float64"), ([True, 2.5], "float64"), ([2**63, 1], "uint64"), ([2**63, -1], "object"),
        ([2**64], "object"), ([b"a\0", b""], "object"), ([None, None], "object"), ([{"a": 1}], "object"), ([np.float32(1), np.float32(2)], "float32"),
        ([np.arange(3, dtype="u1")] * 2, "uint8"), ([[[1, 2], [3, 4]]] * 2, "int64"), ([(1, 2.5)] * 3, "float64"), ([[], []], "int64"),
        (["\ud800"], "object"),
    ],
    ids=repr,
)  # fmt: skip
def test_column_dtypes(values, dtype, compression):
    with recstore.RecordList([{"v": v} for v in values] * 40, compression=compression) as x:
        got = x.field("v").to_numpy()
        assert got.dtype == dtype
        if dtype == "object":
            assert got.tolist() == values * 40
        else:
            assert repr(got.tolist()) == repr(np.array(values * 40, dtype).tolist())


def test_calling_record_with_only_a_mapping_gives_a_dict():
    """Collate functions and device transfers call type(record)(mapping)."""
    with recstore.RecordList([{"a": 1}]) as x:
        kind = type(x.lazy()[0])
    for mapping in ({"a": 2}, collections.OrderedDict(a=2), collections.UserDict(a=2)):
        assert type(kind(mapping)) is dict and kind(mapping) == {"a": 2}
    assert type(kind(None, {"a": 2})) is kind
    for wrong in ((), ("a.B",), ([("a", 2)],), (None, {}, 1)):
        pytest.raises(TypeError, lambda: kind(*wrong))


def test_an_int_is_the_place_of_an_element_or_a_key():
    """field(1) reads the same values as field((1,))."""
    rows = [(3, "c", 2.5), (1, "a", 0.5), (2, "b", 1.5)]
    for records in (rows, [list(row) for row in rows], [dict(enumerate(row)) for row in rows]):
        with recstore.RecordList(records) as x:
            for name in (1, np.int64(1)):
                assert x.field(name).to_list() == x.field((name,)).to_list() == ["c", "a", "b"]
            assert x.field(0).to_numpy().tolist() == [3, 1, 2] and x.field(0).name == "0"
            assert x.fields(0, 2)[1] == {0: 1, 2: 0.5}
            assert x.field(7, default=None).to_list() == [None] * 3
            assert x.sorted_by(0).field(1).to_list() == ["a", "b", "c"]
            assert x.index_by(0)[2] == records[2] and x.group_by(1)["a"].to_list() == [records[1]]
            assert sorted(map(len, x.split([2, 1], seed=0, stratify=1))) == [1, 2]
            pytest.raises(KeyError, lambda: x.field(3)[0]).match("record 0 has no field '3'")
    with recstore.RecordList(rows) as x, x.index_by(0) as d:
        assert d.field(-1)[1] == 0.5
        pytest.raises(TypeError, lambda: x.field(np.array([1, 2]))).match("a field is a str, an int")
