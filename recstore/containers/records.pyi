"""Types of RecordList and its views."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsIndex, overload

from typing_extensions import Self, TypeVar, Unpack

from recstore._core import native
from recstore._core.native import Record
from recstore._types import (
    ArrowArray,
    ArrowStream,
    BuildOptions,
    FieldName,
    FieldNames,
    Index,
    OneProcess,
    Selector,
)
from recstore.building.source import Source
from recstore.containers import base, views
from recstore.containers.dicts import RecordDict
from recstore.containers.fields import FieldView
from recstore.containers.info import StoreInfo, ViewInfo

__all__ = ["RecordList", "RecordView"]

_T_co = TypeVar("_T_co", covariant=True)
_U = TypeVar("_U")
_K = TypeVar("_K")

class RecordList(base.Container, native.Records[_T_co], views.ListOperations[_T_co], Sequence[_T_co]):
    @overload
    def __init__(
        self,
        records: native.Records[_T_co],
        *,
        workers: Literal[0] = 0,
        **options: Unpack[OneProcess],
    ) -> None: ...
    @overload
    def __init__(self, records: Source[_T_co], **options: Unpack[BuildOptions]) -> None: ...
    # A table, whose rows are dicts, or a column. It comes before iterables: a DataFrame is an iterable of its columns.
    @overload
    def __init__(
        self: RecordList[Any],
        records: ArrowStream | ArrowArray,
        *,
        workers: SupportsIndex = 0,
        **options: Unpack[OneProcess],
    ) -> None: ...
    @overload
    def __init__(
        self,
        records: Iterable[_T_co] = (),
        *,
        workers: Literal[0] = 0,
        **options: Unpack[OneProcess],
    ) -> None: ...
    # Shards of records.
    @overload
    def __init__(
        self,
        records: Iterable[Iterable[_T_co]],
        *,
        workers: SupportsIndex,
        **options: Unpack[OneProcess],
    ) -> None: ...
    @classmethod
    def _blank(cls) -> RecordList[Any]: ...
    @classmethod
    def _of_segment(cls, segment: native.Segment) -> Self: ...
    def _derive(self, selection: native.Selection) -> RecordView[_T_co]: ...
    def _only(self, names: Iterable[FieldName]) -> RecordView[Any]: ...
    def map(self, fn: Callable[[_T_co], _U], **options: Unpack[BuildOptions]) -> RecordList[_U]: ...
    def lazy(self) -> RecordView[Record]: ...
    def field(self, name: FieldName, default: object = ...) -> FieldView[Any]: ...
    def fields(self, *names: FieldName) -> RecordView[dict[Any, Any]]: ...
    @overload
    def index_by(self, key: FieldName) -> RecordDict[Any, _T_co]: ...
    @overload
    def index_by(self, key: Callable[[_T_co], _K]) -> RecordDict[_K, _T_co]: ...
    @overload
    def group_by(
        self, key: FieldName, *, default_factory: type[Any] | None = None
    ) -> RecordDict[Any, RecordView[_T_co]]: ...
    @overload
    def group_by(
        self, key: Callable[[_T_co], _K], *, default_factory: type[Any] | None = None
    ) -> RecordDict[_K, RecordView[_T_co]]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def attributes(self) -> dict[str, Any]: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def class_to_idx(self) -> dict[str, int]: ...
    def info(self, *, fields: bool = False) -> StoreInfo | ViewInfo: ...
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        index_by: FieldNames | None = None,
        group_by: FieldNames | None = None,
    ) -> None: ...

class RecordView(RecordList[_T_co]):
    def __new__(cls, records: Iterable[_U] = ()) -> list[_U]: ...  # type: ignore[misc]
    @classmethod
    def _blank(cls) -> RecordView[Any]: ...
    # A view of a FieldView is a FieldView.
    @overload
    def __getitem__(self, key: int, /) -> _T_co: ...
    @overload
    def __getitem__(self, key: Selector[Index], /) -> Self: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> _T_co: ...
    def shuffled(self, seed: SupportsIndex) -> Self: ...
    def filter(self, fn: Callable[[_T_co], object] | None) -> Self: ...
    def sorted_by(self, key_or_field: FieldName | Callable[[_T_co], Any], reverse: bool = False) -> Self: ...
    def split(
        self,
        parts: Iterable[float],
        seed: SupportsIndex | None = None,
        stratify: FieldName | Callable[[_T_co], Any] | None = None,
    ) -> list[Self]: ...
    def __mul__(self, times: SupportsIndex) -> Self: ...
    def __rmul__(self, times: SupportsIndex) -> Self: ...
