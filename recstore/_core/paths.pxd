# Walks down a compiled tree, for other compiled modules.


# What a place is when it has been opened: how its children are found.
cdef enum:
    LEAF = 0      # it has none
    STRUCT = 1
    DICT = 2      # an `any` dict: the cursor stands after its tag
    NAMED = 3     # the values of an object's fields, a tuple; the names come with it
    SEQUENCE = 4


cdef int open_place(Program program, rs_cursor *cursor, rs_place *place, PyObject **described, list keep) except -1
cdef bint go(Program program, rs_cursor *cursor, rs_place *place, object key) except -1
cdef object hash_of_key(object key)
cdef tuple present_keys(rs_cursor *cursor, rs_place *place)
cdef Py_ssize_t find_child(Program program, const rs_node *node, object key) except -2
cdef object names_of(unsigned code, const uint8_t *extra, size_t size)
cdef bint is_dict_like(unsigned code)


cdef class Path:
    """A way into a record. Immutable."""
    # Each a key in a tuple of its own, or a str with dots: that key, else its parts one after another.
    cdef readonly tuple names
    cdef readonly object only  # the key of a path of one key, for speed; else None
    cdef list steps            # for each name `(key, None)` or `(dotted, parts)`
    cdef bint walk(self, Program program, rs_cursor *cursor, rs_place *place, list taken) except -1
