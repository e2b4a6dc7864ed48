"""The steps that all readers share: building, choosing records, detecting changed files, naming files in errors."""

from __future__ import annotations

import copy
import functools
import os
import sys
from contextlib import contextmanager

from recstore.building import build_options, fingerprints, progress, streaming
from recstore.building.source import Source, append_all
from recstore.containers.field_names import listed
from recstore.errors import EncodeError, InputError
from recstore.lazy_names import arguments
from recstore.shm import registry
from recstore.sources import encodings, inputs
from recstore.text import an, meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from recstore.sources.inputs import Input

    _T = TypeVar("_T")

_MOST_KEYS = 10_000  # the most keys that are kept for an error


def built(
    reader: Callable[..., _T], make: Callable[..., Source], /, options: Mapping[str, Any], **source_arguments: Any
) -> _T:
    """Implements a function `read_*`. `reader` is the function itself, `make` makes its source, and the keyword
    arguments are the local variables of `reader`. Returns a RecordList, or a RecordDict if the source has pairs."""
    source = make(**source_arguments)
    checked = build_options.of(reader.__name__, options, arguments(reader))
    build = streaming.build_mapping if source.pairs else streaming.build_records
    return registry.container_of(build(source, checked))  # type: ignore[no-any-return]


class FileSource(Source):
    """A source of files. `inputs` are their Inputs. Subclasses implement `_read`, may extend `_restart`, and set
    `content` to the arguments that determine the records, as values that a fingerprint can hash."""

    content: dict[str, Any] = {}
    n_rows: int | None = None  # the most records
    begun = False  # whether this is the source of a single build
    stamps: Sequence[str | None] = ()  # the stamps of the inputs at the beginning of the build

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.inputs = inputs
        self.positions: list[int | None] = []  # the positions of the file objects when they were first read
        self._restart()

    def _restart(self) -> None:
        """Resets the state of a build."""

    @property
    def files(self) -> list[str]:  # type: ignore[override]
        """The paths of the inputs that have a path."""
        return [file.path for file in self.inputs if file.path is not None]

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """A text that identifies the data, derived from the arguments and the paths and stamps of the files.
        Raises TypeError for a file object."""
        stamps = self._begun()._stamped()
        if not stamps or None in stamps:
            raise TypeError("a file object does not identify its data; give fingerprint=, a text that identifies it")
        names = [os.path.abspath(file.path) if file.path else file.name for file in self.inputs]
        kind = type(self).__name__
        # The fingerprint includes the code of `where` and its package, as it does for a function that builds.
        where = self.content.get("where")
        build = functools.partial(where if callable(where) else dict, **self.content)
        derived: str = fingerprints.derive(functools.partial(build, kind=kind, files=names, stamps=stamps))
        return derived

    def _stamped(self) -> Sequence[str | None]:
        """The stamps for the fingerprint of a source that has begun."""
        return self.stamps

    def _identity(self) -> str:
        return self.fingerprint

    def _begun(self) -> FileSource:
        if self.begun:
            return self
        again = copy.copy(self)
        again.begun = True
        again.stamps = [file.stamp() for file in self.inputs]
        again._restart()
        return again

    def append_to(self, builder: Any) -> None:
        append_all(self, builder)

    def _fill(self, builder: Any, progress: bool) -> None:
        self._rewind()
        self._read(builder, progress)

    def _read(self, builder: Any, progress: bool) -> None:
        raise NotImplementedError

    def _rewind(self) -> None:
        """Moves file objects back to their first position. Raises InputError if one was read and cannot seek."""
        objects = [file.file for file in self.inputs if isinstance(file, inputs.FileObject)]
        if not self.positions:
            self.positions += [file.tell() if file.seekable() else None for file in objects]
            return
        for file, start in zip(objects, self.positions):
            if start is None:
                raise InputError("the source was read before, and its file object can be read only once: make another")
            file.seek(start)

    def split(self) -> Any:
        # Other processes cannot read a file object of the caller.
        if any(isinstance(file, inputs.FileObject) for file in self.inputs):
            return None
        begun = self._begun()
        parts = begun._parts() if begun.n_rows is None else [begun]
        stamps = dict(zip(map(id, begun.inputs), begun.stamps))
        for part in parts:
            part.begun, part.stamps = True, [stamps.get(id(file)) for file in part.inputs]
        return parts

    def _parts(self) -> Sequence[FileSource]:
        """The parts for worker processes, of a source without `n_rows`."""
        return [self]

    def _check(self) -> None:
        for file, stamp in zip(self.inputs, self.stamps, strict=True):
            if file.stamp() != stamp:
                raise InputError(f"{file.name}: the file changed while it was read; read it again when it is complete")

    @contextmanager
    def _named(self, bar: FileBar) -> Iterator[None]:
        """Names the current file of a FileBar in errors of records that cannot be stored. If a file has changed since
        the build began, an error in its content becomes an error about the change."""
        try:
            yield
        except EncodeError as error:
            error.filename = bar.file.name
            raise
        except InputError:
            self._check()
            raise


class FileBar(progress.Bar):
    """The progress bar of a FileSource, in stored bytes of its files. It appears only if `shown` is true."""

    def __init__(self, files: Sequence[Input], shown: bool = False) -> None:
        sizes = [file.size for file in files] if shown else []
        known = [size for size in sizes if size is not None]
        super().__init__(shown, sum(known) if len(known) == len(sizes) else None, "bytes")
        self.inputs = list(files)
        self.file: Any = None  # the current Input
        self.before = 0

    def files(self) -> Iterator[Input]:
        """Yields the files one after another; each becomes the current file."""
        for file in self.inputs:
            self.file = file
            yield file
            if self.rich_bar is not None:
                self.before += file.size or 0
                self.to(self.before)

    def moved(self, share: float | None = None) -> None:
        """Called after each block of the file. `share` is the part of the file that was read, from 0 to 1; by default
        it follows from the position of the file."""
        if self.rich_bar is not None:
            read = self.file.position if share is None else (self.file.size or 0) * share
            self.to(self.before + read)


def grouped(files: Iterable[Input], size: int) -> list[list[Input]]:
    """The files in groups, in order: a file of at least `size` bytes or of unknown size alone, smaller files in groups
    below `size` bytes."""
    groups: list[list[Input]] = []
    left = 0
    for file in files:
        nbytes = file.size
        if nbytes is None or nbytes >= left:
            groups.append([])
            left = 0 if nbytes is None or nbytes >= size else size
        groups[-1].append(file)
        left -= min(nbytes or 0, left)
    return groups


def divisible(file: Input) -> bool:
    """Whether the file can be read in ranges and more than once: it is a regular file, not compressed, and in an
    encoding where the bytes of line ends and brackets mean nothing else."""
    if file.path is None or file.packed is not None or not os.path.isfile(file.path):
        return False
    return encodings.of_path(file.path) in (None, "utf-8")


def keys_of(columns: Iterable[Any] | None) -> list[Any] | None:
    """The argument `columns` of a reader as a list, or None. Raises TypeError for a str or set, ValueError for a
    repeated key."""
    if columns is None:
        return None
    if isinstance(columns, (str, bytes)):
        raise TypeError(f"columns must be a list of names; write columns=[{columns!r}]")
    if isinstance(columns, (set, frozenset)) or not hasattr(type(columns), "__iter__"):
        raise TypeError(f"columns is {an(type(columns).__name__)}; give a list of names, which has an order")
    columns, seen = list(columns), set()
    for key in columns:
        if key in seen:
            raise ValueError(f"columns has {key!r:.80} twice; name each key once")
        seen.add(key)
    return columns


class Columns:
    """The keys to store of records that are dicts. A record may lack a key, but a key that all records lack is a wrong
    name. So a Columns tracks the keys that no record has had so far."""

    def __init__(self, names: list[Any]) -> None:
        self.names = names
        self.place = {name: number for number, name in enumerate(names)}
        self.unseen = set(self.place)
        self.keys: dict[Any, None] = {}  # the keys of the records so far, while one of `names` is unseen
        self.count = 0  # the number of records so far

    def add(self, record: Any) -> None:
        """Tracks the keys of a record, whether it is stored or not."""
        self.count += 1
        if self.unseen and type(record) is dict:
            self.unseen.difference_update(record)
            if len(self.keys) < _MOST_KEYS:
                self.keys.update(dict.fromkeys(record))

    def of(self, record: Any) -> Any:
        """The record, reduced to these keys."""
        if type(record) is not dict:
            return record
        if len(record) < len(self.names):
            return {
                key: record[key] for key in sorted(filter(self.place.__contains__, record), key=self.place.__getitem__)
            }
        return {key: record[key] for key in self.names if key in record}

    def report(self) -> tuple[int, set[Any], list[Any]] | None:
        """The tracked keys, for `require`; None without records."""
        return (self.count, self.unseen, [*self.keys] if self.unseen else []) if self.count else None

    def require(self, reports: list[Any], files: Sequence[Input], n_rows: int | None) -> None:
        """Raises InputError for a name that no record had, according to the reports of all parts."""
        reports = [report for report in reports if report is not None]
        wrong = set.intersection(*(unseen for _, unseen, _ in reports)) if reports else ()
        for name in self.names:
            if name in wrong:
                place = files[0].name + (f" and {len(files) - 1:,} further files" if len(files) > 1 else "")
                if n_rows is not None:
                    place += f", first {sum(count for count, _, _ in reports):,} records"
                raise no_column(place, name, [*dict.fromkeys(key for _, _, keys in reports for key in keys)])


def no_column(place: str, name: object, names: Sequence[Any]) -> InputError:
    """The InputError for a name in `columns` that is not among the `names` of a file or table."""
    return InputError(f"{place}: no column {name!r}; there are: {listed(names)}{meant(name, names)}")


def n_rows_of(n_rows: Any) -> int | None:
    """The argument `n_rows` of a reader as an int, or None. Raises TypeError and ValueError."""
    return None if n_rows is None else count_of(n_rows, "n_rows")


def count_of(value: Any, name: str) -> int:
    """An argument that counts rows or lines as an int. Raises TypeError and ValueError."""
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} is {an(type(value).__name__)}; give an int")
    count: int = value.__index__()
    if count < 0:
        raise ValueError(f"{name} must be 0 or more, not {count}")
    return min(count, sys.maxsize)


def where_of(where: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
    """The argument `where` of a reader: a function or None. Raises TypeError."""
    if where is not None and not callable(where):
        raise TypeError(f"where is {an(type(where).__name__)}; give a function of a record")
    return where


def chosen(
    rows: Iterable[Any],
    columns: Columns | None = None,
    where: Callable[[Any], object] | None = None,
    n_rows: int | None = None,
) -> Iterator[Any]:
    """The records to store, from an iterable of decoded records: the first `n_rows` records for which `where(record)`
    is true, reduced to `columns`."""
    if n_rows is not None and n_rows <= 0:
        return
    for record in rows:
        if columns is not None:
            columns.add(record)
        if where is not None and not where(record):
            continue
        yield record if columns is None else columns.of(record)
        if n_rows is not None:
            n_rows -= 1
            if n_rows == 0:
                return
