"""Importable functions for the processes of test_remote_nodes.py, without pytest."""

import os
import random

from mp.sharers import note

import recstore
from recstore.remote.cache import cache


def open_and_compare(barrier, results, url, options, expected):
    """Opens a set at the same time as the other processes, and reports the number of wrong records."""
    barrier.wait()
    try:
        x = recstore.open(url, **options)
        results.put(sum(a != b for a, b in zip(x, expected)) + abs(len(x) - len(expected)))
        x.close()
    except Exception as error:  # for the test to report
        results.put(f"{type(error).__name__}: {error}")


def read_at_random(barrier, results, url, options, expected, seed):
    """Reads a lazy set at the same time as the other processes, in a random order."""
    barrier.wait()
    order = list(range(len(expected)))
    random.Random(seed).shuffle(order)
    try:
        x = recstore.open(url, **options)
        results.put(sum(x[i] != expected[i] for i in order))
        x.close()
    except Exception as error:
        results.put(f"{type(error).__name__}: {error}")


def storm(url, options, expected, faults, done, seed):
    """Opens, reads and closes until it or the test is killed."""
    chance, parent = random.Random(seed), os.getppid()
    while os.getppid() == parent:
        lazy = "limit" in options or chance.random() < 0.5  # a limit below the size of the set needs lazy=True
        try:
            x = recstore.open(url, lazy=lazy, **options)
            for i in chance.sample(range(len(expected)), 20):
                if x[i] != expected[i]:
                    note(faults, f"record {i} is wrong")
            if lazy:
                x.selection.shards.fetch_ahead(range(3))
            x.close()
            note(done, "x")
        except Exception as error:
            # The test may happen to kill all three fetching processes of a request.
            if "3 times, last with status -9" not in str(error):
                note(faults, f"{type(error).__name__}: {error}")


def worker(x, numbers, results):
    """Reads records of an unpickled list or mapping."""
    try:
        results.put([x[number] for number in numbers])
    except Exception as error:
        results.put(f"{type(error).__name__}: {error}")


def parts_and_locks(folder):
    """The unfinished files and the locks in a cache."""
    inner = os.path.join(folder, "recstore")
    names = os.listdir(inner) + os.listdir(os.path.join(inner, "sets"))
    return [name for name in names if name.endswith((cache.PART, cache.LOCK))]
