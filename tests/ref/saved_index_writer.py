"""Makes saved indexes by hand from csrc/FORMAT.md, as `writer` makes lists. It checks nothing, so tests can make broken
indexes with valid checksums."""

import struct

from . import writer as w
from .mapping_writer import form, key_index_of
from .saved_indexes import GROUPS, HEAD, RECORDS, SAVED_INDEX, field

__all__ = ["GROUPS", "RECORDS", "saved_index", "segment"]


def saved_index(records, kind, path, /, **head):
    """`(kind of section, bytes, count)` for `writer.segment(extra=)`. head: fields to override."""
    keys = [field(record, path)[1] for record in records]
    groups = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    index = key_index_of([form(key) for key in groups])
    rows = sum(groups.values(), [])
    in_order = len(groups) == len(keys) if kind == RECORDS else rows == sorted(rows)
    if kind == RECORDS:
        numbers = [] if in_order else [i for group in groups.values() for i in (group[0], group[-1])]
    else:
        starts = [sum(map(len, list(groups.values())[:g])) for g in range(len(groups) + 1)]
        numbers = starts + ([] if in_order else rows)
    name = w.any_value(path)
    fields = {
        "kind": kind,
        "in_order": in_order,
        "n_records": len(keys),
        "path_size": len(name),
        "keys_size": len(index),
        "reserved": bytes(32),
        **head,
    }
    raw = (
        HEAD.pack(*fields.values()) + name + bytes(-len(name) % 8) + index + struct.pack(f"<{len(numbers)}I", *numbers)
    )
    return SAVED_INDEX, raw, len(groups)


def segment(records, indexes, tree=None):
    """A list of one block with these saved indexes, each `(kind, path)` or a result of `saved_index`."""
    root = w.any_() if tree is None else tree
    extra = [index if len(index) == 3 else saved_index(records, *index) for index in indexes]
    blocks = [w.Block([w.encode(root, record) for record in records])] if records else []
    return w.segment(blocks, [root], extra=extra)
