# What other compiled modules need of _codec: decoding a record, raising a status.


cdef extern from "decode.h":
    enum:
        DECODE_KEYS
    uint64_t DECODE_IMMUTABLE

    ctypedef struct decode_state:
        rs_cursor cursor
        PyObject *program
        PyObject *owner
        PyObject **keys
        rs_error err
    PyObject *decode_record(decode_state *self, const rs_tree *tree)
    object decode_any(decode_state *self)
    object value_at "decode_place"(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits)

cdef int raise_status(rs_error *err, path=*) except -1


cdef inline int check(rs_status status, rs_error *err) except -1:
    if status != RS_OK:
        raise_status(err)
    return 0


cdef inline int check_path(rs_status status, rs_error *err, path) except -1:
    """As check, for a call that was about a file: the error names it."""
    if status != RS_OK:
        raise_status(err, path)
    return 0


cdef inline object struct_keys(const rs_node *node):
    """The keys of a struct of a tree that has its program."""
    return (<tuple>node.slot)[0]


cdef Program program_of(const rs_tree *tree, object reader, list programs)
cdef Program plain_program(object reader)

cdef PyObject *record_at(const rs_store *store, const rs_record *record, PyObject *owner) noexcept


cdef class Entries:
    cdef list tables
    cdef Py_ssize_t size
    cdef int keep(self, rs_table *table, uint32_t local, PyObject *value) except -1


cdef class Program:
    """The Python objects that go with a compiled tree; one per tree and process."""
    cdef const rs_tree *tree
    cdef object reader
    cdef list keep
    cdef dict makers
    cdef Entries entries  # those of the store
    cdef PyObject **keys  # see decode_state
    # By address of a node, of this tree or one of its tables': {key: child}, made by _paths where a struct's keys
    # cannot be found by identity, and the names of an ext node's fields.
    cdef dict lookups
    cdef int begin(self, object reader) except -1
    cdef void start(self, decode_state *c)
    cdef list prepare(self)
    cdef object maker(self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot)
    cdef int remember(self, object value, void **slot) except -1
    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                             Owner owner)
