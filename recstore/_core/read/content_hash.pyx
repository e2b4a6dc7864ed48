"""Feeds the content of stores and selections to a hash; recstore/shm/content_hash.py defines the hash.

The bytes of a store do not depend on its position in the segment, so the values of a mapping have the same hash as a
list of the same values. Segment id, time, label and key indexes are not hashed.
"""


cdef enum:
    RUN_BYTES = 32
    RUNS_AT_ONCE = 2048


cdef int feed_numbers(update, numbers) except -1:
    update(b"".join([int(number).to_bytes(8, "little") for number in numbers]))
    return 0


cdef int feed_bytes(update, const uint8_t *data, uint64_t size) except -1:
    """Feeds the size and the bytes. The caller must have entered the segment, because hashlib lets other threads
    run."""
    feed_numbers(update, (size,))
    if size:
        update(PyMemoryView_FromMemory(<char *>data, <Py_ssize_t>size, PyBUF_READ))
    return PyErr_CheckSignals()


cdef int feed_block(update, rs_store *store, const rs_block *block, uint64_t number) except -1:
    cdef uint64_t offsets = store.directory.sections[RS_FMT_SECTION_OFFSETS].off
    # Hash the bits only if the width does not determine them.
    width = block.index_width if block.index_width != RS_FMT_INDEX_LINES else block.index_width | block.index_bits << 8
    feed_numbers(update, (number, block.n_records, block.row_size_bytes, width,
                          block.index_off - offsets if block.index_width else 0))
    feed_bytes(update, store.segment.ptr + block.heap_off, block.heap_size_bytes)
    return feed_bytes(update, store.segment.ptr + block.arrays_off, block.arrays_size_bytes)


def hash_store(Segment segment, int number, update):
    """Feeds `update` all bytes of a store that determine its records. Takes time proportional to its size. Raises
    CorruptError for a malformed block."""
    cdef rs_section *section
    cdef rs_table *table
    cdef rs_error err
    cdef uint64_t i
    segment.store_records(number)
    cdef rs_store *store = segment.numbered(number)
    segment.fetch(0, segment.seg.size_bytes)
    segment.enter()
    try:
        feed_numbers(update, (store.header.n_records, store.n_trees, store.n_tables, store.n_blocks))
        for kind in (RS_FMT_SECTION_TREES, RS_FMT_SECTION_TREE_TABLE, RS_FMT_SECTION_OFFSETS):
            section = &store.directory.sections[kind]
            feed_bytes(update, store.segment.ptr + section.off, section.size_bytes)
        for i in range(store.n_tables):
            check(rs_store_load_table(store, <uint32_t>i, &err), &err)
            table = &store.tables[i]
            feed_numbers(update, (table.kind,))
            feed_block(update, store, &table.block, table.block.tree)
        for i in range(store.n_blocks):
            check(rs_store_load_block(store, i, &err), &err)
            feed_block(update, store, &store.blocks[i], store.blocks[i].tree)
    except errors.Error as e:
        raise errors.of_file(e, segment.file())
    finally:
        segment.leave()


cdef class RunHash:
    """Feeds a sequence of record numbers as the longest possible runs of equal step, so that equal sequences give equal
    bytes, whatever views they come from."""

    cdef object update
    cdef uint8_t out[RUN_BYTES * RUNS_AT_ONCE]
    cdef Py_ssize_t filled
    cdef readonly Py_ssize_t runs
    cdef int64_t store
    cdef readonly int64_t start
    cdef readonly int64_t step
    cdef int64_t last
    cdef Py_ssize_t length

    def __cinit__(self, update):
        self.update = update

    cdef inline int add(self, int64_t store, int64_t index) except -1:
        if self.length and store == self.store:
            if self.length == 1:
                self.step = index - self.start
                self.last = index
                self.length = 2
                return 0
            if index - self.last == self.step:
                self.last = index
                self.length += 1
                return 0
        self.end_run()
        self.store = store
        self.start = self.last = index
        self.step = 1
        self.length = 1
        return 0

    cdef int add_slice(self, int64_t store, int64_t start, int64_t step, Py_ssize_t length) except -1:
        """Adds `length` numbers, at least one, to an empty RunHash."""
        self.store = store
        self.start = start
        self.length = length
        self.step = step if length > 1 else 1
        self.last = start + self.step * (length - 1)
        return 0

    cdef int end_run(self) except -1:
        if self.length == 0:
            return 0
        if self.filled == RUNS_AT_ONCE:
            self.flush()
        cdef uint8_t *p = self.out + RUN_BYTES * self.filled
        rs_store_u64(p, <uint64_t>self.store)
        rs_store_u64(p + 8, <uint64_t>self.start)
        rs_store_u64(p + 16, <uint64_t>self.step)
        rs_store_u64(p + 24, <uint64_t>self.length)
        self.filled += 1
        self.runs += 1
        self.length = 0
        return 0

    cdef int flush(self) except -1:
        self.update(PyBytes_FromStringAndSize(<const char *>self.out, RUN_BYTES * self.filled))
        self.filled = 0
        return PyErr_CheckSignals()


def hash_selection(Selection selection, update, hash_of):
    """Feeds the records of a selection by store and number. `hash_of(segment, store)` returns the hash of a store.
    `hash_of` is None for a selection of groups, whose positions are fed instead. Takes time proportional to the number
    of records.

    Returns `(segment, store)` if these are all records of one store in their order, else None."""
    cdef RunHash runs = RunHash(update)
    cdef Leaf leaf
    cdef void *segment = NULL
    cdef int store = -1
    cdef int64_t number = 0
    cdef Py_ssize_t i
    cdef Segment located
    stores, numbers, kept = {}, {}, []  # the keys of `stores` have ids of segments, which `kept` keeps alive
    cdef Py_ssize_t start, step, todo = selection.length
    if hash_of is not None and selection.is_flat(&start, &step) and todo:
        segment, store, todo = <void *>selection.segment, selection.store, 0
        number = store_number(stores, numbers, selection.segment, store, hash_of)
        runs.add_slice(number, start, step, selection.length)
    for i in range(todo):
        if hash_of is None:
            runs.add(0, selection.base_position(i))
            continue
        selection.locate(i, &leaf)
        if leaf.segment != segment or leaf.store != store:
            segment, store, located = leaf.segment, leaf.store, <Segment>leaf.segment
            if (id(located), store) not in stores:
                kept.append(located)
            number = store_number(stores, numbers, located, store, hash_of)
        runs.add(number, leaf.index)
        if i & 0xFFFFF == 0xFFFFF:
            PyErr_CheckSignals()
    is_one_run = runs.runs == 0 and runs.length == selection.length > 0
    runs.end_run()
    runs.flush()
    feed_numbers(update, (runs.runs, len(numbers)))
    update(b"".join(numbers))
    if is_one_run and segment != NULL and runs.start == 0 and runs.step == 1:
        located = <Segment>segment
        if located.store_records(store) == selection.length:
            return located, store
    return None


cdef int64_t store_number(dict stores, dict numbers, Segment segment, int store, hash_of) except -1:
    """The number of a store. Stores with the same content have the same number."""
    key = id(segment), store
    if key not in stores:
        stores[key] = numbers.setdefault(hash_of(segment, store), len(numbers))
    return stores[key]
