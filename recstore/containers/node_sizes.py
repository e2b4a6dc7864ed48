"""The bytes of a store by field, for ``x.info(fields=True)``."""

from __future__ import annotations

import dataclasses
import struct

from recstore._core import native
from recstore.text import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    _Run: TypeAlias = tuple[str, int]  # ("blocks", tree) or ("table", number)
    _Names: TypeAlias = tuple[str, ...]

__all__ = ["FieldSize"]


@dataclasses.dataclass(frozen=True)
class FieldSize:
    """The bytes that one field takes over all records.

    Attributes:
        field: the name, with dots between keys and ``[]`` after a list whose elements have fields: "objects[].name".
            The empty string stands for the whole record.
        depth: the number of fields around it; 0 for the whole record.
        nbytes: the bytes of its values, of the fields in it, and its share of the tables that its nodes name. Several
            fields share a table in proportion to their values in it, and a symbol table in proportion to their codes.
        table_nbytes: the part of `nbytes` in tables.
        values: the number of its values.
        forms: the names of the nodes that store it, in all blocks.
    """

    field: str
    depth: int
    nbytes: int
    table_nbytes: int
    values: int
    forms: tuple[str, ...]


def field_sizes(segment: native.Segment, store: int = 0) -> tuple[FieldSize, ...]:
    """The FieldSizes of a store, each before the fields in it. Reads every record, without the GIL."""
    return _Sizes(segment, store).fields()


BESIDES = "offsets, trees, header and the like"  # the bytes outside fields


def shown_name(size: FieldSize) -> str:
    """The name of a field in a table of FieldSizes, indented below the field around it."""
    return "  " * size.depth + (size.field.rpartition(".")[2] or "record")


def report(fields: Sequence[FieldSize], records: int, nbytes: int) -> str:
    """The lines of a table of FieldSizes."""
    rows = [("field", "bytes", "a record", "of all", "in tables", "stored as")]
    for size in fields:
        shares = _shares(size.nbytes, records, nbytes)
        rows.append((shown_name(size), *shares, f"{size.table_nbytes:,}", " ".join(size.forms)))
    rest = nbytes - (fields[0].nbytes if fields else 0)
    rows.append(("besides", *_shares(rest, records, nbytes), "", BESIDES))
    return table(rows, "<>>>><")


def _shares(size: int, records: int, nbytes: int) -> tuple[str, str, str]:
    return f"{size:,}", f"{size / max(1, records):.2f}", f"{size / max(1, nbytes):.1%}"


class _Sizes:
    """Walks the trees of blocks and, from each node that names a table, the tree of the table's entries."""

    def __init__(self, segment: native.Segment, store: int) -> None:
        self.trees, self.tables = segment.trees(store), segment.tables(store)
        blocks, tables = native.node_sizes(segment, store)
        self.sizes: dict[_Run, native.Sizes] = {("blocks", tree): sizes for tree, sizes in blocks.items()}
        for number, table_sizes in enumerate(tables):
            if table_sizes is not None:
                self.sizes["table", number] = table_sizes
        # For each table, the share of each node that names it: {(run, number of the node): share}.
        self.shares: list[dict[tuple[_Run, int], float]] = [{} for _ in self.tables]
        for run, sizes in self.sizes.items():
            for at, (node, (values, bits)) in enumerate(zip(self.nodes(run), sizes)):
                for table_number in _tables_of(node):
                    if weight := bits if self.tables[table_number][2] is None else values:
                        self.shares[table_number][run, at] = weight
        for shares in self.shares:
            whole = sum(shares.values())
            shares.update({user: weight / whole for user, weight in shares.items()})
        # Field -> (depth, bits, bits in tables, values, forms), in the order of the walk.
        self.totals: dict[_Names, tuple[int, float, float, float, dict[str, None]]] = {}

    def nodes(self, run: _Run) -> list[native.Node]:
        """The nodes of a run. A symbol table has none."""
        kind, number = run
        tree = number if kind == "blocks" else self.tables[number][2]
        return [] if tree is None else self.trees[tree]

    def fields(self) -> tuple[FieldSize, ...]:
        for run in self.sizes:
            if run[0] == "blocks":
                self._field((), 0, run, 0, 1.0)
        return tuple(
            FieldSize(
                ".".join(names), depth, round((bits + tables) / 8), round(tables / 8), round(values), tuple(forms)
            )
            for names, (depth, bits, tables, values, forms) in self.totals.items()
        )

    def _field(self, names: _Names, depth: int, run: _Run, number: int, scale: float) -> tuple[float, float]:
        """Adds the field that has this node as its outermost node. Returns the field's `(bits, bits in tables)`."""
        self.totals.setdefault(names, (depth, 0.0, 0.0, 0.0, {}))  # before the fields in it
        bits, tables = self._walk(names, names, depth, run, number, scale)
        kind, param, _, children, *_ = self.nodes(run)[number]
        absent = native.node_name(kind) == "optional" and param == 0  # the key may be absent
        values = scale * self.sizes[run][children[0] if absent else number][0]
        depth, *before, forms = self.totals[names]
        self.totals[names] = depth, before[0] + bits, before[1] + tables, before[2] + values, forms
        return bits, tables

    def _walk(
        self, names: _Names, inner: _Names, depth: int, run: _Run, number: int, scale: float, is_part: bool = False
    ) -> tuple[float, float]:
        """The `(bits, bits in tables)` of a node and the nodes below it, which belong to the field `names`. Keys of
        structs are appended to `inner`. `scale` is the share of a table that counts for the field; in blocks it is 1.
        The parts of a concat are not forms of the field."""
        node = self.nodes(run)[number]
        kind, param, _, children, _, _, aux, *_ = node
        name = native.node_name(kind)
        values, own = self.sizes[run][number]
        bits, tables = (scale * own, 0.0) if run[0] == "blocks" else (0.0, scale * own)
        if values and not is_part:
            self.totals[names][4][name if name != "ext" else native.ext_name(param)] = None
        for table_number in _tables_of(node):
            part = scale * self.shares[table_number].get((run, number), 0.0)
            if part and self.tables[table_number][2] is None:
                tables += part * 8 * self.tables[table_number][1]
            elif part:
                tables += sum(self._walk(names, inner, depth, ("table", table_number), 0, part, is_part))
        if name == "list":
            inner = (*inner[:-1], inner[-1] + "[]") if inner else ("[]",)
        keys = key_names(aux, len(children)) if name == "struct" else []
        for at, child in enumerate(children):
            if keys:
                child_sizes = self._field((*inner, keys[at]), depth + 1, run, child, scale)
            else:
                child_sizes = self._walk(names, inner, depth, run, child, scale, name == "concat")
            bits, tables = bits + child_sizes[0], tables + child_sizes[1]
        return bits, tables


def _tables_of(node: native.Node) -> set[int]:
    """The numbers of the tables that a node names."""
    kind, *_, aux, _, _ = node
    names_tables = native.node_name(kind) in ("dict-coded", "symbols")
    return {number for (number,) in struct.iter_unpack("<I", aux)} if names_tables else set()


def key_names(aux: bytes, n: int) -> list[str]:
    """Names for the keys of a struct: its leading short str keys themselves, then "key 3" and so on."""
    names: list[str] = []
    at = 0
    while at < len(aux) and len(names) < n:
        if aux[at] != native.TAG_STR1 or aux[at + 1] >= 0x80:
            break
        end = at + 2 + aux[at + 1]
        names.append(aux[at + 2 : end].decode("latin-1"))
        at = end
    return names + [f"key {i}" for i in range(len(names), n)]
