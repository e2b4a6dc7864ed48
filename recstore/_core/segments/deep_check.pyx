"""The deep check of a segment: the part in C, without the GIL, and the rules that need Python. Ctrl-C ends it."""

cdef extern from "base/rs_watch.h" nogil:
    ctypedef struct rs_watch:
        rs_bool (*stopped)(void *arg) noexcept
        void *arg
        uint64_t work

cdef extern from "verify/rs_verify.h" nogil:
    rs_status rs_verify_segment(rs_slice segment, const rs_limits *limits, rs_watch *watch, rs_error *err)

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    PyThreadState *PyThreadState_Get()
    PyThreadState *PyEval_SaveThread() nogil
    void PyEval_RestoreThread(PyThreadState *) nogil
    int run_signal_handlers "PyErr_CheckSignals"() noexcept nogil


cdef rs_bool is_interrupted(void *arg) noexcept nogil:
    """Runs signal handlers. Returns true, with the exception set, if a handler raised one."""
    PyEval_RestoreThread(<PyThreadState *>arg)
    cdef rs_bool raised = run_signal_handlers() != 0
    PyEval_SaveThread()
    return raised


cdef int verify_segment(Segment segment, limits) except -1:
    """Raises CorruptError or VersionError for an invalid segment, and the exception of a signal handler."""
    cdef rs_error err
    cdef rs_status status
    cdef rs_watch watch
    cdef rs_limits accepted
    cdef rs_limits *chosen = &accepted
    cdef rs_slice bytes_
    if limits is not None:
        accepted.max_values, accepted.max_bytes = limits
    elif segment.store.header.most_values == <uint64_t>-1:
        accepted.max_values, accepted.max_bytes = segment.store.header.max_values, segment.store.header.max_bytes
    else:
        chosen = NULL
    watch.stopped, watch.arg, watch.work = is_interrupted, PyThreadState_Get(), 0
    segment.enter()
    try:
        bytes_ = rs_slice_of(segment.seg.data, segment.seg.size_bytes)
        with nogil:
            status = rs_verify_segment(bytes_, chosen, &watch, &err)
        if status == RS_E_STATE_STOPPED:
            raise_what_is_set()
        check(status, &err)
        # Only Python can check whether dict keys can be hashed and differ, and whether text in arrays is valid.
        for number in range(1 + segment.is_mapping):
            verify_values(StoreReader.apart(segment.numbered(number)))
    finally:
        segment.leave()
    if segment.is_mapping:
        verify_keys(segment)
    else:
        verify_saved_indexes(segment)
    return 0


cdef int verify_values(StoreReader reader) except -1:
    """Makes the Program of each tree, with its dict keys. If a tree `needs_decoding`, also decodes every record and
    every table entry of the tree."""
    cdef rs_store *store = reader.store
    cdef const rs_block *block
    cdef const rs_table *table
    cdef const rs_tree *tree
    cdef rs_error err
    cdef uint64_t number, i
    for number in range(store.n_tables):
        check(rs_store_load_table(store, <uint32_t>number, &err), &err)
        table = &store.tables[number]
        if table.kind != RS_FMT_TABLE_VALUES:
            continue
        program_of(table.tree, reader.reader, reader.programs)
        for i in range(table.block.n_records if needs_decoding(table.tree) else 0):
            PyErr_CheckSignals()
            try:
                reader.get_entry(table, <uint32_t>i)
            except (errors.CorruptError, errors.VersionError) as e:
                raise type(e)(f"entry {i} of table {number}: {e}") from None
    for number in range(store.n_blocks):
        check(rs_store_load_block(store, number, &err), &err)
        block = &store.blocks[number]
        tree = &store.trees[block.tree]
        program_of(tree, reader.reader, reader.programs)
        if not needs_decoding(tree):
            continue
        for i in range(block.first_record, block.first_record + block.n_records):
            PyErr_CheckSignals()
            try:
                reader.get(i)
            except (errors.CorruptError, errors.VersionError) as e:
                raise type(e)(f"record {i}: {e}") from None
    return 0


cdef bint needs_decoding(const rs_tree *tree):
    """Whether values of a tree can have errors that only decoding finds."""
    cdef uint32_t k
    for k in range(tree.n_nodes):
        if tree.nodes[k].kind in (RS_FMT_NODE_ANY, RS_FMT_NODE_CONST, RS_FMT_NODE_NDARRAY, RS_FMT_NODE_EXT):
            return True
    return False
