# What builders need of the writing side.

cdef int encode_value(rs_buffer *raw, rs_buffer *arrays, object value, object writer=*, bint key=*,
                      rs_buffer *places=*) except -1
