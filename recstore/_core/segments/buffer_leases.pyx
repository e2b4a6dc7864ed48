"""Buffers of other objects and of mappings. An array over a mapping holds a Lease, which holds the mapping's owner.

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


cdef class Span:
    """The contiguous buffer of an object: n items of one size. A Span keeps the object from moving or freeing the
    bytes."""
    cdef Py_buffer view
    cdef bint has_view
    cdef Py_ssize_t n
    cdef int64_t *ints  # the items, if they are int64

    @staticmethod
    cdef Span of(object source, Py_ssize_t item_bytes, bint writable=False):
        """The Span over `source`. Raises TypeError for an object without a buffer and for items of another size, and
        the object's error if its buffer is not contiguous."""
        cdef Span self = Span.__new__(Span)
        PyObject_GetBuffer(source, &self.view, PyBUF_CONTIG if writable else PyBUF_CONTIG_RO)
        self.has_view = True
        if self.view.itemsize != item_bytes:
            raise TypeError(f"the items of the buffer must have {item_bytes} bytes, not {self.view.itemsize}")
        self.n, self.ints = self.view.len // item_bytes, <int64_t *>self.view.buf
        return self

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)
