"""`recstore bench`: what is read of a user's file, that answers are checked, and what is printed."""

import datetime
import decimal
import gzip
import json
import lzma
import os
import signal
import sys

import pytest
import waiting
from cli_folders import wrote

import recstore
from recstore._core import native
from recstore.cli import bench_rivals, bench_timing, files, main, records
from recstore.cli.records import SourceError


def taken(path, form=None, where=None):
    what, found = records.read_any(path, form or files.format_of(path) or "text", where)
    return what, list(found)


# ---- Files ----


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.json", "json"),
        ("a.JSON.xz", "json"),
        ("a.ndjson", "jsonl"),
        ("a.csv.gz", "csv"),
        ("a.tsv", "tsv"),
        ("a.pq", "parquet"),
        ("a.txt", "text"),
        ("a", None),
        ("a.gz", None),
    ],
)
def test_the_name_says_the_format(name, form):
    assert files.format_of(name) == form


def test_json(tmp_path):
    assert taken(wrote(tmp_path / "a.json", "[1, null]")) == ("the list", [1, None])
    path = wrote(tmp_path / "b.json", '{"info": {"parts": [5]}, "images": [1], "annotations": [{"id": 1}, {"id": 2}]}')
    what, found = taken(path)
    assert found == [{"id": 1}, {"id": 2}]
    assert what == "the list under 'annotations', not images (1); --records says another one"
    assert taken(path, where="images") == ("the list under 'images'", [1])
    assert taken(path, where="info.parts") == ("the list under 'info.parts'", [5])
    what, found = taken(wrote(tmp_path / "c.json", '{"a": 1, "b": {}}'))
    assert what.startswith("the entries") and found == [{"key": "a", "value": 1}, {"key": "b", "value": {}}]


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("5", None, "neither a list nor an object"),
        ("nope", None, "not JSON"),
        ('{"a": 1}\n{"a": 2}', None, "read_jsonl reads one value a line"),
        ('{"a": [1]}', "b", "there is no 'b'; arrays in it: 'a' (1)"),
        ('{"a": {"c": [1]}}', "a.b", "there is no 'a.b'; arrays in it: 'a.c' (1)"),
        ('{"a": {"c": [1]}}', "a", "'a' is an object, not an array; arrays in it: 'a.c' (1)"),
        ("[1]", "a", "there is no 'a'"),
    ],
)
def test_json_without_records(tmp_path, text, where, said):
    with pytest.raises(SourceError, match="x.json") as caught:
        taken(wrote(tmp_path / "x.json", text), where=where)
    assert said in str(caught.value)


def test_lines(tmp_path):
    assert taken(wrote(tmp_path / "a.jsonl", '{"a": 1}\n\n[2]\n'))[1] == [{"a": 1}, [2]]
    assert taken(wrote(tmp_path / "a.txt", "x\n\ny z\r\n"))[1] == ["x", "", "y z"]
    assert taken(wrote(tmp_path / "b.txt", '{"a": 1}\n'), form="jsonl")[1] == [{"a": 1}]
    with pytest.raises(SourceError, match="line 2: not JSON"):
        taken(wrote(tmp_path / "c.jsonl", "1\nx\n"))


def test_tables(tmp_path):
    pytest.importorskip("pyarrow")
    path = wrote(tmp_path / "a.csv", b'\xef\xbb\xbfid,text\r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,\r\n')
    assert taken(path) == ("rows as dicts", [{"id": 1, "text": 'two\r\nlines, "quoted"'}, {"id": 2, "text": None}])
    assert taken(wrote(tmp_path / "a.tsv", "a\tb\n1\t2,3\n"))[1] == [{"a": 1, "b": "2,3"}]
    assert len(taken(wrote(tmp_path / "l.csv", "a\n" + "x" * 200_000 + "\n"))[1][0]["a"]) == 200_000
    for text, said in (
        ("a,b\n1\n", "line 2: 1 cells, and 2 expected"),
        ("a,a\n1,2\n", "2 columns are called 'a'"),
        ("", "no row of names"),
    ):
        pytest.raises(SourceError, lambda: taken(wrote(tmp_path / "x.csv", text))).match(said)


def test_parquet_and_arrow(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    rows = [
        {"a": 1, "day": datetime.date(2026, 1, 2), "price": decimal.Decimal("1.50")},
        {"a": None, "day": None, "price": None},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    feather.write_feather(pyarrow.Table.from_pylist(rows), tmp_path / "a.feather")
    assert taken(str(tmp_path / "a.parquet")) == taken(str(tmp_path / "a.feather")) == ("rows as dicts", rows)
    pytest.raises(SourceError, lambda: taken(wrote(tmp_path / "x.parquet", "no such thing"))).match("x.parquet")


def test_stores(tmp_path):
    """The first bytes say what they are."""
    recstore.RecordList([1, {"a": 2}]).save(tmp_path / "a.recs")
    recstore.RecordDict({"k": 1}).save(tmp_path / "b")
    assert taken(str(tmp_path / "a.recs")) == ("a store", [1, {"a": 2}])
    assert taken(str(tmp_path / "b")) == ("a store", [{"key": "k", "value": 1}])
    pytest.raises(SourceError, lambda: taken(wrote(tmp_path / "x.recs", "no such thing"))).match("x.recs")


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    pytest.raises(SourceError, lambda: taken(wrote(tmp_path / "x.parquet", ""))).match("needs pyarrow")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files(tmp_path, pack):
    suffix = "gz" if pack is gzip.compress else "xz"
    text = b"\n".join(b"%d" % i for i in range(1000))
    assert taken(wrote(tmp_path / f"a.jsonl.{suffix}", pack(text)))[1] == list(range(1000))
    for name, packed in ((f"b.jsonl.{suffix}", pack(text)[:-30]), (f"c.json.{suffix}", pack(b"[1]")[:-6])):
        pytest.raises(SourceError, lambda: taken(wrote(tmp_path / name, packed))).match("cannot be unpacked")


def test_a_pool_holds_what_marshal_does_not(tmp_path):
    values = [{"a": 1.5}, datetime.date(2026, 1, 2), "x", {"price": decimal.Decimal("1.50")}]
    path = str(tmp_path / "pool")
    assert records.write_pool(values, path)[0] == 4
    assert list(records.read_pool(path)) == values
    assert {str(one) for one in records.read_pool(path, 50)} == {str(one) for one in values}


# ---- Rivals ----

MIXED = [
    {"id": 1, "shape": [[1.5, 2.5]], "area": 2.5},
    {"id": 2, "shape": {"size": [1, 2]}, "area": 3},
    {"id": 3, "area": 0},
    {"id": 4, "shape": 7},
]


@pytest.mark.parametrize("rival", bench_rivals.EVERY, ids=lambda rival: rival.name)
@pytest.mark.parametrize("held", [MIXED, ["a", "b/c", ""], [[1, 2], []]], ids=["mixed", "text", "lists"])
def test_rivals_give_the_records_back(rival, held):
    try:
        container, _ = bench_timing.build(rival, held)
    except bench_rivals.Absent as error:
        if "not installed" in str(error):
            pytest.skip(str(error))
        raise
    assert len(container) == len(held) if rival.reads else container.nbytes > 0


def test_a_rival_that_cannot_hold_the_records_says_why():
    pytest.importorskip("msgspec")
    pytest.raises(bench_rivals.Absent, lambda: bench_timing.build(bench_rivals.Msgspec, [1j])).match("complex")
    with pytest.raises(bench_rivals.Absent, match="another record at 0"):
        bench_timing.build(bench_rivals.Msgspec, [(1, 2)])


class _Wrong(bench_rivals.Rival):
    name = "wrong"
    nbytes = 1

    @classmethod
    def build(cls, records):
        return cls()

    def __getitem__(self, index):
        return float(index)


def test_wrong_answers_are_not_timed(monkeypatch):
    rows, sizes, absent = bench_timing.measure([0, 1], [_Wrong], 2, 1, lambda stage: None)
    assert (sizes, absent) == ([], {"wrong": "wrong gives another record at 0"})
    assert "wrong" not in {row["rival"] for row in rows}
    monkeypatch.setattr(bench_rivals.Recstore, "build", _Wrong.build)
    pytest.raises(bench_timing.WrongAnswer, lambda: bench_timing.build(bench_rivals.Recstore, [0, 1]))


# ---- Timing ----


def test_orders():
    found = bench_timing.orders(5000, 3000)
    assert len(set(found["random"])) == 3000 == len(found["hot"]) and max(found["random"]) < 5000
    assert len(set(found["hot"])) == bench_timing.HOT
    assert sorted(bench_timing.orders(3, 100)["random"]) == [0, 1, 2]


def test_ratios_are_those_of_a_round():
    taken = {"floor": [1, 10, 1], "msgspec decode": [2, 20, 2], "recstore": [4, 30, 4], "torch+pickle": [8, 90, 8]}
    rows = {row["rival"]: row for row in bench_timing.read_rows(taken)}
    assert rows["recstore"] == {
        "rival": "recstore", "min_ns": 4, "median_ns": 4, "over_floor": 4, "of_msgspec_decode": 2,
        "times_torch_pickle": 2
    }  # fmt: skip
    del taken["floor"]
    assert bench_timing.read_rows(taken)[0]["over_floor"] is None and bench_timing.ratio([1], [0]) is None


def test_every_way_of_reading_is_timed():
    held = [{"id": i, "text": f"record {i}"} for i in range(600)]
    rows, sizes, absent = bench_timing.measure(
        held, [bench_rivals.NumpyPickle, bench_rivals.Recstore], 600, 2, lambda stage: None
    )
    assert {(row["reads"], row["rival"]) for row in rows} >= {
        (kind, name) for kind in ("random", "hot", "batch") for name in ("numpy+pickle", "recstore", "floor")
    }
    assert [row["rival"] for row in sizes] == ["numpy+pickle", "recstore"] and absent == {}
    assert sizes[1]["bytes_per_record"] == sizes[1]["nbytes"] / 600


# ---- The command ----


def run(*arguments):
    return waiting.python("-m", "recstore.cli.main", "bench", *arguments, cwd="/")


@pytest.mark.slow
def test_the_command(tmp_path):
    path = wrote(
        tmp_path / "a.json",
        json.dumps({"rows": [{"id": i, "name": f"n{i}", "x": i / 8} for i in range(500)], "other": [1]}),
    )
    done = run(path, "--n-rows", "400", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["records"] == 400 and found["source"].startswith("the list under 'rows', not other (1)")
    assert found["cut"] == ""
    assert {"recstore", "numpy+pickle"} <= {row["rival"] for row in found["sizes"]}
    assert {"list", "recstore", "floor"} <= {row["rival"] for row in found["reads"]}
    assert {row["container"] for row in found["workers"]} == {"list", "numpy+pickle", "recstore"}
    assert all(len(row["uss"]) == 1 for row in found["workers"])
    assert [one["field"] for one in found["fields"]] == ["", "id", "name", "x"]
    assert 0 < found["fields"][0]["nbytes"] < found["fields_of"]


@pytest.mark.slow
def test_the_report(tmp_path):
    done = run(wrote(tmp_path / "names.txt", "\n".join(f"images/{i:06}.jpg" for i in range(300))), "--workers", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"300 records of {tmp_path}/names.txt: lines as text\n")
    assert "\nrecstore " in done.stdout and "\nfloor " in done.stdout
    assert "bytes by field of the RecordList:\nfield " in done.stdout and "USS" not in done.stdout


@pytest.fixture
def signals():
    """The command sets an answer to SIGTERM, which must not outlive the test."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gone.json", None, "gone.json"),
        ("empty.txt", "", "no records in"),
        ("none.json", '{"a": []}', "no records in"),
        ("bad.jsonl", "{", "bad.jsonl, line 1: not JSON"),
        ("lines.json", '{"a": 1}\n{"a": 2}', "--format jsonl reads one value a line"),
        ("deep.json", "[" * 100_000, "more than 1024 brackets are open"),
    ],
)
def test_files_without_records(tmp_path, signals, capsys, name, text, said):
    path = str(tmp_path / name) if text is None else wrote(tmp_path / name, text)
    assert main.main(["bench", path]) == 1
    out, err = capsys.readouterr()
    last = err.rstrip("\n").rpartition("\n")[2]
    assert out == "" and last.startswith("recstore bench: ") and said in last


def test_records_is_for_json(tmp_path, capsys):
    assert main.main(["bench", wrote(tmp_path / "a.txt", "x"), "--records", "a"]) == 2
    assert "--records is for json" in capsys.readouterr().err


def test_too_little_memory(tmp_path, signals, monkeypatch, capsys):
    monkeypatch.setattr("recstore.shm.process_memory.available", lambda: 1000)
    assert main.main(["bench", wrote(tmp_path / "a.txt", "a\n" * 2000)]) == 1
    assert "too little free memory" in capsys.readouterr().err


def test_nothing_is_left(tmp_path, signals, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert main.main(["bench", str(tmp_path / "gone")]) == 1
    assert os.listdir(tmp_path) == []


def test_the_floor_of_the_benchmarks_refuses_cycles():
    loop = []
    loop.append(loop)
    pytest.raises(RecursionError, lambda: native.rebuild(loop))
