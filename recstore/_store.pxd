# Segment and Blob for other compiled modules.
from recstore._c cimport *


cdef class Segment:
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
    cdef object __weakref__
    cdef int prepare(self, object limits) except -1
    cpdef int require_open(self) except -1
    cdef int enter(self) except -1
    cdef void leave(self)
    cdef object get(self, int store, uint64_t index)
    cdef object program(self, uint32_t number, const rs_tree *tree)
    cdef int list_trees(self, list out) except -1
    cdef int verify_keys(self, const rs_block *block) except -1
    cdef bint release(self)


cdef class Blob:
    cdef const uint8_t *data     # NULL once closed; publish and close change it: do not keep it without the GIL
    cdef readonly Py_ssize_t size
    cdef bytes private           # what data points into until published
    cdef rs_segment seg          # what data points into from then on
    cdef readonly str backing
    cdef readonly str path
    cdef readonly bytes id
    cdef readonly object owner_pid
    cdef object __weakref__
    cdef int take_over(self, rs_segment *segment, bytes id_) except -1
