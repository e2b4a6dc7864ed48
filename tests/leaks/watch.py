"""Counts the resources of this process, and tells whether repeating an operation adds to them.

Counts references on a debug build of Python, else blocks of its allocator; also descriptors, mappings
of stores, and resident memory, which includes allocations of C code.
"""

import gc
import os
import sys

# Growth up to these numbers is not a leak.
SLACK = {"references": 60, "descriptors": 0, "mappings": 0}
RSS_SLACK_BYTES = 4 << 20
FEWEST_CYCLES = 80
ROUNDS = 8  # the free lists of the interpreter and numpy grow less from round to round
# In the names of folders and files of operations, to recognize their mappings.
MARK = "recstore-leaks-"


def mappings():
    with open("/proc/self/maps") as file:
        return sum(any(part in line for part in ("/memfd:recstore", "/dev/shm/", MARK)) for line in file)


def held():
    gc.collect()
    return {
        "references": getattr(sys, "gettotalrefcount", sys.getallocatedblocks)(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mappings": mappings(),
    }


def rss_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(operation, cycles, warm=3):
    """The growth of `cycles` runs beyond the slack, as {resource: (before, after)}; {} if nothing leaks.

    A cache that fills exceeds the slack in some rounds, a leak in all.
    """
    for _ in range(warm):
        operation()
    for _ in range(ROUNDS):
        before, rss = held(), rss_bytes()
        for _ in range(cycles):
            operation()
        after, rss_after = held(), rss_bytes()
        gained = {what: (before[what], after[what]) for what in before if after[what] - before[what] > SLACK[what]}
        if rss_after - rss > RSS_SLACK_BYTES:
            gained["rss bytes"] = (rss, rss_after)
        if not gained:
            break
    return gained
