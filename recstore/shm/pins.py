"""Pins: resources that stay mapped for a while because a handle to them was pickled.

The object that was pickled may be the last reference to its memory (`pool.apply_async(f, (x[:5],))`), and the process
that unpickles it maps the memory from here.
"""

import gc
from time import monotonic

PIN_SECONDS = 60.0

_pins = {}  # id(resource) -> (resource, when the pin ends); not by the resource's own id, which a saved copy shares


def pin(resource):
    """Keeps a segment or a blob mapped for PIN_SECONDS."""
    sweep_pins()
    _pins[id(resource)] = resource, monotonic() + PIN_SECONDS
    if _on_gc not in gc.callbacks:
        gc.callbacks.append(_on_gc)


def sweep_pins():
    """Lets go of the pins that are over."""
    if _pins:
        now = monotonic()
        # Keys alone: making pairs of them may start a collection, which comes here too.
        for key in list(_pins):
            resource, end = _pins.get(key, (None, now))
            if end <= now or resource.closed:
                _pins.pop(key, None)


def unpin(resource):
    """Lets go of a resource that was closed."""
    _pins.pop(id(resource), None)


def pinned():
    """The resources that are pinned now."""
    sweep_pins()
    return [resource for resource, _ in list(_pins.values())]


def _on_gc(phase, info):
    # No thread and no timer: collections come by themselves in any program that goes on working. It stays in
    # gc.callbacks once it is there: CPython walks that list while it calls, so removing it there would skip the
    # callback behind it.
    if phase == "stop":
        sweep_pins()
