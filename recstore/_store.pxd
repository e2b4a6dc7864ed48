# Segment and Records for other compiled modules.
from recstore._c cimport *
from recstore._exports cimport Owner


cdef class Segment(Owner):
    cdef rs_segment seg
    cdef rs_store store
    cdef dict programs
    cdef bint open_
    cdef bint closing
    cdef Py_ssize_t busy
    cdef readonly str backing
    cdef readonly str path
    cdef readonly object owner_pid
    cdef public object kept_bytes
    cdef object reader_
    cdef bint views_  # what reader_ says of arrays
    cdef object __weakref__
    cdef int prepare(self, object limits) except -1
    cpdef int require_open(self) except -1
    cdef int enter(self) except -1
    cdef void leave(self)
    cdef object get(self, uint64_t index)
    cdef object program(self, uint32_t number, const rs_tree *tree)
    cdef int list_trees(self, list out) except -1
    cdef int verify_keys(self, const rs_block *block) except -1
    cdef bint release(self)
    cdef int give_up_name(self)


cdef class Records:
    cdef readonly Segment segment
    cdef readonly object detached
    cdef Py_ssize_t start
    cdef Py_ssize_t step
    cdef Py_ssize_t length
    cdef inline object at(self, Py_ssize_t i)
