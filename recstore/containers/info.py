"""Figures of a store, for `x.info()`. The first call imports this module."""

from __future__ import annotations

import dataclasses
import struct

from recstore._core import native
from recstore._core.native import TAG_STR1, TAG_TUPLE
from recstore.containers import node_sizes
from recstore.containers.records import RecordList
from recstore.shm import process_memory
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from recstore.containers.dicts import RecordDict
    from recstore.remote.cache.counters import Counters

__all__ = ["MappingInfo", "Node", "SavedIndex", "StoreInfo", "Table", "ViewInfo"]


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of a schema tree with its children. `name` is a dict key or a label, such as `[]` for items of a list."""

    name: str
    kind: str
    detail: str
    children: tuple[Node, ...]

    def lines(self, indent: int = 0) -> Iterator[str]:
        detail = f" {self.detail}" if self.detail else ""
        yield f"{'  ' * indent}{self.name}: {self.kind}{detail}"
        for child in self.children:
            yield from child.lines(indent + 1)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that the records of many blocks share.

    Attributes:
        number: the number by which nodes name the table.
        kind: "entries" for a table of values, "symbols" for a symbol table of strings.
        entries: the number of values or symbols.
        nbytes: their bytes.
        root: the root Node of the schema of the values; None for symbols.
    """

    number: int
    kind: str
    entries: int
    nbytes: int
    root: Node | None

    def lines(self) -> Iterator[str]:
        yield f"table {self.number}: {self.entries:,} {self.kind}, {self.nbytes:,} bytes"
        if self.root is not None:
            yield from self.root.lines(1)


@dataclasses.dataclass(frozen=True)
class SavedIndex:
    """An index that is saved with a store.

    Attributes:
        kind: "index_by" or "group_by".
        field: the field; a str with dots for a path of str keys, a tuple for other paths.
        keys: the number of distinct keys.
        nbytes: the bytes of the index.
    """

    kind: str
    field: object
    keys: int
    nbytes: int

    def __str__(self) -> str:
        per = self.nbytes / self.keys if self.keys else 0.0
        return f"{self.kind}({self.field!r}): {counted(self.keys, 'key')}, {self.nbytes:,} bytes ({per:.1f} a key)"


@dataclasses.dataclass(frozen=True)
class StoreInfo:
    """Figures of a store at the time of the call.

    Attributes:
        records, nbytes: the number of records, and the bytes of all sections.
        backing, name: the kind of memory, and the name or path of the segment, if any.
        sections: `{name: bytes}`.
        blocks: the number of blocks.
        trees: a `(records, bytes, root)` for each schema tree, the tree with the most records first.
        kept_bytes: the private memory that the build left in this process; None if another process built the store.
        huge_bytes: the bytes of this process's mapping in huge pages; None if the system does not report them.
        tables: the Tables that the nodes of the trees name by number.
        zero_copy: the names of the fields that ``to_numpy(copy=None)`` returns without a copy.
        indexes: the SavedIndexes that ``index_by`` and ``group_by`` use.
        fields: with ``info(fields=True)``, a :class:`recstore.containers.node_sizes.FieldSize` for the whole record,
            and then for each field. A field comes before the fields in it.
    """

    records: int
    nbytes: int
    backing: str
    name: str | None
    sections: dict[str, int]
    blocks: int
    trees: tuple[tuple[int, int, Node], ...]
    kept_bytes: int | None
    huge_bytes: int | None
    tables: tuple[Table, ...] = ()
    zero_copy: tuple[str, ...] = ()
    indexes: tuple[SavedIndex, ...] = ()
    fields: tuple[node_sizes.FieldSize, ...] = ()

    def __str__(self) -> str:
        per = self.nbytes / self.records if self.records else 0.0
        lines = [
            f"{counted(self.records, 'record')}, {self.nbytes:,} bytes ({per:.1f} a record), {self.backing}"
            + (f" {self.name!r}" if self.name else "")
        ]
        lines.append("sections: " + ", ".join(f"{name} {size:,}" for name, size in self.sections.items()))
        if self.kept_bytes is not None:
            lines.append(f"private memory that the build left in this process: {self.kept_bytes:,} bytes")
        if self.huge_bytes is not None:
            lines.append(f"of this process's mapping in huge pages: {self.huge_bytes:,} bytes")
        if self.zero_copy:
            more = f", and {len(self.zero_copy) - 8} more" if self.zero_copy[8:] else ""
            names = ", ".join(self.zero_copy[:8]) + more
            lines.append(f"without a copy by to_numpy(copy=None): {names}")
        lines.extend(f"saved index {index}" for index in self.indexes)
        if self.fields:
            lines.append(node_sizes.report(self.fields, self.records, self.nbytes))
        trees = counted(len(self.trees), "schema tree")
        lines.append(f"{counted(self.blocks, 'block')}, {trees}; the most common:")
        if self.trees:
            records, heap, root = self.trees[0]
            lines.append(f"  {counted(records, 'record')} in {counted(heap, 'byte')}")
            lines.extend("  " + line for line in root.lines())
        if self.tables:
            lines.append(f"{counted(len(self.tables), 'table')}, {sum(table.nbytes for table in self.tables):,} bytes:")
            lines.extend("  " + line for table in self.tables for line in table.lines())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from recstore.display import notebooks

        return notebooks.store_info(self)


@dataclasses.dataclass(frozen=True)
class ViewInfo:
    """Figures of a view over several stores.

    Attributes:
        records: the number of records of the view.
        nbytes: the bytes of all distinct stores, and of all shards.
        stores: the StoreInfos of the distinct stores, and of the open shards.
        shards: the number of shards in all sets.
        sets: a `(URL, manifest number)` for each set; `URL@NUMBER` opens the same manifest again.
        counters: `(path, recstore.remote.Counters)` of each cache; the URL for ``lazy="records"``.
    """

    records: int
    nbytes: int
    stores: tuple[StoreInfo, ...]
    shards: int = 0
    sets: tuple[tuple[str, int], ...] = ()
    counters: tuple[tuple[str, Counters], ...] = ()

    def __str__(self) -> str:
        stores, shown = counted(len(self.stores), "store"), self.stores
        if self.shards:
            stores = f"{counted(self.shards, 'shard')}, {len(self.stores):,} of them open here"
            shown = self.stores[:1]  # the shards of a set are similar
        lines = [f"{counted(self.records, 'record')} of {stores}, {self.nbytes:,} bytes"]
        lines.extend(f"manifest {number:,} of {url}" for url, number in self.sets)
        lines.extend(f"{place}: {counters}" for place, counters in self.counters)
        lines.extend(map(str, shown))
        if len(shown) < len(self.stores):
            lines.append(f"and {counted(len(self.stores) - 1, 'more', 'more')}, which .stores has")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from recstore.display import notebooks

        return notebooks.view_info(self)


def describe_view(
    segments: list[native.Segment], records: int, fields: bool, sets: list[native.Shards], nbytes: int
) -> ViewInfo:
    """The ViewInfo of a view with `records` records over open segments and sets of shards. `nbytes` is the size
    of all stores and of all shards, open or not."""
    pages = process_memory.HugePages()
    stores = tuple(describe(segment, segment.records, fields=fields, pages=pages) for segment in segments)
    origins = [getattr(shards.opener, "where", None) for shards in sets]
    manifests = tuple(dict.fromkeys(origin for origin in origins if origin is not None))
    return ViewInfo(records, nbytes, stores, sum(map(len, sets)), manifests, counters_of(sets))


def counters_of(sets: Iterable[native.Shards]) -> tuple[tuple[str, Counters], ...]:
    """`(path, Counters)` of each cache of these sets."""
    openers = (shards.opener for shards in sets if hasattr(shards.opener, "counters"))
    return tuple(dict(filter(None, (opener.counters() for opener in openers))).items())


@dataclasses.dataclass(frozen=True)
class MappingInfo:
    """Figures of a mapping.

    Attributes:
        records: the number of entries.
        nbytes: the bytes of its segments, and of a key index outside them.
        index_bytes: the bytes of the key index, which may be outside the segments.
        factory: the default factory, or None.
        segments: a StoreInfo of the values in each segment.
        keys: a StoreInfo of the keys in each segment.
        counters: as of ViewInfo.
    """

    records: int
    nbytes: int
    index_bytes: int
    factory: type | None
    segments: tuple[StoreInfo, ...]
    keys: tuple[StoreInfo, ...]
    counters: tuple[tuple[str, Counters], ...] = ()

    @property
    def sections(self) -> dict[str, int]:
        """The bytes of each section over all segments, by its name."""
        out: dict[str, int] = {}
        for part in self.segments:
            for name, size in part.sections.items():
                out[name] = out.get(name, 0) + size
        return out

    def __str__(self) -> str:
        def bytes_(size: int) -> str:
            return f"{size:,} bytes ({size / max(1, self.records):.1f} an entry)"

        entries = counted(self.records, "entry", "entries")
        lines = [f"{entries}, {bytes_(self.nbytes)}, index {bytes_(self.index_bytes)}"]
        if self.factory is not None:
            lines.append(f"a missing key gives {self.factory.__name__}()")
        lines.extend(f"{place}: {counters}" for place, counters in self.counters)
        for label, infos in (("keys", self.keys), ("values", self.segments)):
            for part in infos:
                lines.append(f"{label}:")
                lines.extend("  " + line for line in str(part).split("\n"))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from recstore.display import notebooks

        return notebooks.mapping_info(self)


def describe_mapping(mapping: RecordDict[Any, Any], fields: bool) -> MappingInfo:
    """The MappingInfo of an open RecordDict."""
    pages = process_memory.HugePages()
    keys, values = (
        tuple(describe(segment, segment.records, store, fields, pages) for segment, store in side.selection.leaves())
        for side in (mapping._keys, getattr(mapping._values.projection, "records", mapping._values))
    )
    return MappingInfo(
        records=len(mapping),
        nbytes=mapping.nbytes,
        index_bytes=mapping.index_nbytes,
        factory=mapping.factory,
        segments=values,
        keys=keys,
        counters=counters_of(mapping._values.sets),
    )


def describe(
    segment: native.Segment,
    records: int,
    store: int = 0,
    fields: bool = False,
    pages: process_memory.HugePages | None = None,
) -> StoreInfo:
    """The StoreInfo of an open segment; `records` is the number of records of the container. Store 1 holds the keys of
    a mapping. With `fields`, reads every record, and includes the bytes of each field."""
    totals: dict[int, list[int]] = {}
    blocks = segment.blocks(store)
    for _, n, tree, heap, arrays in blocks:
        total = totals.setdefault(tree, [0, 0])
        total[0] += n
        total[1] += heap + arrays
    nodes = segment.trees(store)
    trees = [(n, heap, _node(nodes[tree], 0, "key" if store else "record")) for tree, (n, heap) in totals.items()]
    trees.sort(key=lambda entry: -entry[0])
    tables = [
        Table(number, "symbols", entries, size, None) if tree is None
        else Table(number, "entries", entries, size, _node(nodes[tree], 0, "entry"))
        for number, (entries, size, tree) in enumerate(segment.tables(store))
    ]  # fmt: skip
    return StoreInfo(
        records=records,
        nbytes=segment.nbytes,
        backing=segment.backing,
        name=segment.name or segment.path,
        sections=segment.sections(),
        blocks=len(blocks),
        trees=tuple(trees),
        kept_bytes=segment.kept_bytes,
        tables=tuple(tables),
        huge_bytes=(pages or process_memory.HugePages()).within(*segment.mapped),
        zero_copy=_zero_copy(segment, store, trees) if len(blocks) == 1 else (),
        indexes=tuple(map(_saved_index, native.saved_indexes(segment))),
        fields=node_sizes.field_sizes(segment, store) if fields else (),
    )


def _saved_index(saved: native.SavedIndex) -> SavedIndex:
    kind = "index_by" if saved.kind == native.INDEX_RECORDS else "group_by"
    return SavedIndex(kind, saved.path().field(), saved.entries, saved.nbytes)


def _zero_copy(segment: native.Segment, store: int, trees: list[tuple[int, int, Node]]) -> tuple[str, ...]:
    """The names of the fields whose bytes have the form of an array, in a store of one block."""
    whole = RecordList._blank()._set(native.Selection.whole(segment, store))
    paths = _paths(trees[0][2])
    return tuple(".".join(path) for path in paths if native.column_view(whole.field(path)) is not None)


def _paths(node: Node, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the key paths through structs to numbers and lists."""
    for child in node.children if node.kind == "struct" else ():
        if child.kind == "struct":
            yield from _paths(child, (*before, child.name))
        elif child.kind in ("int", "float", "list", "tuple"):
            yield (*before, child.name)


def _node(nodes: list[native.Node], number: int, name: str) -> Node:
    kind, param, fixed, children, size, bits, aux, flags, count = nodes[number]
    label = kind_name = native.node_name(kind)
    detail: list[str] = []
    if label in _DETAILS:
        detail.extend(_DETAILS[label](param, aux, count))
    elif label in ("list", "tuple") and param == 1:
        label = "tuple"
    elif label == "ext":
        label = native.ext_name(param)
        detail.extend(_class_name(aux))
    if flags & _RARE:
        detail.append("rare")
    if flags & _IN_BITS:
        detail.append("in the bits of its parent")
    if flags & _REST:
        detail.append("to the end")
    if fixed and size:
        detail.append(f"{size} bytes")
    if label == "struct":
        names = node_sizes.key_names(aux, len(children))
    elif label == "map":
        names = ["{key}", "{value}"]
    else:
        names = ["[]" if label == "list" else _CHILDREN.get(kind_name, "|")] * len(children)
    below = tuple(_node(nodes, child, key) for child, key in zip(children, names))
    return Node(name, label, ", ".join(detail), below)


_REST = 2  # the flag of strings that extend to the end of a record
_RARE = 4  # the flag of optional values that few records have
_IN_BITS = 8  # the flag of rows whose bits are in the bit group of their parent
_CHILDREN = {"ext": "as", "concat": "+", "optional": "?", "rising": "/", "runs": "=", "exceptions": "!"}


def _decimal(param: int, aux: bytes, count: int) -> Iterator[str]:
    base, scale, correction = struct.unpack("<qBB", aux)
    yield f"10^-{scale}"
    yield f"{param} bits from {base}"
    if correction:
        yield f"{correction} of them corrections"


def _numbers(param: int, aux: bytes, count: int) -> Iterator[str]:
    base, kind, scale, stride, head_width, max_width = struct.unpack("<qBBBBB", aux[:13])
    yield ("tuple" if param else "list") + (" of floats" if kind else " of ints") + (f", 10^-{scale}" if kind else "")
    yield f"differences of stride {stride}" if stride else f"from {base}"
    yield f"at most {max(head_width if stride else 0, max_width)} bits"


def _dict(param: int, aux: bytes, count: int) -> Iterator[str]:
    numbers = ", ".join(str(number) for (number,) in struct.iter_unpack("<I", aux))
    yield f"{counted(count, 'entry', 'entries')}, {param} bits"
    yield f"of table{'s' if len(aux) > 4 else ''} {numbers}"


def _digits(param: int, aux: bytes, count: int) -> Iterator[str]:
    if count > 1:
        yield f"padded to {count}"
    yield f"{param} bits from {struct.unpack('<Q', aux)[0]}"


def _alphabet(param: int, aux: bytes, count: int) -> Iterator[str]:
    text = aux.decode()
    yield text if len(text) <= 16 else f"{text[:4]}...{text[-2:]}"
    if count:
        yield f"{count} characters"
    if param > 1:
        yield "UUIDs" if param == 3 else "padded"


# Kind of node -> function from param, aux and count to the texts of Node.detail.
_DETAILS: dict[str, Callable[[int, bytes, int], Iterable[str]]] = {
    "int": lambda param, aux, count: [f"{param} bits from {struct.unpack('<q', aux)[0]}"],
    "str": lambda param, aux, count: [{0: "of mixed widths", 1: "Latin-1", 2: "UCS-2", 4: "UCS-4"}[param]],
    "const": lambda param, aux, count: _const_text(aux),
    "ndarray": lambda param, aux, count: [f"items of {aux[0] >> 2} bits"] if aux[0] >> 2 else [],
    "decimal": _decimal,
    "numbers": _numbers,
    "dict-coded": _dict,
    "symbols": lambda param, aux, count: [f"of table {struct.unpack('<I', aux)[0]}", *(["UTF-16"] if param else [])],
    "digits": _digits,
    "hex": lambda param, aux, count: [f"{count} digits"],
    "alphabet": _alphabet,
    "same": lambda param, aux, count: [f"as part {count}"],
    "optional": lambda param, aux, count: ["value or None" if param else "key that may be absent"],
}


def _const_text(aux: bytes) -> list[str]:
    """The repr of a const str of at most 40 characters, as a list; empty for any other const."""
    return [repr(aux[2:].decode("latin-1"))] if aux[0] == TAG_STR1 and aux[1] <= 40 else []


def _class_name(aux: bytes) -> list[str]:
    """The module and qualified name of a class, if an EXTRA starts with them in Latin-1."""
    if not aux or aux[0] != TAG_TUPLE:
        return []
    parts: list[str] = []
    at = 2
    while len(parts) < 2 and at + 1 < len(aux) and aux[at] == TAG_STR1 and aux[at + 1] < 0x80:
        parts.append(aux[at + 2 : at + 2 + aux[at + 1]].decode("latin-1"))
        at += 2 + aux[at + 1]
    return [".".join(parts)] if len(parts) == 2 else []
