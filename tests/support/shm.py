"""The files in /dev/shm that a test could have left behind."""

import os


def names():
    """The names that tests of this process have made. Other programs, and other runs of this suite, may create names at
    any moment."""
    if not os.path.isdir("/dev/shm"):
        return []
    return sorted(name for name in os.listdir("/dev/shm") if name.startswith(f"recstore-test-{os.getpid()}-"))
