"""The directory backing: segments as files in a private directory, for systems without anonymous shared memory.

A file is named `<pid>-<start time>-<random>.rec`. Its owner unlinks it on close and at exit; after a SIGKILL the next
build of the same user does: a file whose process is gone and on which nobody holds a shared `flock` is an orphan.
Everybody who maps one holds that lock for life; it ends with the descriptor, never by LOCK_UN, which would drop a
parent's from a forked child.
"""

import os

from recstore.shm import process_identity


def default():
    """RECSTORE_DIR, else a folder of this user's under the system's temporary one."""
    chosen = os.environ.get("RECSTORE_DIR")
    if chosen:
        return os.path.abspath(chosen)  # the file is to be found again after a chdir
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"recstore-{os.geteuid()}")


def new_name():
    """A file name that nobody else takes and that tells its owner."""
    pid = os.getpid()
    return f"{pid}-{process_identity.start_time(pid) or 0}-{os.urandom(8).hex()}.rec"


def lease(segment):
    """Marks a mapped segment as in use for as long as its descriptor lives."""
    import fcntl

    try:
        fcntl.flock(segment.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # A collector holds it for the instant in which it looks; that it finds us dead is impossible while we are not.
        fcntl.flock(segment.fileno(), fcntl.LOCK_SH)


def builder_is_gone(name):
    """Whether a file name is of this scheme and its process has ended."""
    parts = name.removesuffix(".rec").split("-")
    if not name.endswith(".rec") or len(parts) != 3 or not all(p.isascii() and p.isdigit() for p in parts[:2]):
        return False
    return process_identity.start_time(int(parts[0])) != int(parts[1])


def collect(folder):
    """Unlinks orphans; returns how many. Never touches a file that is not of this scheme and this user."""
    import fcntl

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
            ours, there = os.fstat(fd), os.stat(path, follow_symlinks=False)
            if ours.st_uid == os.geteuid() and (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino):
                os.unlink(path)
                removed += 1
        except OSError:
            continue  # leased by somebody, or gone meanwhile
        finally:
            os.close(fd)
    return removed
