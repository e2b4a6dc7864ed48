"""Runs a command under the monitor: starts it, forwards signals, and collects the exit statuses of the command and its
orphans.

The command stays in the process group of the monitor, so the terminal sends Ctrl-C to both, and stops and continues
both. The monitor forwards only signals from other processes. It becomes the subreaper of the command (prctl(2),
PR_SET_CHILD_SUBREAPER), so a daemon whose parent has ended becomes its child and stays in the job.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PR_SET_CHILD_SUBREAPER = 36
_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_NOT_FORWARDED = (signal.SIGCHLD, signal.SIGWINCH)
# Python ignores these signals, and a command expects their defaults.
_DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ)


class CannotRun(Exception):
    """The command cannot be started. `status` is the exit status that a shell would give."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process. Returns whether the system supports it."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


class Signals:
    """Receives signals in a thread and writes them to a pipe, so that a poll can wait for them.

    Unlike a handler, sigwaitinfo reports whether the terminal or a process sent a signal.
    """

    def __init__(self) -> None:
        self._awaited = {*_FORWARDED, *_NOT_FORWARDED}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, the kernel would discard exit statuses
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        while True:
            info = signal.sigwaitinfo(self._awaited)
            by_process = info.si_code <= 0  # the kernel's own codes are positive
            os.write(self._writer, bytes([info.si_signo, by_process]))

    def read(self) -> list[tuple[int, int]]:
        """`(signal number, whether a process sent it)` of each new signal."""
        try:
            data = os.read(self.reader, 4096)
        except BlockingIOError:
            return []
        return list(zip(data[::2], data[1::2]))


class Command:
    """A command that runs as a child. Raises CannotRun.

    Attributes:
        pid: its process. status: the status from waitpid; None while the command runs.
    """

    def __init__(self, arguments: list[str], signals: Signals) -> None:
        self.pid = _spawn(arguments, signals.before)
        self.status: int | None = None

    def handle(self, number: int, by_process: int) -> None:
        """Handle a signal to the monitor: forward it unless the terminal also sent it to the command."""
        if number in _FORWARDED and by_process and self.status is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has ended

    def collect(self) -> list[tuple[int, int]]:
        """`(pid, status)` of each child that has ended, orphans of the command included."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            if pid == self.pid:
                self.status = status
            ended.append((pid, status))

    @property
    def exit_status(self) -> int:
        """The exit status as a shell reports it: 128 plus the signal number for a command ended by a signal."""
        status: int = self.status  # type: ignore[assignment]  # it has ended
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _spawn(arguments: list[str], mask: Iterable[int]) -> int:
    name = arguments[0]
    try:
        return os.posix_spawnp(name, arguments, os.environ, setsigmask=mask, setsigdef=_DEFAULT)
    except FileNotFoundError:
        reason = "no such file" if "/" in name else "no such command on the PATH"
        if "/" in name and os.path.exists(name):
            reason = "the interpreter in its first line is missing"
        raise CannotRun(f"cannot run {name}: {reason}", 127) from None
    except (OSError, ValueError) as error:
        raise CannotRun(f"cannot run {name}: {getattr(error, 'strerror', error)}", 126) from None
