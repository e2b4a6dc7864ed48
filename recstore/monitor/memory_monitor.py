"""recstore.MemoryMonitor: watches the program that makes it, and its workers."""

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
from recstore.monitor import limits, post_mortem
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

# The columns of the published tool (docs/monitor.md), and the label.
COLUMNS = ("time", "PID", "rss", "pss", "uss", "shared", "shared_file", "label")
_FIGURES = COLUMNS[2:7]
_PATIENCE = 30.0  # seconds that the watching process has to write its last sample


class MemoryMonitor:
    """Watches the memory of this program and of the processes that it starts.

    Another process takes the samples and writes them to a log. It is not counted, and it logs the end of this program
    too, should it be killed.

    Args:
        loader: a DataLoader, whose settings are then noted in the log; the processes are watched with and without it.
        interval: seconds between two samples.
        log: the path of the log, to which is appended; unless given, a temporary file that is removed with the monitor,
            or with this program if a signal ends it.
        warn: the share of the cgroup's limit, such as "85%", or the size of this program with its workers, such as "12
            GB", at which a warning is printed; None for no warning.

    Raises ValueError for an interval or threshold that is none, OSError where the log cannot be written, and
    NotImplementedError on systems without /proc.

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
        self._warn = limits.threshold(warn)
        self._loader = loader
        self._given = None if log is None else os.path.abspath(os.fspath(log))
        self._forget()

    def _forget(self) -> None:
        # The process that has started to watch; a forked child has a copy of this object.
        self._owner: int | None = None
        self._path = self._given
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., MemoryMonitor] | None = None
        # Taken by helper threads alone (`_undisturbed`), which no interrupt cuts short.
        self._lock = _thread.allocate_lock()

    @property
    def log(self) -> str | None:
        """The path of the log; None before the first start without one."""
        return self._path

    @property
    def _watching(self) -> bool:
        return self._process is not None and self._owner == os.getpid()

    def start(self) -> Self:
        """Begin to watch; `with` does it too. Raises Error if it is watching already, or if the watching process cannot
        start. After an exception, KeyboardInterrupt included, no process and no new log is left."""
        begun: list[Any] = []
        try:
            _undisturbed(lambda: self._begin(begun))
            process = begun[0]
            ready = process.stdout.readline() == READY
            process.stdout.close()
            if not ready:
                raise Error(
                    f"the process that watches the memory ended at once, with exit code "
                    f"{_wait(process)}; standard error has its message"
                )
            if self._loader is not None:
                _undisturbed(lambda: self.note(_described(self._loader)))
            return self
        except BaseException:
            self._abandon(begun)
            raise

    def _begin(self, begun: list[Any]) -> None:
        """Start the process that watches; `begun` gets it, and then what removes the traces of a start that fails."""
        if self._owner != os.getpid():
            self._forget()
            self._owner = os.getpid()
        with self._lock:
            if self._watching:
                raise Error("this MemoryMonitor is watching already")
            undo: list[Callable[[], object]] = []
            try:
                self._make_log(undo)
                with Log(self._path) as log:  # type: ignore[arg-type]
                    _check_log(log)
                    task = {"temporary": self._given is None, "interval": self._interval, "warn": self._warn}
                    process = _spawn(log, task)
            except BaseException:
                self._undo(undo)
                raise
            self._process = process
            self._end = weakref.finalize(self, _stop, process, self._owner)
            begun += [process, *undo]

    def _make_log(self, undo: list[Callable[[], object]]) -> None:
        if self._path is None:
            number, path = tempfile.mkstemp(prefix="recstore-monitor-", suffix=".jsonl")
            os.close(number)
            self._path = path
            # Unlike a finalizer of weakref, it is called too where a process of multiprocessing ends.
            undo.append(multiprocessing.util.Finalize(self, _remove, (path,), exitpriority=0))
        elif not os.path.lexists(self._path):
            undo.append(functools.partial(_discard, self._path))

    def _undo(self, undo: Sequence[Callable[[], object]]) -> None:
        for one in undo:
            one()
        if undo:
            self._forget()

    def _abandon(self, begun: list[Any]) -> None:
        """End a start that has failed."""
        if begun:
            process, *undo = begun
            _kill(process)
            self._stop(process)
            process.stdout.close()
            self._undo(undo)

    def stop(self) -> None:
        """Take a last sample and end; `with` does it too. A second call does nothing."""
        if self._watching:
            self._stop(self._process)  # type: ignore[arg-type]

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        # The finalizer goes last, so that it ends the process if an interrupt cuts this call short.
        _stop(process, self._owner)
        if self._process is process:  # no other thread has stopped it and started another one
            self._end.detach()  # type: ignore[union-attr]
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def note(self, text: object, what: str = "note") -> None:
        """Write an event to the log; it is a mark in plots. `what` is "note", "warning" or "epoch"."""
        with Log(self._started()) as log:
            log.write(event(what, str(text), pid=os.getpid(), label="main"))

    def epoch(self, number: object) -> None:
        """Note that an epoch begins."""
        self.note(f"epoch {number}", "epoch")

    def run(self) -> Run:
        """The run as the log has it, a :class:`recstore.monitor.log.Run`; of long runs older samples are left out."""
        return post_mortem.read(self._started())

    def _started(self) -> str:
        if self._owner is None:
            raise Error("this MemoryMonitor has not been started")
        return self._path  # type: ignore[return-value]

    def report(self) -> MemoryReport:
        """The :class:`MemoryReport` of what was seen until now."""
        return MemoryReport(self.run())

    def plot(self, what: str = "pss") -> Any:
        """A Figure of plotly: each process, their sum, the limit and the events over time. `what` is pss, uss, rss,
        shared, shared_file or swap. Raises ImportError without plotly."""
        from recstore.monitor import plots

        return plots.figure(self.run(), what)

    def page(self, path: Path) -> None:
        """Write the page that `recstore monitor --html` writes. Raises ImportError without plotly, and OSError."""
        from recstore.monitor import page

        page.write(self.run(), path)

    def __repr__(self) -> str:
        state = "watching" if self._watching else "not watching"
        return f"<MemoryMonitor, {state}, log {self.log}>"


class MemoryReport:
    """The memory of the processes at the moment at which their sum was the highest; prints as a table.

    Attributes:
        rows: a dict for each process: time (seconds since the start), PID, rss, pss, uss, shared, shared_file in bytes,
            None where unknown, and label.
        named: the bytes by class, as docs/monitor.md has them.
        total: the sum of all processes in bytes.
        verdicts: why the memory grows, as far as a rule fits.
        missing: sentences about figures that this machine does not give.
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
            passed = peak["t"] - run.samples[0]["t"]
            self.named, self.total = peak["named"] or {}, total(peak)
            for one in sorted(peak["processes"], key=lambda one: -(one["pss"] or one["rss"] or 0)):
                figures = {name: one[name] for name in _FIGURES}
                self.rows.append({"time": passed, "PID": one["pid"], **figures, "label": one["label"]})

    def _cells(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [COLUMNS]
        for one in self.rows:
            sizes = [size_text(one[name]) for name in _FIGURES]
            rows.append((f"{one['time']:.1f}", str(one["PID"]), *sizes, one["label"]))
        return rows

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
    """Call a function in a thread, and wait until it has ended. A signal's handler, such as that of Ctrl-C, raises its
    exception in the main thread; so it cannot cut the function short, and is raised afterwards. There is no lock here,
    because an exception just after one is taken would leave it locked."""
    ticket: list[None] = [None]
    ended: list[None] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            ticket.pop()
        except IndexError:
            return  # an interrupt was first
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
    """The monitor reads its log again, which has no end in a device and waits in a pipe."""
    if not stat.S_ISREG(os.fstat(log.fileno()).st_mode):
        raise ValueError(f"log={log.path!r} is a pipe or a device, which cannot be read again: name a file")


def _spawn(log: Log, task: dict[str, Any]) -> subprocess.Popen[bytes]:
    """The process that watches this one. It finds the packages where this one does."""
    if not sys.executable:
        raise Error(
            "sys.executable is empty, as in a program that embeds Python: set it to the path of a Python of the same "
            "version, which runs the process that watches the memory"
        )
    task = {**task, "pid": os.getpid(), "log": log.path, "fd": log.fileno(), "command": _command()}
    code = f"import sys; sys.path[:] = {sys.path!r}; from recstore.monitor.attached import main; main()"
    # A session of its own: Ctrl-C and the end of the terminal are for the program.
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
    """The program and its first arguments: the system takes 128 KiB in one argument."""
    kept: list[str] = []
    left = 10_000
    for one in map(str, sys.argv):
        left -= len(one)
        if left < 0:
            return [*kept, f"and {counted(len(sys.argv) - len(kept), 'more argument')}"]
        kept.append(one)
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
        pass  # it has ended, and its log says why; or another thread has told it to
    try:
        _wait(process)
    finally:
        _kill(process)


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a process; None if it goes on. Popen.wait has a lock, which an interrupt can leave locked."""
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
    """Remove a log that a failed start has made, unless another program has begun to use it."""
    mine = f'"pid":{os.getpid()},'.encode()
    with contextlib.suppress(FileNotFoundError):
        with open(path, "rb") as file:
            if all(mine in line for line in file if line.startswith(b'{"kind":"start"')):
                os.unlink(path)


def _described(loader: object) -> str:
    """The settings of a DataLoader that decide about memory, in a sentence."""
    names = (
        "num_workers",
        "prefetch_factor",
        "batch_size",
        "pin_memory",
        "persistent_workers",
        "multiprocessing_context",
    )
    found = [f"{name}={getattr(loader, name)!r:.60}" for name in names if getattr(loader, name, None) is not None]
    return f"{type(loader).__name__} with {', '.join(found) or 'no settings'}"
