"""More rivals than `recstore bench` has, and the stub that memory is held against."""

import marshal
import shutil
import struct
import tempfile
import weakref

import columns

from recstore._core import native
from recstore.cli.bench_rivals import (
    Absent,
    Msgspec,
    NumpyPickle,
    Recstore,
    Resident,
    Rival,
    TorchPickle,
)


class Marshal(Msgspec):
    """The interpreter's own format, the one it reads fastest."""

    name, needs = "marshal", ("numpy",)

    @staticmethod
    def codec():
        return marshal.dumps, marshal.loads


class Orjson(Msgspec):
    """JSON by orjson."""

    name, needs = "orjson", ("orjson", "numpy")

    @staticmethod
    def codec():
        import orjson

        return orjson.dumps, orjson.loads


class LmdbMsgspec(Rival):
    """LMDB with MessagePack values under big-endian record numbers, one read transaction kept open."""

    name, needs = "LMDB+msgspec", ("lmdb", "msgspec")

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


class RecstoreNone(Recstore):
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


class Stub:
    """A container that gives a fresh equal record at each read and holds next to nothing.

    What a program costs with a perfect container: the loop, the records in flight, the allocator's habits. The pool
    is small on purpose, so that the baseline is not flattered by memory of its own.
    """

    def __init__(self, dataset, pool=64):
        self._count = len(dataset)
        self._pool = dataset.pool(pool)

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return native.rebuild(self._pool[index % len(self._pool)])
