"""The shard cache of a machine: copies of shard files on its local disk, mapped by its processes.

    <cache>/recstore/<hash>.recs           a whole shard file, mode 0400; the access time is its last use, the
                                           modification time is the seal of the check of its hash in this boot
    <cache>/recstore/<hash>.keys           the filter of its keys
    <cache>/recstore/<name>.lock           locked by the process that fetches or removes the file <name>
    <cache>/recstore/<name>.<random>.part  a file being fetched, locked by the process that writes it
    <cache>/recstore/room.lock             locked by the process that makes room
    <cache>/recstore/sets/<id>.json        a manifest, and <id>.lock; <id> is a hash of its URL, number and store; the
                                           modification time is a hash of the properties that the store lists
    <cache>/recstore/room, sets/*.open     see cache_room.py
    <cache>/recstore/counters              see counters.py

The kernel elects the process that fetches: it gives the lock to one process on the machine, and frees the lock however
that process ends. A rename publishes each file, so readers see a whole file or none. Eviction only unlinks: a process
that has mapped the file can still read it, and a process that finds it missing fetches it again. Killed processes leave
lock files and parts that nobody locks, and the next opening of a set removes them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import time
from hashlib import blake2b

from recstore._core import native
from recstore.errors import CorruptError, OutOfSpaceError, VersionError
from recstore.remote.cache import cache_folder, cache_room, counters
from recstore.remote.places.storage import FIRST_LOG, LOG_INTERVAL
from recstore.remote.set import names
from recstore.remote.set.names import LOCK, OPEN, PART, RECORDS
from recstore.shm.process_identity import boot_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recstore.remote.places.storage import AnyPath, Data, Limits

_FIRST_DELAY, _LAST_DELAY = 0.002, 0.2
_TRIES = 20  # attempts to open a file that other processes keep evicting
_ROOM_WAIT = 60.0  # seconds to wait for room without any progress


class Wait:
    """Waits for another process with growing pauses, and logs the wait now and then."""

    def __init__(self, target: str, activity: str = "is fetching") -> None:
        self.target, self.activity = target, activity
        self.begin, self.next, self.delay = time.monotonic(), FIRST_LOG, _FIRST_DELAY

    def pause(self) -> None:
        seconds = time.monotonic() - self.begin
        if seconds >= self.next:
            self.next += LOG_INTERVAL
            logging.getLogger("recstore").warning(
                "waiting for %s, which another process on this machine %s: %.0f s so far",
                self.target,
                self.activity,
                seconds,
            )
        time.sleep(self.delay)
        self.delay = min(2 * self.delay, _LAST_DELAY)


def seal(name: str, descriptor: int) -> int:
    """The modification time, in nanoseconds, that marks a file whose content was compared with the hash in its name. A
    write changes the time, a copy changes the inode, and a crash of the machine, which may lose pages that the disk has
    confirmed, changes the boot id. Such a file is hashed again before use."""
    return time_of(f"{name} {os.fstat(descriptor).st_ino} {boot_id().hex()}")


def time_of(text: str) -> int:
    """A time in nanoseconds that stands for a text: an even second from 1980 to 2014, which every file system can
    store."""
    digest = blake2b(text.encode(), digest_size=4).digest()
    return (315_532_800 + 2 * (int.from_bytes(digest, "little") >> 3)) * 10**9


class Cache:
    """The files of a cache. `limit` is their maximum total size in bytes; None for no limit. Holds no descriptors and
    no locks, so it works across a fork. Safe from several threads and processes.

    Raises the errors of cache_folder.create."""

    def __init__(self, path: AnyPath, limit: int | None = None) -> None:
        self.folder, self.group = cache_folder.create(path)
        self.limit = limit
        self.user_path = os.path.dirname(self.folder)
        self.sets = os.path.join(self.folder, "sets")
        self.room = None if limit is None else cache_room.Room(self.folder, limit, self.group)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def lock(self, name: str, where: str = "") -> native.Lock:
        """The lock of a missing file of the object or set `where`, after one attempt to take it. Raises OSError in a
        read-only folder."""
        for _ in range(_TRIES if self.group else 1):
            try:
                return native.Lock(self.path(name) + LOCK, self.group)
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES):
                    raise
                refusal = error.errno
            time.sleep(_FIRST_DELAY)  # another user of the group may have created the file, and not set its mode yet
        raise OSError(
            refusal,
            f"the cache {self.user_path!r} is read-only and lacks a file of {where or name}: open a version that "
            "it has in full, such as URL@3, or give cache= another folder",
        )

    def is_being_fetched(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            return native.is_leased(self.path(name) + LOCK)
        return False

    def count(self, **amounts: int) -> None:
        """Adds to the counters of the cache, unless the disk is read-only or full."""
        with contextlib.suppress(OSError):
            fd = cache_room.open_locked(self.path(counters.NAME), 0, fcntl.LOCK_EX, cache_room.MODES[self.group])
            if fd is not None:
                try:
                    counters.add(fd, amounts)
                finally:
                    fcntl.flock(fd, fcntl.LOCK_UN)  # a process forked by another thread may have a copy of `fd`
                    os.close(fd)

    @contextlib.contextmanager
    def waiting(self, counter: str) -> Iterator[None]:
        """Counts the time that the body takes, in nanoseconds."""
        begin = time.monotonic_ns()
        try:
            yield
        finally:
            self.count(**{counter: time.monotonic_ns() - begin})

    # ---- Contents ----

    def has(self, name: str, nbytes: int | None = None) -> bool:
        """Whether the cache has a whole file with this name and size. Removes a file of another size, or one that
        recstore cannot have written for this user."""
        path = self.path(name)
        try:
            status = os.lstat(path)
        except OSError:
            return False
        size_is_right = nbytes is None or status.st_size == nbytes
        is_ours = self.group or status.st_uid == os.geteuid()
        if stat.S_ISREG(status.st_mode) and is_ours and status.st_nlink == 1 and size_is_right:
            return True
        self.discard(name)
        return False

    def names(self) -> set[str]:
        """The names of all files in the cache, complete or not."""
        return set(os.listdir(self.folder))

    def open(self, name: str, nbytes: int, limits: Limits, full: bool = False) -> native.Segment | None:
        """The Segment of a shard file. None if the file is missing, or damaged and therefore removed. `full` checks
        every byte. Raises CorruptError and VersionError for a bad file whose content matches its hash."""
        if not self.has(name, nbytes):
            return None
        path = self.path(name)
        try:
            with open(path, "rb") as file:  # another process may replace the file
                try:
                    segment = native.open_path(path, limits, follow_links=False)
                    if full:
                        segment.verify(limits)
                except (CorruptError, VersionError):
                    if self._is_intact(name, file.fileno()):
                        raise  # it was written this way, or its records exceed this reader's limits
                    self.discard(name)
                    return None
        except FileNotFoundError:
            return None  # evicted since
        if not self._is_checked(name, segment.fileno()):
            segment.close()
            self.discard(name)
            return None
        self.use(name)
        return segment

    def open_segment(
        self, name: str, nbytes: int, fetch: Callable[[str, int], object], limits: Limits = None, full: bool = False
    ) -> native.Segment:
        """Like `open`, but calls `fetch(name, nbytes)` for a missing file. Raises OutOfSpaceError if other processes
        evict the file each time."""
        for turn in range(_TRIES):
            segment = self.open(name, nbytes, limits, full)
            if segment is not None:
                if turn == 0:
                    self.count(hits=1)
                return segment
            fetch(name, nbytes)
        raise self.keeps_evicting(name)

    def keeps_evicting(self, name: str) -> OutOfSpaceError:
        return OutOfSpaceError(
            errno.ENOSPC,
            f"other processes keep evicting {name} from the cache {self.user_path!r} before it is opened: raise limit=",
        )

    def _is_checked(self, name: str, fd: int) -> bool:
        """Whether a shard file, open as `fd`, has a seal or gets one now. One process at a time hashes it."""
        if os.fstat(fd).st_mtime_ns == seal(name, fd):
            return True
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # the folder is read-only
                stack.enter_context(self._locked(name))
            return os.fstat(fd).st_mtime_ns == seal(name, fd) or self._is_intact(name, fd)

    def _is_intact(self, name: str, fd: int) -> bool:
        """Whether the content of a shard file, open as `fd`, matches the hash in its name. If so, seals the file."""
        with open(fd, "rb", closefd=False) as file:
            if names.hash_of(file) != name.removesuffix(RECORDS):
                return False
        # On a read-only disk, and for a file of another user of the group, the next opening hashes the file again.
        with contextlib.suppress(OSError):
            os.utime(fd, ns=(time.time_ns(), seal(name, fd)))
        return True

    def read(self, name: str, max_bytes: int | None = None, modified: int | None = None) -> bytes | None:
        """The bytes of a filter or manifest. None if it is missing, or has another modification time (nanoseconds) than
        `modified`, or was removed because it was too large."""
        if not self.has(name):
            return None
        try:
            with open(self.path(name), "rb") as file:
                self.use(name)
                status = os.fstat(file.fileno())
                if modified not in (None, status.st_mtime_ns):
                    return None
                if max_bytes is None or status.st_size <= max_bytes:
                    return file.read()
        except FileNotFoundError:  # evicted since
            return None
        self.discard(name)
        return None

    def use(self, name: str) -> None:
        """Sets the last use of a file to now."""
        path = self.path(name)
        with contextlib.suppress(OSError):  # evicted since, or the disk has become read-only
            os.utime(path, ns=(time.time_ns(), os.stat(path).st_mtime_ns))

    def discard(self, name: str) -> None:
        try:
            os.unlink(self.path(name))
        except IsADirectoryError:
            raise PermissionError(
                errno.EPERM, "a folder has the name of a file of the cache: remove it", self.path(name)
            ) from None
        except FileNotFoundError:
            return

    # ---- Fetching ----

    def new_part(self, name: str, nbytes: int | None, max_bytes: int | None = None, patience: float = 0.0) -> Part:
        """Makes room for a new Part and returns it. For a shard file or filter, the caller holds the lock of the name.
        If `nbytes` is None, `max_bytes` is the maximum size. `patience` is the time in seconds for which other
        downloads may wait for the store. Raises OutOfSpaceError."""
        if self.room is None:
            return Part(self, name, nbytes, max_bytes)
        needed = nbytes or max_bytes or 0
        patience += _ROOM_WAIT
        end, may_change, before = time.monotonic() + patience, needed <= self.room.limit, None
        wait = Wait(f"room in the cache {self.user_path!r}", "is using")
        while may_change and time.monotonic() < end:
            with self._locked("room"):
                lacking, may_change, parts = self.room.make(needed)
                if self.room.evicted:
                    self.count(evictions=len(self.room.evicted), evicted_bytes=sum(self.room.evicted))
                if lacking <= 0:
                    return Part(self, name, nbytes, max_bytes)
            if parts != before:  # other downloads make progress
                before, end = parts, time.monotonic() + patience
            with self.waiting("room_ns"):
                wait.pause()  # the files that other processes are fetching can be evicted when they are complete
        raise OutOfSpaceError(
            errno.ENOSPC,
            f"{name} has {needed:,} bytes, which do not fit within limit={self.room.limit:,} of the cache "
            f"{self.user_path!r}: raise the limit",
        )

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Holds the lock of a file, after waiting for the process that has it."""
        wait = Wait(self.path(name) + LOCK, "has locked")
        while True:
            lock = self.lock(name)
            try:
                while lock.state == native.BUSY:
                    wait.pause()
                    lock.attempt()
                if lock.state == native.HELD:
                    yield
                    return
            finally:
                lock.close()

    def sweep(self) -> set[str]:
        """Removes the parts, locks and leases of killed processes. Returns the names of all files before the sweep."""
        names_before = self.names()
        for folder, files in ((self.folder, names_before), (self.sets, os.listdir(self.sets))):
            for name in files:
                if name.endswith((PART, LOCK, OPEN)):
                    cache_room.unlink_unused(os.path.join(folder, name), self.group)
        return names_before


class Part:
    """A file of the cache being written. A storage only calls `write`. A known size is reserved at once, so a full disk
    shows before the download. Otherwise the limit is `max_bytes`, if not None. `close` removes a file that `publish`
    has not renamed.

    Raises OutOfSpaceError."""

    def __init__(self, cache: Cache, name: str, nbytes: int | None, max_bytes: int | None = None) -> None:
        self.cache, self.final_name, self.nbytes = cache, name, nbytes
        self.failure: CorruptError | OutOfSpaceError | None = None
        self.max_bytes = max_bytes if nbytes is None else nbytes
        fd = None
        while fd is None:
            self.name = f"{cache.path(name)}.{os.urandom(6).hex()}{PART}"
            fd = cache_room.open_locked(self.name, os.O_EXCL, fcntl.LOCK_EX, cache_room.MODES[cache.group])
        self.fd, self.published = fd, False
        try:
            self.hash, self.written = names.new_hash(), 0
            if nbytes:
                self._reserve(nbytes)
        except BaseException:
            self.close()
            raise

    def _reserve(self, nbytes: int) -> None:
        try:
            os.posix_fallocate(self.fd, 0, nbytes)
        except AttributeError:
            os.ftruncate(self.fd, nbytes)  # macOS
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise self._full(error) from None
            os.ftruncate(self.fd, nbytes)  # the file system cannot reserve space

    def _full(self, error: OSError) -> OutOfSpaceError:
        return OutOfSpaceError(
            errno.ENOSPC,
            f"no room for the {self.nbytes or self.written:,} bytes of {self.final_name} in the cache "
            f"{self.cache.user_path!r} ({error.strerror}): free some, choose another disk for cache=, or "
            "set limit= to evict old shard files",
        )

    def write(self, data: Data) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        at = self.written
        self.written += size
        if self.max_bytes is not None and self.written > self.max_bytes:
            self.failure = CorruptError(
                f"it has {self.written:,} bytes or more instead of {self.max_bytes:,}", filename=self.final_name
            )
            raise OSError(errno.EFBIG, "more bytes than expected", self.name)
        self.hash.update(left)
        try:
            while left:
                n = os.pwrite(self.fd, left, at)
                at, left = at + n, left[n:]
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            self.failure = full = self._full(error)  # storages turn the raised error into their own
            raise full from None
        return size

    def fault(self) -> str | None:
        """Describes the first mismatch between the bytes and the expected size and hash; None if they match."""
        if self.nbytes is not None and self.written != self.nbytes:
            return f"it has {self.written:,} bytes instead of {self.nbytes:,}"
        if self.final_name.endswith(RECORDS) and self.hash.hexdigest() != self.final_name[: -len(RECORDS)]:
            return f"the hash of its content is {self.hash.hexdigest()}"
        return None

    def content(self) -> bytes:
        return os.pread(self.fd, self.written, 0)

    def publish(self, modified: int | None = None) -> None:
        """Renames the file to its final name, with a modification time in nanoseconds, by default the seal. The caller
        still holds the lock, as in `Cache.new_part`."""
        os.ftruncate(self.fd, self.written)
        os.fchmod(self.fd, cache_room.MODES[self.cache.group] & 0o440)
        os.utime(self.fd, ns=(time.time_ns(), seal(self.final_name, self.fd) if modified is None else modified))
        os.fsync(self.fd)  # or a crash could leave the new name, the seal and no content
        # A process that lists the folder for room during the rename could see neither name, and exceed the limit.
        with contextlib.nullcontext() if self.cache.room is None else self.cache._locked("room"):
            os.rename(self.name, self.cache.path(self.final_name))
        self.published = True

    def close(self) -> None:
        if self.fd < 0:
            return
        if not self.published:
            with contextlib.suppress(FileNotFoundError):  # another process emptied the folder
                os.unlink(self.name)
        os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
