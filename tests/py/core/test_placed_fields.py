"""Fields that follow the number of the record take few bytes, and every way of reading returns them."""

import datetime
import random

import pytest

import recstore
from recstore import RecordList

N = 60_000
draw = random.Random(13)
EPOCH = datetime.datetime(2026, 11, 22)
FILES = [f"train/{draw.getrandbits(40):010x}.jpg" for _ in range(900)]


def kinds(node):
    """Returns the kinds of the nodes of a tree, without the trees of tables."""
    return {node.kind}.union(*map(kinds, node.children))


def gaps():
    number, out = 10**6, []
    for _ in range(N):
        number += draw.choice([1, 1, 1, 2, 3, 9])
        out.append(number)
    return out


def sorted_by_file():
    out = []
    for name in FILES:
        out.extend([name] * draw.randrange(20, 120))
    return out[:N]


def odd(usual, other, every=20_000):
    return [other if i % every == 77 else usual(i) for i in range(N)]


FIELDS = {
    # name: (a function that makes the values, the most bytes per value, including the segment's own kilobytes, a kind
    # of node in their tree)
    "ids": (lambda: [7 * i + 3 for i in range(N)], 0.16, "rising"),
    "ids that fall": (lambda: [10**12 - i for i in range(N)], 0.16, "rising"),
    "ids with gaps": (gaps, 1.0, "rising"),
    "offsets": (lambda: [12_288 * i for i in range(N)], 0.16, "rising"),
    "seconds": (lambda: [round(0.04 * i, 2) for i in range(N)], 0.16, "rising"),
    "seconds, nearly": (lambda: [1_700_000_000 + 30 * i + draw.randrange(3) for i in range(N)], 0.42, "rising"),
    "times": (lambda: [EPOCH + datetime.timedelta(seconds=5 * i) for i in range(N)], 0.16, "rising"),
    "files": (sorted_by_file, 0.5, "runs"),
    "shards": (lambda: [i // 500 * 7919 % 120 for i in range(N)], 0.2, "runs"),
    "three odd among ints": (lambda: odd(lambda i: i * 7919 % 1021, "none"), 2.2, "exceptions"),
    "three odd among strings": (lambda: odd(lambda i: f"{i * 7919 % 60_013:06}", -1), 2.2, "exceptions"),
    "three odd among floats": (lambda: odd(lambda i: i * 7919 % 60_013 / 100, [1, "x"]), 2.2, "exceptions"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_few_bytes(name, tmp_path):
    make, limit, kind = FIELDS[name]
    values = make()
    rows = [{"value": value, "other": i * 7919 % 60_013} for i, value in enumerate(values)]
    order = draw.choices(range(len(values)), k=2000)
    with RecordList(rows, threads=1) as x:
        assert kind in kinds(x.info().trees[0][2])
        assert x.nbytes / len(values) < limit + 2  # the other field takes 16 bits
        assert [x[i]["value"] for i in order] == [values[i] for i in order]
        field = x.field("value")
        assert list(field) == values and list(field[500:40_000:977]) == values[500:40_000:977]
        assert list(field[order]) == [values[i] for i in order]
        assert x.get_many(order) == [rows[i] for i in order]
        x.save(tmp_path / "one.rec")
    with recstore.open(tmp_path / "one.rec", verify="full") as x:
        assert x[::-1].to_list() == rows[::-1]


@pytest.fixture(scope="module")
def rows():
    """140,000 records of several blocks, sorted by file."""
    rows, number = [], 0
    for i in range(140_000):
        number += 1 + (i % 17 == 0)
        rows.append({
            "id": number, "file": FILES[i // 230], "score": i * 7919 % 1000 / 1000 if i % 9000 else None,
            "box": [i % 640, i % 480, 10, 20], **({"crowd": i // 1000} if i % 5 else {})
        })  # fmt: skip
    return rows


def test_the_bytes_do_not_depend_on_threads(rows, tmp_path):
    made = []
    for threads in (1, 4):
        path = tmp_path / f"{threads}.rec"
        with RecordList(rows, threads=threads) as x:
            assert x.info().blocks > 2
            x.save(path)
        with recstore.open(path) as x:
            made.append((x.info().sections, x.fingerprint, [x[i] for i in range(0, len(x), 7919)]))
    assert made[0] == made[1]
    assert made[0][2] == rows[::7919]


def test_unordered_records_have_no_placed_nodes():
    rows = [{"n": i * 7919 % 60_013, "s": f"{i * 104_729 % 60_013}"} for i in range(5000)]
    with RecordList(rows) as x:
        assert not kinds(x.info().trees[0][2]) & {"rising", "runs", "exceptions"}
        assert list(x) == rows


@pytest.mark.parametrize("threads", [0, 2])
def test_a_short_last_block_in_no_order_stays_as_small_as_raw(threads):
    """The builder tries the tree of the previous block for a short block, and learns the size of the places later."""
    numbers = random.Random(2)
    rising = list(range(0, 7 * 65_536, 7))
    for count in (3, 40, 400):
        mixed = [numbers.randrange(7 * 65_536) for _ in range(count)]
        with RecordList(rising + mixed, threads=threads) as x, RecordList(rising, threads=threads) as y:
            assert x[65_530:] == rising[65_530:] + mixed
            with RecordList(mixed, compression="none") as z:
                assert x.nbytes - y.nbytes <= z.nbytes
