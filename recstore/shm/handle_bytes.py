"""The bytes of a handle: who holds the pieces of a view, where they are, and what the view makes of them.

Numbers are varints (unsigned LEB128, as in csrc/FORMAT.md), signed ones zigzag-coded (Protocol Buffers, Encoding):

    handle    = u8 version 2, u8 kind of container, holder, length, folders, devices, segments, tail
    holder    = pid, its start time, 16 bytes boot id, PID namespace
    folders   = count, for each: size, bytes of the path       of pieces that are files
    devices   = count, for each: a number                      written once, as pieces share them
    segments  = count, pieces
    tail      = 0, recipe  |  1, piece: the blob that holds the recipe
    recipe    = count, pieces (the blobs), body                pieces are numbered from 0, segments first
    body      = records                                        of a list or a view
              | number of the factory, table, records, records  of a mapping: its keys, then its values
    table     = 0, piece: the segment whose KEY_INDEX it is  |  1, piece: the blob that it is
    records   = u8 kind of container, how, selection
    piece     = u8 flags (backing, 4 passed, 8 named by scheme, 16 not trusted, 32 pickles allowed, 64 arrays are
                views), place, number of the device, inode, 16 bytes id,
                with flag 4: what the child calls the descriptor that multiprocessing passed to it
              | 0, size, bytes                                   a blob of its own, where descriptors are short
    place     = descriptor                                     anonymous
              | number of the folder, name                     directory and file
    name      = 8 bytes: `<pid>-<start time>-<these in hex>.rec` with the holder's; of a named one 12 bytes: a number of
    18 letters |
                size, bytes
    selection = number of stages, stages from the outermost, base
    base      = 0, piece, store                     the records of a store
              | 1, length                           positions, of groups
              | number of parts + 2, selections     one after another; perhaps none
    stage     = 1, start, step, length              a slice; start and step signed
              | 2, seed                             the keyed permutation
              | 3, piece, width, start, step, length  entries of an index array; start and step signed.
                                                    A segment: its ORDER
              | 4, times                            a repetition
    how       = a plain value: None for whole records, else what `How.describe` gives
              | 7, width, n, piece, piece, records  groups of records: n, the blobs of their starts and of their rows
    plain     = 0 None | 1 True | 2 False | 3, signed (below 2**63) | 4, size, UTF-8 | 5, size, bytes | 6, count, plains

The bytes are hostile: what does not fit raises CorruptError. Whether the pieces are there is recstore.shm.handles'
question.
"""

import os

from recstore._core.native import varint
from recstore.errors import CorruptError

VERSION = 2
BACKINGS = ("named", "anonymous", "directory", "file")
_PASSED, _SCHEME = 4, 8
_READING = 16  # and the two flags above it: how the sender reads the segment, which a worker must not widen
_GROUPS = 7
MAX_STAGES = 8  # these three as in _selections.pxd: no view has more, and no reader builds more
MAX_NESTED = 8
MAX_WEIGHT = 256
MAX_PLAIN_DEPTH = 8
_SLICE, _PERMUTE, _INDEX, _REPEAT = 1, 2, 3, 4


def signed(n):
    """The bytes of a number from -2**63 to 2**63 - 1.

    >>> [Reader(signed(n)).signed() for n in (0, -1, 1, -2**63, 2**63 - 1)]
    [0, -1, 1, -9223372036854775808, 9223372036854775807]
    """
    return varint(n << 1 if n >= 0 else (-n << 1) - 1)


class Reader:
    """Takes values from the front of bytes that anybody may have written. CorruptError where they do not hold them."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    @property
    def left(self):
        return len(self.data) - self.at

    def take(self, n):
        if n > self.left:
            raise CorruptError(f"a recstore handle is cut short: {n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]

    def byte(self):
        return self.take(1)[0]

    def varint(self):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte >= 0x80 or value >> 64:
            raise CorruptError("a recstore handle holds a number of more than 64 bits")
        return value

    def size(self):
        """A number that is a length or a position: below 2**63."""
        value = self.varint()
        if value >> 63:
            raise CorruptError(f"a recstore handle counts {value}")
        return value

    def signed(self):
        value = self.varint()
        return value >> 1 if not value & 1 else -(value >> 1) - 1

    def text(self):
        try:
            return self.take(self.size()).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as e:
            raise CorruptError(f"a recstore handle holds text that is none: {e}") from None

    def end(self):
        if self.left:
            raise CorruptError(f"a recstore handle has {self.left} bytes too many")


# ---- Handles ----


class Piece:
    """Where a segment or a blob is: `fd` in the holder (anonymous), or `path`; `passed`, its number in a spawned child,
    or None; `reading`, three bits that say how the sender reads it."""

    __slots__ = ("backing", "device", "fd", "id", "inode", "passed", "path", "reading")

    def __init__(self, backing, fd, path, device, inode, id, passed=None, reading=0):
        self.backing, self.fd, self.path = backing, fd, path
        self.device, self.inode, self.id, self.passed, self.reading = device, inode, id, passed, reading


class Handle:
    """A handle taken apart. `recipe` is a Reader, or None with `tail`, the Piece of the blob that holds it."""

    def __init__(self, kind, holder, length):
        self.kind, self.holder, self.length = kind, holder, length
        self.folders, self.devices = [], []
        self.segments, self.recipe, self.tail = [], None, None

    def pack(self, recipe, tail=None):
        """The bytes of the handle, with the recipe's, or with a Piece instead of them."""
        segments = [self.pack_piece(piece) for piece in self.segments]
        end = b"\0" + recipe if tail is None else b"\1" + self.pack_piece(tail)
        pid, started, boot, namespace = self.holder
        out = [bytes([VERSION, self.kind]), varint(pid), varint(started), boot, varint(namespace), varint(self.length)]
        out += [varint(len(self.folders)), *(varint(len(folder)) + folder for folder in self.folders)]
        out += [varint(len(self.devices)), *map(varint, self.devices), varint(len(segments)), *segments, end]
        return b"".join(out)

    def pack_recipe(self, blobs, body):
        """The bytes of a recipe from Pieces and the bytes of its body."""
        return b"".join([varint(len(blobs)), *map(self.pack_piece, blobs), body])

    def pack_piece(self, piece):
        if isinstance(piece, bytes):
            return b"\0" + varint(len(piece)) + piece
        flags = BACKINGS.index(piece.backing) | piece.reading * _READING
        passed = b""
        if piece.passed is not None:
            flags |= _PASSED
            passed = varint(piece.passed)
        if piece.backing == "anonymous":
            place = varint(piece.fd)
        else:
            folder, name = os.path.split(os.fsencode(piece.path))
            place = varint(_index(self.folders, folder))
            start = b"%d-%d-" % self.holder[:2]
            if piece.backing == "named":
                flags |= _SCHEME
                place += _naming().squeezed(name)
            elif name.startswith(start) and len(name) == len(start) + 20 and _hex(name[len(start) : -4]):
                flags |= _SCHEME
                place += bytes.fromhex(name[len(start) : -4].decode())
            else:
                place += varint(len(name)) + name
        where = varint(_index(self.devices, piece.device)) + varint(piece.inode)
        return bytes([flags]) + place + where + piece.id + passed

    @staticmethod
    def unpack(data):
        """Takes a handle apart. CorruptError."""
        reader = Reader(data)
        version = reader.byte()
        if version != VERSION:
            raise CorruptError(f"a recstore handle of version {version}; this is version {VERSION}")
        kind = reader.byte()
        holder = reader.varint(), reader.varint(), reader.take(16), reader.varint()
        self = Handle(kind, holder, reader.size())
        self.folders = [reader.take(reader.size()) for _ in range(_count(reader))]
        self.devices = [reader.varint() for _ in range(_count(reader))]
        self.segments = self.read_pieces(reader)
        tail = reader.byte()
        if tail == 0:
            self.recipe = reader
        elif tail == 1:
            self.tail = self.read_piece(reader)
            reader.end()
        else:
            raise CorruptError(f"a recstore handle with a tail of kind {tail}")
        return self

    def read_pieces(self, reader):
        """Pieces, and bytes for blobs that came along."""
        return [self.read_piece(reader) for _ in range(_count(reader))]

    def read_piece(self, reader):
        flags = reader.byte()
        if flags == 0:
            return reader.take(reader.size())
        backing = flags & 3
        if flags > 127 or (flags & _SCHEME and backing == 1):
            raise CorruptError(f"a recstore handle holds a piece with flags {flags}")
        fd = path = None
        if backing == 1:
            fd = reader.size()
        else:
            folder = _entry(self.folders, reader)
            if flags & _SCHEME and backing == 0:
                name = _naming().unsqueezed(reader.take(12))
            elif flags & _SCHEME:
                name = b"%d-%d-%s.rec" % (*self.holder[:2], reader.take(8).hex().encode())
            else:
                name = reader.take(reader.size())
            path = os.fsdecode(os.path.join(folder, name))
        device, inode, id_ = _entry(self.devices, reader), reader.varint(), reader.take(16)
        passed = reader.size() if flags & _PASSED else None
        return Piece(BACKINGS[backing], fd, path, device, inode, id_, passed, flags // _READING)


def _naming():
    from recstore.shm import named_segments

    return named_segments


def _index(table, value):
    if value not in table:
        table.append(value)
    return table.index(value)


def _entry(table, reader):
    i = reader.size()
    if i >= len(table):
        raise CorruptError(f"a recstore handle names entry {i} of a table of {len(table)}")
    return table[i]


def _hex(text):
    return all(c in b"0123456789abcdef" for c in text)


# ---- Plain values ----


def write_plain(value):
    """The bytes of a description: None, bool, int, str, bytes, and tuples of them."""
    if value is None or value is True or value is False:
        return bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        return b"\3" + signed(value)
    if isinstance(value, str):
        encoded = value.encode("utf-8", "surrogatepass")
        return b"\4" + varint(len(encoded)) + encoded
    if isinstance(value, bytes):
        return b"\5" + varint(len(value)) + value
    if isinstance(value, tuple):
        return b"\6" + varint(len(value)) + b"".join(map(write_plain, value))
    raise TypeError(f"a view that is described by a {type(value).__name__} cannot travel: {value!r:.80}")


def read_plain(reader, depth=0):
    kind = reader.byte()
    if kind < 3:
        return (None, True, False)[kind]
    if kind == 3:
        return reader.signed()
    if kind == 4:
        return reader.text()
    if kind == 5:
        return reader.take(reader.size())
    if kind != 6 or depth == MAX_PLAIN_DEPTH:
        raise CorruptError(f"a recstore handle holds a plain value of kind {kind} at depth {depth}")
    return tuple(read_plain(reader, depth + 1) for _ in range(_count(reader)))


def _count(reader):
    """How many things follow, of at least a byte each."""
    n = reader.size()
    if n > reader.left:
        raise CorruptError(f"a recstore handle of {len(reader.data)} bytes names {n} things")
    return n


# ---- Containers ----


def write_records(records, number):
    """The bytes of a list, a view or a part of a mapping; `number` gives the number of a piece, a Segment or a Blob."""
    how = records.how
    if hasattr(how, "rows"):
        described = bytes([_GROUPS, how.width]) + varint(how.n) + varint(number(how.starts)) + varint(number(how.rows))
        described += write_records(how.records, number)
    else:
        described = write_plain(None if how is None else how.describe())
    return bytes([records._kind]) + described + write_selection(records.selection, number)


def read_records(reader, pieces, make, depth=0):
    """What `write_records` wrote; `make(kind, selection, how)` gives the container."""
    kind = reader.byte()
    if reader.left and reader.data[reader.at] == _GROUPS:
        _bounded(depth, MAX_NESTED - 1, "nested groups")
        how = _read_groups(reader, pieces, make, depth)
    else:
        how = read_plain(reader)
        if how is not None:
            from recstore._core.native import how_from

            how = how_from(how)
    selection = read_selection(reader, pieces)
    if _has_positions(selection) != hasattr(how, "rows"):
        raise CorruptError("a recstore handle holds groups where records belong, or records where groups belong")
    return make(kind, selection, how)


def _has_positions(selection):
    return selection.virtual or any(map(_has_positions, selection.parts or ()))


def _read_groups(reader, pieces, make, depth):
    from recstore._core.native import GroupHow

    reader.byte()
    width, n = reader.byte(), reader.size()
    starts, rows = (_numbered(reader.size(), pieces, "blob") for _ in range(2))
    return GroupHow(read_records(reader, pieces, make, depth + 1), starts, rows, width, n)


def write_mapping(mapping, number):
    """The bytes of a RecordDict."""
    from recstore.build.building import FACTORIES

    table = mapping.table
    owner = b"\0" + varint(number(table.segment)) if table.segment is not None else b"\1" + varint(number(table.blob))
    sides = (write_records(side, number) for side in (mapping._keys, mapping._values))
    return varint(FACTORIES.index(mapping.factory)) + owner + b"".join(sides)


def read_mapping(reader, pieces, make):
    """What `write_mapping` wrote, as the arguments of `Mapping._set`."""
    from recstore._core.native import KeyTable
    from recstore.build.building import FACTORIES

    factory, owner = reader.size(), reader.byte()
    if factory >= len(FACTORIES) or owner > 1:
        raise CorruptError(f"a recstore handle holds a mapping with factory {factory} and a table of kind {owner}")
    if owner == 0:
        table = KeyTable.of_segment(_numbered(reader.size(), pieces, "segment"))
    else:
        table = KeyTable.of_blob(_numbered(reader.size(), pieces, "blob"))
    keys, values = (read_records(reader, pieces, make) for _ in range(2))
    return keys, values, table, FACTORIES[factory]


# ---- Selections ----


def write_selection(selection, number):
    """The bytes of a Selection; `number` gives the number of a piece, a Segment or a Blob."""
    stages = selection.describe()
    length, out = selection.length, [varint(len(stages))]
    for stage in stages:
        out.append(_write_stage(stage, length, number))
        length = stage[1]
    if selection.segment is not None:
        out.append(b"\0" + varint(number(selection.segment)) + varint(selection.store))
    elif selection.virtual:
        out.append(b"\1" + varint(length))
    else:
        parts = selection.parts or ()
        out.append(varint(len(parts) + 2))
        out.extend(write_selection(part, number) for part in parts)
    return b"".join(out)


def _write_stage(stage, length, number):
    """A stage that gives `length` positions."""
    kind, n = stage[:2]
    if kind == "slice":
        return bytes([_SLICE]) + signed(stage[2]) + signed(stage[3]) + varint(length)
    if kind == "permute":
        return bytes([_PERMUTE]) + varint(stage[2])
    if kind == "index":
        blob, start, step, width = stage[2:]
        owner = number(blob if blob.section_of is None else blob.section_of)
        return b"".join([bytes([_INDEX]), varint(owner), bytes([width]), signed(start), signed(step), varint(length)])
    return bytes([_REPEAT]) + varint(length // n)


def read_selection(reader, pieces, depth=0):
    """The Selection that `write_selection` wrote, over pieces by number."""
    from recstore._core.native import Selection

    stages = [_read_stage(reader) for _ in range(_bounded(reader.size(), MAX_STAGES, "stages"))]
    n = reader.varint()
    if n == 0:
        selection = _whole(_numbered(reader.size(), pieces, "segment"), reader.size())
    elif n == 1:
        selection = Selection.of_positions(reader.size())
    else:
        numbers = range(_bounded(n - 2, reader.left, "parts"))
        _bounded(depth, MAX_NESTED - 1, "nested views")
        parts = [read_selection(reader, pieces, depth + 1) for _ in numbers]
        # What no view consists of would be made lighter, which takes time by its length: a handle costs time by its
        # bytes.
        weights = [part.weight_as_part() for part in parts]
        heavy = max(weights, default=0) > 1 and sum(weights) >= MAX_WEIGHT
        if len(parts) == 1 or heavy or not all(part.length for part in parts):
            raise CorruptError("a recstore handle describes a view that recstore does not make")
        selection = Selection.joined(parts)
    try:
        for stage in reversed(stages):
            selection = _apply(selection, stage, pieces)
    except OverflowError as e:
        raise CorruptError(f"a recstore handle describes a view that nobody can make: {e}") from None
    return selection


def _read_stage(reader):
    kind = reader.byte()
    if kind == _SLICE:
        return kind, reader.signed(), reader.signed(), reader.size()
    if kind == _INDEX:
        return kind, reader.size(), reader.byte(), reader.signed(), reader.signed(), reader.size()
    if kind in (_PERMUTE, _REPEAT):
        return kind, reader.varint()
    raise CorruptError(f"a recstore handle holds a stage of kind {kind}")


def _apply(selection, stage, pieces):
    kind, first, *more = stage
    if kind == _SLICE:
        return selection.sliced(first, *more)
    if kind == _PERMUTE:
        return selection.permuted(first)
    if kind == _REPEAT:
        return selection.repeated(first)
    width, start, step, length = more
    blob = _index_array(first, pieces)
    # The stage reads every step-th entry between the first and the last.
    last = start + step * (length - 1) if length else start
    low, high = min(start, last), max(start, last)
    entries = selection.indexed(blob, low, width, high - low + 1 if length else 0)
    return entries.sliced(start - low, step, length) if length else entries


def _numbered(number, pieces, kind):
    if number >= len(pieces) or hasattr(pieces[number], "store_records") != (kind == "segment"):
        raise CorruptError(f"a recstore handle of {len(pieces)} pieces names number {number} as a {kind}")
    return pieces[number]


def _index_array(number, pieces):
    """The blob of this number, or the ORDER of the segment of this number."""
    if number < len(pieces) and hasattr(pieces[number], "store_records"):
        order = pieces[number].order()
        if order is None:
            raise CorruptError("a recstore handle names the order of a segment that has none")
        return order[0]
    return _numbered(number, pieces, "blob")


def _whole(segment, store):
    from recstore._core.native import Selection

    if store >= segment.n_stores:
        raise CorruptError(f"a recstore handle names store {store} of a segment of {segment.n_stores}")
    return Selection.whole(segment, store)


def _bounded(n, most, what):
    if n > most:
        raise CorruptError(f"a recstore handle names {n} {what}; {most} is the most there can be")
    return n
