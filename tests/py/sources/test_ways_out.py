"""Exports of stores that mix two or three kinds of values: equal values, or an error that names the field. These cases
run in child processes, because a library may crash. RECSTORE_STORM=full runs all pairs and triples of FEW kinds."""

import datetime as dt
import os
import pathlib
import random
import subprocess
import sys
import zoneinfo

import kinds
import numpy as np
import pytest

from recstore import RecordDict, RecordList
from recstore.cli import main

SUPPORT = pathlib.Path(__file__).parents[2] / "support"

pa = pytest.importorskip("pyarrow")
LEVEL, NOON = kinds.Level.LOW, dt.datetime(2024, 6, 1, 12)
BERLIN, TOKYO = (NOON.replace(tzinfo=zoneinfo.ZoneInfo(name)) for name in ("Europe/Berlin", "Asia/Tokyo"))


def check(tmp_path, *arguments):
    progress = tmp_path / "progress"
    command = [sys.executable, "-X", "faulthandler", SUPPORT / "ways_out.py", progress, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    last = progress.read_text().strip() if progress.exists() else "the imports"
    assert done.returncode == 0, f"{last}: the process ended with {done.returncode}\n{done.stderr[-3000:]}"
    assert done.stdout == ""
    assert last  # the cases ran


def test_every_way_out(tmp_path):
    check(tmp_path, "columns", "sample 1 10", "sample-triples 1 100")


FULL = os.environ.get("RECSTORE_STORM") == "full"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(48 if FULL else 1))
def test_every_pair_and_triple(tmp_path, part):
    check(tmp_path, f"all {part} 48", f"triples {part} 48")


# ---- Values that only Python reads ----

COLUMNS = [
    ([LEVEL, 2], "int64", [1, 2]),
    ([BERLIN, None], "timestamp[us, tz=Europe/Berlin]", [BERLIN, None]),
    ([BERLIN, TOKYO], "timestamp[us, tz=UTC]", [BERLIN, TOKYO]),
    ([np.str_("a"), "b"], "string", ["a", "b"]),
    ([{LEVEL}, frozenset({3})], "list<item: int64>", [[1], [3]]),
    ([np.array([["a"]]), [["b"]]], "list<item: list<item: string>>", [[["a"]], [["b"]]]),
    ([kinds.Pair(LEVEL, [BERLIN])] * 2, "struct<left: int64, right: list<item: timestamp[us, tz=Europe/Berlin]>>",
     [{"left": 1, "right": [BERLIN]}] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind", "expected"), COLUMNS, ids=[kind for _, kind, _ in COLUMNS])
def test_values_are_columns_in_every_shape_of_records(values, kind, expected):
    with RecordList([(value, "x") for value in values]) as x:
        table = x.to_arrow(names=["v", "name"])
        assert str(table.schema.field("v").type) == kind
        assert (
            table.to_pydict()
            == pa.table(x).rename_columns(["v", "name"]).to_pydict()
            == {"v": expected, "name": ["x"] * 2}
        )
    with RecordList([[value] for value in values]) as x:
        assert x.to_arrow().to_pylist() == [[value] for value in expected]
    with RecordList([{"v": value, "n": i} for i, value in enumerate(values)]) as x:
        assert x[::-1].to_arrow()["v"].to_pylist() == expected[::-1]
        assert x.fields("v").to_arrow().to_pydict() == {"v": expected}
        assert pa.chunked_array(x.field("v")).to_pylist() == x.field("v").to_arrow().to_pylist() == expected
    with RecordDict(enumerate((value, "x") for value in values)) as d:
        assert d.values()[:].to_arrow()["0"].to_pylist() == expected


def test_a_stream_is_read_in_batches_and_keeps_its_types():
    pl = pytest.importorskip("polars")
    records = [{"i": i, "e": LEVEL, "at": BERLIN if i % 3 else None, "t": "x" * (i % 50)} for i in range(66_000)]
    with RecordList(records) as x:
        batches = list(pa.RecordBatchReader.from_stream(x))
        assert len(batches) > 1 and pa.Table.from_batches(batches)[65_500:].to_pylist() == [
            {**record, "e": 1} for record in records[65_500:]
        ]
        assert x.to_polars()["at"].dtype == pl.Datetime("us", "Europe/Berlin")
        part = x[:0]
        assert part.to_arrow().to_pylist() == [] and pa.table(part).num_rows == 0


def test_groups_are_lists_of_rows():
    with RecordList([{"g": i % 2, "e": LEVEL} for i in range(4)]) as x:
        groups = x.group_by("g").values()[:].to_arrow()
        assert groups.to_pylist() == [[{"g": 0, "e": 1}] * 2, [{"g": 1, "e": 1}] * 2]


def test_polars_takes_zones_without_a_name_as_utc():
    pytest.importorskip("polars")
    east = NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    with RecordList([{"at": east, "in": [east]}]) as x:
        assert x.to_polars().to_dicts() == [{"at": east, "in": [east]}]
        assert str(x.to_arrow().schema.field("at").type) == "timestamp[us, tz=+05:30]"


# ---- Values that a column cannot hold ----


@pytest.mark.parametrize("big", [2**53 + 1, -(2**53) - 1, 2**64 - 1, np.int64(2**60 + 1), np.uint64(2**64 - 1)])
@pytest.mark.parametrize("compression", ["auto", "none"])
def test_an_int_that_a_column_of_floats_would_round(big, compression):
    values = [0.5, 3, *[1.5] * 40, big]
    for make, name in ((lambda v: {"a": {"v": v}}, "a.v"), (lambda v: {"v": [v, 1.0]}, r"v\[\]"), (lambda v: v, r"\$")):
        with RecordList(map(make, values), compression=compression) as x:
            with pytest.raises(ValueError, match=f"record 42: the field '{name}'"):
                x.to_arrow()
            with pytest.raises(pa.ArrowException, match="record 42"):
                pa.chunked_array(x)
            assert x[:42].to_arrow().to_pylist()[1] == make(3)
    if type(big) is not int:
        return  # to_numpy does not mix numpy scalars with Python's numbers
    with RecordList([{"v": value} for value in values]) as x:
        column = x.field("v").to_numpy()
        assert column.dtype == object and column.tolist() == values
        assert x[:42].field("v").to_numpy().dtype == np.float64


def test_the_error_names_every_kind():
    with RecordList([{"v": [LEVEL]}, {"v": [1j]}, {"v": [range(2)]}]) as x:
        with pytest.raises(TypeError, match=r"'v\[\]'.*complex and range and enum"):
            x.to_arrow()
    with RecordList([{"v": np.datetime64(1, "s")}, {"v": np.datetime64(1, "ms")}]) as x:
        with pytest.raises(TypeError, match="'v' holds numpy datetime64 of several units"):
            x.to_arrow()


def test_names_of_columns():
    with RecordList([]) as x:
        assert x.to_arrow(names=["a", "b"]).column_names == ["a", "b"]
    with RecordList([1, 2]) as x, pytest.raises(ValueError, match="no columns"):
        x.to_arrow(names=["a"])


# ---- pandas, CSV ----


@pytest.mark.parametrize("text", ["\udc80", "a\ud800", "\udcc3\udca9"])
def test_text_without_utf8(text, tmp_path, capsys):
    pytest.importorskip("pandas")
    records = [{"n": 1, "t": "é"}, {"n": 2, "t": text}]
    with RecordList(records) as x:
        assert x.to_pandas().to_dict("records") == records
        assert x.field("t").to_pandas().tolist() == ["é", text]
        x.save(tmp_path / "a.recs")
    with RecordList([(1, text), (2, "b")]) as x:
        assert x.to_pandas().to_numpy().tolist() == [[1, text], [2, "b"]]
    with RecordList([{text: 1}]) as x:
        assert x.to_pandas().to_dict("records") == [{text: 1}]
    assert main.main(["cat", str(tmp_path / "a.recs"), "--csv"]) == 1
    err = capsys.readouterr().err
    assert "record 1: 't'" in err and "--jsonl" in err
    assert main.main(["cat", str(tmp_path / "a.recs"), "--csv", "--columns", "n"]) == 0


def test_records_of_several_forms_are_one_column_of_pandas():
    pytest.importorskip("pandas")
    for records in ([{"a": 1}, ["xy"]], [[1, 2], "ab"], [(1, 2), None], [{"a": 1}, 5], [kinds.Frozen(1), 3]):
        with RecordList(records) as x:
            assert x.to_pandas()[0].tolist() == records


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_ints_of_any_size_in_dtypes_of_floats(dtype):
    torch = pytest.importorskip("torch")
    from recstore.torch import Field, Fields

    draw = random.Random(5)
    sizes = [63, 64, 65, 117, 118, 500, 1023]
    values = [sign * (2**n + off) for n in sizes for off in (-1, 0, 1, 2 ** (n - 53), 3 * 2 ** (n - 54) + 1, draw.getrandbits(n))
              for sign in (1, -1)]  # fmt: skip
    with RecordList([{"v": value, "l": [value, 0]} for value in [*values, 2**1024, -(2**1100), 2**20_000]]) as x:
        f = Fields(x, v=Field(dtype=dtype), l=Field("ragged", dtype=dtype))
        batch = f[list(range(len(values)))]
        assert torch.equal(batch["v"], torch.tensor(list(map(float, values)), dtype=getattr(torch, dtype)))
        assert torch.equal(batch["l"].values[::2], batch["v"])
        for i in range(len(values), len(x)):
            with pytest.raises(ValueError, match=f"of record {i} holds"):
                f[[i]]
    with RecordList([{"v": 2.5}, {}]) as x:
        assert Fields(x, v=Field(dtype=dtype, default=-(2**70)))[[1]]["v"].tolist() == [-(2.0**70)]
        with pytest.raises(ValueError, match="cannot hold"):
            Fields(x, v=Field(dtype="int64", default=-(2**63) - 1))


# ---- Lazy views ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [LEVEL, np.array([["a"]]), BERLIN, {1}], ids=lambda value: type(value).__name__)
def test_a_lazy_view_has_the_columns_of_its_records(value):
    """A record that is a tuple of similar items has a column for each item, not a list."""
    with RecordList([(value, value), (value, value)]) as x:
        for lazy in (x.lazy(), x[:1].lazy(), x.lazy()[::-1]):
            assert lazy.to_arrow().column_names == ["0", "1"]
            assert lazy.to_arrow().schema == x.to_arrow().schema == pa.table(lazy).schema
    with RecordList([{"v": (value, value)}]) as x:
        assert x.lazy().to_arrow().schema == x.to_arrow().schema
        assert x.fields("v").lazy().to_arrow().schema == x.fields("v").to_arrow().schema
        assert x.field("v").to_arrow().type == x.field("v", default=None).to_arrow().type
        assert pa.types.is_list(x.field("v").to_arrow().type)
    with RecordList([({"a": value}, {}), ({}, {"a": value})]) as x:  # each record lacks a field
        assert x.lazy().to_arrow().to_pylist() == x.to_arrow().to_pylist()
