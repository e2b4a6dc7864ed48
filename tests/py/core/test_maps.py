"""Dicts whose keys are data: stored as maps, read by every reader, refused if the bytes are broken."""

import random
from collections import Counter

import pytest
from ref import writer as w
from segment_bytes import content

import recstore
from recstore import RecordList
from recstore.errors import CorruptError

FEATURES = 128


def ids(n, seed=5, least=3, most=20, universe=100_000):
    r = random.Random(seed)
    return [
        {
            "number": i,
            "seen": {f"img_{r.randrange(universe):05d}": r.randrange(20) for _ in range(r.randint(least, most))},
        }
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def stores():
    records = ids(2000)
    with RecordList(records) as x, RecordList(records, compression="none") as plain:
        yield records, x, plain


def test_dicts_whose_keys_are_data_are_stored_as_maps(stores):
    records, x, plain = stores
    assert "seen: map" in str(x.info()) and "{key}: concat" in str(x.info())
    assert x.to_list() == records and [list(r["seen"]) for r in x] == [list(r["seen"]) for r in records]
    assert x.nbytes < 0.55 * plain.nbytes


def test_fields_below_a_map(stores):
    records, x, _ = stores
    x[7]["seen"].clear()
    assert x[7] == records[7], "each read makes a new dict"
    pytest.raises(KeyError, lambda: x.field(("seen", "no such key"))[0])
    pytest.raises(TypeError, lambda: x.field(("seen", []))[0])


def test_a_record_that_is_a_map():
    records = [r["seen"] for r in ids(1500)]
    with RecordList(records) as x:
        assert "record: map" in str(x.info()) and x.to_list() == records
        record = x.lazy()[11]
        assert list(record) == list(records[11]) and dict(record) == records[11]
        key = list(records[11])[-1]
        assert record[key] == records[11][key] and record.get("nothing", 5) == 5


@pytest.mark.parametrize("odd", [{(1, 2): 3}, {2.5: 1}, {True: 1}, {1 << 70: 0}, {}])
def test_keys_that_no_map_holds(odd):
    records = ids(1000) + [{"number": 0, "seen": odd}] + ids(50, 9)
    with RecordList(records) as x:
        assert x.to_list() == records
        assert [list(map(type, r["seen"])) for r in x] == [list(map(type, r["seen"])) for r in records]


def test_every_kind_of_key_and_value():
    values = [1, -5, 2.5, None, True, "x", b"y", [1, 2], (3,), {"p": 1}, {"q": {}}, {f"n{i}": i for i in range(5)}]
    keys = ["a", "\u20ac", "\U0001f600", "\ud800", b"k", None, 7, -(1 << 62)]
    r = random.Random(3)
    records = []
    for i in range(2500):
        own = [*r.sample(keys, 3), f"id{r.randrange(9999)}", r.randrange(10**6)]
        records.append({"m": {key: r.choice(values) for key in own}, "i": i})
    with RecordList(records) as x:
        assert "m: map" in str(x.info())
        assert list(map(repr, x)) == list(map(repr, records))
        for i in (0, 999):
            assert [x.lazy()[i]["m"][key] for key in records[i]["m"]] == list(records[i]["m"].values())


def test_payloads_of_other_dicts():
    records = [Counter(r["seen"]) for r in ids(1200)]
    with RecordList(records) as x:
        assert x.to_list() == records and type(x[5]) is Counter and "map" in str(x.info())


def test_many_shapes_of_records_stay_structs():
    """Records of 120 shapes with different kinds of values take fewer bytes as structs than as maps."""
    r = random.Random(2)
    shapes = [
        {f"f{s}_{i}": r.choice([lambda: "a constant text", lambda: 7, lambda: True]) for i in range(8)}
        for s in range(120)
    ]
    records = [{key: make() for key, make in r.choice(shapes).items()} for _ in range(20_000)]
    with RecordList(records) as x:
        assert x.to_list() == records
        assert x.nbytes < 20_000 * 6


def test_missing_keys_in_thousands_of_sets_stay_structs():
    r = random.Random(2)
    keys = [f"key {i}" for i in range(30)]
    records = [{key: r.randrange(1000) for key in keys if r.random() < 0.9} for _ in range(3000)]
    with RecordList(records) as x:
        assert list(map(repr, x)) == list(map(repr, records))
        assert ": map\n" not in str(x.info()) and x.nbytes < 3000 * 46


def test_the_order_of_keys_that_later_dicts_show():
    """The first dicts leave it open whether b or c comes first."""
    sets = ["ab", "ac", "acb", "da", "bde", "dc", "cad", "acbe"]
    records = [dict.fromkeys(keys, i) for i, keys in enumerate(sets * 100)]
    with RecordList(records) as x:
        assert list(map(repr, x)) == list(map(repr, records))
        assert [x.lazy()[i].get("e") for i in range(8)] == [record.get("e") for record in records[:8]]


def test_the_same_bytes_for_any_number_of_threads(tmp_path):
    records = ids(70_000, least=1, most=3)
    files = []
    for threads in (0, 1, 4):
        with RecordList(records, threads=threads) as x:
            x.save(tmp_path / "x.rec")
            assert x[69_999] == records[69_999]
        files.append(content((tmp_path / "x.rec").read_bytes()))
    assert files[0] == files[1] == files[2] and len(files[0]) < 70_000 * 13


# ---- broken bytes ----------------------------------------------------------------------------------------------------

IDS = w.map_(w.int_(4), w.bool_())
BROKEN = {  # tree, record, whether a deep check finds the error too
    "equal keys": (IDS, "02 33 03", False),
    "keys equal in Python": (w.map_(w.any_(), w.bool_()), "02 02 91 03", False),
    "lists as keys": (w.map_(w.list_(w.bool_()), w.bool_()), "01 00 01", False),
    "a dict as a key": (w.map_(w.map_(w.bool_(), w.bool_()), w.bool_()), "01 00 01", False),
    "any list as a key": (w.map_(w.any_(), w.bool_()), "01 0D 00 01", False),
    "more entries than bytes": (IDS, "7F 33", True),
    "no end of entries": (IDS, "FF FF FF FF FF FF FF FF FF 01", True),
    "entries without bytes": (w.map_(w.const(1), w.const(1)), "FF FF FF FF 7F", True),
    "keys cut": (w.map_(w.str_(1), w.bool_()), "02 01 61", True),
    "values cut": (w.map_(w.str_(1), w.str_(1)), "01 01 61 02 62", True),
    "bytes left": (IDS, "01 03 01 00", True),
    "a union number": (w.map_(w.union([w.bool_(), w.bool_(), w.bool_()]), w.bool_()), "01 03 00 01", True),
    "no count": (IDS, "", True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_bytes(tmp_path, name):
    root, raw, deep = BROKEN[name]
    data = w.segment([w.Block([bytes.fromhex(raw)], index_width=2)], [root], features_required=FEATURES)
    (tmp_path / "x.rec").write_bytes(data)
    with recstore.open(tmp_path / "x.rec") as x:
        for _ in range(2):
            pytest.raises(CorruptError, lambda: x[0])
        if not deep:  # a lazy record reads only the keys
            pytest.raises(CorruptError, lambda: tuple(x.lazy()[0]))
    if deep:
        pytest.raises(CorruptError, lambda: recstore.open(tmp_path / "x.rec", verify="full"))


def test_maps_within_one_another(tmp_path):
    def nested(depth):
        root, raw = w.bool_(), b"\1"
        for _ in range(depth):
            root, raw = w.map_(w.int_(8), root), b"\1\7" + raw
        data = w.segment([w.Block([raw], index_width=2)], [root], features_required=FEATURES)
        (tmp_path / "x.rec").write_bytes(data)
        return recstore.open(tmp_path / "x.rec", verify="full")

    with nested(199) as x:
        assert str(x[0]).count("7") == 199
    pytest.raises(CorruptError, lambda: nested(201))
