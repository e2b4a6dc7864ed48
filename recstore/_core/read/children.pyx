"""A table of the places of one value's children, made in one pass. A walk to a child passes all children before it, so
walks to all n children take quadratic time."""

cdef enum:
    MAX_WALKED = 64  # the most children for which walks are faster than a table


cdef struct Spot:
    # The place of a child: `at` is the position of the cursor and `body` that of the body, both as offsets from the
    # cursor in the opened parent. `body` is -1 for a child without a body.
    const rs_node *node
    uint64_t bits
    int64_t body
    int64_t at


@cython.final
@cython.internal
cdef class Children:
    """The children of a struct, an `any` dict or a map. Usable only with the value they were made from."""
    cdef dict numbers  # the number of each child by its key
    cdef Spot *spots

    def __dealloc__(self):
        PyMem_Free(self.spots)

    cdef int add(self, object key, const rs_place *place, const uint8_t *base, const uint8_t *at) except -1:
        """Adds the next child. Ignores a key that it already has."""
        if key in self.numbers:
            return 0
        cdef Spot *spot = &self.spots[len(self.numbers)]
        spot.node, spot.bits = place.node, place.bits
        spot.body = -1 if place.body == NULL else place.body - base
        spot.at = at - base
        self.numbers[key] = len(self.numbers)
        return 0

    cdef bint go(self, Program program, rs_cursor *cursor, rs_place *place, object key) except -1:
        """Like the function `go`, starting at the value."""
        cdef PyObject *described = NULL
        cdef rs_error err
        number = self.numbers.get(key)
        if number is None:
            return False
        cdef Spot *spot = &self.spots[<Py_ssize_t>number]
        open_place(program, cursor, place, &described, [])
        cdef const uint8_t *base = cursor.in_.ptr
        cdef uint64_t left = cursor.in_.end - base
        if <uint64_t>spot.at > left or spot.body >= 0 and <uint64_t>spot.body + spot.node.size_bytes > left:
            raise errors.CorruptError("the record has changed under its reader")
        cursor.in_.ptr = base + spot.at
        place.node, place.bits = spot.node, spot.bits
        place.body = NULL
        if spot.body >= 0:
            place.body = base + spot.body
        if place.node == NULL:
            return True
        check(rs_path_settle(cursor, place, &err), &err)
        return place.node == NULL or place.node.kind != RS_FMT_NODE_OPTIONAL


cdef Children new_children(uint64_t n):
    cdef Children out = Children.__new__(Children)
    out.numbers = {}
    out.spots = <Spot *>PyMem_Calloc(n, sizeof(Spot))
    if out.spots == NULL:
        raise MemoryError
    return out


cdef Children children_of(Program program, rs_cursor cursor, rs_place place):
    """The Children of the value at a place. None if there are few, if a walk passes no other children, or if a key must
    not be made or has no hash."""
    cdef PyObject *described = NULL
    cdef list keep = []
    if place.node != NULL and place.node.kind == RS_FMT_NODE_STRUCT and place.node.n_children <= MAX_WALKED:
        return None
    kind = open_place(program, &cursor, &place, &described, keep)
    try:
        if kind == STRUCT and place.body == NULL:
            return children_of_struct(cursor, place.node, place.bits)
        if kind == DICT:
            return children_of_dict(program, cursor)
        if kind == MAP:
            return children_of_map(program, cursor, place.node)
    except (errors.UntrustedError, TypeError, ValueError, OverflowError):
        # A walk can pass a key that must not be made or has no hash.
        return None
    return None


cdef Children children_of_struct(rs_cursor cursor, const rs_node *node, uint64_t bits):
    cdef rs_error err
    cdef rs_place child
    cdef const uint8_t *base = cursor.in_.ptr
    cdef const uint8_t *head = NULL
    cdef rs_rare_group room
    cdef rs_slice group
    cdef uint32_t i
    keys = struct_keys(node)
    cdef Children out = new_children(node.n_children)
    check(rs_decode_row(&cursor, node, bits, &head, &group, &room, &err), &err)
    for i in range(node.n_children):
        child.node = &node.children[i]
        child.bits = rs_decode_bits_unchecked(&group, child.node.bit_off, child.node.bits)
        child.body = head + child.node.body_off if child.node.fixed else NULL
        out.add(keys[i], &child, base, cursor.in_.ptr)
        check(rs_path_pass_children_from(&cursor, node, &group, i, i + 1, &err), &err)
    return out


cdef Children children_of_dict(Program program, rs_cursor cursor):
    cdef rs_error err
    cdef rs_place child
    cdef const uint8_t *base = cursor.in_.ptr
    cdef uint64_t n, _
    memset(&child, 0, sizeof(rs_place))
    check(rs_path_any_enter(&cursor, 2, &n, &err), &err)
    if n <= MAX_WALKED:
        return None
    cdef Children out = new_children(n)
    for _ in range(n):
        key = program.decode_place(&cursor, NULL, NULL, 0, None)
        out.add(key, &child, base, cursor.in_.ptr)
        check(rs_path_any_pass(&cursor, &err), &err)
    return out


cdef Children children_of_map(Program program, rs_cursor cursor, const rs_node *node):
    cdef rs_error err
    cdef rs_place child
    cdef rs_map entries
    cdef const uint8_t *base = cursor.in_.ptr
    cdef uint64_t i
    check(rs_map_begin(&entries, &cursor, node, &err), &err)
    if entries.n <= MAX_WALKED:
        return None
    cdef Children out = new_children(entries.n)
    for i in range(entries.n):
        key = map_key(program, &entries, &cursor, i)
        rs_map_value(&entries, i, &child)
        out.add(key, &child, base, cursor.in_.ptr)
        check(rs_map_pass_value(&entries, &cursor, i, &err), &err)
    return out
