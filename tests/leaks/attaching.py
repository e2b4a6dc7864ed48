"""Cycles of attaching, reading and closing: a store by its name, a file by its path, a store by its handle. Another
process holds the handle's store, so that each cycle maps it again.
"""

import os
import pickle
import subprocess
import sys

import launching

import recstore

RECORDS = [{"id": i, "text": "some text" * (i % 3), "box": [i / 7, 2.5]} for i in range(300)]
HOLDER = """
import sys, pickle, recstore
store = recstore.RecordList(pickle.load(sys.stdin.buffer), backing="anonymous")
pickle.dump(pickle.dumps(store), sys.stdout.buffer)
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""


def read(store, cycle):
    i = cycle % len(RECORDS)
    if store[i] != RECORDS[i]:
        raise AssertionError(f"record {i} is wrong in cycle {cycle}")


class Attaching:
    """A context manager: `cycle[kind](n)` runs the n-th cycle of a kind."""

    def __init__(self, folder):
        self.folder = folder
        self.cycle = {"name": self.by_name, "file": self.by_file, "handle": self.by_handle}

    def __enter__(self):
        self.name = f"leaks-{os.getpid()}"
        self.path = os.path.join(self.folder, "cycles.rec")
        self.store = recstore.shared(self.name, lambda: RECORDS, fingerprint="1")
        self.store.save(self.path)
        environment = {**os.environ, "RECSTORE_PICKLE": "allow"}
        # The child holds its store until its input ends.
        self.holder = subprocess.Popen(
            [sys.executable, launching.SAFE_PATH, "-c", HOLDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        pickle.dump(RECORDS, self.holder.stdin)
        self.holder.stdin.flush()
        self.handle = pickle.load(self.holder.stdout)
        return self

    def __exit__(self, *_):
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()
        self.store.close()

    def by_name(self, n):
        with recstore.shared(self.name, fingerprint="1") as store:
            read(store, n)

    def by_file(self, n):
        with recstore.open(self.path) as store:
            read(store, n)

    def by_handle(self, n):
        with pickle.loads(self.handle) as store:
            read(store, n)
