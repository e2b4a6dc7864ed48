"""Stores that any process of this user finds by name: one process builds, the others wait and attach.

No server decides which process builds: the kernel does. The process that creates and locks the lock file beside the
segment's path builds, and removes the lock file when the segment has its name. A waiting process reads in the lock file
whether the build failed, and gets the lock when the builder has died. Names, leases and their removal are in
`shm.named_segments`.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys
import time
import traceback
from _collections_abc import Mapping
from functools import partial

from recstore import names  # noqa: F401 - a program that then gives up its rights lists and removes them
from recstore._core import native, trust
from recstore.building import build_options, fingerprints, streaming
from recstore.building.source import Source, rows_of_table, source_of
from recstore.errors import (
    BuildError,
    CorruptError,
    SegmentExistsError,
    SegmentNotFoundError,
    WaitTimeoutError,
    _ChildDied,
)
from recstore.later import arguments
from recstore.shm import named_segments, registry, segment_list
from recstore.shm.lock_state import LockState
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias, overload

    from typing_extensions import TypeVar, Unpack

    from recstore._types import Arrays, Attaching, Building, Path, Paths
    from recstore.containers.dicts import RecordDict
    from recstore.containers.records import RecordList
    from recstore.shm.named_segments import Label, Target

    _T = TypeVar("_T")
    _K = TypeVar("_K")
    _V = TypeVar("_V")
    _Store = TypeVar("_Store", bound=RecordList[Any] | RecordDict[Any, Any], default=Any)  # as of `open`
    _Reader: TypeAlias = Callable[[], trust.Reader]
    _Keep: TypeAlias = bool | float | str

__all__ = ["shared"]

_FIRST_DELAY, _LAST_DELAY = 0.005, 0.2
_FIRST_WORD, _NEXT_WORDS = 10.0, 60.0  # seconds of waiting after which that is logged
_building: dict[str, tuple[int, int]] = {}  # path of a segment being built -> (thread, process) that builds it


if TYPE_CHECKING:

    @overload
    def shared(name: str, source_or_build: Source[_T], **options: Unpack[Building]) -> RecordList[_T]: ...
    # A mapping is an iterable, too: of the two, the first that fits is meant.
    @overload
    def shared(  # type: ignore[overload-overlap]
        name: str, source_or_build: Callable[[], Mapping[_K, _V]], **options: Unpack[Building]
    ) -> RecordDict[_K, _V]: ...
    @overload
    def shared(
        name: str, source_or_build: Callable[[], Source[_T] | Iterable[_T]], **options: Unpack[Building]
    ) -> RecordList[_T]: ...
    @overload
    def shared(
        name: str, source_or_build: None = None, *, arrays: Arrays = "copy", **options: Unpack[Attaching]
    ) -> _Store: ...  # type: ignore[type-var]


def shared(
    name: str,
    source_or_build: Source[Any] | Callable[[], Any] | None = None,
    *,
    fingerprint: str | None = None,
    files: Paths | None = None,
    keep: _Keep = False,
    isolate: bool = False,
    dir: Path | None = None,
    timeout: float | None = None,
    classes: Iterable[type] | Mapping[str, type] = (),
    allow_pickle: bool = False,
    **options: Any,
) -> Any:
    """The store of a source, or of what a function makes. One process of this user on this host builds it; every other
    process that calls this with the same name and fingerprint waits and attaches. With the name alone it only attaches,
    to a store that some process of this user holds or which was kept.

    Args:
        name: up to 64 characters.
        source_or_build: a :class:`recstore.sources.Source`, such as ``recstore.sources.csv("train.csv")``; or a
            function without arguments that returns a source, an iterable of records, a mapping, or a store.
        fingerprint: a str. Stores of one name with different fingerprints are different stores. None derives one: of a
            source from its files and arguments; of a function from its code and the values that it reads, as
            docs/fingerprints.md says. A value that cannot be hashed is a TypeError that names it. With the name alone
            None stands for the only store of the name.
        files: paths whose sizes, times and inodes become part of the fingerprint.
        keep: False: the store is gone when its last user closes it or exits, and after a SIGKILL with the next call of
            recstore. True: it stays until ``recstore.names.remove`` or a restart, which requires `fingerprint` or
            `files`. "2h": it stays so long after its last use; units are s, m, h, d and w.
        isolate: build in a fresh interpreter that exits, so that this process never holds the Python objects. The
            source or function must be picklable. A script that defines it calls `shared` under
            ``if __name__ == "__main__":``.
        dir: the folder to share through, instead of RECSTORE_DIR or /dev/shm.
        timeout: seconds to wait for another process, at most; by default a minute if there is no build.
        classes, allow_pickle: how this process reads the store, as in :func:`open`.
        options: those of :class:`recstore.RecordList`, but not `name` and `backing`. They are not part of the
            fingerprint. `arrays` says how this process reads, too.

    Raises the exception of the source or function; BuildError where it raised in the process that this one waited for
    or in that of `isolate`, and for a call within the function for the same key; WaitTimeoutError; PermissionError
    where another user owns the segment's path; OutOfSpaceError. Without a build: SegmentNotFoundError, ValueError where
    several stores have the name, CorruptError or VersionError. No file is left then, nor after a KeyboardInterrupt.

    Safe from several threads at once: threads that call it for one key build once.

    >>> samples = shared("doctest-squares", lambda: [{"n": i, "square": i * i} for i in range(100)])
    >>> again = shared("doctest-squares", lambda: [{"n": i, "square": i * i} for i in range(100)], fingerprint="1")
    >>> with shared("doctest-squares", fingerprint="1") as attached: samples[7] == again[7] == attached[7]
    True
    >>> samples.close(), again.close()
    (None, None)
    """
    _check_options(options)
    reader = _reader(classes, allow_pickle, options.get("arrays", "copy"))
    if source_or_build is None:
        given = {option: value for option, value in options.items() if option != "arrays"}
        _check_attaching(timeout, keep=keep, isolate=isolate, **given)
        return _attached(name, fingerprint, files, dir, timeout, reader)
    return shared_with(reader, name, source_or_build, fingerprint, files, keep, dir, timeout, isolate, options)


def _reader(classes: Iterable[type] | Mapping[str, type], allow_pickle: bool, arrays: Arrays) -> _Reader:
    """A function that gives the trust.Reader of a store for this process."""
    how = partial(trust.Reader, trusted=False, allow_pickle=bool(allow_pickle), arrays=arrays)
    return partial(how, classes=trust.class_table(classes))


def _check_options(options: dict[str, Any]) -> None:
    for option in ("name", "backing"):
        if option in options:
            raise TypeError(f"shared() takes no {option}=: it names the store, and other processes find it in `dir`")
    build_options.of("shared", options, arguments(shared))


def _check_attaching(timeout: float | None, **given: object) -> None:
    for option, value in given.items():
        if value:
            raise TypeError(
                f"{option}= is for a build, and shared() without one attaches: give a build, or leave it out"
            )
    _check_timeout(timeout)


def _check_call(
    build: object, fingerprint: str | None, files: Paths | None, keep: _Keep, timeout: float | None
) -> None:
    if not callable(build):
        what = "a source, or a function that returns the records"
        raise TypeError(f"shared() takes {what}, not {an(type(build).__name__)}")
    if keep is True and fingerprint is None and files is None:
        raise ValueError(
            "keep=True needs fingerprint= or files=: a store that stays must be known by what it was built from"
        )
    _check_timeout(timeout)


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout is a number of seconds, not {timeout!r}")


def shared_with(
    reader: _Reader,
    name: str,
    build: Any,
    fingerprint: str | None,
    files: Paths | None = None,
    keep: _Keep = False,
    dir: Path | None = None,
    timeout: float | None = None,
    isolate: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """As `shared`. `reader` is a function that gives the trust.Reader for the store, `options` are those of a build."""
    named_segments.check_name(name)
    if isinstance(build, Source):
        begun = build._begun()
        fingerprint, build = begun._identity() if fingerprint is None else fingerprint, partial(_itself, begun)
    _check_call(build, fingerprint, files, keep, timeout)
    target = named_segments.Target(
        name, fingerprints.full(build, fingerprint, files), named_segments.seconds(keep), dir
    )
    named_segments.collect(target.folder)
    return _Call(target, build, isolate, timeout, options, reader).run()


def _itself(source: Source[Any]) -> Source[Any]:
    return source


def _attached(
    name: str, fingerprint: str | None, files: Paths | None, dir: Path | None, timeout: float | None, reader: _Reader
) -> Any:
    """The store of this name. Without a fingerprint there must be only one store of the name."""
    named_segments.check_name(name)
    timeout = named_segments.PATIENCE if timeout is None else timeout
    named_segments.collect(named_segments.folder(dir))
    if fingerprint is not None:
        target = named_segments.Target(name, fingerprints.full(None, fingerprint, files), None, dir)
        try:
            segment, label = named_segments.open_target(target, timeout)
        except SegmentNotFoundError:
            raise _no_such(target, dir) from None
    else:
        segment, label = _only(name, dir, timeout)
    _log_attached(segment, label)
    return _container(segment, reader())


# ---- One call of shared ----


class _Call:
    """One call of `shared`: it attaches, or waits, or builds."""

    def __init__(
        self, target: Target, build: Any, isolate: bool, timeout: float | None, options: Any = None, reader: Any = None
    ) -> None:
        self.target, self.build, self.isolate, self.options = target, build, isolate, options or {}
        self.reader: _Reader = reader or partial(trust.Reader, trusted=False)
        self.timeout = timeout
        self.begin = time.monotonic()
        self.next_word = _FIRST_WORD

    def run(self) -> Any:
        self.refuse_within_import()
        _refuse_nested(self.target)
        while True:
            store = self.attach()
            if store is not None:
                return store
            lock = native.Lock(self.target.lock_path)
            try:
                if self.wait(lock):
                    store = self.attach()  # another process may have built before this lock
                    return self.build_locked(lock) if store is None else store
            finally:
                lock.close()

    def refuse_within_import(self) -> None:
        """RuntimeError for a script that builds at its top level, in the child that imports it to build."""
        isolated = sys.modules.get("recstore.building.isolated_build")
        if isolated is None or not isolated.importing_main:
            return
        if self.isolate or self.target.path in _building:
            raise RuntimeError(
                f"isolate=True imports the main module in the child that builds, and the main module calls shared() for"
                f' {self.target.name!r} again; put the call under if __name__ == "__main__":, or move build to a module'
                " of its own"
            )

    def attach(self) -> Any:
        """The store; None where there is none, or where it is damaged, so that a build replaces it."""
        try:
            segment, label = named_segments.open_target(self.target, self.left())
        except SegmentNotFoundError:
            return None
        except CorruptError:
            if named_segments.Label.at(self.target.path) is not None:
                raise  # it is whole, and has another name or fingerprint
            self.target.replaces = True
            return None
        _log_attached(segment, label)
        return _container(segment, self.reader())

    # ---- Waiting ----

    def left(self) -> float | None:
        """The seconds of the timeout that are left; None without a timeout."""
        return None if self.timeout is None else max(0.0, self.begin + self.timeout - time.monotonic())

    def wait(self, lock: native.Lock) -> bool:
        """Waits for the lock. True when this process holds it; False when the segment may have been published. Raises
        BuildError when the build failed, and WaitTimeoutError."""
        delay, first = _FIRST_DELAY, None
        while lock.state == native.BUSY and lock.leads():
            first = first or _state(lock)
            self.sleep(delay, lock)
            delay = min(2 * delay, _LAST_DELAY)
            lock.attempt()
        if first is not None:
            state = _state(lock)
            # A failure that the file told from the beginning belongs to an earlier build: its process was killed before
            # it removed the file.
            if state.failed and not (first.failed and first.attempt == state.attempt):
                raise BuildError(f"building {self.target.name!r} failed in {state.builder}:\n{state.text}")
        return lock.state == native.HELD

    def sleep(self, delay: float, lock: native.Lock) -> None:
        waited = time.monotonic() - self.begin
        if self.timeout is not None:
            if waited >= self.timeout:
                builder = _state(lock).builder
                raise WaitTimeoutError(
                    errno.ETIMEDOUT,
                    f"waited {waited:.1f} s for {self.target.name!r}, which {builder} is building; timeout= gives it"
                    " longer",
                )
            delay = min(delay, self.timeout - waited)
        if waited >= self.next_word:
            self.next_word += _NEXT_WORDS
            builder = _state(lock).builder
            _warn("waiting for %r, which %s is building: %.0f s by now", self.target.name, builder, waited)
        time.sleep(delay)

    # ---- Building ----

    def build_locked(self, lock: native.Lock) -> Any:
        before = _state(lock)
        attempt = before.attempt + 1
        if before.attempt and not before.failed:
            _warn("%s, which was building %r, has died; building it here", before.builder, self.target.name)
        lock.write(LockState.pack(attempt))
        _building[self.target.path] = _thread.get_ident(), os.getpid()
        try:
            if not self.isolate:
                return self.make()
            return self.make_isolated()
        except Exception as error:
            if not isinstance(error, _ChildDied):  # a killed child does not mean that the next build fails
                lock.write(LockState.pack(attempt, _traceback(error)))
            raise
        finally:
            _building.pop(self.target.path, None)

    def make(self) -> Any:
        try:
            return _build(self.build(), self.target, self.reader(), self.options)
        except SegmentExistsError:
            # The child of a builder that was killed (isolate=True) may have published after our last look.
            store = self.attach()
            if store is None:
                raise
            return store

    def make_isolated(self) -> Any:
        from recstore.building import isolated_build

        target = self.target
        place = target.name, target.fingerprint, target.keep, target.folder
        store = isolated_build.build(
            partial(_enter, target.path),
            partial(_make, place, target.replaces, self.build, self.options),
            self.attach,
            repr(target.name),
        )
        if store is None:
            raise BuildError(f"{target.name!r} was built, and then removed by another process before it was attached")
        return store


def _enter(path: str) -> None:
    """Notes in the child of an isolated build what it builds, so that a nested call is refused."""
    _building[path] = _thread.get_ident(), os.getpid()


def _make(place: Any, replaces: bool, build: Callable[[], Any], options: Mapping[str, Any]) -> Any:
    """The store, built in the child of an isolated build."""
    target = named_segments.Target(*place)
    target.replaces = replaces
    return _Call(target, build, False, None, options).make()


def _refuse_nested(target: Target) -> None:
    """BuildError for a call by the `build` of this key, in this thread or in a process that this thread forked."""
    entry = _building.get(target.path)
    if entry is None or entry[0] != _thread.get_ident():
        return
    pid = entry[1]
    if pid != os.getpid():
        # This process was forked while its parent was building. The parent may have finished since.
        state = LockState.at(target.lock_path)
        if state is None or state.pid != pid:
            del _building[target.path]
            return
    raise BuildError(
        f"the build of {target.name!r} calls shared() for its own name and fingerprint, and would wait for itself"
    )


def _state(lock: native.Lock) -> LockState:
    return LockState.of(lock.read())


def _container(segment: native.Segment, reader: trust.Reader) -> Any:
    """The RecordList or RecordDict over a segment just attached."""
    segment.reader = reader
    return registry.container_of(registry.announce(segment))


def _build(result: Any, target: Target, reader: trust.Reader, given: Mapping[str, Any]) -> Any:
    """The store of what a build returned, under the target's name. The builder reads it as the processes read it that
    attach by name, so that all of them see the same."""
    if result is None:
        raise TypeError("build returned None; it returns an iterable of records, a mapping or a store")
    found = source_of(result)
    if found is None:
        iterable = hasattr(type(result), "__iter__") or hasattr(type(result), "__getitem__")
        if isinstance(result, (str, bytes, bytearray)) or not iterable:
            kind = type(result).__name__
            raise TypeError(f"build returned {an(kind)}; it returns an iterable of records, a mapping or a store")
        rows = rows_of_table(result)
        if rows is not None:
            raise TypeError(f"build returned {an(type(result).__name__)}, a table: let it return {rows}")
        if isinstance(result, (native.Records, native.Mapping)):
            # A value that came out of a store and cannot be stored here was pickled there.
            given = {"on_unsupported": "pickle", **given}
    options = build_options.Options(**given)
    options.target, target.reader = target, reader
    is_mapping = isinstance(result, (native.Mapping, Mapping)) if found is None else found.pairs
    build = streaming.build_mapping if is_mapping else streaming.build_records
    return registry.container_of(build(result if found is None else found, options))


def _only(name: str, dir: Path | None, timeout: float) -> tuple[native.Segment, Label]:
    """`(segment, label)` of the one segment of this name."""
    for _ in range(100):
        paths = named_segments.found(name, dir)
        if len(paths) > 1:
            raise ValueError(
                f"{len(paths)} stores are named {name!r}; say which by fingerprint=, one of {_fingerprints(paths)}"
            )
        if not paths:
            break
        try:
            segment, label = named_segments.open_leased(paths[0], timeout)
        except SegmentNotFoundError:
            continue  # its last user has just closed it; another store may have the name by now
        if label.name == name:
            return segment, label
        segment.disown()
        segment.close()
        break
    raise named_segments.gone(name, dir)


def _no_such(target: Target, dir: Path | None) -> SegmentNotFoundError:
    known = _fingerprints(named_segments.found(target.name, dir))
    if not known:
        return named_segments.gone(target.name, dir)
    return SegmentNotFoundError(
        errno.ENOENT,
        f"no segment {target.name!r} with the fingerprint {target.fingerprint!r}; there is {known}",
    )


def _fingerprints(paths: Iterable[str]) -> str:
    """The fingerprints of the segments at these paths, for messages."""
    labels = map(named_segments.Label.at, paths)
    return ", ".join(sorted(repr(label.fingerprint) for label in labels if label is not None))


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-30000:]


def _warn(text: str, *values: object) -> None:
    try:
        import logging
    except ImportError:  # the program has given up its rights, or its path
        if sys.stderr is not None:
            print(text % values, file=sys.stderr)
    else:
        logging.getLogger("recstore").warning(text, *values)


def _log_attached(segment: native.Segment, label: Label) -> None:
    # A program that has not imported logging has no handler, and would not show a message of level INFO.
    if (logging := sys.modules.get("logging")) is not None:
        age = max(0.0, time.time() - segment.created_ns / 1e9)
        logging.getLogger("recstore").info(
            "attached %r: %s records, built %s ago by %s",
            label.name,
            f"{segment.records:,}",
            segment_list.duration(age),
            label.builder,
        )
