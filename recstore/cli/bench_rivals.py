"""The rivals: other containers of records, which `recstore bench` and bench/ measure. Each is written as a careful user
of its library would write it.

A rival is built from a list of records. It has `x[i]`, `nbytes` and, if its library offers one, `get_many(indices)`.
bench_columns.py has the columnar rivals. No known library holds records with marshal, msgspec or orjson; these get the
leanest buffer we know: a memoryview of one uint8 array, and offsets in an array('q').
"""

import marshal
import pickle
import shutil
import struct
import tempfile
import weakref
from array import array

from recstore.cli import bench_columns as columns
from recstore.cli.bench_rival import Absent, Rival, need


class Resident(Rival):
    """A plain list: no decoding at all, and every process that reads it gets its own copy."""

    name = "list"

    @staticmethod
    def build(records):
        return list(records)


class NumpyPickle(Rival):
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
        need("numpy")
        return cls(records)

    def __len__(self):
        return len(self._ends)

    def __getitem__(self, index):
        start = 0 if index == 0 else self._ends[index - 1].item()
        end = self._ends[index].item()
        return pickle.loads(memoryview(self._bytes[start:end]))


class TorchPickle(Rival):
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
        need("torch")
        return cls(records)

    def __len__(self):
        return len(self._ends)

    def __getitem__(self, index):
        start = 0 if index == 0 else self._ends[index - 1].item()
        end = self._ends[index].item()
        return pickle.loads(memoryview(self._bytes[start:end].numpy()))


class _Buffer(Rival):
    """Records as bytes in one uint8 array. Subclasses encode and decode them."""

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
        need("numpy")
        return cls(records, marshal.dumps, marshal.loads)


class Msgspec(_Buffer):
    """MessagePack by msgspec, untyped."""

    name = "msgspec"

    @classmethod
    def build(cls, records):
        need("msgspec", "numpy")
        import msgspec

        return cls(records, msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode)


class Orjson(_Buffer):
    """JSON by orjson."""

    name = "orjson"

    @classmethod
    def build(cls, records):
        need("orjson", "numpy")
        import orjson

        return cls(records, orjson.dumps, orjson.loads)


class LmdbMsgspec(Rival):
    """LMDB with MessagePack values under big-endian record numbers, one read transaction kept open."""

    name = "LMDB+msgspec"

    def __init__(self, records):
        import lmdb
        import msgspec

        folder = tempfile.mkdtemp(prefix="recstore-bench-")
        encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder().decode
        self._key = struct.Struct(">Q").pack
        # Large enough for any of these; the file is sparse.
        self._env = lmdb.open(folder, map_size=1 << 40, sync=False, metasync=False, readahead=False)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        with self._env.begin(write=True) as transaction:
            for number, record in enumerate(records):
                transaction.put(self._key(number), encode(record), append=True)
        self._count = self._env.stat()["entries"]
        self.nbytes = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        self._transaction = self._env.begin(buffers=True)

    @classmethod
    def build(cls, records):
        need("lmdb", "msgspec")
        return cls(records)

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._decode(self._transaction.get(self._key(index)))


class ManagerList(Rival):
    """multiprocessing's Manager().list(): one list in a separate process; each read is a message to it and back."""

    name = "Manager().list"
    most = 150_000

    def __init__(self, records):
        import multiprocessing

        manager = multiprocessing.Manager()
        weakref.finalize(self, manager.shutdown)
        self._manager = manager
        self._list = manager.list(records)
        self._count = len(records)

    @classmethod
    def build(cls, records):
        if len(records) > cls.most:
            raise Absent(
                f"measured up to {cls.most:,} records: held as in a list, and a read takes as long for any number"
            )
        return cls(records)

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._list[index]


class Recstore(Rival):
    """This package."""

    name = "recstore"

    @staticmethod
    def build(records):
        import recstore

        return recstore.RecordList(records)


class RecstoreNone(Rival):
    """This package without compression. The classes below are its other levels."""

    name = "recstore none"
    level = "none"

    @classmethod
    def build(cls, records):
        import recstore

        return recstore.RecordList(records, compression=cls.level)


class RecstoreFast(RecstoreNone):
    name = "recstore fast"
    level = "fast"


class RecstoreSmall(RecstoreNone):
    name = "recstore small"
    level = "small"


def every():
    """All rivals, in the order of their turns: those whose ratios count are neighbours, alike in noise."""
    levels = (RecstoreNone, RecstoreFast, RecstoreSmall, Recstore)
    slow = (ManagerList, columns.HfDatasets, columns.Vortex, columns.ArrowTable, LmdbMsgspec)
    sizes = (columns.ParquetZstd, columns.WholeZstd)
    return (*sizes, *slow, Resident, NumpyPickle, Orjson, Marshal, Msgspec, TorchPickle, *levels)


def rebuild():
    """The native deep structural copy: the time CPython itself needs to make equal objects, with no decoding."""
    try:
        from recstore._core.native import rebuild
    except ImportError:
        raise Absent("recstore._core.native.rebuild is not in this build") from None
    return rebuild


def bare_msgspec():
    """`(encode, decode)` of msgspec alone, for bytes that lie ready: its decoder without finding the record."""
    need("msgspec")
    import msgspec

    return msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
