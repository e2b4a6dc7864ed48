"""Counts the open descriptors of this process."""

import contextlib
import gc
import itertools
import os
import resource
import socket
import stat

from waiting import until


def names():
    """The open descriptors, sorted. Leaves out TCP connections, because servers of other tests run in this process.
    First collects garbage, to close the stores of earlier tests."""
    gc.collect()
    return sorted(name for name in os.listdir("/proc/self/fd") if not _is_tcp(int(name)))


def _is_tcp(descriptor):
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            return copy.family in (socket.AF_INET, socket.AF_INET6)
    except OSError:
        return True  # it is closed already: the descriptor of the listing, or of another thread


def count():
    return len(names())


def wait_for(most):
    """Waits until this process has at most `most` descriptors: ending threads close theirs with a delay."""
    until(lambda: count() <= most, f"more than {most} descriptors", pause=0.05)


@contextlib.contextmanager
def limit(n):
    """Lets this process have at most n descriptors, which may be more than before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (n, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def room_for(n):
    """Lets this process open n more descriptors. Servers and clients of other tests may have hundreds open."""
    taken = set(map(int, os.listdir("/dev/fd")))
    return limit(next(itertools.islice((i for i in itertools.count() if i not in taken), n, None)))
