"""The order of an epoch of a ShardSampler, as arithmetic on positions. It knows nothing of ranks.

The shards stand one after another in an order of the epoch. A *seat* is a position among their records. The seats are
cut into as many *lanes* of equal length as there are nodes, each lane into windows of some shards, and within a window
the records have their seats by a keyed permutation. Item p of the epoch is the next seat of lane p modulo lanes. So as
many items of each lane have been taken at any time, and each lane reads its own shards from the first to the last.

A run that goes on with another number of nodes begins a new *leg* of the epoch: the seats that are left in all lanes,
one lane after another, are cut into new lanes. Windows stay what they were. A leg is `(its first item, its lanes)`, and
the legs of an epoch are all that is needed to say which record an item is.

All orders are the permutation "feistel-1" of csrc/base/rs_permute.h: of the shards that are not empty under the key of
the epoch, of the records of window w, counted through all lanes of the first leg, under mix(key) + mix(w + 1). A lane
that has K shards, where those at its ends may be cut, has m = K / window windows, rounded up, and window j of them has
the shards from j * K div m to (j + 1) * K div m.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from recstore._core import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Legs: TypeAlias = tuple[tuple[int, int], ...]
    Piece: TypeAlias = tuple[int, int]  # the first seat, the number of seats


class ShardOrder:
    """The records of the items of an epoch from its last leg on. Immutable; any number of threads may read it.

    Args:
        ends: for each shard the position behind its last record, int64.
        window: how many shards are mixed.
        key: the 64-bit seed of the epoch, or None for records in their own order.
        legs: a tuple of pairs, see the top of the file. The first one begins at item 0.

    Attributes: ``begin`` and ``lanes`` of the last leg; ``length``, the records.
    """

    def __init__(self, ends: NDArray[np.int64], window: int, key: int | None, legs: Legs) -> None:
        import numpy

        self.length, (self.begin, self.lanes) = int(ends[-1]) if len(ends) else 0, legs[-1]
        self._seed = None if key is None else native.mixed(key)
        sizes = numpy.diff(ends, prepend=0)
        self._shards = numpy.flatnonzero(sizes)
        if key is not None and len(self._shards):
            order = numpy.empty(len(self._shards), numpy.int64)
            native.fill_permutation(order, len(order), key, 0, 1)
            self._shards = self._shards[order]
        self._ends = numpy.cumsum(sizes[self._shards])  # seats behind the shards, in their order
        self._shifts = ends[self._shards] - self._ends  # from a seat before shuffling to its record
        self._cut_windows(window, legs[0][1])
        self._cut_lanes(legs)

    def _cut_windows(self, window: int, lanes: int) -> None:
        """Cuts each lane of the first leg into windows of about as many shards, `window` at most."""
        import numpy

        bounds = numpy.array(lane_bounds(self.length, lanes), numpy.int64)
        begins, behind = bounds[:-1], bounds[1:]
        begins, behind = begins[begins < behind], behind[begins < behind]
        first = numpy.searchsorted(self._ends, begins, "right")
        shards = numpy.searchsorted(self._ends, behind - 1, "right") + 1 - first
        windows = -(-shards // window)
        number = numpy.arange(windows.sum()) - numpy.repeat(numpy.cumsum(windows) - windows, windows)
        first, shards, windows, begins = (numpy.repeat(of, windows) for of in (first, shards, windows, begins))
        # The shards of a window, from one position in the order of the shards to another.
        self._low, self._high = first + number * shards // windows, first + (number + 1) * shards // windows
        starts = numpy.where(number == 0, begins, self._ends[self._low - 1])
        self._starts = numpy.append(starts, self.length).data  # of windows, as seats; gives ints

    def _cut_lanes(self, legs: Legs) -> None:
        """Finds the seats that are left for the last leg, as pieces: runs of seats one after another."""
        pieces, left = [(0, self.length)], self.length
        for (begin, lanes), (end, _) in zip(legs, legs[1:]):
            taken, bounds = lane_bounds(end - begin, lanes), lane_bounds(left, lanes)
            kept = [(bounds[i] + taken[i + 1] - taken[i], bounds[i + 1]) for i in range(lanes)]
            pieces, left = _parts_of(pieces, kept), left - (end - begin)
        self._bounds = lane_bounds(left, self.lanes)
        self._pieces, self._behind = [first for first, _ in pieces], list(accumulate(count for _, count in pieces))

    # ---- Items ----

    def fill(self, out: NDArray[np.int64], first: int, step: int, enter: Callable[[int, int | None], None]) -> None:
        """Writes the records of the items first, first + step, ... to an int64 array of numpy. They are items of one
        lane before the end of the epoch: `step` is a multiple of the lanes. `enter(window, following)` is called with
        each window that is read, and the window that this lane comes to next, or None."""
        lane, by, done = (first - self.begin) % self.lanes, step // self.lanes, 0
        at, last = self._bounds[lane] + (first - self.begin) // self.lanes, self._bounds[lane + 1]
        while done < len(out):
            piece = bisect_right(self._behind, at)
            end = self._behind[piece]
            shift = self._pieces[piece] - (self._behind[piece - 1] if piece else 0)
            seat, behind = at + shift, min(end, last) + shift
            window = bisect_right(self._starts, seat) - 1
            start, stop = self._starts[window], self._starts[window + 1]
            following: int | None = window + 1
            if stop >= behind:
                following = bisect_right(self._starts, self._pieces[piece + 1]) - 1 if end < last else None
            enter(window, following)
            count = min(len(out) - done, -(-(min(stop, behind) - seat) // by))
            self._fill_window(out[done : done + count], window, seat - start, by)
            done, at = done + count, at + count * by

    def _fill_window(self, out: NDArray[np.int64], window: int, first: int, step: int) -> None:
        """Writes the records at positions first, first + step, ... of a window."""
        start, low, high = self._starts[window], self._low[window], self._high[window]
        seed = None if self._seed is None else native.permutation_seed(self._seed, window + 1)
        native.fill_permutation(out, self._starts[window + 1] - start, seed, first, step)
        out += start
        if high - low > 1:
            out += self._shifts[low:high].take(self._ends[low : high - 1].searchsorted(out, "right"))
        else:
            out += self._shifts[low]

    def shards_of(self, window: int) -> list[int]:
        """The numbers of the shards of a window."""
        return list(map(int, self._shards[self._low[window] : self._high[window]]))

    # ---- Ranks ----

    def dealt(self, turn: int, world_size: int, rank: int) -> int:
        """The item that a rank takes of the items turn, turn + 1, ..., turn + world_size - 1. They are dealt by lanes,
        so that neighbouring ranks take items of one lane; where the lanes divide the ranks, a rank stays in its
        lane."""
        lanes = self.lanes
        begin, (each, more) = (turn - self.begin) % lanes, divmod(world_size, lanes)
        # Of the lanes from `begin` on, around the end, `more` have an item more than the others.
        around, end = max(begin + more - lanes, 0), min(begin + more, lanes)
        shares = (0, around, each + 1), (around, begin, each), (begin, end, each + 1), (end, lanes, each)
        for low, high, items in shares:
            if rank < (high - low) * items:
                lane, nth = low + rank // items, rank % items
                break
            rank -= (high - low) * items
        return turn + (lane - begin) % lanes + nth * lanes


def lane_bounds(n: int, lanes: int) -> list[int]:
    """Where the lanes of n seats begin, and n. Lane c has as many seats as items p < n have p % lanes == c."""
    each, more = divmod(n, lanes)
    return [lane * each + min(lane, more) for lane in range(lanes + 1)]


def legs_from(legs: Legs, item: int, lanes: int) -> Legs:
    """The legs of an epoch that goes on at an item with so many lanes, after it had those legs."""
    legs = tuple(leg for leg in legs if leg[0] < item)
    return legs if legs and legs[-1][1] == lanes else (*legs, (item, lanes))


def _parts_of(pieces: list[Piece], ranges: Iterable[tuple[int, int]]) -> list[Piece]:
    """The pieces of some ranges, given in rising order, of the seats of pieces that are counted through."""
    out: list[Piece] = []
    number = before = 0
    for low, high in ranges:
        while low < high:
            first, count = pieces[number]
            if before + count <= low:
                number, before = number + 1, before + count
                continue
            part = min(high, before + count) - low
            if out and sum(out[-1]) == first + low - before:
                out[-1] = out[-1][0], out[-1][1] + part
            else:
                out.append((first + low - before, part))
            low += part
    return out
