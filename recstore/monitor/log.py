"""The log of a monitored run, in JSON lines.

Each line is a JSON object, written in one `write`. So several processes can append to a log, and a kill loses at most
the line being written. Sizes are in bytes, times in seconds since the epoch. docs/monitor.md has the keys of each kind
of line: start, sample, event, end.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from operator import itemgetter

from recstore.monitor import entries
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from recstore._types import Path
    from recstore.monitor.entries import Entry

__all__ = ["Log", "Run", "read"]

FIRST = b'{"kind":'  # the beginning of each line


def line_of(entry: Entry) -> bytes:
    """An entry as a line of the log."""
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode() + b"\n"


class Log:
    """Appends entries to a log file.

    A failed write, such as on a full disk, does not raise: `say` is called once with a sentence, each later write tries
    again, and `lost` counts the lost entries. Safe from several threads.

    Args:
        path: the file, created if missing. Raises ValueError for a file that is neither empty nor a log.
        say: called with a sentence when entries are lost, and again when writing works again.
        fd: an open descriptor of the file for reading and appending, which the Log closes; None to open `path`.

    Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: Path, say: Callable[[str], object] | None = None, fd: int | None = None) -> None:
        self.path = os.fspath(path)
        self.lost = 0
        self._say = say
        self._lock = threading.Lock()
        self._failing = False
        self._fd: int | None = _open(self.path) if fd is None else fd
        try:
            self._cut = _ends_within_a_line(self._fd, self.path)
        except BaseException:
            self.close()
            raise

    def write(self, entry: Entry) -> bool:
        """Append an entry. Returns False if writing failed. Raises ValueError after `close`."""
        line = line_of(entry)
        with self._lock:
            if self._fd is None:
                raise ValueError(f"the log {self.path} is closed")
            # End a truncated line first, so that only that line is lost.
            data = b"\n" + line if self._cut else line
            try:
                written = os.write(self._fd, data)
            except OSError as error:
                self.lost += 1
                self._report_failure(error.strerror)
                return False
            if written < len(data):
                self._cut = True
                self.lost += 1
                self._report_failure("only part of a line was written; the disk may be full")
                return False
            self._cut = False
            if self._failing and self._say is not None:
                self._say(f"the log {self.path} can be written again; {self.lost:,} lines were lost")
            self._failing = False
            return True

    def _report_failure(self, reason: str | None) -> None:
        if not self._failing and self._say is not None:
            self._say(f"the log {self.path} cannot be written: {reason}; monitoring continues without it")
        self._failing = True

    def fileno(self) -> int:
        """The descriptor of the file."""
        return self._fd  # type: ignore[return-value]

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            fd, self._fd = self._fd, None
            if fd is not None:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(path: str) -> int:
    """Opens the file with a descriptor above 2, even if a standard stream is closed, because 0 to 2 become the standard
    streams of the watching process."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _ends_within_a_line(fd: int, path: str) -> bool:
    """Whether the file ends in the middle of a line. Raises ValueError for a file that is neither empty nor a log."""
    size = os.fstat(fd).st_size
    if not size:
        return False
    head = os.pread(fd, len(FIRST), 0)
    if not FIRST.startswith(head):
        raise ValueError(f"{path} is not empty and not a log of the monitor: choose another file, or remove it")
    return os.pread(fd, 1, size - 1) != b"\n"


class Run:
    """A monitored run, from its log.

    Attributes:
        start: the entry of kind start, or None.
        samples: the entries of kind sample, in order.
        events: the entries of kind event, in order.
        end: the entry of kind end, or None, for example while the run goes on or if the monitor was killed.
        bad_lines: the number of truncated or invalid lines in the log.
    """

    def __init__(self) -> None:
        self.start: Entry | None = None
        self.samples: list[Entry] = []
        self.events: list[Entry] = []
        self.end: Entry | None = None
        self.bad_lines = 0

    def add(self, entry: Entry) -> None:
        """Add an entry of a known kind."""
        kind = entry["kind"]
        if kind == "sample":
            self.samples.append(entry)
        elif kind == "event":
            self.events.append(entry)
        else:
            setattr(self, kind, entry)

    @classmethod
    def of(cls, lines: Iterable[bytes]) -> Self:
        """The run in the lines of a log; the last if there are several."""
        run = cls()
        bad = 0
        for line in lines:
            entry = _entry(line)
            if entry is None:
                bad += 1
                continue
            if entry["kind"] == "start" and (run.start or run.samples):
                run = cls()
            run.add(entry)
        run.bad_lines = bad
        run.samples.sort(key=itemgetter("t"))  # the clock of the machine may have been set back
        return run

    def __repr__(self) -> str:
        samples, events = counted(len(self.samples), "sample"), counted(len(self.events), "event")
        return f"<run: {samples}, {events}, {counted(self.bad_lines, 'bad line')}>"


def _entry(line: bytes) -> Entry | None:
    """The entry in a line; None for a truncated or invalid line."""
    if not line.endswith(b"\n"):
        return None
    try:
        return entries.checked(json.loads(line))
    except (ValueError, RecursionError):
        return None


def read(path: Path) -> Run:
    """The Run of a log file; the last if the file has several runs.

    Truncated and invalid lines (see recstore.monitor.entries) are skipped and counted as `bad_lines`.

    Raises OSError if the file cannot be read, and ValueError if it has no line of a log.
    """
    with open(path, "rb") as file:
        run = Run.of(line for line in file if line.strip())
    if run.start is None and not run.samples and not run.events and run.end is None:
        raise ValueError(f"{os.fspath(path)} has no line of a log of the monitor")
    return run
