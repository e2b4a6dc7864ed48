"""The RecordDicts of `index_by` and `group_by`: over the records of a list, by key and in groups. They make key indexes
and row numbers, and copy no records."""

from array import array

from recstore import dicts, records
from recstore._core import native
from recstore._core.native import new_blob
from recstore.values import factories


def index_by(x, key):
    """The RecordDict that RecordList.index_by returns."""
    values = x._derive(x.selection)
    return dicts.over(_keys_of(x, key), values)


def group_by(x, key, default_factory=None):
    """The RecordDict that RecordList.group_by returns."""
    factories.number_of(default_factory)
    n = len(x)
    code = "I" if n <= 0xFFFFFFFF else "Q"
    groups, group_of, firsts = {}, array(code), array("Q")
    keys = _keys_of(x, key)
    for i, value in enumerate(keys):
        group = groups.setdefault(value, len(groups))
        if group == len(firsts):
            firsts.append(i)
        group_of.append(group)
    del groups
    starts, rows = _sort_by_group(group_of, len(firsts), code)
    base = x._derive(x.selection.settled())
    projection = native.GroupProjection(
        base, new_blob(starts.tobytes()), new_blob(rows.tobytes()), array(code).itemsize, len(firsts)
    )
    values = records.RecordView._blank()._set(native.Selection.of_positions(len(firsts)), projection)
    if callable(key):
        distinct = records.RecordList(keys[i] for i in firsts)
        keys.close()
        return dicts.over(distinct._derive(distinct.selection), values, default_factory)
    return dicts.over(keys._derive(keys.selection.taken(firsts)), values, default_factory)


def _keys_of(x, key):
    """A container with the key of each record: a view of a field, or a new store of the results of a function."""
    return records.RecordList(map(key, x)) if callable(key) else x.field(key)


def _sort_by_group(group_of, n_groups, code):
    """`(starts, rows)` by counting sort: `rows` has the row numbers by group, ascending within a group, and `starts`
    the position of each group in it."""
    starts = array(code, bytes(array(code).itemsize * (n_groups + 1)))
    for group in group_of:
        starts[group + 1] += 1
    for group in range(n_groups):
        starts[group + 1] += starts[group]
    at, rows = starts[:], array(code, bytes(array(code).itemsize * len(group_of)))
    for row, group in enumerate(group_of):
        rows[at[group]] = row
        at[group] += 1
    return starts, rows
