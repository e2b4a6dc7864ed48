"""Which shard files of a mapping may have a key, by the bounds of their keys. Files that were written in the order of
the keys have ranges that do not meet: then one file is left. Others may all be left, and filters tell on."""

from bisect import bisect_right
from itertools import accumulate
from operator import le

from recstore.remote import key_filters


class KeyRanges:
    """The bounds of all shard files. Takes at most 50 bytes for each. Safe from several threads at once."""

    def __init__(self, lows, highs, n):
        lows, highs = lows or [None] * n, highs or [None] * n
        kinds, nothing = list(map(type, lows)), type(None)
        self.n, self.tables = n, {}
        self.unbounded = [i for i, kind in enumerate(kinds) if kind is nothing]
        for kind in set(kinds) - {nothing}:
            if len(set(kinds)) == 1 and all(map(le, lows, lows[1:])):
                order, begins, ends = range(n), lows, highs  # as they are when keys were written in their order
            else:
                order = sorted((i for i in range(n) if kinds[i] is kind), key=lows.__getitem__)
                begins, ends = ([bounds[i] for i in order] for bounds in (lows, highs))
            # The greatest bound so far: where it is below the key, no earlier file has the key.
            greatest = ends if all(map(le, ends, ends[1:])) else list(accumulate(ends, max))
            self.tables[kind] = order, begins, ends, greatest

    def candidates(self, key):
        """The numbers of the files that may have a key, from the last one on."""
        kind = type(key)
        if kind in (bool, float):
            kind = int
        if kind is str or kind is int:
            found = self._within(kind, key)
        elif key_filters.equals_its_kind_alone(key):
            found = []
        else:
            return list(range(self.n - 1, -1, -1))
        return sorted([*self.unbounded, *found], reverse=True) if self.unbounded or len(found) > 1 else found

    def _within(self, kind, key):
        if kind not in self.tables:
            return []
        order, lows, highs, greatest = self.tables[kind]
        found, at = [], bisect_right(lows, key) - 1
        while at >= 0 and greatest[at] >= key:
            if highs[at] >= key:
                found.append(order[at])
            at -= 1
        return found
