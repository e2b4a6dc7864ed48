"""Types that several stubs share. There is no such module at run time: user code does not import it.

What a checker cannot tell is left wide on purpose: a record's fields are Any, and an index array is whatever has a
length, dimensions and ``__array__``, so that numpy's scalars, which are indices, do not match, and torch is not needed.
"""

import os
from array import array
from collections.abc import Callable, Iterable
from typing import IO, Any, Literal, Protocol, SupportsIndex, TypeAlias, TypedDict, TypeVar

Index = TypeVar("Index", bound=SupportsIndex)

OnUnsupported: TypeAlias = Literal["error", "pickle"]
Compression: TypeAlias = Literal["none", "fast", "auto", "small"]
Arrays: TypeAlias = Literal["copy", "view"]
Backing: TypeAlias = Literal["auto", "anonymous", "shm", "dir"]

Missing: TypeAlias = Literal["none", "absent"]
Nanoseconds: TypeAlias = Literal["exact", "floor", "numpy"]

class _StoreOptions(TypedDict, total=False):
    on_unsupported: OnUnsupported
    compression: Compression
    arrays: Arrays
    backing: Backing
    name: str | None
    workers: SupportsIndex
    progress: bool
    index_by: FieldNames | None
    group_by: FieldNames | None

class BuildOptions(_StoreOptions, total=False):
    threads: SupportsIndex | None

class Sharing(TypedDict, total=False):
    """The keyword arguments of `shared` that all readers take."""

    shared: str | None
    keep: bool | str | float
    fingerprint: str | None
    dir: Path | None
    timeout: float | None

class _Keeping(Sharing, total=False):
    save: Path | None

class ReadOptions(BuildOptions, _Keeping, total=False):
    """The keyword arguments that all readers of files and tables take."""

class ScanOptions(_StoreOptions, _Keeping, total=False):
    """Those of scan_files, whose `threads` list folders."""

class ArrowStream(Protocol):
    """A table or column that exports Arrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None, /) -> object: ...

class ArrowArray(Protocol):
    """A batch or array that exports Arrow."""

    def __arrow_c_array__(self, requested_schema: Any = None, /) -> object: ...

class ArrowExpression(Protocol):
    """A pyarrow.compute.Expression."""

    def is_valid(self) -> Any: ...

# The rows that a reader of tables keeps.
Where: TypeAlias = Callable[[dict[str, Any]], object] | ArrowExpression | None

class IndexArray(Protocol):
    """An array or tensor with dimensions. Scalars of numpy have no length and are indices."""

    @property
    def ndim(self) -> int: ...
    def __len__(self) -> int: ...
    def __array__(self) -> Any: ...

# What a method takes as indices: integers, or a mask of bools.
Indices: TypeAlias = Iterable[SupportsIndex] | IndexArray

# A slice, integers or a mask of bools. A list's items are a type variable because lists are invariant.
Selector: TypeAlias = slice[Any, Any, Any] | list[Index] | range | array[int] | memoryview | IndexArray

# "a.b", an element's place or a key that is an int, or a tuple of keys.
FieldName: TypeAlias = str | SupportsIndex | tuple[Any, ...]
FieldNames: TypeAlias = FieldName | list[Any]

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Iterable[Path]

# A path, a glob pattern, a URL, a binary file object, or a list of these.
Files: TypeAlias = Path | IO[bytes] | list[Path] | list[IO[bytes]] | list[str]
