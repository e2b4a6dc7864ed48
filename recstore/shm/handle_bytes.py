"""The bytes of a handle: the process that holds the segments and blobs of a view, their locations, and how the view
reads them.

A resource is a segment or a blob. Numbers are varints, as in wire.py:

    handle    = u8 version 2, u8 kind of container, holder, length, folders, devices, segments, tail
    holder    = pid, its start time, 16 bytes boot id, PID namespace
    folders   = count, for each: size, bytes of the path         the folders of resources that are files
    devices   = count, for each: a number                        each device number once
    segments  = count, locations
    tail      = 0, view  |  1, location of the blob that holds the view
    view      = count, locations of the blobs, body              resources have numbers from 0, segments first;
                                                                 view_bytes.py defines the body
    location  = u8 flags, where, index of the device, inode, 16 bytes id, passed
              | 0, size, bytes                                   the content of a blob, if descriptors are scarce
    flags     = number of the backing | 4 passed | 8 name in short form | 16 not trusted | 32 pickles allowed
              | 64 arrays are views
    where     = descriptor                                       backing anonymous
              | index of the folder, name                        other backings
    name      = 8 bytes                                          short form, directory: the file name is
                                                                 `<pid>-<start time>-<the bytes in hex>.rec`, with the
                                                                 pid and the start time of the holder
              | 12 bytes                                         short form, named: see named_segments.packed_name
              | size, bytes
    passed    = number of the descriptor in the child            with flag 4: multiprocessing passed the descriptor

view_bytes.py writes and reads the body. Handles are hostile input: malformed bytes raise CorruptError. The module
recstore.shm.handles checks whether the resources still exist.
"""

from __future__ import annotations

import os

from recstore.errors import CorruptError
from recstore.shm import named_segments
from recstore.shm.wire import Reader, count, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias, TypeVar

    Holder: TypeAlias = tuple[int, int, bytes, int]  # pid, start time, boot id, PID namespace
    _T = TypeVar("_T")

VERSION = 2
BACKINGS = ("named", "anonymous", "directory", "file")
_PASSED, _SHORT_NAME = 4, 8
_READING = 16  # this flag and the next two: how the sender reads the resource; the receiver has no other rights


class Location:
    """The location of a resource.

    Attributes:
        fd: the descriptor in the holder, for the anonymous backing.
        path: the path of the file, for the other backings.
        passed: the number of the descriptor in a spawned child, or None.
        reading: three bits: how the sender reads the resource.
    """

    __slots__ = ("backing", "device", "fd", "id", "inode", "passed", "path", "reading")
    fd: Any  # an int; None in an unpacked handle for other backings
    path: Any  # a str, None for the anonymous backing

    def __init__(
        self,
        backing: str,
        fd: int | None,
        path: str | None,
        device: int,
        inode: int,
        id: bytes,
        passed: int | None = None,
        reading: int = 0,
    ) -> None:
        self.backing, self.fd, self.path = backing, fd, path
        self.device, self.inode, self.id, self.passed, self.reading = device, inode, id, passed, reading


class Handle:
    """The parts of a handle. `view` is a Reader of the view's bytes. If a blob holds these bytes, `view` is None, and
    `tail` is the Location of the blob."""

    folders: list[bytes]
    devices: list[int]
    segments: list[Location | bytes]
    view: Reader | None
    tail: Location | bytes | None

    def __init__(self, kind: int, holder: Holder, length: int) -> None:
        self.kind, self.holder, self.length = kind, holder, length
        self.folders, self.devices = [], []
        self.segments, self.view, self.tail = [], None, None

    def pack(self, view: bytes, tail: Location | bytes | None = None) -> bytes:
        """The bytes of the handle. `tail` is the Location of a blob that holds the view; then `view` is not used."""
        segments = [self.pack_location(segment) for segment in self.segments]
        end = b"\0" + view if tail is None else b"\1" + self.pack_location(tail)
        pid, started, boot, namespace = self.holder
        out = [bytes([VERSION, self.kind]), varint(pid), varint(started), boot, varint(namespace), varint(self.length)]
        out += [varint(len(self.folders)), *(varint(len(folder)) + folder for folder in self.folders)]
        out += [varint(len(self.devices)), *map(varint, self.devices), varint(len(segments)), *segments, end]
        return b"".join(out)

    def pack_view(self, blobs: Sequence[Location | bytes], body: bytes) -> bytes:
        """The bytes of a view from the Locations of its blobs and the bytes of its body."""
        return b"".join([varint(len(blobs)), *map(self.pack_location, blobs), body])

    def pack_location(self, location: Location | bytes) -> bytes:
        if isinstance(location, bytes):
            return b"\0" + varint(len(location)) + location
        flags = BACKINGS.index(location.backing) | location.reading * _READING
        passed = b""
        if location.passed is not None:
            flags |= _PASSED
            passed = varint(location.passed)
        if location.backing == "anonymous":
            where = varint(location.fd)
        else:
            folder, name = os.path.split(os.fsencode(location.path))
            where = varint(_index(self.folders, folder))
            prefix = b"%d-%d-" % self.holder[:2]
            if location.backing == "named" and named_segments.is_segment(os.fsdecode(name)):
                flags |= _SHORT_NAME
                where += named_segments.packed_name(name)
            elif name.startswith(prefix) and len(name) == len(prefix) + 20 and _is_hex(name[len(prefix) : -4]):
                flags |= _SHORT_NAME
                where += bytes.fromhex(name[len(prefix) : -4].decode())
            else:
                where += varint(len(name)) + name
        file = varint(_index(self.devices, location.device)) + varint(location.inode)
        return bytes([flags]) + where + file + location.id + passed

    @staticmethod
    def unpack(data: bytes) -> Handle:
        """Reads a Handle. Raises CorruptError."""
        reader = Reader(data)
        version = reader.byte()
        if version != VERSION:
            raise CorruptError(f"the recstore handle has version {version}; this recstore reads version {VERSION}")
        kind = reader.byte()
        holder = reader.varint(), reader.varint(), reader.take(16), reader.varint()
        self = Handle(kind, holder, reader.size())
        self.folders = [reader.take(reader.size()) for _ in range(count(reader))]
        self.devices = [reader.varint() for _ in range(count(reader))]
        self.segments = self.read_locations(reader)
        tail = reader.byte()
        if tail == 0:
            self.view = reader
        elif tail == 1:
            self.tail = self.read_location(reader)
            reader.end()
        else:
            raise CorruptError(f"a recstore handle has a tail of kind {tail}")
        return self

    def read_locations(self, reader: Reader) -> list[Location | bytes]:
        """A list of Locations; for a blob with its content in the handle, the content as bytes."""
        return [self.read_location(reader) for _ in range(count(reader))]

    def read_location(self, reader: Reader) -> Location | bytes:
        flags = reader.byte()
        if flags == 0:
            return reader.take(reader.size())
        backing = flags & 3
        if flags > 127 or (flags & _SHORT_NAME and backing == 1):
            raise CorruptError(f"a recstore handle has a location with flags {flags}")
        fd = path = None
        if backing == 1:
            fd = reader.size()
        else:
            folder = _entry(self.folders, reader)
            if flags & _SHORT_NAME and backing == 0:
                name = named_segments.unpacked_name(reader.take(12))
            elif flags & _SHORT_NAME:
                name = b"%d-%d-%s.rec" % (*self.holder[:2], reader.take(8).hex().encode())
            else:
                name = reader.take(reader.size())
            path = os.fsdecode(os.path.join(folder, name))
        device, inode, id_ = _entry(self.devices, reader), reader.varint(), reader.take(16)
        passed = reader.size() if flags & _PASSED else None
        return Location(BACKINGS[backing], fd, path, device, inode, id_, passed, flags // _READING)


def _index(table: list[_T], value: _T) -> int:
    if value not in table:
        table.append(value)
    return table.index(value)


def _entry(table: list[_T], reader: Reader) -> _T:
    i = reader.size()
    if i >= len(table):
        raise CorruptError(f"a recstore handle names entry {i} of a table of {len(table)}")
    return table[i]


def _is_hex(text: bytes) -> bool:
    return all(c in b"0123456789abcdef" for c in text)
