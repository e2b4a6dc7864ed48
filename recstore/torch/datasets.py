"""RecordDataset: the records of a container as a Dataset of PyTorch, read a batch at a time."""

from __future__ import annotations

import operator
from typing import TypeVar, overload

from torch.utils.data import Dataset

from recstore.containers import field_names
from recstore.containers.batch_method import batch_method, refuse_batches
from recstore.containers.dicts import RecordDict, RecordItems, RecordKeys, RecordValues
from recstore.containers.records import RecordList
from recstore.text import an
from recstore.torch.error_notes import add_note

__all__ = ["RecordDataset"]

T = TypeVar("T")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, SupportsIndex, TypeAlias

    from recstore._types import Selector

    U = TypeVar("U")
    Records: TypeAlias = RecordList[U] | RecordKeys[U] | RecordValues[U]


class RecordDataset(Dataset[T]):
    """A Dataset of PyTorch over a RecordList or a view of one. One native call reads a batch.

    Args:
        x: a RecordList, a view of one, or the ``keys()`` or ``values()`` of a RecordDict.
        transform: None, or a function that takes a record and returns the sample.
        fields: None, or the names of the fields to read, as ``x.fields`` takes them. A record that lacks one of them is
            read without it.

    ``dataset[i]`` is a sample. ``dataset[indices]``, with a list, range, slice, array or tensor of indices, is a list
    of samples. An exception in the transform gets a note that names the record.

    A subclass may define ``__getitem__``, itself or through a mixin; batches then call it for each index. (Python
    ignores a ``__getitem__`` that is assigned to an instance.) A subclass may also define a method ``transform``.

    A DataLoader reads whole batches through Subset, random_split and StackDataset as well. ConcatDataset reads one
    record at a time; join the stores instead: ``RecordDataset(a + b)``. The ``__getattr__`` of a wrapper does not find
    ``__getitems__``, so the wrapper's own ``__getitem__`` runs for each sample. To read batches through a wrapper,
    define ``__getitems__`` in it.

    Without a transform, reading a batch takes less time than a worker needs to send it: use ``num_workers=0``, or a
    :class:`recstore.torch.Loader`. Workers pay off if the transform takes longer than reading the record.

    A RecordDataset pickles as a handle. Several threads may read it at once if the transform is thread-safe.

    Raises TypeError for an x of another type, ValueError if ``fields`` is empty, and KeyError for a field that no
    record has, if the schemas of the store show it. Reading raises IndexError for an index out of range.

    >>> import recstore, recstore.torch
    >>> x = recstore.RecordList({"path": f"{i}.jpg", "label": i % 2} for i in range(4))
    >>> dataset = recstore.torch.RecordDataset(x, transform=lambda r: (r["path"], r["label"]))
    >>> dataset[3], dataset[[0, 1]]
    (('3.jpg', 1), [('0.jpg', 0), ('1.jpg', 1)])
    >>> from torch.utils.data import DataLoader
    >>> next(iter(DataLoader(dataset, batch_size=2)))
    [('0.jpg', '1.jpg'), tensor([0, 1])]
    """

    records: RecordList[Any]
    transform: Callable[[Any], T] | None = None

    @overload
    def __init__(self, x: Records[T], transform: None = None, fields: None = None) -> None: ...
    @overload
    def __init__(
        self: RecordDataset[dict[str, Any]],
        x: Records[Mapping[str, Any]],
        transform: None = None,
        *,
        fields: str | Iterable[Any],
    ) -> None: ...
    @overload
    def __init__(self, x: Records[U], transform: Callable[[U], T], fields: None = None) -> None: ...
    @overload
    def __init__(
        self, x: Records[Mapping[str, Any]], transform: Callable[[dict[str, Any]], T], fields: str | Iterable[Any]
    ) -> None: ...
    def __init__(
        self, x: Any, transform: Callable[[Any], T] | None = None, fields: str | Iterable[Any] | None = None
    ) -> None:
        self.records = _records(x, fields)
        if transform is not None:
            if not callable(transform):
                raise TypeError(f"transform must be a function of one record, not {type(transform).__name__}")
            self.transform = transform
        if self.transform is not None:
            self.records = self.records._unwatched()  # the transform may change its record

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            for name, value in (part or {}).items():
                setattr(self, name, value)
        if self.transform is not None:
            self.records = self.records._unwatched()

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> T: ...
    # Before SupportsIndex, because a tensor has an __index__, whatever its dimensions.
    @overload
    def __getitem__(self, index: Selector[Any]) -> list[T]: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            # A 1-D tensor with one element has an __index__, but is a batch of one.
            if getattr(index, "ndim", 0) or not hasattr(index, "__index__"):
                return self.__getitems__(_indices(index, len(self.records)))
            index = operator.index(index)
        record = self.records[index]
        transform = self.transform
        return record if transform is None else self._transformed(transform, record, index)

    @batch_method
    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[T]:
        """The samples at `indices`, in that order."""
        if not hasattr(indices, "__len__"):
            indices = list(indices)
        if type(self).__getitem__ is not _GETITEM:
            return [self[index] for index in (indices.tolist() if hasattr(indices, "tolist") else indices)]
        refuse_batches(indices)
        records = self.records.get_many(indices)
        transform = self.transform
        if transform is None:
            return records
        return [self._transformed(transform, record, index) for record, index in zip(records, indices)]

    def _transformed(self, transform: Callable[[Any], T], record: Any, index: SupportsIndex) -> T:
        try:
            return transform(record)
        except Exception as error:
            index = operator.index(index)
            number = index + len(self) if index < 0 else index
            add_note(error, f"in the transform of record {number} of {an(type(self).__name__)}")
            raise

    def __repr__(self) -> str:
        transform = "" if self.transform is None else f", transform={self.transform!r}"
        return f"{type(self).__name__}({self.records!r}{transform})"


_GETITEM = RecordDataset.__getitem__  # kept here because a program may patch the class


def _records(x: Any, fields: str | Iterable[Any] | None) -> RecordList[Any]:
    if isinstance(x, (RecordKeys, RecordValues)):
        x = RecordList(x)  # over the same bytes
    if isinstance(x, (RecordDict, RecordItems)):
        raise TypeError(
            "a Dataset is read by position, a RecordDict by key: write RecordDataset(d.values()), or "
            "RecordDataset(RecordList(d.items())) for a new store of (key, record) pairs"
        )
    if not isinstance(x, RecordList):
        raise TypeError(f"RecordDataset reads a RecordList, not {type(x).__name__}: write RecordDataset(RecordList(x))")
    if fields is None:
        return x
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    if not names:
        raise ValueError("fields is empty: leave it out to read whole records")
    out = x._only(names)
    field_names.require(x, names, sets=True)
    return out


def _indices(index: Any, n: int) -> Any:
    """A batch of indices: the positions of a slice; lists, ranges, arrays and tensors unchanged."""
    if isinstance(index, slice):
        return range(*index.indices(n))
    if isinstance(index, (str, bytes, tuple, dict, set, frozenset)) or not hasattr(index, "__iter__"):
        raise TypeError(
            f"an index of a dataset is an integer, a slice or a list of integers, not {type(index).__name__}"
        )
    if isinstance(index, list) and any(type(item) is bool for item in index):
        raise TypeError("a dataset does not take a mask of bools as index: write RecordDataset(x[mask])")
    return index
