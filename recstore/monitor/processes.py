"""Reads processes from /proc, and tracks the processes of a job.

`Proc` reads the files of a process. Most methods raise OSError if the process has ended, and some if it belongs to
another user. `Tree` tracks a job: the descendants of its root, including orphans. The path of /proc is a parameter, so
that tests can describe other machines.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import TypeAlias

    from recstore._types import Path
    from recstore.monitor.attribution import Parts
    from recstore.monitor.sampler import Reading

    # The device and the inode of a file.
    Key: TypeAlias = tuple[int, int]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_RESCAN = 30  # the most samples between two readings of all processes on the machine


class Stat:
    """Fields of /proc/PID/stat. `start` is in clock ticks. `mapped` is the bytes of address space, `faults` the bytes
    of minor page faults, and `status` the status from waitpid."""

    __slots__ = ("pid", "name", "state", "parent", "group", "start", "mapped", "faults", "status")

    def __init__(self, pid: int, data: bytes) -> None:
        # The name is in parentheses, and may contain spaces and parentheses.
        head, _, tail = data.rpartition(b")")
        fields = tail.split()
        self.pid = pid
        self.name = head.partition(b"(")[2]
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.faults = int(fields[7]) * _PAGE
        self.start = int(fields[19])
        self.mapped = int(fields[20])
        self.status = int(fields[49]) if len(fields) > 49 else 0

    @property
    def ended(self) -> bool:
        """Whether the process has ended. A zombie has no memory and no descriptors."""
        return self.state in (b"Z", b"X", b"x")


class Mapping:
    """A file that a process maps: key (device, inode), path, PSS in bytes, and whether it is mapped as code."""

    __slots__ = ("key", "path", "pss", "code")

    def __init__(self, key: Key, path: str, pss: int, code: bool) -> None:
        self.key = key
        self.path = path
        self.pss = pss
        self.code = code


class Descriptor:
    """An open file in shared memory: key (device, inode), path, occupied bytes, and descriptor number."""

    __slots__ = ("key", "path", "blocks", "number")

    def __init__(self, key: Key, path: str, blocks: int, number: str) -> None:
        self.key = key
        self.path = path
        self.blocks = blocks
        self.number = number


class Proc:
    """The files below /proc."""

    def __init__(self, root: Path = "/proc") -> None:
        self.root = os.fspath(root)

    def read(self, name: str) -> bytes:
        """The bytes of a file below the root."""
        fd = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # The kernel returns whole entries, so a short read is not the end.
            parts = []
            while data := os.read(fd, 1 << 16):
                parts.append(data)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            os.close(fd)

    def read_line(self, name: str) -> bytes:
        """The bytes of a small file, in one read."""
        fd = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)

    def pids(self) -> list[int]:
        """The pids of all processes."""
        return [int(name) for name in os.listdir(self.root) if name.isdecimal()]

    def newest(self) -> int | None:
        """The pid of the newest process or thread on the machine; None if unknown."""
        try:
            return int(self.read_line("loadavg").split()[4])
        except (OSError, IndexError, ValueError):
            return None

    def stat(self, pid: int) -> Stat:
        """The Stat of a process."""
        return Stat(pid, self.read_line(f"{pid}/stat"))

    def statm(self, pid: int) -> tuple[int, int]:
        """`(rss, shared_file)` in bytes: all resident pages, and the pages of files and shared memory among them."""
        fields = self.read_line(f"{pid}/statm").split()
        return int(fields[1]) * _PAGE, int(fields[2]) * _PAGE

    def command(self, pid: int) -> list[bytes]:
        """The arguments of a process."""
        return self.read(f"{pid}/cmdline").split(b"\0")[:-1]

    def environ(self, pid: int) -> dict[bytes, bytes]:
        """The initial environment of a process."""
        pairs = (variable.partition(b"=") for variable in self.read(f"{pid}/environ").split(b"\0"))
        return {name: value for name, equals, value in pairs if equals}

    def rollup(self, pid: int) -> dict[bytes, int]:
        """{name: bytes} of /proc/PID/smaps_rollup. Raises OSError for a process without memory."""
        # The first line has six words. Each other line has a name, a number and its unit.
        words = self.read_line(f"{pid}/smaps_rollup").split()
        return {name[:-1]: int(size) * 1024 for name, size in zip(words[6::3], words[7::3])}

    def address_limit(self, pid: int) -> int | None:
        """The limit of a process's address space in bytes (`ulimit -v`); None if it is unlimited, or cannot be
        read."""
        try:
            match = re.search(rb"^Max address space +(\d+) ", self.read(f"{pid}/limits"), re.MULTILINE)
        except OSError:
            return None
        return None if match is None else int(match[1])

    def has(self, pid: int, name: str) -> bool:
        """Whether a process has a file of this name below /proc."""
        return os.path.exists(f"{self.root}/{pid}/{name}")

    def smaps(self, pid: int) -> bytes:
        """The bytes of /proc/PID/smaps, for `rollup_of` and `mappings_of`. May cost several times as much as rollup."""
        return self.read(f"{pid}/smaps")

    def descriptors(self, pid: int) -> list[Descriptor]:
        """A Descriptor for each file in shared memory that a process has open."""
        folder = f"{self.root}/{pid}/fd"
        descriptors = []
        for name in os.listdir(folder):
            try:
                path = os.readlink(f"{folder}/{name}")
                if not is_shared_memory(path):
                    continue
                status = os.stat(f"{folder}/{name}")
            except OSError:
                continue  # closed since
            descriptors.append(Descriptor((status.st_dev, status.st_ino), path, status.st_blocks * 512, name))
        return descriptors

    def open_files(self, pid: int) -> int | None:
        """The number of open files of a process; None if it is 0, or before Linux 6.2."""
        return os.stat(f"{self.root}/{pid}/fd").st_size or None


def is_shared_memory(path: str) -> bool:
    """Whether a path, as shown in /proc, belongs to a file in shared memory."""
    return path.startswith(("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"))


def rollup_of(smaps: bytes) -> dict[bytes, int]:
    """The sums of the entries of smaps, as `Proc.rollup` returns them; for kernels without smaps_rollup."""
    sums: dict[bytes, int] = {}
    for name, size in re.findall(rb"^(\w+): +(\d+) kB$", smaps, re.MULTILINE):
        sums[name] = sums.get(name, 0) + int(size) * 1024
    return sums


def mappings_of(smaps: bytes) -> Collection[Mapping]:
    """A Mapping for each file in the bytes of smaps, including shared memory."""
    mappings: dict[Key, Mapping] = {}
    for chunk in re.split(rb"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        parts = chunk.partition(b"\n")[0].split(None, 5)
        if len(parts) < 6 or parts[4] == b"0":
            continue
        major, minor = parts[3].split(b":")
        key = os.makedev(int(major, 16), int(minor, 16)), int(parts[4])
        mapping = mappings.get(key)
        if mapping is None:
            mapping = mappings[key] = Mapping(key, os.fsdecode(parts[5]), 0, False)
        mapping.code = mapping.code or b"x" in parts[1]
        rss = _field(chunk, b"\nRss:")
        if rss:
            # Changed pages of a private file mapping are private copies; the rollup counts them as anonymous.
            mapping.pss += _field(chunk, b"\nPss:") * (rss - min(rss, _field(chunk, b"\nAnonymous:"))) // rss
    return mappings.values()


def _field(chunk: bytes, name: bytes) -> int:
    at = chunk.find(name)
    return 0 if at < 0 else int(chunk[at + len(name) : chunk.index(b"kB", at)]) * 1024


class Member:
    """A process of the job. `owner` is the member that started it, which may have ended; the root if unknown; None
    for the root itself.

    labels.py and sampler.py set the labels and readings.
    """

    def __init__(self, stat: Stat, owner: Member | None) -> None:
        self.pid = stat.pid
        self.start = stat.start
        self.stat = stat
        self.owner = owner
        self.looks = 0  # how often the command was read; a new process may still call exec
        self.command: list[bytes] = []
        self.role = "process"
        self.label = ""
        self.named_as: bytes | None = None  # the name of the process when it was labelled
        self.rank: int | None = None
        self.worker: int | None = None
        self.forked = False  # whether it has the command of its owner, and so began with the owner's pages
        self.alive = True
        self.status: int | None = None  # the status from waitpid, if known
        self.now: Reading = None  # type: ignore[assignment]  # the latest Reading; None if it failed
        self.last: Reading | None = None  # the last exact Reading
        self.parts: Parts | None = None  # the PSS of its mapped files
        self.shared_files: Collection[Descriptor] = ()  # its open files in shared memory
        self.followed = False  # whether opening a pidfd for it was tried
        self.denied = False  # whether this user may only read its RSS
        self.files_open: int | None = None  # the number of open files when `held` was read
        self.files_at = 0.0
        self.readings = 0  # number of exact readings
        self.address_limit: int | None = None  # the limit at the last exact reading


class Tree:
    """The living processes of a job, as Members by pid.

    Args:
        root: the pid of the job's first process.
        without: pids that are never members, such as the monitor's.
        reaper: the pid of the process that becomes the parent of the job's orphans (see PR_SET_CHILD_SUBREAPER). Its
            children are members. With None, a member that becomes an orphan stays a member, and another orphan joins if
            process 1 adopted it, its process group has or had a member, and it is younger than the root.
    """

    def __init__(self, proc: Proc, root: int, without: Iterable[int] = (), reaper: int | None = None) -> None:
        self.proc = proc
        self.root = root
        self.members: dict[int, Member] = {}
        self._without = set(without)
        self._reaper = reaper
        self._others: set[int] = set()
        self._groups: set[int] = set()
        self._began: int | None = None  # the start time of the root
        self._newest: int | None = None
        self._turn = 0

    def refresh(self) -> tuple[list[Member], list[Member]]:
        """Look for new and ended processes. Returns `(joined, ended)`, lists of Members."""
        ended = self._update()
        newest = self.proc.newest()
        self._turn += 1
        if newest is not None and newest == self._newest and self._turn % _RESCAN:
            return [], ended
        self._newest = newest
        new = self._new_stats()
        if new:
            ended += self._update()  # a worker that has ended since must not keep its number from the next epoch's
        return self._join(new, {member.pid: member for member in ended}), ended

    def end(self, member: Member, status: int | None = None) -> None:
        """Remove a member whose process has ended with this status."""
        member.alive = False
        if status is not None:
            member.status = status
        self.members.pop(member.pid, None)

    def _update(self) -> list[Member]:
        """Read the Stat of each member. Returns the members that have ended."""
        ended = []
        for member in list(self.members.values()):
            try:
                stat = self.proc.stat(member.pid)
            except (OSError, ValueError, IndexError):
                stat = None
            if stat is not None and stat.start == member.start and not stat.ended:
                member.stat = stat
                continue
            self.end(member, stat.status if stat is not None and stat.start == member.start else None)
            ended.append(member)
        return ended

    def _new_stats(self) -> dict[int, Stat]:
        """The Stats of new processes by pid."""
        pids = set(self.proc.pids())
        if self._turn % _RESCAN == 0:
            self._others.clear()  # pids may have been reused
        self._others &= pids
        new = {}
        for pid in pids - self._others - self.members.keys() - self._without:
            try:
                stat = self.proc.stat(pid)
            except (OSError, ValueError, IndexError):
                continue
            if stat.ended:
                continue
            new[pid] = stat
        return new

    def _join(self, new: dict[int, Stat], gone: dict[int, Member]) -> list[Member]:
        """Add the new processes that belong to the job. `gone` are the members that have just ended."""
        joined = []
        left = sorted(new.values(), key=lambda stat: (stat.start, stat.pid))
        while True:
            joining = [stat for stat in left if self._belongs(stat, gone)]
            if not joining:
                break
            for stat in joining:
                owner = self.members.get(stat.parent) or gone.get(stat.parent)
                if owner is None and stat.pid != self.root:
                    owner = self.members.get(self.root)
                member = self.members[stat.pid] = Member(stat, owner)
                self._groups.add(stat.group)
                if stat.pid == self.root:
                    self._began = stat.start
                joined.append(member)
            left = [stat for stat in left if stat.pid not in self.members]
        self._others.update(stat.pid for stat in left)
        return joined

    def _belongs(self, stat: Stat, gone: dict[int, Member]) -> bool:
        if stat.pid == self.root or stat.parent in self.members or stat.parent in gone:
            return True
        if self._reaper is not None:
            return stat.parent == self._reaper
        # An orphan, adopted by process 1. The script that started the root may have this parent and group too, but is
        # older than the root.
        return stat.parent == 1 and stat.group in self._groups and stat.start > self._began  # type: ignore[operator]
