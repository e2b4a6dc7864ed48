"""What the processes of test_remote_nodes.py run, importable by name and without pytest."""

import os
import random

from mp.sharers import note

import recstore
from recstore.remote import cache


def opened(barrier, results, url, how, expected):
    """All open one set at once; each tells how many records were wrong."""
    barrier.wait()
    try:
        x = recstore.open(url, **how)
        results.put(sum(got != wanted for got, wanted in zip(x, expected)) + abs(len(x) - len(expected)))
        x.close()
    except Exception as error:  # the test shows it
        results.put(f"{type(error).__name__}: {error}")


def read_at_random(barrier, results, url, how, expected, seed):
    """All read one lazy set at once, each in an order of its own."""
    barrier.wait()
    order = list(range(len(expected)))
    random.Random(seed).shuffle(order)
    try:
        x = recstore.open(url, **how)
        results.put(sum(x[i] != expected[i] for i in order))
        x.close()
    except Exception as error:
        results.put(f"{type(error).__name__}: {error}")


def storm(url, how, expected, faults, done, seed):
    """Opens, reads and closes without end: until it is killed, or the test itself is."""
    chance, parent = random.Random(seed), os.getppid()
    while os.getppid() == parent:
        lazy = "limit" in how or chance.random() < 0.5  # with little room nothing else can be opened
        try:
            x = recstore.open(url, lazy=lazy, **how)
            for i in chance.sample(range(len(expected)), 20):
                if x[i] != expected[i]:
                    note(faults, f"record {i} is wrong")
            if lazy:
                x.selection.shards.wanted(range(3))
            x.close()
            note(done, "x")
        except Exception as error:
            # One whose fetching processes are killed again and again says so. Here the killer may be so unlucky.
            if "3 times, at last with status -9" not in str(error):
                note(faults, f"{type(error).__name__}: {error}")


def worker(x, numbers, results):
    """Reads records of a list or mapping that came by a handle."""
    try:
        results.put([x[number] for number in numbers])
    except Exception as error:
        results.put(f"{type(error).__name__}: {error}")


def parts_and_locks(folder):
    """What is half made in a cache."""
    inner = os.path.join(folder, "recstore")
    found = [name for where in (inner, os.path.join(inner, "sets")) for name in os.listdir(where)]
    return [name for name in found if name.endswith((cache.PART, cache.LOCK))]
