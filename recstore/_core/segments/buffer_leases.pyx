"""Buffer leases: an array over a mapping holds a Lease, and the Lease holds the owner of the mapping.

A lease counts as long as the Lease object lives, not only while its buffer is exported: numpy releases the buffer at
once and keeps the object.
"""


cdef class Owner:
    """Base of the classes that own bytes. `leases` counts the live leases; when it falls to 0, `leases_ended` is
    called."""

    cdef void leases_ended(self):
        pass


@cython.no_gc_clear  # __dealloc__ needs the owner, which the garbage collector would clear
cdef class Lease:
    """A read-only buffer that keeps its owner alive. Python code cannot make one."""

    cdef Owner owner
    cdef const uint8_t *data
    cdef Py_ssize_t size

    def __init__(self):
        raise TypeError("leases are made by reading a store")

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, <void *>self.data, self.size, 1, flags)

    def __dealloc__(self):
        if self.owner is not None:
            if count_up(&self.owner.leases, -1) == 0:
                self.owner.leases_ended()


cdef object lease(Owner owner, const uint8_t *data, Py_ssize_t size):
    """A Lease on the `size` bytes at `data`, which must stay valid while `owner` is open."""
    cdef Lease out = Lease.__new__(Lease)
    out.owner = owner
    out.data = data
    out.size = size
    count_up(&owner.leases, 1)
    return out
