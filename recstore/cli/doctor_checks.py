"""The checks of `recstore doctor` about memory: /dev/shm, limits, swap, charged cgroups, huge pages."""

from recstore.cli.doctor_findings import Finding
from recstore.shm import folders
from recstore.text import size_text

_SHM = folders.SHARED
_MIB = 1 << 20
_GIB = 1 << 30
# Docker, Podman and Kubernetes give 64 MiB unless asked: a batch of images in each of four workers is more.
_TINY, _SMALL = 128 * _MIB, _GIB
_HUGE = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"


def shared_memory(system):
    """Size and use of /dev/shm."""
    name = "/dev/shm"
    if not system.linux:
        return Finding(
            name,
            "ok",
            "this system has none: named stores are files in a private folder (RECSTORE_DIR chooses another one)",
        )
    space = system.space(_SHM)
    if space is None:
        return Finding(
            name,
            "problem",
            "there is none: named stores become files in a private folder, and torch's workers cannot send batches",
            "sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        )
    values = {"size": space.size, "free": space.free, "used": space.size - space.free, "writable": space.writable}
    if not space.writable:
        mend = "sudo mount -o remount,rw /dev/shm" if space.read_only else "sudo chmod 1777 /dev/shm"
        why = (
            "cannot be written: named stores become files in a private folder, and torch's workers cannot send batches"
        )
        return Finding(name, "problem", why, mend, values)
    mount = system.mount_of(_SHM)
    if mount is not None and mount.kind not in ("tmpfs", "ramfs"):
        return Finding(
            name,
            "warning",
            f"is {mount.kind} and no memory: named stores and torch's batches are written to a disk",
            "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
            {**values, "kind": mount.kind},
        )
    if not space.size:
        return Finding(name, "ok", "has no limit of its own: the memory limits below hold", "", values)
    said = f"{size_text(space.size)}, of which {size_text(space.free)} are free"
    if space.size < _TINY:
        why = "what a container has by default" if space.size == 64 * _MIB else "too little"
        why += ". Named stores and the batches of torch's workers must fit in it, stores without a name need not"
        return Finding(name, "problem", f"{said}: {why}", _grow(system), values)
    if space.free < space.size // 20:
        why = "full. recstore gc removes what stores left behind, ls -l /dev/shm shows the rest"
        return Finding(name, "problem", f"{said}: {why}", _grow(system), values)
    if space.size < _SMALL or space.free < space.size // 5:
        why = "little. Named stores and the batches of torch's workers must fit in it"
        return Finding(name, "warning", f"{said}: {why}", _grow(system), values)
    return Finding(name, "ok", f"{said}; pages are taken when they are written", "", values)


def _grow(system):
    total = system.meminfo().get("MemTotal", 0)
    size = max(1, total // 2 // _GIB)
    return {
        "container": f"docker run --shm-size={size}g ...",
        "kubernetes": f"mount a volume at /dev/shm: emptyDir: {{medium: Memory, sizeLimit: {size}Gi}}",
        "slurm": f"ask the administrator for: mount -o remount,size={size}G /dev/shm",
        "host": f"sudo mount -o remount,size={size}G /dev/shm",
    }[system.place()]


def private(system):
    """Whether other jobs of this machine see the same /dev/shm."""
    name, place = "shared with", system.place()
    if not system.linux:
        return Finding(name, "ok", "every process of this user on this machine finds the same named stores")
    mount = system.mount_of(_SHM)
    if mount is None:
        return Finding(name, "ok", "unknown: /proc/self/mountinfo cannot be read", "", {"private": None})
    first = system.mount_of(_SHM, 1)
    values = {"private": None, "place": place, "device": mount.device}
    if system.contained():
        if mount.source == "shm":  # what the runtimes call the one that they make for a container or a pod
            whom = "pod" if place == "kubernetes" else "container"
            return Finding(
                name,
                "ok",
                f"this {whom} alone: other jobs do not find its named stores, and they end with it",
                "" if place == "kubernetes" else "docker run --ipc=host ...   (to share with the machine)",
                {**values, "private": True},
            )
        if first is not None and first.device != mount.device:
            why = "this job alone: its /dev/shm is not the container's; named stores end with the job"
            return Finding(name, "ok", why, "", {**values, "private": True})
        return Finding(
            name, "ok", "this container, and whoever has the same /dev/shm: it was given one from outside", "", values
        )
    if first is None:
        return Finding(
            name,
            "ok",
            "unknown: only root may compare /dev/shm with that of process 1. A scheduler that makes one for each job "
            "hides named stores from other jobs",
            "sudo grep ' /dev/shm ' /proc/1/mountinfo   (the same numbers as here: shared)",
            values,
        )
    if first.device != mount.device:
        return Finding(
            name,
            "ok",
            "this job alone: it has a /dev/shm of its own; other jobs do not find its named stores, and they end"
            " with it",
            "",
            {**values, "private": True},
        )
    return Finding(
        name,
        "ok",
        "the whole machine: all jobs of this user find the same named stores",
        "",
        {**values, "private": False},
    )


def memory(system):
    """The memory that the machine has left."""
    info = system.meminfo()
    total, free = info.get("MemTotal"), info.get("MemAvailable")
    if not total or free is None:
        return Finding("memory", "ok", "unknown: this system does not tell how much is free")
    values = {"total": total, "available": free, "shared": info.get("Shmem")}
    said = f"{size_text(free)} of {size_text(total)} are available"
    mend = "ps aux --sort=-rss | head"
    if free < total // 20:
        return Finding("memory", "problem", f"{said}: builds keep 5% free and will raise OutOfSpaceError", mend, values)
    if free < total * 3 // 20:
        return Finding("memory", "warning", f"{said}: little", mend, values)
    shared = f"; {size_text(info['Shmem'])} are shared pages of all programs" if "Shmem" in info else ""
    return Finding("memory", "ok", said + shared, "", values)


def limit(system):
    """The memory cgroups of this process and their ancestors."""
    levels = system.cgroups()
    left, by = system.headroom()
    values = {"headroom": left, "headroom_limit": by, "cgroups": [{**vars(one), "left": one.left} for one in levels]}
    if not system.linux:
        return Finding("memory limit", "ok", "this system has no cgroups", "", values)
    bound = min((one for one in levels if one.left is not None), key=lambda one: one.left, default=None)
    take = "" if left is None else f". A store may take {size_text(left)} now ({by}; 5% stay free)"
    slow = next(
        (one for one in levels if one.high is not None and one.used is not None and one.used > one.high * 9 // 10), None
    )
    if bound is not None and bound.left == 0:
        why = f"{_used(bound)}: builds keep 5% free and will raise OutOfSpaceError"
        return Finding("memory limit", "problem", why, _raise_limit(system, bound), values)
    kills = max((one.kills or 0 for one in levels), default=0)
    if bound is not None and kills:
        return Finding(
            "memory limit",
            "warning",
            f"{_used(bound)}, and the kernel has killed processes for it (oom_kill {kills}): workers vanish "
            f"without a traceback{take}",
            _raise_limit(system, bound),
            values,
        )
    if bound is not None and bound.left < bound.limit // 10:
        return Finding("memory limit", "warning", f"{_used(bound)}: little{take}", _raise_limit(system, bound), values)
    if slow is not None:
        return Finding(
            "memory limit",
            "warning",
            f"memory cgroup {slow.name} is near memory.high ({size_text(slow.high)}), above which the kernel "
            f"slows it down{take}",
            _raise_limit(system, slow),
            values,
        )
    said = f"none of {len(levels)} memory cgroups has one" if bound is None else _used(bound)
    return Finding("memory limit", "ok", said + take, "", values)


def _used(level):
    return f"memory cgroup {level.name} has used {size_text(level.used)} of {size_text(level.limit)}"


def _raise_limit(system, level):
    size = max(1, 2 * (level.limit or level.high) // _GIB)
    place, unit = system.place(), level.name.rpartition("/")[2]
    if place == "host" and unit.endswith((".scope", ".service", ".slice")):
        return f"sudo systemctl set-property {unit} MemoryMax={size}G"
    file = "memory.max" if level.version == 2 else "memory.limit_in_bytes"
    return {
        "container": f"docker run --memory={size}g ...",
        "kubernetes": f"kubectl set resources ... --limits=memory={size}Gi",
        "slurm": f"sbatch --mem={size}G ...",
        "host": f"set {file} of the cgroup {level.name} to {size}G, as root",
    }[place]


def swap(system):
    """Shared pages are swapped like any others."""
    info = system.meminfo()
    total, free = info.get("SwapTotal"), info.get("SwapFree")
    if total is None or free is None:
        return Finding("swap", "ok", "unknown: this system does not tell")
    barred = any(one.swap == 0 for one in system.cgroups())
    values = {"total": total, "free": free, "barred_by_cgroup": barred}
    if not total or barred:
        why = "none" if not total else "not for this process, by its cgroup"
        return Finding(
            "swap",
            "ok",
            f"{why}: stores stay in memory, and what passes a limit is refused or killed at once",
            "",
            values,
        )
    said = f"{size_text(total - free)} of {size_text(total)} are used"
    if free < total // 2:
        return Finding(
            "swap",
            "warning",
            f"{said}: pages of stores may be among them, and reading those waits for a disk",
            "sudo swapoff -a && sudo swapon -a   (when memory is free again)",
            values,
        )
    return Finding("swap", "ok", f"{said}; pages of stores that are not read may go there", "", values)


def payer(system):
    """Which cgroup is charged for the pages of a store."""
    if not system.linux:
        return Finding("who pays", "ok", "nobody: this system does not charge groups of processes")
    own = system.own_cgroup()
    if own is None:
        return Finding("who pays", "ok", "nobody: no memory cgroup is known here", "", {"cgroup": None})
    why = (
        f"who builds: each page is charged once, to the cgroup that first writes it, here {own}; readers in other"
        " cgroups pay nothing. The charge ends with the store, or passes to the parent when the builder's cgroup is"
        " removed"
    )
    mend = {
        "slurm": "sbatch --mem must hold the whole store in the job that builds it",
        "kubernetes": "the memory limit of the container that builds must hold the whole store",
    }.get(system.place(), "")
    return Finding("who pays", "ok", why, mend, {"cgroup": own})


def huge_pages(system):
    """Whether stores get pages of 2 MiB."""
    setting = _chosen(system.read(_HUGE))
    mount = system.mount_of(_SHM) if system.linux else None
    by_mount = next((one[5:] for one in mount.options if one.startswith("huge=")), "never") if mount else None
    values = {"shmem_enabled": setting, "dev_shm": by_mount}
    if setting is None:
        return Finding(
            "huge pages",
            "ok",
            "unknown or none for shared memory: stores have pages of 4 KiB, which is what was measured",
            "",
            values,
        )
    if setting in ("force", "deny"):
        return Finding(
            "huge pages",
            "warning",
            f"shmem_enabled is {setting}, which is for testing: it overrides what /dev/shm was mounted with",
            f"echo advise | sudo tee {_HUGE}",
            values,
        )
    if setting == "always":
        return Finding(
            "huge pages",
            "warning",
            "always, for stores without a name: each takes whole pages of 2 MiB, so that a small one costs 2 MiB "
            f"(on /dev/shm: {by_mount})",
            f"echo within_size | sudo tee {_HUGE}",
            values,
        )
    if setting == "within_size":
        why = (
            f"within_size, for stores without a name (on /dev/shm: {by_mount}): large ones are read with fewer misses"
            " of the TLB"
        )
        return Finding("huge pages", "ok", why, "", values)
    why = (
        f"{setting} (on /dev/shm: {by_mount}): pages of 4 KiB. Random reads of stores of many GB may gain by larger"
        " ones"
    )
    mend = f"echo within_size | sudo tee {_HUGE}   (and: mount -o remount,huge=within_size /dev/shm)"
    return Finding("huge pages", "ok", why, mend, values)


def _chosen(text):
    """The word in brackets, which is the setting in force in the kernel's file."""
    for word in (text or "").split():
        if word.startswith("[") and word.endswith("]"):
            return word[1:-1]
    return None


CHECKS = (shared_memory, private, memory, limit, swap, payer, huge_pages)
