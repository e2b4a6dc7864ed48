# Decoding records, and raising the errors of the core.


cdef extern from "decode.h":
    enum:
        DECODE_KEYS
    uint64_t DECODE_IMMUTABLE

    ctypedef struct decode_state:
        rs_cursor cursor
        PyObject *program
        PyObject *owner
        PyObject **keys
        uint64_t work
        rs_error err
    PyObject *decode_record(decode_state *self, const rs_block *block)
    object decode_any(decode_state *self)
    object value_at "decode_place"(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits)

cdef int raise_status(rs_error *err, path=*) except -1


cdef inline int check(rs_status status, rs_error *err) except -1:
    if status != RS_OK:
        raise_status(err)
    return 0


cdef inline int check_path(rs_status status, rs_error *err, path) except -1:
    """Like check, for a call about a file. The error names the file."""
    if status != RS_OK:
        raise_status(err, path)
    return 0


cdef inline void set_cursor(rs_cursor *cursor, const uint8_t *data, size_t size, const uint8_t *arrays,
                            size_t arrays_size) noexcept:
    """Moves a cursor to one value outside a block. `size` is also the cursor's budget of values and bytes."""
    cursor.in_ = rs_slice_of(data, size)
    cursor.arrays = arrays
    cursor.arrays_size = arrays_size
    cursor.budget.values = cursor.budget.bytes = size
    cursor.budget.depth = RS_FMT_DEPTH
    cursor.shared = False


cdef inline object struct_keys(const rs_node *node):
    """The keys of a struct. The tree must have its Program."""
    return (<tuple>node.slot)[0]


cdef class Entries

cdef Program program_of(const rs_tree *tree, object reader, list programs, Entries entries=*)
cdef Program plain_program(object reader)

cdef PyObject *record_at(const rs_store *store, const rs_record *record, PyObject *owner) noexcept


cdef class Entries:
    cdef list tables
    cdef dict shapes
    cdef PyObject **keys  # see decode_state
    cdef Py_ssize_t size  # bytes of the decoded entries and of their tables' arrays of pointers
    cdef Py_ssize_t max_size
    cdef PyObject **any_keys(self) except NULL
    cdef object shape(self, tuple keys)
    cdef int keep(self, rs_table *table, uint32_t local, PyObject *value) except -1


cdef class Program:
    """The Python objects of a compiled tree, such as the keys of its structs. One for each tree in a process."""
    cdef const rs_tree *tree
    cdef object reader
    cdef list keep
    cdef dict makers
    cdef Entries entries  # shared by all Programs of the store
    cdef PyObject **keys  # the keys of `entries`; NULL for a tree without `any` nodes, and if FREE_THREADED
    # Caches of paths.pyx by the address of a node of this tree or of its tables' trees: for a struct {key: number of
    # child}, for an ext node its fields.
    cdef dict lookups
    cdef int begin(self, object reader) except -1
    cdef void start(self, decode_state *c)
    cdef list prepare(self)
    cdef object maker(self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot)
    cdef int remember(self, object value, void **slot) except -1
    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                             Owner owner)
