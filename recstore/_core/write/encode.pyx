"""Encodes Python values as `any` values, the raw records of a builder."""


cdef class _Unsupported(Exception):
    pass


def varint(uint64_t n):
    """Encodes a number as a varint (csrc/FORMAT.md)."""
    cdef uint8_t out[10]
    return (<const char *>out)[:rs_put_varint(out, n)]


cdef inline int put_bytes(rs_buffer *raw, const void *data, size_t n) except -1:
    cdef rs_error err
    return check(rs_buffer_append(raw, data, n, &err), &err)


cdef int put_bigint(rs_buffer *raw, object value) except -1:
    cdef uint8_t head[11]
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    head[0] = RS_FMT_TAG_BIGINT
    put_bytes(raw, head, 1 + rs_put_varint(head + 1, <uint64_t>len(data)))
    return put_bytes(raw, PyBytes_AS_STRING(data), len(data))


cdef bint put_array(encode_state *out, object value) except -1:
    """Stores an ndarray or numpy scalar as recstore.values.arrays describes it. Returns False if the format has no code
    for its dtype."""
    cdef Py_buffer view
    cdef rs_error err
    cdef uint8_t position[10]
    cdef uint64_t place[2]
    cdef rs_buffer *arrays = out.arrays
    cdef rs_buffer *to = out.raw
    cdef unsigned width = 0, item_bytes = 1
    cdef uint64_t n, size, base = 0
    _arrays = hooks.module("arrays")
    described = _arrays.describe(value)
    if described is None:
        return False
    if out.within_key and value.dtype.names is not None and not isinstance(value, _arrays.np.ndarray):
        # A read-only structured value can be hashed, but the decoded value is writable and cannot be.
        raise errors.EncodeError("a structured numpy value as a dict key or in a set could not be read back; convert "
                                 "it with .item() first")
    head, data = described
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        n = size = view.len
        # With arrays="view" the stored bytes are the array, so they are not narrowed.
        if not head[0] & RS_FMT_ARRAY_SCALAR and out.writer != NULL and (<object>out.writer).narrows:
            item_bytes = value.dtype.itemsize
            n = size // item_bytes if item_bytes else 0
            width = rs_narrow_choose(head[1], <const uint8_t *>view.buf, n, &base)
        if width != 0:
            head = bytes([head[0] | width << RS_FMT_ARRAY_WIDTH_SHIFT]) + head[1:]
            size = rs_array_data_bytes(head[0], item_bytes, size)
        raw_head = bytes([RS_FMT_TAG_NDARRAY]) + head
        put_bytes(out.raw, PyBytes_AS_STRING(raw_head), len(raw_head))
        if size >= RS_FMT_ARRAY_INLINE:
            to = arrays
            check(rs_buffer_append_zeros(to, <size_t>(-<int64_t>to.size_bytes & (RS_FMT_ALIGNMENT - 1)), &err), &err)
            if out.array_slots != NULL:
                place[0], place[1] = out.raw.size_bytes, size
                check(rs_buffer_append(out.array_slots, place, RS_PARCEL_ARRAY_SLOT_SIZE, &err), &err)
            put_bytes(out.raw, position, rs_put_varint(position, to.size_bytes // RS_FMT_ALIGNMENT))
        if width == 0:
            put_bytes(to, view.buf, size)
            return True
        check(rs_buffer_reserve(to, size, &err), &err)
        rs_narrow_write(<const uint8_t *>view.buf, item_bytes, n, width, base, to.data + to.size_bytes)
        to.size_bytes += size
        return True
    finally:
        PyBuffer_Release(&view)


cdef int put_extended(encode_state *out, object value, int depth) except -1:
    """Stores a value as an ext value, as recstore.values.ext_types describes it, or pickled if the writer allows that.
    Raises _Unsupported if neither is possible, EncodeError if the writer refuses a part of the value."""
    extended = hooks.module("ext_types")
    writer = None if out.writer == NULL else <object>out.writer
    if type(value) is Record:
        stored = value._stored()
        if stored is not value:
            return encode_put(out, stored, depth)
    described = extended.describe(value, writer)
    if described is None:
        if writer is None or not writer.pickled:
            raise _Unsupported
        try:
            described = extended.pickled(value, writer.refuses)
        except errors.EncodeError:
            raise
        except Exception:
            raise _Unsupported from None
    return put_described(out, described, depth)


cdef int put_described(encode_state *out, tuple described, int depth) except -1:
    """Stores the ext value `(code, EXTRA, payload)`, or the payload itself if the code is None."""
    cdef uint8_t head[2]
    code, extra, payload = described
    if code is None:
        return encode_put(out, payload, depth)
    head[0] = RS_FMT_TAG_EXT
    head[1] = code
    put_bytes(out.raw, head, 2)
    encode_put(out, extra, RS_FMT_DEPTH)  # EXTRA does not count toward the depth
    is_set = code == RS_FMT_EXT_SET or code == RS_FMT_EXT_FROZENSET
    out.within_key += is_set
    encode_put(out, payload, depth)
    out.within_key -= is_set
    return 0


cdef public int encode_other(encode_state *out, object value, int depth) except -1:
    cdef PyTypeObject *t = Py_TYPE(value)
    if t == &PyLong_Type:
        return put_bigint(out.raw, value)
    if t == &PyList_Type or t == &PyDict_Type or t == &PyTuple_Type:
        raise _Unsupported
    if out.writer != NULL and (<object>out.writer).refuses is not None:
        reason = (<object>out.writer).refuses(value)
        if reason is not None:
            raise errors.EncodeError(reason)
    out.python += 1
    if any_strict_types and id(type(value)) in strict_types:
        return encode_put(out, strict_types[id(type(value))](value), depth)
    if out.writer != NULL and (<object>out.writer).plain is not None:
        described = (<object>out.writer).plain(value)
        if described is not None:
            return put_described(out, described, depth)
    # If numpy is not loaded, no value can be an array, so it is not imported here.
    numpy = sys.modules.get("numpy")  # lacks ndarray while another thread imports it
    # Not isinstance, which also reads the `__class__` of a foreign value.
    if hasattr(numpy, "ndarray") and (type(value) is numpy.ndarray or issubclass(type(value), numpy.generic)):
        if put_array(out, value):
            return 0
    return put_extended(out, value, depth)


cdef int put_record(encode_state *out, object value) except -1:
    """Appends one value. Raises EncodeError for a value that cannot be stored; the buffers and the scan then hold a
    part of it."""
    try:
        return encode_put(out, value, RS_FMT_DEPTH)
    except _Unsupported:
        unsupported = hooks.module("unsupported")
    writer = None if out.writer == NULL else <object>out.writer
    raise unsupported.explain(value, RS_FMT_DEPTH, writer)


cdef int encode_value(rs_buffer *raw, rs_buffer *arrays, object value, object writer=None, bint key=False,
                      rs_buffer *array_slots=NULL) except -1:
    """Appends one `any` value. `key`: the value is a dict key, so readers must be able to hash it. Raises the errors of
    put_record."""
    cdef encode_state out
    memset(&out, 0, sizeof(encode_state))
    out.raw = raw
    out.arrays = arrays
    out.within_key = key
    out.array_slots = array_slots
    out.writer = NULL if writer is None else <PyObject *>writer
    return put_record(&out, value)


cdef int encode_counted(rs_builder *builder, encode_keys *keys, object record, object writer, bint key,
                        rs_scan_counts *counts) except -1:
    """Appends a record to a builder; the caller ends the record. Returns 1 if *counts and the key sets of the builder's
    scan are complete for the record, else 0. `key` is as in encode_value. Raises the errors of put_record."""
    cdef encode_state out
    cdef size_t key_sets = builder.scan.n_key_sets
    memset(&out, 0, sizeof(encode_state))
    out.raw = &builder.raw
    out.arrays = &builder.arrays
    out.scan = &builder.scan
    out.keys = keys
    out.writer = <PyObject *>writer
    out.within_key = key
    out.counts.values = 1
    try:
        put_record(&out, record)
    except BaseException:
        builder.scan.n_key_sets = key_sets
        raise
    counts[0] = out.counts
    if out.python != 0:
        builder.scan.n_key_sets = key_sets
    return out.python == 0
