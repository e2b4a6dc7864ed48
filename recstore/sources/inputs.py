"""The files that readers read: paths, glob patterns, URLs, file objects and lists of these. `resolve` turns each file
into an Input, which opens and decompresses the file and can tell whether it has changed."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from contextlib import contextmanager

from recstore.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")


def resolve(argument: object) -> list[Input]:
    """The Inputs for the `path` argument of a reader.

    `argument` is a path, a glob pattern (``**`` included), a URL that fsspec knows, a binary file object, or a list of
    these. Files of a list keep their order; files of a pattern are sorted by name. An existing path is never treated as
    a pattern.

    Raises FileNotFoundError for a path that does not exist or a pattern without a match, IsADirectoryError for a
    folder, TypeError for another argument or a text-only file object, ValueError for an empty list or a text file that
    was read before, ImportError for a URL without fsspec.
    """
    if isinstance(argument, (list, tuple)):
        if not argument:
            raise ValueError("the list of files is empty; give at least one path")
        return [file for part in argument for file in resolve(part)]
    if hasattr(argument, "read") and not isinstance(argument, os.PathLike):
        return [FileObject(argument)]
    if not isinstance(argument, (str, bytes, os.PathLike)):
        kind, hint = type(argument), ""
        if hasattr(kind, "__next__"):
            hint = "; give a list of paths: list(paths)"
        elif hasattr(kind, "columns"):
            hint = "; recstore.RecordList(table) reads a table"
        raise TypeError(
            f"a file is a path, a pattern, a URL, a binary file object or a list, not {kind.__name__}{hint}"
        )
    path = os.fsdecode(argument)
    if "://" in path:
        return _urls(path)
    if os.path.isdir(path):
        reason = "is a folder; a pattern such as folder/*.jsonl names its files"
        raise IsADirectoryError(errno.EISDIR, reason, path)
    if os.path.lexists(path):
        return [_local(path)]
    from glob import glob, has_magic

    matches = sorted(match for match in glob(path, recursive=True) if not os.path.isdir(match))
    if not (has_magic(path) and matches):
        reason = "no file matches the pattern" if has_magic(path) else "no such file"
        if path.lstrip()[:1] in ("{", "["):
            reason += "; io.BytesIO(text.encode()) reads a text"
        raise FileNotFoundError(errno.ENOENT, reason, path)
    return [_local(match) for match in matches]


def _local(path: str) -> Input:
    """The Input of a path. A pipe or device, such as /dev/stdin, gets an Input that can be read once."""
    return LocalFile(path) if stat.S_ISREG(os.stat(path).st_mode) else Pipe(path)


def suffix_of(name: str) -> str:
    """The suffix that shows the format of a file, in lower case: ".csv" for "A.CSV.gz"."""
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in PACKED:
        suffix = os.path.splitext(stem)[1]
    return suffix.lower()


class Input:
    """One file. Messages show its `name`."""

    path: str | None = None  # the path of a file on a local file system

    def __init__(self, name: str) -> None:
        self.name = name
        self.raw: io.BufferedIOBase | None = None  # the last opened file, before decompression

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "raw": None}

    @property
    def size(self) -> int | None:
        """The number of stored bytes; None if unknown."""
        return None

    @property
    def packed(self) -> str | None:
        """The suffix of a compressed file, one of PACKED, or None."""
        suffix = os.path.splitext(self.name)[1].lower()
        return suffix if suffix in PACKED else None

    @property
    def position(self) -> int:
        """The number of stored bytes read so far from the last opened file, for progress; 0 if unknown."""
        try:
            return self.raw.tell()  # type: ignore[union-attr]  # an AttributeError
        except (AttributeError, OSError, ValueError):
            return 0

    @contextmanager
    def open(self) -> Iterator[io.BufferedIOBase]:
        """The file, decompressed. Raises OSError; InputError for a zip archive that is damaged or does not hold exactly
        one file; ImportError if a library is missing."""
        with self.open_raw() as self.raw:
            with damage_of(self):
                file = _unpacked(self.raw, self.packed, self.name)
            with file:
                yield file

    def open_raw(self) -> io.BufferedIOBase:
        """The file as it is stored."""
        raise NotImplementedError

    def stamp(self) -> str | None:
        """A text that changes with the file, for fingerprints; None for a file object. Raises OSError."""
        return None


class LocalFile(Input):
    """A file with a path."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    @property
    def size(self) -> int:
        return os.stat(self.name).st_size

    def open_raw(self) -> io.BufferedIOBase:
        return open(self.name, "rb")

    def stamp(self) -> str:
        status = os.stat(self.name)
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


class FileObject(Input):
    """A file object of the caller. It is read without decompression and stays open."""

    @property
    def packed(self) -> None:
        return None

    def __init__(self, file: Any) -> None:
        name = getattr(file, "name", None)
        super().__init__(name if isinstance(name, str) else f"<{type(file).__name__}>")
        if hasattr(file, "buffer"):  # a text file: read its bytes
            text, file = file, file.buffer
            try:
                has_read_ahead = file.seekable() and text.tell() != file.tell()
            except OSError:  # the caller iterates over its lines
                has_read_ahead = True
            if has_read_ahead:
                raise ValueError(
                    f"{self.name}: lines of this text file were read before; open it in binary mode: open(path, 'rb')"
                )
        if isinstance(file.read(0), str):
            raise TypeError(
                f"{self.name}: the file object returns text; open it in binary mode: open(path, 'rb'), or give "
                "io.BytesIO(text.encode())"
            )
        self.file = FullReads(file)

    def open_raw(self) -> io.BufferedIOBase:
        return FullReads(self.file)


class Pipe(FileObject):
    """A pipe or device with a path. The first read opens it."""

    def __init__(self, path: str) -> None:
        super().__init__(_Unopened(path))


class _Unopened(io.RawIOBase):
    """The bytes of a pipe. The first read opens it, because opening waits for a writer. The end of the bytes closes it,
    so that it does not swallow the bytes of a later writer."""

    file: io.FileIO | None = None
    ended = False

    def __init__(self, path: str) -> None:
        self.name = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not len(buffer) or self.ended:
            return 0
        if self.file is None:
            self.file = open(self.name, "rb", buffering=0)
        n = self.file.readinto(buffer)
        if n == 0:
            self.ended = True
            self.file.close()
        return n


class FullReads(io.BufferedIOBase):
    """Reads a file object whose `read` may return fewer bytes than asked for. Closing leaves the file object open."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def read(self, size: int | None = -1) -> bytes:
        size = -1 if size is None else size
        data = self.read1(size)
        if size < 0 or not data or len(data) >= size:
            return data
        parts, left = [data], size - len(data)
        while left > 0 and (data := self.read1(left)):
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def read1(self, size: int = -1) -> bytes:
        data: bytes | None = self.file.read(size)
        if data is None:
            raise BlockingIOError(errno.EAGAIN, "the file object has no bytes yet; make it blocking")
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return hasattr(self.file, "seekable") and bool(self.file.seekable())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self.file.seek(offset, whence))

    def tell(self) -> int:
        return int(self.file.tell())


class Url(Input):
    """A file that fsspec reads: `inner` is its path in the file system `system`."""

    def __init__(self, system: Any, inner: str, url: str) -> None:
        super().__init__(url)
        self.system, self.inner = system, inner

    @property
    def size(self) -> int | None:
        return self.system.size(self.inner)  # type: ignore[no-any-return]

    def open_raw(self) -> io.BufferedIOBase:
        return self.system.open(self.inner, "rb")  # type: ignore[no-any-return]

    def stamp(self) -> str:
        try:
            return str(self.system.ukey(self.inner))
        except NotImplementedError:
            return str(self.size)


def _urls(url: str) -> list[Input]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{url}: reading a URL needs fsspec: pip install fsspec") from None
    from glob import has_magic

    system, path = url_to_fs(url)
    if system.exists(path):
        return [Url(system, path, url)]
    matches = sorted(system.glob(path)) if has_magic(path) else []
    if not matches:
        reason = "no file matches the pattern" if has_magic(path) else "no such file"
        raise FileNotFoundError(errno.ENOENT, reason, url)
    return [Url(system, match, system.unstrip_protocol(match)) for match in matches]


# ---- Decompression ----


def _unpacked(raw: io.BufferedIOBase, suffix: str | None, name: str) -> io.BufferedIOBase:
    """The decompressed bytes of `raw`. `suffix` is one of PACKED, or None."""
    if suffix is None:
        return raw
    if suffix == ".zst":
        return _zstd(raw, name)
    if suffix == ".zip":
        return _only_member(raw, name)
    module = __import__({".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}[suffix])
    return module.open(raw)  # type: ignore[no-any-return]


_ZSTD_WINDOW = 1 << 31  # the largest window, from zstd --long=31; a file takes memory only for its own window


def _zstd(raw: io.BufferedIOBase, name: str) -> io.BufferedIOBase:
    try:
        from compression import zstd  # Python 3.14

        options = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW.bit_length() - 1}
        return zstd.ZstdFile(raw, options=options)  # type: ignore[no-any-return]
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise ImportError(f"{name}: unpacking .zst needs zstandard: pip install zstandard") from None
    return io.BufferedReader(_ZstdFrames(raw, zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj))


class _ZstdFrames(io.RawIOBase):
    """The decompressed bytes of zstd frames. zstandard's own reader does not notice that a file is truncated."""

    def __init__(self, raw: io.BufferedIOBase, new_frame: Callable[[], Any]) -> None:
        self.raw, self.new_frame = raw, new_frame
        self.frame, self.packed, self.ready = new_frame(), b"", b""
        self.within = False  # whether self.frame has begun

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            self.packed = self.packed or self.raw.read(1 << 17)
            if not self.packed:
                if self.within:
                    raise EOFError("the file ends within a zstd frame")
                return 0
            self.ready, self.packed, self.within = self.frame.decompress(self.packed), b"", True
            if self.frame.eof:
                self.packed, self.frame, self.within = self.frame.unused_data, self.new_frame(), False
        n = min(len(buffer), len(self.ready))
        buffer[:n], self.ready = self.ready[:n], self.ready[n:]
        return n


# The files that macOS and Windows add to an archive.
_ADDED = re.compile(r"__MACOSX/|(.*/)?(\._[^/]*|\.DS_Store|Thumbs\.db|desktop\.ini)\Z", re.DOTALL)


def _only_member(raw: io.BufferedIOBase, name: str) -> io.BufferedIOBase:
    import zipfile

    archive = zipfile.ZipFile(raw)
    files = [file for file in archive.namelist() if not file.endswith("/")]
    members = [file for file in files if not _ADDED.match(file)] or files
    if len(members) != 1:
        raise InputError(f"{name}: the archive has {len(members)} files; give an archive of one file")
    return archive.open(members[0])  # type: ignore[return-value]  # typeshed says IO[bytes]


@contextmanager
def damage_of(file: Input) -> Iterator[None]:
    """Turns errors of decompression into InputErrors: the file is damaged, or its suffix is wrong."""
    try:
        yield
    except Exception as error:
        if not (file.packed and _is_damage(error)):
            raise
        raise InputError(f"{file.name}: cannot be decompressed: {error}; fetch or compress the file again") from None


def _is_damage(error: Exception) -> bool:
    import lzma
    import zlib
    from zipfile import BadZipFile

    # gzip and bz2 raise OSErrors without a number; OSErrors of the system have one.
    if isinstance(error, OSError):
        return error.errno is None and type(error).__name__ in ("OSError", "BadGzipFile")
    # zipfile raises these for an unknown compression and for an encrypted file.
    if type(error) in (NotImplementedError, RuntimeError):
        return True
    kinds: list[type[Exception]] = [EOFError, lzma.LZMAError, zlib.error, BadZipFile]
    for module in ("compression.zstd", "zstandard"):
        try:
            kinds.append(__import__(module, fromlist=["ZstdError"]).ZstdError)
        except ImportError:
            continue
    return isinstance(error, tuple(kinds))
