"""Named segments: their file names and labels, attaching to them, and removing unused segments.

The file of a named segment in /dev/shm, or in another folder, is `recs1-<10 letters>-<8 letters>`. The first part is a
hash of user and name, the second part a hash of the fingerprint. With a leading slash this is 26 bytes, with a suffix
of three letters 30; macOS allows 31. The suffix `.lck` marks the lock file of a build, `.cache` a cache; any other
suffix marks a file that does not have its final name yet. The label in the segment has the name and the fingerprint, so
a reader detects a collision of hashes. csrc/os/rs_os.h ("Named files") explains how a lease keeps a file and how a file
without a lease is removed.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from _blake2 import blake2b  # not hashlib, which loads OpenSSL

from recstore._core import native
from recstore.errors import BusyError, CorruptError, SegmentNotFoundError, VersionError, WaitTimeoutError
from recstore.shm import file_backing, folders, process_identity, wire
from recstore.shm.folders import PREFIX
from recstore.text import seconds_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from recstore._core.trust import Reader, Writer
    from recstore._types import Path

    _BuilderT = TypeVar("_BuilderT")

LOCK = ".lck"
CACHE = ".cache"  # see named_caches
FOR_EVER = "for ever"
MOST_CHARACTERS = 64
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_LENGTH = len(PREFIX) + 10 + 1 + 8
_BACKING = "named"  # tests set "temporary", the backing on systems that cannot make unnamed files
# The minimum wait, in seconds, for a process that tests whether a segment is in use. A test takes microseconds.
_LEAST_WAIT = 0.5
PATIENCE = 60.0  # the default limit of the same wait, in seconds
_SHORT = 0.01  # CPU seconds; every call searches a folder if a search takes no longer than this
_PAUSE = 20  # the pause after a longer search, as a multiple of its duration
_due: dict[str, float] = {}  # {folder: time of the next search}


def check_name(name: object) -> None:
    """Raises TypeError or ValueError if `name` cannot be the name of a segment."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a segment must be a str, not {type(name).__name__}")
    fault = None
    if not name:
        fault = "is empty"
    elif len(name) > MOST_CHARACTERS:
        fault = f"has {len(name)} characters, more than {MOST_CHARACTERS}"
    elif "/" in name:
        fault = "has a slash: it is a name, not a path; dir= chooses the folder"
    elif "\0" in name:
        fault = "has a NUL"
    elif not name.isprintable():
        fault = "has unprintable characters"
    elif name.startswith("."):
        fault = "begins with a dot"
    if fault is not None:
        raise ValueError(f"the name of a segment {fault}: {name!r:.80}")


def folder(dir: Path | None = None) -> str:
    """The folder of named segments: `dir`, else RECSTORE_DIR, else /dev/shm, or a private folder if /dev/shm is
    missing or read-only or RECSTORE_BACKING is "dir". Creates a missing folder."""
    chosen = dir or os.environ.get("RECSTORE_DIR")
    if (
        not chosen
        and os.environ.get("RECSTORE_BACKING") != "dir"
        and os.access(folders.SHARED, os.R_OK | os.W_OK | os.X_OK)
    ):
        return folders.SHARED
    if not chosen:
        chosen = file_backing.default()
    chosen = folders.absolute(chosen)
    try:
        folders.make(chosen)
    except FileExistsError:
        if not os.path.isdir(chosen):
            raise NotADirectoryError(errno.ENOTDIR, "the folder of named segments is not a folder", chosen) from None
        if dir is None and not os.environ.get("RECSTORE_DIR"):
            status = os.lstat(chosen)
            if status.st_uid != os.geteuid() or status.st_mode & 0o77:
                raise PermissionError(
                    errno.EPERM, "the folder of segments must belong to this user and have mode 0700", chosen
                ) from None
    return chosen


def _letters(*parts: bytes) -> str:
    return _spell(blake2b(b"\0".join(parts), digest_size=8).digest())


def _spell(digest: bytes) -> str:
    """The lowest 50 of 64 bits, as ten letters."""
    number = int.from_bytes(digest, "big")
    return "".join(_LETTERS[number >> shift & 31] for shift in range(0, 50, 5))


def stem(name: str) -> str:
    """The start of the file names of all segments of this user with this name."""
    return f"{PREFIX}{_letters(b'%d' % os.geteuid(), name.encode())}-"


def system_name(name: str, fingerprint: str) -> str:
    """The file name of the segment with this name and fingerprint."""
    return stem(name) + _letters(fingerprint.encode())[:8]


def packed_name(file_name: bytes) -> bytes:
    """The letters of a segment's file name as 12 bytes; `unpacked_name` is the reverse."""
    letters = file_name.decode()[len(PREFIX) :].replace("-", "")
    return sum(_LETTERS.index(c) << 5 * i for i, c in enumerate(letters)).to_bytes(12, "little")


def unpacked_name(packed: bytes) -> bytes:
    number = int.from_bytes(packed, "little")
    letters = "".join(_LETTERS[number >> shift & 31] for shift in range(0, 90, 5))
    return f"{PREFIX}{letters[:10]}-{letters[10:]}".encode()


def is_segment(file_name: str) -> bool:
    """Whether a file name has the form of the name of a published segment."""
    return file_name.startswith(PREFIX) and len(file_name) == _LENGTH


def is_cache(file_name: str) -> bool:
    """Whether a file name has the form of the name of a cache."""
    return file_name.endswith(CACHE) and is_segment(file_name[: -len(CACHE)])


def nameless() -> str:
    """A temporary file name for a segment without a name, for systems that cannot make unnamed files."""
    return f"{PREFIX}{_spell(os.urandom(8))}-{_spell(os.urandom(8))[:8]}.tmp"


# ---- Labels ----


class Label(dict[str, str]):
    """The LABEL section of a segment, a dict of str. `label.name` is `label.get("name", "")`."""

    def __getattr__(self, key: str) -> str:
        if key.startswith("_"):
            raise AttributeError(key)
        return self.get(key, "")

    def pack(self) -> tuple[int, bytes]:
        """`(number of pairs, bytes of the section)`."""
        parts = []
        for text in (text for pair in self.items() for text in pair):
            encoded = text.encode("utf-8", "replace")
            parts += [wire.varint(len(encoded)), encoded]
        return len(self), b"".join(parts)

    @staticmethod
    def of(segment: native.Segment) -> Label | None:
        """The label of an open segment; None if it is missing or damaged."""
        packed = segment.label()
        if packed is None:
            return None
        try:
            label = Label.unpacked(packed[1])
        except CorruptError:
            return None
        return label if len(label) == packed[0] else None

    @staticmethod
    def unpacked(data: bytes) -> Label:
        """The label in the bytes that `pack` made. Raises CorruptError."""
        reader, label = wire.Reader(data), Label()
        while reader.left:
            key = reader.text()
            label[key] = reader.text()
        return label

    @staticmethod
    def at(path: str) -> Label | None:
        """Reads the label of a segment without a lease; None unless `path` has a readable segment of this user."""
        try:
            if os.lstat(path).st_uid != os.geteuid():
                return None
            segment = native.open_path(path, native.OURS, follow_links=False, backing="named")
        except (CorruptError, VersionError, OSError):
            return None
        try:
            return Label.of(segment)
        finally:
            segment.close()

    @property
    def builder(self) -> str:
        """The process that built the segment, for messages: `process 12 (train.py)`."""
        return f"process {self.pid}" + (f" ({self.command})" if self.command else "")


def maker() -> dict[str, str]:
    """The entries of a label that identify this process."""
    pid = os.getpid()
    command = " ".join(getattr(sys, "argv", ()))
    command = "".join(c if c.isprintable() else "?" for c in command[:200])
    return {
        "pid": str(pid),
        "started": str(process_identity.start_time(pid) or 0),
        "boot": process_identity.boot_id().hex(),
        "namespace": str(process_identity.pid_namespace()),
        "host": os.uname().nodename,
        "command": command,
    }


def seconds(keep: bool | float | str | None) -> float | str | None:
    """The argument `keep` in seconds; None for False or None, FOR_EVER for True."""
    if keep is False or keep is None:
        return None
    if keep is True:
        return FOR_EVER
    number = seconds_in(keep)
    if not number:
        raise ValueError(
            'keep must be True, False, a number of seconds or a duration such as "2h" (s, m, h, d, w), not '
            f"{keep!r:.80}"
        )
    return number


class Target:
    """The path and label of a named segment to build or attach. `keep` is None, a number of seconds, or FOR_EVER."""

    def __init__(
        self, name: str, fingerprint: str = "", keep: float | str | None = None, dir: Path | None = None
    ) -> None:
        check_name(name)
        self.name, self.fingerprint, self.keep = name, fingerprint, keep
        self.folder = folder(dir)
        self.file_name = system_name(name, fingerprint)
        self.path = os.path.join(self.folder, self.file_name)
        self.lock_path = self.path + LOCK
        self.replaces = False  # whether publishing replaces an existing file, which is damaged
        self.reader: Reader | None = None  # the Reader of the building process; None for the builder's Reader
        self._label: tuple[int, bytes] | None = None

    def label(self) -> tuple[int, bytes]:
        """The packed label. Every call returns the same object, because a builder borrows its bytes."""
        if self._label is None:
            label = Label(name=self.name, fingerprint=self.fingerprint, **maker())
            if self.keep is not None:
                label["keep"] = str(self.keep)
            self._label = label.pack()
        return self._label

    def temporary(self) -> str:
        """An unused file name for a temporary file beside the segment. Without the check its three random letters would
        match the lock file, or the file of a killed process, once in 32,768 builds."""
        while True:
            name = f"{self.file_name}.{_spell(os.urandom(8))[:3]}"
            if not name.endswith(LOCK) and not os.path.lexists(os.path.join(self.folder, name)):
                return name

    def new_builder(self, make: Callable[..., _BuilderT], compression: native.Choices, writer: Writer) -> _BuilderT:
        return make(_BACKING, self.folder, self.temporary(), compression, writer, self.label())

    def publish(self, segment: native.Segment, replace: bool = False) -> native.Segment:
        """Gives a segment its file name, so that other processes find it. With `replace`, replaces an existing file;
        otherwise raises SegmentExistsError for it."""
        segment.publish(self.path, os.path.join(self.folder, self.temporary()) if replace else None)
        segment.name, segment.kept = self.name, self.keep is not None
        return segment


# ---- Attaching ----


def open_leased(path: str, timeout: float | None = PATIENCE) -> tuple[native.Segment, Label]:
    """Opens a published segment with a lease: `(segment, label)`. The last process to close the segment removes its
    file, unless it is kept.

    Raises SegmentNotFoundError; PermissionError for another user's file; CorruptError for a damaged segment or a
    missing label; VersionError; WaitTimeoutError if another process locks the file for more than `timeout` seconds (at
    least 0.5), for instance because it was stopped while it tested the file. A `timeout` of None waits without limit.
    """
    delay, begin = 0.0005, time.monotonic()
    while True:
        try:
            segment = native.open_named(path, native.OURS)
            break
        except BusyError:
            # Another process is testing whether the segment is in use, and then removes or unlocks the file.
            waited = time.monotonic() - begin
            if timeout is not None and waited >= max(timeout, _LEAST_WAIT):
                raise WaitTimeoutError(
                    errno.ETIMEDOUT,
                    f"waited {waited:.1f} s for a process that has locked {path}; fuser -v {path} shows the process",
                ) from None
            time.sleep(delay)
            delay = min(2 * delay, 0.05)
    label = Label.of(segment)
    if label is None:
        segment.disown()
        segment.close()
        raise CorruptError("the segment has no readable label", filename=path)
    segment.name, segment.kept = label.name, "keep" in label
    if segment.kept:
        segment.touch()
    return segment, label


def open_target(target: Target, timeout: float | None = PATIENCE) -> tuple[native.Segment, Label]:
    """Like open_leased, for a Target. Raises CorruptError if the file holds a segment with a different name or
    fingerprint whose hashes are the same."""
    segment, label = open_leased(target.path, timeout)
    if (label.name, label.fingerprint) == (target.name, target.fingerprint):
        return segment, label
    segment.disown()
    segment.close()
    raise CorruptError(
        f"it is the segment {label.name!r} with the fingerprint {label.fingerprint!r}; choose another name",
        filename=target.path,
    )


def paths_of(name: str, dir: Path | None = None, accepts: Callable[[str], bool] = is_segment) -> list[str]:
    """The paths of all segments with this name, or of the files with this name that `accepts` accepts."""
    place, start = folder(dir), stem(name)
    files = sorted(os.listdir(place))
    return [os.path.join(place, file) for file in files if file.startswith(start) and accepts(file)]


# ---- Removing ----


def collect_first(directory: str, name: str | None = None) -> None:
    """Calls `collect` before a build, or before a call that names a segment. Searching a folder of thousands of
    segments takes long, so a process pauses after such a search. During the pause, it removes only unused files of
    `name`."""
    begin = time.thread_time()
    if time.monotonic() >= _due.get(directory, 0.0):
        collect(directory)
        took = time.thread_time() - begin
        _due[directory] = time.monotonic() + _PAUSE * took if took > _SHORT else 0.0
    elif name is not None:
        collect(directory, stem(name))


def collect(directory: str, start: str = PREFIX) -> int:
    """Removes this user's unused files whose names begin with `start`: temporary files, lock files, and the segments
    and caches that are not, or no longer, kept. Returns the number of removed files."""
    removed = 0
    try:
        names = [name for name in os.listdir(directory) if name.startswith(start)]
    except OSError:
        return 0
    for name in names:
        path = os.path.join(directory, name)
        status = _removable(path) if is_segment(name) else _removable_cache(path) if is_cache(name) else None
        if status is not None or is_segment(name[:-4]):
            try:
                removed += native.unlink_unused(path, status)
            except OSError:
                continue  # another process has removed it, or it cannot be locked
    return removed


def _removable(path: str) -> os.stat_result | None:
    """The result of os.lstat for a segment that may be removed, else None. A damaged segment may be removed. A segment
    of a later format version may not, because this version cannot read its label."""
    try:
        status = os.lstat(path)
        if status.st_uid != os.geteuid() or status.st_mode & 0o7777 != 0o400 or native.is_leased(path):
            return None  # a cheap test comes first, because most segments are in use
        segment = native.open_path(path, native.OURS, follow_links=False, backing="named")
    except (CorruptError, SegmentNotFoundError):
        return status
    except (VersionError, OSError):
        return None
    label = Label.of(segment)
    segment.close()
    return status if label is None or expired(label, status.st_mtime) else None


def _removable_cache(path: str) -> os.stat_result | None:
    """Like _removable, for a cache."""
    try:
        status = os.lstat(path)
        if status.st_uid != os.geteuid() or status.st_mode & 0o7777 != 0o600:
            return None
        label = Label.unpacked(native.inspect_cache(path)["label"])
    except (CorruptError, SegmentNotFoundError):
        return status
    except (VersionError, OSError):
        return None
    return status if expired(label, status.st_mtime) else None


def expired(label: Label, used: float) -> bool:
    """Whether a segment that was last used at the time `used` may be removed.

    A time in the future comes from a clock that was set back. It counts as equally long ago; otherwise the segment
    would stay until the clock passes that time again."""
    keep = label.get("keep")
    if keep is None or keep == FOR_EVER:
        return keep is None
    try:
        return abs(time.time() - used) > float(keep)
    except ValueError:
        return False


def gone(name: str, dir: Path | None) -> SegmentNotFoundError:
    """The error for a name without a segment."""
    why = "it was never built, or its last process has ended; recstore.names.list() lists all segments"
    if paths_of(name, dir, is_cache):
        why = "a cache has this name, and recstore.cache() opens it"
    return SegmentNotFoundError(errno.ENOENT, f"no segment {name!r} of this user in {folder(dir)}: {why}")
