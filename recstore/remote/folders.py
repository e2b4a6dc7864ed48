"""The folder of a cache: whether it is one of this machine alone and of this user alone.

The cache relies on locks of the kernel, on renaming, and on mappings that outlive the removal of a name. File systems
that a server or other machines take part in do not keep all three, so they are refused. Linux tells the kind of a
folder's file system in /proc/self/mountinfo. Systems without /proc, such as macOS, tell it only through calls that
Python lacks: there the folder is taken as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from recstore.shm.folders import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.remote.objects import AnyPath

_SHARED = (
    "9p afs beegfs ceph cifs coda davfs fhgfs fuse glusterfs gpfs gfs2 lustre mmfs ncpfs nfs nfs4 ocfs2 orangefs "
    "panfs pvfs2 smb2 smb3 smbfs virtiofs vboxsf wekafs"
).split()  # and all that begin with "fuse."


def made(path: AnyPath) -> str:
    """The folder `recstore` in the folder `path`, checked, and made where it is missing.

    Raises ValueError for a folder on a file system of several machines; PermissionError for one that another user could
    change; NotADirectoryError; OSError.
    """
    outer = os.path.abspath(os.fsdecode(path))
    os.makedirs(outer, mode=0o700, exist_ok=True)
    status = os.stat(outer)
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise PermissionError(
            errno.EPERM, "every user may write to the folder of the cache: choose one of your own for cache=", outer
        )
    inner = os.path.join(outer, "recstore")
    for folder in (inner, os.path.join(inner, "sets")):
        with contextlib.suppress(FileExistsError):  # checked below, whoever made it
            make(folder)
        check_ours(folder)
    kind = file_system(inner)
    if kind in _SHARED or kind.startswith("fuse."):
        raise ValueError(
            f"cache={outer!r} is on {kind}, a file system of several machines, whose locks cannot be relied on: choose "
            "a folder of a disk of this machine, such as a local NVMe; what lies there can be opened where it lies"
        )
    return inner


def check_ours(folder: str) -> None:
    """PermissionError, or NotADirectoryError, unless it is a folder that only this user can read and change."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "the folder of the cache is not a folder, or is a link to one", folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(
            errno.EPERM,
            "the folder of the cache must be yours, with mode 0700: choose another one for cache=, such as one that "
            "has your name",
            folder,
        )


def file_system(folder: str) -> str:
    """The kind of the file system of a folder, as Linux names it; "" where that cannot be found out."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with open(f"/proc/self/fdinfo/{opened}", "rb") as file:
                info = file.read()
        finally:
            os.close(opened)
        with open("/proc/self/mountinfo", "rb") as file:
            return kind_of_mount(info, file.read())
    except (OSError, ValueError, IndexError):
        return ""


def kind_of_mount(info: bytes, mounts: bytes) -> str:
    """The kind in the text of a mountinfo, of the mount that the text of an fdinfo names; "" if there is none.

    >>> kind_of_mount(b"pos: 0\\nmnt_id: 27\\n", b"27 1 8:1 / /data rw shared:1 - nfs4 host:/x rw\\n")
    'nfs4'
    """
    number = next(line.split()[1] for line in info.splitlines() if line.startswith(b"mnt_id:"))
    for line in mounts.splitlines():
        before, _, after = line.partition(b" - ")
        if before.split(b" ", 1)[0] == number:
            return after.split(b" ", 1)[0].decode("ascii", "replace").lower()
    return ""
