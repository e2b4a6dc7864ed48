"""The size of a cache: bytes, or a share of the free memory or disk."""

from __future__ import annotations

import os

from recstore._core import native
from recstore.dataset import object_sizes
from recstore.shm import folders

# The free memory that is assumed if the machine does not report it.
_UNKNOWN = 1 << 30
LEAST = 1 << 16


def parse(limit: int | str, folder: str) -> int:
    """The bytes of a limit: a number, a text such as "20GiB", or a share such as "60%" of the free memory (the least
    of the machine, its memory cgroups, ulimit -v and the folder). Outside /dev/shm, only the free space of the folder
    counts. Raises ValueError and TypeError."""
    if is_share(limit):
        try:
            share = float(str(limit).strip()[:-1]) / 100
        except ValueError:
            share = -1.0
        if not 0 < share <= 1:
            raise ValueError(f'limit is a size such as "20GiB" or a share such as "60%", not {limit!r:.80}')
        return max(LEAST, int(share * _free(folder)))
    size = object_sizes.parse(limit)
    if size < LEAST:
        raise ValueError(f"limit is {size} bytes, and a cache has at least {LEAST:,}")
    return size


def is_share(limit: int | str) -> bool:
    return isinstance(limit, str) and limit.strip().endswith("%")


def _free(folder: str) -> int:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if not folder.startswith(folders.SHARED):
        return free
    memory, _ = native.headroom()
    return min(free, _UNKNOWN if memory is None else memory)
