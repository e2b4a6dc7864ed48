# Saved indexes: indexes that are sections of a segment.


cdef class SavedIndex:
    cdef readonly Segment segment
    cdef readonly int number
    cdef rs_saved_index core
    cdef Records proof(self)
    cdef int rows_of(self, uint64_t entry, uint64_t *begin, uint64_t *end) except -1


cdef int save_indexes(rs_segment_writer *writer, Segment source, object indexes) except -1
cdef int index_written(rs_segment_writer *writer, object reader, object indexes) except -1
