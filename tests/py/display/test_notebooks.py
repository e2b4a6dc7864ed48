"""Containers and their figures in notebooks."""

import collections
import dataclasses
import random

import pytest
from parsed_html import HOSTILE, Parsed

import recstore
from recstore import RecordDict, RecordList
from recstore.display import notebooks

RECORDS = [
    {"id": i, "name": f"{HOSTILE} {i}", "box": [i, 2.5, 3, 4], "meta": {"camera": "c", "iso": i}} for i in range(50)
]


@pytest.fixture
def x():
    with RecordList(RECORDS) as x:
        yield x


def text_of(value):
    """Checks the HTML of a value, and returns its text."""
    out = value._repr_html_()
    parsed = Parsed(out)
    assert not {"script", "style", "img", "a", "b"} & set(parsed.tags) and parsed.links == []
    assert len(out) < 40_000
    return " ".join(parsed.texts)


VIEWS = {
    "list": lambda x: x, "slice": lambda x: x[3:40], "shuffled": lambda x: x.shuffled(1),
    "fields": lambda x: x.fields("id", "name"), "lazy": lambda x: x.lazy(), "dict": lambda x: x.index_by("id"),
    "values": lambda x: x.index_by("id").values(), "items": lambda x: x.index_by("id").items(),
    "pairs": lambda x: x.index_by("id").items()[2:9], "joined": lambda x: x + x
}  # fmt: skip


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_the_first_records_are_a_table(x, make):
    view = make(x)
    text = text_of(view)
    first = next(iter(view.values())) if isinstance(view, RecordDict) else view[0]
    first = first[1] if isinstance(first, tuple) else first
    assert "id" in text and "name" in text and str(first["id"]) in text and "<script>alert(1)" in text
    assert f"... {len(view) - 5:,} more" in text


def test_views_of_values(x):
    assert "caption" not in text_of(x.field("name")) and " name" in text_of(x.field("name"))
    assert "key" in text_of(x.index_by("id").keys())
    assert "RecordList: 1 record" in text_of(x.group_by("id"))
    with RecordDict({"a": "./a.wav", HOSTILE: 2}) as d:
        assert "./a.wav" in text_of(d) and "alert(1)" in text_of(d) and "more" not in text_of(d)
    with RecordList([]) as empty, RecordDict({}) as nothing:
        assert "0 records" in text_of(empty) and "RecordDict: 0" in text_of(nothing)


def test_records_of_several_kinds_and_of_many_fields():
    with RecordList([{"a": 1}, {"b": 2}, {HOSTILE: None}]) as x:
        assert {"a", "b", "1", "2", "None"} <= set(text_of(x).split())
    with RecordList([{"a": 1}, 5, "text", None, (1, 2)]) as x:
        assert "record" in text_of(x) and "(1, 2)" in text_of(x)
    with RecordList([{f"field {i}": i for i in range(500)}]) as x:
        text = text_of(x[:1] + x[:0])
        assert "192 more" in text and "field 7" in text and "field 8" not in text.partition("more")[0]


def test_only_the_largest_of_many_fields_have_bars():
    chance = random.Random(0)
    with RecordList({f"field {i}": chance.randbytes(i) for i in range(500)} for _ in range(9)) as x:
        for value in (x, x.info(fields=True)):
            text = text_of(value)
            assert "... 471 fields, each of at most" in text and "field 499" in text
        assert "has all of" in text and "field 100" not in text_of(x).partition("bytes by field")[2]


def test_bytes_by_field_of_small_stores_are_bars(x, monkeypatch):
    assert "bytes by field of the store" in text_of(x) and "camera" in text_of(x)
    assert "bytes by field: .info(fields=True)" in text_of(x + x.map(dict))
    monkeypatch.setattr(notebooks, "SMALL_BYTES", 100)
    monkeypatch.setattr(notebooks.node_sizes, "field_sizes", None)
    assert "bytes by field: .info(fields=True)" in text_of(x)


def test_closed_and_detached_stores(x):
    view = x[:10]
    x.close()
    assert "closed" in text_of(x) and "closed" in text_of(view)
    assert "detached: gone" in text_of(recstore.RecordView._blank()._set(view.selection, None, "gone"))


def test_a_damaged_record_is_named(tmp_path):
    path = tmp_path / "x.recs"
    RecordList([b"a" * 5000, b"b" * 5000], compression="none").save(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"a" * 5000)
    data[at - 3] = 0xFF
    path.write_bytes(data)
    with recstore.open(path) as x:
        assert "CorruptError: record 0" in text_of(x) or "VersionError" in text_of(x)


@dataclasses.dataclass
class Rude:
    x: int

    def __repr__(self):
        raise OSError("no")


def test_short():
    assert notebooks.short("a" * 10_000_000).endswith("... 10,000,000") and len(notebooks.short("a" * 10_000_000)) < 100
    assert notebooks.short(b"a" * 1000).startswith("b'aaa")
    assert notebooks.short([1] * 10**6) == "[1, 1, 1, 1, ... 1,000,000]"
    assert notebooks.short((1, 2)) == "(1, 2)" and notebooks.short({"a": {1: [2]}}) == "{'a': {1: [2]}}"
    assert notebooks.short(Rude(1)) == "<Rude: OSError>" and "Rude: OSError" in notebooks.short([Rude(1)])
    assert notebooks.short(1 << 10_000) == "<int of 10,001 bits>"
    assert notebooks.short(None) == "None" and notebooks.short(collections.OrderedDict(a=1)) == "{'a': 1}"
    numpy = pytest.importorskip("numpy")
    assert notebooks.short(numpy.zeros((1000, 3), "f4")) == "ndarray float32 (1000, 3)"


# ---- Figures ----


def test_info(x):
    assert all(part in text_of(x.info()) for part in ("50 records", "heap", ".info(fields=True)"))
    for info in (x.info(), (x + x.map(dict)).info(), x.index_by("id").info()):
        assert repr(info) == str(info) and len(repr(info)) < 3_000, "in a terminal"
    text = text_of(x.info(fields=True))
    assert "camera" in text and "besides" in text and "schema and tables" in text
    assert "2 stores" in text_of((x + x.map(dict)).info(fields=True))
    with RecordDict({f"k{i}": record for i, record in enumerate(RECORDS)}) as d:
        assert "50 entries" in text_of(d.info(fields=True)) and "camera" in text_of(d.info(fields=True))
        assert "key index" in text_of(d.info())


def test_reports_and_segments():
    class Dataset:
        def __init__(self):
            self.samples = [{"path": f"{i}.jpg", "label": i % 10} for i in range(20_000)]
            self.names = {HOSTILE: ["x"] * 100}

    dataset = Dataset()
    text = text_of(recstore.audit(dataset, workers=4))
    assert "samples" in text and "recstore.share_dataset(dataset)" in text and "predicted for all processes" in text
    assert "would be replaced" in text_of(recstore.share_dataset(dataset, dry_run=True))
    report = recstore.share_dataset(dataset)
    assert "1 replaced" in text_of(report) and "samples" in text_of(report)
    report.undo()
    with RecordList([1], name="notebook-segments"):
        assert "notebook-segments" in text_of(recstore.names.list())
    assert text_of(recstore.names.list("no-such-name"))
