"""The rivals of `recstore bench`: other containers of records, each as a careful user of its library would write it.

A rival is built from a list of records. It has `x[i]`, `nbytes` and, if its library offers one, `get_many(indices)`.
No known library holds records with msgspec; it gets the leanest buffer we know: a memoryview of one uint8 array, and
offsets in an array('q'). bench/rivals.py has more of them.
"""

import importlib.util
import pickle
from array import array


class Absent(Exception):
    """A rival that cannot run here, or not on these records; the message is the reason."""


def need(*names):
    """Raises Absent unless these modules are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Absent(f"{name} is not installed")


class Rival:
    """Base of all rivals."""

    name = ""
    # Whether it gives records back; otherwise it is measured by its bytes alone.
    reads = True
    # The change that its users make to records that it cannot hold as they are.
    note = ""

    @staticmethod
    def same(ours, theirs):
        """Whether a record came back. By repr, as 1 == 1.0 == True: a record that changes its types is a wrong one."""
        return repr(ours) == repr(theirs)


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


class Buffer(Rival):
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


class Msgspec(Buffer):
    """MessagePack by msgspec, untyped."""

    name = "msgspec"

    @classmethod
    def build(cls, records):
        need("msgspec", "numpy")
        import msgspec

        return cls(records, msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode)


class Recstore(Rival):
    """This package."""

    name = "recstore"

    @staticmethod
    def build(records):
        import recstore

        return recstore.RecordList(records)


def every():
    """The rivals, in the order of their turns: those whose ratios count are neighbours, alike in noise."""
    return (Resident, NumpyPickle, Msgspec, TorchPickle, Recstore)


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
