"""Loader: batches that threads of this process read ahead, without worker processes."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import Generic, TypeVar, overload

import torch
from torch.utils.data import Subset
from torch.utils.data._utils.pin_memory import pin_memory as pinned

from recstore.containers.records import RecordList
from recstore.lazy_names import named_arguments
from recstore.text import an
from recstore.torch import places
from recstore.torch.datasets import RecordDataset
from recstore.torch.error_notes import add_note
from recstore.torch.read_ahead import ReadAhead
from recstore.torch.samplers import BatchSampler, ShuffleSampler, refuse_random

__all__ = ["Loader"]

_SHOWN = 8  # how many indices of a batch the note of an error lists
_VERSION = 1  # the version of the state_dict

B = TypeVar("B")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal, Protocol, SupportsIndex

    from typing_extensions import Self

    T = TypeVar("T")
    B_co = TypeVar("B_co", covariant=True)

    class ReadByBatches(Protocol[B_co]):
        def __getitem__(self, index: Any, /) -> B_co: ...

    class ReadByIndices(Protocol[B_co]):
        def __getitem__(self, index: int, /) -> B_co: ...


class Loader(Generic[B]):
    """Batches of a dataset that threads of this process read ahead. It is made for :class:`recstore.torch.Fields`,
    which reads a batch without the GIL.

    No process starts, and nothing is pickled, so the first batch comes at once, and an epoch takes a fraction of the
    CPU time of a DataLoader with workers. For a Python transform of each sample, such as decoding and augmenting
    images, keep the DataLoader: Python code in the threads of a Loader competes with the training loop for the GIL.

    Args:
        dataset: any object whose ``dataset[indices]`` is a batch, such as Fields. With `collate`, any map-style
            dataset of PyTorch. The batches of a RecordList or RecordDataset are lists of records or samples.
        batch_size: samples in a batch.
        shuffle: True: each epoch has a new order, from a :class:`recstore.torch.ShuffleSampler` with `seed`.
        sampler: an iterable of indices, instead of `shuffle`.
        batch_sampler: an iterable of batches of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        drop_last: drop the last batch if it is not full.
        prefetch: how many batches each thread reads ahead of the loop. 0: no threads; the loop itself reads.
        threads: how many threads read.
        pin_memory: "auto": copy batches to page-locked memory if CUDA is available, so that a transfer to the device
            can overlap with computation. True: the same, with a warning if CUDA is not available. False: never.
        seed: the seed of `shuffle`.
        collate: None, or a function from a list of samples to a batch, like the ``collate_fn`` of a DataLoader.

    Without `sampler` and `batch_sampler`, each rank reads its own part of the records, as with ShuffleSampler.
    Lightning and accelerate do not change a Loader: the program moves the batches to the device, and under accelerate
    it passes ``sampler=ShuffleSampler(x, rank=accelerator.process_index, world_size=accelerator.num_processes)``.

    Each ``iter(loader)`` is an epoch with its own threads. The first ``next`` starts them. They end with the epoch, at
    ``close()``, or when the iterator is dropped, as by ``break``. An exception in reading is raised where the loop asks
    for that batch, with a note that names the batch and its indices; the loop may then continue. In a forked child an
    iterator of the parent raises RuntimeError, and the loader itself works.

    ``state_dict`` counts the batches that the loop has received, not the batches read ahead. Epochs of `shuffle` count
    up with each iteration, unless :meth:`set_epoch` sets one.

    Raises ValueError for arguments that exclude each other or are out of range, TypeError for arguments of a wrong
    type. A loader and its iterators are thread-safe.

    >>> import recstore
    >>> from recstore.torch import Loader
    >>> x = recstore.RecordList({"path": f"{i}.jpg", "label": i % 2} for i in range(5))
    >>> with Loader(x, batch_size=2) as loader:
    ...     [[record["path"] for record in batch] for batch in loader]
    [['0.jpg', '1.jpg'], ['2.jpg', '3.jpg'], ['4.jpg']]
    """

    batch_size: int | None
    drop_last: bool
    sampler: Any
    batch_sampler: Any

    @overload
    def __init__(
        self: Loader[list[T]],
        dataset: RecordList[T] | RecordDataset[T],
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: ReadByBatches[B],
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: ReadByIndices[T],
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: Callable[[list[T]], B],
    ) -> None: ...
    @named_arguments
    def __init__(
        self,
        dataset: Any,
        batch_size: SupportsIndex = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch: SupportsIndex = 2,
        threads: SupportsIndex = 1,
        pin_memory: bool | Literal["auto"] = "auto",
        seed: SupportsIndex = 0,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        if isinstance(dataset, RecordList):
            dataset = RecordDataset(dataset)
        if not hasattr(dataset, "__getitem__"):
            raise TypeError(f"a Loader reads a dataset by indices: {an(type(dataset).__name__)} has no __getitem__")
        if collate is not None and not callable(collate):
            raise TypeError(f"collate must be a function of a list of samples, not {type(collate).__name__}")
        if pin_memory not in (True, False, "auto"):
            raise ValueError(f"pin_memory must be True, False or 'auto', not {pin_memory!r}")
        self.dataset, self.collate = dataset, collate
        self.pin_memory = pin_memory if pin_memory == "auto" else bool(pin_memory)
        self.prefetch, self.threads = places.at_least(0, prefetch, "prefetch"), places.at_least(1, threads, "threads")
        self._advancing = False
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler replaces batch_size, shuffle, sampler and drop_last: leave them out")
            self.batch_size, self.drop_last = None, False
            self.batch_sampler, self.sampler = batch_sampler, getattr(batch_sampler, "sampler", None)
        else:
            if sampler is not None and shuffle:
                raise ValueError("sampler replaces shuffle: leave one of them out")
            if sampler is None:
                sampler = ShuffleSampler(dataset, seed=seed, shuffle=bool(shuffle))
                self._advancing = True
            self.batch_sampler = BatchSampler(sampler, batch_size, drop_last)
            self.batch_size, self.drop_last, self.sampler = self.batch_sampler.batch_size, drop_last, sampler
        self._stateful = hasattr(self.batch_sampler, "state_dict") and hasattr(self.batch_sampler, "load_state_dict")
        self._latest_epoch: int | None = None  # the epoch of the latest iteration, if epochs advance
        self._position: Any = None  # of the loop: a state of the batch sampler, or a number of batches
        self._skip = 0  # batches of the next iteration that an earlier run received
        self._epochs: weakref.WeakSet[_Epoch[B]] = weakref.WeakSet()

    # ---- Batches ----

    def __len__(self) -> int:
        """The number of batches in an epoch on this rank."""
        return len(self.batch_sampler)

    def __iter__(self) -> _Epoch[B]:
        """An iterator over the batches of an epoch, with ``close()``. It reads nothing before its first ``next``."""
        epoch = _Epoch(self, self._pins())
        self._epochs.add(epoch)
        return epoch

    def _pins(self) -> bool:
        """Whether to pin batches. The check may initialize CUDA, after which a process must not fork, so __init__
        does not call this."""
        if self.pin_memory is False:
            return False
        available = torch.cuda.is_available()
        if self.pin_memory is True and not available:
            warnings.warn(
                "pin_memory=True, but CUDA is not available: the batches stay in ordinary memory", stacklevel=3
            )
        return available

    def _orders(self) -> Iterator[tuple[int, Any, Any]]:
        """Yields `(number, indices, position)` for each batch after those to skip; `position` as in `_position`."""
        if self._advancing:
            if self._latest_epoch is not None and self._latest_epoch == self.sampler.epoch:
                self.sampler.set_epoch(self._latest_epoch + 1)
        batches, skip, self._skip = self.batch_sampler, self._skip, 0
        for number, indices in enumerate(batches):
            if number == 0 and self._advancing:
                self._latest_epoch = self.sampler.epoch
            if number >= skip:
                yield number, indices, batches.state_dict() if self._stateful else number + 1

    def _read(self, pins: bool, order: tuple[int, Any, Any]) -> tuple[Any, Any]:
        """`(batch, position)` of an order from `_orders`. Several threads may call it at once."""
        number, indices, position = order
        try:
            batch = self._batch(indices)
            return pinned(batch) if pins else batch, position  # type: ignore[no-untyped-call]
        except Exception as error:
            add_note(error, f"in batch {number} of a Loader, with the indices {_shown(indices)}")
            if self.collate is None and isinstance(error, TypeError):
                add_note(
                    error, "without collate=, dataset[indices] must be the batch, as it is for recstore.torch.Fields"
                )
            raise

    def _batch(self, indices: Any) -> Any:
        samples = self._samples(indices)
        return samples if self.collate is None else self.collate(samples)

    def _samples(self, indices: Any) -> Any:
        """The samples at `indices`; without `collate`, the batch."""
        if hasattr(indices, "tolist") and (self.collate is not None or isinstance(self.dataset, Subset)):
            indices = indices.tolist()  # the datasets of PyTorch take lists, not arrays
        if self.collate is None:
            return self.dataset[indices]
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(indices)
        return [self.dataset[index] for index in indices]

    def close(self) -> None:
        """Ends all iterations and their threads. The loader itself may be iterated again."""
        for epoch in list(self._epochs):
            epoch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()

    # ---- Epochs and states ----

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the sampler's next iteration, if the sampler has epochs."""
        for sampler in (self.batch_sampler, self.sampler):
            if hasattr(sampler, "set_epoch"):
                before = getattr(sampler, "epoch", None)
                sampler.set_epoch(epoch)
                self._latest_epoch = None
                if self._stateful and getattr(sampler, "epoch", None) != before:
                    self._position = None  # the loop has received no batch of this epoch
                return

    def state_dict(self) -> dict[str, Any]:
        """The position of the loop in the epoch, after the latest batch that it received, as a small dict.

        It holds the state of the sampler, which counts the samples consumed by all ranks. So a run may resume on
        another number of ranks or threads, and with another batch size. If the batch sampler has no ``state_dict``, the
        batches are counted. Resuming then iterates over them again, and they must be the same.
        """
        state = {"version": _VERSION, "records": _length(self.dataset)}
        if not self._stateful:
            return {**state, "batches": self._position or 0}
        return {**state, "sampler": self.batch_sampler.state_dict() if self._position is None else self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes where the run that saved `state` stopped: the next iteration yields the rest of its epoch.

        Raises ValueError for a state of another version, length of the dataset, kind of sampler or seed, and for a
        sampler whose order is random each time; TypeError if `state` is not a dict. The loader is unchanged then.
        """
        if not isinstance(state, dict):
            raise TypeError(f"a state must be a dict that state_dict() returned, not {type(state).__name__}")
        if state.get("version") != _VERSION:
            raise ValueError(
                f"the state has version {state.get('version')!r:.60}; this recstore reads version {_VERSION}"
            )
        if state.get("records") != _length(self.dataset):
            saved, own = state.get("records"), _length(self.dataset)
            raise ValueError(f"the state is of a dataset of {saved!r:.60} records, but this one has {own}")
        if self._stateful:
            if "sampler" not in state:
                raise ValueError("the state is of a loader whose batch sampler has no state_dict")
            self.batch_sampler.load_state_dict(state["sampler"])
            self._position = state["sampler"]
        else:
            self._position = self._skip = self._batches_to_skip(state)
        self._latest_epoch = None

    def _batches_to_skip(self, state: dict[str, Any]) -> int:
        batches = state.get("batches")
        if type(batches) is not int or batches < 0:
            raise ValueError(f"the state does not say how many batches the loop has received: {batches!r:.60}")
        if batches:
            refuse_random(self.sampler)
        return batches

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_epochs"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _epochs=weakref.WeakSet())

    def __repr__(self) -> str:
        return f"Loader({self.dataset!r}, batch_sampler={self.batch_sampler!r})"


class _Epoch(Generic[B]):
    """One iteration of a Loader."""

    def __init__(self, loader: Loader[B], pins: bool) -> None:
        self._loader = loader
        begin = functools.partial(torch.cuda.set_device, torch.cuda.current_device()) if pins else lambda: None
        read = functools.partial(loader._read, pins)
        self._batches = ReadAhead(read, loader._orders(), loader.prefetch * loader.threads, loader.threads, begin)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> B:
        batch: B
        try:
            batch, self._loader._position = next(self._batches)
        except StopIteration:
            if not self._loader._stateful:
                self._loader._position = 0
            raise
        return batch

    def close(self) -> None:
        """Ends the iteration and its threads."""
        self._batches.close()


def _shown(indices: Any) -> str:
    indices = list(indices)
    shown = ", ".join(str(index if hasattr(index, "__len__") else int(index)) for index in indices[:_SHOWN])
    return f"{shown}, ... ({len(indices)})" if len(indices) > _SHOWN else shown


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        return None
