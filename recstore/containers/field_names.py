"""Errors for names of fields that no record has."""

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

_MOST_NAMES = 20  # names in a message
_MOST_RECORDS = 64  # records whose keys are read
_MISSING = object()


def require(records: RecordList[Any], names: Sequence[Any], sets: bool = False) -> None:
    """Raises KeyError for the first of `names` that no record of the stores behind `records` has. A name is an argument
    of `RecordList.field`. A shard that is not open may have the field, so a set is checked only with `sets`, and then
    only in its open shards."""
    if records.detached is not None or records.selection is None or type(records.projection) is native.GroupProjection:
        return
    if sets or not records.selection.sets():
        # With many names, reading the field of each from a wide record would be slow.
        known = set(_names(records)) if len(names) > _MOST_NAMES else ()
        for name in names:
            if not (type(name) is str and name in known) and not _has(records, name):
                fields = _names(records)
                raise KeyError(f"no record has the field {name!r}; there are: {listed(fields)}{meant(name, fields)}")


def nearest(records: Any, name: str) -> str:
    """The end of the message for `records[name]`: the nearest field, if `name` is not a field."""
    if records.detached is not None or records.closed:
        return ""
    fields = _names(records)
    return "" if name in fields else meant(name, fields)


def listed(names: Sequence[object]) -> str:
    """Some names, for a message."""
    return ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "") or "none"


def _has(records: RecordList[Any], name: Any) -> bool:
    values = records.field(name, default=_MISSING)
    if len(values) == 0 or _exists(values, 0):
        return True
    try:
        description = native.describe_field(records, name)
    except (TypeError, KeyError):  # a view of fields, which no schema describes
        description = {"sure": False}
    if description["sure"]:
        return bool(description["kinds"] != {"missing"})
    if records.selection.sets():
        return True
    # All records of the stores count, because all records of the view may lack the field.
    wholes = [native.Selection.whole(segment, number) for segment, number in records.selection.leaves()]
    values = records._derive(native.Selection.joined(wholes)).field(name, default=_MISSING)
    return any(_exists(values, number) for number in range(len(values)))


def _exists(values: RecordList[Any], number: int) -> bool:
    try:
        return values[number] is not _MISSING
    except KeyError:  # the record lacks the outer field of the view
        return False
    except Error:  # an unreadable value; reading it raises the error
        return True


def _names(records: RecordList[Any]) -> list[Any]:
    """The names of the fields of the records; of the first records if the schema does not have them."""
    names = native.field_names(records)
    if names is None:
        numbers = (number for number in range(min(len(records), _MOST_RECORDS)) if _exists(records, number))
        firsts = [record for record in map(records.__getitem__, numbers) if isinstance(record, Mapping)]
        names = [*dict.fromkeys(key for record in firsts for key in record)]
    return names
