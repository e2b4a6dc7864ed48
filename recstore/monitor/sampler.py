"""Takes samples of a job's memory, as dicts for the log (docs/monitor.md).

The RSS of a process is cheap, so each sample reads it for each process. For USS and PSS, the kernel walks over all
pages of the process, which takes about 20 microseconds per megabyte. So the sampler has a budget of CPU time: it reads
as many processes exactly as SHARE of a core allows, first the processes with an old reading or a large change of RSS.
For the others it adjusts the last exact figures by the growth of anonymous pages, and sets `exact: false`.
"""

from __future__ import annotations

import os
import signal
import time

from recstore.monitor import attribution, cgroup, labels
from recstore.monitor.entries import FIGURES
from recstore.monitor.processes import Proc, Tree, mappings_of, rollup_of
from recstore.remote.cache import counters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from recstore._types import Path
    from recstore.monitor.entries import Entry
    from recstore.monitor.processes import Member

SHARE = 0.008  # the share of a core for exact readings
_MAPS_EVERY = 8  # exact readings between two readings of the mapped files of a process, which cost as much or more
_FILES_AGE = 5.0  # seconds between two readings of open files while their number is the same
_DEBT = -0.05  # seconds of CPU time; with less credit, open files are not read either
_MOVED = 4 << 20  # bytes; a change of RSS gives a process priority, a change of PSS makes its mapped files be read
# The first exact readings of a process are free, so that workers with a life of two seconds have figures too. So are
# readings while memory quickly approaches the limit. A process with a large RSS has only one free reading.
_FREE, _FREE_RSS = 3, 1 << 30
_HURRY = 8  # take an early sample when 1/_HURRY of the remaining memory has been used since the last sample


class Reading:
    """The figures of a process at one moment, in bytes; None if unknown."""

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
        """Set all figures from smaps_rollup, including RSS for consistency."""
        get = rollup.get
        self.rss = get(b"Rss", 0)
        self.pss = get(b"Pss", 0)
        self.uss = get(b"Private_Clean", 0) + get(b"Private_Dirty", 0) + get(b"Private_Hugetlb", 0)
        self.shared = max(0, self.rss - self.uss)
        self.swap = get(b"Swap")
        self.anonymous = get(b"Anonymous", self.anonymous)
        self.shared_file = max(0, self.rss - self.anonymous)
        # Old kernels do not divide PSS: divide it in proportion to the RSS.
        whole = max(1, self.rss)
        self.pss_anon = get(b"Pss_Anon", self.pss * self.anonymous // whole)
        self.pss_shmem = get(b"Pss_Shmem", 0)
        self.pss_file = get(b"Pss_File", self.pss - self.pss_anon - self.pss_shmem)
        self.exact = True

    def estimate(self, last: Reading) -> None:
        """Set the figures from the last exact reading, adjusted by the growth of anonymous pages since then."""
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
        root: the pid of the job's first process.
        without, reaper: as for Tree.
        proc, root_folder: the path of /proc, and the prefix of other paths; tests use artificial folders.
        ask: returns the name of the store in a file; see attribution.Names.
        share: the share of a core for exact readings.
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
        self._credit = 0.0  # available seconds of CPU time for exact readings
        self._before: float | None = None
        self._rollup = self.proc.has(root, "smaps_rollup")
        self._smaps = self.proc.has(root, "smaps")
        self._said_denied = False
        self._first_counters: dict[str, dict[str, int]] = {}  # of each cache of shards, by its path
        self._seen: int | None = None  # the use of the cgroup in the last sample
        self._hurried = False
        self.level = cgroup.tightest(cgroup.levels(self.text, root, cgroup.mounts(self.text)))
        self.ask_status: Callable[[Member], int | None] = lambda member: None  # Watch replaces it

    def text(self, path: str) -> str | None:
        """The text of a file; None if it cannot be read."""
        inside = path.startswith("/proc/")
        path = self.proc.root + path[len("/proc") :] if inside else self._root_folder + path
        try:
            with open(path, encoding="utf-8", errors="backslashreplace") as file:
                return file.read()
        except OSError:
            return None

    # ---- The first line of a log ----

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
        """The memory of the machine in bytes; None if unknown."""
        return self.meminfo().get("MemTotal")

    def meminfo(self) -> dict[str, int]:
        """{name: bytes} of /proc/meminfo."""
        return cgroup.fields(self.text, "/proc/meminfo")

    def missing(self) -> list[str]:
        """Sentences about figures that this machine does not provide."""
        sentences = []
        if not self._rollup and self._smaps:
            sentences.append(
                "/proc/PID/smaps_rollup is missing: PSS and USS come from smaps, which costs more CPU time."
            )
        elif not self._rollup:
            sentences.append("/proc/PID/smaps_rollup and smaps are missing: PSS, USS and swap are unknown.")
        if self.level is None:
            sentences.append("The memory cgroup cannot be read: its limit and use are unknown.")
        return sentences

    # ---- Samples ----

    def sample(self) -> tuple[Entry | None, list[Entry]]:
        """`(entry, events)`: a sample, and the starts and ends of processes since the last sample.

        The entry is None if no process could be read. `tree.members` is empty after the last process has ended.
        """
        t = time.time()
        joined, ended = self.tree.refresh()
        labels.refresh(self.tree, joined)
        events = [self._started(t, member) for member in joined]
        members = self._read_cheap(t)
        self._read_exactly(t, members)
        self._hurried = False
        for member in ended:
            if member.status is None:
                member.status = self.ask_status(member)
            events.append(self.ended_event(t, member))
        events += self._say_denied(t, members)
        # An unreadable member is about to end: its memory goes away before its state changes. The next refresh, or its
        # pidfd, reports the end.
        members = [member for member in members if member.now is not None]
        if not members:
            return None, events
        named, unmapped = attribution.account(members, self.names)
        entry = {
            "kind": "sample",
            "t": t,
            "processes": [_entry(member) for member in members],
            "sum": _sums(members, unmapped),
            "named": named,
            "cgroup": self.cgroup_now(),
        }
        if self.names.shard_caches:
            entry["shards"] = {path: self._counters(path) for path in sorted(self.names.shard_caches)}
        return entry, events

    def _counters(self, path: str) -> dict[str, int]:
        """The counters of a cache of shards since the monitor found it."""
        counts = vars(counters.read(os.path.join(path, "recstore")))
        first = self._first_counters.setdefault(path, counts)
        return {name: max(0, count - first[name]) for name, count in counts.items()}

    def _read_cheap(self, t: float) -> list[Member]:
        """Read the RSS of each member. Returns the readable members."""
        readable = []
        for member in self.tree.members.values():
            try:
                rss, shared_file = self.proc.statm(member.pid)
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
            if not rss:
                continue  # it is ending, and its memory is already free
            member.now = Reading(t, rss, shared_file)
            readable.append(member)
        readable.sort(key=lambda member: (member.start, member.pid))
        return readable

    def _read_exactly(self, t: float, members: Sequence[Member]) -> None:
        passed = 0.0 if self._before is None else max(0.0, t - self._before)
        self._before = t
        self._credit = min(self._credit + passed * self._share, max(0.05, 4 * passed * self._share))
        readable = [member for member in members if not member.denied] if self._rollup or self._smaps else []
        for member in sorted(readable, key=lambda member: _urgency(t, member), reverse=True):
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
        """Read a member exactly. If it has ended, drop its Reading. If another user owns it, keep only its RSS."""
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
        """Read the mapped files of a member: at first, when their PSS has changed, and now and then."""
        last, reading = member.last, member.now
        member.readings += 1
        moved = last is not None and (
            abs(reading.pss_shmem - last.pss_shmem) > max(_MOVED, last.pss_shmem // 4)
            or abs(reading.pss_file - last.pss_file) > max(_MOVED, last.pss_file // 4)
        )
        if last is None or moved or smaps is not None or member.readings % _MAPS_EVERY == 0:
            member.parts = self._parts(member.pid, smaps)

    def _look_at_files(self, t: float, member: Member) -> None:
        """Read the open files between exact readings if their number changed or is unknown: batches come and go."""
        if self._credit < _DEBT or member.denied:
            return
        try:
            if member.files_open is None or self.proc.open_files(member.pid) != member.files_open:
                began = time.thread_time()
                self._read_files(t, member)
                self._credit -= time.thread_time() - began
        except OSError:
            return  # it is ending

    def _read_files(self, t: float, member: Member) -> None:
        """Read a member's open files in shared memory, unless their number is the same since a recent reading."""
        count = self.proc.open_files(member.pid)
        if count is None or count != member.files_open or t - member.files_at > _FILES_AGE:
            member.files_open, member.files_at = count, t
            member.shared_files = self.proc.descriptors(member.pid)
            for descriptor in member.shared_files:
                self.names.classify(descriptor.key, descriptor.path, member.pid, descriptor.number)

    def _parts(self, pid: int, smaps: bytes | None) -> attribution.Parts | None:
        if smaps is None and self._smaps:
            smaps = self.proc.smaps(pid)
        return attribution.Parts(mappings_of(smaps), self.names) if smaps is not None else None

    def cgroup_now(self) -> dict[str, int | None] | None:
        """The use and the kill counters of the memory cgroup for a sample; None without a cgroup."""
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
        """Whether the memory cgroup has grown so much since the last sample that it may reach its limit before the
        next."""
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
        """The event of the end of a member, with its exit code or signal if known."""
        code, name = outcome(member.status)
        how = "ended" if member.status is None else f"was ended by {name}" if name else f"ended with exit code {code}"
        last = member.last
        size = f"; it had a USS of {last.uss:,} bytes" if last is not None else ""
        text = f"{member.label}, process {member.pid}, {how}{size}"
        return event("ended", text, t=t, pid=member.pid, label=member.label, exit=code, signal=name)

    def _say_denied(self, t: float, members: Sequence[Member]) -> list[Entry]:
        denied = [member for member in members if member.denied and member.alive]
        if not denied or self._said_denied:
            return []
        self._said_denied = True
        first = denied[0]
        text = (
            f"process {first.pid} ({first.label}) belongs to another user or is protected: only its RSS is known, and "
            f"the sums of PSS and USS do not include it; run the monitor as its user or as root"
        )
        return [event("warning", text, t=t, pid=first.pid, label=first.label)]


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
    """`(exit code, signal name)` of a status from waitpid. The value that does not apply is None. Both are None if the
    status is unknown."""
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
    """The priority of a member for an exact reading."""
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
    """The sums of the known figures of the members; None for a figure that no member has."""
    sums: dict[str, int | None] = {}
    for name in FIGURES:
        known = [value for value in (getattr(member.now, name) for member in members) if value is not None]
        sums[name] = sum(known) if known else None
    sums["unmapped"] = unmapped if sums["pss"] is not None else None
    sums["unknown"] = sum(member.now.pss is None for member in members)
    return sums
