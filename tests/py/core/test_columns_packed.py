"""Columns of packed encodings (decimals, packed numbers, dict entries, assembled texts, optional values and keys) take one
pass. tests/prop/test_ways_out.py reads the columns of any records."""

import random

import numpy as np
import pytest

import recstore
from recstore._core import native

rng = random.Random(11)
N = 4000
WORDS = [
    f"{a}{b} of {c}" for a in ("red", "blå", "\u4e2d") for b in ("house", "tree", "a much longer word") for c in "xyz"
]
ROLES = [
    {"role": role, "rank": i * 3, "tags": ["t", role], "deep": {"code": f"c{i}"}}
    for i, role in enumerate(("painter", "sculptor", "poet"))
]
PROSE = "the quick brown fox jumps over the lazy dog while several other animals watch from the river bank".split()


def sentence():
    return " ".join(rng.choice(PROSE) for _ in range(rng.randrange(4, 12)))


def record(i):
    out = {
        "price": rng.randrange(10**6) / 100, "whole": rng.choice([rng.randrange(900), rng.randrange(9000) / 8]),
        "word": rng.choice(WORDS), "year": rng.choice([1801, 1822, 1904, 1999]) * 7919, "file": f"COCO_{i * 7 % 99991:012d}.jpg",
        "hash": f"{rng.getrandbits(128):032x}", "text": sentence(), "said": rng.choice([None, *WORDS]), "role": rng.choice(ROLES),
        "wide": "\u0432\u043e\u0442 " + " ".join(rng.choice(["\u0440\u0430\u0437", "\u0434\u0432\u0430", "\u0442\u0440\u0438"]) for _ in range(9)),
        "nest": {"k": rng.randrange(50) / 10},
    }  # fmt: skip
    return {**out, "a.b": i} if i % 3 else {**out, "a": {"b": -i}}


RECORDS = [record(i) for i in range(N)]


@pytest.fixture(scope="module", params=["auto", "none"])
def x(request):
    with recstore.RecordList(RECORDS, compression=request.param) as x:
        yield x


def kinds(node):
    yield node.kind
    for child in node.children:
        yield from kinds(child)


def test_the_writer_packs():
    """The tests below need these encodings."""
    with recstore.RecordList(RECORDS) as x:
        node_kinds = set().union(
            *(kinds(root) for _, _, root in x.info().trees), *(kinds(t.root) for t in x.info().tables if t.root)
        )
    assert node_kinds >= {"decimal", "dict-coded", "symbols", "concat", "digits", "optional"}


@pytest.mark.parametrize("name", [
    "price", "whole", "year", "role.rank", "nest.k", "a.b", "word", "file", "hash", "text", "wide", "role.role",
    "role.deep.code"
])  # fmt: skip
def test_scalars_and_texts_are_read_in_one_pass(x, name):
    def read(r):
        if name == "a.b":
            return r["a.b"] if "a.b" in r else r["a"]["b"]
        for key in name.split("."):
            r = r[key]
        return r

    for indices in (range(0, N, 7), np.random.default_rng(1).permutation(N)):
        expected = [read(RECORDS[i]) for i in indices]
        assert x.field(name).to_numpy(indices).tolist() == expected
    assert native.read_column(x.field(name))[0] == ("texts" if type(expected[0]) is str else "scalars")


def test_lists_of_texts_are_not(x):
    assert native.read_column(x.field("role.tags")) is None and x.field("role.tags")[3] == RECORDS[3]["role"]["tags"]


def test_whole_records():
    for records in ([rng.choice(WORDS) for _ in range(N)], [rng.randrange(900) / 100 for _ in range(N)]):
        with recstore.RecordList(records) as x:
            shape, n, *_ = native.read_column(x)
            assert n == N and shape == ("texts" if type(records[0]) is str else "scalars")
            assert x.map(lambda r: {"v": r}).field("v").to_numpy().tolist() == records
            assert np.asarray(x).tolist() == records


def test_names(x):
    if x.info().trees[0][2].kind != "any":
        assert set(native.field_names(x)) == {name for r in RECORDS for name in r}
