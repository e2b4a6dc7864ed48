# Buffer leases: each array over shared bytes holds a Lease, and an Owner counts the leases.


cdef class Owner:
    cdef Py_ssize_t leases
    cdef void leases_ended(self)


cdef object lease(Owner owner, const uint8_t *data, Py_ssize_t size)
