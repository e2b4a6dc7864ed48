# Hashes of keys, key indexes and lookups.


cdef bint key_hash(object key, uint64_t seed, bint strict, uint64_t *out) except -1


cdef class KeyIndex:
    cdef rs_keys keys
    cdef const uint8_t *at   # the bytes that `keys` reads; `blob` may move them
    cdef readonly Segment segment
    cdef readonly SavedIndex saved
    cdef readonly Blob blob
    cdef readonly Py_ssize_t nbytes
    cdef int open(self, rs_slice bytes_, rs_error *err) except -1
    cdef int require(self) except -1
    cdef int reopen(self) except -1

    @staticmethod
    cdef KeyIndex of_saved(SavedIndex saved)


cdef class KeyHashes:
    cdef rs_buffer hashes
    cdef object opaque_flags    # a bytearray: 1 for each opaque key, up to the last of them
    cdef readonly dict opaque   # opaque key, or in a copy its old number -> the numbers of its records
    cdef readonly object seed
    cdef readonly uint64_t n
    cdef int mark_opaque(self, uint64_t number) except -1
    cpdef append(self, key)
    cdef const uint8_t *flags(self)
    cdef KeyHashes chosen(self, const uint64_t *records, uint64_t n)
    cdef int join_opaque(self, dict out, read) except -1


cdef class Mapping:
    cdef readonly Records _keys
    cdef readonly Records _values
    cdef readonly KeyIndex key_index
    cdef readonly object factory
    cdef readonly object detached
    cdef dict opaque
    cdef bint native
    cdef tuple all_segments  # of keys and values
    cdef Records proof       # the keys of the records by row, for an untrusted saved index; else None
    cdef object proved       # a bytearray with a bit for each checked entry, or None
    cdef public object _spilled  # the Blob with the bytes of a view too long for its handle; or None
    cdef int require(self) except -1
    cdef int fetch_ahead(self, list keys, uint64_t *hashes, uint64_t *hashed) except -1
    cdef Py_ssize_t entry_ahead(self, key, bint hashed, uint64_t h) except -2
    cdef int compare_natively(self, Py_ssize_t entry, object key) except -2
    cdef object hash_at(self, Py_ssize_t entry, object key)
    cdef object path(self)
    cdef bint compare(self, Py_ssize_t entry, object key) except -1
    cdef bint is_key(self, Py_ssize_t entry, object stored_key, object key) except -1
    cdef int prove(self, Py_ssize_t entry, object key) except -1
    cdef Py_ssize_t find_entry(self, key) except -2
    cdef Py_ssize_t find_hashed(self, key, uint64_t h) except -2
    cdef Py_ssize_t entry_of(self, key) except -2
    cdef Py_ssize_t opaque_entry(self, key) except -2
    cdef Py_ssize_t entry_by_comparing(self, key) except -2
