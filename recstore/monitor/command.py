"""Runs a command under the monitor: starts it, passes signals on, collects its status and that of its orphans.

The command stays in the process group of the monitor, so that the terminal sends Ctrl-C to both, and stops and
continues both. The monitor passes on only the signals that a process has sent to it. It makes itself the subreaper of
the command (prctl(2), PR_SET_CHILD_SUBREAPER): a daemon whose parent has ended becomes its child and stays in the job.
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
_OTHERS = (signal.SIGCHLD, signal.SIGWINCH)
# Python ignores them; a command expects them as they are by default, as from a shell.
_DEFAULT = (signal.SIGPIPE, signal.SIGXFSZ)


class CannotRun(Exception):
    """The command cannot be started; `status` is the exit status that a shell has for it."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def become_subreaper() -> bool:
    """Whether orphans of this process's descendants become its children from now on."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


class Signals:
    """Receives signals in a thread and hands them over through a pipe, so that a poll can wait for them too.

    Unlike a handler, sigwaitinfo tells whether the terminal has sent a signal, or a process.
    """

    def __init__(self) -> None:
        self._awaited = {*_FORWARDED, *_OTHERS}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored ones would be collected by the kernel
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        while True:
            found = signal.sigwaitinfo(self._awaited)
            by_process = found.si_code <= 0  # the kernel's own codes are positive
            os.write(self._writer, bytes([found.si_signo, by_process]))

    def read(self) -> list[tuple[int, int]]:
        """Pairs of a signal's number and whether a process has sent it."""
        try:
            data = os.read(self.reader, 4096)
        except BlockingIOError:
            return []
        return list(zip(data[::2], data[1::2]))


class Command:
    """A command that runs as a child. Raises CannotRun.

    Attributes:
        pid: its process. status: as waitpid gives it; None while the command runs.
    """

    def __init__(self, arguments: list[str], signals: Signals) -> None:
        self.pid = _spawn(arguments, signals.before)
        self.status: int | None = None

    def handle(self, number: int, by_process: int) -> None:
        """Act on a signal that the monitor has got: pass it on if the command cannot have got it."""
        if number in _FORWARDED and by_process and self.status is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has ended; its status is about to be collected

    def collect(self) -> list[tuple[int, int]]:
        """`(pid, status)` of each child that has ended, orphans of the command included."""
        found: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            if pid == self.pid:
                self.status = status
            found.append((pid, status))

    @property
    def exit_status(self) -> int:
        """The status with which a shell would end: 128 and the signal's number for a command that a signal ended."""
        status: int = self.status  # type: ignore[assignment]  # it has ended
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _spawn(arguments: list[str], mask: Iterable[int]) -> int:
    name = arguments[0]
    try:
        return os.posix_spawnp(name, arguments, os.environ, setsigmask=mask, setsigdef=_DEFAULT)
    except FileNotFoundError:
        about = "no such file" if "/" in name else "no such command on the PATH"
        if "/" in name and os.path.exists(name):
            about = "the interpreter that its first line names is missing"
        raise CannotRun(f"cannot run {name}: {about}", 127) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotRun(f"cannot run {name}: {reason}", 126) from None
