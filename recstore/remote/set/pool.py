"""A pool of local processes that writes a source as shard files."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from recstore._core import forks
from recstore.building.pairs import pairs_of
from recstore.building.source import Source, append_part, items_of, parts_of
from recstore.errors import BuildError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.remote.set.writer import Entry, ShardWriter

_TASKS = 4  # tasks for each process: more tasks balance the load better, fewer tasks make fewer shard files


def write(writer: ShardWriter, source: Source, workers: int) -> list[Entry]:
    """Writes a Source with at most `workers` processes. Returns the entries in the order of the records, with the
    attributes of the source.

    Raises BuildError if a process is killed; the errors of the writer's ``write`` and of the source. After an error all
    processes have ended.
    """
    source = source._begun()
    runs = _runs(source, workers)
    if len(runs) < 2:
        return [writer.write(source)]
    # Spawned, because a forked process cannot have its own network clients.
    pool = ProcessPoolExecutor(
        min(workers, len(runs)), mp_context=multiprocessing.get_context("spawn"), initializer=_take_signals
    )
    try:
        # Ctrl-C would print a traceback in a starting process.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with forks.undisturbed():
                futures = [pool.submit(_write, writer, run, source.pairs) for run in runs]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        pending = set(futures)
        while pending:
            # An error ends the wait while other processes still write.
            ended, pending = wait(pending, forks.WAKE_S, FIRST_EXCEPTION)
            for future in ended:
                future.result()
        results = [future.result() for future in futures]
    except BrokenProcessPool:
        raise BuildError(
            "a process that was writing shard files was killed, possibly for lack of memory: nothing was committed; "
            "try again with fewer --workers"
        ) from None
    except BaseException:
        # Other threads may own the other children. Cancel no future: the thread of a broken pool would fail.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown()
    source._check()
    source._take_reports([report for _, reports in results for report in reports])
    for entry, _ in results:
        entry.attributes.update(source.attributes or {})
    return [entry for entry, _ in results]


def _runs(source: Source, workers: int) -> list[Sequence[Any]]:
    """The parts of a source in runs, one for each task; an empty list for one worker or an indivisible source."""
    parts = (parts_of(source) or []) if workers > 1 else []
    n = min(len(parts), workers * _TASKS)
    return [parts[len(parts) * i // n : len(parts) * (i + 1) // n] for i in range(n)]


class _Run(Source):
    """Adjacent parts of a source. Each part is a source or an iterable."""

    def __init__(self, parts: Sequence[Any], pairs: bool) -> None:
        self.parts, self.pairs = parts, pairs
        self.reports: list[Any] = []

    def append_to(self, builder: Any) -> None:
        for part in self.parts:
            if isinstance(part, Source):
                self.reports.append(append_part(part, builder))
            else:
                builder.extend(pairs_of(part) if self.pairs else items_of(part))


_writing = False  # in a process of the pool: whether it is running `_write`


def _write(writer: ShardWriter, parts: Sequence[Any], pairs: bool) -> tuple[Entry, list[Any]]:
    """In a worker: writes some parts. Returns their entry and reports."""
    global _writing
    run = _Run(parts, pairs)
    try:
        try:
            _writing = True
            entry = writer.write(run)
        finally:
            _writing = False
    finally:
        if signal.getsignal(signal.SIGTERM) == signal.SIG_IGN:
            os._exit(1)  # `_end` has ended the write; the pool would catch its SystemExit, and wait for another task
    return entry, run.reports


def _take_signals() -> None:
    # The terminal sends Ctrl-C to all its processes. The parent terminates the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    """Ends this process. During a write, raises an exception, so that temporary files are removed."""
    if not _writing:
        os._exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)
