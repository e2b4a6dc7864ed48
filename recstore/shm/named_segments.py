"""Names of segments: what a user calls one, what the system calls it, what it says of itself, and who removes it.

In /dev/shm, or another folder, a segment is `recs1-<10 letters>-<8 letters>`: the first part is a hash of user and
name, the second one of the fingerprint; with a slash in front that is 26 bytes, and 30 with a suffix (macOS takes 31).
`.lck` behind it is the lock of who builds it; other suffixes are files on their way to the name. Name and fingerprint
themselves stand in the segment's label, so that a collision of hashes is noticed. csrc/os/rs_os.h ("Named files") says
how leases keep a file and how one without them goes.
"""

import errno
import os
import sys
import time

from recstore._core import native
from recstore.errors import BusyError, CorruptError, SegmentNotFoundError, VersionError, WaitTimeoutError
from recstore.shm import folders, process_identity
from recstore.shm.folders import PREFIX

LOCK = ".lck"
FOR_EVER = "for ever"
MOST_CHARACTERS = 64
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_LENGTH = len(PREFIX) + 10 + 1 + 8
_BACKING = "named"  # "temporary": as where files cannot be made without a name
_LOOK = 0.5  # seconds that a look at whether a segment is used may last: it takes some microseconds
_PATIENCE = 60.0  # and that who has no limit of their own waits for one


def check_name(name):
    """TypeError or ValueError unless `name` can name a segment."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a segment is a str, not {type(name).__name__}")
    why = None
    if not name:
        why = "is empty"
    elif len(name) > MOST_CHARACTERS:
        why = f"has {len(name)} characters, and {MOST_CHARACTERS} are the most"
    elif "/" in name:
        why = "has a slash: it is a name and no path; dir= chooses the folder"
    elif "\0" in name:
        why = "has a NUL"
    elif not name.isprintable():
        why = "has characters that cannot be printed"
    elif name.startswith("."):
        why = "begins with a dot"
    if why is not None:
        raise ValueError(f"the name of a segment {why}: {name!r:.80}")


def folder(dir=None):
    """The folder of named segments: `dir`, RECSTORE_DIR, /dev/shm, or a private folder where that is missing or
    read-only. Made where it is missing."""
    chosen = dir or os.environ.get("RECSTORE_DIR")
    if (
        not chosen
        and os.environ.get("RECSTORE_BACKING") != "dir"
        and os.access(folders.SHARED, os.R_OK | os.W_OK | os.X_OK)
    ):
        return folders.SHARED
    if not chosen:
        from recstore.shm import file_backing

        chosen = file_backing.default()
    chosen = os.path.abspath(os.fsdecode(chosen))
    try:
        os.mkdir(chosen, 0o700)
    except FileExistsError:
        if not os.path.isdir(chosen):
            raise NotADirectoryError(errno.ENOTDIR, "the folder of named segments is not a folder", chosen) from None
        if dir is None and not os.environ.get("RECSTORE_DIR"):
            status = os.lstat(chosen)
            if status.st_uid != os.geteuid() or status.st_mode & 0o77:
                raise PermissionError(
                    errno.EPERM, "the folder of this user's segments must be theirs, with mode 0700", chosen
                ) from None
    return chosen


def _letters(*parts):
    from hashlib import blake2b

    return _spell(blake2b(b"\0".join(parts), digest_size=8).digest())


def _spell(digest):
    """Ten letters from eight bytes."""
    number = int.from_bytes(digest, "big")
    return "".join(_LETTERS[number >> shift & 31] for shift in range(0, 50, 5))


def stem(name):
    """What the system names of all segments of this name of this user begin with."""
    return f"{PREFIX}{_letters(b'%d' % os.geteuid(), name.encode())}-"


def system_name(name, fingerprint):
    """The file name of a segment."""
    return stem(name) + _letters(fingerprint.encode())[:8]


def squeezed(file_name):
    """The 12 bytes that tell the system name of a segment, bytes, from others; see `unsqueezed`."""
    letters = file_name.decode()[len(PREFIX) :].replace("-", "")
    return sum(_LETTERS.index(c) << 5 * i for i, c in enumerate(letters)).to_bytes(12, "little")


def unsqueezed(twelve):
    number = int.from_bytes(twelve, "little")
    letters = "".join(_LETTERS[number >> shift & 31] for shift in range(0, 90, 5))
    return f"{PREFIX}{letters[:10]}-{letters[10:]}".encode()


def is_segment(file_name):
    return file_name.startswith(PREFIX) and len(file_name) == _LENGTH


def nameless():
    """A file name for a segment that gets none, where the system wants one while it is written."""
    return f"{PREFIX}{_spell(os.urandom(8))}-{_spell(os.urandom(8))[:8]}.tmp"


# ---- What a segment says of itself ----


class Label(dict):
    """The pairs of a LABEL section, as str."""

    def __getattr__(self, key):
        if key.startswith("_"):
            raise AttributeError(key)
        return self.get(key, "")

    def pack(self):
        """`(count, bytes)`."""
        from recstore.shm import wire

        parts = []
        for text in (text for pair in self.items() for text in pair):
            encoded = text.encode("utf-8", "replace")
            parts += [wire.varint(len(encoded)), encoded]
        return len(self), b"".join(parts)

    @staticmethod
    def of(segment):
        """That of an open segment; None where it has none that can be read."""
        from recstore.shm import wire

        packed = segment.label()
        if packed is None:
            return None
        reader, label = wire.Reader(packed[1]), Label()
        try:
            for _ in range(packed[0]):
                key = reader.text()
                label[key] = reader.text()
            reader.end()
        except CorruptError:
            return None
        return label

    @staticmethod
    def at(path):
        """That of the segment at a path, which is not leased; None where there is none of this user that can be
        read."""
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
    def builder(self):
        """`process 12 (train.py)`, as messages have it."""
        return f"process {self.pid}" + (f" ({self.command})" if self.command else "")


def maker():
    """Who we are, for labels and locks."""
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


class Target:
    """Where a named segment is to be, and what it will say of itself. `keep` is None, a number of seconds, or
    FOR_EVER."""

    def __init__(self, name, fingerprint="", keep=None, dir=None):
        check_name(name)
        self.name, self.fingerprint, self.keep = name, fingerprint, keep
        self.folder = folder(dir)
        self.file_name = system_name(name, fingerprint)
        self.path = os.path.join(self.folder, self.file_name)
        self.lock_path = self.path + LOCK
        self.replaces = False  # whether publishing replaces what has the name: for who knows that it is damaged
        self.reader = None  # how the process that builds reads it; None: as the builder says
        self._label = None

    def label(self):
        """The packed label, the same object at every call: a builder borrows it."""
        if self._label is None:
            label = Label(name=self.name, fingerprint=self.fingerprint, **maker())
            if self.keep is not None:
                label["keep"] = str(self.keep)
            self._label = label.pack()
        return self._label

    def temporary(self):
        """A file name beside the segment's that is free in all likelihood."""
        return f"{self.file_name}.{_spell(os.urandom(8))[:3]}"

    def new_builder(self, make, compress, writer):
        return make(_BACKING, self.folder, self.temporary(), compress, writer, self.label())

    def publish(self, segment, replace=False):
        """Gives a segment its name, from which moment on others find it. SegmentExistsError unless `replace`."""
        segment.publish(self.path, os.path.join(self.folder, self.temporary()) if replace else None)
        segment.name, segment.kept = self.name, self.keep is not None
        return segment


# ---- Attaching ----


def open_leased(path, timeout=_PATIENCE):
    """`(segment, label)` of a published segment, which is leased; whoever drops it removes it if it was the last user.
    SegmentNotFoundError, PermissionError for what is not this user's, CorruptError for what is damaged or says nothing
    of itself, VersionError, WaitTimeoutError when it is locked for `timeout` seconds, None being for ever, by who was
    stopped while looking at it, say."""
    delay, begin = 0.0005, time.monotonic()
    while True:
        try:
            segment = native.open_named(path, native.OURS)
            break
        except BusyError:
            # Somebody looks whether it is used, and is about to remove it or to let go.
            waited = time.monotonic() - begin
            if timeout is not None and waited >= max(timeout, _LOOK):
                raise WaitTimeoutError(
                    errno.ETIMEDOUT,
                    f"waited {waited:.1f} s for a process that has locked {path}; fuser -v {path} tells which",
                ) from None
            time.sleep(delay)
            delay = min(2 * delay, 0.05)
    label = Label.of(segment)
    if label is None:
        segment.disown()
        segment.close()
        raise CorruptError("the segment does not say whose it is", filename=path)
    segment.name, segment.kept = label.name, "keep" in label
    if segment.kept:
        segment.touch()
    return segment, label


def open_target(target, timeout=_PATIENCE):
    """The same for a Target; CorruptError where another one took its name by a collision of hashes."""
    segment, label = open_leased(target.path, timeout)
    if (label.name, label.fingerprint) == (target.name, target.fingerprint):
        return segment, label
    segment.disown()
    segment.close()
    raise CorruptError(
        f"it is the segment {label.name!r} with the fingerprint {label.fingerprint!r}; choose another name",
        filename=target.path,
    )


def found(name, dir=None):
    """The paths of all segments of this name."""
    place, start = folder(dir), stem(name)
    return [os.path.join(place, one) for one in sorted(os.listdir(place)) if one.startswith(start) and is_segment(one)]


# ---- Removing ----


def collect(place):
    """Removes what no process uses and nobody asked to keep: segments, files on their way, locks. How many. Files of
    other users, and what only looks like ours, stay."""
    removed = 0
    try:
        names = [name for name in os.listdir(place) if name.startswith(PREFIX)]
    except OSError:
        return 0
    for name in names:
        path = os.path.join(place, name)
        judged = _may_go(path) if is_segment(name) else None
        if judged is not None or is_segment(name[:-4]):
            try:
                removed += native.unlink_unused(path, judged)
            except OSError:
                continue  # gone meanwhile, or of a kind that cannot be locked
    return removed


def _may_go(path):
    """What os.lstat says of a segment that is not kept, or no longer; None where it must stay. A damaged one may go;
    one of a later version we cannot judge."""
    try:
        status = os.lstat(path)
        if status.st_uid != os.geteuid() or status.st_mode & 0o7777 != 0o400:
            return None
        segment = native.open_path(path, native.OURS, follow_links=False, backing="named")
    except (CorruptError, SegmentNotFoundError):
        return status
    except (VersionError, OSError):
        return None
    label = Label.of(segment)
    segment.close()
    return status if label is None or expired(label, status.st_mtime) else None


def expired(label, used):
    """Whether a segment last used at `used` need not be kept any longer."""
    keep = label.get("keep")
    if keep is None or keep == FOR_EVER:
        return keep is None
    try:
        return time.time() - used > float(keep)
    except ValueError:
        return False


def gone(name, dir):
    """The error for a name that leads nowhere."""
    return SegmentNotFoundError(
        errno.ENOENT,
        f"no segment {name!r} of this user in {folder(dir)}: it was never built, or its last user has left; "
        "recstore.segments() lists what there is",
    )
