# MappedShards and Shards, the base of a Selection over many files, and Entered.


cdef Py_ssize_t part_of(const Py_ssize_t *ends, Py_ssize_t low, Py_ssize_t high, Py_ssize_t position) noexcept


cdef enum:
    # The most shards of one set that a process keeps mapped. Linux allows 65,530 mappings.
    SET_MAPPED = 1 << 14
    KNOWN_LEAVES = 1 << 12
    # The most memory for table entries that the shards of one set keep as Python objects, in equal parts.
    SET_KEPT_BYTES = 16 << 20


cdef class MappedShards:
    cdef readonly Py_ssize_t n       # the number of shards
    cdef readonly object opener
    cdef readonly Py_ssize_t n_mapped
    cdef readonly dict beside        # number of a shard -> objects of the caller that refer to its Segment
    cdef void **at                   # the Segment of each shard that is mapped, else NULL; kept alive by the next field
    cdef dict segments_by_shard      # number of a shard -> its Segment
    cdef uint32_t *stamps            # for each shard the value of `n_loads` at its last read
    cdef uint32_t n_loads
    cdef Py_ssize_t most_shards      # the most shards to keep mapped
    cdef int64_t most_bytes          # the most bytes to keep mapped; 0 for no limit
    cdef int64_t mapped_bytes
    cdef bint grows                  # open shards are fetched into memory piece by piece
    cdef tuple stores                # the numbers of the stores that are read in each shard
    cdef dict shapes                 # the keys and templates that the Entries of all shards share
    cdef bint closed_
    cdef object __weakref__
    cpdef int require_open(self) except -1
    cdef Segment load(self, Py_ssize_t i, Py_ssize_t expected)
    cdef Entries entries(self)
    cdef int make_room(self) except -1
    cdef inline int trim(self) except -1


cdef class Shards:
    cdef readonly Py_ssize_t n       # the number of shards
    cdef readonly Py_ssize_t length  # the number of records
    cdef readonly MappedShards mapped
    cdef readonly int store
    cdef Py_ssize_t *ends_
    cdef double per_record           # shards per record, on average
    cdef void **at                   # `at` and `stamps` of `mapped`
    cdef uint32_t *stamps
    cdef object __weakref__
    cdef inline Py_ssize_t shard_of(self, Py_ssize_t position) noexcept
    cdef inline Py_ssize_t begin(self, Py_ssize_t i) noexcept
    cdef inline void *located(self, Py_ssize_t i) except NULL
    cpdef int require_open(self) except -1
    cdef inline int trim(self) except -1


cdef class Entered:
    cdef list segments
    cdef set seen
    cdef int add(self, Segment segment) except -1
    cdef int add_all(self, selection) except -1
    cdef int leave(self) except -1
