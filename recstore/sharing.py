"""Stores that any process of this user finds by name: one process builds, the others wait and attach.

No server decides which process builds: the kernel does. Beside the segment's path is a lock file. The process that gets
its lock builds, and removes the lock file when the segment has its name. A waiting process reads in the lock file
whether the build failed, and gets the lock if the builder dies. `shm.named_segments` handles names, leases and
removal.
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

from recstore import names  # noqa: F401 - loaded now, for a program that gives up its rights later
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
from recstore.lazy_names import arguments
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
    _Store = TypeVar("_Store", bound=RecordList[Any] | RecordDict[Any, Any], default=Any)  # as for `open`
    _Reader: TypeAlias = Callable[[], trust.Reader]
    _Keep: TypeAlias = bool | float | str

__all__ = ["shared"]

_FIRST_DELAY, _LAST_DELAY = 0.005, 0.2
_FIRST_LOG_S, _LOG_EVERY_S = 10.0, 60.0  # seconds of waiting
_building: dict[str, tuple[int, int]] = {}  # path of a segment being built -> (thread, process) that builds it


if TYPE_CHECKING:

    @overload
    def shared(name: str, source_or_build: Source[_T], **options: Unpack[Building]) -> RecordList[_T]: ...
    # A mapping is also an iterable; checkers use the first overload that matches.
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
    """The store of a source or of a function's result. One process of this user on this host builds it; every other
    process that calls this with the same name and fingerprint waits and attaches. Without `source_or_build` it only
    attaches, to a store that a process of this user has open or that was kept.

    Args:
        name: up to 64 characters.
        source_or_build: a :class:`recstore.sources.Source`, such as ``recstore.sources.csv("train.csv")``; or a
            function without arguments that returns a source, an iterable of records, a mapping, or a store.
        fingerprint: a str. Stores of one name with different fingerprints are different stores. None derives it
            from the files and arguments of a source, or from the code of a function and the values that it reads
            (docs/fingerprints.md). A value that cannot be hashed raises a TypeError that names it. Without
            `source_or_build`, None means the only store of the name.
        files: paths whose sizes, times and inodes become part of the fingerprint.
        keep: False: the store ends when its last user closes it or exits; after a SIGKILL, at a later build or call of
            `shared`. True: it stays until ``recstore.names.remove`` or a restart; this requires `fingerprint` or
            `files`. "2h": it stays for two hours after its last use; units are s, m, h, d and w. A number is seconds.
        isolate: build in a fresh interpreter that exits, so that this process never holds the Python objects. The
            source or function must be picklable. A script that defines it calls `shared` under
            ``if __name__ == "__main__":``.
        dir: the folder to share through, instead of RECSTORE_DIR or /dev/shm.
        timeout: the most seconds to wait for another process. None: no limit with a build, a minute without one.
        classes, allow_pickle: how this process reads the store, as in :func:`open`.
        options: the options of :class:`recstore.RecordList`, without `name` and `backing`. They are not part of the
            fingerprint. `arrays` also sets how this process reads, and is allowed without `source_or_build`.

    Raises the exception of the source or function; BuildError if it was raised in another process, or if the function
    calls `shared` for its own store; WaitTimeoutError; PermissionError if another user owns the segment's path;
    OutOfSpaceError. Without a build: SegmentNotFoundError, ValueError if several stores have the name, CorruptError or
    VersionError. An error or a KeyboardInterrupt leaves no file behind.

    Safe from several threads at once: threads that call it for one store build once.

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
        _check_attaching(keep, isolate, options)
        _check_timeout(timeout)
        return _attached(name, fingerprint, files, dir, timeout, reader)
    return shared_with(reader, name, source_or_build, fingerprint, files, keep, dir, timeout, isolate, options)


def _reader(classes: Iterable[type] | Mapping[str, type], allow_pickle: bool, arrays: Arrays) -> _Reader:
    """A function that makes the trust.Reader of a store for this process."""
    allowed = trust.class_table(classes)
    return partial(trust.Reader, trusted=False, allow_pickle=bool(allow_pickle), arrays=arrays, classes=allowed)


def _check_options(options: dict[str, Any]) -> None:
    for option in ("name", "backing"):
        if option in options:
            raise TypeError(f"shared() takes no {option}=: it names the store, and other processes find it in `dir`")
    build_options.of("shared", options, arguments(shared))


def _check_attaching(keep: object, isolate: object, options: dict[str, Any]) -> None:
    ignored = [option for option, value in (("keep", keep), ("isolate", isolate)) if value is not False]
    ignored += [option for option in options if option != "arrays"]
    if ignored:
        raise TypeError(
            f"{ignored[0]}= is an option of a build, and shared(name) only attaches: write shared(name, build, "
            f"{ignored[0]}=...), or leave {ignored[0]}= out"
        )


def _check_call(
    build: object, fingerprint: str | None, files: Paths | None, keep: _Keep, timeout: float | None
) -> None:
    if not callable(build):
        expected = "a source, or a function that returns the records"
        raise TypeError(f"shared() takes {expected}, not {an(type(build).__name__)}")
    if keep is True and fingerprint is None and files is None:
        raise ValueError("keep=True needs fingerprint= or files=, so that changed data gets a new store")
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
    """Like `shared`, but `reader` makes the trust.Reader for the store."""
    named_segments.check_name(name)
    if isinstance(build, Source):
        source = build._begun()
        fingerprint, build = source._identity() if fingerprint is None else fingerprint, partial(_itself, source)
    _check_call(build, fingerprint, files, keep, timeout)
    target = named_segments.Target(
        name, fingerprints.full(build, fingerprint, files), named_segments.seconds(keep), dir
    )
    named_segments.collect_first(target.folder, name)
    return _Call(target, build, isolate, timeout, options, reader).run()


def _itself(source: Source[Any]) -> Source[Any]:
    return source


def _attached(
    name: str, fingerprint: str | None, files: Paths | None, dir: Path | None, timeout: float | None, reader: _Reader
) -> Any:
    """The store of this name. Without a fingerprint there must be only one store of the name."""
    named_segments.check_name(name)
    timeout = named_segments.PATIENCE if timeout is None else timeout
    named_segments.collect_first(named_segments.folder(dir), name)
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
        self.next_log = _FIRST_LOG_S

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
                    store = self.attach()  # another process may have built before this one got the lock
                    return self.build_locked(lock) if store is None else store
            finally:
                lock.close()

    def refuse_within_import(self) -> None:
        """Raises RuntimeError in the child of an isolated build whose main module calls `shared` at its top level."""
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
        """The store; None if it does not exist, or if it is damaged: then a build replaces it."""
        try:
            segment, label = named_segments.open_target(self.target, self.left())
        except SegmentNotFoundError:
            return None
        except CorruptError:
            if named_segments.Label.at(self.target.path) is not None:
                raise  # a whole store with another name or fingerprint
            self.target.replaces = True
            return None
        _log_attached(segment, label)
        return _container(segment, self.reader())

    # ---- Waiting ----

    def left(self) -> float | None:
        """The remaining seconds of the timeout; None without a timeout."""
        return None if self.timeout is None else max(0.0, self.begin + self.timeout - time.monotonic())

    def wait(self, lock: native.Lock) -> bool:
        """Waits for the lock. Returns whether this process holds it. If not, the segment may have been published.
        Raises BuildError if the build failed, and WaitTimeoutError after the timeout."""
        delay, first = _FIRST_DELAY, None
        while lock.state == native.BUSY and lock.leads():
            first = first or _state(lock)
            self.sleep(delay, lock)
            delay = min(2 * delay, _LAST_DELAY)
            lock.attempt()
        if first is not None:
            state = _state(lock)
            # A failure that was in the file from the beginning belongs to an earlier build, whose process was killed
            # before it removed the file.
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
                    f"waited {waited:.1f} s for {self.target.name!r}, which {builder} is building; set a longer"
                    " timeout=",
                )
            delay = min(delay, self.timeout - waited)
        if waited >= self.next_log:
            self.next_log += _LOG_EVERY_S
            builder = _state(lock).builder
            _warn("waiting for %r, which %s is building: %.0f s so far", self.target.name, builder, waited)
        time.sleep(delay)

    # ---- Building ----

    def build_locked(self, lock: native.Lock) -> Any:
        before = _state(lock)
        attempt = before.attempt + 1
        if before.attempt and not before.failed:
            _warn("%s died while it was building %r; this process builds it now", before.builder, self.target.name)
        lock.write(LockState.pack(attempt))
        _building[self.target.path] = _thread.get_ident(), os.getpid()
        try:
            if not self.isolate:
                return self.make()
            return self.make_isolated()
        except Exception as error:
            if not isinstance(error, _ChildDied):  # the next build may succeed
                lock.write(LockState.pack(attempt, _traceback(error)))
            raise
        finally:
            _building.pop(self.target.path, None)

    def make(self) -> Any:
        try:
            return _build(self.build(), self.target, self.reader(), self.options)
        except SegmentExistsError:
            # With isolate=True, the child of a killed builder may have published after the last check.
            store = self.attach()
            if store is None:
                raise
            return store

    def make_isolated(self) -> Any:
        from recstore.building import isolated_build

        target = self.target
        target_arguments = target.name, target.fingerprint, target.keep, target.folder
        store = isolated_build.build(
            partial(_enter, target.path),
            partial(_make, target_arguments, target.replaces, self.build, self.options),
            self.attach,
            repr(target.name),
        )
        if store is None:
            raise BuildError(f"{target.name!r} was built, and then removed by another process before it was attached")
        return store


def _enter(path: str) -> None:
    """Notes, in the child of an isolated build, that the child builds this path. A nested call is then refused."""
    _building[path] = _thread.get_ident(), os.getpid()


def _make(target_arguments: Any, replaces: bool, build: Callable[[], Any], options: Mapping[str, Any]) -> Any:
    """The store, built in the child of an isolated build."""
    target = named_segments.Target(*target_arguments)
    target.replaces = replaces
    return _Call(target, build, False, None, options).make()


def _refuse_nested(target: Target) -> None:
    """Raises BuildError for a call by the `build` of this store, in this thread or in a process forked by it."""
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
    """The RecordList or RecordDict over an attached segment."""
    segment.reader = reader
    return registry.container_of(registry.announce(segment))


def _build(result: Any, target: Target, reader: trust.Reader, option_values: Mapping[str, Any]) -> Any:
    """The store of the result of a build, under the target's name. The building process reads the store as the attached
    processes do, so that all processes see the same."""
    source = source_of(result)
    if source is None:
        kind = "None" if result is None else an(type(result).__name__)
        iterable = hasattr(type(result), "__iter__") or hasattr(type(result), "__getitem__")
        if isinstance(result, (str, bytes, bytearray)) or not iterable:
            raise TypeError(f"build() must return records, a mapping or a store, not {kind}")
        rows = rows_of_table(result)
        if rows is not None:
            raise TypeError(f"build() returned {kind}, a table; return {rows}")
        if isinstance(result, (native.Records, native.Mapping)):
            # The unsupported values of this store were pickled when it was built.
            option_values = {"on_unsupported": "pickle", **option_values}
    options = build_options.Options(**option_values)
    options.target, target.reader = target, reader
    is_mapping = isinstance(result, (native.Mapping, Mapping)) if source is None else source.pairs
    build = streaming.build_mapping if is_mapping else streaming.build_records
    return registry.container_of(build(result if source is None else source, options))


def _only(name: str, dir: Path | None, timeout: float) -> tuple[native.Segment, Label]:
    """`(segment, label)` of the only segment of this name."""
    for _ in range(100):
        paths = named_segments.paths_of(name, dir)
        if len(paths) > 1:
            raise ValueError(
                f"{len(paths)} stores are named {name!r}; say which by fingerprint=, one of {_fingerprints(paths)}"
            )
        if not paths:
            break
        try:
            segment, label = named_segments.open_leased(paths[0], timeout)
        except SegmentNotFoundError:
            continue  # its last user closed it; another store may have the name by now
        if label.name == name:
            return segment, label
        segment.disown()
        segment.close()
        break
    raise named_segments.gone(name, dir)


def _no_such(target: Target, dir: Path | None) -> SegmentNotFoundError:
    known = _fingerprints(named_segments.paths_of(target.name, dir))
    if not known:
        return named_segments.gone(target.name, dir)
    return SegmentNotFoundError(
        errno.ENOENT,
        f"no segment {target.name!r} with the fingerprint {target.fingerprint!r}; there is {known}",
    )


def _fingerprints(paths: Iterable[str]) -> str:
    labels = map(named_segments.Label.at, paths)
    return ", ".join(sorted(repr(label.fingerprint) for label in labels if label is not None))


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-30000:]


def _warn(text: str, *values: object) -> None:
    try:
        import logging
    except ImportError:  # the program may have given up its rights or changed sys.path
        if sys.stderr is not None:
            print(text % values, file=sys.stderr)
    else:
        logging.getLogger("recstore").warning(text, *values)


def _log_attached(segment: native.Segment, label: Label) -> None:
    # If logging is not imported, no handler would show a message of level INFO.
    if (logging := sys.modules.get("logging")) is not None:
        age = max(0.0, time.time() - segment.created_ns / 1e9)
        logging.getLogger("recstore").info(
            "attached %r: %s records, built %s ago by %s",
            label.name,
            f"{segment.records:,}",
            segment_list.duration(age),
            label.builder,
        )
