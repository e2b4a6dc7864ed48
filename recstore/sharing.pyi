"""Types of stores that are found by name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

from typing_extensions import TypeVar

from recstore._types import Arrays, FieldNames, Path, Paths
from recstore.containers.dicts import RecordDict
from recstore.containers.records import RecordList

__all__ = ["shared"]

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")
# As of `open`.
_Store = TypeVar("_Store", bound=RecordList[Any] | RecordDict[Any, Any], default=Any)

# A mapping is an iterable, too: of the two, the first that fits is meant.
@overload
def shared(  # type: ignore[overload-overlap]
    name: str,
    build: Callable[[], Mapping[_K, _V]],
    *,
    fingerprint: str | None = None,
    files: Paths | None = None,
    keep: bool | float | str = False,
    isolate: bool = False,
    dir: Path | None = None,
    timeout: float | None = None,
    classes: Iterable[type] | Mapping[str, type] = (),
    allow_pickle: bool = False,
    arrays: Arrays = "copy",
) -> RecordDict[_K, _V]: ...
@overload
def shared(
    name: str,
    build: Callable[[], Iterable[_T]],
    *,
    fingerprint: str | None = None,
    files: Paths | None = None,
    keep: bool | float | str = False,
    isolate: bool = False,
    dir: Path | None = None,
    timeout: float | None = None,
    index_by: FieldNames | None = None,
    group_by: FieldNames | None = None,
    classes: Iterable[type] | Mapping[str, type] = (),
    allow_pickle: bool = False,
    arrays: Arrays = "copy",
) -> RecordList[_T]: ...
@overload
def shared(
    name: str,
    build: None = None,
    *,
    fingerprint: str | None = None,
    files: Paths | None = None,
    dir: Path | None = None,
    timeout: float | None = None,
    classes: Iterable[type] | Mapping[str, type] = (),
    allow_pickle: bool = False,
    arrays: Arrays = "copy",
) -> _Store: ...  # type: ignore[type-var]
