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
from recstore.monitor.limits import Warnings, threshold
from recstore.monitor.log import Log
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
    """Add the command to the parser."""
    one = commands.add_parser(
        "monitor",
        help="the memory of a job over time: each process, where it goes, a warning before the limit",
        usage="recstore monitor [options] -- COMMAND [ARGUMENT ...]\n       recstore monitor [options] --pid PID",
        description="Runs a command and shows USS, PSS and RSS of its processes in the last rows of the terminal. The "
        "exit status is the command's; 128 and the signal's number if a signal ended it; 127 if it is not found, and "
        "126 if it cannot be run.",
    )
    one.add_argument("--pid", type=files.positive, metavar="PID", help="watch a process that runs, and its children")
    one.add_argument("--log", metavar="FILE", help="append each sample to FILE, one JSON line each")
    one.add_argument("--html", metavar="FILE", help="write a page with plots at the end")
    one.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="S", help="seconds between samples, 1 unless told"
    )
    about = "warn at this share of the limit of the cgroup (85%% unless told), or at a size such as 12GB; off: never"
    one.add_argument("--warn", type=_warn, default=0.85, metavar="AT", help=about)
    one.add_argument("--quiet", action="store_true", help="no table: warnings alone are printed")
    one.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND")
    one.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    if (options.pid is None) == (not arguments):
        raise Usage("name a command after --, or a process with --pid, and not both")
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
            # That of a command that could not be started is empty. The command may have removed it too.
            with contextlib.suppress(FileNotFoundError):
                if os.path.isfile(log.path) and not os.path.getsize(log.path):
                    os.unlink(log.path)


def _check_html(path: str) -> None:
    """Say before the command runs that the page could not be written at its end."""
    import importlib.util

    if importlib.util.find_spec("plotly") is None:
        raise Refused('--html needs plotly: pip install "recstore[monitor]"')
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(folder, os.W_OK | os.X_OK):
        raise Refused(f"no page can be written to {path}: name a file in a folder that exists and can be written")


class Show:
    """The output of the monitor: the live table where standard error is a terminal, and lines of text."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self._failed = False
        self._out = sys.stderr
        plain = quiet or not self._out.isatty() or os.environ.get("TERM", "dumb") == "dumb"
        self.panel = None if plain else terminal.Panel(self._out.fileno())

    def say(self, text: str) -> None:
        """Print a line; a closed terminal is no error."""
        line = f"recstore monitor: {text}"
        if self.panel is not None:
            self.panel.above(line)
            return
        try:
            print(line, file=self._out, flush=True)
        except OSError:
            self.quiet = True

    @contextlib.contextmanager
    def failing(self, what: str) -> Iterator[None]:
        """A fault of the monitor is said; the command goes on, and its exit status is passed on all the same."""
        try:
            yield
        except Exception as error:
            if not self._failed:
                self._failed = True
                self.say(f"{what} failed: {type(error).__name__}: {reason(error)}; the command goes on")
            time.sleep(0.1)  # the same fault may come at once again

    def end(self, run: Run, options: argparse.Namespace) -> None:
        """Print the tables of the end."""
        self.close()
        width = shutil.get_terminal_size((100, 24)).columns
        lines = [terminal.fill(f"recstore monitor: {one}", width) for one in (run.start or {}).get("missing", [])]
        lines.append(terminal.summary(run, width))
        if run.samples:
            from recstore.monitor import verdicts

            found = verdicts.text(verdicts.judge(run))
            lines += ["", *(one if one[:1] == " " else terminal.fill(one, width) for one in found.split("\n"))]
        try:
            if not self.quiet:
                print("\n".join(lines), file=self._out, flush=True)
        except OSError:
            self.quiet = True

    def close(self) -> None:
        """Give the rows of the terminal back."""
        if self.panel is not None:
            self.panel.close()


def _watch_of(root: int, options: argparse.Namespace, log: Log | None, show: Show, **how: Any) -> tuple[Watch, Recent]:
    from recstore.monitor.store_names import name_of

    sampler = Sampler(root, without=(os.getpid(),), ask=name_of, **how)
    recent = Recent()
    sinks = [one for one in (log, recent, show.panel) if one is not None]
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
        _say_left(watch)
        watch.finish(command.status)
        _finish(recent, options, show)
    return command.exit_status


def _say_left(watch: Watch) -> None:
    """Processes that outlive the command are said, as nobody watches them any longer."""
    watch.catch_up()
    left = [f"{one.label} ({one.pid})" for one in watch.sampler.tree.members.values()]
    if left:
        more = f" and {len(left) - 10:,} more" if len(left) > 10 else ""
        watch.note(f"still running after the command has ended: {', '.join(left[:10])}{more}", "warning")


def _watch_process(pid: int, options: argparse.Namespace, log: Log | None, show: Show) -> int:
    if not _exists(pid):
        raise Refused(f"no process has the number {pid}")
    watch, recent = _watch_of(pid, options, log, show)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    handlers = {number: signal.signal(number, _noted) for number in _STOPS}
    status = None
    try:
        watch.begin(None)
        watch.listen(reader)
        root = None
        while watch.sample():
            root = root or watch.sampler.tree.members.get(pid)
            stopped = _rest(watch)
            if root is not None and not root.alive:
                status = root.status
                break
            if stopped:
                watch.note("the monitor was told to end; the job goes on")
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
    if pid < 1:  # kill takes 0 and negative numbers for process groups
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it is another user's: its RSS can be watched
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _noted(*_: object) -> None:
    """A signal's handler: set_wakeup_fd tells the loop, which acts on it."""


def _rest(watch: Watch) -> bool:
    """Wait until the next sample is due or the root has ended; whether a signal has come."""
    while True:
        root = watch.sampler.tree.members.get(watch.sampler.tree.root)
        due, readable = watch.wait()
        if readable:
            return True
        if due or (root is not None and not root.alive):
            return False


def _finish(recent: Recent, options: argparse.Namespace, show: Show) -> None:
    run = recent.run()
    show.end(run, options)
    if options.html is not None:
        from recstore.monitor import page

        try:
            page.write(run, options.html)
        except OSError as error:
            show.say(f"the page {options.html} cannot be written: {error.strerror}")


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
