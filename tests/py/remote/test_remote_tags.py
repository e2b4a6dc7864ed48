"""recstore.remote.set.tags: names of manifests, in writers, readers and gc, including malicious bytes."""

import json
import os
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from s3_sets import ALL

import recstore
from recstore.errors import CorruptError, RemoteError, SegmentNotFoundError, VersionError
from recstore.remote import openers
from recstore.remote.engines import shard_tables
from recstore.remote.places.choose_storage import split_reference, storage_of
from recstore.remote.set import collecting, manifest, tags
from recstore.remote.set.collecting import gc
from recstore.remote.set.writer import ShardWriter


@pytest.fixture
def w(tmp_path):
    """A writer of a set with the manifests 1, 2 and 3 of one record each."""
    w = ShardWriter(tmp_path / "set")
    for n in (1, 2, 3):
        w.commit(w.write([n]))
    return w


# ---- Writing and opening ----


def test_a_tag_names_a_manifest(w):
    assert (w.tag("newest"), w.tag("First-1.0_x", 1)) == (3, 1)
    with recstore.open(f"{w.url}@newest") as x, recstore.open(f"{w.url}@First-1.0_x/") as y:
        assert (x.to_list(), y.to_list()) == ([3], [1])
        assert (x.info().sets, y.info().sets) == (((w.url, 3),), ((w.url, 1),))
    w.commit(w.write([4]))
    assert recstore.open(f"{w.url}@newest").to_list() == [3]
    assert tags.every(w.storage) == {"First-1.0_x": 1, "newest": 3}
    assert len(shard_tables.parts(f"{w.url}@newest")) == 1


def test_a_tag_moves_and_goes(w):
    for number in (1, 2, 1):
        assert w.tag("best", number) == number
        assert recstore.open(f"{w.url}@best").to_list() == [number]
    assert w.tag("best", delete=True) == 0
    with pytest.raises(SegmentNotFoundError, match="no tag 'best' here"):
        recstore.open(f"{w.url}@best")
    with pytest.raises(SegmentNotFoundError, match="no tag 'best' here"):
        w.tag("best", delete=True)
    assert not [name for name in os.listdir(w.url) if name.startswith(("tag-", "."))]


def test_a_missing_manifest_has_no_tag(w, tmp_path):
    with pytest.raises(SegmentNotFoundError, match=r"no such manifest.*manifest-7\.json"):
        w.tag("best", 7)
    with pytest.raises(SegmentNotFoundError, match="no set of shards"):
        ShardWriter(tmp_path / "none").tag("best")
    assert tags.every(w.storage) == {} and not (tmp_path / "none").exists()


def test_invalid_names_and_numbers(w):
    for name in ("", "1", "-a", "a b", "a/b", "a@b", "ä", "a" * 101, "a\n", None):
        pytest.raises(ValueError, lambda: w.tag(name)).match("is not a valid tag")
    for number in (0, -1, True, 1.0, "1"):
        pytest.raises(ValueError, lambda: w.tag("best", number)).match("number must be None or")
    pytest.raises(ValueError, lambda: w.tag("best", 1, delete=True)).match("without delete=True")


def test_readers_keep_their_manifest_when_a_tag_moves(w):
    w.tag("best", 1)
    x = recstore.open(f"{w.url}@best")
    handle = pickle.dumps(x)
    w.tag("best", 2)
    openers._openers.clear()  # as in another process
    assert pickle.loads(handle).to_list() == x.to_list() == [1]
    assert b"best" not in handle


def test_an_existing_folder_with_an_at_sign_is_a_path(w, tmp_path, monkeypatch):
    w.tag("best", 1)
    (tmp_path / "set@best").mkdir()
    other = ShardWriter(tmp_path / "set@best")
    other.commit(other.write([7]))
    other.tag("v2")
    monkeypatch.chdir(tmp_path)
    for path in ("set@best", "./set@best/", f"file://{tmp_path}/set@best", f"{tmp_path}/set@best@v2"):
        assert recstore.open(path).to_list() == [7]
    recstore.RecordList([8]).save(tmp_path / "set@file")
    assert recstore.open("set@file").to_list() == [8]


@pytest.mark.parametrize(("text", "split"), [
    ("s3://b/x@best", ("s3://b/x", "best")), ("s3://b/x@y@best/", ("s3://b/x@y", "best")), ("x@a.b-c_1", ("x", "a.b-c_1")),
    ("s3://b/x@7", ("s3://b/x", 7)), ("s3://b@7", ("s3://b", 7)), ("s3://b/x@007", ("s3://b/x@007", None)),
    ("abfss://c@account.dfs.core.windows.net", ("abfss://c@account.dfs.core.windows.net", None)),
    ("abfss://c@a.net/x@best", ("abfss://c@a.net/x", "best")), ("/home/a@b.org/set", ("/home/a@b.org/set", None)),
    ("s3://b/@best", ("s3://b/@best", None)), ("s3://b/x@", ("s3://b/x@", None)), ("s3://b/x@-a", ("s3://b/x@-a", None)),
])  # fmt: skip
def test_references_in_urls(text, split):
    assert split_reference(text) == split


# ---- Malicious bytes ----


def write(w, data):
    w.storage.write("tag-best.json", data if isinstance(data, bytes) else json.dumps(data).encode())


def document(w, name="best", number=2):
    tags.write(w.storage, name, number)
    return json.loads(w.storage.read(f"tag-{name}.json"))


def refuses(w, data, error=CorruptError):
    write(w, data)
    with pytest.raises(error) as failure:
        recstore.open(f"{w.url}@best")
    assert failure.value.filename.endswith("tag-best.json")


def test_damaged_tags(w):
    for change in (
        {"number": 1}, {"number": 0}, {"number": -2}, {"number": True}, {"number": 2.0}, {"number": 10**18},
        {"name": "other"}, {"fingerprint": "0" * 40}, {"fingerprint": None}, {"recstore": "manifest"},
    ):  # fmt: skip
        refuses(w, document(w) | change)
    good = json.dumps(document(w)).encode()
    for data in (b"", good[:-1], b"[" * 4000, b"[]", b'"tag"', b"<html>", b"\xff" * 9, good + b" " * 4096):
        refuses(w, data)
    refuses(w, document(w, "other"))
    forged = document(w) | {"number": 0, "fingerprint": tags._fingerprint("best", 0)}
    refuses(w, forged)
    refuses(w, document(w) | {"format": 2}, VersionError)
    w.tag("best", delete=True)  # even if it is damaged


@settings(max_examples=50)
@given(
    st.one_of(st.binary(max_size=200), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
)
def test_any_bytes(data):
    data = data if isinstance(data, bytes) else data.encode()
    pytest.raises(CorruptError, lambda: tags._parse(data, "best", "there"))


# ---- In object stores ----


@pytest.mark.parametrize("how", [{}, {"lazy": "records"}])
def test_in_an_object_store(made, tmp_path, how):
    w = ShardWriter(made.at, options=made.options)
    w.tag("best")
    w.commit(w.write([1]))
    cache = {} if how.get("lazy") == "records" else {"cache": tmp_path}
    made.deny(100, method="GET", match="list-type")
    made.flip(1, match="tag-best")
    with recstore.open(f"{made.at}@best", options=made.options, **cache, **how) as x:
        assert x.to_list() == ALL, "a tag needs no right to list"
        assert pickle.loads(pickle.dumps(x)).to_list() == ALL
    with pytest.raises(SegmentNotFoundError, match="no tag 'none' here"):
        recstore.open(f"{made.at}@none", options=made.options, **cache, **how)
    with pytest.raises(RemoteError, match="cannot list"):
        w.tag("newest")
    assert w.tag("second", 2) == 2


# ---- gc ----


def test_gc_keeps_manifests_with_a_tag(w):
    w.tag("first", 1)
    result = gc(w.url, days=0)
    assert (result.manifests, result.kept) == ([2], [1, 3]) and len(result.files) == 1
    assert recstore.open(f"{w.url}@first").to_list() == [1]
    w.tag("first", 3)
    assert gc(w.url, days=0).manifests == [1] and gc(w.url, days=0).kept == [3]
    assert recstore.open(f"{w.url}@first").to_list() == [3]


def test_a_tag_that_is_written_during_a_collection(w, monkeypatch):
    real = collecting._named_hashes

    def named(storage, numbers):
        tags.write(storage, "late", 1)
        return real(storage, numbers)

    monkeypatch.setattr(collecting, "_named_hashes", named)
    result = gc(w.url, days=0)
    assert (result.manifests, result.kept) == ([2], [1, 3])
    assert recstore.open(f"{w.url}@late").to_list() == [1]


def test_gc_removes_nothing_with_an_unreadable_tag(w):
    for data, error in ((b"{", CorruptError), (document(w) | {"format": 2}, VersionError)):
        write(w, data)
        pytest.raises(error, lambda: gc(w.url, days=0))
    assert [manifest.load(w.storage, n).length for n in (1, 2, 3)] == [1, 1, 1]


def test_a_tag_of_a_removed_manifest(w):
    tags.write(storage_of(w.url), "gone", 9)
    with pytest.raises(SegmentNotFoundError, match=r"gc removed it.*manifest-9\.json"):
        recstore.open(f"{w.url}@gone")
    assert gc(w.url, days=0).kept == [3]
