"""Encodes Python values as `any` values, the raw records of a builder."""


cdef class _Unsupported(Exception):
    pass


def varint(uint64_t n):
    """A number as a varint of csrc/FORMAT.md."""
    cdef uint8_t out[10]
    return (<const char *>out)[:rs_put_varint(out, n)]


# The state of one call of encode_value; all pointers are borrowed. `writer` is a trust.Writer or NULL. `python` counts
# the calls of Python code: such code, or another thread during it, may change the containers that are being stored.
# `keys` is not 0 within a dict key or a set. `array_slots` gets the array slots of a parcel (csrc/write/rs_parcel.h),
# or is NULL.
cdef struct Out:
    rs_buffer *raw
    rs_buffer *arrays
    PyObject *writer
    size_t python
    size_t keys
    rs_buffer *array_slots


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


cdef bint put_array(Out *out, object value) except -1:
    """Stores an ndarray or numpy scalar, which recstore.values.arrays describes. False if the format has no code for
    its dtype."""
    cdef Py_buffer view
    cdef rs_error err
    cdef uint8_t position[10]
    cdef uint64_t place[2]
    cdef rs_buffer *arrays = out.arrays
    cdef size_t gap = <size_t>(-<int64_t>arrays.size_bytes & (RS_FMT_ALIGNMENT - 1))
    _arrays = hooks.module("arrays")
    described = _arrays.describe(value)
    if described is None:
        return False
    if out.keys and value.dtype.names is not None and not isinstance(value, _arrays.np.ndarray):
        # A read-only structured value can be hashed, but reading gives a writable one, which cannot.
        raise errors.EncodeError("a structured numpy value as a dict key or in a set could not be read back; convert "
                                 "it with .item() first")
    head, data = described
    raw_head = bytes([RS_FMT_TAG_NDARRAY]) + head
    put_bytes(out.raw, PyBytes_AS_STRING(raw_head), len(raw_head))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < RS_FMT_ARRAY_INLINE:
            put_bytes(out.raw, view.buf, view.len)
            return True
        check(rs_buffer_append_zeros(arrays, gap, &err), &err)
        if out.array_slots != NULL:
            place[0], place[1] = out.raw.size_bytes, view.len
            check(rs_buffer_append(out.array_slots, place, RS_PARCEL_ARRAY_SLOT_SIZE, &err), &err)
        put_bytes(out.raw, position, rs_put_varint(position, arrays.size_bytes // RS_FMT_ALIGNMENT))
        put_bytes(arrays, view.buf, view.len)
        return True
    finally:
        PyBuffer_Release(&view)


cdef int put_extended(Out *out, object value, int depth) except -1:
    """Stores a value of another type as an ext value, which recstore.values.ext_types describes. _Unsupported for a
    type without a description."""
    cdef uint8_t head[2]
    extended = hooks.module("ext_types")
    writer = None if out.writer == NULL else <object>out.writer
    if type(value) is extended.Record:
        stored = value._stored()
        if stored is not value:
            return put(out, stored, depth)
    described = extended.describe(value, writer)
    if described is None:
        if writer is None or not writer.pickled:
            raise _Unsupported
        try:
            described = extended.pickled(value)
        except Exception:
            raise _Unsupported from None
    code, extra, payload = described
    head[0] = RS_FMT_TAG_EXT
    head[1] = code
    put_bytes(out.raw, head, 2)
    put(out, extra, RS_FMT_DEPTH)  # EXTRA does not count for the depth
    hashed = code == RS_FMT_EXT_SET or code == RS_FMT_EXT_FROZENSET
    out.keys += hashed
    put(out, payload, depth)
    out.keys -= hashed
    return 0


cdef inline size_t with_key(size_t keys, PyObject *key) noexcept:
    return (keys ^ <size_t>key) * <size_t>1099511628211


cdef size_t keys_now(object value) noexcept:
    """The hash that with_key makes of a dict's keys, in their order."""
    cdef Py_ssize_t pos = 0
    cdef size_t keys = 0
    cdef PyObject *key
    while PyDict_Next(value, &pos, &key, NULL):
        keys = with_key(keys, key)
    return keys


cdef int put_dict(Out *out, object value, int depth) except -1:
    cdef Py_ssize_t n = PyDict_GET_SIZE(value), pos = 0, seen = 0
    cdef size_t keys = 0, python = out.python
    cdef PyObject *key
    cdef PyObject *item
    put_head(out.raw, RS_FMT_TAG_DICT, n)
    while PyDict_Next(value, &pos, &key, &item):
        k = <object>key
        v = <object>item
        keys = with_key(keys, key)
        out.keys += 1
        put(out, k, depth - 1)
        out.keys -= 1
        put(out, v, depth - 1)
        seen += 1
        if PyDict_GET_SIZE(value) != n:
            break
    # If Python code emptied and refilled the dict, a key may have come twice and another never, at the same size.
    if seen != n or PyDict_GET_SIZE(value) != n or (out.python != python and keys_now(value) != keys):
        raise RuntimeError("a dict changed while it was being stored")
    return 0


cdef int put(Out *out, object value, int depth) except -1:
    cdef PyTypeObject *t = Py_TYPE(value)
    cdef rs_buffer *raw = out.raw
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
            put(out, item, depth - 1)
        if PyList_GET_SIZE(value) != n:
            raise RuntimeError("a list changed while it was being stored")
        return 0
    if t == &PyDict_Type:
        return put_dict(out, value, depth)
    if t == &PyTuple_Type:
        n = PyTuple_GET_SIZE(value)
        put_head(raw, RS_FMT_TAG_TUPLE, n)
        for i in range(n):
            put(out, <object>PyTuple_GET_ITEM(value, i), depth - 1)
        return 0
    # While numpy is not loaded, no value can be an array: so it is not imported here.
    out.python += 1
    numpy = sys.modules.get("numpy")
    if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        if put_array(out, value):
            return 0
    return put_extended(out, value, depth)


cdef int encode_value(rs_buffer *raw, rs_buffer *arrays, object value, object writer=None, bint key=False,
                      rs_buffer *array_slots=NULL) except -1:
    """Appends one `any` value; `key` says that it is a dict key, which readers have to hash. EncodeError names the path
    of a value that cannot be stored; the buffers then hold a part of the record."""
    cdef Out out
    out.raw = raw
    out.arrays = arrays
    out.python = 0
    out.keys = key
    out.array_slots = array_slots
    out.writer = NULL if writer is None else <PyObject *>writer
    try:
        return put(&out, value, RS_FMT_DEPTH)
    except _Unsupported:
        unsupported = hooks.module("unsupported")
    raise unsupported.explain(value, RS_FMT_DEPTH, writer is not None and writer.pickled)
