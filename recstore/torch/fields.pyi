"""Types of Fields. This stub imports torch, because a DataLoader takes a Dataset."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeVar, overload

from torch.utils.data import Dataset

from recstore._types import Selector
from recstore.containers.dicts import RecordKeys, RecordValues
from recstore.containers.records import RecordList
from recstore.torch.batches import Batch
from recstore.torch.forms import Field, Ragged

__all__ = ["Batch", "Field", "Fields", "Ragged"]

_T = TypeVar("_T")
_Records = RecordList[Any] | RecordKeys[Any] | RecordValues[Any]

# The parameter is the type of `f[indices]`: a Batch, or the result of the transform.
class Fields(Dataset[_T]):
    records: RecordList[Any]
    transform: Callable[[Batch], _T] | None
    output: str
    categories: dict[str, tuple[str | int, ...]]
    @overload
    def __init__(
        self: Fields[Batch],
        x: _Records,
        /,
        *names: str,
        transform: None = None,
        output: Literal["dict", "numpy"] = "dict",
        **forms: str | Field,
    ) -> None: ...
    @overload
    def __init__(
        self,
        x: _Records,
        /,
        *names: str,
        transform: Callable[[Batch], _T],
        output: Literal["dict", "numpy"] = "dict",
        **forms: str | Field,
    ) -> None: ...
    @overload
    def __init__(
        self: Fields[Any],
        x: _Records,
        /,
        *names: str,
        transform: Callable[[Any], Any] | None = None,
        output: Literal["tensordict"],
        **forms: str | Field,
    ) -> None: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, indices: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, indices: slice | Selector[Any]) -> _T: ...
    @overload
    def __getitem__(self, indices: SupportsIndex) -> dict[str, Any]: ...
    def __getitems__(self, indices: Iterable[SupportsIndex]) -> Sequence[dict[str, Any]]: ...
    def batch(self, indices: Iterable[SupportsIndex]) -> _T: ...
    def collate(self, samples: Iterable[dict[str, Any]]) -> _T: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
