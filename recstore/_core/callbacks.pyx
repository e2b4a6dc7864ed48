"""Callbacks that the interpreter may run at any moment: for a dead weak reference, and after a garbage collection. They
are compiled, because Python code there would run pending signal handlers, and the interpreter drops the
KeyboardInterrupt that a handler raises in a callback.
"""


cdef class Forget:
    """The callback of a weak reference in a dict. Removes the entry, unless another reference has replaced it."""

    cdef dict references
    cdef object key

    def __init__(self, dict references not None, key):
        self.references = references
        self.key = key

    def __call__(self, reference):
        if self.references.get(self.key) is reference:
            self.references.pop(self.key, None)


cdef class SweepAfterCollection:
    """A function for `gc.callbacks`. Calls `sweep` if the first pin has ended by `clock()` or is closed. The values of
    `pins` are `(resource, end)`, the earliest end first."""

    cdef object pins
    cdef object clock
    cdef object sweep

    def __init__(self, pins, clock, sweep):
        self.pins = pins
        self.clock = clock
        self.sweep = sweep

    def __call__(self, phase, info):
        if phase != "stop" or not self.pins:
            return
        try:
            first = next(iter(self.pins.values()), None)
        except RuntimeError:  # another thread changes the pins, and sweeps
            return
        if first is None:
            return
        resource, end = first
        if end <= self.clock() or resource.closed:
            self.sweep()
