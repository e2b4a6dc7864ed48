"""The base of the samplers: epochs, the share of a rank, and the state by which a run resumes.

An epoch is a sequence of items, of indices or of batches of indices. Its length does not depend on the ranks, and item
p is computed from p alone. In turn each rank takes an item: rank r takes items first + r, first + r + world_size and so
on, where the epoch is resumed at item `first`. So after as many steps on each rank, the items taken are the first ones
of the epoch, without gaps, and one number says how far a run has come on any number of ranks.
"""

from __future__ import annotations

import warnings
from typing import TypeVar

from torch.utils.data.distributed import DistributedSampler

from recstore._core import native
from recstore.torch import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, SupportsIndex

    from recstore.torch.shard_order import Legs

__all__ = ["EpochSampler", "IndexSampler"]

T = TypeVar("T")
VERSION = 1  # of the states that state_dict makes
MOST = 1 << 48
MOST_EPOCHS = 1 << 63
_MARK = "recstore.torch."


class Iteration:
    """The part of an epoch that one iteration on one rank takes."""

    __slots__ = ("epoch", "first", "rank", "world_size", "length", "count", "iterator", "_taken", "as_lists", "legs")

    def __init__(
        self, epoch: int, first: int, rank: int, world_size: int, length: int, drop_last: bool, as_lists: bool = False
    ) -> None:
        self.epoch, self.first, self.rank, self.world_size, self.length = epoch, first, rank, world_size, length
        self.count = share(length - first, world_size, drop_last)
        self._taken = 0
        self.iterator: native.IndexIterator | None = None
        self.as_lists = as_lists
        self.legs: Legs = ()  # of a ShardSampler

    @property
    def taken(self) -> int:
        """The items that this rank has taken."""
        return self._taken if self.iterator is None else self.iterator.taken

    @taken.setter
    def taken(self, taken: int) -> None:
        self._taken = taken

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """A copy of it has come as far; the iterator stays here."""
        return None, {name: None if name == "iterator" else getattr(self, name.lstrip("_")) for name in self.__slots__}

    def consumed(self, taken: int) -> int:
        """The items that all ranks have taken of the epoch when this one has taken so many."""
        return min(self.first + taken * self.world_size, self.length) if taken < self.count else self.length

    def position(self, taken: int) -> int:
        """The position in the epoch of the item that follows the first `taken` ones; past the end it counts on."""
        return self.first + self.rank + taken * self.world_size


def share(items: int, world_size: int, drop_last: bool) -> int:
    """How many of `items` a rank takes. Each takes as many: the last ones are dropped, or the first ones repeated."""
    return items // world_size if drop_last else -(-items // world_size)


class EpochSampler(DistributedSampler[T]):
    """A sampler of which each item is computed when it is taken, see the top of this file.

    A DistributedSampler by class, so that Lightning leaves it as it is; it has none of its list. A subclass has `_kind`
    and `__iter__` over the items of a Iteration that `_begin` makes."""

    seed: int
    shuffle: bool  # whether epochs have orders of their own
    drop_last: bool  # whether items that would not fill a turn of all ranks are left out
    _kind: str
    _unit = "samples"  # what an item is called

    def _set(
        self,
        length: int,
        seed: SupportsIndex,
        rank: SupportsIndex | None,
        world_size: SupportsIndex | None,
        drop_last: bool,
        shuffle: bool = True,
    ) -> None:
        """Fills the fields; `length` is the items of an epoch, before they are shared out."""
        for name, value in (("drop_last", drop_last), ("shuffle", shuffle)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} is True or False, not {value!r:.60}")
        self._place = places.checked(rank, world_size)
        self.seed = places.integer(seed, "seed")
        self._length = length
        self.drop_last, self.shuffle = drop_last, shuffle
        self._epoch = self._first = 0
        self._named = True  # whether set_epoch has named the epoch since a state was loaded
        self._pending = False  # whether a loaded state waits for its iteration
        self._live: Iteration | None = None

    # ---- As DistributedSampler has them ----

    # Attributes that may be set there, and here are found by what they depend on.
    @property
    def rank(self) -> int:  # type: ignore[override]
        """The rank whose share this sampler gives."""
        return (self._place or places.found())[0]

    @property
    def world_size(self) -> int:
        """The number of ranks. Those not given to the constructor are looked up at each use."""
        return (self._place or places.found())[1]

    num_replicas = world_size

    @property
    def epoch(self) -> int:  # type: ignore[override]
        """The epoch whose order the next iteration has."""
        return self._epoch

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """The items of all ranks together."""
        return len(self) * self.world_size

    def __len__(self) -> int:
        """The items of a whole epoch on this rank. A resumed iteration gives the rest of them."""
        return share(self._length, self.world_size, self.drop_last)

    num_samples = property(__len__)

    def set_epoch(self, epoch: int) -> None:
        """Names the epoch whose order the next iteration has. An iteration under way keeps its order.

        Raises TypeError and ValueError for an epoch that is no integer from 0 on, and ValueError for one before the
        epoch of a state that was loaded and not yet iterated."""
        epoch = places.integer(epoch, "epoch")
        if not 0 <= epoch < MOST_EPOCHS:
            raise ValueError(f"epochs count from 0 to 2**63: {epoch}")
        if self._pending and epoch < self._epoch and self._first > 0:
            raise ValueError(
                f"set_epoch({epoch}) after a state of epoch {self._epoch} was loaded: the run would not go on where it "
                f"stopped. Begin the loop at epoch {self._epoch} (with accelerate, loader.set_epoch({self._epoch}))"
            )
        self._named = True
        if epoch != self._epoch:
            self._epoch, self._first, self._live, self._pending = epoch, 0, None, False

    # ---- Iterations ----

    def _begin(self) -> Iteration:
        """The Iteration of an iteration that takes its first item now."""
        rank, world_size, sharer = places.at_iteration(self, self._place)
        if getattr(sharer, "batch_sampler", self) is None:  # accelerate finds set_epoch of batch samplers alone
            self.set_epoch(sharer.iteration)
        if not self._first and not self._pending:
            self._check_resumed()
        if not self._named and share(self._length - self._first, world_size, self.drop_last) == 0:
            self._epoch, self._first = self._epoch + 1, 0  # the loaded state was the end of its epoch
        live = self._live = Iteration(
            self._epoch, self._first, rank, world_size, self._length, self.drop_last, as_lists=sharer is not None
        )
        self._first, self._named, self._pending = 0, True, False
        return live

    def _check_resumed(self) -> None:
        """Warns where Lightning goes on in the middle of an epoch and nobody has loaded the state of this sampler."""
        if places.lightning_goes_on():
            warnings.warn(
                f"Lightning goes on in the middle of an epoch, and this {type(self).__name__} begins the epoch anew, "
                "as nobody has loaded its state: samples come twice, and others never. Take recstore.torch.Loader, a "
                "StatefulDataLoader or the callback of docs/samplers.md",
                UserWarning,
                stacklevel=3,
            )

    def _key(self, epoch: int) -> int | None:
        """The 64-bit seed of an epoch, or None for one in the order of the records."""
        return native.permutation_seed(self.seed, epoch) if self.shuffle else None

    # ---- The state ----

    def _identity(self) -> dict[str, Any]:
        """The facts that two samplers must have in common for one to go on where the other stopped."""
        return {"length": self._length, "seed": self.seed & 0xFFFFFFFFFFFFFFFF, "shuffle": self.shuffle}

    def _latest(self) -> Iteration:
        """The Iteration of the latest iteration; before the first one, the Iteration that it would have."""
        if self._live is not None:
            return self._live
        return Iteration(self._epoch, self._first, *(self._place or places.found()), self._length, self.drop_last)

    def _state(self, taken: SupportsIndex | None = None) -> dict[str, Any]:
        if self._live is None and taken is None:
            consumed = self._first
        else:
            live = self._latest()
            taken = live.taken if taken is None else places.integer(taken, self._unit)
            if not 0 <= taken <= live.count:
                what = f"{self._unit} of this rank in the iteration"
                raise ValueError(f"{self._unit}={taken} is out of range: there are {live.count} {what}")
            consumed = live.consumed(taken)
        state = {"kind": _MARK + self._kind, "version": VERSION, **self._identity()}
        return {**state, "epoch": self._epoch, "consumed": consumed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the run stopped whose sampler made this state; takes constant time.

        Args:
            state: of ``state_dict()``; or the state of a StatefulDataLoader over such a sampler, in which it is found,
                whatever number of workers that loader had.

        The next iteration gives the rest of the epoch, on any number of ranks. A state from the end of an epoch goes on
        with the next epoch, unless ``set_epoch`` names the ended one: then nothing is left of it.

        Raises ValueError for a state of another sampler, length or seed, of a later version, or without the needed
        fields, TypeError for one that is no dict. Nothing changes then."""
        state = own_state(state)
        epoch, consumed = self._checked_state(state)
        self._epoch, self._first, self._live = epoch, consumed, None
        self._named, self._pending = False, True

    def _checked_state(self, state: dict[str, Any]) -> tuple[int, int]:
        if state.get("kind") != _MARK + self._kind:
            theirs = str(state.get("kind"))
            raise ValueError(
                f"the state is of {theirs!r:.60}, and this is a {self._kind}: load it into one of its kind"
            )
        if state.get("version") != VERSION:
            raise ValueError(f"a state of version {state.get('version')!r:.60}; this recstore reads version {VERSION}")
        for name, mine in self._identity().items():
            if name not in state or state[name] != mine or type(state[name]) is not type(mine):
                theirs = state.get(name, "none")
                raise ValueError(f"the state has {name} {theirs!r:.60}, this {self._kind} has {mine!r:.60}")
        epoch, consumed = state.get("epoch"), state.get("consumed")
        most = MOST_EPOCHS - 2  # the end of the last epoch leads to one more
        if not (type(epoch) is int and 0 <= epoch <= most and type(consumed) is int and 0 <= consumed <= self._length):
            raise ValueError(f"the state has epoch {epoch!r:.60} and {consumed!r:.60} items of {self._length}")
        return epoch, consumed


def own_state(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a sampler, found in `state` if that is the state of a StatefulDataLoader."""
    if not isinstance(state, dict):
        raise TypeError(f"a state is a dict, as state_dict() makes it, not {type(state).__name__}")
    if str(state.get("kind", "")).startswith(_MARK):
        return state
    if state.get("_steps_since_snapshot"):
        raise ValueError(
            "the state of the StatefulDataLoader is some batches old: make the loader with snapshot_every_n_steps=1, "
            "or load the state into a loader like the one that made it"
        )
    left, seen = [state], set()
    while left:
        found = left.pop()
        if str(found.get("kind", "")).startswith(_MARK):
            return found
        seen.add(id(found))
        left.extend(value for value in found.values() if isinstance(value, dict) and id(value) not in seen)
    raise ValueError("the dict holds no state of a sampler of recstore.torch: give what state_dict() returned")


class IndexSampler(EpochSampler[int]):
    """An EpochSampler whose items are indices."""

    def _fill(self, out: Any, live: Iteration, taken: int) -> None:
        """Writes the indices of the Iteration `live` that follow the first `taken` ones."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        """The indices of this rank, as ints. The iteration belongs to the epoch that is set when it gives its first
        one. One thread at a time may use it."""

        def begin() -> tuple[Callable[[Any, int], None], int]:
            live = self._begin()
            live.iterator = iterator
            return (lambda out, taken: self._fill(out, live, taken)), live.count

        iterator = native.IndexIterator(begin)
        return iterator

    def state_dict(self, samples: SupportsIndex | None = None) -> dict[str, Any]:
        """The state of the latest iteration as a dict of ints and strs; it counts the samples consumed by all ranks.

        Args:
            samples: how many samples of the iteration this rank's loop has consumed. None: those that the iterator has
                given. A DataLoader with workers asks for more than the loop has seen, so there give the number.

        Raises TypeError for a number that is no integer, ValueError for one that the iteration does not have."""
        return self._state(samples)
