"""The descriptors of this process, counted for tests that nothing stays open."""

import gc
import os
import socket
import stat

from waiting import until


def names():
    """The sorted descriptors, without TCP connections: those of servers that run in this process for other tests come
    and go. Stores that earlier tests left to the garbage collector are closed first."""
    gc.collect()
    return sorted(name for name in os.listdir("/proc/self/fd") if not _is_tcp(int(name)))


def _is_tcp(descriptor):
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as one:
            return one.family in (socket.AF_INET, socket.AF_INET6)
    except OSError:
        return True  # closed meanwhile: the listing's own descriptor, or one of another thread


def count():
    return len(names())


def wait_for(most):
    """Wait until this process has at most so many descriptors: threads that end close theirs a little later."""
    until(lambda: count() <= most, f"more than {most} descriptors", pause=0.05)
