"""Columns against list comprehensions, in any order and over any view; tables; arrays without a
copy; closing, signals and other threads during a read."""

import gc
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest

import recstore
from recstore._core import native
from recstore.containers import columns

rng = random.Random(5)
RECORDS = [
    {"wide": rng.getrandbits(63) - 2**62, "u1": rng.randrange(256), "u2": 1000 + rng.randrange(65536), "u4": rng.randrange(2**32), "bits": rng.randrange(80),
     "b33": rng.getrandbits(33), "x": rng.random() / 3, "yes": rng.random() < 0.5, "same": 7, "box": [rng.random() / 3 for _ in range(4)],
     "pair": (i % 5, -i), "m": {"k": i, "x": rng.random() / 7}} for i in range(3000)
]  # fmt: skip
RAGGED = [
    {"name": "né" * (i % 3) + f"/{i:07d}.jpg", "ids": [i % 90] * (i % 4), "w": [i / 7] * (i % 3), "id": i, "flags": [i % 2 == 0] * (i % 3),
     "m": {"t": "\U0001f600" if i % 50 == 0 else "a" * (i % 9), "k": -i}, "o": i if i % 4 else None, "s": "x" if i % 3 else None,
     "b": None if i % 7 else True, **({"late": i} if i > 1500 else {})} for i in range(3000)
]  # fmt: skip
FIXED_FIELDS = [name for name in RECORDS[0] if name != "m"]


@pytest.fixture(scope="module", params=["auto", "none"])
def rows(request):
    with recstore.RecordList(RECORDS, compression=request.param) as x:
        yield x


@pytest.fixture(scope="module", params=["auto", "none"])
def ragged(request):
    with recstore.RecordList(RAGGED, compression=request.param) as x:
        yield x


def as_list(array):
    return array.tolist()


ORDERS = {
    "all": None, "backwards": range(-1, -3001, -1), "some": [0, 2999, 5, 5, -3000, 7], "array": np.random.default_rng(1).permutation(3000),
    "narrow": np.arange(200, dtype=np.uint8), "steps": range(0, 3000, 7),
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_one_size(rows, order):
    indices = ORDERS[order]
    chosen = RECORDS if indices is None else [RECORDS[i] for i in indices]
    for name in FIXED_FIELDS:
        got = rows.field(name).to_numpy(indices)
        assert as_list(got) == [list(r[name]) if name == "pair" else r[name] for r in chosen], name
        assert got.flags.writeable and got.dtype == np.array([r[name] for r in RECORDS]).dtype
    for name in ("k", "x"):
        assert as_list(rows.field(("m", name)).to_numpy(indices)) == [r["m"][name] for r in chosen]
    assert as_list(rows.field(("box", -1)).to_numpy(indices)) == [r["box"][3] for r in chosen]
    assert as_list(rows.field("m.x").to_numpy(indices)) == [r["m"]["x"] for r in chosen]


@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_any_size(ragged, order):
    indices = ORDERS[order]
    chosen = RAGGED if indices is None else [RAGGED[i] for i in indices]
    for name in ("ids", "w", "flags"):
        values, offsets = ragged.field(name).to_numpy(indices, ragged=True)
        assert [values[a:b].tolist() for a, b in zip(offsets, offsets[1:])] == [r[name] for r in chosen]
        assert values.dtype == {"ids": np.int64, "w": np.float64, "flags": np.bool_}[name] and offsets.dtype == np.int64
    for path in ("name", "m.t"):
        got = ragged.field(path).to_numpy(indices)
        assert as_list(got) == [r["name"] if path == "name" else r["m"]["t"] for r in chosen]
    assert as_list(ragged.field("m.k").to_numpy(indices)) == [r["m"]["k"] for r in chosen]
    assert as_list(ragged.field("late", default=-1).to_numpy(indices)) == [r.get("late", -1) for r in chosen]
    view = ragged.field("late", default="none").field("x", default=2.5)
    assert as_list(view.to_numpy(indices)) == [2.5] * len(chosen)


VIEWS = {
    "slice": lambda x: x[100:2000:3], "backwards": lambda x: x[::-1], "taken": lambda x: x[[5, 1, 5, -1]], "shuffled": lambda x: x.shuffled(3),
    "joined": lambda x: x[10:20] + x[5:8] + x.shuffled(1)[:30], "repeated": lambda x: x[:70] * 3, "mask": lambda x: x[[i % 3 == 0 for i in range(len(x))]],
    "sorted": lambda x: x.sorted_by("id"), "empty": lambda x: x[:0],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_views(ragged, view):
    x = VIEWS[view](ragged)
    expected = list(x)
    assert as_list(x.field("id").to_numpy()) == [r["id"] for r in expected]
    assert as_list(x.field("name").to_numpy()) == [r["name"] for r in expected]
    values, offsets = x.field("w").to_numpy(ragged=True)
    assert [values[a:b].tolist() for a, b in zip(offsets, offsets[1:])] == [r["w"] for r in expected]
    if expected:
        assert as_list(x.field("m.k").to_numpy([-1, 0])) == [expected[-1]["m"]["k"], expected[0]["m"]["k"]]


def test_records_of_several_stores_and_of_mappings(ragged):
    with recstore.RecordList(RAGGED[:100]) as y, recstore.RecordDict({f"k{i}": r for i, r in enumerate(RAGGED)}) as d:
        joined = ragged[2900:] + y
        assert as_list(joined.field("id").to_numpy()) == [*range(2900, 3000), *range(100)]
        assert as_list(joined.field("name").to_numpy([150, 3])) == [RAGGED[50]["name"], RAGGED[2903]["name"]]
        values = recstore.RecordList(d.values())
        assert as_list(values.field("id").to_numpy()) == list(range(3000))
        with recstore.RecordDict({f"k{i}": i / 7 for i in range(500)}) as numbers:
            assert as_list(np.asarray(numbers.values())) == [i / 7 for i in range(500)]
            assert np.array_equal(np.asarray(numbers), np.array(list(numbers)))


# ---- Text ------------------------------------------------------------------------------------------------------------

TEXTS = ["", "a", "\0", "a\0", "\0b", "é", "世界", "\U0001f600", "x" * 5000, "é" * 300, " "]


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("texts", [TEXTS, [t for t in TEXTS if "\0" not in t], ["x" * 3_000_000, "y"], ["abc"], ["", ""]], ids=[
    "all", "without NUL", "long", "short", "empty"])  # fmt: skip
def test_texts(texts, compression):
    texts = texts * (1 if len(texts) < 5 else 400)
    with recstore.RecordList([{"t": t, "i": i} for i, t in enumerate(texts)], compression=compression) as x:
        got = x.field("t").to_numpy()
        assert got.dtype == columns.from_values(texts, None, None).dtype and as_list(got) == texts
    with recstore.RecordList(texts, compression=compression) as x:
        if max(map(len, texts)) < 10_000:
            assert np.array_equal(np.asarray(x), np.array(texts)) and np.asarray(x).dtype == np.array(texts).dtype


def test_texts_with_an_old_numpy(monkeypatch):
    with recstore.RecordList(["é", "b"] * 50) as x:
        view = recstore.RecordList([{"t": t} for t in x]).field("t")
        monkeypatch.setattr(columns, "_takes_utf8", lambda: False)
        assert as_list(view.to_numpy()) == ["é", "b"] * 50
        monkeypatch.setattr(columns, "_string_dtype", lambda: None)
        assert view.to_numpy().dtype == object and as_list(view.to_numpy()) == ["é", "b"] * 50


# ---- As numpy does ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["auto", "none"])
@pytest.mark.parametrize("values", [
    [1, 2], [True, False], [True, 2], [1, 2.5], [2**63], [-1, 2**63], ["a", "bcd"], [""], [[1, 2], [3, 4]], [(1, 2.5)], [[True], [2]], [[], []], [None, 1],
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
            and repr(as_list(got)) == repr(as_list(expected))
        )


# ---- Tables ----------------------------------------------------------------------------------------------------------


def test_arrow_tables(rows, ragged):
    pyarrow = pytest.importorskip("pyarrow")
    for x, records in ((rows, RECORDS), (ragged, RAGGED)):
        table = x.to_arrow()
        table.validate(full=True)
        names = list(dict.fromkeys(name for r in records for name in r))
        assert sorted(table.column_names) == sorted(names) and table.num_rows == 3000
        for name in names:
            plain = pyarrow.array([r.get(name) for r in records])
            assert table[name].type == plain.type and table[name].to_pylist() == plain.to_pylist(), name
    part = ragged[:10].to_arrow()
    assert "late" not in part.column_names and part["s"].to_pylist() == [r["s"] for r in RAGGED[:10]]
    assert ragged[1495:].fields("id", "late").to_arrow()["late"].to_pylist() == [r.get("late") for r in RAGGED[1495:]]
    assert ragged.field("o").to_arrow([4, 1]).to_pylist() == [None, 1]
    assert ragged.field("late", default=None).to_arrow([0, -1]).to_pylist() == [None, 2999]


@pytest.mark.parametrize("compression", ["auto", "none"])
def test_arrow_of_other_records(compression):
    pyarrow = pytest.importorskip("pyarrow")
    for values in (
        [1, None, 3], ["a", None], [[1], None, [2.5]], [None, None], [[True], [False]], [[]],
        [{"a": {"b": 1}}, {"c": None}], [], [None, True]
    ):  # fmt: skip
        with recstore.RecordList(values, compression=compression) as x:
            got = x.to_arrow()
            assert got.to_pylist() == (
                [{"a": {"b": 1}, "c": None}, {"a": None, "c": None}] if values and type(values[0]) is dict else values
            )
            assert type(values[0] if values else None) is dict or got.type == pyarrow.array(values).type
    with recstore.RecordList([{1: 2}] * 3, compression=compression) as x:
        pytest.raises(TypeError, x.to_arrow).match("column names are strings")


def test_pandas(rows, ragged):
    pandas = pytest.importorskip("pandas")
    for x in (
        rows, ragged, ragged[:10], ragged.fields("id", "late"), recstore.RecordList([1, 2]), recstore.RecordList([])
    ):  # fmt: skip
        expected = pandas.DataFrame(x.to_list())
        got = x.to_pandas()
        pandas.testing.assert_frame_equal(got[expected.columns], expected)
        assert len(got.columns) == len(expected.columns)
    for name in ("id", "name", "o", "w"):
        expected = pandas.Series([r[name] for r in RAGGED], name=name)
        pandas.testing.assert_series_equal(ragged.field(name).to_pandas(), expected)
    assert ragged.field("id").to_pandas([3, -1]).tolist() == [3, 2999]


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
            assert got.flags.writeable != fits and as_list(got) == list(part.field("x"))
            del shared, got


# ---- Concurrency -------------------------------------------------------------------------------------------------------


def test_close_waits_for_a_pass():
    """A read that has begun when another thread closes the store returns all values; then the store is closed."""
    for _ in range(20):
        x = recstore.RecordList([{"t": f"text {i}", "i": i} for i in range(3000)] * 20)
        view, out = x.field("t"), []

        def read(view=view, out=out):
            try:
                out.append(columns.texts(*_texts(view)))
            except recstore.errors.ClosedError:
                out.append(None)

        threads = [threading.Thread(target=read) for _ in range(2)]
        [t.start() for t in threads]
        time.sleep(rng.random() / 1000)
        x.close()
        [t.join() for t in threads]
        assert x.closed
        for got in out:
            assert got is None or (len(got) == 60_000 and got[59_999] == "text 2999")
        pytest.raises(recstore.errors.ClosedError, lambda: view.to_numpy())


def _texts(view):
    gathered = native.read_column(view)
    return gathered[5], np.frombuffer(gathered[4], np.int64)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals to raise")
def test_a_signal_ends_a_pass():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    with recstore.RecordList([{"a": i} for i in range(1000)]) as x:
        view = (x * 20_000_000).field("a")
        before = signal.signal(signal.SIGPROF, stop)
        try:
            with pytest.raises((Stop, MemoryError)):
                signal.setitimer(signal.ITIMER_PROF, 0.05)
                view.to_numpy()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        assert x.field("a")[3] == 3, "the store can still be read"
    assert x.closed


def test_an_index_beyond_any_list_finds_nothing():
    x = recstore.RecordList([{"a": [1, 2]}] * 3)
    for index in (2, -3, 10**30, -(10**30)):
        assert list(x.field(("a", index), None)) == [None] * 3
        assert list(x.field(("a", index), 7).to_numpy()) == [7] * 3
    assert list(x.field(("a", -2)).to_numpy()) == [1] * 3
