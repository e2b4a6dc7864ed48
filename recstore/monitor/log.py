"""The log of a monitored run: JSON lines, which `Log` appends and `read` reads.

Each line is one JSON object in UTF-8 and one `write`, so that processes can append to one log and a kill loses at most
the line being written. All sizes are bytes and all times seconds since the epoch. docs/monitor.md has the keys of
each kind of line: start, sample, event, end.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading

from recstore.monitor import entries
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from recstore._types import Path
    from recstore.monitor.entries import Entry

__all__ = ["Log", "Run", "read"]

VERSION = 1
FIRST = b'{"kind":'  # how each line begins


def line_of(entry: Entry) -> bytes:
    """An entry, which is a dict, as the bytes of a line."""
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode() + b"\n"


class Log:
    """Appends entries to a log file.

    A disk that is full does not raise: `say` is called once with a sentence, each later write tries again, and the
    number of entries that were lost is `lost`. Threads may share a Log.

    Args:
        path: the file; made if it is missing. A file that is not empty and no log raises ValueError.
        say: called with a str when entries are lost, and again when writing works again.
        fd: a descriptor of the file, open for reading and appending, which the Log then closes; the path is opened
            unless it is given.

    Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: Path, say: Callable[[str], object] | None = None, fd: int | None = None) -> None:
        self.path = os.fspath(path)
        self.lost = 0
        self._say = say
        self._lock = threading.Lock()
        self._failing = False
        self._fd: int | None = _opened(self.path) if fd is None else fd
        try:
            self._cut = _ends_in_a_line(self._fd, self.path)
        except BaseException:
            self.close()
            raise

    def write(self, entry: Entry) -> bool:
        """Append an entry; False if the disk did not take it."""
        line = line_of(entry)
        with self._lock:
            if self._fd is None:
                raise ValueError(f"the log {self.path} is closed")
            # After half a line the next one begins on a line of its own, so that only the cut one is lost.
            data = b"\n" + line if self._cut else line
            try:
                written = os.write(self._fd, data)
            except OSError as error:
                self.lost += 1
                self._trouble(error.strerror)
                return False
            if written < len(data):
                self._cut = True
                self.lost += 1
                self._trouble("only a part of a line was written; the disk may be full")
                return False
            self._cut = False
            self._well()
            return True

    def _trouble(self, why: str | None) -> None:
        if not self._failing and self._say is not None:
            self._say(f"the log {self.path} cannot be written: {why}; monitoring goes on without it")
        self._failing = True

    def _well(self) -> None:
        if self._failing and self._say is not None:
            self._say(f"the log {self.path} can be written again; {self.lost:,} lines were lost")
        self._failing = False

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


def _opened(path: str) -> int:
    """A descriptor above the standard ones, as one of those may be closed: the watching process gets others there."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _ends_in_a_line(fd: int, path: str) -> bool:
    """Whether the file ends in the middle of a line. Raises ValueError if it has contents and is no log."""
    size = os.fstat(fd).st_size
    if not size:
        return False
    head = os.pread(fd, len(FIRST), 0)
    if not FIRST.startswith(head):
        raise ValueError(f"{path} has contents that are no log of the monitor: name another file, or remove it")
    return os.pread(fd, 1, size - 1) != b"\n"


class Run:
    """A monitored run, as its log tells it.

    Attributes:
        start: the dict of the line of kind start; None if the log has none.
        samples: a list of the dicts of kind sample, in order.
        events: a list of the dicts of kind event, in order.
        end: the dict of the line of kind end; None if the log has none: the run goes on, or the monitor was killed.
        bad_lines: the number of lines that were cut or are no entry of a log.
    """

    def __init__(self) -> None:
        self.start: Entry | None = None
        self.samples: list[Entry] = []
        self.events: list[Entry] = []
        self.end: Entry | None = None
        self.bad_lines = 0

    def add(self, entry: Entry) -> None:
        """Take in one entry, which is a dict with a known kind."""
        kind = entry["kind"]
        if kind == "sample":
            self.samples.append(entry)
        elif kind == "event":
            self.events.append(entry)
        else:
            setattr(self, kind, entry)

    @classmethod
    def of(cls, lines: Iterable[bytes]) -> Self:
        """The run of an iterable of lines as bytes; of several runs in one log, the last."""
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
        run.samples.sort(key=_time)  # the clock of the machine may have been set back
        return run

    def __repr__(self) -> str:
        parts = (self.samples, "sample"), (self.events, "event")
        counts = ", ".join(counted(len(held), name) for held, name in parts)
        return f"<run: {counts}, {counted(self.bad_lines, 'bad line')}>"


def _time(entry: Entry) -> float:
    return entry["t"]  # type: ignore[no-any-return]


def _entry(line: bytes) -> Entry | None:
    """The entry of a line; None for a line that is cut, or is none."""
    if not line.endswith(b"\n"):
        return None
    try:
        return entries.checked(json.loads(line))
    except (ValueError, RecursionError):
        return None


def read(path: Path) -> Run:
    """The Run of a log file; of several runs in one file, the last.

    Lines that are cut or are no entries of a log (recstore.monitor.entries) are skipped and counted as `bad_lines`.

    Raises OSError if the file cannot be read, and ValueError if it holds no line of a log.
    """
    with open(path, "rb") as file:
        run = Run.of(line for line in file if line.strip())
    if run.start is None and not run.samples and not run.events and run.end is None:
        raise ValueError(f"{os.fspath(path)} holds no line of a log of the monitor")
    return run
