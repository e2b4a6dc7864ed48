"""The containers that `recstore bench` compares, each as a careful user of its library would write it.

A rival is built from a list of records. It has `x[i]`, `nbytes` unless it is a list, and `get_many(indices)` if its
library offers one. bench/rivals.py has more rivals.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import pickle
from array import array

import recstore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Absent(Exception):
    """A rival cannot run here or cannot hold these records; the message gives the reason."""


def need(*names: str) -> None:
    """Raises Absent unless these modules are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Absent(f"{name} is not installed")


class Rival:
    """Base of all rivals."""

    name = ""
    needs: tuple[str, ...] = ()  # the modules that must be installed
    reads = True  # whether it returns records; if not, only its size is measured
    note = ""  # how its users change records that it cannot hold as they are

    @classmethod
    def build(cls, records: list[Any]) -> Any:
        need(*cls.needs)
        return cls(records)  # type: ignore[call-arg]  # each subclass that inherits this has such an __init__

    @staticmethod
    def same(answer: object, record: object) -> bool:
        """Whether the rival returned the record, types included: compares by repr, because 1 == 1.0 == True."""
        return repr(answer) == repr(record)


class Resident(Rival):
    """A plain list: nothing to decode, and every process that reads it gets its own copy."""

    name = "list"

    @classmethod
    def build(cls, records: list[Any]) -> list[Any]:
        return list(records)


class NumpyPickle(Rival):
    """mmengine's BaseDataset: a uint8 array of all pickles, and an array of their end offsets."""

    name: str = "numpy+pickle"
    needs: tuple[str, ...] = ("numpy",)
    _protocol = 4

    def __init__(self, records: list[Any]) -> None:
        import numpy

        parts = [numpy.frombuffer(pickle.dumps(record, self._protocol), dtype=numpy.uint8) for record in records]
        self._ends: Any = numpy.cumsum([len(part) for part in parts], dtype=numpy.int64)
        self._bytes: Any = numpy.concatenate(parts)
        self.nbytes = self._bytes.nbytes + self._ends.nbytes

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Any:
        start = 0 if index == 0 else self._ends[index - 1].item()
        end = self._ends[index].item()
        return pickle.loads(memoryview(self._bytes[start:end]))


class TorchPickle(NumpyPickle):
    """detectron2's TorchSerializedList: the same in torch tensors."""

    name, needs = "torch+pickle", ("torch", "numpy")
    _protocol = -1

    def __init__(self, records: list[Any]) -> None:
        import torch

        super().__init__(records)
        self._ends, self._bytes = torch.from_numpy(self._ends), torch.from_numpy(self._bytes)

    def __getitem__(self, index: int) -> Any:
        start = 0 if index == 0 else self._ends[index - 1].item()
        end = self._ends[index].item()
        return pickle.loads(memoryview(self._bytes[start:end].numpy()))


class Msgspec(Rival):
    """msgspec's MessagePack, untyped, in one uint8 array with offsets in an array('q')."""

    name, needs = "msgspec", ("msgspec", "numpy")

    @staticmethod
    def codec() -> tuple[Callable[[Any], bytes], Callable[[Any], Any]]:
        import msgspec

        return msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode

    def __init__(self, records: list[Any]) -> None:
        import numpy

        encode, self._decode = self.codec()
        parts = list(map(encode, records))
        self._ends = array("q", itertools.accumulate(map(len, parts), initial=0))
        # A numpy array, as in mmengine: numpy asks for huge pages, and a bytes object would get none.
        whole: Any = numpy.concatenate([numpy.frombuffer(part, dtype=numpy.uint8) for part in parts])
        self._view = memoryview(whole)
        self.nbytes = self._view.nbytes + 8 * len(self._ends)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> Any:
        ends = self._ends
        return self._decode(self._view[ends[index] : ends[index + 1]])


class Parquet(Rival):
    """pyarrow's Parquet writer with zstd, for its size and time. Values that are not dicts become a field."""

    name, needs, reads = "Parquet", ("pyarrow",), False

    def __init__(self, records: list[Any]) -> None:
        import pyarrow
        from pyarrow import parquet

        rows = records if all(type(record) is dict for record in records) else [{"": record} for record in records]
        # pyarrow takes the columns from the first row.
        rows = [dict.fromkeys(itertools.chain.from_iterable(rows)) | rows[0], *rows[1:]]
        file = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(rows), file, compression="zstd")
        self.nbytes = file.tell()


class Recstore(Rival):
    """This package."""

    name = "recstore"

    @classmethod
    def build(cls, records: list[Any]) -> Any:
        return recstore.RecordList(records)


# The rivals take turns in this order. Neighbors are compared, so that noise hardly affects their ratios.
EVERY: tuple[type[Rival], ...] = (Resident, NumpyPickle, Msgspec, TorchPickle, Recstore, Parquet)
