"""The RecordDicts of `index_by` and `group_by`: over the records of a list, by key and in groups. They use the indexes
that are saved with a store. Without one they make key indexes and row numbers, and copy no records."""

from recstore._core import native
from recstore._core.native import new_blob
from recstore.containers import dicts, records, views
from recstore.values import factories


def index_by(x, key):
    """The RecordDict that RecordList.index_by returns."""
    values = x._derive(x.selection)
    saved = _saved(x, native.INDEX_RECORDS, key)
    if saved is None:
        keys = _keys_of(x, key)
        try:
            return dicts.over(keys, values)
        except TypeError as e:
            raise views.unhashable(e, key, "index_by") from None
    keys = x.field(key)._derive(saved.firsts())
    return _mapping(keys, values._derive(saved.lasts()), saved.key_index())


def group_by(x, key, default_factory=None):
    """The RecordDict that RecordList.group_by returns."""
    factories.number_of(default_factory)
    saved = _saved(x, native.INDEX_GROUPS, key)
    if saved is not None:
        groups = saved.entries, saved.blob(0), saved.blob(1), saved.width
        keys = x.field(key)._derive(saved.firsts())
        return _mapping(keys, _grouped(x, *groups), saved.key_index(), default_factory)
    keys = _keys_of(x, key)
    width = 4 if len(x) <= 0xFFFFFFFF else 8
    try:
        groups = native.KeyGroups(keys)
    except TypeError as e:
        raise views.unhashable(e, key, "group_by") from None
    starts, rows = groups.rows(width)
    values = _grouped(x, groups.n_groups, new_blob(starts), new_blob(rows), width)
    firsts = groups.firsts()
    if callable(key):
        distinct = records.RecordList(keys if firsts is None else (keys[i] for i in firsts))
        keys.close()
        keys = distinct._derive(distinct.selection)
    elif firsts is not None:
        keys = keys._derive(keys.selection.taken(firsts))
    return _mapping(keys, values, native.KeyIndex.of_blob(new_blob(groups.key_index())), default_factory)


def rows_of(field):
    """`(keys, starts, rows, width)` of the groups of records that have one value of a field, a FieldView. `keys` has
    the value of each group. `starts` and `rows` are Blobs of numbers of `width` bytes, as GroupProjection takes them.
    Raises as RecordList.group_by does."""
    projection = field.projection
    saved = _saved_by(field, native.INDEX_GROUPS, projection.path) if projection.base is None else None
    if saved is not None:
        return field._derive(saved.firsts()), saved.blob(0), saved.blob(1), saved.width
    width = 4 if len(field) <= 0xFFFFFFFF else 8
    groups = native.KeyGroups(field)
    starts, rows = groups.rows(width)
    firsts = groups.firsts()
    keys = field if firsts is None else field._derive(field.selection.taken(firsts))
    return keys, new_blob(starts), new_blob(rows), width


def _saved(x, kind, key):
    """The SavedIndex by a field; None if there is none, or if `x` is not all records of one store, whole or lazy."""
    if callable(key) or not (x.projection is None or x.projection == native.lazy_of(None)):
        return None
    return _saved_by(x, kind, native.Path(key))


def _saved_by(x, kind, path):
    """The SavedIndex by a path in the records; None if there is none, or if `x` has not all records of one store."""
    selection = x.selection
    if x.detached is not None or selection.segment is None or selection.store or selection.describe():
        return None
    return native.find_saved(selection.segment, kind, path)


def _mapping(keys, values, index, factory=None):
    return dicts.RecordDict._blank()._set(keys, values, index, factory)


def _grouped(x, n, starts, rows, width):
    """The view whose item g is a view of the records of group g."""
    base = x._derive(x.selection.settled())
    projection = native.GroupProjection(base, starts, rows, width, n)
    return records.RecordView._blank()._set(native.Selection.of_positions(n), projection)


def _keys_of(x, key):
    """A container with the key of each record: a view of a field, or a new store of the results of a function."""
    return records.RecordList(key(record) for record in x) if callable(key) else x.field(key)
