"""Runs a program and samples its processes with recstore.monitor."""

import itertools
import os
import pickle
import subprocess
import sys
import threading
import time

import data

from recstore.monitor import log
from recstore.monitor.sampler import Sampler
from recstore.shm import process_memory

_numbers = itertools.count()
HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = ("uss", "shared", "pss")


class WatchedProgram:
    """The messages of a program and the memory of its processes.

    Attributes:
        messages: the messages in order, each with the seconds since the start as `t`.
        samples: the samples of the log (docs/monitor.md), each with the seconds since the start as `since`.
        total: bytes of all processes at the end: the sum of their PSS, and unmapped pages of shared memory.
        pids: the pids of all processes at the end, the program first.
        last: the figures of each process at the end, by pid.
    """

    def __init__(self):
        self.messages = []
        self.samples = []
        self.total = None
        self.pids = []
        self.last = {}


def watch(script, arguments, done, interval=1.0):
    """Runs a script of this folder, samples its processes, ends it, and returns a WatchedProgram.

    Args:
        script: the name of its file.
        arguments: a dict for the script.
        done: called with all messages so far; returns True when the work is done and the script waits.
        interval: seconds between samples.

    Raises RuntimeError if the script ends early.
    """
    command = [sys.executable, os.path.join(HERE, script)]
    env = {**os.environ, "RECSTORE_PICKLE": "allow"}
    path = os.path.join(data.pools(), f"experiments-{os.getpid()}-{next(_numbers)}.log")
    watched, begin, begin_timestamp = WatchedProgram(), time.monotonic(), time.time()
    # The script starts in a new session, because the monitor recognizes orphans of the job by their process group. It
    # starts in another folder, because a fork server imports from the working folder first, and would import the source
    # of recstore from a checkout.
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen(command, **pipes, env=env, cwd=data.pools(), start_new_session=True)
    stop = threading.Event()
    sampler = threading.Thread(target=_sample_until, args=(stop, child.pid, path, interval), daemon=True)
    sampler.start()
    try:
        _tell(child, arguments)
        while not done(watched.messages):
            try:
                message = pickle.load(child.stdout)
            except EOFError:
                raise RuntimeError(f"{script} {arguments} ended with exit code {child.wait()}") from None
            watched.messages.append({**message, "t": time.monotonic() - begin})
        # A few more samples, so that the plots show the final memory.
        time.sleep(min(2.0, 2 * interval))
        stop.set()
        sampler.join()
        _measure_last(child.pid, watched)
        _tell(child, "end")
        child.wait()
    finally:
        stop.set()
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdin.close()
        child.stdout.close()
    watched.samples = [{**sample, "since": sample["t"] - begin_timestamp} for sample in log.read(path).samples]
    os.unlink(path)
    return watched


def _tell(child, message):
    pickle.dump(message, child.stdin)
    child.stdin.flush()


def _sample_until(stop, root, path, interval):
    # share=1.0: unlike a normal monitor, spend up to a core on exact figures of all processes.
    sampler = Sampler(root, share=1.0)
    with log.Log(path) as file:
        file.write(sampler.start(None, interval))
        while not stop.is_set():
            entry, _ = sampler.sample()
            if entry is None:
                return
            file.write(entry)
            stop.wait(interval)


def _measure_last(root, watched):
    watched.pids = process_memory.family(root)
    watched.last = figures(watched.pids)
    keys = {}
    for pid in watched.pids:
        keys.update(process_memory.segments(pid))
    watched.total = process_memory.total(watched.pids, keys)


def figures(pids):
    """{pid: {figure: bytes}} of the processes that still run."""
    usages = {}
    for pid in pids:
        usage = process_memory.usage(pid)
        if usage is not None:
            usages[pid] = {"uss": usage.uss, "shared": usage.rss - usage.uss, "pss": usage.pss}
    return usages


def series(samples, labels):
    """The samples as texts for the results: times, and in MB the figures of each label, the total, and the batches.

    Args:
        samples: see WatchedProgram.
        labels: {pid: label}; processes without a label count only in the total.
    """
    texts = {"t": " ".join(f"{sample['since']:.1f}" for sample in samples)}
    by_pid = [{process["pid"]: process for process in sample["processes"]} for sample in samples]
    for pid, label in labels.items():
        for figure in FIGURES:
            texts[f"{label}: {figure}"] = _text(processes.get(pid, {}).get(figure) for processes in by_pid)
    texts["sum: pss"] = _text(_sum(sample["sum"]["pss"], sample["sum"]["unmapped"]) for sample in samples)
    texts["batches"] = _text(sample["named"]["batches"] for sample in samples)
    return texts


def _sum(pss, unmapped):
    return None if pss is None else pss + (unmapped or 0)


def _text(sizes):
    return " ".join("-" if size is None else f"{size / 1e6:.1f}" for size in sizes)


def read_series(texts):
    """The inverse of `series`: {key: [float or None]}."""
    return {key: [None if text == "-" else float(text) for text in text.split()] for key, text in texts.items()}
