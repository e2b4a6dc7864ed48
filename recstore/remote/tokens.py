"""Tokens: the bytes by which a handle names a set of shards and how it is read.

    token  = 1, flags, number of the manifest, 8 bytes of its fingerprint, url, cache, limit, place, limits, private
    url    = size, bytes                      the folder or URL of the set, in UTF-8
    cache  = size, bytes                      with the flag "cached": the folder of the cache
    limit  = number                           with the flag "cached": the bytes of the cache + 1; 0 for no limit
    place  = 8 bytes                          with the flag "cached": see openers.place_of
    limits = values, bytes                    with the flag "limits"
    private = pid, its start time, descriptor, 8 random bytes   with the flag "private"

Options may be credentials. They must not lie in a handle, which may be written to a disk, nor in the cache. So they
stay in memory without a name, of the process that opened the set, where processes of the same user find them by /proc
while that process lives. Without it, or on a system without such memory, the environment has to have them. Such memory
begins with the random bytes of the token: the number of a descriptor comes again, and may lead to that of another set.
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
    from typing import Any

    from recstore.remote.objects import Limits, Options

_CACHED, _LAZY, _PICKLES, _VIEWS, _VERIFIED, _LIMITS, _PRIVATE = (1 << i for i in range(7))
_MAGIC = b"recstore options"
_MARK = 8  # random bytes
_HEAD = len(_MAGIC) + _MARK + 8  # and the size of the options


@dataclasses.dataclass
class Reading:
    """How a set is opened: everything of a token but which manifest."""

    url: str
    reader: trust.Reader
    cache: str | None = None
    limit: int | None = None
    lazy: bool = False
    verify: str = "header"
    limits: Limits = None
    options: Options = None
    place: str = ""  # see openers.place_of


class Private:
    """Options and classes in memory without a name, which is made when a token is first asked for: a set whose classes
    cannot be pickled can be opened. After a fork each process has its own descriptor of it. Safe from several threads.
    """

    fd: int | None = None
    mark = b""

    def __init__(self, options: Options, classes: object) -> None:
        self._content = options, classes

    def _made(self) -> tuple[int, bytes]:
        made: tuple[int, bytes] | None = self.__dict__.get("_memory")
        if made is None:
            options, classes = map(pickle.dumps, self._content)
            mark = os.urandom(_MARK)
            fd = os.memfd_create("recstore-options", os.MFD_CLOEXEC)
            data = memoryview(_MAGIC + mark + len(options).to_bytes(8, "little") + options + classes)
            while data:
                data = data[os.write(fd, data) :]
            made = self.__dict__.setdefault("_memory", (fd, mark))
            if made[0] != fd:
                os.close(fd)  # another thread was faster
            self.fd, self.mark = made
        return made

    def close(self) -> None:
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def place(self) -> bytes:
        """What a token has of it: b"" where there is nothing to tell, or no such memory. Raises the error of a pickle
        for a class that cannot be named."""
        if not any(self._content) or not hasattr(os, "memfd_create"):
            return b""
        try:
            fd, mark = self._made()
        except OSError as error:
            if not refuses_memory(error):
                raise
            return b""
        pid = os.getpid()
        return varint(pid) + varint(start_time(pid) or 0) + varint(fd) + mark

    @staticmethod
    def at(pid: int, started: int, fd: int, mark: bytes) -> tuple[Any, Any]:
        """`(options, classes)` of a process; None for what it does not give: it has ended, it may not be asked, a class
        cannot be imported here. Never raises."""
        if start_time(pid) != started:
            return None, None
        try:
            found = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            return None, None
        try:
            data = os.pread(found, _HEAD, 0)
            if len(data) < _HEAD or data[:-8] != _MAGIC + mark:
                return None, None
            while piece := os.pread(found, 1 << 20, len(data)):
                data += piece
        except OSError:  # the number leads to something else by now
            return None, None
        finally:
            os.close(found)
        end = _HEAD + int.from_bytes(data[_HEAD - 8 : _HEAD], "little")
        return _unpickled(data[_HEAD:end]), _unpickled(data[end:])


def _unpickled(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except Exception:  # whatever importing a module raises
        return None


def pack(reading: Reading, number: int, fingerprint: str, private: Private) -> bytes:
    """The token of a set that is read so."""
    place = private.place()
    reader = reading.reader
    flags = (
        _CACHED * (reading.cache is not None)
        | _LAZY * bool(reading.lazy)
        | _PICKLES * reader.allow_pickle
        | _VIEWS * (reader.arrays == "view")
        | _VERIFIED * (reading.verify == "full")
        | _LIMITS * (reading.limits is not None)
        | _PRIVATE * bool(place)
    )
    url = reading.url.encode("utf-8", "surrogateescape")
    out = [bytes([1, flags]), varint(number), bytes.fromhex(fingerprint)[:8], _text(url)]
    if reading.cache is not None:
        out += [_text(os.fsencode(reading.cache)), varint(0 if reading.limit is None else reading.limit + 1)]
        out.append(bytes.fromhex(reading.place))
    if reading.limits is not None:
        out += map(varint, reading.limits)
    return b"".join([*out, place])


def unpack(token: bytes) -> tuple[Reading, int, str]:
    """`(Reading, number, beginning of the fingerprint)`. Raises CorruptError."""
    bytes_ = wire.Reader(token)
    if bytes_.byte() != 1:
        raise CorruptError("a recstore handle names a set of shards in a way that this recstore does not know")
    flags, number, fingerprint = bytes_.byte(), bytes_.size(), bytes_.take(8)
    url = bytes_.take(bytes_.size()).decode("utf-8", "surrogateescape")
    reader = trust.Reader(False, bool(flags & _PICKLES), "view" if flags & _VIEWS else "copy")
    reading = Reading(url, reader, lazy=bool(flags & _LAZY), verify="full" if flags & _VERIFIED else "header")
    if flags & _CACHED:
        reading.cache = os.fsdecode(bytes_.take(bytes_.size()))
        limit = bytes_.varint()
        reading.limit = limit - 1 if limit else None
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
