"""The room of a cache under a limit: which files go when a new file needs it.

An epoch reads each shard once, so the least recently used shard is the next to be read. Under a limit, the cache
therefore keeps the shards with the lowest names, which are hashes: the same part of a set in each epoch. It also keeps
the last used shards, as many as its processes read at a time. Each process that has a set open holds a lease:

    <cache>/recstore/sets/<id>.<limit>.open  locked by the processes that have the set <id> open with this limit; its
                                             content is the number of bytes that they read at a time
    <cache>/recstore/room                    a limit, and the bytes that may be added before the folder is listed again

Jobs with several limits may share a cache. A job evicts no shard of a set that is open with a greater limit, unless the
cache exceeds that limit too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from typing import NamedTuple

from recstore._core import native
from recstore.remote.cache import counters
from recstore.remote.set.names import LOCK, OPEN, PART, RECORDS

_LEASE = re.compile(r"([0-9a-f]{40})\.(none|[0-9]+)" + re.escape(OPEN))
_ROOM = "room"
MODES = 0o600, 0o660  # of the files that processes write, in a private cache and in that of a group
_UNLIMITED = 1 << 64
SMALL = 3  # filters and manifests of closed sets may take a part of 1 / 2**3 of the limit
_AHEAD = 6  # files may take a part of 1 / 2**6 of the limit before the folder is listed again


def open_locked(path: str, flags: int, how: int, mode: int) -> int | None:
    """A descriptor of a file of the cache, locked by flock until its last copy is closed. None if a sweep removed the
    file before it was locked."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, mode)
    with contextlib.suppress(PermissionError):  # another user of the group has made the file
        os.fchmod(fd, mode)
    fcntl.flock(fd, how)
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            return fd
    os.close(fd)
    return None


def unlink_unused(path: str, group: bool) -> bool:
    """Removes a file unless a process has locked it. Returns whether the file is gone."""
    try:
        return native.unlink_unused(path, group=group)
    except FileNotFoundError:
        return True  # another process has removed it
    except OSError:
        return False


class Lease:
    """Marks a set as open until this process and its forked children have closed it. Does nothing on a disk that is
    read-only or full, because a set that is in the cache can be read there."""

    fd: int | None = None

    def __init__(self, sets: str, set_id: str, limit: int | None, group: bool) -> None:
        self.group = group
        self.path = os.path.join(sets, f"{set_id}.{'none' if limit is None else limit}{OPEN}")
        self.open()

    def open(self) -> None:
        with contextlib.suppress(OSError):
            if self.fd is None:
                unlink_unused(self.path, self.group)  # the file of a killed process has its number of bytes
            while self.fd is None:
                fd = open_locked(self.path, 0, fcntl.LOCK_SH, MODES[self.group])
                if self.fd is None:
                    self.fd = fd
                elif fd is not None:  # another thread was faster
                    os.close(fd)

    def read_at_a_time(self, nbytes: int) -> None:
        """Records how many bytes the processes read at a time."""
        with contextlib.suppress(OSError):
            if self.fd is not None:
                os.pwrite(self.fd, b"%20d" % nbytes, 0)

    def close(self) -> None:
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)
            unlink_unused(self.path, self.group)

    def __del__(self) -> None:
        self.close()


class _Open(NamedTuple):
    """The open sets."""

    ids: set[str]
    at_a_time: int  # bytes that their processes read at a time
    limit: int  # the greatest limit
    others: set[str]  # the names of the shards of sets that are open with a greater limit than ours


class _File(NamedTuple):
    """A complete file. `used` is the time of its last use."""

    used: float
    name: str
    nbytes: int
    path: str


class Room:
    """Makes room in the folder of a cache, whose files have at most `limit` bytes in all. Not thread-safe: the caller
    holds a lock."""

    def __init__(self, folder: str, limit: int, group: bool) -> None:
        self.folder, self.limit, self.group = folder, limit, group
        self._shards: dict[str, set[str]] = {}  # the names of the shards of a set, by its id
        self.evicted: list[int] = []  # the sizes of the files that the last call of `make` evicted

    def make(self, needed: int) -> tuple[int, bool, list[tuple[str, int, int]]]:
        """Evicts files until `needed` more bytes fit. Returns the bytes still lacking, whether waiting may help, and
        the state of the files being written."""
        self.evicted = []
        left = self._left()
        if needed <= left:
            self._set_left(left - needed)
            return 0, False, []
        files, total, parts = self._scan()
        open_sets = self._open_sets()
        ours = total - sum(file.nbytes for file in files if file.name in open_sets.others)
        lacking, lacking_in_all = ours + needed - self.limit, total + needed - open_sets.limit
        may_change, ahead = bool(parts), self.limit >> _AHEAD
        for file, may_go_ahead in self._in_order(files, open_sets):
            is_ours = file.name not in open_sets.others
            enough = -ahead if may_go_ahead and needed <= ahead else 0
            if lacking_in_all > enough or is_ours and lacking > enough:
                removed = self._evict(file)
                may_change |= not removed
                lacking_in_all -= file.nbytes * removed
                lacking -= file.nbytes * removed * is_ours
        lacking = max(lacking, lacking_in_all)
        self._set_left(0 if open_sets.others else max(0, min(-lacking, ahead)))
        return lacking, may_change, parts

    def _in_order(self, files: list[_File], open_sets: _Open) -> list[tuple[_File, bool]]:
        """The files in the order of eviction, and whether they may go before the room is needed."""
        shards, small = [], []
        for file in sorted(files):
            if file.name.endswith(RECORDS):
                shards.append(file)
            elif file.name.partition(".")[0] not in open_sets.ids:
                small.append(file)
        excess = sum(file.nbytes for file in small) - (self.limit >> SMALL)
        n_small = n_recent = at_a_time = 0
        while excess > 0:
            excess -= small[n_small].nbytes
            n_small += 1
        while n_recent < len(shards) and at_a_time < max(1, open_sets.at_a_time):
            n_recent += 1
            at_a_time += shards[-n_recent].nbytes
        recent = len(shards) - n_recent
        kept = sorted(shards[:recent], key=lambda file: (file.name not in open_sets.others, file.name), reverse=True)
        first, last = small[:n_small] + kept, shards[recent:] + small[n_small:]
        return [(file, True) for file in first] + [(file, False) for file in last]

    def _open_sets(self) -> _Open:
        out = _Open(set(), 0, self.limit, set())
        for name in os.listdir(os.path.join(self.folder, "sets")):
            match = _LEASE.fullmatch(name)
            path = os.path.join(self.folder, "sets", name)
            try:
                if match is None or not native.is_leased(path):
                    continue
                with open(path, "rb") as file:
                    at_a_time = int(file.read() or b"0")
            except (OSError, ValueError):
                continue  # the set has just been opened or closed
            set_id, limit = match[1], _UNLIMITED if match[2] == "none" else int(match[2])
            others = out.others | (self._shards_of(set_id) if limit > self.limit else set())
            out = _Open(out.ids | {set_id}, out.at_a_time + at_a_time, max(out.limit, limit), others)
        return out

    def _shards_of(self, set_id: str) -> set[str]:
        """The names of the shards of a set, from its manifest in the cache; none if that is missing or damaged."""
        if set_id not in self._shards:
            try:
                with open(os.path.join(self.folder, "sets", f"{set_id}.json"), "rb") as file:
                    self._shards[set_id] = {hash_ + RECORDS for hash_ in json.load(file)["shards"]["hash"]}
            except (OSError, ValueError, KeyError, TypeError):
                return set()
        return self._shards[set_id]

    def _scan(self) -> tuple[list[_File], int, list[tuple[str, int, int]]]:
        """`(complete files, total bytes, state of the files being written)`. Removes the parts of killed processes."""
        now, files, total, parts = time.time(), [], 0, []
        for folder in (self.folder, os.path.join(self.folder, "sets")):
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith((LOCK, OPEN)) or entry.name in ("sets", _ROOM, counters.NAME):
                        continue
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if entry.name.endswith(PART) and unlink_unused(entry.path, self.group):
                        continue  # its process was killed
                    total += status.st_size
                    if entry.name.endswith(PART):
                        parts.append((entry.name, status.st_size, status.st_mtime_ns))
                        continue
                    # A time in the future comes from a wrong clock. Treat it as long ago.
                    used = status.st_atime if status.st_atime <= now + 60 else status.st_atime - 1e12
                    files.append(_File(used, entry.name, status.st_size, entry.path))
        return files, total, sorted(parts)

    def _evict(self, file: _File) -> bool:
        """Unlinks a file unless a process holds its lock. Returns whether the file is gone."""
        try:
            lock = native.Lock(file.path + LOCK, self.group)
        except OSError:  # another user of the group is making it
            return False
        try:
            if lock.state != native.HELD:
                return False
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                os.unlink(file.path)
                self.evicted.append(file.nbytes)
            return True
        finally:
            lock.close()

    # ---- The bytes that may be added before the folder is listed again ----

    def _left(self) -> int:
        try:
            with open(os.path.join(self.folder, _ROOM), "rb") as file:
                limit, left = map(int, file.read().split())
        except (OSError, ValueError):
            return 0
        return min(left, limit >> _AHEAD) if limit == self.limit else 0

    def _set_left(self, left: int) -> None:
        with contextlib.suppress(OSError):  # the disk is full: the new file raises the error
            fd = open_locked(os.path.join(self.folder, _ROOM), 0, fcntl.LOCK_SH, MODES[self.group])
            if fd is not None:
                os.pwrite(fd, b"%20d %20d" % (self.limit, left), 0)
                os.close(fd)
