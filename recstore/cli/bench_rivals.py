"""The rivals of `recstore bench`: other containers of records, each as a careful user of its library would write it.

A rival is built from a list of records. It has `x[i]`, `nbytes` and, if its library offers one, `get_many(indices)`.
bench/rivals.py has more of them.
"""

from __future__ import annotations

import importlib.util
import itertools
import pickle
from array import array

import recstore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Absent(Exception):
    """A rival that cannot run here, or not on these records; the message is the reason."""


def need(*names: str) -> None:
    """Raises Absent unless these modules are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise Absent(f"{name} is not installed")


class Rival:
    """Base of all rivals."""

    name = ""
    needs: tuple[str, ...] = ()  # the modules that must be installed
    reads = True  # whether it gives records back; otherwise it is measured by its bytes alone
    note = ""  # the change that its users make to records that it cannot hold as they are

    @classmethod
    def build(cls, records: list[Any]) -> Any:
        need(*cls.needs)
        return cls(records)  # type: ignore[call-arg]  # each subclass with this method takes them

    @staticmethod
    def same(ours: object, theirs: object) -> bool:
        """Whether a record came back. By repr, as 1 == 1.0 == True: a record that changes its types is a wrong one."""
        return repr(ours) == repr(theirs)


class Resident(Rival):
    """A plain list: no decoding at all, and every process that reads it gets its own copy."""

    name = "list"

    @classmethod
    def build(cls, records: list[Any]) -> list[Any]:
        return list(records)


class NumpyPickle(Rival):
    """mmengine's BaseDataset: one uint8 array of pickles and their end offsets."""

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
    """msgspec's MessagePack, untyped, in the leanest buffer known: one uint8 array, and offsets in an array('q')."""

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
        # An array of numpy's own, as mmengine makes it: numpy asks for huge pages, a bytes object gets none.
        whole: Any = numpy.concatenate([numpy.frombuffer(part, dtype=numpy.uint8) for part in parts])
        self._view = memoryview(whole)
        self.nbytes = self._view.nbytes + 8 * len(self._ends)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> Any:
        ends = self._ends
        return self._decode(self._view[ends[index] : ends[index + 1]])


class Recstore(Rival):
    """This package."""

    name = "recstore"

    @classmethod
    def build(cls, records: list[Any]) -> Any:
        return recstore.RecordList(records)


# In the order of their turns: those whose ratios count are neighbours, alike in noise.
EVERY: tuple[type[Rival], ...] = (Resident, NumpyPickle, Msgspec, TorchPickle, Recstore)
