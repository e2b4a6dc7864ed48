"""Importable functions for the processes of test_lifetimes.py, without pytest: a store of each kind, and the events of
its life."""

import gc
import os
import signal
import sys

import recstore

KEEP = {"named": False, "kept": True}
RECORDS = [{"i": i, "text": "x" * i} for i in range(100)]


class Place:
    """The place of a test's store: its kind, its name, and the path of its file."""

    def __init__(self, kind, name, path):
        self.kind, self.name, self.path = kind, name, path

    def make(self, build=lambda: RECORDS, fingerprint="1"):
        if self.kind in KEEP:
            return recstore.shared(self.name, build, fingerprint=fingerprint, keep=KEEP[self.kind])
        if self.kind != "file":
            return recstore.RecordList(build(), backing="dir" if self.kind == "directory" else "anonymous")
        with recstore.RecordList(build(), backing="anonymous") as x:
            x.save(self.path)
        return recstore.open(self.path)

    def spoil(self, event):
        """Builds a store, and calls `event` during the build. For a file, calls `event` while a save replaces the file."""
        if self.kind != "file":

            def build():
                yield from RECORDS
                event()
                yield 1

            return self.make(build)
        self.make().close()
        with recstore.RecordList([Loud(event), Loud(event)], backing="anonymous") as x:
            Loud.armed = True
            x[::-1].save(self.path)


class Loud:
    """Calls `event` when a save encodes it, if armed."""

    armed = False

    def __init__(self, event):
        self.event = event


_events = []


def _encode(loud):
    if Loud.armed:
        loud.event()
    _events.append(loud.event)
    return len(_events) - 1


recstore.register(Loud, encode=_encode, decode=lambda i: Loud(_events[i]))


def here():
    """The Place in the arguments of the program."""
    return Place(*sys.argv[1:4])


def say(*words):
    print(*words, flush=True)


def tell(x):
    """Prints the identity of a store's file for the test."""
    say(*x.segment.identity)


def wait():
    os.read(0, 1)


def fails():
    raise LookupError("no data today")


def interrupts():
    os.kill(os.getpid(), signal.SIGINT)


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def cycle(x):
    """Makes a reference cycle that includes the store."""
    cell = [x]
    cell.append(cell)


def collected():
    gc.collect()


def read(x):
    return x.to_list() == RECORDS
