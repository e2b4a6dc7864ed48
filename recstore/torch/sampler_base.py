"""The base of the samplers: epochs, the share of a rank, and the state that a run resumes from.

An epoch is a sequence of items: indices, or batches of indices. Its length does not depend on the ranks, and item p is
computed from p alone. The ranks take turns: in an epoch resumed at item `first`, rank r takes items first + r,
first + r + world_size and so on. (A ShardSampler deals the items of a turn by lane.) When all ranks have taken the same
number of steps, the items taken are the first ones of the epoch, without gaps. So one number is the position of a run,
on any number of ranks.
"""

from __future__ import annotations

import warnings
from typing import TypeVar

from torch.utils.data.distributed import DistributedSampler

from recstore._core import native
from recstore.torch import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, SupportsIndex

    import numpy as np
    from numpy.typing import NDArray

    from recstore.torch.mixing import Mark
    from recstore.torch.shard_order import Legs

__all__ = ["EpochSampler", "IndexSampler", "ItemSampler"]

T = TypeVar("T")
VERSION = 1  # the version of the states that state_dict makes
MOST = 1 << 48
MOST_EPOCHS = 1 << 63
_KIND_PREFIX = "recstore.torch."


class Iteration:
    """One rank's part of an epoch, from one call of iter()."""

    __slots__ = (
        "epoch",
        "first",
        "rank",
        "world_size",
        "length",
        "count",
        "iterator",
        "_taken",
        "as_lists",
        "legs",
        "marks",
    )

    def __init__(
        self, epoch: int, first: int, rank: int, world_size: int, length: int, drop_last: bool, as_lists: bool = False
    ) -> None:
        self.epoch, self.first, self.rank, self.world_size, self.length = epoch, first, rank, world_size, length
        self.count = share(length - first, world_size, drop_last)
        self._taken = 0
        self.iterator: native.IndexIterator | None = None
        self.as_lists = as_lists
        self.legs: Legs = ()  # the legs of an epoch of a ShardSampler
        self.marks: list[Mark] = []  # the marks of an epoch of a MixSampler

    @property
    def taken(self) -> int:
        """The number of items that this rank has taken."""
        return self._taken if self.iterator is None else self.iterator.taken

    @taken.setter
    def taken(self, taken: int) -> None:
        self._taken = taken

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """A copy has the same position, without the iterator."""
        return None, {name: None if name == "iterator" else getattr(self, name.lstrip("_")) for name in self.__slots__}

    def consumed(self, taken: int) -> int:
        """The number of items that all ranks together have taken when this rank has taken `taken` items."""
        return min(self.first + taken * self.world_size, self.length) if taken < self.count else self.length

    def position(self, taken: int) -> int:
        """The position in the epoch of this rank's item number `taken`; it may be past the end of the epoch."""
        return self.first + self.rank + taken * self.world_size


def share(items: int, world_size: int, drop_last: bool) -> int:
    """The number of items that each rank takes. The last items are dropped, or some are repeated, so that all ranks
    take the same number."""
    return items // world_size if drop_last else -(-items // world_size)


class EpochSampler(DistributedSampler[T]):
    """A sampler that computes each item when it is taken; see the top of this file.

    It subclasses DistributedSampler so that Lightning does not replace it, but holds no list. A subclass defines
    `_kind`, and an `__iter__` over the items of the Iteration that `_begin` makes."""

    seed: int
    shuffle: bool  # whether each epoch has a new order
    drop_last: bool  # whether to drop the last items if they are fewer than the ranks
    _kind: str
    _unit = "samples"  # the name of the items
    _yields_batches = False  # whether an item is a batch of indices

    def _set(
        self,
        length: int,
        seed: SupportsIndex,
        rank: SupportsIndex | None,
        world_size: SupportsIndex | None,
        drop_last: bool,
        shuffle: bool = True,
    ) -> None:
        """Sets the attributes; `length` is the number of items of an epoch over all ranks."""
        for name, value in (("drop_last", drop_last), ("shuffle", shuffle)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, not {value!r:.60}")
        self._place = places.checked(rank, world_size)
        self.seed = places.integer(seed, "seed")
        self._length = length
        self.drop_last, self.shuffle = drop_last, shuffle
        self._epoch = self._first = 0
        self._epoch_set = True  # False from load_state_dict to the next set_epoch or iteration
        self._pending = False  # whether a state was loaded and not iterated yet
        self._live: Iteration | None = None

    # ---- The interface of DistributedSampler, whose attributes are read-only properties here ----

    @property
    def rank(self) -> int:  # type: ignore[override]
        """The rank whose share this sampler yields."""
        return (self._place or places.current())[0]

    @property
    def world_size(self) -> int:
        """The number of ranks. If the constructor did not get the number, it is looked up at each use."""
        return (self._place or places.current())[1]

    num_replicas = world_size

    @property
    def epoch(self) -> int:  # type: ignore[override]
        """The epoch of the next iteration."""
        return self._epoch

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """The number of items of all ranks together."""
        return len(self) * self.world_size

    def __len__(self) -> int:
        """The number of items of a whole epoch on this rank. A resumed iteration has fewer."""
        return share(self._length, self.world_size, self.drop_last)

    num_samples = property(__len__)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration. An iteration in progress keeps its order.

        Raises TypeError for an epoch that is not an integer. Raises ValueError for an epoch out of range, or before
        that of a loaded state from mid-epoch that was not iterated yet."""
        epoch = places.integer(epoch, "epoch")
        if not 0 <= epoch < MOST_EPOCHS:
            raise ValueError(f"epoch must be from 0 to 2**63 - 1, not {epoch}")
        if self._pending and epoch < self._epoch and self._first > 0:
            raise ValueError(
                f"set_epoch({epoch}) after a state of epoch {self._epoch} was loaded: the run would not resume where "
                f"it stopped. Begin the loop at epoch {self._epoch} (with accelerate, loader.set_epoch({self._epoch}))"
            )
        self._epoch_set = True
        if epoch != self._epoch:
            self._epoch, self._first, self._live, self._pending = epoch, 0, None, False

    # ---- Iterations ----

    def _begin(self) -> Iteration:
        """A new Iteration. Called when its first item is drawn."""
        rank, world_size, owner = places.at_iteration(self, self._place)
        if getattr(owner, "batch_sampler", self) is None:  # accelerate calls set_epoch of batch samplers only
            self.set_epoch(owner.iteration)
        if not self._first and not self._pending:
            self._check_resumed()
        if not self._epoch_set and share(self._length - self._first, world_size, self.drop_last) == 0:
            self._epoch, self._first = self._epoch + 1, 0  # the loaded state was the end of its epoch
        live = self._live = Iteration(
            self._epoch, self._first, rank, world_size, self._length, self.drop_last, as_lists=owner is not None
        )
        self._first, self._epoch_set, self._pending = 0, True, False
        return live

    def _check_resumed(self) -> None:
        """Warns if Lightning resumes in the middle of an epoch and nothing has loaded the state of this sampler."""
        if places.lightning_resumes():
            warnings.warn(
                f"Lightning resumes in the middle of an epoch, but the state of this {type(self).__name__} was not "
                "loaded, so it begins the epoch again: some samples come twice and others never. Use "
                "recstore.torch.Loader, a StatefulDataLoader or the callback in docs/samplers.md",
                UserWarning,
                stacklevel=3,
            )

    def _key(self, epoch: int) -> int | None:
        """The 64-bit seed of an epoch, or None if the sampler does not shuffle."""
        return native.permutation_seed(self.seed, epoch) if self.shuffle else None

    # ---- The state ----

    def _identity(self) -> dict[str, Any]:
        """The values that must be the same in a sampler and in a state that it resumes from."""
        return {"length": self._length, "seed": self.seed & 0xFFFFFFFFFFFFFFFF, "shuffle": self.shuffle}

    def _latest(self) -> Iteration:
        """The latest Iteration; before the first one, the Iteration that would begin now."""
        if self._live is not None:
            return self._live
        return Iteration(self._epoch, self._first, *(self._place or places.current()), self._length, self.drop_last)

    def _state(self, taken: SupportsIndex | None = None) -> dict[str, Any]:
        if self._live is None and taken is None:
            consumed = self._first
        else:
            live = self._latest()
            taken = live.taken if taken is None else places.integer(taken, self._unit)
            if not 0 <= taken <= live.count:
                raise ValueError(
                    f"{self._unit}={taken} is out of range: this rank's iteration has {live.count} {self._unit}"
                )
            consumed = live.consumed(taken)
        state = {"kind": _KIND_PREFIX + self._kind, "version": VERSION, **self._identity()}
        return {**state, "epoch": self._epoch, "consumed": consumed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes where the run that saved `state` stopped. Takes constant time.

        Args:
            state: the result of ``state_dict()``, or the state of a StatefulDataLoader over a sampler like this one,
                with any number of workers.

        The next iteration yields the rest of the epoch, on any number of ranks. A state from the end of an epoch
        resumes with the next epoch. If ``set_epoch`` then sets the finished epoch, the iteration is empty.

        Raises ValueError for a state of another kind of sampler, length, seed or version, or without all fields;
        TypeError for a state that is not a dict. The sampler is unchanged then."""
        state = own_state(state)
        epoch, consumed = self._checked_state(state)
        self._epoch, self._first, self._live = epoch, consumed, None
        self._epoch_set, self._pending = False, True

    def _checked_state(self, state: dict[str, Any]) -> tuple[int, int]:
        if state.get("kind") != _KIND_PREFIX + self._kind:
            raise ValueError(f"the state is of {str(state.get('kind'))!r:.60}, but this is a {self._kind}")
        if state.get("version") != VERSION:
            raise ValueError(
                f"the state has version {state.get('version')!r:.60}; this recstore reads version {VERSION}"
            )
        for name, own in self._identity().items():
            if name not in state or state[name] != own or type(state[name]) is not type(own):
                saved = state.get(name, "none")
                raise ValueError(f"the state has {name} {saved!r:.60}, this {self._kind} has {own!r:.60}")
        epoch, consumed = state.get("epoch"), state.get("consumed")
        last = MOST_EPOCHS - 2  # a state from the end of an epoch resumes with the next one
        if not (type(epoch) is int and 0 <= epoch <= last and type(consumed) is int and 0 <= consumed <= self._length):
            raise ValueError(f"the state has epoch {epoch!r:.60} and {consumed!r:.60} items of {self._length}")
        return epoch, consumed


def own_state(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a sampler: `state` itself, or that part of a StatefulDataLoader's state."""
    if not isinstance(state, dict):
        raise TypeError(f"a state must be a dict that state_dict() returned, not {type(state).__name__}")
    if str(state.get("kind", "")).startswith(_KIND_PREFIX):
        return state
    if state.get("_steps_since_snapshot"):
        raise ValueError(
            "the state of the StatefulDataLoader is some batches old: make the loader with snapshot_every_n_steps=1, "
            "or load the state into a loader like the one that saved it"
        )
    to_search, seen = [state], set()
    while to_search:
        part = to_search.pop()
        if str(part.get("kind", "")).startswith(_KIND_PREFIX):
            return part
        seen.add(id(part))
        to_search.extend(value for value in part.values() if isinstance(value, dict) and id(value) not in seen)
    raise ValueError("the dict does not hold the state of a sampler of recstore.torch: pass what state_dict() returned")


class ItemSampler(EpochSampler[T]):
    """An EpochSampler whose items BatchSampler can join into batches."""

    _at_once = 1  # the items that BatchSampler makes at once, if batches have fewer

    def _items(self, epoch: int, first: int, n: int) -> Sequence[T] | NDArray[np.int64]:
        """The `n` items of an epoch from position `first` on, before ranks divide them."""
        raise NotImplementedError

    def _some(self, live: Iteration, taken: int, n: int) -> Sequence[T] | NDArray[np.int64]:
        """This rank's `n` items of an iteration from number `taken` on."""
        positions = (live.position(number) % live.length for number in range(taken, taken + n))
        return [item for position in positions for item in self._items(live.epoch, position, 1)]

    def __iter__(self) -> Iterator[T]:
        """The items of this rank. The epoch is fixed when the first one is drawn. One thread at a time may use the
        iterator."""
        live = self._begin()
        for taken in range(live.count):
            [item] = self._items(live.epoch, live.position(taken) % live.length, 1)
            live.taken = taken + 1
            yield item

    def state_dict(self, samples: SupportsIndex | None = None) -> dict[str, Any]:
        """The state of the latest iteration as a small dict. It counts the samples consumed by all ranks.

        Args:
            samples: how many samples of the iteration this rank's loop has consumed. None: as many as the iterator has
                yielded. A DataLoader with workers draws more than the loop has seen, so pass the number there.

        Raises TypeError if `samples` is not an integer, ValueError if it is negative or the iteration has fewer."""
        return self._state(samples)


class IndexSampler(ItemSampler[int]):
    """An EpochSampler whose items are indices."""

    _at_once = 4096  # 32 KiB

    def _fill(self, out: Any, live: Iteration, taken: int) -> None:
        """Writes the indices of `live` to `out`, from number `taken` on."""
        raise NotImplementedError

    def _fill_some(self, out: Any, live: Iteration, taken: int) -> int:
        """As _fill, but may stop early. Returns the number of indices."""
        self._fill(out, live, taken)
        return len(out)

    def _some(self, live: Iteration, taken: int, n: int) -> NDArray[np.int64]:
        import numpy

        out = numpy.empty(n, numpy.int64)
        self._fill(out, live, taken)
        return out

    def _items(self, epoch: int, first: int, n: int) -> NDArray[np.int64]:
        """The `n` indices of an epoch from position `first` on, before ranks divide them."""
        import numpy

        out = numpy.empty(n, numpy.int64)
        self._fill(out, Iteration(epoch, 0, 0, 1, self._length, False), first)
        return out

    def __iter__(self) -> Iterator[int]:
        """The indices of this rank, as ints. The epoch is fixed when the first index is drawn. One thread at a time may
        use the iterator."""

        def begin() -> tuple[Callable[[Any, int], int], int]:
            live = self._begin()
            live.iterator = iterator
            return (lambda out, taken: self._fill_some(out, live, taken)), live.count

        iterator = native.IndexIterator(begin)
        return iterator
