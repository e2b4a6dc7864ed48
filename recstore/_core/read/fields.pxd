# Record, and the projections that read a part of a record.


cdef object missing_field(uint64_t index, path)


cdef class Record:
    cdef Segment segment       # None for a Record that holds its fields
    cdef Program program
    cdef Path base             # the path from the stored record to the mapping; None: the record is the mapping
    cdef rs_record where
    cdef uint64_t index
    cdef int store
    cdef dict fields           # the fields, for a Record without a store; else None
    cdef object children       # Children of the mapping, from the second read on; None before, and for few fields
    cdef uint8_t reads         # the number of reads so far, up to 2
    cdef object name
    cdef object origin         # with `fields`: (code, EXTRA) of the ext value, to store the value unchanged; or None
    cdef inline int enter(self) except -1
    cdef int begin(self, rs_cursor *cursor, rs_place *place) except -1
    cdef bint go(self, rs_cursor *cursor, rs_place *place, object key) except -1
    cdef object read(self, object key, object default)
    cdef tuple names(self)
    cdef dict plain(self)
    cdef object whole(self)
    cdef object strictly(self, key, value)
    cdef object describe_class(self)


cdef class LazyProjection(Projection):
    cdef readonly Path path    # None: the record itself
    cdef readonly Projection base     # reads the record that contains the field; None: the stored record


cdef class FieldProjection(Projection):
    cdef readonly Path path
    cdef readonly Projection base
    cdef readonly object default
    cdef readonly bint has_default


cdef class FieldsProjection(Projection):
    cdef readonly Path path    # None: fields of the record itself
    cdef readonly tuple paths
    cdef readonly Projection base
