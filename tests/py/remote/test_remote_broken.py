"""Regression tests of sets of shards: each of these failed before a fix."""

import contextlib
import os
import pickle
import resource
import textwrap

import descriptors
import pytest
import shard_sets
import waiting
from s3_sets import ALL, PARTS
from waiting import alarm

import recstore
from recstore.remote.engines.shard_tables import parts
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.set import collecting, manifest
from recstore.remote.set.writer import ShardWriter

CONFLICT = "<?xml version='1.0'?><Error><Code>ConditionalRequestConflict</Code><Message>Again.</Message></Error>"

# ---- Processes ----


def test_a_process_with_many_descriptors_fetches(made, tmp_path):
    """select(2) accepts no descriptor beyond 1,023."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("too few descriptors are allowed")
    with descriptors.limit(2000), contextlib.ExitStack() as opened:
        while opened.enter_context(open(os.devnull)).fileno() < 1100:
            pass
        with recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options) as x:
            assert x.to_list() == ALL


def test_modules_of_the_current_folder_are_not_run(made, tmp_path):
    """Fetching processes, even of forked writers, import no modules from their current folder."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import multiprocessing, sys
            import recstore
            from recstore.remote.places.choose_storage import storage_of

            def work(url, options):
                storage_of(url, options).write("a", b"x")

            if __name__ == "__main__":
                url, options, cache = sys.argv[1], eval(sys.argv[2], {"datetime": __import__("datetime")}), sys.argv[3]
                assert len(recstore.open(url, cache=cache, options=options).to_list()) == 360
                storage_of(url, options).size("a")
                process = multiprocessing.get_context("fork").Process(target=work, args=(url, options))
                process.start()
                process.join()
                assert process.exitcode == 0
            """
        )
    )
    folder = tmp_path / "current"
    folder.mkdir()
    for name in ("signal", "pickle", "threading", "os", "recstore"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'a').write('{name} ')")
    arguments = [made.at, repr(made.options), str(tmp_path / "cache")]
    done = waiting.python(program, *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run").exists()


def test_a_timeout_error_of_a_signal_handler_is_raised(made, tmp_path):
    x = recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options)
    assert x[0] == ALL[0]
    made.delay(0.6, method="GET", match="recs")
    with pytest.raises(TimeoutError, match="of the program"), alarm(0.2, TimeoutError("of the program")):
        x[200]
    made.heal()
    assert x.to_list() == ALL


# ---- Object stores ----


def test_another_request_for_the_name_is_in_progress(server):
    """S3 then answers 409 and asks to repeat the request."""
    w = ShardWriter(server.at, options=server.options, mapping=True)
    for match in ("recs", "keys"):
        server.refuse(2, status=409, body=CONFLICT, method="PUT", match=match)
    entry = w.write({("a", 1): 1})
    server.refuse(2, status=409, body=CONFLICT, method="PUT", match="manifest")
    assert w.commit(entry) == 1 and server.left() == 0
    assert {key.rpartition(".")[2] for key in server.objects() if server.prefix in key} == {"json", "keys", "recs"}
    server.refuse(10_000, status=409, body=CONFLICT, method="PUT")
    w = ShardWriter(server.at, options=server.options | {"patience": 0.02}, mapping=True)
    for act in (lambda: w.write({2: 3}), lambda: w.commit(entry, append=True, base=1) and w.commit([])):
        pytest.raises(recstore.errors.RemoteError, act).match("keeps saying that another request is writing it")
    server.heal()


def test_a_set_without_the_filter_of_a_shard_file(server, tmp_path):
    """A lookup reads the shard file, and a commit is refused."""
    w = ShardWriter(server.at, options=server.options, mapping=True)
    entry = w.write({("a", 1): 1})
    w.commit(entry)
    w.storage.delete([f"{entry.hashes[0]}.keys"])
    d = recstore.open(server.at, cache=tmp_path, lazy=True, options=server.options)
    assert d[("a", 1)] == 1 and ("b", 1) not in d
    pytest.raises(recstore.errors.SegmentNotFoundError, lambda: w.commit(entry)).match(r"is missing.*\.keys")


# ---- Places ----


def test_writers_refuse_the_url_of_a_manifest(tmp_path):
    w = ShardWriter(tmp_path / "train")
    w.commit(w.write([1]))
    for act in (ShardWriter, collecting.gc):
        pytest.raises(ValueError, lambda: act(tmp_path / "train@1")).match("leave out @1, or make the folder")
        pytest.raises(ValueError, lambda: act("s3://bucket/train@best/")).match("leave out @best$")
        pytest.raises(ValueError, lambda: act("")).match("the URL of a set of shards is empty")
    (tmp_path / "a@2").mkdir()  # an existing folder of this name
    w = ShardWriter(tmp_path / "a@2")
    w.commit(w.write([5]))
    assert recstore.open(tmp_path / "a@2").to_list() == [5]


def test_a_folder_whose_name_is_not_text(tmp_path):
    folder = os.fsencode(tmp_path) + b"/x\xff"
    w = ShardWriter(folder)
    w.commit(w.write([1, 2]))
    assert pickle.loads(pickle.dumps(recstore.open(folder))).to_list() == [1, 2]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    for url in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(recstore.errors.RemoteError, match="cannot write") as caught:
            ShardWriter(url).write([1])
        assert caught.value.url == str(url)


def test_a_pipe_with_the_name_of_a_manifest(tmp_path):
    w = ShardWriter(tmp_path)
    w.commit(w.write([1]))
    os.mkfifo(tmp_path / "manifest-2.json")
    pytest.raises(recstore.errors.RemoteError, lambda: recstore.open(f"{tmp_path}@2")).match("it is a pipe")


# ---- Invalid manifests and shard files ----


def test_the_highest_number_of_a_manifest(tmp_path):
    w = ShardWriter(tmp_path)
    w.commit(w.write([1]))
    last = manifest.load(w.storage, 1)
    last.number = 10**18 - 1
    w.storage.write(manifest.name_of(last.number), last.dump())
    with pytest.raises(recstore.errors.RemoteError, match="no manifest can follow number 999,999,999,999,999,999"):
        w.commit(w.write([2]))


def commit_as(kind, folder):
    """Writes a second manifest that claims this kind for the shard files of the first."""
    forged = manifest.load(storage_of(folder), 1)
    forged.kind, forged.number = kind, 2
    forged.bounds = None
    forged._settle()
    storage_of(folder).write(manifest.name_of(2), forged.dump())


@pytest.mark.parametrize("kind", ["list", "mapping"])
def test_a_shard_file_of_the_wrong_kind(tmp_path, kind):
    shard_sets.write(tmp_path, [{"a": 1}] if kind == "mapping" else [[1]])
    commit_as("list" if kind == "mapping" else "mapping", tmp_path)
    x = recstore.open(tmp_path)
    pytest.raises(recstore.errors.CorruptError, lambda: list(x)).match(f"a shard file of a {kind} in a set of a .*recs")
    (part,) = parts(tmp_path)
    pytest.raises(recstore.errors.CorruptError, lambda: list(part.tables())).match(r"or is of another kind.*recs")


def test_an_engine_reads_a_shard_file_of_the_wrong_length(tmp_path):
    shard_sets.write(tmp_path, PARTS)
    (first, second, *_) = parts(tmp_path)
    first.hash = second.hash
    first.records += 1
    pytest.raises(recstore.errors.CorruptError, lambda: list(first.tables())).match("and its manifest says")


# ---- Keys ----


@pytest.mark.parametrize("other", [[], ["\ue000"]])
def test_keys_with_surrogates(tmp_path, other):
    keys = ["\ud83d\ude00", *other]
    w = ShardWriter(tmp_path, mapping=True)
    w.commit(w.write({key: i for i, key in enumerate(keys)}))
    d = recstore.open(tmp_path)
    assert list(d) == keys and [d[key] for key in keys] == list(range(len(keys))) and "😀" not in d


def test_keys_from_a_generator(tmp_path):
    w = ShardWriter(tmp_path, mapping=True)
    w.commit(w.write({"a": 1}))
    d = recstore.open(tmp_path)
    assert d.get_many(key for key in ["a", "a"]) == [1, 1]
    pytest.raises(KeyError, lambda: d.get_many(key for key in ["a", "zz"])).match("zz")


# ---- Writers ----


def test_attributes_of_entries_appended_to_an_empty_set(tmp_path):
    w = ShardWriter(tmp_path)
    w.commit([])
    entry = w.write([1])
    entry.attributes["names"] = ["cat"]
    w.commit(entry, append=True)
    assert recstore.open(tmp_path).attributes == {"names": ["cat"]}


def test_arguments_of_remove(tmp_path):
    w = ShardWriter(tmp_path)
    entries = [w.write([i]) for i in range(3)]
    w.commit(entries)
    w.remove(entries[0].shards)
    w.remove([entries[1].shards[0]])
    assert recstore.open(tmp_path).to_list() == [2]
    for wrong in ([None], b"x", [3]):
        with pytest.raises(TypeError, match="remove takes hashes of shard files and entries"):
            w.remove(wrong)
    with pytest.raises(ValueError, match="is not the hash of a shard file"):
        w.remove(f"{entries[2].hashes[0]}.recs")


def test_a_sampler_refuses_the_state_of_another_set_of_the_same_size(tmp_path):
    pytest.importorskip("torch")
    from recstore.torch import ShardSampler

    sets = []
    for name in ("a", "b"):
        w = ShardWriter(tmp_path / name, shard_records=10)
        w.commit(w.write({name: i} for i in range(50)))
        sets.append(recstore.open(tmp_path / name))
    sampler = ShardSampler(sets[0], rank=0, world_size=1)
    next(iter(sampler))
    ShardSampler(sets[0], rank=0, world_size=1).load_state_dict(sampler.state_dict())
    with pytest.raises(ValueError, match="open the run's version"):
        ShardSampler(sets[1], rank=0, world_size=1).load_state_dict(sampler.state_dict())


# ---- Options ----


@pytest.mark.parametrize("source", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "options", "client"])
def test_a_store_without_tls(server, tmp_path, monkeypatch, source):
    options = {"region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
    if source == "client":
        options |= {"aws_endpoint": server.endpoint, "allow_http": True, "timeout": "20 seconds"}
    elif source == "options":
        options |= {"endpoint_url": server.endpoint}
    else:
        monkeypatch.setenv(source, server.endpoint)
    w = ShardWriter(server.at, options=options)
    w.commit(w.write(ALL))
    assert recstore.open(server.at, cache=tmp_path, options=options).to_list() == ALL


def test_unknown_options_of_obstore(server):
    with pytest.raises(recstore.errors.RemoteError, match="correct the names in options="):
        ShardWriter(server.at, options=server.options | {"endpont": "x"}).write([1])


def test_missing_credentials_are_not_called_wrong():
    from recstore.remote.places.obstore_store import _explained

    text = "Generic S3 error: Error performing GET http://169.254.169.254/latest: status code: 403 Forbidden"
    assert "no credentials were found" in str(_explained(OSError(text), "read", "s3://bucket/x", None)[0])


def test_a_set_has_one_kind(tmp_path):
    w = ShardWriter(tmp_path)
    w.commit(w.write([1]))
    mapping = ShardWriter(tmp_path, mapping=True)
    entry = mapping.write({"a": 1})
    for append in (False, True):
        with pytest.raises(ValueError, match="is a list, and this writer writes a mapping"):
            mapping.commit(entry, append=append)
    w.commit([])  # an empty set can get another kind
    assert mapping.commit(entry) == 3


def test_info_has_the_manifest_and_is_short(tmp_path):
    w = ShardWriter(tmp_path, shard_records=10)
    w.commit(w.write({"id": i} for i in range(100)))
    x = recstore.open(tmp_path)
    assert x.to_list() and x.info().sets == ((str(tmp_path), 1),) and len(x.info().stores) == 10
    text = str(x.info())
    assert f"100 records of 10 shards, 10 of them open here, {x.nbytes:,} bytes\nmanifest 1 of {tmp_path}\n" in text
    assert len(text.splitlines()) < 25 and text.endswith("and 9 more, which .stores has")
    assert x[5:7].info().sets == x.info().sets


# ---- verify="full" ----


@pytest.mark.parametrize("damage", ["flip", "replace", "remove"])
def test_all_shard_files_are_checked_first(tmp_path, damage, capsys):
    from recstore.cli import main

    written, at = shard_sets.write(tmp_path / "set", PARTS), str(tmp_path / "set")
    assert main.main(["verify", at]) == 0 and "good" in capsys.readouterr().out
    recstore.open(at, verify="full").close()
    path = tmp_path / "set" / (written.hashes[-1] + ".recs")
    if damage == "flip":
        shard_sets.damage(storage_of(tmp_path / "set"), path.name)
    else:
        path.unlink()
    if damage == "replace":
        path.write_bytes(b"garbage")
    recstore.open(at).close()
    with pytest.raises((recstore.errors.CorruptError, recstore.errors.SegmentNotFoundError)) as raised:
        recstore.open(at, verify="full")
    assert path.name in str(raised.value)
    assert main.main(["verify", at]) == 1 and path.name in capsys.readouterr().err
