"""The one limit of every wait in a test, and what tests wait for: conditions, threads, processes, programs."""

import os
import pickle
import signal
import subprocess
import sys
import time

LIMIT_S = 100  # less than pytest's own limit, so that a test says what it waited for


def until(true, why="it did not come true", seconds=LIMIT_S, pause=0.01):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, why
        time.sleep(pause)


def together(crew):
    """Starts threads or processes, and waits for all of them."""
    for one in crew:
        one.start()
    for one in crew:
        one.join(LIMIT_S)
        assert not one.is_alive(), one


def run(command, **how):
    """A program, and what it wrote as text."""
    return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": LIMIT_S, **how})


def python(*arguments, **how):
    return run([sys.executable, *arguments], **how)


def in_child(work):
    """The result of `work()` in a forked process, or its exception."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)
        try:
            found = work()
        except BaseException as error:
            found = error
        with os.fdopen(writing, "wb") as file:
            file.write(pickle.dumps(found))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    found = pickle.loads(data)
    if isinstance(found, BaseException):
        raise found
    return found


def attached(name, *counts):
    """Waits until the stores of a name are attached so many times: a program that builds beside a test may look
    whether a store is in use, and counts for that moment."""
    import recstore  # not for those who only wait

    until(lambda: sorted(info.attached for info in recstore.names.list(name)) == list(counts), seconds=20)
