"""Types of Loader. The batches of a Loader are those of its dataset, lists of samples, or made by `collate`."""

from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias, TracebackType
from typing import Any, Generic, Literal, Protocol, SupportsIndex, TypeVar, overload

from typing_extensions import Self

from recstore.containers.records import RecordList
from recstore.torch.datasets import RecordDataset

__all__ = ["Loader"]

_B = TypeVar("_B")
_T = TypeVar("_T")
_B_co = TypeVar("_B_co", covariant=True)

class _ReadByBatches(Protocol[_B_co]):
    def __getitem__(self, index: Any, /) -> _B_co: ...

class _Epoch(Iterator[_B]):
    def __init__(self, loader: Loader[_B], pins: bool) -> None: ...
    def __next__(self) -> _B: ...
    def close(self) -> None: ...

class Loader(Generic[_B]):
    dataset: Any
    batch_size: int | None
    drop_last: bool
    sampler: Any
    batch_sampler: Any
    prefetch: int
    threads: int
    pin_memory: bool | Literal["auto"]
    collate: Callable[[list[Any]], _B] | None
    @classmethod
    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @overload
    def __init__(
        self: Loader[list[_T]],
        dataset: RecordList[_T] | RecordDataset[_T],
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: RecordList[_T] | RecordDataset[_T],
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: Callable[[list[_T]], _B],
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: _ReadByBatches[_B],
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: _ReadByBatches[_T],
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: Callable[[list[_T]], _B],
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> _Epoch[_B]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def set_epoch(self, epoch: int) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
