"""Races of stores shared by name, reproduced one by one. The random test (test_shared_storm.py) would meet each about
once in a million rounds."""

import ctypes
import fcntl
import functools
import gc
import os
import signal
import threading
import time

import pytest
from mp import sharers
from mp.sharers import FORK, Build, count_collected, end, files_after_collecting, files_of, notes, start
from waiting import LIMIT_S

import recstore
from recstore import sharing
from recstore._core import native, trust
from recstore.shm import named_segments

pytestmark = pytest.mark.usefixtures("alone")


def orphan(name, **options):
    """Makes a store whose only user is killed. Returns its path."""
    process = FORK.Process(target=_abandon, args=(name, options))
    process.start()
    process.join()
    process.close()
    (path,) = named_segments.paths_of(name)
    return path


def _abandon(name, options):
    x = recstore.shared(name, lambda: [1], fingerprint="1", **options)
    os.kill(os.getpid(), signal.SIGKILL)
    x.close()


def before_removal(monkeypatch, act):
    """Calls `act` once between the check of a segment and its removal."""
    real, todo = named_segments.expired, [act]

    def expired(label, used):
        may_go = real(label, used)
        if todo:
            todo.pop()()
        return may_go

    monkeypatch.setattr(named_segments, "expired", expired)


def test_the_collector_only_removes_the_file_that_it_checked(name, monkeypatch):
    """Between the check of an orphan and its removal, a kept store gets its name."""
    path = orphan(name)

    def replace():
        os.unlink(path)
        recstore.shared(name, lambda: [2], fingerprint="1", keep=True).close()

    before_removal(monkeypatch, replace)
    assert count_collected(name) == 0
    with recstore.shared(name) as x:
        assert x[0] == 2
    assert recstore.names.remove(name) == 1


def test_the_collector_keeps_a_store_used_since_the_check(name, monkeypatch):
    recstore.shared(name, lambda: [1], fingerprint="1", keep="1h").close()
    (path,) = named_segments.paths_of(name)
    os.utime(path, (time.time() - 7200,) * 2)

    def use():
        segment, _ = named_segments.open_leased(path)
        segment.close()

    before_removal(monkeypatch, use)
    assert count_collected(name) == 0 and len(files_of(name)) == 1
    os.utime(path, (time.time() - 7200,) * 2)
    assert files_after_collecting(name) == []


def test_interrupted_attach_removes_nothing_kept(name, monkeypatch):
    recstore.shared(name, lambda: [1], fingerprint="1", keep=True).close()
    (path,) = named_segments.paths_of(name)

    def interrupted(segment):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(named_segments.Label, "of", interrupted)
        pytest.raises(KeyboardInterrupt, lambda: named_segments.open_leased(path))
    gc.collect()
    assert len(files_of(name)) == 1 and recstore.names.remove(name) == 1


@pytest.mark.parametrize("timeout", [0, 0.3])
def test_a_file_that_stays_locked(name, monkeypatch, timeout):
    """A process that was stopped while it checked the file keeps the lock."""
    recstore.shared(name, lambda: [1], fingerprint="1", keep=True).close()
    (path,) = named_segments.paths_of(name)
    monkeypatch.setattr(named_segments, "_LEAST_WAIT", 0.1)
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(recstore.errors.WaitTimeoutError, match=f"has locked {path}"):
            recstore.shared(name, lambda: [1], fingerprint="1", timeout=timeout)
        pytest.raises(recstore.errors.WaitTimeoutError, lambda: named_segments.open_leased(path, timeout))
        threading.Timer(0.2, fcntl.flock, (file, fcntl.LOCK_UN)).start()
        with recstore.shared(name, lambda: [2], fingerprint="1") as x:
            assert x.to_list() == [1]
    assert recstore.names.remove(name) == 1


def test_an_old_failure_in_the_lock_file_is_ignored(name, monkeypatch):
    """A process recorded its failure and was killed before it removed the lock file, and the next holder has not
    written its own state yet. A failure that is recorded during the wait raises."""
    target = named_segments.Target(name, "1")
    call = sharing._Call(target, lambda: [1], False, 20)
    for note, fails in ((b"1\n99\nprocess 99\nfailed\nwhy", False), (b"1\n99\nprocess 99\nbuilding\n", True)):
        holder = native.Lock(target.lock_path)
        assert holder.state == native.HELD and holder.write(note)
        waiting = native.Lock(target.lock_path)

        def end_holder(seconds, holder=holder, fails=fails):
            if fails:
                holder.write(b"1\n99\nprocess 99\nfailed\nwhy")
            holder.close()

        monkeypatch.setattr(sharing.time, "sleep", end_holder)
        if fails:
            pytest.raises(recstore.errors.BuildError, lambda: call.wait(waiting)).match("failed in process 99")
        else:
            assert call.wait(waiting) is False
        waiting.close()


def _sleep(connection):
    connection.send("here")
    connection.recv()


@pytest.mark.parametrize("waiting", [True, False])
def test_forked_child_holds_no_lock(tmp_path, waiting):
    """Another thread forks while this thread waits for a lock, or has just got it. If this process is killed, the child
    must not keep the lock."""
    path = str(tmp_path / "lock")
    first = native.Lock(path) if waiting else None
    second = native.Lock(path)
    child = start(_sleep)
    assert child[1].recv() == "here"
    if waiting:
        assert second.state == native.BUSY
        first.forget()  # as a kill would: its file stays
        assert second.attempt() == native.HELD
    second.forget()
    third = native.Lock(path)
    assert third.state == native.HELD
    third.close()
    end(child)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("fork", [os.fork, ctypes.CDLL(None).fork], ids=["of Python", "of C"])
def test_a_killed_builder_whose_child_lives_on(name, fork, tmp_path):
    """A child must not keep its parent's lock, even if C code forked it, so that no Python hook ran."""
    note = tmp_path / "left behind"
    build = functools.partial(sharers.kill_self_leaving_a_child, str(note), fork=fork)
    builder = FORK.Process(target=recstore.shared, args=(name, build), kwargs={"fingerprint": "1"})
    builder.start()
    builder.join()
    try:
        assert builder.exitcode == -signal.SIGKILL
        with recstore.shared(name, lambda: [1], fingerprint="1", timeout=LIMIT_S) as x:
            assert x.to_list() == [1]
        os.kill(int(note.read_text()), 0)  # the child still lives
    finally:
        os.kill(int(note.read_text()), signal.SIGKILL)


def test_another_process_publishes_during_a_build(name):
    """The other process may be the child of a killed builder, which publishes just before the child ends."""
    from recstore import sharing

    early = []

    def build():
        early.append(sharing._build([7], named_segments.Target(name, "1"), trust.Reader(trusted=False), {}))
        return [8]

    with recstore.shared(name, build, fingerprint="1") as x:
        assert x.to_list() == [7] == early[0].to_list()
        early[0].close()
        with recstore.RecordList([1], name=f"{name} own"), pytest.raises(recstore.errors.SegmentExistsError):
            recstore.shared(name, lambda: recstore.RecordList([2], name=f"{name} own"), fingerprint="2")


@pytest.mark.parametrize("child_too", [False, True] * 4, ids=range(8))
def test_interrupt_after_an_isolated_build(name, monkeypatch, log, child_too):
    """The child has published and waits for its parent, which no longer attaches."""
    from recstore import sharing

    real, calls = sharing._Call.attach, []

    def attach(self):
        calls.append(os.getpid())
        if len(calls) == 3:
            if child_too:  # as from a terminal
                os.kill(int(notes(log)[0].split()[1]), signal.SIGINT)
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(sharing._Call, "attach", attach)
    pytest.raises(KeyboardInterrupt, lambda: recstore.shared(name, Build(log, 1), fingerprint="1", isolate=True))
    assert len(calls) == 3 and files_of(name) == []


def test_a_reused_pid(name, monkeypatch):
    """The pid in the label of an orphan belongs to another living process. Leases decide, not pids."""
    me = str(os.getpid())
    with monkeypatch.context() as patched:
        patched.setattr(named_segments, "maker", lambda: {"pid": me, "started": "0", "command": "train.py"})
        orphan(name)
    (info,) = recstore.names.list(name)
    assert info.state == "orphan" and info.builder == f"process {me} (train.py)"
    assert files_after_collecting(name) == []
