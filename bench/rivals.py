"""The ways to hold records that recstore is compared with, each written as its users write it.

A rival is built from an iterable of records, answers `x[i]` and says its `nbytes`. The three serialisers that are
not how a known library does it (marshal, msgspec, orjson) get the leanest buffer we could give them: a memoryview of
one uint8 array and offsets in an array('q').
"""

import importlib.util
import marshal
import pickle
from array import array


class Absent(Exception):
    """A rival that cannot run here; the message is the reason."""


def _need(name):
    if importlib.util.find_spec(name) is None:
        raise Absent(f"{name} is not installed")


class Resident:
    """A plain list: no decoding at all, and every process that reads it gets its own copy."""

    name = "list"

    @staticmethod
    def build(records):
        return list(records)


class NumpyPickle:
    """mmengine's BaseDataset: one uint8 array of pickles and their end offsets."""

    name = "numpy+pickle"

    def __init__(self, records):
        import numpy

        parts = [numpy.frombuffer(pickle.dumps(record, protocol=4), dtype=numpy.uint8) for record in records]
        self._ends = numpy.cumsum([len(part) for part in parts], dtype=numpy.int64)
        self._bytes = numpy.concatenate(parts)
        self.nbytes = self._bytes.nbytes + self._ends.nbytes

    @classmethod
    def build(cls, records):
        _need("numpy")
        return cls(records)

    def __len__(self):
        return len(self._ends)

    def __getitem__(self, index):
        start = 0 if index == 0 else self._ends[index - 1].item()
        end = self._ends[index].item()
        return pickle.loads(memoryview(self._bytes[start:end]))


class TorchPickle:
    """detectron2's TorchSerializedList: the same in torch tensors."""

    name = "torch+pickle"

    def __init__(self, records):
        import numpy
        import torch

        parts = [numpy.frombuffer(pickle.dumps(record, protocol=-1), dtype=numpy.uint8) for record in records]
        self._ends = torch.from_numpy(numpy.cumsum([len(part) for part in parts], dtype=numpy.int64))
        self._bytes = torch.from_numpy(numpy.concatenate(parts))
        self.nbytes = self._bytes.numel() + 8 * self._ends.numel()

    @classmethod
    def build(cls, records):
        _need("torch")
        return cls(records)

    def __len__(self):
        return len(self._ends)

    def __getitem__(self, index):
        start = 0 if index == 0 else self._ends[index - 1].item()
        end = self._ends[index].item()
        return pickle.loads(memoryview(self._bytes[start:end].numpy()))


class _Buffer:
    """Records as bytes in one uint8 array; a subclass says how."""

    def __init__(self, records, dumps, loads):
        import numpy

        ends = array("q", [0])
        parts = []
        at = 0
        for record in records:
            blob = dumps(record)
            at += len(blob)
            ends.append(at)
            parts.append(blob)
        # An array of numpy's own, as mmengine makes it: numpy asks for huge pages, a bytes object gets none.
        whole = numpy.concatenate([numpy.frombuffer(part, dtype=numpy.uint8) for part in parts])
        self._view = memoryview(whole)
        self._ends = ends
        self._loads = loads
        self.nbytes = whole.nbytes + 8 * len(ends)

    def __len__(self):
        return len(self._ends) - 1

    def __getitem__(self, index):
        ends = self._ends
        return self._loads(self._view[ends[index] : ends[index + 1]])


class Marshal(_Buffer):
    """The interpreter's own format, the one it reads fastest."""

    name = "marshal"

    @classmethod
    def build(cls, records):
        _need("numpy")
        return cls(records, marshal.dumps, marshal.loads)


class Msgspec(_Buffer):
    """MessagePack by msgspec, untyped."""

    name = "msgspec"

    @classmethod
    def build(cls, records):
        _need("msgspec")
        import msgspec

        return cls(records, msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode)


class Orjson(_Buffer):
    """JSON by orjson."""

    name = "orjson"

    @classmethod
    def build(cls, records):
        _need("orjson")
        import orjson

        return cls(records, orjson.dumps, orjson.loads)


class Recstore:
    """This package."""

    name = "recstore"

    @staticmethod
    def build(records):
        import recstore

        return recstore.RecordList(records)


ALL = (Resident, NumpyPickle, TorchPickle, Marshal, Msgspec, Orjson, Recstore)


def rebuild():
    """The native deep structural copy: the time CPython itself needs to make equal objects, with no decoding."""
    try:
        from recstore._floor import rebuild as native
    except ImportError:
        raise Absent("recstore._floor.rebuild is not in this build") from None
    return native


class Stub:
    """A container that gives a fresh equal record at each read and holds next to nothing.

    What a program costs with a perfect container: the loop, the records in flight, the allocator's habits. The pool
    is small on purpose, so that the baseline is not flattered by memory of its own.
    """

    def __init__(self, dataset, pool=64):
        self._count = len(dataset)
        try:
            rebuild()
            self._pool = dataset.pool(pool)
            self.how = "rebuild"
        except Absent:
            self._pool = [marshal.dumps(record) for record in dataset.pool(pool)]
            self.how = "marshal"
        self._arm()

    def _arm(self):
        self._make = rebuild() if self.how == "rebuild" else marshal.loads

    def __getstate__(self):
        return self._count, self._pool, self.how

    def __setstate__(self, state):
        self._count, self._pool, self.how = state
        self._arm()

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._make(self._pool[index % len(self._pool)])
