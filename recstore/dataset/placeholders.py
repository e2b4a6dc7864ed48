"""Placeholders: lists, dicts and arrays that a program makes at their full length and fills later.

`self.images = [None] * n` is typical. If share_dataset replaced it with a store, the program would raise when it
assigns an entry.
"""

from __future__ import annotations

from itertools import islice, repeat
from operator import is_

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_EMPTY = (list, dict, set)
_FEWEST = 16  # entries; fewer equal entries are data, such as one long text
_CHUNK = 1 << 20  # bytes of an array that are compared at a time


def of_entries(container: Any) -> str | None:
    """A description of the entries of a list or dict that is a placeholder; None if it holds data.

    It is a placeholder if all entries are the same object, a plain immutable value, or if all are empty lists, all
    empty dicts or all empty sets. The entries of a dict are its values. Fewer than 16 entries are data.

    >>> of_entries([None] * 20), of_entries(dict.fromkeys(range(20), 0)), of_entries([[] for _ in range(20)])
    ('None', '0', 'empty lists')
    >>> of_entries([None] * 20 + [1]), of_entries(["text"])
    (None, None)
    """
    if len(container) < _FEWEST:
        return None
    values = container.values() if isinstance(container, dict) else container
    first = next(iter(values))
    kind = type(first)
    if kind in _EMPTY:
        if _all(values, lambda part: all(type(value) is kind and not value for value in part)):
            return f"empty {kind.__name__}s"
    elif _is_plain(first) and _all(values, lambda part: all(map(is_, part, repeat(first)))):
        return f"{first!r:.40}"
    return None


def _is_plain(value: object) -> bool:
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


def _all(values: Collection[Any], test: Callable[[Iterable[Any]], bool]) -> bool:
    return test(islice(values, _FEWEST)) and test(values)  # the first few entries usually decide


def is_uniform(array: Any) -> bool:
    """Whether a numpy array has at least 16 elements, all with the same bytes.

    >>> import numpy
    >>> is_uniform(numpy.zeros((6, 4))), is_uniform(numpy.arange(24)), is_uniform(numpy.zeros(3))
    (True, False, False)
    """
    import numpy as np

    if array.size < _FEWEST:
        return False
    size = array.dtype.itemsize
    chunks = np.nditer(array, flags=["external_loop", "buffered"], order="K", buffersize=max(1, _CHUNK // size))
    first = None
    for chunk in chunks:
        rows = np.ascontiguousarray(chunk).view(np.uint8).reshape(-1, size)
        first = rows[0].copy() if first is None else first
        if not np.array_equal(rows[0], first) or not (rows == first).all():
            return False
    return True
