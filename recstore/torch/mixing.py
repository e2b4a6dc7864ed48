"""MixSampler: the records of several sources in fixed proportions.

Each draw takes the next item of the source that is furthest behind its share (csrc/base/rs_mixing.h). So a draw depends
on the draws before it, and all ranks compute all draws of an epoch, in C. A *mark* is the state of the draws at every
`_MARK`-th item: `(position, items drawn of each source, how far each is behind)`. A run resumes from the last mark
before its position, and a state holds that mark.
"""

from __future__ import annotations

import bisect
import itertools
import math
import threading

import numpy

from recstore._core import native
from recstore.lazy_names import named_arguments
from recstore.torch import mix_sources, places, sampler_base
from recstore.torch.samplers import length_of
from recstore.torch.weight_changes import NEVER, WeightChanges
from recstore.torch.weighted import as_int64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Literal, SupportsIndex, TypeAlias

    from numpy.typing import NDArray

    from recstore._types import Path

    Mark: TypeAlias = tuple[int, list[int], list[int]]

__all__ = ["MixSampler"]

_BEHIND = 3 << 60  # no source comes this far behind, and below it no draw overflows
_MARK = 1 << 16  # the items between two marks: 2 ms of draws from a dozen sources
_MOST_MARKS, _LATEST_MARKS = 64, 16
_MOST_EMPTY = 1 << 16  # the records without tokens that a source that begins again may have in a row
_CHUNK = 64, 4096  # the least and the most lengths of a source that are looked up at once
_SOURCES, _JITTER = 0x736F7572636573, 0x6A6974746572  # mixed into the seed, so that orders and draws are independent


class MixSampler(sampler_base.IndexSampler):
    """The records of several sources in fixed proportions, each source in a shuffled order of its own.

    Args:
        sources: `(x, weight)` or `(x, weight, lengths)` for each source; the weight is None with `weights`. `x` is
            anything with ``len()``, such as a RecordList, or a ShuffleSampler, WeightedSampler, PackSampler,
            LengthBatchSampler or GroupSampler, which brings its order. Weights need not sum to 1. Rows of PackSamplers
            mix only with rows, batches only with batches: pass such a mix as ``batch_sampler``.
        by: the unit of the proportions. "records", or "tokens": then `lengths` has the number of tokens of each record
            of `x`, as a field (``x.field("n_tokens")``), an array, or one int; without, ``x.lengths``. A row counts
            in full, a batch of a LengthBatchSampler as its `max_tokens`.
        until: the end of an epoch. "all": all sources are exhausted, so each record comes once; the others share the
            draws of an exhausted one. "first": the first source is exhausted, to within two records. An int: that
            many records; an exhausted source begins again in a new order.
        weights: a function of the position that returns the weights: a curriculum. The position is the number of
            records that all ranks have drawn in the epoch; the function is called for the multiples of 1,024.
        dir: a folder for the changes of :meth:`set_weights`, which the state then names. None: the state holds them,
            at most 16.
        seed, rank, world_size, drop_last: as in :class:`ShuffleSampler`.

    An index is a record of the concatenation: pass ``x + y`` to the loader. Proportions hold over any run of draws, not
    only on average: each source stays within three records of its share, or by tokens within the longest record and
    1,024 tokens. An epoch depends on the seed and its number alone, so give the whole run as one epoch,
    ``until=steps * batch``, to read all records of a large source before one repeats.

    All ranks compute all draws, 3 nanoseconds for each draw and source, and look up all lengths. Memory does not depend
    on the number of records. A state has under 1 kB for a dozen sources, 60 bytes for each further one, and 5 to 20
    bytes a source for each change of weights; a run may resume on another number of ranks or workers, or with another
    batch size.

    Raises TypeError for arguments of a wrong type, samplers that divide by ranks themselves, and other samplers. Raises
    ValueError for weights that are negative, not finite or all 0, for an empty source, and for lengths that are not
    from 0 to 2**31 - 1. One thread at a time may iterate.

    >>> from recstore.torch import MixSampler
    >>> list(MixSampler([(range(6), 0.7), (range(3), 0.3)], seed=2, rank=0, world_size=1))  # 6 to 8: the second source
    [8, 2, 4, 0, 7, 3, 1, 6, 5]
    """

    _kind = "MixSampler"

    @named_arguments
    def __init__(
        self,
        sources: Iterable[tuple[Any, ...]],
        by: Literal["records", "tokens"] = "records",
        until: Literal["all", "first"] | SupportsIndex = "all",
        *,
        weights: Callable[[int], Sequence[float]] | None = None,
        dir: Path | None = None,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
    ) -> None:
        if by not in ("records", "tokens"):
            raise ValueError(f'by must be "records" or "tokens", not {by!r:.60}')
        self.by = by
        self._set(0, seed, rank, world_size, drop_last)
        given = mix_sources.triples(sources, weights, by)
        self._sources: list[mix_sources.Source] = []
        offset = 0
        for number, (x, _, lengths) in enumerate(given):
            sampler = mix_sources.sampler_of(
                x, number, native.mixed(native.permutation_seed(self.seed ^ _SOURCES, number + 1))
            )
            n = mix_sources.records_of(sampler)
            column = mix_sources.lengths_of(x, lengths, n, number) if by == "tokens" else 1
            self._sources.append(mix_sources.Source(sampler, sampler is x, offset, column))
            offset += n
        self._orders = [mix_sources.fingerprint(source) for source in self._sources]
        kinds = {mix_sources.kind_of(source.sampler) for source in self._sources}
        if len(kinds) > 1:
            raise TypeError(f"some sources have {' and some '.join(sorted(kinds))}: a mix has items of one kind")
        self._has_indices, self._yields_batches = kinds == {"records"}, kinds == {"batches"}
        self._until: str | int = until if isinstance(until, str) else places.at_least(1, until, "until")
        start = [weight for _, weight, _ in given] if weights is None else weights
        self._weights = WeightChanges(start, len(given), self._until == "all", dir)
        self._length = self._items_of_epoch()
        self._mark: Mark = self._zero()  # of a loaded state
        self._latest_draws: tuple[sampler_base.Iteration, _Draws] | None = None
        self._lock = threading.Lock()  # of the draws and the weights: a Loader draws in a thread of its own

    def _zero(self) -> Mark:
        """The mark at the beginning of an epoch."""
        return 0, [0] * len(self._sources), [0] * len(self._sources)

    def _items_of_epoch(self) -> int:
        lengths = [source.sampler._length for source in self._sources]
        if isinstance(self._until, int):
            return length_of(self._until)
        if self._until == "all":
            return sum(lengths)
        if self._until != "first":
            raise ValueError(f'until must be "all", "first" or a number of records, not {self._until!r:.60}')
        if self.by == "tokens" or self._weights.is_function:
            raise ValueError(
                'until="first" needs by="records" and constant weights, because the end of the epoch must be known '
                'beforehand: give until="all" or a number of records'
            )
        weights = self.weights_at(0)
        total = math.fsum(weights)
        return int(min(n * (total / weight) for n, weight in zip(lengths, weights) if weight))  # some are infinite

    # ---- Weights ----

    def weights_at(self, position: SupportsIndex) -> list[float]:
        """The weights that hold when all ranks have drawn `position` records in the sampler's epoch."""
        return self._weights.at(self._epoch, places.at_least(0, position, "position"))

    def set_weights(self, weights: Sequence[float], at: SupportsIndex) -> None:
        """Changes the weights from a position of the sampler's epoch on, and in later epochs. Call it on all ranks.

        Args:
            weights: the weight of each source.
            at: the position: the number of records that all ranks have drawn in the epoch before the change.

        The sampler must not have drawn beyond the position. It draws ahead of the loop, so change weights some batches
        ahead. Raises ValueError for weights as the constructor does, for a position that is past, for a sampler with a
        function of weights or ``until="first"``, and for more than 16 changes without `dir`."""
        at = places.at_least(0, at, "at")
        if self._weights.is_function or self._until == "first":
            cause = 'until="first"' if self._until == "first" else "a function of weights"
            raise ValueError(f"the weights of a MixSampler with {cause} cannot change: make a new sampler")
        with self._lock:
            drawn = self._first if self._live is None else self._live.marks[-1][0]
            if self._latest_draws is not None and self._latest_draws[0] is self._live:
                drawn = max(drawn, self._latest_draws[1].position)
            if at < drawn:
                raise ValueError(
                    f"at={at} is past: {drawn} records of epoch {self._epoch} are drawn; give a later position"
                )
            self._weights.add(self._epoch, at, weights)
            self._latest_draws = None  # it would draw on with the weights of before

    # ---- Indices ----

    def _begin(self) -> sampler_base.Iteration:
        live = super()._begin()
        live.marks = [self._mark if live.first else self._zero()]
        return live

    def _latest(self) -> sampler_base.Iteration:
        latest = super()._latest()
        if not latest.marks:
            latest.marks = [self._mark if latest.first else self._zero()]
        return latest

    def __iter__(self) -> Iterator[Any]:
        """The items of this rank: ints, rows of PackSamplers, or batches. The epoch is fixed when the first one is
        drawn. One thread at a time may use the iterator."""
        return super().__iter__() if self._has_indices else self._objects()

    def _objects(self) -> Iterator[Any]:
        """The rows or batches of this rank."""
        live = self._begin()
        for taken in range(live.count):
            [item] = self._some(live, taken, 1)
            live.taken = taken + 1
            yield item.tolist() if live.as_lists and self._yields_batches else item

    def _some(self, live: sampler_base.Iteration, taken: int, n: int) -> Any:
        """This rank's `n` items of an iteration from number `taken` on: an array, or a list of rows or batches."""
        first, step = live.position(taken), live.world_size
        count = min(max(-(-(live.length - first) // step), 0), n)
        with self._lock:
            drawn = self._draws_at(live, first).read(first, step, count)
        out = self._items_of(live.epoch, *drawn)
        for position in range(first + count * step, first + n * step, step):  # the epoch is over: repeat its beginning
            again = _Draws(self, live.epoch, [self._zero()], 0).read(position % live.length, 1, 1)
            out = mix_sources.joined([out, self._items_of(live.epoch, *again)])
        return out

    @property
    def _at_once(self) -> int:  # type: ignore[override]
        """The more ranks, the fewer items, because each rank draws those of all."""
        return min(max(_MARK // self.world_size, 1024), 4096) if self._has_indices else 1

    def _fill(self, out: Any, live: sampler_base.Iteration, taken: int) -> None:
        as_int64(out)[:] = self._some(live, taken, len(out))

    def _fill_some(self, out: Any, live: sampler_base.Iteration, taken: int) -> int:
        """Stops after the draws of a mark, so that the first item does not wait for those of many ranks."""
        return super()._fill_some(as_int64(out)[: max(_MARK // live.world_size, 1)], live, taken)

    def _draws_at(self, live: sampler_base.Iteration, position: int) -> _Draws:
        """The draws of an iteration, at or before `position`."""
        if self._latest_draws is None or self._latest_draws[0] is not live or self._latest_draws[1].position > position:
            self._latest_draws = live, _Draws(self, live.epoch, live.marks, position)
        return self._latest_draws[1]

    def _items_of(self, epoch: int, sources: NDArray[numpy.int64], numbers: NDArray[numpy.int64]) -> Any:
        """The items whose sources, and numbers in these sources, are given."""
        out: Any = numpy.empty(len(sources), numpy.int64) if self._has_indices else [None] * len(sources)
        by_source = numpy.argsort(sources, kind="stable")
        ends = numpy.cumsum(numpy.bincount(sources)).tolist()
        for source, (start, end) in enumerate(itertools.pairwise([0, *ends])):
            if start == end:
                continue
            mine, offset = by_source[start:end], self._sources[source].offset
            items = self._numbered(source, epoch, numbers[mine])
            if self._has_indices:
                out[mine] = items + offset
            else:
                for place, item in zip(mine.tolist(), items):
                    out[place] = mix_sources.shifted(item, offset)
        return out

    def _numbered(self, source: int, epoch: int, numbers: NDArray[numpy.int64]) -> Any:
        """The items of a source at ascending numbers, which count on when the source begins again. Its round r in epoch
        e has the order of its epoch e + r * 2**32."""
        sampler = self._sources[source].sampler
        rounds = numbers // sampler._length
        starts = [0, *(numpy.flatnonzero(rounds[1:] != rounds[:-1]) + 1).tolist(), len(numbers)]
        parts = []
        for start, end in itertools.pairwise(starts):
            turn = int(rounds[start])
            number = (epoch + (turn << 32)) % sampler_base.MOST_EPOCHS
            parts.append(mix_sources.items_at(sampler, number, numbers[start:end] - turn * sampler._length))
        return mix_sources.joined(parts)

    # ---- The state ----

    def _state(self, taken: SupportsIndex | None = None) -> dict[str, Any]:
        state = super()._state(taken)
        if self._live is None and taken is None:
            mark = self._mark if self._first else self._zero()
        else:
            live, position = self._latest(), state["consumed"] - state["consumed"] % _MARK
            with self._lock:
                mark = _mark_before(live.marks, position)
                if mark[0] < position:
                    mark = _Draws(self, live.epoch, live.marks, position).run_to(position)
        return {
            **state,
            "drawn": list(mark[1]),
            "behind": list(mark[2]),
            **self._weights.state(state["epoch"], mark[0]),
        }

    def _identity(self) -> dict[str, Any]:
        own = {"by": self.by, "until": self._until, "sources": [source.sampler._length for source in self._sources]}
        return {**super()._identity(), **own, "orders": list(self._orders)}

    def _checked_state(self, state: dict[str, Any]) -> tuple[int, int]:
        own = self._identity()
        for name, noun in (("sources", "records"), ("orders", "orders or lengths (their checksum)")):
            saved = state.get(name)
            if state.get("kind") != "recstore.torch.MixSampler" or not isinstance(saved, list):
                break
            if len(saved) != len(own[name]):
                raise ValueError(f"the state is of {len(saved)} sources, but this MixSampler has {len(own[name])}")
            for number, (before, now) in enumerate(zip(saved, own[name])):
                if before != now:
                    raise ValueError(f"source {number} had other {noun} in the state: {before!r:.60}, now {now!r:.60}")
        epoch, consumed = super()._checked_state(state)
        drawn: Any = state.get("drawn")
        behind: Any = state.get("behind")
        if not (_are_ints(drawn, len(self._sources)) and _are_ints(behind, len(self._sources))):
            raise ValueError(f"the state does not say how many records of each source are drawn: {drawn!r:.60}")
        position = sum(drawn)
        mark: Mark = position, list(drawn), list(behind)
        self._check_mark(mark, consumed)
        self._weights.load(state, epoch, position)
        self._mark = mark
        return epoch, consumed

    def _check_mark(self, mark: Mark, consumed: int) -> None:
        position, drawn, behind = mark
        possible = position == consumed - consumed % _MARK and sum(behind) == 0 and max(map(abs, behind)) < _BEHIND
        for count, source in zip(drawn, self._sources):
            possible = possible and 0 <= count <= (source.sampler._length if isinstance(self._until, str) else NEVER)
        if not possible:
            raise ValueError(f"the state has {drawn!r:.60} records of the sources, of {consumed} together")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_latest_draws": None, "_lock": None}  # made again

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        place = "" if self._place is None else f", rank={self._place[0]}, world_size={self._place[1]}"
        mix = f"{len(self._sources)} sources by {self.by}, until={self._until!r}"
        return f"MixSampler({mix}, seed={self.seed}{place}, epoch={self._epoch})"


class _Draws:
    """The draws of an epoch, from one of `marks` on. Adds marks as they come."""

    def __init__(self, mix: MixSampler, epoch: int, marks: list[Mark], position: int) -> None:
        self._mix, self._epoch, self._marks = mix, epoch, marks
        self.position, drawn, behind = _mark_before(marks, position)
        key = native.mixed(native.permutation_seed(mix.seed ^ _JITTER, epoch))
        self._native = native.Mixing([native.mixed(native.permutation_seed(key, k)) for k in range(len(drawn))])
        for source, state in enumerate(zip(drawn, behind)):
            self._native.restore(source, *state, 0)
        self._empty = [0] * len(drawn)  # the latest records of each source, if none of them has a token
        self._set_weights()

    def read(self, first: int, step: int, count: int) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """`(sources, numbers)` of the items at the positions first, first + step, ...: for each one its source and its
        number in that source. `first` is not before `self.position`."""
        sources, numbers = numpy.empty(count, numpy.int64), numpy.empty(count, numpy.int64)
        got, target = 0, first + step * (count - 1) + 1
        while got < count:
            self._run(target, first + got * step - self.position, step, sources[got:], numbers[got:])
            got = max(-(-(self.position - first) // step), 0)
        return sources, numbers

    def run_to(self, position: int) -> Mark:
        """The state of the draws at `position`."""
        nothing = numpy.empty(0, numpy.int64)
        while self.position < position:
            self._run(position, position, 1, nothing, nothing)
        return self._mark()

    def _run(self, target: int, skip: int, step: int, sources: Any, numbers: Any) -> None:
        """Draws towards `target`, up to a mark, a change of weights or the end of the known items of a source."""
        change = self._mix._weights.following(self._epoch, self.position)
        stop = min(target, self.position - self.position % _MARK + _MARK, change)
        drawn, ended = self._native.run(stop - self.position, skip, step, sources, numbers)
        if drawn == 0:
            raise RuntimeError(f"the sources have no record for position {self.position} of epoch {self._epoch}")
        self.position += drawn
        if ended >= 0:
            self._extend(ended)
        if self.position == change:
            self._set_weights()
        if self.position % _MARK == 0:
            _add_mark(self._marks, self._mark())

    def _mark(self) -> Mark:
        states = [self._native.at(source) for source in range(len(self._mix._sources))]
        return self.position, [drawn for drawn, _, _ in states], [behind for _, behind, _ in states]

    def _end(self, source: int) -> int:
        """The number of items that the epoch has of a source."""
        return self._mix._sources[source].sampler._length if isinstance(self._mix._until, str) else NEVER

    def _set_weights(self) -> None:
        """Sets the weights at this position; an exhausted source has none."""
        mix = self._mix
        states = [self._native.at(source) for source in range(len(mix._sources))]
        weights = mix._weights.at(self._epoch, self.position)
        lasting = [weight if state[0] < self._end(k) else 0.0 for k, (weight, state) in enumerate(zip(weights, states))]
        self._shares = _shares(lasting)
        for source, (share, (drawn, behind, end)) in enumerate(zip(self._shares, states)):
            self._native.restore(source, drawn, behind, share)
            if share and end <= drawn:
                self._extend(source)

    def _extend(self, source: int) -> None:
        """Looks up the lengths of the next items of a source, or ends it."""
        drawn, _, _ = self._native.at(source)
        end, lengths = self._end(source), self._mix._sources[source].lengths
        if drawn >= end:
            self._set_weights()
        elif isinstance(lengths, int):
            self._native.limit(source, end, lengths)
        else:
            end = min(end, drawn + min(_CHUNK[0] + self._shares[source] * _MARK // native.MIXING_WHOLE, _CHUNK[1]))
            items = self._mix._numbered(source, self._epoch, numpy.arange(drawn, end))
            column = mix_sources.looked_up(lengths, items, source)
            self._empty[source] = 0 if column.any() else self._empty[source] + len(column)
            n = self._mix._sources[source].sampler._length
            if self._end(source) == NEVER and self._empty[source] >= min(_MOST_EMPTY, n):
                raise ValueError(
                    f"source {source}: {self._empty[source]} records in a row have no tokens, so no number of draws "
                    'reaches its share: leave it out, or mix by="records"'
                )
            self._native.limit(source, end, column)


def _shares(weights: list[float]) -> list[int]:
    """The weights in units of 1 / native.MIXING_WHOLE, which sum to that; a weight above 0 gets at least one unit."""
    total, whole = math.fsum(weights), native.MIXING_WHOLE
    out = [max(int(weight / total * whole), 1) if weight else 0 for weight in weights]
    if total:
        out[out.index(max(out))] += whole - sum(out)
    return out


def _mark_before(marks: list[Mark], position: int) -> Mark:
    """The last mark at or before a position."""
    return marks[bisect.bisect_right(marks, position, key=lambda mark: mark[0]) - 1]


def _add_mark(marks: list[Mark], mark: Mark) -> None:
    """Adds a mark. Of many marks, drops every other one before the latest, so that they lie further apart the older
    they are."""
    if _mark_before(marks, mark[0])[0] != mark[0]:
        bisect.insort(marks, mark, key=lambda one: one[0])
        if len(marks) > _MOST_MARKS:
            del marks[1:-_LATEST_MARKS:2]


def _are_ints(values: object, n: int) -> bool:
    return isinstance(values, list) and len(values) == n and all(type(value) is int for value in values)
