"""recstore.remote.set.deleting: deleting records of a set by key, or by the values of a field."""

import json
import os

import kinds
import pytest
import shard_sets
from alike import alike
from changed_sets import CLASSES, at_commit, commit_all, contents, newest
from cli_folders import run  # noqa: F401 - a fixture
from hypothesis import given, settings
from hypothesis import strategies as st
from s3_sets import ALL, PARTS, fetched

import recstore
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import collecting, rewriting
from recstore.remote.set.deleting import delete
from recstore.remote.set.writer import ShardWriter

__all__ = ["at_commit"]

VALUES = st.none() | st.integers(-3, 3) | st.floats(-2, 2) | st.booleans() | st.text(max_size=1) | st.binary(max_size=1)
KEYS = VALUES | st.tuples(VALUES)


# ---- What is deleted ----


@settings(max_examples=30)
@given(field=st.sampled_from(["user.id", ("user", "id"), 0]), data=st.data())
def test_by_field(tmp_path_factory, field, data):
    def record(value):
        return {0: value, "user": {"id": value, "set": {value}}, "object": kinds.Plain(1)}

    url = tmp_path_factory.mktemp("set") / "set"
    drawn = data.draw(st.lists(st.lists(KEYS, min_size=1, max_size=12), min_size=1, max_size=5))
    parts = [[{}, *map(record, part), {"user": [1]}, {"user": {"id": [1]}, 0: {}}] for part in drawn]
    wanted = data.draw(st.lists(KEYS | st.sampled_from([key for part in drawn for key in part]), max_size=4))
    commit_all(url, parts)
    before = newest(url)
    result = delete(url, wanted, field=field)
    expected = [r for part in parts for r in part if 0 not in r or r[0] == {} or r[0] not in wanted]
    assert alike(contents(url), expected) and result.records == sum(map(len, parts)) - len(expected)
    after = newest(url)
    matching = [any(key in wanted for key in part) for part in drawn]
    assert result == (1 + any(matching), result.records, sum(matching)) and after.number == result.number
    for old, new, matches in zip(before.hashes, after.hashes, matching):
        assert (old != new) == matches


@settings(max_examples=20)
@given(
    parts=st.lists(st.dictionaries(KEYS, st.integers(), min_size=1, max_size=12), min_size=1, max_size=5),
    data=st.data(),
)
def test_by_key(tmp_path_factory, parts, data):
    url = tmp_path_factory.mktemp("set") / "set"
    wanted = data.draw(st.lists(KEYS | st.sampled_from([key for part in parts for key in part]), max_size=4))
    commit_all(url, parts)
    result = delete(url, iter(wanted))
    expected = [(key, value) for part in parts for key, value in part.items() if key not in wanted]
    with recstore.open(url) as d:
        assert alike(list(d.items()), expected) and not any(key in d for key in wanted)
        assert d.to_dict() == dict(expected)
    assert result.records == sum(map(len, parts)) - len(expected)
    assert result.files == sum(any(key in wanted for key in part) for part in parts)


def test_every_record(tmp_path):
    w = commit_all(tmp_path / "list", PARTS)
    assert delete(w.url, range(1000), field="i") == (2, 360, 6) and contents(w.url) == []
    assert delete(w.url, [1], field="i") == (2, 0, 0), "an empty set has no field"
    assert w.commit(w.write([1]), append=True) == 3
    w = commit_all(tmp_path / "mapping", [{"a": 1}, {"b": 2}])
    assert delete(w.url, ["a", "b"]) == (2, 2, 2) and contents(w.url) == ([], [])


def test_the_bytes_are_gone_after_gc(tmp_path):
    secret = "a secret of user 17 "
    w = commit_all(
        tmp_path,
        [[{"user": i, "text": secret * (i == 17)} for i in range(5 * k, 5 * k + 5)] for k in range(5)],
        compression="none",
    )

    def has_secret():
        return [name for name in os.listdir(tmp_path) if secret.encode() in (tmp_path / name).read_bytes()]

    assert len(has_secret()) == 1 and delete(tmp_path, [17], field="user") == (2, 1, 1)
    assert len(has_secret()) == 1 and len(contents(f"{tmp_path}@1")) == 25
    collecting.gc(tmp_path, days=0)
    assert has_secret() == [] and len(contents(w.url)) == 24


def test_a_dry_run(made):
    assert delete(made.at, [5, 100, 101], field="i", options=made.options, dry_run=True) == (1, 3, 2)
    assert newest(made.at, made.options).number == 1


def test_saved_indexes_and_attributes_stay(tmp_path):
    w = ShardWriter(tmp_path, index_by="i", group_by="text")
    entry = w.write(PARTS[0])
    entry.attributes["classes"] = ["a"]
    w.commit(entry)
    assert delete(tmp_path, [""], field="text").records == 9
    after = newest(tmp_path)
    assert after.attributes == {"classes": ["a"]}
    with recstore.open(w.storage.path(f"{after.hashes[0]}.recs")) as x:
        assert (
            len(rewriting.indexes_of(x.segments[0])) == 2 and 7 not in x.index_by("i") and x.index_by("i")[8]["i"] == 8
        )


def test_objects_of_registered_classes(tmp_path):
    commit_all(tmp_path / "list", [[{"level": level} for level in kinds.Color]])
    assert delete(tmp_path / "list", [kinds.Color.RED], field="level") == (1, 0, 0), "nothing loads a class"
    commit_all(tmp_path / "mapping", [{kinds.Frozen(1): 1, kinds.Frozen(2): 2, "a": 3}])
    recstore.register(kinds.Color)
    recstore.register(kinds.Frozen)
    try:
        assert delete(tmp_path / "list", [kinds.Color.RED], field="level") == (2, 1, 1)
        assert delete(tmp_path / "mapping", [kinds.Frozen(1), "a"]) == (2, 2, 1)
    finally:
        for cls in (kinds.Color, kinds.Frozen):
            recstore._core.trust.registered.pop((cls.__module__, cls.__qualname__))
    with recstore.open(tmp_path / "mapping", classes=CLASSES) as d:
        assert dict(d) == {kinds.Frozen(2): 2} and d[kinds.Frozen(2)] == 2


@pytest.mark.parametrize(("keys", "options", "error", "message"), [
    ("abc", {"field": "i"}, TypeError, "a list of keys, not a str"), ([1], {}, TypeError, "give field="),
    ([[1]], {"field": "i"}, TypeError, "unhashable"), ([1], {"field": 1.5}, TypeError, "field"),
    ([1], {"field": "idd"}, KeyError, "no record of .* has the field 'idd'")
])  # fmt: skip
def test_invalid_arguments(tmp_path, keys, options, error, message):
    commit_all(tmp_path, PARTS)
    pytest.raises(error, lambda: delete(tmp_path, keys, **options)).match(message)
    assert newest(tmp_path).number == 1


def test_a_pickled_value_of_the_field_is_not_loaded(tmp_path):
    w = ShardWriter(tmp_path, on_unsupported="pickle")
    w.commit(w.write([{"v": 1, "n": 0}, {"v": test_every_record, "n": 1}]))
    with pytest.raises(recstore.errors.UntrustedError):
        delete(tmp_path, [1], field="v")
    assert delete(tmp_path, [0], field="n").records == 1


def test_a_mapping_has_no_field(tmp_path):
    commit_all(tmp_path, [{"a": 1}])
    pytest.raises(TypeError, lambda: delete(tmp_path, ["a"], field="i")).match("leave out field=")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: delete(tmp_path / "none", [1]))


# ---- In an object store ----


def test_only_files_with_a_key_are_fetched(server, tmp_path):
    """By key ranges and key filters."""
    parts = [{f"k{i:03}": {"i": i, "noise": os.urandom(3000)} for i in range(k, 300, 6)} for k in range(6)]
    shard_sets.write(server.at, [*parts, {"z": 1}], server.options)
    server.reset_counts()
    wanted = ["k007", "k013", "k009", "k301", "a", 5]
    assert delete(server.at, wanted, options=server.options, dir=tmp_path) == (2, 3, 2)
    assert fetched(server)[0] == 2 and fetched(server, ".keys")[0] == 6 and os.listdir(tmp_path) == []
    with recstore.open(server.at, cache=tmp_path, options=server.options) as d:
        assert d.to_dict() == {k: v for part in [*parts, {"z": 1}] for k, v in part.items() if k not in wanted}
    storage = storage_of(server.at, server.options)
    storage.delete([f"{hash_}.keys" for hash_ in newest(server.at, server.options).hashes])
    assert delete(server.at, ["k015"], options=server.options).records == 1, "without filters the files are searched"


@pytest.mark.parametrize("index", ["index_by", "group_by"])
def test_only_files_whose_saved_index_has_a_value_are_fetched(server, index):
    parts = [[{"i": i, "noise": os.urandom(3000)} for i in range(200 * k, 200 * k + 200)] for k in range(5)]
    commit_all(server.at, parts, options=server.options, **{index: "i"})
    server.reset_counts()
    assert delete(server.at, [201, 202, 5000], field="i", options=server.options) == (2, 2, 1)
    assert fetched(server)[1] < 2_400_000, "of 3 MB"
    server.reset_counts()
    assert delete(server.at, [5000], field="i", options=server.options) == (2, 0, 0)
    assert fetched(server)[1] < 1_500_000


# ---- Failures and other writers ----


def test_an_append_and_a_conflict(tmp_path, at_commit):
    w = commit_all(tmp_path, PARTS)
    at_commit(lambda: w.commit(w.write([{"i": 5}]), append=True))
    assert delete(tmp_path, [5, 355], field="i") == (3, 2, 2)
    assert contents(tmp_path) == [*(r for r in ALL if r["i"] not in (5, 355)), {"i": 5}], "it was not searched"
    at_commit(lambda: w.remove(newest(tmp_path).hashes[0]))
    pytest.raises(recstore.errors.ConflictError, lambda: delete(tmp_path, [6], field="i"))
    assert newest(tmp_path).number == 4


@pytest.mark.parametrize("kind", ["list", "mapping"])
def test_a_damaged_file(server, kind):
    parts = PARTS if kind == "list" else [{r["i"]: r for r in part} for part in PARTS]
    before = shard_sets.write(server.at, parts, server.options)
    path = shard_sets.damage(storage_of(server.at, server.options), f"{before.hashes[1]}.recs")
    options = {"options": server.options} | ({"field": "i"} if kind == "list" else {})
    error = pytest.raises(recstore.errors.CorruptError, lambda: delete(server.at, [70], **options)).value
    assert error.filename == path and newest(server.at, server.options).number == 1


# ---- The command ----


def test_recstore_delete_from_a_list(tmp_path, run):
    """A value that is written as an int matches the text and the int."""
    commit_all(tmp_path, [[{"user": {"id": id_}} for id_ in (1, "1", "a", "", -5, 2, 1.5, "1.5")]])
    assert run("delete", tmp_path, "--field", "user.id", 1, "--dry-run")[1] == "would delete 2 records of 1 file\n"
    status, out, err = run("delete", tmp_path, "--field", "user.id", 1, -5, "1.5", "b")
    assert (status, err) == (0, "") and out.startswith("deleted 4 records of 1 file in manifest 2; recstore gc ")
    assert [record["user"]["id"] for record in contents(tmp_path)] == ["a", "", 2, 1.5]
    assert run("delete", tmp_path, "--field", "user.id", "nobody")[:2] == (0, "deleted 0 records of 0 files\n")
    status, out, err = run("delete", tmp_path, "--key", 2)
    assert (status, out) == (1, "") and err.endswith("is a list: give --field\n")
    assert "has the field 'x'" in run("delete", tmp_path, "--field", "x", 1)[2]


def test_recstore_delete_from_a_mapping(tmp_path, run):
    commit_all(tmp_path / "set", [{"a": 1, "b": 2, " c": 3, 4: 5, "é": 6}])
    (tmp_path / "keys").write_bytes("é\r\n\n4\n c".encode("utf-8-sig"))
    status, out, err = run("delete", tmp_path / "set", "--keys", tmp_path / "keys", "--key", "a", "--json")
    assert (status, err) == (0, "") and json.loads(out) == {"number": 2, "records": 4, "files": 1, "dry_run": False}
    assert contents(tmp_path / "set") == ([("b", 2)], [2])
    (tmp_path / "keys").write_bytes(b"\xff")
    assert run("delete", tmp_path / "set", "--keys", tmp_path / "keys")[0] == 1
    assert "leave out --field" in run("delete", tmp_path / "set", "--field", "i", 1)[2]
