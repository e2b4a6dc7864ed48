"""The text of a lock file: the number of the build attempt, the process that builds, and the failure."""

from __future__ import annotations

import os

from recstore.shm import named_segments


class LockState:
    """The parts of a lock file's text. The defaults are for an unreadable text."""

    def __init__(
        self, attempt: int = 0, builder: str = "another process", pid: int = 0, failed: bool = False, text: str = ""
    ) -> None:
        self.attempt, self.builder, self.pid, self.failed, self.text = attempt, builder, pid, failed, text

    @staticmethod
    def pack(attempt: int, failure: str | None = None) -> bytes:
        """The text for a build by this process: in progress, or failed with the traceback `failure`."""
        label = named_segments.Label(named_segments.maker())
        state = "building" if failure is None else "failed"
        lines = [str(attempt), str(os.getpid()), label.builder, state, failure or ""]
        return "\n".join(lines).encode("utf-8", "replace")

    @staticmethod
    def of(data: bytes) -> LockState:
        """Parses the bytes of a lock file."""
        parts = data.decode("utf-8", "replace").split("\n", 4)
        if len(parts) < 5 or not parts[0].isdecimal() or not parts[1].isdecimal():
            return LockState()  # empty, or half written
        return LockState(int(parts[0]), parts[2], int(parts[1]), parts[3] == "failed", parts[4])

    @staticmethod
    def at(path: str) -> LockState | None:
        """The LockState of the lock file at `path`, read without locking it; None if the file cannot be opened."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return LockState.of(os.pread(fd, 1 << 16, 0))
        finally:
            os.close(fd)
