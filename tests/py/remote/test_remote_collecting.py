"""recstore.remote.collecting: what gc removes, what it leaves, and that the clock of this machine does not count; and
`recstore gc URL` and `recstore build --shards`."""

import json
import os
import time

import pytest

import recstore
from recstore.building import saving
from recstore.cli import main
from recstore.remote import collecting, manifest
from recstore.remote.collecting import gc
from recstore.remote.writer import ShardWriter

DAY = 86400


def age(folder, name, days):
    path = os.path.join(folder, name)
    then = os.stat(path).st_mtime - days * DAY
    os.utime(path, (then, then))


def age_all(folder, days):
    for name in os.listdir(folder):
        age(folder, name, days)


def files(entry):
    return [f"{one}.recs" for one in entry.hashes]


@pytest.fixture
def w(tmp_path):
    return ShardWriter(tmp_path / "set")


def test_shard_files_that_no_manifest_names(w):
    kept, lost = w.write([1]), w.write([2])
    w.commit(kept)
    assert gc(w.url).files == [], "they are young"
    age_all(w.url, 8)
    new = w.write([3])
    found = gc(w.url, dry_run=True)
    assert (found.manifests, found.files, found.kept, found.dry_run) == ([], files(lost), [1], True)
    assert found.nbytes == lost.nbytes
    assert sorted(os.listdir(w.url)) == sorted(["manifest-1.json", *files(kept), *files(lost), *files(new)])
    assert repr(found).startswith("would remove 0 manifests and 1 file, ")
    assert gc(w.url).files == files(lost) and gc(w.url).files == []
    assert sorted(os.listdir(w.url)) == sorted(["manifest-1.json", *files(kept), *files(new)])
    w.commit(new, append=True)


def test_manifests_stay_while_readers_may_have_opened_them(w):
    """Manifest 1 is old, but was the newest until yesterday."""
    a, b = w.write([1]), w.write([2])
    w.commit(a)
    age_all(w.url, 30)
    w.commit(w.write([3]))
    age(w.url, "manifest-2.json", 1)
    found = gc(w.url)
    assert found.kept == [1, 2] and found.files == [] or found.files == files(b) and found.kept == [1, 2]
    age(w.url, "manifest-2.json", 7)
    found = gc(w.url)
    assert (found.manifests, found.kept) == ([1], [2]) and found.files == files(a)


def test_the_newest_manifest_stays_however_old(w):
    w.commit(w.write([1]))
    age_all(w.url, 1000)
    assert gc(w.url, days=0).kept == [1] and manifest.load(w.storage, 1).length == 1


def test_a_file_of_an_old_manifest_that_a_new_one_names_stays(w):
    a, b = w.write([1]), w.write([2])
    w.commit([a, b])
    w.remove(b)
    age_all(w.url, 30)
    found = gc(w.url)
    assert found.manifests == [1] and found.files == files(b)
    assert sorted(os.listdir(w.url)) == sorted(["manifest-2.json", *files(a)])


def test_filters_and_temporary_files_and_markers_go_too(tmp_path):
    w = ShardWriter(tmp_path, mapping=True)
    kept, lost = w.write({1: 2}), w.write({3: 4})
    w.commit(kept)
    with open(saving.temporary_beside(str(tmp_path / "x")), "wb") as file:
        file.write(b"of a killed writer")
    w.storage.write("gc-0123456789abcdef.marker", b"of a killed gc")
    for name in ("README.md", "notes.recs", "manifest-x.json", "0" * 39 + ".recs", "0" * 40 + ".txt"):
        (tmp_path / name).write_text("of the user")
    found = gc(tmp_path, days=0)
    assert len(found.files) == 4 and {f"{lost.hashes[0]}.keys", f"{lost.hashes[0]}.recs"} < set(found.files)
    left = sorted(os.listdir(tmp_path))
    ours = ["manifest-1.json", f"{kept.hashes[0]}.keys", f"{kept.hashes[0]}.recs"]
    assert left == sorted([*ours, "README.md", "notes.recs", "manifest-x.json", "0" * 39 + ".recs", "0" * 40 + ".txt"])


@pytest.mark.parametrize("wrong", [0.0, 1e9, 4e9])
def test_a_wrong_clock_of_this_machine_changes_nothing(w, monkeypatch, wrong):
    kept, lost = w.write([1]), w.write([2])
    w.commit(kept)
    age(w.url, files(lost)[0], 8)
    young = w.write([3])
    monkeypatch.setattr(time, "time", lambda: wrong)
    assert gc(w.url).files == files(lost) and files(young)[0] in os.listdir(w.url)


def test_a_commit_while_it_collects(w, monkeypatch):
    """A writer took longer than `days`, and commits between the listing and the removal."""
    w.commit(w.write([1]))
    late = w.write([2])
    age_all(w.url, 8)
    real = collecting._listed

    def listed(storage):
        found = real(storage)
        w.commit(late, append=True)
        return found

    monkeypatch.setattr(collecting, "_listed", listed)
    assert gc(w.url).files == [] and set(files(late)) < set(os.listdir(w.url))


def test_manifests_go_before_their_files(w, monkeypatch):
    """Or one that is killed in the middle leaves a manifest that names files which are gone."""
    w.commit(w.write([1]))
    w.commit(w.write([2]))
    order = []
    monkeypatch.setattr(type(w.storage), "delete", lambda self, names: order.extend(names))
    gc(w.url, days=0)
    order = [name for name in order if not name.startswith("gc-")]
    assert order[0] == "manifest-1.json" and len(order) == 2


def test_a_manifest_that_cannot_be_read_removes_nothing(w):
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


def test_what_is_refused(tmp_path):
    for days in (-1, "7", True, None, 1e7, float("nan")):
        pytest.raises(ValueError, lambda: gc(tmp_path, days=days)).match("days is a number of days")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: gc(tmp_path)).match("nothing of a set")
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: gc(tmp_path / "none"))
    assert os.listdir(tmp_path) == []


def test_in_an_object_store():
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    s3 = pytest.importorskip("s3")
    with s3.Server() as server:
        w = ShardWriter(server.url("bucket/collected"), options=server.options, shard_records=1)
        kept, lost = w.write([1, 2]), w.write(range(30))
        w.commit(kept)
        young = w.write([5])
        for name in files(lost):
            server.age(f"collected/{name}", 8 * DAY)
        server.reset_counts()
        assert sorted(gc(w.url, options=server.options).files) == sorted(files(lost))
        assert len(server.log) < 15, "objects are removed together"
        names = {key.removeprefix("collected/") for key in server.objects() if key.startswith("collected/")}
        assert names == {"manifest-1.json", *files(kept), *files(young)}
        server.deny(100, method="PUT")
        with pytest.raises(recstore.errors.RemoteError, match="give no right"):
            gc(w.url, options=server.options, days=0)
        server.heal()
        assert gc(w.url, options=server.options, days=0).files == files(young)


# ---- The commands ----


@pytest.fixture
def run(capsys):
    def called(*arguments):
        status = main.main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        return status, out, err

    return called


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


@pytest.mark.parametrize(("arguments", "said"), [
    (["--days", "3"], "--days and --dry-run belong to the URL"),
    (["--dry-run"], "--days and --dry-run belong to the URL"),
    (["x", "--dir", "y"], "--dir is the folder of named stores"), (["s3://b/x?y"], "has parameters in it"),
    (["none"], "nothing of a set")
])  # fmt: skip
def test_recstore_gc_refuses(run, arguments, said):
    status, out, err = run("gc", *arguments)
    assert (status, out) == (2 if "--" in said else 1, "") and said in err and err.startswith("recstore gc: ")


def lines(folder, n=100):
    (folder / "x.jsonl").write_text("".join(json.dumps({"id": i}) + "\n" for i in range(n)))
    return folder / "x.jsonl"


def test_recstore_build_shards(tmp_path, run):
    source, target = lines(tmp_path), tmp_path / "set"
    status, out, err = run("build", source, "--shards", target, "--workers", 0)
    assert (status, err) == (0, "") and out.startswith(f"{target}@1: 100 records in 1 shard file, ")
    status, out, err = run("build", source, "--shards", target)
    assert status == 1 and "is a set of shards: --append adds to it, --force puts manifest 2 first" in err
    status, out, err = run("build", source, "--shards", target, "--append", "--json", "--compression", "none")
    said = json.loads(out)
    assert (said["manifest"], said["records"], said["files"], said["shards"]) == (2, 100, 1, str(target))
    assert manifest.load(ShardWriter(target).storage, 2).length == 200
    assert run("build", source, "--shards", target, "--force", "--index-by", "id")[0] == 0
    assert manifest.load(ShardWriter(target).storage, 3).length == 100


def test_recstore_build_shards_of_a_mapping(tmp_path, run):
    (tmp_path / "x.json").write_text(json.dumps({f"k{i}": i for i in range(10)}))
    assert run("build", tmp_path / "x.json", "--entries", "--shards", tmp_path / "set")[0] == 0
    assert manifest.load(ShardWriter(tmp_path / "set").storage, 1).kind == "mapping"


@pytest.mark.parametrize(("arguments", "said"), [
    (["--append", "-o", "y"], "--append belongs to --shards URL"),
    (["--shard-bytes", "1GB", "-o", "y"], "--shard-bytes belongs to --shards URL"),
    (["--shards", "set", "-o", "y"], "--shards and --output exclude each other"),
    (["--shards", "set", "--shared", "y"], "--shards and --shared exclude each other"),
    (["--shards", "set", "--shard-bytes", "much"], "a size is a number of bytes"),
    (["--shards", "set", "--shard-bytes", "1kB"], "--shard-bytes is at least 1MiB, not 1kB\n"),
    (["--shards", "set", "--append", "--force"], "--append adds to the set, and --force puts another one"),
    (["--shards", "set", "--delimiter", ";"], "delimiter"), (["--shards", "s3://a:b@c/d"], "has credentials in it")
])  # fmt: skip
def test_recstore_build_shards_refuses(tmp_path, run, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    status, out, err = run("build", lines(tmp_path), *arguments)
    assert (status, out) == (2, "") and said in err and err.startswith("recstore build: ")
    assert os.listdir(tmp_path) == ["x.jsonl"]
