"""The measurements of `recstore demo` and `recstore bench`, each in its own process: a row of a table, or all rivals in
turns.

Each row gets a fresh process, so that a container is not measured in a heap that another container has enlarged. The
process starts as `python -c` and writes JSON lines to standard output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import json
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
import types
import warnings
from array import array

from recstore.cli import records as sources
from recstore.cli import workers
from recstore.shm import process_memory
from recstore.text import files_remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_READS = 100_000
LOADER = "DataLoader"


def say(**message: Any) -> None:
    """Sends a message, one JSON line, to the command. If the command stops reading, SIGPIPE ends this process."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """The entry point: runs the task that the first argument describes in JSON; its "what" is a key of _TASKS."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command handles Ctrl-C and ends this process
    signal.signal(signal.SIGTERM, _stop)
    try:
        message, status = _outcome(json.loads(arguments[0]))
    except sources.SourceError as error:
        say(error=str(error))
        os._exit(1)  # a normal end aborts if threads of pyarrow are still starting
    say(**message)
    return status


def _stop(*_: object, owner: int = os.getpid()) -> None:
    """The handler of SIGTERM: ends this process and all its descendants. It does not raise, because destructors of
    multiprocessing would print the exception. Forked workers inherit it until they set their own handler."""
    if os.getpid() == owner:
        # Not every system lists descendants; multiprocessing knows its children.
        children = {child.pid for child in multiprocessing.active_children() if child.pid is not None}
        for pid in children.union(process_memory.family(owner)[1:]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    os._exit(130)


def _outcome(task: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Runs a task. Returns the last message, with its result or its error, and the exit status. Raises SourceError."""
    try:
        return {"result": _TASKS[task.pop("what")](**task)}, 0
    except MemoryError:
        return {"error": "too little memory for so many records; use fewer records"}, 1
    except OSError as error:
        remedy = files_remedy(error) or "; free disk or memory, or use fewer records"
        return {"error": f"{error.strerror or error}{remedy}"}, 1
    except workers.WorkerFailed as error:
        return {"error": f"a worker failed: {str(error).rstrip().rpartition(chr(10))[2]}"}, 1


def prepare(kind: str | None, path: str | None, pool: str) -> dict[str, Any]:
    """Reads the source into the pool file."""
    count, size = sources.write_pool(sources.read(kind, path), pool)
    return {"count": count, "size": size}


def prepare_file(path: str, form: str, where: str | None, n_rows: int | None, pool: str) -> dict[str, Any]:
    """Reads the user's file into the pool file."""
    source, records = sources.read_any(path, form, where, n_rows)
    count, size = sources.write_pool(records, pool)
    return {"count": count, "size": size, "source": source}


def bench(pool: str, reads: int, repeats: int) -> dict[str, Any]:
    """Measures reads and sizes of all rivals over the records of the pool, and the bytes of each field in recstore."""
    import recstore
    from recstore.cli import bench_rivals, bench_timing

    say(stage="reading the records")
    records = list(sources.read_pool(pool))
    rows, sizes, absent = bench_timing.measure(
        records, bench_rivals.EVERY, reads, repeats, lambda stage: say(stage=stage)
    )
    say(stage="bytes by field")
    with recstore.RecordList(records) as store:
        fields, size = store.info(fields=True).fields, store.nbytes  # type: ignore[union-attr]  # a StoreInfo
    result = {"reads": rows, "sizes": sizes, "skipped": absent}
    return {**result, "fields": [dataclasses.asdict(field) for field in fields], "fields_of": size}


def row(
    container: str, method: str, workers_n: int, pool: str, count: int, resample: bool, weigh: bool
) -> dict[str, Any]:
    """Measures a container: builds it from the pool, reads it in random order, and reads it in workers."""
    segments_before = process_memory.segments()
    before = process_memory.usage()
    say(stage="building")
    begin = time.perf_counter()
    records = _build(container, itertools.islice(sources.read_pool(pool, count if resample else None), count))
    result: dict[str, Any] = {"build_s": time.perf_counter() - begin, "records": len(records)}
    gc.collect()
    after = process_memory.usage()
    if container == "list":
        result["bytes"] = after.uss - before.uss if after and before else None
    else:
        result["bytes"] = records.nbytes
    result["pickle"] = _pickled_size(records) if weigh else None
    result["read_ns"] = read_ns(records)
    segments = {key: size for key, size in process_memory.segments().items() if key not in segments_before}
    say(stage="reading")
    if method == LOADER:
        from recstore.cli.loader import loader_pass

        result.update(loader_pass(records, workers_n, segments))
    else:
        result.update(workers.full_pass(records, method, workers_n, segments))
    return result


def _build(container: str, fresh: Iterable[Any]) -> Any:
    """A list, a RecordList, or another rival, by name."""
    if container == "list":
        return list(fresh)
    if container == "recstore":
        import recstore

        return recstore.RecordList(fresh)
    from recstore.cli import bench_rivals

    return next(rival for rival in bench_rivals.EVERY if rival.name == container).build(list(fresh))


def _pickled_size(records: object) -> int:
    """The bytes of a pickle, as sent to a spawned worker. Counts them without keeping them: the pickle of a list would
    double the memory of this process."""
    sizes = array("q")
    counter: Any = types.SimpleNamespace(write=lambda data: sizes.append(memoryview(data).nbytes))
    with warnings.catch_warnings():
        # recstore warns that a pickle outside a spawning context is only a handle. A worker gets a handle too.
        warnings.simplefilter("ignore")
        pickle.dump(records, counter, pickle.HIGHEST_PROTOCOL)
    return sum(sizes)


def read_ns(records: Any) -> float:
    """Nanoseconds per record: distinct random indices, the best of three rounds, less the empty loop."""
    order = array("q", random.Random(1).sample(range(len(records)), min(_READS, len(records))))
    best = idle = float("inf")
    for _ in range(3):
        begin = time.perf_counter_ns()
        for _ in order:
            pass
        idle = min(idle, time.perf_counter_ns() - begin)
        begin = time.perf_counter_ns()
        for index in order:
            records[index]
        best = min(best, time.perf_counter_ns() - begin)
    return max(0, best - idle) / max(1, len(order))


_TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "prepare": prepare,
    "prepare file": prepare_file,
    "row": row,
    "bench": bench,
}


def launch(task: dict[str, Any]) -> list[str]:
    """The command line that runs a task, with the import path of this process.

    Uses `-c`, so that spawned workers have no main module to import again. But `-c` puts the current folder first on
    the import path, where a checkout's sources would hide the installed package.
    """
    code = f"import sys; sys.path[:] = {sys.path!r}; from recstore.cli.trial import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, json.dumps(task)]
