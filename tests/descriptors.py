"""The descriptors of this process, counted for tests that nothing stays open."""

import gc
import os


def names():
    """The sorted descriptors. Stores that earlier tests left to the garbage collector are closed first."""
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


def count():
    return len(names())
