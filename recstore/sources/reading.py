"""The steps that all readers share: the build, the choice of records, files that change, errors of files."""

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
from recstore.later import arguments
from recstore.shm import registry
from recstore.sources import encodings, inputs
from recstore.text import an, meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from recstore.sources.inputs import Input

    _T = TypeVar("_T")

_MOST_KEYS = 10_000  # of records that an error can name


def built(reader: Callable[..., _T], make: Callable[..., Source], /, options: Mapping[str, Any], **given: Any) -> _T:
    """What the function `reader` returns, whose local variables are the keyword arguments here: the RecordList of the
    source that `make` gives, or the RecordDict of one that gives pairs."""
    source = make(**given)
    checked = build_options.of(reader.__name__, options, arguments(reader))
    build = streaming.build_mapping if source.pairs else streaming.build_records
    return registry.container_of(build(source, checked))  # type: ignore[no-any-return]


class FileSource(Source):
    """A source of files. `inputs` are their Inputs. A subclass has `_read`, in place of `_fill`; it extends `_restart`
    by what a build notes; and `content` are the arguments on which its records depend, as values that a fingerprint
    can be made of."""

    content: dict[str, Any] = {}
    n_rows: int | None = None  # the most records
    begun = False  # whether this is the source of one build
    stamps: Sequence[str | None] = ()  # of the inputs, when the build began

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.inputs = inputs
        self.positions: list[int | None] = []  # where file objects stood when they were read first
        self._restart()

    def _restart(self) -> None:
        """Forgets what an earlier build noted."""

    @property
    def files(self) -> list[str]:  # type: ignore[override]
        """The paths of the files that have one."""
        paths: list[str | None] = [one.path for one in self.inputs]
        return [path for path in paths if path is not None]

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        """A text that says which data it is: it is derived from the paths, sizes and times of the files and from the
        arguments. TypeError if no path says it."""
        stamps = self._begun()._stamped()
        if not stamps or None in stamps:
            raise TypeError("no path says what is shared; give fingerprint=, a text that says which data it is")
        names = [os.path.abspath(one.path) if one.path else one.name for one in self.inputs]
        kind = type(self).__name__
        # The package of `where` counts as a part of the program, as that of a function that builds.
        where = self.content.get("where")
        build = functools.partial(where if callable(where) else dict, **self.content)
        found: str = fingerprints.derive(functools.partial(build, kind=kind, files=names, stamps=stamps))
        return found

    def _stamped(self) -> Sequence[str | None]:
        """The stamps of a source that has begun."""
        return self.stamps

    def _identity(self) -> str:
        return self.fingerprint

    def _begun(self) -> FileSource:
        if self.begun:
            return self
        again = copy.copy(self)
        again.begun = True
        again.stamps = [one.stamp() for one in self.inputs]
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
        """Sets file objects to where they stood when they were read first. InputError for one that cannot be."""
        objects = [one.file for one in self.inputs if isinstance(one, inputs.FileObject)]
        if not self.positions:
            self.positions += [one.tell() if one.seekable() else None for one in objects]
            return
        for one, start in zip(objects, self.positions):
            if start is None:
                raise InputError("the source was read before, and its file object gives its bytes once: make another")
            one.seek(start)

    def split(self) -> Any:
        # Another process cannot be given a file object of the caller.
        if any(isinstance(one, inputs.FileObject) for one in self.inputs):
            return None
        begun = self._begun()
        parts = begun._parts() if begun.n_rows is None else [begun]
        known = dict(zip(map(id, begun.inputs), begun.stamps))
        for part in parts:
            part.begun, part.stamps = True, [known.get(id(one)) for one in part.inputs]
        return parts

    def _parts(self) -> Sequence[FileSource]:
        """The parts for worker processes, of a source without `n_rows`."""
        return [self]

    def _check(self) -> None:
        for one, stamp in zip(self.inputs, self.stamps, strict=True):
            if one.stamp() != stamp:
                raise InputError(f"{one.name}: the file changed while it was read; read it again when it is complete")

    @contextmanager
    def _named(self, bar: FileBar) -> Iterator[None]:
        """Names the file of a FileBar in the error of a record that cannot be stored. Bad content of a file
        that has changed since the build began is an error about the change."""
        try:
            yield
        except EncodeError as error:
            error.filename = bar.file.name
            raise
        except InputError:
            self._check()
            raise


class FileBar(progress.Bar):
    """The progress bar of a FileSource, in stored bytes of its files. It is shown if `shown` is true."""

    def __init__(self, files: Sequence[Input], shown: bool = False) -> None:
        sizes = [one.size for one in files] if shown else []
        known = [size for size in sizes if size is not None]
        super().__init__(shown, sum(known) if len(known) == len(sizes) else None, "bytes")
        self.left = list(files)
        self.file: Any = None  # the Input whose position counts
        self.before = self.steps = 0

    def files(self) -> Iterator[Input]:
        """Yields the files one after another; each is then the file whose position counts."""
        for file in self.left:
            self.file = file
            yield file
            if self.drawn is not None:
                self.before += file.size or 0
                self.to(self.before)

    def step(self) -> None:
        """Called for each record. It asks for the file's position now and then."""
        if self.drawn is not None:
            self.steps += 1
            if self.steps % 1024 == 1:
                self.moved()

    def moved(self, share: float | None = None) -> None:
        """Called after each block of the file that was read. `share` is the part of the file that was read, from 0 to
        1; without it the file's position counts."""
        if self.drawn is not None:
            read = self.file.position if share is None else (self.file.size or 0) * share
            self.to(self.before + read)


def grouped(files: Iterable[Input], size: int) -> list[list[Input]]:
    """The files in lists, in order: a file of at least `size` bytes alone, smaller ones together."""
    found: list[list[Input]] = []
    left = 0
    for file in files:
        bytes_ = file.size
        if bytes_ is None or bytes_ >= left:
            found.append([])
            left = 0 if bytes_ is None or bytes_ >= size else size
        found[-1].append(file)
        left -= min(bytes_ or 0, left)
    return found


def divisible(file: Input) -> bool:
    """Whether parts of the file can be read by themselves, and the whole twice: it is a regular file, not packed, and
    a byte of a line end or bracket is nothing else in it."""
    if file.path is None or file.packed is not None or not os.path.isfile(file.path):
        return False
    return encodings.of_path(file.path) in (None, "utf-8")


def keys_of(columns: Iterable[Any] | None) -> list[Any] | None:
    """The argument `columns` of a reader as a list, or None. Raises TypeError for a str or set, ValueError for a key
    that is there twice."""
    if columns is None:
        return None
    if isinstance(columns, (str, bytes)):
        raise TypeError(f"columns is a list of names; write columns=[{columns!r}]")
    if isinstance(columns, (set, frozenset)) or not hasattr(type(columns), "__iter__"):
        raise TypeError(f"columns is {an(type(columns).__name__)}; give a list of names, which has an order")
    columns, seen = list(columns), set()
    for key in columns:
        if key in seen:
            raise ValueError(f"columns has {key!r:.80} twice; a record has a key once")
        seen.add(key)
    return columns


class Columns:
    """The keys `names` to store of records that are dicts. It notes which of them no record had so far: records may
    lack a key, but a key that all of them lack is a wrong name."""

    @staticmethod
    def given(columns: Iterable[Any] | None) -> Columns | None:
        """The Columns for the argument of a reader, or None for all."""
        names = keys_of(columns)
        return None if names is None else Columns(names)

    def __init__(self, names: list[Any]) -> None:
        self.names = names
        self.place = {name: number for number, name in enumerate(names)}
        self.unseen = set(self.place)
        self.there: dict[Any, None] = {}  # the keys of the records, in order, while one of `names` is unseen
        self.count = 0  # of the records

    def see(self, record: Any) -> None:
        """Takes note of a record of the file, whether it is stored or not."""
        self.count += 1
        if self.unseen and type(record) is dict:
            self.unseen.difference_update(record)
            if len(self.there) < _MOST_KEYS:
                self.there.update(dict.fromkeys(record))

    def of(self, record: Any) -> Any:
        """The record with these keys alone."""
        if type(record) is not dict:
            return record
        if len(record) < len(self.names):
            return {
                key: record[key] for key in sorted(filter(self.place.__contains__, record), key=self.place.__getitem__)
            }
        return {key: record[key] for key in self.names if key in record}

    def report(self) -> tuple[int, set[Any], list[Any]] | None:
        """What was seen, for `require`."""
        return (self.count, self.unseen, [*self.there] if self.unseen else []) if self.count else None

    def require(self, reports: list[Any], files: Sequence[Input], n_rows: int | None) -> None:
        """Raises InputError for a name that no record of the files had, by the reports of all their parts."""
        reports = [report for report in reports if report is not None]
        wrong = set.intersection(*(unseen for _, unseen, _ in reports)) if reports else ()
        for name in self.names:
            if name in wrong:
                place = files[0].name + (f" and {len(files) - 1:,} further files" if len(files) > 1 else "")
                if n_rows is not None:
                    place += f", first {sum(count for count, _, _ in reports):,} records"
                raise no_column(place, name, [*dict.fromkeys(key for _, _, keys in reports for key in keys)])


def no_column(place: str, name: object, names: Sequence[Any]) -> InputError:
    """The InputError for a name in `columns` that is not among the names of a file or table."""
    return InputError(f"{place}: no column {name!r}; there are: {listed(names)}{meant(name, names)}")


def n_rows_of(n_rows: Any) -> int | None:
    """The argument `n_rows` of a reader as an int, or None. Raises TypeError and ValueError."""
    if n_rows is None:
        return None
    if not hasattr(type(n_rows), "__index__"):
        raise TypeError(f"n_rows is {an(type(n_rows).__name__)}; give an int")
    most: int = n_rows.__index__()
    if most < 0:
        raise ValueError(f"n_rows is {most}; give the most records to store, 0 or more")
    return min(most, sys.maxsize)


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
    """The records that a reader is asked for, of an iterable of decoded ones: those for which `where(record)` is true,
    of dicts only the keys of `columns`, which are Columns or None, at most `n_rows` of them."""
    if n_rows is not None and n_rows <= 0:
        return
    for record in rows:
        if columns is not None:
            columns.see(record)
        if where is not None and not where(record):
            continue
        yield record if columns is None else columns.of(record)
        if n_rows is not None:
            n_rows -= 1
            if n_rows == 0:
                return
