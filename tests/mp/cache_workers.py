"""Importable functions for the processes of test_cache_processes.py, without pytest."""

import os
import random
import signal
import time

import numpy as np
from mp import sharers

import recstore

LIMIT = "64MB"
N = 400


def value(key):
    """The value of a key. Sizes differ widely, and each byte depends on the key."""
    chance = random.Random(key)
    size = chance.choice((0, 10, 1000, 5000, 100_000))
    return {"key": key, "bytes": bytes([key % 251]) * size, "array": np.full(size // 4, key, "i8")}


def is_value(key, found):
    expected = value(key)
    return (
        found["key"] == key
        and found["bytes"] == expected["bytes"]
        and np.array_equal(found["array"], expected["array"])
    )


def opened(name, **options):
    return recstore.cache(name, **{"limit": LIMIT, **options})


def fill(cache, first, step):
    """Stores each missing value, and fails if a value is wrong."""
    for key in range(first, N, step):
        assert is_value(key, cache.get_or_make(key, value, key)), key
    cache.close()


def seal_and_read(cache):
    """Seals the cache, and fails if a value of the store is wrong. Returns the store, which pickles as a handle."""
    sealed = cache.seal()
    assert all(is_value(key, record) for key, record in enumerate(sealed))
    return sealed


def storm(name, options, faults, seed):
    """Opens the cache, and stores and reads values in a random order, until it is killed."""
    cache, chance = opened(name, **options), random.Random(seed)
    while True:
        key = chance.randrange(N)
        if not is_value(key, cache.get_or_make(key, value, key)):
            sharers.note(faults, f"key {key} is torn")


def storm_of_large(name, seed):
    """Stores values of several arenas each until it is killed."""
    cache = opened(name, limit="400MiB")
    for i in range(1000):
        cache.put((seed, i), np.full(5 << 20, seed, "i8"))


def stopped_while_writing(name):
    """Stops after it has stored a value, so that it holds space."""
    cache = opened(name)
    cache.put("stopped", 1)
    os.kill(os.getpid(), signal.SIGSTOP)


def stays(name, ready):
    """Keeps the cache open until it is killed."""
    cache = opened(name)
    cache.put("stays", 1)
    ready.set()
    time.sleep(600)
