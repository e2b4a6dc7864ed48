# Encoding, for the builders.

cdef int encode_value(rs_buffer *raw, rs_buffer *arrays, object value, object writer=*, bint key=*,
                      rs_buffer *array_slots=*) except -1
cdef int encode_counted(rs_builder *builder, encode_keys *keys, object record, object writer, bint key,
                        rs_scan_counts *counts) except -1


cdef extern from "encode.h":
    ctypedef struct encode_keys:
        pass
    ctypedef struct encode_state:
        rs_buffer *raw
        rs_buffer *arrays
        rs_buffer *array_slots
        PyObject *writer
        rs_scan *scan
        encode_keys *keys
        rs_scan_counts counts
        size_t python
        size_t within_key
    void encode_keys_clear(encode_keys *self)
    int encode_put(encode_state *self, object value, int depth) except -1
