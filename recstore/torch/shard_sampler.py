"""ShardSampler: a shuffled order that reads a set of shards a few at a time, each node its own first."""

from __future__ import annotations

import math
import zlib

from recstore.later import named_arguments
from recstore.torch import epochs, places
from recstore.torch.samplers import length_of
from recstore.torch.shard_order import ShardOrder, legs_from
from recstore.torch.weighted import out_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sized
    from typing import Any, SupportsIndex

    import numpy as np
    from numpy.typing import NDArray

    from recstore.torch.shard_order import Legs

__all__ = ["ShardSampler"]

_MOST_NODES = 1 << 16


class ShardSampler(epochs.IndexSampler):
    """The indices of a set of shards, shuffled so that few shards have to be near at a time.

    Args:
        x: a set of shards that ``recstore.open(url)`` gave, a slice of one with step 1, or a RecordDataset or Fields
            over one. With `boundaries` anything that ShuffleSampler takes as `n`.
        boundaries: None: those of the shards of `x`. Else for each shard, in their order, the position behind its last
            record: rising ints of which the last is ``len(x)``. Shards can so be any runs of records that are read from
            one place.
        window: how many shards are mixed at a time, from 1 on.
        seed, rank, world_size, drop_last: as in :class:`ShuffleSampler`, but for `drop_last`: where it is False, ranks
            that would have a record less than others repeat one of their latest, so that no shard is fetched for it.
        nodes: on how many nodes the ranks run, neighbouring ranks on one. All ranks must give the same number. None:
            GROUP_WORLD_SIZE of torchrun, or SLURM_STEP_NUM_NODES of srun, where these tell of as many ranks; else 1.
        shuffle: False gives shards and records in their own order, in each node's part.

    In an epoch the shards have an order by the keyed permutation of the seed and the epoch, and are divided into parts
    of equal length, one for each node. The ranks of a node share its part. It is read in windows of `window` shards,
    and within a window the records have an order by a keyed permutation. So a node needs room for two windows: one that
    is read, one that is fetched. A shard in which one part ends and another begins is read by both nodes. Each index
    comes once over all ranks.

    The set is told which shards come next: at the first record of a window, those of the window after it. Shards that
    have to be fetched are then on their way to the cache of the node, from which all its processes map them, so it does
    not matter that the workers of a DataLoader are other processes than the one in which this sampler runs. With
    `boundaries` nothing is told.

    ``state_dict`` counts the samples that all ranks have consumed, and has two ints for each number of nodes on which
    the epoch was read. A run may go on with another number of ranks, of workers, or another batch size, in the same
    order. On another number of nodes what is left is divided anew. `nodes` keeps one order on any number of nodes.

    Memory: 40 bytes a shard. The first index of an epoch takes time by the number of shards, 10 ms for 10^5.

    Raises TypeError for an `x` without shards and for arguments of a wrong type, ValueError for boundaries that fall or
    do not end with ``len(x)``, and for numbers out of range. One thread at a time may iterate; the other methods may be
    called from any thread.

    >>> from recstore.torch import ShardSampler
    >>> list(ShardSampler(12, boundaries=[4, 8, 12], window=1, seed=1, rank=0, world_size=1))
    [3, 1, 0, 2, 9, 11, 8, 10, 7, 5, 6, 4]
    >>> [list(ShardSampler(12, boundaries=[4, 8, 12], window=1, shuffle=False, rank=r, world_size=2, nodes=2))
    ...     for r in (0, 1)]
    [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    """

    _kind = "ShardSampler"

    @named_arguments
    def __init__(
        self,
        x: SupportsIndex | Sized,
        *,
        boundaries: Any = None,
        window: SupportsIndex = 4,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        nodes: SupportsIndex | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
    ) -> None:
        n = length_of(x)
        # The records are those of a set that is told which shards come next.
        self._records: Any
        self._records, self._ends = _set_of(x) if boundaries is None else (None, _ends_of(boundaries, n))
        self.window = _in_range(window, "window", epochs.MOST)
        self._nodes = None if nodes is None else _in_range(nodes, "nodes", _MOST_NODES)
        self._legs: Legs = ()  # of the epoch of a state that was loaded
        self._order: tuple[tuple[int, int | None, Legs], ShardOrder] | None = None
        self._told: tuple[epochs.Iteration, set[int]] | None = None
        self._set(n, seed, rank, world_size, drop_last, shuffle)
        self._print = zlib.crc32(self._ends.data, _print_of(self._records))

    @property
    def nodes(self) -> int:
        """The number of nodes. Where it was not given to the constructor it is looked up at each use."""
        return self._nodes_of(self.world_size)

    def _nodes_of(self, world_size: int) -> int:
        return self._nodes or min(places.nodes(world_size), _MOST_NODES)

    # ---- Indices ----

    def _begin(self) -> epochs.Iteration:
        live = super()._begin()
        live.legs = legs_from(self._legs, live.first, self._nodes_of(live.world_size))
        self._legs, self._told = (), None
        return live

    def _fill(self, out: Any, live: epochs.Iteration, taken: int) -> None:
        out = out_of(out)
        if len(out) == 0:
            return
        order, told = self._order_of(live), self._told_in(live)
        ranks, lanes = live.world_size, order.lanes

        def enter(window: int, following: int | None) -> None:
            if told is not None and window not in told:
                told.add(window)
                self._tell(order, window, following)

        turns = lanes // math.gcd(ranks, lanes)  # after which a rank comes to the same lane again
        step = turns * ranks
        for turn in range(min(turns, len(out))):
            mine = out[turn::turns]
            item = order.dealt(live.first + (taken + turn) * ranks, ranks, live.rank)
            count = min(max(-(-(live.length - item) // step), 0), len(mine))
            part = mine[:count] if turns == 1 else mine[:count].copy()  # C writes to neighbouring numbers
            order.fill(part, item, step, enter)
            if turns > 1:
                mine[:count] = part
            if count < len(mine):
                part = mine[count : count + 1]
                order.fill(part, _repeated(item + count * step, ranks, order), lanes, enter)

    def _order_of(self, live: epochs.Iteration) -> ShardOrder:
        """The order of the epoch of an iteration; the latest one is kept."""
        which = self.window, self._key(live.epoch), live.legs
        if self._order is None or self._order[0] != which:
            self._order = which, ShardOrder(self._ends, *which)
        return self._order[1]

    def _told_in(self, live: epochs.Iteration) -> set[int] | None:
        """The windows of an iteration that the set was told of; None if there is no set."""
        if self._records is None:
            return None
        if self._told is None or self._told[0] is not live:
            self._told = live, set()
        return self._told[1]

    def _tell(self, order: ShardOrder, window: int, following: int | None) -> None:
        """Tells the set which shards are read now and next. Those of now were told before, but for the first window,
        and are still near unless they were evicted."""
        shards = order.shards_of(window)
        if following is not None:
            shards += order.shards_of(following)
        self._records.selection.shards.wanted(shards)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_order": None, "_told": None}  # made again where they are needed

    # ---- The state ----

    def _identity(self) -> dict[str, Any]:
        order = "windows-1" if self.shuffle else "records"
        return {**super()._identity(), "order": order, "window": self.window}

    def _latest(self) -> epochs.Iteration:
        latest = super()._latest()
        if not latest.legs:
            latest.legs = legs_from(self._legs, latest.first, self._nodes_of(latest.world_size))
        return latest

    def _state(self, taken: SupportsIndex | None = None) -> dict[str, Any]:
        state = super()._state(taken)
        if self._live is None and taken is None:
            legs = self._legs if self._first else ()
        else:
            legs = self._latest().legs
        set_of = {"shards": len(self._ends), "boundaries": self._print}
        return {**state, **set_of, "legs": [list(leg) for leg in legs]}

    def _checked_state(self, state: dict[str, Any]) -> tuple[int, int]:
        if state.get("kind") == "recstore.torch.ShardSampler" and state.get("version") == epochs.VERSION:
            theirs = [state.get(name) for name in ("length", "shards", "boundaries")]
            if theirs != [self._length, len(self._ends), self._print]:
                raise ValueError(
                    f"the state is of a set of {theirs[0]!r:.60} records in {theirs[1]!r:.60} shards, and this one has "
                    f"{self._length} in {len(self._ends)}, or other boundaries: open the set of the run, URL@NUMBER"
                )
        epoch, consumed = super()._checked_state(state)
        legs: Any = state.get("legs")
        if not _are_legs(legs, consumed):
            raise ValueError(f"the state does not say on how many nodes its epoch was read: legs {legs!r:.60}")
        self._legs = tuple((begin, lanes) for begin, lanes in legs)
        return epoch, consumed

    def __repr__(self) -> str:
        place = "" if self._place is None else f", rank={self._place[0]}, world_size={self._place[1]}"
        what = f"{self._length} records in {len(self._ends)} shards, window={self.window}"
        return f"ShardSampler({what}, seed={self.seed}{place}, epoch={self._epoch})"


def _repeated(item: int, ranks: int, order: ShardOrder) -> int:
    """The item that a rank repeats in place of one behind the end: of the turn before, if this leg had it."""
    before = item - ranks
    return before if before >= order.begin else order.begin + (item - order.begin) % (order.length - order.begin)


def _in_range(value: SupportsIndex, name: str, most: int) -> int:
    value = places.integer(value, name)
    if not 1 <= value <= most:
        raise ValueError(f"{name} is from 1 to {most}, not {value}")
    return value


def _set_of(x: Any) -> tuple[Any, NDArray[np.int64]]:
    """`(records, ends)` of a set of shards, or of a slice of one: the container that is told which shards come next,
    or None, and for each shard the position behind its last record."""
    import numpy

    records = getattr(x, "records", x)  # of a RecordDataset or Fields
    selection: Any = getattr(records, "selection", None)
    shards = getattr(selection, "shards", None)
    if shards is None:
        raise TypeError(
            f"ShardSampler reads a set of shards, and this {type(x).__name__} is none: give boundaries=, the position "
            "behind each shard's last record, or take ShuffleSampler"
        )
    start, stages = 0, selection.describe()
    if stages and not (len(stages) == 1 and stages[0][0] == "slice" and stages[0][3] == 1):
        raise TypeError(
            "in this view of a set of shards the records of a shard do not follow one another: give the set, a slice "
            "of it with step 1, or boundaries="
        )
    if stages:
        start = stages[0][2]
    ends = numpy.frombuffer(shards.ends, numpy.int64)
    return records if hasattr(shards, "wanted") else None, numpy.clip(ends - start, 0, len(x))


def _print_of(records: Any) -> int:
    """A number for the content of a set of shards, 0 for None: the shards of many sets have the same sizes."""
    opener = None if records is None else records.selection.shards.opener
    return zlib.crc32(getattr(opener, "fingerprint", "").encode())


def _ends_of(boundaries: Any, n: int) -> NDArray[np.int64]:
    """Boundaries as the caller gave them, as int64. ValueError for ones that do not fit n records."""
    import numpy

    ends = numpy.asarray(boundaries)
    if ends.ndim != 1 or len(ends) and ends.dtype.kind not in "iu":
        raise TypeError(
            f"boundaries are one sequence of ints, for each shard the position behind its last record, not "
            f"{type(boundaries).__name__} of {ends.dtype} in {ends.ndim} dimensions"
        )
    falls = numpy.flatnonzero(ends[1:] < ends[:-1])
    if len(falls):
        at = int(falls[0])
        totals = f"number {at + 1} is {ends[at + 1]} after {ends[at]}"
        raise ValueError(f"boundaries rise, and {totals}: give running totals")
    if len(ends) and ends[0] < 0 or (int(ends[-1]) if len(ends) else 0) != n:
        raise ValueError(f"boundaries from 0 on whose last is the number of records, {n}: not {boundaries!r:.60}")
    return ends.astype(numpy.int64)


def _are_legs(legs: object, consumed: int) -> bool:
    """Whether a state has legs as `state_dict` gives them for so many items consumed."""
    if not isinstance(legs, (list, tuple)) or not all(isinstance(leg, (list, tuple)) and len(leg) == 2 for leg in legs):
        return False
    if not all(type(number) is int for leg in legs for number in leg):
        return False
    begins = [begin for begin, _ in legs]
    rising = all(first < second for first, second in zip(begins, begins[1:]))
    lanes = all(1 <= lanes <= _MOST_NODES for _, lanes in legs)
    return rising and lanes and (begins[0] == 0 and begins[-1] <= consumed if legs else consumed == 0)
