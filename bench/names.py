"""The suites `attach` and `handle`: attaching to a store by name and by handle, and waiting for a builder."""

import multiprocessing
import os
import pickle
import statistics
import subprocess
import sys
import time
import warnings

from measures import WrongAnswer


def _times(call, repeats, close=True):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        store = call()
        times.append((time.perf_counter_ns() - begin) / 1e3)
        if close:
            store.close()
    return min(times), sorted(times)[len(times) // 2]


def _wait(name, building, results):
    import recstore

    building.wait()
    begin, cpu = time.monotonic(), time.process_time()
    recstore.shared(name, _never, fingerprint="1", timeout=60).close()
    results.put((time.monotonic() - begin, time.process_time() - cpu))


def _never():
    raise WrongAnswer("the waiting process built the store")


def by_handle(store, starts):
    """Bytes of a handle, and microseconds to unpickle it in this process and in fresh ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that a pickle holds a handle
        handle = pickle.dumps(store, pickle.HIGHEST_PROTOCOL)
    here_us = _times(lambda: pickle.loads(handle), 50, close=False)[1]  # not closed: they share the segment of `store`
    code = (
        "import sys, time, pickle, recstore\n"
        "handle = sys.stdin.buffer.read()\n"
        "begin = time.perf_counter_ns(); x = pickle.loads(handle); spent = time.perf_counter_ns() - begin\n"
        f"assert len(x) == {len(store)} and x[-1] is not None\n"
        "print(spent)\n"
    )
    # `-c` imports from the working folder first, where the sources of a checkout would hide the built package.
    options = {"cwd": os.path.dirname(os.path.abspath(__file__)), "stdout": subprocess.PIPE, "check": True}
    runs = (subprocess.run([sys.executable, "-c", code], input=handle, **options) for _ in range(starts))
    fresh_us = [int(run.stdout) / 1e3 for run in runs]
    return {
        "handle_bytes": len(handle),
        "here_us": here_us,
        "fresh_process_us": statistics.median(fresh_us),
        "fresh_process_max_us": max(fresh_us),
    }


def attaching(quick, log):
    """Rows of microseconds that each call takes to attach to a small and a large open store."""
    import recstore

    rows, repeats = [], 100 if quick else 2000
    for count in (1_000, 20_000 if quick else 2_000_000):
        log(f"attach: {count:,} records")
        name = f"bench {os.getpid()}"
        with recstore.shared(name, lambda n=count: ({"i": i, "text": f"record {i}"} for i in range(n))) as original:
            fingerprint = recstore.names.list(name)[0].fingerprint
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the warning that a pickle holds a handle
                handle = pickle.dumps(original, pickle.HIGHEST_PROTOCOL)
            calls = {
                "attach(name)": lambda name=name: recstore.shared(name),
                "shared(name, build)": lambda name=name, fingerprint=fingerprint: recstore.shared(
                    name, _never, fingerprint=fingerprint
                ),
                "pickle.loads(handle)": lambda handle=handle: pickle.loads(handle),
            }
            for call_name, call in calls.items():
                by_name = "handle" not in call_name  # closing a store from a handle would close the open segment
                attached = call()
                if attached[count - 1] != original[count - 1]:
                    raise WrongAnswer("attached to a different store")
                if by_name:
                    attached.close()
                least, median = _times(call, repeats, by_name)
                rows.append(
                    {
                        "call": call_name,
                        "records": count,
                        "bytes": original.nbytes,
                        "least_us": least,
                        "median_us": median,
                    }
                )
    return rows


def waiting(quick, log):
    """A row with the share of a core that a process uses while it waits for a builder."""
    import recstore

    seconds, fork, name = 2 if quick else 15, multiprocessing.get_context("fork"), f"bench wait {os.getpid()}"
    log(f"attach: waiting {seconds} s")
    results, building = fork.Queue(), fork.Event()
    process = fork.Process(target=_wait, args=(name, building, results))
    process.start()

    def build():
        building.set()
        time.sleep(seconds)
        return [1]

    with recstore.shared(name, build, fingerprint="1"):
        waited, cpu = results.get(timeout=60)
        process.join()
    return [{"waited_s": waited, "cpu_s": cpu, "share_of_core": cpu / waited}]
