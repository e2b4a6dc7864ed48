"""`recstore build`, `recstore cat`, and `recstore head` of files: from files to stores and back."""

import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys

import launching
import pytest
from cli_folders import folder, run  # noqa: F401
from waiting import LIMIT_S, until

import recstore
from recstore.cli import cat, files

pyarrow = pytest.importorskip("pyarrow")
ROWS = [{"id": i, "name": f'{i}, "x"' if i else "", "half": i / 2, "note": None} for i in range(10)]


@pytest.fixture
def build_and_read(run):
    """Runs `recstore build`, which must succeed, and returns the records of its file."""

    def call(*arguments):
        status, out, err = run("build", *arguments, "-o", "out.recs", "--force")
        assert (status, err) == (0, "") and out.startswith("out.recs: ")
        with recstore.open("out.recs") as x:
            return x.to_dict() if isinstance(x, recstore.RecordDict) else x.to_list()

    return call


def write(name, text):
    pathlib.Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_tables():
    """Writes the same records to a file of each of six formats. Returns the names."""
    from pyarrow import feather, parquet

    table = pyarrow.Table.from_pylist(ROWS)
    parquet.write_table(table, "x.parquet")
    feather.write_feather(table, "x.feather")
    write("x.jsonl", lines(ROWS))
    write("x.json", json.dumps(ROWS))
    quoted = ['""' if not row["name"] else '"' + row["name"].replace('"', '""') + '"' for row in ROWS]
    cells = [[str(row["id"]), name, str(row["half"]), ""] for row, name in zip(ROWS, quoted, strict=True)]
    for name, delimiter in (("x.csv", ","), ("x.tsv", "\t")):
        write(name, "".join(delimiter.join(row) + "\n" for row in [list(ROWS[0]), *cells]))
    return ["x.parquet", "x.feather", "x.jsonl", "x.json", "x.csv", "x.tsv"]


# ---- build ----


def test_each_format_by_its_name(build_and_read, run):
    for name in write_tables():
        assert build_and_read(name) == ROWS
        assert build_and_read(name, "--n-rows", 3) == ROWS[:3]
        assert build_and_read(name, "--columns", "half,id") == [{"half": row["half"], "id": row["id"]} for row in ROWS]
    write("x.txt", "a\n\nb\n")
    assert build_and_read("x.txt") == ["a", "", "b"] and build_and_read("x.txt", "--empty", "skip") == ["a", "b"]
    assert build_and_read(write("y", "a\nb\n"), "--format", "text") == ["a", "b"]
    write("y.csv", "a\n1\n\n2\n")
    assert [len(build_and_read("y.csv", *more)) for more in ((), ("--empty", "skip"))] == [3, 2]
    for i in range(3):
        write(f"{i}.jsonl", lines([{"i": i}]))
    assert build_and_read("[01].jsonl", "2.jsonl", "0.jsonl") == [{"i": i} for i in (0, 1, 2, 0)]
    assert build_and_read("[0-9].jsonl", "--workers", 2) == [{"i": i} for i in range(3)]
    write("y.json", json.dumps({"a": {"b": [1, 2]}, "words": {"x": 1, "y": 2}}))
    assert build_and_read("y.json", "--records", "a.b") == [1, 2]
    assert build_and_read("y.json", "--records", "words", "--entries") == {"x": 1, "y": 2}
    report = json.loads(run("build", "x.csv", "-o", "out.recs", "--force", "--json")[1])
    with recstore.open("out.recs") as x:
        assert report.pop("seconds") >= 0
        assert report == {"output": "out.recs", "shared": None, "records": 10, "nbytes": x.nbytes}


def test_messages_about_files_name_options(run):
    for name, text, message in (
        ("x.csv", "a,a\n1,2\n", "--header A,B and --skip-rows 1"),
        ("x.csv", "a,b\n1\n", "give --errors skip to"),
        ("x.csv", 'a,b\n1,"2\n', "give --quote none if"),
        ("x.json", '{"a": [1], "b": {"x": 1}}', "choose one with --records, or --entries reads"),
    ):
        status, _, err = run("build", write(name, text), "-o", "y")
        assert status == 1 and message in err
    for name in ("none.xyz", "none", "*.xyz", "none.jsonl"):
        status, _, err = run("build", name, "-o", "x.recs")
        assert status != 0 and "no " in err and "format" not in err


def test_options_of_csv(build_and_read):
    write("x.txt", "about\na|'b|c'|1\nd|\xfc|2|3\n".encode("latin-1"))
    options = ["--delimiter", "|", "--quote", "'", "--encoding", "latin-1", "--skip-rows", 1, "--errors", "skip"]
    assert build_and_read("x.txt", "--format", "csv", *options, "--no-header") == [{"0": "a", "1": "b|c", "2": 1}]
    rows = build_and_read("x.txt", "--format", "csv", *options, "--header", "p,q,n", "--dtypes", "n=float")
    assert repr(rows) == "[{'p': 'a', 'q': 'b|c', 'n': 1.0}]"
    assert build_and_read(write("y.csv", 'a,b\n"x,1\n'), "--quote", "none", "--dtypes", "str") == [
        {"a": '"x', "b": "1"}
    ]
    assert build_and_read(write("y.txt", "a\tb\n1\t2\n"), "--format", "csv", "--delimiter", "tab") == [{"a": 1, "b": 2}]


def test_a_store_is_built_by_name_and_found_by_the_reader(run):
    write("x.csv", "a\n1\n")
    status, out, err = run("build", "x.csv", "--shared", "test-build", "--keep", "1h", "-o", "x.recs")
    assert (status, err) == (0, "")
    assert out.startswith("x.recs and test-build (shared, kept for 1h after its last use): 1 ")
    (kept,) = recstore.names.list("test-build")
    assert kept.state == "kept"
    with recstore.shared("test-build", recstore.sources.csv("x.csv")) as x, recstore.open("x.recs") as y:
        assert x.to_list() == y.to_list() == [{"a": 1}]
        assert [info.path for info in recstore.names.list("test-build")] == [kept.path]
    assert run("rm", "test-build")[0] == 0


def test_indexes_are_saved(run):
    write_tables()
    assert run("build", "x.csv", "-o", "x.recs", "--index-by", "id", "--index-by", "name", "--group-by", "half")[0] == 0
    with recstore.open("x.recs") as x:
        assert x.index_by("id")[7] == ROWS[7]
        assert len(x.info().indexes) == 3
    status, _, err = run("build", "x.csv", "-o", "y.recs", "--index-by", "zz")
    assert status == 1 and "zz" in err and err.count("\n") == 1


@pytest.mark.parametrize("path", ["/dev/null", "pipe"])
def test_a_device_or_pipe_stays_even_if_forced(run, folder, path):
    write_tables()
    os.mkfifo("pipe")
    for force in ([], ["--force"]):
        assert run("build", "x.csv", "-o", path, *force)[2].endswith(f"{path} is a device or a pipe: name a file\n")
    with recstore.RecordList([1]) as x:
        pytest.raises(FileExistsError, lambda: x.save(path)).match("a device or a pipe")
    assert not os.path.isfile(path)


@pytest.mark.parametrize("number", [100, 10**30])
def test_numbers_beyond_any_file_or_machine(run, folder, number):
    write_tables()
    assert run("build", "x.csv", "-o", "x.recs", "--workers", number, "--n-rows", number)[0] == 0
    for more in ([], ["--encoding", "latin-1"]):
        err = run("build", "x.csv", "-o", "y.recs", "--skip-rows", number, *more)[2]
        assert "the file has no row of names" in err
    assert recstore.RecordList([1], threads=number).to_list() == [1]


def test_an_existing_file_stays_unless_forced(run, folder):
    write_tables()
    write("x.recs", "mine")
    status, out, err = run("build", "x.csv", "-o", "x.recs")
    assert (status, out, err) == (1, "", "recstore build: x.recs exists; --force replaces it\n")
    write("bad.csv", "a,b\n1,2\n3\n")
    before = sorted(os.listdir())
    for bad in ("bad.csv", "none.csv"):
        assert run("build", bad, "-o", "x.recs", "--force")[0] == 1
        assert run("build", bad, "-o", "new.recs")[0] == 1
        assert sorted(os.listdir()) == before and pathlib.Path("x.recs").read_text() == "mine"
    assert run("build", "x.csv", "-o", "x.recs", "--force")[0] == 0


def command(*arguments, **options):
    return subprocess.Popen([sys.executable, launching.SAFE_PATH, "-m", "recstore.cli.main", *arguments], **options)


def test_ctrl_c_leaves_nothing(folder):
    """The signal comes while the build waits for more standard input."""
    process = command(
        *("build", "-", "--format", "jsonl", "-o", "x.recs"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(lines(ROWS).encode() * 10_000)
    process.stdin.flush()
    until(lambda: any(name.endswith(".tmp") for name in os.listdir()))
    assert len(os.listdir()) == 1
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (130, b"", b"recstore build: interrupted\n")
    assert os.listdir() == []


def test_ctrl_c_of_shards_leaves_no_temporary_file(folder):
    """The signal comes while processes add files to the set."""
    for number in range(4):
        text = "".join(json.dumps({"id": i, "text": os.urandom(40).hex()}) + "\n" for i in range(50_000))
        (folder / f"{number}.jsonl").write_text(text)
    process = command(
        *("build", "*.jsonl", "--shards", "set", "--shard-bytes", "1MiB", "--workers", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: os.path.isdir("set") and os.listdir("set"), pause=0.001)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (130, b"", b"recstore build: interrupted\n")
    assert not [name for name in os.listdir("set") if name.endswith(".tmp")]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.JSONL.gz", "a.feather"])
def test_a_store_is_not_named_like_another_format(run, folder, name):
    (folder / "in.jsonl").write_text("{}\n")
    status, _, err = run("build", "in.jsonl", "-o", name, "--force")
    assert status != 0 and "name it .recs" in err and not os.path.exists(name)


def test_standard_input():
    process = command("build", "-", "--format", "csv", "-o", "x.recs", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    process.communicate(b"a,b\n1,x\n2.5,y\n", timeout=LIMIT_S)
    assert process.returncode == 0
    with recstore.open("x.recs") as x:
        assert x.to_list() == [{"a": 1.0, "b": "x"}, {"a": 2.5, "b": "y"}]


# ---- cat ----


@pytest.fixture
def store():
    recstore.RecordList(ROWS).save("x.recs")
    return "x.recs"


def test_json_lines(run, store):
    assert run("cat", store) == run("cat", store, "--jsonl") == (0, lines(ROWS), "")
    assert run("cat", store, "-n", 2)[1] == lines(ROWS[:2])
    assert run("cat", store, "-n", 0)[1] == ""
    assert run("cat", store, "--rows=2:4")[1] == lines(ROWS[2:4])
    assert run("cat", store, "--rows=-2:")[1] == lines(ROWS[-2:])
    assert run("cat", store, "--rows=::5", "--columns", "half,id")[1] == lines(
        [{"half": row["half"], "id": row["id"]} for row in ROWS[::5]]
    )
    with recstore.RecordList(ROWS, name="test-cat"):
        assert run("cat", "test-cat") == (0, lines(ROWS), "")


def test_values_that_json_does_not_have(run):
    day = datetime.datetime(2020, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)
    recstore.RecordList([{"t": day, "s": "é\ud800", "n": (1, [2])}]).save("x.recs")
    assert json.loads(run("cat", "x.recs")[1]) == {"t": "2020-01-02T03:04:00+00:00", "s": "é\ud800", "n": [1, [2]]}


@pytest.mark.parametrize(("records", "form", "message"), [
    ([{"a": 1}, {"a": {"b": [0, b"x"]}}], "--jsonl", "record 1: a.b[1] is a bytes"),
    ([{"a": {("b", 1): 2}}], "--jsonl", "record 0: a: the key ('b', 1) is a tuple"),
    ([{"a": 1}, {"a": [2]}], "--csv", "record 1: 'a' is a list"), ([{"a": 1}, 5], "--csv", "record 1 is an int"),
])  # fmt: skip
def test_records_that_a_format_does_not_have(run, records, form, message):
    recstore.RecordList(records).save("x.recs")
    status, _, err = run("cat", "x.recs", form)
    assert status == 1 and message in err


def test_mappings(run):
    recstore.RecordDict({"a": 1, 2: [3]}).save("x.recs")
    assert run("cat", "x.recs")[1] == '{"key": "a", "value": 1}\n{"key": 2, "value": [3]}\n'
    for option in (["--csv"], ["--columns", "a"], ["--parquet", "y.parquet"]):
        assert "is a mapping" in run("cat", "x.recs", *option)[2]


def test_csv_round_trips(run, build_and_read, store):
    status, out, _ = run("cat", store, "--csv")
    assert status == 0 and out.startswith('id,name,half,note\n0,"",0.0,\n1,"1, ""x""",0.5,\n')
    assert build_and_read(write("y.csv", out)) == ROWS
    assert run("cat", store, "--csv", "--columns", "half", "-n", 2)[1] == "half\n0.0\n0.5\n"
    recstore.RecordList([{"m": {"a": 1}}, {"m": {}}, {}]).save("x.recs")
    assert run("cat", "x.recs", "--csv", "--columns", "m.a")[1] == "m.a\n1\n\n\n"
    recstore.RecordList([(1, "a"), (2,)]).save("x.recs")
    assert run("cat", "x.recs", "--csv")[1] == "0,1\n1,a\n2,\n"
    recstore.RecordList(["a", "b,c"]).save("x.recs")
    assert run("cat", "x.recs", "--csv")[1] == 'value\na\n"b,c"\n'
    recstore.RecordList([{"a": 1}, {"b": datetime.date(2020, 1, 2)}]).save("x.recs")
    assert run("cat", "x.recs", "--csv")[1] == "a,b\n1,\n,2020-01-02\n"
    recstore.RecordList([]).save("x.recs")
    assert run("cat", "x.recs", "--csv") == (0, "", "")


needs_streams = pytest.mark.skipif(not hasattr(pyarrow.RecordBatchReader, "from_stream"), reason="needs pyarrow 15")


@needs_streams
def test_parquet(run, store, monkeypatch):
    from pyarrow import parquet

    assert run("cat", store, "--parquet", "y.parquet", "--columns", "id,name", "--rows", "1:") == (0, "", "")
    assert parquet.read_table("y.parquet").to_pylist() == [{"id": row["id"], "name": row["name"]} for row in ROWS[1:]]
    assert "y.parquet exists; --force replaces it" in run("cat", store, "--parquet", "y.parquet")[2]
    assert run("cat", store, "--parquet", "y.parquet", "--force")[0] == 0
    with recstore.read_parquet("y.parquet") as x:
        assert x.to_list() == ROWS
    recstore.RecordList([{"a": 1}, {"a": "x"}]).save("mixed.recs")
    before = sorted(os.listdir())
    status, _, err = run("cat", "mixed.recs", "--parquet", "z.parquet")
    assert status == 1 and "'a'" in err and "several types" in err and err.count("\n") == 1
    assert sorted(os.listdir()) == before
    monkeypatch.setattr(cat, "_ROW_GROUP", 1)
    recstore.RecordList({"i": i} for i in range(100_000)).save("large.recs")
    assert run("cat", "large.recs", "--parquet", "z.parquet")[0] == 0
    with parquet.ParquetFile("z.parquet") as file:
        assert file.num_row_groups > 1 and file.metadata.num_rows == 100_000


def test_wrong_arguments_of_cat(run, store):
    assert "no record has the field 'zz'; there are: 'id', 'name'" in run("cat", store, "--columns", "zz")[2]
    recstore.RecordList([{"id": 1, "label": "a"}]).save("small.recs")  # a schema without names
    for form in ("--jsonl", "--csv", "--parquet=z"):
        status, out, err = run("cat", "small.recs", form, "--columns", "id,lable")
        assert (status, out) == (1, "") and err.endswith("there are: 'id', 'label'; did you mean 'label'?\n")


def test_a_closed_pipe_is_quiet(folder):
    recstore.RecordList({"i": i, "text": "x" * 100} for i in range(50_000)).save("x.recs")
    for option in ("--jsonl", "--csv"):
        process = command("cat", "x.recs", option, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(LIMIT_S) == 141


# ---- head ----


def test_head_of_each_format(run):
    for name in write_tables():
        out = f"0: {ROWS[0]}\n1: {ROWS[1]}\n... and more\n"
        assert run("head", name, "-n", 2) == (0, out, "")
        assert run("head", name, "-n", 10)[1].endswith(f"9: {ROWS[9]}\n")
        assert json.loads(run("head", name, "-n", 1, "--json")[1]) == [{"key": 0, "value": ROWS[0]}]
        assert run("head", name, "-n", 1, "--columns", "id")[1] == "0: {'id': 0}\n... and more\n"
    assert run("head", write("x.txt", "a\nb\n"), "-n", 1)[1] == "0: 'a'\n... and more\n"
    write("x.json", json.dumps({"a": [7, 8]}))
    assert run("head", "x.json", "--records", "a")[1] == "0: 7\n1: 8\n"


def test_head_reads_only_what_it_needs(run):
    write("x.jsonl", lines(ROWS) * 10_000 + "bad\n")
    assert run("head", "x.jsonl", "-n", 1)[0] == 0
    write("x.csv", "a,b\n" + "1,2\n" * 1_000_000 + "3\n")
    assert run("head", "x.csv", "-n", 1) == (0, "0: {'a': 1, 'b': 2}\n... and more\n", "")


def test_head_of_a_store_has_no_options_of_files(run, store):
    assert run("head", store, "--records", "a")[0] == 2
    os.rename(store, "x.csv")
    assert run("head", "x.csv", "-n", 1)[1] == f"0: {ROWS[0]}\n... 9 more\n", "its first bytes show that it is a store"


def test_formats_by_name():
    for name, form in (
        ("a.json", "json"), ("a.JSON.xz", "json"), ("a.ndjson", "jsonl"), ("a.csv.gz", "csv"), ("a.tab", "tsv"),
        ("a.pq", "parquet"), ("a.arrows", "arrow"), ("a.lst", "text"), ("a.recs", "recs"), ("a", None), ("a.gz", None)
    ):  # fmt: skip
        assert files.format_of(name) == form
