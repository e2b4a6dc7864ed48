"""read_csv with in_place=True (recstore/sources/csv_lines.py, csv_files.py): the records of read_csv without it."""

import random
import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recstore
from recstore import sources
from recstore._core import native
from recstore.errors import CorruptError, InputError
from recstore.sources import in_place, line_values

pyarrow = pytest.importorskip("pyarrow")
from recstore.sources import csv_types  # noqa: E402


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("csv") / "a.csv"


def read(path, **options):
    """The repr of the records, or None for an InputError."""
    with suppress(InputError), recstore.read_csv(path, **options) as x:
        return repr(x.to_list())
    return None


# ---- Values ----

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=6)
numbers = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(repr),
    st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?\Z"),
    st.sampled_from(["007", "+5", ".5", "5.", " 7", "7 ", "0x1F", "-0", "1e400", "inf", "1_0", "\uff11"]),
)
KINDS = [
    texts,
    st.text(st.sampled_from("a\"',;| \t\n\r"), max_size=5),
    numbers,
    st.integers(-9, 99).map(str),
    st.integers(-99, 99).map(lambda n: str(n / 8)),
    st.sampled_from(["true", "False", "TRUE"]),
]


@st.composite
def files(draw):
    """A CSV text and the arguments to read it."""
    width = draw(st.integers(1, 4))
    quote = draw(st.sampled_from(['"', "'", None]))
    form = {"delimiter": draw(st.sampled_from(",;| \t")), "quote": quote, "skip_rows": draw(st.sampled_from([0, 0, 2]))}
    header = draw(st.sampled_from([True, False, [f"c{i}" for i in range(width)]]))
    kinds = [draw(st.sampled_from(KINDS)) | st.sampled_from(["", "NA"]) for _ in range(width)]

    def cell(text):
        if not quote:
            text = text.replace("\n", "").replace("\r", "")
        elif draw(st.booleans()) or text.startswith(quote) or set(text) & {form["delimiter"], "\n", "\r"}:
            return quote + text.replace(quote, 2 * quote) + quote
        return text

    rows = [[cell(draw(kind)) for kind in kinds] for _ in range(draw(st.integers(0, 6)))]
    lines = [form["delimiter"].join(row) + draw(st.sampled_from(["", "", "", "\n"])) for row in rows]
    if header is True:
        lines.insert(0, form["delimiter"].join(f"c{i}" for i in range(width)))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = "\n".join(["not, a\"row'"] * form["skip_rows"] + lines) + draw(st.sampled_from(["", "\n"]))
    options = {
        **form,
        "header": header,
        "null_values": draw(st.sampled_from(["", ("NA", ""), (), ("NA", "7", "true")])),
        "missing": draw(st.sampled_from(["none", "absent"])),
        "empty": draw(st.sampled_from(["keep", "skip"])),
        "dtypes": draw(st.sampled_from([None, None, None, str, float, int, bool, "uint64"])),
    }
    if header is not False and width > 1:
        options["columns"] = draw(st.sampled_from([None, ["c1", "c0"]]))
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", end), options


@settings(max_examples=50)
@given(files(), st.integers(1, 40))
def test_records_are_those_of_read_csv(path, file, block):
    text, options = file
    path.write_bytes(text.encode())
    before, in_place._BLOCK = in_place._BLOCK, block
    try:
        assert read(path, in_place=True, **options) == read(path, **options)
    finally:
        in_place._BLOCK = before


@pytest.mark.parametrize("kind", ["int64", "uint64", "float64"])
def test_numbers_without_pyarrow(kind):
    generator = random.Random(7)

    def digits(most):
        return "".join(generator.choices("0123456789", k=generator.randint(1, most)))

    forms = [("", ""), ("-", ""), ("", "."), ("-", "e"), ("", ".e-"), ("-", ".E+")]
    cells = []
    for sign, form in (generator.choice(forms) for _ in range(20_000)):
        cell = sign + digits(20) + ("." + digits(20) if "." in form else "")
        cells.append((cell + (form.strip(".") + digits(2) if form.strip(".") else "")).encode())
    left = set()
    rows = native.CsvRows(",", None, False, set(), 1, [("n", 0, kind)], lambda _name, _kind, cell: left.add(cell))
    numbers = {cell: rows(cell)["n"] for cell in cells}
    cells = [cell for cell in cells if cell not in left]
    values = csv_types.converted(
        pyarrow.array(cells, pyarrow.binary()), pyarrow.type_for_alias(kind), csv_types.null_array([])
    )
    assert len(cells) > 1000 and repr(values.to_pylist()) == repr([numbers[cell] for cell in cells])


def test_files_of_several_columns_and_types(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "b.tsv").write_text("y\tx\nc\t2.5\n")
    paths = [tmp_path / "a.csv", tmp_path / "b.tsv"]
    expected = [{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "b"}, {"y": "c", "x": 2.5}]
    with recstore.read_csv(paths, in_place=True) as x:
        assert x.to_list() == expected and x.field("x").to_list() == [1.0, 2.0, 2.5]
    for n in range(4):
        with recstore.read_csv(paths, in_place=True, n_rows=n) as x:
            assert repr(x.to_list()) == read(paths, n_rows=n)


# ---- An index that grows ----


def append(path, text):
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("dtypes", [None, {"n": int, "text": str}])
def test_an_index_that_grows_with_its_files(tmp_path, dtypes):
    path, index = tmp_path / "a.csv", tmp_path / "index.rec"
    path.write_text("n,text\n" + "".join(f'{i},"{i},"\n' for i in range(65_600)) + "-1,cu")
    source = sources.csv(path, in_place=True, dtypes=dtypes)
    source.save(index)
    append(path, "t\n-2,\n")
    for row in ("", "0.5,new type\n"):
        if dtypes is None:
            append(path, row)
        source.save(index)
        with recstore.open(index, verify="full") as x:
            chosen = [*range(0, len(x), 997), *range(65_530, len(x))]
            with recstore.read_csv(path, dtypes=dtypes) as y:
                assert len(x) == len(y) and repr(x.get_many(chosen)) == repr(y.get_many(chosen))
    sources.csv(path, in_place=True, dtypes=str, header=["n", "text"], skip_rows=3).save(index)
    with recstore.open(index) as x:
        assert repr(x[:2].to_list()) == repr([{"n": "2", "text": "2,"}, {"n": "3", "text": "3,"}])


# ---- Wrong rows ----


@pytest.mark.parametrize(
    "row, fault",
    [
        ("1", "1 cells, but 2 expected"),
        ("1,2,3", "3 cells, but 2 expected"),
        ("x,2", "column 'a': 'x' is not an int64"),
    ],
)
def test_a_wrong_row_is_an_error_when_it_is_read(path, row, fault):
    path.write_text(f"a,b\n1,2\n\n{row}")
    assert read(path, dtypes=int) is None
    with recstore.read_csv(path, dtypes={"a": int, "b": int}, in_place=True) as x:
        assert x[0] == {"a": 1, "b": 2}
        with pytest.raises(InputError, match=f"{path}, line 4, byte 9: {fault}"):
            x[1]


def test_bytes_that_are_not_text(path):
    path.write_bytes(b"a,b\n1,\xff\n")
    with recstore.read_csv(path, dtypes=str, in_place=True) as x, pytest.raises(InputError, match="line 2, byte 4"):
        x[0]


@pytest.mark.parametrize(
    "text, fault",
    [
        (b'a,b\n1,2\n3,"x\ny,2\n', "byte 8: a quote in the row that begins here never closes"),
        (b'a,b\n1,2\n"x"y,2\n', "byte 11: text follows"),
        (b"a,b\n1\r2,2\n", "byte 6: a line ends with a CR alone"),
        (b"a,b\r1,2\n", "byte 4: a line ends with a CR alone"),
    ],
)
@pytest.mark.parametrize("block", [1, 1 << 18])
def test_rows_that_are_not_lines_are_refused(monkeypatch, path, text, fault, block):
    monkeypatch.setattr(in_place, "_BLOCK", block)
    path.write_bytes(text)
    if b'"y' in text:  # read_csv finds it in the first block, with its line
        fault = "line 3: text follows"
    with pytest.raises(InputError, match=f"{path}, {fault}"):
        recstore.read_csv(path, dtypes=str, in_place=True)


def test_a_quote_after_the_first_block(path):
    path.write_text("a,b\n" + "1,2\n" * 400_000 + '3,"4"5\n')
    with pytest.raises(InputError, match="byte 1,600,009: text follows the closing quote"):
        recstore.read_csv(path, dtypes=str, in_place=True)


@pytest.mark.parametrize(
    "options, remedy",
    [
        ({"errors": "skip"}, "correct the files"),
        ({"where": bool}, "x.filter"),
        ({"escape": "\\"}, "leave in_place out"),
        ({"encoding": "latin-1"}, "UTF-8"),
        ({"dtypes": {"a": "date32"}}, "column 'a' is date32"),
        ({"quote": ","}, "quote=None"),
    ],
)
def test_what_is_refused(path, options, remedy):
    path.write_text("a,b\n2000-01-01,2\n")
    with pytest.raises(ValueError, match=remedy):
        recstore.read_csv(path, in_place=True, **options)
    path.write_text("a,b\n", "utf-16")
    with pytest.raises(InputError, match="utf-16"):
        recstore.read_csv(path, in_place=True)


KNOWN = (",", '"', "keep", 4, "none", ("",), 2, (("a", 0, "int64"), ("b", 1, "string")))


@pytest.mark.parametrize("place, part", [(0, ""), (0, "\u00e9"), (1, 7), (2, "no"), (3, -1), (4, None), (5, ("\ud800",)), (5, (1,)), (6, 1), (7, (("a", -1, "bool"),)), (7, (("a", 0, "date32"),)), (7, ("a",))])  # fmt: skip
def test_bytes_that_lie(place, part):
    extra = ("csv", "/a", 9, 0, 0)
    assert line_values.maker((*extra, KNOWN))
    with pytest.raises(CorruptError):
        line_values.maker((*extra, (*KNOWN[:place], part, *KNOWN[place + 1 :])))
    with pytest.raises(CorruptError):
        line_values.maker((*extra, KNOWN[:-1]))


def test_a_process_without_pyarrow_reads_plain_cells(path, monkeypatch):
    path.write_text("a,b\n1,x\n+2,y\n")
    with recstore.read_csv(path, dtypes={"a": int, "b": str}, in_place=True) as x:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert x[0] == {"a": 1, "b": "x"}
        with pytest.raises(ImportError, match="pip install pyarrow"):
            x[1]
