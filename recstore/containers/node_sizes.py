"""The bytes of a store by field, as ``x.info(fields=True)`` has them."""

import dataclasses
import struct

from recstore._core import native

__all__ = ["FieldSize"]


@dataclasses.dataclass(frozen=True)
class FieldSize:
    """The bytes that one field takes over all records.

    Attributes:
        field: the name, with dots between keys and ``[]`` after a list whose elements have fields: "objects[].name".
            The empty string stands for the whole record.
        depth: the number of fields around it; 0 for the whole record.
        nbytes: the bytes of its values, of the fields in it, and its share of the tables that its nodes name. A table
            that several fields name is shared out by the values, or for symbols by the codes, that each has in it.
        table_nbytes: the part of `nbytes` that lies in tables.
        values: the number of its values.
        forms: the names of the nodes that store it, in all blocks.
    """

    field: str
    depth: int
    nbytes: int
    table_nbytes: int
    values: int
    forms: tuple


def field_sizes(segment, store=0):
    """The FieldSizes of a store, each before the fields in it. Reads every record, and lets other threads run."""
    return _Sizes(segment, store).fields()


BESIDES = "offsets, trees, header and the like"  # what takes the bytes that belong to no field


def shown_name(one):
    """The name of a field in a table of FieldSizes, indented below the field around it."""
    return "  " * one.depth + (one.field.rpartition(".")[2] or "record")


def report(fields, records, nbytes):
    """The lines of a table of FieldSizes."""
    from recstore.text import table

    rows = [("field", "bytes", "a record", "of all", "in tables", "stored as")]
    for one in fields:
        per, share = one.nbytes / max(1, records), one.nbytes / max(1, nbytes)
        rows.append(
            (
                shown_name(one),
                f"{one.nbytes:,}",
                f"{per:.2f}",
                f"{share:.1%}",
                f"{one.table_nbytes:,}",
                " ".join(one.forms),
            )
        )
    rest = nbytes - (fields[0].nbytes if fields else 0)
    rows.append(("besides", f"{rest:,}", f"{rest / max(1, records):.2f}", f"{rest / max(1, nbytes):.1%}", "", BESIDES))
    return table(rows, "<>>>><")


class _Sizes:
    """Walks the trees of blocks and, from the nodes that name tables, those of the tables' entries."""

    def __init__(self, segment, store):
        self.trees = segment.trees(store)
        self.tables = segment.tables(store)
        self.of_blocks, self.of_tables = native.node_sizes(segment, store)
        # For each table, its share for each node that names it: {(run, number of the node): share}. A run is
        # ("blocks", tree) or ("table", number).
        self.shares = [{} for _ in self.tables]
        for tree, sizes in self.of_blocks.items():
            self._use(("blocks", tree), tree, sizes)
        for number, sizes in enumerate(self.of_tables):
            if sizes is not None:
                self._use(("table", number), self.tables[number][2], sizes)
        for shares in self.shares:
            whole = sum(shares.values())
            shares.update({user: weight / whole for user, weight in shares.items()})
        self.found = {}  # {names: [depth, bits, bits in tables, values, forms]}, as the walk comes to them

    def _use(self, run, tree, sizes):
        for number, (node, (values, bits)) in enumerate(zip(self.trees[tree], sizes)):
            for table in _tables_of(node):
                weight = bits if table < len(self.tables) and self.tables[table][2] is None else values
                if table < len(self.tables) and weight:
                    self.shares[table][run, number] = weight

    def fields(self):
        for tree, sizes in self.of_blocks.items():
            self._field((), 0, ("blocks", tree), tree, sizes, 0, 1.0)
        return tuple(
            FieldSize(
                ".".join(names), depth, round((bits + tables) / 8), round(tables / 8), round(values), tuple(forms)
            )
            for names, (depth, bits, tables, values, forms) in self.found.items()
        )

    def _field(self, names, depth, run, tree, sizes, number, scale):
        """Adds the field whose outermost node this is. Returns its `(bits, bits in tables)`."""
        field = self.found.setdefault(names, [depth, 0, 0, 0, {}])
        bits, tables = self._walk(names, names, depth, run, tree, sizes, number, scale)
        kind, param, _, children, *_ = self.trees[tree][number]
        absent = native.node_name(kind) == "optional" and param == 0  # the key may be absent
        field[1] += bits
        field[2] += tables
        field[3] += scale * sizes[children[0] if absent else number][0]
        return bits, tables

    def _walk(self, names, inner, depth, run, tree, sizes, number, scale, is_part=False):
        """The `(bits, bits in tables)` of a node and those below it, which belong to the field `names`. Keys of structs
        come after `inner`. Of a node in a table, a part counts: `scale`. The parts of a concat are no forms of the
        field."""
        kind, param, _, children, _, _, aux, *_ = self.trees[tree][number]
        name = native.node_name(kind)
        values, own = sizes[number]
        bits, tables = (scale * own, 0.0) if run[0] == "blocks" else (0.0, scale * own)
        if values and not is_part:
            self.found[names][4][name if name != "ext" else native.ext_name(param)] = True
        for table in _tables_of(self.trees[tree][number]):
            share = self.shares[table].get((run, number), 0.0)
            tables += self._table(table, names, inner, depth, scale * share, is_part)
        if name == "list":
            inner = (*inner[:-1], inner[-1] + "[]") if inner else ("[]",)
        keys = key_names(aux, len(children)) if name == "struct" else ()
        for at, child in enumerate(children):
            if keys:
                more = self._field((*inner, keys[at]), depth + 1, run, tree, sizes, child, scale)
            else:
                more = self._walk(names, inner, depth, run, tree, sizes, child, scale, name == "concat")
            bits, tables = bits + more[0], tables + more[1]
        return bits, tables

    def _table(self, table, names, inner, depth, scale, is_part):
        """The bits of a part of a table, which belong to the field `names` and to those in its entries."""
        tree = self.tables[table][2]
        if not scale:
            return 0.0
        if tree is None:
            return scale * 8 * self.tables[table][1]
        return sum(self._walk(names, inner, depth, ("table", table), tree, self.of_tables[table], 0, scale, is_part))


def _tables_of(node):
    """The numbers of the tables that a node names."""
    kind, *_, aux, _, _ = node
    name = native.node_name(kind)
    if name in ("dict-coded", "symbols"):
        return {number for (number,) in struct.iter_unpack("<I", aux)}
    return set()


def key_names(aux, n):
    """Names for the keys of a struct: str keys themselves, "key 3" for the keys from the first other one on."""
    names, at = [], 0
    while at < len(aux) and len(names) < n:
        if aux[at] != native.TAG_STR1 or aux[at + 1] >= 0x80:
            break
        size = aux[at + 1]
        names.append(aux[at + 2 : at + 2 + size].decode("latin-1"))
        at += 2 + size
    return names + [f"key {i}" for i in range(len(names), n)]
