# Paths, and the walk down a compiled tree.


# The kinds of opened places.
cdef enum:
    LEAF = 0      # no children
    STRUCT = 1
    DICT = 2      # an `any` dict, with the cursor after its tag
    NAMED = 3     # the tuple of an object's field values; `names_of` describes the fields
    SEQUENCE = 4
    MAP = 5       # the body of a map node, at the cursor


cdef int open_place(Program program, rs_cursor *cursor, rs_place *place, PyObject **described, list keep) except -1
cdef bint go(Program program, rs_cursor *cursor, rs_place *place, object key) except -1
cdef object hash_of_key(object key)
cdef list map_keys(Program program, rs_cursor *cursor, rs_place *place)
cdef tuple present_keys(rs_cursor *cursor, rs_place *place)
cdef Py_ssize_t find_child(Program program, const rs_node *node, object key) except -2
cdef object names_of(unsigned code, const uint8_t *extra, size_t size)
cdef bint is_dict_like(unsigned code)


cdef class Path:
    """A path into a record. Immutable."""
    # Each name is `(key,)` or a str with dots, which is one key if the value has that key, else several.
    cdef readonly tuple names
    cdef readonly object only  # the key of a path of one key, which is walked faster; else None
    cdef list steps            # for each name `(key, None)` or `(str with dots, its parts)`
    cdef bint walk(self, Program program, rs_cursor *cursor, rs_place *place, list taken) except -1
