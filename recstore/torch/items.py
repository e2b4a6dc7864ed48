"""Items: what a sampler yields in its epochs, by number, for pipelines that ask in an order of their own."""

from __future__ import annotations

import copy
import operator
import threading
from typing import Generic, TypeVar

from recstore.lazy_names import named_arguments
from recstore.torch import places
from recstore.torch.sampler_base import ItemSampler

__all__ = ["Items"]

T = TypeVar("T")
_CHUNK = 256  # items that are made at once
_MOST_CHUNKS = 4  # the latest ones stay: a pipeline with threads asks for neighbours out of order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex


class Items(Generic[T]):
    """The items of a sampler in one epoch after another, as a sequence: a source for Grain's ``MapDataset``.

    Args:
        sampler: a ShuffleSampler, PackSampler, MixSampler or other sampler of single items. Its rank does not matter:
            the pipeline divides the sequence among processes.
        epochs: the number of epochs.

    Item ``i`` is computed from the seed and ``i`` alone, so a pipeline may begin anywhere, on any number of processes.
    Raises TypeError for samplers that yield batches, IndexError out of range. Thread-safe, and can be pickled.

    >>> from recstore.torch import Items, ShuffleSampler
    >>> items = Items(ShuffleSampler(5, seed=1), epochs=2)
    >>> len(items), [items[i] for i in range(10)]
    (10, [3, 0, 2, 1, 4, 3, 2, 1, 0, 4])
    """

    @named_arguments
    def __init__(self, sampler: ItemSampler[T], epochs: SupportsIndex = 1) -> None:
        if not isinstance(sampler, ItemSampler) or sampler._yields_batches:
            raise TypeError(f"Items takes a sampler of single items of recstore.torch, not {type(sampler).__name__}")
        self.epochs = places.at_least(1, epochs, "epochs")
        self.sampler = copy.copy(sampler)
        self.sampler._place, self.sampler._first, self.sampler._pending, self.sampler._live = (0, 1), 0, False, None
        self._lock = threading.Lock()
        self._chunks: dict[tuple[int, int], list[T]] = {}
        self._live: Any = None

    def __len__(self) -> int:
        """The number of items of all epochs."""
        return self.epochs * self.sampler._length

    def __getitem__(self, index: SupportsIndex) -> T:
        number = operator.index(index)
        number += len(self) if number < 0 else 0
        if not 0 <= number < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        epoch, position = divmod(number, self.sampler._length)
        chunk = epoch, position // _CHUNK
        with self._lock:
            if chunk not in self._chunks:
                self._chunks[chunk] = self._items_of(*chunk)
                if len(self._chunks) > _MOST_CHUNKS:
                    del self._chunks[next(iter(self._chunks))]
            return self._chunks[chunk][position % _CHUNK]

    def _items_of(self, epoch: int, chunk: int) -> list[T]:
        if self._live is None or self._live.epoch != epoch:
            self.sampler.set_epoch(epoch)
            self._live = self.sampler._begin()
        first = chunk * _CHUNK
        items: Any = self.sampler._some(self._live, first, min(_CHUNK, self.sampler._length - first))
        return list(items.tolist() if hasattr(items, "tolist") else items)

    def __reduce__(self) -> tuple[Any, ...]:
        return Items, (self.sampler, self.epochs)

    def __repr__(self) -> str:
        return f"Items({self.sampler!r}, epochs={self.epochs})"
