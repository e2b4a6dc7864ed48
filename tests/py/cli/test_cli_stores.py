"""`recstore ls, info, head, verify, rm, gc`: by name and by file, as text and as JSON, and with hostile stores."""

import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess

import pytest
import waiting
from cli_folders import folder, run, run_json  # noqa: F401

import recstore
from recstore.cli import main, text


@pytest.fixture
def numbers():
    with recstore.shared("numbers", lambda: [{"id": i, "half": i / 2} for i in range(1234)], fingerprint="v1") as store:
        yield store


# ---- ls ----


def test_ls(run, run_json, request):
    assert run("ls") == (0, "no named stores or caches of this user\n", "") and run_json("ls") == []
    numbers = request.getfixturevalue("numbers")
    status, out, _ = run("ls")
    heading, line = out.splitlines()
    assert status == 0
    assert heading.split() == ["name", "kind", "fingerprint", "records", "bytes", "age", "builder", "attached", "state"]
    assert line.split()[:4] == ["numbers", "store", "v1", "1,234"] and f"process {os.getpid()}" in line
    assert line.endswith("in use")
    (entry,) = run_json("ls")
    assert {key: entry[key] for key in ("name", "fingerprint", "records", "nbytes", "state", "keep")} == {
        "name": "numbers", "fingerprint": "v1", "records": 1234, "nbytes": numbers.nbytes, "state": "in use", "keep": None}  # fmt: skip
    assert 0 <= entry["age"] < 60 and os.path.exists(entry["path"])
    assert run_json("gc")["removed"] == 0 and len(run_json("ls")) == 1, "it is in use"


def test_ls_elsewhere(tmp_path, numbers, run_json):
    with recstore.shared("other", lambda: [1], fingerprint="x", dir=tmp_path / "else"):
        assert [one["name"] for one in run_json("ls", "--dir", tmp_path / "else")] == ["other"]
        assert [one["name"] for one in run_json("ls")] == ["numbers"]


# ---- info, head, verify ----


def test_by_name(numbers, run, run_json):
    assert run("info", "numbers")[1].startswith("1,234 records, ")
    assert run("head", "numbers", "-n", "2") == (
        0,
        "0: {'id': 0, 'half': 0.0}\n1: {'id': 1, 'half': 0.5}\n... 1,232 more\n",
        "",
    )
    assert run("verify", "numbers") == (0, "numbers: good, 1,234 records\n", "")
    assert run_json("info", "numbers")["records"] == 1234
    assert run_json("head", "numbers", "-n", 1) == [{"key": 0, "value": {"id": 0, "half": 0.0}}]
    assert run_json("verify", "numbers") == {"what": "numbers", "good": True, "records": 1234, "nbytes": numbers.nbytes}
    assert numbers[5] == {"id": 5, "half": 2.5}
    assert len(recstore.names.list("numbers")) == 1, "inspecting removes nothing"


def test_info_of_fields(numbers, run, run_json):
    fields = run_json("info", "numbers", "--fields")["fields"]
    assert [(field["field"], field["values"]) for field in fields] == [("", 1234), ("id", 1234), ("half", 1234)]
    text = run("info", "numbers", "--fields")[1]
    assert "\n  half  " in text and "\nbesides " in text
    assert run_json("info", "numbers")["fields"] == [] and "besides" not in run("info", "numbers")[1]
    recstore.RecordDict({"a": {"x": 1}, "b": {"x": 2}}).save("map.rec")
    assert run_json("info", "map.rec", "--fields")["segments"][0]["fields"][0]["field"] == ""


def test_by_file(run, run_json):
    recstore.RecordList([1, 2.5, "three"]).save("x.rec")
    for what in ("x.rec", "./x.rec"):
        assert run("head", what) == run("head", what, "-n", "9") == (0, "0: 1\n1: 2.5\n2: 'three'\n", "")
        assert run_json("verify", what)["records"] == 3
        assert run_json("info", what)["backing"] == "file"


def test_a_name_has_priority_over_a_file(numbers, run):
    recstore.RecordList(["file"]).save("numbers")
    assert run("verify", "numbers")[1] == "numbers: good, 1,234 records\n"
    assert run("verify", "./numbers")[1] == "./numbers: good, 1 record\n"


def test_mappings(run, run_json):
    with recstore.RecordDict({"a": 1, 2: [3]}, name="map"):
        assert run("head", "map") == (0, "'a': 1\n2: [3]\n", "")
        assert run_json("head", "map") == [{"key": "a", "value": 1}, {"key": 2, "value": [3]}]
        assert run("verify", "map")[:2] == (0, "map: good, 2 records\n")
        assert run_json("info", "map")["records"] == 2
    recstore.RecordDict({}).save("empty")
    assert run("head", "empty") == (0, "", "") and run_json("head", "empty") == []
    assert run("verify", "empty")[1] == "empty: good, 0 records\n"


def test_which_fingerprint(numbers, run, run_json):
    with recstore.shared("numbers", lambda: [0], fingerprint="v2"):
        for command in ("info", "head", "verify"):
            status, out, err = run(command, "numbers")
            assert (status, out) == (1, "") and "'v1', 'v2'" in err and err.count("\n") == 1
        assert run_json("verify", "numbers", "--fingerprint", "v2")["records"] == 1
        assert run_json("verify", "numbers", "--fingerprint", "v1")["records"] == 1234
        assert run("verify", "numbers", "--fingerprint", "v3")[0] == 1


@pytest.mark.parametrize("command", ["info", "head", "verify"])
def test_missing_stores(command, run):
    for what in ("nothing", "x" * 300, ".hidden", "./nothing"):
        status, out, err = run(command, what)
        assert (status, out) == (1, "") and err.startswith(f"recstore {command}: ") and err.count("\n") == 1
    assert "a file 'nothing' does not exist either" in run(command, "nothing")[2]
    os.mkfifo("pipe")
    status, out, err = run(command, "pipe")
    assert (status, out) == (1, "") and "not a regular file" in err


@pytest.mark.parametrize("command", ["head", "verify"])
def test_damage(numbers, command, run):
    path = pathlib.Path(recstore.names.list("numbers")[0].path)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(0o400)
    status, out, err = run(command, "numbers")
    assert (status, out) == (1, "") and err.count("\n") == 1


# ---- Hostile stores ----


@dataclasses.dataclass
class Sample:
    name: str
    sizes: tuple


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


class Pickled:
    def __reduce__(self):
        return print, ("loaded",)


def test_nothing_is_loaded(run, run_json, capfdbinary):
    recstore.RecordList([Sample("a", (1, 2)), Pickled(), 3], on_unsupported="pickle").save("x")
    capfdbinary.readouterr()  # storing loads the first pickle of a class, as a check
    status, out, err = run("head", "x")
    lines = out.splitlines()
    assert (status, err, len(lines)) == (0, "", 3)
    assert lines[0].startswith("0: ") and lines[0].endswith("Sample(name='a', sizes=(1, 2))")
    assert lines[1].startswith("1: <not shown: ") and lines[2] == "2: 3" and "loaded\n" not in out
    answers = run_json("head", "x")
    assert answers[0]["value"] == {"name": "a", "sizes": [1, 2]}
    assert "error" in answers[1] and answers[2] == {"key": 2, "value": 3}
    recstore.RecordDict({"k": Pickled()}, on_unsupported="pickle").save("d")
    capfdbinary.readouterr()
    assert run("head", "d")[1].startswith("'k': <not shown: ")


def test_terminals_are_safe(run):
    evil = "\x1b[31m\x07\u202e\r\n"
    recstore.RecordList({"\x1b[31m\r": i, evil: evil, "b": evil.encode()} for i in range(300)).save("x")
    for command in ("head", "info"):
        out = run(command, "x")[1]
        assert not set(out) & set("\x1b\x07\u202e\r") and "31m" in out
    assert run("head", "x", "-n", 7)[1].count("\n") == 8


def test_cut_short(run, run_json):
    record = {
        "text": "y" * 10_000, "many": list(range(100_000)), "deep": nested(60), "big": 10**5000, "bytes": b"z" * 10_000
    }  # fmt: skip
    recstore.RecordList([record]).save("x")
    out = run("head", "x")[1]
    assert len(out) < 1000
    for part in ("(10,000 characters)", "(99,988 more)", "[...]", "<int of 16,610 bits>", "(10,000 bytes)"):
        assert part in out
    assert len(json.dumps(run_json("head", "x"))) < 1500


def test_values_as_json(run_json):
    import datetime
    import decimal

    values = [
        float("nan"), float("inf"), {1, 2}, {(1, 2): None}, datetime.date(2026, 1, 2), decimal.Decimal("1.5"), "\ud800",
        True, 1j
    ]  # fmt: skip
    recstore.RecordList(values).save("x")
    shown = [one["value"] for one in run_json("head", "x", "-n", 20)]
    assert shown == [
        "nan", "inf", "{1, 2}", {"(1, 2)": None}, "datetime.date(2026, 1, 2)", "Decimal('1.5')", "\ud800", True, "1j"
    ]  # fmt: skip


def test_brief():
    assert text.brief({"a": (1, [2.5, None], {3}), "b": "x"}) == "{'a': (1, [2.5, None], {3}), 'b': 'x'}"
    for value in ((), (1,), set(), frozenset(), frozenset({1}), {}, [], collections.deque(), collections.deque([1, 2])):
        assert text.brief(value) == repr(value)
    assert text.brief(recstore.Record("m.C", {"x": nested(9)})) == f"m.C(x={'[' * 6}...{']' * 6})"
    assert text.brief(range(10**5000)) == "<range>"


# ---- rm, gc ----


def test_rm(numbers, run, run_json):
    with recstore.shared("numbers", lambda: [0], fingerprint="v2", keep=True):
        assert run_json("rm", "numbers", "--fingerprint", "v2") == {"name": "numbers", "removed": 1}
    assert run("rm", "numbers") == (0, "numbers: removed 1 file; processes that use it continue\n", "")
    assert numbers[1] == {"id": 1, "half": 0.5} and recstore.names.list() == []
    status, out, err = run("rm", "numbers")
    assert (status, out) == (1, "") and "no segment 'numbers'" in err
    for name in ("../x", "a\nb", ""):
        status, out, err = run("rm", name)
        assert (status, out) == (2, "") and err.count("\n") == 1


def test_caches(run, run_json):
    with recstore.cache("frames", limit="1MB", slots=9) as cache:
        cache.put(3, b"x" * 5000)
        (entry,) = run_json("ls")
        assert (entry["kind"], entry["name"], entry["records"], entry["state"]) == ("cache", "frames", 1, "in use")
        assert entry["nbytes"] >= 5000 and run("ls")[1].splitlines()[1].split()[:2] == ["frames", "cache"]
        for command in ("info", "head", "verify"):
            status, out, err = run(command, "frames")
            assert (status, out) == (1, "") and "a cache has this name" in err
        assert run_json("gc")["removed"] == 0
        assert run("rm", "frames") == (0, "frames: removed 1 file; processes that use it continue\n", "")


def files_after_kill(keep):
    """Builds a store in a process that is killed; returns the number of files in the folder of stores."""
    code = f"import os, recstore; x = recstore.shared('left', lambda: [b'x' * 9000] * 9, fingerprint='f', keep={keep}); os.kill(os.getpid(), 9)"
    waiting.python("-c", code, cwd="/")
    return len(os.listdir(os.environ["RECSTORE_DIR"]))


def test_gc(run, run_json):
    assert run("gc") == (0, "nothing to remove\n", "")
    assert files_after_kill(False) == 1
    assert run_json("ls")[0]["state"] == "orphan"
    status, out, _ = run("gc")
    assert status == 0 and out.startswith("removed 1 file, ") and os.listdir(os.environ["RECSTORE_DIR"]) == []
    assert files_after_kill(True) == 1
    assert run_json("gc") == {"removed": 0, "bytes": 0} and run_json("ls")[0]["state"] == "kept"
    assert run_json("rm", "left")["removed"] == 1


def test_a_reader_that_stops_reading(numbers):
    """`recstore head ... | head -1` ends without a traceback."""
    read, write = os.pipe()
    os.close(read)
    command = "-m", "recstore.cli.main", "head", "numbers", "-n", "1000"
    done = waiting.python(*command, capture_output=False, stdout=write, stderr=subprocess.PIPE, cwd="/")
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_ascii_terminal():
    recstore.RecordList(["é→"]).save("x")
    command = "-m", "recstore.cli.main", "head", os.path.abspath("x")
    done = waiting.python(*command, cwd="/", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "0: '\\xe9\\u2192'\n", "")


# ---- The page ----


def test_the_page_has_every_command():
    page = pathlib.Path(__file__).resolve().parents[3] / "docs/commands.md"
    if not page.exists():
        pytest.skip("the documents are not here")
    described = list(dict.fromkeys(re.findall(r"^\| `recstore (\w+)", page.read_text(), re.MULTILINE)))
    (commands,) = (
        action.choices for action in main._parser()._actions if hasattr(action, "choices") and action.choices
    )
    assert described == [
        "demo", "bench", "build", "cat", "ls", "info", "head", "verify", "rm", "gc",
        "stat", "log", "cp", "tag", "compact", "delete", "counters", "monitor", "doctor"
    ] and sorted(described) == sorted(commands)  # fmt: skip
