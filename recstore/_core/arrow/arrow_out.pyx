"""Exports to Arrow: the records of a container as a stream of the Arrow C stream interface.

The loops are C (csrc/arrow/rs_arrow_out.h) and run without the interpreter lock. This file finds the records of views,
loads blocks, and looks fields up where C cannot. A batch enters every segment that it reads, so a `close` in another
thread takes effect only after the batch has ended; the next one then fails. Batches are memory of their own.
"""

cdef enum:
    # Records of a batch. A batch ends earlier once it holds RS_ARROW_BATCH_BYTES.
    BATCH_RECORDS = 1 << 16
    # Bytes of dumped records of a batch: a value of one byte takes up to 16 in Arrow.
    DUMPED_BYTES = 16 << 20
    CHECK_RECORDS = 1 << 12


cdef class ArrowSource:
    """A store of an entered segment, and the blocks of it that an export knows."""

    cdef rs_arrow_source it
    cdef Segment segment
    cdef int store
    cdef Source paths        # the compiled paths of the blocks; None for whole records

    def __cinit__(self, Segment segment, int store, Source paths):
        self.segment, self.store, self.paths = segment, store, paths
        self.it.store = segment.numbered(store)
        self.it.blocks = <rs_arrow_block *>calloc(self.it.store.n_blocks + 1, sizeof(rs_arrow_block))
        if self.it.blocks == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.it.blocks)


cdef class ArrowExport:
    """One export of a container's records, from the first to the last. One thread at a time may use it."""

    cdef rs_arrow_out it
    cdef Records records
    cdef CompiledPaths paths  # None for whole records
    cdef Path path
    cdef bint has_default
    cdef object default
    cdef bytes dumped         # the default as an `any` value
    cdef dict sources         # (id of segment, store) -> ArrowSource
    cdef list wholes          # of chosen fields with dots: the addresses of the fields with the whole name
    cdef list ways            # the addresses of the fields below the root that lead to chosen ones
    cdef bint chosen          # only some fields are exported
    cdef list dumped_records  # what `dump` made of the records, if Python code reads them; else None
    cdef Py_ssize_t position  # of the next record
    cdef Py_ssize_t end       # the position after the last record
    cdef readonly bint keep_nulls  # records that are None stay nulls; else they become rows of nulls
    cdef bint running
    cdef bint is_settled
    cdef Entered entered      # by the call that is under way
    cdef readonly object failure  # the error that ended the stream, None before

    def __cinit__(self, Records records, bint keep_nulls):
        cdef rs_error err
        self.records, self.keep_nulls = records, keep_nulls
        self.sources, self.wholes, self.ways = {}, [], []
        self.end = records.length
        check(rs_arrow_out_open(&self.it, &err), &err)

    def __dealloc__(self):
        rs_arrow_out_clear(&self.it)

    # ---- What is read ----

    cdef bint choose(self, Projection projection) except -1:
        """Prepares reading through a projection. False for a projection that only Python code can read."""
        cdef FieldProjection field
        cdef FieldsProjection fields
        cdef Path path = None
        if type(projection) is LazyProjection:
            if (<LazyProjection>projection).base is not None:
                return False
            path = (<LazyProjection>projection).path
        elif type(projection) is FieldProjection:
            field = <FieldProjection>projection
            if field.base is not None:
                return False
            path, self.has_default, self.default = field.path, field.has_default, field.default
        elif type(projection) is FieldsProjection:
            fields = <FieldsProjection>projection
            if fields.base is not None or not self.want(fields.paths):
                return False
            path = fields.path
        elif projection is not None:
            return False
        self.it.root.rows = path is None
        if path is not None:
            self.path, self.paths = path, CompiledPaths(path)
        if self.has_default:
            try:
                dumped = dump(self.default)
            except errors.EncodeError:
                return False
            if len(dumped) > 2 or dumped[1]:  # it holds arrays or Records
                return False
            self.dumped = dumped[0]
            self.it.missing = rs_slice_of(<const char *>self.dumped, len(self.dumped))
        return True

    cdef bint want(self, paths) except -1:
        """Restricts the export to the fields at these paths, in their order. False where a key is no str."""
        cdef Path path
        whole = []  # the fields on the way, to be closed, and those that are wanted with all below
        on_way = {}
        for path in paths:
            for key, _ in path.steps:
                if type(key) is not str:
                    return False
            if not self.want_one(path.steps, on_way, whole):
                return False
        for address in on_way:
            if address not in whole:
                (<rs_arrow_field *><size_t>address).closed = True
                self.ways.append(address)
        self.it.root.closed = self.chosen = True
        return True

    cdef bint want_one(self, steps, on_way, whole) except -1:
        cdef rs_arrow_field *at = self.it.root
        cdef rs_arrow_field *dotted
        for key, parts in steps:
            if parts is not None:
                if len(steps) > 1:
                    return False  # the whole name or its parts, at each of several levels
                dotted = self.child(at, key)
                self.wholes.append(<size_t>dotted)
            for part in parts or (key,):
                on_way[<size_t>at] = None
                at = self.child(at, part)
        whole.append(<size_t>at)
        return True

    cdef rs_arrow_field *child(self, rs_arrow_field *at, key) except NULL:
        cdef rs_error err
        cdef rs_arrow_field *out = NULL
        name = key.encode("utf-8", "surrogatepass")
        check(rs_arrow_field_child(at, name, len(name), &self.it.program.n_fields, &out, &err), &err)
        return out

    # ---- Types ----

    def infer(self, bint exact):
        """Finds the types: those that the trees of the blocks allow, or with `exact` those that the records have. The
        two differ where a view has only some records of a block. Returns a list of the fields that have none, each as
        `(names, problem, seen, others)`: the names of the field and of the structs that it is in, and the codes of
        csrc/arrow/rs_arrow_field.h. None where only Python code can read the fields that were chosen."""
        cdef rs_error err
        cdef rs_bool whole = True
        cdef rs_arrow_field *root = self.it.root
        if self.dumped_records is not None:
            rs_arrow_out_infer_all(&self.it)
            self.take_dumped(self.end)
        elif self.records.length or not exact:
            self.enter_all(self.see_trees)
        check(rs_arrow_out_resolve(&self.it, &whole, &err), &err)
        if self.records.length and self.dumped_records is None and (
                not whole or exact and not has_all(self.records.selection)):
            rs_arrow_out_infer_all(&self.it)
            self.enter_all(self.see_records)
            check(rs_arrow_out_resolve(&self.it, &whole, &err), &err)
        for address in self.wholes:
            if (<rs_arrow_field *><size_t>address).present:
                return None
        # A path leads into values of other kinds as Python code says: into a tuple by position, past a number.
        for address in self.ways if not self.chosen else [*self.ways, <size_t>root]:
            if (<rs_arrow_field *><size_t>address).seen & ~(RS_ARROW_SEEN_STRUCT | RS_ARROW_SEEN_NULL):
                return None
        problems = []
        add_problems(root, (), problems)
        return problems

    def settle(self, bint as_table, requested=None, bint views=False):
        """Prepares the batches. With `as_table`, records of no type become rows without columns. `requested` is the
        PyCapsule of an ArrowSchema whose types are taken where no value can be lost. With `views`, text is views."""
        cdef rs_error err
        if as_table and self.it.root.seen == 0 and self.it.root.rows:
            rs_arrow_set_kind(self.it.root, RS_ARROW_KIND_STRUCT)
        if views:
            rs_arrow_request_views(self.it.root)
        if requested is not None:
            rs_arrow_request(self.it.root, <const ArrowSchema *>PyCapsule_GetPointer(requested, "arrow_schema"))
        check(rs_arrow_out_settle(&self.it, self.room(), &err), &err)
        self.is_settled = True

    def restrict(self, Py_ssize_t begin, Py_ssize_t end):
        """Restricts the batches to the records at positions begin to end - 1. The types stay those of all."""
        if not 0 <= begin <= end <= self.records.length:
            raise ValueError("out of range")
        self.position, self.end = begin, end

    @property
    def is_sure(self):
        """Whether the trees told all types, so that no record was looked at to find them."""
        return not self.it.has_rest and self.dumped_records is None

    @property
    def is_rows(self):
        """Whether records are structs without a None among them."""
        return self.it.root.kind == RS_ARROW_KIND_STRUCT and not self.it.root.seen & RS_ARROW_SEEN_NULL

    cdef uint64_t room(self):
        return <uint64_t>min(BATCH_RECORDS, self.end - self.position)

    cdef int enter_all(self, work) except -1:
        """Calls `work` with all segments entered."""
        cdef Entered entered = Entered()
        try:
            entered.add_all(self.records.selection)
            self.entered = entered
            work()
        finally:
            self.entered = None
            entered.leave()
            if self.records.of_shards and self.position >= self.end:
                self.sources.clear()  # they refer to the shards
                if self.paths is not None:
                    self.paths.sources.clear()
                self.records.selection.trim()
        return 0

    def see_trees(self):
        """Notes the kinds of values that the trees of the blocks tell, and those in records of which the trees do
        not tell all."""
        cdef Selection selection = self.records.selection
        if selection.length == 0:
            for segment, number in selection.known_leaves():
                self.entered.add(segment)
                self.know_all(self.source(segment, number))
        else:
            self.see(selection)

    cdef int see(self, Selection selection) except -1:
        """see_trees for a selection. The order does not matter, so a permutation is read in the order of its base."""
        cdef Selection base, part
        if not has_base(selection):
            self.run_selection(selection, 0, selection.length)
            return 0
        base = selection.base()
        if base.parts is None:
            self.run_selection(base, 0, base.length)
            return 0
        for part in base.parts:
            self.see(part)
        return 0

    def see_records(self):
        self.run_selection(self.records.selection, 0, self.records.length)

    cdef int know_all(self, ArrowSource source) except -1:
        cdef uint64_t block
        for block in range(source.it.store.n_blocks):
            self.know(source, block)
        return 0

    cdef int know(self, ArrowSource source, uint64_t block) except -1:
        """Loads a block and makes it known."""
        cdef rs_error err
        cdef const rs_compiled_path *compiled = NULL
        check(rs_store_load_block(source.segment.numbered(source.store), block, &err), &err)
        if source.paths is not None:
            source.paths.compile_block(block)
            compiled = source.paths.it.of_block[block].of_field[0]
        check(rs_arrow_out_add_block(&self.it, &source.it, block, compiled, &err), &err)
        return 0

    # ---- Records ----

    cdef ArrowSource source(self, Segment segment, int store):
        key = id(segment), store
        found = self.sources.get(key)
        if found is None:
            paths = None if self.paths is None else self.paths.source(segment, store)
            found = self.sources[key] = ArrowSource(segment, store, paths)
        return <ArrowSource>found

    cdef Py_ssize_t run_selection(self, Selection selection, Py_ssize_t first, Py_ssize_t n) except -1:
        """Reads n records of a selection from position `first` on. Returns the number of records read, which is less
        than n when the batch is full. The caller has entered the segments."""
        cdef Py_ssize_t start, step
        if selection.is_flat(&start, &step):
            return self.run(self.source(selection.segment, selection.store), NULL, start + step * first, step, n)
        if selection.is_run_of_shards(&start):
            return self.run_shards(selection.shards, start + first, n)
        return self.run_scattered(selection, first, n)

    cdef Py_ssize_t run_shards(self, Shards shards, Py_ssize_t start, Py_ssize_t n) except -1:
        """run_selection for n records of a set of shards from record `start` on."""
        cdef Segment segment
        cdef Py_ssize_t i = shards.shard_of(start) if n else 0, count, taken, done = 0
        while done < n:
            count = min(n - done, shards.ends_[i] - start)
            if count:
                segment = shards.segment(i)
                self.entered.add(segment)
                taken = self.run(self.source(segment, shards.store), NULL, start - shards.begin(i), 1, count)
                done += taken
                if taken < count:
                    return done
            start, i = start + count, i + 1
        return done

    cdef Py_ssize_t run_scattered(self, Selection selection, Py_ssize_t first, Py_ssize_t n) except -1:
        """Reads records of any view, one run of neighbours of the same store after another."""
        cdef Leaf leaf
        cdef Py_ssize_t i, done = 0, count, begin, end, taken
        cdef void *segment
        cdef int store
        cdef int64_t *indices = <int64_t *>calloc(min(n, BATCH_RECORDS) + 1, sizeof(int64_t))
        if indices == NULL:
            raise MemoryError
        try:
            while done < n:
                count = min(n - done, BATCH_RECORDS)
                stretches = []
                segment, store = NULL, -1
                for i in range(count):
                    selection.locate(first + done + i, &leaf)
                    indices[i] = leaf.index
                    if leaf.segment != segment or leaf.store != store:
                        segment, store = leaf.segment, leaf.store
                        stretches.append((i, <Segment>segment, store))
                stretches.append((count, None, 0))
                for (begin, part, number), (end, _, _) in zip(stretches, stretches[1:]):
                    self.entered.add(part)
                    taken = self.run(self.source(part, number), indices + begin, 0, 1, end - begin)
                    done += taken
                    if taken < end - begin:
                        return done
        finally:
            free(indices)
        return done

    cdef Py_ssize_t run(self, ArrowSource source, const int64_t *positions, int64_t start, int64_t step,
                        Py_ssize_t n) except -1:
        """Reads the n records start + step * positions[k] of a source, or start + step * k without `positions`."""
        cdef rs_arrow_stop stop
        cdef rs_error err
        cdef rs_status status
        cdef uint64_t end
        stop.why = RS_ARROW_DONE
        stop.done = stop.index = stop.block = 0
        while stop.done < <uint64_t>n:
            end = min(stop.done + STRETCH_RECORDS, <uint64_t>n)
            with nogil:
                status = rs_arrow_out_run(&self.it, &source.it, positions, start, step, end, &stop, &err)
            try:
                if status != RS_OK:
                    raise_arrow(status, &err)
                if stop.why == RS_ARROW_FULL:
                    break
                if stop.why == RS_ARROW_BLOCK:
                    self.know(source, stop.block)
                elif stop.why == RS_ARROW_UNSURE:
                    self.walk(source, stop.index)
                elif stop.why == RS_ARROW_LACKING:
                    raise lacking(stop.index, self.path)
            except errors.Error as e:
                raise in_record(e, source.segment, source.store, stop.index) from None
            except ArrowValueError as e:
                raise ValueError(f"record {stop.index}: {e}") from None
            if stop.why == RS_ARROW_UNSURE:
                stop.done += 1
            PyErr_CheckSignals()
        return <Py_ssize_t>stop.done

    cdef int walk(self, ArrowSource source, uint64_t index) except -1:
        """Reads a record in which only Python code can find the field."""
        cdef rs_cursor cursor
        cdef rs_place place
        cdef rs_error err
        program = begin_at(source.segment, source.store, index, &cursor, &place)
        if self.path is None or self.path.walk(program, &cursor, &place, None):
            return check_arrow(rs_arrow_out_take(&self.it, &cursor, &place, &err), &err)
        if self.dumped is None:
            raise lacking(index, self.path)
        return check_arrow(rs_arrow_out_take_missing(&self.it, &err), &err)

    # ---- Batches ----

    cdef bint next_batch(self, ArrowArray *out) except -1:
        """Fills `out` with the next batch. False after the last."""
        cdef rs_error err
        if self.running:
            raise RuntimeError("the stream is used by two threads at the same time")
        if self.position >= self.end:
            return False
        self.running = True
        try:
            if self.dumped_records is None:
                self.enter_all(self.fill)
            else:
                self.fill_dumped()
            if not self.keep_nulls and self.it.root.kind == RS_ARROW_KIND_STRUCT:
                self.it.root.n_null = 0
            check(rs_arrow_out_batch(&self.it, self.room(), out, &err), &err)
        finally:
            self.running = False
        return True

    def fill(self):
        self.position += self.run_selection(self.records.selection, self.position, <Py_ssize_t>self.room())

    # ---- Records that Python code reads ----

    cdef Py_ssize_t take_dumped(self, Py_ssize_t n) except -1:
        """Takes the next n records, or fewer when the batch is full. Returns their number."""
        cdef rs_cursor cursor
        cdef rs_place place
        cdef rs_error err
        cdef bytes raw, arrays
        cdef Py_ssize_t i, size = 0
        memset(&cursor, 0, sizeof(rs_cursor))
        memset(&place, 0, sizeof(rs_place))
        for i in range(n):
            raw, arrays = self.dumped_records[self.position + i][:2]
            cursor.in_ = rs_slice_of(<const char *>raw, len(raw))
            cursor.arrays = <const uint8_t *><const char *>arrays
            cursor.arrays_size = len(arrays)
            cursor.budget.values = cursor.budget.bytes = len(raw)
            cursor.budget.depth = RS_FMT_DEPTH
            try:
                check_arrow(rs_arrow_out_take(&self.it, &cursor, &place, &err), &err)
            except ArrowValueError as e:
                raise ValueError(f"record {self.position + i}: {e}") from None
            size += len(raw) + len(arrays)
            if i % CHECK_RECORDS == 0:
                PyErr_CheckSignals()
            if self.is_settled and size >= DUMPED_BYTES:
                return i + 1
        return n

    cdef int fill_dumped(self) except -1:
        cdef Py_ssize_t done = self.take_dumped(<Py_ssize_t>self.room())
        self.dumped_records[self.position:self.position + done] = [None] * done
        self.position += done
        return 0


cdef bint has_base(Selection selection):
    """Whether a selection has all records of its base."""
    cdef int i
    for i in range(selection.n_stages):
        if selection.stages[i].kind != STAGE_PERMUTE and selection.stages[i].kind != STAGE_REPEAT:
            return False
    return True


cdef bint has_all(Selection selection) except -1:
    """Whether a selection has all records of its stores."""
    cdef Selection part
    if not has_base(selection):
        return False
    if selection.parts is None:
        return True
    for part in selection.parts:
        if not has_all(part):
            return False
    return True


class ArrowValueError(ValueError):
    """A text without UTF-8, or an int that is not a float. It gets the record's number where it is caught."""


cdef int raise_arrow(rs_status status, rs_error *err) except -1:
    if status == RS_E_ARG_TEXT:
        raise ArrowValueError(err.message.decode("utf-8", "replace"))
    if status == RS_E_ARG_RANGE:
        raise IndexError("an index is out of range: the index array was changed while it was read")
    return check(status, err)


cdef int check_arrow(rs_status status, rs_error *err) except -1:
    return 0 if status == RS_OK else raise_arrow(status, err)


cdef str name_of(const rs_arrow_field *field):
    return (<const char *>field.name)[:field.name_size].decode("utf-8", "surrogatepass")


cdef int add_problems(const rs_arrow_field *field, tuple names, list problems) except -1:
    """Appends the fields without a type."""
    cdef uint32_t i
    if field.problem != RS_ARROW_PROBLEM_NONE:
        problems.append((names, field.problem, field.seen, field.others))
    elif field.kind == RS_ARROW_KIND_LIST:
        add_problems(field.element, (*names, None), problems)
    elif field.kind == RS_ARROW_KIND_STRUCT:
        for i in range(field.n_children):
            add_problems(field.children[i], (*names, name_of(field.children[i])), problems)
    return 0


def arrow_export(Records records not None, bint exact=False):
    """`(export, problems)` of a container: an ArrowExport whose types are known, and the result of its `infer`. With
    `exact`, records that are None stay nulls. None where only Python code can read the records."""
    records._require()
    if records.selection.virtual:
        return None
    cdef ArrowExport self = ArrowExport(records, exact)
    if not self.choose(records.projection):
        return None
    problems = self.infer(exact)
    return None if problems is None else (self, problems)


def arrow_export_of(Records records not None, items, plain, bint exact=False):
    """As arrow_export, from the items of the container, which Python code reads once. `plain` gives values another form
    than that of a store, as a trust.Writer calls it; a datetime of a named zone has then the fields of UTC."""
    cdef ArrowExport self = ArrowExport(records, exact)
    writer = trust.Writer(plain=plain)
    projection = records.projection
    while type(projection) is LazyProjection and (<LazyProjection>projection).base is not None:
        projection = (<LazyProjection>projection).base
    self.it.root.rows = type(projection) is not FieldProjection and (
        type(projection) is not LazyProjection or (<LazyProjection>projection).path is None)
    self.it.root.utc = True
    self.dumped_records = [dump(item, writer) for item in items]
    self.end = len(self.dumped_records)
    self.it.wide = any(len(one[0]) + len(one[1]) > DUMPED_BYTES for one in self.dumped_records)
    return self, self.infer(exact)


# ---- The C stream interface ----

cdef class ArrowStream:
    """The state of an exported stream, to which `private_data` of the struct refers."""

    cdef ArrowExport export
    cdef bytes message


cdef int fail_stream(ArrowStream self, error) noexcept:
    """Keeps an error for its reader, and its message for get_last_error. Returns its errno."""
    self.export.failure = error
    try:
        self.message = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
    except Exception:
        self.message = b"the message of an error could not be made"
    if isinstance(error, MemoryError):
        return ENOMEM
    return EIO if isinstance(error, OSError) else EINVAL


cdef int stream_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef rs_error err
    self = <ArrowStream>stream.private_data
    try:
        check(rs_arrow_export_schema(self.export.it.root, out, &err), &err)
    except BaseException as e:
        return fail_stream(self, e)
    return 0


cdef int stream_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    self = <ArrowStream>stream.private_data
    try:
        if not self.export.next_batch(out):
            out.release = NULL
    except BaseException as e:
        out.release = NULL
        return fail_stream(self, e)
    return 0


cdef const char *stream_error(ArrowArrayStream *stream) noexcept with gil:
    self = <ArrowStream>stream.private_data
    if self.message is None:
        return NULL
    return PyBytes_AS_STRING(self.message)


cdef void drop_stream(ArrowArrayStream *stream) noexcept with gil:
    Py_DECREF(<PyObject *>stream.private_data)


cdef void stream_release(ArrowArrayStream *stream) noexcept nogil:
    # Libraries may release a stream when the process ends, without an interpreter. The memory goes with the process.
    if Py_IsInitialized():
        drop_stream(stream)
    stream.private_data = NULL
    stream.release = NULL


cdef void free_stream(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


def arrow_stream(ArrowExport export not None):
    """The PyCapsule `arrow_array_stream` of an export that is settled. The export must not be used any more."""
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>calloc(1, sizeof(ArrowArrayStream))
    cdef ArrowStream self = ArrowStream()
    if stream == NULL:
        raise MemoryError
    self.export = export
    Py_INCREF(self)
    stream.private_data = <void *>self
    stream.get_schema = stream_schema
    stream.get_next = stream_next
    stream.get_last_error = stream_error
    stream.release = stream_release
    try:
        return PyCapsule_New(stream, "arrow_array_stream", <PyCapsule_Destructor>free_stream)
    except BaseException:
        stream.release(stream)
        free(stream)
        raise
