"""Steps: the batches of a Loader over all epochs of a run, for trainers that count steps."""

from __future__ import annotations

from typing import Generic, TypeVar

from recstore.lazy_names import named_arguments
from recstore.torch import places
from recstore.torch.loader import Loader
from recstore.torch.sampler_base import EpochSampler

__all__ = ["Steps"]

B = TypeVar("B")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, SupportsIndex


class Steps(Generic[B]):
    """The batches of a Loader over all epochs of a run, for a trainer that counts steps.

    Args:
        loader: a :class:`Loader` over a sampler of this package. It has the number of the epoch.
        steps: the number of batches of the run on each rank. None: without an end; ``len()`` is then a TypeError.

    torchtitan, Lightning and the Hugging Face Trainer compute the epoch of a run from its steps, which is wrong once
    the number of ranks changes. So trainers cannot set the epoch here: it is part of the state. A run may resume on
    another number of ranks, with another batch size, or with more steps.

    Raises TypeError for another loader or sampler, ValueError for `steps` below 1 and, in the loop, for a sampler
    without a batch. One iteration at a time.

    >>> from recstore import RecordList
    >>> from recstore.torch import Loader, Steps
    >>> [len(batch) for batch in Steps(Loader(RecordList(range(5)), batch_size=2), steps=4)]
    [2, 2, 1, 2]
    """

    @named_arguments
    def __init__(self, loader: Loader[B], steps: SupportsIndex | None = None) -> None:
        if not isinstance(loader, Loader):
            raise TypeError(f"Steps takes a recstore.torch.Loader, not {type(loader).__name__}")
        samplers = [s for s in (loader.sampler, loader.batch_sampler) if isinstance(s, EpochSampler)]
        if not samplers:
            raise TypeError("Steps takes a Loader over a sampler of recstore.torch, which has epochs and a state")
        self.loader, self._sampler = loader, samplers[0]
        self.steps = None if steps is None else places.at_least(1, steps, "steps")
        self._taken = 0

    def __len__(self) -> int:
        """The number of steps of the run. Raises TypeError without `steps`."""
        if self.steps is None:
            raise TypeError("these Steps have no length: give steps=")
        return self.steps

    def __iter__(self) -> Iterator[B]:
        """The batches that the run has not received yet."""
        empty = 0
        while self._taken != self.steps:
            empty += 1
            for batch in self.loader:
                empty = 0
                self._taken += 1
                yield batch
                if self._taken == self.steps:
                    return
            if empty == 2:  # one epoch may be empty: the rest of a resumed one
                raise ValueError("the sampler of these Steps yields no batch")
            self.loader.set_epoch(self._sampler.epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """The state of the loader after the latest batch that the loop received, and the number of steps."""
        return {**self.loader.state_dict(), "steps": self._taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes where the run that saved `state` stopped.

        Raises ValueError as :meth:`Loader.load_state_dict` does, and for a state without the steps, or with more than
        `steps`; TypeError if `state` is not a dict. Nothing changes then."""
        taken = state.get("steps") if isinstance(state, dict) else 0
        if type(taken) is not int or not 0 <= taken <= (taken if self.steps is None else self.steps):
            raise ValueError(f"the state has {taken!r:.60} steps; the run has {self.steps or 'no end'}")
        self.loader.load_state_dict(state)
        self._taken = taken

    def __repr__(self) -> str:
        return f"Steps({self.loader!r}, steps={self.steps})"
