"""The memory of several processes that load one dataset at the same time, like the ranks of a job on one machine.

A launcher process imports the libraries, holds no data, and forks the ranks. It adds up their PSS again and again while
they load, and once more when all of them hold the data.
"""

import gc
import importlib
import multiprocessing
import os
import threading
import time
import zlib

from recstore.shm import process_memory

RANKS = 4
DEADLINE = 120


def assert_shared(load_plain, load_shared, argument, modules, factor=2):
    """Compares the memory of all ranks with `load_shared(argument, name)` and with `load_plain(argument)`. The shared
    load must take less than 1 / `factor` of the plain load's memory once all ranks hold the dataset, and less than
    2 / 3 at the peak. Both must give all ranks the same result. The functions are importable and return `(data,
    result)`. `modules` are imported before the ranks start."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe()
    ways = (load_plain, argument), (load_shared, argument, fresh_name())
    launcher = context.Process(target=_launch, args=(sender, ways, modules))
    launcher.start()
    sender.close()
    try:
        assert receiver.poll(DEADLINE), "the ranks did not finish"
        (plain_peak, plain_held, plain_results), (shared_peak, shared_held, shared_results) = receiver.recv()
    finally:
        launcher.join(DEADLINE)
        launcher.close()
        receiver.close()
    assert len(set(map(repr, plain_results + shared_results))) == 1, plain_results + shared_results
    print(f"held {plain_held >> 20} -> {shared_held >> 20} MiB, peak {plain_peak >> 20} -> {shared_peak >> 20} MiB")
    assert shared_held < plain_held / factor and shared_peak < plain_peak / 1.5


def _launch(connection, ways, modules):
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # so that garbage collection in the ranks does not write to pages shared with this process
    connection.send([_measured(function, arguments) for function, *arguments in ways])


def _measured(function, arguments):
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(RANKS)]
    ranks = [context.Process(target=_rank, args=(pipe[1], function, arguments)) for pipe in pipes]
    for rank in ranks:
        rank.start()
    for _, rank_end in pipes:
        rank_end.close()
    ends = [launcher_end for launcher_end, _ in pipes]
    for end in ends:
        end.recv()  # the rank has started, and has loaded nothing
    pids = [rank.pid for rank in ranks]
    before = process_memory.total(pids)
    sampler = _Sampler(pids)
    for end in ends:
        end.send("load")
    results = [end.recv() for end in ends]
    peak = sampler.stop()
    held = process_memory.total(pids)
    for end in ends:
        end.send("end")
    for rank in ranks:
        rank.join()
    return max(peak, held) - before, held - before, results


class _Sampler(threading.Thread):
    """Samples the memory of processes until it is stopped."""

    def __init__(self, pids):
        super().__init__()
        self.pids, self.peak, self.ended = pids, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.is_set():
            self.peak = max(self.peak, process_memory.total(self.pids) or 0)
            time.sleep(0.03)

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak


def _rank(connection, function, arguments):
    import traceback

    connection.send("started")
    connection.recv()
    data = None
    try:
        data, result = function(*arguments)
    except BaseException:
        result = traceback.format_exc()
    gc.collect()
    connection.send(result)
    connection.recv()
    del data


def checksum(records):
    """A checksum of records and their order."""
    out = 0
    for record in records:
        out = zlib.crc32(repr(record).encode("utf-8", "surrogatepass"), out)
    return out


def fresh_name():
    """A unique name for a shared store."""
    return f"real {os.getpid()} {time.monotonic_ns()}"
