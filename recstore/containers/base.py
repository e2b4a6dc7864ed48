"""The base of RecordList and RecordDict: closing, copying and pickling a store, the errors for the mutating methods of
list and dict, and the search for values."""

from __future__ import annotations

import errno
import operator
from abc import ABCMeta
from itertools import chain

from recstore._core import native
from recstore.errors import BusyError, CorruptError, SegmentNotFoundError
from recstore.lazy_names import foreign_names
from recstore.shm import handles, pins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import GenericAlias, TracebackType
    from typing import Any, NoReturn, SupportsIndex

    from typing_extensions import Self

    from recstore.containers.records import RecordList

__all__ = ["Container"]


class RecordsOf:
    """A mixin for objects whose attribute `_records` is a container. A RecordList of such an object reads the bytes of
    that container and copies nothing."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def _records(self) -> RecordList[Any]: ...

    if not TYPE_CHECKING:  # otherwise type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            more = foreign_names().of_values(name, "x[:]")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name, obj=self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream of the container; see :meth:`RecordList.__arrow_c_stream__`."""
        return self._records.__arrow_c_stream__(requested_schema)


class InNotebooks:
    """A mixin for containers and the views of a RecordDict."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """A table of the first records as HTML without scripts, for notebooks."""
        from recstore.display import notebooks

        return notebooks.container(self)


class _ContainerType(ABCMeta):
    """The metaclass of the containers. Its errors suggest our constructor in place of another library's. It
    derives from ABCMeta so that a class may inherit from a container and from an abstract class."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    if not TYPE_CHECKING:  # otherwise type checkers would accept every name

        def __getattr__(cls, name: str) -> NoReturn:
            hint = "" if name.startswith("_") else foreign_names().of_constructor(name)
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint}", name=name, obj=cls)


class Container(InNotebooks, metaclass=_ContainerType):
    """A mixin for RecordList and RecordDict."""

    __slots__ = ()
    if TYPE_CHECKING:  # attributes of the compiled base class that follows this one
        segments: list[native.Segment]
        sets: list[native.Shards]
        blobs: list[native.Blob]
        detached: str | None
        _spilled: native.Blob | None
        _require: Callable[[], None]

    _instead: dict[str, str] = {}  # name of a method of list or dict -> the code to write instead of it
    _of_tables: dict[str, str] = {}  # name of a method of a DataFrame -> the code to write instead of it
    _plain = "list"  # the builtin type that the container replaces

    @classmethod
    def __class_getitem__(cls, item: Any) -> GenericAlias:
        import types

        return types.GenericAlias(cls, item)

    if not TYPE_CHECKING:  # otherwise type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            hint = self._instead.get(name)
            more = f": {self._read_only(hint)}" if hint else ""
            if name in self._of_tables:
                more = f"; write {self._of_tables[name]}"
            elif not more and self._plain == "dict":
                more = foreign_names().of_values(name, "d.values()[:]")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}", name=name, obj=self)

        def __setitem__(self, key: object, value: object) -> NoReturn:
            kind, more = type(self).__name__, self._read_only(self._instead["__setitem__"])
            raise TypeError(f"{kind!r} object does not support item assignment: {more}")

        def __delitem__(self, key: object) -> NoReturn:
            kind, more = type(self).__name__, self._read_only(self._instead["__delitem__"])
            raise TypeError(f"{kind!r} object doesn't support item deletion: {more}")

    def _read_only(self, hint: str) -> str:
        """The end of an error's message: the reason why a change is refused, and the code to write instead. If
        share_dataset put the container in place of a list or dict, the reason names the attribute."""
        path = getattr(self, "_shared_as", None)
        if path is None:
            return f"it is read-only; {hint}"
        return (
            f"share_dataset put it in place of the {self._plain} {path!r}; "
            f"share_dataset(dataset, skip=[{path!r}]) leaves it a {self._plain}"
        )

    @property
    def closed(self) -> bool:
        """Whether the store, or one of the stores of a view, was closed."""
        return any(segment.closed for segment in self.segments) or any(shards.closed for shards in self.sets)

    def close(self) -> None:
        """Unmaps the shared memory of the store in this process. Later reads of this store, of its views and of other
        objects over the same bytes raise ClosedError. A second call does nothing.

        A view closes all stores that it reads, and its index arrays. Running calls of other threads finish first.
        Raises BusyError and closes nothing while arrays read with ``arrays="view"`` are alive. Safe from several
        threads at once.
        """
        segments = [segment for segment in self.segments if not segment.closed]
        native.close_all([*segments, *(segment for shards in self.sets for segment in shards.segments())])
        for shards in self.sets:
            shards.close()
        for blob in (*self.blobs, self._spilled):
            if blob is not None and not blob.closed:
                blob.close()
                pins.unpin(blob)
        for segment in segments:
            pins.unpin(segment)

    @property
    def fingerprint(self) -> str:
        """A hash of the content, 64 hexadecimal digits: for caches, and for ``shared(..., fingerprint=)``. Different
        contents never have the same fingerprint.

        It depends on the records, their order and the fields that a view reads; not on the kind of memory, the file or
        the process. Views of the same records in the same order have the same fingerprint, no matter how they were
        sliced and indexed. The same holds for equal records that one release of recstore stored with the same options,
        unless they hold sets, because the order of a set differs between processes.

        The first call in a process reads the whole store, at about 700 MB per second; a view then takes time for each
        of its records. Raises ClosedError, SegmentNotFoundError and CorruptError. Safe from several threads at once.

        >>> from recstore import RecordList
        >>> with RecordList(range(9)) as x, RecordList(range(9)) as y: x[2:][1:3].fingerprint == y[[3, 4]].fingerprint
        True
        """
        from recstore.shm import content_hash

        self._require()
        return content_hash.of(self).hex()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        close_after(self, error)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if "_kind" not in type(self).__dict__:
            ours = next(base.__name__ for base in type(self).__mro__ if "_kind" in base.__dict__)
            raise TypeError(
                f"{type(self).__name__}, a subclass of {ours}, cannot be pickled: keep a {ours} in an attribute instead"
            )
        if self.detached is not None:
            raise SegmentNotFoundError(errno.ENOENT, f"a detached store cannot be pickled again: {self.detached}")
        self._require()
        reduced = handles.reduce(self)
        path = getattr(self, "_shared_as", None)
        # The path is for error messages in workers. Other handles are shorter without it.
        return reduced if path is None or handles._spawning_popen() is None else (*reduced, path)

    def __setstate__(self, path: object) -> None:
        if not isinstance(path, str):
            raise CorruptError("a recstore handle whose state is not the name of an attribute")
        self._shared_as = path  # type: ignore[misc]  # a slot of RecordView and of RecordDict


def stored_bytes(container: Any) -> int:
    """The bytes of the segments of a container, and of all files of its sets of shards."""
    files: int = sum(shards.opener.nbytes for shards in container.sets)
    segments: int = sum(segment.nbytes for segment in container.segments)
    return files + segments


def bounds(start: SupportsIndex, stop: SupportsIndex, n: int) -> tuple[int, int]:
    """The range ``(first, end)`` that the arguments `start` and `stop` of ``index`` select of `n` items. As in
    ``list.index``, they cannot be None."""
    first, end, _ = slice(operator.index(start), operator.index(stop)).indices(n)
    return first, end


def index_in(values: Any, value: object, start: SupportsIndex, stop: SupportsIndex) -> int:
    """The position of the first item equal to `value` within [start, stop); ValueError if there is none."""
    first, end = bounds(start, stop, len(values))
    position = first + operator.indexOf(chain(values[first:end], (value,)), value)
    if position < end:
        return position
    raise ValueError(f"{value!r:.80} is not in the {type(values).__name__}")


def close_after(closes: Any, error: BaseException | None) -> None:
    """Closes an object at the end of its `with` block, which `error` has ended if it is not None."""
    try:
        closes.close()
    except BusyError:
        # The traceback of an error in the block keeps arrays alive, and the caller must see that error.
        if error is None:
            raise


def owned(records: Any, method: str) -> Any:
    """The records for a method whose results belong to the caller."""
    if records._strict:
        from recstore.values import strict_containers

        strict_containers.check_all(records, method)
    return records._unwatched()


def unhashable(error: TypeError, keys: Iterable[object], key: object, argument: str) -> TypeError:
    """The TypeError for the first of `keys` that cannot be hashed, such as a list; `error` if all can be hashed."""
    for value in keys:
        try:
            hash(value)
        except TypeError as why:
            return _unhashable(why, type(value).__name__, key, argument)
    return error


def _unhashable(why: TypeError, kind: str, key: object, argument: str) -> TypeError:
    if callable(key):
        return TypeError(f"{argument}: {why}; let the function return a value that can be hashed, such as a tuple")
    value = f"record[{key!r:.60}]"
    by_kind = {"list": f"tuple({value})", "set": f"frozenset({value})", "dict": f"tuple(sorted({value}.items()))"}
    code = f"lambda record: {by_kind.get(kind, '...')}"
    code = f"{argument}{code}" if argument.endswith("=") else f"{argument}({code})"
    return TypeError(f"the field {key!r:.60}: {why}; convert it with a function: {code}")
