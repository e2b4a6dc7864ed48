"""Exports to Arrow of real files, of records of any type, and of damaged stores."""

import datetime as dt
import decimal
import pathlib
import random

import numpy as np
import pytest
from arrow_results import check_table, check_values
from hypothesis import given, settings
from hypothesis import strategies as st
from real_records import LISTS

import recstore
from recstore import RecordDict, RecordList

pa = pytest.importorskip("pyarrow")

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"

# ---- Real files ----


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_real_files(name):
    records = LISTS[name]()
    with RecordList(records) as x:
        if not isinstance(records[0], dict):
            check_values(x.to_arrow(), pa.array(records))
            return
        try:
            for name in {name for record in records for name in record}:
                pa.array([record.get(name) for record in records])
        except (pa.ArrowException, TypeError):
            with pytest.raises(TypeError, match="several types"):
                x.to_arrow()
            return
        check_table(records, x)


# ---- Records of any type ----

words = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
scalars = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    words,
    st.binary(max_size=6),
    st.dates(),
    st.datetimes(),
    st.none(),
)
cells = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=3), st.tuples(inner, inner)
    ),
    max_leaves=8,
)
same_type = st.one_of(
    *[st.lists(kind, min_size=1, max_size=6) for kind in (
        st.integers(-(2**40), 2**40) | st.none(), st.floats(allow_nan=False) | st.integers(-9, 9), st.booleans() | st.none(),
        words | st.none(), st.lists(st.integers(-300, 300) | st.none(), max_size=4), st.lists(st.lists(words, max_size=2), max_size=3),
        st.fixed_dictionaries({"a": st.integers(0, 9)}, optional={"b": words, "c": st.lists(st.floats(allow_nan=False))}),
        st.dates() | st.none(), st.datetimes(), st.decimals(-1000, 1000, places=3), st.binary(max_size=4), st.uuids(),
    )]
)  # fmt: skip
anything = st.lists(cells, min_size=1, max_size=6)


@given(st.lists(st.one_of(same_type, anything), min_size=1, max_size=3), st.sampled_from([1, 25]), st.sampled_from(["auto", "none"]),
       st.randoms(use_true_random=False))  # fmt: skip
@settings(deadline=None, max_examples=150)
def test_any_records(columns, times, compression, chance):
    """The result equals pyarrow's table if pyarrow makes one and keeps all types, and no value is a tuple. Otherwise it
    is an error, or a table of all records."""
    n = max(map(len, columns)) * times
    records = [
        {f"c{k}": column[i % len(column)] for k, column in enumerate(columns) if i < n // 2 or k != 1} for i in range(n)
    ]
    order = [chance.randrange(n) for _ in range(5)]
    with RecordList(records, compression=compression) as x:
        for view, expected in ((x, records), (x[order], [records[i] for i in order]), (x[::-1], records[::-1])):
            check_any(view, expected, records)


def check_any(view, records, stored):
    """Checks the table of a view with these records. Types come from whole blocks, which hold all `stored` records."""
    try:
        names = dict.fromkeys(name for record in records for name in record)
        expected = pa.table({name: pa.array([r.get(name) for r in records]) for name in names}).to_pylist()
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        expected = None
    else:
        if not keeps_types(records, expected):
            expected = None
    try:
        table = view.to_arrow()
    except (TypeError, ValueError):
        assert expected is None or has_nul_in_names(stored)
        return
    table.validate(full=True)
    if expected is not None and not any(map(has_tuples, records)):
        assert table.to_pylist() == expected
    else:
        assert table.num_rows == len(records)


@pytest.mark.parametrize("value", [["", b"\x80"], ["a", b"b", b"\xff"]])
def test_mixed_bytes_and_text_are_not_exported_as_invalid_text(value):
    with (
        RecordList([{"a": value}]) as x,
        pytest.raises(TypeError, match="'a.*' holds values of several types, str and bytes"),
    ):
        x.to_arrow()


def keeps_types(value, converted):
    """Whether pyarrow kept each type or made an int a float. It may turn an int into a date, or text into bytes."""
    if isinstance(value, dict):
        return all(keeps_types(value[name], converted[name]) for name in value)
    if isinstance(value, list | tuple):
        return all(map(keeps_types, value, converted))
    kinds = {type(value), type(converted)}
    return len(kinds) == 1 or kinds == {int, float}


@pytest.mark.parametrize("pair", [(dt.date(2000, 1, 1), 0), (b"", ""), (0.5, True)])
def test_types_that_pyarrow_would_change_are_refused(pair):
    records = [{"a": value} for value in pair]
    with RecordList(records) as x:
        check_any(x, records, records)
        with pytest.raises(TypeError):
            x.to_arrow()


def has_nul_in_names(value):
    if isinstance(value, dict):
        return any("\0" in name for name in value) or any(map(has_nul_in_names, value.values()))
    return isinstance(value, list | tuple) and any(map(has_nul_in_names, value))


def test_names_that_arrow_cannot_hold():
    for records in ([{"a\0b": 1}], [{"a": {"\0": None}}]):
        with RecordList(records) as x, pytest.raises(ValueError, match="has a NUL"):
            pa.table(x)


def has_tuples(value):
    if isinstance(value, dict):
        return any(map(has_tuples, value.values()))
    return isinstance(value, tuple) or (isinstance(value, list) and any(map(has_tuples, value)))


# ---- Damage ----


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("v1-*.rec")), ids=lambda path: path.stem)
def test_golden_files_never_crash(path):
    try:
        x = recstore.open(path, verify="header")
        values = x.values() if isinstance(x, RecordDict) else x
    except (recstore.Error, OSError):
        return
    for use in (lambda: pa.chunked_array(values), lambda: pa.table(values), lambda: list(values)):
        try:
            use()
        except (recstore.Error, pa.ArrowException, TypeError, ValueError, ImportError, KeyError, AttributeError):
            pass
    x.close()


def test_changed_bytes_never_crash(tmp_path):
    """After random changes of bytes, the result is a table or an error."""
    records = [
        {"i": i, "t": f"n{i % 9}/{i:05d}.jpg", "l": list(range(i % 5)), "s": {"a": i / 3}, "d": dt.date(2000, 1, 1 + i % 28),
         "m": decimal.Decimal(i) / 8, "o": None if i % 3 else "x" * (i % 4), "a": np.arange(i % 3)}
        for i in range(300)
    ]  # fmt: skip
    errors = 0
    for compression in ("auto", "none"):
        with RecordList(records, compression=compression) as x:
            x.save(tmp_path / "whole.recs")
        whole = (tmp_path / "whole.recs").read_bytes()
        chance = random.Random(5)
        for _ in range(300):
            damaged = bytearray(whole)
            for _ in range(chance.randrange(1, 4)):
                damaged[chance.randrange(128, len(damaged))] = chance.randrange(256)
            (tmp_path / "damaged.recs").write_bytes(damaged)
            try:
                with recstore.open(tmp_path / "damaged.recs", verify="header") as y:
                    pa.table(y).validate(full=True)
            except (recstore.Error, pa.ArrowException, TypeError, ValueError, OSError):
                errors += 1
    assert errors > 50


@pytest.mark.parametrize(
    ("records", "paths"),
    [
        ([{"t": (i, i + 1)} for i in range(100)], ["t.1"]),
        ([{"t": (i, str(i))} for i in range(100)], ["t.1", "t.0"]),
        ([{"t": [1, 2]}] * 5, ["t.x"]),
        ([{"t": 5}, {"t": {"x": 1}}], ["t.x"]),
        ([{"t": (5, 6)}], ["t.5"]),
        ([{"a": {"b": {"c": 1}}}, {"a": {"b": (1, 2)}}], ["a.b.c"]),
        ([{"t": {"x": (1, 2)}}, {"t": None}], ["t.x"]),
        ([1, 2, 3], ["a"]),
    ],
)
def test_paths_into_values_that_are_not_dicts(records, paths):
    """Such paths select nothing. Before a fix, they led to a crash and to values of other fields."""
    with RecordList(records) as x:
        chosen = x._only(paths)
        table = chosen.to_arrow()
        assert table.num_rows == len(records)
        columns = {name: pa.array([row.get(name) for row in chosen]).to_pylist() for row in chosen for name in row}
        assert table.to_pydict() == columns


@pytest.mark.parametrize("make", [lambda value: value, lambda value: [value] * 3, lambda value: [{"b": value}]])
@pytest.mark.parametrize("compression", ["none", "auto"])
def test_ints_beside_ints_from_two_to_the_63_on(make, compression):
    """The width of an int node says too much of its ints, and a rising node is not in them."""
    rng = random.Random(1)
    positive = [{"a": make(rng.randrange(2**64))} for _ in range(400)]
    with RecordList(positive, compression=compression) as x:
        assert x.to_arrow().to_pylist() == positive
    with RecordList([{"a": make(2**63 + i if i % 2 else -i)} for i in range(400)], compression=compression) as x:
        pytest.raises(TypeError, x.to_arrow).match("fit neither int64 nor uint64")
