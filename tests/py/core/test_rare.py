"""Records with many optional fields that few of them have: each takes few bytes, in every reader."""

import random

import pytest

import recstore

N, REST = 3000, 4096
NAMES = [f"field{k:02}" for k in range(30)]


def rows(share, missing):
    """An id, and thirty fields that have a value in a share of the records, with a text after half of them."""
    r = random.Random(repr((share, missing)))
    out = []
    for i in range(N):
        items = [("id", i * 7)]
        for k, name in enumerate(NAMES):
            value = (r.randrange(1000), f"text {r.random()}", r.random() < 0.5)[k % 3] if r.random() < share else None
            if value is not None or not missing or k % 4 == 0:
                items.append((name, value))
            if k == 15:
                items.append(("text", "x" * (i % 5)))
        out.append(dict(items))
    return out


@pytest.mark.parametrize("missing", [False, True])
def test_readers(missing, tmp_path):
    records = rows(0.02, missing)
    with recstore.RecordList(records) as x:
        assert "rare" in str(x.info())
        assert [list(record.items()) for record in x] == [list(record.items()) for record in records]
        assert [list(record) for record in x.lazy()] == [list(record) for record in records]
        x.save(tmp_path / "x")
        x[::3].save(tmp_path / "third")
    with recstore.open(tmp_path / "x", verify="full") as x:
        for name in ("id", "text", NAMES[2], NAMES[4], NAMES[28]):
            expected = [record.get(name) for record in records]
            assert [record.get(name) for record in x.lazy()] == expected
            assert [record.get(name) for record in x.fields(name)] == expected
        assert x.field("text").to_numpy().tolist() == [record["text"] for record in records]
    with recstore.open(tmp_path / "third", verify="full") as x:
        assert x.to_list() == records[::3]


@pytest.mark.parametrize("missing", [False, True])
def test_arrow(missing):
    pytest.importorskip("pyarrow")
    records = rows(0.02, missing)
    whole = [{name: record.get(name) for name in ("id", *NAMES[:16], "text", *NAMES[16:])} for record in records]
    with recstore.RecordList(records) as x:
        table = x.to_arrow().to_pylist()
        assert [{name: row[name] for name in whole[0]} for row in table] == whole
        for name in (NAMES[4], "text", NAMES[28]):
            assert x.fields(name).to_arrow().column(name).to_pylist() == [row[name] for row in whole]


def test_bytes():
    """A record without a value takes one bit for eight fields."""
    r = random.Random(1)
    records = [{name: r.randrange(1000) if r.random() < 0.03 else None for name in NAMES} for _ in range(N)]
    with recstore.RecordList(records) as x:
        assert (x.nbytes - REST) / N < 4.7  # a value takes 2 bytes and one for its place, and a record 1 for its end


def test_frequent_values_have_a_bit():
    with recstore.RecordList(rows(0.5, False)) as x:
        assert "rare" not in str(x.info())
