"""Lists with one type or size for each place, which become rows: all readers return them as lists."""

import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ref import reader

import recstore
from recstore import RecordList

PLACES = {
    "serial": lambda rnd, i: i,
    "few": lambda rnd, i: rnd.randrange(5),
    "wide": lambda rnd, i: rnd.randrange(2**40),
    "cents": lambda rnd, i: round(rnd.uniform(0, 100), 2),
    "float": lambda rnd, i: rnd.random(),
    "word": lambda rnd, i: rnd.choice(["car", "bus", "öl", "猫"]),
    "name": lambda rnd, i: f"frame_{i // 8:06}.png",
    "flag": lambda rnd, i: i % 3 == 0,
    "gap": lambda rnd, i: None if i % 4 else i,
    "box": lambda rnd, i: [rnd.randrange(9), rnd.randrange(2000)],
    "ragged": lambda rnd, i: [i] * (i % 3),
    "late": lambda rnd, i: {"a": i} if i > 300 else i,
}


def rows_of(seed):
    rnd = random.Random(seed)
    places = rnd.sample(list(PLACES), rnd.randint(2, 5))
    rows = [[PLACES[place](rnd, i) for place in places] for i in range(rnd.choice([70, 300, 900]))]
    odd = rnd.randrange(3)
    if odd == 1:
        rows = [row if i % 7 else None for i, row in enumerate(rows)]
    if odd == 2:
        rows[280:] = [row if i % 5 else row[: i % 3] for i, row in enumerate(rows[280:])]
    return rows


@pytest.mark.parametrize("level", ["fast", "auto", "small"])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_reading(level, seed, tmp_path_factory):
    rows = rows_of(seed)
    rnd = random.Random(seed)
    shape = rnd.choice(
        [lambda row, i: row, lambda row, i: {"row": row, "i": i}, lambda row, i: {"rows": [row] * (i % 3)}]
    )
    records = [shape(row, i) for i, row in enumerate(rows)]
    path = tmp_path_factory.mktemp("rows") / "x.rec"
    with RecordList(records, compression=level) as x:
        assert list(x) == records
        assert all(type(value) is type(record) for value, record in zip(x, records))
        order = rnd.choices(range(len(records)), k=50)
        assert x.get_many(order) == [records[i] for i in order]
        if "row" in (records[0] or ()):
            assert list(x.field("row")) == rows
            assert [x.lazy()[i]["row"] for i in order] == [rows[i] for i in order]
        x.save(path)
    with recstore.open(path, verify="full") as x:
        assert list(x) == records
    if len(records) <= 300:
        assert reader.check(path.read_bytes()) == records


@pytest.mark.parametrize("places", [("serial", "few"), ("few", "wide", "serial"), ("cents", "cents"), ("float", "few")])
def test_arrays(places):
    rnd = random.Random(1)
    rows = [[PLACES[place](rnd, i) * (1 + 99 * k) for k, place in enumerate(places)] for i in range(700)]
    with RecordList([{"row": row} for row in rows]) as x:
        array = x.field("row").to_numpy()
        assert numpy.array_equal(array, numpy.array(rows))
        picked = list(range(0, 700, 3))[::-1]
        assert numpy.array_equal(x.field("row")[picked].to_numpy(), numpy.array(rows)[picked])
        pytest.importorskip("pyarrow")
        assert x.to_arrow().column("row").to_pylist() == numpy.array(rows).tolist()


def test_words_of_all_widths_share_tables():
    rnd = random.Random(1)
    words = [f"word{i}" for i in range(400)] + ["naïve", "漢字", "→", "😀"]
    records = [[rnd.choice(words) for _ in range(rnd.randrange(30))] for _ in range(500)]
    with RecordList(records) as x:
        assert list(x) == records
        assert "[]: dict-coded 404 entries, 9 bits" in str(x.info())


def test_none_shares_the_table_of_words():
    rnd = random.Random(1)
    records = [
        {"tag": rnd.choice(["a", "b", "c", None]), "size": rnd.choice([None, 1, 9000, 7]), "id": i} for i in range(3000)
    ]
    with RecordList(records) as x:
        assert list(x) == records
        assert "tag: dict-coded 4 entries, 2 bits" in str(x.info())
        for name in ("tag", "size"):
            assert list(x.field(name)) == [record[name] for record in records]
        pytest.importorskip("pyarrow")
        assert x.to_arrow().to_pylist() == records
