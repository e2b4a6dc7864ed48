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
_TAIL = 4096  # bytes of crc
_MOST_OPEN = 128  # files; fewer if the process may have fewer than four times as many descriptors
_LINES_COUNTED = 1 << 28  # bytes before a bad line in which an error counts the lines
_REMEDY = "make the list of its lines again"

_open: deque[ref[native.TextFile]] = deque()  # files that may be open, from the one that was opened first


def maker(extra: Any, checking: bool = False) -> Callable[..., Any]:
    """The function from the byte at which a line of a file begins, and the byte of the next record if it is known, to
    the value of the line; with `checking`, to the byte itself, without opening the file. Raises CorruptError for bytes
    that are not the EXTRA of a line."""
    if type(extra) is not tuple or [type(part) for part in extra] != [str, str, int, int, int, tuple]:
        raise CorruptError("a line without the description of its file")
    kind, path, size, mtime, crc, arguments = extra
    known = kind == "json" and not arguments or kind == "text" and len(arguments) == 2 and arguments[0] in CODECS
    if kind == "csv":
        from recstore.sources import csv_lines

        row = csv_lines.decoder(*arguments) if csv_lines.is_known(arguments) else None
        known = row is not None
    if not (known and 0 < size < 1 << 63 and path.startswith("/") and _is_path(path)):
        raise CorruptError(f"a line of a file {path!r:.80} of an unknown format")
    if checking:
        return lambda begin, _end=None: begin
    if kind == "text":
        return native.TextFile(path, size, (mtime, crc), _opened, arguments[0]).value
    if kind == "csv":
        return native.TextFile(path, size, (mtime, crc), _opened, None, row, row, _refused_row).value
    decoders = json_values.DECODE, json_values.DECODE_LONG
    return native.TextFile(path, size, (mtime, crc), _opened, None, *decoders, _refused).value


def _is_path(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _opened(file: native.TextFile) -> int:
    """Opens and checks a file, and closes another one if many are open."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe must not wait for its writer
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise InputError(
            f"{file.path}: {error.strerror}: restore this file with lines of the list, or {_REMEDY}"
        ) from None
    try:
        change = difference(descriptor, file.size, *file.stamp)
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


def difference(descriptor: int, size: int, mtime: int, crc: int) -> str | None:
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
    start = max(0, size - _TAIL)
    return native.crc_of(os.pread(descriptor, size - start, start))


def _refused(file: native.TextFile, begin: int, line: bytes, error: Exception) -> Any:
    """The value of a line of JSON that a fast decoder refuses. Raises InputError if it is not JSON."""
    if not isinstance(error, json_values.NOT_JSON):
        raise error
    try:
        return json_values.exact(line)
    except json_values.NOT_JSON as why:
        reason = json_values.reason(line, why)
    raise _wrong_line(file, begin, reason) from None


def _refused_row(file: native.TextFile, begin: int, _line: bytes, error: Exception) -> Any:
    """Raises InputError for a line that is not a row of the CSV file."""
    raise _wrong_line(file, begin, str(error)) from None


def _wrong_line(file: native.TextFile, begin: int, reason: str) -> InputError:
    descriptor = file.descriptor_number()
    change = difference(descriptor, file.size, *file.stamp)
    if change is not None:
        return InputError(f"{file.path}: {change}; {_REMEDY}")
    place = f"byte {begin:,}"
    if begin <= _LINES_COUNTED:
        number = os.pread(descriptor, begin, 0).count(b"\n") + 1
        place = f"line {number:,}, {place}"
    return InputError(f"{file.path}, {place}: {reason}")
