"""`recstore bench`: which records it reads from a file, that it checks answers, and what it prints."""

import datetime
import decimal
import json
import os
import sys

import pytest
import waiting
from cli_folders import write_file

import recstore
from recstore._core import native
from recstore.cli import bench_rivals, bench_timing, files, main, records
from recstore.cli.records import SourceError


def read(path, form=None, where=None):
    description, rows = records.read_any(path, form or files.format_of(path) or "text", where)
    return description, list(rows)


# ---- Files ----


def test_json(tmp_path):
    assert read(write_file(tmp_path / "a.json", "[1, null]")) == ("the list", [1, None])
    path = write_file(
        tmp_path / "b.json", '{"info": {"parts": [5]}, "images": [1], "annotations": [{"id": 1}, {"id": 2}]}'
    )
    description, rows = read(path)
    assert rows == [{"id": 1}, {"id": 2}]
    assert description == "the list under 'annotations', not images (1); --records chooses another list"
    assert read(path, where="images") == ("the list under 'images'", [1])
    assert read(path, where="info.parts") == ("the list under 'info.parts'", [5])
    description, rows = read(write_file(tmp_path / "c.json", '{"a": 1, "b": {}}'))
    assert description.startswith("the entries") and rows == [{"key": "a", "value": 1}, {"key": "b", "value": {}}]


@pytest.mark.parametrize(
    ("name", "text", "where", "message"),
    [
        ("x.json", "5", None, "neither a list nor an object"),
        ("x.json", "nope", None, "not JSON"),
        ("x.json", '{"a": [1]}', "b", "'b'"),
        ("x.jsonl", "1\nx\n", None, "line 2"),
        ("x.csv", "a,b\n1\n", None, "line 2"),
        ("x.parquet", "not a file", None, ""),
        ("x.recs", "not a store", None, ""),
    ],
)
def test_files_without_records(tmp_path, name, text, where, message):
    pytest.importorskip("pyarrow")
    with pytest.raises(SourceError, match=name) as caught:
        read(write_file(tmp_path / name, text), where=where)
    assert message in str(caught.value)


def test_lines(tmp_path):
    assert read(write_file(tmp_path / "a.jsonl", '{"a": 1}\n\n[2]\n'))[1] == [{"a": 1}, [2]]
    assert read(write_file(tmp_path / "a.txt", "x\n\ny z\r\n"))[1] == ["x", "", "y z"]
    assert read(write_file(tmp_path / "b.txt", '{"a": 1}\n'), form="jsonl")[1] == [{"a": 1}]


def test_tables(tmp_path):
    path = write_file(tmp_path / "a.csv", b'\xef\xbb\xbfid,text\r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,\r\n')
    assert read(path) == ("rows as dicts", [{"id": 1, "text": 'two\r\nlines, "quoted"'}, {"id": 2, "text": None}])
    assert read(write_file(tmp_path / "a.tsv", "a\tb\n1\t2,3\n"))[1] == [{"a": 1, "b": "2,3"}]


def test_parquet_and_arrow(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    rows = [
        {"a": 1, "day": datetime.date(2026, 1, 2), "price": decimal.Decimal("1.50")},
        {"a": None, "day": None, "price": None},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    feather.write_feather(pyarrow.Table.from_pylist(rows), tmp_path / "a.feather")
    assert read(str(tmp_path / "a.parquet")) == read(str(tmp_path / "a.feather")) == ("rows as dicts", rows)


def test_stores(tmp_path):
    """A store is recognized by its first bytes."""
    recstore.RecordList([1, {"a": 2}]).save(tmp_path / "a.recs")
    recstore.RecordDict({"k": 1}).save(tmp_path / "b")
    assert read(str(tmp_path / "a.recs")) == ("a store", [1, {"a": 2}])
    assert read(str(tmp_path / "b")) == ("a store", [{"key": "k", "value": 1}])


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    pytest.raises(SourceError, lambda: read(write_file(tmp_path / "x.parquet", ""))).match("needs pyarrow")


def test_a_pool_holds_values_that_marshal_cannot_write(tmp_path):
    values = [{"a": 1.5}, datetime.date(2026, 1, 2), "x", {"price": decimal.Decimal("1.50")}]
    path = str(tmp_path / "pool")
    assert records.write_pool(values, path)[0] == 4
    assert list(records.read_pool(path)) == values
    assert set(map(str, records.read_pool(path, 50))) == set(map(str, values))


# ---- Rivals ----

MIXED = [
    {"id": 1, "shape": [[1.5, 2.5]], "area": 2.5},
    {"id": 2, "shape": {"size": [1, 2]}, "area": 3},
    {"id": 3, "area": 0},
    {"id": 4, "shape": 7},
]


@pytest.mark.parametrize("rival", bench_rivals.EVERY, ids=lambda rival: rival.name)
@pytest.mark.parametrize("values", [MIXED, ["a", "b/c", ""], [[1, 2], []]], ids=["mixed", "text", "lists"])
def test_rivals_return_the_records(rival, values):
    try:
        container, _ = bench_timing.build(rival, values)
    except bench_rivals.Absent as error:
        if "not installed" in str(error):
            pytest.skip(str(error))
        assert rival is bench_rivals.Parquet and values is MIXED
        return
    assert len(container) == len(values) if rival.reads else container.nbytes > 0


def test_parquet_gets_the_fields_of_every_record():
    pytest.importorskip("pyarrow")
    few, many = ([{"a": 1}] + [{"b": f"{i}-{i * i}"} for i in range(n)] for n in (1, 2000))
    assert bench_rivals.Parquet.build(many).nbytes > bench_rivals.Parquet.build(few).nbytes + 2000


def test_a_rival_that_cannot_hold_the_records_says_why():
    pytest.importorskip("msgspec")
    pytest.raises(bench_rivals.Absent, lambda: bench_timing.build(bench_rivals.Msgspec, [1j])).match("complex")
    with pytest.raises(bench_rivals.Absent, match="at 0"):
        bench_timing.build(bench_rivals.Msgspec, [(1, 2)])


class _Wrong(bench_rivals.Rival):
    name = "wrong"
    nbytes = 1

    @classmethod
    def build(cls, records):
        return cls()

    def __getitem__(self, index):
        return float(index)


# ---- Timing ----


def test_orders():
    orders = bench_timing.orders(5000, 3000)
    assert len(set(orders["random"])) == 3000 == len(orders["hot"]) and max(orders["random"]) < 5000
    assert len(set(orders["hot"])) == bench_timing.HOT
    assert sorted(bench_timing.orders(3, 100)["random"]) == [0, 1, 2]


def test_ratios_compare_times_of_the_same_round():
    rounds = {"floor": [1, 10, 1], "msgspec decode": [2, 20, 2], "recstore": [4, 30, 4], "torch+pickle": [8, 90, 8]}
    rows = {row["rival"]: row for row in bench_timing.read_rows(rounds)}
    assert rows["recstore"] == {
        "rival": "recstore", "min_ns": 4, "median_ns": 4, "over_floor": 4, "of_msgspec_decode": 2,
        "times_torch_pickle": 2
    }  # fmt: skip
    del rounds["floor"]
    assert bench_timing.read_rows(rounds)[0]["over_floor"] is None and bench_timing.ratio([1], [0]) is None


def test_every_way_of_reading_is_timed_and_wrong_answers_are_not(monkeypatch):
    values = [{"id": i, "text": f"record {i}"} for i in range(300)]
    rivals = [bench_rivals.NumpyPickle, bench_rivals.Recstore, _Wrong]
    rows, sizes, absent = bench_timing.measure(values, rivals, 300, 1, lambda stage: None)
    assert {(row["reads"], row["rival"]) for row in rows} >= {
        (kind, name) for kind in ("random", "hot", "batch") for name in ("numpy+pickle", "recstore", "floor")
    }
    assert [row["rival"] for row in sizes] == ["numpy+pickle", "recstore"]
    assert sizes[1]["bytes_per_record"] == sizes[1]["nbytes"] / 300
    assert list(absent) == ["wrong"] and "wrong" not in {row["rival"] for row in rows}
    monkeypatch.setattr(bench_rivals.Recstore, "build", _Wrong.build)
    pytest.raises(bench_timing.WrongAnswer, lambda: bench_timing.build(bench_rivals.Recstore, [0, 1]))


# ---- The command ----


def run(*arguments):
    return waiting.python("-m", "recstore.cli.main", "bench", *arguments, cwd="/")


@pytest.mark.slow
def test_the_command(tmp_path):
    path = write_file(
        tmp_path / "a.json",
        json.dumps({"rows": [{"id": i, "name": f"n{i}", "x": i / 8} for i in range(500)], "other": [1]}),
    )
    done = run(path, "--n-rows", "400", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["records"] == 400 and report["source"].startswith("the list under 'rows', not other (1)")
    assert report["cut"] == "" and report["records_nbytes"] > 400
    assert {"recstore", "numpy+pickle"} <= {row["rival"] for row in report["sizes"]}
    assert {"list", "recstore", "floor"} <= {row["rival"] for row in report["reads"]}
    assert {row["container"] for row in report["workers"]} == {"list", "numpy+pickle", "recstore"}
    assert all(len(row["uss"]) == 1 for row in report["workers"])
    assert [field["field"] for field in report["fields"]] == ["", "id", "name", "x"]
    assert 0 < report["fields"][0]["nbytes"] < report["fields_of"]


@pytest.mark.slow
def test_the_report(tmp_path):
    done = run(
        write_file(tmp_path / "names.txt", "\n".join(f"images/{i:06}.jpg" for i in range(300))), "--workers", "0"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"300 records of {tmp_path}/names.txt: lines as text\n")
    assert " build  MB/s\n" in done.stdout and "\nrecstore " in done.stdout and "\nfloor " in done.stdout
    assert "bytes by field of the RecordList:\nfield " in done.stdout and "USS" not in done.stdout


def test_too_little_memory(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("recstore.shm.process_memory.available", lambda: 1000)
    assert main.main(["bench", write_file(tmp_path / "a.txt", "a\n" * 2000)]) == 1
    assert "too little free memory" in capsys.readouterr().err


def test_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert main.main(["bench", str(tmp_path / "gone")]) == 1
    assert os.listdir(tmp_path) == []


def test_the_floor_of_the_benchmarks_refuses_cycles():
    loop = []
    loop.append(loop)
    pytest.raises(RecursionError, lambda: native.rebuild(loop))
