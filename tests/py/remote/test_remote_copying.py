"""recstore.remote.set.copying: copies of manifests with their files between places, with failures in between."""

import errno
import os
import subprocess
import sys
import threading

import pytest
import shard_sets
from full_disk import FullDisk
from s3_sets import ALL, PARTS
from waiting import until

import recstore
from recstore.errors import CorruptError, OutOfSpaceError, SegmentNotFoundError
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.places.folder_store import PosixStorage
from recstore.remote.set import copying, manifest, reading
from recstore.remote.set.collecting import gc
from recstore.remote.set.copying import copy_set
from recstore.remote.set.writer import ShardWriter

PAIRS = [{f"k{i}-{j}": {"j": j} for j in range(50)} for i in range(3)]


@pytest.fixture
def folder(tmp_path):
    """The storage of a set in a folder, with six shard files and attributes."""
    shard_sets.write(tmp_path / "set", PARTS, attributes={"classes": ["a"]})
    return storage_of(tmp_path / "set")


def files(storage):
    return sorted(name for name, *_ in storage.list())


def test_from_folder_to_store_to_folder(folder, bucket, tmp_path):
    result = copy_set(folder, None, bucket)
    assert (result.manifest.number, len(result.copied)) == (1, 6)
    assert files(bucket) == files(folder)
    target = storage_of(tmp_path / "back")
    copy_set(bucket, 1, target)
    x = recstore.open(target.url, verify="full")
    assert x.to_list() == ALL and x.attributes == {"classes": ["a"]}
    assert files(target) == files(folder)
    assert not [name for name in os.listdir(target.url) if name.startswith(".")]


def test_mappings_have_their_filters(tmp_path, bucket):
    made = shard_sets.write(tmp_path / "set", PAIRS)
    copy_set(storage_of(tmp_path / "set"), None, bucket)
    contents = manifest.load(bucket, 1)
    assert contents.bounds == made.bounds and contents.fingerprint == made.fingerprint
    assert len([name for name in files(bucket) if name.endswith(".keys")]) == 3
    bucket.delete([f"{made.hashes[0]}.keys"])
    assert [shard.hash for shard in copy_set(storage_of(tmp_path / "set"), None, bucket).copied] == made.hashes[:1]


def test_a_copy_is_the_next_manifest(folder, tmp_path):
    w = ShardWriter(tmp_path / "other")
    w.commit(w.write([1]))
    assert copy_set(folder, 1, w.storage).manifest.number == 2
    assert recstore.open(w.url).to_list() == ALL and recstore.open(f"{w.url}@1").to_list() == [1]
    again = copy_set(folder, None, w.storage)
    assert (again.manifest.number, again.copied) == (2, []), "nothing has changed"
    w.tag("first", 1)
    assert copy_set(w.storage, "first", w.storage).manifest.number == 3, "an old manifest is the newest again"
    assert recstore.open(w.url).to_list() == [1]


def test_empty_sets(tmp_path):
    w = ShardWriter(tmp_path / "set")
    w.commit([])
    assert copy_set(w.storage, None, storage_of(tmp_path / "copy")).manifest.number == 1
    assert recstore.open(tmp_path / "copy").to_list() == []


def test_a_target_of_another_kind_is_refused_before_the_copy(folder, tmp_path):
    shard_sets.write(tmp_path / "map", PAIRS)
    before = os.listdir(tmp_path / "map")
    with pytest.raises(ValueError, match="is a mapping, and .* is a list"):
        copy_set(folder, None, storage_of(tmp_path / "map"))
    assert os.listdir(tmp_path / "map") == before


def test_a_killed_copy_continues(made, tmp_path, monkeypatch):
    for name in ("endpoint", "region", "access_key_id", "secret_access_key"):
        monkeypatch.setenv(f"AWS_{name}".upper(), made.options[name])
    target, last = storage_of(tmp_path / "copy"), made.made.hashes[5]
    made.delay(20, match=last)
    process = subprocess.Popen([sys.executable, "-m", "recstore", "cp", made.at, target.url])
    until(lambda: len(files(target)) == 5)
    process.kill()
    assert process.wait() == -9 and manifest.newest(target) == 0
    made.heal()
    assert [shard.hash for shard in copy_set(storage_of(made.at, made.options), None, target).copied] == [last]
    assert recstore.open(target.url, verify="full").to_list() == ALL
    gc(target.url, days=0)
    assert sorted(os.listdir(target.url)) == files(target), "also the temporary file of the killed copy is gone"


def test_a_file_of_another_size_is_copied_again(folder, tmp_path):
    target = storage_of(tmp_path / "copy")
    name = files(folder)[0]
    target.write(name, b"R" * 100)
    assert len(copy_set(folder, None, target).copied) == 6
    assert recstore.open(target.url, verify="full").to_list() == ALL


def test_a_damaged_answer_is_fetched_again(made, tmp_path):
    made.flip(3, match=r"\.recs")
    made.cut(3, match=r"\.recs")
    copy_set(storage_of(made.at, made.options), None, storage_of(tmp_path / "copy"))
    assert made.left() == 0 and recstore.open(tmp_path / "copy", verify="full").to_list() == ALL


@pytest.mark.parametrize("change", ["damaged", "longer", "shorter", "missing"])
def test_a_damaged_shard_file(folder, bucket, change):
    name = f"{manifest.load(folder, 1).hashes[3]}.recs"
    path = shard_sets.damage(folder, name)
    os.chmod(path, 0o600)
    if change == "longer":
        with open(path, "ab") as file:
            file.write(b"x" * 3_000_000)
    if change == "shorter":
        os.truncate(path, 100)
    if change == "missing":
        os.unlink(path)
    error = SegmentNotFoundError if change == "missing" else CorruptError
    with pytest.raises(error) as failure:
        copy_set(folder, None, bucket)
    assert failure.value.filename == path
    assert manifest.newest(bucket) == 0 and name not in files(bucket)


def test_a_damaged_filter(tmp_path, bucket):
    made = shard_sets.write(tmp_path / "set", PAIRS)
    shard_sets.damage(storage_of(tmp_path / "set"), f"{made.hashes[1]}.keys")
    with pytest.raises(CorruptError, match="wrong checksum"):
        copy_set(storage_of(tmp_path / "set"), None, bucket)
    assert manifest.newest(bucket) == 0


def test_files_that_disappear_from_the_target(folder, tmp_path, monkeypatch):
    """gc in the target, for example."""
    target, real = storage_of(tmp_path / "copy"), copying._Copying.run

    def run(self, shards):
        real(self, shards)
        target.delete(files(target)[:2])

    monkeypatch.setattr(copying._Copying, "run", run)
    with pytest.raises(SegmentNotFoundError, match="2 files of the copy are gone"):
        copy_set(folder, None, target)
    assert manifest.newest(target) == 0


def test_ctrl_c(folder, tmp_path, monkeypatch):
    """The other threads stop, and no temporary file stays."""
    begun, stopped, real = threading.Event(), threading.Event(), PosixStorage.read_into

    def read_into(self, name, file):
        if name.endswith(".recs"):
            begun.set()
            stopped.wait(60)
        return real(self, name, file)

    def ahead(pool, act, items, most):
        for item in items:
            pool.submit(act, item)
        begun.wait(60)
        threading.Timer(0.2, stopped.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(PosixStorage, "read_into", read_into)
    monkeypatch.setattr(reading, "ahead", ahead)
    target = storage_of(tmp_path / "copy")
    pytest.raises(KeyboardInterrupt, lambda: copy_set(folder, None, target))
    assert os.listdir(target.url) == []


def test_a_full_disk(folder, bucket, monkeypatch):
    monkeypatch.setattr(copying.tempfile, "TemporaryFile", lambda: FullDisk(errno.ENOSPC))
    with pytest.raises(OutOfSpaceError, match="make room"):
        copy_set(folder, None, bucket)
    assert files(bucket) == []
