"""The suite `forms`: the size of a store that is built without one kind of node."""

import itertools

from recstore import RecordList
from recstore._core import native
from recstore.building import build_options, streaming


def measure(dataset, limit, log):
    """A row for each kind of node in the store's trees: bytes per record with all kinds, and without this one."""
    records = list(itertools.islice(dataset.fresh(), limit))
    full_size, kinds = _built(records, ())
    log(f"{dataset.name}: leaving out {len(kinds)} kinds of nodes")
    rows = []
    for name in kinds:
        size, node_names = _built(records, (name,))
        if name in node_names:
            raise RuntimeError(f"the store of {dataset.name} has {name} nodes, although they were left out")
        rows.append(
            {
                "data": dataset.name,
                "records": len(records),
                "node": name,
                "bytes_per_record": full_size / len(records),
                "without": size / len(records),
                "growth": size / full_size - 1,
            }
        )
    return rows


def _built(records, without):
    """(bytes of the store, names of its kinds of nodes in the order of FORMAT.md)."""
    options = build_options.Options()
    options.without = without
    with RecordList._of_segment(streaming.build_records(records, options)) as store:
        kinds = {native.node_name(node[0]) for tree in store.segment.trees() for node in tree}
        return store.nbytes, [name for name in native.forms() if name in kinds]
