"""Runs each trial of `recstore demo` and `recstore bench` in its own process, and shows its stages."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

from recstore.cli import trial
from recstore.cli.text import error_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, Any, TypeVar

    _T = TypeVar("_T")

_PATIENCE = 5.0  # seconds that an interrupted trial gets to end its workers


class TrialError(Exception):
    """A trial failed; the message is one line for the user."""


class Trials:
    """Runs trials one after another, and ends the running trial when the command is interrupted.

    The signal handler never raises: in a destructor, Python would print its exception and go on. The handler ends the
    trial; then `run` reads the end of its output and raises.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._interrupted: float | None = None  # time.monotonic() at the first signal

    def interrupt(self, *_: object) -> None:
        """Handles SIGINT and SIGTERM."""
        if self._interrupted is None:
            self._interrupted = time.monotonic()
            if self._process is not None:
                self._process.terminate()

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal has come."""
        if self._interrupted is not None:
            raise KeyboardInterrupt

    def run(self, label: str, task: dict[str, Any]) -> dict[str, Any]:
        """Runs a task in its own process, shows its stages and returns its result. Raises TrialError."""
        self.check()
        result: dict[str, Any] | None = None
        failure = None
        process = self._process = _start(task)
        try:
            if self._interrupted is not None:  # the signal came before the process started
                process.terminate()
            for message in self._messages(process):
                if "stage" in message:
                    self._show(f"{label}: {message['stage']} ...")
                elif "error" in message:
                    # The process is about to end by itself. A signal would hit an interpreter that is shutting down.
                    failure = message["error"]
                else:
                    result = message["result"]
        except BaseException:
            process.terminate()
            raise
        finally:
            self._process = None
            process.stdout.close()  # type: ignore[union-attr]  # a pipe
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._show("")
        self.check()
        if failure is not None:
            raise TrialError(failure)
        if result is None:
            status = process.returncode
            ending = f"ended with exit code {status} and no result; its own messages are above"
            if status == -signal.SIGKILL:
                ending = "was killed, probably because memory ran out; use fewer records"
            raise TrialError(f"{label}: the measuring process {ending}")
        return result

    def say(self, text: str) -> None:
        """Prints a line of the result at once."""
        print(text, flush=True)

    def _show(self, stage: str) -> None:
        """Prints a stage to standard error; on a terminal, the next stage overwrites it."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{stage}", end="", file=sys.stderr, flush=True)
        elif stage:
            print(stage, file=sys.stderr, flush=True)

    def _messages(self, process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
        """The trial's messages up to the end of its output. Kills an interrupted trial that does not end."""
        rest = b""
        out: IO[bytes] = process.stdout  # type: ignore[assignment]  # a pipe
        while True:
            ready, _, _ = select.select([out], [], [], 1.0)
            if not ready:
                if self._interrupted is not None and time.monotonic() > self._interrupted + _PATIENCE:
                    process.kill()
                    return
                continue
            data = os.read(out.fileno(), 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            if self._interrupted is None:  # an interrupted trial may have written half a message
                yield from map(json.loads, lines)


def _start(task: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Starts the process of a trial, with SIGINT blocked: a terminal sends Ctrl-C to the whole group, and a starting
    Python would print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(trial.launch(task), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def measured(command: str, measure: Callable[[Trials, str], _T]) -> tuple[_T, int] | tuple[None, int]:
    """Runs `measure(trials, pool)` with Trials and the path of the pool file. Returns its result and exit status 0. On
    a failure, prints one line on standard error and returns None and the exit status: 1, or 130 after a signal."""
    trials = Trials()
    # A shell starts a background job with SIGINT ignored; it stays ignored.
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, trials.interrupt) for number in numbers}
    try:
        with tempfile.TemporaryDirectory(prefix=f"recstore-{command}-") as folder:
            result = measure(trials, os.path.join(folder, "pool"))
        trials.check()
        return result, 0
    except TrialError as error:
        print(f"recstore {command}: {error_line(error)}", file=sys.stderr)
        return None, 1
    except KeyboardInterrupt:
        print(f"recstore {command}: interrupted, all workers ended", file=sys.stderr)
        return None, 130
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
