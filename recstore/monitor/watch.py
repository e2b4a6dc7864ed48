"""The loop of the monitor: takes samples at an interval, notices the end of a process at once, and writes entries.

The pidfd of a process becomes readable when the process ends. The loop polls pidfds between samples, so it can read the
exit status of a worker while it is a zombie. Since Linux 6.15 this also works after the parent has collected
the status.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import time

from recstore.monitor import labels
from recstore.monitor.sampler import event, outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from recstore.monitor.entries import Entry
    from recstore.monitor.low_memory import Warnings
    from recstore.monitor.processes import Member
    from recstore.monitor.sampler import Sampler

    class Sink(Protocol):
        def write(self, entry: Entry, /) -> object: ...


_MOST_PIDFDS = 400  # a usual limit of open files is 1024
_CHECKS = 8  # checks of the use of a limited cgroup between two samples
_SHORTEST_CHECK = 0.1  # the least seconds between two checks

# ioctl PIDFD_GET_INFO of linux/pidfd.h. The first version of struct pidfd_info: a mask, ..., and the exit code.
_INFO = struct.Struct("=QQ11Ii")
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_INFO_EXIT = 1 << 3


class Watch:
    """Watches a job.

    Args:
        sampler: its Sampler.
        sinks: objects with `write(entry)`: a Log, a Recent, a display.
        interval: seconds between two samples.
        warnings: a low_memory.Warnings, or None.
        say: called with the text of each warning.
    """

    def __init__(
        self,
        sampler: Sampler,
        sinks: Sequence[Sink],
        *,
        interval: float = 1.0,
        warnings: Warnings | None = None,
        say: Callable[[str], object] | None = None,
    ) -> None:
        self.sampler = sampler
        self.interval = interval
        self._sinks = sinks
        self._warnings = warnings
        self._say = say
        self._poll = select.poll()
        self._pidfds: dict[int, Member] = {}  # descriptor: Member
        self._next = time.monotonic()
        sampler.ask_status = self._status

    def write(self, entry: Entry) -> None:
        """Hand an entry to all sinks."""
        for sink in self._sinks:
            sink.write(entry)

    def listen(self, fd: int) -> None:
        """Let `wait` return when this descriptor is readable."""
        self._poll.register(fd, select.POLLIN)

    def unlisten(self, fd: int) -> None:
        """Undo `listen`."""
        self._poll.unregister(fd)

    def begin(self, command: Sequence[str] | None) -> None:
        """Write the entry of kind start."""
        self.write(self.sampler.start(command, self.interval))

    def sample(self) -> bool:
        """Take a sample and write it. Returns False once no process is left."""
        entry, events = self.sampler.sample()
        for event_entry in events:
            self._tell(event_entry)
        self._follow()
        if entry is None:
            return bool(self.sampler.tree.members)
        self.write(entry)
        warning = self._warnings.check(entry) if self._warnings is not None else None
        if warning is not None:
            self._tell(warning)
        return True

    def note(self, text: str, what: str = "note") -> None:
        """Write an event that does not belong to a process."""
        self._tell(event(what, text))

    def catch_up(self) -> None:
        """Write the ends since the last sample, and label the processes that started since."""
        joined, ended = self.sampler.tree.refresh()
        labels.refresh(self.sampler.tree, joined)
        for member in ended:
            if member.status is None:
                member.status = self._status(member)
            self._tell(self.sampler.ended_event(time.time(), member))

    def finish(self, status: int | None) -> None:
        """Write the entry of kind end. `status` is the status of the job's first process; None if unknown."""
        self.catch_up()
        code, name = outcome(status)
        # The counter of kills rises only after the last sample of the killed process.
        cgroup = self.sampler.cgroup_now()
        self.write({"kind": "end", "t": time.time(), "exit": code, "signal": name, "cgroup": cgroup})
        for fd in list(self._pidfds):
            self._forget(fd)

    def wait(self) -> tuple[bool, list[int]]:
        """Wait until a sample or a check of a limited cgroup is due, a process ends, or a descriptor of `listen` is
        readable.

        A sample is due early if memory may reach its limit before the next sample.

        Returns `(whether a sample is due, the readable descriptors of listen)`.
        """
        left = self._next - time.monotonic()
        check = max(_SHORTEST_CHECK, self.interval / _CHECKS) if self.sampler.limited else left
        ready = self._poll.poll(max(0.0, min(left, check)) * 1000)
        others = []
        for fd, _ in ready:
            if fd in self._pidfds:
                self.ended(self._pidfds[fd])
            else:
                others.append(fd)
        now = time.monotonic()
        if now < self._next:
            return not ready and self.sampler.hurries(), others
        # After a pause of the machine, continue from now without catching up.
        self._next = max(self._next + self.interval, now)
        return True, others

    def ended(self, member: Member, status: int | None = None) -> None:
        """Write the event of a member that has ended. Without `status`, ask the system for it."""
        fds = [fd for fd, watched in self._pidfds.items() if watched is member]
        if member.alive:
            if status is None:
                status = self._status(member)
            self.sampler.tree.end(member, status)
            self._tell(self.sampler.ended_event(time.time(), member))
        for fd in fds:
            self._forget(fd)

    def _status(self, member: Member) -> int | None:
        """The status of a member that has ended; None if the system no longer has it."""
        try:
            stat = self.sampler.proc.stat(member.pid)
            if stat.start == member.start and stat.ended:
                return stat.status
        except (OSError, ValueError, IndexError):
            pass  # its parent has collected it
        return next((_status_of(fd) for fd, watched in self._pidfds.items() if watched is member), None)

    def _tell(self, entry: Entry) -> None:
        self.write(entry)
        if entry["what"] == "warning" and self._say is not None:
            self._say(entry["text"])

    def _follow(self) -> None:
        """Open a pidfd of each new member, and close the pidfds of members that have ended."""
        for fd in [fd for fd, member in self._pidfds.items() if not member.alive]:
            self._forget(fd)
        if self.sampler.proc.root != "/proc" or not hasattr(os, "pidfd_open"):
            return
        for member in self.sampler.tree.members.values():
            if member.followed or len(self._pidfds) >= _MOST_PIDFDS:
                continue
            member.followed = True
            try:
                fd = os.pidfd_open(member.pid)
            except OSError:
                continue  # it has ended, the kernel is older than 5.3, or too many files are open: samples see its end
            self._pidfds[fd] = member
            self._poll.register(fd, select.POLLIN)

    def _forget(self, fd: int) -> None:
        del self._pidfds[fd]
        self._poll.unregister(fd)
        os.close(fd)


def _status_of(pidfd: int) -> int | None:
    """The status of a process after its parent has collected it; None before Linux 6.15."""
    data = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, data)
    except OSError:
        return None
    fields = _INFO.unpack(data)
    return fields[-1] if fields[0] & _INFO_EXIT else None
