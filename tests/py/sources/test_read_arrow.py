"""read_arrow (recstore/sources/arrow_files.py): IPC files, streams and Feather files, compressed or not."""

import gzip
import io
import os

import pytest

import recstore

pa = pytest.importorskip("pyarrow", minversion="19")
feather = pytest.importorskip("pyarrow.feather")
arrow_tables = pytest.importorskip("arrow_tables")
from pyarrow import ipc  # noqa: E402

TABLE = pa.table(
    {"a": range(1000), "b": [str(i) if i % 3 else None for i in range(1000)], "c": [i / 4 for i in range(1000)]}
)
ROWS = TABLE.to_pylist()


def written(table, kind, rows=100, **options):
    """The bytes of a table as an IPC file, a stream, or Feather."""
    file = io.BytesIO()
    if kind == "feather":
        feather.write_feather(table, file, chunksize=rows)
    else:
        new = ipc.new_file if kind == "file" else ipc.new_stream
        with new(file, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table, rows)
    return file.getvalue()


KINDS = ["file", "stream", "feather"]


def read(source, **options):
    with recstore.read_arrow(io.BytesIO(source) if isinstance(source, bytes) else source, **options) as x:
        return x.to_list()


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_column_of_each_type(kind):
    table = arrow_tables.table()
    arrow_tables.assert_alike(read(written(table, kind)), table.to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_the_choice_of_rows_and_columns(kind, tmp_path):
    data = written(TABLE, kind)
    path, packed = tmp_path / "x.arrow", tmp_path / "x.arrow.gz"
    path.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    field = pa.compute.field
    for file in (data, path, packed):
        assert read(file) == ROWS
        assert read(file, columns=["c", "a"], n_rows=105) == [{"c": row["c"], "a": row["a"]} for row in ROWS[:105]]
    for where, chosen in ((lambda row: row["a"] % 100 == 9, ROWS[9::100]), (field("a") > 995, ROWS[996:])):
        assert read(path, where=where, columns=["b"]) == [{"b": row["b"]} for row in chosen]
    assert read(path, missing="absent", n_rows=1) == [{"a": 0, "c": 0.0}]
    assert read(path, dtypes={"a": "str"}, n_rows=1) == [{"a": "0", "b": None, "c": 0.0}]
    with pytest.raises(recstore.errors.InputError, match="no column 'd'"):
        read(path, columns=["d"])
    with pytest.raises(recstore.errors.InputError, match="where: No match"):
        read(path, where=field("d") > 1)
    assert read(written(TABLE[:0], kind)) == []
    reader, writer = os.pipe()
    os.write(writer, written(TABLE[:20], kind))
    os.close(writer)
    with open(reader, "rb") as file:
        assert read(file, columns=["b"]) == [{"b": row["b"]} for row in ROWS[:20]]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_compressed_buffers(kind, compression):
    assert read(written(TABLE, kind, compression=compression)) == ROWS


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_workers(kind, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(written(TABLE, kind, rows=10))
    assert read([path, path], workers=2) == ROWS * 2
    assert read([path, path], workers=2, n_rows=1001) == [*ROWS, ROWS[0]]


def test_a_stream_is_read_from_the_position_of_its_file():
    file = io.BytesIO(b"head" + written(TABLE, "stream"))
    file.seek(4)
    assert read(file, columns=["a"]) == [{"a": row["a"]} for row in ROWS]


@pytest.mark.parametrize("kind", KINDS)
def test_bad_files(kind, tmp_path):
    bad = tmp_path / "bad.arrow"
    data = written(TABLE, kind)
    for content in (b"", b"ARR", b"ARROW1\0\0", data[:100], b"hello, world" * 9):
        bad.write_bytes(content)
        with pytest.raises(recstore.errors.InputError, match=r"bad\.arrow: not a complete Arrow file"):
            read(bad)
    bad.write_bytes(data[: len(data) // 2])
    with pytest.raises(recstore.errors.InputError, match=r"bad\.arrow: (damaged|not a complete Arrow file)"):
        read(bad)


def test_offsets_out_of_bounds():
    """Arrow's own functions would follow these offsets."""
    data = written(pa.table({"s": ["abc", "def", "ghi"]}), "stream")
    offsets = bytes.fromhex("00000000 03000000 06000000 09000000")
    assert data.count(offsets) == 1
    bad = data.replace(offsets, bytes.fromhex("00000000 03000000 06000070 09000000"))
    for options in (
        {},
        {"where": lambda row: True},
        {"where": pa.compute.field("s") == "abc"},
        {"dtypes": {"s": "binary"}},
    ):
        with pytest.raises(recstore.errors.InputError):
            read(bad, **options)


def test_feather_version_1_is_named():
    with pytest.raises(recstore.errors.InputError, match="version 1; read it with pyarrow.feather.read_table"):
        read(b"FEA1" + b"\0" * 100 + b"FEA1")
