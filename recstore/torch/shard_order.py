"""The order of an epoch of a ShardSampler, as arithmetic on positions.

An epoch shuffles the shards and concatenates them. A *seat* is a position in the concatenation. The seats are cut into
*lanes* of equal length, one for each node. Each lane is cut into windows of a few shards, and within a window a keyed
permutation assigns the records to the seats. Item p of the epoch is the next seat of lane p modulo the number of
lanes. So the lanes advance together, and each lane reads its own shards from first to last.

A run that resumes on another number of nodes begins a new *leg* of the epoch: the remaining seats of all lanes are
concatenated and cut into new lanes. The windows stay the same. A leg is `(first item, number of lanes)`. The legs of an
epoch determine the record of each item.

All orders are the permutation "feistel-1" of csrc/base/rs_permute.h. The non-empty shards are permuted under the key of
the epoch. The records of window w are permuted under mix(key) + mix(w + 1); windows are numbered through all lanes of
the first leg. A lane of K shards, whose first and last shard may be cut, has m = K / window windows, rounded up. Window
j has the shards from j * K div m to (j + 1) * K div m.
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
    """The record of each item of an epoch from its last leg on. Immutable and thread-safe.

    Args:
        ends: the end position of each shard, int64.
        window: the most shards that are mixed at a time.
        key: the 64-bit seed of the epoch, or None for records in their own order.
        legs: a tuple of pairs, see the top of the file. The first leg begins at item 0.

    Attributes: ``begin`` and ``lanes`` of the last leg; ``length``, the number of records.
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
        self._ends = numpy.cumsum(sizes[self._shards])  # the end seat of each shard, in the epoch's order
        self._shifts = ends[self._shards] - self._ends  # from a seat to its record, before windows are shuffled
        self._cut_windows(window, legs[0][1])
        self._cut_lanes(legs)

    def _cut_windows(self, window: int, lanes: int) -> None:
        """Cuts each lane of the first leg into windows of nearly equal numbers of shards, at most `window`."""
        import numpy

        bounds = numpy.array(lane_bounds(self.length, lanes), numpy.int64)
        begins, stops = bounds[:-1], bounds[1:]
        begins, stops = begins[begins < stops], stops[begins < stops]
        first = numpy.searchsorted(self._ends, begins, "right")
        shards = numpy.searchsorted(self._ends, stops - 1, "right") + 1 - first
        windows = -(-shards // window)
        number = numpy.arange(windows.sum()) - numpy.repeat(numpy.cumsum(windows) - windows, windows)
        first, shards, windows, begins = (numpy.repeat(x, windows) for x in (first, shards, windows, begins))
        # Window w has the shards low[w] to high[w], positions in the epoch's order of the shards.
        self._low, self._high = first + number * shards // windows, first + (number + 1) * shards // windows
        starts = numpy.where(number == 0, begins, self._ends[self._low - 1])
        self._starts = numpy.append(starts, self.length).data  # the first seat of each window; .data yields ints

    def _cut_lanes(self, legs: Legs) -> None:
        """Finds the remaining seats of the last leg, as pieces: runs of consecutive seats."""
        pieces, left = [(0, self.length)], self.length
        for (begin, lanes), (end, _) in zip(legs, legs[1:]):
            taken, bounds = lane_bounds(end - begin, lanes), lane_bounds(left, lanes)
            remaining = [(bounds[i] + taken[i + 1] - taken[i], bounds[i + 1]) for i in range(lanes)]
            pieces, left = _parts_of(pieces, remaining), left - (end - begin)
        self._bounds = lane_bounds(left, self.lanes)
        self._pieces, self._piece_ends = [first for first, _ in pieces], list(accumulate(count for _, count in pieces))

    # ---- Items ----

    def fill(self, out: NDArray[np.int64], first: int, step: int, enter: Callable[[int, int | None], None]) -> None:
        """Writes the records of the items first, first + step, ... to an int64 array. All items must be in the epoch,
        and in one lane: `step` is a multiple of the number of lanes. Calls `enter(window, following)` for each window
        that is read; `following` is the next window of the lane, or None."""
        lane, stride, done = (first - self.begin) % self.lanes, step // self.lanes, 0
        at, last = self._bounds[lane] + (first - self.begin) // self.lanes, self._bounds[lane + 1]
        while done < len(out):
            piece = bisect_right(self._piece_ends, at)
            end = self._piece_ends[piece]
            shift = self._pieces[piece] - (self._piece_ends[piece - 1] if piece else 0)
            seat, seats_end = at + shift, min(end, last) + shift
            window = bisect_right(self._starts, seat) - 1
            start, stop = self._starts[window], self._starts[window + 1]
            following: int | None = window + 1
            if stop >= seats_end:
                following = bisect_right(self._starts, self._pieces[piece + 1]) - 1 if end < last else None
            enter(window, following)
            count = min(len(out) - done, -(-(min(stop, seats_end) - seat) // stride))
            self._fill_window(out[done : done + count], window, seat - start, stride)
            done, at = done + count, at + count * stride

    def left_in_window(self, first: int, step: int) -> int:
        """The number of the items first, first + step, ... up to the end of a window. Arguments as in `fill`."""
        lane, stride = (first - self.begin) % self.lanes, step // self.lanes
        at = self._bounds[lane] + (first - self.begin) // self.lanes
        piece = bisect_right(self._piece_ends, at)
        seat = at + self._pieces[piece] - (self._piece_ends[piece - 1] if piece else 0)
        return -(-(self._starts[bisect_right(self._starts, seat)] - seat) // stride)

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
        """The item that a rank takes from the items turn, turn + 1, ..., turn + world_size - 1. They are dealt by lane,
        so that neighboring ranks take items of one lane. If the number of lanes divides world_size, a rank stays in its
        lane."""
        lanes = self.lanes
        begin, (each, extra) = (turn - self.begin) % lanes, divmod(world_size, lanes)
        # `extra` lanes, from `begin` on and wrapping around, have an item more than the others.
        wrapped, end = max(begin + extra - lanes, 0), min(begin + extra, lanes)
        shares = (0, wrapped, each + 1), (wrapped, begin, each), (begin, end, each + 1), (end, lanes, each)
        for low, high, items in shares:
            if rank < (high - low) * items:
                lane, nth = low + rank // items, rank % items
                break
            rank -= (high - low) * items
        return turn + (lane - begin) % lanes + nth * lanes


def lane_bounds(n: int, lanes: int) -> list[int]:
    """The first seat of each lane if n seats are cut into `lanes` lanes, then n. The size of lane c is the number of
    items p < n with p % lanes == c."""
    each, more = divmod(n, lanes)
    return [lane * each + min(lane, more) for lane in range(lanes + 1)]


def legs_from(legs: Legs, item: int, lanes: int) -> Legs:
    """The legs of an epoch with `legs` that resumes at `item` with `lanes` lanes."""
    legs = tuple(leg for leg in legs if leg[0] < item)
    return legs if legs and legs[-1][1] == lanes else (*legs, (item, lanes))


def _parts_of(pieces: list[Piece], ranges: Iterable[tuple[int, int]]) -> list[Piece]:
    """Cuts ascending ranges out of `pieces`, as pieces. The ranges count the seats of all `pieces` from 0."""
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
