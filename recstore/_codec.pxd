# What _store needs of _codec: encoding into raw buffers, decoding a record, raising a status.
from recstore._c cimport *

cdef int encode_value(rs_buffer *raw, rs_buffer *arrays, object value) except -1
cdef int raise_status(rs_error *err) except -1


cdef inline int check(rs_status status, rs_error *err) except -1:
    if status != RS_OK:
        raise_status(err)
    return 0


cdef class Program:
    """The Python objects that go with a compiled tree; one per tree and process."""
    cdef const rs_tree *tree
    cdef list keep
    cdef void **slots
    cdef dict lookups  # by node number: {key: child}, made by _fields where a struct's keys cannot be found by identity
    cdef object prepare(self)
    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits)
    cdef object decode(self, rs_cursor *cursor)
