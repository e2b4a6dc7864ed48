"""`recstore ls URL, stat, log, cp, tag`: sets of shards, as text and as JSON."""

import pytest
import shard_sets
from cli_folders import folder, run, run_json  # noqa: F401

import recstore
from recstore.cli import sets, text
from recstore.remote.set import copying, manifest
from recstore.remote.set.writer import ShardWriter


@pytest.fixture
def w(folder):
    """A writer of the set `train` with three manifests: two shard files, three, and another one."""
    w = ShardWriter("train")
    w.commit([w.write([1, 2, 3]), w.write([4])])
    w.commit(w.write([5]), append=True)
    w.commit(w.write([6, 7]))
    w.tag("best", 2)
    return w


def test_ls_of_a_list(w, run, run_json):
    contents = manifest.load(w.storage, 2)
    rows = run_json("ls", "train@best")
    assert [row["shard"] for row in rows] == [0, 1, 2] and [row["records"] for row in rows] == [3, 1, 1]
    assert [row["hash"] for row in rows] == contents.hashes and [row["nbytes"] for row in rows] == list(contents.sizes)
    heading, *lines = run("ls", "train@2")[1].splitlines()
    assert heading.split() == ["shard", "records", "bytes", "hash", "keys"]
    assert lines[0].split()[:2] == ["0", "3"] and lines[0].split()[-1] == contents.hashes[0][:12]
    assert len(run_json("ls", "train")) == 1


def test_ls_of_a_mapping(folder, run, run_json):
    shard_sets.write("map", [{"a": 1, "b\x1b": 2}, {"c": 3}])
    assert [(row["low"], row["high"]) for row in run_json("ls", "map")] == [("a", "b\x1b"), ("c", "c")]
    assert "'a' to 'b\\x1b'" in run("ls", "map")[1]


def test_stat(w, run, run_json):
    shown = run_json("stat", "train@best")
    sizes = sorted(manifest.load(w.storage, 2).sizes)
    newest = manifest.load(w.storage, 3)
    assert {key: shown[key] for key in ("manifest", "kind", "records", "files", "nbytes", "tags", "not_listed")} == {
        "manifest": 2, "kind": "list", "records": 5, "files": 3, "nbytes": sum(sizes), "tags": {"best": 2},
        "not_listed": None}  # fmt: skip
    assert [shown[name] for name in ("smallest", "median", "largest")] == sizes
    assert (shown["other_files"], shown["other_nbytes"]) == (1, newest.nbytes)
    status, out, _ = run("stat", "train")
    assert status == 0 and out.startswith("manifest     3 of ") and "best (manifest 2)" in out
    assert len(out.splitlines()) < 24


def test_stat_of_an_empty_set_with_hostile_attributes(folder, run, run_json):
    w = ShardWriter("empty")
    manifest.commit(w.storage, lambda old: manifest.Manifest("list", [], {"classes\x1b": ["\x1b[31m"] * 1000}))
    out = run("stat", "empty")[1]
    assert "\x1b" not in out and len(out) < 2000
    assert run_json("stat", "empty")["attributes"] == {"classes\x1b": ["\x1b[31m"] * 1000}


def test_log(w, run, run_json):
    rows = run_json("log", "train")
    assert [(row["manifest"], row["records"], row["files"], row["added"], row["removed"]) for row in rows] == [
        (3, 2, 1, 1, 3), (2, 5, 3, 1, 0), (1, 4, 2, 2, 0)]  # fmt: skip
    assert [row["tags"] for row in rows] == [[], ["best"], []] and rows[0]["created"].endswith("Z")
    assert run_json("log", "train", "-n", "2") == rows[:2]
    w.tag("best", delete=True)
    w.storage.delete(["manifest-1.json"])
    assert [(row["manifest"], row["added"]) for row in run_json("log", "train")] == [(3, 1), (2, None)]
    assert run("log", "train")[1].splitlines()[2].split()[0] == "2"


def test_log_leaves_out_a_manifest_that_gc_removes_meanwhile(w, run_json, monkeypatch):
    real = sets._pairs

    def pairs(storage, numbers):
        storage.delete(["manifest-2.json"])
        return real(storage, numbers)

    monkeypatch.setattr(sets, "_pairs", pairs)
    assert [(row["manifest"], row["added"], row["removed"]) for row in run_json("log", "train")] == [
        (3, 1, 2),
        (1, 2, 0),
    ]


def test_many_manifests_are_logged_in_order(folder, run_json):
    w = ShardWriter("many")
    entry = w.write([1])
    for n in range(3 * copying.THREADS):
        manifest.commit(w.storage, lambda old: manifest.Manifest("list", entry.shards, {"n": n}))
    numbers = [row["manifest"] for row in run_json("log", "many")]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) == 3 * copying.THREADS


def test_cp(w, run, run_json):
    status, out, err = run("cp", "train@best", "copy")
    assert (status, err) == (0, "") and "copy@1: 5 records in 3 shard files" in out and "3 files copied" in out
    assert recstore.open("copy").to_list() == [1, 2, 3, 4, 5]
    again = run_json("cp", "train@best", "copy")
    assert (again["manifest"], again["copied_files"], again["copied_nbytes"], again["files"]) == (1, 0, 0, 3)
    shard_sets.write("map", [{"a": 1}])
    assert run("cp", "map", "copy")[0] == 1


def test_a_bar_on_a_terminal(w, run, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sets, "shows_bars", lambda: True)
    status, _, err = run("cp", "train", "copy")
    assert status == 0 and "copying" in err and "100%" in err
    assert not text.shows_bars(), "standard error is not a terminal"


def test_tag(w, run, run_json):
    assert run("tag", "train", "new") == (0, f"{w.url}@new is manifest 3\n", "")
    assert run_json("tag", "train", "new", "1") == {"shards": w.url, "tag": "new", "manifest": 1}
    assert run("cat", "train@new")[1] == "1\n2\n3\n4\n" and run("verify", "train@best")[0] == 0
    assert "manifest 1 of" in run("info", "train@new")[1]
    assert run("tag", "train", "new", "--delete") == (0, "removed the tag new\n", "")
    assert run("cat", "train@new")[0] == 1
    assert run_json("gc", "train", "--days", "0")["kept"] == [2, 3]


def test_a_store_that_forbids_lists(made, run, run_json, monkeypatch):
    for name in ("endpoint", "region", "access_key_id", "secret_access_key"):
        monkeypatch.setenv(f"AWS_{name}".upper(), made.options[name])
    monkeypatch.setenv("RECSTORE_PATIENCE", "30")
    assert run_json("stat", made.at)["other_files"] == 0 and len(run_json("log", made.at)) == 1
    run_json("tag", made.at, "best")
    made.deny(1000, method="GET", match="list-type")
    for reference in ("1", "best"):
        assert len(run_json("ls", f"{made.at}@{reference}")) == 6
        shown = run_json("stat", f"{made.at}@{reference}")
        assert shown["records"] == 360 and shown["tags"] is None and "cannot list" in shown["not_listed"]
        assert "not listed" in run("stat", f"{made.at}@{reference}")[1]
        assert run_json("cp", f"{made.at}@{reference}", "copy")["files"] == 6
    for arguments in (["ls"], ["stat"], ["log"], ["cp"]):
        status, out, err = run(*arguments, made.at, *(["copy"] if arguments == ["cp"] else []))
        assert (status, out) == (1, "") and "cannot list" in err and err.count("\n") == 1
