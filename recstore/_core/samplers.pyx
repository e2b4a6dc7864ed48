"""Indices and random draws for the samplers of recstore.torch. Most loops run without the interpreter lock.

Buffers of indices are contiguous and writable, and hold 64-bit integers, as an int64 array of numpy does.
"""


cdef enum:
    CHUNK_INDICES = 1024  # the indices that an IndexIterator computes at once: 8 KiB, about 20 microseconds


cdef int require_run(first, step, Py_ssize_t count) except -1:
    """Raises ValueError if `first` or `step` is negative, or first + step * (count - 1) does not fit in 63 bits."""
    if first < 0 or step < 0 or first + step * max(count - 1, 0) > MAX_LENGTH:
        raise ValueError(f"positions from {first} in steps of {step} are out of range")
    return 0


def permutation_seed(seed, number):
    """The 64-bit seed of order `number` (an epoch, a bucket) under `seed`. Order 0 has the seed itself."""
    return rs_permutation_seed(<uint64_t>(int(seed) & 0xFFFFFFFFFFFFFFFF), <uint64_t>number)


def mixed(uint64_t z):
    """A 64-bit hash of `z` (rs_mix64)."""
    return rs_mix64(z)


def fill_permutation(out, n, seed, first, step):
    """Fills `out` from the permutation "feistel-1" of n elements, n above 0: item k becomes the element at position
    (first + step * k) % n. `seed` is an int below 2**64. If it is None, item k becomes the position itself."""
    cdef rs_permutation permutation
    cdef Py_ssize_t i
    cdef uint64_t length, start, stride
    if not 0 < n <= RS_PERMUTE_MAX:
        raise ValueError(f"a permutation has 1 to {RS_PERMUTE_MAX} elements, not {n}")
    cdef Span items = Span.of(out, 8, True)
    cdef int64_t *data = items.ints
    require_run(first, step, items.n)
    length, start, stride = n, first % n, step % n
    if seed is not None:
        rs_permutation_init(&permutation, length, seed)
        with nogil:
            rs_permutation_run(&permutation, start, stride, items.n, data)
    else:
        with nogil:
            for i in range(items.n):
                data[i] = <int64_t>start
                start += stride
                if start >= length:
                    start -= length


def spread_permutation(out, n, seed, first, step):
    """Replaces each item i of `out` by the element at position (first + step * i) % n of the permutation "feistel-1" of
    n elements, n above 0. If `seed` is None, replaces it by the position itself. Items are at least 0."""
    cdef rs_permutation permutation
    cdef Py_ssize_t i
    cdef uint64_t length, start, stride, position
    cdef bint shuffles = seed is not None
    if not 0 < n <= RS_PERMUTE_MAX:
        raise ValueError(f"a permutation has 1 to {RS_PERMUTE_MAX} elements, not {n}")
    cdef Span items = Span.of(out, 8, True)
    cdef int64_t *data = items.ints
    length, start, stride = n, first, step
    if shuffles:
        rs_permutation_init(&permutation, length, seed)
    with nogil:
        for i in range(items.n):
            position = (start + stride * <uint64_t>data[i]) % length
            data[i] = <int64_t>(rs_permutation_at(&permutation, position) if shuffles else position)


cdef class IndexIterator:
    """Iterates over ints that it computes in chunks. ``taken`` is the number of ints it has returned. Not thread-safe.

    The first `next` calls `begin`, which returns `(fill, count)`. `count` is the number of ints. `fill(buffer, i)`
    writes the ints from number `i` on to the buffer, at least one, and returns how many."""

    cdef object begin
    cdef object fill
    cdef object chunk      # an array("q"); `data` points to its items
    cdef int64_t *data
    cdef Py_ssize_t at     # the next index in the chunk
    cdef Py_ssize_t end
    cdef readonly Py_ssize_t taken
    cdef Py_ssize_t count

    def __cinit__(self, begin):
        self.begin = begin

    def __iter__(self):
        return self

    def __next__(self):
        if FREE_THREADED:
            with cython.critical_section(self):
                return self.advance()
        return self.advance()

    cdef inline object advance(self):
        if self.at == self.end:
            self.refill()
        value = self.data[self.at]
        self.at += 1
        self.taken += 1
        return value

    cdef int refill(self) except -1:
        """Fills the next chunk. Raises StopIteration after the last one."""
        cdef Py_buffer buffer
        if self.begin is not None:
            begin, self.begin = self.begin, None
            self.fill, self.count = begin()
        cdef Py_ssize_t n = min(self.count - self.taken, <Py_ssize_t>CHUNK_INDICES)
        if n <= 0:
            self.count = self.taken  # later calls stop at once
            raise StopIteration
        import array
        chunk = array.array("q", bytes(n * 8))
        n = min(n, <Py_ssize_t>self.fill(chunk, self.taken))
        if n <= 0:
            raise ValueError("an iterator of ints got none")
        # The old chunk stays in use until the new one is complete, because `fill` may let another thread run.
        PyObject_GetBuffer(chunk, &buffer, PyBUF_CONTIG_RO)
        self.data = <int64_t *>buffer.buf
        PyBuffer_Release(&buffer)  # safe, because no other code can resize the array
        self.chunk = chunk
        self.at, self.end = 0, n
        return 0


# ---- Draws by weight ----

cdef class AliasTable:
    """Draws numbers 0 to n - 1 by weight, each in constant time (csrc/base/rs_alias.h). `weights` is a buffer of
    doubles. Raises ValueError if a weight or the sum is not finite, a weight is negative, or no weight is above 0.
    Safe to draw from any thread."""

    cdef rs_alias core

    def __cinit__(self, weights=None):
        cdef Span items
        cdef rs_error err
        cdef rs_status status
        if weights is None:
            return
        items = Span.of(weights, sizeof(double))
        with nogil:
            status = rs_alias_init(&self.core, <const double *>items.view.buf, items.n, &err)
        check(status, &err)

    def __dealloc__(self):
        rs_alias_clear(&self.core)

    @property
    def nbytes(self):
        return self.core.n * (8 + rs_alias_width(self.core.n))

    def draw(self, out, key, first, step, period):
        """Fills `out`: item k becomes draw number (first + step * k) % period of `key`."""
        cdef uint64_t draw_key = key, start = first, stride = step, modulus = period
        cdef Span items = Span.of(out, 8, True)
        cdef int64_t *data = items.ints
        require_run(first, step, items.n)
        if self.core.n == 0 or modulus == 0:
            raise ValueError("the table is empty, or the period is 0")
        with nogil:
            rs_alias_run(&self.core, draw_key, start, stride, modulus, items.n, data)

    def __reduce__(self):
        n = self.core.n
        return alias_table, (n, PyBytes_FromStringAndSize(<const char *>self.core.thresholds, n * 8),
                             PyBytes_FromStringAndSize(<const char *>self.core.others, n * rs_alias_width(n)))


def alias_table(n, bytes thresholds, bytes others):
    """The AliasTable from its pickled state."""
    cdef AliasTable out = AliasTable.__new__(AliasTable)
    cdef rs_error err
    check(rs_alias_of_bytes(&out.core, n, PyBytes_AS_STRING(thresholds), len(thresholds), PyBytes_AS_STRING(others),
                            len(others), &err), &err)
    return out


def draw_below(bounds, key, first, step, period):
    """Replaces each bound by a uniform random number below it, and a bound of 0 by 0. Item k uses draw
    (first + step * k) % period of `key`."""
    cdef uint64_t draw_key = key, start = first, stride = step, modulus = period
    cdef Span items = Span.of(bounds, 8, True)
    cdef int64_t *data = items.ints
    require_run(first, step, items.n)
    if modulus == 0:
        raise ValueError("the period is 0")
    with nogil:
        rs_alias_below(draw_key, start, stride, modulus, items.n, data, data)


def draw_keys(weights, key):
    """Replaces each weight in a buffer of doubles by a sort key. Records in the order of their sort keys are the draws
    of `key` without replacement."""
    cdef Span items = Span.of(weights, sizeof(double), True)
    cdef uint64_t draw_key = key
    with nogil:
        rs_alias_keys(<const double *>items.view.buf, items.n, draw_key, <double *>items.view.buf)


# ---- Packing ----

def pack_best_fit(counts, length, rows, documents, starts, part_counts, ends):
    """Packs documents of `counts` tokens into `rows` rows of `length` tokens (rs_best_fit_pack).

    Writes the document, first token and number of tokens of each part, by row, and the end of each row's parts. The
    first three buffers have room for a part of each document and one more for each row. Raises ValueError for negative
    counts, for numbers out of range, and for more tokens than the rows hold."""
    cdef Span sizes = Span.of(counts, 8), part
    cdef rs_best_fit_parts out
    cdef rs_error err
    cdef rs_status status
    cdef uint64_t row_length = length, n_rows = rows
    outputs = [Span.of(buffer, 8, True) for buffer in (documents, starts, part_counts, ends)]
    if <uint64_t>min([part.n for part in outputs[:3]]) < sizes.n + n_rows or <uint64_t>(<Span>outputs[3]).n < n_rows:
        raise ValueError("the buffers for the parts are too small")
    out.documents, out.starts = (<Span>outputs[0]).ints, (<Span>outputs[1]).ints
    out.counts, out.ends = (<Span>outputs[2]).ints, (<Span>outputs[3]).ints
    with nogil:
        status = rs_best_fit_pack(sizes.ints, sizes.n, row_length, n_rows, &out, &err)
    check(status, &err)


# ---- Draws from several sources ----

MIXING_WHOLE, MIXING_MAX_LENGTH = RS_MIXING_WHOLE, RS_MIXING_MAX_LENGTH


cdef class Mixing:
    """Draws items of several sources in proportion to their weights (csrc/base/rs_mixing.h). `keys` has a 64-bit int
    for each source. Not thread-safe."""

    cdef rs_mixing_source *sources
    cdef Py_ssize_t n
    cdef list lengths  # the Span of each source's lengths, or None

    def __cinit__(self, keys):
        self.n = len(keys)
        self.lengths = [None] * self.n
        self.sources = <rs_mixing_source *>PyMem_Calloc(max(self.n, 1), sizeof(rs_mixing_source))
        if self.sources is NULL:
            raise MemoryError
        for i, key in enumerate(keys):
            self.sources[i].key = key

    def __dealloc__(self):
        PyMem_Free(self.sources)

    def at(self, int source):
        """`(drawn, behind, end)` of a source."""
        return self.sources[source].drawn, self.sources[source].behind, self.sources[source].end

    def restore(self, int source, int64_t drawn, int64_t behind, int64_t weight):
        """Sets where a source stands, and its weight."""
        self.sources[source].drawn, self.sources[source].behind = drawn, behind
        self.sources[source].weight = weight

    def limit(self, int source, int64_t end, length):
        """Sets the number of the item that draws stop at, and the length of each item before it: an int, or a buffer
        with the length of each item from the next one on. The caller has checked that lengths are from 0 to
        MIXING_MAX_LENGTH. Raises ValueError for too few lengths."""
        cdef rs_mixing_source *own = &self.sources[source]
        cdef Span span = None
        if isinstance(length, int):
            own.lengths, own.length = NULL, length
        else:
            span = Span.of(length, 8)
            if <int64_t>span.n < end - own.drawn:
                raise ValueError(f"{end - own.drawn} items have {span.n} lengths")
            own.lengths, own.first = span.ints, own.drawn
        self.lengths[source] = span
        own.end = end

    def run(self, draws, skip, step, sources, numbers):
        """Draws up to `draws` items. Returns how many it drew, and the source that reached its end with the last draw,
        or -1. Writes the source, and the number of the item in its source, of draws skip, skip + step, ... to two
        buffers."""
        cdef Span from_source = Span.of(sources, 8, True), number = Span.of(numbers, 8, True)
        cdef uint64_t most = draws, first = skip, stride = step
        cdef Py_ssize_t i
        if stride == 0 or (most > first and (most - first - 1) // stride >= <uint64_t>min(from_source.n, number.n)):
            raise ValueError(f"{number.n} places are too few for every {stride}th of {most} draws from {first} on")
        for i in range(self.n):
            if self.sources[i].weight and self.sources[i].drawn >= self.sources[i].end:
                raise ValueError(f"source {i} is at its end, {self.sources[i].end}")
        with nogil:
            most = rs_mixing_run(self.sources, self.n, most, first, stride, from_source.ints, number.ints)
        for i in range(self.n):
            if self.sources[i].weight and self.sources[i].drawn >= self.sources[i].end:
                return most, i
        return most, -1


# ---- Groups of records ----

def read_entries(Blob blob not None, unsigned width, out):
    """Replaces each number k in `out` by entry k of `blob`. An entry is a record number of a store, in
    `width` bytes, 4 or 8. Raises IndexError for a number without an entry, CorruptError for an entry that is not a
    record of the store, ClosedError for a closed blob."""
    cdef Py_ssize_t i
    cdef const uint8_t *entries
    if width not in (4, 8):
        raise ValueError(f"an entry has 4 or 8 bytes, not {width}")
    cdef Span items = Span.of(out, 8, True)
    cdef int64_t *data = items.ints
    entries = blob.data  # with the interpreter lock: another thread may close the blob
    if blob.is_closed():
        raise errors.ClosedError("the store is closed")
    for i in range(items.n):
        if not 0 <= data[i] < blob.size // width:
            raise IndexError(f"entry {data[i]} of {blob.size // width}")
        if width == 4:
            data[i] = rs_load_u32(entries + data[i] * 4)
        else:
            data[i] = <int64_t>rs_load_u64(entries + data[i] * 8)
        if not 0 <= data[i] < blob.size // width:
            raise errors.CorruptError(f"a saved index names record {data[i]} of {blob.size // width}")
