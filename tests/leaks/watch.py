"""What this process holds, and whether running an operation again and again makes it hold more.

On a debug build of Python references are counted, on others the blocks of its allocator; beside them descriptors, mappings
of stores, and the resident memory, which also shows what C code allocates.
"""

import gc
import os
import sys

# What stays is more than this after some hundred cycles, where one leaks a reference, a descriptor or a mapping.
SLACK = {"references": 60, "descriptors": 0, "mappings": 0}
RSS_SLACK_BYTES = 4 << 20
FEWEST_CYCLES = 80
ROUNDS = 8  # the lists of free objects that the interpreter and numpy keep gain ever less from round to round
# In the names of folders and files that operations make, by which their mappings are known.
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
    """What `cycles` runs gained, as {what: (before, after)} of that which passes its slack; {} where nothing leaks.

    A cache that fills passes it in some rounds, a leak in all.
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
