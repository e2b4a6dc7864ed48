"""The text of a lock file: which attempt at a build it belongs to, which process builds, and how the build failed."""

import os

from recstore.shm import named_segments


class LockState:
    """The text of a lock file, read. Without a text that can be read, attempt 0 by "another process"."""

    def __init__(self, attempt=0, builder="another process", pid=0, failed=False, text=""):
        self.attempt, self.builder, self.pid, self.failed, self.text = attempt, builder, pid, failed, text

    @staticmethod
    def pack(attempt, failure=None):
        """The text that this process writes while it builds, or with the traceback of its failure."""
        label = named_segments.Label(named_segments.maker())
        state = "building" if failure is None else "failed"
        lines = [str(attempt), str(os.getpid()), label.builder, state, failure or ""]
        return "\n".join(lines).encode("utf-8", "replace")

    @staticmethod
    def of(data):
        """The state that the bytes of a lock file tell."""
        parts = data.decode("utf-8", "replace").split("\n", 4)
        if len(parts) < 5 or not parts[0].isdecimal() or not parts[1].isdecimal():
            return LockState()  # empty, or half written
        return LockState(int(parts[0]), parts[2], int(parts[1]), parts[3] == "failed", parts[4])

    @staticmethod
    def at(path):
        """The state that a lock file tells, without a lock on it; None where there is no such file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return LockState.of(os.pread(fd, 1 << 16, 0))
        finally:
            os.close(fd)
