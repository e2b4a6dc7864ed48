"""The directory backing: segments as files in a private folder, for systems without anonymous shared memory.

A file is named `<pid>-<start time>-<random>.rec`. Its owner unlinks it when it closes the segment or exits. If the
owner was killed, the file becomes an orphan, and the next build of the same user unlinks it. A file is an orphan if its
owner has ended and no process holds a shared `flock` on it. Every process that maps the file holds this lock until it
closes the descriptor. It never calls LOCK_UN, because in a forked child this would also release the parent's lock.
"""

from __future__ import annotations

import errno
import fcntl
import os

from recstore.shm import folders, process_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from recstore._core.native import Segment

    _BuilderT = TypeVar("_BuilderT")


def refuses_memory(error: OSError) -> bool:
    """Whether an OSError means that the system lacks anonymous shared memory or that a sandbox refuses it."""
    return error.errno in (errno.ENOSYS, errno.EPERM, errno.EACCES)


def new_builder(make: Callable[..., _BuilderT], **options: Any) -> _BuilderT:
    """A builder in anonymous memory; if the system refuses that, in a file in the private folder."""
    try:
        return make("anonymous", **options)
    except OSError as error:
        if not refuses_memory(error):
            raise
    return in_folder(make, **options)


def in_folder(make: Callable[..., _BuilderT], **options: Any) -> _BuilderT:
    """A builder in a file in the private folder."""
    folder = default()
    builder = make("directory", folder, new_name(), **options)
    collect(folder)  # not earlier: the builder checks that the folder belongs to this user
    return builder


def default() -> str:
    """The private folder: RECSTORE_DIR, else a folder of this user in the system's temporary folder."""
    chosen = os.environ.get("RECSTORE_DIR")
    if chosen:
        return folders.absolute(chosen)  # a later chdir must not change the path
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"recstore-{os.geteuid()}")


def new_name() -> str:
    """A unique file name that contains the process id and start time of its owner."""
    pid = os.getpid()
    return f"{pid}-{process_identity.start_time(pid) or 0}-{os.urandom(8).hex()}.rec"


def lease(segment: Segment) -> None:
    """Takes a lease on a mapped segment. It lasts until the descriptor is closed."""
    try:
        fcntl.flock(segment.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # A collector locks the file exclusively for a moment, to test it.
        fcntl.flock(segment.fileno(), fcntl.LOCK_SH)


def builder_is_gone(name: str) -> bool:
    """Whether a file name has the form of `new_name` and the process that it names has ended."""
    parts = name.removesuffix(".rec").split("-")
    if not name.endswith(".rec") or len(parts) != 3 or not all(p.isascii() and p.isdigit() for p in parts[:2]):
        return False
    return process_identity.start_time(int(parts[0])) != int(parts[1])


def collect(folder: str) -> int:
    """Unlinks the orphans of this user in a folder and returns their number."""
    removed = 0
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    for name in names:
        if not builder_is_gone(name):
            continue
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status, current = os.fstat(fd), os.stat(path, follow_symlinks=False)
            if status.st_uid == os.geteuid() and (status.st_dev, status.st_ino) == (current.st_dev, current.st_ino):
                os.unlink(path)
                removed += 1
        except OSError:
            continue  # another process has a lease on the file, or has removed it
        finally:
            os.close(fd)
    return removed
