# Reading a store without its segment, and describing it.


cdef class StoreReader:
    cdef rs_store *store
    cdef rs_store own_store
    cdef bint owns_store
    cdef object reader
    cdef list programs

    @staticmethod
    cdef StoreReader apart(const rs_store *store)

    @staticmethod
    cdef StoreReader over(rs_store *store, reader)
    cdef object get(self, uint64_t index)
    cdef object get_entry(self, const rs_table *table, uint32_t number)


cdef list list_trees(Segment segment, rs_store *store)
cdef list list_tables(Segment segment, rs_store *store)
cdef list list_blocks(Segment segment, rs_store *store)
