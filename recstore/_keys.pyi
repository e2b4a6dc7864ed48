"""Types of the base of RecordDict; the rest of the module is internal."""

from collections.abc import Iterator
from typing import Generic, TypeVar, overload

_K = TypeVar("_K")
_V_co = TypeVar("_V_co", covariant=True)
_D = TypeVar("_D")

class Mapping(Generic[_K, _V_co]):
    def __len__(self) -> int: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: _K, /) -> _V_co: ...
    @overload
    def get(self, key: _K, default: None = None, /) -> _V_co | None: ...
    @overload
    def get(self, key: _K, default: _V_co, /) -> _V_co: ...  # type: ignore[misc]  # as in typing.Mapping
    @overload
    def get(self, key: _K, default: _D, /) -> _V_co | _D: ...
    def __iter__(self) -> Iterator[_K]: ...
