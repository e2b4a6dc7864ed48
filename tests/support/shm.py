"""What stands in /dev/shm that a test of ours could have left there."""

import os


def names():
    """The names that this process has made. Other programs of the machine make theirs at any moment, and so does this
    suite, run twice. Tests of stores with names look for their own."""
    if not os.path.isdir("/dev/shm"):
        return []
    return sorted(name for name in os.listdir("/dev/shm") if name.startswith(f"recstore-test-{os.getpid()}-"))
