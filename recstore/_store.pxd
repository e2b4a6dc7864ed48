# Segment and Records for other compiled modules.
from recstore._c cimport *


cdef class Segment:
    cdef rs_segment seg
    cdef rs_store store
    cdef list programs
    cdef bint open_
    cdef bint closing
    cdef Py_ssize_t busy
    cdef readonly str backing
    cdef readonly str path
    cdef readonly object owner_pid
    cdef readonly object lease
    cdef public object kept_bytes
    cdef object __weakref__
    cdef int prepare(self, object limits) except -1
    cpdef int require_open(self) except -1
    cdef object get(self, uint64_t index)
    cdef bint release(self)


cdef class Records:
    cdef readonly Segment segment
    cdef readonly object detached
    cdef Py_ssize_t start
    cdef Py_ssize_t step
    cdef Py_ssize_t length
    cdef inline object at(self, Py_ssize_t i)
