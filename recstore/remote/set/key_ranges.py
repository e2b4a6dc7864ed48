"""The bounds of the keys of shard files."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from operator import le

from recstore.remote.set import key_filters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class KeyRanges:
    """Selects the shard files that may have a key, by the bounds of their keys. Usually one file remains if the files
    were written in key order. Otherwise up to all files remain, and filters narrow them down. Takes up to 60 bytes per
    file. Safe from several threads at once."""

    def __init__(self, bounds: tuple[list[Any], list[Any]] | None, n: int) -> None:
        lows, highs = bounds or ([None] * n, [None] * n)
        kinds, nothing = list(map(type, lows)), type(None)
        self.n = n
        self.tables: dict[type, tuple[Sequence[int], list[Any], list[Any], list[Any]]] = {}
        self.unbounded = [i for i, kind in enumerate(kinds) if kind is nothing]
        for kind in set(kinds) - {nothing}:
            order: Sequence[int]
            if len(set(kinds)) == 1 and all(map(le, lows, lows[1:])):
                order, begins, ends = range(n), lows, highs  # written in key order
            else:
                order = sorted((i for i in range(n) if kinds[i] is kind), key=lows.__getitem__)
                begins, ends = ([column[i] for i in order] for column in (lows, highs))
            # If the running maximum is below a key, no file up to here has the key.
            greatest = ends if all(map(le, ends, ends[1:])) else list(accumulate(ends, max))
            self.tables[kind] = order, begins, ends, greatest

    def candidates(self, key: object) -> list[int]:
        """The numbers of the files that may have a key, in descending order."""
        kind = type(key)
        if kind in (bool, float):
            kind = int
        if kind is str or kind is int:
            matches = self._within(kind, key)
        elif key_filters.equals_only_its_kind(key):
            matches = []
        else:
            return list(range(self.n - 1, -1, -1))
        return sorted([*self.unbounded, *matches], reverse=True) if self.unbounded or len(matches) > 1 else matches

    def _within(self, kind: type, key: Any) -> list[int]:
        if kind not in self.tables:
            return []
        order, lows, highs, greatest = self.tables[kind]
        matches, at = [], bisect_right(lows, key) - 1
        while at >= 0 and greatest[at] >= key:
            if highs[at] >= key:
                matches.append(order[at])
            at -= 1
        return matches
