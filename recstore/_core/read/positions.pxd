# Positions: checked indices.


cdef class Positions:
    cdef int64_t *at          # n numbers; owned
    cdef readonly Py_ssize_t n
    cdef readonly Py_ssize_t length
    cdef bint dropping        # an index out of range becomes -1
    cdef Py_ssize_t shape
    cdef int reserve(self, Py_ssize_t n) except -1
    cdef int settle(self, bint is_unsigned) except -1


cdef Positions positions_of(indices, Py_ssize_t length, str name=*, str method=*, bint masks=*, bint drop=*)
