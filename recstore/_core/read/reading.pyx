"""Reads a store without its Segment, for the deep check and while a mapping is built. Also lists the blocks, trees and
tables of a store for `info`.
"""


cdef extern from *:
    """
    static int rs_set_already(void) { return -1; }
    """
    int raise_what_is_set "rs_set_already"() except -1


cdef extern from "format/rs_node_kinds.h" nogil:
    const char *rs_node_name(unsigned kind)
    const char *rs_ext_name(unsigned code)


cdef class StoreReader:
    """Reads the records of a store without its Segment. The bytes of the store must outlive the StoreReader."""

    def __dealloc__(self):
        if self.owns_store:
            rs_store_close(&self.own_store)

    @staticmethod
    cdef StoreReader over(rs_store *store, reader):
        """A StoreReader over `store`, which must outlive it. Nothing else may read `store`."""
        cdef StoreReader self = StoreReader.__new__(StoreReader)
        self.store = store
        self.reader = reader
        self.programs = []
        return self

    @staticmethod
    cdef StoreReader apart(const rs_store *store):
        """A StoreReader for the deep check of a store that others may read: it compiles its own trees. It makes no
        objects of classes and loads no pickles, because a check must not run their code."""
        cdef StoreReader self = StoreReader.over(NULL, trust.CHECKING)
        cdef rs_error err
        check(rs_store_open_prepared(&self.own_store, store.segment, &store.header, &store.directory, &err), &err)
        self.owns_store = True
        self.store = &self.own_store
        return self

    def read(self, uint64_t index):
        """Decodes a record. `index` must be in range."""
        return self.get(index)

    cdef object get(self, uint64_t index):
        cdef rs_record record
        cdef rs_error err
        check(rs_store_find(self.store, index, &record, &err), &err)
        program_of(record.tree, self.reader, self.programs)
        return value_of(record_at(self.store, &record, NULL))

    cdef object get_entry(self, const rs_table *table, uint32_t number):
        """Decodes entry `number` of a table. `number` must be in range, and the table's tree must have its Program."""
        cdef rs_record record
        cdef rs_error err
        check(rs_offsets_locate(table.segment, &table.block, number, &record.bytes, &err), &err)
        record.block = &table.block
        record.tree = table.tree
        return value_of(record_at(self.store, &record, NULL))


cdef inline object value_of(PyObject *value):
    """The value for a result of record_at; raises the exception that record_at has set."""
    if value == NULL:
        raise_what_is_set()
    out = <object>value
    Py_DECREF(value)
    return out


# ---- Lists for info ----

cdef int load_all(Segment segment, rs_store *store) except -1:
    """Loads every block, without its records, and every table, and with them every tree that is used."""
    cdef uint64_t i
    cdef rs_error err
    for i in range(store.n_blocks):
        segment.know_block(store, i)
    for i in range(store.n_tables):
        while segment.absent(rs_store_load_table(store, <uint32_t>i, &err), &err):
            pass
    return 0


cdef list list_trees(Segment segment, rs_store *store):
    cdef uint64_t i
    cdef uint32_t k
    cdef const rs_node *node
    load_all(segment, store)
    out = []
    for i in range(store.n_trees):
        nodes = []
        for k in range(store.trees[i].n_nodes):
            node = &store.trees[i].nodes[k]
            children = [node.children[j].index for j in range(node.n_children)]
            nodes.append((node.kind, node.param, node.fixed, children, node.size_bytes, node.bits,
                          (<const char *>node.aux)[:node.aux_size_bytes], node.flags, node.count))
        out.append(nodes)
    return out


cdef list list_tables(Segment segment, rs_store *store):
    cdef uint64_t i
    cdef const rs_table *table
    load_all(segment, store)
    out = []
    for i in range(store.n_tables):
        table = &store.tables[i]
        if table.kind == RS_FMT_TABLE_SYMBOLS:
            out.append((table.symbols.n_symbols, table.block.heap_size_bytes, None))
        else:
            out.append((table.block.n_records, table.block.heap_size_bytes, table.block.tree))
    return out


cdef list list_blocks(Segment segment, rs_store *store):
    cdef uint64_t i
    cdef const rs_block *block
    load_all(segment, store)
    out = []
    for i in range(store.n_blocks):
        block = segment.know_block(store, i)
        out.append((block.first_record, block.n_records, block.tree, block.heap_size_bytes, block.arrays_size_bytes))
    return out


def node_name(unsigned kind):
    """The name of a kind of node in csrc/format/rs_format.h. Raises ValueError for an unknown kind."""
    cdef const char *name = rs_node_name(kind)
    if name == NULL:
        raise ValueError(f"{kind} is not a kind of node")
    return name.decode()


EXT_LAST = RS_FMT_EXT_LAST  # the largest code


def ext_name(unsigned code):
    """The name of a code of ext values in csrc/format/rs_format.h. Raises ValueError for an unknown code."""
    cdef const char *name = rs_ext_name(code)
    if name == NULL:
        raise ValueError(f"{code} is not a code of ext values")
    return name.decode()
