"""Types of the base of the record containers; the rest of the module is internal."""

from collections.abc import Iterator
from typing import Generic, SupportsIndex, TypeVar, overload

from recstore._types import Index, Selector
from recstore.records import RecordView

_T_co = TypeVar("_T_co", covariant=True)

class Records(Generic[_T_co]):
    def __len__(self) -> int: ...
    # Selectors come before what has __index__: the arrays of numpy and torch have it too.
    @overload
    def __getitem__(self, key: int, /) -> _T_co: ...
    @overload
    def __getitem__(self, key: Selector[Index], /) -> RecordView[_T_co]: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> _T_co: ...
    def __iter__(self) -> Iterator[_T_co]: ...
    def __reversed__(self) -> Iterator[_T_co]: ...
