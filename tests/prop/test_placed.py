"""Records with fields that rise, repeat or hold exceptions: the package and the reference reader return them."""

import datetime
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ref import reader

import recstore
from recstore import RecordDict, RecordList

SEEDS = st.integers(0, 2**32 - 1)


def rising(rnd, n):
    start, step, noise = rnd.choice([0, -5, 2**40]), rnd.choice([1, 3, -7, 1000, 2**33]), rnd.choice([0, 1, 50])
    return [start + step * i + rnd.randint(0, noise) for i in range(n)]


def jumps(rnd, n):
    value, out = rnd.randrange(2**50), []
    for _ in range(n):
        value += rnd.choice([1, 1, 1, 2, 100_000]) if rnd.random() < 0.99 else -(2**45)
        out.append(value)
    return out


def runs(make):
    def of(rnd, n):
        out = []
        while len(out) < n:
            out.extend([make(rnd)] * rnd.choice([1, 7, 40, 300]))
        return out[:n]

    return of


def odd(make, other):
    def of(rnd, n):
        return [other(rnd) if rnd.random() < 0.01 else value for value in make(rnd, n)]

    return of


FIELDS = {
    "rising": rising,
    "jumps": jumps,
    "seconds": lambda rnd, n: [round(1000 + 0.25 * i, 2) for i in range(n)],
    "name": runs(lambda rnd: f"file {rnd.randrange(50)}"),
    "wide": runs(lambda rnd: "ä€😀"[: rnd.randrange(4)]),
    "shard": runs(lambda rnd: rnd.randrange(2**34)),
    "share": runs(lambda rnd: rnd.random()),
    "rare": odd(lambda rnd, n: [rnd.randrange(1000) for _ in range(n)], lambda rnd: rnd.choice(["x", 2.5, None, [1]])),
    "gap": odd(rising, lambda rnd: None),
    "text": odd(
        lambda rnd, n: [rnd.choice("abcdefgh") * 5 + str(rnd.random()) for _ in range(n)], lambda rnd: {"k": 1}
    ),
    "day": lambda rnd, n: [datetime.date(2000, 1, 1) + datetime.timedelta(i // 9) for i in range(n)],
    "when": lambda rnd, n: [datetime.datetime(2000, 1, 1) + datetime.timedelta(seconds=60 * i) for i in range(n)],
    "free": lambda rnd, n: [rnd.random() for _ in range(n)],
}


def records_of(seed):
    rnd = random.Random(seed)
    n = rnd.choice([70, 300, 1000, 2500])
    names = rnd.sample(list(FIELDS), rnd.randint(1, 6))
    columns = [FIELDS[name](rnd, n) for name in names]
    rows = [dict(zip(names, row)) for row in zip(*columns)]
    shape = rnd.randrange(4)
    if shape == 1:
        return [{"inner": row, "n": i} for i, row in enumerate(rows)]
    if shape == 2:
        return [tuple(row.values()) for row in rows]
    if shape == 3 and len(names) == 1:
        return columns[0]
    return [{k: v for k, v in row.items() if k != names[0] or i % 5} for i, row in enumerate(rows)]


@pytest.mark.parametrize("level", ["fast", "auto", "small"])
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_reading(level, seed, tmp_path_factory):
    records = records_of(seed)
    path = tmp_path_factory.mktemp("placed") / "x.rec"
    with RecordList(records, compression=level) as x:
        assert list(x) == records
        order = random.Random(seed).choices(range(len(records)), k=50)
        assert [x[i] for i in order] == x.get_many(order) == [records[i] for i in order]
        view = x.shuffled(seed)
        assert sorted(map(repr, view)) == sorted(map(repr, records))
        assert list(x[7:60:3][::-1]) == records[7:60:3][::-1]
        if isinstance(records[0], dict):
            check_fields(x, records)
        x.save(path)
        view[: len(records) // 2].save(str(path) + "2")
        assert list(recstore.open(str(path) + "2", verify="full")) == list(view[: len(records) // 2])
        joined = x[10:] + x[:10]
        assert list(joined) == records[10:] + records[:10]
    assert list(recstore.open(path, verify="full")) == records
    if len(records) <= 300:
        assert reader.check(path.read_bytes()) == records


def check_fields(x, records):
    lazy = x.lazy()
    for name in records[-1]:
        expected = [row.get(name) for row in records]
        field = x.field(name, default=None)
        assert list(field) == expected
        assert list(field[::-7]) == expected[::-7]
        assert [lazy[i].get(name) for i in range(0, len(records), 11)] == expected[::11]
        if all(type(value) is int for value in expected):
            order = list(range(0, len(records), 3))[::-1]
            assert field.to_numpy().tolist() == expected
            assert field[order].to_numpy().tolist() == [expected[i] for i in order]


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_mapping(seed):
    records = records_of(seed)
    rnd = random.Random(seed)
    keys = rnd.choice([lambda i: i, lambda i: 10**9 + 4 * i, lambda i: (i // 100, i % 100), lambda i: f"k{i:05}"])
    with RecordDict((keys(i), row) for i, row in enumerate(records)) as d:
        assert dict(d) == {keys(i): row for i, row in enumerate(records)}
        for i in rnd.choices(range(len(records)), k=30):
            assert d[keys(i)] == records[i]
        assert -1 not in d


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_arrow(seed):
    pytest.importorskip("pyarrow")
    rnd = random.Random(seed)
    names = ["rising", "jumps", "seconds", "name", "shard", "share", "gap", "day", "when"]
    columns = {name: FIELDS[name](rnd, 700) for name in rnd.sample(names, 4)}
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    with RecordList(rows) as x:
        assert x.to_arrow().to_pylist() == rows
        assert x[5:600:7].to_arrow().to_pylist() == rows[5:600:7]
        order = rnd.choices(range(700), k=90)
        assert x[order].to_arrow().to_pylist() == [rows[i] for i in order]


def test_nodes_are_used():
    rows = [
        {"id": 3 * i, "file": f"f{i // 100 * 7919 % 50}", "odd": i * 7919 % 2003 if i % 200 else "x"}
        for i in range(4000)
    ]
    with RecordList(rows) as x:
        ((_, _, root),) = x.info().trees
        assert [child.kind for child in root.children] == ["rising", "runs", "exceptions"]
        assert list(x) == rows


def test_an_odd_array_stays_within_the_limits(tmp_path):
    """The data of a large array lies outside of the places, and max_bytes does not count it."""
    numpy = pytest.importorskip("numpy")
    records = [numpy.str_("é" * 256), *([i, ""] for i in range(200))]
    with RecordList(records) as x:
        x.save(tmp_path / "x.rec")
    with recstore.open(tmp_path / "x.rec", verify="full") as x:
        assert x[0] == records[0] and x[1:].to_list() == records[1:]


def test_blocks_share_the_tree():
    rows = [{"id": 17 * i, "file": f"f{i // 1000 % 50}"} for i in range(150_000)]
    with RecordList(rows) as x:
        info = x.info()
        assert (info.blocks, len(info.trees)) == (3, 1)
        assert x.nbytes < 60_000
        for i in (0, 65535, 65536, 131071, 131072, 149_999):
            assert x[i] == rows[i]
        order = random.Random(1).choices(range(150_000), k=5000)
        assert x.field("id")[order].to_numpy().tolist() == [rows[i]["id"] for i in order]
        assert list(x.field("file")[order]) == [rows[i]["file"] for i in order]
