"""The checks of `recstore doctor` about memory: /dev/shm, limits, swap, charged cgroups, huge pages."""

from __future__ import annotations

import re

from recstore.cli.doctor_findings import ok, problem, warning
from recstore.shm import folders
from recstore.text import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore.cli.doctor_findings import Finding
    from recstore.cli.system import System
    from recstore.monitor.cgroup import Level

_SHM = folders.SHARED
_MIB = 1 << 20
_GIB = 1 << 30
# Docker, Podman and Kubernetes give 64 MiB by default; a batch of images in each of four workers takes more.
_TINY, _SMALL = 128 * _MIB, _GIB
_HUGE = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
_NO_SHM = "named stores become files in a private folder, and torch's workers cannot send batches"
_MUST_FIT = "Named stores and the batches of torch's workers must fit in it"
_FULL = "builds keep 5% free and will raise OutOfSpaceError"


def shared_memory(system: System) -> Finding:
    """Size and use of /dev/shm."""
    if not system.linux:
        return ok("this system does not have it: named stores are files in a private folder (RECSTORE_DIR changes it)")
    space = system.space(_SHM)
    if space is None:
        mend = "sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm"
        return problem(f"does not exist: {_NO_SHM}", mend)
    values = {"size": space.size, "free": space.free, "used": space.size - space.free, "writable": space.writable}
    if not space.writable:
        mend = "sudo mount -o remount,rw /dev/shm" if space.read_only else "sudo chmod 1777 /dev/shm"
        return problem(f"is not writable: {_NO_SHM}", mend, **values)
    mount = system.mount_of(_SHM)
    if mount is not None and mount.kind not in ("tmpfs", "ramfs"):
        why = f"is {mount.kind}, not memory: named stores and torch's batches are written to a disk"
        return warning(why, "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm", **values, kind=mount.kind)
    if not space.size:
        return ok("has no limit of its own; the memory limits below apply", **values)
    use = f"{size_text(space.free)} free of {size_text(space.size)}"
    if space.size < _TINY:
        why = "the default of a container" if space.size == 64 * _MIB else "too little"
        return problem(f"{use}: {why}. {_MUST_FIT}; stores without a name need not", _grow(system), **values)
    if space.free < space.size // 20:
        why = "full. recstore gc removes stores left behind, ls -l /dev/shm shows the rest"
        return problem(f"{use}: {why}", _grow(system), **values)
    if space.size < _SMALL or space.free < space.size // 5:
        return warning(f"{use}: little. {_MUST_FIT}", _grow(system), **values)
    return ok(f"{use}; a page takes memory when it is first written", **values)


def _grow(system: System) -> str:
    size = max(1, system.meminfo().get("MemTotal", 0) // 2 // _GIB)
    return {
        "container": f"docker run --shm-size={size}g ...",
        "kubernetes": f"mount a volume at /dev/shm: emptyDir: {{medium: Memory, sizeLimit: {size}Gi}}",
        "slurm": f"ask the administrator for: mount -o remount,size={size}G /dev/shm",
        "host": f"sudo mount -o remount,size={size}G /dev/shm",
    }[system.place()]


def private(system: System) -> Finding:
    """Whether other jobs on this machine see the same /dev/shm."""
    place = system.place()
    if not system.linux:
        return ok("the whole machine: all jobs of this user find the same named stores")
    mount, first = system.mount_of(_SHM), system.mount_of(_SHM, 1)
    if mount is None:
        return ok("unknown: /proc/self/mountinfo cannot be read", private=None)
    values = {"place": place, "device": mount.device}
    own = first is not None and first.device != mount.device
    if system.contained():
        if mount.source == "shm":  # the name that container runtimes give to the /dev/shm of a container or a pod
            group, mend = "container", "docker run --ipc=host ...   (to share with the machine)"
            if place == "kubernetes":
                group, mend = "pod", ""
            why = f"this {group} alone: other jobs do not find its named stores, and they end with it"
            return ok(why, mend, **values, private=True)
        if own:
            why = "this job alone: its /dev/shm is not the container's; named stores end with the job"
            return ok(why, **values, private=True)
        why = "this container and all others with the same /dev/shm, which comes from outside"
        return ok(why, **values, private=None)
    if first is None:
        why = (
            "unknown: only root may see the /dev/shm of process 1. A scheduler that gives each job its own /dev/shm "
            "hides named stores from other jobs"
        )
        mend = "sudo grep ' /dev/shm ' /proc/1/mountinfo   (shared if the numbers equal those in /proc/self/mountinfo)"
        return ok(why, mend, **values, private=None)
    if own:
        why = "this job alone: other jobs do not find its named stores, and they end with it"
        return ok(why, **values, private=True)
    return ok("the whole machine: all jobs of this user find the same named stores", **values, private=False)


def memory(system: System) -> Finding:
    """The machine's available memory."""
    info = system.meminfo()
    total, free = info.get("MemTotal"), info.get("MemAvailable")
    if not total or free is None:
        return ok("unknown: this system does not report free memory")
    values = {"total": total, "available": free, "shared": info.get("Shmem")}
    use = f"{size_text(free)} of {size_text(total)} are available"
    mend = "ps aux --sort=-rss | head"
    if free < total // 20:
        return problem(f"{use}: {_FULL}", mend, **values)
    if free < total * 3 // 20:
        return warning(f"{use}: little", mend, **values)
    shared = f"; {size_text(info['Shmem'])} are shared pages of all programs" if "Shmem" in info else ""
    return ok(use + shared, **values)


def limit(system: System) -> Finding:
    """The memory cgroups of this process and their ancestors."""
    levels = system.cgroups()
    left, by = system.headroom()
    cgroups = [{**vars(level), "left": level.left} for level in levels]
    values = {"headroom": left, "headroom_limit": by, "cgroups": cgroups}
    if not system.linux:
        return ok("this system has no cgroups", **values)
    room = "" if left is None else f". A store may take {size_text(left)} now ({by}; 5% stay free)"
    bound = min((level for level in levels if level.left is not None), key=lambda level: level.left or 0, default=None)
    if bound is not None and bound.left is not None and bound.limit is not None:
        mend = _raise_limit(system, bound, bound.limit)
        kills = max(level.kills or 0 for level in levels)
        if bound.left == 0:
            return problem(f"{_used(bound)}: {_FULL}", mend, **values)
        if kills:
            why = f"and the kernel has killed processes for it (oom_kill {kills}): workers vanish without a traceback"
            return warning(f"{_used(bound)}, {why}{room}", mend, **values)
        if bound.left < bound.limit // 10:
            return warning(f"{_used(bound)}: almost full{room}", mend, **values)
    for level in levels:
        if level.high is not None and level.used is not None and level.used > level.high * 9 // 10:
            why = f"is near memory.high ({size_text(level.high)}); above it the kernel slows processes down"
            mend = _raise_limit(system, level, level.limit or level.high)
            return warning(f"memory cgroup {level.name} {why}{room}", mend, **values)
    use = f"none of {len(levels)} memory cgroups has a limit" if bound is None else _used(bound)
    return ok(use + room, **values)


def _used(level: Level) -> str:
    return f"memory cgroup {level.name} has used {size_text(level.used)} of {size_text(level.limit)}"


def _raise_limit(system: System, level: Level, now: int) -> str:
    size = max(1, 2 * now // _GIB)
    place, unit = system.place(), level.name.rpartition("/")[2]
    if place == "host" and unit.endswith((".scope", ".service", ".slice")):
        return f"sudo systemctl set-property {unit} MemoryMax={size}G"
    file = level.limit_file.rpartition("/")[2]
    return {
        "container": f"docker run --memory={size}g ...",
        "kubernetes": f"kubectl set resources ... --limits=memory={size}Gi",
        "slurm": f"sbatch --mem={size}G ...",
        "host": f"set {file} of the cgroup {level.name} to {size}G, as root",
    }[place]


def swap(system: System) -> Finding:
    """The use of swap. The kernel may swap out pages of stores like any other pages."""
    info = system.meminfo()
    total, free = info.get("SwapTotal"), info.get("SwapFree")
    if total is None or free is None:
        return ok("unknown: this system does not report it")
    barred = any(level.swap == 0 for level in system.cgroups())
    values = {"total": total, "free": free, "barred_by_cgroup": barred}
    if not total or barred:
        why = "none" if not total else "not for this process, by its cgroup"
        return ok(f"{why}: stores stay in memory; a process that passes a limit fails or is killed at once", **values)
    use = f"{size_text(total - free)} of {size_text(total)} are used"
    if free < total // 2:
        why = f"{use}: pages of stores may be among them, and reading them waits for a disk"
        return warning(why, "sudo swapoff -a && sudo swapon -a   (when memory is free again)", **values)
    return ok(f"{use}; the kernel may swap out pages of stores that nobody reads", **values)


def payer(system: System) -> Finding:
    """The cgroup that is charged for the pages of a store."""
    if not system.linux:
        return ok("nobody: this system does not charge groups of processes")
    own = system.own_cgroup()
    if own is None:
        return ok("nobody: this process is not in a memory cgroup", cgroup=None)
    why = (
        f"the builder: each page is charged once, to the cgroup that first writes it, here {own}; readers in other"
        " cgroups pay nothing. The charge ends with the store, or passes to the parent when the builder's cgroup is"
        " removed"
    )
    mend = {
        "slurm": "sbatch --mem must hold the whole store in the job that builds it",
        "kubernetes": "the memory limit of the container that builds must hold the whole store",
    }.get(system.place(), "")
    return ok(why, mend, cgroup=own)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:2])


def huge_pages(system: System) -> Finding:
    """Whether stores get pages of 2 MiB."""
    words = (system.read(_HUGE) or "").split()  # the current setting is in brackets
    setting = next((word[1:-1] for word in words if word.startswith("[") and word.endswith("]")), None)
    mount = system.mount_of(_SHM) if system.linux else None
    by_mount = None
    if mount:
        by_mount = next((option[5:] for option in mount.options if option.startswith("huge=")), "never")
    values = {"shmem_enabled": setting, "dev_shm": by_mount}
    mend = f"echo within_size | sudo tee {_HUGE}"
    if setting is None:
        return ok("unknown or none for shared memory: stores have pages of 4 KiB", **values)
    if setting in ("force", "deny"):
        why = f"shmem_enabled is {setting}, which is for testing: it overrides the mount option of /dev/shm"
        return warning(why, f"echo advise | sudo tee {_HUGE}", **values)
    if setting == "always":
        why = "always, for stores without a name: each takes whole pages of 2 MiB, so a small store costs 2 MiB"
        return warning(f"{why} (on /dev/shm: {by_mount})", mend, **values)
    if setting == "within_size":
        why = "random reads of large stores miss the TLB less often"
        return ok(f"within_size, for stores without a name (on /dev/shm: {by_mount}): {why}", **values)
    if _version(system.read("/proc/sys/kernel/osrelease") or "") >= (6, 1):
        why = (
            "recstore itself makes pages of 2 MiB of a large store in memory: random reads take about 0.6 of the time. "
            "A saved file has pages of 4 KiB: recstore.open(path, copy=True) copies it into memory"
        )
        return ok(f"{setting} (on /dev/shm: {by_mount}): {why}", **values)
    why = "pages of 4 KiB, before Linux 6.1. Random reads of large stores take about 0.6 of the time with larger pages"
    mend += "   (and: mount -o remount,huge=within_size /dev/shm)"
    return ok(f"{setting} (on /dev/shm: {by_mount}): {why}", mend, **values)


CHECKS = {
    "/dev/shm": shared_memory,
    "shared with": private,
    "memory": memory,
    "memory limit": limit,
    "swap": swap,
    "who pays": payer,
    "huge pages": huge_pages,
}
