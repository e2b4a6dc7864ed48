"""Pins: they keep a resource mapped for a minute after a handle to it was pickled.

The pickled object may be the last reference to the memory (`pool.apply_async(f, (x[:5],))`). The process that unpickles
the handle maps the memory through this process, which therefore has to keep it.
"""

import gc
from time import monotonic

PIN_SECONDS = 60.0

_pins = {}  # id(resource) -> (resource, end of the pin); resource.id is no key, because a saved copy has the same one


def pin(resource):
    """Keeps a segment or a blob mapped for PIN_SECONDS."""
    sweep_pins()
    _pins[id(resource)] = resource, monotonic() + PIN_SECONDS
    if _on_gc not in gc.callbacks:
        gc.callbacks.append(_on_gc)


def sweep_pins():
    """Drops the pins that have ended and the pins of closed resources."""
    if _pins:
        now = monotonic()
        # list(_pins.items()) would allocate a tuple per pin; that may start a garbage collection, which calls this too.
        for key in list(_pins):
            resource, end = _pins.get(key, (None, now))
            if end <= now or resource.closed:
                _pins.pop(key, None)


def unpin(resource):
    """Drops the pin of a resource that was closed."""
    _pins.pop(id(resource), None)


def pinned():
    """The resources that are pinned now."""
    sweep_pins()
    return [resource for resource, _ in list(_pins.values())]


def _on_gc(phase, info):
    # Garbage collections happen in every program that does work, so no thread or timer is needed. The callback is never
    # removed from gc.callbacks: CPython iterates over that list while it calls, so a removal would skip the next one.
    if phase == "stop":
        sweep_pins()
