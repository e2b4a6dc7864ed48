"""Exports to Arrow: the records of a container as a stream of the Arrow C stream interface.

The loops are C (csrc/arrow/rs_arrow_out.h) and run without the interpreter lock. This file finds the records of views,
loads blocks, and looks up the fields that C cannot. A batch enters every segment that it reads, so a `close` in another
thread takes effect only after the batch; the next batch then fails. Batches have their own memory.
"""

cdef enum:
    # The most records in a batch. A batch ends earlier once it holds RS_ARROW_BATCH_BYTES.
    BATCH_RECORDS = 1 << 16
    # Bytes of dumped records at which a batch ends: a value of one byte takes up to 16 in Arrow.
    DUMPED_BYTES = 16 << 20
    CHECK_RECORDS = 1 << 12


cdef class ArrowExport(SelectionReader):
    """One export of a container's records in their order. Not thread-safe."""

    cdef rs_arrow_out core
    cdef Records records
    cdef CompiledPaths paths  # None for whole records
    cdef Path path
    cdef bint has_default
    cdef object default
    cdef bytes dumped         # the default as an `any` value
    cdef dict sources         # (id of segment, store) -> Source, whose blocks the export has loaded
    cdef list dotted          # the addresses of fields that have the whole dotted name of a chosen field
    cdef list parents         # the addresses of the fields on the way to chosen fields, the root included
    cdef bint chosen          # only some fields are exported
    cdef list dumped_records  # the results of `dump` for records that Python code reads; else None
    cdef Py_ssize_t position  # the position of the next record
    cdef Py_ssize_t end       # the position after the last record
    cdef readonly bint keep_nulls  # records that are None stay nulls; else they become rows of nulls
    cdef bint running
    cdef bint is_settled
    cdef readonly object failure  # the error that ended the stream, or None

    def __cinit__(self, Records records, bint keep_nulls):
        cdef rs_error err
        self.records, self.keep_nulls = records, keep_nulls
        self.sources, self.dotted, self.parents = {}, [], []
        self.end = records.length
        check(rs_arrow_out_open(&self.core, &err), &err)

    def __dealloc__(self):
        rs_arrow_out_clear(&self.core)

    # ---- Choosing fields ----

    cdef bint choose(self, Projection projection) except -1:
        """Prepares to read through a projection. False if only Python code can read the projection or its default."""
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
            if fields.base is not None or not self.choose_fields(fields.paths):
                return False
            path = fields.path
        elif projection is not None:
            return False
        self.core.root.rows = path is None
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
            self.core.missing = rs_slice_of(<const char *>self.dumped, len(self.dumped))
        return True

    cdef bint choose_fields(self, paths) except -1:
        """Restricts the export to the fields at these paths, in order. False if only Python code can read them."""
        cdef Path path
        chosen_fields = []
        on_way = {}  # their parents, which export only the chosen fields
        for path in paths:
            for key, _ in path.steps:
                if type(key) is not str:
                    return False
            if not self.choose_field(path.steps, on_way, chosen_fields):
                return False
        for address in on_way:
            if address not in chosen_fields:
                (<rs_arrow_field *><size_t>address).closed = True
                self.parents.append(address)
        self.core.root.closed = self.chosen = True
        return True

    cdef bint choose_field(self, steps, on_way, chosen_fields) except -1:
        cdef rs_arrow_field *at = self.core.root
        cdef rs_arrow_field *dotted
        for key, parts in steps:
            if parts is not None:
                if len(steps) > 1:
                    return False  # names with dots at several levels
                dotted = self.child(at, key)
                self.dotted.append(<size_t>dotted)
            for part in parts or (key,):
                on_way[<size_t>at] = None
                at = self.child(at, part)
        chosen_fields.append(<size_t>at)
        return True

    cdef rs_arrow_field *child(self, rs_arrow_field *at, key) except NULL:
        cdef rs_error err
        cdef rs_arrow_field *out = NULL
        name = key.encode("utf-8", "surrogatepass")
        check(rs_arrow_field_child(at, name, len(name), &out, &err), &err)
        return out

    # ---- Types ----

    def infer(self, bint exact):
        """Infers the types from the trees of the blocks. Reads all records if the trees leave a type open or, with
        `exact`, if a view has only some records of its stores. Returns a list of the fields without a type, each as
        `(names, problem, seen, others)`: the names from the root to the field, with None for the elements of a list,
        and the codes of csrc/arrow/rs_arrow_field.h. Returns None if only Python code can read the chosen fields."""
        cdef rs_error err
        cdef rs_bool whole = True
        cdef rs_arrow_field *root = self.core.root
        if self.dumped_records is not None:
            rs_arrow_out_infer_all(&self.core)
            self.take_dumped(self.end)
        elif self.records.length or not exact:
            self.enter_all(self.infer_from_trees)
        check(rs_arrow_out_resolve(&self.core, &whole, &err), &err)
        if self.records.length and self.dumped_records is None and (
                not whole or exact and not has_all(self.records.selection)):
            rs_arrow_out_infer_all(&self.core)
            self.enter_all(self.infer_from_records)
            check(rs_arrow_out_resolve(&self.core, &whole, &err), &err)
        for address in self.dotted:
            if (<rs_arrow_field *><size_t>address).present:
                return None
        # Only Python code follows a path into values other than structs, such as tuples.
        for address in self.parents if not self.chosen else [*self.parents, <size_t>root]:
            if (<rs_arrow_field *><size_t>address).seen & ~(RS_ARROW_SEEN_STRUCT | RS_ARROW_SEEN_NULL):
                return None
        problems = []
        add_problems(root, (), problems)
        return problems

    def settle(self, bint as_table, requested=None, bint views=False):
        """Prepares the batches. With `as_table`, records without a type become rows without columns. `requested` is the
        PyCapsule of an ArrowSchema, whose types are used where no value can be lost. With `views`, text has the type
        string_view."""
        cdef rs_error err
        if as_table and self.core.root.seen == 0 and self.core.root.rows:
            rs_arrow_set_kind(self.core.root, RS_ARROW_KIND_STRUCT)
        if views:
            rs_arrow_request_views(self.core.root)
        if requested is not None:
            rs_arrow_request(self.core.root, <const ArrowSchema *>PyCapsule_GetPointer(requested, "arrow_schema"))
        check(rs_arrow_out_settle(&self.core, self.batch_room(), &err), &err)
        self.is_settled = True

    def restrict(self, Py_ssize_t begin, Py_ssize_t end):
        """Restricts the batches to the records at positions begin to end - 1. The types do not change."""
        if not 0 <= begin <= end <= self.records.length:
            raise ValueError("out of range")
        self.position, self.end = begin, end

    @property
    def is_sure(self):
        """Whether the trees gave all types, so that inference read no record."""
        return not self.core.has_rest and self.dumped_records is None

    @property
    def is_rows(self):
        """Whether all records are structs, and none is None."""
        return self.core.root.kind == RS_ARROW_KIND_STRUCT and not self.core.root.seen & RS_ARROW_SEEN_NULL

    @property
    def names(self):
        """The keys of records that are dicts or None, in order; None for other records."""
        if self.core.root.seen & ~(RS_ARROW_SEEN_STRUCT | RS_ARROW_SEEN_NULL):
            return None
        return [name_of(self.core.root.children[i]) for i in range(self.core.root.n_children)]

    cdef uint64_t batch_room(self):
        return <uint64_t>min(BATCH_RECORDS, self.end - self.position)

    cdef int enter_all(self, work) except -1:
        """Calls `work` with all segments entered, except shards of sets."""
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

    def infer_from_trees(self):
        """Collects the kinds of values from the trees of the blocks, and from records whose tree does not give them
        all."""
        cdef Selection selection = self.records.selection
        if selection.length == 0:
            for segment, number in selection.known_leaves():
                self.entered.add(segment)
                self.load_blocks(self.source(segment, number))
        else:
            self.infer_from(selection)

    cdef int infer_from(self, Selection selection) except -1:
        """infer_from_trees for a selection, in the order of its base, because the order does not matter."""
        cdef Selection base, part
        if not has_base(selection):
            return self.run_all(selection)
        base = selection.base()
        if base.parts is None:
            return self.run_all(base)
        for part in base.parts:
            self.infer_from(part)
        return 0

    def infer_from_records(self):
        self.run_all(self.records.selection)

    cdef int run_all(self, Selection selection) except -1:
        """Reads all records of a selection, so many at once as a batch has."""
        cdef Py_ssize_t done = 0
        while done < selection.length:
            done += self.run_selection(selection, NULL, done, min(selection.length - done, BATCH_RECORDS))
        return 0

    cdef int load_blocks(self, Source source) except -1:
        cdef uint64_t block
        for block in range(source.core.store.n_blocks):
            self.load_block(source, block)
        return 0

    cdef int load_block(self, Source source, uint64_t block) except -1:
        """Loads a block and adds it to the export."""
        cdef rs_error err
        cdef const rs_compiled_path *compiled = NULL
        cdef Source paths
        source.segment.load_block(source.segment.numbered(source.store), block)
        if self.paths is not None:
            paths = self.paths.source(source.segment, source.store)
            paths.compile_block(block)
            compiled = paths.core.of_block[block].of_field[0]
        check(rs_arrow_out_add_block(&self.core, &source.core, block, compiled, &err), &err)
        return 0

    # ---- Records ----

    cdef Source source(self, Segment segment, int store):
        key = id(segment), store
        source = self.sources.get(key)
        if source is None:
            source = self.sources[key] = Source(segment, store, [], {})
        return <Source>source

    cdef Py_ssize_t run(self, Segment segment, int store, const int64_t *positions, int64_t start, int64_t step,
                        Py_ssize_t n) except -1:
        """As SelectionReader.run. Stops if the batch is full."""
        cdef Source source = self.source(segment, store)
        cdef rs_arrow_stop stop
        cdef rs_error err
        cdef rs_status status
        cdef uint64_t end
        stop.why = RS_ARROW_DONE
        stop.done = stop.index = stop.block = 0
        while stop.done < <uint64_t>n:
            end = min(stop.done + STRETCH_RECORDS, <uint64_t>n)
            with nogil:
                status = rs_arrow_out_run(&self.core, &source.core, positions, start, step, end, &stop, &err)
            try:
                if status != RS_OK:
                    raise_arrow(status, &err)
                if stop.why == RS_ARROW_FULL:
                    break
                if stop.why == RS_ARROW_BLOCK:
                    self.load_block(source, stop.block)
                elif stop.why == RS_ARROW_UNSURE:
                    self.walk(source, stop.index)
                elif stop.why == RS_ARROW_LACKING:
                    raise missing_field(stop.index, self.path)
            except errors.Error as e:
                raise in_record(e, source.segment, source.store, stop.index) from None
            except ArrowValueError as e:
                raise ValueError(f"record {stop.index}: {e}") from None
            if stop.why == RS_ARROW_UNSURE:
                stop.done += 1
            PyErr_CheckSignals()
        return <Py_ssize_t>stop.done

    cdef int walk(self, Source source, uint64_t index) except -1:
        """Reads a record whose field only Python code can find."""
        cdef rs_cursor cursor
        cdef rs_place place
        cdef rs_error err
        program = begin_at(source.segment, source.store, index, &cursor, &place)
        if self.path is None or self.path.walk(program, &cursor, &place, None):
            return check_arrow(rs_arrow_out_take(&self.core, &cursor, &place, &err), &err)
        if self.dumped is None:
            raise missing_field(index, self.path)
        return check_arrow(rs_arrow_out_take_missing(&self.core, &err), &err)

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
            if not self.keep_nulls and self.core.root.kind == RS_ARROW_KIND_STRUCT:
                self.core.root.n_null = 0
            check(rs_arrow_out_batch(&self.core, self.batch_room(), out, &err), &err)
        finally:
            self.running = False
        return True

    def fill(self):
        self.position += self.run_selection(self.records.selection, NULL, self.position,
                                            <Py_ssize_t>self.batch_room())

    # ---- Records that Python code reads ----

    cdef Py_ssize_t take_dumped(self, Py_ssize_t n) except -1:
        """Takes the next n records, or fewer if the batch is full. Returns their number."""
        cdef rs_cursor cursor
        cdef rs_place place
        cdef rs_error err
        cdef bytes raw, arrays
        cdef Py_ssize_t i, size = 0
        memset(&cursor, 0, sizeof(rs_cursor))
        memset(&place, 0, sizeof(rs_place))
        for i in range(n):
            raw, arrays = self.dumped_records[self.position + i][:2]
            set_cursor(&cursor, <const uint8_t *><const char *>raw, len(raw), <const uint8_t *><const char *>arrays,
                       len(arrays))
            try:
                check_arrow(rs_arrow_out_take(&self.core, &cursor, &place, &err), &err)
            except ArrowValueError as e:
                raise ValueError(f"record {self.position + i}: {e}") from None
            size += len(raw) + len(arrays)
            if i % CHECK_RECORDS == 0:
                PyErr_CheckSignals()
            if self.is_settled and size >= DUMPED_BYTES:
                return i + 1
        return n

    cdef int fill_dumped(self) except -1:
        cdef Py_ssize_t done = self.take_dumped(<Py_ssize_t>self.batch_room())
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
    """Arrow cannot hold a text, a name or an int among floats. The handler adds the record's number."""


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
    """`(export, problems)` of a container: an ArrowExport after `infer`, and the result of `infer`. With `exact`, which
    also goes to `infer`, records that are None stay nulls. None if only Python code can read the records."""
    records._require()
    if records.selection.virtual:
        return None
    cdef ArrowExport self = ArrowExport(records, exact)
    if not self.choose(root_of(records)):
        return None
    problems = self.infer(exact)
    return None if problems is None else (self, problems)


def arrow_export_of(Records records not None, items, plain, bint exact=False):
    """Like arrow_export, but Python code reads the items of the container, once. `plain` is the argument of
    trust.Writer; it must give a datetime of a named zone the fields of UTC."""
    cdef ArrowExport self = ArrowExport(records, exact)
    writer = trust.Writer(plain=plain)
    projection = records.projection
    while type(projection) is LazyProjection and (<LazyProjection>projection).base is not None:
        projection = (<LazyProjection>projection).base
    self.core.root.rows = type(projection) is not FieldProjection and (
        type(projection) is not LazyProjection or (<LazyProjection>projection).path is None)
    self.core.root.utc = True
    self.dumped_records = [dump(item, writer) for item in items]
    self.end = len(self.dumped_records)
    self.core.wide = any(len(dumped[0]) + len(dumped[1]) > DUMPED_BYTES for dumped in self.dumped_records)
    return self, self.infer(exact)


# ---- The C stream interface ----

cdef class ArrowStream:
    """The `private_data` of an exported stream."""

    cdef ArrowExport export
    cdef bytes message


cdef int fail_stream(ArrowStream self, error) noexcept:
    """Keeps an error in `export.failure`, and its message for get_last_error. Returns an errno for it."""
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
        check(rs_arrow_export_schema(self.export.core.root, out, &err), &err)
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
    # A library may release a stream at the end of the process, after the interpreter has ended.
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
    """The PyCapsule `arrow_array_stream` of an export after `settle`. The capsule owns the export."""
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
