"""Samplers that hold no list of indices: a shuffled order computed on the fly, and batches of indices made in C."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from torch.utils.data import BatchSampler as _TorchBatchSampler
from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from recstore._core import native
from recstore.lazy_names import named_arguments
from recstore.torch import places, sampler_base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sized
    from typing import SupportsIndex

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

__all__ = ["BatchSampler", "ShuffleSampler"]


class ShuffleSampler(sampler_base.IndexSampler):
    """The indices 0 to n - 1 in a shuffled order that is computed on the fly; the memory does not depend on n.

    Args:
        n: the number of records, or anything with ``len()``, such as a RecordList or a dataset.
        seed: an integer. Epoch 0 has the order of ``x.shuffled(seed)``, the keyed permutation "feistel-1". Epoch e has
            the seed ``seed + mix(e)`` modulo 2**64, where mix is the finalizer of SplitMix64.
        rank, world_size: this sampler's rank and the number of ranks; both or neither. None: the values of
            torch.distributed if it is initialized, else the variables RANK and WORLD_SIZE of torchrun, else 0 and 1.
            They are looked up when they are needed. Under accelerate with several processes they are 0 and 1, since
            ``accelerator.prepare`` divides the batches.
        drop_last: if n is not a multiple of world_size, drop the last indices. False: repeat the first ones, so that
            all ranks have the same number. DistributedSampler does the same.
        shuffle: False: the records in their own order.
        by_node: whether each record stays on one node in all epochs, so that a :func:`recstore.cache` of each node
            needs only its part of the records. The seed fixes the parts, whose lengths differ by at most 1. In each
            epoch the ranks of a node share its part in a new order. All nodes must have the same number of ranks,
            numbered consecutively on each node.
        nodes: the number of nodes for `by_node`, the same on all ranks. None: GROUP_WORLD_SIZE of torchrun or
            SLURM_STEP_NUM_NODES of srun, whichever started world_size ranks.

    Each rank takes every world_size-th index, so each index comes once over all ranks. ``state_dict`` counts the
    samples consumed by all ranks, so a run may resume with another number of ranks or workers, or another batch size.
    With `by_node` the number of nodes must stay the same, but the number of ranks of a node may change.

    Raises TypeError for an argument of a wrong type (a bool is not an integer), ValueError for an argument out of
    range, for ranks or records that the nodes cannot share, and for `by_node` if the number of nodes is unknown, or
    under accelerate. One thread at a time may iterate; the other methods are thread-safe.

    >>> from recstore.torch import ShuffleSampler
    >>> sampler = ShuffleSampler(6, seed=3, rank=0, world_size=2)
    >>> list(sampler)
    [0, 5, 1]
    >>> iterator = iter(sampler)
    >>> next(iterator)
    0
    >>> later = ShuffleSampler(6, seed=3, rank=0, world_size=1)
    >>> later.load_state_dict(sampler.state_dict())
    >>> list(later)
    [5, 2, 1, 3]
    >>> sampler = ShuffleSampler(6, seed=3, rank=1, world_size=2, by_node=True, nodes=2)
    >>> first = list(sampler)
    >>> sampler.set_epoch(1)
    >>> first, list(sampler)
    ([0, 5, 1], [1, 0, 5])
    """

    _kind = "ShuffleSampler"

    @named_arguments
    def __init__(
        self,
        n: SupportsIndex | Sized,
        seed: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
        by_node: bool = False,
        nodes: SupportsIndex | None = None,
    ) -> None:
        if not isinstance(by_node, bool):
            raise TypeError(f"by_node must be True or False, not {by_node!r:.60}")
        if nodes is not None and not by_node:
            raise TypeError("nodes belongs to by_node=True")
        self.by_node = by_node
        self._nodes = None if nodes is None else places.at_least(1, nodes, "nodes")
        self._set(length_of(n), seed, rank, world_size, drop_last, shuffle)

    def _fill(self, out: Any, live: sampler_base.Iteration, taken: int) -> None:
        key, nodes = self._key(live.epoch), self._nodes_of(live.world_size)
        if live.length and nodes == 1:
            native.fill_permutation(out, live.length, key, live.position(taken), live.world_size)
        elif live.length:
            self._fill_part(out, live, taken, key, nodes)

    def _fill_part(self, out: Any, live: sampler_base.Iteration, taken: int, key: int | None, nodes: int) -> None:
        """Fills `out` from the part of this rank's node: a record belongs to the node whose number is the record's
        place in a fixed order, modulo `nodes`. All nodes have consumed the same number of records, so `first` is a
        multiple of `nodes`."""
        ranks = live.world_size // nodes
        node, rank = divmod(live.rank, ranks)
        part = sampler_base.share(live.length - node, nodes, drop_last=False)
        if live.length < nodes:  # on all nodes, so that none waits for another
            raise ValueError(f"{live.length:,} records cannot be divided among {nodes:,} nodes")
        native.fill_permutation(out, part, key, live.first // nodes + rank + taken * ranks, ranks)
        fixed_key = None if key is None else native.permutation_seed(self.seed, sampler_base.MOST_EPOCHS)
        native.spread_permutation(out, live.length, fixed_key, node, nodes)

    def _nodes_of(self, world_size: int) -> int:
        if not self.by_node:
            return 1
        if places.accelerate_processes() > 1:
            raise ValueError("accelerate deals whole batches to its ranks, so by_node cannot keep a record on one node")
        nodes = self._nodes or places.nodes(world_size)
        if nodes is None:
            raise ValueError(
                f"by_node cannot tell on how many nodes the {world_size:,} ranks run, since neither torchrun nor srun "
                "started them: give nodes"
            )
        if world_size % nodes:
            raise ValueError(f"by_node needs as many ranks on each node: {world_size:,} ranks, {nodes:,} nodes")
        return nodes

    def _identity(self) -> dict[str, Any]:
        own = {**super()._identity(), "order": "feistel-1" if self.shuffle else "records"}
        return {**own, "nodes": self._nodes_of(self.world_size)} if self.by_node else own

    def _checked_state(self, state: dict[str, Any]) -> tuple[int, int]:
        nodes = state.get("nodes"), self._identity().get("nodes")
        if state.get("kind") == "recstore.torch.ShuffleSampler" and nodes[0] != nodes[1]:
            saved, own = ("by_node=False" if n is None else f"by_node=True and nodes={n!r:.20}" for n in nodes)
            raise ValueError(
                f"the state is of a sampler with {saved}, and this one has {own}, so the records of a node would move: "
                f"give this one {saved}"
            )
        return super()._checked_state(state)

    def __repr__(self) -> str:
        place = "" if self._place is None else f", rank={self._place[0]}, world_size={self._place[1]}"
        return f"ShuffleSampler({self._length}, seed={self.seed}{place}, epoch={self._epoch})"


def length_of(x: Any) -> int:
    """The length of `x`, or `x` itself if it is an integer."""
    try:
        n = len(x)
    except TypeError:
        n = places.integer(x, "n, unless it has a len(),")
    if n < 0:
        raise ValueError(f"n must be a number of records, at least 0, not {n}")
    if n > sampler_base.MOST:
        raise ValueError(f"a sampler can shuffle at most 2**48 records, not {n}")
    return n


class BatchSampler(_TorchBatchSampler):
    """Batches of the indices of a sampler, as int64 arrays of numpy; of the rows of a :class:`PackSampler`, as lists.
    C fills the arrays for the samplers of this package.

    Args:
        sampler: a sampler of this package, or any iterable of ints, which is read int by int.
        batch_size: the number of indices in a batch.
        drop_last: drop the last batch if it has fewer.

    Use it as ``DataLoader(dataset, batch_sampler=...)``. For a dataset that takes all indices of a batch at once, use
    ``DataLoader(f, sampler=BatchSampler(...), batch_size=None)``; do the same under Lightning with several devices,
    since Lightning replaces a batch_sampler. Under accelerate the batches are lists, since accelerate joins them.

    ``state_dict`` returns the sampler's state, which counts samples, so a run may resume with another batch size.
    Raises TypeError and ValueError for a batch size that is not a positive integer. One thread at a time may iterate.

    >>> from recstore.torch import BatchSampler, ShuffleSampler
    >>> batches = BatchSampler(ShuffleSampler(5, seed=1, rank=0, world_size=1), batch_size=2)
    >>> for batch in batches: print(batch)
    [3 0]
    [2 1]
    [4]
    >>> len(batches), batches.state_dict(batches=1)["consumed"]
    (3, 2)
    """

    sampler: Any

    def __new__(cls, sampler: object = None, *args: Any, **kwargs: Any) -> Self:
        is_distributed = cls is BatchSampler and isinstance(sampler, DistributedSampler)
        return super().__new__(_DistributedBatchSampler if is_distributed else cls)  # type: ignore[return-value]

    @named_arguments
    def __init__(self, sampler: Iterable[int], batch_size: SupportsIndex, drop_last: bool = False) -> None:
        self.batch_size = places.at_least(1, batch_size, "batch_size")
        if not isinstance(drop_last, bool):
            raise TypeError(f"drop_last must be True or False, not {drop_last!r:.60}")
        if not hasattr(sampler, "__iter__"):
            raise TypeError(f"a sampler must be an iterable of ints, not {type(sampler).__name__}")
        if getattr(sampler, "_yields_batches", False) or isinstance(sampler, _TorchBatchSampler):
            name = type(sampler).__name__.removeprefix("_Distributed")
            raise TypeError(f"{name} yields batches already: pass it as batch_sampler=")
        self.sampler, self.drop_last = sampler, drop_last
        self._skip = self._yielded = 0  # for samplers of other packages: samples to skip next, samples yielded

    def __len__(self) -> int:
        """The number of batches in a whole epoch on this rank."""
        return sampler_base.share(len(self.sampler), self.batch_size, self.drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Calls ``set_epoch`` of the sampler, if it has one."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:  # type: ignore[override]  # arrays in place of lists
        """The batches of this rank. The epoch is fixed when the first batch is drawn."""
        return self._batches_of_items() if isinstance(self.sampler, sampler_base.ItemSampler) else self._read_batches()

    def _batches_of_items(self) -> Iterator[Any]:
        sampler, size = self.sampler, self.batch_size
        live = sampler._begin()
        total = self._in_batches(live.count)
        block = max(sampler._at_once // size, 1) * size
        for start in range(0, total, block):
            items = sampler._some(live, start, min(block, total - start))
            for at in range(0, len(items), size):
                batch = items[at : at + size]
                live.taken = self._consumed(start + at + len(batch), live.count)
                yield batch.tolist() if live.as_lists and hasattr(batch, "tolist") else batch
        live.taken = live.count

    def _in_batches(self, samples: int) -> int:
        """The number of `samples` that come in batches."""
        return samples // self.batch_size * self.batch_size if self.drop_last else samples

    def _consumed(self, taken: int, count: int) -> int:
        """The number of samples consumed when the batches have taken `taken` samples. The last full batch also consumes
        the dropped samples."""
        return count if taken >= self._in_batches(count) else taken

    def _read_batches(self) -> Iterator[Any]:
        import numpy

        indices = iter(self.sampler)
        self._yielded, self._skip = self._skip, 0
        if self._yielded:
            next(itertools.islice(indices, self._yielded - 1, None), None)
        as_lists = places.at_iteration(self, (0, 1))[2] is not None
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            self._yielded += len(batch)
            yield batch if as_lists else numpy.array([operator.index(index) for index in batch], numpy.int64)

    # ---- The state ----

    def state_dict(self, batches: SupportsIndex | None = None) -> dict[str, Any]:
        """The state of the sampler in the latest iteration. It counts the samples consumed by all ranks.

        Args:
            batches: how many batches of the iteration this rank's loop has consumed. None: as many as the iterator has
                yielded. A DataLoader with workers draws more than the loop has seen, so pass the number there:
                ``for i, batch in enumerate(loader): ...; state = batches.state_dict(batches=i + 1)``.

        If the sampler has no ``state_dict``, its samples are counted. Resuming then iterates over it again, and its
        order must be the same. Raises TypeError if `batches` is not an integer. Raises ValueError if it is negative, if
        the iteration of a sampler of this package has fewer, or if another sampler with ``state_dict`` has not
        yielded exactly that many.
        """
        if batches is not None:
            batches = places.integer(batches, "batches")
            if batches < 0:
                raise ValueError(f"batches must be at least 0, not {batches}")
        if isinstance(self.sampler, sampler_base.ItemSampler):
            return self.sampler._state(None if batches is None else self._samples(batches))
        if hasattr(self.sampler, "state_dict"):
            if batches is not None and batches * self.batch_size != self._yielded:
                name = type(self.sampler).__name__
                raise ValueError(f"{name} has a state only for the batches it has yielded: leave batches out")
            return {
                "kind": "recstore.torch.BatchSampler",
                "version": sampler_base.VERSION,
                "sampler": self.sampler.state_dict(),
            }
        yielded = self._yielded if batches is None else batches * self.batch_size
        own = {"kind": "recstore.torch.BatchSampler", "version": sampler_base.VERSION, "length": self._length()}
        return {**own, "yielded": yielded}

    def _length(self) -> int | None:
        """The number of samples in an epoch of the sampler; None if it has no length."""
        return len(self.sampler) if hasattr(self.sampler, "__len__") else None

    def _samples(self, batches: int) -> int:
        """The number of samples that the first `batches` batches of the latest iteration consume on this rank. Raises
        ValueError if the iteration has fewer."""
        live = self.sampler._latest()
        samples = min(batches * self.batch_size, self._in_batches(live.count))
        if batches > sampler_base.share(live.count, self.batch_size, self.drop_last):
            raise ValueError(f"batches={batches} is out of range: an iteration has at most {len(self)}")
        return self._consumed(samples, live.count)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes where the run that saved `state` stopped, by the sampler's ``load_state_dict`` if it has one.

        Raises ValueError for the state of a sampler of another kind or length, and for a sampler whose order is random
        each time, such as RandomSampler without a generator."""
        if isinstance(self.sampler, sampler_base.ItemSampler):
            return self.sampler.load_state_dict(state)
        state = sampler_base.own_state(state)
        name = type(self.sampler).__name__
        if state["kind"] != "recstore.torch.BatchSampler" or state.get("version") != sampler_base.VERSION:
            raise ValueError(
                f"the state is of {state['kind']!r:.60}, version {state.get('version')!r:.60}, but this is a "
                f"BatchSampler, version {sampler_base.VERSION}, over {name}"
            )
        if hasattr(self.sampler, "load_state_dict") and "sampler" in state:
            self.sampler.load_state_dict(state["sampler"])
            return None
        yielded = state.get("yielded")
        if type(yielded) is not int or yielded < 0:
            raise ValueError(f"the state does not say how many samples of {name} were yielded")
        length = self._length()
        if state.get("length") != length:
            raise ValueError(f"the state has length {state.get('length')!r:.60}, but this {name} has {length}")
        if length is not None and yielded >= self._in_batches(length):
            yielded = 0  # the end of an epoch: the run resumes with the next one
        if yielded:
            refuse_random(self.sampler)
        self._skip = self._yielded = yielded
        return None

    def __repr__(self) -> str:
        return f"BatchSampler({self.sampler!r}, batch_size={self.batch_size}, drop_last={self.drop_last})"


class _DistributedBatchSampler(BatchSampler, DistributedSampler[Any]):
    """A BatchSampler over a sampler that already divides its indices among ranks. It subclasses DistributedSampler so
    that Lightning does not divide the batches again."""

    rank = property(lambda self: self.sampler.rank)
    num_replicas = property(lambda self: self.sampler.num_replicas)
    epoch = property(lambda self: self.sampler.epoch)


def refuse_random(sampler: object) -> None:
    """Raises ValueError for a sampler of torch whose order is random each time, so that a run cannot resume with it."""
    kinds = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
    if isinstance(sampler, kinds) and getattr(sampler, "generator", None) is None:
        name = type(sampler).__name__
        raise ValueError(f"{name} has a new random order each time, so a run cannot resume with it: use ShuffleSampler")
