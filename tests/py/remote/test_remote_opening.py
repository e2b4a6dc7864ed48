"""recstore.open of sets of shards: recstore.remote.open_set, openers and tokens."""

import importlib
import os
import pathlib
import pickle
import stat
import sys

import descriptors
import pytest
import shard_sets
from s3_sets import ALL, PARTS, fetched, has_sent, names, nothing_half_made
from waiting import alarm, in_child, until

import recstore
from recstore.remote import cached_manifests, openers, tokens
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import manifest

# ---- Opening ----


def test_a_list_is_only_fetched_once(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    assert x.to_list() == ALL and len(x) == 360 and x[-1] == ALL[-1]
    assert x[50:130].field("i").to_list() == list(range(50, 130))
    has_sent(made, 6)
    assert fetched(made) == (6, made.made.nbytes)
    assert names(tmp_path, ".recs") == sorted(f"{one}.recs" for one in made.made.hashes)
    assert {stat.S_IMODE(os.stat(tmp_path / "recstore" / name).st_mode) for name in names(tmp_path, ".recs")} == {0o400}
    assert nothing_half_made(tmp_path)
    made.reset_counts()
    again = recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options)
    assert again.to_list() == ALL and made.log == []  # no request at all


def test_a_folder_is_mapped_in_place(tmp_path):
    shard_sets.write(tmp_path / "set", PARTS, attributes={"classes": ["a"]})
    for path in (tmp_path / "set", f"{tmp_path}/set@1", os.fsencode(tmp_path / "set"), f"file://{tmp_path}/set"):
        x = recstore.open(path)
        assert x.to_list() == ALL and x.attributes == {"classes": ["a"]}
        assert type(x.selection.shards.opener) is openers.Opener
    assert recstore.open(tmp_path / "set", cache=tmp_path / "none", limit=1, lazy=True)[7] == ALL[7]
    assert not (tmp_path / "none").exists()


def test_a_list_keeps_to_its_manifest(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    storage = storage_of(made.at, made.options)
    more = [shard_sets.put(storage, recstore.RecordList(shard_sets.records(5, 1000)))]
    manifest.commit(storage, lambda old: manifest.Manifest("list", [*old.shards(), *more]))
    assert len(x) == 360
    y = pickle.loads(pickle.dumps(x))
    openers._openers.clear()  # as in another process
    z = pickle.loads(pickle.dumps(x[5:9]))
    assert len(y) == 360 and z.to_list() == ALL[5:9]
    assert len(recstore.open(made.at, cache=tmp_path, options=made.options)) == 365
    assert len(recstore.open(f"{made.at}@1", cache=tmp_path, options=made.options)) == 360


def test_missing_sets_and_invalid_arguments(made, tmp_path):
    with pytest.raises(recstore.errors.SegmentNotFoundError, match="no set of shards"):
        recstore.open(f"{made.at}-none", cache=tmp_path, options=made.options)
    with pytest.raises(recstore.errors.SegmentNotFoundError, match=r"no such manifest.*manifest-7\.json"):
        recstore.open(f"{made.at}@7", cache=tmp_path, options=made.options)
    with pytest.raises(recstore.errors.SegmentNotFoundError, match="no such file or folder of shards"):
        recstore.open(tmp_path / "trian", cache=tmp_path)
    pytest.raises(ValueError, lambda: recstore.open(made.at, options=made.options)).match("RECSTORE_CACHE")
    recstore.RecordList([1]).save(tmp_path / "x@1.recs")
    assert recstore.open(tmp_path / "x@1.recs")[0] == 1
    pytest.raises(ValueError, lambda: recstore.open(tmp_path / "x@1.recs", cache=tmp_path)).match("leave them out")
    pytest.raises(ValueError, lambda: recstore.open(made.at, copy=True)).match("for a file")
    with pytest.raises(ValueError, match="has credentials"):
        recstore.open("s3://key:secret@bucket/x", cache=tmp_path)


def test_the_environment_names_the_cache(made, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTORE_CACHE", str(tmp_path / "new" / "folder"))
    assert recstore.open(made.at, options=made.options).to_list() == ALL


def test_reading_options_apply_to_every_shard_file(made, tmp_path):
    x = recstore.open(
        made.at, cache=tmp_path, options=made.options, verify="full", arrays="view", limits=(10**6, 10**6)
    )
    assert x.to_list() == ALL
    assert all(segment.verified for segment in x.selection.shards.segments())
    openers._openers.clear()
    y = pickle.loads(pickle.dumps(x))
    reading = y.selection.shards.opener.reading
    assert (reading.verify, reading.limits, reading.reader.arrays) == ("full", (10**6, 10**6), "view")
    low = recstore.open(made.at, cache=tmp_path, options=made.options, limits=(1, 1))
    pytest.raises(recstore.errors.CorruptError, lambda: low[0]).match("LIMIT")


def test_a_full_check_compares_the_content_with_the_name(tmp_path):
    """The shard file was replaced by another one of the same size."""
    found = shard_sets.write(tmp_path / "set", [list(range(100)), list(range(100, 200))])
    first, second = (tmp_path / "set" / f"{one}.recs" for one in found.hashes)
    assert found.sizes[0] == found.sizes[1]
    first.chmod(0o600)
    first.write_bytes(second.read_bytes())
    assert recstore.open(tmp_path / "set")[0] == 100
    with pytest.raises(recstore.errors.CorruptError, match=f"does not match its name.*{first.name}"):
        recstore.open(tmp_path / "set", verify="full")


@pytest.mark.parametrize("bounds", [("a0", "a5"), ("b", "c"), (None, None)])
def test_a_full_check_compares_the_bounds_of_keys(tmp_path, bounds):
    parts = [{f"a{i}": i for i in range(10)}, {f"b{i}": i for i in range(10)}]
    found = shard_sets.write(tmp_path, parts)
    shards = [shard._replace(low=low, high=high) for shard, low, high in zip(found.shards(), "ab", "ab")]
    shards[0] = shards[0]._replace(low=bounds[0], high=bounds[1])
    shards[1] = shards[1]._replace(low="b0", high="b9")
    manifest.commit(storage_of(tmp_path), lambda old: manifest.Manifest("mapping", shards))
    pytest.raises(recstore.errors.CorruptError, lambda: recstore.open(tmp_path, verify="full"))


def test_a_path_of_one_character(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shard_sets.write("s", [[1, 2]])
    for path in ("s@1", "./s@1", b"s@1"):
        assert recstore.open(path).to_list() == [1, 2]


# ---- Lazy ----


def test_a_lazy_list_fetches_files_on_demand(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options)
    assert fetched(made) == (0, 0) and len(x) == 360
    assert x[70] == ALL[70]
    has_sent(made, 1)
    assert x.get_many([71, 300]) == [ALL[71], ALL[300]]
    has_sent(made, 2)
    x.selection.shards.opener.fetch_ahead([0, 1, 3])
    until(lambda: len(names(tmp_path, ".recs")) == 4)
    assert x[5] == ALL[5] and x[200] == ALL[200]
    has_sent(made, 4)


def test_a_failed_hint_is_not_an_error(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options)
    made.deny(1, match=made.made.hashes[2])
    x.selection.shards.opener.fetch_ahead([2])
    until(lambda: made.left() == 0)
    assert x[125] == ALL[125]


# ---- Handles ----


def test_handles_hold_no_credentials(made, tmp_path):
    secret = {**made.options, "secret_access_key": "the-secret-itself"}
    x = recstore.open(made.at, cache=tmp_path, lazy=True, options=secret)
    handle = pickle.dumps(x)
    assert b"the-secret-itself" not in handle and len(handle) <= 400
    assert all(b"the-secret" not in path.read_bytes() for path in pathlib.Path(tmp_path).rglob("*") if path.is_file())
    openers._openers.clear()
    y = pickle.loads(handle)
    assert y.selection.shards.opener.reading.options == secret  # found in the memory of this process
    assert y[70] == ALL[70]


needs_memfd = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd_create")


@needs_memfd
def test_options_are_only_read_from_the_right_memory(tmp_path):
    private = tokens.Private({"a": 1}, None)
    assert private.place() == private.place()
    pid, started, fd, mark = os.getpid(), tokens.start_time(os.getpid()), private.fd, private.mark
    assert tokens.Private.at(pid, started, fd, mark) == ({"a": 1}, None)
    assert tokens.Private.at(pid, started + 1, fd, mark) == (None, None)
    assert tokens.Private.at(pid, started, 9999, mark) == (None, None)
    assert tokens.Private.at(pid, started, fd, bytes(8)) == (None, None)
    with open(tmp_path / "other", "w+") as other:
        other.write("other bytes")
        other.flush()
        assert tokens.Private.at(pid, started, other.fileno(), mark) == (None, None)
    assert tokens.Private(None, None).place() == b""


def unpacked(private):
    """Returns a function that returns the options and the reader that another process gets from a token."""
    from recstore._core import trust

    reading = tokens.Reading("s3://b/x", reader=trust.Reader(False))
    return lambda token=tokens.pack(reading, 3, "ab" * 20, private): (
        tokens.unpack(token)[0].options,
        tokens.unpack(token)[0].reader,
    )


@needs_memfd
def test_options_of_another_set_are_never_used(tmp_path):
    """A descriptor number may be reused for another set."""

    def work():  # in a process in which no other thread closes or opens a descriptor
        first = tokens.Private({"secret": "of the first"}, None)
        of_first = unpacked(first)
        options, number = of_first()[0], first.fd
        first.close()
        second = tokens.Private({"secret": "of the second"}, None)
        return options, unpacked(second)()[0], second.fd == number, of_first()[0]

    assert in_child(work) == ({"secret": "of the first"}, {"secret": "of the second"}, True, None)


@needs_memfd
def test_options_survive_a_class_that_cannot_be_imported(tmp_path, monkeypatch):
    (tmp_path / "passing_module.py").write_text("class Passing: pass")
    monkeypatch.syspath_prepend(tmp_path)
    import passing_module

    private = tokens.Private({"a": 1}, [passing_module.Passing])
    unpack = unpacked(private)
    monkeypatch.delitem(sys.modules, "passing_module")
    (tmp_path / "passing_module.py").unlink()
    assert unpack()[0] == {"a": 1}  # only reading a record of the missing class raises
    large = tokens.Private({"a": "x" * (3 << 20)}, None)
    assert unpacked(large)()[0] == {"a": "x" * (3 << 20)}


def test_damaged_tokens():
    from recstore._core import trust

    reading = tokens.Reading("s3://b/x", cache="/c", limit=7, lazy=True, reader=trust.Reader(False), limits=(1, 2))
    reading.place = "cd" * 8
    token = tokens.pack(reading, 3, "ab" * 20, tokens.Private(None, None))
    got, number, beginning = tokens.unpack(token)
    assert (got.url, got.cache, got.limit, got.lazy, got.limits) == ("s3://b/x", "/c", 7, True, (1, 2))
    assert got.place == "cd" * 8
    assert (number, beginning) == (3, "ab" * 8) and len(token) < 70
    for size in range(len(token)):
        pytest.raises(recstore.errors.CorruptError, lambda: tokens.unpack(token[:size]))
    pytest.raises(recstore.errors.CorruptError, lambda: tokens.unpack(b"\2" + token[1:])).match("does not support")
    pytest.raises(recstore.errors.CorruptError, lambda: tokens.unpack(token + b"x"))


def test_a_handle_of_a_set_that_was_replaced(tmp_path):
    shard_sets.write(tmp_path / "set", PARTS)
    x = recstore.open(tmp_path / "set")
    handle = pickle.dumps(x)
    (tmp_path / "set" / "manifest-1.json").unlink()
    shard_sets.write(tmp_path / "set", PARTS[:2])
    openers._openers.clear()
    y = pickle.loads(handle)
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: y[0]).match("written again")


def test_a_set_that_was_replaced_at_a_url(made, tmp_path):
    """The cache has a manifest with the same URL and number."""
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    (path,) = (tmp_path / "recstore" / "sets").glob("*.json")
    before = path.read_bytes()
    made.delete(f"{made.prefix}/manifest-1.json")
    shard_sets.write(made.at, [["new"] * 9], made.options)
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    assert x.to_list() == ["new"] * 9
    path.chmod(0o600)
    path.write_bytes(before)  # as in the cache of another machine
    handle = pickle.dumps(x)
    openers._openers.clear()
    assert pickle.loads(handle).to_list() == ["new"] * 9


def test_a_set_that_was_replaced_at_once_by_one_of_the_same_size(made, tmp_path):
    """The listing shows the same size, and the same second."""
    for text in ("a", "b"):
        made.delete(f"{made.prefix}/manifest-1.json")
        shard_sets.write(made.at, [[text * 9]], made.options)
        for _ in range(2):
            with recstore.open(made.at, cache=tmp_path, options=made.options) as x:
                assert x.to_list() == [text * 9]


def test_a_bucket_of_another_endpoint_is_another_set(monkeypatch):
    def place(**options):
        return cached_manifests.set_id("s3://b/x", 1, cached_manifests.place_of(options))

    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    plain = place()
    ids = [plain, place(endpoint="http://a"), place(endpoint="http://b"), place(region="us-east-2")]
    ids += [place(account_name="one"), place(client_kwargs={"endpoint_url": "http://a"})]
    for name in ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.setenv(name, "other")
        ids.append(place())
    assert len(set(ids)) == len(ids)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "renewed")
    assert place(secret_access_key="a", access_key_id="b", account_key="c", token="d", timeout=object()) == plain


def test_a_handle_finds_the_cached_manifest_without_options(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    handle = pickle.dumps(x)
    x.selection.shards.opener._private.close()  # as at the end of the process that had the options
    openers._openers.clear()
    made.deny(10**6)
    assert pickle.loads(handle).to_list() == ALL


def test_closing_a_copy_closes_the_whole_set(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, options=made.options)
    handle = pickle.dumps(x)
    y = pickle.loads(handle)
    assert x[0] == y[0] == ALL[0]
    y.close()
    for closed in (x, y):
        for i in (0, 200):
            pytest.raises(recstore.errors.ClosedError, lambda: closed[i])
    again = pickle.loads(handle)
    assert again[0] == ALL[0] and again[200] == ALL[200]


def test_classes_that_cannot_be_pickled(tmp_path):
    class Local:
        pass

    shard_sets.write(tmp_path / "set", PARTS)
    assert recstore.open(tmp_path / "set", classes=[Local]).to_list() == ALL


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
def test_descriptors_are_closed(made, tmp_path):
    recstore.open(made.at, cache=tmp_path, options=made.options).close()
    before = descriptors.count()
    for _ in range(3):
        x = recstore.open(f"{made.at}@1", cache=tmp_path, lazy=True, options=made.options)
        assert x.to_list() == ALL
        x.close()
        x.selection.shards.opener.client.close()
        del x
    assert descriptors.count() <= before  # fewer if the fetching process of an earlier test ends


def test_an_interrupted_opening_leaves_no_files(made, tmp_path):
    made.delay(1, times=6, match=r"\.recs")
    with pytest.raises(KeyboardInterrupt), alarm(0.5, KeyboardInterrupt):
        recstore.open(made.at, cache=tmp_path, options=made.options)
    assert nothing_half_made(tmp_path)
    made.heal()
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL


def test_a_set_may_have_more_shard_files_than_descriptors(tmp_path):
    shard_sets.write(tmp_path / "set", [[i] for i in range(80)])
    x = recstore.open(tmp_path / "set")
    with descriptors.room_for(20):
        assert x.to_list() == list(range(80))


@pytest.mark.parametrize(("package", "enter"), [
    ("ray", lambda: importlib.import_module("recstore.remote.ray").read("set")),
    ("pyspark", lambda: importlib.import_module("recstore.remote.spark").register(None)),
    ("dask", lambda: importlib.import_module("recstore.remote.dask").from_shards("set")),
])  # fmt: skip
def test_an_engine_is_missing(monkeypatch, package, enter):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    pytest.raises(ImportError, enter).match("pip install")
