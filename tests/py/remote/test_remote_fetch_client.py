"""Fetching processes, and waiting for them: recstore.remote.cache.fetch_process and fetch_client.
tests/mp/test_remote_nodes.py tests several processes on a machine."""

import errno
import linecache
import os
import pickle
import signal
import sys
import threading
import time

import pytest
from s3_sets import ALL, first_in_helper, has_sent, names, nothing_half_made
from waiting import LIMIT_S, in_child, until

import recstore
from recstore._core import native
from recstore.remote.cache import cache, fetch_client, fetch_process
from recstore.remote.places import helper
from recstore.remote.places.choose_storage import storage_of
from recstore.remote.places.helper import HELPER

# ---- Fetching processes ----


def test_one_process_serves_all_sets_and_ends_after_the_last(made, tmp_path):
    def work():
        x = recstore.open(made.at, cache=tmp_path / "a", options=made.options)
        after_opening = HELPER.running
        lazy = [recstore.open(made.at, cache=tmp_path / name, lazy=True, options=made.options) for name in "bc"]
        assert x[0] == lazy[0][0] == ALL[0]
        process = HELPER._process
        lazy[0].close()
        assert lazy[1][0] == ALL[0] and HELPER._process is process
        lazy[1].close()
        return after_opening, HELPER.running, process.returncode

    assert in_child(work) == (False, False, 0)


@pytest.fixture
def x(made, tmp_path):
    """A lazy list that has fetched its first file."""
    x = recstore.open(made.at, cache=tmp_path, lazy=True, options=made.options)
    assert x[0] == ALL[0]
    return x


def test_a_killed_process_is_replaced(made, tmp_path, x):
    killed = HELPER._process
    killed.kill()
    assert x[70] == ALL[70] and HELPER._process.pid != killed.pid
    made.delay(60, match=made.made.hashes[2])
    x.selection.shards.opener.fetch_ahead([2])
    until(lambda: made.left() == 0 and names(tmp_path, cache.PART))
    HELPER._process.kill()
    assert x[130] == ALL[130]
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL and nothing_half_made(tmp_path)


def test_a_process_that_is_always_killed(x, monkeypatch):
    HELPER.close()
    with monkeypatch.context() as patch:
        patch.setattr(helper, "_BOOTSTRAP", "import os; os.kill(os.getpid(), 9)  # {path}")
        pytest.raises(recstore.errors.RemoteError, lambda: x[70]).match("3 times, last with status -9.*memory")
    assert x[70] == ALL[70]


def test_an_idle_process_ends_and_comes_back(x, monkeypatch):
    first_in_helper(monkeypatch, "import recstore.remote.cache.fetch_process as f; f.IDLE = 0.0")
    assert x[70] == ALL[70]
    first = HELPER._process
    assert first.wait(LIMIT_S) == 0
    assert x[130] == ALL[130] and HELPER._process is not first


def test_an_unknown_option(made, tmp_path):
    with pytest.raises((recstore.errors.RemoteError, TypeError, ValueError), match="no_such_thing"):
        recstore.open(made.at, cache=tmp_path, options={**made.options, "no_such_thing": "x"})


def test_errors_are_sent_unchanged():
    for error in (
        recstore.errors.CorruptError("text", filename="where"),
        recstore.errors.RemoteError("text", "s3://x"),
        recstore.errors.OutOfSpaceError(errno.ENOSPC, "text"),
        recstore.errors.SegmentNotFoundError(errno.ENOENT, "text", "where"),
        PermissionError(errno.EPERM, "text", "where"),
    ):
        received = pickle.loads(pickle.dumps(fetch_process.portable(error)))
        assert type(received) is type(error) and str(received) == str(error)
        assert getattr(received, "url", None) == getattr(error, "url", None)

    class Odd(ValueError):
        def __init__(self):
            super().__init__("odd")

        __reduce__ = None

    assert isinstance(fetch_process.portable(Odd()), recstore.errors.RemoteError)
    assert "a bug" in str(fetch_process.portable(KeyError("x")))


def test_messages_that_arrive_in_pieces():
    data = helper.pack((1, "a")) + helper.pack((2, "b" * 300))
    messages = helper.Messages()
    received = [message for at in range(0, len(data), 7) for message in messages.add(data[at : at + 7])]
    assert received == [(1, "a"), (2, "b" * 300)]


@pytest.fixture
def client(made, tmp_path):
    """A Client whose fetching process has answered a request."""
    client = fetch_client.Client(storage_of(made.at, made.options), cache.Cache(tmp_path))
    answers(client)
    yield client
    client.close()


def answers(client):
    assert len(client.ask("list", "manifest-")) == 1


def test_bytes_of_an_ended_process_are_ignored(client, monkeypatch):
    """A thread may return from reading the pipe of a process after another process has replaced it."""
    read = helper._read

    def late(pipe):
        """Returns the late answer of a process that has been replaced."""
        monkeypatch.setattr(helper, "_read", read)
        with HELPER._changed:
            HELPER._drop()
            HELPER._started(client)
        return helper.pack((HELPER._number, None, "of the ended process"))[:-3]

    monkeypatch.setattr(helper, "_read", late)
    answers(client)
    answers(client)


def test_an_interrupted_half_sent_request(client):
    """The process has to end, because it would take the next request for the rest of this one."""
    process = HELPER._process

    class Pipe:
        def __init__(self, pipe):
            self.pipe, self.close = pipe, pipe.close

        def write(self, data):
            self.pipe.write(data[: len(data) // 2])
            raise KeyboardInterrupt

    process.stdin = Pipe(process.stdin)
    pytest.raises(KeyboardInterrupt, answers, client)
    assert process.returncode == 0
    answers(client)


@pytest.mark.parametrize(("place", "name", "error"), [
    (HELPER, "_take", KeyboardInterrupt), (helper.pickle, "loads", ValueError)
])  # fmt: skip
def test_an_error_between_answers(client, monkeypatch, place, name, error):
    """The process has to end, or a thread whose answer was in the same bytes would wait forever."""

    def fail(*_):
        raise error

    process = HELPER._process
    with monkeypatch.context() as patch:
        patch.setattr(place, name, fail)
        pytest.raises(error, answers, client)
    assert not HELPER.running and process.returncode == 0
    answers(client)


def test_an_interrupt_while_another_thread_has_the_lock(client, monkeypatch):
    read, has_lock = helper._read, threading.Event()

    def waits_for_the_lock():
        frame = sys._current_frames()[threading.main_thread().ident]
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        return frame.f_code is helper.Helper._lock_again.__code__ and "acquire" in line

    def hold():
        with HELPER._changed:
            has_lock.set()
            until(waits_for_the_lock)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.1)

    def slow(pipe):
        monkeypatch.setattr(helper, "_read", read)
        data = read(pipe)
        threading.Thread(target=hold, daemon=True).start()
        assert has_lock.wait(LIMIT_S)
        return data

    monkeypatch.setattr(helper, "_read", slow)
    pytest.raises(KeyboardInterrupt, answers, client)
    assert not HELPER._reading and not HELPER.running
    answers(client)


def test_a_request_without_a_set_keeps_the_process(tmp_path, monkeypatch):
    """The garbage collector may close the last set while a forked process sends a request of its own."""
    storage = storage_of(tmp_path)
    set_, started = fetch_client.Client(storage, None), HELPER._started

    def after_release(user):
        process = started(user)
        HELPER.release(set_)
        return process

    monkeypatch.setattr(HELPER, "_started", after_release)
    assert HELPER.ask(storage, "list", (pickle.dumps(storage), None, None), ["x"]) == []
    monkeypatch.undo()
    HELPER.release(set_)


# ---- The lock of a set ----


def test_files_of_a_dead_holder_are_removed(made, tmp_path):
    into = cache.Cache(tmp_path)
    lock = into.lock(made.made.hashes[0] + ".recs")
    lock.forget()
    (tmp_path / "recstore" / f"{made.made.hashes[0]}.recs.0123456789ab.part").write_bytes(b"half")
    (tmp_path / "recstore" / "sets" / f"{'0' * 40}.lock").write_bytes(b"")
    assert not nothing_half_made(tmp_path)
    assert recstore.open(made.at, cache=tmp_path, options=made.options).to_list() == ALL
    assert nothing_half_made(tmp_path)


def test_waiting_processes_raise_the_error_of_the_holder(tmp_path):
    options, path = {"secret": "one"}, os.path.join(tmp_path, "x" + cache.LOCK)
    error = recstore.errors.RemoteError("it failed", "s3://x")
    held_lock = native.Lock(path)
    assert held_lock.state == native.HELD
    waiting_lock = native.Lock(path)
    assert waiting_lock.state == native.BUSY
    slept = []

    def fail_at_third_sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            held_lock.write(fetch_client._failure(error, options))
            held_lock.close()

    wait = cache.Wait("s3://x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", fail_at_third_sleep)
        with pytest.raises(recstore.errors.RemoteError, match="it failed"):
            fetch_client._wait_for(waiting_lock, options, wait, group=False)
    waiting_lock.close()
    assert slept == sorted(slept) and slept[0] < slept[-1]  # with growing pauses
    failure = fetch_client._failure(error, {"secret": "other"})
    assert fetch_client._error_in(failure, options) is None  # other credentials
    assert str(fetch_client._error_in(failure, {"secret": "other"})) == str(error)
    assert all(fetch_client._error_in(failure[:size], {"secret": "other"}) is None for size in range(len(failure) - 1))
    # Comparing lock files does not show whether two processes had the same options.
    assert fetch_client._failure(error, {"secret": "other"})[16:32] != failure[16:32]


# ---- Hints ----


class Slow:
    """A Fetching whose hinted objects wait for the test."""

    url = "s3://b"

    def __init__(self):
        self.began, self.go = [], threading.Event()

    def fetch(self, name, nbytes=None, max_bytes=None):
        self.began.append(name)
        if name.startswith("hinted"):
            assert self.go.wait(LIMIT_S)


TARGET = b"storage", "folder", None


@pytest.fixture
def serving():
    """Yields a Server, the Slow with which it fetches, and the list of its answers."""
    answered, slow = [], Slow()
    server = fetch_process.Server(lambda *answer: answered.append(answer))
    server._fetching[TARGET] = slow
    yield server, slow, answered
    slow.go.set()
    until(lambda: not server.busy)


def test_a_full_pipe_of_answers_does_not_stop_requests():
    """The parent may be sending a large request, and reads answers only after it."""
    slow, go, answered = Slow(), threading.Event(), []

    def answer(*message):
        answered.append(message)
        assert go.wait(LIMIT_S)

    server = fetch_process.Server(answer)
    server._fetching[TARGET] = slow
    server.take(1, "fetch", TARGET, [[("a", 1)]])
    until(lambda: answered)
    taking = threading.Thread(target=server.take, args=(2, "fetch", TARGET, [[("b", 1)]]), daemon=True)
    taking.start()
    until(lambda: slow.began == ["a", "b"])
    assert server.busy
    go.set()
    until(lambda: not server.busy)
    assert answered == [(1, None, None), (2, None, None)]


def test_hints_do_not_delay_requests(serving):
    server, slow, answered = serving
    server.take(None, "hint", TARGET, [[(f"hinted {i}", 1) for i in range(20)]])
    until(lambda: len(slow.began) >= fetch_process.THREADS - 1)
    server.take(1, "fetch", TARGET, [[("wanted", 1)]])
    until(lambda: answered == [(1, None, None)])
    assert len(slow.began) == fetch_process.THREADS and not slow.go.is_set()
    slow.go.set()
    until(lambda: not server.busy)
    assert sorted(slow.began) == sorted(["wanted", *(f"hinted {i}" for i in range(20))])


def test_an_object_is_fetched_once_for_all_requests(serving):
    """Hints overlap, and a requested object may already be pending or running for a hint."""
    server, slow, answered = serving
    for _ in range(5):
        server.take(None, "hint", TARGET, [[(f"hinted {i}", 1) for i in range(10)]])
    until(lambda: len(slow.began) == fetch_process.THREADS - 1)
    server.take(1, "fetch", TARGET, [[("hinted 0", 1), ("hinted 9", 1)]])  # 0 is running, 9 is pending and becomes next
    until(lambda: "hinted 9" in slow.began)
    assert answered == [] and len(slow.began) == fetch_process.THREADS
    slow.go.set()
    until(lambda: not server.busy)
    assert answered == [(1, None, None)]
    assert sorted(slow.began) == [f"hinted {i}" for i in range(10)]


# ---- Forks ----


def test_a_forked_child_has_its_own_process(made, x):
    parent_pid = HELPER._process.pid
    record, child_pid = in_child(lambda: (x[70], HELPER._process.pid))
    assert record == ALL[70] and child_pid != parent_pid
    assert x[130] == ALL[130] and HELPER._process.pid == parent_pid
    has_sent(made, 3)


def test_a_forked_child_does_not_keep_the_parents_process_alive(x):
    """The child has closed the pipes of the process."""
    process, (reading, writing) = HELPER._process, os.pipe()
    pid = os.fork()
    if not pid:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    x.selection.shards.opener.client.close()
    assert process.returncode == 0
    os.close(writing)
    os.waitpid(pid, 0)
