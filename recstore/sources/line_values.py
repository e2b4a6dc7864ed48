"""The values of lines that are not stored but lie in text files (csrc/FORMAT.md, ext value 31): opening and checking
the files, and decoding a line when it is read."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from weakref import ref

from recstore._core import native
from recstore.errors import CorruptError, InputError
from recstore.sources import json_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Extra: TypeAlias = tuple[str, str, int, int, int, tuple[Any, ...]]

CODECS = ("utf-8", "ascii", "iso8859-1")  # where the byte of a line end means nothing else
TAIL = 4096  # bytes of crc
_MOST_OPEN = 128  # files; fewer if the process may have fewer than four times as many descriptors
_LINES_COUNTED = 1 << 28  # bytes before a bad line in which an error counts the lines
_REMEDY = "make the list of its lines again"

_open: deque[ref[native.TextFile]] = deque()  # files that may be open, from the one that was opened first


def maker(extra: Any, checking: bool = False) -> Callable[[Any], Any]:
    """The function from the byte at which a line of a file begins to the value of the line; with `checking`, to the
    byte itself, without opening the file. Raises CorruptError for bytes that are not the EXTRA of a line."""
    if type(extra) is not tuple or [type(part) for part in extra] != [str, str, int, int, int, tuple]:
        raise CorruptError("a line without the description of its file")
    kind, path, size, mtime, crc, arguments = extra
    known = kind == "json" and not arguments or kind == "text" and len(arguments) == 2 and arguments[0] in CODECS
    if not (known and 0 < size < 1 << 63 and path.startswith("/")):
        raise CorruptError(f"a line of a file {path!r:.80} of an unknown format")
    if checking:
        return lambda begin: begin
    if kind == "text":
        return native.TextFile(path, size, (mtime, crc), _opened, arguments[0]).value
    decoders = json_values.DECODE, json_values.DECODE_LONG
    return native.TextFile(path, size, (mtime, crc), _opened, None, *decoders, _refused).value


def _opened(file: native.TextFile) -> int:
    """Opens and checks a file, and closes another one if many are open."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe must not wait for its writer
    except FileNotFoundError:
        reason = f"no such file, but it had lines of this list: restore it, or {_REMEDY}"
        raise FileNotFoundError(errno.ENOENT, reason, file.path) from None
    except ValueError as error:  # a null byte or a lone surrogate
        raise CorruptError(f"a line of a file {file.path!r:.80}: {error}") from None
    try:
        change = changed(descriptor, file.size, *file.stamp)
        if change is not None:
            raise InputError(f"{file.path}: {change}; {_REMEDY}")
    except BaseException:
        os.close(descriptor)
        raise
    _open.append(ref(file))
    most = min(_MOST_OPEN, max(os.sysconf("SC_OPEN_MAX") // 4, 1))
    while len(_open) > most:
        other = _open.popleft()()
        if other is None:
            continue
        if other.used:
            other.used = False
            _open.append(ref(other))
        else:
            other.close()
    return descriptor


def changed(descriptor: int, size: int, mtime: int, crc: int) -> str | None:
    """How an open file differs from the file in which lines were found; None if the lines are still there."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_size < size:
        return f"it has {status.st_size:,} bytes, but had {size:,} when its lines were found; it was cut or replaced"
    if status.st_size == size and status.st_mtime_ns == mtime:
        return None
    if status.st_size == size or tail_crc(descriptor, size) != crc:
        return "it was changed or replaced after its lines were found"
    return None


def tail_crc(descriptor: int, size: int) -> int:
    """The crc of the last bytes of a file of `size` bytes."""
    start = max(0, size - TAIL)
    return native.crc_of(os.pread(descriptor, size - start, start))


def _refused(file: native.TextFile, begin: int, line: bytes, error: Exception) -> Any:
    """The value of a line of JSON that a fast decoder refuses. Raises InputError if it is not JSON."""
    if not isinstance(error, json_values.NOT_JSON):
        raise error
    try:
        return json_values.exact(line)
    except json_values.NOT_JSON as why:
        reason = json_values.reason(line, why)
    descriptor = file.descriptor_number()
    change = changed(descriptor, file.size, *file.stamp)
    if change is not None:
        raise InputError(f"{file.path}: {change}; {_REMEDY}") from None
    place = f"byte {begin:,}"
    if begin <= _LINES_COUNTED:
        number = os.pread(descriptor, begin, 0).count(b"\n") + 1
        place = f"line {number:,}, {place}"
    raise InputError(f"{file.path}, {place}: {reason}") from None
