"""Tries every export of stores whose records mix two or three kinds of values: the values must be equal, or an error
must name the field.

    python tests/support/ways_out.py PROGRESS MODE...

The modes are:

    columns                  every pair of one of FEW kinds and any kind, as a column of a store
    "all PART OF"            every ordered pair of FEW kinds, every export
    "triples PART OF"        every ordered triple of FEW kinds, to_arrow
    "sample SEED N"          N pairs of all kinds, every export
    "sample-triples SEED N"  N triples of all kinds, to_arrow and arrow_stream

It prints a line for each wrong case. If another library crashes, the process ends, and PROGRESS names the case.
"""

import contextlib
import csv
import ctypes
import importlib
import io
import itertools
import json
import math
import os
import pathlib
import random
import signal
import sys
import tempfile
import warnings

import numpy as np
from value_kinds import FEW, KINDS, stands_for

from recstore import RecordDict, RecordList
from recstore.cli import main

SHAPES = {
    "dict": lambda value: {"v": value, "n": 1},
    "tuple": lambda value: (value, "x"),
    "list": lambda value: [value],
    "scalar": lambda value: value,
}
NAMES = {
    "dict": ("'v", "'$", "$.v"),
    "tuple": ("'0", "'$"),
    "list": ("'[]", "'$"),
    "scalar": ("the list", "the field '"),
}
ROWS = ("dict", "tuple")
WAYS = {}


class Refused(Exception):
    """The export raised a documented error."""


def way(*shapes):
    def add(check):
        WAYS[check.__name__] = (check, shapes or tuple(SHAPES))
        return check

    return add


def library(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


pa, pl, pandas, duckdb, torch = map(library, ("pyarrow", "polars", "pandas", "duckdb", "torch"))


def refusal(error, shape):
    """Whether an error is documented: its class is right, and it names the field."""
    return type(error) in (TypeError, ValueError) and any(name in str(error) for name in NAMES[shape])


def made(read, shape, foreign=()):
    """The result of `read()`. Raises Refused for a documented error, or for an error of the reading library (`foreign`)
    that names the field: libraries wrap errors in the middle of a stream."""
    try:
        return read()
    except Exception as error:
        if refusal(error, shape) or isinstance(error, foreign) and any(name in str(error) for name in NAMES[shape]):
            raise Refused from None
        raise


def same_rows(got, records):
    """Checks rows. In a stream of structs, a record that is None is a row of nulls."""
    assert len(got) == len(records), got
    for row, record in zip(got, records, strict=True):
        nulls = record is None and type(row) is dict and not any(value is not None for value in row.values())
        assert nulls or stands_for(row, record), (row, record)


# ---- Arrow ----


@way()
def to_arrow(x, records, shape):
    data = made(x.to_arrow, shape)
    data.validate(full=True)
    same_rows(data.to_pylist(), records)


@way(*ROWS)
def to_arrow_with_names(x, records, shape):
    table = made(lambda: x.to_arrow(names=["a", "b"]), shape)
    assert table.column_names == ["a", "b"]
    same_rows([dict(zip(("v", "n") if shape == "dict" else ("0", "1"), row.values(), strict=True)) for row in table.to_pylist()], records)  # fmt: skip


@way()
def arrow_stream(x, records, shape):
    same_rows(made(lambda: pa.chunked_array(x), shape, pa.ArrowException).to_pylist(), records)


@way(*ROWS)
def pyarrow_table(x, records, shape):
    table = made(lambda: pa.table(x), shape, pa.ArrowException)
    table.validate(full=True)
    same_rows(table.to_pylist(), records)


@way()
def views(x, records, shape):
    same_rows(made(x[::-1].to_arrow, shape).to_pylist(), records[::-1])
    with RecordDict(dict(enumerate(records))) as d:
        same_rows(made(d.values()[:].to_arrow, shape).to_pylist(), records)


@way("dict")
def one_field(x, records, shape):
    values = [record["v"] for record in records]
    same_rows(made(x.fields("v").to_arrow, shape).to_pylist(), [{"v": value} for value in values])
    same_rows(made(x.field("v").to_arrow, shape).to_pylist(), values)
    same_rows(made(lambda: pa.chunked_array(x.field("v")), shape, pa.ArrowException).to_pylist(), values)


@way()
def to_polars(x, records, shape):
    """Compares Arrow data, because polars' objects lack nanoseconds. Leaves out UUIDs, for which polars has no type."""
    frame = made(x.to_polars, shape)
    assert len(frame) == len(records)
    if "UUID" not in repr(records):
        same_rows(frame.to_arrow().to_pylist(), records)


@way(*ROWS)
def to_duckdb(x, records, shape):
    """DuckDB's types differ, so this checks only the number of rows and the plain column."""
    name = "n" if shape == "dict" else '"1"'

    def read(x=x):  # DuckDB finds the variable
        return duckdb.sql(f"select count(*), min({name}) from x").fetchall()

    try:
        got = made(read, shape, duckdb.Error)
    except duckdb.NotImplementedException:  # DuckDB has no float16
        return
    assert got == [(len(records), 1 if shape == "dict" else "x")]


# ---- numpy, torch, pandas ----


@way()
def to_pandas(x, records, shape):
    """The result is the frame that pandas makes from the list, or has equal objects."""
    try:
        got = x.to_pandas()
    except TypeError as error:
        assert "column names are strings" in str(error) and any(type(r) is dict and 1 in r for r in records), error
        return
    assert len(got) == len(records)
    cells = [got[name].tolist() for name in got.columns]
    try:
        expected = pandas.DataFrame(x.to_list())
    except (TypeError, ValueError):
        expected = None
    if expected is not None and cell_repr(got) == cell_repr(expected):
        return
    wanted = {"dict": lambda r: list(r.values()), "scalar": lambda r: [r]}.get(shape, list)
    for cell, value in zip(sum(zip(*cells, strict=True), ()), sum(map(wanted, x.to_list()), []), strict=True):
        # pandas makes a column of numbers from IntFlag members and numpy scalars
        assert repr(cell) == repr(value) or isinstance(cell, int | float) and cell == value, (cell, value)


def cell_repr(frame):
    return [(str(name), str(frame[name].dtype), repr(frame[name].tolist())) for name in frame.columns]


def outcome(make):
    try:
        array = make()
    except Exception as error:
        return type(error)
    return array.dtype, array.shape, array.tobytes() if array.dtype.kind != "O" else repr(array.tolist())


@way()
def numpy_asarray(x, records, shape):
    plain = x.to_list()
    assert outcome(lambda: np.asarray(x)) == outcome(lambda: np.array(plain))


def same_numbers(got, value):
    """Whether an item of a column of numbers equals the value of a record; a mixed column has the widest type."""
    if type(got) is type(value) and repr(got) == repr(value):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return np.isnat(got) and np.isnat(value) or got == value
    got, value = (getattr(one, "tolist", lambda one=one: one)() for one in (got, value))
    value = list(value) if isinstance(value, tuple) else value
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(got)
    return np.shape(got) == np.shape(value) and bool(np.all(np.asarray(got) == np.asarray(value)))


def rows_of(column):
    if not isinstance(column, tuple):
        return list(column)
    values, offsets = column
    return [values[begin:end] for begin, end in itertools.pairwise(offsets.tolist())]


@way("dict")
def to_numpy(x, records, shape):
    rows = rows_of(made(x.field("v").to_numpy, shape))
    assert len(rows) == len(records)
    for got, record in zip(rows, x.to_list(), strict=True):
        assert same_numbers(got, record["v"]), (got, record)


@way("dict")
def to_torch(x, records, shape):
    rows = rows_of(made(x.field("v").to_torch, shape))
    for got, record in zip(rows, x.to_list(), strict=True):
        assert same_numbers(got, record["v"]), (got, record)


@way("dict")
def fields(x, records, shape):
    from recstore.torch import Fields

    batch = made(lambda: Fields(x, "v")[list(range(len(x)))], shape)["v"]
    rows = batch if type(batch) is list else batch.rows() if hasattr(batch, "rows") else list(batch)
    assert len(rows) == len(records)
    for got, record in zip(rows, records, strict=True):
        value = record["v"]
        if isinstance(got, torch.Tensor) and not isinstance(value, bytes | bytearray):
            value = value.tolist() if hasattr(value, "tolist") else list(value) if hasattr(value, "__len__") else value
            assert np.allclose(got.tolist(), value, rtol=1e-6, equal_nan=True), (got, value)  # got may be float32
        else:
            assert (bytes(got.tolist()) if isinstance(got, torch.Tensor) else got) == value, (got, value)


# ---- The command ----


def cat(x, *flags):
    """The output of `recstore cat`, or None if it fails with a one-line error."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.recs")
        x.save(path)
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main.main(["cat", str(path), *flags])
        assert status == 0 or (status == 1 and err.getvalue().count("\n") == 1), (status, err.getvalue())
        return out.buffer.getvalue().decode() if status == 0 else None


@way()
def cat_csv(x, records, shape):
    text = cat(x, "--csv")
    if text is not None:
        _, *rows = csv.reader(io.StringIO(text, newline=""))
        assert len(rows) == len(records) or None in records
        values = [{"dict": lambda r: r["v"], "tuple": lambda r: r[0]}.get(shape, lambda r: r)(r) for r in records]
        if any(
            type(value).__module__ == "kinds" or (shape == "scalar" and isinstance(value, dict | tuple))
            for value in values
        ):
            return  # their objects are written as rows of several columns, because the file is opened without its classes
        for row, value in zip(rows, values, strict=False):
            text = "" if value is None else value.isoformat() if hasattr(value, "isoformat") else str(value)
            assert not row or row[0] == text, (row, value)


@way()
def cat_jsonl(x, records, shape):
    text = cat(x, "--jsonl")
    if text is not None:
        assert len([json.loads(line) for line in text.splitlines()]) == len(records)


@way(*ROWS)
def cat_parquet(x, records, shape):
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.parquet")
        if cat(x, "--parquet", path) is not None:
            assert parquet.read_table(path).num_rows == len(records)


NEEDS = {
    "to_polars": pl, "to_duckdb": duckdb, "to_pandas": pandas, "to_torch": torch, "fields": torch,
    **dict.fromkeys(("to_arrow", "to_arrow_with_names", "arrow_stream", "pyarrow_table", "views", "one_field", "cat_parquet"), pa),
}  # fmt: skip


# ---- Cases ----


def cases(mode, first, second):
    """Yields `(names of kinds, names of exports)`: part `first` of `second` parts of all cases, or in the sample modes,
    `second` random cases with the seed `first`."""
    if mode.startswith("sample"):
        draw = random.Random(first)
        count, ways = (3, ("to_arrow", "arrow_stream")) if mode == "sample-triples" else (2, WAYS)
        return ((draw.choices(list(KINDS), k=count), ways) for _ in range(second))
    few = [name for name in FEW if name in KINDS]
    count, ways = (3, ("to_arrow",)) if mode == "triples" else (2, WAYS)
    return ((names, ways) for names in itertools.islice(itertools.product(few, repeat=count), first, None, second))


def judge(progress, case, check, *what):
    """Runs a case and prints its failure."""
    os.pwrite(progress, case.encode().ljust(200), 0)
    try:
        check(*what)
    except Refused:
        pass
    except Exception as error:
        print(f"{case}: {type(error).__name__}: {str(error)[:300]!r}")


def every_case(progress, mode, *numbers):
    for names, ways in cases(mode, *numbers):
        for shape, make in SHAPES.items():
            records = [make(KINDS[name]) for name in names]
            with RecordList(records) as x:
                for name in ways:
                    check, shapes = WAYS[name]
                    if shape in shapes and NEEDS.get(name, True) is not None:
                        case = f"{name} of {shape} records of {', '.join(names)}"
                        judge(progress, case, check, x, records, shape)


def every_column(progress):
    def check(column, values):
        same_rows(made(column.to_arrow, "scalar").to_pylist(), values)

    for first in FEW:
        value = KINDS[first]
        with RecordList([dict.fromkeys(KINDS, value), KINDS]) as x:
            for second in KINDS:
                judge(progress, f"a column of {first}, {second}", check, x.field((second,)), [value, KINDS[second]])


def run(path, *modes):
    progress = os.open(path, os.O_RDWR | os.O_CREAT)
    for mode, *numbers in map(str.split, modes):
        if mode == "columns":
            every_column(progress)
        else:
            every_case(progress, mode, *map(int, numbers))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: this process ends with the test
    run(*sys.argv[1:])
