"""Makes mappings by hand from csrc/FORMAT.md, as `writer` makes lists. It makes no choices and no checks, so
tests can make broken mappings with valid checksums.
"""

import struct

from . import writer as w
from .mapping import canonical, xxh64
from .reader import crc32c

SEED = 0x5EED


def key_index_of(forms, seed=SEED, factory=0, **head):
    """The bytes of KEY_INDEX for entries with these canonical forms, None for an opaque entry. head: fields to
    override."""
    n, opaque = len(forms), [e for e, form in enumerate(forms) if form is None]
    n_slots, bits, longest = -(-8 * (n - len(opaque)) // 5), n.bit_length(), 0
    slots = [0] * n_slots
    for e, form in enumerate(forms):
        if form is None:
            continue
        digest = xxh64(form, seed)
        at, steps = digest * n_slots >> 64, 1
        while slots[at]:
            at, steps = (at + 1) % n_slots, steps + 1
        slots[at] = (digest & (1 << 32 - bits) - 1) << bits | e + 1
        longest = max(longest, steps)
    fields = {
        "seed": seed,
        "n_entries": n,
        "n_slots": n_slots,
        "n_opaque": len(opaque),
        "longest_probe": longest,
        "slot_width": 4,
        "index_bits": bits,
        "factory": factory,
        "reserved": bytes(12),
        **head,
    }
    raw = struct.pack("<QQQQQIII12s", *fields.values()) + struct.pack(f"<{n_slots}I", *slots)
    return raw + bytes(-len(raw) % 8) + struct.pack(f"<{len(opaque)}Q", *opaque)


def form(key):
    """The canonical form of a key; None if it has no form."""
    from .mapping import Opaque

    try:
        return canonical(key)
    except Opaque:
        return None


def store_sections(out, values, trees, index_start, tables=None):
    """Appends the heap of a block of `values` under the first tree, and the heaps of the tables, to `out`. Returns the
    other sections of the store as (kind, bytes, count)."""
    records = [w.encode(trees[0], value) for value in values]
    blocks, index = [w.Block(records)] if records else [], bytearray()
    entries = w.block_entries(out, blocks, index_start, index)
    table_entries = w.block_entries(out, tables or (), index_start, index)
    w.align(out)
    groups = bytes(4 * ((len(records) + 63) // 64))
    raw, table = w.tree_sections(trees)
    return [
        (2, bytes(index), 0),
        (3, groups, len(groups) // 4),
        (4, entries, len(blocks)),
        (5, raw, len(trees)),
        (6, table, len(trees)),
        *([] if tables is None else [(9, table_entries, len(tables))]),
    ]


def mapping(
    keys,
    values,
    order=None,
    key_index=None,
    roots=None,
    more=(),
    drop=(),
    tables=(None, None),
    trees=((), ()),
    **header,
):
    """A whole mapping. order: pairs of records; key_index: bytes in place of the right ones; roots: the trees of
    values and of keys; more: further sections as (store, kind, bytes, count); drop: (store, kind) of sections that the
    directory omits; tables: the tables of values and of keys; trees: further trees of both, for tables; header: fields
    to override."""
    value_root, key_root = roots or (w.any_(), w.any_())
    plan = [bytearray(4096), 0, 0]
    for _ in range(3):  # until both OFFSETS sections have their places
        out = bytearray(4096)
        of_values = store_sections(out, values, [value_root, *trees[0]], plan[1], tables[0])
        of_keys = store_sections(out, keys, [key_root, *trees[1]], plan[2], tables[1])
        sections = [(0, *section) for section in of_values] + [(1, *section) for section in of_keys]
        entry_keys = keys if order is None else [keys[k] for k, _ in order]
        sections.append(
            (
                1,
                7,
                key_index_of([form(w.plain(key)) for key in entry_keys]) if key_index is None else key_index,
                len(entry_keys),
            )
        )
        if order is not None:
            sections.append((1, 8, b"".join(struct.pack("<II", *pair) for pair in order), len(order)))
        heap_size, directory = len(out) - 4096, b""
        for store, kind, raw, count in [*sections, *more]:
            at = w.align(out)
            if kind == 2 and store < 2:
                plan[1 + store] = at
            if (store, kind) not in drop:
                directory += struct.pack("<HHIQQQII", kind, store, 0, at, len(raw), count, crc32c(raw), 0)
            out += raw
    heap = struct.pack("<HHIQQQII", 1, 0, 0, 4096, heap_size, 2 * bool(keys), 0, 0)
    return close(out, heap + directory, len(keys), header)


def close(out, directory, n_records, header):
    """Appends the directory, writes the header, and returns the segment."""
    at = w.align(out)
    out += directory
    fields = {
        "magic": b"\x89RECS\r\n\x1a",
        "version": 1,
        "reader_version": 1,
        "header_size": 4096,
        "features_required": 2,
        "features_optional": 0,
        "segment_size": len(out),
        "segment_id": bytes(range(16)),
        "created": 0,
        "content": 2,
        "directory_count": len(directory) // 40,
        "directory_offset": at,
        "n_records": n_records,
        "max_values": 1 << 20,
        "max_bytes": 1 << 24,
        "max_depth": 200,
        "directory_crc": crc32c(directory),
        "raw_size": 0,
        **header,
    }
    out[:120] = struct.pack("<" + "".join(w.HEADER_FIELDS.values()), *(fields[name] for name in w.HEADER_FIELDS))
    return w.reseal(out)
