"""The options of a build, and their checks."""

from __future__ import annotations

import errno
import os

from recstore.building import saved_indexes
from recstore.errors import SegmentExistsError
from recstore.lazy_names import foreign_names
from recstore.shm import file_backing, named_segments
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, ClassVar, SupportsIndex

    from recstore._core import native
    from recstore._types import Arrays, Backing, Compression, FieldNames, OnUnsupported
    from recstore.shm.named_segments import Target

ARRAYS = ("copy", "view")
COMPRESSION = ("none", "fast", "auto", "small")
BACKINGS = ("auto", "anonymous", "shm", "dir")
NAMES = (
    "on_unsupported",
    "compression",
    "arrays",
    "backing",
    "name",
    "workers",
    "threads",
    "index_by",
    "group_by",
    "progress",
)


def of(caller: str, arguments: Mapping[str, Any], own: Iterable[str] = ()) -> Options:
    """The Options of these keyword arguments. Raises TypeError for an unknown name. The message suggests the nearest
    argument of the function `caller`, which also takes the arguments `own`."""
    for name in arguments:
        if name not in NAMES:
            hint = foreign_names().of_argument(caller, name, (*own, *NAMES))
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}{hint}")
    return Options(**arguments)


class Options:
    """The checked options of a build. The constructor raises ValueError, TypeError and SegmentExistsError."""

    __slots__ = (
        "on_unsupported",
        "compression",
        "without",
        "arrays",
        "backing",
        "progress",
        "workers",
        "threads",
        "target",
        "indexes",
    )

    def __init__(
        self,
        on_unsupported: OnUnsupported = "error",
        compression: Compression = "auto",
        arrays: Arrays = "copy",
        backing: Backing = "auto",
        progress: bool = False,
        name: str | None = None,
        workers: SupportsIndex = 0,
        index_by: FieldNames | None = None,
        group_by: FieldNames | None = None,
        threads: SupportsIndex | None = None,
    ) -> None:
        for option, value, legal in (
            ("on_unsupported", on_unsupported, ("error", "pickle")),
            ("compression", compression, COMPRESSION),
            ("arrays", arrays, ARRAYS),
            ("backing", backing, BACKINGS),
        ):
            check_choice(option, value, legal)
        self.on_unsupported: OnUnsupported = on_unsupported
        self.compression: Compression = compression
        # The names of nodes that no tree may have; the benchmarks leave out one at a time.
        self.without: Sequence[str] = ()
        self.arrays: Arrays = arrays
        self.backing: Backing = backing
        self.progress = progress
        self.workers = _count(workers, "workers", "processes")
        self.threads = None if threads is None else _count(threads, "threads", "threads")
        self.indexes = saved_indexes.indexes_of(index_by, group_by)
        self.target: Any = None if name is None else _target(name, backing)  # a Target or a FileTarget

    def __eq__(self, other: object) -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    @staticmethod
    def beside(segments: Iterable[native.Segment]) -> Options:
        """The options of a store that is joined to these segments: `on_unsupported` is "pickle", and `arrays` is
        "view", if any segment has that option."""
        readers = [segment.reader for segment in segments if segment.reader is not None]
        views = any(reader.arrays == "view" for reader in readers)
        return Options(
            "pickle" if any(reader.pickles for reader in readers) else "error", arrays="view" if views else "copy"
        )


def _count(value: SupportsIndex, name: str, unit: str) -> int:
    try:
        number = type(value).__index__(value)
    except AttributeError:
        raise TypeError(f"{name} is a number of {unit}, not {an(type(value).__name__)}") from None
    if number < 0:
        raise ValueError(f"{name} is a number of {unit}, 0 for none, not {number}")
    return min(number, 2**31 - 1)  # fits in C, and no machine runs so many


def check_choice(name: str, value: object, legal: Sequence[str]) -> None:
    """Raises ValueError if the value of the option `name` is not among `legal`."""
    if value not in legal:
        choices = ", ".join(f'"{word}"' for word in legal[:-1]) + f' or "{legal[-1]}"'
        raise ValueError(f"{name} is {choices}, not {value!r}")


def _target(name: str, backing: Backing) -> Target:
    """The Target of a store that is built with `name=`. Raises ValueError for anonymous memory and invalid names,
    SegmentExistsError if the name is taken."""
    if backing == "anonymous":
        raise ValueError(f'anonymous memory has no name: choose backing="shm" or "dir", or leave {name!r} out')
    target = named_segments.Target(name, dir=file_backing.default() if backing == "dir" else None)
    named_segments.collect_first(target.folder, name)
    if os.path.lexists(target.path):
        raise name_taken(target)
    return target


def name_taken(target: Target) -> SegmentExistsError:
    """The SegmentExistsError for a name in use."""
    label = named_segments.Label.at(target.path)
    by = "by a file that is not a readable segment of this user" if label is None else f"by a store of {label.builder}"
    return SegmentExistsError(
        errno.EEXIST,
        f"the name {target.name!r} is taken {by}: recstore.shared({target.name!r}) reads it, "
        f"recstore.names.remove({target.name!r}) removes it, and recstore.shared(name, build) builds or attaches",
        target.path,
    )
