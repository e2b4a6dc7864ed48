"""The rivals that `recstore bench` does not have, and the stub that memory is compared with."""

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
    """The interpreter's own format."""

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
    """LMDB with MessagePack values under big-endian record numbers, with one open read transaction."""

    name, needs = "LMDB+msgspec", ("lmdb", "msgspec")

    def __init__(self, records):
        import lmdb
        import msgspec

        folder = tempfile.mkdtemp(prefix="recstore-bench-")
        encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder().decode
        self._key = struct.Struct(">Q").pack
        # The file is sparse, so a large map costs nothing.
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
    """multiprocessing's Manager().list(): a list in a server process, where each read is a message there and back."""

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
            raise Absent(f"measured up to {cls.most:,} records: a read takes equally long for any number")
        return cls(records)

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._list[index]


class RecstoreNone(Recstore):
    """recstore without compression. Its subclasses have other levels."""

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
    """All rivals, in the order of their turns. Rivals that are compared are neighbours, so they meet the same noise."""
    levels = (RecstoreNone, RecstoreFast, RecstoreSmall, Recstore)
    slow = (ManagerList, columns.HfDatasets, columns.Vortex, columns.ArrowTable, LmdbMsgspec)
    sizes = (columns.ParquetZstd, columns.WholeZstd)
    return (*sizes, *slow, Resident, NumpyPickle, Orjson, Marshal, Msgspec, TorchPickle, *levels)


class Stub:
    """A container that returns a fresh copy of one of a few records at each read.

    It shows the memory of a program apart from its container: the loop, the records in flight, the allocator. The pool
    is small, because its memory counts toward the baseline.
    """

    def __init__(self, dataset, pool=64):
        self._count = len(dataset)
        self._pool = dataset.pool(pool)

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return native.rebuild(self._pool[index % len(self._pool)])
