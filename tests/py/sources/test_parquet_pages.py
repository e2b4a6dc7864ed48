"""Parquet files with many columns or large pages (recstore/sources/parquet_files.py, parquet_pages.py): the columns are
read in parts, with equal values and bounded memory."""

import io
import random

import pytest

import recstore

pa = pytest.importorskip("pyarrow", minversion="19")
pq = pytest.importorskip("pyarrow.parquet")
from recstore.sources import parquet_files, parquet_pages  # noqa: E402

N = 3000
TABLE = pa.table(
    {
        "i": range(N),
        "text": [None if i % 7 == 0 else f"text {i}" for i in range(N)],
        "kind": [f"kind {i % 5}" for i in range(N)],
        "same": ["x" * 3000] * N,
        "a.b": [i / 4 for i in range(N)],
        "a": [{"b": i, "c": [str(i)] * (i % 4)} for i in range(N)],
        "lists": [[[j] * (j % 3) for j in range(i % 5)] for i in range(N)],
        "map": pa.array([[(str(i), i)] for i in range(N)], pa.map_(pa.string(), pa.int64())),
        "day": pa.array(range(N), pa.date32()),
        "vector": pa.array([[i, i + 1] for i in range(N)], pa.list_(pa.float32(), 2)),
        "category": pa.array([f"c{i % 3}" for i in range(N)]).dictionary_encode(),
    }
)
ROWS = TABLE.to_pylist()


@pytest.fixture
def in_parts(monkeypatch):
    """Makes each column a part."""
    monkeypatch.setattr(parquet_files, "_HELD", 1)


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "x.parquet", row_group_size=1200, data_page_size=2000)
    return tmp_path / "x.parquet"


def read(path, **options):
    with recstore.read_parquet(path, **options) as x:
        return x.to_list()


def test_columns_that_are_read_in_parts_give_the_same_rows(path, in_parts):
    assert read(path) == ROWS
    assert read(io.BytesIO(path.read_bytes())) == ROWS
    assert read(path, workers=2) == ROWS
    assert read(path, columns=["map", "text"]) == [{"map": row["map"], "text": row["text"]} for row in ROWS]
    assert read(path, columns=["a"]) == [{"a": row["a"]} for row in ROWS]
    assert read(path, columns=["a.b", "i"]) == [{"a.b": row["a.b"], "i": row["i"]} for row in ROWS]
    for n_rows in (0, 1200, 1201, 9999):
        assert read(path, n_rows=n_rows) == ROWS[:n_rows]
    assert read(path, where=lambda row: row["i"] % 100 == 99, n_rows=25) == ROWS[99::100][:25]
    assert read(path, where=pa.compute.field("i") > 2900, columns=["kind"]) == [
        {"kind": r["kind"]} for r in ROWS[2901:]
    ]
    assert read(path, dtypes={"i": str, "same": "binary"}, columns=["i", "same"], n_rows=2) == [
        {"i": str(i), "same": b"x" * 3000} for i in range(2)
    ]


def test_a_damaged_part_is_an_error_that_names_the_file(path, in_parts):
    data = bytearray(path.read_bytes())
    for column in range(pq.ParquetFile(path).metadata.num_columns):
        start = pq.ParquetFile(path).metadata.row_group(1).column(column).data_page_offset
        bad = path.with_name("bad.parquet")
        bad.write_bytes(data[:start] + b"\xff" * 40 + data[start + 40 :])
        with pytest.raises(recstore.errors.InputError, match=r"bad\.parquet"):
            read(bad)


@pytest.mark.parametrize("held", [1, 1 << 30])
def test_missing_rows_are_an_error(path, held, monkeypatch):
    class Fewer(pq.ParquetFile):
        def iter_batches(self, *args, **options):
            yield from [batch for batch in super().iter_batches(*args, **options) if batch.num_rows > 5000]

    monkeypatch.setattr(parquet_files, "_HELD", held)
    monkeypatch.setattr(pq, "ParquetFile", Fewer)
    with pytest.raises(recstore.errors.InputError, match=r"x\.parquet"):
        read(path)


def test_damaged_values_and_names_name_the_file(tmp_path):
    bad = tmp_path / "bad.parquet"
    texts = pa.Array.from_buffers(pa.string(), 2, pa.array([b"good", b"\xff\xfe"]).buffers())
    pq.write_table(pa.table({"s": texts}), bad, use_dictionary=False)
    with pytest.raises(recstore.errors.InputError, match=r"bad\.parquet"):
        read(bad)
    pq.write_table(pa.table({"name": [1]}), bad, store_schema=False)
    bad.write_bytes(bad.read_bytes().replace(b"name", b"n\xffme"))
    with pytest.raises(recstore.errors.InputError, match=r"bad\.parquet"):
        read(bad)


def test_a_full_temporary_folder_names_the_folder(path, in_parts, monkeypatch, tmp_path):
    import errno
    import tempfile

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(OSError) as caught:
        read(path)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == tempfile.gettempdir()


# ---- The headers of pages ----


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_the_headers_of_all_pages(version, compression, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(
        TABLE,
        path,
        data_page_version=version,
        compression=compression,
        data_page_size=3000,
        write_batch_size=100,
        write_page_checksum=True,
    )
    group = pq.ParquetFile(path).metadata.row_group(0)
    with open(path, "rb") as file:
        for i in range(group.num_columns):
            chunk = group.column(i)
            pages = list(parquet_pages._headers(file, chunk))
            data = [values for kind, values, _ in pages if kind != parquet_pages._DICTIONARY]
            assert sum(data) == chunk.num_values
            assert len(pages) - len(data) == chunk.has_dictionary_page
            assert 0 < sum(size for *_, size in pages) <= chunk.total_uncompressed_size


@pytest.mark.parametrize("unit", [b"\x1c", b"\xff", b"\x15\xff", b"\x18\xff\xff\xff\x7f", b"\x11", b"\x05\0", b"\0"])
def test_bytes_that_are_not_headers_end_the_search(unit, path):
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    headers = [*parquet_pages._headers(io.BytesIO(unit * 200_000), chunk)]
    assert len(headers) < 10_000
    assert parquet_pages.of_chunk(io.BytesIO(unit * 200_000), chunk).held > 0


def test_random_bytes_in_headers(path):
    """Random bytes are read as some page, or end the search."""
    data, chunk = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(0).column(1)
    chance = random.Random(0)
    for _ in range(3000):
        at = chunk.dictionary_page_offset + chance.randrange(30)
        changed = data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at + 4 :]
        for _, values, size in parquet_pages._headers(io.BytesIO(changed), chunk):
            assert size >= 0 and values >= 0


# ---- Memory ----


def _peak(path, n):
    pool, before = pa.proxy_memory_pool(pa.system_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with recstore.read_parquet(path, n_rows=n) as x:
            assert len(x) == n
    finally:
        pa.set_memory_pool(before)
    return pool.max_memory()


LARGE = {
    # name: (columns, options of the writer)
    "400 columns of one page": (
        lambda: {f"c{i}": pa.array(range(i, 30_000 + i)) for i in range(400)},
        {"compression": "zstd"},
    ),
    "texts in 200 columns": (
        lambda: {f"c{i}": pa.array([f"{i} {j * 7919 % 20_011}" for j in range(20_000)]) for i in range(200)},
        {"compression": "snappy"},
    ),
    "a row group of 160 MB": (
        lambda: dict.fromkeys(("a", "b"), pa.array(range(10_000_000))),
        {"compression": "zstd", "use_dictionary": False, "data_page_size": 1 << 20},
    ),
}


@pytest.mark.parametrize(
    "name", [name if "400" in name else pytest.param(name, marks=pytest.mark.slow) for name in LARGE]
)
def test_memory_is_bounded(name, tmp_path):
    columns, options = LARGE[name]
    table = pa.table(columns())
    n, path = len(table), tmp_path / "x.parquet"
    whole = {"data_page_size": 64 << 20, "max_rows_per_page": 1 << 30, "use_dictionary": False, **options}
    pq.write_table(table, path, row_group_size=n, **whole)
    del table
    assert _peak(path, min(n, 10_000) if "400" in name else n) < 64 << 20  # the columns of one page are held anyway


def _repeated(size, count):
    return ["a"] * 20_000 + ["x" * size] * count


LATE = {
    "texts": lambda: [pa.table({"t": _repeated(200_000, 600)})],
    "texts in lists": lambda: [pa.table({"t": [[text, text] for text in _repeated(200_000, 300)]})],
    "texts in structs beside many short ones": lambda: [
        pa.table({"t": [{"a": str(i % 5000), "b": text} for i, text in enumerate(_repeated(200_000, 600))]})
    ],
    "a row group that repeats a text before others": lambda: [
        pa.table({"t": ["x" * 2000] * 3000}),
        *[pa.table({"t": [f"{i * 7919:0500}" for i in range(first, first + 60_000)]}) for first in (0, 60_000)],
    ],
}


@pytest.mark.parametrize("name", LATE)
def test_memory_is_bounded_where_later_rows_differ(name, tmp_path):
    """Each row group is read as its own dictionaries require."""
    tables, path = LATE[name](), tmp_path / "x.parquet"
    n = sum(map(len, tables))
    with pq.ParquetWriter(path, tables[0].schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table, row_group_size=len(table))
    del table, tables
    assert _peak(path, n) < 64 << 20
