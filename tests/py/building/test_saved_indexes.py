"""Indexes that are saved with a store, through `index_by` and `group_by`."""

import math
import os
import pickle

import pytest
from indexed import FIELDS, RECORDS, path  # noqa: F401

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native
from recstore.building import saved_indexes


@pytest.fixture
def x(path):
    with recstore.open(path) as store:
        yield store


@pytest.fixture
def forbid_building(monkeypatch):
    """Returns a function that makes every later build of an index an error."""

    def build(*_):
        raise AssertionError("an index is built")

    def forbid():
        for name in ("KeyGroups", "hash_keys"):
            monkeypatch.setattr(native, name, build)

    return forbid


def plain(mapping):
    return [(key, value.to_list() if hasattr(value, "to_list") else value) for key, value in mapping.items()]


def assert_same(one, other):
    """Checks that both have the same entries in the same order, keys of the same types, and the same lookups."""
    assert list(map(repr, one)) == list(map(repr, other))
    assert repr(plain(one)) == repr(plain(other))  # NaN is not equal to itself
    assert all(type(a) is type(b) for a, b in zip(one, other))
    for key in one:
        if key == key:
            assert one[key] == other[key]
    assert one.get("no such key") is None and len(one) == len(other)


# ---- Reading ----


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_the_same_as_one_built_in_memory(x, field, forbid_building):
    with RecordList(RECORDS) as y:
        built = y.index_by(field), y.group_by(field), y.group_by(field, default_factory=list)
        forbid_building()
        saved = x.index_by(field), x.group_by(field), x.group_by(field, default_factory=list)
        for one, other in zip(saved, built):
            assert one.key_index.saved is not None and other.key_index.saved is None
            assert_same(one, other)
            assert one.fingerprint == other.fingerprint
        assert saved[2]["no such key"] == []
        with pytest.raises(KeyError):
            saved[1]["no such key"]


KEYS = {
    "ints": [5, 3, 5, -1, 2**40, 2**40, 2**70],
    "text and tuples": ["a", "é", "日本", "😀", "a", "", (1, "a"), (1.0, "a"), (), (1, "a"), ((),)],
    "NaN": [math.nan, 1.0, math.nan, 1.0],
    "all alike": ["k"] * 70,
    "none": [],
    "many": [i * 7919 % 1000 for i in range(3000)],
    "mixed types": [i if i % 3 else str(i) for i in range(500)],
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_keys_of_all_kinds(keys, tmp_path):
    """tests/prop compares small keys with a reader in plain Python."""
    with RecordList({"k": key, "i": i} for i, key in enumerate(keys)) as y:
        y.save(tmp_path / "x.recs", index_by="k", group_by="k")
        with recstore.open(tmp_path / "x.recs", verify="full") as x:
            assert_same(x.index_by("k"), y.index_by("k"))
            assert_same(x.group_by("k"), y.group_by("k"))
            plain_groups = {}
            for i, key in enumerate(keys):
                plain_groups.setdefault(key, []).append(i)
            if "nan" not in map(str, keys):
                assert {key: group.field("i").to_list() for key, group in x.group_by("k").items()} == plain_groups


def test_ascending_groups_store_no_rows(x):
    """image ascends and label does not, so only label needs 4 bytes per record."""
    image, label = (native.find_saved(x.segment, native.INDEX_GROUPS, native.Path(name)) for name in ("image", "label"))
    assert image.blob(1) is None and label.blob(1).size == 4 * 300
    assert x.group_by("image")[4].to_list() == RECORDS[12:15]


def test_projections(x, forbid_building):
    forbid_building()
    assert x.lazy().index_by("id")["Q3"]["box"] == [3, 3]
    assert type(x.lazy().group_by("image")[2][0]) is recstore.Record
    assert x.index_by("id").field("box")["Q5"] == [5, 5]
    assert x.group_by("label").field("id")[3][0] == next(r["id"] for r in RECORDS if r["label"] == 3)
    assert x.index_by("id").lazy()["Q9"]["image"] == 3
    assert x.group_by("image").fields("id")[0].to_list() == [{"id": "Q0"}, {"id": "Q1"}, {"id": "Q2"}]
    assert list(x.index_by("label").values())[:2] == list(x.index_by("label").values()[:2])


def test_without_a_saved_index_one_is_built(x):
    for view in (x[:10], x.shuffled(1), x.filter(lambda r: r["image"] < 3), x + x, x.fields("id", "box")):
        assert view.index_by("id").key_index.saved is None
        assert view.index_by("id")["Q3"]["box"] == [3, 3]
    for key in ("meta", ("meta", "camera")):
        with pytest.raises(TypeError) if key == "meta" else pytest.MonkeyPatch.context():
            assert x.index_by(key).key_index.saved is None
    assert x.index_by(lambda r: r["id"]).key_index.saved is None
    assert x.index_by(("id",)).key_index.saved is not None  # the same path as "id"
    with pytest.raises(KeyError, match="no field 'nothing'"):
        x.index_by("nothing")


def test_select_and_values(x):
    d = x.index_by("id")
    assert d.select(["Q7", "Q2"]).to_dict() == {"Q7": RECORDS[7], "Q2": RECORDS[2]}
    assert d.get_many(["Q1", "nothing", "Q299"], default=None) == [RECORDS[1], None, RECORDS[299]]
    assert "Q4" in d and 4 not in d and d.keys()[3] == "Q3"


def test_saving_the_dict_of_a_saved_index(x, tmp_path):
    """The dict is saved as a mapping, not as the whole file."""
    x.index_by("id").save(tmp_path / "d.recs")
    x.group_by("image").save(tmp_path / "g.recs")
    with recstore.open(tmp_path / "d.recs") as d, recstore.open(tmp_path / "g.recs") as g:
        assert type(d) is RecordDict and d["Q8"] == RECORDS[8] and g[1] == RECORDS[3:6]


# ---- Saving ----


def test_a_view_saves_an_index_of_its_records(x, tmp_path):
    x[100:200].save(tmp_path / "part.recs", index_by="id", group_by="meta.camera")
    x.fields("id").save(tmp_path / "ids.recs", index_by="id")
    with recstore.open(tmp_path / "part.recs", verify="full") as part, recstore.open(tmp_path / "ids.recs") as ids:
        assert part.index_by("id").key_index.saved and part.index_by("id")["Q150"] == RECORDS[150]
        assert "Q99" not in part.index_by("id") and len(part.group_by("meta.camera")[0]) == 20
        assert ids.index_by("id")["Q3"] == {"id": "Q3"}
        assert len(part.info().indexes) == 2  # the indexes of x are of other records


def test_saving_again_keeps_the_indexes(x, path, tmp_path):
    x.save(tmp_path / "same.recs")
    assert (tmp_path / "same.recs").read_bytes() == path.read_bytes()
    x.save(tmp_path / "more.recs", index_by=["id", "meta.camera"], group_by="id")
    with recstore.open(tmp_path / "more.recs", verify="full") as more:
        assert len(more.info().indexes) == 12
    with RecordList(RECORDS) as y:
        y.save(tmp_path / "y.recs", index_by="id")
        with recstore.open(tmp_path / "y.recs") as one:
            one.save(tmp_path / "two.recs", group_by="image")
        with recstore.open(tmp_path / "two.recs", verify="full") as two:
            assert [(i.kind, i.field) for i in two.info().indexes] == [("index_by", "id"), ("group_by", "image")]
            assert two.segment.id != y.segment.id and two.fingerprint == y.fingerprint


@pytest.mark.parametrize(
    "how", [{}, {"backing": "dir"}, {"compression": "none"}, {"name": "saved-index-test"}, {"workers": 2}]
)
def test_a_built_store_has_its_indexes(how, forbid_building):
    records = [RECORDS[:100], RECORDS[100:]] if "workers" in how else iter(RECORDS)
    with RecordList(records, index_by="id", group_by=["image", "label"], **how) as x:
        forbid_building()
        assert x.index_by("id")["Q42"] == RECORDS[42] and len(x.group_by("image")[2]) == 3
        if "name" in how:
            with recstore.shared("saved-index-test") as y:
                assert y.index_by("id")["Q7"] == RECORDS[7]
            assert recstore.names.list("saved-index-test")[0].records == 300, "it keeps its label"


def test_shared(forbid_building):
    with recstore.shared("saved-index", lambda: iter(RECORDS), index_by="id", group_by="label") as x:
        forbid_building()
        assert x.index_by("id")["Q42"] == RECORDS[42]
        assert x.group_by("label")[3][0]["id"] == next(r["id"] for r in RECORDS if r["label"] == 3)
    with recstore.shared("saved-index", lambda: [{"id": 1}], index_by="id", isolate=False) as x:
        assert x.index_by("id")[1] == {"id": 1}
    with pytest.raises(TypeError, match="mapping"):
        recstore.shared("saved-index", lambda: {"a": 1}, index_by="id")


def test_pickled_values_and_classes(tmp_path):
    """A build reads the keys from its own store, so it trusts the pickled values and classes in them."""
    import fractions

    records = [{"k": fractions.Fraction(i, 7), "f": print if i == 3 else None} for i in range(20)]
    with RecordList(records, on_unsupported="pickle", index_by="k") as x:
        assert x.index_by("k")[fractions.Fraction(3, 7)]["f"] is print
        x.save(tmp_path / "x.recs")
    with recstore.open(tmp_path / "x.recs", verify="full", allow_pickle=True) as x:
        assert x.index_by("k")[fractions.Fraction(3, 7)]["f"] is print


# ---- Refused ----


@pytest.mark.parametrize(
    "options, error, match",
    [
        ({"index_by": "nothing"}, KeyError, "has no field 'nothing'"),
        ({"group_by": ["id", "box"]}, TypeError, "unhashable"),
        ({"index_by": lambda r: 1}, TypeError, "a function cannot be saved"),
        ({"group_by": [len]}, TypeError, "a function cannot be saved"),
        ({"index_by": 1.5}, TypeError, "a field is a str"),
        ({"index_by": [()]}, TypeError, "not empty"),
        ({"index_by": [("meta", object())]}, recstore.errors.EncodeError, "object"),
        ({"index_by": "x" * 70_000}, ValueError, "path"),
    ],
    ids=["lacking", "unhashable", "lambda", "function", "float", "empty", "object", "long"],
)
def test_refused(options, error, match, tmp_path):
    with RecordList(RECORDS) as x:
        x.save(tmp_path / "x.recs")
        before = (tmp_path / "x.recs").read_bytes()
        for save in (
            lambda: x.save(tmp_path / "x.recs", **options),
            lambda: x[1:].save(tmp_path / "x.recs", **options),
            lambda: RecordList(RECORDS, backing="dir", **options),
        ):
            with pytest.raises(error, match=match):
                save()
            assert os.listdir(tmp_path) == ["x.recs"] and (tmp_path / "x.recs").read_bytes() == before


def test_a_record_without_the_field_is_named(tmp_path):
    with RecordList([*RECORDS, {"image": 1}]) as x, pytest.raises(KeyError, match="record 300 has no field 'id'"):
        x.save(tmp_path / "x.recs", index_by="id")
    assert os.listdir(tmp_path) == []


def test_at_most_sixteen_indexes(tmp_path):
    with RecordList([{f"f{i}": i for i in range(17)}]) as x:
        fields = [f"f{i}" for i in range(17)]
        with pytest.raises(ValueError, match="at most 16 saved indexes"):
            x.save(tmp_path / "x.recs", index_by=fields)
        assert os.listdir(tmp_path) == []
        x.save(tmp_path / "x.recs", index_by=fields[:16])
        with recstore.open(tmp_path / "x.recs", verify="full") as y:
            assert y.index_by("f15")[15]["f3"] == 3


def test_indexes_of():
    pairs = saved_indexes.indexes_of(["a", "b.c", ("a",), ("b", "c")], ("b", "c"))
    b_c = (("b",), ("c",))
    assert [(kind, path.names) for kind, path in pairs] == [(1, (("a",),)), (1, ("b.c",)), (1, b_c), (2, b_c)]
    assert saved_indexes.indexes_of() == ()


# ---- Information, closing, other processes ----


def test_info(x):
    indexes = x.info().indexes
    expected = zip(("id", "image", "label", "meta.camera", ("meta", "a.b"), ("box", 0)), (300, 100, 13, 5, 300, 300))
    assert [(index.kind, index.field, index.keys) for index in indexes[:6]] == [("index_by", *one) for one in expected]
    assert sum(index.nbytes for index in indexes) == x.info().sections["saved indexes"]
    assert "saved index index_by('id'): 300 keys" in str(x.info())
    with RecordList(RECORDS) as y:
        assert y.info().indexes == () and "saved index" not in str(y.info())
    for index in indexes:
        native.Path(index.field)


def test_size_of_an_entry(tmp_path):
    """An entry takes a few bytes, because its key is in the record."""
    with RecordList({"id": i, "name": f"name of {i}"} for i in range(10_000)) as x:
        x.save(tmp_path / "x.recs", index_by=["id", "name"])
    with recstore.open(tmp_path / "x.recs") as x:
        assert all(index.nbytes <= 6.5 * index.keys + 200 for index in x.info().indexes)


def test_closing(path):
    x = recstore.open(path)
    d, g = x.index_by("label"), x.group_by("label")
    group, keys = g[3], g.keys()
    x.close()
    reads = [lambda: d[3], lambda: g[3], lambda: group[0], lambda: keys[0], lambda: list(g), lambda: x.index_by("id")]
    for read in reads:
        pytest.raises(recstore.errors.ClosedError, read)
    x = recstore.open(path)
    x.index_by("id").close()
    assert x.closed, "closing the dict closes the store"


def test_handles_name_no_process(x):
    """A handle of a file holds no index array of a process, so it lasts as long as the file."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for d in (x.index_by("label"), x.group_by("label"), x.group_by("image").field("id")):
            again = pickle.loads(pickle.dumps(d))
            assert again.key_index.saved is not None and plain(again) == plain(d)
            assert d.blobs == []


def test_damaged_handles(x, monkeypatch):
    """A changed byte may name a missing index, a missing part of an index, or groups in place of records."""
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    _, (handle,) = x.group_by("label").__reduce__()
    n_refused = 0
    for at in range(len(handle)):
        for value in (0, 1, 2, 5, 11, 12, 127, 255):
            damaged = handle[:at] + bytes([value]) + handle[at + 1 :]
            try:
                again = recstore.handles.attach(damaged)
                plain(again)
            except (recstore.Error, KeyError, TypeError, OverflowError) as error:
                n_refused += isinstance(error, recstore.errors.CorruptError)
    assert n_refused > 50
