"""What the interpreter calls at any moment: when a weak reference dies, after a collection of garbage. It is compiled,
because Python code there would handle a signal, and the interpreter drops the exception of the handler: a Ctrl-C.
"""


cdef class Forget:
    """The callback of a weak reference that stands in a dict: takes it out, unless another one stands there by now."""

    cdef dict known
    cdef object key

    def __init__(self, dict known not None, key):
        self.known = known
        self.key = key

    def __call__(self, gone):
        if self.known.get(self.key) is gone:
            self.known.pop(self.key, None)


cdef class SweepAfterCollection:
    """A callback of `gc.callbacks` that calls `sweep` when the first of `pins` has ended by `clock()` or is closed. The
    values of `pins` are `(resource, end)`, the next to end first."""

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
        except RuntimeError:  # another thread has changed it: that one has swept
            return
        if first is None:
            return
        resource, end = first
        if end <= self.clock() or resource.closed:
            self.sweep()
