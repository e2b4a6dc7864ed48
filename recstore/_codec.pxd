# What other compiled modules need of _codec: decoding a record, raising a status.
from cpython.ref cimport PyObject

from recstore._c cimport *
from recstore._exports cimport Owner

cdef extern from "decode.h":
    enum:
        DECODE_KEYS

    ctypedef struct decode_state:
        rs_cursor cursor
        PyObject *program
        PyObject *owner
        PyObject **keys
        rs_error err
    PyObject *decode_record(decode_state *self, const rs_tree *tree)
    object decode_any(decode_state *self)
    object value_at "decode_place"(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits)

cdef int raise_status(rs_error *err) except -1


cdef inline int check(rs_status status, rs_error *err) except -1:
    if status != RS_OK:
        raise_status(err)
    return 0


cdef inline object struct_keys(const rs_node *node):
    """The keys of a struct of a tree that has its program."""
    return (<tuple>node.slot)[0]


cdef Program program_of(const rs_tree *tree, object reader, list programs)
cdef Program plain_program(object reader)

cdef PyObject *record_at(const rs_store *store, const rs_record *record, PyObject *owner) noexcept


cdef class Program:
    """The Python objects that go with a compiled tree; one per tree and process."""
    cdef const rs_tree *tree
    cdef object reader
    cdef list keep
    cdef dict makers
    cdef list siblings  # the programs of the same store, this one among them
    cdef PyObject **keys  # see decode_state
    cdef dict lookups  # by node number: {key: child}, made by _fields where a struct's keys cannot be found by identity
    cdef int begin(self, object reader) except -1
    cdef void start(self, decode_state *c)
    cdef list prepare(self)
    cdef object maker(self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot)
    cdef int remember(self, object value, void **slot) except -1
    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                             Owner owner)
