"""Stores shared by name: names, folders, foreign files, handles, arguments, and too little space."""

import dataclasses
import functools
import os
import pickle
import threading

import pytest
from mp import sharers, workers
from mp.mounts import run_with_tmpfs
from mp.sharers import collect_all, count_collected, end, files_after_collecting, files_of, notes, records, start
from waiting import until

import recstore
from recstore import sharing
from recstore._core import native
from recstore.shm import folders, named_segments

# ---- Names and places -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad, why", [
    ("", "is empty"), ("a/b", "has a slash"), ("../../etc/passwd", "has a slash"), ("a\0b", "has a NUL"),
    ("x" * 300, "has 300 characters"), ("x" * 65, "has 65 characters"), (".", "begins with a dot"),
    ("..", "begins with a dot"), (".hidden", "begins with a dot"), ("a\nb", "unprintable"),
    ("\ud800", "unprintable")
], ids=range(11))  # fmt: skip
def test_bad_names(bad, why, alone):
    before = os.listdir(named_segments.folder())
    for call in (lambda: recstore.shared(bad, lambda: [1]), lambda: recstore.shared(bad), lambda: recstore.names.remove(bad),
                 lambda: recstore.RecordList([1], name=bad), lambda: recstore.names.list(bad)):  # fmt: skip
        pytest.raises(ValueError, call).match(why)
    assert os.listdir(named_segments.folder()) == before

    for bad in (5, b"x", ["x"]):
        pytest.raises(TypeError, lambda: recstore.shared(bad, lambda: [1])).match("must be a str")


def test_good_names():
    for good in ("coco.train2017", "x" * 64, "名前", "a b", "é" * 64, "-", "~"):
        file_name = named_segments.system_name(good, "f" * 1000)
        assert file_name.isascii() and len(f"/{file_name}{named_segments.LOCK}") <= 30
        assert named_segments.unpacked_name(named_segments.packed_name(file_name.encode())).decode() == file_name
        with recstore.shared(good, lambda: [1], fingerprint="f" * 1000) as x, recstore.shared(good) as y:
            assert x == y


def test_a_private_folder(name, tmp_path):
    place = tmp_path / "shared"
    with recstore.shared(name, lambda: [1], fingerprint="1", dir=place) as x:
        assert os.path.dirname(x.segment.path) == str(place) and os.stat(place).st_mode & 0o777 == 0o700
        assert recstore.shared(name, dir=place)[0] == 1
        pytest.raises(recstore.errors.SegmentNotFoundError, lambda: recstore.shared(name))
        assert len(recstore.names.list(dir=place)) == 1
    assert os.listdir(place) == [] and recstore.names.collect(dir=place) == 0


@pytest.fixture
def no_shm(monkeypatch, tmp_path):
    import tempfile

    monkeypatch.delenv("RECSTORE_DIR", raising=False)
    monkeypatch.delenv("RECSTORE_BACKING", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"recstore-{os.geteuid()}"


@pytest.mark.parametrize("how", ["missing", "read-only"])
def test_without_dev_shm(name, no_shm, monkeypatch, how, tmp_path):
    if how == "missing":
        monkeypatch.setattr(folders, "SHARED", str(tmp_path / "missing"))
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: path != "/dev/shm")
    with recstore.shared(name, lambda: [1], fingerprint="1") as x:
        assert os.path.dirname(x.segment.path) == str(no_shm) and recstore.shared(name)[0] == 1
    assert os.listdir(no_shm) == []
    no_shm.chmod(0o755)
    pytest.raises(PermissionError, lambda: recstore.shared(name, lambda: [1], fingerprint="1")).match("mode 0700")
    no_shm.chmod(0o700)


def test_without_nameless_files(name, log, monkeypatch):
    monkeypatch.setattr(named_segments, "_BACKING", "temporary")
    with recstore.shared(name, lambda: records(1), fingerprint="1") as x, recstore.shared(name) as y:
        assert x == y and len(files_of(name)) == 1 and os.stat(x.segment.path).st_nlink == 1
    with recstore.RecordList([1], name=name), pytest.raises(recstore.errors.SegmentExistsError):
        recstore.RecordList([1], name=name)
    pytest.raises(KeyError, lambda: recstore.shared(name, lambda: {}["x"], fingerprint="1"))
    first = start(sharers.call, name, log, {"gate": f"{log}.gate"})
    until(lambda: notes(log))
    assert len(files_of(name)) == 2
    assert count_collected(name) == 0
    first[0].kill()
    end(first)
    collect_all(name)


def test_a_lock_with_a_second_name_is_not_written(tmp_path):
    """Another user makes a second name for the lock file after it was opened."""
    lock = native.Lock(str(tmp_path / "x.lck"))
    assert lock.write(b"one") and lock.read() == b"one"
    os.link(tmp_path / "x.lck", tmp_path / "ours")
    assert not lock.write(b"two") and lock.read() == b"one"
    (tmp_path / "ours").unlink()
    assert lock.write(b"two") and lock.read() == b"two"
    lock.close()


# ---- Foreign files --------------------------------------------------------------------------------------------------


def plant(path, kind, tmp_path):
    if kind == "link":
        (tmp_path / "theirs").write_bytes(b"theirs")
        os.symlink(tmp_path / "theirs", path)
    elif kind == "fifo":
        os.mkfifo(path, 0o400)
    elif kind == "folder":
        os.mkdir(path)
    else:
        if kind == "user" and os.geteuid() != 0:
            pytest.skip("only root can make files of another user")
        # Renamed last, because a concurrent test may collect an unused file that we own.
        temporary_path = path + ".theirs"
        with open(os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as f:
            f.write(b"theirs" * 1000)
        os.chmod(temporary_path, 0o644 if kind == "mode" else 0o400)
        if kind == "user":
            os.chown(temporary_path, 12345, -1)
        os.rename(temporary_path, path)


PLANTED = [(kind, "path") for kind in ("link", "fifo", "folder", "mode", "user")]
PLANTED += [(kind, "lock_path") for kind in ("link", "fifo", "folder", "user")]  # an interrupted lock may have any mode


@pytest.mark.parametrize("kind, place", PLANTED)
def test_planted(name, kind, place, tmp_path):
    path = getattr(named_segments.Target(name, "1"), place)
    calls = [lambda: recstore.shared(name, lambda: [1], fingerprint="1")]
    if place == "path":
        calls += [lambda: recstore.shared(name), lambda: recstore.shared(name, fingerprint="1")]
    plant(path, kind, tmp_path)
    try:
        for call in calls:
            pytest.raises(PermissionError, call)
        assert count_collected(name) == 0 and os.path.lexists(path)
        assert len(recstore.names.list(name)) == 0
    finally:
        (os.rmdir if kind == "folder" else os.unlink)(path)


def test_two_users_with_one_name(name):
    if os.geteuid() != 0 or named_segments.folder() != "/dev/shm":
        pytest.skip("needs root, to become another user, and a folder that is open to both users")
    with recstore.shared(name, lambda: records(1), fingerprint="1") as x:
        process, connection = start(sharers.as_another_user, name, x.segment.path)
        assert connection.recv() == (12345, [2], "PermissionError", 0, True)
        end((process, connection))
        assert x.to_list() == records(1)


def write_damaged(kind, path, other):
    """Writes a segment as a power cut or a bug may leave it."""
    with open(other, "rb") as f:
        whole = f.read()
    content = {
        "empty": b"", "zeros": bytes(len(whole)), "cut": whole[:-100], "short": whole[:1000],
        "no head": bytes(128) + whole[128:]
    }[kind]  # fmt: skip
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, 0o400)


@pytest.mark.parametrize("kind", ["empty", "zeros", "cut", "short", "no head"])
def test_half_written(name, kind, alone):
    target = named_segments.Target(name, "1")
    with recstore.shared(name, lambda: records(1), fingerprint="2") as whole:
        write_damaged(kind, target.path, whole.segment.path)
        assert "damaged" in [info.state for info in recstore.names.list(name)]
        pytest.raises(recstore.errors.CorruptError, lambda: named_segments.open_target(target))
        with sharing._Call(target, lambda: [7], False, 1.0).run() as x, recstore.shared(name, fingerprint="1") as y:
            assert x[0] == y[0] == 7  # a new generation in its place
        write_damaged(kind, target.path, whole.segment.path)
        assert len(files_after_collecting(name)) == 1
        write_damaged(kind, target.path, whole.segment.path)
        with pytest.raises(recstore.errors.SegmentNotFoundError):
            recstore.shared(name, fingerprint="1")  # collects the damaged file first


def test_segment_of_another_key_under_our_name(name, alone):
    """After a collision of hashes, which never happens, the label differs."""
    target = named_segments.Target(name, "1")
    with recstore.shared(name, lambda: [1], fingerprint="2") as x:
        os.link(x.segment.path, target.path)
        with pytest.raises(recstore.errors.CorruptError, match="fingerprint '2'; choose another name"):
            recstore.shared(name, lambda: [2], fingerprint="1")
        os.unlink(target.path)


def test_file_of_records_under_our_name(name, alone, tmp_path):
    """A saved store has no label."""
    target = named_segments.Target(name, "1")
    with recstore.RecordList([1]) as x:
        x.save(target.path)
    os.chmod(target.path, 0o400)
    with pytest.raises(recstore.errors.CorruptError, match="has no readable label"):
        named_segments.open_target(target)
    assert files_after_collecting(name) == []


# ---- Trust, handles -------------------------------------------------------------------------------------------------


def test_the_builder_reads_as_other_processes_do(name):
    import fractions

    values = [fractions.Fraction(1, 3)]
    Thing = dataclasses.make_dataclass("Thing", ["a"])
    with recstore.shared(name, lambda: [Thing(1), *values], fingerprint="1") as x, recstore.shared(name) as y:
        assert type(x[0]) is type(y[0]) is recstore.Record and x[0]["a"] == 1 and x[1] == values[0]
        with recstore.shared(name, classes=[Thing]) as z:
            assert z[0] == Thing(1)


def test_handles(name, context, monkeypatch):
    x = recstore.shared(name, lambda: records(1), fingerprint="1")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=sharers.read_all, args=(child_end, x))
    process.start()
    equal, backing, path = parent_end.recv()
    assert equal and backing == "named" and path == x.segment.path
    if context.get_start_method() != "fork":
        x.close()
        assert len(files_of(name)) == 1  # the worker uses it
    parent_end.send(None)
    process.join()
    assert process.exitcode == 0
    parent_end.close(), child_end.close()
    x.close()


def test_handle_size_and_identity(name, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    x = recstore.shared(name, lambda: [1, 2, 3], fingerprint="1")
    more = [recstore.shared(name, lambda: [4], fingerprint=str(i)) for i in range(2, 5)]
    view = x[1:] + more[0] + more[1] + more[2]
    room = 300 + len(named_segments.folder()) - len("/dev/shm")
    assert len(pickle.dumps(x)) <= room and len(pickle.dumps(view)) <= room
    text = pickle.dumps(x)
    monkeypatch.setattr(recstore.shm.registry, "_attached", {})
    y = pickle.loads(text)
    assert y.segment is not x.segment and y[1] == 2 and y.segment.owner_pid == os.getpid()
    recstore.shm.pins.clear()
    x.close()
    y.close()
    assert "no longer exists" in repr(pickle.loads(text))
    with recstore.shared(name, lambda: [9], fingerprint="1"):
        z = pickle.loads(text)
        assert "another store" in repr(z) or "another file" in repr(z)
        assert recstore.shared(name, fingerprint="1")[0] == 9
    for store in more:
        store.close()
    recstore.shm.pins.clear()


# ---- Fingerprints, arguments ----------------------------------------------------------------------------------------


def test_derived_fingerprints_distinguish_builds(name):
    def of(n):
        return lambda: range(n)

    with recstore.shared(name, of(3)) as a, recstore.shared(name, of(4)) as b, recstore.shared(name, of(3)) as c:
        assert (len(a), len(b), len(c)) == (3, 4, 3) and len(files_of(name)) == 2
    with recstore.shared(name, functools.partial(range, 5)) as d:
        assert len(d) == 5


def test_builds_without_a_fingerprint_and_invalid_arguments(name):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the variable lock, which <lambda>\(\) uses, is a _thread.lock"):
        recstore.shared(name, lambda: [lock])
    pytest.raises(TypeError, lambda: recstore.shared(name, [1, 2])).match("takes a source, or a function")
    pytest.raises(TypeError, lambda: recstore.shared(name, lambda: [1], fingerprint=5)).match("fingerprint is a str")
    pytest.raises(FileNotFoundError, lambda: recstore.shared(name, lambda: [1], files=["/no/such/file"]))
    pytest.raises(ValueError, lambda: recstore.shared(name, lambda: [1], timeout=-1)).match("timeout")


# ---- Space ----------------------------------------------------------------------------------------------------------

SMALL = """
import os, sys, recstore
big = lambda: (os.urandom(100_000) for i in range(300))
try:
    recstore.shared("small", big)
    print("no error")
except recstore.errors.OutOfSpaceError as e:
    print(e)
try:
    recstore.RecordList(big(), backing="shm")
    print("no error")
except recstore.errors.OutOfSpaceError as e:
    print(e)
print(len(recstore.RecordList(big())), os.listdir("/dev/shm"))
with recstore.shared("small", lambda: range(1000)) as x:
    print(len(x))
"""


def test_small_dev_shm(tmp_path):
    """/dev/shm has 16 MB in a private mount namespace. Larger builds there raise errors and get no SIGBUS. The limit
    does not apply to anonymous memory."""
    script = tmp_path / "script.py"
    script.write_text(SMALL)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RECSTORE_")}
    named, nameless, built, small = run_with_tmpfs("size=16m", "/dev/shm", str(script), cwd=tmp_path, env=environment)
    assert "bytes are needed and the file system leaves" in named and "--shm-size" in named and "dir=" in named
    assert 'backing="anonymous"' in nameless and "--shm-size" in nameless
    assert built == "300 []" and small == "1000"


READ_ONLY = """
import os, sys, recstore
with recstore.shared("somewhere else", lambda: [1, 2]) as x, recstore.shared("somewhere else") as y:
    print(os.path.dirname(x.segment.path), y.to_list(), len(recstore.names.list()))
print(len(recstore.RecordList([1])))
"""


def test_read_only_dev_shm(tmp_path):
    """/dev/shm is read-only in a private mount namespace."""
    script = tmp_path / "script.py"
    script.write_text(READ_ONLY)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RECSTORE_")} | {"TMPDIR": str(tmp_path)}
    output = run_with_tmpfs("ro", "/dev/shm", str(script), cwd=tmp_path, env=environment)
    assert output == [f"{tmp_path}/recstore-{os.geteuid()} [1, 2] 1", "1"]


def test_backing_shm(monkeypatch):
    for by_environment in (False, True):
        if by_environment:
            monkeypatch.setenv("RECSTORE_BACKING", "shm")
        with recstore.RecordList([1, 2], **({} if by_environment else {"backing": "shm"})) as x:
            assert x.segment.backing == "shm" and x.segment.path is None and x[1] == 2
            status = os.fstat(x.segment.fileno())
            assert status.st_dev == os.stat("/dev/shm").st_dev and status.st_nlink == 0


def test_backing_shm_travels(context):
    x = recstore.RecordList((workers.record(i) for i in range(9)), backing="shm")
    assert workers.run_worker(context, workers.send_summary, x) == workers.summary(x)
