"""Types that several modules share. The module does not exist at run time, and user code does not import it.

A record's fields are Any. The arrays are protocols, so that checkers need neither numpy nor torch.
"""

import os
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, Literal, Protocol, SupportsIndex, TypeAlias, TypedDict, TypeVar

Index = TypeVar("Index", bound=SupportsIndex)

OnUnsupported: TypeAlias = Literal["error", "pickle"]
Compression: TypeAlias = Literal["none", "fast", "auto", "small"]
Arrays: TypeAlias = Literal["copy", "view"]
Backing: TypeAlias = Literal["auto", "anonymous", "shm", "dir"]

Missing: TypeAlias = Literal["none", "absent"]
Nanoseconds: TypeAlias = Literal["exact", "floor", "numpy"]

class _Encoding(TypedDict, total=False):
    on_unsupported: OnUnsupported
    compression: Compression
    arrays: Arrays
    threads: SupportsIndex | None
    index_by: FieldNames | None
    group_by: FieldNames | None
    progress: bool

class OneProcess(_Encoding, total=False):
    """The options of a build in one process."""

    backing: Backing
    name: str | None

class BuildOptions(OneProcess, total=False):
    """The options of a build; recstore.RecordList documents them."""

    workers: SupportsIndex

class Attaching(TypedDict, total=False):
    """The keyword arguments of recstore.shared(name), without `arrays`."""

    fingerprint: str | None
    files: Paths | None
    dir: Path | None
    timeout: float | None
    classes: Iterable[type] | Mapping[str, type]
    allow_pickle: bool

class Building(Attaching, _Encoding, total=False):
    """The keyword arguments of recstore.shared(name, build)."""

    workers: SupportsIndex
    keep: bool | float | str
    isolate: bool

class Sharing(TypedDict, total=False):
    """The sharing arguments of the adapters."""

    shared: str | None
    keep: bool | str | float
    fingerprint: str | None
    dir: Path | None
    timeout: float | None

class SharedOptions(BuildOptions, Sharing, total=False):
    """The options of the adapters, which build a store for one process or for all processes on a machine."""

class CacheOptions(TypedDict, total=False):
    """The options of a cache in an adapter; recstore.cache documents them."""

    limit: int | str
    dir: Path | None
    files: Paths | None
    fingerprint: str | None
    keep: bool | float | str | None
    arrays: Arrays

class ArrowStream(Protocol):
    """A table or column that exports Arrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None, /) -> object: ...

class ArrowArray(Protocol):
    """A batch or array that exports Arrow."""

    def __arrow_c_array__(self, requested_schema: Any = None, /) -> object: ...

class ArrowExpression(Protocol):
    """A pyarrow.compute.Expression."""

    def is_valid(self) -> Any: ...

# A condition on the rows of a table.
Where: TypeAlias = Callable[[dict[str, Any]], object] | ArrowExpression | None

class IndexArray(Protocol):
    """An array or tensor with dimensions. A scalar of numpy has no length, so it does not match: it is an index."""

    @property
    def ndim(self) -> int: ...
    def __len__(self) -> int: ...
    def __array__(self) -> Any: ...

# Integers, or a mask of bools.
Indices: TypeAlias = Iterable[SupportsIndex] | IndexArray

# A slice, integers or a mask of bools. A list's items are a type variable because lists are invariant.
Selector: TypeAlias = slice[Any, Any, Any] | list[Index] | range | array[int] | memoryview | IndexArray

# "a.b", an int (a position or a key), or a tuple of keys.
FieldName: TypeAlias = str | SupportsIndex | tuple[Any, ...]
FieldNames: TypeAlias = FieldName | list[Any]

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Iterable[Path]

# A path, a glob pattern, a URL, a binary file object, or a list of these.
Files: TypeAlias = Path | IO[bytes] | list[Path] | list[IO[bytes]] | list[str]
