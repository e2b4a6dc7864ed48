"""read_parquet (recstore/sources/parquet_files.py, table_files.py): the same rows as pyarrow's reader; choices of rows
and columns, workers, and bad files."""

import datetime
import gzip
import io
import os
import random
import string

import pytest

import recstore

pa = pytest.importorskip("pyarrow", minversion="19")
pq = pytest.importorskip("pyarrow.parquet")
arrow_tables = pytest.importorskip("arrow_tables")

from recstore.sources import inputs, parquet_files  # noqa: E402

TABLE = pa.table(
    {"a": range(1000), "b": [str(i) if i % 3 else None for i in range(1000)], "c": [i / 4 for i in range(1000)]}
)
ROWS = TABLE.to_pylist()


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "x.parquet", row_group_size=100)
    return tmp_path / "x.parquet"


def read(path, **options):
    with recstore.read_parquet(path, **options) as x:
        return x.to_list()


def parquet_bytes(table):
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@pytest.mark.parametrize("held", [parquet_files._HELD, 1], ids=["at once", "each column is a part"])
def test_a_column_of_each_type(held, monkeypatch):
    monkeypatch.setattr(parquet_files, "_HELD", held)
    file = io.BytesIO(parquet_bytes(arrow_tables.parquet_table()))
    arrow_tables.assert_alike(read(file), pq.read_table(file).to_pylist())


def test_nanoseconds():
    file = io.BytesIO()
    stamps = pa.array([1_000, 1_001, None], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"t": stamps}), file)
    with pytest.raises(recstore.errors.EncodeError, match="record 1: .*nanoseconds"):
        read(file)
    utc = datetime.timezone.utc
    early = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=utc)
    assert [row["t"] for row in read(file, nanoseconds="floor")] == [early, early, None]
    assert read(file, nanoseconds="floor", where=lambda row: row["t"] is not None) == [{"t": early}] * 2


def test_the_choice_of_rows_and_columns(path):
    field = pa.compute.field
    assert read(path) == ROWS
    assert read(path, columns=["c", "a"]) == [{"c": row["c"], "a": row["a"]} for row in ROWS]
    assert read(path, n_rows=105) == ROWS[:105]
    assert read(path, n_rows=0) == []
    for where in (lambda row: row["a"] % 100 == 99, (field("a") == 99) | (field("a") > 998)):
        chosen = [row for row in ROWS if (where(row) if callable(where) else row["a"] in (99, 999))]
        assert read(path, where=where) == chosen
        assert read(path, where=where, columns=["b"]) == [{"b": row["b"]} for row in chosen]
        assert read(path, where=where, n_rows=1) == chosen[:1]
    assert read(path, missing="absent", n_rows=2) == [{"a": 0, "c": 0.0}, {"a": 1, "b": "1", "c": 0.25}]


def test_dtypes(path):
    assert read(path, dtypes={"a": str, "c": "float32"}) == [
        {"a": str(row["a"]), "b": row["b"], "c": row["c"]} for row in ROWS
    ]
    with pytest.raises(
        recstore.errors.InputError, match=r"x\.parquet, record 1: column 'c': Float value 0.25.* was truncated"
    ):
        read(path, dtypes={"c": int})
    with pytest.raises(recstore.errors.InputError, match="no column 'd'"):
        read(path, dtypes={"d": int})


def test_row_groups_that_cannot_match_are_not_read(path, monkeypatch):
    groups = []
    original = parquet_files.ParquetSource.selected

    def selected(self, file, all_groups):
        groups.append(original(self, file, all_groups))
        return groups[-1]

    monkeypatch.setattr(parquet_files.ParquetSource, "selected", selected)
    assert read(path, where=pa.compute.field("a") >= 850) == ROWS[850:]
    assert groups == [[8, 9]]


def test_files_folders_patterns_and_file_objects(path, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b.parquet", "a.PARQUET", "c.pq", "_metadata.parquet", "note.txt"):
        pq.write_table(pa.table({name[0]: [name]}), folder / name)
    expected = [{"a": "a.PARQUET"}, {"b": "b.parquet"}, {"c": "c.pq"}]
    assert read(folder) == read(str(folder)) == read([folder]) == expected
    assert read([folder / "c.pq", folder / "b.parquet"]) == expected[:0:-1]
    assert read(f"{folder}/[ab].*") == expected[:2]
    packed = tmp_path / "x.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed) == ROWS
    with open(path, "rb") as file:
        assert read(file) == ROWS and not file.closed
    reader, writer = os.pipe()
    small = io.BytesIO()
    pq.write_table(TABLE[:10], small)
    os.write(writer, small.getvalue())
    os.close(writer)
    with open(reader, "rb") as file:
        assert read(file) == ROWS[:10]


def test_a_folder_without_files_suggests_a_pattern(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Parquet files: "):
        read(tmp_path)
    (tmp_path / "year=2020").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no Parquet files; for files in year=2020 give a pattern, .*\*\*"):
        read(tmp_path)


def test_workers_read_row_groups_and_files(path, tmp_path, monkeypatch):
    assert (
        len(parquet_files.ParquetSource([inputs.LocalFile(str(path))], parquet_files.table_files.Choice()).split())
        == 10
    )
    where = pa.compute.field("a") > 500
    assert read(path, workers=2) == ROWS
    assert read(path, workers=2, n_rows=150) == ROWS[:150]
    monkeypatch.setattr(parquet_files, "_MANY", 1)
    assert read([path, path], workers=2, columns=["a"]) == [{"a": row["a"]} for row in ROWS] * 2
    assert read([path, path], workers=2, where=where) == ROWS[501:] * 2


def test_a_file_without_rows_or_columns(tmp_path):
    for table in (TABLE[:0], pa.table({})):
        file = io.BytesIO()
        pq.write_table(table, file)
        assert read(file) == []


def test_bad_files(path, tmp_path):
    data = path.read_bytes()
    bad = tmp_path / "bad.parquet"
    for content in (b"", b"PAR1", data[:2000], data[:-5], b"hello, world" * 9):
        bad.write_bytes(content)
        with pytest.raises(recstore.errors.InputError, match=r"bad\.parquet: not a complete Parquet file"):
            read(bad)
    bad.write_bytes(data[:600] + b"\xff" * 200 + data[800:])
    with pytest.raises(recstore.errors.InputError, match=r"bad\.parquet: damaged"):
        read(bad)
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"]), file)
    with pytest.raises(recstore.errors.InputError, match="2 columns are called 'a'"):
        read(file)
    assert read(file, columns=["b"]) == [{"b": 3}]
    with pytest.raises(recstore.errors.InputError, match=r"x\.parquet: no column 'd'; there are: 'a', 'b', 'c'"):
        read(path, columns=["d"])
    with pytest.raises(recstore.errors.InputError, match="where: No match"):
        read(path, where=pa.compute.field("d") > 1)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.parquet")


def test_without_pyarrow(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for reader in (recstore.read_parquet, recstore.read_arrow, recstore.read_csv):
        with pytest.raises(ImportError, match=r"reading (Parquet|Arrow|CSV) needs pyarrow: pip install pyarrow"):
            reader(io.BytesIO())


def test_a_url_is_read_by_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    for name in "ab":
        with fsspec.open(f"memory://recstore-parquet/{name}.parquet.gz", "wb", compression="gzip") as file:
            file.write(parquet_bytes(TABLE[:5]))
    with fsspec.open("memory://recstore-parquet/c.parquet", "wb") as file:
        file.write(parquet_bytes(TABLE[:5]))
    assert read("memory://recstore-parquet/*", columns=["b"]) == [{"b": row["b"]} for row in ROWS[:5]] * 3


_LONG = "".join(random.Random(0).choices(string.ascii_lowercase, k=40_000))
_CHAT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_RARE = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}}


def _in_parts(n, part, kind=None):
    return pa.chunked_array([pa.array(part, kind)] * n)


# Columns that need far more bytes in memory than in a file.
SWELLING = {
    "texts of a dictionary": (_in_parts(30, [_LONG] * 100), {}),
    "nested texts of a dictionary": (
        _in_parts(30, [[{"role": "system", "content": _LONG}, {"role": "user", "content": "why?"}]] * 100, _CHAT),
        {},
    ),
    "texts as differences": (_in_parts(30, [_LONG] * 100), _RARE),
    "short texts, then long ones": (
        pa.chunked_array([pa.array(list(map(str, range(20_000)))), *_in_parts(30, [_LONG] * 100).chunks]),
        _RARE,
    ),
    "lists of equal numbers": (_in_parts(30, [[7] * 10_000] * 50, pa.list_(pa.int64())), {}),
    "lists of nulls": (_in_parts(40, [[None] * 10_000] * 50, pa.list_(pa.string())), {}),
    "maps": (_in_parts(80, [[(f"k{i}", True) for i in range(500)]] * 50, pa.map_(pa.string(), pa.bool_())), {}),
}


@pytest.mark.parametrize("name", SWELLING)
def test_a_batch_is_measured_by_its_decoded_bytes(name, tmp_path, monkeypatch):
    column, options = SWELLING[name]
    table = pa.table({"i": range(len(column)), "x": column})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=len(table), compression="zstd", **options)
    pool, before = pa.proxy_memory_pool(pa.system_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        x = recstore.read_parquet(tmp_path / "x.parquet")
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 64 << 20
    assert len(x) == len(table)
    for at in (0, 1, len(x) // 2, len(x) - 1):
        assert x[at] == table.slice(at, 1).to_pylist()[0]


@pytest.mark.parametrize("held", [parquet_files._HELD, 1], ids=["at once", "each column is a part"])
def test_a_nested_column_too_large_for_one_array_is_read_in_smaller_batches(path, monkeypatch, held):
    sizes = []

    class Strict(pq.ParquetFile):
        def iter_batches(self, batch_size, *args, **options):
            for batch in super().iter_batches(batch_size, *args, **options):
                sizes.append(batch.num_rows)
                if batch.num_rows > 1 and "a" in batch.schema.names and batch["a"][0].as_py() >= 20:
                    raise pa.ArrowNotImplementedError("more than an array holds")
                yield batch

    monkeypatch.setattr(parquet_files, "_HELD", held)
    monkeypatch.setattr(pq, "ParquetFile", Strict)
    assert read(path) == ROWS and 1 in sizes and max(sizes) > 1
