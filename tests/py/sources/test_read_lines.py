"""`read_lines` (recstore/sources/line_files.py) in blocks and ranges, compared with open() in text mode. test_inputs.py
tests the steps that all readers share."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recstore
from recstore.sources import inputs, line_blocks, line_files


def as_open_reads(text, encoding, empty):
    with io.TextIOWrapper(io.BytesIO(text), encoding, "surrogateescape") as file:
        return [line.rstrip("\n") for line in file if line != "\n" or empty == "keep"]


def read(text, **options):
    with recstore.read_lines(io.BytesIO(text), **options) as x:
        return x.to_list()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"a", b"\n", b"\r\n", b"\r", "é日😀".encode(), b"\xff", b"\xe6\x97", b"\x0b", b"\xc2\x85"])
    ),
    st.sampled_from(["utf-8", "UTF_8", "latin-1", "ascii", "utf-8-sig"]),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from(["keep", "skip"]),
)
def test_lines_equal_the_lines_of_open(parts, encoding, size, mark, empty):
    text = b"\xef\xbb\xbf" * mark + b"".join(parts)
    before, line_blocks.BLOCK = line_blocks.BLOCK, size
    try:
        expected = as_open_reads(text, "utf-8-sig" if mark or encoding.lower().startswith("utf") else encoding, empty)
        assert read(text, encoding=encoding, empty=empty) == expected
    finally:
        line_blocks.BLOCK = before


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "shift_jis", "cp1252", "utf-32"])
def test_other_encodings(encoding, monkeypatch):
    monkeypatch.setattr(line_blocks, "BLOCK", 50)
    text = "\n".join(f"path {i} \u010a.jpg" if encoding.startswith("utf") else f"path {i}" for i in range(100))
    assert read(text.encode(encoding), encoding=encoding) == text.split("\n")


def test_workers_read_ranges(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "RANGE", 100)
    path = tmp_path / "list.txt"
    expected = [f"{'x' * (i * 7 % 30)}{i}" for i in range(500)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(expected).encode())
    assert len(line_files.LineSource([inputs.LocalFile(str(path))]).split()) > 50
    assert len(line_files.LineSource([inputs.LocalFile(str(path))], "utf-16").split()) == 1
    with recstore.read_lines([path, path], workers=2) as x:
        assert x.to_list() == expected * 2
    with pytest.raises(LookupError, match="no-such"):
        read(b"", encoding="no-such")
