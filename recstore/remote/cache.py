"""The cache of a machine: copies of shard files on its own disk, which its processes map.

    <cache>/recstore/<hash>.recs           a whole shard file, its hash checked, with mode 0400; its access time is that
                                           of its last use, its modification time the seal of the check
    <cache>/recstore/<hash>.keys           the filter of its keys
    <cache>/recstore/<name>.lock           the process that has locked it fetches, or removes, the file <name>
    <cache>/recstore/<name>.<random>.part  a file that is being fetched; the process that writes it has locked it
    <cache>/recstore/room.lock             the process that has locked it makes room
    <cache>/recstore/sets/<id>.json        a manifest; <id> is the hash of its URL, number and store. And <id>.lock

No server and no rank decides who fetches: the kernel does, which gives a lock to one process of the machine and frees
it when that process ends in any way. A file gets its name by a rename when it is whole, so that a process finds a whole
file or none. To make room, names are removed: a process that has mapped the file reads on, and one that finds it gone
fetches it again. What killed processes leave, locks and parts that nobody has locked, the next opening removes.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import time
from hashlib import blake2b

from recstore._core import native
from recstore.errors import CorruptError, OutOfSpaceError, SegmentNotFoundError
from recstore.remote import folders, names
from recstore.remote.names import RECORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recstore.remote.objects import AnyPath, Data, Limits

LOCK, PART = ".lock", ".part"
_FIRST_DELAY, _LAST_DELAY = 0.002, 0.2
_TRIES = 20  # of opening a file that other processes remove again and again, to make room
_PATIENCE = 60.0  # seconds for which nothing may happen while room is wanted
_FIRST_WORD, _NEXT_WORDS = 10.0, 60.0  # seconds of waiting after which that is logged


class Wait:
    """Waits, with growing pauses, for what another process does, and logs that now and then."""

    def __init__(self, what: str, does: str = "is fetching") -> None:
        self.what, self.does = what, does
        self.begin, self.next, self.delay = time.monotonic(), _FIRST_WORD, _FIRST_DELAY

    def pause(self) -> None:
        seconds = time.monotonic() - self.begin
        if seconds >= self.next:
            self.next += _NEXT_WORDS
            logging.getLogger("recstore").warning(
                "waiting for %s, which another process of this machine %s: %.0f s by now", self.what, self.does, seconds
            )
        time.sleep(self.delay)
        self.delay = min(2 * self.delay, _LAST_DELAY)


def seal(name: str, descriptor: int) -> int:
    """The modification time, in nanoseconds, of a file whose content was found to have the hash that its name promises.
    A write gives the file another time, a copy is another inode: such a file is hashed before it is read. It is a whole
    number of seconds, which every file system keeps, between 1980 and 2013."""
    told = blake2b(f"{name} {os.fstat(descriptor).st_ino}".encode(), digest_size=4)
    return (315_532_800 + 2 * (int.from_bytes(told.digest(), "little") >> 3)) * 10**9


class Cache:
    """The files of a cache. `limit` is the most bytes that they may have together; None for no limit. Holds no
    descriptors and no locks, so that it may cross a fork. Safe from several threads and processes.

    Raises as folders.made."""

    def __init__(self, path: AnyPath, limit: int | None = None) -> None:
        self.folder, self.limit = folders.made(path), limit
        self.path_given = os.path.dirname(self.folder)
        self.sets = os.path.join(self.folder, "sets")

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def lock(self, name: str) -> native.Lock:
        """The Lock on a file, tried once."""
        return native.Lock(self.path(name) + LOCK)

    def is_being_fetched(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            return native.is_leased(self.path(name) + LOCK)
        return False

    # ---- What is there ----

    def has(self, name: str, nbytes: int | None = None) -> bool:
        """Whether a whole file of this name, and of this size, is there. One that this user cannot have made so is
        removed."""
        path = self.path(name)
        try:
            status = os.lstat(path)
        except OSError:
            return False
        size_is_right = nbytes is None or status.st_size == nbytes
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1 and size_is_right:
            return True
        self.discard(name)
        return False

    def names(self) -> set[str]:
        """The names of all files that are there, whole or not, as a set."""
        return set(os.listdir(self.folder))

    def open(self, name: str, nbytes: int, limits: Limits, full: bool = False) -> native.Segment | None:
        """The Segment of a shard file; None where it is not there, or damaged: then it is removed. With `full` every
        byte of it is checked. Raises CorruptError and VersionError for a file that is what its name promises."""
        if not self.has(name, nbytes):
            return None
        path = self.path(name)
        try:
            segment = native.open_path(path, limits, follow_links=False)
            if full:
                segment.verify(limits)
        except SegmentNotFoundError:
            return None  # removed since, to make room
        except CorruptError:
            if self._is_intact(name):
                raise  # it was written so, or its records are beyond the limits of this reader
            self.discard(name)
            return None
        if os.fstat(segment.fileno()).st_mtime_ns != seal(name, segment.fileno()) and not self._is_intact(name):
            segment.close()
            self.discard(name)
            return None
        self.use(path)
        return segment

    def opened(
        self, name: str, nbytes: int, fetch: Callable[[str, int], object], limits: Limits = None, full: bool = False
    ) -> native.Segment:
        """As `open`, for a file that `fetch(name, nbytes)` brings here where it is not. OutOfSpaceError where others
        remove it each time."""
        for _ in range(_TRIES):
            segment = self.open(name, nbytes, limits, full)
            if segment is not None:
                return segment
            fetch(name, nbytes)
        raise self.removed_again(name)

    def removed_again(self, name: str) -> OutOfSpaceError:
        return OutOfSpaceError(
            errno.ENOSPC,
            f"other processes removed {name} from the cache {self.path_given!r} again and again, before it was opened: "
            "raise limit=",
        )

    def _is_intact(self, name: str) -> bool:
        """Whether the content of a shard file has the hash that its name promises. If so, the file is sealed."""
        try:
            with open(self.path(name), "rb") as file:
                if names.hash_of(file) != name.removesuffix(RECORDS):
                    return False
                os.utime(file.fileno(), ns=(time.time_ns(), seal(name, file.fileno())))
                return True
        except FileNotFoundError:
            return False

    def read(self, name: str, most: int | None = None) -> bytes | None:
        """The bytes of a filter or manifest; None where it is not there. One of more than `most` bytes is removed."""
        if not self.has(name):
            return None
        try:
            with open(self.path(name), "rb") as file:
                self.use(self.path(name))
                if most is None or os.fstat(file.fileno()).st_size <= most:
                    return file.read()
        except FileNotFoundError:  # removed since
            return None
        self.discard(name)
        return None

    @staticmethod
    def use(path: str) -> None:
        """Notes that a file is used now."""
        with contextlib.suppress(OSError):  # removed since, or on a disk that is read-only by now
            os.utime(path, ns=(time.time_ns(), os.stat(path).st_mtime_ns))

    def discard(self, name: str) -> None:
        try:
            os.unlink(self.path(name))
        except IsADirectoryError:
            raise PermissionError(
                errno.EPERM, "a folder is where the cache has a file: remove it", self.path(name)
            ) from None
        except FileNotFoundError:
            return

    # ---- Fetching ----

    def new_part(self, name: str, nbytes: int | None, most: int | None = None) -> Part:
        """A new Part, for which room was made. The caller holds the lock of the name. A file of a size that is not
        known, None, has at most `most` bytes."""
        if self.limit is None:
            return Part(self, name, nbytes, most)
        nbytes_known = nbytes or most or 0
        end, waits, before = time.monotonic() + _PATIENCE, nbytes_known <= self.limit, None
        wait = Wait(f"room in the cache {self.path_given!r}", "is using")
        while waits and time.monotonic() < end:
            with _held(self.path("room" + LOCK)):
                lacking, waits, parts = self._make_room(nbytes_known)
                if lacking <= 0:
                    return Part(self, name, nbytes, most)
            if parts != before:  # something comes
                before, end = parts, time.monotonic() + _PATIENCE
            wait.pause()  # other processes are fetching; what they have fetched can be removed
        raise OutOfSpaceError(
            errno.ENOSPC,
            f"{name} has {nbytes_known:,} bytes, and there is no room for it within limit={self.limit:,} of the cache "
            f"{self.path_given!r}: raise the limit",
        )

    def _make_room(self, needed: int) -> tuple[int, bool, list[tuple[str, int, int]]]:
        """Removes the files that were used longest ago, until `needed` bytes more are within the limit. Returns how
        many bytes are lacking still, whether that may change by itself, and the state of the files that are being
        written."""
        files, total, parts = self._used()
        waits = bool(parts)
        lacking = total + needed - (self.limit or 0)
        for _, size, path in files:
            if lacking <= 0:
                break
            removed = self._evict(path)
            lacking -= size * removed
            waits |= not removed
        return lacking, waits, parts

    def _used(self) -> tuple[list[tuple[float, int, str]], int, list[tuple[str, int, int]]]:
        """`([(time, bytes, path), ...] by last use, bytes of all files, the state of those that are being
        written)`."""
        now, files, total, parts = time.time(), [], 0, []
        for folder in (self.folder, self.sets):
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(LOCK) or entry.name == "sets":
                        continue
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if entry.name.endswith(PART) and self._unlink_unused(entry.path):
                        continue  # of a process that was killed
                    total += status.st_size
                    if entry.name.endswith(PART):
                        parts.append((entry.name, status.st_size, status.st_mtime_ns))
                        continue
                    # A time in the future was written by a wrong clock: it counts as long ago, or the file would stay.
                    used = status.st_atime if status.st_atime <= now + 60 else status.st_atime - 1e12
                    files.append((used, status.st_size, entry.path))
        return sorted(files), total, sorted(parts)

    def _evict(self, path: str) -> bool:
        """Removes the name of a file, unless a process holds its lock. Returns whether it did."""
        lock = None if os.path.dirname(path) == self.sets else native.Lock(path + LOCK)
        try:
            if lock is not None and lock.state != native.HELD:
                return False
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                os.unlink(path)
            return True
        finally:
            if lock is not None:
                lock.close()

    def sweep(self) -> set[str]:
        """Removes the parts and locks that processes left which were killed. Returns the names of the files that were
        there, as a set."""
        there = self.names()
        left = [self.path(name) for name in there if name.endswith((PART, LOCK))]
        left += [os.path.join(self.sets, name) for name in os.listdir(self.sets) if name.endswith((PART, LOCK))]
        for path in left:
            self._unlink_unused(path)
        return there

    @staticmethod
    def _unlink_unused(path: str) -> bool:
        """Removes a file that no process has locked. Returns whether it is gone."""
        try:
            return native.unlink_unused(path)
        except FileNotFoundError:
            return True  # another process has removed it
        except OSError:
            return False


class Part:
    """A file that is being written; a storage calls `write` alone. Its size is reserved at once, so that a full disk is
    noticed before anything is fetched; where it is not known, `most` may be. `close` removes the file unless `publish`
    gave it its name.

    Raises OutOfSpaceError."""

    def __init__(self, cache: Cache, name: str, nbytes: int | None, most: int | None = None) -> None:
        import fcntl

        self.cache, self.wanted, self.nbytes = cache, name, nbytes
        self.failure: CorruptError | OutOfSpaceError | None = None
        self.most = most if nbytes is None else nbytes
        while True:
            self.name = f"{cache.path(name)}.{os.urandom(6).hex()}{PART}"
            self.fd = os.open(self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            try:
                if os.path.samestat(os.fstat(self.fd), os.lstat(self.name)):
                    break
            except FileNotFoundError:
                pass  # a sweep has removed the file between the two calls: make another one
            os.close(self.fd)
        self.published = False
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
            os.ftruncate(self.fd, nbytes)  # a file system that reserves nothing

    def _full(self, error: OSError) -> OutOfSpaceError:
        return OutOfSpaceError(
            errno.ENOSPC,
            f"no room for the {self.nbytes or self.written:,} bytes of {self.wanted} in the cache "
            f"{self.cache.path_given!r} ({error.strerror}): free some, choose another disk for cache=, or "
            "set limit=, so that old shard files are removed",
        )

    def write(self, data: Data) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        at = self.written
        self.written += size
        if self.most is not None and self.written > self.most:
            # No byte more is read, and the disk does not fill.
            self.failure = CorruptError(
                f"it has {self.written:,} bytes or more in place of {self.most:,}", filename=self.wanted
            )
            raise OSError(errno.EFBIG, "more bytes than there should be", self.name)
        self.hash.update(left)
        try:
            while left:
                n = os.pwrite(self.fd, left, at)
                at, left = at + n, left[n:]
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            self.failure = full = self._full(error)  # storages have errors of their own for this one
            raise full from None
        return size

    def fault(self) -> str | None:
        """What is wrong with the bytes as a text; None for those that the name promises."""
        if self.nbytes is not None and self.written != self.nbytes:
            return f"it has {self.written:,} bytes in place of {self.nbytes:,}"
        if self.wanted.endswith(RECORDS) and self.hash.hexdigest() != self.wanted[: -len(RECORDS)]:
            return f"the hash of its content is {self.hash.hexdigest()}"
        return None

    def content(self) -> bytes:
        return os.pread(self.fd, self.written, 0)

    def publish(self) -> None:
        """Gives the file its name. The caller holds the lock of that name."""
        os.ftruncate(self.fd, self.written)
        os.fchmod(self.fd, 0o400)
        os.utime(self.fd, ns=(time.time_ns(), seal(self.wanted, self.fd)))
        os.rename(self.name, self.cache.path(self.wanted))
        self.published = True

    def close(self) -> None:
        if self.fd < 0:
            return
        if not self.published:
            with contextlib.suppress(FileNotFoundError):  # somebody has emptied the folder
                os.unlink(self.name)
        os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextlib.contextmanager
def _held(path: str) -> Iterator[None]:
    """Holds a lock that processes have for a moment only, unless they are stopped."""
    wait = Wait(path, "has locked")
    while True:
        lock = native.Lock(path)
        try:
            while lock.state == native.BUSY:
                wait.pause()
                lock.attempt()
            if lock.state == native.HELD:
                yield
                return
        finally:
            lock.close()
