# Records that decode a field when it is read, and the ways to read a part of a record, for other compiled modules.


cdef object lacking(uint64_t index, path)


cdef class Record:
    cdef Segment segment       # None when the fields are held
    cdef Program program
    cdef Path base             # where in the record the mapping stands; None: it is the record
    cdef rs_record where
    cdef uint64_t index
    cdef int store
    cdef dict held
    cdef object name
    cdef object origin         # of a held one: (code, EXTRA) of what it was stored as, to be stored again; or None
    cdef inline int enter(self) except -1
    cdef int begin(self, rs_cursor *cursor, rs_place *place) except -1
    cdef object read(self, object key, object default)
    cdef tuple names(self)
    cdef dict plain(self)
    cdef object whole(self)
    cdef object describe_class(self)


cdef class LazyProjection(Projection):
    cdef readonly Path path    # None: the record itself
    cdef readonly Projection base     # what gives the record, where it is no store; None: the store


cdef class FieldProjection(Projection):
    cdef readonly Path path
    cdef readonly Projection base
    cdef readonly object default
    cdef readonly bint has_default


cdef class FieldsProjection(Projection):
    cdef readonly Path path    # None: fields of the record itself
    cdef readonly tuple paths
    cdef readonly Projection base
