"""recstore.MemoryMonitor: watches the memory of its program and the program's workers."""

from __future__ import annotations

import _thread
import contextlib
import functools
import json
import multiprocessing.util
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import weakref

from recstore.display import html
from recstore.errors import Error
from recstore.monitor import low_memory, post_mortem
from recstore.monitor.attached import READY
from recstore.monitor.log import Log
from recstore.monitor.sampler import event
from recstore.monitor.terminal import places, total
from recstore.text import counted, size_text, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO, Any

    from typing_extensions import Self

    from recstore._types import Path
    from recstore.monitor.log import Run
    from recstore.monitor.verdicts import Verdict

__all__ = ["MemoryMonitor", "MemoryReport"]

# The columns of a MemoryReport.
COLUMNS = ("time", "PID", "rss", "pss", "uss", "shared", "shared_file", "label")
_FIGURES = COLUMNS[2:7]
_PATIENCE = 30.0  # seconds for the watching process to write its last sample


class MemoryMonitor:
    """Watches the memory of this program and of the processes that it starts.

    A separate process takes the samples and appends them to a log. It does not count itself, and it logs the end of
    this program even after a kill.

    Args:
        loader: a DataLoader, to note its settings in the log. Optional.
        interval: seconds between two samples.
        log: the path of the log. None for a temporary file, which is removed with the monitor, or if the program ends
            while it is watched.
        warn: prints a warning at this share of the cgroup's limit (without a limit, of the machine's memory), such as
            "85%", or at this size of the program with its workers, such as "12 GB". None for no warning.

    Raises ValueError or TypeError for an invalid interval or threshold, and NotImplementedError on systems without
    /proc.

    >>> import recstore
    >>> with recstore.MemoryMonitor(interval=0.1) as monitor:
    ...     data = bytearray(30_000_000)
    >>> report = monitor.report()
    >>> report.rows[0]["label"], report.rows[0]["rss"] > 0
    ('main', True)
    """

    __module__ = "recstore"

    def __init__(
        self,
        loader: object = None,
        *,
        interval: float = 1.0,
        log: Path | None = None,
        warn: str | float | int | None = "85%",
    ) -> None:
        if not os.path.isdir("/proc/self"):
            raise NotImplementedError("MemoryMonitor reads /proc, which this system does not have")
        if not 0.05 <= interval <= 3600:
            raise ValueError(f"interval={interval!r} is not between 0.05 and 3600 seconds")
        self._interval = float(interval)
        self._warn = low_memory.threshold(warn)
        self._loader = loader
        self._user_path = None if log is None else os.path.abspath(os.fspath(log))
        self._forget()

    def _forget(self) -> None:
        # The pid of the process that called start(); a forked child has a copy of this object.
        self._owner: int | None = None
        self._path = self._user_path
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., MemoryMonitor] | None = None
        # Only the threads of `_undisturbed` take this lock, because an interrupt cannot break them off.
        self._lock = _thread.allocate_lock()

    @property
    def log(self) -> str | None:
        """The path of the log; None before the first start if it is temporary."""
        return self._path

    @property
    def _watching(self) -> bool:
        return self._process is not None and self._owner == os.getpid()

    def start(self) -> Self:
        """Begin to watch, as `with` does. An exception, including KeyboardInterrupt, leaves no process and no new log.

        Raises Error if the monitor is already watching, or if the watching process cannot start; OSError if the log
        cannot be written; ValueError if it is not a regular file, or neither empty nor a log."""
        begun: list[Any] = []
        try:
            _undisturbed(lambda: self._begin(begun))
            process = begun[0]
            ready = process.stdout.readline() == READY
            process.stdout.close()
            if not ready:
                raise Error(
                    f"the process that watches the memory failed to start, with exit code {_wait(process)}; its "
                    "message is on standard error"
                )
            if self._loader is not None:
                _undisturbed(lambda: self.note(_describe_loader(self._loader)))
            return self
        except BaseException:
            self._abandon(begun)
            raise

    def _begin(self, begun: list[Any]) -> None:
        """Start the watching process. Appends it to `begun`, followed by functions that clean up a failed start."""
        if self._owner != os.getpid():
            self._forget()
            self._owner = os.getpid()
        with self._lock:
            if self._watching:
                raise Error("this MemoryMonitor is already watching")
            undo: list[Callable[[], object]] = []
            try:
                self._make_log(undo)
                with Log(self._path) as log:  # type: ignore[arg-type]
                    _check_log(log)
                    task = {"temporary": self._user_path is None, "interval": self._interval, "warn": self._warn}
                    process = _spawn(log, task)
            except BaseException:
                self._undo(undo)
                raise
            self._process = process
            self._end = weakref.finalize(self, _stop, process, self._owner)
            begun += [process, *undo]

    def _make_log(self, undo: list[Callable[[], object]]) -> None:
        if self._path is None:
            fd, path = tempfile.mkstemp(prefix="recstore-monitor-", suffix=".jsonl")
            os.close(fd)
            self._path = path
            # Unlike weakref.finalize, this also runs at the end of a child process of multiprocessing.
            undo.append(multiprocessing.util.Finalize(self, _remove, (path,), exitpriority=0))
        elif not os.path.lexists(self._path):
            undo.append(functools.partial(_discard, self._path))

    def _undo(self, undo: Sequence[Callable[[], object]]) -> None:
        for action in undo:
            action()
        if undo:
            self._forget()

    def _abandon(self, begun: list[Any]) -> None:
        """Clean up a failed start."""
        if begun:
            process, *undo = begun
            _kill(process)
            self._stop(process)
            process.stdout.close()
            self._undo(undo)

    def stop(self) -> None:
        """Take a last sample and stop watching, as the end of `with` does. A second call does nothing."""
        if self._watching:
            self._stop(self._process)  # type: ignore[arg-type]

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        # Detach the finalizer last: if an interrupt breaks off this call, the finalizer still ends the process.
        _stop(process, self._owner)
        if self._process is process:  # else another thread has restarted the monitor
            self._end.detach()  # type: ignore[union-attr]
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def note(self, text: object, what: str = "note") -> None:
        """Write an event to the log, which plots show as a mark. `what` is "note", "warning" or "epoch"."""
        with Log(self._started()) as log:
            log.write(event(what, str(text), pid=os.getpid(), label="main"))

    def epoch(self, number: object) -> None:
        """Note the start of an epoch."""
        self.note(f"epoch {number}", "epoch")

    def run(self) -> Run:
        """The :class:`recstore.monitor.log.Run` in the log. In a long run, older samples are thinned."""
        return post_mortem.read(self._started())

    def _started(self) -> str:
        if self._owner is None:
            raise Error("this MemoryMonitor has not been started")
        return self._path  # type: ignore[return-value]

    def report(self) -> MemoryReport:
        """The :class:`MemoryReport` of the run so far."""
        return MemoryReport(self.run())

    def plot(self, what: str = "pss") -> Any:
        """A plotly Figure of each process, the sum, the limit and the events over time. `what` is pss, uss, rss,
        shared, shared_file or swap. Raises ImportError without plotly."""
        from recstore.monitor import plots

        return plots.figure(self.run(), what)

    def page(self, path: Path) -> None:
        """Write an HTML page, as `recstore monitor --html` does. Raises ImportError without plotly, and OSError if
        the file cannot be written."""
        from recstore.monitor import page

        page.write(self.run(), path)

    def __repr__(self) -> str:
        state = "watching" if self._watching else "not watching"
        return f"<MemoryMonitor, {state}, log {self.log}>"


class MemoryReport:
    """The memory of each process at the peak of the sum. Prints as a table.

    Attributes:
        rows: a dict for each process: time (seconds since the first sample), PID, rss, pss, uss, shared, shared_file
            in bytes (None if unknown), and label.
        named: the bytes by class; see docs/monitor.md.
        total: the sum of all processes in bytes.
        verdicts: the Verdicts of the rules that match.
        missing: sentences about figures that this machine does not provide.
    """

    rows: list[dict[str, Any]]
    named: dict[str, Any]
    total: int | None
    verdicts: list[Verdict]
    missing: list[str]

    def __init__(self, run: Run) -> None:
        from recstore.monitor import verdicts

        self.rows, self.named, self.total = [], {}, None
        self.missing = list((run.start or {}).get("missing") or ())
        self.verdicts = verdicts.judge(run) if run.samples else []
        if run.samples:
            peak = max(run.samples, key=total)
            seconds = peak["t"] - run.samples[0]["t"]
            self.named, self.total = peak["named"] or {}, total(peak)
            for entry in sorted(peak["processes"], key=lambda entry: -(entry["pss"] or entry["rss"] or 0)):
                figures = {name: entry[name] for name in _FIGURES}
                self.rows.append({"time": seconds, "PID": entry["pid"], **figures, "label": entry["label"]})

    def _cells(self) -> list[tuple[str, ...]]:
        cells: list[tuple[str, ...]] = [COLUMNS]
        for row in self.rows:
            sizes = [size_text(row[name]) for name in _FIGURES]
            cells.append((f"{row['time']:.1f}", str(row["PID"]), *sizes, row["label"]))
        return cells

    def _notes(self) -> list[str]:
        from recstore.monitor import verdicts

        sentences = [
            f"{size_text(self.total)} in {counted(len(self.rows), 'process', 'processes')}: {places(self.named)}"
        ]
        return [*sentences, *self.missing, verdicts.text(self.verdicts)]

    def __str__(self) -> str:
        if not self.rows:
            return "No sample was taken."
        return "\n".join([table(self._cells(), ">>>>>>><"), *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.rows:
            return html.block(html.note("No sample was taken."))
        return html.block(html.table(self._cells(), ">>>>>>><"), *map(html.pre, self._notes()))


def _undisturbed(function: Callable[[], object]) -> None:
    """Calls a function in a thread, and waits until the function has ended. Signal handlers run in the main thread, so
    their exceptions, such as KeyboardInterrupt, cannot break off the function; this call raises them afterwards. It
    uses no lock, because an exception just after taking a lock would leave it locked."""
    ticket: list[None] = [None]
    ended: list[None] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            ticket.pop()
        except IndexError:
            return  # an interrupt came first
        try:
            function()
        except BaseException as error:
            failures.append(error)
        finally:
            ended.append(None)

    def wait() -> None:
        while not ended:
            time.sleep(0.001)

    try:
        _thread.start_new_thread(run, ())
        wait()
    except BaseException:
        try:
            ticket.pop()
        except IndexError:
            wait()
        raise
    if failures:
        raise failures.pop()


def _check_log(log: Log) -> None:
    """Raises ValueError unless the log is a regular file, which the monitor can read again."""
    if not stat.S_ISREG(os.fstat(log.fileno()).st_mode):
        raise ValueError(f"log={log.path!r} is a pipe or a device, which cannot be read again: use a file")


def _spawn(log: Log, task: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Starts the watching process, with the module path of this process."""
    if not sys.executable:
        raise Error(
            "sys.executable is empty, as in a program that embeds Python: set it to the path of a Python of the same "
            "version, to run the process that watches the memory"
        )
    task = {**task, "pid": os.getpid(), "log": log.path, "fd": log.fileno(), "command": _command()}
    code = f"import sys; sys.path[:] = {sys.path!r}; from recstore.monitor.attached import main; main()"
    # Start a new session, because Ctrl-C and the end of the terminal are for the program.
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(log.fileno(),),
            start_new_session=True,
        )
    except OSError as error:
        raise Error(
            f"the process that watches the memory cannot start {sys.executable}: {error.strerror}; `ulimit -a` shows "
            "the limits of files and processes"
        ) from error


def _command() -> list[str] | None:
    """The program and its first arguments, truncated because the system limits an argument to 128 KiB."""
    kept: list[str] = []
    left = 10_000
    for argument in map(str, sys.argv):
        left -= len(argument)
        if left < 0:
            return [*kept, f"and {counted(len(sys.argv) - len(kept), 'more argument')}"]
        kept.append(argument)
    return kept or None


def _stop(process: subprocess.Popen[bytes], owner: int | None) -> None:
    """Ask the watching process to end, and wait for its last sample."""
    if os.getpid() != owner:  # a forked worker has a copy of the monitor
        return
    pipe: IO[bytes] = process.stdin  # type: ignore[assignment]
    try:
        if not pipe.closed:
            pipe.write(b"end\n")
            pipe.close()
    except (OSError, ValueError):
        pass  # it has already ended, or another thread is stopping it
    try:
        _wait(process)
    finally:
        _kill(process)


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """Waits for a process. Returns its exit code, or None after a timeout. Unlike Popen.wait, it uses no lock, which an
    interrupt could leave locked."""
    end = time.monotonic() + _PATIENCE
    while process.returncode is None and time.monotonic() < end:
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:  # an interrupt came between the call and the assignment, or SIGCHLD is ignored
            process.returncode = 0
            break
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.002)
    return process.returncode


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        _wait(process)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _discard(path: str) -> None:
    """Remove a log created by a failed start, unless another program uses it."""
    own_pid = f'"pid":{os.getpid()},'.encode()
    with contextlib.suppress(FileNotFoundError):
        with open(path, "rb") as file:
            if all(own_pid in line for line in file if line.startswith(b'{"kind":"start"')):
                os.unlink(path)


def _describe_loader(loader: object) -> str:
    """The settings of a DataLoader that affect memory, in a sentence."""
    names = (
        "num_workers",
        "prefetch_factor",
        "batch_size",
        "pin_memory",
        "persistent_workers",
        "multiprocessing_context",
    )
    settings = [f"{name}={getattr(loader, name)!r:.60}" for name in names if getattr(loader, name, None) is not None]
    return f"{type(loader).__name__} with {', '.join(settings) or 'no settings'}"
