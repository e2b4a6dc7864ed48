"""A pool of processes of this machine that write the files of a reader as shard files."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from recstore._core import forks
from recstore.building.feeds import Feed
from recstore.errors import BuildError
from recstore.sources.inputs import FileObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.remote.writer import Entry, ShardWriter

_TASKS = 4  # for each process: so the last ones to end differ by little, and shard files stay few


def write(writer: ShardWriter, feed: Feed, workers: int) -> list[Entry]:
    """The entries of all records of a Feed, in their order, each written by one of at most `workers` processes. The
    attributes that the feed finds are those of the entries.

    Raises BuildError if a process is killed; what the writer's ``write`` and the feed raise. After an error no process
    is left.
    """
    runs = _runs(feed, workers)
    if len(runs) < 2:
        return [writer.write(feed)]
    # Freshly executed: a forked one would have no network clients of its own.
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, len(runs)), mp_context=multiprocessing.get_context("spawn"), initializer=_take_signals
    )
    try:
        # A process that is just starting would answer Ctrl-C with a traceback.
        before_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with forks.undisturbed():
                futures = [pool.submit(_written, writer, run) for run in runs]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before_mask)
        done = [future.result() for future in futures]
    except BrokenProcessPool:
        raise BuildError(
            "a process that was writing shard files was killed, for lack of memory perhaps: nothing is committed; try "
            "again with fewer --workers"
        ) from None
    except BaseException:
        # No future is cancelled: the pool's thread fails where it finds one in a pool that is broken.
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown()
    feed.check()
    feed.told([report for _, reports in done for report in reports])
    for entry, _ in done:
        entry.attributes.update(feed.attributes or {})
    return [entry for entry, _ in done]


def _runs(feed: Feed, workers: int) -> list[Sequence[Feed]]:
    """The parts of a feed in runs, of which each is a task; an empty list if this process has to read it."""
    if workers < 2 or any(isinstance(one, FileObject) for one in getattr(feed, "files", ())):
        return []
    parts = feed.shards() or []
    n = min(len(parts), workers * _TASKS)
    return [parts[len(parts) * i // n : len(parts) * (i + 1) // n] for i in range(n)]


class _Run(Feed):
    """Adjacent parts of a feed."""

    def __init__(self, parts: Sequence[Feed]) -> None:
        self.parts, self.pairs = parts, parts[0].pairs

    def fill(self, builder: Any, options: None) -> None:
        for part in self.parts:
            part.fill(builder, None)


def _written(writer: ShardWriter, parts: Sequence[Feed]) -> tuple[Entry, list[Any]]:
    """In a process: the entry of some parts, and their reports."""
    return writer.write(_Run(parts)), [part.report() for part in parts]


def _take_signals() -> None:
    # The terminal sends Ctrl-C to all its processes; the one that started these ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    """Ends this process by an exception, so that no temporary file stays."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)
