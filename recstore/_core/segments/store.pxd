# Segment.


cdef class Segment(Owner):
    cdef rs_segment seg
    cdef rs_store store
    cdef rs_mapping mapping  # open only with is_mapping
    cdef readonly bint is_mapping
    cdef list programs       # the Programs of the trees read so far, see program_of
    cdef Entries entries     # for the Programs of a shard of a set; else None
    cdef bint open_
    cdef bint closing
    cdef bint ready          # free-threaded: the caches are filled
    cdef Py_ssize_t busy
    cdef readonly str backing
    cdef readonly str path
    cdef Py_ssize_t owned_by  # owner_pid, 0 for None; a close in another thread changes it
    cdef object copied_from  # the path of the file that was copied into this memory, or None
    cdef bytes encoded       # path as bytes, if this process may have to remove the file
    cdef public object kept_bytes
    cdef public bint kept    # for a named segment: it stays after its last user
    cdef public object name  # for a named segment: the name for recstore.shared
    cdef object reader_
    cdef readonly bint verified  # the deep check found no error
    cdef readonly bint strict  # records are watched (strict.pyx)
    cdef readonly LiveSample sample  # for a large store with `strict`; else None
    cdef bint views_  # reader_ has arrays="view"
    cdef dict section_blobs  # part -> a weak reference to the Blob over its bytes
    cdef readonly dict content_hashes  # number of a store -> its content hash
    cdef object ranges  # fetches bytes of a segment that is not whole, see open_ranges; else None
    cdef object __weakref__
    cdef int prepare(self, object limits) except -1
    cpdef int require_open(self) except -1
    cdef int make_ready(self) except -1
    cdef inline bint is_usual(self) noexcept
    cdef int enter(self) except -1
    cdef bint absent(self, rs_status status, rs_error *err) except -1
    cdef int find(self, rs_store *store, uint64_t index, rs_record *out) except -1
    cdef int load_block(self, rs_store *store, uint64_t number) except -1
    cdef const rs_block *know_block(self, rs_store *store, uint64_t number) except NULL
    cdef int fetch(self, uint64_t begin, uint64_t size) except -1
    cdef void unmap(self)
    cdef object file(self)
    cdef void leave(self)
    cdef void leave_closing(self)
    cdef object get(self, int store, uint64_t index)
    cdef int fail(self, int store, uint64_t index) except -1
    cdef object get_first(self, int store, uint64_t index, rs_status found, const rs_tree *tree, rs_error *err)
    cdef rs_store *numbered(self, int store) noexcept
    cdef Blob section_blob(self, tuple part, const uint8_t *data, uint64_t size)
    cdef list read_list(self, int number, list (*list_them)(Segment, rs_store *))
    cdef rs_slice key_index(self) except *
    cdef int key_equals_str(self, int store, uint64_t index, object key) except -2
    cdef int key_equals_int(self, int store, uint64_t index, int64_t key) except -2
    cdef Program program(self, const rs_tree *tree)
    cdef bint release(self)
    cdef inline Owner owner(self)
    cdef int give_up_name(self)
