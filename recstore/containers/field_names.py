"""Names of fields that no record has: an error, which lists the fields."""

from __future__ import annotations

from _collections_abc import Mapping

from recstore._core import native
from recstore.errors import Error
from recstore.text import meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from recstore.containers.records import RecordList

_NAMED = 20
_FIRST = 64  # records that are asked for their keys
_MISSING = object()


def require(records: RecordList[Any], names: Sequence[Any], sets: bool = False) -> None:
    """KeyError for the first of `names`, each as `RecordList.field` takes it, that no record of the stores behind
    `records` has. Sets of shards are asked only with `sets`, and then the shards that are here: the others may have a
    field that these lack."""
    if records.detached is not None or records.selection is None or type(records.projection) is native.GroupProjection:
        return
    if sets or not records.selection.sets():
        # Of many names most are known at once, which saves a walk through a wide record for each.
        known = set(_names(records)) if len(names) > _NAMED else ()
        for name in names:
            if not (type(name) is str and name in known) and not _has(records, name):
                there = _names(records)
                raise KeyError(f"no record has the field {name!r}; there are: {listed(there)}{meant(name, there)}")


def nearest(records: Any, name: str) -> str:
    """The end of the message for `records[name]`: the nearest field, if no record has one of this name."""
    if records.detached is not None or records.closed:
        return ""
    there = _names(records)
    return "" if name in there else meant(name, there)


def listed(names: Sequence[object]) -> str:
    """Some names, for a message."""
    return ", ".join(map(repr, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "") or "none"


def _has(records: RecordList[Any], name: Any) -> bool:
    values = records.field(name, default=_MISSING)
    if len(values) == 0 or _is_there(values, 0):
        return True
    try:
        found = native.describe_field(records, name)
    except (TypeError, KeyError):  # of a view of fields, which no schema describes
        found = {"sure": False}
    if found["sure"]:
        return bool(found["kinds"] != {"missing"})
    if records.selection.sets():
        return True
    # All records of the stores, read as the view reads its own: it may lack a field that others have.
    wholes = [native.Selection.whole(segment, number) for segment, number in records.selection.leaves()]
    values = records._derive(native.Selection.joined(wholes)).field(name, default=_MISSING)
    return any(_is_there(values, number) for number in range(len(values)))


def _is_there(values: RecordList[Any], number: int) -> bool:
    try:
        return values[number] is not _MISSING
    except KeyError:  # of the field that the view reads, in which this one would be
        return False
    except Error:  # a value that cannot be read here, which reading will say
        return True


def _names(records: RecordList[Any]) -> list[Any]:
    """The names of the fields of the records, as far as they are known."""
    names = native.field_names(records)
    if names is None:
        there = (number for number in range(min(len(records), _FIRST)) if _is_there(records, number))
        firsts = [record for record in map(records.__getitem__, there) if isinstance(record, Mapping)]
        names = [*dict.fromkeys(key for record in firsts for key in record)]
    return names
