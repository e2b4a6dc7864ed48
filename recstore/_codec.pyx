# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""Python values to `any` bytes, and records back to Python values: the only place that makes Python values.

Decoding works on owned references by hand (`PyObject *`, NULL on error), because a record is little else than object
creation and what Cython adds around each temporary showed in the profile of the first probe.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from recstore._c cimport *
from recstore import errors

import sys

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject PyUnicode_Type, PyFloat_Type, PyLong_Type, PyBytes_Type
    PyTypeObject PyList_Type, PyTuple_Type, PyDict_Type
    PyTypeObject *Py_TYPE(object)
    int PyUnicode_READY(object) except -1
    int PyUnicode_KIND(object)
    void *PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    double PyFloat_AS_DOUBLE(object)
    long long PyLong_AsLongLongAndOverflow(object, int *overflow) except? -1
    char *PyBytes_AS_STRING(object)
    Py_ssize_t PyBytes_GET_SIZE(object)
    Py_ssize_t PyList_GET_SIZE(object)
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PyDict_GET_SIZE(object)
    int PyDict_Next(object, Py_ssize_t *pos, PyObject **key, PyObject **value)
    int PyObject_GetBuffer(object, Py_buffer *view, int flags) except -1
    void PyBuffer_Release(Py_buffer *view)
    object PyMemoryView_FromMemory(char *mem, Py_ssize_t size, int flags)
    int PyBUF_READ, PyBUF_SIMPLE
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


# ---- Encoding ----

cdef class _Unsupported(Exception):
    pass


cdef inline int put_head(rs_buffer *raw, uint8_t tag, uint64_t n) except -1:
    cdef rs_error err
    check(rs_buffer_reserve(raw, 16, &err), &err)
    raw.data[raw.size_bytes] = tag
    raw.size_bytes += 1 + rs_put_varint(raw.data + raw.size_bytes + 1, n)
    return 0


cdef inline int put_bytes(rs_buffer *raw, const void *data, size_t n) except -1:
    cdef rs_error err
    return check(rs_buffer_append(raw, data, n, &err), &err)


cdef int put_int(rs_buffer *raw, object value) except -1:
    cdef int overflow = 0
    cdef long long v = PyLong_AsLongLongAndOverflow(value, &overflow)
    cdef uint8_t *p
    cdef rs_error err
    if overflow != 0:
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        put_head(raw, RS_FMT_TAG_BIGINT, len(data))
        return put_bytes(raw, PyBytes_AS_STRING(data), len(data))
    check(rs_buffer_reserve(raw, 9, &err), &err)
    p = raw.data + raw.size_bytes
    if RS_FMT_SMALL_MIN <= v <= RS_FMT_SMALL_MAX:
        p[0] = <uint8_t>(RS_FMT_TAG_ZERO + v)
        raw.size_bytes += 1
    elif -128 <= v <= 127:
        p[0] = RS_FMT_TAG_INT8
        p[1] = <uint8_t>v
        raw.size_bytes += 2
    elif -32768 <= v <= 32767:
        p[0] = RS_FMT_TAG_INT16
        rs_store_u16(p + 1, <uint16_t>v)
        raw.size_bytes += 3
    elif -2147483648 <= v <= 2147483647:
        p[0] = RS_FMT_TAG_INT32
        rs_store_u32(p + 1, <uint32_t>v)
        raw.size_bytes += 5
    else:
        p[0] = RS_FMT_TAG_INT64
        rs_store_u64(p + 1, <uint64_t>v)
        raw.size_bytes += 9
    return 0


cdef int put_str(rs_buffer *raw, object value) except -1:
    cdef int kind
    cdef Py_ssize_t n
    PyUnicode_READY(value)
    kind = PyUnicode_KIND(value)
    n = PyUnicode_GET_LENGTH(value)
    put_head(raw, RS_FMT_TAG_STR1 if kind == 1 else RS_FMT_TAG_STR2 if kind == 2 else RS_FMT_TAG_STR4, n)
    return put_bytes(raw, PyUnicode_DATA(value), n * kind)


cdef int put_array(rs_buffer *raw, rs_buffer *arrays, object value) except -1:
    """An ndarray or numpy scalar; recstore.arrays describes it, the data is copied here."""
    cdef Py_buffer view
    cdef rs_error err
    cdef uint8_t position[10]
    from recstore import arrays as _arrays
    described = _arrays.describe(value)
    if described is None:
        raise _Unsupported
    head, data = described
    raw_head = bytes([RS_FMT_TAG_NDARRAY]) + head
    put_bytes(raw, PyBytes_AS_STRING(raw_head), len(raw_head))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < RS_FMT_ARRAY_INLINE:
            return put_bytes(raw, view.buf, view.len)
        check(rs_buffer_append_zeros(arrays, <size_t>(-<int64_t>arrays.size_bytes & (RS_FMT_ALIGNMENT - 1)), &err), &err)
        put_bytes(raw, position, rs_put_varint(position, arrays.size_bytes // RS_FMT_ALIGNMENT))
        return put_bytes(arrays, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef int put_dict(rs_buffer *raw, rs_buffer *arrays, object value, int depth) except -1:
    cdef Py_ssize_t n = PyDict_GET_SIZE(value), pos = 0, seen = 0
    cdef PyObject *key
    cdef PyObject *item
    put_head(raw, RS_FMT_TAG_DICT, n)
    while PyDict_Next(value, &pos, &key, &item):
        k = <object>key
        v = <object>item
        put(raw, arrays, k, depth - 1)
        put(raw, arrays, v, depth - 1)
        seen += 1
        if PyDict_GET_SIZE(value) != n:
            break
    if seen != n or PyDict_GET_SIZE(value) != n:
        raise RuntimeError("a dict changed while it was being stored")
    return 0


cdef int put(rs_buffer *raw, rs_buffer *arrays, object value, int depth) except -1:
    cdef PyTypeObject *t = Py_TYPE(value)
    cdef Py_ssize_t n, i
    cdef uint8_t head[9]
    if t == &PyUnicode_Type:
        return put_str(raw, value)
    if t == &PyFloat_Type:
        head[0] = RS_FMT_TAG_FLOAT
        rs_store_f64(head + 1, PyFloat_AS_DOUBLE(value))
        return put_bytes(raw, head, 9)
    if t == &PyLong_Type:
        return put_int(raw, value)
    if value is None or value is True or value is False:
        head[0] = RS_FMT_TAG_NONE if value is None else RS_FMT_TAG_TRUE if value is True else RS_FMT_TAG_FALSE
        return put_bytes(raw, head, 1)
    if t == &PyBytes_Type:
        put_head(raw, RS_FMT_TAG_BYTES, PyBytes_GET_SIZE(value))
        return put_bytes(raw, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    if depth == 0 and (t == &PyList_Type or t == &PyDict_Type or t == &PyTuple_Type):
        raise _Unsupported
    if t == &PyList_Type:
        n = PyList_GET_SIZE(value)
        put_head(raw, RS_FMT_TAG_LIST, n)
        for i in range(n):
            if i >= PyList_GET_SIZE(value):
                break
            item = <object>PyList_GET_ITEM(value, i)
            put(raw, arrays, item, depth - 1)
        if PyList_GET_SIZE(value) != n:
            raise RuntimeError("a list changed while it was being stored")
        return 0
    if t == &PyDict_Type:
        return put_dict(raw, arrays, value, depth)
    if t == &PyTuple_Type:
        n = PyTuple_GET_SIZE(value)
        put_head(raw, RS_FMT_TAG_TUPLE, n)
        for i in range(n):
            put(raw, arrays, <object>PyTuple_GET_ITEM(value, i), depth - 1)
        return 0
    # No value can be an array while numpy is not loaded.
    numpy = sys.modules.get("numpy")
    if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        return put_array(raw, arrays, value)
    raise _Unsupported


cdef int encode_value(rs_buffer *raw, rs_buffer *arrays, object value) except -1:
    """Appends one `any` value. EncodeError with the path of what cannot be stored; the buffers then hold part of it."""
    try:
        return put(raw, arrays, value, RS_FMT_DEPTH)
    except _Unsupported:
        from recstore import unsupported
    raise unsupported.explain(value, RS_FMT_DEPTH)


# ---- Decoding ----

cdef struct Context:
    rs_cursor *cursor
    void **slots
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
        value = _arrays.make_array(dtype, tuple([dims[i] for i in range(ndim)]), (t.flags & RS_FMT_ARRAY_FORTRAN) != 0, memory)
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
    rs_error_set(&c.err, RS_E_FMT_VERSION, RS_NOWHERE, b"tag 0x%02x is of a later version", <int>tag)
    raise_status(&c.err)
    return NULL


cdef PyObject *expand_const(Context *c, const rs_node *node) except NULL:
    """A const whose value is mutable: decoded afresh, so that each record is the caller's own."""
    cdef rs_slice rest = c.cursor.in_
    cdef PyObject *value
    if node.aux[0] != RS_FMT_TAG_NDARRAY:
        checked(c, rs_decode_spend_bytes(c.cursor, node.aux_size_bytes, &c.err))
    c.cursor.in_ = rs_slice_of(node.aux, node.aux_size_bytes)
    value = any_value(c)
    c.cursor.in_ = rest
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
        return any_value(c)
    if kind == RS_FMT_NODE_BYTES:
        checked(c, rs_decode_varint(c.cursor, &n, &c.err))
        checked(c, rs_decode_take(c.cursor, n, &p, &c.err))
        return new_bytes(<const char *>p, <Py_ssize_t>n)
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
        self.slots = <void **>PyMem_Calloc(self.tree.n_nodes, sizeof(void *))
        if self.slots == NULL:
            raise MemoryError
        c.cursor = &cursor
        c.slots = self.slots
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
                if node.aux[0] in (RS_FMT_TAG_LIST, RS_FMT_TAG_TUPLE, RS_FMT_TAG_DICT, RS_FMT_TAG_NDARRAY):
                    continue  # mutable, or may hold what is
                value = take_owned(any_value(&c))
            elif node.kind == RS_FMT_NODE_NDARRAY:
                value = prepare_dtype(&c)
            else:
                continue
            self.keep.append(value)
            self.slots[i] = <void *>value
        return self

    cdef object decode(self, rs_cursor *cursor):
        cdef Context c
        cdef PyObject *value
        c.cursor = cursor
        c.slots = self.slots
        value = alone_value(&c, self.tree.nodes)
        if cursor.in_.ptr != cursor.in_.end:
            Py_DECREF(value)
            rs_error_set(&c.err, RS_E_FMT_TRAILING, RS_NOWHERE, b"bytes are left over after a record")
            raise_status(&c.err)
        return take_owned(value)

    cdef object decode_place(self, rs_cursor *cursor, const rs_node *node, const uint8_t *body, uint64_t bits):
        """The value at a place, as rs_path.h defines it."""
        cdef Context c
        c.cursor = cursor
        c.slots = self.slots
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


# ---- The floor of the benchmarks ----

def rebuild(object value):
    """A fresh equal copy of str, bytes, float, int, list, tuple and dict, made natively: what creating the objects of a record
    costs when nothing has to be decoded. For the benchmarks; other values are passed through.

    >>> rebuild({"a": [1, 2.5, "x"]})
    {'a': [1, 2.5, 'x']}
    """
    return take_owned(copy_value(value, 1000))


cdef PyObject *copy_value(object value, int depth) except NULL:
    cdef PyTypeObject *t = Py_TYPE(value)
    cdef PyObject *out
    cdef PyObject *item
    cdef PyObject *key
    cdef PyObject *held
    cdef Py_ssize_t n, i, pos = 0
    cdef int overflow = 0
    cdef long long number
    if depth == 0:
        raise RecursionError("a value nested too deep to copy")
    if t == &PyFloat_Type:
        return new_float(PyFloat_AS_DOUBLE(value))
    if t == &PyUnicode_Type:
        n = PyUnicode_GET_LENGTH(value)
        if n == 0 or (n == 1 and PyUnicode_KIND(value) == 1):
            Py_INCREF(value)
            return <PyObject *>value
        out = new_unicode(n, 127 if value.isascii() else 255 if PyUnicode_KIND(value) == 1
                          else 0xFFFF if PyUnicode_KIND(value) == 2 else 0x10FFFF)
        if out == NULL:
            return NULL
        memcpy(unicode_data(out), PyUnicode_DATA(value), n * PyUnicode_KIND(value))
        return out
    if t == &PyLong_Type:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            return new_long(number)
    elif t == &PyList_Type:
        n = PyList_GET_SIZE(value)
        out = new_list(n)
        for i in range(n):
            list_put(out, i, copy_value(<object>PyList_GET_ITEM(value, i), depth - 1))
        return out
    elif t == &PyTuple_Type:
        n = PyTuple_GET_SIZE(value)
        out = new_tuple(n)
        for i in range(n):
            tuple_put(out, i, copy_value(<object>PyTuple_GET_ITEM(value, i), depth - 1))
        return out
    elif t == &PyDict_Type:
        out = new_dict()
        while PyDict_Next(value, &pos, &key, &held):
            item = copy_value(<object>held, depth - 1)
            dict_set(out, key, item)
            Py_DECREF(item)
        return out
    elif t == &PyBytes_Type:
        return new_bytes(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    Py_INCREF(value)
    return <PyObject *>value
