"""Exports to Arrow of real files, of records of any type, and of damaged stores."""

import datetime as dt
import decimal
import pathlib
import random

import numpy as np
import pytest
from arrow_results import check_table, check_values
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


# ---- Refusals ----


@pytest.mark.parametrize("value", [["", b"\x80"], ["a", b"b", b"\xff"]])
def test_mixed_bytes_and_text_are_not_exported_as_invalid_text(value):
    with (
        RecordList([{"a": value}]) as x,
        pytest.raises(TypeError, match="'a.*' holds values of several types, str and bytes"),
    ):
        x.to_arrow()


@pytest.mark.parametrize("pair", [(dt.date(2000, 1, 1), 0), (b"", ""), (0.5, True)])
def test_types_that_pyarrow_would_change_are_refused(pair):
    with RecordList([{"a": value} for value in pair]) as x, pytest.raises(TypeError):
        x.to_arrow()


def test_names_that_arrow_cannot_hold():
    for records in ([{"a\0b": 1}], [{"a": {"\0": None}}]):
        with RecordList(records) as x, pytest.raises(ValueError, match="has a NUL"):
            pa.table(x)


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
