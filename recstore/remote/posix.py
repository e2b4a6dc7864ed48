"""Objects as files of a folder: a local disk, or a file system that several machines mount, such as Lustre or NFS.

An object is written to a temporary file in the folder, flushed to the disk, and then renamed, or linked where the name
must be free: of two processes that link one name the kernel, or the server of a mounted file system, lets one succeed.
No lock is taken, because locks of shared file systems cannot be relied on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat

from recstore.building.saving import is_temporary, temporary_beside
from recstore.errors import Error, OutOfSpaceError, RemoteError, SegmentNotFoundError
from recstore.remote.objects import Storage, absent, append

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO, TypeVar

    from recstore.remote.objects import Data, File, Listed, Source

    _T = TypeVar("_T")

_PIECE = 1 << 20


class PosixStorage(Storage):
    """The files of a folder, which is made when the first object is written."""

    local = True

    def __init__(self, folder: str) -> None:
        super().__init__(os.path.abspath(folder))

    def path(self, name: str) -> str:
        self.of(name)
        return os.path.join(self.url, name)

    def read_into(self, name: str, file: File) -> int:
        copied = 0
        with _errors(self.path(name), "read"), open(self.path(name), "rb", opener=_without_waiting) as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                where = self.path(name)
                raise RemoteError(f"cannot read {where}: it is a pipe or a device, not a file", url=where)
            while piece := source.read(_PIECE):
                append(file, piece)
                copied += len(piece)
        return copied

    def new_file(self, make: Callable[[], _T]) -> _T:
        """Makes the folder, and returns what `make` does, which makes a file in it. Its OSErrors become those of a
        Storage."""
        with _errors(self.url, "write"):
            os.makedirs(self.url, exist_ok=True)
            return make()

    def write(self, name: str, source: Source) -> None:
        with _errors(self.path(name), "write"):
            self._publish(source, lambda temporary: os.replace(temporary, self.path(name)))

    def adopt(self, name: str, path: str) -> None:
        """Makes a file of this folder an object, by renaming it."""
        with _errors(self.path(name), "write"):
            with open(path, "rb") as file:
                self._seal(file)
            os.replace(path, self.path(name))
            self._flush()

    def create(self, name: str, data: Data) -> bool:
        with _errors(self.path(name), "write"):
            return self._publish(data, lambda temporary: self._link(temporary, self.path(name)))

    def _publish(self, source: Source, finish: Callable[[str], _T]) -> _T:
        """Writes a temporary file and calls `finish` with its path; removes it after an error."""
        os.makedirs(self.url, exist_ok=True)
        temporary = temporary_beside(os.path.join(self.url, "x"))
        try:
            with open(temporary, "xb") as file:
                if isinstance(source, (bytes, bytearray, memoryview)):
                    file.write(source)
                else:
                    with open(source, "rb") as given:
                        shutil.copyfileobj(given, file, _PIECE)
                file.flush()
                self._seal(file)
            done = finish(temporary)
            self._flush()
            return done
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

    @staticmethod
    def _seal(file: BinaryIO) -> None:
        """Nobody writes to an object again; the umask says who reads it. gc goes by the time of the last write."""
        os.fchmod(file.fileno(), os.stat(file.fileno()).st_mode & 0o555)
        os.utime(file.fileno())
        os.fsync(file.fileno())

    @staticmethod
    def _link(temporary: str, path: str) -> bool:
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A server of NFS may have made the link and its answer been lost: open(2) says to look at the count.
            return os.stat(temporary).st_nlink == 2
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            raise RemoteError(
                f"{path} needs a hard link, by which one of two writers wins, and this file system makes none: choose "
                "a folder of another one, or an object store",
                url=path,
            ) from error
        return True

    def _flush(self) -> None:
        """Makes new names last on the disk. Some file systems have no such call for folders."""
        folder = os.open(self.url, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
                raise
        finally:
            os.close(folder)

    def list(self, prefix: str = "") -> Iterator[Listed]:
        return self._files(lambda name: name.startswith(prefix) and not name.startswith("."))

    def leftovers(self) -> Iterator[Listed]:
        return self._files(is_temporary)

    def _files(self, wanted: Callable[[str], bool]) -> Iterator[Listed]:
        try:
            with _errors(self.url, "list"), os.scandir(self.url) as entries:
                found = [entry for entry in entries if wanted(entry.name)]
        except SegmentNotFoundError:
            return
        for entry in found:
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield entry.name, status.st_size, status.st_mtime

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            path = os.path.join(self.url, name) if is_temporary(name) else self.path(name)
            with contextlib.suppress(SegmentNotFoundError), _errors(path, "remove"):
                os.unlink(path)

    def size(self, name: str) -> int | None:
        with contextlib.suppress(SegmentNotFoundError), _errors(self.path(name), "look at"):
            return os.stat(self.path(name)).st_size
        return None


def _without_waiting(path: str, flags: int) -> int:
    """As open(2), which would wait for a writer where the path is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


@contextlib.contextmanager
def _errors(path: str, what: str) -> Iterator[None]:
    """Turns an OSError about a file into the errors of Storage."""
    try:
        yield
    except Error:
        raise
    except FileNotFoundError:
        raise absent(path) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room, or choose another folder"
            raise OutOfSpaceError(errno.ENOSPC, f"no room to {what} it: {remedy}", path) from None
        remedy = "look at the folder and its mount"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = "ask for the right to do so, or choose another folder"
        raise RemoteError(f"cannot {what} {path}: {error.strerror or error}; {remedy}", url=path) from error
