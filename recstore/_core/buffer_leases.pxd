# What arrays on shared bytes hold: an owner that counts them, and the lease of each.


cdef class Owner:
    cdef Py_ssize_t exports
    cdef void exports_ended(self)


cdef object lease(Owner owner, const uint8_t *data, Py_ssize_t size)
