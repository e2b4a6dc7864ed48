"""Types of FieldView."""

from typing import Any, Literal, TypeVar, overload

import numpy
from numpy.typing import NDArray

from recstore._types import Indices
from recstore.containers.records import RecordList, RecordView

__all__ = ["FieldView"]

_T_co = TypeVar("_T_co", covariant=True)
_U = TypeVar("_U")

class FieldView(RecordView[_T_co]):
    @property
    def name(self) -> str: ...
    def __add__(self, other: RecordList[_U] | list[_U]) -> FieldView[_T_co | _U]: ...
    @overload
    def to_numpy(
        self, indices: Indices | None = None, *, ragged: Literal[True], copy: bool | None = True
    ) -> tuple[NDArray[Any], NDArray[numpy.int64]]: ...
    @overload
    def to_numpy(
        self, indices: Indices | None = None, *, ragged: Literal[False], copy: bool | None = True
    ) -> NDArray[Any]: ...
    # An array, or a pair for lists of several lengths: this depends on the records.
    @overload
    def to_numpy(
        self, indices: Indices | None = None, *, ragged: bool | None = None, copy: bool | None = True
    ) -> NDArray[Any] | Any: ...
    # The results are Any, because torch, pyarrow and pandas are not dependencies.
    def to_torch(self, indices: Indices | None = None, *, ragged: bool | None = None) -> Any: ...
    def to_arrow(self, indices: Indices | None = None) -> Any: ...  # type: ignore[override]
    def to_pandas(self, indices: Indices | None = None) -> Any: ...
