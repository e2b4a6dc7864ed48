"""Buffers on bytes that somebody else owns: an array that looks at a mapping holds a lease, and the lease its owner.

A lease counts for as long as it lives, not only while a buffer is taken: numpy gives the buffer back at once and keeps
the object.
"""


cdef class Owner:
    """Base of what owns bytes. `exports` is how many leases are alive; `exports_ended` is called when it falls to 0."""

    cdef void exports_ended(self):
        pass


@cython.no_gc_clear  # __dealloc__ needs the owner, which the collector of a cycle would clear
cdef class Lease:
    """A read-only buffer. Holds its owner; never made from Python."""

    cdef Owner owner
    cdef const uint8_t *data
    cdef Py_ssize_t size

    def __init__(self):
        raise TypeError("leases are made by reading a store")

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, <void *>self.data, self.size, 1, flags)

    def __dealloc__(self):
        if self.owner is not None:
            self.owner.exports -= 1
            if self.owner.exports == 0:
                self.owner.exports_ended()


cdef object lease(Owner owner, const uint8_t *data, Py_ssize_t size):
    """An object whose buffer is `size` bytes at `data`, which live as long as `owner` is open."""
    cdef Lease out = Lease.__new__(Lease)
    out.owner = owner
    out.data = data
    out.size = size
    owner.exports += 1
    return out
