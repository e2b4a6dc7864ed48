"""The folder of a cache. It must be local to the machine, and private to the user or to a group of users.

The cache relies on kernel locks, atomic renames and mappings that survive an unlink. Network and cluster file systems
do not guarantee all three, so they are refused. The kind of file system comes from /proc/self/mountinfo. Without
/proc, as on macOS, any file system is accepted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from recstore.shm.folders import absolute, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.remote.places.storage import AnyPath

_SHARED = (
    "9p afs beegfs ceph cifs coda davfs fhgfs fuse glusterfs gpfs gfs2 lustre mmfs ncpfs nfs nfs4 ocfs2 orangefs "
    "panfs pvfs2 smb2 smb3 smbfs virtiofs vboxsf wekafs"
).split()  # and all names that begin with "fuse."
_WRITTEN_BY_GROUP = stat.S_ISGID | stat.S_IWGRP
_FOR_GROUP = _WRITTEN_BY_GROUP | stat.S_IWOTH


def create(path: AnyPath) -> tuple[str, bool]:
    """The subfolder `recstore` of `path`, after creating it if needed and checking it, and whether it is for a group of
    users. It is created for the group of `path` if that has the modes that `chmod g+ws` sets.

    Raises ValueError for a URL and for a network file system; PermissionError if another user can access the folder;
    NotADirectoryError; OSError.
    """
    outer = absolute(path)
    os.makedirs(outer, mode=0o700, exist_ok=True)
    status = os.stat(outer)
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise PermissionError(
            errno.EPERM, "every user can write to the cache folder: choose a folder of your own for cache=", outer
        )
    inner, group = os.path.join(outer, "recstore"), status.st_mode & _FOR_GROUP == _WRITTEN_BY_GROUP
    if group:
        _make_for_group(inner, status.st_gid)
    for folder in (inner, os.path.join(inner, "sets")):
        with contextlib.suppress(FileExistsError):
            make(folder)
        made = os.lstat(folder)
        group = group and (made.st_gid, made.st_mode) == (status.st_gid, stat.S_IFDIR | 0o2770)
        if not group:
            check_ours(folder)
    kind = file_system(inner)
    if kind in _SHARED or kind.startswith("fuse."):
        raise ValueError(
            f"cache={outer!r} is on {kind}, a file system of several machines with unreliable locks: choose a folder "
            "on a local disk of this machine, such as an NVMe; files on a mounted folder need no cache"
        )
    return inner, group


def _make_for_group(inner: str, group_id: int) -> None:
    """Makes the folder of a group's cache, unless it exists. It is complete before it has its name, because another
    process may look at it at any time."""
    if os.path.lexists(inner):
        return
    temporary = f"{inner}.{os.urandom(6).hex()}"
    folders = temporary, os.path.join(temporary, "sets")
    for folder in folders:
        make(folder)
        os.chown(folder, -1, group_id)
        os.chmod(folder, 0o2770)
    try:
        os.rename(temporary, inner)
    except OSError:  # another process was faster
        for folder in reversed(folders):
            os.rmdir(folder)


def check_ours(folder: str) -> None:
    """Raises PermissionError or NotADirectoryError unless `folder` is a folder that only this user can access."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "the path of the cache is not a folder, or is a link to one", folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(
            errno.EPERM,
            "the cache folder must belong to you and have mode 0700, or mode 2770 in a folder of its group with mode "
            "2770: choose another folder for cache=, such as one with your name",
            folder,
        )


def file_system(folder: str) -> str:
    """The Linux name of a folder's file system, such as "ext4"; "" if unknown."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
                info = file.read()
        finally:
            os.close(descriptor)
        with open("/proc/self/mountinfo", "rb") as file:
            return kind_of_mount(info, file.read())
    except (OSError, ValueError, IndexError):
        return ""


def kind_of_mount(info: bytes, mounts: bytes) -> str:
    """The kind of file system that the text of mountinfo has for the mount id in the text of fdinfo; "" without one.

    >>> kind_of_mount(b"pos: 0\\nmnt_id: 27\\n", b"27 1 8:1 / /data rw shared:1 - nfs4 host:/x rw\\n")
    'nfs4'
    """
    number = next((line.split()[1] for line in info.splitlines() if line.startswith(b"mnt_id:")), None)
    for line in mounts.splitlines():
        before, _, after = line.partition(b" - ")
        if before.split(b" ", 1)[0] == number:
            return after.split(b" ", 1)[0].decode("ascii", "replace").lower()
    return ""
