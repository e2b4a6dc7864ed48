"""The size of each node of a store's trees (csrc/read/rs_node_sizes.h)."""


def node_sizes(Segment segment, int number=0):
    """`(blocks, tables)` of a store. `blocks` maps the number of each tree that blocks use to a list with
    `(values, bits)` of each node. `tables` has such a list for each table, but None for a symbol table. Reads every
    record, and lets other threads run. Raises CorruptError for a malformed record."""
    cdef rs_node_size *sizes = NULL
    cdef rs_error err
    cdef rs_status status
    cdef uint64_t i
    cdef dict blocks = {}
    cdef list tables = []
    segment.store_records(number)
    cdef rs_store *store = segment.numbered(number)
    segment.fetch(0, segment.seg.size_bytes)
    segment.enter()
    try:
        load_all(segment, store)
        for i in range(store.n_blocks):
            check(rs_store_load_block(store, i, &err), &err)
        for tree in sorted({store.blocks[i].tree for i in range(store.n_blocks)}):
            sizes = new_sizes(&store.trees[<uint32_t>tree])
            for i in range(store.n_blocks):
                if store.blocks[i].tree != <uint32_t>tree:
                    continue
                with nogil:
                    status = rs_node_sizes_add_block(store, &store.blocks[i], sizes, &err)
                check(status, &err)
                PyErr_CheckSignals()
            blocks[tree] = list_sizes(sizes, &store.trees[<uint32_t>tree])
            free(sizes)
            sizes = NULL
        for i in range(store.n_tables):
            if store.tables[i].kind != RS_FMT_TABLE_VALUES:
                tables.append(None)
                continue
            sizes = new_sizes(store.tables[i].tree)
            with nogil:
                status = rs_node_sizes_add_table(store, &store.tables[i], sizes, &err)
            check(status, &err)
            tables.append(list_sizes(sizes, store.tables[i].tree))
            free(sizes)
            sizes = NULL
    except errors.Error as e:
        raise errors.of_file(e, segment.file())
    finally:
        free(sizes)
        segment.leave()
    return blocks, tables


cdef rs_node_size *new_sizes(const rs_tree *tree) except NULL:
    cdef rs_node_size *sizes = <rs_node_size *>calloc(tree.n_nodes, sizeof(rs_node_size))
    if sizes == NULL:
        raise MemoryError
    return sizes


cdef list list_sizes(const rs_node_size *sizes, const rs_tree *tree):
    cdef uint32_t k
    return [(sizes[k].values, sizes[k].bits) for k in range(tree.n_nodes)]
