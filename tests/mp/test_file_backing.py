"""The directory backing: the life of its files. `nox -s files` runs tests of several processes with it."""

import os
import pickle
import stat

import pytest
from interpreters import FREE_THREADED
from mp import workers
from mp.workers import build, record, run_worker, summary

import recstore
from recstore.shm import file_backing, handles


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "stores"
    monkeypatch.setenv("RECSTORE_BACKING", "dir")
    monkeypatch.setenv("RECSTORE_DIR", str(folder))
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    return folder


def names(folder):
    return sorted(os.listdir(folder))


def test_the_file_is_private_and_read_only_and_removed(folder):
    x = build(10)
    assert x.segment.backing == "directory"
    (name,) = names(folder)
    status = os.stat(folder / name)
    assert stat.S_IMODE(status.st_mode) == 0o400 and stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    x.close()
    assert names(folder) == []
    pytest.raises(recstore.errors.EncodeError, lambda: recstore.RecordList([1, object()]))
    assert names(folder) == []


def test_the_file_is_removed_after_the_children_at_exit(folder, python):
    """multiprocessing joins children when the interpreter exits, if it was imported first."""
    out = python("import multiprocessing.util; from mp.workers import build; x = build(10); print(x.segment.path)")
    assert out.strip().startswith(str(folder))
    assert names(folder) == []


def test_the_file_of_a_worker_is_removed_when_it_exits(folder, context):
    x, path = run_worker(context, workers.build_and_exit, 10, str(folder))
    assert names(folder) == [] and not os.path.exists(path)
    assert len(x) == 10


def test_a_child_starts_while_its_parent_ends(folder, python):
    code = """
import multiprocessing, sys
from mp import workers
context = multiprocessing.get_context(sys.argv[1])
p = context.Process(target=print, args=(workers.build(10),))
keep = workers.build(3)
p.start()
"""
    for method in ("spawn", "forkserver"):
        assert "10 records" in python(code, method) and names(folder) == []


@pytest.mark.parametrize("killed", [True, False])
def test_a_reader_survives_its_owner(folder, holder, killed):
    owner, handle = holder("build(10)")
    x = pickle.loads(handle)
    there = names(folder)
    if killed:
        owner.kill()
    owner.communicate("\n")
    build(3).close()  # collects
    assert names(folder) == (there if killed else []), "leased"
    assert summary(x) == (10, record(0), record(9))
    x.close()
    if FREE_THREADED:
        del x
    assert file_backing.collect(folder) == killed
    assert names(folder) == []


def test_a_lease_protects_even_if_the_owner_looks_dead(folder, monkeypatch):
    # In another PID namespace, the collector cannot use the owner's pid.
    x = build(10)
    with monkeypatch.context() as patch:
        patch.setattr(handles, "start_time", lambda pid: None)
        assert file_backing.collect(folder) == 0
    assert len(names(folder)) == 1
    x.close()


def test_foreign_files_are_left_alone(folder):
    folder.mkdir(mode=0o700)
    foreign = ["notes.txt", "1.rec", "a-b-c.rec", "²-²-x.rec", "1-2-3-4.rec", f"{os.getpid()}-x-y.rec"]
    for name in foreign:
        (folder / name).write_text("mine")
    (folder / "999999999-5-dir.rec").mkdir()
    os.symlink(folder / "notes.txt", folder / "999999999-5-link.rec")
    os.mkfifo(folder / "999999999-5-fifo.rec")
    build(3).close()
    remaining = set(names(folder))
    assert remaining >= {*foreign, "999999999-5-dir.rec", "999999999-5-link.rec"}
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707, 0o777])
def test_a_folder_that_others_can_enter_is_refused(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    (folder / "999999999-5-x.rec").write_text("mine")
    pytest.raises(PermissionError, lambda: build(3)).match("0700")
    assert names(folder) == ["999999999-5-x.rec"]


def test_a_link_or_a_file_is_refused_as_folder(folder, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    pytest.raises(PermissionError, lambda: build(3))
    folder.unlink()
    folder.write_text("")
    pytest.raises(PermissionError, lambda: build(3))


def test_a_relative_folder_is_found_after_a_chdir(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECSTORE_DIR", "stores")
    x = build(3)
    monkeypatch.chdir("/")
    x.close()
    assert names(folder) == []


def test_the_handle_of_a_replaced_file_is_detached(folder):
    x = build(10)
    text, path = pickle.dumps(x), x.segment.path
    x.close()
    y = build(10)
    os.link(y.segment.path, path)
    z = pickle.loads(text)
    assert "another store" in repr(z)
    os.unlink(path)
