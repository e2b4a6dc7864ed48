"""The encodings of text files (recstore/sources/encodings.py): every reader understands byte order marks."""

import codecs
import gzip
import io
import os
import threading

import pytest

import recstore
from recstore.sources import encodings, line_blocks

pytest.importorskip("pyarrow")

MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
WORDS = ["a.jpg", "\u010a\u0a0d.jpg", "😀.jpg"]  # some characters contain the bytes of line ends
ROWS = [{"a": word} for word in WORDS]
READERS = {
    "jsonl": (recstore.read_jsonl, "".join(f'{{"a": "{word}"}}\n' for word in WORDS), ROWS, {}),
    "json": (recstore.read_json, "[" + ", ".join(f'{{"a": "{word}"}}' for word in WORDS) + "]", ROWS, {}),
    "deep": (
        recstore.read_json,
        '{"x": [1], "b": {"a": ["' + '", "'.join(WORDS) + '"]}}',
        WORDS,
        {"records": "b.a"},
    ),
    "csv": (recstore.read_csv, "a\n" + "".join(f"{word}\n" for word in WORDS), ROWS, {}),
    "csv in one pass": (
        recstore.read_csv,
        "a\n" + "".join(f"{word}\n" for word in WORDS),
        ROWS,
        {"dtypes": {"a": str}},
    ),
    "lines": (recstore.read_lines, "\r\n".join(WORDS), WORDS, {}),
}
each_reader = pytest.mark.parametrize("name", READERS)
each_mark = pytest.mark.parametrize("encoding", MARKS)


def read_all(reader, source, options):
    with reader(source, **options) as x:
        return x.to_list()


@each_reader
@each_mark
def test_a_mark_gives_the_encoding_and_is_dropped(name, encoding, tmp_path):
    reader, text, expected, options = READERS[name]
    data = MARKS[encoding] + text.encode(encoding)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(data))
    (tmp_path / "a").write_bytes(data)
    for source in (io.BytesIO(data), path, tmp_path / "a"):
        assert read_all(reader, source, options) == expected
    read_end, write_end = os.pipe()
    writer = threading.Thread(target=lambda: (os.write(write_end, data), os.close(write_end)))
    writer.start()
    with open(read_end, "rb", buffering=0) as pipe:
        assert read_all(reader, pipe, options) == expected
    writer.join()
    if encoding == "utf-16-be":
        assert read_all(reader, [tmp_path / "a", path], {**options, "workers": 2}) == expected * 2


@each_reader
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32-be"])
def test_an_invalid_character_is_an_error_that_names_the_file(name, encoding, tmp_path):
    reader, text, _, options = READERS[name]
    path = tmp_path / "cut.txt"
    invalid = b"\x00\xd8" if encoding == "utf-16-le" else b"\xff\xff\x00\x00"
    path.write_bytes(MARKS[encoding] + text.encode(encoding) + invalid + "\n".encode(encoding))
    with pytest.raises(recstore.errors.InputError, match="cut.txt.*utf-(16|32)"):
        read_all(reader, path, options)


@pytest.mark.parametrize(
    ("given", "encoding"), list(zip(["latin-1", "utf-16-be", "ascii", "cp1252", "utf-8"], MARKS, strict=True))
)
def test_a_mark_takes_precedence_over_the_argument(given, encoding, tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "RANGE", 100)
    words = WORDS * 30
    data = MARKS[encoding] + "\n".join(words).encode(encoding)
    (tmp_path / "a.txt").write_bytes(data)
    for workers in (0, 2):
        assert read_all(recstore.read_lines, tmp_path / "a.txt", {"encoding": given, "workers": workers}) == words
    rows = [{"0": word} for word in words]
    assert read_all(recstore.read_csv, io.BytesIO(data), {"encoding": given, "header": False}) == rows


def test_a_mark_alone():
    for mark in MARKS.values():
        assert read_all(recstore.read_lines, io.BytesIO(mark), {}) == []
        assert read_all(recstore.read_jsonl, io.BytesIO(mark), {}) == []
        with pytest.raises(recstore.errors.InputError, match="the file is empty"):
            recstore.read_json(io.BytesIO(mark))


def test_errors_of_other_encodings_have_the_line():
    text = ("1\n" * 700 + "x\n").encode("utf-16")
    with pytest.raises(recstore.errors.InputError, match="line 701: not JSON"):
        recstore.read_jsonl(io.BytesIO(text))
    with pytest.raises(recstore.errors.InputError, match="line 702: column '0': 'x'"):
        recstore.read_csv(io.BytesIO("0\n".encode("utf-16") + text[2:]), dtypes=int)


class OneByOne(io.RawIOBase):
    """Each read of a given size returns at most one byte."""

    def __init__(self, data):
        self.data = io.BytesIO(data)

    def readable(self):
        return True

    def read(self, size=-1):
        return self.data.read(min(size, 1) if size >= 0 else size)


@each_mark
def test_any_size_of_reads(encoding):
    text = "\n".join(WORDS)
    data = MARKS[encoding] + text.encode(encoding)
    for size in (1, 2, 3, 5, 100):
        file = encodings.utf8(io.BytesIO(data), "a")
        read = b"".join(iter(lambda: file.read(size), b""))
        assert read.decode("utf-8-sig") == text
    assert read_all(recstore.read_lines, OneByOne(data), {}) == WORDS
