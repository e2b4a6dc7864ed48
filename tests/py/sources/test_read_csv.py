"""read_csv (recstore/sources/csv_files.py, csv_rows.py, csv_text.py, csv_types.py): it gives the same records
as a plain parser in this file, which follows the documented conversion; bad files raise an error with the line."""

import csv
import gzip
import io
import logging
import math
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import recstore

pyarrow = pytest.importorskip("pyarrow")
from recstore.sources import csv_rows  # noqa: E402

# ---- A plain parser ----


def rows_of(text, delimiter=",", quote='"'):
    """Yields the non-empty rows of a text, as lists of `(text of a cell, whether it is quoted)`."""
    row, cell, quoted, i = [], [], False, 0
    while i < len(text):
        c = text[i]
        if quote and c == quote and not cell and not quoted:
            quoted, i = True, i + 1
            while True:
                end = text.index(quote, i)
                cell.append(text[i:end])
                i = end + 1
                if text[i : i + 1] != quote:
                    break
                cell.append(quote)
                i += 1
            continue
        if c == delimiter or c in "\r\n":
            row.append(("".join(cell), quoted))
            cell, quoted = [], False
            if c in "\r\n":
                if row != [("", False)]:
                    yield row
                row = []
        else:
            cell.append(c)
        i += 1
    if row or cell or quoted:
        yield [*row, ("".join(cell), quoted)]


def is_float(text):
    if re.match(r"[+]|-?0[0-9]", text) or "_" in text or text != text.strip():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def type_of(texts):
    """The documented type of a column, as a function that converts a text. `texts` are the non-empty cells."""
    if texts and all(text in ("true", "True", "TRUE", "false", "False", "FALSE") for text in texts):
        return lambda text: text.lower() == "true"
    texts = [text.strip(" ") for text in texts]
    whole = [int(text) for text in texts if re.fullmatch(r"0|-?[1-9][0-9]*", text)]
    if not texts:
        return str
    if len(whole) == len(texts):
        signed = all(-(2**63) <= value < 2**63 for value in whole)
        unsigned = all(0 <= value < 2**64 for value in whole)
        if signed or unsigned:
            return int
    if all(map(is_float, texts)) and all(abs(value) < 2**53 for value in whole):
        return float
    return str


def plain(text, delimiter=",", quote='"', header=True):
    """The documented records of a text."""
    rows = list(rows_of(text.removeprefix("\ufeff"), delimiter, quote))
    names = [cell for cell, _ in rows.pop(0)] if header is True else header
    columns = []
    for cells in zip(*rows, strict=True):
        kind = type_of([cell for cell, _ in cells if cell != ""])
        if kind is str:
            columns.append([None if cell == "" and not quoted else cell for cell, quoted in cells])
        else:
            columns.append([None if cell == "" else kind(cell) for cell, _ in cells])
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def same(a, b):
    """Whether records are equal in values and types; NaN equals NaN."""
    return len(a) == len(b) and all(map(same_record, a, b))


def same_record(a, b):
    return list(a) == list(b) and all(map(same_value, a.values(), b.values()))


def same_value(a, b):
    if type(a) is float and type(b) is float:
        return math.isnan(a) and math.isnan(b) or (a, math.copysign(1, a)) == (b, math.copysign(1, b))
    return type(a) is type(b) and a == b


def read(data, **options):
    """The records of bytes or a str."""
    data = data.encode() if isinstance(data, str) else data
    with recstore.read_csv(io.BytesIO(data), **options) as x:
        return x.to_list()


# ---- Generated files ----

cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
special = st.text(st.sampled_from('a",\n\r\t |; '), max_size=6)
numbers = st.one_of(
    st.integers(-3, 1200).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.sampled_from([str(n) for k in (53, 63, 64) for n in (2**k - 1, 2**k, 2**k + 1, -(2**k), 1 - 2**k)]),
    st.floats().map(repr),
    st.sampled_from(
        ["", "0", "-0", "007", "+5", "0.5", "-00.5", "1e5", ".5", "5.", "true", "False", "yes", " 7", "0x1f"]
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(cells | special, min_size=n, max_size=n), min_size=1, max_size=8)
    ),
    delimiter=st.sampled_from(",;|\t "),
    block=st.sampled_from([2, 7, 64, 1 << 20]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_text_round_trips(monkeypatch, rows, delimiter, block, quoting):
    monkeypatch.setattr(csv_rows, "_BLOCK", block)
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, quoting=quoting).writerows(rows)
    names = [f"c{i}" for i in range(len(rows[0]))]
    records = read(file.getvalue(), delimiter=delimiter, header=names, dtypes=str)
    empty = "" if quoting == csv.QUOTE_ALL or len(names) == 1 else None
    assert records == [dict(zip(names, [cell or empty for cell in row], strict=True)) for row in rows]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(numbers, min_size=1, max_size=8), block=st.sampled_from([4, 16, 1 << 20]))
@example(texts=["9007199254740993", "0.5"], block=4)
@example(texts=["9007199254740991", "0.5"], block=4)
@example(texts=["9007199254740992", "0.5"], block=4)
@example(texts=["18446744073709551615", "-1"], block=4)
@example(texts=["-1", "18446744073709551615"], block=4)
@example(texts=["1", "1", "18446744073709551615", "0.5"], block=4)
@example(texts=["\t7", " 7"], block=4)
@example(texts=["\t7", "8", "9", " 7"], block=4)
@example(texts=[" 007", "8"], block=4)
@example(texts=[" -0 ", "8"], block=4)
@example(texts=["true", "1"], block=4)
@example(texts=["1", "true"], block=4)
def test_the_type_of_a_column_comes_from_all_cells(monkeypatch, texts, block):
    monkeypatch.setattr(csv_rows, "_BLOCK", block)
    text = "x,y\n" + "".join(f"{cell},\n" for cell in texts)
    expected = plain(text)
    assert same(read(text), expected)
    other = "x,y\n" + "".join(f"{cell},\n" for cell in reversed(texts))
    assert same(read(other), expected[::-1])


def test_line_ends_marks_and_newlines_in_cells():
    for end in ("\n", "\r\n", "\r"):
        text = f'\ufeffa,b{end}{end}1,"x{end}y"{end}{end}2,""{end}3,'
        assert read(text) == [{"a": 1, "b": f"x{end}y"}, {"a": 2, "b": ""}, {"a": 3, "b": None}]


def test_headers():
    assert read("1,x\n2,y\n", header=False) == [{"0": 1, "1": "x"}, {"0": 2, "1": "y"}]
    assert read("1,x\n2,y\n", header=["n", "s"]) == [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}]
    assert read("about\nn,s\n1,x\n", skip_rows=1) == [{"n": 1, "s": "x"}]
    assert read('\n\n"a ""b""","c\nd"\n1,2\n') == [{'a "b"': 1, "c\nd": 2}]
    assert read("n,s\n") == read("n,s") == read("n,s\n\n") == read("", header=False) == read("", header=["a"]) == []
    for text in ("", "\n\n"):
        with pytest.raises(recstore.errors.InputError, match="no row of names"):
            read(text)
    with pytest.raises(recstore.errors.InputError, match=r"2 columns are called 'a'.*header=\[...\] and skip_rows=1"):
        read("a,b,a\n1,2,3\n")
    assert read("a,b,a\n1,2,3\n", columns=["b"]) == [{"b": 2}]
    assert read("a,b,a\n1,2,3\n", header=["x", "y", "z"], skip_rows=1) == [{"x": 1, "y": 2, "z": 3}]


def test_missing_values():
    text = 'n,s\n1,x\n,\n"",""\nNA,NA\n'
    assert read(text)[1:] == [{"n": None, "s": None}, {"n": "", "s": ""}, {"n": "NA", "s": "NA"}]
    assert read(text, null_values=["", "NA"]) == [
        {"n": 1, "s": "x"},
        {"n": None, "s": None},
        {"n": None, "s": ""},
        {"n": None, "s": None},
    ]
    assert read(text, null_values=["", "NA"], missing="absent") == [{"n": 1, "s": "x"}, {}, {"s": ""}, {}]
    assert read("s\n-\nx\n", null_values="-") == [{"s": None}, {"s": "x"}]


def test_dtypes():
    text = "a,b,c,d\n007,1,2020-01-02,0.1\n8,,2021-03-04,2\n"
    assert read(text, dtypes=str)[0] == {"a": "007", "b": "1", "c": "2020-01-02", "d": "0.1"}
    dtypes = {"a": int, "b": "str", "c": "date32", "d": pyarrow.decimal128(5, 2)}
    assert repr(read(text, dtypes=dtypes)[0]) == (
        "{'a': 7, 'b': '1', 'c': datetime.date(2020, 1, 2), 'd': Decimal('0.10')}"
    )
    assert read("x\n0.1\n", dtypes={"x": "float32"}) == [{"x": 0.10000000149011612}]
    assert read("x\n0.1\n", dtypes={"x": "float"}) == read("x\n0.1\n", dtypes={"x": float}) == [{"x": 0.1}]
    assert read(b"x\n\xff\n", dtypes={"x": bytes}) == [{"x": b"\xff"}]
    for empty, names in (("", ("string", "large_string", "string_view")), (b"", ("binary", "large_binary"))):
        for kind in map(pyarrow.type_for_alias, names):
            for dtype in (kind, pyarrow.dictionary("int32", kind)):
                got = read('x,y\n"",1\n,2\n', dtypes={"x": dtype})
                assert got == [{"x": empty, "y": 1}, {"x": None, "y": 2}], dtype
    for dtypes, text in (
        ({"x": "colour"}, "is not a type"),
        ({"x": 5}, "is not a type"),
        ({"x": pyarrow.list_(pyarrow.int8())}, "text cannot be converted"),
    ):
        with pytest.raises(TypeError, match=text):
            read("x\n1\n", dtypes=dtypes)
    with pytest.raises(recstore.errors.InputError, match="no column 'y'"):
        read("x\n1\n", dtypes={"y": int})


def test_other_encodings():
    text = "naïve,日本\n1,ü\n"
    for encoding in ("utf-16", "utf-16-le", "utf-8-sig"):
        assert read(text.encode(encoding), encoding=encoding) == [{"naïve": 1, "日本": "ü"}]
    assert read("a\nß\n".encode("latin-1"), encoding="latin-1") == [{"a": "ß"}]
    with pytest.raises(LookupError):
        read("a\n", encoding="nothing")
    with pytest.raises(
        recstore.errors.InputError, match="line 3: bytes that are not shift_jis text; give the encoding"
    ):
        read(b"a\n1\n\xff\xff\n", encoding="shift_jis")


def test_other_characters():
    assert read("a;b\n'x;y';z\n", delimiter=";", quote="'") == [{"a": "x;y", "b": "z"}]
    assert read('a,b\n5" x,"y\n', quote=None) == [{"a": '5" x', "b": '"y'}]
    assert read("a,b\nx\\,y,z\n", escape="\\") == [{"a": "x,y", "b": "z"}]
    for name, value in (("delimiter", "||"), ("delimiter", "é"), ("quote", ""), ("escape", "\n"), ("delimiter", 5)):
        with pytest.raises(ValueError, match=f"{name} is .*; give one ASCII character"):
            read("a\n", **{name: value})


def test_the_suffix_tsv_means_tabs(tmp_path):
    for name in ("x.tsv", "x.TAB", "x.tsv.gz"):
        data = b"a\tb\n1,5\t2\n"
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        with recstore.read_csv(tmp_path / name) as x:
            assert x.to_list() == [{"a": "1,5", "b": 2}]


# ---- Rows and columns ----


def test_the_choice_of_rows_and_columns():
    text = "a,b,c\n" + "".join(f"{i},{i % 3},x{i}\n" for i in range(1000))
    assert read(text, columns=["c", "a"], n_rows=2) == [{"c": "x0", "a": 0}, {"c": "x1", "a": 1}]
    assert read(text, where=lambda r: r["b"] == 2 and r["a"] > 990, columns=["c"]) == [
        {"c": "x992"},
        {"c": "x995"},
        {"c": "x998"},
    ]
    field = pyarrow.compute.field
    assert read(text, where=(field("b") == 2) & (field("a") > 995), columns=["c"]) == [{"c": "x998"}]
    assert read(text, where=lambda r: r["a"] > 5, n_rows=1) == [{"a": 6, "b": 0, "c": "x6"}]
    assert read(text, n_rows=0) == []
    with pytest.raises(recstore.errors.InputError, match="no column 'd'; there are: 'a', 'b', 'c'"):
        read(text, columns=["d"])
    with pytest.raises(recstore.errors.InputError, match="where: No match"):
        read(text, where=field("d") == 2)
    for options, error, message in (
        ({"columns": "a"}, TypeError, "columns must be a list of names"),
        ({"columns": []}, ValueError, "no names"),
        ({"where": 5}, TypeError, "a function"),
        ({"missing": "nan"}, ValueError, "absent"),
        ({"errors": "ignore"}, ValueError, "skip"),
        ({"header": []}, ValueError, "header"),
        ({"n_rows": "5"}, TypeError, "n_rows"),
    ):
        with pytest.raises(error, match=message):
            read(text, **options)


def test_a_limit_reads_only_what_it_needs():
    """The types come from the first n_rows rows."""
    text = "a\n" + "1\n" * 10
    assert read(text + "x\n", n_rows=10) == [{"a": 1}] * 10
    assert read(text + "x\n", n_rows=11)[9:] == [{"a": "1"}, {"a": "x"}]

    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            data = b"1\n" * (len(buffer) // 2)
            buffer[: len(data)] = data
            return len(data)

    for dtypes in (int, {"a": int}, None):
        with recstore.read_csv(Endless(), header=["a"], dtypes=dtypes, n_rows=3) as x:
            assert x.to_list() == [{"a": 1}] * 3


def test_several_files_have_their_own_columns_and_common_types(tmp_path):
    (tmp_path / "a.csv").write_text("n,s\n1,2\n")
    (tmp_path / "b.csv").write_text("s,t\nx,true\n")
    with recstore.read_csv(tmp_path / "*.csv") as x:
        assert x.to_list() == [{"n": 1, "s": "2"}, {"s": "x", "t": True}]
    with pytest.raises(recstore.errors.InputError, match=r"b\.csv: no column 'n'"):
        recstore.read_csv(tmp_path / "*.csv", columns=["n"])


def test_workers_agree_on_the_types(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.csv").write_text("a\n" + "".join(f"{j}\n" for j in range(i * 10, i * 10 + 10)))
    (tmp_path / "5.csv").write_text("a\n0.5\n")
    with recstore.read_csv(tmp_path / "*.csv", workers=2) as x, recstore.read_csv(tmp_path / "*.csv") as y:
        assert same(x.to_list(), y.to_list())
        assert type(x[0]["a"]) is float


# ---- Bad files ----


def test_a_row_that_is_too_long_is_an_error_even_after_skipped_rows(monkeypatch):
    monkeypatch.setattr(csv_rows, "_BLOCK", 1)
    monkeypatch.setattr(csv_rows, "_LONGEST_BLOCK", 1)
    text = b"a,b\n1\n" + b"x" * 20_000 + b",1\n"
    with pytest.raises(recstore.errors.InputError, match="a row of more than 512 bytes"):
        recstore.read_csv(io.BytesIO(text), errors="skip")


@pytest.mark.parametrize("block", [32, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n4,5\n", "line 3: 1 cells, but 2 expected"),
        ('a,b\n1,"2\n\n"\n3,4,5\n', "line 5: 3 cells, but 2 expected"),
        ('a,b\n1,2\n3,"4\n5,6\n' + "7,8\n" * 50, "line 3: a quote that opens here never closes.*quote=None"),
        ('a,b\n1,2\n3,4\n"5,6', "line 4: a quote that opens here never closes"),
        ('a,b\n1,2\n3,4\n5,"6', "line 4: a quote that opens here never closes"),
        (
            'a,b\n"1,2\n3,4\n"5,6\n7,8\n',
            "line 4: text follows the closing quote of a cell that opens in line 2.*quote=No",
        ),
        ('a,b\n1,2\n"3"4,5\n', "line 3: text follows the closing quote of a cell that opens in line 3"),
        ('a,b\n1,"2" \n', "line 2: text follows"),
        ('a,"b"c\n1,2\n', "line 1: text follows the closing quote"),
        ('a,b\r1,"2\r\n3"\r"4"5,6\r', "line 4: text follows the closing quote of a cell that opens in line 4"),
        ('a,"b\n1,2\n', "line 1: a quote that opens here never closes"),
        (b"a,b\n1,x\n2,\xff\n", "line 3: bytes that are not utf-8 text; give the encoding"),
        (b"a,\xff\n1,x\n", "line 1: bytes that are not utf-8 text; give the encoding"),
    ],
)
def test_a_bad_file_is_an_error_with_its_line(tmp_path, monkeypatch, text, message, block):
    monkeypatch.setattr(csv_rows, "_BLOCK", block)
    path = tmp_path / "bad.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(recstore.errors.InputError, match=f"bad.csv, {message}"):
        recstore.read_csv(path)


def test_a_cell_that_does_not_fit_its_dtype():
    with pytest.raises(recstore.errors.InputError, match="line 4: column 'a': 'x' is not an int64; give another type"):
        read('b,a\n"\n",1\n2,x\n3,y\n', dtypes={"a": int})


def test_rows_are_skipped_and_counted(caplog, tmp_path):
    text = "a,b\n1,x\n2\n3,y\nz,w\n4,v\n5,6,7\n"
    with caplog.at_level(logging.WARNING, "recstore"):
        assert read(text, errors="skip", dtypes={"a": int}) == [
            {"a": 1, "b": "x"},
            {"a": 3, "b": "y"},
            {"a": 4, "b": "v"},
        ]
    (record,) = caplog.records
    first = "3 of <BytesIO>; the first: <BytesIO>, line 5: column 'a': 'z' is not an int64"
    assert f"read_csv skipped 3 rows: {first}" in record.getMessage()
    caplog.clear()
    assert read(text, errors="skip", n_rows=2) == [{"a": "1", "b": "x"}, {"a": "3", "b": "y"}]
    assert "read_csv skipped 2 rows" in caplog.text  # later rows were not read
    caplog.clear()
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text("a,b\n1,2\n3\n")
    with recstore.read_csv(tmp_path / "*.csv", errors="skip", workers=2) as x:
        assert x.to_list() == [{"a": 1, "b": 2}] * 3
    assert len(caplog.records) == 1
    assert "read_csv skipped 3 rows" in caplog.text and "0.csv, line 3: 1 cells" in caplog.text
    with pytest.raises(recstore.errors.InputError, match="never closes"):
        read('a,b\n1,2\n3,"4\n', errors="skip")
