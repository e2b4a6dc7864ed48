"""The files that a reader is given: paths, glob patterns, lists of these, file objects and URLs. `resolve` makes an
Input of each; an Input opens its file, unpacks it, and says whether the file has changed."""

import errno
import io
import os
import stat
from contextlib import contextmanager

from recstore.errors import InputError

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")


def resolve(given):
    """The list of Inputs for the argument of a reader.

    `given` is a path, a glob pattern (``**`` included), a URL that fsspec knows, a binary file object, or a list of
    these. Files of a list keep their order; those of a pattern are sorted by name. A path that exists is never taken
    for a pattern.

    Raises FileNotFoundError for a path that does not exist or a pattern without a match, IsADirectoryError for a
    folder, TypeError for another argument, ValueError for an empty list.
    """
    if isinstance(given, (list, tuple)):
        if not given:
            raise ValueError("the list of files is empty; give at least one path")
        return [one for part in given for one in resolve(part)]
    if hasattr(given, "read") and not isinstance(given, os.PathLike):
        return [FileObject(given)]
    if not isinstance(given, (str, bytes, os.PathLike)):
        kind, hint = type(given), ""
        if hasattr(kind, "__next__"):
            hint = "; give a list of paths: list(paths)"
        elif hasattr(kind, "columns"):
            hint = "; recstore.RecordList(table) reads a table"
        raise TypeError(
            f"a file is a path, a pattern, a URL, a binary file object or a list, not {kind.__name__}{hint}"
        )
    path = os.fsdecode(given)
    if "://" in path:
        return _urls(path)
    if os.path.isdir(path):
        reason = "is a folder; a pattern such as folder/*.jsonl names its files"
        raise IsADirectoryError(errno.EISDIR, reason, path)
    if os.path.lexists(path):
        return [_local(path)]
    from glob import glob, has_magic

    found = sorted(one for one in glob(path, recursive=True) if not os.path.isdir(one)) if has_magic(path) else []
    if not found:
        reason = "no file matches the pattern" if has_magic(path) else "no such file"
        if path.lstrip()[:1] in ("{", "["):
            reason += "; io.BytesIO(text.encode()) reads a text"
        raise FileNotFoundError(errno.ENOENT, reason, path)
    return [_local(one) for one in found]


def _local(path):
    """The Input of a path: a pipe or device, such as /dev/stdin, gives its bytes once."""
    return LocalFile(path) if stat.S_ISREG(os.stat(path).st_mode) else Pipe(path)


def suffix_of(name):
    """The suffix that says the format of a file, in lower case: ".csv" for "A.CSV.gz"."""
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in PACKED:
        suffix = os.path.splitext(stem)[1]
    return suffix.lower()


class Input:
    """One file. `name` stands in messages; `size` is the number of its bytes as they are stored, None if unknown."""

    path = None  # of a file on a local file system
    size = None

    def __init__(self, name):
        self.name = name
        self.raw = None  # the file that was opened last, before it is unpacked

    @property
    def packed(self):
        """The suffix of the packing by which `open` unpacks the file, or None."""
        suffix = os.path.splitext(self.name)[1].lower()
        return suffix if suffix in PACKED else None

    @property
    def position(self):
        """The number of stored bytes that were read of the file opened last, for progress; 0 if nobody knows."""
        try:
            return self.raw.tell()
        except (AttributeError, OSError, ValueError):
            return 0

    def open(self):
        """The file, unpacked, as a binary file object and context manager. Raises OSError; InputError for a zip archive
        that is damaged or has several files; ImportError where a library is missing."""
        self.raw = self.open_raw()
        try:
            with damage_of(self):
                return unpacked(self.raw, self.packed, self.name)
        except BaseException:
            self.raw.close()
            raise

    def open_raw(self):
        """The file as it is stored, as a binary file object."""
        raise NotImplementedError

    def stamp(self):
        """A text that changes when the file does, for fingerprints. None if there is none. Raises OSError."""
        return None


class LocalFile(Input):
    """A file with a path."""

    def __init__(self, path):
        super().__init__(path)
        self.path = path

    @property
    def size(self):
        return os.stat(self.path).st_size

    def open_raw(self):
        return open(self.path, "rb")

    def stamp(self):
        status = os.stat(self.path)
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"

    def __reduce__(self):
        return LocalFile, (self.path,)


class FileObject(Input):
    """A file object of the caller, which is read as it is and stays open."""

    packed = None

    def __init__(self, file):
        name = getattr(file, "name", None)
        super().__init__(name if isinstance(name, str) else f"<{type(file).__name__}>")
        if hasattr(file, "buffer"):
            _check_unread(file, self.name)
            file = file.buffer  # of text, the bytes below it
        if isinstance(file.read(0), str):
            raise TypeError(
                f"{self.name}: the file object gives text; open it in binary mode, as open(path, 'rb')"
                ", or give io.BytesIO(text.encode())"
            )
        self.file = FullReads(file)

    def open_raw(self):
        return FullReads(self.file)


def _check_unread(text, name):
    """ValueError for a text file whose bytes were read ahead of the text: they would be left out."""
    if not text.buffer.seekable():
        return
    try:
        unread = text.tell() == text.buffer.tell()
    except OSError:  # amid an iteration over the lines
        unread = False
    if not unread:
        raise ValueError(
            f"{name}: lines of this text file were read before; open it in binary mode, as open(path, 'rb')"
        )


class Pipe(FileObject):
    """A pipe or device with a path. It is opened when it is first read."""

    def __init__(self, path):
        super().__init__(_Unopened(path))


class _Unopened(io.RawIOBase):
    """The bytes of a pipe, which can only be opened once another process writes to it. It is closed at its end, so that
    the bytes of a later writer are not lost in it."""

    file = None
    ended = False

    def __init__(self, path):
        self.name = path

    def readable(self):
        return True

    def readinto(self, buffer):
        if not len(buffer) or self.ended:
            return 0
        if self.file is None:
            self.file = open(self.name, "rb", buffering=0)
        read = self.file.readinto(buffer)
        if read == 0:
            self.ended = True
            self.file.close()
        return read


class FullReads(io.BufferedIOBase):
    """The bytes of a file object that only needs `read`, which may return less than it was asked for. Closing leaves
    that file object open."""

    def __init__(self, file):
        self.file = file

    def read(self, size=-1):
        size = -1 if size is None else size
        data = self._part(size)
        if size < 0 or not data or len(data) >= size:
            return data
        parts, left = [data], size - len(data)
        while left > 0 and (data := self._part(left)):
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def read1(self, size=-1):
        return self._part(size)

    def _part(self, size):
        data = self.file.read(size)
        if data is None:
            raise BlockingIOError(errno.EAGAIN, "the file object has no bytes yet; make it a blocking one")
        return data

    def readable(self):
        return True

    def seekable(self):
        return hasattr(self.file, "seekable") and self.file.seekable()

    def seek(self, offset, whence=os.SEEK_SET):
        return self.file.seek(offset, whence)

    def tell(self):
        return self.file.tell()


class Url(Input):
    """A file that fsspec reads."""

    def __init__(self, system, path, url):
        super().__init__(url)
        self.system = system
        self.inner = path

    @property
    def size(self):
        return self.system.size(self.inner)

    def open_raw(self):
        return self.system.open(self.inner, "rb")

    def stamp(self):
        try:
            return str(self.system.ukey(self.inner))
        except NotImplementedError:
            return str(self.size)

    def __reduce__(self):
        return _url_again, (self.name,)


def _url_again(url):
    return _urls(url)[0]


def _urls(url):
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{url}: reading a URL needs fsspec: pip install fsspec") from None
    system, path = url_to_fs(url)
    from glob import has_magic

    if has_magic(path) and not system.exists(path):
        found = sorted(system.glob(path))
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no file matches the pattern", url)
        return [Url(system, one, system.unstrip_protocol(one)) for one in found]
    if not system.exists(path):
        raise FileNotFoundError(errno.ENOENT, "no such file", url)
    return [Url(system, path, url)]


# ---- Unpacking ----


def unpacked(raw, suffix, name):
    """A binary file object that gives the unpacked bytes of `raw`; closing it closes `raw`. `suffix` is one of PACKED,
    or None for a file that is not packed."""
    if suffix is None:
        return raw
    if suffix == ".gz":
        import gzip

        return _Unpacked(gzip.GzipFile(fileobj=raw), raw)
    if suffix == ".bz2":
        import bz2

        return _Unpacked(bz2.BZ2File(raw), raw)
    if suffix == ".xz":
        import lzma

        return _Unpacked(lzma.LZMAFile(raw), raw)
    if suffix == ".zst":
        return _Unpacked(_zstd(raw, name), raw)
    return _Unpacked(_only_member(raw, name), raw)


class _Unpacked:
    """An unpacking file object that closes the packed file with itself."""

    def __init__(self, file, raw):
        self.file = file
        self.raw = raw
        self.read, self.readinto, self.tell = file.read, file.readinto, file.tell

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __iter__(self):
        return iter(self.file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.raw.close()


_ZSTD_WINDOW = 1 << 31  # the largest, of zstd --long=31; a file takes the memory of its own window


def _zstd(raw, name):
    try:
        from compression import zstd  # Python 3.14

        return zstd.ZstdFile(raw, options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW.bit_length() - 1})
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise ImportError(f"{name}: unpacking .zst needs zstandard: pip install zstandard") from None
    return io.BufferedReader(_ZstdFrames(raw, zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj))


class _ZstdFrames(io.RawIOBase):
    """The unpacked bytes of zstd frames. zstandard's own reader takes a cut file for a complete one."""

    def __init__(self, raw, new_frame):
        self.raw, self.new_frame = raw, new_frame
        self.frame, self.packed, self.ready = new_frame(), b"", b""
        self.within = False  # whether the frame has begun

    def readable(self):
        return True

    def readinto(self, buffer):
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


def _only_member(raw, name):
    import zipfile

    archive = zipfile.ZipFile(raw)
    files = [one for one in archive.namelist() if not one.endswith("/")]
    members = [one for one in files if not _of_file_manager(one)] or files
    if len(members) != 1:
        raise InputError(f"{name}: the archive has {len(members)} files; an archive of one file can be read")
    return archive.open(members[0])


def _of_file_manager(member):
    """Whether macOS or Windows put a file into an archive beside the user's."""
    folder, _, file = member.rpartition("/")
    added = file.startswith("._") or file in (".DS_Store", "Thumbs.db", "desktop.ini")
    return added or folder.partition("/")[0] == "__MACOSX"


@contextmanager
def damage_of(file):
    """Turns an exception which says that a packed Input is damaged, or packed in another way than its name says, into
    an InputError."""
    try:
        yield
    except Exception as error:
        if not (file.packed and _is_damage(error)):
            raise
        raise InputError(f"{file.name}: cannot be unpacked: {error}; fetch or pack the file again") from None


def _is_damage(error):
    import lzma
    import zlib
    from zipfile import BadZipFile

    # gzip and bz2 raise an OSError without a number, other than the system's.
    if isinstance(error, OSError):
        return error.errno is None and type(error).__name__ in ("OSError", "BadGzipFile")
    # zipfile raises these for a packing that it does not know and for an encrypted file.
    if type(error) in (NotImplementedError, RuntimeError):
        return True
    kinds = [EOFError, lzma.LZMAError, zlib.error, BadZipFile]
    for module in ("compression.zstd", "zstandard"):
        try:
            kinds.append(__import__(module, fromlist=["ZstdError"]).ZstdError)
        except ImportError:
            continue
    return isinstance(error, tuple(kinds))
