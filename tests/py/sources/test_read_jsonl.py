"""`read_jsonl` (recstore/sources/jsonl_files.py): one JSON value per line."""

import io
import json
import logging
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_decoders import decoder  # noqa: F401

import recstore
from recstore.sources import inputs, json_values, jsonl_files, line_blocks


def read(text, **options):
    with recstore.read_jsonl(io.BytesIO(text), **options) as x:
        return x.to_list()


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
def test_lines_of_every_kind(decoder, monkeypatch, size):
    monkeypatch.setattr(line_blocks, "BLOCK", size)
    text = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n[NaN, 18446744073709551616]\n"\\ud800"\n 5 \n\r\n{"last": "line"}'
    expected = [{"a": 1}, [float("nan"), 2**64], "\ud800", 5, {"last": "line"}]
    assert repr(read(text)) == repr(expected)
    assert repr(read(text + b"\n")) == repr(expected)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(max_size=20) | st.integers() | st.floats() | st.lists(st.text(max_size=5), max_size=3)),
    st.lists(st.sampled_from(["\n", "\r\n", "\n\n", " \n\t\n"]), min_size=1, max_size=4),
    st.integers(1, 40),
)
def test_lines_are_read_in_blocks_of_any_size(values, ends, size):
    text = "".join(json.dumps(value) + ends[i % len(ends)] for i, value in enumerate(values)).encode()
    before, line_blocks.BLOCK = line_blocks.BLOCK, size
    try:
        assert repr(read(text)) == repr([json.loads(line) for line in text.split(b"\n") if line.strip()])
    finally:
        line_blocks.BLOCK = before


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([b"", b"1", b"22", b"x" * 9]), max_size=12), st.integers(1, 9), st.integers(1, 9))
def test_every_line_is_in_one_range(lines, size, block):
    """Each line of a file is in exactly one range, and the lines keep their order, wherever the ranges end."""
    before, line_blocks.BLOCK = line_blocks.BLOCK, block
    try:
        for text in (b"\n".join(lines), b"\n".join(lines) + b"\n"):
            parts = [b"".join(line_blocks.blocks(io.BytesIO(text), at, at + size)) for at in range(0, len(text), size)]
            assert b"".join(parts) == text
            assert all(
                part.endswith(b"\n") for part in parts[:-1] if part and part != parts[-1] and text.endswith(b"\n")
            )
    finally:
        line_blocks.BLOCK = before


BAD = [
    (b"{'a': 1}", "Expecting property name enclosed in double quotes"),
    (b"{}{}", "Extra data"),
    (b"1 2", "Extra data"),
    (b"[1", "Expecting"),
    (b"1]", "Extra data"),
    (b"tru", "Expecting value"),
    (b'"\xff"', "byte 0xff is not UTF-8"),
    (b"\x00\x00", "Expecting value"),
    (b"1\x002\x00", "Extra data"),
    (b"[" * 100_000, "nested too deeply"),
    (b"1" * 5000, "4300"),
]


@pytest.mark.parametrize("line, message", BAD)
def test_a_bad_line_is_named(tmp_path, decoder, line, message):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"a": 1}\n\n' + line + b"\n2\n")
    with pytest.raises(recstore.errors.InputError, match=rf'bad.jsonl, line 3: not JSON: .*{message}.*errors="skip"'):
        recstore.read_jsonl(path)
    with recstore.read_jsonl(path, errors="skip") as x:
        assert x.to_list() == [{"a": 1}, 2]


def test_files_without_values_and_a_value_over_two_lines():
    for text in (b"", b"\n", b"\xef\xbb\xbf", b"\n \n\r\n"):
        assert read(text) == []
    with pytest.raises(recstore.errors.InputError, match="line 1:"):
        read(b"[1\n,2]\n")
    for text in (b"[1\n,2]\n3", b"[1\n2]\n3"):
        assert read(text, errors="skip") == [3]


def test_a_bad_last_line_may_be_truncated():
    with pytest.raises(recstore.errors.InputError, match='line 2: .*may be truncated; errors="skip"'):
        read(b'{"a": 1}\n{"a":')
    with pytest.raises(recstore.errors.InputError) as caught:
        read(b'{"a": 1}\n{"a":\n')
    assert "truncated" not in str(caught.value)


def test_broken_lines_are_accepted_or_refused_like_json(decoder):
    draw = random.Random(0)
    lines = [b"5", b'"a\\nb"', b'{"a": [1.5, NaN], "b": "}"}', b"[18446744073709551616]", b"[[], {}]", b"null"]
    for _ in range(1500):
        line = bytearray(draw.choice(lines))
        for _ in range(draw.randrange(3)):
            at = draw.randrange(len(line) + 1)
            line[at : at + draw.randrange(2)] = bytes([draw.choice(b'[]{},:"\\ 0159.e-tn\x00\xff')])
        try:
            expected = [json_values.exact(bytes(line))] if line.strip() else []
        except ValueError:
            expected = []
        source = jsonl_files.JsonlSource([inputs.FileObject(io.BytesIO(line + b"\n"))], "skip")
        records = []
        source.append_to(records)
        assert repr(records) == repr(expected), line


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\t\r\n", b"\n\n \n"])
@pytest.mark.parametrize("size", [4, 1 << 18])
def test_bad_lines_between_blank_ones_have_their_numbers(blank, size, monkeypatch, caplog):
    monkeypatch.setattr(line_blocks, "BLOCK", size)
    text = blank.join([b"", b"1\n", b"x\n", b"2\n", b"y\n", b""])
    line = text[: text.index(b"x")].count(b"\n") + 1
    with pytest.raises(recstore.errors.InputError, match=f"line {line}:"):
        read(text)
    assert read(text, errors="skip") == [1, 2]
    assert f"skipped 2 bad lines: 2 of <BytesIO> (the first is line {line})" in caplog.text


def test_skipped_lines_are_counted_in_one_warning(tmp_path, caplog):
    for name, text in (("a", "1\nx\n2\ny\n"), ("b", "3\n"), ("c", "z\n4\n[")):
        (tmp_path / f"{name}.jsonl").write_text(text)
    for workers in (0, 2):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "recstore"):
            with recstore.read_jsonl(tmp_path / "*.jsonl", errors="skip", workers=workers) as x:
                assert x.to_list() == [1, 2, 3, 4]
        (message,) = [record.getMessage() for record in caplog.records if record.name == "recstore"]
        assert "skipped 4 bad lines" in message
        assert f"2 of {tmp_path}/a.jsonl (the first is line 2)" in message
        assert f"2 of {tmp_path}/c.jsonl (the first is line 1)" in message
        assert "b.jsonl" not in message
    caplog.clear()
    recstore.read_jsonl(tmp_path / "b.jsonl", errors="skip").close()
    assert caplog.records == []


def test_workers_read_ranges_of_lines(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(line_blocks, "RANGE", 100)
    path = tmp_path / "large.jsonl"
    values = [{"id": i, "text": "x" * (i * 7 % 50)} for i in range(300)]
    path.write_text("\n".join(map(json.dumps, values)))
    source = jsonl_files.JsonlSource([inputs.LocalFile(str(path))], "raise", None, None, None)
    assert len(source.split()) > 50
    with recstore.read_jsonl(path, workers=2) as x:
        assert x.to_list() == values
    lines = path.read_bytes().split(b"\n")
    for bad in (0, 150, 299):
        path.write_bytes(b"\n".join([*lines[:bad], b"x", *lines[bad + 1 :]]))
        with pytest.raises(recstore.errors.InputError, match=f"large.jsonl, line {bad + 1}:"):
            recstore.read_jsonl(path, workers=2)
    path.write_bytes(b"\n".join([*lines[:150], b"x", *lines[150:200], b"y", *lines[200:]]))
    with recstore.read_jsonl(path, workers=2, errors="skip") as x:
        assert x.to_list() == values
    assert f"2 of {path} (the first is line 151)" in caplog.text


def test_columns_where_and_limit(tmp_path):
    text = b"".join(b'{"id": %d, "name": "n"}\n' % i for i in range(10)) + b"bad\n"
    assert read(text, n_rows=3, columns=["id"]) == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert read(text, where=lambda r: r["id"] > 7, errors="skip") == [{"id": 8, "name": "n"}, {"id": 9, "name": "n"}]
    with pytest.raises(recstore.errors.InputError, match="line 11"):
        read(text, columns=["id"])


def test_a_record_that_is_too_deep(tmp_path):
    text = b"1\n" + b"[" * 300 + b"]" * 300 + b"\n"
    path = tmp_path / "deep.jsonl"
    path.write_bytes(text)
    for build, name in (
        (lambda: read(text), "BytesIO"),
        (lambda: recstore.read_jsonl(path), str(path)),
        (lambda: recstore.read_jsonl(path, workers=1), str(path)),
    ):
        error = pytest.raises(recstore.errors.EncodeError, build).value
        assert error.record == 1 and name in error.filename and "deep" in error.reason


def test_errors_is_checked():
    with pytest.raises(ValueError, match="errors is"):
        read(b"", errors="ignore")
