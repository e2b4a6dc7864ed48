"""What the processes of test_lifetimes.py run, importable by name and without pytest: one store of each kind, and what
happens to it."""

import gc
import os
import signal
import sys

import recstore

KEEP = {"named": False, "kept": True, "kept for 2h": "2h"}
RECORDS = [{"i": i, "text": "x" * i} for i in range(100)]


class Place:
    """Where the store of a test is: its kind, its name, and the path of its file."""

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
        """Builds a store in the midst of which `event` happens; for a file, saves one where another one was."""
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
    """Does something when a save writes it."""

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
    """The Place that the arguments of the program name."""
    return Place(*sys.argv[1:4])


def say(*words):
    print(*words, flush=True)


def tell(x):
    """Which file a store is in, for the test to look for it."""
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
    """A cycle with the store in it, which only the collector can find."""
    held = [x]
    held.append(held)


def collected():
    gc.collect()


def read(x):
    return x.to_list() == RECORDS
