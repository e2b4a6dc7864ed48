"""The exceptions of recstore, and warnings about the caller's code. Imports nothing when loaded.

Each is an :class:`Error` and also the built-in exception that a caller expects, so `except ValueError` around a read of
a damaged file works. CorruptError, VersionError and UntrustedError have the path of the file as ``filename``, like an
OSError.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _ErrorT = TypeVar("_ErrorT", bound=BaseException)

__all__ = [
    "Error",
    "EncodeError",
    "CorruptError",
    "VersionError",
    "UntrustedError",
    "ClosedError",
    "BusyError",
    "SegmentNotFoundError",
    "SegmentExistsError",
    "OutOfSpaceError",
    "BuildError",
    "WaitTimeoutError",
    "InputError",
    "RemoteError",
    "ConflictError",
]


class Error(Exception):
    """Base of the errors in this module."""

    __module__ = "recstore"


class EncodeError(Error, TypeError):
    """A value cannot be stored. The message names record, path, type and the nearest remedy.

    Attributes:
        reason: the message without file and record.
        record: the number of the record, or of the pair of a mapping, in the store that is being built; None outside
            of a build.
        key: the key of the pair as text; None for a record of a list.
        filename: the file that the record was read from, or None.
    """

    reason: str
    record: int | None
    key: str | None
    filename: str | None

    def __init__(self, reason: str = "", record: int | None = None, key: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.record, self.key, self.filename = reason, record, key, None

    def __str__(self) -> str:
        text = self.reason
        if self.record is not None:
            entry = f"record {self.record}" if self.key is None else f"entry {self.record} ({self.key})"
            text = f"{entry}: {text}"
        return text if self.filename is None else f"{self.filename}: {text}"


class _FileError(Error):
    """Base of the errors about the bytes of a store. `filename` is the path of their file, None for memory."""

    filename: str | None = None
    _status = 0  # the status of the core; 0 for other errors

    def __init__(self, *args: object, filename: str | None = None) -> None:
        super().__init__(*args)
        if filename is not None:
            self.filename = filename

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.filename is None else f"{text}: {self.filename!r}"


class CorruptError(_FileError, ValueError):
    """The bytes of a segment break a rule of the format. `filename` is the path of the file, None for memory."""


class VersionError(_FileError, ValueError):
    """The segment needs a newer reader: another format version, or a feature that this reader does not know. `filename`
    is as in CorruptError."""


class UntrustedError(_FileError, ValueError):
    """Reading on would load code or classes that the reader has not allowed. `filename` is as in CorruptError."""


class ClosedError(Error, ValueError):
    """The store was closed."""


class BusyError(Error, BufferError):
    """The store cannot be closed: arrays or memoryviews over its bytes are alive."""


class SegmentNotFoundError(Error, FileNotFoundError):
    """The segment of a handle, a name or a path does not exist, or no longer exists."""


class SegmentExistsError(Error, FileExistsError):
    """The name is taken."""


class OutOfSpaceError(Error, OSError):
    """A store does not fit. The message has the bytes needed, the bytes available and the limit. errno is ENOSPC."""

    _cause = 0  # the errno of the core, such as ENOMEM for a limit of memory


class BuildError(Error, RuntimeError):
    """A build failed in another process, or would have waited for itself."""


class _ChildDied(BuildError):
    """The process of an isolated build was killed. The next build may succeed, so the lock file records no failure."""


class WaitTimeoutError(Error, TimeoutError):
    """Another process did not finish building in time."""


class InputError(Error, ValueError):
    """A file or table holds something that is not a record, or changed while it was read. The message names the file,
    the line or record, and the remedy."""


class RemoteError(Error, OSError):
    """An object of a set of shards cannot be read, written, listed or removed. The message has the object, the reason
    and the remedy. `url` is the URL of the object or the set."""

    url: str | None

    def __init__(self, text: str, url: str | None = None) -> None:
        super().__init__(text)
        self.url = url


class ConflictError(RemoteError):
    """Another writer committed a manifest of the set of shards first. Nothing of this commit is visible."""


def of_file(error: _ErrorT, path: str | None) -> _ErrorT:
    """The error, with the path as its `filename` if it is about the bytes of a store and has none."""
    if path is not None and isinstance(error, _FileError) and error.filename is None:
        error.filename = path
    return error


def warn_caller(text: str) -> None:
    """Warns with a RuntimeWarning at the nearest line outside recstore."""
    import sys
    import warnings

    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "recstore":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=depth)


NO_STORE = 200  # RS_E_FMT_MAGIC: the file does not begin like a store

# The exceptions for the status codes of the core (csrc/base/rs_status.h).
STATUS_CLASSES: dict[int, type[Exception]] = {
    100: ValueError,  # RS_E_ARG_RANGE
    101: EncodeError,  # RS_E_ARG_LIMIT
    103: ValueError,  # RS_E_ARG_TEXT
    NO_STORE: CorruptError,
    201: VersionError,  # RS_E_FMT_VERSION
    202: CorruptError,  # RS_E_FMT_TRUNCATED
    203: CorruptError,  # RS_E_FMT_CHECKSUM
    204: CorruptError,  # RS_E_FMT_SECTION
    205: CorruptError,  # RS_E_FMT_TREE
    206: CorruptError,  # RS_E_FMT_BLOCK
    207: CorruptError,  # RS_E_FMT_OFFSET
    208: CorruptError,  # RS_E_FMT_TAG
    209: CorruptError,  # RS_E_FMT_VALUE
    210: CorruptError,  # RS_E_FMT_LIMIT
    211: CorruptError,  # RS_E_FMT_TRAILING
    212: CorruptError,  # RS_E_FMT_RESERVED
    213: CorruptError,  # RS_E_FMT_KEYS
    300: ClosedError,  # RS_E_STATE_FINISHED
    301: SegmentExistsError,  # RS_E_STATE_EXISTS
    302: BusyError,  # RS_E_STATE_BUSY
    303: Error,  # RS_E_STATE_STOPPED
    304: Error,  # RS_E_STATE_ABSENT
    400: OSError,  # RS_E_SYS
    401: SegmentNotFoundError,  # RS_E_SYS_NOT_FOUND
    402: PermissionError,  # RS_E_SYS_NOT_OURS
    500: MemoryError,  # RS_E_MEM
    501: OutOfSpaceError,  # RS_E_SPACE
    600: InputError,  # RS_E_IN_BROKEN
    601: InputError,  # RS_E_IN_TYPE
    602: EncodeError,  # RS_E_IN_VALUE
    603: InputError,  # RS_E_IN_FAILED
}
