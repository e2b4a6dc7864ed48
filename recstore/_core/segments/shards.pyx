"""Sets of shards: the records of many files as one sequence. A file is opened when one of its records is first read.

A Shards has a pointer and two numbers for each file, so that a set of 10^5 files takes 2 MB and opens at once. After
mapping a file it closes the descriptor, because a process may have fewer descriptors than a set has files.

A process keeps the most recently read files mapped. With too many files or bytes, it unmaps files that nothing else
refers to. The disk blocks of files that a cache has removed then become free. A read holds a reference to its file, and
so do an array over the bytes and a Record that decodes its fields later. Without the interpreter lock reads hold no
reference, and files stay mapped until the set is closed.
"""


cdef Py_ssize_t part_of(const Py_ssize_t *ends, Py_ssize_t low, Py_ssize_t high, Py_ssize_t position) noexcept:
    """The first of the parts `low` to `high` that ends after a position, by binary search. There must be such a
    part."""
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) >> 1
        if position < ends[middle]:
            high = middle
        else:
            low = middle + 1
    return low


cdef class MappedShards:
    """The shards of a set that this process has mapped.

    Attributes:
        opener: a callable that returns the Segment of shard i. It may take long. It may raise any exception; the next
            read then calls it again. It has the attributes ``token`` (bytes by which another process opens the same
            set), ``nbytes``, ``attributes`` and ``lazy``, and perhaps ``most_mapped``, the most bytes to keep mapped,
            ``fetched_bytes``, the bytes of its open Segments if these grow, and ``fetch_ahead``.
        stores: the numbers of the stores that Shards read in each shard.
        beside: `{number of a shard: objects}`, which are dropped before the shard is unmapped.

    Safe from several threads.
    """

    def __cinit__(self, Py_ssize_t n, opener, tuple stores=(0,)):
        self.n, self.opener, self.stores = n, opener, stores
        self.segments_by_shard, self.beside, self.shapes, self.closed_ = {}, {}, {}, 0
        self.most_shards, self.most_bytes = SET_MAPPED, getattr(opener, "most_mapped", None) or 0
        self.grows = getattr(opener, "fetched_bytes", None) is not None
        self.at = <void **>PyMem_Calloc(n + 1, sizeof(void *))
        self.stamps = <uint32_t *>PyMem_Calloc(n + 1, sizeof(uint32_t))
        if self.at == NULL or self.stamps == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.at)
        PyMem_Free(self.stamps)

    cdef Segment load(self, Py_ssize_t i, Py_ssize_t expected):
        """Opens shard i, which must have `expected` records in each store."""
        self.require_open()
        cdef Segment segment = self.opener(i)
        if segment.is_mapping != (1 in self.stores):
            kinds = ("a mapping", "a list") if segment.is_mapping else ("a list", "a mapping")
            raise errors.CorruptError(f"a shard file of {kinds[0]} in a set of {kinds[1]}", filename=segment.file())
        for store in self.stores:
            n = segment.store_records(store)
            if n != expected:
                raise errors.CorruptError(
                    f"a shard of {counted(n, 'record')}, where its set names {expected}", filename=segment.file()
                )
        with cython.critical_section(self, segment):
            # Another thread may have opened the shard or closed the set.
            if pointer_at(&self.at[i]) != NULL:
                return <Segment>self.at[i]
            self.require_open()
            if segment.owner_pid is None:
                rs_os_close(&segment.seg.fd)
            if segment.entries is None:
                segment.entries = self.entries()
            self.n_loads += 1
            self.stamps[i] = self.n_loads
            self.segments_by_shard[i] = segment
            self.n_mapped = len(self.segments_by_shard)
            self.mapped_bytes += segment.seg.size_bytes
            put_pointer(&self.at[i], <void *>segment)
        self.trim()
        return segment

    cdef inline int trim(self) except -1:
        """Unmaps shards if too many, or too many bytes, are mapped. Called after opening a shard, and after a read that
        held some."""
        if self.grows:
            self.mapped_bytes = self.opener.fetched_bytes
        if not FREE_THREADED and (self.n_mapped > self.most_shards or 0 < self.most_bytes < self.mapped_bytes):
            self.make_room()
        return 0

    cdef int make_room(self) except -1:
        """Unmaps the least recently read shards that nothing else refers to, down to 7/8 of the bounds."""
        cdef Py_ssize_t i, most_shards = self.most_shards - self.most_shards // 8
        cdef int64_t most_bytes = self.most_bytes - self.most_bytes // 8
        cdef void *segment
        cdef Segment opened
        cdef int64_t fetched = 0
        if self.grows:  # threads may have lost an addition
            for opened in list(self.segments_by_shard.values()):
                if opened.ranges is not None:
                    fetched += opened.ranges.fetched
            opened = None  # it may be unmapped
            self.opener.fetched_bytes = self.mapped_bytes = fetched
        oldest = [(self.n_loads - self.stamps[i], -i) for i in self.segments_by_shard]
        oldest.sort(reverse=True)
        for _, i in oldest:
            if self.n_mapped <= most_shards and (self.most_bytes == 0 or self.mapped_bytes <= most_bytes):
                break
            self.beside.pop(-i, None)  # may run code that opens and unmaps shards
            segment = self.at[-i]
            if segment == NULL or Py_REFCNT(<PyObject *>segment) > 1:  # `segments_by_shard` has one reference
                continue
            if not self.grows:
                self.mapped_bytes -= (<Segment>segment).seg.size_bytes
            self.at[-i] = NULL
            del self.segments_by_shard[-i]
            if self.grows:
                self.mapped_bytes = self.opener.fetched_bytes
            self.n_mapped = len(self.segments_by_shard)
        return 0

    cdef Entries entries(self):
        """The Entries of a new shard. All shards of the set share keys and templates. In a set of more shards, each
        keeps fewer decoded entries."""
        cdef Entries out = Entries()
        out.shapes = self.shapes
        out.max_size = min(out.max_size, SET_KEPT_BYTES // self.n)
        return out

    cpdef int require_open(self) except -1:
        """Raises ClosedError if the set is closed."""
        if flag_of(&self.closed_):
            raise errors.ClosedError("the store is closed")
        return 0

    @property
    def closed(self):
        return flag_of(&self.closed_) != 0

    def has(self, i):
        """Whether shard i is mapped."""
        return i in self.segments_by_shard

    def segments(self):
        """The Segments that are open."""
        return list(self.segments_by_shard.values())

    def close(self):
        """Closes the set and its open segments. Raises BusyError, and closes nothing, while arrays over a segment are
        alive."""
        close_all(list(self.segments_by_shard.values()))
        with cython.critical_section(self):
            set_flag(&self.closed_)
        for segment in list(self.segments_by_shard.values()):
            segment.close()  # also closes shards opened in the meantime


cdef class Shards:
    """The records of a set's files, one file after another.

    Attributes: ``n`` files with ``length`` records in all; ``mapped``, the MappedShards, which the keys and the values
    of a mapping share; ``store``, the number of the store to read in each file (1 for the keys of mappings).

    Safe from several threads.
    """

    def __cinit__(self, counts, MappedShards mapped not None, int store=0):
        cdef Py_ssize_t i, total = 0, count
        self.mapped, self.store = mapped, store
        self.at, self.stamps = mapped.at, mapped.stamps
        self.n = len(counts)
        if self.n != mapped.n or store not in mapped.stores:
            raise ValueError(f"store {store} of {self.n} shards is not mapped")
        self.ends_ = <Py_ssize_t *>PyMem_Malloc((self.n + 1) * sizeof(Py_ssize_t))
        if self.ends_ == NULL:
            raise MemoryError
        for i in range(self.n):
            count = counts[i]
            if count < 0 or (<object>total) + count > MAX_LENGTH:
                raise errors.CorruptError(f"a set of shards whose shard {i} has {counted(count, 'record')}")
            total += count
            self.ends_[i] = total
        self.length = total
        self.per_record = <double>self.n / <double>total if total else 0

    def __dealloc__(self):
        PyMem_Free(self.ends_)

    def __len__(self):
        return self.n

    cdef inline Py_ssize_t begin(self, Py_ssize_t i) noexcept:
        return self.ends_[i - 1] if i else 0

    def range(self, Py_ssize_t i):
        """`(begin, end)`: the positions of shard i."""
        if not 0 <= i < self.n:
            raise IndexError(f"shard {i} of {self.n}")
        return self.begin(i), self.ends_[i]

    @property
    def ends(self):
        """For each shard the position after its last record, as an array of int64."""
        import array
        return array.array("q", PyBytes_FromStringAndSize(<const char *>self.ends_, self.n * sizeof(Py_ssize_t)))

    cdef inline Py_ssize_t shard_of(self, Py_ssize_t position) noexcept:
        """The shard of a position, which must be in range. Shards usually have similar numbers of records, so this
        searches from a guess, in doubling steps, and then by halving the range."""
        cdef Py_ssize_t low, high, step = 1
        cdef Py_ssize_t guess = <Py_ssize_t>(<double>position * self.per_record)
        if guess >= self.n:
            guess = self.n - 1
        if position >= self.ends_[guess]:
            low = guess + 1
            high = low
            while high < self.n - 1 and position >= self.ends_[high]:
                low = high + 1
                high = min(high + step, self.n - 1)
                step *= 2
        else:
            high = guess
            low = high
            while low > 0 and position < self.ends_[low - 1]:
                high = low - 1
                low = max(low - step, 0)
                step *= 2
        return part_of(self.ends_, low, high, position)

    cdef inline void *located(self, Py_ssize_t i) except NULL:
        """The Segment of shard i, opened if necessary, borrowed from this set until the next shard is opened."""
        if self.mapped.grows:
            self.mapped.trim()
        if pointer_at(&self.at[i]) == NULL:
            self.mapped.load(i, self.ends_[i] - self.begin(i))
        if not FREE_THREADED:  # free-threaded, no shard is unmapped
            self.stamps[i] = self.mapped.n_loads
        return self.at[i]

    def segment(self, Py_ssize_t i):
        """The Segment of shard i, opened if necessary. Counts as a read."""
        if not 0 <= i < self.n:
            raise IndexError(f"shard {i} of {self.n}")
        self.require_open()
        return <Segment>self.located(i)

    cdef inline int trim(self) except -1:
        """Unmaps shards if too many are mapped."""
        return self.mapped.trim()

    @property
    def opener(self):
        return self.mapped.opener

    @property
    def n_mapped(self):
        """The number of shards that are mapped."""
        return self.mapped.n_mapped

    cpdef int require_open(self) except -1:
        """Raises ClosedError if the set is closed."""
        return self.mapped.require_open()

    @property
    def closed(self):
        return self.mapped.closed

    def leaves(self):
        """`[(segment, store), ...]` of the shards that are open."""
        cdef Py_ssize_t i
        return [(<Segment>self.at[i], self.store) for i in range(self.n) if pointer_at(&self.at[i]) != NULL]

    def known_leaves(self):
        """The leaves that show the fields of the records. These are the leaves of all shards, or of 4,096 shards at
        equal distances. A lazy set has the leaves of its open shards; if none is open, it opens the first shard
        with records."""
        cdef Py_ssize_t i, n_leaves = min(self.n, KNOWN_LEAVES)
        if not getattr(self.opener, "lazy", False):
            return [(self.segment(i * self.n // n_leaves), self.store) for i in range(n_leaves)]
        if self.mapped.n_mapped == 0 and self.length:
            self.segment(self.shard_of(0))
        return self.leaves()

    def fetch_ahead(self, shards):
        """Tells the opener which shards are read next, so that it can fetch them. Returns at once."""
        hint = getattr(self.opener, "fetch_ahead", None)
        if hint is not None:
            hint([int(i) for i in shards if pointer_at(&self.at[<Py_ssize_t>i]) == NULL])

    def segments(self):
        """The Segments that are open."""
        return self.mapped.segments()

    def close(self):
        """Like MappedShards.close: other Shards over the files are closed too."""
        self.mapped.close()


cdef class Entered:
    """The segments that one call has entered, each once. `leave` leaves them all."""

    def __cinit__(self):
        self.segments, self.seen = [], set()

    cdef int add(self, Segment segment) except -1:
        if id(segment) not in self.seen:
            segment.enter()
            self.seen.add(id(segment))
            self.segments.append(segment)
        return 0

    cdef int add_all(self, selection) except -1:
        """Enters the segments of a Selection, except shards of sets, which are entered when they are located."""
        for segment, _ in selection.leaves():
            self.add(segment)
        return 0

    cdef int leave(self) except -1:
        cdef Segment segment
        for segment in self.segments:
            segment.leave()
        self.segments, self.seen = [], set()
        return 0
