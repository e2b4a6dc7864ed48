"""headroom: how long the steps of a training loop wait for data, and where the time to make a batch goes."""

from __future__ import annotations

import contextlib
import copy
import itertools
import time

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torch.utils.data._utils.pin_memory import pin_memory

from recstore.torch.loader import Loader

__all__ = ["Headroom", "headroom"]

PARTS = ("read", "transform", "collate", "pin", "transfer")
# The attributes with the functions that a dataset applies to a sample, and with the datasets that it wraps.
_TRANSFORMS = ("transform", "transforms", "target_transform")
_WRAPPED = ("dataset", "datasets")
# The number of batches that are made one part at a time, and the most in memory for each measurement of the step.
_DISSECTED = 12

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


class Headroom:
    """The measurements of :func:`headroom`. Times are means in seconds.

    Attributes:
        steps: the number of measured steps.
        waiting: seconds for which a step waits for its batch.
        computing: seconds of the step itself while the loader works beside it.
        alone: seconds of the step with batches that are in memory already, and no loader at work.
        workers: processes or threads that make batches; 0 if the loop makes them itself.
        parts: seconds to make one batch, by part: read, transform, collate, pin, transfer. Transfer is the time in the
            step for moving the batch to its device. Empty if the loader cannot be taken apart.
    """

    def __init__(
        self, steps: int, waiting: float, computing: float, alone: float, workers: int, parts: dict[str, float]
    ) -> None:
        self.steps, self.waiting, self.computing, self.alone = steps, waiting, computing, alone
        self.workers, self.parts = workers, parts

    @property
    def waiting_share(self) -> float:
        """The share of the loop's time that is spent waiting for data, 0 to 1."""
        return self.waiting / (self.waiting + self.computing)

    @property
    def speedup(self) -> float:
        """How many times as fast the loop would be with a perfect loader, at least 1."""
        return max(1.0, (self.waiting + self.computing) / self.alone)

    def __str__(self) -> str:
        step = self.waiting + self.computing
        lines = [
            f"{self.steps} steps of {_ms(step)}: {_ms(self.waiting)} ({self.waiting_share:.0%}) wait for data",
            f"with a perfect loader {_ms(self.alone)}, {self.speedup:.2f} times as fast",
        ]
        if self.parts:
            total = sum(self.parts.values())
            makers = f"{self.workers} make batches" if self.workers > 1 else "one makes batches"
            lines.append(f"making a batch takes {_ms(total)} ({makers}):")
            lines += [f"  {name:<10}{_ms(part):>10}{part / total:>6.0%}" for name, part in self.parts.items()]
        return "\n".join(lines)

    __repr__ = __str__


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def headroom(loader: Iterable[Any], step: Callable[[Any], object], steps: int = 50) -> Headroom:
    """Measures how much faster a training loop would be with a perfect loader, and what its loader spends time on.

    Args:
        loader: anything that yields batches. A DataLoader over a map-style dataset and a :class:`recstore.torch.Loader`
            are also taken apart: some batches are made in this process, one part at a time.
        step: the function that the loop calls with each batch: it moves the batch to the device, computes, and updates
            the weights. headroom really calls it: with `steps` batches, with one more than the loader reads ahead, and
            with up to 24 batches in memory.
        steps: the number of steps to measure. More steps come first, to use up the batches that the loader reads ahead.

    The loop waits in ``next``. CUDA is synchronized before and after each step, so a step includes the work it queued.
    "Read" is reading the samples, less the time in functions that the dataset, or a dataset that it wraps, holds as
    ``transform``, ``transforms`` or ``target_transform``. Work in ``__getitem__`` itself counts as read. Pinning is
    measured if the loader pins. Transfer is measured in ``to`` and ``cuda``, of tensors and of the batch.

    The loader is iterated twice, and its sampler once more. That changes their epochs and positions, and uses up a
    loaded state, so measure with a separate loader and sampler. If the loader has too few batches, the first half of
    them is not measured.

    Raises ValueError if the loader has fewer than two batches, cannot be iterated twice, or `steps` is not positive.
    One thread at a time.

    >>> import recstore
    >>> from recstore.torch import Fields, Loader, headroom
    >>> x = recstore.RecordList({"id": i} for i in range(4000))
    >>> report = headroom(Loader(Fields(x, "id"), batch_size=8), lambda batch: batch["id"].sum(), steps=20)
    >>> report.steps, sorted(report.parts)
    (20, ['collate', 'pin', 'read', 'transfer', 'transform'])
    """
    if steps < 1:
        raise ValueError(f"steps is the number of steps to measure, at least 1, not {steps}")
    waiting, computing = _loop(loader, step, _read_ahead(loader), steps)
    batches = _first_batches(loader, 2 * min(steps, _DISSECTED))
    half = len(batches) // 2
    if len(waiting) == 0 or half == 0:
        raise ValueError("headroom needs a loader of two batches or more that can be iterated twice")
    alone = 0.0
    for batch in batches[:half]:
        began = _now()
        step(batch)
        alone += _now() - began
    parts = _dissected(loader)
    if parts:
        # A separate pass, because watching slows the step, and a compiled step compiles again. The batches are new to
        # the step, which may have moved the earlier batches to the device.
        transfers = _Transfers()
        for batch in batches[half:]:
            with transfers.watching(batch):
                step(batch)
        parts["transfer"] = transfers.seconds / len(batches[half:])
    n = len(waiting)
    return Headroom(n, sum(waiting) / n, sum(computing) / n, alone / half, _worker_count(loader), parts)


def _now() -> float:
    """The time when everything that was queued on the device is done."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()


def _worker_count(loader: Any) -> int:
    if isinstance(loader, Loader):
        return loader.threads if loader.prefetch else 0
    return int(getattr(loader, "num_workers", 0))


def _read_ahead(loader: Any) -> int:
    """The number of batches that may be ready before the loop asks for them."""
    if isinstance(loader, Loader):
        return loader.prefetch * loader.threads
    return _worker_count(loader) * int(getattr(loader, "prefetch_factor", None) or 0)


def _loop(
    loader: Iterable[Any], step: Callable[[Any], object], ahead: int, steps: int
) -> tuple[list[float], list[float]]:
    """Runs the loop as in training. Returns the seconds of waiting and of computing in each step, but leaves out the
    steps on batches that were read ahead: at least one step, and at most half of several."""
    waiting: list[float] = []
    computing: list[float] = []
    batches = iter(loader)
    for _ in range(ahead + 1 + steps):
        began = _now()
        try:
            batch = next(batches)
        except StopIteration:
            break
        ready = time.perf_counter()
        step(batch)
        waiting.append(ready - began)
        computing.append(_now() - ready)
    skip = max(1, min(ahead + 1, len(waiting) // 2))
    return waiting[skip:], computing[skip:]


def _first_batches(loader: Iterable[Any], n: int) -> list[Any]:
    """The first n batches. The workers of the loader end with the iterator."""
    batches = iter(loader)
    return list(itertools.islice(batches, n))


# ---- One part at a time ----


class _Timer:
    """Sums up the time in functions; a call within a call counts once."""

    def __init__(self) -> None:
        self.seconds, self.depth = 0.0, 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.depth += 1
        began = time.perf_counter()
        try:
            yield
        finally:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.perf_counter() - began

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.running():
                return function(*args, **kwargs)

        return call


class _Transfers(TorchFunctionMode, _Timer):
    """The time in moving tensors to another device, and in the ``to`` of a batch that is not a tensor."""

    def __init__(self) -> None:
        TorchFunctionMode.__init__(self)
        _Timer.__init__(self)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function not in (torch.Tensor.to, torch.Tensor.cuda):
            return function(*args, **(kwargs or {}))
        began = _now()
        moved = function(*args, **(kwargs or {}))
        if moved.device != args[0].device and self.depth == 0:
            self.seconds += _now() - began
        return moved

    @contextlib.contextmanager
    def watching(self, batch: Any) -> Iterator[None]:
        kind, is_patched = type(batch), False
        own = vars(kind).get("to")
        if not isinstance(batch, torch.Tensor) and callable(getattr(kind, "to", None)):
            with contextlib.suppress(TypeError):  # a class written in C
                kind.to = self._synchronized(kind.to)
                is_patched = True
        try:
            with self:
                yield
        finally:
            if is_patched and own is None:
                del kind.to
            elif is_patched:
                kind.to = own

    def _synchronized(self, move: Callable[..., Any]) -> Callable[..., Any]:
        def to(*args: Any, **kwargs: Any) -> Any:
            _now()
            with self.running():
                moved = move(*args, **kwargs)
                _now()
            return moved

        return to


def _dissected(loader: Any) -> dict[str, float]:
    """Seconds for each part of making a batch, in this process; empty for a loader that cannot be taken apart."""
    is_joined = isinstance(loader, Loader) and loader.collate is None
    if not is_joined and not isinstance(loader, (DataLoader, Loader)):
        return {}
    if isinstance(loader.dataset, IterableDataset):
        return {}
    timer, read, collate, pin = _Timer(), _Timer(), _Timer(), _Timer()
    fetch = _fetcher(loader, _with_timers(loader.dataset, timer))
    join: Any = loader.collate if isinstance(loader, Loader) else loader.collate_fn
    pins = loader._pins() if isinstance(loader, Loader) else loader.pin_memory and _accelerated()
    n = 0
    index_batches = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    for indices in itertools.islice(index_batches, _DISSECTED):
        with read.running():
            batch = fetch(indices)
        if not is_joined:
            with collate.running():
                batch = join(batch)
        if pins:
            with pin.running():
                pin_memory(batch)  # type: ignore[no-untyped-call]
        n += 1
    if n == 0:
        return {}
    seconds = (read.seconds - timer.seconds, timer.seconds, collate.seconds, pin.seconds, 0.0)
    return {name: part / n for name, part in zip(PARTS, seconds)}


def _accelerated() -> bool:
    accelerator = getattr(torch, "accelerator", torch.cuda)  # torch.accelerator is new in 2.6
    return bool(accelerator.is_available())


def _fetcher(loader: Any, dataset: Any) -> Callable[[Any], Any]:
    """The function that reads the samples of a batch, or the batch itself, as the loader does, but from `dataset`."""
    if isinstance(loader, Loader):
        loader = copy.copy(loader)
        loader.dataset = dataset
        return loader._samples  # type: ignore[no-any-return]
    batched = loader.batch_sampler is not None
    fetcher = _MapDatasetFetcher(dataset, batched, lambda samples: samples, False)
    return fetcher.fetch


def _with_timers(dataset: Any, timer: _Timer) -> Any:
    """A copy of a dataset, and of the datasets it wraps, with timed transforms. If copying fails, the dataset
    itself."""
    try:
        out = copy.copy(dataset)
        if out is dataset:
            return dataset
        for name in _WRAPPED:
            inner = getattr(out, name, None)
            if isinstance(inner, dict):
                setattr(out, name, {key: _with_timers(one, timer) for key, one in inner.items()})
            elif isinstance(inner, (list, tuple)):
                setattr(out, name, type(inner)(_with_timers(one, timer) for one in inner))
            elif hasattr(inner, "__getitem__"):
                setattr(out, name, _with_timers(inner, timer))
        for name in _TRANSFORMS:
            function = getattr(out, name, None)
            if callable(function):
                setattr(out, name, timer.timed(function))
    except Exception:  # the dataset's own __getstate__, __getattr__ or __setattr__ may raise
        return dataset
    return out
