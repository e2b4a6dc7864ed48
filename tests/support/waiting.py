"""Waits for conditions, threads, processes and programs, with a common limit by default."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time

LIMIT_S = 100  # less than pytest's limit, so that a test reports what it waited for


def until(condition, why="it did not come true", seconds=LIMIT_S, pause=0.01):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, why
        time.sleep(pause)


def together(crew):
    """Starts threads or processes, and waits for all of them."""
    for member in crew:
        member.start()
    for member in crew:
        member.join(LIMIT_S)
        assert not member.is_alive(), member


def run(command, **options):
    """Runs a program and captures its output as text."""
    return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": LIMIT_S, **options})


def python(*arguments, **options):
    return run([sys.executable, *arguments], **options)


def in_child(work):
    """The result of `work()` in a forked process; raises its exception."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)
        try:
            result = work()
        except BaseException as error:
            result = error
        with os.fdopen(writing, "wb") as file:
            file.write(pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    result = pickle.loads(data)
    if isinstance(result, BaseException):
        raise result
    return result


class Clock:
    """Replaces the module time. A sleep passes at once, but counts as long as it says, or as `step` seconds. Then it
    calls `act` with the number of sleeps so far."""

    time, time_ns = staticmethod(time.time), staticmethod(time.time_ns)

    def __init__(self, act=None, step=None):
        self.now, self.act, self.step, self.sleeps = 0.0, act, step, 0

    def monotonic(self):
        return self.now

    def monotonic_ns(self):
        return int(self.now * 1e9)

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += self.step or seconds
        self.sleeps += 1
        if self.act is not None:
            self.act(self.sleeps)


@contextlib.contextmanager
def alarm(seconds, error):
    """Raises an error in the main thread after some seconds, unless the block has ended."""

    def fail(*_):
        raise error

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attached(name, *counts):
    """Waits until the stores of a name have these counts of attached processes. A concurrent build may count for a
    moment, because it tests whether the store is in use."""
    import recstore  # late, so that tests can wait without loading it

    until(lambda: sorted(info.attached for info in recstore.names.list(name)) == list(counts), seconds=20)
