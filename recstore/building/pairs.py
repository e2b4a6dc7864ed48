"""The (key, value) pairs of every argument that dict() accepts, and of a mapping segment."""

from __future__ import annotations

from collections import defaultdict

from recstore._core import native
from recstore.building.source import items_of
from recstore.text import an
from recstore.values import factories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def selections(segment: native.Segment) -> tuple[native.Selection, native.Selection]:
    """The Selections of keys and values of a mapping segment, entry by entry."""
    keys, values = native.Selection.whole(segment, 1), native.Selection.whole(segment, 0)
    order = segment.order()
    if order is None:
        return keys, values
    blob, width = order
    n = blob.size // width // 2
    keys = keys.indexed(blob, 0, width, 2 * n).sliced(0, 2, n)
    return keys, values.indexed(blob, 0, width, 2 * n).sliced(1 if n else 0, 2, n)


def pairs_of(source: Any) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs that dict(source) reads, including repeated keys."""
    # As in dict(), a subclass of dict with its own __iter__ is read through its methods.
    if isinstance(source, dict) and type(source).__iter__ is dict.__iter__:
        yield from dict.items(source)
    elif isinstance(source, native.Mapping):
        yield from source.items()  # type: ignore[attr-defined]  # a RecordDict
    elif hasattr(source, "keys"):
        for key in source.keys():
            yield key, source[key]
    else:
        number, pair = 0, []
        for item in items_of(source):
            try:
                pair.append(tuple(item))
            except TypeError:
                raise TypeError(f"item {number} is {an(type(item).__name__)}, not a (key, value) pair") from None
            if len(pair[0]) != 2:
                raise ValueError(f"item {number} has length {len(pair[0])}; a (key, value) pair has 2")
            number += 1
            item = None
            yield pair.pop()  # leaves no reference to the pair while the source makes the next one


def factory_of(source: object) -> int:
    """The number of the factory of a defaultdict or RecordDict; 0 for any other source."""
    factory: object = None
    if isinstance(source, (native.Mapping, defaultdict)):
        factory = source.default_factory if isinstance(source, defaultdict) else source.factory
    return factories.number_of(factory, "; RecordDict(dict(d)) leaves it out")


def pairs_in(segment: native.Segment) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs of a mapping segment, in order."""
    keys, values = (native.Records.__new__(native.Records)._set(side) for side in selections(segment))
    return zip(keys, values)
