"""Makes every allocation fail in turn. `nox -s no_memory` runs this.

Each public operation of tests/leaks/operations.py runs again and again, and each time another allocation fails:
an allocation of the C core or of Cython's C code (`--kind native`), or of an object that this code gets from the
interpreter (`--kind objects`). The operation must pass, or raise an exception about missing memory; nothing that it
opened stays open, and it works the next time. Each operation runs in its own process, so a crash is one line of the
report.
Allocations of bytecode do not fail: without memory for a call, CPython 3.11 and 3.12 lose references to its
arguments, even without recstore. A free-threaded build has its own allocator of objects, so it only has
`--kind native`.
"""

import argparse
import ctypes
import gc
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from leaks import operations, watch

from recstore._core import native

KINDS = ("native",) if sysconfig.get_config_var("Py_GIL_DISABLED") else ("native", "objects")
# Parts of messages by which other code reports the failure: polars raises its own error with Python's in the text,
# and the interpreter raises a RuntimeError if it cannot allocate a lock.
MESSAGE_PARTS = ("MemoryError", "no memory", "out of memory", "allocate")
# Code of other projects that loses the exception: (type, a part of its text, the code).
ELSEWHERE = (
    (SystemError, "returned NULL without setting an exception", "the interpreter, on some paths of its own"),
    (SystemError, "error return without exception set", "the interpreter, on some paths of its own"),
)


def library(folder):
    """Compiles failing_malloc.c. Returns the path of the library."""
    path = pathlib.Path(folder, "failing_malloc.so")
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    source = pathlib.Path(__file__).with_name("failing_malloc.c")
    subprocess.run([compiler, *"-O2 -fPIC -fexceptions -shared -o".split(), path, source], check=True)
    return path


def code_of(path):
    """Returns the bounds of the code of a loaded module."""
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    bounds = next(line[0] for line in lines if "x" in line[1] and line[-1] == os.path.realpath(path))
    return [int(at, 16) for at in bounds.split("-")]


def interpreter_code():
    """Returns the bounds of the interpreter's code, which is a library or the executable itself."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    try:
        return code_of(os.path.join(sysconfig.get_config_var("LIBDIR") or "", name))
    except StopIteration:
        return code_of(sys.executable)


def spans(kind):
    """The arguments of fail_call before the number: the code whose calls count."""
    module = code_of(native.__file__)
    if kind == "native":
        return (*module, 0, 0, None)
    return (*module, *interpreter_code(), ctypes.cast(ctypes.pythonapi._PyEval_EvalFrameDefault, ctypes.c_void_p))


def verdict(error):
    """Returns None if an exception or one in its chain is about missing memory or in ELSEWHERE, else its traceback."""
    seen, todo = set(), [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, MemoryError) or any(word in str(one) for word in MESSAGE_PARTS):
            return None
        if any(isinstance(one, kind) and text in str(one) for kind, text, _ in ELSEWHERE):
            return None
        todo += [one.__cause__, one.__context__]
    return "".join(traceback.format_exception(error))


class Trials:
    """Runs an operation again and again, each time with another failing allocation."""

    def __init__(self, kind, run):
        self.hooks, self.run = ctypes.CDLL(None), run
        self.hooks.fail_call.argtypes = [*[ctypes.c_size_t] * 4, ctypes.c_void_p, ctypes.c_long]
        self.hooks.stop_counting.restype = ctypes.c_long
        self.spans = spans(kind)
        if not self.hooks.fail_call(*self.spans, -1):
            raise RuntimeError("the interpreter's symbols are not known: it was stripped of _PyEval_EvalFrameDefault")

    def once(self, nth):
        """(the number of allocations, the exception or None) of a run in which allocation `nth` fails."""
        self.hooks.fail_call(*self.spans, nth)
        try:
            self.run()
            return self.hooks.stop_counting(), None
        except BaseException as e:
            return self.hooks.stop_counting(), e

    def all(self, limit):
        """Prints faults. Returns the numbers of trials, of allocations and of faults."""
        for _ in range(3):  # caches fill, modules are imported
            self.run()
        total, faults, before = self.once(-1)[0], 0, open_count()
        step = max(1, -(-total // limit)) if limit else 1
        trials = range(0, total, step)
        for nth in trials:
            error = self.once(nth)[1]
            text = error and verdict(error)
            error = None  # its frames hold what the operation opened
            now = settled_count(before)
            if text is None and now > before:
                text = f"descriptors and mappings were {before}, are {now}"
            before = now
            if text is not None:
                faults += 1
                print(f"-- allocation {nth}: {text}", flush=True)
        self.run()
        return len(trials), total, faults


def open_count():
    from recstore.shm import pins

    pins.clear()  # a pickled store is held for a minute, for its reader
    gc.collect()
    return len(os.listdir("/proc/self/fd")) + watch.mappings()


def settled_count(enough):
    """Returns the result of `open_count` once it is at most `enough`, or after a second, because a thread of a loader
    may be about to end."""
    for _ in range(20):
        now = open_count()
        if now <= enough:
            break
        time.sleep(0.05)
    return now


def run_operation(kind, name, limit):
    """Runs one operation in this process. Returns the exit status, 1 for a fault."""
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: None  # a destructor meets the failing allocation too
    with tempfile.TemporaryDirectory(prefix=watch.MARK) as folder:
        run = operations.OPERATIONS[name][0]
        trials, total, faults = Trials(kind, lambda: run(pathlib.Path(folder))).all(limit)
    print(f"{name}: {trials} of {total} allocations failed once, {faults} faults", flush=True)
    return 1 if faults else 0


def run_all(options, chosen):
    """Runs each operation in its own process for each kind. Returns the number of runs that did not pass."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix=watch.MARK) as folder:
        environment = {**os.environ, "LD_PRELOAD": str(library(folder))}
        if "objects" in KINDS:
            environment["PYTHONMALLOC"] = "malloc"
        for kind in options.kind or KINDS:
            print(f"== {kind}", flush=True)
            for name in chosen:
                command = [sys.executable, __file__, "--one", name, "--kind", kind, "--most", str(options.most)]
                try:
                    status = subprocess.run(command, env=environment, timeout=options.seconds).returncode
                except subprocess.TimeoutExpired:
                    status = f"none after {options.seconds} s"
                bad += status != 0
                if status not in (0, 1):
                    print(f"{name}: ended with status {status}", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operation", nargs="*", help="the names of operations; without one, all")
    parser.add_argument("--kind", choices=KINDS, action="append", help="without it, all")
    parser.add_argument("--most", type=int, default=0, help="the most allocations to try, evenly spaced; 0 for all")
    parser.add_argument("--seconds", type=int, default=3600, help="the time for one operation")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = set(options.operation or [options.one])
    if not names <= set(operations.OPERATIONS):
        operations.load()  # imports PyTorch, which takes seconds
    if options.one:
        return run_operation(options.kind[0], options.one, options.most)
    unknown = set(options.operation) - set(operations.OPERATIONS)
    if unknown:
        parser.error(f"no operation {sorted(unknown)[0]!r}; there are {', '.join(operations.OPERATIONS)}")
    return 1 if run_all(options, options.operation or list(operations.OPERATIONS)) else 0


if __name__ == "__main__":
    sys.exit(main())
