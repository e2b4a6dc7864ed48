"""Gathers: some fields of the records at given positions, read into one buffer in one pass without the interpreter.

The loops are C (csrc/columns/rs_gather.h). This file locates records through views, looks up keys in trees, finds
fields that C cannot find, and explains wrong values.
"""


cdef enum:
    MAX_KEPT_BYTES = 32 << 20  # the most bytes that a read keeps for the next read; a training batch needs less
    MAX_SHARDS = 16            # the most shards with compiled paths: more than two default windows of a ShardSampler


cdef tuple dtype_names():
    return tuple([rs_dtype_name(number).decode() for number in range(RS_DTYPES)])


FORMS = {
    "values": RS_GATHER_VALUES,
    "ragged": RS_GATHER_RAGGED,
    "nested": RS_GATHER_NESTED,
    "padded": RS_GATHER_PADDED,
    "padded_nested": RS_GATHER_PADDED_NESTED,
    "packed": RS_GATHER_PACKED,
    "text": RS_GATHER_TEXT,
    "strings": RS_GATHER_STRINGS,
    "codes": RS_GATHER_CODES,
}
MISSING_WAYS = {"raise": RS_GATHER_RAISE, "fill": RS_GATHER_FILL, "mask": RS_GATHER_MASK}
DTYPE_NAMES = dtype_names()
DTYPES = dict(zip(DTYPE_NAMES, range(RS_DTYPES)))
NO_VALUE = "give missing='mask', or a default"


cdef object word_of(dict words, object word, str what):
    """The constant for an option's word."""
    if type(word) is str and word in words:
        return words[word]
    raise ValueError(f"{what} {word!r:.60} is not one of {', '.join(words)}")


# ---- Specs ----

cdef bint put_number(unsigned dtype, object value, uint8_t *to) except -1:
    """Stores a Python number as an item of a dtype; False if the dtype cannot hold it."""
    cdef int64_t whole
    cdef double parts[2]
    if isinstance(value, complex):
        parts[0], parts[1] = value.real, value.imag
        return rs_dtype_put_complex(dtype, parts, 1, to, 16) == 1
    if isinstance(value, float):
        parts[0] = value
        return rs_dtype_put_floats(dtype, parts, 1, to, 16) == 1
    value = operator.index(value)
    if -2**63 <= value < 2**63:
        whole = value
        return rs_dtype_put_ints(dtype, &whole, 1, to, 16) == 1
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return rs_dtype_put_bigint(dtype, <const uint8_t *><const char *>data, len(data), to)


cdef class GatherSpec:
    """How one field is read. Immutable.

    `path` is a field name as x.field() takes it; None is the whole record. The parts of each form, in their order, for
    B records:

    - "values": values (B, *row).
    - "ragged": values (total, *row), int64 offsets (B + 1).
    - "nested", of lists of lists: values (total, *row), inner int64 offsets (m + 1), outer int64 offsets (B + 1). The
      outer offsets count inner lists, the inner ones rows of values.
    - "padded": values (B, width, *row) with `fill` after each list, int64 lengths (B). `width` is `length`. If
      that is 0, it is the length of the batch's longest list, rounded up to a multiple of `multiple`. A list longer
      than `length` raises ValueError, or is cut with `truncate`.
    - "padded_nested", of lists of lists: values (B, width, inner width, *row), int64 lengths (B), inner int64 lengths
      (B, width). `length` and `inner_length` give the two widths.
    - "packed": values (R, length) with `fill` after them, int64 positions (R, length), which count from 0 in each
      document, int64 documents (R, length), the number of the record in the batch or -1, and int64 boundaries (k + 1),
      the offsets of the k pieces in the flattened rows and the end. A piece is a document, the part of a document in
      one row, or the padding at the end of a row. With `split` a document continues in the next row. Without it each
      document goes into the first row with enough room; a document longer than a row raises ValueError, or is cut with
      `truncate`.
    - "text": uint8 UTF-8 of strs or the bytes of bytes values (total), int64 offsets (B + 1).
    - "strings": a list of str in place of a part, with `fill` for a missing str.
    - "codes": int64 (B), the number of the value in `names`, which are strs and ints.

    A number that `dtype` cannot hold raises ValueError: for integer dtypes a number out of range, with a fraction, or
    NaN; for bool any number but 0 and 1; for all but complex dtypes a complex number. Float dtypes round.

    `missing` is for a record that lacks the field or has None there. "raise": KeyError or ValueError. "fill": `fill`
    for values, strings and codes (None is 0 for values, -1 for codes), else an empty list or text. "mask": as "fill",
    with a last part, bool (B), that is True where there is a value.

    Raises ValueError and TypeError for options that do not go together.
    """

    cdef rs_gather_spec core
    cdef rs_names names
    cdef readonly object path
    cdef readonly str form
    cdef readonly object fill

    def __cinit__(self, path, form, dtype="int64", row=(), fill=None, missing="raise", length=0, truncate=False,
                  multiple=1, names=None, split=True, inner_length=0):
        self.path = None if path is None else Path(path)
        self.form = form
        self.core.form = word_of(FORMS, form, "the form")
        self.core.dtype = word_of(DTYPES, dtype, "the dtype")
        self.core.missing = word_of(MISSING_WAYS, missing, "missing=")
        self.core.truncate = truncate
        self.core.split = split
        self.core.length = operator.index(length)
        self.core.inner_length = operator.index(inner_length)
        self.core.multiple = operator.index(multiple)
        self.fill = fill
        self.set_row(row)
        self.set_fill(fill)
        self.check_lengths()
        if (self.core.form == RS_GATHER_CODES) != (names is not None):
            raise ValueError('names are for the form "codes", which needs them')
        if names is not None:
            self.set_names(names)

    def __dealloc__(self):
        rs_names_clear(&self.names)

    cdef int set_row(self, row) except -1:
        cdef uint64_t numbers = 1
        row = tuple([operator.index(size) for size in row])
        if len(row) > RS_GATHER_ROW_DIMS:
            raise ValueError(f"a row of {len(row)} dimensions: at most {RS_GATHER_ROW_DIMS} are allowed")
        if row and self.core.form >= RS_GATHER_PACKED:
            raise ValueError(f'the form "{self.form}" has no rows: row must be ()')
        for i, size in enumerate(row):
            if not 1 <= size < 2**31 or numbers * size >= 2**40:
                raise ValueError(f"a row of shape {row}: the sizes must be 1 or more, and not too large")
            self.core.row[i] = size
            numbers *= size
        self.core.n_row = <uint32_t>len(row)
        self.core.row_numbers = numbers
        return 0

    cdef int set_fill(self, fill) except -1:
        cdef unsigned dtype = self.core.dtype
        if self.core.form == RS_GATHER_CODES:
            dtype = RS_DTYPE_INT64
            fill = -1 if fill is None else fill
        if self.core.form == RS_GATHER_TEXT or self.core.form == RS_GATHER_STRINGS:
            return 0
        if not put_number(dtype, 0 if fill is None else fill, self.core.fill):
            raise ValueError(f"{DTYPE_NAMES[dtype]} cannot hold {fill!r:.60}, the number that fills gaps")
        return 0

    cdef int check_lengths(self) except -1:
        cdef bint padded = self.core.form == RS_GATHER_PADDED or self.core.form == RS_GATHER_PADDED_NESTED
        cdef bint packed = self.core.form == RS_GATHER_PACKED
        if max(self.core.length, self.core.inner_length, self.core.multiple) >= 2**40 or self.core.multiple < 1:
            raise ValueError("length and inner_length must be 0 or more, multiple 1 or more, and none too large")
        if packed and self.core.length == 0:
            raise ValueError('the form "packed" needs a length')
        if self.core.length and not padded and not packed:
            raise ValueError("length is for the padded and packed forms")
        if self.core.inner_length and self.core.form != RS_GATHER_PADDED_NESTED:
            raise ValueError('inner_length is for the form "padded_nested"')
        if self.core.multiple != 1 and not padded:
            raise ValueError("multiple is for the padded forms")
        if self.core.truncate and (packed and self.core.split or not self.core.length and not self.core.inner_length):
            raise ValueError("truncate needs a length, and in the form \"packed\" split=False")
        if not self.core.split and not packed:
            raise ValueError('split is for the form "packed"')
        return 0

    cdef int set_names(self, names) except -1:
        cdef rs_error err
        cdef rs_bool is_new = True
        cdef bytes text
        for name in names:
            if type(name) is str:
                text = name.encode()
                check(rs_names_add_text(&self.names, <const uint8_t *><const char *>text, len(text), &is_new, &err),
                      &err)
            elif isinstance(name, int) and -2**63 <= name < 2**63:
                check(rs_names_add_int(&self.names, name, &is_new, &err), &err)
            else:
                raise TypeError(f"names are strs and ints of 64 bits, not {type(name).__name__} {name!r:.60}")
            if not is_new:
                raise ValueError(f"the name {name!r:.60} is repeated")
        self.core.names = &self.names
        return 0


# ---- The fields of a tree, and the state of a read ----

cdef class GatherState:
    """The memory of one read, which later reads reuse."""

    cdef rs_gather core
    cdef dict sources        # (id of segment, store) -> Source
    cdef int64_t *positions  # the checked positions of the batch
    cdef int64_t *indices    # for views: the record number in its store for each position
    cdef Py_ssize_t room
    cdef dict strings        # (field, record of the batch) -> a str that UTF-8 cannot encode
    cdef Entered entered     # the segments that the current read has entered

    def __cinit__(self, Gather gather):
        cdef rs_error err
        self.sources = {}
        check(rs_gather_open(&self.core, gather.specs, gather.n_specs, &err), &err)

    def __dealloc__(self):
        rs_gather_close(&self.core)
        free(self.positions)

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Makes room for n positions and indices."""
        cdef int64_t *grown
        if n > self.room:
            grown = <int64_t *>malloc(2 * n * sizeof(int64_t))
            if grown == NULL:
                raise MemoryError
            free(self.positions)
            self.positions, self.indices, self.room = grown, grown + n, n
        return 0


cdef class GivenRows:
    """Rows of parts of documents, for the packed fields of a batch."""

    cdef rs_gather_given core
    cdef Span starts, counts, ends

    def __cinit__(self, Py_ssize_t n, starts, counts, ends, bint cut=False):
        cdef Py_ssize_t i, last
        cdef bint valid
        self.starts, self.counts, self.ends = Span.of(starts, 8), Span.of(counts, 8), Span.of(ends, 8)
        self.core.starts = self.starts.ints
        self.core.counts = self.counts.ints
        self.core.ends = self.ends.ints
        self.core.n_rows, self.core.cut = self.ends.n, cut
        last = self.core.ends[self.ends.n - 1] if self.ends.n else 0
        valid = self.starts.n == n and self.counts.n == n and last == n
        for i in range(n if valid else 0):
            valid &= self.core.starts[i] >= 0 and self.core.counts[i] >= 0
        for i in range(1, self.ends.n if valid else 0):
            valid &= self.core.ends[i] >= self.core.ends[i - 1] >= 0
        if not valid:
            raise ValueError("a row has a negative start or count, or the arrays of the rows differ in length")


cdef Py_ssize_t copy_positions(const int64_t *positions, Py_ssize_t n, Py_ssize_t length, int64_t *to) noexcept nogil:
    """Copies positions. Returns n, or the index of the first position that is out of range."""
    cdef Py_ssize_t i
    for i in range(n):
        to[i] = positions[i]
        if <uint64_t>to[i] >= <uint64_t>length:
            return i
    return n


# ---- Reading ----

cdef class Gather:
    """Reads some fields of the records of a container, batch after batch, into one buffer for each batch.

    `container` is a RecordList, a view, a view of fields, or a mapping, whose values are read by position. Raises
    TypeError for groups of records and for views that make new records, KeyError for a field that a view of fields does
    not have. Immutable; any number of threads may call `read`. Errors call record i `numbers[i]`, if that is given.
    """

    cdef readonly Records records
    cdef readonly tuple fields       # the GatherSpecs
    cdef rs_gather_spec *specs
    cdef uint32_t n_specs
    cdef list paths                  # the Path from the stored record for each spec, or None
    cdef list compiled               # the CompiledPaths of each spec
    cdef list defaults               # the dumped defaults, which the specs point into
    cdef dict trees                  # (id of segment, store, tree) -> TreePaths
    cdef list pool                   # GatherStates that no read uses
    cdef object numbers
    cdef bint of_shards              # some records are of sets of shards

    def __cinit__(self, container, specs, numbers=None):
        cdef GatherSpec spec
        cdef uint32_t i
        cdef Records records = records_in(container)
        self.records, self.numbers = records, numbers
        self.of_shards = bool(records.selection.sets())
        self.fields = tuple(specs)
        self.n_specs = <uint32_t>len(self.fields)
        self.paths, self.compiled, self.defaults, self.trees, self.pool = [], [], [], {}, []
        self.specs = <rs_gather_spec *>calloc(self.n_specs + 1, sizeof(rs_gather_spec))
        if self.specs == NULL:
            raise MemoryError
        for i in range(self.n_specs):
            spec = self.fields[i]
            self.specs[i] = spec.core
            path, default = stored_path(records.projection, spec.path)
            self.paths.append(path)
            self.compiled.append(CompiledPaths(path))
            if default is not MISSING:
                dumped = dump(default)
                if len(dumped) > 2 or dumped[1]:
                    raise TypeError(f"the default {default!r:.60} is not a number, list or text")
                self.defaults.append(dumped[0])
                self.specs[i].absent = rs_slice_of(<const char *><bytes>dumped[0], len(dumped[0]))

    def __dealloc__(self):
        free(self.specs)

    def __len__(self):
        return self.records.length

    def read(self, positions, allocate, rows=None):
        """Reads the records at `positions`, a contiguous buffer of int64, each 0 or more. Another thread may write to
        it during the call.

        `allocate(nbytes)` is called once, and returns a writable contiguous buffer of that size, aligned to 16 bytes.
        `rows` is `(starts, counts, ends)` of rows that packed fields have: row r is made of the records at positions
        ends[r - 1] to ends[r] - 1, each with `counts` tokens from token `starts` on. The three are contiguous buffers
        of int64, which must not change during the call.

        Returns for each spec a tuple of parts `(offset in the buffer, name of the dtype, shape)`; offsets are multiples
        of 64.

        Raises IndexError for a position out of range, KeyError for a record that lacks a field, ValueError for a value
        that does not fit its part, CorruptError, VersionError and UntrustedError, each with field and record; also
        ClosedError, and the errors of `allocate`.
        """
        cdef Span chosen = Span.of(positions, 8)
        cdef GivenRows given = None if rows is None else GivenRows(chosen.n, *rows)
        cdef GatherState state
        cdef Entered entered = Entered()
        try:
            state = self.pool.pop()
        except IndexError:
            state = GatherState(self)
        try:
            self.records.selection.require_open()
            state.entered = entered
            return self.read_entered(state, chosen, given, allocate)
        finally:
            entered.leave()
            state.strings = state.entered = None
            if self.of_shards:
                if len(state.sources) > MAX_SHARDS:
                    state.sources.clear()
                self.records.selection.trim()
            if rs_gather_kept_bytes(&state.core) + 2 * state.room * sizeof(int64_t) <= MAX_KEPT_BYTES:
                self.pool.append(state)

    @property
    def kept_bytes(self):
        """The bytes of memory kept for further reads."""
        cdef GatherState state
        cdef uint64_t kept = 0
        for state in list(self.pool):
            kept += rs_gather_kept_bytes(&state.core) + 2 * state.room * sizeof(int64_t)
        return kept

    cdef object read_entered(self, GatherState state, Span chosen, GivenRows given, allocate):
        cdef rs_error err
        cdef Span buffer = None
        cdef rs_status status
        check(rs_gather_begin(&state.core, <uint64_t>chosen.n, &err), &err)
        if given is not None:
            rs_gather_give(&state.core, &given.core)
        if state.core.direct:
            buffer = self.place(state, chosen, allocate)
        self.measure(state, chosen)
        if not state.core.direct:
            buffer = self.place(state, chosen, allocate)
            with nogil:
                status = rs_gather_fill(&state.core, <uint8_t *>buffer.view.buf, &err)
            self.settle(state, None, status, &err)
        return [self.parts_of(state, i) for i in range(self.n_specs)]

    cdef Span place(self, GatherState state, Span chosen, allocate):
        """Lays out all parts in a new buffer. Returns its Span."""
        cdef rs_error err
        cdef uint64_t size = 0
        self.settle(state, None, rs_gather_layout(&state.core, &size, &err), &err)
        cdef Span buffer = Span.of(allocate(size), 1, True)
        if <uint64_t>buffer.n < size or <size_t>buffer.view.buf % 16:
            raise ValueError(f"allocate({size}) returned {buffer.n} bytes, or bytes that are not aligned to 16")
        rs_gather_place(&state.core, <uint8_t *>buffer.view.buf)
        return buffer

    cdef int measure(self, GatherState state, Span chosen) except -1:
        cdef Selection selection = self.records.selection
        cdef Py_ssize_t start, step, n = chosen.n, n_valid
        state.reserve(n)
        with nogil:
            n_valid = copy_positions(chosen.ints, n, selection.length, state.positions)
        if n_valid < n:
            raise IndexError(f"index {state.positions[n_valid]} is out of range: {counted(selection.length, 'record')}")
        if not selection.is_flat(&start, &step):
            return self.measure_scattered(state, selection, n)
        state.entered.add(selection.segment)
        source = self.source(state, selection.segment, selection.store)
        return self.run(state, source, state.positions, start, step, n)

    cdef int measure_scattered(self, GatherState state, Selection selection, Py_ssize_t n) except -1:
        """Measures records of any view. Locates all of them first, because another thread may close an index array
        during the read."""
        if n:
            memcpy(state.indices, state.positions, n * sizeof(int64_t))
        for _, end, part, number in locate_all(selection, state.indices, n):
            state.entered.add(part)
            self.run(state, self.source(state, part, number), state.indices, 0, 1, end)
        return 0

    cdef Source source(self, GatherState state, Segment segment, int store):
        key = id(segment), store
        source = state.sources.get(key)
        if source is None:
            trees = {} if self.of_shards else self.trees  # the Gather must not keep a shard mapped
            source = state.sources[key] = Source(segment, store, self.compiled, trees)
        return <Source>source

    cdef int run(self, GatherState state, Source source, const int64_t *indices, int64_t start, int64_t step,
                 uint64_t n) except -1:
        """Measures records state.core.done to n - 1 of the batch, all in one store: record k of the batch is record
        start + step * indices[k] of the store."""
        cdef rs_error err
        cdef rs_status status
        cdef uint64_t end
        while state.core.done < n:
            end = min(state.core.done + STRETCH_RECORDS, n)
            with nogil:
                status = rs_gather_measure(&state.core, &source.core, indices, start, step, end, &err)
            self.settle(state, source, status, &err)
            if end < n:
                PyErr_CheckSignals()
        return 0

    # ---- Stops ----

    cdef int settle(self, GatherState state, Source source, rs_status status, rs_error *err) except -1:
        """Handles the stop of the core so that the core can go on, or raises the error for the value there."""
        cdef rs_gather_stop *stop = &state.core.stop
        if status != RS_OK:
            self.fail(state, source, status, err)
        if stop.why == RS_GATHER_DONE:
            return 0
        if stop.why == RS_GATHER_BLOCK:
            try:
                return source.compile_block(stop.block)
            except errors.Error as e:
                raise in_record(e, source.segment, source.store, stop.index) from None
        if stop.why == RS_GATHER_UNSURE:
            self.walk(state, source)
            return self.settle(state, source, RS_OK, err)
        if stop.why == RS_GATHER_KIND and state.core.fields[stop.field].spec.form == RS_GATHER_STRINGS:
            if self.take_string(state):
                return 0
        raise self.error_at_stop(state)

    cdef int fail(self, GatherState state, Source source, rs_status status, rs_error *err) except -1:
        """Raises the error of a status, with field and record named."""
        try:
            check(status, err)
        except errors.Error as e:
            if type(e) not in RECORD_ERRORS or state.core.stop.record >= state.core.n:
                raise
            named = type(e)(f"{self.name_of(state)}: {e.args[0] if e.args else ''}")
            raise named if source is None else errors.of_file(named, source.segment.file()) from None

    cdef int walk(self, GatherState state, Source source) except -1:
        """Finds a field that only Python code can find."""
        cdef rs_gather_stop *stop = &state.core.stop
        cdef rs_cursor cursor
        cdef rs_place place
        cdef rs_error err
        cdef Path path = self.paths[stop.field]
        try:
            program = begin_at(source.segment, source.store, stop.index, &cursor, &place)
            found = path is None or path.walk(program, &cursor, &place, None)
            check(rs_gather_take(&state.core, &cursor, &place if found else NULL, &err), &err)
        except errors.Error as e:
            raise in_record(e, source.segment, source.store, stop.index) from None
        return 0

    cdef bint take_string(self, GatherState state) except -1:
        """Takes a str that UTF-8 cannot encode because of a lone surrogate. False if the value is not a str."""
        cdef rs_error err
        value = self.value(state)
        if not isinstance(value, str):
            return False
        if state.strings is None:
            state.strings = {}
        state.strings[state.core.stop.field, state.core.stop.record] = str(value)
        check(rs_gather_take_string(&state.core, &err), &err)
        return True

    # ---- Errors ----

    cdef object name_of(self, GatherState state):
        """The field and record at which the core stopped."""
        cdef rs_gather_stop *stop = &state.core.stop
        record = f"record {self.number(state)}"
        path = (<GatherSpec>self.fields[stop.field]).path if stop.field < self.n_specs else None
        return record if path is None else f"{str(path)!r} of {record}"

    cdef object number(self, GatherState state):
        """The number of the record at which the core stopped."""
        cdef int64_t position = state.positions[state.core.stop.record]
        return position if self.numbers is None else self.numbers[position]

    cdef object value(self, GatherState state):
        """The decoded value at which the core stopped."""
        cdef rs_gather_stop *stop = &state.core.stop
        value = self.records.at(state.positions[stop.record])
        path = (<GatherSpec>self.fields[stop.field]).path
        return value if path is None else path.keys_in(value)[2]

    cdef object error_at_stop(self, GatherState state):
        """The exception for the value at which the core stopped. If the value does not fit its form, the exception has
        the attribute `field`, the number of the spec."""
        cdef rs_gather_stop *stop = &state.core.stop
        cdef GatherSpec spec = self.fields[stop.field]
        name = self.name_of(state)
        if stop.why == RS_GATHER_LACKING:
            path = self.paths[stop.field] if spec.path is None else spec.path
            return KeyError(f"record {self.number(state)} has no field {str(path)!r}: {NO_VALUE}")
        if stop.why == RS_GATHER_NONE:
            return ValueError(f"{name} is None: {NO_VALUE}")
        if stop.why == RS_GATHER_LONG:
            excess = f"has {stop.number} elements, more than the length of {spec.core.length}"
            if spec.core.form == RS_GATHER_PADDED_NESTED:
                excess = f"has a list of {stop.number} elements, more than the lengths allow"
            return ValueError(f"{name} {excess}: truncate=True cuts it")
        if stop.why == RS_GATHER_SHORT:
            return ValueError(f"{name} has {stop.number} tokens, fewer than its row takes: the lengths of the sampler "
                              "are not those of this dataset")
        value = self.value(state)
        if stop.why == RS_GATHER_UNNAMED:
            error = ValueError(f"{name} is {value!r:.60}, which is not one of the {spec.names.n} names")
        elif stop.why == RS_GATHER_RANGE:
            number = number_in(value, stop.number)
            dtype = DTYPE_NAMES[spec.core.dtype]
            error = ValueError(f"{name} holds {number_text(number)}, which {dtype} cannot hold")
        elif stop.why == RS_GATHER_LENGTH:
            row = [spec.core.row[i] for i in range(spec.core.n_row)]
            shape = ", ".join(["any"] * FREE_DIMS[spec.form] + [str(size) for size in row])
            error = ValueError(f"{name} has the shape {shape_in(value)}, and the batch expects ({shape}): "
                               f"{value!r:.60}")
        else:
            takes = "numbers" if spec.form == "values" and spec.core.n_row == 0 else TAKES[spec.form]
            error = ValueError(f"{name} is {description_of(value)}, and the batch expects {takes}")
        error.field = stop.field
        return error

    # ---- Results ----

    cdef object parts_of(self, GatherState state, uint32_t f):
        cdef list strings = [self.strings_of(state, f)] if state.core.fields[f].spec.form == RS_GATHER_STRINGS else []
        return tuple(strings + arrays_of(&state.core.fields[f]))

    cdef list strings_of(self, GatherState state, uint32_t f):
        cdef rs_gather_field *field = &state.core.fields[f]
        cdef const char *text = <const char *>field.values.data
        cdef Py_ssize_t i, begin = 0, end
        cdef list out = []
        fill = (<GatherSpec>self.fields[f]).fill
        for i in range(<Py_ssize_t>state.core.n):
            end = <Py_ssize_t>rs_load_u64(field.ends.data + 8 * (i + 1))
            if field.valid == NULL or field.valid[i]:
                out.append(PyUnicode_DecodeUTF8(text + begin, end - begin, NULL) if end > begin else "")
            else:
                out.append(fill)
            begin = end
        if state.strings is not None:
            for (number, record), value in state.strings.items():
                if number == f:
                    out[record] = value
        return out


cdef list arrays_of(const rs_gather_field *field):
    """`(offset in the buffer, name of the dtype, shape)` of each array of a field."""
    cdef const rs_gather_part *part
    cdef uint32_t i, d
    out = []
    for i in range(field.n_parts):
        part = &field.parts[i]
        shape = tuple([part.shape[d] for d in range(part.ndim)])
        out.append((part.off, DTYPE_NAMES[part.dtype], shape))
    return out


# ---- Error messages ----

FREE_DIMS = {"values": 0, "ragged": 1, "padded": 1, "packed": 1, "nested": 2, "padded_nested": 2}
TAKES = {
    "values": "lists or arrays of numbers, all of one shape",
    "ragged": "lists or arrays of numbers",
    "padded": "lists or arrays of numbers",
    "packed": "lists or arrays of numbers",
    "nested": "lists of lists of numbers",
    "padded_nested": "lists of lists of numbers",
    "text": "strs and bytes",
    "strings": "strs",
    "codes": "names",
}


cdef bint is_sequence(value):
    return isinstance(value, (list, tuple)) or bool(getattr(value, "ndim", 0))


cdef str number_text(number):
    """A number for a message. Python refuses the repr of a very large int."""
    if type(number) is int and number.bit_length() > 1024:
        return f"an int of {number.bit_length()} bits"
    return f"{number!r:.60}"


cdef object number_in(value, uint64_t number):
    """Element `number` of a flattened value; the value itself if there is none."""
    flat = value.reshape(-1) if getattr(value, "ndim", 0) else leaves_in(value)
    item = flat[number] if number < <uint64_t>len(flat) else value
    return item.item() if hasattr(item, "item") and getattr(item, "ndim", 1) == 0 else item


cdef list leaves_in(value):
    """The values in nested sequences of any depths."""
    return [leaf for item in value for leaf in leaves_in(item)] if is_sequence(value) else [value]


cdef object shape_in(value):
    """The shape of nested sequences, with "several" for levels whose shapes differ."""
    if getattr(value, "ndim", None) is not None:
        return tuple(value.shape)
    if not is_sequence(value):
        return ()
    inner = {shape_in(item) for item in value}
    return (len(value), *(inner.pop() if len(inner) == 1 else ("several",) if inner else ()))


cdef object description_of(value):
    """A value in words, with its type and the beginning of its repr."""
    if value is None or isinstance(value, (str, bytes)):
        return f"{value!r:.60}"
    if getattr(value, "dtype", None) is not None:
        return f"{an(type(value).__name__)} of dtype {value.dtype}"
    if is_sequence(value):
        item = non_number_in(value)
        if item is not MISSING:
            return f"{an(type(value).__name__)} that holds {description_of(item)}"
    return f"the {type(value).__name__} {value!r:.60}"


cdef object non_number_in(value):
    """The first element of nested sequences that is not a number; MISSING if all are numbers."""
    for item in value:
        if is_sequence(item) and not hasattr(item, "dtype"):
            inner = non_number_in(item)
            if inner is not MISSING:
                return inner
        elif not isinstance(item, (int, float, complex)) and not hasattr(item, "dtype"):
            return item
    return MISSING


# ---- Paths of fields ----

cdef Records records_in(container):
    """The records of a container; for a mapping, its values. Raises TypeError for groups and for other objects."""
    inner = container
    if not isinstance(container, Records):
        inner = getattr(container, "_values" if isinstance(container, Mapping) else "_records", None)
        if not isinstance(inner, Records):
            raise TypeError(f"a batch is read from a container of recstore, not from {an(type(container).__name__)}")
    records = <Records>inner
    records._require()
    if records.selection.virtual or type(records.projection) is GroupProjection:
        raise TypeError("the records are groups, which no batch of arrays holds: read one group, or the records that "
                        "were grouped")
    return records


cdef object stored_path(Projection projection, Path path):
    """`(Path, default)`: the path from the stored record to a field of the projected record, and the value for records
    without the field, or MISSING."""
    cdef FieldProjection field
    cdef FieldsProjection fields
    cdef Path chosen
    prefix, base = rooted(projection)
    if base is None:
        return (prefix if path is None else path if prefix is None else prefix + path), MISSING
    if type(base) is FieldProjection and path is None and (<FieldProjection>base).base is None:
        field = <FieldProjection>base
        return field.path, field.default if field.has_default else MISSING
    if type(base) is FieldsProjection and path is not None and (<FieldsProjection>base).base is None:
        fields = <FieldsProjection>base
        for chosen in fields.paths:
            if path.names[:len(chosen.names)] == chosen.names or str(path).startswith(f"{chosen}."):
                return (path if fields.path is None else fields.path + path), MISSING
        raise KeyError(f"the records have no field {str(path)!r}: their view is of "
                       f"{', '.join([repr(str(chosen)) for chosen in fields.paths])}")
    raise TypeError("a batch cannot be read through this view, which makes new records: name the fields of the view "
                    "that it is made from")
