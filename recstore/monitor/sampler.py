"""Takes samples of a job's memory: each one a dict as a line of the log has it (docs/monitor.md).

The RSS of a process costs the kernel nothing: it is read for each process in each sample. USS and PSS make the kernel
walk over all pages of the process, about 20 microseconds a megabyte. The sampler therefore keeps an account of its CPU
time: it reads as many processes exactly as SHARE of a core allows, those whose last reading is the oldest or whose RSS
has moved the most. For the others it takes the last exact figures, moved by what the private pages have grown; such an
entry has `exact: false`.
"""

from __future__ import annotations

import os
import signal
import time

from recstore.monitor import attribution, cgroup, labels
from recstore.monitor.entries import FIGURES
from recstore.monitor.processes import Proc, Tree, mappings_of, rollup_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from recstore._types import Path
    from recstore.monitor.entries import Entry
    from recstore.monitor.processes import Member

SHARE = 0.008  # of a core, for exact readings
_MAPS_EVERY = 8  # exact readings until the mapped files of a process are read again, which costs as much
_FILES_AGE = 5.0  # seconds until its open files are looked at again, where their number is the same
_DEBT = -0.05  # seconds of CPU time below which no open files are looked at either
_MOVED = 4 << 20  # bytes of RSS that let a process jump the queue
# The first exact readings of a process are not charged, so that workers which live for two seconds have figures too.
# Nor are those when the limit comes near quickly. But for the first one, only those that cost a few milliseconds are.
_FREE, _FREE_RSS = 3, 1 << 30
_HURRY = 8  # a use that has taken this part of what the limit left at the last sample is a reason for another one


class Reading:
    """The memory of a process at one moment, in bytes; None where the system does not say."""

    __slots__ = (*FIGURES, "pss_anon", "pss_file", "pss_shmem", "exact", "t")

    uss: int | None
    pss: int | None
    shared: int | None
    swap: int | None

    def __init__(self, t: float, rss: int, shared_file: int) -> None:
        self.t = t
        self.rss, self.shared_file, self.anonymous = rss, shared_file, max(0, rss - shared_file)
        self.uss = self.pss = self.shared = self.swap = None
        self.pss_anon = self.pss_file = self.pss_shmem = 0
        self.exact = False

    def fill(self, rollup: dict[bytes, int]) -> None:
        """Take in the sums of smaps_rollup, which belong together, RSS included."""
        get = rollup.get
        self.rss = get(b"Rss", 0)
        self.pss = get(b"Pss", 0)
        self.uss = get(b"Private_Clean", 0) + get(b"Private_Dirty", 0) + get(b"Private_Hugetlb", 0)
        self.shared = max(0, self.rss - self.uss)
        self.swap = get(b"Swap")
        self.anonymous = get(b"Anonymous", self.anonymous)
        self.shared_file = max(0, self.rss - self.anonymous)
        # Kernels before 5.9 do not divide the PSS: then by the RSS.
        whole = max(1, self.rss)
        self.pss_anon = get(b"Pss_Anon", self.pss * self.anonymous // whole)
        self.pss_shmem = get(b"Pss_Shmem", 0)
        self.pss_file = get(b"Pss_File", self.pss - self.pss_anon - self.pss_shmem)
        self.exact = True

    def estimate(self, last: Reading) -> None:
        """Take the figures of the last exact reading, moved by what the process's own pages have grown since."""
        grown = self.anonymous - last.anonymous
        self.pss_anon = max(0, last.pss_anon + grown)
        self.pss_file, self.pss_shmem = last.pss_file, last.pss_shmem
        self.pss = min(self.rss, self.pss_anon + self.pss_file + self.pss_shmem)
        self.uss = min(self.rss, max(0, last.uss + grown))  # type: ignore[operator]
        self.shared = self.rss - self.uss
        self.swap = last.swap


class Sampler:
    """Samples the processes of a job.

    Args:
        root: the pid of its first process.
        without, reaper: as Tree has them.
        proc: the folder /proc, and root_folder what is put in front of other paths; tests give made-up ones.
        ask: gives the name of the store in a file; see attribution.Names.
        share: the part of a core that exact readings may take.
    """

    def __init__(
        self,
        root: int,
        *,
        without: Iterable[int] = (),
        reaper: int | None = None,
        proc: Path = "/proc",
        root_folder: str = "",
        ask: Callable[[str], str | None] | None = None,
        share: float = SHARE,
    ) -> None:
        self.proc = Proc(proc)
        self.tree = Tree(self.proc, root, without, reaper)
        self.names = attribution.Names(self.proc, ask)
        self._root_folder = root_folder
        self._share = share
        self._credit = 0.0  # seconds of CPU time that exact readings may take now
        self._before: float | None = None
        self._rollup = self.proc.has(root, "smaps_rollup")
        self._smaps = self.proc.has(root, "smaps")
        self._said_denied = False
        self._seen: int | None = None  # the use of the cgroup in the last sample
        self._hurried = False
        self.level = cgroup.tightest(cgroup.levels(self.text, root, cgroup.mounts(self.text)))
        self.ask_status: Callable[[Member], int | None] = lambda member: None  # Watch, which has pidfds, knows more

    def text(self, path: str) -> str | None:
        """The text of a file; None if it cannot be read."""
        inside = path.startswith("/proc/")
        path = self.proc.root + path[len("/proc") :] if inside else self._root_folder + path
        try:
            with open(path, encoding="utf-8", errors="backslashreplace") as file:
                return file.read()
        except OSError:
            return None

    # ---- The line that opens a log ----

    def start(self, command: Sequence[str] | None, interval: float) -> Entry:
        """The entry of kind start."""
        import platform
        import socket

        level = self.level if self.limited else None
        return {
            "kind": "start",
            "version": 1,
            "t": time.time(),
            "command": command,
            "pid": self.tree.root,
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "interval": interval,
            "limit": None if level is None else level.limit,
            "limit_from": None if level is None else level.limit_file,
            "total_memory": self.total_memory(),
            "missing": self.missing(),
        }

    def total_memory(self) -> int | None:
        """The memory of the machine in bytes; None if it is unknown."""
        return self.meminfo().get("MemTotal")

    def meminfo(self) -> dict[str, int]:
        """{name: bytes} of /proc/meminfo."""
        pairs = (line.split() for line in (self.text("/proc/meminfo") or "").splitlines())
        return {words[0][:-1]: int(words[1]) * 1024 for words in pairs if len(words) == 3 and words[1].isdecimal()}

    def missing(self) -> list[str]:
        """Sentences that say which figures this machine does not give."""
        found = []
        if not self._rollup and self._smaps:
            found.append("/proc/PID/smaps_rollup is missing: PSS and USS come from smaps, which costs more CPU time.")
        elif not self._rollup:
            found.append("/proc/PID/smaps_rollup and smaps are missing: PSS, USS and swap are not known, only RSS.")
        if self.level is None:
            found.append("No memory cgroup can be read: its limit and its use are not known.")
        return found

    # ---- Samples ----

    def sample(self) -> tuple[Entry | None, list[Entry]]:
        """`(entry, events)`: the sample of now, and events of kind started and ended since the last one.

        The entry is None if no process could be read; `tree.members` is empty once all have ended.
        """
        t = time.time()
        joined, ended = self.tree.refresh()
        labels.refresh(self.tree, joined)
        events = [self._started(t, one) for one in joined]
        members = self._read_cheap(t)
        self._read_exactly(t, members)
        self._hurried = False
        for one in ended:
            if one.status is None:
                one.status = self.ask_status(one)
            events.append(self.ended_event(t, one))
        events += self._say_denied(t, members)
        # One that could not be read is about to end: its memory is gone before its state says so. The next refresh, or
        # its pidfd, tells its end and how.
        members = [one for one in members if one.now is not None]
        if not members:
            return None, events
        named, unmapped = attribution.account(members, self.names)
        entry = {
            "kind": "sample",
            "t": t,
            "processes": [_entry(one) for one in members],
            "sum": _sums(members, unmapped),
            "named": named,
            "cgroup": self.cgroup_now(),
        }
        return entry, events

    def _read_cheap(self, t: float) -> list[Member]:
        """The members whose RSS could be read; each has its Reading of now."""
        found = []
        for member in self.tree.members.values():
            try:
                rss, shared_file = self.proc.statm(member.pid)
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
            if not rss:
                continue  # it is ending, and its memory is gone
            member.now = Reading(t, rss, shared_file)
            found.append(member)
        found.sort(key=lambda one: (one.start, one.pid))
        return found

    def _read_exactly(self, t: float, members: Sequence[Member]) -> None:
        passed = 0.0 if self._before is None else max(0.0, t - self._before)
        self._before = t
        self._credit = min(self._credit + passed * self._share, max(0.05, 4 * passed * self._share))
        readable = [one for one in members if not one.denied] if self._rollup or self._smaps else []
        for member in sorted(readable, key=lambda one: _urgency(t, one), reverse=True):
            free = member.last is None or (member.readings < _FREE or self._hurried) and member.now.rss < _FREE_RSS
            if not free and self._credit <= 0:
                member.now.estimate(member.last)  # type: ignore[arg-type]
                self._look_at_files(t, member)
                continue
            began = time.thread_time()
            self._read_one(t, member)
            if not free:
                self._credit -= time.thread_time() - began

    def _read_one(self, t: float, member: Member) -> None:
        """Read a member exactly; one that has ended meanwhile loses its Reading, another user's keeps its RSS."""
        try:
            smaps = None
            if self._rollup:
                sums = self.proc.rollup(member.pid)
            else:
                smaps = self.proc.smaps(member.pid)
                sums = rollup_of(smaps)
            if not sums:
                member.now = None  # type: ignore[assignment]
                return
            member.now.fill(sums)
            self._read_mappings(member, smaps)
            self._read_files(t, member)
            member.address_limit = self.proc.address_limit(member.pid)
            member.last = member.now
        except PermissionError:
            member.denied = True
        except (OSError, ValueError, IndexError):
            member.now = None  # type: ignore[assignment]

    def _read_mappings(self, member: Member, smaps: bytes | None) -> None:
        """Which files a member maps: seldom, or when its part of them has changed."""
        last, reading = member.last, member.now
        member.readings += 1
        moved = last is not None and (
            abs(reading.pss_shmem - last.pss_shmem) > max(_MOVED, last.pss_shmem // 4)
            or abs(reading.pss_file - last.pss_file) > max(_MOVED, last.pss_file // 4)
        )
        if last is None or moved or smaps is not None or member.readings % _MAPS_EVERY == 0:
            member.parts = self._parts(member.pid, smaps)

    def _look_at_files(self, t: float, member: Member) -> None:
        """Between exact readings: batches come and go quickly, and the number of open files costs little."""
        if self._credit < _DEBT or member.denied:
            return
        try:
            if member.files_open is None or self.proc.open_files(member.pid) != member.files_open:
                began = time.thread_time()
                self._read_files(t, member)
                self._credit -= time.thread_time() - began
        except OSError:
            return  # it is ending: the next sample sees it

    def _read_files(self, t: float, member: Member) -> None:
        """Which files in shared memory a member has open."""
        count = self.proc.open_files(member.pid)
        if count is None or count != member.files_open or t - member.files_at > _FILES_AGE:
            member.files_open, member.files_at = count, t
            member.held = self.proc.descriptors(member.pid)
            for one in member.held:
                self.names.see(one.key, one.path, member.pid, one.number)

    def _parts(self, pid: int, smaps: bytes | None) -> attribution.Parts | None:
        if smaps is None and self._smaps:
            smaps = self.proc.smaps(pid)
        return attribution.Parts(mappings_of(smaps), self.names) if smaps is not None else None

    def cgroup_now(self) -> dict[str, int | None] | None:
        """The use of the memory cgroup and its counters of kills, as a sample has them; None without a cgroup."""
        if self.level is None:
            return None
        level = cgroup.refreshed(self.text, self.level)
        self._seen = level.current
        return {"current": level.current, "used": level.used, "oom": level.oom, "oom_kill": level.kills}

    @property
    def limited(self) -> bool:
        """Whether the job has a memory cgroup with a limit."""
        return self.level is not None and self.level.limit is not None

    def hurries(self) -> bool:
        """Whether the use of the memory cgroup has grown so much since the last sample that the limit may come before
        the next one."""
        level = self.level
        if level is None or level.limit is None or self._seen is None:
            return False
        use = cgroup.use(self.text, level)
        left = max(level.limit - self._seen, level.limit // 20)
        self._hurried = use is not None and use - self._seen >= left // _HURRY
        return self._hurried

    # ---- Events ----

    def _started(self, t: float, member: Member) -> Entry:
        by = f", started by {member.owner.label}" if member.owner is not None else ""
        command = b" ".join(member.command).decode(errors="replace")[:200]
        text = f"{member.label} started, process {member.pid}{by}: {command}"
        return event("started", text, t=t, pid=member.pid, label=member.label)

    def ended_event(self, t: float, member: Member) -> Entry:
        """The event that says that a member has ended, with its exit code or signal where it is known."""
        code, name = outcome(member.status)
        how = "ended" if member.status is None else f"was ended by {name}" if name else f"ended with exit code {code}"
        last = member.last
        size = f"; it had a USS of {last.uss:,} bytes" if last is not None else ""
        text = f"{member.label}, process {member.pid}, {how}{size}"
        return event("ended", text, t=t, pid=member.pid, label=member.label, exit=code, signal=name)

    def _say_denied(self, t: float, members: Sequence[Member]) -> list[Entry]:
        denied = [one for one in members if one.denied and one.alive]
        if not denied or self._said_denied:
            return []
        self._said_denied = True
        one = denied[0]
        text = (
            f"process {one.pid} ({one.label}) belongs to another user or is protected: only its RSS is known, and the "
            f"sums of PSS and USS are without it; run the monitor as its user or as root"
        )
        return [event("warning", text, t=t, pid=one.pid, label=one.label)]


def event(
    what: str,
    text: str,
    *,
    t: float | None = None,
    pid: int | None = None,
    label: str | None = None,
    exit: int | None = None,
    signal: str | None = None,
) -> Entry:
    """An entry of kind event."""
    t = time.time() if t is None else t
    entry = {"kind": "event", "t": t, "what": what, "pid": pid, "label": label, "text": text}
    return {**entry, "exit": exit, "signal": signal}


def outcome(status: int | None) -> tuple[int | None, str | None]:
    """`(exit code, name of the signal)` of a status as waitpid gives it; None for what is not so or not known."""
    if status is None:
        return None, None
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return None, signal.Signals(number).name
        except ValueError:
            return None, f"signal {number}"
    return os.WEXITSTATUS(status), None


def _urgency(t: float, member: Member) -> float:
    """How much a member is due for an exact reading."""
    last = member.last
    if last is None:
        return float("inf")
    moved = abs(member.now.rss - last.rss)
    return (t - last.t) * (4.0 if moved > max(_MOVED, last.rss // 50) else 1.0)


def _entry(member: Member) -> Entry:
    reading = member.now
    entry: Entry = {
        "pid": member.pid,
        "ppid": member.stat.parent,
        "start": member.start,
        "label": member.label,
        "role": member.role,
        "rank": member.rank,
        "worker": member.worker,
    }
    for name in FIGURES:
        entry[name] = getattr(reading, name)
    entry["exact"] = reading.exact
    if member.forked:
        entry["forked"], entry["faults"] = True, member.stat.faults
    if member.address_limit is not None:
        entry["address_space"], entry["address_limit"] = member.stat.mapped, member.address_limit
    return entry


def _sums(members: Sequence[Member], unmapped: int) -> dict[str, int | None]:
    """The sums of the figures over the members that have them; None where none has it."""
    sums: dict[str, int | None] = {}
    for name in FIGURES:
        known = [value for value in (getattr(one.now, name) for one in members) if value is not None]
        sums[name] = sum(known) if known else None
    sums["unmapped"] = unmapped if sums["pss"] is not None else None
    sums["unknown"] = sum(one.now.pss is None for one in members)
    return sums
