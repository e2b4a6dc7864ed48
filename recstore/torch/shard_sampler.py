"""ShardSampler: a shuffled order that reads a few shards at a time, with different shards on each node."""

from __future__ import annotations

import math
import zlib

from recstore.lazy_names import named_arguments
from recstore.torch import places, sampler_base
from recstore.torch.samplers import length_of
from recstore.torch.shard_order import ShardOrder, legs_from
from recstore.torch.weighted import as_int64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sized
    from typing import Any, SupportsIndex

    import numpy as np
    from numpy.typing import NDArray

    from recstore.torch.shard_order import Legs

__all__ = ["ShardSampler"]

_MOST_NODES = 1 << 16


class ShardSampler(sampler_base.IndexSampler):
    """The indices of a set of shards, shuffled so that each node needs only a few shards at a time.

    Args:
        x: a set of shards from ``recstore.open(url)``, a slice of one with step 1, or a RecordDataset or Fields over
            one. With `boundaries`, any argument that ShuffleSampler takes as `n`.
        boundaries: None: the boundaries of the shards of `x`. Otherwise the end position of each shard, in order:
            ascending ints that end with ``len(x)``. A shard may be any run of records that are read together.
        window: how many shards are mixed at a time, at least 1.
        seed, rank, world_size: as in :class:`ShuffleSampler`.
        drop_last: as in :class:`ShuffleSampler`, except that with False a rank repeats one of its latest records, so
            that it does not fetch another shard.
        nodes: the number of nodes; neighboring ranks run on one node. All ranks must pass the same number. None:
            GROUP_WORLD_SIZE of torchrun or SLURM_STEP_NUM_NODES of srun, whichever started world_size ranks; else 1.
        shuffle: False: each node reads its shards and records in their own order.

    An epoch shuffles the shards by seed and epoch and divides them into parts of equal length, one for each node. The
    ranks of a node share its part. They read it in windows of `window` shards, and shuffle the records within a window.
    So a node needs space for two windows: one being read, one being fetched. If two parts meet within a shard, both
    nodes read it. Each index comes once over all ranks.

    At the first record of a window, the sampler requests the shards of the next window from the set. They are then
    fetched to the cache of the node, and all processes of the node, such as workers of a DataLoader, map them from
    there. With `boundaries` nothing is requested.

    ``state_dict`` counts the samples consumed by all ranks, and has two ints for each number of nodes that has read
    from the epoch. A run may resume on another number of ranks or workers, or with another batch size, in the same
    order. On another number of nodes the rest of the epoch is divided again, unless `nodes` is given.

    Memory: 40 bytes per shard. The first index of an epoch takes 10 ms per 10^5 shards.

    Raises TypeError for an `x` without shards and for arguments of a wrong type. Raises ValueError for boundaries that
    descend or do not end with ``len(x)``, and for numbers out of range. One thread at a time may iterate; the other
    methods are thread-safe.

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
        self._records: Any  # a set of shards that takes requests, or None
        self._records, self._ends = _set_of(x) if boundaries is None else (None, _ends_of(boundaries, n))
        self.window = _in_range(window, "window", sampler_base.MOST)
        self._nodes = None if nodes is None else _in_range(nodes, "nodes", _MOST_NODES)
        self._legs: Legs = ()  # the legs of a loaded state
        self._order: tuple[tuple[int, int | None, Legs], ShardOrder] | None = None
        self._requested: tuple[sampler_base.Iteration, set[int]] | None = None  # the windows requested in an iteration
        self._set(n, seed, rank, world_size, drop_last, shuffle)
        self._fingerprint = zlib.crc32(self._ends.data, _checksum_of(self._records))

    @property
    def nodes(self) -> int:
        """The number of nodes. If the constructor did not get the number, it is looked up at each use."""
        return self._nodes_of(self.world_size)

    def _nodes_of(self, world_size: int) -> int:
        return self._nodes or min(places.nodes(world_size) or 1, _MOST_NODES)

    # ---- Indices ----

    def _begin(self) -> sampler_base.Iteration:
        live = super()._begin()
        live.legs = legs_from(self._legs, live.first, self._nodes_of(live.world_size))
        self._legs, self._requested = (), None
        return live

    def _fill(self, out: Any, live: sampler_base.Iteration, taken: int) -> None:
        out = as_int64(out)
        if len(out) == 0:
            return
        order, requested = self._order_of(live), self._requested_in(live)
        ranks, lanes = live.world_size, order.lanes

        def enter(window: int, following: int | None) -> None:
            if requested is not None and window not in requested:
                requested.add(window)
                self._request(order, window, following)

        turns = lanes // math.gcd(ranks, lanes)  # the turns after which a rank is in the same lane again
        step = turns * ranks
        for turn in range(min(turns, len(out))):
            slots = out[turn::turns]
            item = order.dealt(live.first + (taken + turn) * ranks, ranks, live.rank)
            count = min(max(-(-(live.length - item) // step), 0), len(slots))
            part = slots[:count] if turns == 1 else slots[:count].copy()  # C needs a contiguous array
            order.fill(part, item, step, enter)
            if turns > 1:
                slots[:count] = part
            if count < len(slots):
                part = slots[count : count + 1]
                order.fill(part, _repeated(item + count * step, ranks, order), lanes, enter)

    def _fill_some(self, out: Any, live: sampler_base.Iteration, taken: int) -> int:
        """Stops at the end of a window: a window is requested when its first index is written, which would be too early
        for the windows after the next."""
        order, ranks, out = self._order_of(live), live.world_size, as_int64(out)
        item = order.dealt(live.first + taken * ranks, ranks, live.rank)
        if ranks % order.lanes == 0 and item < live.length:
            out = out[: order.left_in_window(item, ranks)]
        return super()._fill_some(out, live, taken)

    def _order_of(self, live: sampler_base.Iteration) -> ShardOrder:
        """The order of an iteration's epoch. The latest order is cached."""
        key = self.window, self._key(live.epoch), live.legs
        if self._order is None or self._order[0] != key:
            self._order = key, ShardOrder(self._ends, *key)
        return self._order[1]

    def _requested_in(self, live: sampler_base.Iteration) -> set[int] | None:
        """The windows requested in an iteration; None without a set to request them from."""
        if self._records is None:
            return None
        if self._requested is None or self._requested[0] is not live:
            self._requested = live, set()
        return self._requested[1]

    def _request(self, order: ShardOrder, window: int, following: int | None) -> None:
        """Requests the shards of this window and the next. Except at the first window, this window was requested
        before, and its shards are in the cache unless they were evicted."""
        set_, shards = self._records.selection.shards, order.shards_of(window)
        set_.opener.check_window(shards)
        if following is not None:
            shards += order.shards_of(following)
        set_.fetch_ahead(shards)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_order": None, "_requested": None}  # made again on demand

    # ---- The state ----

    def _identity(self) -> dict[str, Any]:
        order = "windows-1" if self.shuffle else "records"
        return {**super()._identity(), "order": order, "window": self.window}

    def _latest(self) -> sampler_base.Iteration:
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
        shards = {"shards": len(self._ends), "boundaries": self._fingerprint}
        return {**state, **shards, "legs": [list(leg) for leg in legs]}

    def _checked_state(self, state: dict[str, Any]) -> tuple[int, int]:
        if state.get("kind") == "recstore.torch.ShardSampler" and state.get("version") == sampler_base.VERSION:
            saved = [state.get(name) for name in ("length", "shards", "boundaries")]
            if saved != [self._length, len(self._ends), self._fingerprint]:
                raise ValueError(
                    f"the state is of a set of {saved[0]!r:.60} records in {saved[1]!r:.60} shards, but this one has "
                    f"{self._length} in {len(self._ends)}, or other boundaries: open the run's version, URL@NUMBER"
                )
        epoch, consumed = super()._checked_state(state)
        legs: Any = state.get("legs")
        if not _are_legs(legs, consumed):
            raise ValueError(f"the state has invalid legs: {legs!r:.60}")
        self._legs = tuple((begin, lanes) for begin, lanes in legs)
        return epoch, consumed

    def __repr__(self) -> str:
        place = "" if self._place is None else f", rank={self._place[0]}, world_size={self._place[1]}"
        shards = f"{self._length} records in {len(self._ends)} shards, window={self.window}"
        return f"ShardSampler({shards}, seed={self.seed}{place}, epoch={self._epoch})"


def _repeated(item: int, ranks: int, order: ShardOrder) -> int:
    """The item that a rank repeats in place of `item`, which is past the end: one of the previous turn, if this leg has
    one. If the number of lanes divides `ranks`, that is the rank's previous item."""
    previous = item - ranks
    return previous if previous >= order.begin else order.begin + (item - order.begin) % (order.length - order.begin)


def _in_range(value: SupportsIndex, name: str, maximum: int) -> int:
    value = places.integer(value, name)
    if not 1 <= value <= maximum:
        raise ValueError(f"{name} must be from 1 to {maximum}, not {value}")
    return value


def _set_of(x: Any) -> tuple[Any, NDArray[np.int64]]:
    """`(records, ends)` of a set of shards, or of a slice of one: the container that takes requests, or None, and the
    end position of each shard."""
    import numpy

    records = getattr(x, "records", x)  # `records` of a RecordDataset or Fields
    selection: Any = getattr(records, "selection", None)
    shards = getattr(selection, "shards", None)
    if shards is None:
        raise TypeError(
            f"ShardSampler reads a set of shards, but this {type(x).__name__} has no shards: give boundaries=, the end "
            "position of each shard, or use ShuffleSampler"
        )
    start, stages = 0, selection.describe()
    if stages and not (len(stages) == 1 and stages[0][0] == "slice" and stages[0][3] == 1):
        raise TypeError(
            "this view of a set of shards does not keep the records of a shard together: give the set, a slice of it "
            "with step 1, or boundaries="
        )
    if stages:
        start = stages[0][2]
    ends = numpy.frombuffer(shards.ends, numpy.int64)
    return records if hasattr(shards, "fetch_ahead") else None, numpy.clip(ends - start, 0, len(x))


def _checksum_of(records: Any) -> int:
    """A checksum of the content of a set of shards, since sets may have shards of equal sizes; 0 for None."""
    opener = None if records is None else records.selection.shards.opener
    return zlib.crc32(getattr(opener, "fingerprint", "").encode())


def _ends_of(boundaries: Any, n: int) -> NDArray[np.int64]:
    """The argument `boundaries` as int64. Raises TypeError if they are not ints, ValueError if they do not fit n
    records."""
    import numpy

    ends = numpy.asarray(boundaries)
    if ends.ndim != 1 or len(ends) and ends.dtype.kind not in "iu":
        raise TypeError(
            f"boundaries must be a sequence of ints, the end position of each shard, not "
            f"{type(boundaries).__name__} of {ends.dtype} in {ends.ndim} dimensions"
        )
    falls = numpy.flatnonzero(ends[1:] < ends[:-1])
    if len(falls):
        at = int(falls[0])
        raise ValueError(
            f"boundaries must ascend, but number {at + 1} is {ends[at + 1]} after {ends[at]}: give cumulative sums"
        )
    if len(ends) and ends[0] < 0 or (int(ends[-1]) if len(ends) else 0) != n:
        raise ValueError(f"boundaries must be from 0 on and end with the number of records, {n}: {boundaries!r:.60}")
    return ends.astype(numpy.int64)


def _are_legs(legs: object, consumed: int) -> bool:
    """Whether `legs` are valid for a state with `consumed` items consumed."""
    if not isinstance(legs, (list, tuple)) or not all(isinstance(leg, (list, tuple)) and len(leg) == 2 for leg in legs):
        return False
    if not all(type(number) is int for leg in legs for number in leg):
        return False
    begins = [begin for begin, _ in legs]
    ascending = all(first < second for first, second in zip(begins, begins[1:]))
    in_range = all(1 <= lanes <= _MOST_NODES for _, lanes in legs)
    return ascending and in_range and (begins[0] == 0 and begins[-1] <= consumed if legs else consumed == 0)
