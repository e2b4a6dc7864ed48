"""Makes the RecordDicts of `index_by` and `group_by` from the indexes that are saved with a store. Without a saved
index it makes key indexes and row numbers. It copies no records."""

from __future__ import annotations

from recstore._core import native
from recstore._core.native import new_blob
from recstore.containers import base
from recstore.containers.dicts import RecordDict
from recstore.containers.records import RecordList, RecordView
from recstore.values import factories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from recstore.containers.fields import FieldView


def index_by(x: RecordList[Any], key: Any) -> RecordDict[Any, Any]:
    """The RecordDict that RecordList.index_by returns."""
    values = x._derive(x.selection)
    saved = _saved(x, native.INDEX_RECORDS, key)
    if saved is None:
        keys = _keys_of(x, key)
        try:
            return RecordDict._of_sides(keys, values)
        except TypeError as e:
            raise base.unhashable(e, keys, key, "index_by") from None
    keys = x.field(key)._derive(saved.firsts())
    return _mapping(keys, values._derive(saved.lasts()), saved.key_index())


def group_by(x: RecordList[Any], key: Any, default_factory: type | None = None) -> RecordDict[Any, Any]:
    """The RecordDict that RecordList.group_by returns."""
    factories.number_of(default_factory)
    saved = _saved(x, native.INDEX_GROUPS, key)
    if saved is not None:
        values = _grouped(x, saved.entries, saved.blob(0), saved.blob(1), saved.width)
        return _mapping(x.field(key)._derive(saved.firsts()), values, saved.key_index(), default_factory)
    keys = _keys_of(x, key)
    try:
        groups = native.KeyGroups(keys)
    except TypeError as e:
        raise base.unhashable(e, keys, key, "group_by") from None
    values = _grouped(x, groups.n_groups, *_rows(x, groups))
    firsts = groups.firsts()
    if callable(key):
        distinct = RecordList(keys if firsts is None else (keys[i] for i in firsts))
        keys.close()
        keys = distinct._derive(distinct.selection)
    elif firsts is not None:
        keys = keys._derive(keys.selection.taken(firsts))
    return _mapping(keys, values, native.KeyIndex.of_blob(new_blob(groups.key_index())), default_factory)


def rows_of(field: FieldView[Any]) -> tuple[RecordView[Any], native.Blob | None, native.Blob | None, int]:
    """`(keys, starts, rows, width)` of the groups of records with the same value of a field. `keys` has the value of
    each group. The others are arguments of GroupProjection: Blobs of numbers of `width` bytes; `rows` may be None.
    Raises the exceptions of RecordList.group_by."""
    projection = field.projection
    if isinstance(projection, native.FieldProjection) and projection.base in (None, native.WHOLE):
        saved = _saved_by(field, native.INDEX_GROUPS, projection.path)
        if saved is not None:
            return field._derive(saved.firsts()), saved.blob(0), saved.blob(1), saved.width
    groups = native.KeyGroups(field)
    firsts = groups.firsts()
    keys = field if firsts is None else field._derive(field.selection.taken(firsts))
    return keys, *_rows(field, groups)


def _rows(x: RecordList[Any], groups: native.KeyGroups) -> tuple[native.Blob, native.Blob, int]:
    width = 4 if len(x) <= 0xFFFFFFFF else 8
    starts, rows = groups.rows(width)
    return new_blob(starts), new_blob(rows), width


def _saved(x: RecordList[Any], kind: int, key: Any) -> native.SavedIndex | None:
    """The SavedIndex by a field. None if there is none, if `key` is a function, or if `x` does not read all records of
    one store, whole or lazily."""
    if callable(key) or not (x.projection is None or x.projection == native.lazy_of(None)):
        return None
    return _saved_by(x, kind, native.Path(key))


def _saved_by(x: RecordList[Any], kind: int, path: native.Path) -> native.SavedIndex | None:
    """The SavedIndex by a path in the records; None if there is none, or if `x` does not read all records of one
    store."""
    selection = x.selection
    if x.detached is not None or selection.segment is None or selection.store or selection.describe():
        return None
    return native.find_saved(selection.segment, kind, path)


def _mapping(
    keys: RecordList[Any], values: RecordList[Any], index: native.KeyIndex, factory: type | None = None
) -> RecordDict[Any, Any]:
    return RecordDict._blank()._set(keys, values, index, factory)


def _grouped(
    x: RecordList[Any], n: int, starts: native.Blob | None, rows: native.Blob | None, width: int
) -> RecordView[Any]:
    """The view whose item g is a view of the records of group g."""
    projection = native.GroupProjection(x._derive(x.selection.settled()), starts, rows, width, n)
    return RecordView._blank()._set(native.Selection.of_positions(n), projection)


def _keys_of(x: RecordList[Any], key: Any) -> RecordList[Any]:
    """The keys of the records: a view of a field, or a new store of the results of a function."""
    return RecordList(key(record) for record in x) if callable(key) else x.field(key)
