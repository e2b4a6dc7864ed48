"""Interrupts the start and the stop of a MemoryMonitor at every line that the main thread runs, or the start and the time
after it by signals: `python interrupted_monitor.py lines|signals FOLDER LOG`. Checks after each interrupt that nothing is
left, and prints the numbers of interrupts. FOLDER is for temporary files, and LOG is the path of a named log."""

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


def interrupt_lines(what, folder, log=None):
    """Interrupts the "start" or "stop" of new monitors at one line after the other. Returns the number of lines."""
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
        assert left(folder) == before, (done, left(folder), before)
    monitor.stop()
    return len(done)


def lines(folder, log):
    with recstore.MemoryMonitor(interval=3600):  # performs late imports
        pass
    gc.collect()
    print(interrupt_lines("start", folder), interrupt_lines("stop", folder), interrupt_lines("start", folder, log))


def signals(folder, log):
    gc.collect()
    before = left(folder)

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for number in range(16):
        monitor = recstore.MemoryMonitor(log=log if number % 2 else None, interval=3600)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.02 * number)
            monitor.start()
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            monitor.stop()
        if os.path.exists(log):
            os.unlink(log)
        del monitor
        gc.collect()
        assert left(folder) == before, (number, left(folder), before)
    print(number + 1)


if __name__ == "__main__":
    tempfile.tempdir = sys.argv[2]
    {"lines": lines, "signals": signals}[sys.argv[1]](*sys.argv[2:])
