"""Measures the time and memory of N workers that each read every record in random order.

The demo and the benchmarks run this over a list, a RecordList and other containers. All workers stay alive until memory
is measured: after the others have ended, shared pages would look private.
"""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import time

from recstore._core import forks
from recstore.shm import process_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from multiprocessing.connection import Connection
    from typing import Any, TypeAlias

    from recstore.shm.process_memory import Identity

    _Worker: TypeAlias = tuple[Any, Connection, float]  # the process, its pipe and its start

METHODS = ("fork", "spawn", "forkserver")


class WorkerFailed(RuntimeError):
    """A worker ended before it had read every record; the message has its traceback or its exit code."""


def shuffled(count: int, seed: int) -> Iterator[int]:
    """Each index below `count` once, in pseudo-random order, without an array of indices, which would add to the USS.

    A linear congruential generator over the next power of two has a full period if the increment is odd and the
    multiplier is 1 modulo 4. Values past the end are skipped.
    """
    size = 1 << max(2, math.ceil(math.log2(max(count, 1))))
    mask = size - 1
    at = seed & mask
    for _ in range(size):
        at = (at * 6364136223846793005 + 1442695040888963407) & mask
        if at < count:
            yield at


def touch(record: object) -> None:
    """References each value of a record, as a transform does, which writes its reference count."""
    if isinstance(record, dict):
        for _ in record.values():
            pass
    elif isinstance(record, (list, tuple)):
        for _ in record:
            pass


def _work(records: Any, seed: int, pipe: Connection, parent: int | None) -> None:
    # The terminal sends Ctrl-C to the whole group; only the parent handles it, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        count = len(records)
        started = time.monotonic()
        for done, index in enumerate(shuffled(count, seed)):
            touch(records[index])
            if done == 0:
                pipe.send(("first", time.monotonic()))
        pipe.send(("done", time.monotonic() - started))
    except Exception:
        import traceback

        pipe.send(("error", traceback.format_exc()))
        return
    # Forked workers inherit each other's pipe ends, so a dead parent may not show as end of file here.
    while not pipe.poll(0.5):
        if parent is not None and os.getppid() != parent:
            os._exit(1)


def full_pass(
    records: Any, method: str, workers: int, segments: dict[Identity, int] | tuple[()] = ()
) -> dict[str, Any]:
    """Reads every record in each worker. The result has `first_s` (the longest time from start to first record),
    `pass_s` (the slowest pass) and the keys of memory_of."""
    context: Any = multiprocessing.get_context(method)
    parent = None if method == "forkserver" else os.getpid()
    crew: list[_Worker] = []
    try:
        for number in range(workers):
            pipe, worker_pipe = context.Pipe()
            process = context.Process(target=_work, args=(records, 7 * number + 1, worker_pipe, parent), daemon=True)
            started = time.monotonic()
            with forks.undisturbed():
                process.start()
                worker_pipe.close()
                crew.append((process, pipe, started))
        times = _listen(crew)
        result = {"first_s": max(first for first, _ in times), "pass_s": max(whole for _, whole in times)}
        result |= memory_of([process.pid for process, _, _ in crew], segments)
        for _, pipe, _ in crew:
            pipe.send("end")
        for process, _, _ in crew:
            process.join()
        return result
    finally:
        _dismiss(crew)


def memory_of(worker_pids: Iterable[int], segments: dict[Identity, int] | tuple[()] = ()) -> dict[str, Any]:
    """The memory of the running workers: `uss` (a list), `total` and `processes`. The total includes the unmapped pages
    of `segments`."""
    pids = process_memory.family(os.getpid())
    usages = [process_memory.usage(pid) for pid in worker_pids]
    uss = [None if usage is None else usage.uss for usage in usages]
    return {"uss": uss, "total": process_memory.total(pids, segments), "processes": len(pids)}


def _listen(crew: list[_Worker]) -> list[tuple[float, float]]:
    times = {}
    waiting = {pipe: (process, started) for process, pipe, started in crew}
    first = {}
    while waiting:
        ready: list[Any] = multiprocessing.connection.wait(waiting, 1)
        for pipe in ready:
            process, started = waiting[pipe]
            try:
                kind, value = pipe.recv()
            except EOFError:
                process.join(5)
                raise WorkerFailed(f"a worker ended with exit code {process.exitcode}") from None
            if kind == "first":
                first[pipe] = value - started
            elif kind == "error":
                raise WorkerFailed(value)
            elif kind == "done":
                times[pipe] = (first.get(pipe, 0.0), value)
                del waiting[pipe]
    return list(times.values())


def _dismiss(crew: list[_Worker]) -> None:
    for process, _, _ in crew:
        if process.is_alive():
            process.terminate()
    for process, pipe, _ in crew:
        process.join(5)
        pipe.close()
