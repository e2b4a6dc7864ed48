"""Column reads: one field of many records into arrays in one pass.

The loop is C (csrc/columns/rs_gather.h) and runs without the interpreter lock. This file looks up keys in trees,
finds fields that C cannot find, and owns the memory of the result. A column read enters every segment that it reads, so
a `close` in another thread takes effect only after the read.
"""


cdef enum:
    # Records between two checks for signals: about a millisecond.
    STRETCH_RECORDS = 1 << 16


cdef class Memory:
    """A writable buffer that owns bytes which the core filled. numpy arrays are views of it."""

    cdef uint8_t *data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


cdef Memory into_memory(rs_buffer *buffer):
    """Moves the bytes of a buffer into a Memory without spare capacity. Empties the buffer."""
    cdef Memory out = Memory.__new__(Memory)
    cdef uint8_t *data
    if buffer.size_bytes > 0:
        data = <uint8_t *>realloc(buffer.data, buffer.size_bytes)
        out.data = buffer.data if data == NULL else data
        out.size = <Py_ssize_t>buffer.size_bytes
        buffer.data = NULL
    else:
        out.data = <uint8_t *>calloc(1, 1)  # pyarrow aborts the process for a buffer at NULL
        if out.data == NULL:
            raise MemoryError
    rs_buffer_clear(buffer)
    return out


# ---- Paths compiled for trees ----

cdef class CompiledPaths:
    """A Path compiled for the trees of any number of stores. Owns the keys that the core compares."""

    cdef rs_key_path path
    cdef rs_path_key *keys
    cdef rs_path_name *names
    cdef list key_objects  # the keys, in the order of path.keys, which points into them
    cdef dict by_tree      # (id of segment, store, tree) -> TreePaths
    cdef dict sources      # (id of segment, store) -> Source

    def __cinit__(self, Path path):
        steps = [] if path is None else path.steps
        self.key_objects = []
        self.by_tree = {}
        self.sources = {}
        self.names = <rs_path_name *>calloc(len(steps) + 1, sizeof(rs_path_name))
        n = sum([1 + len(parts or ()) for _, parts in steps])
        self.keys = <rs_path_key *>calloc(n + 1, sizeof(rs_path_key))
        if self.names == NULL or self.keys == NULL:
            raise MemoryError
        for i, (key, parts) in enumerate(steps):
            self.names[i].whole = self.add(key)
            self.names[i].parts = <uint32_t>len(self.key_objects)
            self.names[i].n_parts = <uint32_t>len(parts or ())
            for part in parts or ():
                self.add(part)
        self.path.keys, self.path.n_keys = self.keys, <uint32_t>len(self.key_objects)
        self.path.names, self.path.n_names = self.names, <uint32_t>len(steps)

    def __dealloc__(self):
        free(self.keys)
        free(self.names)

    cdef uint32_t add(self, object key) except? 0:
        cdef rs_path_key *out = &self.keys[len(self.key_objects)]
        self.key_objects.append(key)
        if type(key) is str:
            out.units = <const uint8_t *>PyUnicode_DATA(key)
            out.n = <uint64_t>PyUnicode_GET_LENGTH(key)
            out.unit_bytes = <unsigned>PyUnicode_KIND(key)
        out.is_index = PyIndex_Check(key)
        if out.is_index:
            out.index = clipped_index(key, NULL)
        return <uint32_t>(len(self.key_objects) - 1)

    cdef Source source(self, Segment segment, int store):
        key = id(segment), store
        source = self.sources.get(key)
        if source is None:
            source = self.sources[key] = Source(segment, store, [self], self.by_tree)
        return <Source>source


cdef class CompiledPath:
    """A Path compiled for one tree."""

    cdef rs_compiled_path core
    cdef CompiledPaths paths

    def __cinit__(self, CompiledPaths paths):
        self.paths = paths

    def __dealloc__(self):
        rs_compiled_path_clear(&self.core)

    cdef int prepare(self, Program program) except -1:
        """Looks the keys up in the tree of an open segment and in the trees of its tables."""
        cdef uint32_t k, i
        cdef rs_error err
        cdef const rs_tree *tree
        cdef const rs_node *node
        cdef size_t t
        cdef int32_t to
        check(rs_compiled_path_open(&self.core, &self.paths.path, program.tree, &err), &err)
        for t in range(self.core.n_trees):
            tree = self.core.trees[t].tree
            for i in range(tree.n_nodes):
                node = &tree.nodes[i]
                if node.kind != RS_FMT_NODE_STRUCT and node.kind != RS_FMT_NODE_EXT:
                    continue
                for k in range(self.paths.path.n_keys):
                    key = self.paths.key_objects[k]
                    to = <int32_t>find_child(program, node, key) if node.kind == RS_FMT_NODE_STRUCT \
                        else within_ext(node, key)
                    rs_compiled_path_set(&self.core, t, k, i, to)
        rs_compiled_path_prepare(&self.core)
        return 0


cdef int32_t within_ext(const rs_node *node, object key) except? -4:
    """The step from an ext node by a key: the number of a child, or an RS_STEP constant."""
    if is_dict_like(node.param) or node.param == RS_FMT_EXT_DEQUE:
        return RS_STEP_OPEN
    try:
        described = names_of(node.param, node.aux, node.aux_size_bytes)
    except errors.Error:
        return RS_STEP_ASK  # walking a record through this node raises the error
    if described is None:
        return RS_STEP_NONE
    names = described[1]
    if type(key) is str:
        return <int32_t>names.index(key) if key in names else RS_STEP_NONE
    if not described[2] or not PyIndex_Check(key):
        return RS_STEP_NONE
    cdef Py_ssize_t i = clipped_index(key, NULL)
    return <int32_t>i if 0 <= i < len(names) else RS_STEP_ASK


cdef Program begin_at(Segment segment, int store, uint64_t index, rs_cursor *cursor, rs_place *place):
    """Moves `cursor` and `place` to the beginning of a record. Returns the Program of its tree."""
    cdef rs_record where
    segment.find(segment.numbered(store), index, &where)
    program = <Program>segment.program(where.tree)
    begin_record(segment, store, &where, cursor, place)
    return program


cdef class TreePaths:
    """The compiled paths of the fields of a read for one tree."""

    cdef rs_tree_paths core
    cdef const rs_compiled_path **of_field
    cdef uint32_t *order
    cdef list compiled

    def __cinit__(self, list compiled):
        cdef uint32_t i, n = <uint32_t>len(compiled)
        self.compiled = compiled
        self.of_field = <const rs_compiled_path **>calloc(n + 1, sizeof(rs_compiled_path *))
        self.order = <uint32_t *>calloc(n + 1, sizeof(uint32_t))
        if self.of_field == NULL or self.order == NULL:
            raise MemoryError
        for i in range(n):
            self.of_field[i] = &(<CompiledPath>compiled[i]).core
        rs_tree_paths_set(&self.core, self.of_field, self.order, n)

    def __dealloc__(self):
        free(self.of_field)
        free(self.order)


cdef class Source:
    """A store of an entered segment, with the compiled paths of each of its blocks. For one read at a time."""

    cdef rs_source core
    cdef Segment segment
    cdef int store
    cdef list paths    # the CompiledPaths of each field
    cdef dict trees    # (id of segment, store, tree) -> TreePaths

    def __cinit__(self, Segment segment, int store, list paths, dict trees):
        self.segment, self.store, self.paths, self.trees = segment, store, paths, trees
        self.core.store = segment.numbered(store)
        self.core.of_block = <const rs_tree_paths **>calloc(self.core.store.n_blocks + 1, sizeof(rs_tree_paths *))
        if self.core.of_block == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.core.of_block)

    cdef int compile_block(self, uint64_t block) except -1:
        """Loads a block and compiles the paths for its tree."""
        cdef CompiledPath path
        cdef rs_store *store = self.segment.numbered(self.store)
        self.segment.load_block(store, block)
        cdef uint32_t tree = store.blocks[block].tree
        key = id(self.segment), self.store, tree
        known = self.trees.get(key)
        if known is None:
            compiled = []
            for paths in self.paths:
                path = CompiledPath(paths)
                path.prepare(<Program>self.segment.program(&store.trees[tree]))
                compiled.append(path)
            # Another thread may have compiled the same tree by now, and its read points to the result.
            known = self.trees.setdefault(key, TreePaths(compiled))
        self.core.of_block[block] = &(<TreePaths>known).core
        return 0


cdef class SelectionReader:
    """Reads the records of a selection, a run of records of one store after another. Stops when `run` does."""

    cdef Entered entered     # the segments that the current call has entered

    cdef Py_ssize_t run(self, Segment segment, int store, const int64_t *positions, int64_t start, int64_t step,
                        Py_ssize_t n) except -1:
        """Reads the n records start + step * positions[k] of a store, or start + step * k without `positions`. Returns
        the number of records read, which is less than n to stop."""
        raise NotImplementedError

    cdef Py_ssize_t run_selection(self, Selection selection, const int64_t *positions, Py_ssize_t first,
                                  Py_ssize_t n) except -1:
        """Reads the records at n positions of a selection, or from position `first` on without `positions`. Returns
        the number of records read."""
        cdef Py_ssize_t start, step
        if selection.is_flat(&start, &step):
            self.entered.add(selection.segment)
            return self.run(selection.segment, selection.store, positions, start + step * first, step, n)
        if positions == NULL and selection.is_run_of_shards(&start):
            return self.run_shards(selection.shards, start + first, n)
        return self.run_scattered(selection, positions, first, n)

    cdef Py_ssize_t run_shards(self, Shards shards, Py_ssize_t start, Py_ssize_t n) except -1:
        """run_selection for n records of a set of shards, beginning with record `start`."""
        cdef Segment segment
        cdef Py_ssize_t i = shards.shard_of(start) if n else 0, count, n_read, done = 0
        while done < n:
            count = min(n - done, shards.ends_[i] - start)
            if count:
                segment = shards.segment(i)
                self.entered.add(segment)
                n_read = self.run(segment, shards.store, NULL, start - shards.begin(i), 1, count)
                done += n_read
                if n_read < count:
                    return done
            start, i = start + count, i + 1
        return done

    cdef Py_ssize_t run_scattered(self, Selection selection, const int64_t *positions, Py_ssize_t first,
                                  Py_ssize_t n) except -1:
        """run_selection for any view. Locates all records first, because another thread may close an index array
        during the read."""
        cdef Py_ssize_t begin, end, n_read, done = 0
        cdef int64_t *indices = <int64_t *>malloc((n + 1) * sizeof(int64_t))
        if indices == NULL:
            raise MemoryError
        try:
            if positions == NULL:
                rs_positions_steps(indices, <uint64_t>n, first, 1)
            else:
                memcpy(indices, positions, n * sizeof(int64_t))
            for begin, end, part, number in locate_all(selection, indices, n):
                self.entered.add(part)
                n_read = self.run(part, number, indices + begin, 0, 1, end - begin)
                done += n_read
                if n_read < end - begin:
                    break
        finally:
            free(indices)
        return done


cdef list locate_all(Selection selection, int64_t *io, Py_ssize_t n):
    """Replaces n positions of a selection by the numbers of their records. Returns a list of
    `(begin, end, segment, store)`: io[begin] to io[end - 1] are records of that store."""
    cdef Leaf leaf
    cdef Py_ssize_t i
    cdef list begins = []
    cdef void *segment = NULL
    cdef int store = -1
    if selection.parts is None and selection.segment is not None:
        for i in range(0, n, PASS):
            selection.pass_through(0, io + i, min(PASS, n - i))
            if i % STRETCH_RECORDS == 0:
                PyErr_CheckSignals()
        return [(0, n, selection.segment, selection.store)]
    for i in range(n):
        selection.locate(io[i], &leaf)
        io[i] = leaf.index
        if leaf.segment != segment or leaf.store != store:
            segment, store = leaf.segment, leaf.store
            begins.append((i, <Segment>segment, store))
        if i % STRETCH_RECORDS == 0:
            PyErr_CheckSignals()
    ends = [begin for begin, _, _ in begins[1:]] + [n]
    return [(begin, end, part, number) for (begin, part, number), end in zip(begins, ends)]


# ---- Column reads ----

cdef class ColumnReader(SelectionReader):
    """One column read over the records of a container: a gather of one field in the form of its first value."""

    cdef rs_gather core
    cdef rs_gather_spec spec
    cdef CompiledPaths paths
    cdef Path path
    cdef bint has_default
    cdef object default
    cdef bytes dumped    # the default as an `any` value; None before it is needed
    cdef bint fits       # False once a value does not fit into one array with the values before it

    def __dealloc__(self):
        rs_gather_close(&self.core)

    cdef Py_ssize_t run(self, Segment segment, int store, const int64_t *positions, int64_t start, int64_t step,
                        Py_ssize_t n) except -1:
        cdef Source source = self.paths.source(segment, store)
        cdef rs_gather_stop *stop = &self.core.stop
        cdef rs_error err
        cdef rs_status status
        cdef uint64_t begin = self.core.done, stretch_end, end = begin + <uint64_t>n
        if positions != NULL:
            positions -= begin  # the core counts positions from the first of all runs
        else:
            start = <int64_t>(<uint64_t>start - <uint64_t>step * begin)
        while self.core.done < end and self.fits:
            stretch_end = min(self.core.done + STRETCH_RECORDS, end)
            with nogil:
                status = rs_gather_measure(&self.core, &source.core, positions, start, step, stretch_end, &err)
            if status == RS_E_ARG_RANGE:
                raise IndexError("an index is out of range: the index array was changed while it was read")
            try:
                check(status, &err)
                if stop.why == RS_GATHER_UNSURE:
                    self.walk(source)
                if stop.why == RS_GATHER_BLOCK:
                    source.compile_block(stop.block)
                elif stop.why == RS_GATHER_LACKING:
                    self.set_default()
                elif stop.why != RS_GATHER_DONE:
                    self.change_form()
            except errors.Error as e:
                raise in_record(e, source.segment, source.store, stop.index) from None
            PyErr_CheckSignals()
        return <Py_ssize_t>(self.core.done - begin)

    cdef int walk(self, Source source) except -1:
        """Reads a record whose field only Python code can find."""
        cdef rs_cursor cursor
        cdef rs_place place
        cdef rs_error err
        program = begin_at(source.segment, source.store, self.core.stop.index, &cursor, &place)
        found = self.path is None or self.path.walk(program, &cursor, &place, None)
        check(rs_gather_take(&self.core, &cursor, &place if found else NULL, &err), &err)
        return 0

    cdef int set_default(self) except -1:
        """Passes the default to the core, for the record that lacks the field and for later ones."""
        if not self.has_default:
            raise missing_field(self.core.stop.index, self.path)
        try:
            dumped = dump(self.default)
        except errors.EncodeError:
            dumped = b"", b"", True
        if len(dumped) > 2 or dumped[1]:  # the default holds arrays or Records
            self.fits = False
            return 0
        self.dumped = dumped[0]
        self.spec.absent = rs_slice_of(<const char *>self.dumped, len(self.dumped))
        return 0

    cdef int change_form(self) except -1:
        """Tries the next form if the first value does not have this one."""
        cdef rs_error err
        if self.core.fields.done or self.core.stop.why != RS_GATHER_KIND or self.spec.form == RS_GATHER_STRINGS:
            self.fits = False
            return 0
        self.spec.form = RS_GATHER_LISTS if self.spec.form == RS_GATHER_NUMBERS else RS_GATHER_STRINGS
        return check(rs_gather_field_begin(self.core.fields, self.core.n, False, &err), &err)


def read_column(Records records not None, indices=None):
    """Reads the values of a field view, or whole records that are numbers, lists or text, in one pass. `indices` None
    reads all records.

    Returns `(shape, n, numbers, seen, offsets, text)`. `shape` is "scalars", "lists" or "texts". `numbers` holds
    u8 if `seen` is 1, else f64 if `seen & 4`, else i64. `offsets` holds n + 1 i64, `text` UTF-8. Buffers that the
    shape does not need are None.

    Returns None if the caller has to decode the values: there are none; they are not all numbers, all lists or tuples
    of numbers, or all text; an int beyond 2^53 is among floats; or the projection is not a plain field. Raises
    IndexError for an index out of range, KeyError for a record that lacks the field, and the errors of reading.
    """
    cdef FieldProjection projection
    cdef rs_error err
    cdef Positions chosen = None if indices is None else positions_of(indices, records.length)
    cdef Py_ssize_t n = records.length if chosen is None else chosen.n
    if records.selection is None or n == 0 or records.selection.virtual:
        return None
    cdef ColumnReader self = ColumnReader.__new__(ColumnReader)
    if records.projection is not None:
        if type(records.projection) is not FieldProjection or (<FieldProjection>records.projection).base is not None:
            return None
        projection = <FieldProjection>records.projection
        self.path, self.has_default, self.default = projection.path, projection.has_default, projection.default
    self.fits = True
    self.paths = CompiledPaths(self.path)
    self.spec.form, self.spec.row_numbers = RS_GATHER_NUMBERS, 1
    check(rs_gather_open(&self.core, &self.spec, 1, &err), &err)
    check(rs_gather_begin(&self.core, <uint64_t>n, &err), &err)
    self.entered = Entered()
    try:
        records.selection.require_open()
        self.run_selection(records.selection, NULL if chosen is None else chosen.at, 0, n)
    finally:
        self.entered.leave()
    if records.of_shards:
        self.paths.sources.clear()  # they refer to the shards
        records.selection.trim()
    return column_result(self.core.fields) if self.fits and not self.core.fields.column.inexact else None


cdef object column_result(rs_gather_field *field):
    cdef unsigned form = field.spec.form, seen = field.column.seen
    if form == RS_GATHER_STRINGS:
        return "texts", field.done, None, 0, into_memory(&field.ends), into_memory(&field.values)
    numbers = into_memory(&field.column.values)
    if form == RS_GATHER_NUMBERS:
        return "scalars", field.done, numbers, seen, None, None
    return "lists", field.done, numbers, seen, into_memory(&field.ends), None


# ---- Without a copy ----

def column_view(Records records not None):
    """The numbers of a field view in the segment itself, without a copy: `(buffer, dtype, shape, strides, offset)`.

    Returns None unless the records are in one block, in rows of one size, with the field at one offset in every row: an
    i64, an f64, or a list of a fixed number of them. The buffer is a lease: the segment cannot be closed while it is
    alive.
    """
    cdef Selection selection = records.selection
    cdef Py_ssize_t start, step
    if selection is None or records.length == 0 or selection.virtual or not selection.is_flat(&start, &step):
        return None
    if type(records.projection) is not FieldProjection or (<FieldProjection>records.projection).base is not None:
        return None
    cdef Segment segment = selection.segment
    segment.enter()
    try:
        path = (<FieldProjection>records.projection).path
        return shared_rows(segment, selection.store, path, start, step, records.length)
    except errors.Error as e:
        raise errors.of_file(e, segment.file())
    finally:
        segment.leave()


cdef object shared_rows(Segment segment, int store, Path path, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n):
    cdef rs_record where
    cdef rs_error err
    cdef Py_ssize_t last = start + step * (n - 1)
    cdef Py_ssize_t first = min(start, last)
    if segment.ranges is not None:
        return None  # the rows may not be there
    check(rs_store_find(segment.numbered(store), first, &where, &err), &err)
    cdef const rs_block *block = where.block
    if block.index_width or <uint64_t>(max(start, last)) - block.first_record >= block.n_records:
        return None
    cdef CompiledPath compiled = CompiledPath(CompiledPaths(path))
    compiled.prepare(<Program>segment.program(where.tree))
    cdef const rs_node *node = compiled.core.node
    if not rs_compiled_path_is_fixed(&compiled.core) or block.row_size_bytes < compiled.core.least:
        return None
    shape, strides = (n,), (step * <Py_ssize_t>block.row_size_bytes,)
    if node.kind == RS_FMT_NODE_LIST:
        shape, strides = (n, node.count), (strides[0], 8)
        node = node.children
    plain_int = node.kind == RS_FMT_NODE_INT and node.size_bytes == 8 and node.base == 0
    if node.kind != RS_FMT_NODE_FLOAT and not plain_int:
        return None
    cdef const uint8_t *data = where.bytes.ptr + compiled.core.body_off
    cdef uint64_t row_part = compiled.core.least - compiled.core.body_off
    size = abs(last - start) * <Py_ssize_t>block.row_size_bytes + <Py_ssize_t>row_part
    offset = (start - first) * <Py_ssize_t>block.row_size_bytes
    return lease(segment, data, size), "<f8" if node.kind == RS_FMT_NODE_FLOAT else "<i8", shape, strides, offset


# ---- Text ----

def pad_texts(text, offsets, Py_ssize_t begin, Py_ssize_t n, Py_ssize_t width, out):
    """Copies `n` texts, beginning with text `begin`, into rows of `width` bytes in `out`. No text may be longer.
    `text` and `offsets` come from `read_column`."""
    cdef Span texts = Span.of(text, 1), bounds = Span.of(offsets, 8), rows = Span.of(out, 1, True)
    if begin < 0 or n < 0 or begin >= bounds.n or n >= bounds.n - begin or (n and width > rows.n // n):
        raise ValueError("out of range")
    if n and width:
        with nogil:
            rs_utf8_pad_unchecked(<const uint8_t *>texts.view.buf, bounds.ints + begin,
                                  <uint64_t>n, <uint64_t>width, <uint8_t *>rows.view.buf)


def longest_text(text, offsets):
    """The number of code points of the longest text in a result of `read_column`."""
    cdef Span texts = Span.of(text, 1), bounds = Span.of(offsets, 8)
    cdef uint64_t out = 0
    if texts.n:
        with nogil:
            out = rs_utf8_longest(<const uint8_t *>texts.view.buf, bounds.ints,
                                  <uint64_t>bounds.n - 1)
    return out


def widen_texts(text, offsets, Py_ssize_t width, out):
    """Copies all texts of `read_column` into rows of `width` code points. `width` is the length of the longest text."""
    cdef Span texts = Span.of(text, 1), bounds = Span.of(offsets, 8), rows = Span.of(out, 4, True)
    if bounds.n < 1 or width < 0 or (bounds.n > 1 and width > rows.n // (bounds.n - 1)):
        raise ValueError("out of range")
    if texts.n and width:
        with nogil:
            rs_utf8_widen_unchecked(<const uint8_t *>texts.view.buf, bounds.ints,
                                    <uint64_t>bounds.n - 1, <uint64_t>width, <uint32_t *>rows.view.buf)


# ---- Field names ----

def field_names(Records records not None):
    """The keys of the records, in order of appearance in the trees of their stores. None for groups and projections, or
    if a tree has records that are not dicts, or does not name their keys. The trees may name keys that no record of
    a view has. Takes time proportional to the number of blocks, not of records."""
    cdef Segment segment
    cdef rs_store *store
    cdef uint64_t i
    cdef dict keys = {}
    cdef set seen
    if records.projection is not None or records.selection.virtual:
        return None
    for segment, number in records.selection.known_leaves():
        segment.enter()
        try:
            store, seen = segment.numbered(number), set()
            for i in range(store.n_blocks):
                tree = segment.know_block(store, i).tree
                if tree in seen:
                    continue
                seen.add(tree)
                segment.program(&store.trees[tree])
                if not keys_below(store.trees[tree].nodes, keys):
                    return None
        except errors.Error as e:
            raise errors.of_file(e, segment.file())
        finally:
            segment.leave()
    return list(keys)


cdef bint keys_below(const rs_node *node, dict keys) except -1:
    """Adds to `keys` the keys of a struct, or of each alternative of a node with alternatives. False if one of them is
    not a struct."""
    cdef uint32_t i
    if node.kind == RS_FMT_NODE_STRUCT:
        keys.update(dict.fromkeys(<tuple>struct_keys(node)))
        return True
    if node.kind in (RS_FMT_NODE_UNION, RS_FMT_NODE_RUNS, RS_FMT_NODE_EXCEPTIONS):
        for i in range(node.n_children):
            if not keys_below(&node.children[i], keys):
                return False
        return True
    if node.kind == RS_FMT_NODE_DICT_CODED:
        for i in range(node.coded.n_tables):
            if not keys_below(node.coded.at[i].table.tree.nodes, keys):
                return False
        return True
    return False
