"""Quotes, escapes and empty lines of CSV: no row is lost in a cell (recstore/_core/write/csv_quotes.pyx)."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recstore
from recstore._core import native

pytest.importorskip("pyarrow")
from recstore.sources import csv_text


def read(text, **options):
    with recstore.read_csv(io.BytesIO(text.encode()), **options) as x:
        return x.to_list()


def test_quotes_that_never_close_hide_no_rows(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text('"one\t1\ntwo\t2\nthree\t3\n"four\t4\nfive\t5\n')
    for options in ({}, {"errors": "skip"}, {"dtypes": str}, {"n_rows": 1}, {"columns": ["1"]}):
        with pytest.raises(recstore.errors.InputError, match="line 4: .* line 1;"):
            recstore.read_csv(path, header=False, **options)
    with recstore.read_csv(path, header=False, quote=None) as x:
        assert [record["0"] for record in x] == ['"one', "two", "three", '"four', "five"]


@pytest.mark.parametrize("text", ["a\n1\\", 'a\n"1\\', "a\n1\n\\"])
@pytest.mark.parametrize("quote", ['"', None])
def test_the_file_ends_after_an_escape_character(text, quote):
    pytest.raises(recstore.errors.InputError, lambda: read(text, escape="\\", quote=quote)).match("escape")


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('a",\n\r ')), st.integers(1, 9))
def test_quotes_are_followed_as_by_the_strict_csv_module(text, size):
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))
        is_valid = True
    except csv.Error:
        is_valid = False
    quotes, data = native.CsvQuotes(",", '"', None, 1), text.encode()
    followed = all(quotes.follow(data[at : at + size]) for at in range(0, len(data), size))
    assert (followed and not quotes.quoted) == is_valid


def test_an_empty_line_of_one_column_is_a_row(tmp_path):
    text = "a\n1\n\n3\n\n"
    rows = [{"a": 1}, {"a": None}, {"a": 3}, {"a": None}]
    for end in ("\n", "\r\n", "\r"):
        assert read(text.replace("\n", end)) == rows
    assert read(text, empty="skip") == [{"a": 1}, {"a": 3}]
    assert read(text, missing="absent") == [{"a": 1}, {}, {"a": 3}, {}]
    assert read(text, dtypes=str, null_values=()) == [{"a": value} for value in ("1", "", "3", "")]
    assert read("\n7\n\n", header=False) == [{"0": None}, {"0": 7}, {"0": None}]
    assert read("a,b\n\n1,2\n\n") == [{"a": 1, "b": 2}]
    with pytest.raises(recstore.errors.InputError, match="line 5: column 'a': 'x'"):
        read("\na\n\n1\nx\n", dtypes=int)
    pytest.raises(ValueError, lambda: read(text, empty="drop")).match("empty is")


def test_a_file_of_names_alone_has_no_row():
    for text in ("a", "a,b", "a\n", '"a"', "\ufeffa"):
        assert read(text) == read(text, empty="skip") == []
    for text in ("", "\ufeff", "x", "x\r\n"):
        assert read(text, header=["a"], skip_rows=1) == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_lines_above_the_rows_have_any_length(end, monkeypatch):
    monkeypatch.setattr(csv_text, "_HEAD", 1 << 10)
    above = ("#" * 99 + end) * 120
    for header in (True, ["a", "b"], False):
        names = "a,b" + end if header is True else ""
        found = read(above + names + f"1,2{end}", header=header, skip_rows=120)
        assert [[*record.values()] for record in found] == [[1, 2]]
    assert read(end * 12_000 + f"a,b{end}1,2") == [{"a": 1, "b": 2}]
    for long in ("n" * 12_000, '"' + "n\n" * 6000 + '"'):
        assert [*read(f"a,{long}{end}1,2")[0].values()] == [1, 2]
        assert len(read(f"1,{long}{end}3,4", header=False)) == 2
    names = [f"column{i}" for i in range(1200)]
    assert read(",".join(names) + end + "1," * 1199 + "2", columns=[names[-1]]) == [{names[-1]: 2}]


def test_a_byte_order_mark_below_the_names_is_text():
    for text in ("a\n\ufeffb", "\ufeffa\n\ufeffb\n", 'a\n\ufeff"b"'):
        assert read(text)[0]["a"].startswith("\ufeff")
    assert read("\ufeffb", header=["a"]) == [{"a": "b"}]
    pytest.raises(recstore.errors.InputError, lambda: read("a,b\n\ufeff\n"))
