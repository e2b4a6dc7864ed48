"""The worker processes of a build: what parallel_build.py starts. A worker iterates over shards, encodes and compresses
their records, and sends parcels. Also what both sides know: the kinds of messages and the pipes that are open."""

import os
import pickle
import signal
import sys
import threading
import traceback
from _queue import SimpleQueue

from recstore._core import native, trust
from recstore.building.pairs import pairs_of
from recstore.building.source import Source, items_of, source_of
from recstore.shm import file_backing

PARCEL, BLOCKS, END, ERROR = b"P", b"B", b"E", b"X"

# The ends of pipes that this process has open. A forked worker closes its copies: while they are open, a pipe does not
# show the end of the process on its other side. Builds hold the lock from the making of pipes to the start of their
# worker and while pipes are closed: a worker forked in between would have unknown copies. They hold it while they take
# an exit status too, as the start of a process takes those of all children that have ended.
open_pipes = set()
forking = threading.RLock()  # a signal handler may build too


def _after_fork():
    global forking
    forking = threading.RLock()  # another thread may hold it, which the child lacks


os.register_at_fork(after_in_child=_after_fork)


def work(shards, parcels, pickled, arrays, seed, compression, threads):
    """The main function of a worker process."""
    for pipe in open_pipes - {shards, parcels}:
        pipe.close()
    open_pipes.clear()
    # The terminal sends Ctrl-C to all its processes; the building process alone handles it and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    be_main()
    incoming = SimpleQueue()
    threading.Thread(target=_receive, args=(shards, incoming), daemon=True).start()
    writer, told = trust.Writer(pickled, arrays), 0

    def send(kind, content):
        message = kind + pickle.dumps(content, 5)
        try:
            parcels.send_bytes(message)
        except OSError:
            os._exit(1)  # the building process has gone

    def send_parcel():
        nonlocal told
        for kind, arguments in ((PARCEL, encoder.take()), (BLOCKS, encoder.take_blocks())):
            if arguments is not None:
                seen = list(writer.seen or ())[told:]
                told += len(seen)
                send(kind, (arguments, seen, writer.foreign))

    def make(kind):
        return _own_builder(kind, compression=compression, writer=writer, threads=threads)

    while (shard := incoming.get()) is not None:
        encoder = native.ListEncoder(writer, make) if seed is None else native.PairEncoder(writer, seed, make)
        failure, report = _read(shard, encoder, send_parcel, seed is not None)
        shard = None
        if failure is None:
            send(END, report)
        else:
            send(ERROR, failure)


def _own_builder(kind, **how):
    """A builder of this worker, whose segment nobody else sees and which leaves nothing behind when it is killed."""
    builder = file_backing.new_builder(kind, **how)
    if builder.path is not None:
        os.unlink(builder.path)
    return builder


def _read(pickled, encoder, send_parcel, pairs):
    """Encodes a shard. Returns `(failure, report)`: the failure is None, or the arguments of _Team.fail after the
    first; the report is that of a Source."""
    failure = report = None
    try:
        shard = pickle.loads(pickled)
        pickled = None
        source = shard if isinstance(shard, Source) else None if pairs else source_of(shard)
        if source is not None:
            encoder.sender = send_parcel
            source._fill(encoder, False)
            report = source._report()
        else:
            encoder.extend(pairs_of(shard) if pairs else items_of(shard), send_parcel)
    except native.Refused as e:
        failure = str(e), None, None
    except BaseException as e:
        failure = _failure(e)
    try:
        encoder.end()  # also the records before a failure count for the number in its message
        send_parcel()
    except Exception as e:
        failure = failure or _failure(e)
    return failure, report


def _failure(error):
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-60000:]
    try:
        error = pickle.dumps(error)
        pickle.loads(error)  # many exceptions can be pickled but not unpickled
    except Exception:
        error = None
    return None, error, text


def _receive(shards, incoming):
    """Runs in a thread. Receives the next shard while another is read, and ends the process when the building process
    ends."""
    try:
        while True:
            data = shards.recv_bytes()
            if not data:
                incoming.put(None)
                return
            incoming.put(data)
            del data
    except (EOFError, OSError):
        os._exit(1)


def be_main():
    """Renames the classes and functions of the main module, which a spawned process imports as __mp_main__. So their
    names in the store are those that the building process would write."""
    main = sys.modules.get("__mp_main__")
    if main is not None and main is sys.modules.get("__main__"):
        _rename(main)


def _rename(owner):
    for value in list(vars(owner).values()):
        kind = type(value)  # isinstance would ask each value of the program for its `__class__`
        if issubclass(kind, (type, type(_rename))) and value.__module__ == "__mp_main__":
            value.__module__ = "__main__"
            if issubclass(kind, type):
                _rename(value)
