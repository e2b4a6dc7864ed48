"""Importable shards for tests of builds with workers."""

import contextlib
import dataclasses
import math
import os
import random
import signal
import time

import numpy as np

import recstore


def cut(kind, n, parts):
    """The records 0 to n - 1 of a kind, divided into `parts` shards."""
    ends = [n * i // parts for i in range(parts + 1)]
    return [kind(a, b) for a, b in zip(ends, ends[1:])]


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Plain:
    """Can only be stored as a pickle."""

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return type(other) is Plain and other.n == self.n

    __hash__ = None

    def __repr__(self):
        return f"{type(self).__name__}({self.n})"


class Registered(Plain):
    pass


recstore.register(Registered)


@dataclasses.dataclass(frozen=True)
class Key:
    """A key without a canonical form, which must be compared."""

    n: int


class Rows:
    """The records [start, stop)."""

    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def __iter__(self):
        for i in range(self.start, self.stop):
            yield self.one(i)

    @staticmethod
    def one(i):
        return {"id": i, "name": f"record {i}", "box": [i, i + 0.5]}


class Descriptors:
    """Its records are the paths of the open files of the process that reads it."""

    def __iter__(self):
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the descriptor of listdir
                yield os.readlink(f"/proc/self/fd/{fd}")


class Arrays(Rows):
    """Records with up to three arrays, inline and external, 64-aligned and not."""

    @staticmethod
    def one(i):
        arrays = [np.arange(i * 37 % 700 + k, dtype="u1" if k % 2 else "f8") for k in range(i % 4)]
        return {"id": i, "arrays": arrays, "after": "x" * (i % 9)}


class Values(Rows):
    @staticmethod
    def one(i):
        return [Point(i, i / 2), Registered(i), np.float32(i), {i, i + 1}, None, 1j * i][: i % 7]


class Pickled(Rows):
    @staticmethod
    def one(i):
        return {"value": Plain(i) if i % 3 else i}


class Pairs(Rows):
    @staticmethod
    def one(i):
        value = np.arange(150 + i % 3) if i % 5 == 0 else i
        return (i % 700 if i % 2 else f"key {i}"), value


class Large(Rows):
    """About 2,000 records fill a block."""

    @staticmethod
    def one(i):
        return {"id": i, "text": f"{i * i} " * (500 + i % 7), "name": f"name {i % 50}"}


class LargePairs(Rows):
    """A few values are external arrays, and a few keys have no canonical form."""

    @staticmethod
    def one(i):
        key = (i, math.inf) if i % 100 == 3 else f"key {i}"
        return key, np.arange(200) if i % 100 == 0 else Large.one(i)


@dataclasses.dataclass
class Unpicklable:
    n: int

    def __reduce__(self):
        raise TypeError("not to be pickled")


class OddPairs(Rows):
    """Keys without a canonical form, some repeated; one repeated NaN object, and other NaNs."""

    def __iter__(self):
        nan = float("nan")
        for i in range(self.start, self.stop):
            yield (nan, Key(i % 50), float("nan") if i % 9 == 0 else i, (i % 3, math.inf))[i % 4], i


class Failing(Rows):
    """Fails at its last record, or yields one that cannot be stored."""

    def __init__(self, start, stop, how):
        super().__init__(start, stop)
        self.how = how

    def __iter__(self):
        yield from range(self.start, self.stop - 1)
        if self.how == "value":
            yield {"a": [1, len]}
        elif self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.how == "exit":
            os._exit(3)
        elif self.how == "odd":
            raise Odd("one", "two")
        elif self.how == "sleep":
            time.sleep(1000)
        else:
            raise self.how


class FailingPairs(Failing):
    def __iter__(self):
        for i in super().__iter__():
            yield (i, i) if type(i) is int else ("last", i)


class Odd(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, one, two):
        super().__init__(one)


class Local:
    """Values of a class that only exists in the worker."""

    def __iter__(self):
        made = dataclasses.make_dataclass("Made", ["x"])
        made.__module__ = __name__
        yield made(1)


def build(pipe, shards, workers):
    """Sends the records of a build, or its error."""
    try:
        with recstore.RecordList(shards, workers=workers) as x:
            pipe.send(x.to_list())
    except Exception as e:
        pipe.send(f"{type(e).__name__}: {e}")
    pipe.close()


class Slow(Rows):
    """Records its progress in a file."""

    def __init__(self, start, stop, path, size):
        super().__init__(start, stop)
        self.path, self.size = path, size

    def __iter__(self):
        with open(self.path, "w") as f:
            for i in range(self.start, self.stop):
                print(i, file=f, flush=True)
                yield random.Random(i).randbytes(self.size)  # incompressible


class Waiting:
    """Yields nothing until a file exists."""

    def __init__(self, path, then=()):
        self.path, self.then = path, then

    def __iter__(self):
        while not os.path.exists(self.path):
            time.sleep(0.005)
        yield from self.then
