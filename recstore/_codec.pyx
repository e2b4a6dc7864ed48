# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Records back to Python values: the only place that makes Python values, and raises what the core reports.

Decoding works on owned references by hand (`PyObject *`, NULL on error), because a record is little else than object
creation and what Cython adds around each temporary showed in the profile of the first probe.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from recstore._c cimport *
from recstore._exports cimport Owner, lease
from recstore import errors

import sys

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char *mem, Py_ssize_t size, int flags)
    int PyBUF_READ
    void Py_DECREF(PyObject *)
    void incref "Py_INCREF"(PyObject *)
    # Owned references without reference counting by Cython.
    PyObject *new_unicode "PyUnicode_New"(Py_ssize_t n, uint32_t widest)
    PyObject *new_ordinal "PyUnicode_FromOrdinal"(int code)
    PyObject *new_unicode_from "PyUnicode_FromKindAndData"(int kind, const void *data, Py_ssize_t n)
    void *unicode_data "PyUnicode_DATA"(PyObject *)
    PyObject *new_long "PyLong_FromLongLong"(long long)
    PyObject *new_float "PyFloat_FromDouble"(double)
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *, Py_ssize_t)
    PyObject *new_list "PyList_New"(Py_ssize_t)
    PyObject *new_tuple "PyTuple_New"(Py_ssize_t)
    PyObject *new_dict "PyDict_New"()
    int dict_set "PyDict_SetItem"(PyObject *, PyObject *, PyObject *) except -1
    Py_ssize_t dict_size "PyDict_Size"(PyObject *)
    void list_put "PyList_SET_ITEM"(PyObject *, Py_ssize_t, PyObject *)
    void tuple_put "PyTuple_SET_ITEM"(PyObject *, Py_ssize_t, PyObject *)
    PyObject *tuple_get "PyTuple_GET_ITEM"(PyObject *, Py_ssize_t)
    PyObject *None_ "Py_None"
    PyObject *True_ "Py_True"
    PyObject *False_ "Py_False"


# Makers of ext values that a program keeps: hostile bytes could name any number of classes.
cdef enum:
    MAKERS = 4096

# Codes of ext values that never change and hold nothing that does: consts of them are made once.
cdef uint64_t IMMUTABLE = (
    1 << RS_FMT_EXT_COMPLEX | 1 << RS_FMT_EXT_RANGE | 1 << RS_FMT_EXT_ELLIPSIS | 1 << RS_FMT_EXT_DATE |
    1 << RS_FMT_EXT_TIMEDELTA | 1 << RS_FMT_EXT_TIMEZONE | 1 << RS_FMT_EXT_ZONEINFO | 1 << RS_FMT_EXT_DECIMAL |
    1 << RS_FMT_EXT_FRACTION | 1 << RS_FMT_EXT_UUID | 1 << RS_FMT_EXT_PATH)


# ---- Errors ----

cdef int raise_status(rs_error *err) except -1:
    """Raises what a status of the core means to a Python caller."""
    cls = errors.STATUS_CLASSES.get(err.code, errors.Error)
    text = err.message.decode("utf-8", "replace") or rs_status_text(err.code).decode()
    if issubclass(cls, OSError):
        import errno
        number = err.sys_errno
        if err.code == RS_E_SPACE:
            number = errno.ENOSPC
        elif number == 0:
            number = errno.ENOENT if issubclass(cls, FileNotFoundError) else errno.EPERM
        raise cls(number, text)
    where = []
    if err.record != RS_NOWHERE:
        where.append(f"record {err.record}")
    if err.offset != RS_NOWHERE:
        where.append(f"byte {err.offset}")
    where.append(rs_status_name(err.code).decode())
    raise cls(f"{text} ({', '.join(where)})")


# ---- Decoding ----

# Borrows everything. `owner` keeps the bytes that arrays may look at; NULL where arrays are copied.
cdef struct Context:
    rs_cursor *cursor
    void **slots
    PyObject *program
    PyObject *owner
    rs_error err


cdef inline int checked(Context *c, rs_status status) except -1:
    if status != RS_OK:
        raise_status(&c.err)
    return 0


cdef int corrupt(const char *what) except -1:
    cdef rs_error err
    rs_error_set(&err, RS_E_FMT_VALUE, RS_NOWHERE, b"%s", what)
    return raise_status(&err)


cdef PyObject *make_str(const uint8_t *units, uint64_t n, unsigned unit) except NULL:
    cdef uint32_t widest
    cdef PyObject *s
    if n == 1 and unit == 1:
        return new_ordinal(units[0])
    widest = rs_decode_widest_unchecked(units, n, unit)
    # A string object must be of the narrowest kind, or comparing it breaks: bytes from outside may lie about that.
    if unit == 1:
        widest = 127 if widest < 128 else 255
    elif unit == 2:
        if widest < 256:
            return new_unicode_from(2, units, <Py_ssize_t>n)
        widest = 0xFFFF
    else:
        if widest > 0x10FFFF:
            corrupt(b"a code point above 0x10FFFF")
        if widest < 0x10000:
            return new_unicode_from(4, units, <Py_ssize_t>n)
    s = new_unicode(<Py_ssize_t>n, widest)
    if s == NULL:
        return NULL  # MemoryError is set
    memcpy(unicode_data(s), units, <size_t>(n * unit))
    return s


cdef PyObject *make_bigint(const uint8_t *data, uint64_t n) except NULL:
    value = int.from_bytes((<const char *>data)[:n], "little", signed=True)
    Py_INCREF(value)
    return <PyObject *>value


cdef PyObject *make_array(Context *c, const rs_array_type *t, bint scalar, uint32_t ndim, const uint64_t *dims,
                          const uint8_t *data, uint64_t size, object dtype) except NULL:
    cdef uint32_t i
    from recstore import arrays as _arrays
    memory = PyMemoryView_FromMemory(<char *>data, <Py_ssize_t>size, PyBUF_READ)
    if dtype is None:
        dtype = _arrays.dtype_of((<const char *>t.descriptor.ptr)[:t.descriptor.end - t.descriptor.ptr])
    if scalar:
        value = _arrays.make_scalar(dtype, memory)
    else:
        shared = c.owner != NULL and size >= RS_FMT_ARRAY_INLINE
        if shared:
            memory = lease(<Owner>c.owner, data, <Py_ssize_t>size)
        fortran = (t.flags & RS_FMT_ARRAY_FORTRAN) != 0
        value = _arrays.make_array(dtype, tuple([dims[i] for i in range(ndim)]), fortran, memory, size, not shared)
        if c.owner != NULL:
            value.flags.writeable = False
    Py_INCREF(value)
    return <PyObject *>value


cdef PyObject *any_array(Context *c) except NULL:
    cdef rs_array_type t
    cdef uint64_t dims[RS_FMT_ARRAY_NDIM]
    cdef uint64_t size
    cdef uint32_t ndim = 0
    cdef const uint8_t *data
    checked(c, rs_array_type_take(&c.cursor.in_, &t, &c.err))
    size = t.item_bytes
    if not (t.flags & RS_FMT_ARRAY_SCALAR):
        checked(c, rs_array_shape_take(&c.cursor.in_, t.item_bytes, &ndim, dims, &size, &c.err))
    checked(c, rs_decode_array_data(c.cursor, size, &data, &c.err))
    return make_array(c, &t, (t.flags & RS_FMT_ARRAY_SCALAR) != 0, ndim, dims, data, size, None)


cdef PyObject *call_maker(object make, PyObject *payload) except NULL:
    """Takes over the payload."""
    value = make(take_owned(payload))
    Py_INCREF(value)
    return <PyObject *>value


cdef PyObject *any_ext(Context *c) except NULL:
    cdef rs_slice head
    checked(c, rs_any_ext_head(&c.cursor.in_, &head, &c.err))
    make = (<Program>c.program).maker(head.ptr[0], head.ptr + 1, head.end - head.ptr - 1, NULL)
    return call_maker(make, any_value(c))


cdef PyObject *node_ext(Context *c, const rs_node *node, const uint8_t *body, uint64_t bits) except NULL:
    """An ext node, which is its child handed to the maker of its code and EXTRA; body is NULL when it is not fixed."""
    cdef PyObject *payload
    cdef void **slot = &c.slots[node.index]
    if slot[0] != NULL:
        make = <object>slot[0]
    else:
        make = (<Program>c.program).maker(node.param, node.aux, node.aux_size_bytes, slot)
    if body != NULL:
        payload = fixed_value(c, node.children, body, bits)
    else:
        payload = appended_value(c, node.children, bits)
    return call_maker(make, payload)


cdef PyObject *any_dict(Context *c) except NULL:
    cdef uint64_t n, i
    cdef PyObject *d
    cdef PyObject *key
    cdef PyObject *value = NULL
    checked(c, rs_decode_varint(c.cursor, &n, &c.err))
    checked(c, rs_decode_enter(c.cursor, n, &c.err))
    d = new_dict()
    if d == NULL:
        raise MemoryError
    try:
        for i in range(n):
            key = any_value(c)
            try:
                value = any_value(c)
                try:
                    hash(<object>key)
                except (TypeError, ValueError):  # numpy dates without a unit raise ValueError
                    corrupt(b"a dict key that cannot be hashed")
                dict_set(d, key, value)
            finally:
                Py_DECREF(key)
                Py_XDECREF(value)
                value = NULL
        if <uint64_t>dict_size(d) != n:
            corrupt(b"a dict with a key that is there twice")
    except:
        Py_DECREF(d)
        raise
    rs_decode_leave(c.cursor)
    return d


cdef PyObject *any_sequence(Context *c, bint is_list) except NULL:
    cdef uint64_t n, i
    cdef PyObject *out
    checked(c, rs_decode_varint(c.cursor, &n, &c.err))
    if n > rs_slice_left(&c.cursor.in_):
        corrupt(b"a container of more elements than bytes")
    checked(c, rs_decode_enter(c.cursor, n, &c.err))
    out = new_list(<Py_ssize_t>n) if is_list else new_tuple(<Py_ssize_t>n)
    if out == NULL:
        raise MemoryError
    try:
        for i in range(n):
            if is_list:
                list_put(out, <Py_ssize_t>i, any_value(c))
            else:
                tuple_put(out, <Py_ssize_t>i, any_value(c))
    except:
        Py_DECREF(out)
        raise
    rs_decode_leave(c.cursor)
    return out


cdef PyObject *any_value(Context *c) except NULL:
    cdef const uint8_t *p
    cdef uint64_t n
    cdef unsigned unit
    cdef uint8_t tag
    checked(c, rs_decode_take(c.cursor, 1, &p, &c.err))
    tag = p[0]
    if rs_tag_is_small(tag):
        return new_long(rs_tag_small_value(tag))
    if RS_FMT_TAG_STR1 <= tag <= RS_FMT_TAG_STR4:
        unit = 1u << (tag - RS_FMT_TAG_STR1)
        checked(c, rs_decode_varint(c.cursor, &n, &c.err))
        checked(c, rs_decode_units(c.cursor, n, unit, &p, &c.err))
        return make_str(p, n, unit)
    if tag == RS_FMT_TAG_FLOAT:
        checked(c, rs_decode_take(c.cursor, 8, &p, &c.err))
        return new_float(rs_load_f64(p))
    if RS_FMT_TAG_INT8 <= tag <= RS_FMT_TAG_INT64:
        unit = rs_tag_int_size(tag)
        checked(c, rs_decode_take(c.cursor, unit, &p, &c.err))
        return new_long(rs_load_int_unchecked(p, unit))
    if tag <= RS_FMT_TAG_TRUE:
        p = <const uint8_t *>(None_ if tag == RS_FMT_TAG_NONE else True_ if tag == RS_FMT_TAG_TRUE else False_)
        incref(<PyObject *>p)
        return <PyObject *>p
    if tag == RS_FMT_TAG_LIST:
        return any_sequence(c, True)
    if tag == RS_FMT_TAG_TUPLE:
        return any_sequence(c, False)
    if tag == RS_FMT_TAG_DICT:
        return any_dict(c)
    if tag == RS_FMT_TAG_BYTES or tag == RS_FMT_TAG_BIGINT:
        checked(c, rs_decode_varint(c.cursor, &n, &c.err))
        checked(c, rs_decode_take(c.cursor, n, &p, &c.err))
        return new_bytes(<const char *>p, <Py_ssize_t>n) if tag == RS_FMT_TAG_BYTES else make_bigint(p, n)
    if tag == RS_FMT_TAG_NDARRAY:
        return any_array(c)
    if tag == RS_FMT_TAG_EXT:
        return any_ext(c)
    rs_error_set(&c.err, RS_E_FMT_VERSION, RS_NOWHERE, b"tag 0x%02x is of a later version", <int>tag)
    raise_status(&c.err)
    return NULL


cdef PyObject *expand_const(Context *c, const rs_node *node) except NULL:
    """A const that was not made beforehand: mutable ones afresh each time, so that each record is the caller's own."""
    cdef rs_slice rest = c.cursor.in_
    cdef PyObject *value
    if node.aux[0] != RS_FMT_TAG_NDARRAY:
        checked(c, rs_decode_spend_bytes(c.cursor, node.aux_size_bytes, &c.err))
    c.cursor.in_ = rs_slice_of(node.aux, node.aux_size_bytes)
    value = any_value(c)
    c.cursor.in_ = rest
    if node.aux[0] == RS_FMT_TAG_EXT and (IMMUTABLE >> node.aux[1] & 1 or node.aux[1] == RS_FMT_EXT_ENUM and
                                          (<Program>c.program).reader.trusted):
        (<Program>c.program).remember(<object>value, &c.slots[node.index])
    return value


cdef PyObject *node_array(Context *c, const rs_node *node, const uint8_t *body) except NULL:
    """An ndarray node; body is NULL when it is not fixed and has to be taken from the cursor."""
    cdef rs_array_type t
    cdef rs_slice aux = rs_slice_of(node.aux, node.aux_size_bytes)
    cdef uint64_t dims[RS_FMT_ARRAY_NDIM]
    cdef uint64_t size = node.data_bytes
    cdef uint32_t ndim = 0
    cdef bint scalar
    checked(c, rs_array_type_take(&aux, &t, &c.err))
    scalar = (t.flags & RS_FMT_ARRAY_SCALAR) != 0
    if node.flags & RS_FMT_FLAG_FIXED:
        checked(c, rs_array_shape_take(&aux, node.item_bytes, &ndim, dims, &size, &c.err))
    elif not scalar:
        checked(c, rs_array_shape_take(&c.cursor.in_, node.item_bytes, &ndim, dims, &size, &c.err))
    if body == NULL:
        checked(c, rs_decode_array_data(c.cursor, size, &body, &c.err))
    return make_array(c, &t, scalar, ndim, dims, body, size, <object>c.slots[node.index])


cdef PyObject *fixed_elements(Context *c, const rs_node *node, uint64_t n, const rs_slice *group,
                              const uint8_t *bodies) except NULL:
    """n elements of a list whose child is fixed; numbers in bulk."""
    cdef const rs_node *child = node.children
    cdef bint is_list = node.param == 0
    cdef PyObject *out = new_list(<Py_ssize_t>n) if is_list else new_tuple(<Py_ssize_t>n)
    cdef PyObject *item
    cdef uint64_t i
    cdef unsigned kind = child.kind, bits = child.bits
    if out == NULL:
        raise MemoryError
    try:
        if kind == RS_FMT_NODE_FLOAT and is_list:
            for i in range(n):
                item = new_float(rs_load_f64(bodies + 8 * i))
                if item == NULL:
                    raise MemoryError
                list_put(out, <Py_ssize_t>i, item)
        elif kind == RS_FMT_NODE_INT:
            for i in range(n):
                item = new_long(rs_decode_int_unchecked(child, bodies + i * child.size_bytes,
                                                        rs_decode_bits_unchecked(group, i * bits, bits)))
                if item == NULL:
                    raise MemoryError
                if is_list:
                    list_put(out, <Py_ssize_t>i, item)
                else:
                    tuple_put(out, <Py_ssize_t>i, item)
        else:
            for i in range(n):
                item = fixed_value(c, child, bodies + i * child.size_bytes,
                                   rs_decode_bits_unchecked(group, i * bits, bits))
                if is_list:
                    list_put(out, <Py_ssize_t>i, item)
                else:
                    tuple_put(out, <Py_ssize_t>i, item)
    except:
        Py_DECREF(out)
        raise
    return out


cdef PyObject *row_value(Context *c, const rs_node *node, const uint8_t *head) except NULL:
    """tuple or struct; the head is taken, bodies that are not fixed follow at the cursor."""
    cdef rs_slice group
    cdef const rs_node *child = node.children
    cdef bint is_struct = node.kind == RS_FMT_NODE_STRUCT
    cdef PyObject *keys = <PyObject *>c.slots[node.index]
    cdef PyObject *out
    cdef PyObject *item
    cdef uint64_t bits
    cdef uint32_t i
    checked(c, rs_decode_enter(c.cursor, node.n_children, &c.err))
    group.ptr = head
    group.end = head + node.group_bytes
    if is_struct:
        out = new_dict()
    elif node.param == 0:
        out = new_list(node.n_children)
    else:
        out = new_tuple(node.n_children)
    if out == NULL:
        raise MemoryError
    try:
        for i in range(node.n_children):
            bits = rs_decode_bits_unchecked(&group, child.bit_off, child.bits) if child.bits else 0
            if child.fixed:
                item = fixed_value(c, child, head + child.body_off, bits)
            else:
                item = appended_value(c, child, bits)
            if is_struct:
                try:
                    dict_set(out, tuple_get(keys, i), item)
                finally:
                    Py_DECREF(item)
            elif node.param == 0:
                list_put(out, i, item)
            else:
                tuple_put(out, i, item)
            child += 1
    except:
        Py_DECREF(out)
        raise
    rs_decode_leave(c.cursor)
    return out


cdef PyObject *fixed_value(Context *c, const rs_node *node, const uint8_t *body, uint64_t bits) except NULL:
    """A node whose body, already bounds-checked with what encloses it, stands at `body`."""
    cdef unsigned kind = node.kind
    cdef const rs_node *child
    cdef rs_slice group
    cdef PyObject *out
    if kind == RS_FMT_NODE_FLOAT:
        return new_float(rs_load_f64(body))
    if kind == RS_FMT_NODE_INT:
        return new_long(rs_decode_int_unchecked(node, body, bits))
    if kind == RS_FMT_NODE_CONST:
        out = <PyObject *>c.slots[node.index]
        if out == NULL:
            return expand_const(c, node)
        incref(out)
        return out
    if kind == RS_FMT_NODE_BOOL:
        out = True_ if bits else False_
        incref(out)
        return out
    if kind == RS_FMT_NODE_LIST:
        checked(c, rs_decode_enter(c.cursor, node.count, &c.err))
        group.ptr = body
        group.end = body + (<uint64_t>node.count * node.children.bits + 7) // 8
        out = fixed_elements(c, node, node.count, &group, group.end)
        rs_decode_leave(c.cursor)
        return out
    if kind == RS_FMT_NODE_STRUCT or kind == RS_FMT_NODE_TUPLE:
        return row_value(c, node, body)
    if kind == RS_FMT_NODE_UNION:
        if bits >= node.n_children:
            corrupt(b"a union number of no child")
        child = &node.children[bits]
        group = rs_slice_of(body, child.alone_bytes)
        return fixed_value(c, child, body + child.alone_bytes, rs_decode_bits_unchecked(&group, 0, child.bits))
    if kind == RS_FMT_NODE_EXT:
        return node_ext(c, node, body, bits)
    return node_array(c, node, body)


cdef PyObject *list_value(Context *c, const rs_node *node) except NULL:
    cdef const rs_node *child = node.children
    cdef uint64_t n = 0, i
    cdef rs_slice group
    cdef const uint8_t *bodies
    cdef PyObject *out
    cdef PyObject *item
    checked(c, rs_decode_list_head(c.cursor, node, &n, &group, &c.err))
    if child.fixed:
        checked(c, rs_decode_fixed_elements(c.cursor, child, n, &bodies, &c.err))
        out = fixed_elements(c, node, n, &group, bodies)
        rs_decode_leave(c.cursor)
        return out
    out = new_list(<Py_ssize_t>n) if node.param == 0 else new_tuple(<Py_ssize_t>n)
    if out == NULL:
        raise MemoryError
    try:
        for i in range(n):
            item = appended_value(c, child, rs_decode_bits_unchecked(&group, i * child.bits, child.bits))
            if node.param == 0:
                list_put(out, <Py_ssize_t>i, item)
            else:
                tuple_put(out, <Py_ssize_t>i, item)
    except:
        Py_DECREF(out)
        raise
    rs_decode_leave(c.cursor)
    return out


cdef PyObject *appended_value(Context *c, const rs_node *node, uint64_t bits) except NULL:
    """A node whose body is not fixed: it is taken from the cursor."""
    cdef unsigned kind = node.kind
    cdef uint64_t n = 0
    cdef unsigned unit = 0
    cdef const uint8_t *p
    if kind == RS_FMT_NODE_STR:
        checked(c, rs_decode_str(c.cursor, node, &n, &unit, &p, &c.err))
        return make_str(p, n, unit)
    if kind == RS_FMT_NODE_LIST:
        return list_value(c, node)
    if kind == RS_FMT_NODE_STRUCT or kind == RS_FMT_NODE_TUPLE:
        checked(c, rs_decode_take(c.cursor, node.head_bytes, &p, &c.err))
        return row_value(c, node, p)
    if kind == RS_FMT_NODE_UNION:
        if bits >= node.n_children:
            corrupt(b"a union number of no child")
        return alone_value(c, &node.children[bits])
    if kind == RS_FMT_NODE_ANY:
        if node.payload and rs_slice_left(&c.cursor.in_) > 0 and c.cursor.in_.ptr[0] == RS_FMT_TAG_EXT:
            corrupt(b"an ext value directly within an ext value")
        return any_value(c)
    if kind == RS_FMT_NODE_BYTES:
        checked(c, rs_decode_varint(c.cursor, &n, &c.err))
        checked(c, rs_decode_take(c.cursor, n, &p, &c.err))
        return new_bytes(<const char *>p, <Py_ssize_t>n)
    if kind == RS_FMT_NODE_EXT:
        return node_ext(c, node, NULL, bits)
    return node_array(c, node, NULL)


cdef PyObject *alone_value(Context *c, const rs_node *node) except NULL:
    """A node standing alone: its bit group, then its body."""
    cdef const uint8_t *p
    cdef const uint8_t *body
    cdef rs_slice group
    cdef uint64_t bits = 0
    if node.bits:
        checked(c, rs_decode_take(c.cursor, node.alone_bytes, &p, &c.err))
        group = rs_slice_of(p, node.alone_bytes)
        bits = rs_decode_bits_unchecked(&group, 0, node.bits)
    if not node.fixed:
        return appended_value(c, node, bits)
    checked(c, rs_decode_take(c.cursor, node.size_bytes, &body, &c.err))
    return fixed_value(c, node, body, bits)


cdef class Program:
    def __dealloc__(self):
        PyMem_Free(self.slots)

    cdef object prepare(self):
        """Makes keys, immutable consts and dtypes once; they are shared by all records this process decodes."""
        cdef uint32_t i, k
        cdef const rs_node *node
        cdef rs_cursor cursor
        cdef Context c
        cdef object value
        self.keep = []
        self.makers = {}
        if self.reader is None:
            from recstore import classes
            self.reader = classes.Reader()
        self.slots = <void **>PyMem_Calloc(self.tree.n_nodes, sizeof(void *))
        if self.slots == NULL:
            raise MemoryError
        c.cursor = &cursor
        c.slots = self.slots
        c.program = <PyObject *>self
        c.owner = NULL
        cursor.arrays = NULL
        cursor.arrays_size = 0
        for i in range(self.tree.n_nodes):
            node = &self.tree.nodes[i]
            cursor.in_ = rs_slice_of(node.aux, node.aux_size_bytes)
            cursor.budget.values = node.aux_size_bytes
            cursor.budget.bytes = node.aux_size_bytes
            cursor.budget.depth = RS_FMT_DEPTH
            if node.kind == RS_FMT_NODE_STRUCT:
                value = prepare_keys(&c, node.n_children)
            elif node.kind == RS_FMT_NODE_CONST:
                if node.aux[0] in (RS_FMT_TAG_LIST, RS_FMT_TAG_TUPLE, RS_FMT_TAG_DICT, RS_FMT_TAG_NDARRAY,
                                   RS_FMT_TAG_EXT):
                    continue  # mutable, or may hold what is, or of a class that may not be there
                value = take_owned(any_value(&c))
            elif node.kind == RS_FMT_NODE_NDARRAY:
                value = prepare_dtype(&c)
            else:
                continue
            self.keep.append(value)
            self.slots[i] = <void *>value
        return self

    cdef object maker(self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot):
        """The function that makes values of a code and an EXTRA, which the core has checked, from their payloads."""
        cdef Context c
        cdef rs_cursor cursor
        head = bytes([code]) + (<const char *>extra)[:size]
        make = self.makers.get(head)
        if make is None:
            cursor.in_ = rs_slice_of(extra, size)
            cursor.arrays = NULL
            cursor.arrays_size = 0
            cursor.budget.values = cursor.budget.bytes = size
            cursor.budget.depth = RS_FMT_DEPTH
            c.cursor = &cursor
            c.slots = self.slots
            c.program = <PyObject *>self
            c.owner = NULL
            from recstore import extended
            make, keep = extended.maker(code, take_owned(any_value(&c)), self.reader)
            if not keep:
                return make  # it depends on what is registered meanwhile
            if len(self.makers) >= MAKERS:
                self.makers.clear()
            self.makers[head] = make
        if slot != NULL:
            self.remember(make, slot)
        return make

    cdef int remember(self, object value, void **slot) except -1:
        """Keeps an object for as long as the program lives, in a slot that is empty or holds an equal one."""
        self.keep.append(value)
        slot[0] = <void *>value
        return 0

    cdef object decode(self, rs_cursor *cursor, Owner owner):
        """A record; with `owner`, large arrays look at its bytes."""
        cdef Context c
        cdef PyObject *value
        c.cursor = cursor
        c.slots = self.slots
        c.program = <PyObject *>self
        c.owner = NULL if owner is None else <PyObject *>owner
        value = alone_value(&c, self.tree.nodes)
        if cursor.in_.ptr != cursor.in_.end:
            Py_DECREF(value)
            rs_error_set(&c.err, RS_E_FMT_TRAILING, RS_NOWHERE, b"bytes are left over after a record")
            raise_status(&c.err)
        return take_owned(value)

    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits,
                             Owner owner):
        """The value at a place, as rs_path.h defines it; `owner` as of decode."""
        cdef Context c
        c.cursor = cursor
        c.slots = self.slots
        c.program = <PyObject *>self
        c.owner = NULL if owner is None else <PyObject *>owner
        if node == NULL:
            return take_owned(any_value(&c))
        return take_owned(fixed_value(&c, node, body, bits) if node.fixed else appended_value(&c, node, bits))


cdef inline object take_owned(PyObject *value):
    """Hands an owned reference over to Cython's counting."""
    out = <object>value
    Py_DECREF(value)
    return out


cdef object prepare_keys(Context *c, uint32_t n):
    cdef uint32_t i
    keys = []
    for i in range(n):
        key = take_owned(any_value(c))
        keys.append(sys.intern(key) if type(key) is str else key)
    try:
        distinct = len(dict.fromkeys(keys))
    except (TypeError, ValueError):
        corrupt(b"a dict key that cannot be hashed")
    if distinct != n:
        corrupt(b"a dict with a key that is there twice")
    return tuple(keys)


cdef object prepare_dtype(Context *c):
    cdef rs_array_type t
    from recstore import arrays as _arrays
    checked(c, rs_array_type_take(&c.cursor.in_, &t, &c.err))
    return _arrays.dtype_of((<const char *>t.descriptor.ptr)[:t.descriptor.end - t.descriptor.ptr])
