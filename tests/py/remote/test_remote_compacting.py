"""recstore.remote.set.compacting and rewriting: merging the small shard files of a set."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import time

import kinds
import numpy as np
import pytest
import shard_sets
import value_kinds
from alike import alike
from changed_sets import CLASSES, at_commit, commit_all, contents, newest
from hypothesis import given, settings
from hypothesis import strategies as st
from s3_sets import ALL, PARTS
from waiting import until

import recstore
from recstore.cli import main
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import collecting, manifest, rewriting
from recstore.remote.set.compacting import compact
from recstore.remote.set.deleting import delete
from recstore.remote.set.writer import ShardWriter

MIB = 1 << 20


# ---- What is merged ----


__all__ = ["at_commit"]

VALUES = st.sampled_from(sorted(value_kinds.KINDS)).map(value_kinds.KINDS.get)
RECORDS = VALUES | st.builds(
    lambda n, value: {"id": n, "text": f"text {n % 7}", "value": value, "array": np.arange(n % 300)},
    st.integers(0, 1000),
    VALUES,
)
SHAPES = {
    "values": st.lists(RECORDS, min_size=1, max_size=30),
    "dicts": st.integers(1, 200).map(lambda n: shard_sets.records(n, n)),
    "pairs": st.dictionaries(
        st.integers(0, 40) | st.text(max_size=2) | st.none() | st.floats(0, 5), RECORDS, min_size=1
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15)
@given(data=st.data())
def test_the_contents_do_not_change(tmp_path_factory, shape, data):
    url = tmp_path_factory.mktemp("set") / "set"
    parts = data.draw(st.lists(SHAPES[shape], min_size=1, max_size=6))
    commit_all(url, parts, compression=data.draw(st.sampled_from(["auto", "none"])))
    before, expected = newest(url), contents(url)
    result = compact(url)
    after = newest(url)
    assert alike(contents(url), expected) and after.length == before.length and after.number == result.number
    assert result.number == 1 + (result.files > 0) and len(after) == len(before) - result.files + result.new_files
    if shape != "pairs":
        assert len(after) == 1
    assert compact(url) == (after.number, 0, 0)
    assert alike(contents(f"{url}@1"), expected), "readers of the old manifest notice nothing"


def test_only_small_files_are_written_again(tmp_path):
    """Files of about shard_bytes; the others keep their names and places."""

    def noise(n):
        return [os.urandom(1000) for _ in range(n)]

    parts = [noise(300), noise(200), noise(900), noise(100), noise(600), *(noise(150) for _ in range(20))]
    w = commit_all(tmp_path, parts)
    before = newest(tmp_path)
    result = compact(tmp_path, shard_bytes="1MiB")
    after = newest(tmp_path)
    assert result.files == 22 and after.hashes[1:4] == before.hashes[2:5]
    assert after.counts[0] == 500 and 3 <= len(after) - 4 <= 4
    assert all(0.9 < nbytes / MIB < 1.1 for nbytes in after.sizes[4:-1])
    assert contents(tmp_path) == sum(parts, [])
    assert compact(tmp_path, shard_bytes="1MiB") == (2, 0, 0), "a second time changes nothing"
    collecting.gc(tmp_path, days=0)
    assert sorted(name for name, *_ in w.storage.list("")) == sorted(
        ["manifest-2.json", *(f"{hash_}.recs" for hash_ in after.hashes)]
    )


def test_a_progress_bar_of_bytes(tmp_path, capfd):
    pytest.importorskip("rich")
    commit_all(tmp_path, [[[1]], [[2]], [[3]]])
    assert compact(tmp_path, progress=True).files == 3
    assert "100%" in capfd.readouterr().err
    assert delete(tmp_path, [], field=0, dry_run=True, progress=True).records == 0
    assert "100%" in capfd.readouterr().err


def test_a_key_in_several_files_stays_in_several_files(tmp_path):
    parts = [{"a": 1, "b": 2}, {"c": 3}, {"b": 4, "d": 5}, {"e": 6}, {"b": 7}, {1: "int"}, {1.0: "float"}]
    commit_all(tmp_path, parts)
    expected = contents(tmp_path)
    assert compact(tmp_path) == (2, 6, 3) and contents(tmp_path) == expected
    with recstore.open(tmp_path) as d:
        assert d["b"] == 7 and len(d) == 9 and d[1] == "float"
    assert compact(tmp_path) == (2, 0, 0)


def test_files_with_objects_of_classes_as_keys_stay(tmp_path):
    parts = [{kinds.Frozen(i): i} for i in range(3)] + [{frozenset({i}): i} for i in range(3)] + [{"a": 1}, {"b": 2}]
    commit_all(tmp_path, parts)
    assert compact(tmp_path) == (2, 5, 1)
    with recstore.open(tmp_path, classes=[kinds.Frozen]) as d:
        assert d[kinds.Frozen(1)] == 1 and d[frozenset({2})] == 2 and d["b"] == 2


def test_saved_indexes_and_attributes_stay(tmp_path):
    w = ShardWriter(tmp_path, index_by="i", group_by=["text", ("text",)])
    old = ShardWriter(tmp_path)
    parts = [shard_sets.records(60, 60 * i) for i in range(6)]
    entries = [(old if i == 3 else w).write(part) for i, part in enumerate(parts)]
    for entry in entries:
        entry.attributes["classes"] = ["a", "b"]
    w.commit(entries)
    assert compact(tmp_path) == (2, 5, 2), "files with other indexes are not merged"
    after = newest(tmp_path)
    assert list(after.counts) == [180, 60, 120] and after.attributes == {"classes": ["a", "b"]}
    for i, (first, indexed) in enumerate([(0, True), (180, False), (240, True)]):
        with recstore.open(w.storage.path(f"{after.hashes[i]}.recs")) as x:
            assert len(rewriting.indexes_of(x.segments[0])) == 2 * indexed
            assert x.index_by("i")[first]["i"] == first


def test_neither_classes_nor_pickles_are_loaded(tmp_path, monkeypatch):
    """Objects of classes, equal objects in a set, and pickled values are stored as they were."""
    part = [
        {"plain": kinds.Plain(1), "pickled": len, "set": {kinds.Slotted(1), kinds.Slotted(2)}, "enum": kinds.Word.YES}
    ]
    w = commit_all(tmp_path, [part, part], on_unsupported="pickle")
    kinds.constructor_calls.clear()
    recstore.register(kinds.Plain, encode=lambda p: 1 / 0, decode=lambda p: 1 / 0)
    monkeypatch.setattr("pickle.loads", lambda *_: 1 / 0)
    assert compact(tmp_path) == (2, 2, 1) and not kinds.constructor_calls
    monkeypatch.undo()
    recstore._core.trust.registered.pop((kinds.Plain.__module__, "Plain"))
    with recstore.open(w.url, classes=CLASSES, allow_pickle=True) as x:
        assert x[1] == part[0] and alike(x[0], part[0])


def test_arrays_may_be_views_afterwards(tmp_path):
    parts = [[np.arange(1000) + i] for i in range(2)]
    commit_all(tmp_path, parts, arrays="view")
    compact(tmp_path, arrays="view")
    with recstore.open(tmp_path, arrays="view") as x:
        array = x[1]
        assert not array.flags.owndata and np.array_equal(array, parts[1][0])
        del array


@dataclasses.dataclass(eq=False)
class Same:
    """Two objects are different, but their Records are equal."""

    x: int


def test_different_objects_with_equal_fields(tmp_path):
    values = [frozenset({Same(1), Same(1)}), {Same(1): 1, Same(1): 2}, {Same(1), Same(1)}, [Same(1)]]
    commit_all(tmp_path, [values, values], on_unsupported="pickle")
    assert compact(tmp_path) == (2, 2, 1)
    with recstore.open(tmp_path, classes=[Same]) as x:
        assert [list(map(len, x)), [type(v) for v in x]] == [[2, 2, 2, 1] * 2, [frozenset, dict, set, list] * 2]
    commit_all(tmp_path / "keys", [{Same(1): 1, Same(1): 2, "a": 3}])
    assert delete(tmp_path / "keys", ["a"]) == (2, 1, 1)
    with recstore.open(tmp_path / "keys", classes=[Same]) as d:
        assert list(d.values()) == [1, 2]


def test_empty_and_missing_sets(tmp_path):
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: compact(tmp_path))
    pytest.raises(ValueError, lambda: compact(f"{tmp_path}@1")).match("leave out @")
    w = commit_all(tmp_path, [[]])
    assert compact(w.url) == (1, 0, 0)
    pytest.raises(ValueError, lambda: compact(w.url, shard_bytes=1)).match("at least 1 MiB")


# ---- Damage ----


def test_a_damaged_file(tmp_path):
    before = shard_sets.write(tmp_path, PARTS)
    path = shard_sets.damage(storage_of(tmp_path), f"{before.hashes[4]}.recs")
    error = pytest.raises(recstore.errors.CorruptError, lambda: compact(tmp_path)).value
    assert error.filename == path and newest(tmp_path).hashes == before.hashes


def test_a_file_that_was_written_damaged(bucket, server):
    """Its name is the hash of its content."""
    before = shard_sets.write(server.at, PARTS, server.options)
    data = bucket.read(f"{before.hashes[3]}.recs")[:-500]
    hash_ = hashlib.blake2b(data, digest_size=20).hexdigest()
    bucket.write(f"{hash_}.recs", data)
    shards = before.shards()
    shards[3] = manifest.Shard(hash_, len(data), 60)
    manifest.commit(bucket, lambda old: manifest.Manifest("list", shards))
    error = pytest.raises(recstore.errors.CorruptError, lambda: compact(server.at, options=server.options)).value
    assert error.filename == bucket.of(f"{hash_}.recs") and newest(server.at, server.options).number == 2


# ---- Other writers ----


def test_an_append_in_the_meantime(tmp_path, at_commit):
    w = commit_all(tmp_path, PARTS)
    at_commit(lambda: w.commit(w.write([1, 2]), append=True))
    assert compact(tmp_path) == (3, 6, 1) and contents(tmp_path) == [*ALL, 1, 2] and len(newest(tmp_path)) == 2


@pytest.mark.parametrize("change", ["remove", "replace", "compact"])
def test_a_conflict(tmp_path, at_commit, change):
    w = commit_all(tmp_path, PARTS)
    actions = {
        "remove": lambda: w.remove(newest(tmp_path).hashes[3]),
        "replace": lambda: w.commit(w.write([1])),
        "compact": lambda: compact(tmp_path),
    }
    at_commit(actions[change])
    pytest.raises(recstore.errors.ConflictError, lambda: compact(tmp_path)).match("repeat it")
    after = newest(tmp_path)
    assert after.number == 2
    collecting.gc(tmp_path, days=0)
    assert len(list(w.storage.list())) == 1 + len(after) and list(w.storage.leftovers()) == []


def test_a_record_that_is_lost_in_a_copy(tmp_path, monkeypatch):
    commit_all(tmp_path, PARTS)
    real = rewriting.ShardFiles.extend
    monkeypatch.setattr(rewriting.ShardFiles, "extend", lambda self, records: real(self, list(records)[1:]))
    pytest.raises(recstore.errors.BuildError, lambda: compact(tmp_path)).match("360 records became 354")
    assert newest(tmp_path).number == 1


KILLED = """
import sys, time
from recstore.remote.set import rewriting
real = rewriting.Rewriting.copy
def copy(*arguments):
    print("copies", flush=True)
    real(*arguments)
    time.sleep(0.05)
rewriting.Rewriting.copy = copy
rewriting.Rewriting.commit = lambda self: (print("writes no manifest", flush=True), time.sleep(60))
from recstore.remote.set.compacting import compact
from recstore.remote.set.deleting import delete
compact(sys.argv[1], options=eval(sys.argv[2]), dir=sys.argv[3])
"""


@pytest.mark.parametrize("line", [1, 6])
def test_a_killed_compaction(made, tmp_path, line):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, made.at, repr(made.options), str(tmp_path)], stdout=subprocess.PIPE
    )
    for _ in range(line + 1):
        assert process.stdout.readline()
    time.sleep(0.02)
    process.kill()
    process.wait()
    process.stdout.close()
    assert os.listdir(tmp_path) == [] and newest(made.at, made.options).number == 1

    def has_only_the_set():
        collecting.gc(made.at, days=0, options=made.options)
        return len(list(storage_of(made.at, made.options).list())) == 7

    until(has_only_the_set)  # the server may still be writing the object of the killed process
    assert compact(made.at, options=made.options) == (2, 6, 1)
    with recstore.open(made.at, lazy="records", options=made.options) as x:
        assert x.to_list() == ALL


# ---- The command ----


def test_recstore_compact(tmp_path, capsys):
    commit_all(tmp_path, PARTS)
    assert main.main(["compact", str(tmp_path), "--shard-bytes", "1MiB"]) == 0
    assert capsys.readouterr().out == "replaced 6 files by 1 file in manifest 2\n"
    assert main.main(["compact", str(tmp_path)]) == 0 and capsys.readouterr().out == "no files to merge\n"
    assert main.main(["compact", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"number": 2, "files": 0, "new_files": 0}
