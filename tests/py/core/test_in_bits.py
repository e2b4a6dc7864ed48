"""Records of few shapes within one another: their small numbers share the bytes of the outer record, in every reader."""

import random

import pytest

import recstore

N, REST = 3000, 4096


def rows(missing):
    """Dicts of small numbers, two and three levels deep, before and after a text; `missing`: some are None or missing."""
    r = random.Random(int(missing))
    out = []
    for i in range(N):
        texts = {"text": f"{r.random()} words"} if i % 3 else {"text": None}
        row = {
            "id": r.randrange(8000 if missing else 120),  # so many bits that all groups together have no unused bit
            "at": {"x": r.randrange(32), "y": r.randrange(3), "deep": {"k": r.randrange(4), "flag": r.random() < 0.5}},
            "note": {**texts, "size": r.randrange(19), "next": f"{r.random()} more"},
            "box": [r.randrange(1000), r.randrange(5)],
            "more": {"half": r.random(), "third": r.randrange(7)},
        }
        if missing and i % 9 == 0:
            row["at"] = None
        if missing and i % 11 == 0:
            del row["more"]
        out.append(row)
    return out


@pytest.mark.parametrize("missing", [False, True])
def test_readers(missing, tmp_path):
    records = rows(missing)
    with recstore.RecordList(records) as x:
        assert str(x.info()).count("in the bits of its parent") >= 2 + 2 * missing
        assert x.to_list() == records
        assert [list(record) for record in x.lazy()] == [list(record) for record in records]
        x.save(tmp_path / "x")
        x[::3].save(tmp_path / "third")
    with recstore.open(tmp_path / "x", verify="full") as x:
        for name in records[1]:
            assert [record.get(name) for record in x.lazy()] == [record.get(name) for record in records]
        for record, one in zip(records, x.lazy()):
            assert record["note"] == {key: one["note"][key] for key in one["note"]}
        for path in (("note", "next"), ("note", "size"), ("box", 1)):
            expected = [record[path[0]][path[1]] for record in records]
            assert list(x.field(path)) == expected
            assert x.field(path).to_numpy().tolist() == expected
        assert x.field("box").to_numpy().tolist() == [record["box"] for record in records]
    with recstore.open(tmp_path / "third", verify="full") as x:
        assert x.to_list() == records[::3]


def test_bytes():
    """Numbers of 3, 4 and 7 bits in three dicts take 2 bytes."""
    r = random.Random(3)
    records = [
        {"a": {"x": r.randrange(8)}, "b": {"y": r.randrange(16)}, "c": {"z": r.randrange(100)}} for _ in range(N)
    ]
    with recstore.RecordList(records) as x:
        assert (x.nbytes - REST) / N < 2.1
