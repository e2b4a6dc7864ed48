"""Tokens: the bytes in a handle that identify a set of shards and how to read it.

    token  = 1, flags, number of the manifest, 8 bytes of its fingerprint, url, cache, limit, place, limits, private
    url    = size, bytes                      the folder or URL of the set, in UTF-8
    cache  = size, bytes                      with the flag "cached": the folder of the cache
    limit  = number                           with the flag "cached": the limit of the cache + 1; 0 for no limit
    place  = 8 bytes                          with the flag "cached": see cached_manifests.place_of
    limits = values, bytes                    with the flag "limits"
    private = pid, its start time, descriptor, 8 random bytes   with the flag "private"

Options may contain credentials, which must not be written to a disk in a handle or in the cache. So they stay in an
unnamed memory file (memfd) of the process that opened the set. While that process lives, other processes of the user
read the memory through /proc. After that, or on a system without memfd, the environment must provide the credentials.
The memory also has the random bytes of the token, because the descriptor number may be reused for another set.
"""

from __future__ import annotations

import dataclasses
import os
import pickle

from recstore._core import trust
from recstore.errors import CorruptError
from recstore.shm import wire
from recstore.shm.file_backing import refuses_memory
from recstore.shm.process_identity import start_time
from recstore.shm.wire import varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from recstore.remote.places.storage import Limits, Options

_CACHED, _LAZY, _PICKLES, _VIEWS, _VERIFIED, _LIMITS, _PRIVATE, _RECORDS = (1 << i for i in range(8))
_MAGIC = b"recstore options"
_MARK = 8  # the number of random bytes
_HEAD = len(_MAGIC) + _MARK + 8  # the last 8 bytes are the size of the options


@dataclasses.dataclass
class Reading:
    """How a set is opened: a token without the manifest."""

    url: str
    reader: trust.Reader
    cache: str | None = None
    limit: int | None = None
    lazy: bool | Literal["records"] = False
    verify: str = "header"
    limits: Limits = None
    options: Options = None
    place: str = ""  # see cached_manifests.place_of


class Private:
    """Options and classes in an unnamed memory file. The first token creates it, so a set whose classes cannot be
    pickled can still be opened. After a fork each process has its own descriptor. Safe from several threads."""

    fd: int | None = None
    mark = b""

    def __init__(self, options: Options, classes: object) -> None:
        self._content = options, classes

    def _memory_file(self) -> tuple[int, bytes]:
        memory: tuple[int, bytes] | None = self.__dict__.get("_memory")
        if memory is None:
            options, classes = map(pickle.dumps, self._content)
            mark = os.urandom(_MARK)
            fd = os.memfd_create("recstore-options", os.MFD_CLOEXEC)
            data = memoryview(_MAGIC + mark + len(options).to_bytes(8, "little") + options + classes)
            while data:
                data = data[os.write(fd, data) :]
            shared: tuple[int, bytes] = self.__dict__.setdefault("_memory", (fd, mark))
            if shared[0] != fd:
                os.close(fd)  # another thread was faster
            self.fd, self.mark = shared
            return shared
        return memory

    def close(self) -> None:
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def place(self) -> bytes:
        """The field "private" of a token; b"" without options and classes, and if memfd is missing or refused. Raises
        the pickle error of options or classes that cannot be pickled."""
        if not any(self._content) or not hasattr(os, "memfd_create"):
            return b""
        try:
            fd, mark = self._memory_file()
        except OSError as error:
            if not refuses_memory(error):
                raise
            return b""
        pid = os.getpid()
        return varint(pid) + varint(start_time(pid) or 0) + varint(fd) + mark

    @staticmethod
    def at(pid: int, started: int, fd: int, mark: bytes) -> tuple[Any, Any]:
        """`(options, classes)` of a process. Both are None if the memory file is gone or access is denied; each is None
        if it cannot be unpickled here. Never raises."""
        if start_time(pid) != started:
            return None, None
        try:
            memory = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            return None, None
        try:
            data = os.pread(memory, _HEAD, 0)
            if len(data) < _HEAD or data[:-8] != _MAGIC + mark:
                return None, None
            while piece := os.pread(memory, 1 << 20, len(data)):
                data += piece
        except OSError:  # the descriptor has been reused
            return None, None
        finally:
            os.close(memory)
        end = _HEAD + int.from_bytes(data[_HEAD - 8 : _HEAD], "little")
        return _unpickled(data[_HEAD:end]), _unpickled(data[end:])


def _unpickled(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except Exception:  # an import may raise anything
        return None


def pack(reading: Reading, number: int, fingerprint: str, private: Private) -> bytes:
    """The token of a set opened with `reading`."""
    private_field = private.place()
    reader = reading.reader
    flags = (
        _CACHED * (reading.cache is not None)
        | _LAZY * bool(reading.lazy)
        | _PICKLES * reader.allow_pickle
        | _VIEWS * (reader.arrays == "view")
        | _VERIFIED * (reading.verify == "full")
        | _LIMITS * (reading.limits is not None)
        | _PRIVATE * bool(private_field)
        | _RECORDS * (reading.lazy == "records")
    )
    url = reading.url.encode("utf-8", "surrogateescape")
    out = [bytes([1, flags]), varint(number), bytes.fromhex(fingerprint)[:8], _text(url)]
    limit = varint(0 if reading.limit is None else reading.limit + 1)
    if reading.cache is not None:
        out += [_text(os.fsencode(reading.cache)), limit, bytes.fromhex(reading.place)]
    elif reading.lazy == "records":
        out.append(limit)
    if reading.limits is not None:
        out += map(varint, reading.limits)
    return b"".join([*out, private_field])


def unpack(token: bytes) -> tuple[Reading, int, str]:
    """`(Reading, number, beginning of the fingerprint)`. Raises CorruptError."""
    bytes_ = wire.Reader(token)
    if bytes_.byte() != 1:
        raise CorruptError("a recstore handle has a token of a set of shards that this recstore does not support")
    flags, number, fingerprint = bytes_.byte(), bytes_.size(), bytes_.take(8)
    url = bytes_.take(bytes_.size()).decode("utf-8", "surrogateescape")
    reader = trust.Reader(False, bool(flags & _PICKLES), "view" if flags & _VIEWS else "copy")
    reading = Reading(url, reader, lazy=bool(flags & _LAZY), verify="full" if flags & _VERIFIED else "header")
    if flags & _CACHED:
        reading.cache = os.fsdecode(bytes_.take(bytes_.size()))
    if flags & _RECORDS:
        reading.lazy = "records"
    if flags & (_CACHED | _RECORDS):
        limit = bytes_.varint()
        reading.limit = limit - 1 if limit else None
    if flags & _CACHED:
        reading.place = bytes_.take(8).hex()
    if flags & _LIMITS:
        reading.limits = bytes_.varint(), bytes_.varint()
    if flags & _PRIVATE:
        pid, started, fd = bytes_.size(), bytes_.size(), bytes_.size()
        reading.options, classes = Private.at(pid, started, fd, bytes_.take(_MARK))
        reader.classes = classes or {}
    bytes_.end()
    return reading, number, fingerprint.hex()


def _text(encoded: bytes) -> bytes:
    return varint(len(encoded)) + encoded
