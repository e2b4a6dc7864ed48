"""The checks of `recstore doctor` about processes: descriptors, start methods, torch, logins, and files left behind."""

from __future__ import annotations

import os

from recstore.cli.doctor_findings import ok, problem, warning
from recstore.cli.text import reason
from recstore.text import counted, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.cli.doctor_findings import Finding
    from recstore.cli.system import System

_FEW, _PLENTY = 1024, 4096
_LOGIND = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd")
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "afs", "pvfs2")


def address_space(system: System) -> Finding:
    """`ulimit -v`: a process needs address space for the whole of each store, file or library that it maps."""
    used, soft, hard = system.address_space
    values = {"used": used, "soft": soft, "hard": hard}
    if soft is None or used is None:
        return ok("no limit" if soft is None else "unknown: this system does not report it", **values)
    left = max(0, soft - soft // 20 - used)
    use = f"ulimit -v allows {size_text(soft)}; {size_text(used)} are mapped"
    if hard is None:
        mend = "ulimit -v unlimited"
    elif hard > soft:
        mend = f"ulimit -v {hard // 1024}"
    else:
        mend = "raise `as` in /etc/security/limits.d and log in again, or take the limit out of the job's script"
    if left == 0:
        return problem(f"{use}: builds keep 5% free and will raise OutOfSpaceError", mend, **values)
    why = f"{use}. A store may take {size_text(left)}, because each process maps it as a whole"
    return warning(why, mend, **values)


def open_files(system: System) -> Finding:
    """`ulimit -n`: a store takes a descriptor in each process, and torch one for each tensor in transit."""
    soft, hard = system.file_limit
    values = {"soft": soft, "hard": hard}
    if soft is None:
        return ok("no limit", **values)
    limit = f"ulimit -n is {soft:,}"
    better = 65536 if hard is None else min(hard, 65536)
    if better > soft:
        mend = f"ulimit -n {better}"
    else:
        mend = {
            "container": "docker run --ulimit nofile=65536 ...",
            "kubernetes": "raise LimitNOFILE of the node's container runtime",
        }.get(
            system.place(), "echo '* - nofile 65536' | sudo tee /etc/security/limits.d/nofile.conf   (and log in again)"
        )
    if soft < _FEW:
        return problem(
            f"{limit}: a store takes one descriptor per process, but imports and workers take hundreds", mend, **values
        )
    if soft < _PLENTY and system.torch_sharing == "file_descriptor":
        why = 'torch sends each tensor of a batch by a descriptor, and may fail with "Too many open files"'
        return warning(f"{limit}: {why}", mend, **values)
    return ok(f"{limit}; a store takes one in each process", **values)


def start_method(system: System) -> Finding:
    """The default start method of multiprocessing and of DataLoader."""
    method, version = system.start_method, ".".join(map(str, system.version))
    handles = (
        "a worker imports the main module again and receives each store as a handle of a few hundred bytes. Put code"
        ' that builds below if __name__ == "__main__", or every worker builds too'
    )
    why = {
        "fork": (
            "workers inherit every store, nothing is sent; but a lock that another thread (CUDA, OpenMP, logging) holds"
            " at that moment stays locked in the worker. Python 3.14 defaults to forkserver"
        ),
        "spawn": handles,
        "forkserver": handles,
    }.get(method, "unknown to recstore")
    return ok(f"{method}, the default of Python {version} here: {why}", method=method, python=version)


def torch_sharing(system: System) -> Finding:
    """torch's strategy for passing tensors between processes."""
    strategy = system.torch_sharing
    if strategy is None:
        return ok("not installed", strategy=None)
    if not strategy:
        mend = "python -c 'import torch.multiprocessing'"
        return warning("is installed but cannot be imported", mend, strategy=strategy)
    why = f"sends batches by the {strategy} strategy"
    if strategy == "file_system" and system.linux:
        why += ": its files in /dev/shm stay when workers are killed"
        mend = 'torch.multiprocessing.set_sharing_strategy("file_descriptor")'
        return warning(why, mend, strategy=strategy)
    if strategy == "file_descriptor":
        why += ": one descriptor for each tensor in transit, and nothing is left behind"
    return ok(why, strategy=strategy)


# ---- RemoveIPC ----


def remove_ipc(system: System) -> Finding:
    """Whether the login manager deletes named stores when their user logs out."""
    if not system.linux or not system.exists("/run/systemd/system"):
        return ok("systemd does not run here: a logout deletes nothing from /dev/shm", removes=False)
    setting, file = logind_setting(system, "RemoveIPC")
    values = {"setting": setting, "file": file, "removes": False}
    if (setting or "yes").lower() not in ("1", "yes", "y", "true", "t", "on"):
        return ok(f"{setting}, by {file}: named stores stay when their user logs out", **values)
    state = f"yes, by {file}" if file else "yes, by default"
    if system.uid <= _last_system_user(system):
        return ok(f"{state}, but not for root and other system users", **values)
    if system.contained():
        return ok(f"{state}, for logins inside this container only", **values)
    user = system.user_name
    if system.exists(f"/var/lib/systemd/linger/{user}"):
        return ok(f"{state}, but {user} lingers: logging out deletes nothing", **values)
    why = (
        f"{state}: when the last session of {user} ends, logind deletes this user's files in /dev/shm, including named"
        " stores of running jobs, and later processes do not find them"
    )
    return warning(why, f"sudo loginctl enable-linger {user}", **{**values, "removes": True})


def logind_setting(system: System, key: str) -> tuple[str | None, str | None]:
    """`(value, file)` of a setting in logind.conf and its drop-ins, as systemd reads them; `(None, None)` if no file
    sets it."""
    main = next((path for path in (f"{folder}/logind.conf" for folder in _LOGIND) if system.exists(path)), None)
    dropins: dict[str, str] = {}
    for folder in reversed(_LOGIND):  # a file hides files of the same name in later folders
        below = f"{folder}/logind.conf.d"
        dropins.update((name, f"{below}/{name}") for name in system.names(below) if name.endswith(".conf"))
    value, where = None, None
    for path in ([main] if main else []) + [dropins[name] for name in sorted(dropins)]:
        section = ""
        for line in (system.read(path) or "").splitlines():
            line = line.strip()
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            left, equals, right = line.partition("=")
            if section == "Login" and equals and left.strip() == key:
                value, where = right.strip() or None, path
    return (value, where) if value else (None, None)


def _last_system_user(system: System) -> int:
    for line in (system.read("/etc/login.defs") or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "SYS_UID_MAX" and words[1].isdecimal():
            return int(words[1])
    return 999


# ---- Files left behind ----


def left_behind(folder: str | None) -> list[tuple[str, int]]:
    """`(path, bytes)` of this user's files that no process uses and that are not kept, in the folder of named segments
    and in the private folder."""
    from recstore import names
    from recstore.shm import file_backing, named_segments

    place = named_segments.folder(folder)
    paths = {info.path for info in names.list(dir=folder) if info.state in ("orphan", "damaged")}
    for name in os.listdir(place):
        # Builders' locks, and segments that were not yet published.
        if not named_segments.is_segment(name) and named_segments.is_segment(name[:-4]):
            paths.add(os.path.join(place, name))
    private = file_backing.default()
    try:
        paths.update(os.path.join(private, name) for name in os.listdir(private) if file_backing.builder_is_gone(name))
    except OSError:
        pass  # most systems never need this folder
    sizes = ((path, unused_bytes(path)) for path in sorted(paths))
    return [(path, size) for path, size in sizes if size is not None]


def unused_bytes(path: str) -> int | None:
    """The bytes that a file takes; None if it is locked, missing or another user's."""
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(fd)
        return status.st_blocks * 512 if status.st_uid == os.geteuid() else None
    except OSError:
        return None
    finally:
        os.close(fd)


def named_folder(system: System, folder: str | None) -> Finding:
    """The file system that holds named stores."""
    from recstore.shm import named_segments

    try:
        place = named_segments.folder(folder)
        os.listdir(place)
    except OSError as error:
        return problem(f"cannot use their folder: {reason(error)}", "unset RECSTORE_DIR   (or name another folder)")
    mount = system.mount_of(os.path.realpath(place))
    kind = mount.kind if mount else ""
    values = {"folder": place, "kind": kind or None}
    if kind in _NETWORK or kind.startswith("fuse"):
        why = "other machines may see them too, and locks may not work across machines"
        mend = "export RECSTORE_DIR=/dev/shm   (or a local disk)"
        return warning(f"are in {place}, which is {kind}: {why}", mend, **values)
    where = "in memory" if kind in ("tmpfs", "ramfs") else f"files of {kind}" if kind else "files"
    return ok(f"are in {place}, {where}", **values)


def orphans(folder: str | None = None) -> Finding:
    """The number and size of files left behind."""
    try:
        files = left_behind(folder)
    except OSError as error:
        return warning(f"unknown: {reason(error)}", "")
    total = sum(size for _, size in files)
    places = sorted({os.path.dirname(path) for path, _ in files})
    values = {"count": len(files), "bytes": total, "folders": places}
    if not files:
        return ok("every file of this user's stores and caches is in use or kept", **values)
    why = (
        f"no process uses {counted(len(files), 'file')} of this user's stores and caches, "
        f"{size_text(total)}, in {' and '.join(places)}: killed processes left them, and the next build removes them"
    )
    return warning(why, "recstore gc" + (f" --dir {folder}" if folder else ""), **values)


def caches(folder: str | None = None) -> Finding:
    """The caches of this user."""
    from recstore import names

    try:
        infos = [info for info in names.list(dir=folder) if info.kind == "cache"]
    except OSError as error:
        return warning(f"unknown: {reason(error)}", "")
    values = {"count": len(infos), "bytes": sum(info.nbytes for info in infos)}
    parts = [
        f"{info.name!r} ({counted(info.records or 0, 'value')}, {size_text(info.nbytes)}, {info.state})"
        for info in infos
    ]
    return ok(", ".join(parts) or "this user has none", **values)


CHECKS = {
    "address space": address_space,
    "open files": open_files,
    "start method": start_method,
    "torch": torch_sharing,
    "RemoveIPC": remove_ipc,
}
