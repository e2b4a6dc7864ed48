# Blobs, and the writers of segments.


cdef class Blob:
    cdef const uint8_t *data     # NULL after close; publish and close change it, so hold the GIL while using it
    cdef readonly Py_ssize_t size
    cdef bint gone               # closed in a free-threaded interpreter: other threads may still read `data`
    cdef bytes private           # holds the bytes until `publish`
    cdef rs_segment seg          # maps the bytes from `publish` on
    cdef readonly str backing
    cdef readonly str path
    cdef readonly bytes id
    cdef readonly object owner_pid
    cdef object __weakref__
    cdef inline bint is_closed(self)
    cdef int free(self) except -1
    cdef int take_over(self, rs_segment *segment, bytes id_) except -1
    cdef readonly object section_of       # the Segment if the bytes are a section of it, else None
    # The section: None for ORDER, else `(number of a saved index, part)`, see SavedIndex.blob.
    cdef readonly tuple part


cdef bytes encode_path(path)
cdef str open_writer(rs_segment_writer *writer, str backing, directory, name)
