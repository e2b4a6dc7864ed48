"""The base of the record containers: reads the records of a Selection (selections.pyx) through a Projection, one at a
time, many in one call, or by iteration.
"""


cdef extern from *:
    """
    /* A Python int as Py_ssize_t; -1 if it does not fit. */
    static inline Py_ssize_t rs_as_ssize(PyObject *number) {
        Py_ssize_t value = PyLong_AsSsize_t(number);
        if (value == -1 && PyErr_Occurred()) PyErr_Clear();
        return value;
    }
    """
    Py_ssize_t as_ssize "rs_as_ssize"(object number) noexcept


cdef class Projection:
    """Reads whole records. Subclasses read a part of each."""

    cdef object read(self, Segment segment, int store, Py_ssize_t index):
        return segment.get(store, <uint64_t>index)

    cdef object read_position(self, Selection selection, Py_ssize_t position):
        """The value at a position of a selection."""
        cdef Leaf leaf
        selection.locate(position, &leaf)
        cdef Segment segment = <Segment>leaf.segment  # a reference, as in Records.at_shard
        return self.read(segment, leaf.store, leaf.index)

    def key(self):
        """A value that is equal for equal projections."""
        return id(self)

    def __eq__(self, other):
        return type(other) is type(self) and self.key() == (<Projection>other).key()

    def __hash__(self):
        return hash(self.key())

    def describe(self):
        """Plain values for a handle; `projection_from` makes an equal projection from them. None for whole records."""
        return None


cdef class GroupProjection(Projection):
    """Reads group g as a view. The positions of its records are rows[starts[g]:starts[g + 1]].

    `starts` and `rows` are Blobs with entries of `width` bytes; `rows` has positions in `records`. Without `rows`,
    row i is position i. There are `n` groups."""

    def __init__(self, records, Blob starts, Blob rows, unsigned width, Py_ssize_t n):
        if width not in (4, 8) or n < 0 or starts.size != (<object>n + 1) * width:
            raise errors.CorruptError(f"{n} groups in {starts.size} bytes")
        self.records = records
        self.starts = starts
        self.rows = rows
        self.width = width
        self.n = n

    cdef object read_position(self, Selection selection, Py_ssize_t position):
        cdef Py_ssize_t group = selection.base_position(position)
        cdef uint64_t begin, end, n_rows
        if group >= self.n:
            raise errors.CorruptError(f"group {group} of {self.n}")
        cdef const uint8_t *entry = self.starts.data
        if self.starts.is_closed():
            raise errors.ClosedError("the store is closed")
        entry += group * self.width
        if self.width == 4:
            begin, end = rs_load_u32(entry), rs_load_u32(entry + 4)
        else:
            begin, end = rs_load_u64(entry), rs_load_u64(entry + 8)
        n_rows = len(self.records) if self.rows is None else self.rows.size // self.width
        if begin > end or end > n_rows:
            raise errors.CorruptError(f"group {group} has rows {begin} to {end} of {n_rows}")
        base = self.records.selection
        if self.rows is None:
            return self.records._derive(base.sliced(<Py_ssize_t>begin, 1, <Py_ssize_t>(end - begin)))
        return self.records._derive(base.indexed(self.rows, <Py_ssize_t>begin, self.width, <Py_ssize_t>(end - begin)))

    def ordered(self):
        """The Selection of all records, group after group."""
        base = self.records.selection
        return base if self.rows is None else base.indexed(self.rows, 0, self.width, self.rows.size // self.width)

    def over(self, records):
        """The same groups over `records`, which must be the same records with another projection."""
        return GroupProjection(records, self.starts, self.rows, self.width, self.n)


cdef class Records:
    """Base of RecordList and its views: the records of a Selection, read through a Projection.

    Indexing, length and iteration are here, compiled; recstore.containers has the other methods.
    """

    def __cinit__(self, *args, **kwargs):
        self.step = 1

    def _set(self, Selection selection not None, Projection projection=None, detached=None, bint watched=True):
        """Makes this the records of `selection`, read through `projection` (None: whole). For a detached container,
        `detached` is the reason. Without `watched`, RECSTORE_STRICT=1 does not watch the records."""
        self.selection = selection
        self.projection = projection
        self.detached = detached
        self.length = selection.length
        self.direct = self.sharded = None
        self.of_shards = selection.shards is not None or selection.parts is not None and bool(selection.sets())
        self._strict = any_strict and watched and detached is None and has_strict(selection)
        if projection is None and detached is None and not self._strict:
            if selection.is_flat(&self.start, &self.step):
                self.direct = selection.segment
                self.store = selection.store
            elif selection.is_run_of_shards(&self.start):
                self.sharded = selection.shards
        return self

    @property
    def segments(self):
        """The segments of the records, each once, without the shards of sets; none if detached."""
        if self.detached is not None or self.selection is None:
            return []
        out = {id(segment): segment for segment, _ in self.selection.leaves()}
        if isinstance(self.projection, GroupProjection):
            for segment in (<GroupProjection>self.projection).records.segments:
                out[id(segment)] = segment
        return list(out.values())

    @property
    def sets(self):
        """The sets of shards of the records, each once."""
        if self.detached is not None or self.selection is None:
            return []
        out = self.selection.sets()
        if isinstance(self.projection, GroupProjection):
            out += [shards for shards in (<GroupProjection>self.projection).records.sets if shards not in out]
        return out

    @property
    def blobs(self):
        """The index arrays outside segments, both of the selection and of groups, each once."""
        out = [] if self.selection is None else self.selection.blobs()
        if isinstance(self.projection, GroupProjection):
            projection = <GroupProjection>self.projection
            for blob in (projection.starts, projection.rows, *projection.records.blobs):
                if blob is not None and blob.section_of is None and not any([blob is other for other in out]):
                    out.append(blob)
        return out

    @property
    def segment(self):
        """The segment of all records; None if detached, for several segments and for sets of shards."""
        segments = self.segments
        return segments[0] if len(segments) == 1 and not self.sets else None

    cdef inline object at(self, Py_ssize_t i):
        if i < 0:
            i += self.length
        if i < 0 or i >= self.length:
            raise IndexError(f"index out of range: {type(self).__name__} of {counted(self.length, 'record')}")
        if self.direct is not None:
            return self.direct.get(self.store, <uint64_t>(self.start + self.step * i))
        if self.sharded is not None:
            return self.at_shard(self.start + i)
        return self.at_slowly(i)

    cdef inline object at_shard(self, Py_ssize_t position):
        cdef Shards shards = self.sharded
        cdef Py_ssize_t i = shards.shard_of(position)
        cdef Segment segment = <Segment>shards.located(i)  # a reference: a read may run code that opens other shards
        return segment.get(shards.store, <uint64_t>(position - shards.begin(i)))

    def _unwatched(self):
        """The same records for a caller that owns its results: RECSTORE_STRICT does not watch them."""
        if not self._strict:
            return self
        return type(self)._blank()._set(self.selection, self.projection, self.detached, False)

    cdef object at_slowly(self, Py_ssize_t i):
        cdef Leaf leaf
        if self.detached is not None or self.selection is None:
            self._require()
        if self._strict:
            return self.at_strictly(i)
        if self.projection is not None:
            return self.projection.read_position(self.selection, i)
        self.selection.locate(i, &leaf)
        cdef Segment segment = <Segment>leaf.segment  # a reference, as in at_shard
        return segment.get(leaf.store, <uint64_t>leaf.index)

    cdef object at_strictly(self, Py_ssize_t i):
        cdef Leaf leaf
        cdef Segment segment
        if self.projection is not None:
            value = self.projection.read_position(self.selection, i)
        else:
            self.selection.locate(i, &leaf)
            segment = <Segment>leaf.segment  # a reference, as in at_shard
            value = segment.get(leaf.store, <uint64_t>leaf.index)
        if isinstance(value, (Records, Record)) or is_default(self.projection, value):
            return value  # reading from a Records or Record makes watched objects
        self.selection.locate(i, &leaf)
        segment = <Segment>leaf.segment  # a reference: `watched` and `note` may close the store
        value = hooks.module("strict_containers").watched(value, None, i)
        cdef LiveSample sample = segment.sample
        if sample is not None and leaf.store == 0 and sample.note(<uint64_t>leaf.index, value):
            hooks.module("strict_containers").warn_of_many(sample.n_records)
        return value

    def _require(self):
        """Raises SegmentNotFoundError if the container is detached, ClosedError if it is closed."""
        if self.detached is not None or self.selection is None:
            raise errors.SegmentNotFoundError(errno.ENOENT, self.detached or NEVER_BUILT)
        self._require_open()

    def _require_open(self):
        """Like `_require`, but accepts a detached view."""
        if self.selection is None:
            raise errors.SegmentNotFoundError(errno.ENOENT, NEVER_BUILT)
        if self.detached is not None:
            return
        self.selection.require_open()
        if isinstance(self.projection, GroupProjection):
            (<GroupProjection>self.projection).records._require_open()

    def __len__(self):
        return self.length

    def __getitem__(self, key):
        cdef Py_ssize_t i
        if PyLong_CheckExact(key):
            i = as_ssize(key)
            if i == -1:
                i = PyNumber_AsSsize_t(key, IndexError)  # -1 itself, or IndexError for an int that does not fit
            return self.at(i)
        if PySlice_Check(key):
            return self._slice(key)
        # numpy and torch define __index__ for arrays of any shape.
        if PyIndex_Check(key) and not getattr(key, "ndim", 0):
            return self.at(PyNumber_AsSsize_t(key, IndexError))
        return self._take(key)

    def __iter__(self):
        cdef RecordIterator iterator = RecordIterator.__new__(RecordIterator)
        iterator.begin(self, 0, 1)
        return iterator

    def __reversed__(self):
        cdef RecordIterator iterator = RecordIterator.__new__(RecordIterator)
        iterator.begin(self, self.length - 1, -1)
        return iterator

    def _many(self, indices, default, bint has_default):
        """The decoded records at `indices` in one call. Prefetches later records while it decodes."""
        cdef Leaf leaves[CHUNK]
        cdef Positions chosen = positions_of(indices, self.length, None, "get_many", False, has_default)
        cdef Py_ssize_t i, begin, n
        cdef list out = []
        cdef list segments = []  # keeps the shards of a chunk mapped
        for begin in range(0, chosen.n, CHUNK):
            n = min(CHUNK, chosen.n - begin)
            for i in range(n):
                if chosen.at[begin + i] >= 0:
                    self.find(chosen.at[begin + i], &leaves[i])
                    if self.of_shards and leaves[i].segment != NULL:
                        segments.append(<Segment>leaves[i].segment)
                else:
                    leaves[i].segment = NULL
                    leaves[i].index = -1
            if self.of_shards:
                fetch_absent(leaves, n)
            self.read_located(leaves, n, default, out)
            segments.clear()
        if self.of_shards:
            self.selection.trim()
        return out

    cdef inline int find(self, Py_ssize_t i, Leaf *leaf) except -1:
        """Locates the record at a position, which must be in range. The leaf has no segment if its location is not
        enough to read the record."""
        if self.direct is not None:
            leaf.segment = <void *>self.direct
            leaf.store = self.store
            leaf.index = self.start + self.step * i
        elif self.projection is None and self.detached is None and self.selection is not None and not self._strict:
            self.selection.locate(i, leaf)
        else:
            leaf.segment = NULL
            leaf.index = i
        return 0

    cdef int read_located(self, Leaf *leaves, Py_ssize_t n, default, list out) except -1:
        cdef Py_ssize_t i
        cdef Leaf *leaf
        for i in range(min(n, FAR)):
            fetch_offsets(&leaves[i])
        for i in range(min(n, NEAR)):
            fetch_record(&leaves[i])
        PyErr_CheckSignals()
        for i in range(n):
            if i + FAR < n:
                fetch_offsets(&leaves[i + FAR])
            if i + NEAR < n:
                fetch_record(&leaves[i + NEAR])
            leaf = &leaves[i]
            if leaf.segment != NULL:
                out.append((<Segment>leaf.segment).get(leaf.store, <uint64_t>leaf.index))
            else:
                out.append(default if leaf.index == -1 else self.at_slowly(leaf.index))
        return 0


cdef int fetch_absent(Leaf *leaves, Py_ssize_t n) except -1:
    """Fetches the bytes of many records at once, for segments that are not whole. The caller has references to the
    segments. Leaves errors to the reads."""
    cdef rs_record record
    cdef rs_error err
    cdef Py_ssize_t i
    cdef Segment segment
    cdef list wanted
    while True:
        wanted = []
        for i in range(n):
            if leaves[i].segment == NULL:
                continue
            segment = <Segment>leaves[i].segment
            if segment.ranges is None or not segment.is_usual():
                continue
            if rs_store_find(segment.numbered(leaves[i].store), <uint64_t>leaves[i].index, &record,
                             &err) == RS_E_STATE_ABSENT:
                wanted.append((segment.ranges, err.offset, err.needed))
        if not wanted:
            return 0
        wanted[0][0].fetch_all(wanted)


cdef inline bint is_default(Projection projection, value):
    """Whether a value is the default of a field, which is an object of the caller."""
    return type(projection) is FieldProjection and (<FieldProjection>projection).default is value


cdef bint has_strict(Selection selection) except -1:
    """Whether one of the stores is read strictly. Store 1, the keys of a mapping, never is."""
    return (any([segment.strict and store == 0 for segment, store in selection.leaves()])
            or any([shards.store == 0 and strict_is_on() for shards in selection.sets()]))


cdef inline void fetch_offsets(Leaf *leaf) noexcept:
    """Prefetches the offsets of a record, if the segment is open: reading other records may run Python code, which may
    close it."""
    if leaf.segment != NULL and (<Segment>leaf.segment).is_usual():
        rs_store_prefetch_offsets((<Segment>leaf.segment).numbered(leaf.store), <uint64_t>leaf.index)


cdef inline void fetch_record(Leaf *leaf) noexcept:
    """Prefetches the beginning of a record. Its offsets were prefetched before."""
    if leaf.segment != NULL and (<Segment>leaf.segment).is_usual():
        rs_store_prefetch((<Segment>leaf.segment).numbered(leaf.store), <uint64_t>leaf.index)


cdef class RecordIterator:
    """Iterates over a container, forwards or backwards, and keeps the container alive until the iteration ends.

    It prefetches records that are not stored near each other. `leaves` is a ring of the locations of the next FAR
    records; `ring_end` is the position after the last of them.
    """

    cdef Records records
    cdef Py_ssize_t next
    cdef Py_ssize_t step
    cdef Py_ssize_t ring_end
    cdef bint prefetches
    cdef Leaf leaves[FAR]

    cdef void begin(self, Records records, Py_ssize_t first, Py_ssize_t step):
        self.records = records
        self.next = self.ring_end = first
        self.step = step
        # The processor itself prefetches records that are read in order.
        self.prefetches = records.projection is None and records.detached is None and not records.of_shards and (
            records.direct is None or not -FAR < records.step < FAR
        )

    def __iter__(self):
        return self

    def __next__(self):
        if FREE_THREADED:
            with cython.critical_section(self):
                return self.advance()
        return self.advance()

    cdef inline object advance(self):
        cdef Py_ssize_t i = self.next
        # Reading may run Python code that exhausts this iterator: the container must survive that.
        cdef Records records = self.records
        if records is None or i < 0 or i >= records.length:
            self.records = None
            if records is not None and records.of_shards:
                records.selection.trim()
            raise StopIteration
        self.next = i + self.step
        if not i & 255:
            PyErr_CheckSignals()  # list() and dict() do not check them
        if not self.prefetches:
            return records.at(i)
        self.look_ahead(i)
        cdef Leaf leaf = self.leaves[i & (FAR - 1)]
        if leaf.segment == NULL:
            return records.at(i)
        return (<Segment>leaf.segment).get(leaf.store, <uint64_t>leaf.index)

    cdef int look_ahead(self, Py_ssize_t i) except -1:
        """Locates the records from position i, which is read next, to FAR - 1 steps later, and prefetches them."""
        cdef Py_ssize_t last = i + self.step * (FAR - 1)
        cdef Leaf *leaf
        while (self.ring_end - last) * self.step <= 0 and 0 <= self.ring_end < self.records.length:
            leaf = &self.leaves[self.ring_end & (FAR - 1)]
            try:
                self.records.find(self.ring_end, leaf)
            except errors.Error:
                leaf.segment = NULL  # reading this record later raises the error again
            fetch_offsets(leaf)
            self.ring_end += self.step
        i += self.step * NEAR
        if 0 <= i < self.records.length:
            fetch_record(&self.leaves[i & (FAR - 1)])
        return 0

    def __length_hint__(self):
        with cython.critical_section(self):
            if self.records is None:
                return 0
            return self.records.length - self.next if self.step > 0 else self.next + 1

    def __reduce__(self):
        with cython.critical_section(self):
            if self.records is None:
                return iter, ([],)
            if self.step > 0:
                return iter, (self.records._slice(slice(self.next, None)),)
            return iter, (self.records._slice(slice(self.next, None, -1)) if self.next >= 0 else [],)
