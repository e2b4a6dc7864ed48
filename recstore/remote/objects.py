"""The operations on objects that every place for them has, with the same errors: SegmentNotFoundError for an object
that is not there, OutOfSpaceError for a full disk, RemoteError for all else. An object is written whole or not at all,
and never changed.
"""

from __future__ import annotations

import errno
import io
import os
import re

from recstore.errors import CorruptError, OutOfSpaceError, RemoteError, SegmentNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Any, Protocol, TypeAlias

    from typing_extensions import Buffer

    AnyPath: TypeAlias = str | bytes | PathLike[str]
    Options: TypeAlias = Mapping[str, Any] | None
    Columns: TypeAlias = Iterable[str] | None
    Folder: TypeAlias = AnyPath | None
    Limits: TypeAlias = tuple[int, int] | None
    Data: TypeAlias = bytes | bytearray | memoryview
    Source: TypeAlias = Data | str | PathLike[str]  # content, or the path of a file
    Listed: TypeAlias = tuple[str, int, float]  # name, bytes, time

    class File(Protocol):
        def write(self, data: Any, /) -> object: ...


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
MOST_READ = 1 << 28  # bytes of a manifest: 1,000,000 shard files need 100 MB
# Options that say where and not who; all others may be secret. Variables of the environment that may be.
_PLAIN = re.compile("endpoint|region|bucket|host|url|name|project|timeout", re.IGNORECASE)
_SECRET = re.compile(
    "(AWS|GOOGLE|GCP|AZURE|FSSPEC)_.*(KEY|TOKEN|SECRET|PASS|CREDENTIAL|CONNECTION_STRING)", re.IGNORECASE
)


class Storage:
    """A place for objects with names. `url` names it, without credentials and without a slash at its end; `local` is
    true where objects are files of this machine's file systems, which can be mapped where they lie.

    Can be pickled, and used by several threads at once. Every operation raises RemoteError, with the `url` of the
    object, for what the place refuses or fails to do.
    """

    local = False

    def __init__(self, url: str, options: Options = None) -> None:
        self.url, self.options = url, options

    def __repr__(self) -> str:
        return f"<Storage {self.url}>"

    def of(self, name: str) -> str:
        """The URL of an object. ValueError for a name that no object of a set of shards has."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an object: letters, digits, dots, dashes and underscores")
        return f"{self.url.rstrip('/')}/{name}"

    def path(self, name: str) -> str:
        """The path of the file that is the object. Only where `local` is true."""
        raise RemoteError(
            f"{self.of(name)} is not a file of this machine: read it, and open the copy", url=self.of(name)
        )

    def read(self, name: str, limit: int = MOST_READ) -> bytes:
        """The bytes of a small object. SegmentNotFoundError if it is not there; CorruptError if it has more than
        `limit` bytes, of which no more are held than that."""
        file = _Limited(self.of(name), limit)
        self.read_into(name, file)
        return file.getvalue()

    def read_into(self, name: str, file: File) -> int:
        """Writes the bytes of an object to an open binary file, in pieces. Returns their number. After an error the
        file may hold a part. SegmentNotFoundError if the object is not there, OutOfSpaceError if the file's disk is
        full."""
        raise NotImplementedError

    def write(self, name: str, source: Source) -> None:
        """Writes an object: bytes, or what the local file at the path `source` holds. An object of this name with the
        same content may be there, and counts as new from then on."""
        raise NotImplementedError

    def create(self, name: str, data: Data) -> bool:
        """Writes an object of these bytes if the name is free; otherwise False. Of several callers one gets True."""
        raise NotImplementedError

    def list(self, prefix: str = "") -> Iterable[Listed]:
        """Yields `(name, bytes, modified)` of the objects whose name begins so, in any order. `modified` is in seconds
        since 1970 by the clock of the place."""
        raise NotImplementedError

    def leftovers(self) -> Iterable[Listed]:
        """Yields `(name, bytes, modified)` of temporary files of writers, which `list` leaves out and `delete`
        takes."""
        return ()

    def delete(self, names: Sequence[str]) -> None:
        """Removes objects. One that is not there is not an error."""
        raise NotImplementedError

    def size(self, name: str) -> int | None:
        """The number of bytes of an object; None if it is not there."""
        raise NotImplementedError


class _Limited(io.BytesIO):
    """A file in memory for an object that nobody vouches for."""

    def __init__(self, where: str, limit: int) -> None:
        super().__init__()
        self.where, self.limit = where, limit

    def write(self, data: Buffer, /) -> int:
        if self.tell() + memoryview(data).nbytes > self.limit:
            raise CorruptError(
                f"the object has more than {self.limit:,} bytes, as no manifest has: it was replaced by another file; "
                "remove it",
                filename=self.where,
            )
        return super().write(data)


def append(file: File, data: Buffer) -> None:
    """Writes a piece of an object to a local file, whose errors become those of Storage."""
    try:
        file.write(data)
    except OSError as error:
        path = getattr(file, "name", None)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "make room, or choose another folder"
            raise OutOfSpaceError(errno.ENOSPC, f"no room for the copy of an object; {remedy}", path) from None
        text = f"cannot write the copy of an object to {path}: {error.strerror}; look at the disk"
        raise RemoteError(text, url=path) from None


def without_secrets(text: str, options: Options) -> str:
    """The text of a failure on one line, as messages, logs and the cache may hold it. Left out are the values of
    options and of the environment that may be secret; the queries of URLs, which sign them; and of the page with which
    a server answers all but its code and its message: S3 sends back the token that it refuses.

    >>> without_secrets("403: <Error><Code>Bad</Code><Token>x</Token></Error>; key 1234", {"key": "1234"})
    '403: Bad'
    >>> without_secrets("no key 1234 at http://h/a?sign=x", {"key": "1234"})
    'no key ... at http://h/a'
    """
    text = " ".join(text.split())
    before, _, page = text.partition("<")
    told = re.findall("<(?:Code|Message)>([^<]*)<", "<" + page)
    text = " ".join([before.rstrip(), *told])
    text = re.sub(r"(\w://[^\s?]*)\?[^\s)\"']*", r"\1", text)
    secrets = set(_secrets(options))
    secrets.update(value for name, value in os.environ.items() if _SECRET.fullmatch(name))
    for value in sorted(secrets, key=len, reverse=True):
        edge = r"\b" if len(value) < 8 and value.isalnum() else ""  # a short one may be a part of any word
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
    """The error for an object that is not there."""
    return SegmentNotFoundError(errno.ENOENT, "there is no such object, or no such bucket", where)
