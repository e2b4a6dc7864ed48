"""Storage: the interface to objects in a folder, an object store or an fsspec file system. Raises SegmentNotFoundError
for a missing object, OutOfSpaceError for a full disk, RemoteError for any other failure. Writes are atomic, but see
fsspec_store.py. Objects never change, except tags.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import random
import re
import time

from recstore.errors import CorruptError, OutOfSpaceError, RemoteError, SegmentNotFoundError
from recstore.text import seconds_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Any, Protocol, TypeAlias, TypeVar

    from typing_extensions import Buffer

    _T = TypeVar("_T")
    AnyPath: TypeAlias = str | bytes | PathLike[str]
    Options: TypeAlias = Mapping[str, Any] | None
    Columns: TypeAlias = Iterable[str] | None
    Folder: TypeAlias = AnyPath | None
    Limits: TypeAlias = tuple[int, int] | None
    Data: TypeAlias = bytes | bytearray | memoryview
    Source: TypeAlias = Data | str | PathLike[str]  # content, or the path of a file
    Listed: TypeAlias = tuple[str, int, float, str]  # name, bytes, time, ETag or ""

    class File(Protocol):
        def write(self, data: Any, /) -> object: ...


TRIES = 3  # reads of an object whose bytes are damaged
_PATIENCE = 300.0  # seconds
FIRST_LOG, LOG_INTERVAL = 10.0, 60.0  # seconds of waiting
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds; a pause is a random part of these
_random = random.SystemRandom()  # random.random would change what the program draws, and forks would draw the same
_ENVIRONMENTS = "AWS_", "AZURE_", "GOOGLE_", "GCS_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
MOST_READ = 1 << 28  # the most bytes of a manifest; 1,000,000 shard files need 100 MB
# Options that describe a place; all others may be secret.
_PLAIN = re.compile("endpoint|region|bucket|host|url|name|project|timeout", re.IGNORECASE)
_SECRET = re.compile(
    "(AWS|GOOGLE|GCP|AZURE|FSSPEC)_.*(KEY|TOKEN|SECRET|PASS|CREDENTIAL|CONNECTION_STRING)", re.IGNORECASE
)


class Storage:
    """A place with named objects. `url` has no credentials and no trailing slash. `local` is true if the objects are
    files that this machine can map.

    Picklable. Safe from several threads at once. Every operation raises RemoteError, with the `url` of the object, if
    the place refuses or fails.
    """

    local = False
    patience = 0.0  # seconds for which a failing operation is repeated
    _next_log = 0.0
    count: Callable[..., None] = staticmethod(lambda **amounts: None)  # adds to counters; see cache/counters.py

    def __init__(self, url: str, options: Options = None) -> None:
        self.url, self.options = url, options

    def __repr__(self) -> str:
        return f"<Storage {self.url}>"

    def of(self, name: str) -> str:
        """The URL of an object. ValueError for an invalid name."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid object name: use letters, digits, dots, dashes and underscores")
        return f"{self.url.rstrip('/')}/{name}"

    def path(self, name: str) -> str:
        """The path of an object's file. Only for a local storage."""
        raise RemoteError(
            f"{self.of(name)} is not a file of this machine: read it, and open the copy", url=self.of(name)
        )

    def read(self, name: str, limit: int = MOST_READ) -> bytes:
        """The bytes of a small object. SegmentNotFoundError if it is missing; CorruptError if it has more than `limit`
        bytes."""
        file = _LimitedFile(self.of(name), limit)
        self.read_into(name, file)
        return file.getvalue()

    def read_into(self, name: str, file: File) -> int:
        """Copies an object to an open binary file in pieces. Returns the number of bytes. After an error the file may
        contain part of the object. SegmentNotFoundError if the object is missing, OutOfSpaceError if the file's disk is
        full."""
        raise NotImplementedError

    def read_range(self, name: str, begin: int, size: int) -> bytes:
        """`size` bytes of an object from byte `begin`; fewer at its end. SegmentNotFoundError if it is missing."""
        raise NotImplementedError

    def write(self, name: str, source: Source) -> None:
        """Writes an object from bytes or from the local file at the path `source`. Replaces an object of the same name,
        which renews its modification time."""
        raise NotImplementedError

    def create(self, name: str, data: Data) -> bool:
        """Writes an object unless the name exists. Returns whether it did. Of several callers with different data, only
        one gets True."""
        raise NotImplementedError

    def list(self, prefix: str = "") -> Iterable[Listed]:
        """Yields `(name, bytes, modified, ETag)` of the objects with this prefix, in any order. `modified` is in
        seconds since 1970 by the clock of the place. The ETag is "" if the place has none."""
        raise NotImplementedError

    def leftovers(self) -> Iterable[Listed]:
        """Yields temporary files of writers as `list` does, which omits them. `delete` accepts them."""
        return ()

    def delete(self, names: Sequence[str]) -> None:
        """Removes objects. Ignores missing objects."""
        raise NotImplementedError

    def size(self, name: str) -> int | None:
        """The size of an object in bytes; None if it is missing."""
        raise NotImplementedError


class Pauses:
    """The pauses between the tries of one operation."""

    def __init__(self, storage: Storage) -> None:
        self.storage, self.turn = storage, 0
        self.progress: object = self  # differs from any progress

    def wait(self, failure: RemoteError, begin: float, progress: object) -> None:
        """Sleeps after a try that began at `begin`. Raises its failure if the patience is exhausted. Logs one line
        after ten seconds and then every minute, for all operations of a storage together."""
        now = time.monotonic()
        if progress != self.progress:
            self.progress, self.turn, self.begin, self.first_failure = progress, 0, begin, now
        left = self.first_failure + self.storage.patience - now
        if left <= 0:
            raise failure
        seconds = now - self.begin
        if seconds >= FIRST_LOG and now >= self.storage._next_log:
            self.storage._next_log = now + LOG_INTERVAL
            logging.getLogger("recstore").warning("waiting for the store, %.0f s so far: %s", seconds, failure)
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self.turn, 10))
        time.sleep(min(left, _random.uniform(0, longest)))
        self.storage.count(store_ns=int((time.monotonic() - now) * 1e9))
        self.turn += 1


class _LimitedFile(io.BytesIO):
    """A bounded file in memory for an untrusted object."""

    def __init__(self, where: str, limit: int) -> None:
        super().__init__()
        self.where, self.limit = where, limit

    def write(self, data: Buffer, /) -> int:
        if self.tell() + memoryview(data).nbytes > self.limit:
            raise CorruptError(
                f"the object has more than {self.limit:,} bytes, too many for what its name says: another file has "
                "replaced it; remove it",
                filename=self.where,
            )
        return super().write(data)


def patience(options: Options) -> float:
    """The seconds for which an operation on an object store is repeated: the option ``patience``, else
    RECSTORE_PATIENCE, else 300. Raises ValueError unless it is a number of seconds or a duration such as "5m"."""
    value = (options or {}).get("patience", os.environ.get("RECSTORE_PATIENCE") or _PATIENCE)
    seconds = seconds_in(value)
    if seconds is None:
        raise ValueError(
            f'patience in options= or RECSTORE_PATIENCE must be a number of seconds or a duration such as "5m" '
            f"(s, m, h, d, w), not {value!r:.80}"
        )
    return seconds


def reread(read: Callable[[], _T], *damage: type[Exception]) -> _T:
    """The result of `read()`, which is called up to TRIES times while it raises one of these errors."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(*damage):
            return read()
    return read()


def environment() -> dict[str, str]:
    """The variables of the environment that may have the address or the credentials of a store."""
    return {name: value for name, value in os.environ.items() if name.upper().startswith(_ENVIRONMENTS)}


def append(file: File, data: Buffer) -> None:
    """Writes a piece of an object to a local file. Raises the errors of Storage."""
    try:
        file.write(data)
    except OSError as error:
        path = getattr(file, "name", None)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room, or choose another folder"
            raise OutOfSpaceError(errno.ENOSPC, f"no room for the copy of an object; {remedy}", path) from None
        text = f"cannot write the copy of an object to {path}: {error.strerror}; check the disk"
        raise RemoteError(text, url=path) from None


def without_secrets(text: str, options: Options) -> str:
    """The text of a failure on one line, safe for messages, logs and the cache. Removes possibly secret values of
    options and of the environment, and the queries of URLs, which may have signatures. Keeps only the code and the
    message of a server's error page, because S3 echoes a refused token.

    >>> without_secrets("403: <Error><Code>Bad</Code><Token>x</Token></Error>; key 1234", {"key": "1234"})
    '403: Bad'
    >>> without_secrets("no key 1234 at http://h/a?sign=x", {"key": "1234"})
    'no key ... at http://h/a'
    """
    text = " ".join(text.split())
    before, _, page = text.partition("<")
    reasons = re.findall("<(?:Code|Message)>([^<]*)<", "<" + page)
    text = " ".join([before.rstrip(), *reasons])
    text = re.sub(r"(\w://[^\s?]*)\?[^\s)\"']*", r"\1", text)
    secrets = set(_secrets(options))
    secrets.update(value for name, value in os.environ.items() if _SECRET.fullmatch(name))
    for value in sorted(secrets, key=len, reverse=True):
        edge = r"\b" if len(value) < 8 and value.isalnum() else ""  # a short value may be part of any word
        if value.strip():
            text = re.sub(edge + re.escape(" ".join(value.split())) + edge, "...", text)
    return text


def _secrets(options: Options) -> Iterator[str]:
    for name, value in (options or {}).items():
        if isinstance(value, dict):
            yield from _secrets(value)
        elif isinstance(value, (str, bytes)) and not _PLAIN.search(str(name)):
            yield value if isinstance(value, str) else value.decode("utf-8", "replace")


def absent(where: str) -> SegmentNotFoundError:
    """The error for a missing object."""
    return SegmentNotFoundError(errno.ENOENT, "no such object or bucket", where)
