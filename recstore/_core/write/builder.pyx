"""The builders of segments: Builder streams records, MappingBuilder (mapping_builder.pyx) pairs."""


cdef class SegmentBuilder:
    """Base of the builders of segments. Unless `finish` returns, no file or memory stays behind. Not thread-safe.

    `writer`, a trust.Writer, has the options for unsupported values and for reading the segment in this process. Up to
    `threads` C threads compress in the background; with 0 the calling thread compresses. The bytes do not depend on
    `threads`.
    """

    cdef rs_segment_writer writer
    cdef rs_pipeline *pipeline
    cdef rs_choices choices
    cdef str backing
    cdef readonly str path
    cdef str saved  # the path of a file that the user named, for error messages; else None
    cdef readonly object settings
    cdef object label
    cdef bint active

    def __cinit__(self, str backing, directory=None, name=None, compression="auto", writer=None, label=None,
                  unsigned threads=1):
        cdef rs_error err
        self.choices = choices_of(compression)
        self.label = label
        self.backing = backing
        self.settings = trust.Writer() if writer is None else writer
        self.path = open_writer(&self.writer, backing, directory, name)
        self.saved = self.path if backing == "file" else None
        self.active = True
        if threads:
            check(rs_pipeline_open(&self.pipeline, min(threads, RS_PIPELINE_THREADS), &err), &err)

    cdef void close_stores(self) noexcept nogil:
        """Frees the builders of the core. Each subclass overrides this."""

    @cython.final
    cdef inline int require_active(self) except -1:
        if not self.active:
            raise errors.ClosedError("the builder is finished")
        return 0

    cpdef abort(self):
        """Drops the new segment. Does nothing after `finish` or `abort`."""
        if self.active:
            self.free()
            rs_segment_writer_abort(&self.writer)

    cdef int free(self) except -1:
        self.active = False
        with nogil:
            self.close_stores()
            rs_pipeline_close(self.pipeline)
        return 0

    cdef Segment seal(self):
        """Seals the file after its header is written, frees the builder and returns the Segment. If this raises, the
        caller must abort."""
        cdef Segment segment = Segment.__new__(Segment)
        cdef rs_error err
        cdef rs_status status
        segment.backing = "shm" if self.backing in ("named", "temporary") else self.backing
        segment.path = self.path
        if self.path is not None and self.saved is None:
            segment.encoded = os.fsencode(self.path)
            segment.owned_by = getpid()
        segment.reader = self.settings.reader()
        # Between here and `prepare` no Python function is called, because a KeyboardInterrupt would leak the mapping.
        with nogil:
            status = rs_segment_writer_finish(&self.writer, &segment.seg, &err)
        check_path(status, &err, self.saved)
        try:
            segment.prepare(OURS)
        except BaseException:
            if self.path is not None:
                os.unlink(self.path)
            raise
        self.free()
        rs_os_trim()
        return segment

    def take_descriptor(self):
        """Like take_descriptor in blobs.pyx."""
        descriptor = take_descriptor(&self.writer, self.backing)
        self.path = None
        return descriptor


@cython.final
cdef class Builder(SegmentBuilder):
    """Streams records into a new segment."""

    cdef rs_builder builder
    cdef encode_keys keys

    def __cinit__(self, *args, **options):
        cdef rs_error err
        check(rs_builder_open(&self.builder, &self.writer, &self.choices, &err), &err)
        set_label(&self.builder, self.label)
        self.builder.pipeline = self.pipeline

    def __dealloc__(self):
        self.abort()
        encode_keys_clear(&self.keys)

    cdef void close_stores(self) noexcept nogil:
        rs_builder_close(&self.builder)

    @property
    def records(self):
        return self.builder.n_records

    @property
    def written(self):
        """The bytes of the header and of the blocks written so far."""
        return self.writer.position

    @property
    def raw(self):
        """The bytes of all records before they are encoded."""
        return raw_bytes(&self.builder)

    def sizes(self):
        """`(raw bytes of the blocks written so far, bytes that they take in the segment)`."""
        cdef rs_build_sizes sizes
        with nogil:
            sizes = rs_builder_measure(&self.builder)
        return sizes.raw_written, sizes.written + sizes.sections

    cpdef append(self, record):
        """Adds one record. On EncodeError the builder is unchanged."""
        cdef size_t mark, key_sets
        cdef rs_error err
        cdef rs_status status
        cdef rs_scan_counts counts
        cdef bint counted
        self.require_active()
        mark = self.builder.arrays.size_bytes
        key_sets = self.builder.scan.n_key_sets
        try:
            counted = encode_counted(&self.builder, &self.keys, record, self.settings, False, &counts)
        except errors.EncodeError as e:
            rs_builder_drop_record(&self.builder, mark)
            raise errors.EncodeError(str(e), self.builder.n_records) from None
        except BaseException:
            rs_builder_drop_record(&self.builder, mark)
            raise
        if counted:
            status = rs_builder_end_record_unchecked(&self.builder, &counts, &err)
        else:
            status = rs_builder_end_record(&self.builder, &err)
        if status != RS_OK:
            rs_builder_drop_record(&self.builder, mark)
            self.builder.scan.n_key_sets = key_sets
            if status == RS_E_MEM:
                raise_status(&err)
            unsupported = hooks.module("unsupported")
            reason = unsupported.refused(record, err.message.decode()).reason
            raise errors.EncodeError(reason, self.builder.n_records)
        if rs_builder_is_full(&self.builder):
            flush_block(&self.builder, False, self.saved)

    def extend(self, records):
        for record in records:
            self.append(record)
            record = None  # frees the record before the stream makes the next one

    def append_parcel(self, bytes packed):
        """Adds the records of a parcel of ListEncoder (parcels.pyx). Runs without the GIL."""
        cdef rs_parcel_reader parcel
        cdef rs_error err
        cdef rs_status status
        self.require_active()
        check(rs_parcel_open(rs_slice_of(<const char *>packed, len(packed)), &parcel, &err), &err)
        with nogil:
            status = rs_parcel_append_all(&parcel, &self.builder, &err)
        check_path(status, &err, self.saved)

    def end_block(self, bint wait=False):
        """Ends the block, so that later records do not share a schema with the earlier ones. With `wait`, returns after
        all blocks are written."""
        self.require_active()
        flush_block(&self.builder, wait, self.saved)

    def annotate(self, uint64_t pairs, bytes content):
        """Appends pairs to the LABEL section: their number and bytes, as attributes.pack returns them."""
        self.require_active()
        before = self.label or (0, b"")
        self.label = before[0] + pairs, before[1] + content
        set_label(&self.builder, self.label)

    def finish(self, indexes=()):
        """Writes tables, header and saved indexes, each `(kind, Path)`, and returns the Segment. The builder is then
        unusable, even if this raises."""
        cdef rs_error err
        cdef rs_status status
        self.require_active()
        try:
            flush_block(&self.builder, True, self.saved)
            with nogil:
                status = rs_builder_finish(&self.builder, &err)
            check_path(status, &err, self.saved)
            if indexes:
                index_written(&self.writer, self.settings.reader(), indexes)
            return self.seal()
        except BaseException:
            self.abort()
            raise


cdef inline uint64_t raw_bytes(const rs_builder *builder) noexcept:
    return builder.raw_closed + builder.raw.size_bytes + builder.arrays.size_bytes


cdef int set_label(rs_builder *builder, label) except -1:
    """Sets the LABEL section: `(number of pairs, bytes)` or None. The builder borrows the bytes from the caller."""
    if label is None:
        return 0
    cdef bytes content = label[1]
    builder.label = rs_slice_of(<const char *>content, len(content))
    builder.label_pairs = label[0]
    return 0


cdef int flush_block(rs_builder *builder, bint all, path) except -1:
    """Closes the open block and waits until the next one can be filled or, with `all`, until all blocks are written.
    Runs signal handlers while it waits."""
    cdef rs_error err
    cdef rs_status status
    cdef bint done
    with nogil:
        status = rs_builder_hand_over(builder, &err)
    check_path(status, &err, path)
    while True:
        with nogil:
            done = rs_builder_wait(builder, all, 50)
        PyErr_CheckSignals()
        if done:
            return 0
