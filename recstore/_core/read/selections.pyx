"""Selections: which records a view has, and in which order.

A Selection maps positions 0 <= p < length to records. Its base is a store of a segment, a set of shards, or a sequence
of Selections. Before the base come stages; each maps a position to a position of the next stage: a slice, a keyed
permutation, an index array or a repetition.

Reading a view of views of views must stay fast, so adjacent slices merge, and `taken` makes an index array of positions
in the base. If there would be too many stages, parts or levels of nesting, index arrays replace some of them.
"""

# For handles of views: no view has more stages, or more levels of joined views.
VIEW_STAGES, VIEW_NESTED = MAX_STAGES, MAX_NESTED


MAX_LENGTH = 2**63 - 1
NEVER_BUILT = ("the store was never built: a class that inherits from a container must call "
               "super().__init__(records) first")
cdef extern from *:
    """
    #define RS_MAX_ENTRIES ((Py_ssize_t)1 << 33)
    """
    const Py_ssize_t MAX_ENTRIES "RS_MAX_ENTRIES"


cdef class _Permutation:
    """Owns the round keys of a permutation."""
    cdef rs_permutation core
    cdef readonly object seed

    def __cinit__(self, uint64_t n, seed):
        self.seed = int(seed) & 0xFFFFFFFFFFFFFFFF
        rs_permutation_init(&self.core, n, self.seed)


cdef inline Stage stage_of(int kind, Py_ssize_t n, Py_ssize_t start=0, Py_ssize_t step=1):
    """A stage that maps to positions below n, without blob and permutation."""
    cdef Stage stage
    memset(&stage, 0, sizeof(Stage))
    stage.kind, stage.n, stage.start, stage.step = kind, n, start, step
    return stage


cdef inline void put_entry(uint8_t *entries, unsigned width, Py_ssize_t i, Py_ssize_t value) noexcept:
    if width == 4:
        rs_store_u32(entries + i * 4, <uint32_t>value)
    else:
        rs_store_u64(entries + i * 8, <uint64_t>value)


cdef int pass_index(const Stage *stage, int64_t *io, Py_ssize_t n) except -1:
    """Selection.pass_through for an index array."""
    cdef const uint8_t *entries = (<Blob>stage.blob).data
    cdef Py_ssize_t k
    cdef uint64_t value
    if (<Blob>stage.blob).is_closed():
        raise errors.ClosedError("the store is closed")
    entries += stage.start * <Py_ssize_t>stage.width
    for k in range(n):
        if stage.width == 4:
            value = rs_load_u32(entries + 4 * stage.step * io[k])
        else:
            value = rs_load_u64(entries + 8 * stage.step * io[k])
        if value >= <uint64_t>stage.n:
            raise errors.CorruptError(f"an index array leads to record {value} of {stage.n}")
        io[k] = <int64_t>value
    return 0


cdef bytes new_entries(Py_ssize_t n, unsigned width):
    """Uninitialised memory for an index array, which the caller has to fill."""
    if n > MAX_ENTRIES:
        raise MemoryError(f"an index array of {n} entries: copy the view to a new store with RecordList(view), or take "
                          "a part of it")
    return PyBytes_FromStringAndSize(NULL, n * width)


cdef list lightened(list parts, weight, total):
    """The parts of a joined selection, with index arrays in place of some if the tree would be too deep or too large.

    The bound counts each use of a part, because a handle repeats the part at each use. A replacement takes time and
    memory proportional to the records of the part; it is needed once in many joins."""
    cdef Selection part
    if weight > MAX_WEIGHT and total > weight * PART_RECORDS:
        return [(<Selection>part).flattened() if (<Selection>part).weight > 1 else part for part in parts]
    return [(<Selection>part).flattened() if (<Selection>part).nested >= MAX_NESTED else part for part in parts]


cdef tuple united_leaves(tuple first, tuple second):
    """Two results of leaves() as one, each leaf once. `second` is short in a long chain of `+`."""
    cdef tuple leaf, known
    cdef list added = []
    for leaf in second:
        for known in first:
            if known[0] is leaf[0] and known[1] == leaf[1]:
                break
        else:
            added.append(leaf)
    return first + tuple(added) if added else first


cdef tuple united(tuple first, tuple second):
    return first + tuple([item for item in second if item not in first])


@cython.final
cdef class Selection:
    """An immutable mapping of positions to records; see the top of this file. Made by the static methods, and by
    the methods of other Selections.

    Attributes: ``length``; ``segment`` and ``store``, if the base is a store; ``shards``, if it is a set of shards;
    ``parts``, if it is a sequence of Selections.
    """

    def __cinit__(self):
        self.weight = 1
        self.owners = []

    def __dealloc__(self):
        PyMem_Free(self.ends)

    # ---- Making ----

    @staticmethod
    def whole(Segment segment, int store=0):
        """All records of a store of a segment."""
        cdef Selection self = Selection.__new__(Selection)
        segment.require_open()
        self.segment = segment
        self.store = store
        self.length = segment.store_records(store)
        return self

    @staticmethod
    def of_shards(Shards shards not None):
        """All records of a set of shards."""
        cdef Selection self = Selection.__new__(Selection)
        shards.require_open()
        self.shards = shards
        self.length = shards.length
        return self

    @staticmethod
    def of_nothing(Py_ssize_t length):
        """The selection of a detached container: it has a length and no records."""
        cdef Selection self = Selection.__new__(Selection)
        if length < 0:
            raise errors.CorruptError(f"a view of {length} records")
        self.length = length
        return self

    @staticmethod
    def of_positions(Py_ssize_t length):
        """Positions without records. A Projection returns the value at each position."""
        cdef Selection self = Selection.of_nothing(length)
        self.virtual = True
        return self

    @staticmethod
    def joined(selections):
        """The records of these selections, one selection after another. The parts of a joined selection become parts of
        the result."""
        cdef Selection self, part = None
        cdef Py_ssize_t weight = 1, nested = 0, end = 0, i
        parts, total = [], 0
        for part in selections:
            if part.length == 0:
                continue
            total += part.length
            # A joined selection keeps the sums over its parts, so that adding many selections one by one is fast.
            if part.parts is not None and part.n_stages == 0:
                parts += part.parts
                weight += part.weight - 1
                nested = max(nested, part.nested - 1)
            else:
                parts.append(part)
                weight += part.weight_as_part()
                nested = max(nested, part.nested)
        if len(parts) == 1:
            return parts[0]
        if not parts and part is not None:
            return part  # it is empty, but has a store
        if total > MAX_LENGTH:
            raise OverflowError("a view of more than 2**63 - 1 records")
        if nested >= MAX_NESTED or weight > MAX_WEIGHT:
            parts = lightened(parts, weight, total)
            weight = 1 + sum([(<Selection>part).weight_as_part() for part in parts])
            nested = max([(<Selection>part).nested for part in parts], default=0)
        self = Selection.__new__(Selection)
        self.parts = tuple(parts)
        self.weight, self.nested, self.length = weight, nested + 1, total
        self.ends = <Py_ssize_t *>PyMem_Malloc((len(parts) + 1) * sizeof(Py_ssize_t))
        if self.ends == NULL:
            raise MemoryError
        for i in range(len(parts)):
            end += (<Selection>(<list>parts)[i]).length
            self.ends[i] = end
        if self.weight > MAX_WEIGHT and total <= self.weight * PART_RECORDS:
            return self.flattened()  # an index array is smaller than the parts
        if len(selections) == 2:
            first, second = selections
            self.leaves_ = united_leaves(first.leaves(), second.leaves())
            self.sets_ = united(tuple(first.sets()), tuple(second.sets()))
        return self

    cdef Selection derived(self):
        """A copy, for the caller to push further stages."""
        cdef Selection out = Selection.__new__(Selection)
        cdef Py_ssize_t i
        out.length = self.length
        out.n_stages = self.n_stages
        out.nested = self.nested
        out.weight = self.weight
        with cython.critical_section(self):
            out.leaves_ = self.leaves_
            out.sets_ = self.sets_
        for i in range(self.n_stages):
            out.stages[i] = self.stages[i]
        out.owners = self.owners[:]
        out.segment = self.segment
        out.store = self.store
        out.virtual = self.virtual
        out.parts = self.parts
        out.shards = self.shards
        if self.parts is not None:
            out.ends = <Py_ssize_t *>PyMem_Malloc((len(self.parts) + 1) * sizeof(Py_ssize_t))
            if out.ends == NULL:
                raise MemoryError
            for i in range(len(self.parts)):
                out.ends[i] = self.ends[i]
        return out

    cdef int push(self, Stage *stage, object owner) except -1:
        """Adds a stage before all others. There must be fewer than MAX_STAGES."""
        cdef int i
        for i in range(self.n_stages, 0, -1):
            self.stages[i] = self.stages[i - 1]
        self.stages[0] = stage[0]
        self.owners.insert(0, owner)
        self.n_stages += 1
        return 0

    def sliced(self, Py_ssize_t start, Py_ssize_t step, Py_ssize_t length):
        """The `length` records at positions start, start + step, ... Raises CorruptError if one is out of range. Takes
        constant time, or time proportional to the parts of a joined selection; with MAX_STAGES stages, that of
        `collapsed`."""
        cdef Stage stage
        if length < 0:
            raise errors.CorruptError(f"a view of {length} records")
        if length > 0:
            # In Python ints, because numbers from a forged handle could overflow C integers.
            last = <object>start + <object>step * (<object>length - 1)
            if not (0 <= start < self.length and 0 <= last < self.length):
                raise errors.CorruptError(f"a view of records {start} to {last} over {self.length}")
        if length <= 1:
            step = 1  # the step is never used, and a huge one would overflow in a later multiplication
        if self.segment is None and self.parts is None and self.shards is None and not self.virtual:
            return Selection.of_nothing(length)
        if start == 0 and step == 1 and length == self.length:
            return self
        if self.parts is not None and self.n_stages == 0:
            return self.sliced_parts(start, step, length)
        if self.n_stages == MAX_STAGES and self.stages[0].kind not in (STAGE_SLICE, STAGE_INDEX):
            return self.collapsed().sliced(start, step, length)
        cdef Selection out = self.derived()
        out.length = length
        cdef Stage *first = &out.stages[0]
        if out.n_stages and (first.kind == STAGE_SLICE or first.kind == STAGE_INDEX):
            first.start = first.start + first.step * start if length else 0
            first.step = first.step * step if length else 1
        else:
            stage = stage_of(STAGE_SLICE, self.length, start if length else 0, step)
            out.push(&stage, None)
        return out

    def sliced_parts(self, Py_ssize_t start, Py_ssize_t step, Py_ssize_t length):
        """A slice of a joined selection, made of slices of its parts so that repeated joins and slices do not nest."""
        cdef Py_ssize_t i, k, begin, end, n, first
        cdef Py_ssize_t count = len(self.parts)
        slices = []
        done = 0
        if length == 0:
            return (<Selection>self.parts[0]).sliced(0, 1, 0) if count else self
        cdef Py_ssize_t nearest = part_of(self.ends, 0, count - 1, start)
        for k in range(nearest if step > 0 else count - 1 - nearest, count):
            i = k if step > 0 else count - 1 - k
            begin = self.ends[i - 1] if i else 0
            end = self.ends[i]
            if done == length:
                break
            first = start + step * done
            if not begin <= first < end:
                continue
            n = (end - 1 - first) // step + 1 if step > 0 else (first - begin) // -step + 1
            n = min(n, length - done)
            slices.append((<Selection>self.parts[i]).sliced(first - begin, step, n))
            done += n
        return Selection.joined(slices)

    def permuted(self, seed):
        """The same records in the order of the keyed permutation "feistel-1" (csrc/base/rs_permute.h). Takes the time
        of `sliced`."""
        cdef Stage stage
        if self.length <= 1:
            return self
        if self.length > RS_PERMUTE_MAX:
            raise OverflowError(f"{self.length} records are more than can be shuffled, 2**48")
        if self.n_stages == MAX_STAGES:
            return self.collapsed().permuted(seed)
        cdef _Permutation permutation = _Permutation(self.length, seed)
        cdef Selection out = self.derived()
        stage = stage_of(STAGE_PERMUTE, self.length)
        stage.permutation = &permutation.core
        out.push(&stage, permutation)
        return out

    def repeated(self, Py_ssize_t times):
        """The same records, repeated `times` times. Takes the time of `sliced`."""
        cdef Stage stage
        if times <= 0 or self.length == 0:
            return self.sliced(0, 1, 0)
        if times == 1:
            return self
        if <object>self.length * times > MAX_LENGTH:
            raise OverflowError("a view of more than 2**63 - 1 records")
        if self.n_stages == MAX_STAGES and self.stages[0].kind != STAGE_REPEAT:
            return self.collapsed().repeated(times)
        cdef Selection out = self.derived()
        out.length = self.length * times
        # An outermost repetition has a whole number of rounds, so a larger length extends it.
        if out.n_stages and out.stages[0].kind == STAGE_REPEAT:
            return out
        stage = stage_of(STAGE_REPEAT, self.length)
        out.push(&stage, None)
        return out

    def indexed(self, Blob blob, Py_ssize_t first, unsigned width, Py_ssize_t length):
        """The records at the positions in entries first to first + length - 1 of an index array. Takes the time of
        `sliced`: an entry that is out of range raises CorruptError when it is read."""
        cdef Stage stage
        if width not in (4, 8) or first < 0 or length < 0 or (<object>first + length) * width > blob.size:
            size = blob.size
            raise errors.CorruptError(f"an index array of {size} bytes does not hold {length} entries from {first}")
        if self.n_stages == MAX_STAGES:
            return self.collapsed().indexed(blob, first, width, length)
        cdef Selection out = self.derived()
        out.length = length
        stage = stage_of(STAGE_INDEX, self.length, first)
        stage.width = width
        stage.blob = <void *>blob
        out.push(&stage, blob)
        return out

    def taken(self, indices):
        """The records at these indices, of any kind that `positions` accepts, as an index array of positions in the
        base."""
        cdef Selection base = self.base()
        cdef Positions chosen = positions_of(indices, self.length)
        return base.indexed(new_blob(self.entries(0, chosen.at, chosen.n)), 0, base.entry_width(), chosen.n)

    cdef bytes entries(self, int first, const int64_t *positions, Py_ssize_t n):
        """The content of an index array: the positions in the base for n positions before stage number `first`; without
        `positions`, for 0 to n - 1."""
        cdef unsigned width = self.entry_width()
        cdef bytes out = new_entries(n, width)
        cdef uint8_t *to = <uint8_t *>PyBytes_AS_STRING(out)
        cdef int64_t chunk[PASS]
        cdef Py_ssize_t i, count
        for i in range(0, n, PASS):
            count = min(PASS, n - i)
            PyErr_CheckSignals()
            if positions != NULL:
                memcpy(chunk, positions + i, count * sizeof(int64_t))
            else:
                rs_positions_steps(chunk, count, i, 1)
            self.pass_through(first, chunk, count)
            if width == 4:
                rs_positions_narrow(chunk, count, to + i * 4)
            else:
                memcpy(to + i * 8, chunk, count * 8)
        return out

    cdef unsigned entry_width(self):
        """Bytes of an index array's entry."""
        return 4 if self.base_length() <= 0xFFFFFFFF else 8

    def settled(self):
        """The same records, with room for a further stage."""
        return self.flattened() if self.n_stages == MAX_STAGES else self

    def base(self):
        """This selection without its stages."""
        if self.n_stages == 0:
            return self
        cdef Selection out = self.derived()
        out.n_stages = 0
        out.owners = []
        out.length = self.base_length()
        return out

    cpdef Py_ssize_t weight_as_part(self):
        """The weight that this selection adds to a joined selection: 0 if it is a whole store or a whole set."""
        is_whole = self.n_stages == 0 and (self.segment is not None or self.shards is not None)
        return 0 if is_whole else self.weight

    cdef Py_ssize_t base_length(self):
        return self.stages[self.n_stages - 1].n if self.n_stages else self.length

    cpdef Py_ssize_t base_position(self, Py_ssize_t position) except -1:
        """Maps a position, which must be in range, to a position in `base`."""
        return self.through(0, position)

    cdef Py_ssize_t through(self, int first, Py_ssize_t position) except -1:
        """Maps a position before stage number `first` to a position in `base`. The position must be in range."""
        cdef int i
        cdef Stage *stage
        cdef const uint8_t *entry
        cdef uint64_t value
        for i in range(first, self.n_stages):
            stage = &self.stages[i]
            if stage.kind == STAGE_SLICE:
                position = stage.start + stage.step * position
            elif stage.kind == STAGE_INDEX:
                position = stage.start + stage.step * position
                entry = (<Blob>stage.blob).data
                if (<Blob>stage.blob).is_closed():
                    raise errors.ClosedError("the store is closed")
                entry += position * stage.width
                value = rs_load_u32(entry) if stage.width == 4 else rs_load_u64(entry)
                if value >= <uint64_t>stage.n:
                    raise errors.CorruptError(f"an index array leads to record {value} of {stage.n}")
                position = <Py_ssize_t>value
            elif stage.kind == STAGE_REPEAT:
                position %= stage.n
            else:
                position = <Py_ssize_t>rs_permutation_at(stage.permutation, <uint64_t>position)
        return position

    cdef int pass_through(self, int first, int64_t *io, Py_ssize_t n) except -1:
        """Like `through`, for n positions, in place."""
        cdef Stage *stage
        cdef Py_ssize_t k
        cdef int i
        for i in range(first, self.n_stages):
            stage = &self.stages[i]
            if stage.kind == STAGE_SLICE:
                for k in range(n):
                    io[k] = stage.start + stage.step * io[k]
            elif stage.kind == STAGE_INDEX:
                pass_index(stage, io, n)
            elif stage.kind == STAGE_REPEAT:
                for k in range(n):
                    io[k] %= stage.n
            else:
                for k in range(n):
                    io[k] = <int64_t>rs_permutation_at(stage.permutation, <uint64_t>io[k])
        return 0

    cdef int locate(self, Py_ssize_t position, Leaf *out) except -1:
        """Finds the record at a position, which must be in range."""
        cdef Selection at = self.base_of(&position)
        cdef Py_ssize_t i
        if at.segment is not None:
            out.segment = <void *>at.segment
            out.store = at.store
        elif at.shards is not None:
            i = at.shards.shard_of(position)
            position -= at.shards.begin(i)
            out.segment = at.shards.located(i)
            out.store = at.shards.store
        else:
            raise errors.SegmentNotFoundError(errno.ENOENT, NEVER_BUILT)
        out.index = position
        return 0

    cdef Selection base_of(self, Py_ssize_t *io):
        """The innermost part with this position, which must be in range. Sets *io to the position in the part's
        base."""
        cdef Selection at = self
        cdef Py_ssize_t part, position = io[0]
        while True:
            position = at.base_position(position)
            if at.parts is None:
                io[0] = position
                return at
            part = part_of(at.ends, 0, len(at.parts) - 1, position)
            if part:
                position -= at.ends[part - 1]
            at = <Selection>at.parts[part]

    cdef bint is_flat(self, Py_ssize_t *start, Py_ssize_t *step):
        """Whether position p is record start + step * p of one store; if so, sets start and step."""
        if self.segment is None or self.n_stages > 1 or (self.n_stages == 1 and self.stages[0].kind != STAGE_SLICE):
            return False
        start[0] = self.stages[0].start if self.n_stages else 0
        step[0] = self.stages[0].step if self.n_stages else 1
        return True

    cdef bint is_run_of_shards(self, Py_ssize_t *start):
        """Whether position p is record start + p of a set of shards; if so, sets start."""
        if self.shards is None or self.n_stages > 1:
            return False
        if self.n_stages == 1 and (self.stages[0].kind != STAGE_SLICE or self.stages[0].step != 1):
            return False
        start[0] = self.stages[0].start if self.n_stages else 0
        return True

    cdef Selection collapsed(self):
        """The same records with fewer stages; there must be at least two. An index array replaces two or more inner
        stages, from the stage with the fewest positions on. Takes time and memory proportional to these positions.
        This is needed once in several views of views."""
        cdef Selection out = self.derived()
        cdef Stage stage
        cdef int i, first = 0
        cdef Py_ssize_t size = self.length
        for i in range(1, self.n_stages - 1):
            if self.stages[i - 1].n < size:
                first, size = i, self.stages[i - 1].n
        blob = new_blob(self.entries(first, NULL, size))
        stage = stage_of(STAGE_INDEX, self.base_length())
        stage.width = self.entry_width()
        stage.blob = <void *>blob
        out.stages[first] = stage
        out.owners[first:] = [blob]
        out.n_stages = first + 1
        return out

    def flattened(self):
        """The same records as one index array over all stores and sets. Takes time and memory proportional to the
        length."""
        cdef Selection part
        cdef Py_ssize_t i, position, total = 0
        cdef unsigned width
        cdef dict firsts = {}
        wholes = [Selection.whole(segment, store) for segment, store in self.leaves()]
        wholes += [Selection.of_shards(shards) for shards in self.sets()]
        if not wholes:
            return Selection.of_nothing(self.length)
        base = Selection.joined(wholes)
        for part in wholes:
            firsts[part.base_id()] = total
            total += part.length
        width = 4 if total <= 0xFFFFFFFF else 8
        content = new_entries(self.length, width)
        entries = <uint8_t *>PyBytes_AS_STRING(content)
        for i in range(self.length):
            if not i & 1023:
                PyErr_CheckSignals()
            position = i
            part = self.base_of(&position)
            if part.segment is None and part.shards is None:
                raise errors.SegmentNotFoundError(errno.ENOENT, NEVER_BUILT)
            put_entry(entries, width, i, <Py_ssize_t>firsts[part.base_id()] + position)
        return base.indexed(new_blob(content), 0, width, self.length)

    # ---- Description ----

    def leaves(self):
        """`((segment, store), ...)` of the records, each store once, without sets of shards."""
        cdef Selection part
        with cython.critical_section(self):
            if self.leaves_ is None:
                seen = {}
                if self.segment is not None:
                    seen[None] = self.segment, self.store
                for part in self.parts or ():
                    for segment, store in part.leaves():
                        seen.setdefault((id(segment), store), (segment, store))
                self.leaves_ = tuple(seen.values())
            return self.leaves_

    def sets(self):
        """The sets of shards, each once."""
        with cython.critical_section(self):
            if self.sets_ is None:
                seen = {} if self.shards is None else {id(self.shards): self.shards}
                for part in self.parts or ():
                    seen.update((id(shards), shards) for shards in part.sets())
                self.sets_ = tuple(seen.values())
            return list(self.sets_)

    cdef int trim(self) except -1:
        """Unmaps excess shards after a read that held many of them."""
        for shards in self.sets():
            (<Shards>shards).trim()
        return 0

    cdef int require_open(self) except -1:
        """Raises ClosedError if a store or a set of shards is closed."""
        cdef tuple leaf
        for leaf in self.leaves():
            (<Segment>leaf[0]).require_open()
        for shards in self.sets():
            (<Shards>shards).require_open()
        return 0

    def known_leaves(self):
        """`[(segment, store), ...]`: the leaves, and leaves of sets of shards that show the fields of the records. May
        open shards."""
        return [*self.leaves(), *[leaf for shards in self.sets() for leaf in shards.known_leaves()]]

    cdef object base_id(self):
        """A value that is different for different bases. For a selection without parts."""
        return (id(self.segment), self.store) if self.segment is not None else (id(self.shards), -1)

    def blobs(self):
        """The index arrays, each once, without sections of segments."""
        seen = {id(owner): owner for owner in self.owners if isinstance(owner, Blob) and owner.section_of is None}
        for part in self.parts or ():
            seen.update((id(blob), blob) for blob in part.blobs())
        return list(seen.values())

    def describe(self):
        """The stages, outermost first, for the handle of a view: `("slice", n, start, step)`, `("permute", n, seed)`,
        `("index", n, blob, first, step, width)` or `("repeat", n)`. A stage maps to positions below n."""
        cdef int i
        cdef Stage *stage
        out = []
        for i in range(self.n_stages):
            stage = &self.stages[i]
            if stage.kind == STAGE_SLICE:
                out.append(("slice", stage.n, stage.start, stage.step))
            elif stage.kind == STAGE_PERMUTE:
                out.append(("permute", stage.n, (<_Permutation>self.owners[i]).seed))
            elif stage.kind == STAGE_INDEX:
                out.append(("index", stage.n, self.owners[i], stage.start, stage.step, stage.width))
            else:
                out.append(("repeat", stage.n))
        return out
