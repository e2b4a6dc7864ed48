"""The checks of `recstore doctor` about processes: descriptors, start methods, torch, logins, and files that were left
behind."""

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
    """`ulimit -v`: each process that maps a store, a file or a library needs room for the whole of it."""
    used, soft, hard = system.address_space
    values = {"used": used, "soft": soft, "hard": hard}
    if soft is None or used is None:
        return ok("no limit" if soft is None else "unknown: this system does not tell", **values)
    left = max(0, soft - soft // 20 - used)
    said = f"ulimit -v allows {size_text(soft)}, of which {size_text(used)} are mapped"
    if hard is None:
        mend = "ulimit -v unlimited"
    elif hard > soft:
        mend = f"ulimit -v {hard // 1024}"
    else:
        mend = "raise `as` in /etc/security/limits.d and log in again, or take the limit out of the job's script"
    if left == 0:
        return problem(f"{said}: builds keep 5% free and will raise OutOfSpaceError", mend, **values)
    why = f"{said}. A store may take {size_text(left)}, because each process maps the whole of it"
    return warning(why, mend, **values)


def open_files(system: System) -> Finding:
    """`ulimit -n`: a store takes a descriptor in each process, torch one for each tensor on its way."""
    soft, hard = system.file_limit
    values = {"soft": soft, "hard": hard}
    if soft is None:
        return ok("no limit", **values)
    said = f"ulimit -n is {soft:,}"
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
            f"{said}: a store takes one descriptor in each process, imports and workers take hundreds", mend, **values
        )
    if soft < _PLENTY and system.torch_sharing == "file_descriptor":
        why = 'torch sends each tensor of a batch by a descriptor, and fails with "Too many open files"'
        return warning(f"{said}: {why}", mend, **values)
    return ok(f"{said}; a store takes one in each process", **values)


def start_method(system: System) -> Finding:
    """The default of multiprocessing, and so of DataLoader."""
    method, version = system.start_method, ".".join(map(str, system.version))
    below = 'what builds must stand below if __name__ == "__main__", or every worker builds too'
    why = {
        "fork": (
            "workers inherit every store, nothing is sent; but what other threads hold locked at that moment (CUDA,"
            " OpenMP, logging) stays locked in them. Python 3.14 starts them by forkserver"
        ),
        "spawn": (
            "a worker imports the main module again and receives each store as a handle of some hundred bytes: " + below
        ),
        "forkserver": (
            "a worker receives each store as a handle of some hundred bytes, and the main module is imported again: "
            + below
        ),
    }.get(method, "unknown to recstore")
    return ok(f"{method}, the default of Python {version} here: {why}", method=method, python=version)


def torch_sharing(system: System) -> Finding:
    """Which of torch's strategies passes tensors between processes."""
    strategy = system.torch_sharing
    if strategy is None:
        return ok("not installed", strategy=None)
    if not strategy:
        mend = "python -c 'import torch.multiprocessing'"
        return warning("is installed and cannot be imported", mend, strategy=strategy)
    said = f"sends batches by the {strategy} strategy"
    if strategy == "file_system" and system.linux:
        why = f"{said}: files in /dev/shm that stay there when its workers are killed"
        mend = 'torch.multiprocessing.set_sharing_strategy("file_descriptor")'
        return warning(why, mend, strategy=strategy)
    if strategy == "file_descriptor":
        said += ": one descriptor for each tensor on its way, nothing left behind"
    return ok(said, strategy=strategy)


# ---- RemoveIPC ----


def remove_ipc(system: System) -> Finding:
    """Whether the login manager deletes named stores when their user logs out."""
    if not system.linux or not system.exists("/run/systemd/system"):
        return ok("no systemd runs here: nobody deletes from /dev/shm at logout", removes=False)
    setting, file = logind_setting(system, "RemoveIPC")
    values = {"setting": setting, "file": file, "removes": False}
    if (setting or "yes").lower() not in ("1", "yes", "y", "true", "t", "on"):
        return ok(f"{setting}, by {file}: named stores stay when their user logs out", **values)
    said = f"yes, by {file}" if file else "yes, by default"
    if system.uid <= _last_system_user(system):
        return ok(f"{said}, but not for root and other system users", **values)
    if system.contained():
        return ok(f"{said}, for logins inside this container only", **values)
    user = system.user_name
    if system.exists(f"/var/lib/systemd/linger/{user}"):
        return ok(f"{said}, but {user} lingers: logging out deletes nothing", **values)
    why = (
        f"{said}: when the last session of {user} ends, logind deletes this user's files in /dev/shm, named stores of"
        " running jobs too, and later processes do not find them"
    )
    return warning(why, f"sudo loginctl enable-linger {user}", **{**values, "removes": True})


def logind_setting(system: System, key: str) -> tuple[str | None, str | None]:
    """`(value, file)` of a setting of logind.conf and its drop-ins, as systemd reads them; `(None, None)` where none
    has it."""
    main = next((path for path in (f"{folder}/logind.conf" for folder in _LOGIND) if system.exists(path)), None)
    dropins: dict[str, str] = {}
    for folder in reversed(_LOGIND):  # of files of one name, the one in the earlier folder counts
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


# ---- What was left behind ----


def left_behind(folder: str | None) -> list[tuple[str, int]]:
    """`(path, bytes)` of this user's files that no process uses and that are not kept, in the folder of named segments
    and in the private one."""
    from recstore import names
    from recstore.shm import file_backing, named_segments

    place = named_segments.folder(folder)
    gone = {info.path for info in names.list(dir=folder) if info.state in ("orphan", "damaged")}
    for name in os.listdir(place):
        # Locks of builders, and segments on their way.
        if not named_segments.is_segment(name) and named_segments.is_segment(name[:-4]):
            gone.add(os.path.join(place, name))
    private = file_backing.default()
    try:
        gone.update(os.path.join(private, name) for name in os.listdir(private) if file_backing.builder_is_gone(name))
    except OSError:
        pass  # never made, as on most systems
    sizes = ((path, unused_bytes(path)) for path in sorted(gone))
    return [(path, size) for path, size in sizes if size is not None]


def unused_bytes(path: str) -> int | None:
    """The bytes that a file of this user takes which no process has locked; None for any other."""
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
    """Which file system holds named stores."""
    from recstore.shm import named_segments

    try:
        place = named_segments.folder(folder)
        os.listdir(place)
    except OSError as error:
        return problem(f"their folder cannot be used: {reason(error)}", "unset RECSTORE_DIR   (or name another folder)")
    mount = system.mount_of(os.path.realpath(place))
    kind = mount.kind if mount else ""
    values = {"folder": place, "kind": kind or None}
    if kind in _NETWORK or kind.startswith("fuse"):
        why = "other machines may see them too, and locks may not hold between machines"
        mend = "export RECSTORE_DIR=/dev/shm   (or a local disk)"
        return warning(f"are in {place}, which is {kind}: {why}", mend, **values)
    where = "in memory" if kind in ("tmpfs", "ramfs") else f"files of {kind}" if kind else "files"
    return ok(f"are in {place}, {where}", **values)


def orphans(folder: str | None = None) -> Finding:
    """The number and size of files that were left behind."""
    try:
        found = left_behind(folder)
    except OSError as error:
        return warning(f"unknown: {reason(error)}", "")
    size = sum(one for _, one in found)
    places = sorted({os.path.dirname(path) for path, _ in found})
    values = {"count": len(found), "bytes": size, "folders": places}
    if not found:
        return ok("no file of this user's stores is left without a process", **values)
    why = (
        f"{counted(len(found), 'file')} of this user's stores, {size_text(size)}, which no process uses, in "
        f"{' and '.join(places)}: killed processes left them, and the next build removes them"
    )
    return warning(why, "recstore gc" + (f" --dir {folder}" if folder else ""), **values)


CHECKS = {
    "address space": address_space,
    "open files": open_files,
    "start method": start_method,
    "torch": torch_sharing,
    "RemoveIPC": remove_ipc,
}
