"""Types of RecordDataset. Unlike the others this stub imports torch, because a DataLoader takes a Dataset."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, SupportsIndex, TypeVar, overload

from torch.utils.data import Dataset

from recstore._types import Selector
from recstore.containers.dicts import RecordKeys, RecordValues
from recstore.containers.records import RecordList

__all__ = ["RecordDataset"]

_T = TypeVar("_T")
_U = TypeVar("_U")
_Records = RecordList[_U] | RecordKeys[_U] | RecordValues[_U]

class RecordDataset(Dataset[_T]):
    records: RecordList[Any]
    transform: Callable[[Any], _T] | None
    @overload
    def __init__(self, x: _Records[_T], transform: None = None, fields: None = None) -> None: ...
    @overload
    def __init__(
        self: RecordDataset[dict[str, Any]],
        x: _Records[Mapping[str, Any]],
        transform: None = None,
        *,
        fields: str | Iterable[Any],
    ) -> None: ...
    @overload
    def __init__(self, x: _Records[_U], transform: Callable[[_U], _T], fields: None = None) -> None: ...
    @overload
    def __init__(
        self,
        x: _Records[Mapping[str, Any]],
        transform: Callable[[dict[str, Any]], _T],
        fields: str | Iterable[Any],
    ) -> None: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int) -> _T: ...
    # Before other integers: a tensor has an __index__, whatever its dimensions.
    @overload
    def __getitem__(self, index: Selector[Any]) -> list[_T]: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> _T: ...
    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[_T]: ...
