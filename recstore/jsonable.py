"""json_default: what lets the json module write stores. Imported when it is first asked for."""

from recstore._core.native import Record
from recstore.dicts import RecordDict, RecordItems, RecordKeys, RecordPairs, RecordValues
from recstore.records import RecordList

__all__ = ["json_default"]

_LISTS = (RecordList, RecordKeys, RecordValues, RecordItems, RecordPairs)


def json_default(value):
    """For ``json.dump(..., default=recstore.json_default)``: stores and their views as plain lists, RecordDicts and
    Records as dicts.

    A Record that stands for an object becomes the dict of its fields. What a store holds and JSON does not know (bytes,
    dates, arrays) is not converted; call this function from one of your own that does.

    Raises TypeError for every other value, in json's words; ClosedError and SegmentNotFoundError as reading the store
    does. Safe from several threads at once.

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
