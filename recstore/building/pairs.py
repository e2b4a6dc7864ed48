"""The (key, value) pairs of a mapping: from every argument that dict() takes, and from a mapping segment."""

import sys

from recstore._core import native
from recstore.building.source import items_of
from recstore.text import an
from recstore.values import factories


def selections(segment):
    """The Selections of keys and values of a mapping segment, entry by entry."""
    keys, values = native.Selection.whole(segment, 1), native.Selection.whole(segment, 0)
    order = segment.order()
    if order is None:
        return keys, values
    blob, width = order
    n = blob.size // width // 2
    sides = enumerate((keys, values))
    return tuple(side.indexed(blob, 0, width, 2 * n).sliced(start if n else 0, 2, n) for start, side in sides)


def pairs_of(source):
    """The (key, value) pairs that dict(source) would take."""
    # As in dict(): a subclass of dict may define its own order or keys, and then these count.
    if isinstance(source, dict) and type(source).__iter__ is dict.__iter__:
        yield from dict.items(source)
    elif isinstance(source, native.Mapping):
        yield from source.items()
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
            yield pair.pop()  # no reference to the pair is left here while the source makes the next one


def factory_of(source):
    """The number of the factory of a defaultdict or RecordDict; 0 for any other source."""
    if isinstance(source, getattr(sys.modules.get("collections"), "defaultdict", ())):
        made_by = source.default_factory
    else:
        made_by = getattr(source, "factory", None) if isinstance(source, native.Mapping) else None
    return factories.number_of(made_by, "; RecordDict(dict(d)) leaves it out")


def pairs_in(segment):
    """The (key, value) pairs of a mapping segment, in order."""
    keys, values = (native.Records.__new__(native.Records)._set(side) for side in selections(segment))
    return zip(keys, values)
