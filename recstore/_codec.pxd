# What other compiled modules need of _codec: decoding a record, raising a status.
from recstore._c cimport *
from recstore._exports cimport Owner

cdef int raise_status(rs_error *err) except -1


cdef inline int check(rs_status status, rs_error *err) except -1:
    if status != RS_OK:
        raise_status(err)
    return 0


cdef class Program:
    """The Python objects that go with a compiled tree; one per tree and process."""
    cdef const rs_tree *tree
    cdef object reader
    cdef list keep
    cdef dict makers
    cdef void **slots
    cdef dict lookups  # by node number: {key: child}, made by _fields where a struct's keys cannot be found by identity
    cdef object prepare(self)
    cdef object maker(self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot)
    cdef int remember(self, object value, void **slot) except -1
    cdef object decode(self, rs_cursor *cursor, Owner owner)
    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                             Owner owner)
