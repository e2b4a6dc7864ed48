"""Records of real files round-trip exactly, with the types of values and the order of keys. A test is skipped if its
file is not in RECSTORE_DATA or, without this variable, in ../shared/data."""

import marshal

import pytest
from real_records import LISTS, from_json

import recstore
from recstore import RecordDict, RecordList

pytestmark = pytest.mark.slow

MAPPINGS = {
    "countries": lambda: {record["cca3"]: record for record in LISTS["countries"]()},
    "gemoji": lambda: {record["emoji"]: record for record in LISTS["gemoji"]()},
    "cmrc": lambda: {record["context_id"]: record for record in LISTS["cmrc"]()},
    "nlvr2": lambda: {record["identifier"]: record for record in LISTS["nlvr2"]()},
    "vqarad": lambda: {record["question_id"]: record for record in LISTS["vqarad"]()},
    "movies": lambda: {record["Title"]: record for record in LISTS["movies"]()},  # keys: str, int, None; some repeat
    "tate artworks": lambda: {record["acno"]: record for record in LISTS["tate artworks"]()},
    "sgd": lambda: {record["dialogue_id"]: record for record in LISTS["sgd"]()},
    "taco as a whole": lambda: from_json("taco/annotations.json.xz"),
    "xquad as a whole": lambda: from_json("nested/xquad/xquad.zh.json.xz"),
    "boxes": lambda: {
        (record["image_id"], record["id"]): tuple(record["bbox"]) for record in LISTS["taco annotations"]()
    },
}


def exact(value):
    """Bytes that differ if values, types, the order of keys or a bit of a float differ."""
    return marshal.dumps(value, 0)


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("name", LISTS)
def test_lists(name, compression):
    records = LISTS[name]()
    assert len(records) >= 40, "the file has changed"
    before = exact(records)
    with RecordList(records, compression=compression) as x:
        assert exact(x.to_list()) == before == exact(records)
        assert x == records
        for i in (0, len(x) // 2, -1):
            assert exact(x[i]) == exact(records[i])
        assert exact(x[::-7].to_list()) == exact(records[::-7])


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("name", MAPPINGS)
def test_mappings(name, compression):
    source = MAPPINGS[name]()
    with RecordDict(source, compression=compression) as d:
        assert exact(d.to_dict()) == exact(source)
        assert exact(list(d)) == exact(list(source))
        for key in list(source)[::-11]:
            assert exact(d[key]) == exact(source[key])
        assert d == source


@pytest.mark.parametrize("name", ["countries", "sgd", "coco crowds", "movies"])
def test_files(name, tmp_path):
    records = LISTS[name]()
    with RecordList(records) as x:
        x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert exact(x.to_list()) == exact(records)


@pytest.mark.parametrize("name", ["tate artworks", "sgd", "nlvr2", "movies", "taco annotations", "coco crowds"])
def test_fields(name):
    """A single field equals the same field of the whole record; records without it give the default."""
    records = LISTS[name]()[:600]
    names = list(dict.fromkeys(key for record in records for key in record))
    with RecordList(records) as x:
        lazy = x.lazy()
        for key in names:
            assert exact(x.field((key,), default="absent").to_list()) == exact(
                [record.get(key, "absent") for record in records]
            )
        for i, record in enumerate(records):
            assert exact([lazy[i].get(key, "absent") for key in names]) == exact(
                [record.get(key, "absent") for key in names]
            )
            assert exact(dict(lazy[i])) == exact(record)
