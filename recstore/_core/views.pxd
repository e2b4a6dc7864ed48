# Records, and ways of reading them, for other compiled modules.


cdef enum:
    # Records of get_many that are located before the first of them is read.
    CHUNK = 256
    # How many records ahead of the one that is read the offsets and, once they are there, the bytes are asked for.
    FAR = 16
    NEAR = 8


cdef class Projection:
    """The way in which a record is read: decoded whole unless a subclass says otherwise. Immutable, picklable by `describe`."""
    cdef object read(self, Segment segment, int store, Py_ssize_t index)
    cdef object read_position(self, Selection selection, Py_ssize_t position)


cdef class Records:
    cdef readonly Selection selection
    cdef readonly Projection projection
    cdef readonly object detached
    cdef public object _spilled  # the Blob with what its handle has no room for, see recstore.handles
    cdef Segment direct      # set when positions map to one store by start and step alone, and records are read whole
    cdef int store
    cdef Py_ssize_t start
    cdef Py_ssize_t step
    cdef Py_ssize_t length
    cdef inline object at(self, Py_ssize_t i)
    cdef Py_ssize_t gather(self, keys, bint has_default, Leaf *leaves, Py_ssize_t *n) except -1
    cdef inline int find(self, Py_ssize_t i, Leaf *leaf) except -1
    cdef int read_gathered(self, Leaf *leaves, Py_ssize_t n, default, list out) except -1
    cdef object at_slowly(self, Py_ssize_t i)


cdef class GroupProjection(Projection):
    cdef readonly object records   # a RecordView
    cdef readonly Blob starts
    cdef readonly Blob rows
    cdef readonly unsigned width
    cdef readonly Py_ssize_t n
