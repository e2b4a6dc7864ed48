"""Columns as numpy and pandas make them; arrays without a copy; closing, signals and other threads during a read.
tests/prop/test_ways_out.py reads the columns of any records."""

import gc
import random
import sys

import numpy as np
import pytest

import recstore
from recstore._core import native
from recstore.containers import columns

rng = random.Random(5)
RECORDS = [
    {"wide": rng.getrandbits(63) - 2**62, "u1": rng.randrange(256), "x": rng.random() / 3, "yes": rng.random() < 0.5,
     "box": [rng.random() / 3 for _ in range(4)], "pair": (i % 5, -i), "m": {"k": i, "x": rng.random() / 7}}
    for i in range(3000)
]  # fmt: skip


@pytest.fixture(scope="module", params=["auto", "none"])
def rows(request):
    with recstore.RecordList(RECORDS, compression=request.param) as x:
        yield x


# ---- Text ------------------------------------------------------------------------------------------------------------

TEXTS = ["", "a", "\0", "a\0", "\0b", "é", "世界", "\U0001f600", "x" * 5000, "é" * 300, " "]


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("texts", [TEXTS, [t for t in TEXTS if "\0" not in t], ["x" * 3_000_000, "y"], ["abc"], ["", ""]], ids=[
    "all", "without NUL", "long", "short", "empty"])  # fmt: skip
def test_texts(texts, compression):
    texts = texts * (1 if len(texts) < 5 else 400)
    with recstore.RecordList([{"t": t, "i": i} for i, t in enumerate(texts)], compression=compression) as x:
        got = x.field("t").to_numpy()
        assert got.dtype == columns.from_values(texts, None, None).dtype and got.tolist() == texts
    with recstore.RecordList(texts, compression=compression) as x:
        if max(map(len, texts)) < 10_000:
            assert np.array_equal(np.asarray(x), np.array(texts)) and np.asarray(x).dtype == np.array(texts).dtype


def test_texts_with_an_old_numpy(monkeypatch):
    with recstore.RecordList(["é", "b"] * 50) as x:
        view = recstore.RecordList([{"t": t} for t in x]).field("t")
        monkeypatch.setattr(columns, "_takes_utf8", lambda: False)
        assert view.to_numpy().tolist() == ["é", "b"] * 50
        monkeypatch.setattr(columns, "_string_dtype", lambda: None)
        assert view.to_numpy().dtype == object and view.to_numpy().tolist() == ["é", "b"] * 50


# ---- As numpy does ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("values", [
    [1, 2], [True, False], [True, 2], [1, 2.5], [2**63], [-1, 2**63], ["a", "bcd"], [""], [[1, 2], [3, 4]], [(1, 2.5)], [[True], [2]], [[], []], [[1], [1, 2]], [None, 1],
    ["a", 1], [b"a"], [{"a": 1}], [["a", "b"]], [np.float32(1)], [np.arange(3)] * 2, [[[1]], [[2]]], [1e308, 2**62], [2**53 + 1, 0.5]], ids=repr)  # fmt: skip
@pytest.mark.parametrize("dtype", [None, object, "f2", "f4", "f8", int, "u1"])
def test_asarray_matches_asarray_of_the_list(values, dtype, compression):
    def array_or_error(source):
        try:
            with np.errstate(over="ignore"):
                return np.asarray(source, dtype=dtype)
        except (TypeError, ValueError, OverflowError) as e:
            return type(e)

    with recstore.RecordList(values * 3, compression=compression) as x:
        got, expected = array_or_error(x), array_or_error(values * 3)
    if isinstance(expected, type):
        assert got is expected
    else:
        assert (
            got.dtype == expected.dtype
            and got.shape == expected.shape
            and repr(got.tolist()) == repr(expected.tolist())
        )


# ---- Tables ----------------------------------------------------------------------------------------------------------


def test_series_of_pandas(rows):
    pandas = pytest.importorskip("pandas")
    for name in ("u1", "x", "yes", "pair", "box"):
        expected = pandas.Series([r[name] for r in RECORDS], name=name)
        pandas.testing.assert_series_equal(rows.field(name).to_pandas(), expected)
    assert rows.field("u1").to_pandas([3, -1]).tolist() == [RECORDS[3]["u1"], RECORDS[-1]["u1"]]


@pytest.mark.parametrize(
    "package, use",
    [("pyarrow", lambda x: x.to_arrow()), ("pandas", lambda x: x.to_pandas())],
    ids=["pyarrow", "pandas"],
)
def test_tables_say_what_they_need(rows, monkeypatch, package, use):
    monkeypatch.setitem(sys.modules, package, None)
    for x in (rows, rows.field("x")):
        pytest.raises(ImportError, lambda: use(x)).match("pip install")


# ---- Without a copy --------------------------------------------------------------------------------------------------


def test_arrays_over_the_bytes():
    x = recstore.RecordList(RECORDS)
    assert {"wide", "x", "box", "m.x"} >= set(x.info().zero_copy) >= {"x", "box", "m.x"}
    assert "without a copy by to_numpy(copy=None): " in str(x.info())
    for name in x.info().zero_copy:
        for part in (x, x[5:100], x[::-7], x[2999:]):
            shared, copied = part.field(name).to_numpy(copy=False), part.field(name).to_numpy()
            assert np.array_equal(shared, copied) and shared.dtype == copied.dtype and not shared.flags.writeable
    column, derived = x.field("x").to_numpy(copy=None), x.field("box").to_numpy(copy=None)[3:, 1]
    del shared
    pytest.raises(recstore.errors.BusyError, lambda: x.close()).match("2 arrays over its bytes are alive")
    assert column[7] == RECORDS[7]["x"] and derived[0] == RECORDS[3]["box"][1]
    del column, derived
    gc.collect()
    x.close()
    assert x.closed


@pytest.mark.parametrize("use", [
    lambda x: x.field("u1"), lambda x: x.field("yes"), lambda x: x.field("pair"), lambda x: x.shuffled(1).field("x"), lambda x: x[[1, 2]].field("x"),
    lambda x: x.field("q", default=1.5), lambda x: x[:0].field("x")])  # fmt: skip
def test_arrays_that_need_a_copy(use):
    with recstore.RecordList(RECORDS) as x:
        pytest.raises(ValueError, lambda: use(x).to_numpy(copy=False)).match("leave copy=False out")
        got = use(x).to_numpy(copy=None)
        assert got.flags.writeable and np.array_equal(got, use(x).to_numpy())
    with recstore.RecordList(RECORDS, compression="none") as x:
        pytest.raises(ValueError, lambda: x.field("x").to_numpy(copy=False)).match("copy")
        assert x.info().zero_copy == ()


def test_several_blocks_need_a_copy():
    with recstore.RecordList({"x": i / 7} for i in range(70_000)) as x:
        assert x.info().blocks == 2 and x.info().zero_copy == ()
        for part, fits in (
            (x, False), (x[65_000:66_000], False), (x[:65_536], True), (x[66_000:], True), (x[:66_000:65_535], True)
        ):  # fmt: skip
            shared = native.column_view(part.field("x"))
            assert (shared is not None) == fits
            got = part.field("x").to_numpy(copy=None)
            assert got.flags.writeable != fits and got.tolist() == list(part.field("x"))
            del shared, got


# ---- Concurrency -------------------------------------------------------------------------------------------------------


def test_an_index_beyond_any_list_finds_nothing():
    x = recstore.RecordList([{"a": [1, 2]}] * 3)
    for index in (2, -3, 10**30, -(10**30)):
        assert list(x.field(("a", index), None)) == [None] * 3
        assert list(x.field(("a", index), 7).to_numpy()) == [7] * 3
    assert list(x.field(("a", -2)).to_numpy()) == [1] * 3


# ---- Packed encodings: one pass --------------------------------------------------------------------------------------

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


PACKED = [record(i) for i in range(4000)]


@pytest.fixture(scope="module", params=["auto", "none"])
def packed(request):
    with recstore.RecordList(PACKED, compression=request.param) as x:
        yield x


def kinds(node):
    yield node.kind
    for child in node.children:
        yield from kinds(child)


def test_the_writer_packs():
    """The tests below need these encodings."""
    with recstore.RecordList(PACKED) as x:
        node_kinds = set().union(
            *(kinds(root) for _, _, root in x.info().trees), *(kinds(t.root) for t in x.info().tables if t.root)
        )
    assert node_kinds >= {"decimal", "dict-coded", "symbols", "concat", "digits", "optional"}


@pytest.mark.parametrize("name", [
    "price", "whole", "year", "role.rank", "nest.k", "a.b", "word", "file", "hash", "text", "wide", "role.role",
    "role.deep.code"
])  # fmt: skip
def test_scalars_and_texts_are_read_in_one_pass(packed, name):
    def read(r):
        if name == "a.b":
            return r["a.b"] if "a.b" in r else r["a"]["b"]
        for key in name.split("."):
            r = r[key]
        return r

    for indices in (range(0, 4000, 7), np.random.default_rng(1).permutation(4000)):
        expected = [read(PACKED[i]) for i in indices]
        assert packed.field(name).to_numpy(indices).tolist() == expected
    assert native.read_column(packed.field(name))[0] == ("texts" if type(expected[0]) is str else "scalars")


def test_lists_of_texts_are_not(packed):
    field = packed.field("role.tags")
    assert native.read_column(field) is None and field[3] == PACKED[3]["role"]["tags"]


def test_whole_records():
    for records in ([rng.choice(WORDS) for _ in range(4000)], [rng.randrange(900) / 100 for _ in range(4000)]):
        with recstore.RecordList(records) as x:
            shape, n, *_ = native.read_column(x)
            assert n == 4000 and shape == ("texts" if type(records[0]) is str else "scalars")
            assert x.map(lambda r: {"v": r}).field("v").to_numpy().tolist() == records
            assert np.asarray(x).tolist() == records


def test_names(packed):
    if packed.info().trees[0][2].kind != "any":
        assert set(native.field_names(packed)) == {name for r in PACKED for name in r}
