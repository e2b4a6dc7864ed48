"""recstore.remote.set.collecting: gc of sets of shards; `recstore gc URL` and `recstore build --shards`."""

import json
import os
import time

import pytest
from cli_folders import run  # noqa: F401 - a fixture

import recstore
from recstore.building import saving
from recstore.remote.set import collecting, manifest
from recstore.remote.set.collecting import gc
from recstore.remote.set.writer import ShardWriter

DAY = 86400


def age(folder, name, days):
    path = os.path.join(folder, name)
    then = os.stat(path).st_mtime - days * DAY
    os.utime(path, (then, then))


def age_all(folder, days):
    for name in os.listdir(folder):
        age(folder, name, days)


def files(entry):
    return [f"{hash_}.recs" for hash_ in entry.hashes]


@pytest.fixture
def w(tmp_path):
    return ShardWriter(tmp_path / "set")


def test_unused_shard_files(w):
    kept, lost = w.write([1]), w.write([2])
    w.commit(kept)
    assert gc(w.url).files == [], "they are new"
    age_all(w.url, 8)
    new = w.write([3])
    result = gc(w.url, dry_run=True)
    assert (result.manifests, result.files, result.kept, result.dry_run) == ([], files(lost), [1], True)
    assert result.nbytes == lost.nbytes
    assert sorted(os.listdir(w.url)) == sorted(["manifest-1.json", *files(kept), *files(lost), *files(new)])
    assert repr(result).startswith("would remove 0 manifests and 1 file, ")
    assert gc(w.url).files == files(lost) and gc(w.url).files == []
    assert sorted(os.listdir(w.url)) == sorted(["manifest-1.json", *files(kept), *files(new)])
    w.commit(new, append=True)


def test_manifests_stay_while_readers_may_use_them(w):
    """Manifest 1 is old, but was the newest until yesterday."""
    a, b, of_both = w.write([1]), w.write([2]), w.write([4])
    w.commit([a, of_both])
    age_all(w.url, 30)
    w.commit([w.write([3]), of_both])
    age(w.url, "manifest-2.json", 1)
    result = gc(w.url)
    assert result.kept == [1, 2] and result.files == files(b)
    age(w.url, "manifest-2.json", 7)
    result = gc(w.url)
    assert (result.manifests, result.kept) == ([1], [2]) and result.files == files(a)
    assert files(of_both)[0] in os.listdir(w.url)
    age_all(w.url, 1000)
    assert gc(w.url, days=0).kept == [2], "the newest stays at any age"


def test_filters_temporary_files_and_markers(tmp_path):
    w = ShardWriter(tmp_path, mapping=True)
    kept, lost = w.write({1: 2}), w.write({3: 4})
    w.commit(kept)
    with open(saving.temporary_beside(str(tmp_path / "x")), "wb") as file:
        file.write(b"of a killed writer")
    w.storage.write("gc-0123456789abcdef.marker", b"of a killed gc")
    for name in ("README.md", "notes.recs", "manifest-x.json", "0" * 39 + ".recs", "0" * 40 + ".txt"):
        (tmp_path / name).write_text("of the user")
    result = gc(tmp_path, days=0)
    assert len(result.files) == 4 and {f"{lost.hashes[0]}.keys", f"{lost.hashes[0]}.recs"} < set(result.files)
    left = sorted(os.listdir(tmp_path))
    ours = ["manifest-1.json", f"{kept.hashes[0]}.keys", f"{kept.hashes[0]}.recs"]
    assert left == sorted([*ours, "README.md", "notes.recs", "manifest-x.json", "0" * 39 + ".recs", "0" * 40 + ".txt"])


@pytest.mark.parametrize("wrong", [0.0, 1e9, 4e9])
def test_a_wrong_clock_on_this_machine_does_not_matter(w, monkeypatch, wrong):
    kept, lost = w.write([1]), w.write([2])
    w.commit(kept)
    age(w.url, files(lost)[0], 8)
    young = w.write([3])
    monkeypatch.setattr(time, "time", lambda: wrong)
    assert gc(w.url).files == files(lost) and files(young)[0] in os.listdir(w.url)


def test_a_commit_during_a_collection(w, monkeypatch):
    """A writer takes longer than `days`, and commits between the listing and the removal."""
    w.commit(w.write([1]))
    late = w.write([2])
    age_all(w.url, 8)
    real = collecting._list_objects

    def listed(storage):
        result = real(storage)
        w.commit(late, append=True)
        return result

    monkeypatch.setattr(collecting, "_list_objects", listed)
    assert gc(w.url).files == [] and set(files(late)) < set(os.listdir(w.url))


def test_manifests_are_removed_before_their_files(w, monkeypatch):
    """In the other order, a killed collection could leave a manifest that names removed files."""
    w.commit(w.write([1]))
    w.commit(w.write([2]))
    order = []
    monkeypatch.setattr(type(w.storage), "delete", lambda self, names: order.extend(names))
    gc(w.url, days=0)
    order = [name for name in order if not name.startswith("gc-")]
    assert order[0] == "manifest-1.json" and len(order) == 2


def test_nothing_is_removed_with_an_unreadable_manifest(w):
    w.commit(w.write([1]))
    w.write([2])
    os.chmod(w.storage.path("manifest-1.json"), 0o600)
    for text, error in (
        ("{", recstore.errors.CorruptError),
        ('{"recstore":"manifest","format":2}', recstore.errors.VersionError),
    ):
        with open(w.storage.path("manifest-1.json"), "w") as file:
            file.write(text)
        pytest.raises(error, lambda: gc(w.url, days=0))
        assert len(os.listdir(w.url)) == 3


def test_invalid_arguments(tmp_path):
    for days in (-1, "7", True, None, 1e7, float("nan")):
        pytest.raises(ValueError, lambda: gc(tmp_path, days=days)).match("days must be a number")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: gc(tmp_path)).match("no files of a set")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: gc(tmp_path / "none"))
    assert os.listdir(tmp_path) == []


def test_in_an_object_store(server):
    w = ShardWriter(server.at, options=server.options, shard_records=1)
    kept, lost = w.write([1, 2]), w.write(range(30))
    w.commit(kept)
    young = w.write([5])
    for name in files(lost):
        server.age(f"{server.prefix}/{name}", 8 * DAY)
    server.reset_counts()
    assert sorted(gc(w.url, options=server.options).files) == sorted(files(lost))
    assert len(server.log) < 15, "objects are removed together"
    names = {name for name, *_ in w.storage.list()}
    assert names == {"manifest-1.json", *files(kept), *files(young)}
    server.deny(100, method="PUT")
    with pytest.raises(recstore.errors.RemoteError, match="do not allow this"):
        gc(w.url, options=server.options, days=0)
    server.heal()
    assert gc(w.url, options=server.options, days=0).files == files(young)


# ---- The commands ----


def test_recstore_gc(w, run):
    w.commit(w.write([1]))
    lost = w.write([2])
    age_all(w.url, 8)
    status, out, err = run("gc", w.url, "--dry-run")
    assert (status, err) == (0, "") and out.startswith("would remove 0 manifests and 1 file")
    assert run("gc", w.url, "--days", "9")[1].startswith("removed 0 manifests and 0 files")
    status, out, err = run("gc", w.url, "--json")
    assert json.loads(out) == {
        "manifests": [], "files": files(lost), "bytes": lost.nbytes, "kept": [1], "dry_run": False
    }  # fmt: skip


def write_lines(folder, n=100):
    (folder / "x.jsonl").write_text("".join(json.dumps({"id": i}) + "\n" for i in range(n)))
    return folder / "x.jsonl"


def test_recstore_build_shards(tmp_path, run):
    source, target = write_lines(tmp_path), tmp_path / "set"
    status, out, err = run("build", source, "--shards", target, "--workers", 0)
    assert (status, err) == (0, "") and out.startswith(f"{target}@1: 100 records in 1 shard file, ")
    status, out, err = run("build", source, "--shards", target)
    assert status == 1 and "is a set of shards: --append adds to it, --force replaces it with manifest 2" in err
    status, out, err = run("build", source, "--shards", target, "--append", "--json", "--compression", "none")
    result = json.loads(out)
    assert (result["manifest"], result["records"], result["files"], result["shards"]) == (2, 100, 1, str(target))
    assert manifest.load(ShardWriter(target).storage, 2).length == 200
    assert run("build", source, "--shards", target, "--force", "--index-by", "id")[0] == 0
    assert manifest.load(ShardWriter(target).storage, 3).length == 100


def test_recstore_build_shards_of_a_mapping(tmp_path, run):
    (tmp_path / "x.json").write_text(json.dumps({f"k{i}": i for i in range(10)}))
    assert run("build", tmp_path / "x.json", "--entries", "--shards", tmp_path / "set")[0] == 0
    assert manifest.load(ShardWriter(tmp_path / "set").storage, 1).kind == "mapping"


@pytest.mark.parametrize(("arguments", "message"), [
    (["--shard-bytes", "1GB", "-o", "y"], "--shard-bytes needs --shards URL"),
    (["--shards", "set", "--shared", "y"], "--shards and --shared cannot be combined"),
    (["--shards", "set", "--shard-bytes", "1kB"], "--shard-bytes must be at least 1MiB, not 1kB\n"),
    (["--shards", "set", "--delimiter", ";"], "delimiter"), (["--shards", "s3://a:b@c/d"], "has credentials")
])  # fmt: skip
def test_recstore_build_shards_refuses(tmp_path, run, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run("build", write_lines(tmp_path), *arguments)
    assert (status, out) == (2, "") and message in err and err.startswith("recstore build: ")
    assert os.listdir(tmp_path) == ["x.jsonl"]
