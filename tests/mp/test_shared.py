"""Stores shared by name: one build, who sees what, and what stays after everything that can go wrong."""

import functools
import gc
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
import recstore
from mp import sharers
from mp.sharers import Build, notes, records
from recstore import building, naming

FORK = multiprocessing.get_context("fork")
_number = 0


@pytest.fixture
def name():
    """A name that no other test uses; nothing of it may be left."""
    global _number
    _number += 1
    name = f"test {os.getpid()} {_number}"
    yield name
    gc.collect()
    assert left(name) == []


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def messages(caplog):
    caplog.set_level(logging.INFO, logger="recstore")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "recstore"]


def left(name, dir=None):
    """Every file that belongs to a name: segments, locks, temporary ones."""
    return sorted(one for one in os.listdir(naming.folder(dir)) if one.startswith(naming.stem(name)))


def start(target, *arguments):
    """A forked process and our end of a pipe to it."""
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=target, args=(theirs, *arguments))
    process.start()
    theirs.close()
    return process, ours


def end(*pairs):
    for process, connection in pairs:
        if process.is_alive():
            try:
                connection.send(None)
            except OSError:
                pass
        connection.close()
        process.join()


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


# ---- One build, many readers -----------------------------------------------------------------------------------------


def test_one_process(name):
    calls = []

    def build():
        calls.append(1)
        return records(1)

    with recstore.shared(name, build, fingerprint="1") as x, recstore.shared(name, build, fingerprint="1") as y:
        assert calls == [1] and x == y and x.to_list() == records(1)
        assert x.segment is not y.segment and "named" in repr(x)
        (path,) = {x.segment.path, y.segment.path}
        assert os.stat(path).st_mode & 0o7777 == 0o400
        x.close()
        assert y[3] == records(1)[3] and os.path.exists(path)
    assert not os.path.exists(path)


def test_many_processes_build_once(name, log):
    n, times = 16, 5
    barrier, results = FORK.Barrier(n), FORK.Queue()
    processes = [FORK.Process(target=sharers.rounds, args=(name, log, times, barrier, results)) for _ in range(n)]
    for process in processes:
        process.start()
    assert [results.get(timeout=120) for _ in processes] == [0] * n
    for process in processes:
        process.join()
    assert sorted(line.split()[0] for line in notes(log)) == [str(i) for i in range(times)]


def test_independent_interpreters_share(name, python):
    code = """
import sys, recstore
def build():
    print("building", flush=True)
    return [{"i": i} for i in range(10)]
x = recstore.shared(sys.argv[1], build)
print(len(x), flush=True)
input()
"""
    first = python(code, name, wait=False)
    assert [first.stdout.readline().strip() for _ in range(2)] == ["building", "10"]
    second = python(code, name, wait=False)
    assert second.stdout.readline().strip() == "10"
    (info,) = recstore.segments(name)
    assert (info.records, info.attached, info.state, info.fingerprint) == (10, 2, "in use", info.fingerprint)
    first.communicate("\n")
    (info,) = recstore.segments(name)
    assert info.attached == 1
    second.communicate("\n")
    assert left(name) == []


def test_threads_build_once(name, log):
    stores, gate = [], threading.Barrier(8)

    def one():
        gate.wait()
        stores.append(recstore.shared(name, Build(log, 1), fingerprint="1"))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(notes(log)) == 1 and all(x.to_list() == records(1) for x in stores) and len(stores) == 8
    for x in stores:
        x.close()


def test_two_names_and_two_fingerprints(name):
    other = f"{name} b"
    a = recstore.shared(name, lambda: [1], fingerprint="a")
    b = recstore.shared(name, lambda: [2], fingerprint="b")
    c = recstore.shared(other, lambda: [3], fingerprint="a")
    assert (a[0], b[0], c[0]) == (1, 2, 3)
    assert recstore.attach(name, "b")[0] == 2 and recstore.attach(other)[0] == 3
    with pytest.raises(ValueError, match="2 stores are named .* one of 'a', 'b'"):
        recstore.attach(name)
    with pytest.raises(recstore.SegmentNotFoundError, match="there is 'a', 'b'"):
        recstore.attach(name, "c")
    assert recstore.unlink(name, "a") == 1 and recstore.attach(name)[0] == 2 and a[0] == 1
    for x in (a, b, c):
        x.close()
    gc.collect()
    assert left(other) == []


@pytest.mark.parametrize(
    "result, wanted",
    [
        ({"a": 1, "b": [2]}, {"a": 1, "b": [2]}),
        ((i for i in range(5)), [0, 1, 2, 3, 4]),
        ([], []),
        (range(3), [0, 1, 2]),
    ],
    ids=["mapping", "generator", "empty", "range"],
)
def test_what_build_may_return(name, result, wanted):
    with recstore.shared(name, lambda: result, fingerprint="1") as x, recstore.attach(name) as y:
        for store in (x, y):
            assert (store.to_dict() if isinstance(wanted, dict) else store.to_list()) == wanted


def test_build_returns_stores(name):
    with recstore.RecordList(records(1)) as x, recstore.RecordDict({"a": 1, "b": 2}) as d:
        for result, wanted in [(x, records(1)), (x[::-2], records(1)[::-2]), (x.field("i"), list(range(sharers.N))), (d.keys(), ["a", "b"])]:
            with recstore.shared(name, lambda: result, fingerprint="1") as y:
                assert y.to_list() == wanted and y.segment.backing == "named"
        with recstore.shared(name, lambda: d, fingerprint="1") as y:
            assert y == {"a": 1, "b": 2}
        assert x[0] and d["a"] == 1


@pytest.mark.parametrize("result", [None, 5, "text", b"bytes"], ids=repr)
def test_what_build_may_not_return(name, result):
    with pytest.raises(TypeError, match=f"build returned {'None' if result is None else f'a {type(result).__name__}'}"):
        recstore.shared(name, lambda: result, fingerprint="1")


def test_mapping_with_keys_that_came_again(name):
    pairs = recstore.RecordDict((i % 10, i) for i in range(1000))
    with recstore.RecordDict(((i % 10, "x" * i) for i in range(1000)), name=name) as d, recstore.attach(name) as e:
        assert d == e and len(e) == 10
    pairs.close()


# ---- Errors ----------------------------------------------------------------------------------------------------------


def test_build_that_raises(name, log):
    first = start(sharers.call_failing, name, log)
    until(lambda: notes(log) == ["called"])
    waiting = [start(sharers.call_failing, name, log) for _ in range(3)]
    assert first[1].recv() == ("LookupError", "no data today")
    for _, connection in waiting:
        kind, text = connection.recv()
        assert kind == "BuildError" and "LookupError: no data today" in text and f"process {first[0].pid}" in text and "sharers.py" in text
    end(first, *waiting)
    assert notes(log) == ["called"] and left(name) == []
    with recstore.shared(name, lambda: [1], fingerprint="1") as x:  # later callers try anew
        assert x[0] == 1


def test_builder_that_is_killed(name, log, messages):
    first = start(sharers.call, name, log, {"pause": 0.1})
    until(lambda: notes(log))
    second = start(sharers.call, name, log, {})
    time.sleep(0.2)
    first[0].kill()
    assert second[1].recv() == (sharers.N, True)
    assert len(notes(log)) == 2
    end(first, second)


def test_builder_that_was_killed_with_nobody_waiting(name, log, messages):
    first = start(sharers.call, name, log, {"pause": 0.1})
    until(lambda: notes(log))
    first[0].kill()
    end(first)
    assert len(left(name)) == 1  # its lock, which nobody holds
    with recstore.shared(name, Build(log, 1), fingerprint="1") as x:
        assert len(x) == sharers.N
    assert left(name) == []


def test_lock_left_behind_tells_who_died(name, messages):
    """Its content speaks of a process number that is somebody else's by now."""
    target = naming.Target(name, "1")
    fd = os.open(target.lock_path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, f"3\n{os.getpid()}\nprocess {os.getpid()} (train.py)\nbuilding\n".encode())
    os.close(fd)
    recstore.sharing._Call(target, lambda: [1], False, 1.0).run().close()
    assert f"process {os.getpid()} (train.py), which was building {name!r}, has died; building it here" in messages()


def test_timeout(name, log):
    first = start(sharers.call, name, log, {"pause": 0.1})
    until(lambda: notes(log))
    begin = time.monotonic()
    with pytest.raises(recstore.WaitTimeoutError, match=rf"process {first[0].pid} .*is building") as caught:
        recstore.shared(name, Build(log, 1), fingerprint="1", timeout=0.3)
    assert 0.25 < time.monotonic() - begin < 5 and isinstance(caught.value, TimeoutError)
    with pytest.raises(recstore.WaitTimeoutError):
        recstore.shared(name, Build(log, 1), fingerprint="1", timeout=0)
    first[0].kill()
    end(first)
    recstore.collect()


def test_waiting_is_logged(name, log, messages, monkeypatch):
    monkeypatch.setattr("recstore.sharing._FIRST_WORD", 0.1)
    monkeypatch.setattr("recstore.sharing._NEXT_WORDS", 0.2)
    first = start(sharers.call, name, log, {"pause": 0.002})
    until(lambda: notes(log))
    with recstore.shared(name, Build(log, 1), fingerprint="1") as x:
        assert len(x) == sharers.N
    *waits, attached = messages()
    assert waits and all(f"waiting for {name!r}, which process {first[0].pid}" in text for text in waits)
    assert attached.startswith(f"attached {name!r}: {sharers.N} records, built 0 s ago by process {first[0].pid}")
    end(first)


def test_waiting_costs_little(name, log):
    first = start(sharers.call, name, log, {"pause": 0.005})
    until(lambda: notes(log))
    begin, cpu = time.monotonic(), time.process_time()
    with recstore.shared(name, Build(log, 1), fingerprint="1"):
        wall, cpu = time.monotonic() - begin, time.process_time() - cpu
    assert wall > 0.5 and cpu / wall < 0.05  # 0.2% on a quiet machine
    end(first)


@pytest.mark.parametrize("isolate", [False, True])
def test_nested_call(name, isolate):
    def build():
        return recstore.shared(name, build, fingerprint="1", isolate=isolate)

    with pytest.raises(recstore.BuildError, match="calls shared\\(\\) for its own name"):
        recstore.shared(name, build, fingerprint="1", isolate=isolate)


def test_nested_call_in_a_forked_child(name):
    def build():
        pid = os.fork()
        if pid == 0:
            try:
                recstore.shared(name, build, fingerprint="1")
                os._exit(0)
            except recstore.BuildError:
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
def test_interrupt(name, log, moment, isolate):
    first = start(sharers.call, name, log, {"pause": 0.01})
    until(lambda: notes(log))
    if moment == "build":
        first[0].kill()
        end(first)
        recstore.collect()
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        recstore.shared(name, Build(log, 1, 0.01), fingerprint="1", isolate=isolate)
    timer.join()
    if moment == "wait":
        end(first)
    assert left(name) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_interrupts_at_any_moment(name):
    """SIGINT every few hundred microseconds: wherever it comes, nothing stays."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    begin, done, hits = time.monotonic(), 0, 0
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
            assert left(name) == [], (i, done, hits)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert hits > 20 and time.monotonic() - begin < 60


# ---- isolate ---------------------------------------------------------------------------------------------------------


def test_isolated_build(name, log):
    with recstore.shared(name, Build(log, 1), fingerprint="1", isolate=True) as x:
        assert x.to_list() == records(1)
        (line,) = notes(log)
        assert line != f"1 {os.getpid()}"
        with pytest.raises(ChildProcessError):
            os.waitpid(int(line.split()[1]), os.WNOHANG)  # reaped
    assert left(name) == []


def test_isolated_build_that_raises(name, log):
    with pytest.raises(recstore.BuildError, match="(?s)failed in the child process.*LookupError: no data today"):
        recstore.shared(name, lambda: sharers.fails(log, pause=0), fingerprint="1", isolate=True)


def test_isolated_build_that_is_killed(name):
    with pytest.raises(recstore.BuildError, match="killed by signal 9"):
        recstore.shared(name, lambda: os.kill(os.getpid(), 9), fingerprint="1", isolate=True)


def test_child_ends_with_its_parent(name, log):
    first = start(sharers.call, name, log, {"pause": 0.1, "isolate": True})
    until(lambda: notes(log))
    child = int(notes(log)[0].split()[1])
    assert child != first[0].pid
    first[0].kill()
    until(lambda: recstore.handles.start_time(child) is None)
    end(first)
    recstore.collect()


# ---- Life ------------------------------------------------------------------------------------------------------------


def test_last_user_removes_it(name, log):
    first, second = start(sharers.call, name, log, {}), start(sharers.call, name, log, {})
    assert first[1].recv() == second[1].recv() == (sharers.N, True)
    end(first)
    assert len(left(name)) == 1
    end(second)
    assert left(name) == [] and len(notes(log)) == 1


@pytest.mark.parametrize("ending", ["", "1/0", "import sys; sys.exit(3)", "x.close()", "del x", "y = x[2:]; del x"])
def test_gone_when_the_process_ends(name, python, ending):
    status = {"1/0": 1, "import sys; sys.exit(3)": 3}.get(ending, 0)
    python(f"import sys, recstore; x = recstore.shared(sys.argv[1], lambda: range(9)); {ending}", name, status=status)
    assert left(name) == []


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.execlp('true', 'true')"])
def test_gone_with_the_next_call_after_a_sudden_end(name, python, ending):
    status = -9 if "kill" in ending else 0
    python(f"import os, sys, recstore; x = recstore.shared(sys.argv[1], lambda: range(9)); {ending}", name, status=status)
    assert [info.state for info in recstore.segments(name)] == ["orphan"]
    recstore.RecordList([1]).close()  # any build will do
    if naming.folder() == "/dev/shm":
        assert left(name) == []
    recstore.collect()
    assert left(name) == []


def test_forked_child_reads_and_removes_nothing(name):
    x = recstore.shared(name, lambda: records(1), fingerprint="1")
    for ending in (lambda: x.close(), lambda: None):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = 0 if x[5] == records(1)[5] else 2
                ending()
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(left(name)) == 1 and x[5] == records(1)[5]
        with recstore.attach(name) as y:
            assert y == x
    assert recstore.collect() == 0
    x.close()


def test_forked_child_outlives_its_parents_close(name):
    x = recstore.shared(name, lambda: records(1), fingerprint="1")
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(theirs)
            os.read(ours, 1)
            status = 0 if x[5] == records(1)[5] else 2
        finally:
            os._exit(status)
    os.close(ours)
    x.close()
    assert recstore.collect() == 0 and len(left(name)) == 1  # the child's
    os.close(theirs)
    assert os.waitpid(pid, 0)[1] == 0
    assert recstore.collect() == 1


def test_forked_child_that_shares_is_a_user_of_its_own(name, log):
    x = recstore.shared(name, Build(log, 1), fingerprint="1")
    child = start(sharers.call, name, log, {})
    assert child[1].recv() == (sharers.N, True) and len(notes(log)) == 1
    x.close()
    assert len(left(name)) == 1
    end(child)
    # It had inherited the lease of x as well, which ended with the process only.
    assert recstore.collect() == 1


def test_unlinked_while_in_use(name):
    x = recstore.shared(name, lambda: [1], fingerprint="1")
    assert recstore.unlink(name) == 1
    with pytest.raises(recstore.SegmentNotFoundError):
        recstore.unlink(name)
    y = recstore.shared(name, lambda: [2], fingerprint="1")
    assert (x[0], y[0]) == (1, 2)
    x.close()  # must not remove the new one
    assert len(left(name)) == 1 and recstore.attach(name)[0] == 2
    y.close()


def test_own_name(name):
    x = recstore.RecordList(records(1), name=name)
    for build in (lambda: recstore.RecordList([1], name=name), lambda: recstore.RecordDict({1: 1}, name=name)):
        with pytest.raises(recstore.SegmentExistsError, match=r"attach\(.*unlink\(.*shared\("):
            build()
    with recstore.attach(name) as y:
        assert y.to_list() == records(1)
        x.close()
        assert len(left(name)) == 1
    with recstore.RecordDict({"a": 1}, name=name) as d, recstore.attach(name) as e:
        assert d == e == {"a": 1}
    with pytest.raises(ValueError, match="anonymous memory has no name"):
        recstore.RecordList([1], name=name, backing="anonymous")
    with pytest.raises(recstore.EncodeError):
        recstore.RecordList([object()], name=name)


def test_own_name_race(name, monkeypatch):
    """Another process takes the name while this one builds."""
    taken = []

    def stream():
        taken.append(recstore.RecordList([2], name=name))
        yield 1

    with pytest.raises(recstore.SegmentExistsError, match="is taken by a store of process"):
        recstore.RecordList(stream(), name=name)
    assert recstore.attach(name)[0] == 2
    taken[0].close()


# ---- keep ------------------------------------------------------------------------------------------------------------


def test_keep_for_ever(name):
    with recstore.shared(name, lambda: [1], fingerprint="1", keep=True) as x:
        assert x[0] == 1
    assert recstore.collect() == 0
    (info,) = recstore.segments(name)
    assert (info.state, info.keep, info.attached) == ("kept", "for ever", 0)
    with recstore.shared(name, lambda: [2], fingerprint="1") as x:
        assert x[0] == 1
    assert recstore.unlink(name) == 1


def test_keep_needs_a_fingerprint(name, tmp_path):
    with pytest.raises(ValueError, match="keep=True needs fingerprint= or files="):
        recstore.shared(name, lambda: [1], keep=True)
    data = tmp_path / "data"
    data.write_text("1")
    recstore.shared(name, lambda: [1], keep=True, files=[data]).close()
    data.write_text("23")
    with recstore.shared(name, lambda: [2], keep=True, files=data) as x:
        assert x[0] == 2
    assert recstore.unlink(name) == 2


def test_keep_for_a_while(name, monkeypatch):
    recstore.shared(name, lambda: [1], keep="2h").close()
    clock = time.time
    for hours, there in ((1.9, 1), (-1000, 1), (2.1, 0)):
        monkeypatch.setattr(time, "time", lambda hours=hours: clock() + 3600 * hours)
        recstore.collect()
        assert len(left(name)) == there


def test_a_clock_that_jumps_removes_nothing_in_use(name, monkeypatch):
    x = recstore.shared(name, lambda: [1], keep="1s", fingerprint="1")
    clock = time.time
    for jump in (1e9, -1e9):
        monkeypatch.setattr(time, "time", lambda jump=jump: clock() + jump)
        assert recstore.collect() == 0 and x[0] == 1
        with recstore.shared(name, lambda: [2], fingerprint="1") as y:
            assert y[0] == 1
        assert "in use" in str(recstore.segments(name))
    x.close()
    recstore.unlink(name)


@pytest.mark.parametrize("keep", ["2 hours", "h", "", "-1h", "0s", "nan", -5, 0.0, "1e99d", [], float("nan")], ids=repr)
def test_keep_that_is_none(name, keep):
    with pytest.raises(ValueError, match='keep is True, False, a number of seconds or a duration such as "2h"'):
        recstore.shared(name, lambda: [1], fingerprint="1", keep=keep)


# ---- Names and places ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad, why",
    [
        ("", "is empty"),
        ("a/b", "has a slash"),
        ("../../etc/passwd", "has a slash"),
        ("a\0b", "has a NUL"),
        ("x" * 300, "has 300 characters, and 64 are the most"),
        ("x" * 65, "has 65 characters"),
        (".", "begins with a dot"),
        ("..", "begins with a dot"),
        (".hidden", "begins with a dot"),
        ("a\nb", "cannot be printed"),
        ("\ud800", "cannot be printed"),
    ],
    ids=range(11),
)
def test_bad_names(bad, why):
    before = os.listdir(naming.folder())
    for call in (lambda: recstore.shared(bad, lambda: [1]), lambda: recstore.attach(bad), lambda: recstore.unlink(bad),
                 lambda: recstore.RecordList([1], name=bad), lambda: recstore.segments(bad)):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            call()
    assert os.listdir(naming.folder()) == before


@pytest.mark.parametrize("bad", [5, b"x", ["x"]], ids=repr)
def test_names_that_are_no_str(bad):
    with pytest.raises(TypeError, match="the name of a segment is a str"):
        recstore.shared(bad, lambda: [1])


def test_good_names():
    for good in ("coco.train2017", "x" * 64, "名前", "a b", "é" * 64, "-", "~"):
        file_name = naming.system_name(good, "f" * 1000)
        assert file_name.isascii() and len(f"/{file_name}{naming.LOCK}") <= 30
        assert naming.unsqueezed(naming.squeezed(file_name.encode())).decode() == file_name
        with recstore.shared(good, lambda: [1], fingerprint="f" * 1000) as x, recstore.attach(good) as y:
            assert x == y


def test_folder_of_ones_own(name, tmp_path):
    place = tmp_path / "shared"
    with recstore.shared(name, lambda: [1], fingerprint="1", dir=place) as x:
        assert os.path.dirname(x.segment.path) == str(place) and os.stat(place).st_mode & 0o777 == 0o700
        assert recstore.attach(name, dir=place)[0] == 1
        with pytest.raises(recstore.SegmentNotFoundError):
            recstore.attach(name)
        assert len(recstore.segments(dir=place)) == 1
    assert os.listdir(place) == [] and recstore.collect(dir=place) == 0


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
        monkeypatch.setattr(naming, "_SHARED", str(tmp_path / "missing"))
    else:
        monkeypatch.setattr(os, "access", lambda path, mode: path != "/dev/shm")
    with recstore.shared(name, lambda: [1], fingerprint="1") as x:
        assert os.path.dirname(x.segment.path) == str(no_shm) and recstore.attach(name)[0] == 1
    assert os.listdir(no_shm) == []
    no_shm.chmod(0o755)
    with pytest.raises(PermissionError, match="mode 0700"):
        recstore.shared(name, lambda: [1], fingerprint="1")
    no_shm.chmod(0o700)


def test_without_nameless_files(name, log, monkeypatch):
    monkeypatch.setattr(naming, "_BACKING", "temporary")
    test_one_process(name)
    test_own_name(name)
    with pytest.raises(KeyError):
        recstore.shared(name, lambda: {}["x"], fingerprint="1")
    first = start(sharers.call, name, log, {"pause": 0.1})
    until(lambda: notes(log))
    assert len(left(name)) == 2
    assert recstore.collect() == 0
    first[0].kill()
    end(first)
    assert len(left(name)) == 2
    assert recstore.collect() == 2


# ---- What stands there and is not ours -------------------------------------------------------------------------------


def plant(target, kind, tmp_path):
    path = target.path
    if kind == "link":
        (tmp_path / "theirs").write_bytes(b"theirs")
        os.symlink(tmp_path / "theirs", path)
    elif kind == "fifo":
        os.mkfifo(path, 0o400)
    elif kind == "folder":
        os.mkdir(path)
    else:
        with open(path, "wb") as f:
            f.write(b"theirs" * 1000)
        os.chmod(path, 0o644 if kind == "mode" else 0o400)
        if kind == "user":
            if os.geteuid() != 0:
                os.unlink(path)
                pytest.skip("only root can make files of another user")
            os.chown(path, 12345, -1)


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "mode", "user"])
def test_planted(name, kind, tmp_path):
    target = naming.Target(name, "1")
    plant(target, kind, tmp_path)
    try:
        for call in (lambda: recstore.shared(name, lambda: [1], fingerprint="1"), lambda: recstore.attach(name), lambda: recstore.attach(name, "1")):
            with pytest.raises(PermissionError):
                call()
        assert recstore.collect() == 0 and os.path.lexists(target.path)
        assert len(recstore.segments(name)) == 0
    finally:
        (os.rmdir if kind == "folder" else os.unlink)(target.path)


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "user"])
def test_planted_lock(name, kind, tmp_path):
    target = naming.Target(name, "1")
    lock = naming.Target(name, "1")
    lock.path = target.lock_path
    plant(lock, kind, tmp_path)
    try:
        with pytest.raises(PermissionError):
            recstore.shared(name, lambda: [1], fingerprint="1")
        assert recstore.collect() == 0
    finally:
        (os.rmdir if kind == "folder" else os.unlink)(lock.path)


def damaged(kind, path, other):
    """What a power cut, or a bug, can leave of a segment."""
    with open(other, "rb") as f:
        whole = f.read()
    content = {"empty": b"", "zeros": bytes(len(whole)), "cut": whole[:-100], "short": whole[:1000], "no head": bytes(4096) + whole[4096:]}[kind]
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, 0o400)


@pytest.mark.parametrize("kind", ["empty", "zeros", "cut", "short", "no head"])
def test_half_written(name, kind):
    target = naming.Target(name, "1")
    with recstore.shared(name, lambda: records(1), fingerprint="2") as whole:
        damaged(kind, target.path, whole.segment.path)
        assert "damaged" in [info.state for info in recstore.segments(name)]
        with pytest.raises(recstore.CorruptError):
            naming.open_target(target)
        with recstore.sharing._Call(target, lambda: [7], False, 1.0).run() as x, recstore.attach(name, "1") as y:
            assert x[0] == y[0] == 7  # a new generation in its place
        damaged(kind, target.path, whole.segment.path)
        assert recstore.collect() == 1
        damaged(kind, target.path, whole.segment.path)
        with pytest.raises(recstore.SegmentNotFoundError):
            recstore.attach(name, "1")  # collected first


def test_segment_of_another_key_under_our_name(name):
    """A collision of hashes, which never happens: the label tells."""
    target = naming.Target(name, "1")
    with recstore.shared(name, lambda: [1], fingerprint="2") as x:
        os.link(x.segment.path, target.path)
        with pytest.raises(recstore.CorruptError, match="fingerprint '2'; choose another name"):
            recstore.shared(name, lambda: [2], fingerprint="1")
        os.unlink(target.path)


def test_file_of_records_under_our_name(name, tmp_path):
    """A saved store has no label."""
    target = naming.Target(name, "1")
    with recstore.RecordList([1]) as x:
        x.save(target.path)
    os.chmod(target.path, 0o400)
    with pytest.raises(recstore.CorruptError, match="does not say whose it is"):
        naming.open_target(target)
    assert recstore.collect() == 1


# ---- Trust, handles --------------------------------------------------------------------------------------------------


class Point:
    def __init__(self, x):
        self.x = x


def test_builder_reads_as_all_others_do(name):
    import fractions

    values = [fractions.Fraction(1, 3), {"p": multiprocessing.TimeoutError}]
    del values[1]
    import dataclasses

    Thing = dataclasses.make_dataclass("Thing", ["a"])
    with recstore.shared(name, lambda: [Thing(1), *values], fingerprint="1") as x, recstore.attach(name) as y:
        assert type(x[0]) is type(y[0]) is recstore.Record and x[0]["a"] == 1 and x[1] == values[0]
        with recstore.attach(name, classes=[Thing]) as z:
            assert z[0] == Thing(1)


def test_handles(name, context, monkeypatch):
    x = recstore.shared(name, lambda: records(1), fingerprint="1")
    ours, theirs = context.Pipe()
    process = context.Process(target=sharers.read_all, args=(theirs, x))
    process.start()
    equal, backing, path = ours.recv()
    assert equal and backing == "named" and path == x.segment.path
    if context.get_start_method() != "fork":
        x.close()
        assert len(left(name)) == 1  # the worker's by now
    ours.send(None)
    process.join()
    assert process.exitcode == 0
    ours.close(), theirs.close()
    x.close()


def test_handle_size_and_identity(name, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    x = recstore.shared(name, lambda: [1, 2, 3], fingerprint="1")
    more = [recstore.shared(name, lambda: [4], fingerprint=str(i)) for i in range(2, 5)]
    view = x[1:] + more[0] + more[1] + more[2]
    assert len(pickle.dumps(x)) <= 300 and len(pickle.dumps(view)) <= 300
    text = pickle.dumps(x)
    monkeypatch.setattr(recstore.handles, "_attached", {})
    y = pickle.loads(text)
    assert y.segment is not x.segment and y[1] == 2 and y.segment.owner_pid == os.getpid()
    recstore.handles._pins.clear()
    x.close()
    y.close()
    assert "does not exist any more" in repr(pickle.loads(text))
    with recstore.shared(name, lambda: [9], fingerprint="1"):
        z = pickle.loads(text)
        assert "another store" in repr(z) or "another file" in repr(z)
        assert recstore.attach(name, "1")[0] == 9
    for one in more:
        one.close()
    recstore.handles._pins.clear()


# ---- Fingerprints, arguments -----------------------------------------------------------------------------------------


def test_derived_fingerprints_tell_builds_apart(name):
    def of(n):
        return lambda: range(n)

    with recstore.shared(name, of(3)) as a, recstore.shared(name, of(4)) as b, recstore.shared(name, of(3)) as c:
        assert (len(a), len(b), len(c)) == (3, 4, 3) and len(left(name)) == 2
    with recstore.shared(name, functools.partial(range, 5)) as d:
        assert len(d) == 5


def test_no_fingerprint_for_what_cannot_be_compared(name):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the variable 'lock' that build uses is a _thread.lock.*give fingerprint="):
        recstore.shared(name, lambda: [lock])
    with pytest.raises(TypeError, match="build is a function"):
        recstore.shared(name, [1, 2])
    with pytest.raises(TypeError, match="fingerprint is a str"):
        recstore.shared(name, lambda: [1], fingerprint=5)
    with pytest.raises(FileNotFoundError):
        recstore.shared(name, lambda: [1], files=["/no/such/file"])
    with pytest.raises(ValueError, match="timeout"):
        recstore.shared(name, lambda: [1], timeout=-1)


# ---- Space -----------------------------------------------------------------------------------------------------------

SMALL = """
import os, sys, recstore
big = lambda: (bytes([i % 256]) * 100_000 for i in range(300))
big = lambda: (os.urandom(100_000) for i in range(300))
try:
    recstore.shared("small", big)
    print("no error")
except recstore.OutOfSpaceError as e:
    print(e)
try:
    recstore.RecordList(big(), backing="shm")
    print("no error")
except recstore.OutOfSpaceError as e:
    print(e)
print(len(recstore.RecordList(big())), os.listdir("/dev/shm"))
with recstore.shared("small", lambda: range(1000)) as x:
    print(len(x))
"""


def test_small_dev_shm(tmp_path):
    """A private mount namespace with 16 MB of it: errors, no SIGBUS, and anonymous memory is not bound by it."""
    script = tmp_path / "script.py"
    script.write_text(SMALL)
    mount = "mount -t tmpfs -o size=16m none /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode != 0:
        pytest.skip("no private mount namespace here")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RECSTORE_")}
    command = f'{mount} && exec "$0" "$1"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", command, sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    named, nameless, built, small = done.stdout.splitlines()
    assert "bytes are needed and the file system leaves" in named and "--shm-size" in named and "dir=" in named
    assert 'backing="anonymous"' in nameless and "--shm-size" in nameless
    assert built == "300 []" and small == "1000"


def test_backing_shm(monkeypatch):
    for by_environment in (False, True):
        if by_environment:
            monkeypatch.setenv("RECSTORE_BACKING", "shm")
        before = os.listdir("/dev/shm")
        with recstore.RecordList([1, 2], **({} if by_environment else {"backing": "shm"})) as x:
            assert x.segment.backing == "shm" and x.segment.path is None and x[1] == 2
            assert os.listdir("/dev/shm") == before
            assert os.fstat(x.segment.fileno()).st_dev == os.stat("/dev/shm").st_dev


def test_backing_shm_travels(context):
    from mp import workers

    x = recstore.RecordList((workers.record(i) for i in range(9)), backing="shm")
    assert workers.run_worker(context, workers.send_summary, x) == workers.summary(x)


def test_warns_when_a_spawned_child_builds_while_it_imports(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing, recstore
x = recstore.RecordList([1])
if __name__ == "__main__":
    p = multiprocessing.get_context("spawn").Process(target=print)
    p.start()
    p.join()
""")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.count("while a spawned child imports its main module") == 1, done.stderr


def test_import_stays_light():
    code = "import sys; before = set(sys.modules); import recstore; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"recstore.naming", "recstore.fingerprints", "recstore.listing", "hashlib", "logging", "socket"} & set(loaded)
