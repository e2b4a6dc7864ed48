# Records, the base of the record containers, and projections.


cdef enum:
    # Records that get_many locates before it reads the first of them.
    CHUNK = 256
    # The prefetch distance, in records, of a record's offsets and then of its bytes.
    FAR = 16
    NEAR = 8


cdef class Projection:
    """Reads whole records; subclasses read a part. Immutable. `describe` returns plain values for a handle."""
    cdef object read(self, Segment segment, int store, Py_ssize_t index)
    cdef object read_position(self, Selection selection, Py_ssize_t position)


cdef class Records:
    cdef readonly Selection selection
    cdef readonly Projection projection
    cdef readonly object detached
    cdef public object _spilled  # the Blob with the bytes of a view too long for its handle; or None
    cdef Segment direct      # set if position p is record start + step * p of one store, read whole
    cdef Shards sharded      # set if position p is record start + p of a set of shards, read whole
    cdef bint of_shards      # some records are in sets of shards: opening a shard may unmap another one
    cdef int store
    cdef Py_ssize_t start
    cdef Py_ssize_t step
    cdef Py_ssize_t length
    cdef readonly bint _strict  # records are watched (strict.pyx); `direct` and `sharded` are then None
    cdef inline object at(self, Py_ssize_t i)
    cdef inline int find(self, Py_ssize_t i, Leaf *leaf) except -1
    cdef int read_located(self, Leaf *leaves, Py_ssize_t n, default, list out) except -1
    cdef inline object at_shard(self, Py_ssize_t position)
    cdef object at_slowly(self, Py_ssize_t i)
    cdef object at_strictly(self, Py_ssize_t i)


cdef class GroupProjection(Projection):
    cdef readonly object records   # a RecordView
    cdef readonly Blob starts
    cdef readonly Blob rows
    cdef readonly unsigned width
    cdef readonly Py_ssize_t n
