"""Sources with `in_place=True` (recstore/sources/in_place.py): lists over the lines of files where they are."""

import gzip
import io
import json
import os
import pickle
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_decoders import decoder  # noqa: F401

import recstore
from recstore import sources
from recstore.errors import CorruptError, InputError
from recstore.sources import in_place, line_values


def in_place_of(read, path, **options):
    with read(path, in_place=True, **options) as x:
        return x.to_list()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("in_place")


@pytest.fixture
def lines(tmp_path):
    """A function that writes values as a file of JSON lines and returns its path."""

    def write(values, name="a.jsonl", end="\n"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(value) + end for value in values))
        return path

    return write


# ---- Values ----


@settings(max_examples=50)
@given(
    st.lists(st.text(max_size=20) | st.integers() | st.floats() | st.lists(st.text(max_size=5), max_size=3)),
    st.lists(st.sampled_from(["\n", "\r\n", "\n\n", " \n\t\n", "\n\r\n\f\v \n"]), min_size=1, max_size=4),
    st.sampled_from(["", "\ufeff"]),
    st.booleans(),
    st.integers(1, 40),
)
def test_values_are_those_of_a_stored_list(folder, values, ends, mark, cut, block):
    text = mark + "".join(json.dumps(value) + ends[i % len(ends)] for i, value in enumerate(values))
    path = folder / "a.jsonl"
    path.write_bytes(text.rstrip("\r\n").encode() if cut else text.encode())
    before, in_place._BLOCK = in_place._BLOCK, block
    try:
        assert repr(in_place_of(recstore.read_jsonl, path)) == repr(recstore.read_jsonl(path).to_list())
    finally:
        in_place._BLOCK = before


@settings(max_examples=50)
@given(
    st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from(["utf-8", "ascii", "latin-1", "utf-8-sig"]),
    st.sampled_from(["keep", "skip"]),
)
def test_lines_of_text_are_those_of_a_stored_list(folder, texts, end, encoding, empty):
    path = folder / "a.txt"
    path.write_bytes(end.join(texts))
    options = {"encoding": encoding, "empty": empty}
    if path.read_bytes().startswith((b"\xff\xfe", b"\xfe\xff")):
        return
    assert in_place_of(recstore.read_lines, path, **options) == recstore.read_lines(path, **options).to_list()


def test_lines_longer_than_a_read(lines):
    values = ["a", "b" * 100_000, "c" * 3_000_000, "d"]
    with recstore.read_jsonl(lines(values), in_place=True) as x:
        assert [x[i] for i in (3, 2, 1, 0, 2)] == [values[i] for i in (3, 2, 1, 0, 2)]


def test_n_rows_and_blocks(lines):
    paths = [lines(range(70_000), "a"), lines(range(10), "b")]
    x = recstore.read_jsonl(paths, in_place=True)
    assert len(x) == 70_010 and x[69_999] == 69_999 and x[-1] == 9 and x.nbytes < 70_000
    assert in_place_of(recstore.read_jsonl, paths, n_rows=70_003)[-4:] == [69_999, 0, 1, 2]
    assert in_place_of(recstore.read_jsonl, paths, n_rows=0) == []
    assert x[::10_000].to_list() == [*range(0, 70_000, 10_000), 0]
    assert x.get_many([70_009, 5, -10]) == [9, 5, 0]


@pytest.mark.parametrize("read, options", [(recstore.read_lines, {}), (recstore.read_csv, {"header": ["a"]})])
def test_the_last_of_n_rows_is_checked_to_its_end_and_no_further(read, options, tmp_path):
    if options:
        pytest.importorskip("pyarrow")
    path, before = tmp_path / "a.csv", b"x\n" * (1 << 14)  # the bytes of a read
    path.write_bytes(before[2:] + b"y\rz\n" + before)  # the line begins in a read, its end is in the next one
    n = before.count(b"\n")
    with pytest.raises(InputError, match="CR alone"):
        read(path, n_rows=n, in_place=True, **options)
    assert len(in_place_of(read, path, n_rows=n - 1, **options)) == n - 1
    path.write_bytes(before[2:] + b"yyyy\nzz\r" + before)
    assert in_place_of(read, path, n_rows=n, **options)[-1] in ("yyyy", {"a": "yyyy"})


# ---- Stores ----


def test_saved_joined_and_pickled(lines, tmp_path):
    path = lines([{"n": i} for i in range(100)])
    sources.jsonl(path, in_place=True).save(tmp_path / "index.rec")
    with recstore.open(tmp_path / "index.rec", verify="full") as x, recstore.RecordList([{"n": -1}]) as y:
        assert x[7] == {"n": 7} and len(x + y) == 101
        assert (x + y)[-2:].to_list() == [{"n": 99}, {"n": -1}]
        with pickle.loads(pickle.dumps(x[5:])) as z, pickle.loads(pickle.dumps(x.field("n"))) as n:
            assert z[0] == {"n": 5} and n[4] == 4


def test_a_forked_child_and_threads_read(lines):
    values = [{"n": i, "text": "a" * (i % 50)} for i in range(3000)]
    x = recstore.read_jsonl(lines(values), in_place=True)
    assert x[0] == values[0]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if all(x[i] == values[i] for i in range(0, 3000, 7)) else 1)
    wrong = []
    threads = [threading.Thread(target=lambda: wrong.extend(i for i in range(3000) if x[i] != values[i])) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.waitpid(pid, 0)[1] == 0 and wrong == []


def test_more_files_than_may_be_open(lines, monkeypatch):
    sysconf = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: 12 if name == "SC_OPEN_MAX" else sysconf(name))
    x = recstore.read_jsonl([lines([i, i + 100], str(i)) for i in range(10)], in_place=True)
    before = len(os.listdir("/proc/self/fd"))
    assert [x[i] for i in (*range(20), *range(0, 20, 2))] == [
        *(i // 2 + i % 2 * 100 for i in range(20)),
        *range(10),
    ]
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    x.close()


def test_an_index_that_grows_with_its_files(lines, tmp_path):
    def write(path, text, at=None):
        with path.open("r+" if at is not None else "a") as file:
            file.seek(*(0, 2) if at is None else (at,))
            file.write(text)

    a, b, c = lines(range(66_000), "a"), lines(["x"], "b", end=""), lines([3], "c")
    index = tmp_path / "index.rec"
    index.write_text("not a store")
    sources.jsonl([a, b], in_place=True).save(index)
    write(a, "-1\n-2")
    write(b, "\n[7]\n")
    write(a, " 1\n2  ", at=1)  # only a search from the beginning sees it
    with recstore.open(index) as x:
        assert len(x) == 66_001 and x[-1] == "x"
        sources.jsonl([c, a, b], in_place=True).save(index)
        with recstore.open(index, verify="full") as y:
            assert len(y) == 66_005 and y[10:].to_list() == [*range(9, 66_000), -1, -2, "x", [7]]
    b.write_text("[8]\n[9]\n")
    for _ in range(2):
        sources.jsonl([a, b, b], in_place=True).save(index)
        with recstore.open(index) as z:
            assert z[-5:].to_list() == [-2, [8], [9], [8], [9]]


def test_a_damaged_index_does_not_grow(lines, tmp_path):
    path, index = lines(range(65_600)), tmp_path / "index.rec"
    sources.jsonl(path, in_place=True).save(index)
    intact = index.read_bytes()
    for number in range(len(intact) - 800, len(intact), 7):  # the blocks and what describes them
        damaged = bytearray(intact)
        damaged[number] ^= 0xFF
        index.write_bytes(damaged)
        try:
            sources.jsonl(path, in_place=True).save(index)
        except CorruptError:
            continue
        with recstore.open(index) as x:
            assert len(x) == 65_600 and x[65_536] == 65_536 and x[-1] == 65_599


# ---- Files that change ----


def test_a_line_that_is_not_json(lines):
    path = lines([1, 2])
    path.write_bytes(b'[1]\n\n{"a": }\n[2]\n')
    with recstore.read_jsonl(path, in_place=True) as x:
        assert x[0] == [1] and x[2] == [2]
        with pytest.raises(InputError, match=rf"{path}, line 3, byte 5: not JSON"):
            x[1]


def test_a_file_that_grows(lines):
    path = lines([1, 2], end="")
    x = recstore.read_jsonl(path, in_place=True)
    with path.open("a") as file:
        file.write("3\n4\n")
    assert x.to_list() == [12]
    assert in_place_of(recstore.read_jsonl, path) == [123, 4]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_that_is_cut(lines, is_open):
    path = lines(range(10))
    x = recstore.read_jsonl(path, in_place=True)
    if is_open:
        assert x[0] == 0
    os.truncate(path, 6)
    with pytest.raises(InputError, match=f"{path}: .*cut"):
        x[9]


def test_a_file_that_is_replaced(lines, tmp_path):
    path = lines(range(10))
    x, y = recstore.read_jsonl(path, in_place=True), recstore.read_jsonl(path, in_place=True)
    assert x[0] == 0
    os.replace(lines(range(10, 30), "other"), path)
    assert x.to_list() == list(range(10))  # the open file is still the old one
    with pytest.raises(InputError, match="changed or replaced"):
        y[0]
    path.unlink()
    with pytest.raises(InputError, match="No such file"):
        y[0]


def test_a_file_that_is_written_over_while_it_is_open(lines):
    path = lines(["aaaa", "bbbb", "cccc"])
    x, y = recstore.read_jsonl(path, in_place=True), recstore.read_lines(path, in_place=True)
    assert x[0] == "aaaa" and y[0] == '"aaaa"'
    path.write_text('"a", "longer line that replaces all of them"\n')
    for changed in (x, y):
        with pytest.raises(InputError, match="changed"):
            changed[1]


def test_a_pipe_in_place_of_the_file_does_not_block(lines):
    path = lines([1])
    x = recstore.read_jsonl(path, in_place=True)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        x[0]


# ---- What is refused ----


def test_other_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"1\n"))
    for path, message in (
        (io.BytesIO(b"1\n"), "regular file"),
        (tmp_path / "pipe", "regular file"),
        (tmp_path / "a.jsonl.gz", "decompress it"),
    ):
        with pytest.raises(ValueError, match=message):
            recstore.read_jsonl(path, in_place=True)


@pytest.mark.parametrize("options", [{"errors": "skip"}, {"columns": ["a"]}, {"where": bool}])
def test_arguments_that_need_all_records_are_refused(lines, options):
    with pytest.raises(ValueError, match=f"no {next(iter(options))}="):
        recstore.read_jsonl(lines([1]), in_place=True, **options)


def test_other_text_is_refused(tmp_path):
    (tmp_path / "a").write_text("[1]\n", "utf-16")
    for read in (recstore.read_jsonl, recstore.read_lines):
        with pytest.raises(InputError, match="utf-16"):
            read(tmp_path / "a", in_place=True)
    with pytest.raises(ValueError, match="cp1252"):
        recstore.read_lines(tmp_path / "a", in_place=True, encoding="cp1252")
    (tmp_path / "a").write_bytes(b"a\rb\n")
    with pytest.raises(InputError, match="byte 2: a line ends with a CR alone"):
        recstore.read_lines(tmp_path / "a", in_place=True)


def test_shards_are_refused(lines, tmp_path):
    from recstore.remote import ShardWriter

    with pytest.raises(TypeError, match="leave in_place out"):
        ShardWriter(tmp_path / "set").write(sources.jsonl(lines([1]), in_place=True))


def test_decoders(lines, decoder):
    path = lines([])
    path.write_bytes(b'NaN\n"\\ud800"\n18446744073709551616\n[\n')
    with recstore.read_jsonl(path, in_place=True) as x:
        assert repr(x[:3].to_list()) == repr([float("nan"), "\ud800", 2**64])
        with pytest.raises(InputError, match="line 4"):
            x[3]


@pytest.mark.parametrize("extra", [None, ("json", "/a", 1, 0, 0), ("xml", "/a", 1, 0, 0, ()), ("text", "/a", 1, 0, 0, ("rot13", "keep")), ("json", "a", 1, 0, 0, ()), ("json", "/a\0", 1, 0, 0, ()), ("json", "/\ud800", 1, 0, 0, ()), ("json", "/a", 1 << 63, 0, 0, ())])  # fmt: skip
def test_bytes_that_lie(extra):
    with pytest.raises(CorruptError):
        line_values.maker(extra)(0)


# ---- Fields and columns ----

RECORDS = [
    {"id": i, "label": i % 3, "name": f"n{i % 5}", "box": [i, i + 0.5], "meta": {"a": i}, "tokens": [7] * (i % 4)}
    for i in range(100)
]
READS = {
    "field": lambda x: (x.field("label")[5], x.field("meta.a")[-1], x.field(("box", 1))[2], x.field("none", 4)[0]),
    "fields": lambda x: x.fields("id", "meta.a")[4],
    "lazy": lambda x: (x.lazy()[4]["box"], dict(x.lazy()[3]), x.lazy().field("id")[2], x.field("meta").lazy()[1]["a"]),
    "fields of fields": lambda x: x.fields("meta", "id").field("meta.a").to_list(),
    "numpy": lambda x: (x.field("id").to_numpy(), x.field("box").to_numpy([1, 5]), x.field("name").to_numpy()),
    "torch": lambda x: (x.field("id").to_torch(), x.field("tokens").to_torch()),
    "filter": lambda x: x.filter(lambda record: record["label"] == 1).to_list(),
    "sorted_by": lambda x: x.sorted_by("name").to_list(),
    "index_by": lambda x: (x.index_by("id")[17], x.index_by(lambda record: record["meta"]["a"])[3]),
    "group_by": lambda x: (x.group_by("name")["n3"].to_list(), x.group_by("label")[1].field("id").to_list()),
    "views": lambda x: (x[::-7].field("id").to_list(), x[[5, 1]].fields("id").to_list()),
    "arrow": lambda x: x.to_arrow().to_pylist(),
    "schema": lambda x: str(x.fields("id", "name", "box").to_arrow().schema),
    "pandas": lambda x: x.to_pandas().to_dict(),
    "polars": lambda x: x.to_polars().to_dicts(),
    "list": lambda x: (x.index(RECORDS[7]), RECORDS[8] in x, x == RECORDS, x.count(RECORDS[0])),
}


@pytest.fixture(scope="module")
def in_place_and_stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("fields") / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    with recstore.read_jsonl(path, in_place=True) as x, recstore.RecordList(RECORDS) as y:
        yield x, y, x[:50] + y[50:]


@pytest.mark.parametrize("read", READS)
def test_reads_of_fields(in_place_and_stored, read):
    module = {"numpy": "numpy", "arrow": "pyarrow", "schema": "pyarrow"}.get(read, read)
    if module in ("numpy", "torch", "pyarrow", "pandas", "polars"):
        pytest.importorskip(module)
    x, y, joined = in_place_and_stored
    assert repr(READS[read](x)) == repr(READS[read](y)) == repr(READS[read](joined))


def test_a_missing_field(in_place_and_stored):
    x = in_place_and_stored[0]
    for read in (lambda: x.field("lable")[4], lambda: x.fields("lable"), lambda: x.field("lable").to_numpy()):
        with pytest.raises(KeyError, match="lable"):
            read()


def test_batches(in_place_and_stored):
    pytest.importorskip("torch")
    from recstore.torch import Field, Fields

    def batch(x):
        f = Fields(x, "id", "name", box="tensor", tokens=Field("padded", dtype="int32"))
        return f[[3, 1, 99]], f[7]

    x, y, joined = in_place_and_stored
    assert repr(batch(x)) == repr(batch(y)) == repr(batch(joined))
    many = [0, 1] * 3  # more than the records
    assert repr(Fields(x[:2], "id")[many]) == repr(Fields(y[:2], "id")[many])


def test_errors_of_batches_name_the_record(lines):
    pytest.importorskip("torch")
    from recstore.torch import Field, Fields

    x = recstore.read_jsonl(lines([*({"a": i} for i in range(90)), {"b": 1}, {"a": 300}]), in_place=True)
    f = Fields(x, a=Field("tensor", dtype="int8"))
    for number, error in ((90, KeyError), (91, ValueError)):
        with pytest.raises(error, match=f"record {number}"):
            f[[3, number]]


def test_saved_indexes(in_place_and_stored, tmp_path):
    in_place_and_stored[0].save(tmp_path / "a.rec", index_by="id", group_by="name")
    with recstore.open(tmp_path / "a.rec", verify="full") as x:
        assert x.index_by("id")[17] == RECORDS[17]
        assert x.group_by("name")["n2"].field("id").to_list() == list(range(2, 100, 5))
