"""Small numbers of dicts within one another share the bytes of the outer record, and optional fields that few records
have take few bytes, in every reader."""

import random

import pytest

import recstore

N, REST = 3000, 4096


def nested(missing):
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


NAMES = [f"field{k:02}" for k in range(30)]


def optional(missing, share=0.02):
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


PATHS = {
    nested: [("id",), ("note", "next"), ("note", "size"), ("box", 1)],
    optional: [("id",), ("text",)],
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("make", PATHS)
def test_readers(make, missing, tmp_path):
    records = make(missing)
    with recstore.RecordList(records) as x:
        if make is nested:
            assert str(x.info()).count("in the bits of its parent") >= 2 + 2 * missing
        else:
            assert "rare" in str(x.info())
        assert [list(record.items()) for record in x] == [list(record.items()) for record in records]
        assert [list(record) for record in x.lazy()] == [list(record) for record in records]
        x.save(tmp_path / "x")
        x[::3].save(tmp_path / "third")
    with recstore.open(tmp_path / "x", verify="full") as x:
        for name in records[1] if make is nested else ("id", "text", *NAMES[2::13]):
            expected = [record.get(name) for record in records]
            assert [record.get(name) for record in x.lazy()] == expected
            assert [record.get(name) for record in x.fields(name)] == expected
        for record, one in zip(records, x.lazy()):
            assert "note" not in record or record["note"] == dict(one["note"])
        for path in PATHS[make]:
            expected = [record[path[0]][path[1]] if path[1:] else record[path[0]] for record in records]
            assert list(x.field(path)) == x.field(path).to_numpy().tolist() == expected
    with recstore.open(tmp_path / "third", verify="full") as x:
        assert x.to_list() == records[::3]


def test_bytes_of_nested_numbers():
    """Numbers of 3, 4 and 7 bits in three dicts take 2 bytes."""
    r = random.Random(3)
    records = [
        {"a": {"x": r.randrange(8)}, "b": {"y": r.randrange(16)}, "c": {"z": r.randrange(100)}} for _ in range(N)
    ]
    with recstore.RecordList(records) as x:
        assert (x.nbytes - REST) / N < 2.1


def test_bytes_of_optional_fields():
    """A record without a value takes one bit for eight fields."""
    r = random.Random(1)
    records = [{name: r.randrange(1000) if r.random() < 0.03 else None for name in NAMES} for _ in range(N)]
    with recstore.RecordList(records) as x:
        assert (x.nbytes - REST) / N < 4.7  # a value takes 2 bytes and one for its place, and a record 1 for its end


def test_frequent_values_have_a_bit():
    with recstore.RecordList(optional(False, 0.5)) as x:
        assert "rare" not in str(x.info())
