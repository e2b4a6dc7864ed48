"""The bytes of a view: the part of a handle that describes how a container reads its segments and blobs. A segment or
blob is identified by its number in the handle; segments come first.

    body      = records                                     a list or a view
              | number of the factory, index, records, records    a mapping: its keys, then its values
    index     = 0, number of a segment                      the KEY_INDEX of that segment
              | 1, number of a blob                         a blob that is a key index
              | 2, number of a segment, saved index         the key index of that saved index of the segment
    records   = u8 kind of container, projection, selection
    selection = number of stages, stages from the outermost, base
    base      = 0, segment, store                           all records of a store
              | 1, length                                   the numbers of groups
              | number of parts + 2, selections             the parts one after another; none or at least two
              | 3, store, size, token                       a set of shards: the store to read in each shard, and the
                                                            bytes with which recstore.remote.open_set opens the set
    stage     = 1, start, step, length                      a slice; start and step signed
              | 2, seed                                     the keyed permutation
              | 3, blob, width, start, step, length         entries of an index array; start and step signed. In place
                                                            of a blob, a segment stands for its ORDER
              | 4, times                                    a repetition
              | 5, segment, saved index, part, width, start, step, length    like 3, with the record numbers of a saved
                                                            index; part as in SavedIndex.blob
    projection = plain                                      None for whole records, else `Projection.describe()`
              | 7, width, n, blob, blob, records            n groups of records: the blobs of their starts and their
                                                            rows, then the records
              | 8, segment, saved index, records            the groups of a saved index
    plain     = 0 None | 1 True | 2 False | 3, signed (below 2**63) | 4, size, UTF-8 | 5, size, bytes | 6, count, plains

wire.py reads and writes numbers and plain values. The checks detect damage, so that it cannot lead to a crash, a hang
or wrong data. They do not defend against attacks: a handle arrives in a pickle, and anyone who can change a pickle can
run code.
"""

from __future__ import annotations

from recstore._core import native
from recstore.errors import CorruptError
from recstore.shm import registry
from recstore.shm.wire import read_plain, signed, varint, write_plain
from recstore.values.factories import FACTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from recstore.shm.wire import Reader

    Number: TypeAlias = Callable[[Any], int]  # from a Segment or Blob to its number
    Make: TypeAlias = Callable[[int, native.Selection, native.Projection | None], Any]

_GROUPS, _SAVED_GROUPS = 7, 8
_SHARDS = 3  # not 2 + the number of parts, because the number of parts is never 1
_SLICE, _PERMUTE, _INDEX, _REPEAT, _SAVED = 1, 2, 3, 4, 5


# ---- Containers ----


def write_records(records: native.Records[Any], number: Number) -> bytes:
    """The bytes of a list, a view, or the keys or values of a mapping. `number` returns the number of a resource."""
    projection: Any = records.projection
    if hasattr(projection, "rows") and projection.starts.part is not None:
        projected = bytes([_SAVED_GROUPS]) + varint(number(projection.starts.section_of))
        projected += varint(projection.starts.part[0]) + write_records(projection.records, number)
    elif hasattr(projection, "rows"):
        projected = (
            bytes([_GROUPS, projection.width])
            + varint(projection.n)
            + varint(number(projection.starts))
            + varint(number(projection.rows))
        )
        projected += write_records(projection.records, number)
    else:
        projected = write_plain(None if projection is None else projection.describe())
    return bytes([records._kind]) + projected + write_selection(records.selection, number)


def read_records(reader: Reader, resources: list[Any], make: Make, depth: int = 0) -> Any:
    """Reads the bytes of `write_records`; `make(kind, selection, projection)` returns the container."""
    kind = reader.byte()
    if reader.left and reader.data[reader.at] in (_GROUPS, _SAVED_GROUPS):
        _bounded(depth, native.VIEW_NESTED - 1, "nested groups")
        projection: Any = _read_groups(reader, resources, make, depth)
    else:
        projection = read_plain(reader)
        if projection is not None:
            projection = native.projection_from(projection)
    selection = read_selection(reader, resources)
    if _has_positions(selection) != hasattr(projection, "rows"):
        raise CorruptError("a recstore handle has groups in place of records, or records in place of groups")
    return make(kind, selection, projection)


def _has_positions(selection: native.Selection) -> bool:
    return selection.virtual or any(map(_has_positions, selection.parts or ()))


def _read_groups(reader: Reader, resources: list[Any], make: Make, depth: int) -> native.GroupProjection:
    if reader.byte() == _SAVED_GROUPS:
        saved = _saved_index(reader, resources)
        groups = saved.blob(0), saved.blob(1), saved.width, saved.entries
        if saved.kind != native.INDEX_GROUPS:
            raise CorruptError("a recstore handle uses an index of single records as an index of groups")
        return native.GroupProjection(read_records(reader, resources, make, depth + 1), *groups)
    width, n = reader.byte(), reader.size()
    starts, rows = (_numbered(reader.size(), resources, "blob") for _ in range(2))
    return native.GroupProjection(read_records(reader, resources, make, depth + 1), starts, rows, width, n)


def write_mapping(mapping: native.Mapping[Any, Any], number: Number) -> bytes:
    """The bytes of a RecordDict."""
    index = mapping.key_index
    if index.saved is not None:
        owner = b"\2" + varint(number(index.segment)) + varint(index.saved.number)
    elif index.segment is not None:
        owner = b"\0" + varint(number(index.segment))
    else:
        owner = b"\1" + varint(number(index.blob))
    sides = (write_records(side, number) for side in (mapping._keys, mapping._values))
    return varint(FACTORIES.index(mapping.factory)) + owner + b"".join(sides)


def read_mapping(reader: Reader, resources: list[Any], make: Make) -> tuple[Any, Any, native.KeyIndex, type | None]:
    """Reads the bytes of `write_mapping`; returns the arguments of `Mapping._set`."""
    factory, owner = reader.size(), reader.byte()
    if factory >= len(FACTORIES) or owner > 2:
        raise CorruptError(f"a recstore handle has a mapping with factory {factory} and a key index of kind {owner}")
    if owner == 2:
        index = _saved_index(reader, resources).key_index()
    elif owner == 0:
        index = native.KeyIndex.of_segment(_numbered(reader.size(), resources, "segment"))
    else:
        index = native.KeyIndex.of_blob(_numbered(reader.size(), resources, "blob"))
    keys, values = (read_records(reader, resources, make) for _ in range(2))
    return keys, values, index, FACTORIES[factory]


# ---- Selections ----


def write_selection(selection: native.Selection, number: Number) -> bytes:
    """The bytes of a Selection. `number` returns the number of a Segment or Blob."""
    stages = selection.describe()
    length, out = selection.length, [varint(len(stages))]
    for stage in stages:
        out.append(_write_stage(stage, length, number))
        length = stage[1]
    if selection.segment is not None:
        out.append(b"\0" + varint(number(selection.segment)) + varint(selection.store))
    elif selection.virtual:
        out.append(b"\1" + varint(length))
    elif selection.shards is not None:
        token = selection.shards.opener.token
        out.append(bytes([_SHARDS]) + varint(selection.shards.store) + varint(len(token)) + token)
    else:
        parts = selection.parts or ()
        out.append(varint(len(parts) + 2))
        out.extend(write_selection(part, number) for part in parts)
    return b"".join(out)


def _write_stage(stage: tuple[Any, ...], length: int, number: Number) -> bytes:
    """The bytes of a stage whose result has `length` positions."""
    kind, n = stage[:2]
    if kind == "slice":
        return bytes([_SLICE]) + signed(stage[2]) + signed(stage[3]) + varint(length)
    if kind == "permute":
        return bytes([_PERMUTE]) + varint(stage[2])
    if kind == "index":
        blob, start, step, width = stage[2:]
        if blob.part is not None:
            out = [varint(number(blob.section_of)), varint(blob.part[0]), varint(blob.part[1]), bytes([width])]
            return b"".join([bytes([_SAVED]), *out, signed(start), signed(step), varint(length)])
        owner = number(blob if blob.section_of is None else blob.section_of)
        return b"".join([bytes([_INDEX]), varint(owner), bytes([width]), signed(start), signed(step), varint(length)])
    return bytes([_REPEAT]) + varint(length // n)


def read_selection(reader: Reader, resources: list[Any], depth: int = 0) -> native.Selection:
    """Reads the bytes of `write_selection`; `resources` are the segments and blobs in order."""
    stages = [_read_stage(reader) for _ in range(_bounded(reader.size(), native.VIEW_STAGES, "stages"))]
    n = reader.varint()
    if n == 0:
        selection = _whole(_numbered(reader.size(), resources, "segment"), reader.size())
    elif n == 1:
        selection = native.Selection.of_positions(reader.size())
    elif n == _SHARDS:
        store = reader.size()
        selection = native.Selection.of_shards(registry.open_shards(reader.take(reader.size()), store))
    else:
        numbers = range(_bounded(n - 2, reader.left, "parts"))
        _bounded(depth, native.VIEW_NESTED - 1, "nested views")
        parts = [read_selection(reader, resources, depth + 1) for _ in numbers]
        selection = native.Selection.joined(parts)
    try:
        for stage in reversed(stages):
            selection = _apply(selection, stage, resources)
    except OverflowError as e:
        raise CorruptError(f"a recstore handle describes an impossible view: {e}") from None
    return selection


def _read_stage(reader: Reader) -> tuple[Any, ...]:
    kind = reader.byte()
    if kind == _SLICE:
        return kind, reader.signed(), reader.signed(), reader.size()
    if kind == _INDEX:
        return kind, reader.size(), reader.byte(), reader.signed(), reader.signed(), reader.size()
    if kind in (_PERMUTE, _REPEAT):
        return kind, reader.varint()
    if kind == _SAVED:
        where = reader.size(), reader.size(), reader.size()
        return kind, where, reader.byte(), reader.signed(), reader.signed(), reader.size()
    raise CorruptError(f"a recstore handle has a stage of kind {kind}")


def _apply(selection: native.Selection, stage: tuple[Any, ...], resources: list[Any]) -> native.Selection:
    first: Any
    kind, first, *more = stage
    if kind == _SLICE:
        return selection.sliced(first, *more)
    if kind == _PERMUTE:
        return selection.permuted(first)
    if kind == _REPEAT:
        return selection.repeated(first)
    width, start, step, length = more
    blob = _saved_part(first, resources) if kind == _SAVED else _index_array(first, resources)
    # The stage reads every step-th entry between the first and the last.
    last = start + step * (length - 1) if length else start
    low, high = min(start, last), max(start, last)
    entries = selection.indexed(blob, low, width, high - low + 1 if length else 0)
    return entries.sliced(start - low, step, length) if length else entries


def _numbered(number: int, resources: list[Any], kind: str) -> Any:
    if number >= len(resources) or hasattr(resources[number], "store_records") != (kind == "segment"):
        raise CorruptError(f"a recstore handle of {len(resources)} resources names number {number} as a {kind}")
    return resources[number]


def _index_array(number: int, resources: list[Any]) -> Any:
    """The blob with this number, or the ORDER of the segment with this number."""
    if number < len(resources) and hasattr(resources[number], "store_records"):
        order = resources[number].order()
        if order is None:
            raise CorruptError("a recstore handle names the order of a segment without an order")
        return order[0]
    return _numbered(number, resources, "blob")


def _saved_index(reader: Reader, resources: list[Any]) -> native.SavedIndex:
    """Reads the numbers of a segment and of its saved index, and returns the SavedIndex."""
    return native.saved_index(_numbered(reader.size(), resources, "segment"), reader.size())


def _saved_part(where: tuple[int, int, int], resources: list[Any]) -> native.Blob:
    segment, index, part = where
    blob = native.saved_index(_numbered(segment, resources, "segment"), index).blob(part)
    if blob is None:
        raise CorruptError(f"a recstore handle names part {part} of a saved index that lacks it")
    return blob


def _whole(segment: native.Segment, store: int) -> native.Selection:
    if store >= segment.n_stores:
        raise CorruptError(f"a recstore handle names store {store} of a segment of {segment.n_stores}")
    return native.Selection.whole(segment, store)


def _bounded(n: int, limit: int, items: str) -> int:
    if n > limit:
        raise CorruptError(f"a recstore handle claims to have {n} {items}, more than {limit}")
    return n
