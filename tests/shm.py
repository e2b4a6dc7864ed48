"""What stands in /dev/shm that a test of ours could have left there."""

import os


def names():
    """The names, but for semaphores and files of multiprocessing and torch, and stores shared by name: other programs on the machine make those at any
    moment. Tests of stores with names look for their own."""
    if not os.path.isdir("/dev/shm"):
        return []
    return sorted(name for name in os.listdir("/dev/shm") if not name.startswith(("sem.mp-", "pym-", "psm_", "torch_", "recs1-")))
