"""Objects as files of a folder, on a local disk or on a shared file system such as Lustre or NFS.

An object is written to a temporary file in the folder and flushed to the disk. Then it is renamed or, if it must not
replace anything, linked: the kernel or the file server lets only one process link a name. No locks are used, because
they are unreliable on shared file systems.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat

from recstore.building.saving import is_temporary, temporary_beside
from recstore.errors import Error, OutOfSpaceError, RemoteError, SegmentNotFoundError
from recstore.remote.places.storage import Storage, absent, append

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO, TypeVar

    from recstore.remote.places.storage import Data, File, Listed, Source

    _T = TypeVar("_T")

_PIECE = 1 << 20


class PosixStorage(Storage):
    """The files of a folder. The first write creates the folder."""

    local = True

    def __init__(self, folder: str) -> None:
        super().__init__(os.path.abspath(folder))

    def path(self, name: str) -> str:
        self.of(name)
        return os.path.join(self.url, name)

    def read_into(self, name: str, file: File) -> int:
        copied = 0
        path = self.path(name)
        # O_NONBLOCK, because opening a pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with _errors(path, "read"), open(path, "rb", opener=lambda path, _: os.open(path, flags)) as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise RemoteError(f"cannot read {path}: it is a pipe or a device, not a file", url=path)
            while piece := source.read(_PIECE):
                append(file, piece)
                copied += len(piece)
        return copied

    def read_range(self, name: str, begin: int, size: int) -> bytes:
        path = self.path(name)
        with _errors(path, "read"), open(path, "rb") as file:
            file.seek(begin)
            return file.read(size)

    def new_file(self, make: Callable[[], _T]) -> _T:
        """Creates the folder and returns `make()`, which creates a file in it. Raises the errors of Storage."""
        with _errors(self.url, "write"):
            os.makedirs(self.url, exist_ok=True)
            return make()

    def write(self, name: str, source: Source) -> None:
        with _errors(self.path(name), "write"):
            self._publish(source, lambda temporary: os.replace(temporary, self.path(name)))

    def adopt(self, name: str, path: str) -> None:
        """Turns a file of this folder into an object, by a rename."""
        with _errors(self.path(name), "write"):
            with open(path, "rb") as file:
                self._seal(file)
            os.replace(path, self.path(name))
            self._flush()

    def create(self, name: str, data: Data) -> bool:
        with _errors(self.path(name), "write"):
            return self._publish(data, lambda temporary: self._link(temporary, self.path(name)))

    def _publish(self, source: Source, finish: Callable[[str], _T]) -> _T:
        """Writes a temporary file and returns `finish(path)`. Removes the file if `finish` has left it at that path."""
        os.makedirs(self.url, exist_ok=True)
        temporary = temporary_beside(os.path.join(self.url, "x"))
        try:
            with open(temporary, "xb") as file:
                if isinstance(source, (bytes, bytearray, memoryview)):
                    file.write(source)
                else:
                    with open(source, "rb") as local:
                        shutil.copyfileobj(local, file, _PIECE)
                file.flush()
                self._seal(file)
            result = finish(temporary)
            self._flush()
            return result
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

    @staticmethod
    def _seal(file: BinaryIO) -> None:
        """Makes a file read-only, sets its modification time for gc, and flushes it. The umask decides who can read
        it."""
        os.fchmod(file.fileno(), os.stat(file.fileno()).st_mode & 0o555)
        os.utime(file.fileno())
        os.fsync(file.fileno())

    @staticmethod
    def _link(temporary: str, path: str) -> bool:
        try:
            os.link(temporary, path)
        except FileExistsError:
            # An NFS server may create the link and lose the answer. open(2) says to check the link count.
            return os.stat(temporary).st_nlink == 2
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            raise RemoteError(
                f"{path} needs a hard link, to let only one writer win, and this file system does not support them: "
                "choose a folder on another file system, or an object store",
                url=path,
            ) from error
        return True

    def _flush(self) -> None:
        """Flushes the entries of the folder to the disk, if the file system supports it."""
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

    def _files(self, matches: Callable[[str], bool]) -> Iterator[Listed]:
        try:
            with _errors(self.url, "list"), os.scandir(self.url) as entries:
                matching = [entry for entry in entries if matches(entry.name)]
        except SegmentNotFoundError:
            return
        for entry in matching:
            try:
                with _errors(entry.path, "list"):
                    status = entry.stat(follow_symlinks=False)
            except SegmentNotFoundError:  # another process removed it
                continue
            if stat.S_ISREG(status.st_mode):
                yield entry.name, status.st_size, status.st_mtime, ""

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            path = os.path.join(self.url, name) if is_temporary(name) else self.path(name)
            with contextlib.suppress(SegmentNotFoundError), _errors(path, "remove"):
                os.unlink(path)

    def size(self, name: str) -> int | None:
        with contextlib.suppress(SegmentNotFoundError), _errors(self.path(name), "look at"):
            return os.stat(self.path(name)).st_size
        return None


@contextlib.contextmanager
def _errors(path: str, verb: str) -> Iterator[None]:
    """Turns an OSError about a file into an error of Storage."""
    try:
        yield
    except Error:
        raise
    except FileNotFoundError:
        raise absent(path) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room, or choose another folder"
            raise OutOfSpaceError(errno.ENOSPC, f"no room to {verb} it: {remedy}", path) from None
        remedy = "check the folder and its mount"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = "ask for permission, or choose another folder"
        raise RemoteError(f"cannot {verb} {path}: {error.strerror or error}; {remedy}", url=path) from error
