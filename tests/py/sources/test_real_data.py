"""Records of real files round-trip exactly, with the types of values and the order of keys. A test is skipped if its
file is in neither RECSTORE_DATA nor ../shared/data."""

import marshal

import pytest
from real_records import LISTS, from_json

import recstore
from recstore import RecordDict, RecordList

pytestmark = pytest.mark.slow

MAPPINGS = {
    "countries": lambda: {one["cca3"]: one for one in LISTS["countries"]()},
    "gemoji": lambda: {one["emoji"]: one for one in LISTS["gemoji"]()},
    "cmrc": lambda: {one["context_id"]: one for one in LISTS["cmrc"]()},
    "nlvr2": lambda: {one["identifier"]: one for one in LISTS["nlvr2"]()},
    "vqarad": lambda: {one["question_id"]: one for one in LISTS["vqarad"]()},
    "movies": lambda: {one["Title"]: one for one in LISTS["movies"]()},  # keys are str, int and None; some repeat
    "tate artworks": lambda: {one["acno"]: one for one in LISTS["tate artworks"]()},
    "sgd": lambda: {one["dialogue_id"]: one for one in LISTS["sgd"]()},
    "taco as a whole": lambda: from_json("taco/annotations.json.xz"),
    "xquad as a whole": lambda: from_json("nested/xquad/xquad.zh.json.xz"),
    "boxes": lambda: {(one["image_id"], one["id"]): tuple(one["bbox"]) for one in LISTS["taco annotations"]()},
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
