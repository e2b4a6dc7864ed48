"""Importable functions for processes that share stores and caches, without pytest."""

import multiprocessing
import os
import random
import sys
import threading
import time

from waiting import LIMIT_S, until

import recstore
from recstore import sharing
from recstore.shm import named_segments

FORK = multiprocessing.get_context("fork")

N = 300


def records(seed):
    return [{"i": i, "seed": seed, "text": f"{seed}-{i}" * (i % 5)} for i in range(N)]


class Build:
    """Makes records, and logs each call. It is not a function, so it needs a fingerprint.

    With `gate`, a path, it waits until that file exists.
    """

    def __init__(self, log, seed, pause=0.0, gate=None):
        self.log, self.seed, self.pause, self.gate = log, seed, pause, gate

    def __call__(self):
        note(self.log, f"{self.seed} {os.getpid()}")
        pass_gate(self.gate)
        for record in records(self.seed):
            time.sleep(self.pause)
            yield record


def note(path, line):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


def notes(path):
    try:
        with open(path) as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def rounds(name, log, n, barrier, results):
    """In each round, all processes share the same key at once. Reports the number of wrong results."""
    wrong = 0
    for i in range(n):
        barrier.wait()
        x = recstore.shared(name, Build(log, i), fingerprint=f"round {i}", timeout=LIMIT_S)
        wrong += x.to_list() != records(i)
        barrier.wait()
        x.close()
    results.put(wrong)


def storm(names, log, faults, seed):
    """Builds or attaches, reads and closes until it is killed."""
    chance = random.Random(seed)
    while True:
        name, isolate = chance.choice(names), chance.random() < 0.1
        try:
            x = recstore.shared(
                name, Build(log, 1, chance.choice((0, 1e-5))), fingerprint="1", isolate=isolate, timeout=LIMIT_S
            )
            if x.to_list() != records(1):
                note(faults, "partial")
            x.close()
        except Exception as error:
            # The building child was killed, which its parent reports.
            if "signal 9" not in str(error):
                note(faults, f"{type(error).__name__}: {error}")


def call(connection, name, log, options):
    """Shares a store, sends the result, and keeps the store until the test ends the process."""
    options = dict(options)
    gate, waits = options.pop("gate", None), options.pop("waits", None)
    note_waiting(waits)
    try:
        x = recstore.shared(name, Build(log, 1, gate=gate), fingerprint="1", **options)
        connection.send((len(x), x.to_list() == records(1)))
        connection.recv()
        x.close()
    except Exception as error:
        connection.send((type(error).__name__, str(error)))


def note_waiting(path):
    """From now on, logs each wait of this process for another build in the file `path`, if given."""
    original_sleep = sharing._Call.sleep

    def sleep(call, delay, lock):
        note(path, str(os.getpid()))
        original_sleep(call, delay, lock)

    if path is not None:
        sharing._Call.sleep = sleep


def pass_gate(gate):
    if gate is not None:
        until(lambda: os.path.exists(gate), seconds=600)


def open_gate(gate):
    note(gate, "open")


class Clock:
    """Replaces `time` in recstore.sharing: a sleep returns at once and advances the clock. Calls `at(seconds)` after
    each sleep."""

    def __init__(self, at=lambda seconds: None):
        self.slept, self.at = [], at

    def monotonic(self):
        return sum(self.slept)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.at(self.monotonic())

    def __getattr__(self, name):
        return getattr(time, name)


def fail(log, message="no data today", gate=None):
    note(log, "called")
    pass_gate(gate)
    raise LookupError(message)


def nested(name, isolate):
    return recstore.shared(name, lambda: [1], fingerprint="1", isolate=isolate)


def kill_self():
    os.kill(os.getpid(), 9)


def kill_self_leaving_a_child(pid_file, filler=b"", fork=os.fork):
    """Kills this process and leaves a child with all its descriptors. Writes the child's pid to `pid_file`."""
    pid = fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    with open(pid_file, "w") as file:
        file.write(str(pid))
    kill_self()


LOCK = threading.Lock()


def lock_is_free():
    return [LOCK.acquire(blocking=False)]


def surroundings():
    """The state that a build may depend on besides its arguments."""
    return [os.getcwd(), os.environ["OF_THIS_TEST"], sys.argv, sys.path]


def call_failing(connection, name, log, gate, waits):
    note_waiting(waits)
    try:
        recstore.shared(name, lambda: fail(log, gate=gate), fingerprint="1")
        connection.send(("nothing", ""))
    except Exception as error:
        connection.send((type(error).__name__, str(error)))


def read_all(connection, x):
    connection.send((x.to_list() == records(1), x.segment.backing, x.segment.path))
    connection.recv()


def as_another_user(connection, name, path):
    """Shares the same name as another user: gets a separate store, without access to the first user's."""
    from recstore.shm import handles, segment_list  # noqa: F401 - while this user can still read them

    os.setgid(12345)
    os.setuid(12345)
    with recstore.shared(name, lambda: [2], fingerprint="1", timeout=LIMIT_S) as x:
        try:
            named_segments.open_leased(path)
            outcome = "opened"
        except OSError as error:
            outcome = type(error).__name__
        paths = [info.path for info in recstore.names.list()]
        connection.send((os.geteuid(), x.to_list(), outcome, recstore.names.collect(), path not in paths))


# ---- Functions for the tests ----


def files_of(name, dir=None):
    """All files of a name: segments, locks and temporary files."""
    stem = named_segments.stem(name)
    return sorted(file for file in os.listdir(named_segments.folder(dir)) if file.startswith(stem))


def wait_until_gone(name, dir=None):
    """Waits until a name has no files. A concurrent test that builds may be testing the file when its last user leaves;
    the test then removes it a moment later."""
    until(lambda: files_of(name, dir) == [])


def collect_all(name, dir=None):
    """Collects until a name has no files, because a collection skips a file that a concurrent one has locked."""
    until(lambda: files_after_collecting(name, dir) == [])


def count_collected(name, dir=None):
    """The number of a name's files that are gone after a collection. A concurrent test may also collect them."""
    before = len(files_of(name, dir))
    return before - len(files_after_collecting(name, dir))


def files_after_collecting(name, dir=None):
    """All files of a name that remain after a collection."""
    recstore.names.collect()
    return files_of(name, dir)


def start(target, *arguments):
    """Forks a process. Returns it and the parent's end of a pipe to it."""
    parent_end, child_end = FORK.Pipe()
    process = FORK.Process(target=target, args=(child_end, *arguments))
    process.start()
    child_end.close()
    return process, parent_end


def kill(processes):
    for process in processes:
        process.kill()
        process.join()
        process.close()


def end(*pairs):
    for process, connection in pairs:
        if process.is_alive():
            try:
                connection.send(None)
            except OSError:
                pass
        connection.close()
        process.join()
