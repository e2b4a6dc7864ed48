"""Pins keep a resource mapped for a minute after a handle to it was pickled.

The pickled object may be the last reference to the memory (`pool.apply_async(f, (x[:5],))`). The process that unpickles
the handle maps the memory through this process, so this process must keep it.
"""

from __future__ import annotations

import gc
import os
from _thread import RLock
from time import monotonic

from recstore._core import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore._core.native import Blob, Segment

PIN_SECONDS = 60.0

# {id(resource): (resource, end of the pin)}, by end. The key is not resource.id, because a saved copy has the same one.
_pins: dict[int, tuple[Segment | Blob, float]] = {}
_blobs: dict[int, None] = {}  # the keys of pinned blobs
_lock = RLock()  # reentrant: a thread that holds it may collect garbage, which sweeps


def pin(resource: Segment | Blob) -> None:
    """Keeps a segment or a blob mapped for PIN_SECONDS."""
    sweep_pins()
    key = id(resource)
    with _lock:
        _pins.pop(key, None)
        if isinstance(resource, native.Blob):
            _blobs[key] = None
        _pins[key] = resource, monotonic() + PIN_SECONDS
        if _after_collection not in gc.callbacks:
            os.register_at_fork(after_in_child=_after_fork)
            gc.callbacks.append(_after_collection)


def sweep_pins() -> None:
    """Drops pins that have ended or whose resource is closed, up to the first other pin, because each pickle sweeps."""
    if not _pins:
        return  # _after_fork is not registered before the first pin, so no thread may hold the lock during a fork
    now = monotonic()
    ended = []
    with _lock:
        try:
            for key, (resource, end) in _pins.items():
                if end > now and not resource.closed:
                    break
                ended.append((key, resource))  # the reference keeps the key valid
        except RuntimeError:
            pass  # a garbage collection swept during the loop
        for key, _ in ended:
            _drop(key)


def unpin(resource: Segment | Blob) -> None:
    """Drops the pin of a resource that was closed."""
    if not _pins:
        return  # as in sweep_pins
    with _lock:
        _drop(id(resource))


def clear() -> None:
    """Drops all pins."""
    with _lock:
        _pins.clear()
        _blobs.clear()


def pinned_blobs() -> int:
    """The number of pinned blobs."""
    sweep_pins()
    return len(_blobs)


def _drop(key: int) -> None:
    _pins.pop(key, None)
    _blobs.pop(key, None)


def _after_fork() -> None:
    global _lock
    _lock = RLock()  # a thread of the parent may have held it


# Sweeps after garbage collections, which happen in every working program, instead of in a thread or timer. The callback
# stays in gc.callbacks for good: CPython iterates over the list while it calls, so a removal would skip a callback.
_after_collection = native.SweepAfterCollection(_pins, monotonic, sweep_pins)
