"""`recstore monitor`: runs a command, or watches a running process, and shows the memory of its processes."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time

from recstore.cli import files
from recstore.cli.files import Refused, Usage
from recstore.cli.text import reason
from recstore.monitor import terminal
from recstore.monitor.log import Log
from recstore.monitor.low_memory import Warnings, threshold
from recstore.monitor.recent import Recent
from recstore.monitor.sampler import Sampler, outcome
from recstore.monitor.watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from recstore.cli.files import Commands
    from recstore.monitor.log import Run

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser(
        "monitor",
        help="show the memory of a job over time, per process, and warn before it reaches its limit",
        usage="recstore monitor [options] -- COMMAND [ARGUMENT ...]\n       recstore monitor [options] --pid PID",
        description="Runs a command and shows USS, PSS and RSS of its processes in the last rows of the terminal. The "
        "exit status is the status of the command; 128 plus the signal number if a signal ended it; 127 if it is not "
        "found; 126 if it cannot be run.",
    )
    command.add_argument("--pid", type=files.positive, metavar="PID", help="watch a running process and its children")
    command.add_argument("--log", metavar="FILE", help="append each sample to FILE as a JSON line")
    command.add_argument("--html", metavar="FILE", help="write a page with plots at the end")
    about = "seconds between samples (default: 1)"
    command.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help=about)
    about = "warn at this share of the cgroup's limit, or at a size such as 12GB; off disables it (default: 85%%)"
    command.add_argument("--warn", type=_warn, default=0.85, metavar="AT", help=about)
    command.add_argument("--quiet", action="store_true", help="print only warnings, no table")
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns the exit status."""
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    if (options.pid is None) == (not arguments):
        raise Usage("give either a command after -- or a process with --pid")
    if not os.path.isdir("/proc/self"):
        raise Refused("the monitor reads /proc, which this system does not have")
    if options.html is not None:
        _check_html(options.html)
    show = Show(options.quiet)
    try:
        log = None if options.log is None else Log(options.log, show.say)
    except ValueError as error:
        raise Refused(str(error)) from None
    try:
        if options.pid is None:
            return _run_command(arguments, options, log, show)
        return _watch_process(options.pid, options, log, show)
    finally:
        show.close()
        if log is not None:
            log.close()
            # The log is empty if the command could not be started. The command may also have removed it.
            with contextlib.suppress(FileNotFoundError):
                if os.path.isfile(log.path) and not os.path.getsize(log.path):
                    os.unlink(log.path)


def _check_html(path: str) -> None:
    """Raises Refused before the command runs if the page could not be written after it."""
    import importlib.util

    if importlib.util.find_spec("plotly") is None:
        raise Refused('--html needs plotly: pip install "recstore[monitor]"')
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"cannot write a page to {path}: name a file in an existing, writable folder")


class Show:
    """The output of the monitor: lines of text, and a live table if standard error is a terminal."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self._failed = False
        self._out = sys.stderr
        plain = quiet or not self._out.isatty() or os.environ.get("TERM", "dumb") == "dumb"
        self.panel = None if plain else terminal.Panel(self._out.fileno())

    def say(self, text: str) -> None:
        """Prints a line; ignores a closed terminal."""
        line = f"recstore monitor: {text}"
        if self.panel is not None:
            self.panel.above(line)
            return
        try:
            print(line, file=self._out, flush=True)
        except OSError:
            self.quiet = True

    @contextlib.contextmanager
    def failing(self, part: str) -> Iterator[None]:
        """Reports the first exception of the monitor and goes on: the command and its exit status matter more."""
        try:
            yield
        except Exception as error:
            if not self._failed:
                self._failed = True
                self.say(f"{part} failed: {type(error).__name__}: {reason(error)}; the command continues")
            time.sleep(0.1)  # the next call may fail at once too

    def end(self, run: Run) -> None:
        """Prints the summary and the verdicts."""
        self.close()
        width = shutil.get_terminal_size((100, 24)).columns
        missing = (run.start or {}).get("missing", [])
        lines = [terminal.fill(f"recstore monitor: {text}", width) for text in missing]
        lines.append(terminal.summary(run, width))
        if run.samples:
            from recstore.monitor import verdicts

            judged = verdicts.text(verdicts.judge(run)).split("\n")
            lines += ["", *(line if line[:1] == " " else terminal.fill(line, width) for line in judged)]
        try:
            if not self.quiet:
                print("\n".join(lines), file=self._out, flush=True)
        except OSError:
            self.quiet = True

    def close(self) -> None:
        """Removes the live table from the terminal."""
        if self.panel is not None:
            self.panel.close()


def _watch_of(
    root: int, options: argparse.Namespace, log: Log | None, show: Show, **sampler_options: Any
) -> tuple[Watch, Recent]:
    from recstore.monitor.store_names import name_of

    sampler = Sampler(root, without=(os.getpid(),), ask=name_of, **sampler_options)
    recent = Recent()
    sinks = [sink for sink in (log, recent, show.panel) if sink is not None]
    warnings = Warnings(options.warn, sampler)
    return Watch(sampler, sinks, interval=options.interval, warnings=warnings, say=show.say), recent


def _run_command(arguments: list[str], options: argparse.Namespace, log: Log | None, show: Show) -> int:
    from recstore.monitor.command import CannotRun, Command, Signals, become_subreaper

    reaper = os.getpid() if become_subreaper() else None
    signals = Signals()
    try:
        command = Command(arguments, signals)
    except CannotRun as error:
        show.say(str(error))
        return error.status
    watch, recent = _watch_of(command.pid, options, log, show, reaper=reaper)
    watch.listen(signals.reader)
    due = True
    with show.failing("the monitor"):
        watch.begin(arguments)
    while command.status is None:
        with show.failing("a sample"):
            if due:
                watch.sample()
            due, _ = watch.wait()
        for number, by_process in signals.read():
            command.handle(number, by_process)
        for pid, status in command.collect():
            member = watch.sampler.tree.members.get(pid)
            if member is not None:
                watch.ended(member, status)
    with show.failing("the summary"):
        _report_left(watch)
        watch.finish(command.status)
        _finish(recent, options, show)
    return command.exit_status


def _report_left(watch: Watch) -> None:
    """Warns of processes that outlive the command, because the monitor stops watching them."""
    watch.catch_up()
    left = [f"{member.label} ({member.pid})" for member in watch.sampler.tree.members.values()]
    if left:
        more = f" and {len(left) - 10:,} more" if len(left) > 10 else ""
        watch.note(f"still running after the command has ended: {', '.join(left[:10])}{more}", "warning")


def _watch_process(pid: int, options: argparse.Namespace, log: Log | None, show: Show) -> int:
    if not _exists(pid):
        raise Refused(f"no process has the id {pid}")
    watch, recent = _watch_of(pid, options, log, show)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    handlers = {number: signal.signal(number, _ignore) for number in _STOPS}
    status = None
    try:
        watch.begin(None)
        watch.listen(reader)
        root = None
        while watch.sample():
            root = root or watch.sampler.tree.members.get(pid)
            stopped = _wait_for_sample(watch)
            if root is not None and not root.alive:
                status = root.status
                break
            if stopped:
                watch.note("the monitor was told to stop; the job continues")
                break
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
    watch.finish(status)
    _finish(recent, options, show)
    if root is not None and not root.alive:
        code, name = outcome(status)
        show.say(
            f"process {pid} has ended" + (f", by {name}" if name else "" if code is None else f" with exit code {code}")
        )
    return 0


def _exists(pid: int) -> bool:
    if pid < 1:  # kill() reads 0 and negative numbers as process groups
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # another user's process: only its RSS can be read
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _ignore(*_: object) -> None:
    """A signal handler that does nothing: the loop reads the signal from set_wakeup_fd."""


def _wait_for_sample(watch: Watch) -> bool:
    """Waits until the next sample is due or the root process has ended. Returns True if a signal came."""
    while True:
        root = watch.sampler.tree.members.get(watch.sampler.tree.root)
        due, readable = watch.wait()
        if readable:
            return True
        if due or (root is not None and not root.alive):
            return False


def _finish(recent: Recent, options: argparse.Namespace, show: Show) -> None:
    run = recent.run()
    show.end(run)
    if options.html is not None:
        from recstore.monitor import page

        try:
            page.write(run, options.html)
        except OSError as error:
            show.say(f"cannot write the page {options.html}: {error.strerror}")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.05 and 3600 seconds")
    return value


def _warn(text: str) -> float | None:
    if text == "off":
        return None
    try:
        return threshold(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
