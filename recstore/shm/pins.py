"""Pins: they keep a resource mapped for a minute after a handle to it was pickled.

The pickled object may be the last reference to the memory (`pool.apply_async(f, (x[:5],))`). The process that unpickles
the handle maps the memory through this process, which therefore has to keep it.
"""

import gc
from collections import OrderedDict
from time import monotonic

from recstore._core import native

PIN_SECONDS = 60.0

# id(resource) -> (resource, end of the pin), the next to end first. resource.id is no key, because a saved copy has the
# same one.
_pins = OrderedDict()
_blobs = {}  # the keys of pinned blobs


def pin(resource):
    """Keeps a segment or a blob mapped for PIN_SECONDS."""
    sweep_pins()
    key = id(resource)
    _pins.pop(key, None)
    if isinstance(resource, native.Blob):
        _blobs[key] = None
    _pins[key] = resource, monotonic() + PIN_SECONDS
    if _on_gc not in gc.callbacks:
        gc.callbacks.append(_on_gc)


def sweep_pins():
    """Drops the pins that have ended. The first pin that has not ended stops it, because each pickle sweeps."""
    now = monotonic()
    while _pins:
        try:
            key = next(iter(_pins), None)
        except RuntimeError:  # another thread, or a garbage collection, has swept meanwhile
            continue
        resource, end = _pins.get(key, (None, now))
        if end > now and not resource.closed:
            return
        _drop(key)


def unpin(resource):
    """Drops the pin of a resource that was closed."""
    _drop(id(resource))


def clear():
    """Drops all pins."""
    _pins.clear()
    _blobs.clear()


def pinned_blobs():
    """The number of blobs that are pinned now."""
    sweep_pins()
    return len(_blobs)


def _drop(key):
    _pins.pop(key, None)
    _blobs.pop(key, None)


def _on_gc(phase, info):
    # Garbage collections happen in every program that does work, so no thread or timer is needed. The callback is never
    # removed from gc.callbacks: CPython iterates over that list while it calls, so a removal would skip the next one.
    if phase == "stop":
        sweep_pins()
