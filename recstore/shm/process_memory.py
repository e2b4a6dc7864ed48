"""What processes really hold: PSS, USS and the pages of a segment that no process has mapped.

Used by the command and the benchmarks. RSS counts a shared page once in every process, so a sum of RSS says
nothing about sharing; PSS divides each page by the number of its users, so its sum over processes is the memory
they take together. USS is what would come back if this one process ended.

Linux only: elsewhere `usage` gives None and callers print n/a. Imports `os` alone, because it is also loaded in
the workers that it measures.
"""

import os

__all__ = [
    "Usage",
    "allocated",
    "available",
    "family",
    "peak_rss",
    "reset_peak_rss",
    "segments",
    "total",
    "unmapped",
    "usage",
]


class Usage:
    """One process at one moment, in bytes."""

    __slots__ = ("rss", "pss", "uss")

    def __init__(self, rss, pss, uss):
        self.rss = rss
        self.pss = pss
        self.uss = uss

    def __repr__(self):
        return f"Usage(rss={self.rss}, pss={self.pss}, uss={self.uss})"


def usage(pid="self"):
    """The Usage of a process, or None where the system does not tell (not Linux, another user, ended)."""
    rss = pss = uss = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Rss:"):
                    rss = _kib(line)
                elif line.startswith(b"Pss:"):
                    pss = _kib(line)
                elif line.startswith((b"Private_Clean:", b"Private_Dirty:", b"Private_Hugetlb:")):
                    uss += _kib(line)
    except OSError:
        return None
    return Usage(rss, pss, uss)


def peak_rss(pid="self"):
    """The highest RSS since the start or since reset_peak_rss, or None.

    From VmHWM and not from getrusage: ru_maxrss survives exec, so a child starts with its parent's peak.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return _kib(line)
    except OSError:
        pass
    return None


def reset_peak_rss():
    """Start peak_rss again from the present RSS; False where that cannot be done."""
    try:
        with open("/proc/self/clear_refs", "wb") as file:
            file.write(b"5")
    except OSError:
        return False
    return True


def available():
    """Bytes that can be allocated without swapping, or None."""
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return _kib(line)
    except OSError:
        pass
    return None


def family(pid):
    """pid and every living descendant: a fork server and a resource tracker hold memory too."""
    children = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return [pid]
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command may hold spaces and brackets; the fields after it start behind the last ")".
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found = [pid]
    for one in found:
        found.extend(children.get(one, ()))
    return found


def segments(pid="self"):
    """{(major, minor, inode): bytes mapped} of the shared file mappings of a process.

    Compare two readings, before and after a build, to know which segment the build made.
    """
    found = {}
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                parts = line.split(None, 5)
                if parts[1].endswith(b"s") and parts[4] != b"0":
                    first, last = parts[0].split(b"-")
                    key = _identity(parts)
                    found[key] = found.get(key, 0) + int(last, 16) - int(first, 16)
    except OSError:
        pass
    return found


def allocated(key, pid="self"):
    """Bytes that the file behind a key of `segments` occupies (st_blocks), or None where no descriptor leads to it."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        try:
            stat = os.stat(f"{folder}/{name}")
        except OSError:
            continue
        if (os.major(stat.st_dev), os.minor(stat.st_dev), stat.st_ino) == key:
            return stat.st_blocks * 512
    return None


def unmapped(keys, pids):
    """Bytes of these segments that exist and that none of these processes has mapped.

    A page that n processes map counts 1/n in each one's PSS, so the sum of a segment's PSS over all who map it is
    the size of its mapped pages, each counted once; the rest of st_blocks is in nobody's PSS.
    """
    rest = 0
    for key, size in keys.items():
        whole = None
        mapped = 0
        for pid in pids:
            whole = whole or allocated(key, pid)
            mapped += _mapped_pss(key, pid)
        rest += max(0, (size if whole is None else whole) - mapped)
    return rest


def total(pids, keys=()):
    """PSS summed over the processes plus what of these segments nobody has mapped; None where PSS is unknown."""
    readings = [usage(pid) for pid in pids]
    known = [one.pss for one in readings if one is not None]
    if not known:
        return None
    return sum(known) + (unmapped(keys, pids) if keys else 0)


def _mapped_pss(key, pid):
    mapped = 0
    inside = False
    try:
        with open(f"/proc/{pid}/smaps", "rb") as file:
            for line in file:
                parts = line.split(None, 5)
                if not parts[0].endswith(b":"):
                    inside = parts[4] != b"0" and _identity(parts) == key
                elif inside and parts[0] == b"Pss:":
                    mapped += _kib(line)
    except OSError:
        pass
    return mapped


def huge(begin, size):
    """How many of `size` bytes that this process maps from address `begin` on lie in huge pages, as smaps says: what
    madvise returned tells nothing. None where the system does not say."""
    try:
        with open("/proc/self/smaps", "rb") as file:
            return _huge_of(file, begin, begin + size)
    except OSError:
        return None


def _huge_of(lines, begin, end):
    total = 0
    inside = False
    for line in lines:
        parts = line.split(None, 1)
        if not parts[0].endswith(b":"):
            low, high = (int(part, 16) for part in parts[0].split(b"-"))
            inside = low < end and begin < high
        elif inside and parts[0] in (b"AnonHugePages:", b"ShmemPmdMapped:", b"FilePmdMapped:"):
            total += _kib(line)
    return total


def _identity(parts):
    major, minor = parts[3].split(b":")
    return int(major, 16), int(minor, 16), int(parts[4])


def _kib(line):
    return int(line.split()[1]) * 1024
