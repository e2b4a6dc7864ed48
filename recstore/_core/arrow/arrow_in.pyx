"""Reads Arrow arrays and streams of other libraries through the Arrow PyCapsule interface, and appends their rows to a
builder. The core (csrc/arrow/rs_arrow_in.h) encodes the rows without making Python objects. recstore.sources.arrow_in
chooses the columns."""


cdef enum:
    # Rows between two checks for signals, so that Ctrl-C ends a long append.
    ARROW_ROWS = 1 << 14


cdef void *capsule_pointer(object capsule, const char *name, object source) except NULL:
    if not PyCapsule_IsValid(capsule, name):
        kind = type(source).__name__
        raise errors.InputError(f"{kind} gave {an(type(capsule).__name__)} in place of a capsule {name.decode()!r}")
    return PyCapsule_GetPointer(capsule, name)


cdef rs_status find_zone(void *context, rs_slice zone, int64_t utc_s, rs_buffer *out,
                         rs_error *err) noexcept with gil:
    """The rs_zone_finder of an ArrowReader. `context` is the reader, which keeps an exception of `zone_spans`."""
    cdef rs_zone_span span
    reader = <ArrowReader>context
    try:
        name = (<const char *>zone.ptr)[:rs_slice_left(&zone)].decode("ascii")
        for begin, end, offset, fold in reader.zone_spans(name, utc_s):
            span.begin_s, span.end_s, span.offset_s, span.fold = begin, end, offset, fold
            check(rs_buffer_append(out, &span, sizeof(rs_zone_span), err), err)
        return RS_OK
    except BaseException as e:
        reader.failure = e
        return rs_error_set(err, RS_E_IN_VALUE, RS_NOWHERE, b"a time zone cannot be read")


@cython.final
cdef class ArrowReader:
    """The arrays of an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, one at a time. Not thread-safe.

    `columns` has the names, as bytes, of the columns to read, or is None for all; `zone_spans(name, seconds)` returns
    the spans of a time zone around a time (csrc/arrow/rs_zones.h). Raises InputError for a broken schema, and the
    exceptions of the object's method.
    """

    cdef ArrowArrayStream stream
    cdef ArrowArray array  # the array with the next rows
    cdef rs_arrow_in rows
    cdef object zone_spans
    cdef object failure  # the exception of zone_spans
    cdef str kind

    def __cinit__(self, source, zone_spans, columns=None, bint drop_missing=False, str nanoseconds="exact"):
        cdef rs_arrow_options options
        self.zone_spans = zone_spans
        self.kind = type(source).__name__
        options.drop_missing = drop_missing
        options.nanoseconds = {
            "exact": RS_ARROW_NANOSECONDS_EXACT,
            "floor": RS_ARROW_NANOSECONDS_FLOOR,
            "numpy": RS_ARROW_NANOSECONDS_NUMPY,
        }[nanoseconds]
        options.columns = NULL
        options.n_columns = 0
        options.find_zone = find_zone
        options.context = <void *>self
        if columns is None:
            self.open(source, &options)
            return
        options.n_columns = len(columns)
        names = <rs_slice *>PyMem_Calloc(options.n_columns + 1, sizeof(rs_slice))
        if names == NULL:
            raise MemoryError
        try:
            for i, name in enumerate(columns):
                names[i] = rs_slice_of(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
            options.columns = names
            self.open(source, &options)
        finally:
            PyMem_Free(names)

    def __dealloc__(self):
        self.close()

    cpdef close(self):
        """Releases the producer's memory. Not left to the destructor, because a traceback may keep the reader alive."""
        rs_arrow_array_release(&self.array)
        rs_arrow_in_close(&self.rows)
        rs_arrow_stream_release(&self.stream)

    cdef int open(self, source, const rs_arrow_options *options) except -1:
        if hasattr(type(source), "__arrow_c_stream__"):
            return self.open_stream(source.__arrow_c_stream__(), source, options)
        return self.open_array(source.__arrow_c_array__(), source, options)

    cdef int open_stream(self, capsule, source, const rs_arrow_options *options) except -1:
        cdef rs_error err
        cdef rs_status status
        their_stream = <ArrowArrayStream *>capsule_pointer(capsule, b"arrow_array_stream", source)
        if their_stream.release == NULL:
            raise errors.InputError(f"the Arrow stream of {self.kind} was read before; give a fresh one")
        rs_arrow_stream_move(their_stream, &self.stream)
        with nogil:
            status = rs_arrow_in_open_stream(&self.rows, &self.stream, options, &err)
        return self.check(status, &err)

    cdef int open_array(self, capsules, source, const rs_arrow_options *options) except -1:
        cdef rs_error err
        cdef rs_status status
        cdef ArrowSchema schema
        if type(capsules) is not tuple or len(capsules) != 2:
            raise errors.InputError(f"{self.kind} gave {an(type(capsules).__name__)} in place of two capsules")
        schema_capsule, array_capsule = capsules
        their_schema = <ArrowSchema *>capsule_pointer(schema_capsule, b"arrow_schema", source)
        their_array = <ArrowArray *>capsule_pointer(array_capsule, b"arrow_array", source)
        if their_schema.release == NULL or their_array.release == NULL:
            raise errors.InputError(f"the Arrow array of {self.kind} was read before; give a fresh one")
        rs_arrow_schema_move(their_schema, &schema)
        rs_arrow_array_move(their_array, &self.array)
        with nogil:
            status = rs_arrow_in_open(&self.rows, &schema, options, &err)
            rs_arrow_schema_release(&schema)
            if status == RS_OK:
                status = rs_arrow_in_bind(&self.rows, &self.array, &err)
        return self.check(status, &err)

    cdef int check(self, rs_status status, rs_error *err) except -1:
        """Raises the exception for a status that does not concern a record."""
        if status == RS_OK:
            return 0
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if status == RS_E_MEM:
            raise_status(err)
        text = err.message.decode("utf-8", "replace")
        if status == RS_E_IN_FAILED:
            raise errors.InputError(f"the Arrow stream of {self.kind} failed: {text} (error {err.sys_errno})")
        if status == RS_E_ARG_RANGE:
            raise errors.InputError(text)
        raise errors.InputError(f"the Arrow data of {self.kind}: {text}")

    def next(self):
        """Goes to the next array of the stream and frees the previous array. Returns False at the end."""
        cdef rs_error err
        cdef rs_status status
        if self.stream.release == NULL:  # the only array is bound already, or the reader is closed
            is_first = self.array.release != NULL and not self.rows.ended
            self.rows.ended = True
            return is_first
        with nogil:
            status = rs_arrow_in_next(&self.rows, &self.stream, &self.array, &err)
        self.check(status, &err)
        PyErr_CheckSignals()
        return not self.rows.ended

    @property
    def left(self):
        """The number of rows of the current array that are not appended yet."""
        return self.rows.n_rows - self.rows.next

    def append_to(self, target, uint64_t most):
        """Appends at most `most` of the remaining rows to `target`, a Builder or, in a worker process, a ListEncoder.
        Returns the number appended. Encodes without the GIL.

        Raises EncodeError for a value that cannot be stored, InputError for broken data, and the builder's errors. The
        builder then has the rows before the failed row."""
        cdef uint64_t first = self.rows.next
        most = min(most, self.rows.n_rows - self.rows.next)
        if isinstance(target, Builder):
            self.append_to_builder(target, first + most)
        else:
            self.append_to_encoder(target, first + most)
        return self.rows.next - first

    cdef int append_to_builder(self, Builder builder, uint64_t end) except -1:
        cdef rs_error err
        cdef rs_status status
        builder.require_active()
        while self.rows.next < end:
            err.record = RS_NOWHERE
            with nogil:
                status = rs_arrow_in_append(&self.rows, &builder.builder, min(end - self.rows.next, ARROW_ROWS), &err)
            if status != RS_OK:
                self.refuse(status, &err, builder.saved)
            PyErr_CheckSignals()
        return 0

    cdef int append_to_encoder(self, ListEncoder encoder, uint64_t end) except -1:
        cdef rs_error err
        cdef rs_status status
        cdef uint64_t before, n_rows
        cdef rs_builder *builder
        cdef size_t limit = PARCEL_BYTES if encoder.make is None else RS_FMT_BLOCK_RAW
        while self.rows.next < end:
            before = self.rows.next
            n_rows = min(end - before, ARROW_ROWS)
            if encoder.builder is not None:
                builder = &encoder.builder.builder
                with nogil:
                    status = rs_arrow_in_append(&self.rows, builder, n_rows, &err)
            else:
                with nogil:
                    status = rs_arrow_in_append_parcel(&self.rows, &encoder.parcel, n_rows, limit, &err)
            encoder.n += self.rows.next - before
            if status == RS_E_IN_VALUE and self.failure is None:
                raise Refused(err.message.decode("utf-8", "replace"))
            if encoder.builder is None or err.record != RS_NOWHERE:  # a full disk is not an error of a record
                err.record = encoder.n
            self.refuse(status, &err, None)
            if encoder.is_due():
                encoder.sender()
        return 0

    cdef int refuse(self, rs_status status, rs_error *err, path) except -1:
        """Raises the exception if appending returned an error. `err.record` is the record's number, or RS_NOWHERE."""
        if status == RS_OK:
            return 0
        if err.record == RS_NOWHERE:
            return check_path(status, err, path)
        if status == RS_E_MEM or self.failure is not None:
            return self.check(status, err)
        text = err.message.decode("utf-8", "replace")
        if errors.STATUS_CLASSES[status] is errors.InputError:
            raise errors.InputError(f"record {err.record}: {text}")
        raise errors.EncodeError(text, err.record)
