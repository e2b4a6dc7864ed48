"""CachedDataset: a PyTorch Dataset. All processes on a machine share its samples and make each sample once."""

from __future__ import annotations

import operator
from typing import TypeVar

from torch.utils.data import Dataset

from recstore.caching import cache as caches
from recstore.containers.batch_method import batch_method, refuse_batches
from recstore.text import an

__all__ = ["CachedDataset"]

T = TypeVar("T")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, SupportsIndex

    from recstore._types import Arrays, Path, Paths


class CachedDataset(Dataset[T]):
    """A Dataset whose samples are made once for all ranks, workers and jobs on a machine, and kept in a
    :func:`recstore.cache`.

    Args:
        dataset: any Dataset with a length, whose ``dataset[i]`` is always the same sample.
        name: the name of the cache. Datasets with the same name and fingerprint use one cache.
        limit, dir, files, keep, arrays: as in :func:`recstore.cache`.
        then: None, or a function that takes a sample and returns another. It is called at each access, so put random
            augmentation here.
        fingerprint: a str that changes whenever the samples change. None: it is derived from the code of
            ``dataset.__getitem__`` and the values that it reads (docs/fingerprints.md).

    Each access gives a new sample with writable arrays, so `then` may change the sample in place. With
    ``arrays="view"`` its arrays are read-only: `then` must copy, and default_collate makes torch warn about them. The
    random number generators of Python, numpy and torch have the same state afterwards whether the sample was in the
    cache or not.

    A DataLoader reads a batch with one call. Public attributes of the dataset that are not callable, such as
    ``classes``, can be read from this object; the dataset itself is ``dataset``, and the cache is ``cache``. A change
    of the dataset does not change samples that are in the cache. A CachedDataset pickles if `dataset` and `then` do.
    Several threads may read it at once if `dataset` and `then` allow it.

    Raises TypeError for a dataset without a length, and if the fingerprint cannot be derived; and the exceptions of
    :func:`recstore.cache`. Classes in samples must be registered, see :func:`recstore.register`.

    >>> import torch, recstore.torch
    >>> class Squares(torch.utils.data.Dataset):
    ...     def __len__(self): return 4
    ...     def __getitem__(self, i): return torch.tensor([i * i])
    >>> dataset = recstore.torch.CachedDataset(Squares(), "doctest", limit="1MB", then=lambda x: x + 0.5)
    >>> for batch in torch.utils.data.DataLoader(dataset, batch_size=2): print(batch.tolist())
    [[0.5], [1.5]]
    [[4.5], [9.5]]
    >>> len(dataset.cache), dataset.cache.get(3)
    (4, tensor([9]))
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        name: str,
        limit: int | str = "60%",
        then: Callable[[Any], T] | None = None,
        *,
        dir: Path | None = None,
        files: Paths | None = None,
        fingerprint: str | None = None,
        keep: bool | float | str | None = None,
        arrays: Arrays = "copy",
    ) -> None:
        if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
            raise TypeError(
                f"CachedDataset reads a dataset by position, so it needs __getitem__ and __len__, which "
                f"{an(type(dataset).__name__)} lacks"
            )
        if then is not None and not callable(then):
            raise TypeError(f"then must be a function of one sample, not {type(then).__name__}")
        self.dataset: Any = dataset
        self.then = then
        self.cache = caches.cache(
            name,
            limit=limit,
            dir=dir,
            code=dataset.__getitem__ if fingerprint is None else None,
            files=files,
            fingerprint=fingerprint,
            slots=max(len(self.dataset), 1),
            keep=keep,
            arrays=arrays,
        )

    def __len__(self) -> int:
        return len(self.dataset)

    def _slot(self, index: SupportsIndex) -> int:
        """The slot of an index. Raises IndexError."""
        slot = operator.index(index)
        n = len(self)
        if not -n <= slot < n:
            raise IndexError(f"the index {slot} is out of range: the dataset has {n:,} samples")
        return slot % n

    def __getitem__(self, index: SupportsIndex) -> T:
        slot = self._slot(index)
        sample: Any = self.cache.get_or_make(slot, self.dataset.__getitem__, slot)
        return sample if self.then is None else self.then(sample)

    @batch_method
    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[T]:
        """The samples at `indices`, in that order."""
        indices = list(indices)
        if type(self).__getitem__ is not _GETITEM:
            return [self[index] for index in indices]
        refuse_batches(indices)
        samples: Any = self.cache.get_many(map(self._slot, indices), self.dataset.__getitem__)
        return samples if self.then is None else [self.then(sample) for sample in samples]

    def __getattr__(self, name: str) -> Any:
        # A method could change the dataset, but not the samples that are already in the cache.
        if name.startswith("_") or "dataset" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        value = getattr(self.dataset, name)
        if callable(value):
            raise AttributeError(
                f"{name!r} is callable: use .dataset.{name}; samples in the cache stay as they are",
                name=name,
                obj=self,
            )
        return value

    def __repr__(self) -> str:
        then = "" if self.then is None else f", then={self.then!r}"
        return f"{type(self).__name__}({self.dataset!r}, {self.cache.name!r}{then})"


_GETITEM = CachedDataset.__getitem__  # kept here because a program may patch the class
