"""Stores shared by name: builders, waiting processes, and errors."""

import functools
import gc
import os
import re
import signal
import sys
import threading
import time

import pytest
from mp import sharers
from mp.sharers import Build, end, files_of, notes, records, start, wait_until_gone
from waiting import together, until

import recstore
from recstore import sharing
from recstore.shm import named_segments

# ---- One build, many readers ----------------------------------------------------------------------------------------


def test_one_process(name):
    calls = []

    def build():
        calls.append(1)
        return records(1)

    with recstore.shared(name, build, fingerprint="1") as x, recstore.shared(name, build, fingerprint="1") as y:
        assert calls == [1] and x == y and x.to_list() == records(1)
        assert x.segment is not y.segment and x.segment.backing == "named"
        (path,) = {x.segment.path, y.segment.path}
        assert os.stat(path).st_mode & 0o7777 == 0o400
        x.close()
        assert y[3] == records(1)[3] and os.path.exists(path)
    until(lambda: not os.path.exists(path))


def test_threads_build_once(name, log):
    stores, gate = [], threading.Barrier(8)

    def share():
        gate.wait()
        stores.append(recstore.shared(name, Build(log, 1), fingerprint="1"))

    threads = [threading.Thread(target=share) for _ in range(8)]
    together(threads)
    assert len(notes(log)) == 1 and all(x.to_list() == records(1) for x in stores) and len(stores) == 8
    for x in stores:
        x.close()


def test_two_names_and_two_fingerprints(name):
    other = f"{name} b"
    a = recstore.shared(name, lambda: [1], fingerprint="a")
    b = recstore.shared(name, lambda: [2], fingerprint="b")
    c = recstore.shared(other, lambda: [3], fingerprint="a")
    assert (a[0], b[0], c[0]) == (1, 2, 3)
    assert recstore.shared(name, fingerprint="b")[0] == 2 and recstore.shared(other)[0] == 3
    pytest.raises(ValueError, lambda: recstore.shared(name)).match("2 stores are named .* one of 'a', 'b'")
    with pytest.raises(recstore.errors.SegmentNotFoundError, match="there is 'a', 'b'"):
        recstore.shared(name, fingerprint="c")
    assert recstore.names.remove(name, "a") == 1 and recstore.shared(name)[0] == 2 and a[0] == 1
    for x in (a, b, c):
        x.close()
    gc.collect()
    wait_until_gone(other)


@pytest.mark.parametrize("result, expected", [
    ({"a": 1, "b": [2]}, {"a": 1, "b": [2]}), ((i for i in range(5)), [0, 1, 2, 3, 4]), ([], []), (range(3), [0, 1, 2])
], ids=["mapping", "generator", "empty", "range"])  # fmt: skip
def test_build_returns_records_or_a_mapping(name, result, expected):
    with recstore.shared(name, lambda: result, fingerprint="1") as x, recstore.shared(name) as y:
        for store in (x, y):
            assert (store.to_dict() if isinstance(expected, dict) else store.to_list()) == expected


def test_build_returns_stores(name):
    with recstore.RecordList(records(1)) as x, recstore.RecordDict({"a": 1, "b": 2}) as d:
        for result, expected in [
            (x, records(1)), (x[::-2], records(1)[::-2]), (x.field("i"), list(range(sharers.N))), (d.keys(), ["a", "b"])
        ]:  # fmt: skip
            with recstore.shared(name, lambda: result, fingerprint="1") as y:
                assert y.to_list() == expected and y.segment.backing == "named"
        with recstore.shared(name, lambda: d, fingerprint="1") as y:
            assert y == {"a": 1, "b": 2}
        assert x[0] and d["a"] == 1


@pytest.mark.parametrize("result", [None, 5, "text", b"bytes"], ids=repr)
def test_what_build_may_not_return(name, result):
    with pytest.raises(TypeError, match=r"^build\(\) must return "):
        recstore.shared(name, lambda: result, fingerprint="1")


def test_a_mapping_with_repeated_keys(name):
    with recstore.RecordDict(((i % 10, "x" * i) for i in range(1000)), name=name) as d, recstore.shared(name) as e:
        assert d == e and len(e) == 10


# ---- Errors ---------------------------------------------------------------------------------------------------------


def test_a_build_that_raises(name, log):
    gate, waits = f"{log}.gate", f"{log}.waits"
    first = start(sharers.call_failing, name, log, gate, waits)
    until(lambda: notes(log) == ["called"])
    waiting = [start(sharers.call_failing, name, log, gate, waits) for _ in range(3)]
    until(lambda: len(set(notes(waits))) == 3)
    sharers.open_gate(gate)
    assert first[1].recv() == ("LookupError", "no data today")
    for _, connection in waiting:
        kind, text = connection.recv()
        assert kind == "BuildError" and "LookupError: no data today" in text and f"process {first[0].pid}" in text
        assert "sharers.py" in text
    end(first, *waiting)
    assert notes(log) == ["called"]
    wait_until_gone(name)
    with recstore.shared(name, lambda: [1], fingerprint="1") as x:  # later callers try again
        assert x[0] == 1


@pytest.mark.parametrize("waited_for", [True, False])
def test_a_killed_builder(name, log, waited_for):
    waits = f"{log}.waits"
    first = start(sharers.call, name, log, {"gate": f"{log}.gate"})
    until(lambda: notes(log))
    if waited_for:
        second = start(sharers.call, name, log, {"waits": waits})
        until(lambda: notes(waits))
    first[0].kill()
    end(first)
    if not waited_for:
        second = start(sharers.call, name, log, {})
    assert second[1].recv() == (sharers.N, True)
    assert len(notes(log)) == 2
    end(second)
    wait_until_gone(name)


def test_the_lock_of_a_killed_builder_is_logged(alone, name, messages):
    """Another process has reused the builder's pid."""
    target = named_segments.Target(name, "1")
    fd = os.open(target.lock_path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, f"3\n{os.getpid()}\nprocess {os.getpid()} (train.py)\nbuilding\n".encode())
    os.close(fd)
    sharing._Call(target, lambda: [1], False, 1.0).run().close()
    assert f"process {os.getpid()} (train.py) died while it was building {name!r}" in messages()[0]


def test_timeout(name, log, monkeypatch):
    first = start(sharers.call, name, log, {"gate": f"{log}.gate"})
    until(lambda: notes(log))
    clock = sharers.Clock()
    monkeypatch.setattr(sharing, "time", clock)
    with pytest.raises(recstore.errors.WaitTimeoutError, match=rf"process {first[0].pid} .*is building") as caught:
        recstore.shared(name, Build(log, 1), fingerprint="1", timeout=0.3)
    assert clock.monotonic() == pytest.approx(0.3) and isinstance(caught.value, TimeoutError)
    clock.slept.clear()
    with pytest.raises(recstore.errors.WaitTimeoutError):
        recstore.shared(name, Build(log, 1), fingerprint="1", timeout=60)
    assert clock.slept[0] <= 0.01 and len(clock.slept) < 60 / 0.2 + 10, "it polls often at first, and later rarely"
    with pytest.raises(recstore.errors.WaitTimeoutError):
        recstore.shared(name, Build(log, 1), fingerprint="1", timeout=0)
    first[0].kill()
    end(first)
    recstore.names.collect()


def test_waiting_is_logged(name, log, messages, monkeypatch):
    gate = f"{log}.gate"
    first = start(sharers.call, name, log, {"gate": gate})
    until(lambda: notes(log))

    def at(seconds):
        if seconds > 75 and not os.path.exists(gate):
            sharers.open_gate(gate)
            assert first[1].recv() == (sharers.N, True)

    monkeypatch.setattr(sharing, "time", sharers.Clock(at))
    with recstore.shared(name, Build(log, 1), fingerprint="1") as x:
        assert len(x) == sharers.N
    *waits, attached = messages()
    assert len(waits) == 2, "after 10 s, and then each minute"
    for text, seconds in zip(waits, (10, 70)):
        assert f"waiting for {name!r}, which process {first[0].pid}" in text and f": {seconds} s so far" in text
    assert re.match(rf"attached {name!r}: {sharers.N} records, built \d+ s ago by process {first[0].pid}", attached)
    end(first)


@pytest.mark.parametrize("isolate", [False, True])
def test_nested_call(name, isolate):
    with pytest.raises(recstore.errors.BuildError, match="calls shared\\(\\) for its own name"):
        recstore.shared(name, functools.partial(sharers.nested, name, isolate), fingerprint="1", isolate=isolate)


def test_nested_call_in_a_forked_child(name):
    def build():
        pid = os.fork()
        if pid == 0:
            try:
                recstore.shared(name, build, fingerprint="1")
                os._exit(0)
            except recstore.errors.BuildError:
                os._exit(7)
            finally:
                os._exit(1)
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]

    with recstore.shared(name, build, fingerprint="1") as x:
        assert x[0] == 7


def test_nested_call_for_another_key(name):
    def build():
        with recstore.shared(name, lambda: [1, 2], fingerprint="inner") as x:
            return x.to_list()

    with recstore.shared(name, build, fingerprint="outer") as x:
        assert x.to_list() == [1, 2]


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("moment", ["build", "wait"])
def test_interrupt(name, log, moment, isolate, monkeypatch):
    gate, waits = f"{log}.gate", []
    first = start(sharers.call, name, log, {"gate": gate})
    until(lambda: notes(log))
    if moment == "build":
        first[0].kill()
        end(first)
        recstore.names.collect()
    monkeypatch.setattr(sharing._Call, "sleep", lambda call, delay, lock: waits.append(delay) or time.sleep(delay))

    def interrupt():
        until(lambda: waits if moment == "wait" else len(notes(log)) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        recstore.shared(name, Build(log, 1, gate=gate), fingerprint="1", isolate=isolate)
    thread.join()
    if moment == "wait":
        sharers.open_gate(gate)
        end(first)
    wait_until_gone(name)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("action", [
    lambda name, path: recstore.shared(name, lambda: [1, 2, 3], fingerprint="1"),
    lambda name, path: recstore.RecordDict({"a": 1}, name=name),
    lambda name, path: recstore.RecordList([{"i": 1}], backing="dir"),
    lambda name, path: recstore.open(path),
], ids=["shared", "named", "dir", "open"])  # fmt: skip
def test_an_interrupt_at_each_call(alone, name, tmp_path, action):
    """An interrupt on entry to any Python function leaves no file, descriptor or mapping."""
    recstore.RecordList([1, 2, 3]).save(tmp_path / "saved.recs")
    calls, number = [], 0

    def interrupt(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code)
            if len(calls) == number:
                raise KeyboardInterrupt

    while len(calls) >= number:
        calls.clear()
        number += 1
        try:
            sys.setprofile(interrupt)
            action(name, tmp_path / "saved.recs").close()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        gc.collect()
        assert files_of(name) == [], calls[-1]
    assert number > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_interrupts_at_any_moment(alone, name):
    """A KeyboardInterrupt in the first millisecond of a call leaves nothing."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    done = hits = 0
    try:
        for i in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00005 + (i % 40) * 0.00002)
                recstore.shared(name, lambda: [1, 2, 3], fingerprint="1").close()
                signal.setitimer(signal.ITIMER_REAL, 0)
                done += 1
            except KeyboardInterrupt:
                hits += 1
            gc.collect()
            assert files_of(name) == [], (i, done, hits)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert hits


# ---- isolate --------------------------------------------------------------------------------------------------------


def test_isolated_build(name, log):
    with recstore.shared(name, Build(log, 1), fingerprint="1", isolate=True) as x:
        assert x.to_list() == records(1)
        (line,) = notes(log)
        assert line != f"1 {os.getpid()}"
        with pytest.raises(ChildProcessError):
            os.waitpid(int(line.split()[1]), os.WNOHANG)  # reaped
    wait_until_gone(name)


def test_the_building_child_ends_with_its_parent(name, log):
    first = start(sharers.call, name, log, {"gate": f"{log}.gate", "isolate": True})
    until(lambda: notes(log))
    child = int(notes(log)[0].split()[1])
    assert child != first[0].pid
    first[0].kill()
    until(lambda: recstore.shm.handles.start_time(child) is None)
    end(first)
    recstore.names.collect()


@pytest.mark.parametrize(
    "option", [{"keep": "2h"}, {"keep": 0}, {"isolate": True}, {"index_by": "id"}, {"group_by": None}, {"workers": 0}]
)
def test_options_of_a_build_need_a_build(name, option):
    with recstore.RecordList([{"id": 1}], name=name):
        pytest.raises(TypeError, lambda: recstore.shared(name, **option)).match(
            f"{[*option][0]}= is an option of a build"
        )
        pytest.raises(ValueError, lambda: recstore.shared(name, timeout=-1)).match("timeout is a number of seconds")
        with recstore.shared(name, timeout=1) as x:
            assert x[0] == {"id": 1}
