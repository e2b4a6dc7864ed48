"""json_default, the function that lets the json module write stores."""

from __future__ import annotations

from recstore._core.native import Record
from recstore.containers.dicts import RecordDict, RecordItems, RecordKeys, RecordPairs, RecordValues
from recstore.containers.records import RecordList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["json_default"]

_LISTS = (RecordList, RecordKeys, RecordValues, RecordItems, RecordPairs)


def json_default(value: object) -> list[Any] | dict[Any, Any]:
    """For ``json.dump(..., default=recstore.json_default)``: stores and their views as plain lists, RecordDicts and
    Records as dicts.

    A Record becomes the dict of its fields. Values that JSON does not have (bytes, dates, arrays) are not converted;
    write a function that converts them and calls this one for other values.

    Raises TypeError with json's message for every other value, and ClosedError or SegmentNotFoundError for a store
    that cannot be read. Safe from several threads at once.

    >>> import json, recstore
    >>> with recstore.RecordList([{"id": 1}, {"id": 2}]) as x:
    ...     json.dumps({"train": x[:1], "all": x}, default=recstore.json_default)
    '{"train": [{"id": 1}], "all": [{"id": 1}, {"id": 2}]}'
    """
    if isinstance(value, _LISTS):
        return list(value)
    if isinstance(value, (RecordDict, Record)):
        return dict(value.items())
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
