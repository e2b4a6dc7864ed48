"""Interrupts the start or stop of a MemoryMonitor at every line that the main thread runs, or the start and the time after
it by signals: `python interrupted_monitor.py start|stop|signal FOLDER [LOG]`. Checks after each interrupt that nothing is
left, and prints the number of interrupts. FOLDER is for temporary files."""

import gc
import os
import signal
import sys
import tempfile
import time

import recstore


def left(folder):
    """Descriptors, children and files of this program."""
    children = []
    try:
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            children.append(f"child {pid}")
            if pid == 0:
                break
    except ChildProcessError:
        pass
    return sorted(os.listdir("/proc/self/fd")), children, sorted(os.listdir(folder))


def interrupted(done, act):
    """Interrupts `act` at the first line that is not in `done`, and adds the line. Returns whether there was one."""

    def trace(frame, event, _):
        if "importlib" in frame.f_code.co_filename:
            return None
        line = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and line not in done:
            done.add(line)
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        act()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)


def main(what, folder, log=None):
    tempfile.tempdir = folder
    with recstore.MemoryMonitor(log=log, interval=3600):  # performs late imports
        pass
    if log is not None:
        os.unlink(log)
    gc.collect()
    before = left(folder)
    done = set()
    while True:
        monitor = recstore.MemoryMonitor(log=log, interval=3600)
        if what == "stop":
            monitor.start()
        if not interrupted(done, monitor.start if what == "start" else monitor.stop):
            break
        if what == "start":  # cleanup must not depend on the end of the object
            assert "not watching" in repr(monitor), repr(monitor)
            assert left(folder) == before, (done, left(folder), before)
        monitor.stop()  # completes an interrupted stop
        del monitor
        gc.collect()
        if log is not None and what == "stop":
            os.unlink(log)
        assert left(folder) == before, (done, left(folder), before)
    monitor.stop()
    print(len(done))


def by_signal(folder, log=None):
    """Interrupts the start, or the time after it, by real signals."""
    tempfile.tempdir = folder
    gc.collect()
    before = left(folder)

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for number in range(12):
        monitor = recstore.MemoryMonitor(log=log, interval=3600)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.03 * number)
            monitor.start()
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            monitor.stop()
        if log is not None and os.path.exists(log):
            os.unlink(log)
        del monitor
        gc.collect()
        assert left(folder) == before, (number, left(folder), before)
    print(number + 1)


if __name__ == "__main__":
    (by_signal if sys.argv[1] == "signal" else main)(*sys.argv[2 if sys.argv[1] == "signal" else 1 :])
