"""The worker processes of a build, which parallel_build.py starts. A worker iterates over shards, encodes and
compresses their records, and sends parcels or blocks. Both modules use the kinds of messages and the set of open
pipes."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from _queue import SimpleQueue

from recstore._core import native, trust
from recstore.building.pairs import pairs_of
from recstore.building.source import Source, append_part, items_of, source_of
from recstore.shm import file_backing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from types import ModuleType
    from typing import TypeAlias

    # The arguments of _Team.fail after the first.
    _Failure: TypeAlias = tuple[native.Refused | None, bytes | None, str | None]

PARCEL, BLOCKS, END, ERROR = b"P", b"B", b"E", b"X"

# The ends of pipes that are open in this process. A forked worker closes its copies: while they are open, a pipe does
# not show the end of the process on its other side. A build holds the lock while it makes pipes and starts their
# worker, and while it closes pipes: a worker forked in between would have unknown copies. It also holds the lock while
# it reads an exit status, because starting a process reaps all children that have ended.
open_pipes: set[Connection] = set()
forking = threading.RLock()  # a signal handler may build too


def _after_fork() -> None:
    global forking
    forking = threading.RLock()  # a thread of the parent may hold the old one


os.register_at_fork(after_in_child=_after_fork)


def work(
    shards: Connection,
    parcels: Connection,
    pickled: bool,
    arrays: str,
    seed: int | None,
    compression: tuple[str, tuple[str, ...]],
    threads: int,
) -> None:
    """The main function of a worker process."""
    for pipe in open_pipes - {shards, parcels}:
        pipe.close()
    open_pipes.clear()
    # The terminal sends Ctrl-C to all its processes; only the building process handles it and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    be_main()
    incoming: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_receive, args=(shards, incoming), daemon=True).start()
    writer, n_sent = trust.Writer(pickled, arrays), 0  # n_sent: the number of classes that were sent
    encoder: native.ListEncoder | native.PairEncoder

    def send(kind: bytes, content: object) -> None:
        message = kind + pickle.dumps(content, 5)
        try:
            parcels.send_bytes(message)
        except OSError:
            os._exit(1)  # the building process has ended

    def send_parcel() -> None:
        nonlocal n_sent
        for kind, arguments in ((PARCEL, encoder.take()), (BLOCKS, encoder.take_blocks())):
            if arguments is not None:
                seen = list(writer.seen or ())[n_sent:]
                n_sent += len(seen)
                send(kind, (arguments, seen, writer.foreign))

    def make(builder_class: Callable[..., native.AnyBuilder]) -> native.AnyBuilder:
        """A builder of this worker. Its segment has no name, so it leaves nothing behind when the worker is killed."""
        builder = file_backing.new_builder(builder_class, compression=compression, writer=writer, threads=threads)
        if builder.path is not None:
            os.unlink(builder.path)
        return builder

    while (shard := incoming.get()) is not None:
        encoder = native.ListEncoder(writer, make) if seed is None else native.PairEncoder(writer, seed, make)
        send(*_read(shard, encoder, send_parcel, seed is not None))
        shard = None  # frees the shard while the next shard arrives


def _read(
    pickled_shard: bytes, encoder: native.ListEncoder | native.PairEncoder, send_parcel: Callable[[], None], pairs: bool
) -> tuple[bytes, object]:
    """Encodes a shard. Returns its last message: END and the report of a Source, or ERROR and the failure."""
    failure: _Failure | None = None
    report = None
    try:
        shard = pickle.loads(pickled_shard)
        source = shard if isinstance(shard, Source) else None if pairs else source_of(shard)
        if source is not None:
            encoder.sender = send_parcel
            report = append_part(source, encoder)
        else:
            encoder.extend(pairs_of(shard) if pairs else items_of(shard), send_parcel)
    except native.Refused as e:
        failure = e, None, None
    except BaseException as e:
        failure = _failure(e)
    try:
        encoder.end()  # the records before a failure count for the number in its message
        send_parcel()
    except Exception as e:
        failure = failure or _failure(e)
    return (END, report) if failure is None else (ERROR, failure)


def _failure(error: BaseException) -> _Failure:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-60000:]
    try:
        pickled_error = pickle.dumps(error)
        pickle.loads(pickled_error)  # many exceptions can be pickled but not unpickled
    except Exception:
        return None, None, text
    return None, pickled_error, text


def _receive(shards: Connection, incoming: SimpleQueue[bytes | None]) -> None:
    """Runs in a thread. Receives the next shard while the current one is read, and ends the process when the building
    process ends."""
    try:
        while data := shards.recv_bytes():
            incoming.put(data)
            del data
        incoming.put(None)
    except (EOFError, OSError):
        os._exit(1)


def be_main() -> None:
    """Sets `__module__` of the main module's classes and functions to `__main__`, as in the building process. A spawned
    process imports that module as `__mp_main__`."""
    main = sys.modules.get("__mp_main__")
    if main is not None and main is sys.modules.get("__main__"):
        _rename(main)


def _rename(owner: ModuleType | type) -> None:
    for value in list(vars(owner).values()):
        kind = type(value)  # isinstance would read `__class__` of each value
        if issubclass(kind, (type, type(_rename))) and value.__module__ == "__mp_main__":
            value.__module__ = "__main__"
            if issubclass(kind, type):
                _rename(value)
