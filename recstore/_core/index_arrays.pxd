# Writers and blobs for other compiled modules.


cdef class Blob:
    cdef const uint8_t *data     # NULL once closed; publish and close change it: do not keep it without the GIL
    cdef readonly Py_ssize_t size
    cdef bytes private           # what data points into until published
    cdef rs_segment seg          # what data points into from then on
    cdef readonly str backing
    cdef readonly str path
    cdef readonly bytes id
    cdef readonly object owner_pid
    cdef object __weakref__
    cdef int take_over(self, rs_segment *segment, bytes id_) except -1
    cdef readonly object section_of       # the Segment that the bytes are a section of, else None


cdef bytes encode_path(path)
cdef str open_writer(rs_segment_writer *writer, str backing, directory, name)
