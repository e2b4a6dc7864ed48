# Encoding, for the builders.

cdef int encode_value(rs_buffer *raw, rs_buffer *arrays, object value, object writer=*, bint key=*,
                      rs_buffer *array_slots=*) except -1
