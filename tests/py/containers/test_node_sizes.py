"""The bytes of a store by field: they add up, and match the nodes."""

import datetime
import math
import random

import numpy as np
import pytest

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native
from recstore.containers.node_sizes import FieldSize, report

RECORDS = [
    {
        "id": i * 7919 % 4093,
        "flag": i * i % 7 < 3,
        "box": [i % 640 / 4, 1.25, i % 77 / 4],
        "root": math.sqrt(i),
        "meta": {"camera": ("left", "right", "top")[i % 3], "at": [i, i + 1]},
        "objects": [{"name": f"object {k * 37 % 101}", "size": k * i % 1000} for k in range(i % 4)],
        "path": f"train/{i % 20:04}/{i * 31 % 1000:08}.jpg",
        "text": "the quick brown fox jumps over the lazy dog "[i % 11 :] + f"{i * i}",
        "day": datetime.date(2020, 1, 1 + i % 28),
        "vector": np.arange(i % 50, i % 50 + 3, dtype=np.int16),
        "big": np.full(1000 + i % 3, i, dtype=np.float16) if i % 100 == 0 else None,
        **({} if i % 4 else {"crowd": i}),
    }
    for i in range(3000)
]
NAMES = ["", "id", "flag", "box", "root", "meta", "meta.camera", "meta.at", "objects", "objects[].name", "objects[].size",
         "path", "text", "day", "vector", "big", "crowd"]  # fmt: skip


def heaps(segment, store=0):
    """The bytes of the heaps of blocks and tables."""
    blocks = sum(heap for *_, heap, _ in segment.blocks(store))
    return blocks + sum(size for _, size, _ in segment.tables(store))


def by_name(x):
    return {size.field: size for size in x.info(fields=True).fields}


def test_fields_in_their_order():
    with RecordList(RECORDS) as x:
        fields = x.info(fields=True).fields
        assert [size.field for size in fields] == NAMES
        assert [size.depth for size in fields] == [0, *([1] * 5), 2, 2, 1, 2, 2, *([1] * 6)]
        assert x.info().fields == ()


@pytest.mark.parametrize("level", ["none", "fast", "auto", "small"])
def test_the_fields_add_up(level):
    arrays = sum(record["big"].nbytes for record in RECORDS if record["big"] is not None)
    with RecordList(RECORDS, compression=level) as x:
        fields = x.info(fields=True).fields
        total = fields[0].nbytes
        if level == "none":
            assert total == heaps(x.segment)  # arrays of any values are outside the heap and do not count
            return
        assert abs(total - heaps(x.segment) - arrays) <= len(fields)
        outer = [size for size in fields if size.depth == 1]
        assert 0 <= total - sum(size.nbytes for size in outer) <= 2 * len(RECORDS)  # bit groups are rounded up
        assert all(size.table_nbytes <= size.nbytes for size in fields)


def test_known_sizes():
    n = 4096
    with RecordList([{
        "a": i * 7919 % 1024, "b": random.Random(i).random() < 0.5, "c": random.Random(i).random(), "d": [i] * 3
    } for i in range(n)]) as x:  # fmt: skip
        sizes = by_name(x)
    with RecordList([{"a": i * 37 % 901} if i % 4 else {"a": 1, "b": i} for i in range(2000)]) as x:
        optional = by_name(x)
    assert (optional["a"].values, optional["b"].values, optional["b"].forms[0]) == (2000, 500, "optional")
    assert sizes["a"] == FieldSize("a", 1, n * 10 // 8, 0, n, ("int",))
    assert sizes["b"] == FieldSize("b", 1, n // 8, 0, n, ("bool",))
    assert sizes["c"] == FieldSize("c", 1, n * 8, 0, n, ("float",))
    assert sizes["d"].values == n and sizes[""].values == n


def test_shares_of_tables():
    words = [f"{random.Random(i).randrange(10**9)} of them" for i in range(200)]
    draw = random.Random(0)
    with RecordList([{"a": draw.choice(words), "b": i * 31 % 1009} for i in range(5000)]) as x:
        sizes = by_name(x)
        tables = sum(size for _, size, _ in x.segment.tables())
        assert "dict-coded" in sizes["a"].forms and abs(sizes["a"].table_nbytes - tables) <= 1
        assert sizes["b"].table_nbytes == 0
        assert abs(sizes["a"].nbytes - tables - 5000) <= 1  # entry numbers of 8 bits
    part = [{"name": f"{draw.random()}", "at": [i, i * 1.5]} for i in range(50)]
    with RecordList([{"id": i * 7 % 3001, "part": draw.choice(part)} for i in range(3000)]) as x:
        sizes = by_name(x)
    assert sizes["part.name"].table_nbytes == sizes["part.name"].nbytes > 100
    assert sizes["part.name"].nbytes + sizes["part.at"].nbytes <= sizes["part"].nbytes


def test_many_blocks_and_drift():
    records = [{"id": i, "x": i % 9 if i < 70_000 else f"text {i}"} for i in range(140_000)]
    with RecordList(records) as x:
        assert len(x.segment.blocks()) == 3
        sizes = by_name(x)
        assert sizes["x"].values == len(records) and len(sizes["x"].forms) >= 2
        assert abs(sizes[""].nbytes - heaps(x.segment)) <= 3


def test_records_without_fields():
    with RecordList([f"img_{i:06}.jpg" for i in range(3000)]) as x:
        (size,) = x.info(fields=True).fields
        assert (size.field, size.nbytes, size.values) == ("", heaps(x.segment), 3000)
    with RecordList([[{"a": i}] * (i % 3) for i in range(100)]) as x:
        assert list(by_name(x)) == ["", "[].a"]
    with RecordList() as x:
        assert x.info(fields=True).fields == ()


def test_mappings_and_views():
    with RecordDict({f"key {i}": {"a": i % 7, "b": f"v{i}"} for i in range(2000)}) as d:
        info = d.info(fields=True)
        assert [size.field for size in info.segments[0].fields] == ["", "a", "b"]
        assert [size.field for size in info.keys[0].fields] == [""]
    with RecordList([{"a": i} for i in range(99)]) as x, RecordList([{"b": i} for i in range(99)]) as y:
        stores = (x + y).info(fields=True).stores
        assert [[size.field for size in store.fields] for store in stores] == [["", "a"], ["", "b"]]


def test_the_report():
    with RecordList(RECORDS) as x:
        info = x.info(fields=True)
        text = str(info)
        assert report(info.fields, len(x), x.nbytes) in text
        lines = report(info.fields, len(x), x.nbytes).split("\n")
    assert lines[0].split() == ["field", "bytes", "a", "record", "of", "all", "in", "tables", "stored", "as"]
    assert lines[1].startswith("record ") and lines[2].startswith("  id ") and lines[-1].startswith("besides ")
    assert any(line.startswith("    name ") for line in lines)


def test_a_damaged_record(tmp_path):
    RecordList([{"a": [i] * (i % 5), "b": f"{i} {i * i}"} for i in range(500)], compression="none").save(tmp_path / "x")
    data = bytearray((tmp_path / "x").read_bytes())
    with recstore.open(tmp_path / "x") as x:
        at = data.index(b"499 249001")
        assert x[-1]["b"] == "499 249001"
    data[at - 1] = 0x7F  # the count of the str
    (tmp_path / "x").chmod(0o600)
    (tmp_path / "x").write_bytes(data)
    with (
        recstore.open(tmp_path / "x") as x,
        pytest.raises(recstore.errors.CorruptError, match="RS_E_FMT_TRUNCATED.*/x'"),
    ):
        x.info(fields=True)


def test_a_closed_store():
    x = RecordList([{"a": 1}])
    segment = x.segment
    x.close()
    pytest.raises(recstore.errors.ClosedError, lambda: x.info(fields=True))
    pytest.raises(recstore.errors.ClosedError, lambda: native.node_sizes(segment))
