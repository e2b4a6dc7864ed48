"""Distinct memory: the size of objects and everything reachable from them. Each object and each byte counts once.

Identifies objects by id, and the memory of arrays by address. The walk reaches an object with a single reference once,
so it remembers only objects with more references. It needs little memory, and about 30 ns per object.
"""

cdef extern from *:
    """
    typedef struct {
        PyObject **items;
        size_t n, capacity;
    } rs_waiting;

    static int rs_wait(rs_waiting *self, PyObject *value) {
        if (self->n == self->capacity) {
            size_t capacity = self->capacity ? 2 * self->capacity : 1024;
            PyObject **items = (PyObject **)realloc(self->items, capacity * sizeof *items);
            if (items == NULL) return -1;
            self->items = items;
            self->capacity = capacity;
        }
        self->items[self->n++] = value;
        return 0;
    }

    static int rs_visit(PyObject *value, void *waiting) { return rs_wait((rs_waiting *)waiting, value); }

    /* The objects that an object refers to, as the garbage collector finds them: no Python code runs. */
    static int rs_referents(PyObject *value, rs_waiting *out) {
        traverseproc traverse = Py_TYPE(value)->tp_traverse;
        return traverse == NULL ? 0 : traverse(value, rs_visit, out);
    }

    static Py_ssize_t rs_basic_size(PyObject *value) {
        PyTypeObject *type = Py_TYPE(value);
        Py_ssize_t n = type->tp_itemsize ? Py_SIZE(value) * type->tp_itemsize : 0;
        return type->tp_basicsize + n + (PyType_IS_GC(type) ? 2 * (Py_ssize_t)sizeof(void *) : 0);
    }

    /* The bytes of an object's inline attributes: two words before the object and, while it has no instance dictionary,
       a block with one spare entry. The object has `n` referents, its class the last. */
    static Py_ssize_t rs_attributes_size(PyObject *value, PyObject **referents, size_t n) {
    #ifdef Py_TPFLAGS_MANAGED_DICT
        if (Py_TYPE(value)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
            Py_ssize_t words = 2;
            if (n > 1 && !(n == 2 && PyDict_CheckExact(referents[0]))) words += (Py_ssize_t)(n + (n + 9) / 8);
            return words * (Py_ssize_t)sizeof(void *);
        }
    #endif
        return 0;
    }

    static Py_ssize_t rs_text_size(PyObject *text) {
        Py_ssize_t n = PyUnicode_GET_LENGTH(text) + 1;
        if (PyUnicode_IS_COMPACT_ASCII(text)) return (Py_ssize_t)sizeof(PyASCIIObject) + n;
        return (Py_ssize_t)sizeof(PyCompactUnicodeObject) + n * (Py_ssize_t)PyUnicode_KIND(text);
    }

    static Py_ssize_t rs_list_size(PyObject *list) {
        return rs_basic_size(list) + ((PyListObject *)list)->allocated * (Py_ssize_t)sizeof(PyObject *);
    }

    static int rs_compare_spans(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
        return (x > y) - (x < y);
    }
    """
    ctypedef struct rs_waiting:
        PyObject **items
        size_t n, capacity
    int rs_wait(rs_waiting *, PyObject *)
    int rs_referents(PyObject *, rs_waiting *)
    Py_ssize_t rs_basic_size(PyObject *)
    Py_ssize_t rs_attributes_size(PyObject *, PyObject **, size_t)
    Py_ssize_t rs_text_size(PyObject *)
    Py_ssize_t rs_list_size(PyObject *)
    int rs_compare_spans(const void *, const void *)
    PyTypeObject *type_of "Py_TYPE"(PyObject *)
    Py_ssize_t references_of "Py_REFCNT"(PyObject *)
    int dict_next "PyDict_Next"(PyObject *, Py_ssize_t *, PyObject **, PyObject **)
    long long long_value "PyLong_AsLongLongAndOverflow"(PyObject *, int *)
    Py_ssize_t bytes_size "PyBytes_GET_SIZE"(PyObject *)
    char *bytes_at "PyBytes_AS_STRING"(PyObject *)
    PyTypeObject PySet_Type, PyType_Type, PyBool_Type, PyModule_Type
    void qsort(void *, size_t, size_t, int (*)(const void *, const void *))

cdef enum:
    ADDRESSED_FROM = 1024  # bytes objects of at least this size count by address, because arrays may view them


@cython.final
cdef class DistinctMemory:
    """Counts the memory of the values that are added, one after another.

    `kind_of(class)` returns how to count objects of a class that `count` does not know: the size of an object without
    referents, -1 to call `opened`, or -2 to use the garbage collector's referents. `opened(object)` returns the size
    of an object, its spans of memory as `(first address, past the last)`, and its referents.
    """

    cdef object kind_of, opened
    cdef dict kinds
    cdef dict skipped  # address -> the number of references still to skip
    cdef list to_open, kept  # objects for `opened`, and lists whose entries are in `waiting`
    cdef rs_waiting waiting
    cdef PyObject **seen
    cdef size_t n_seen, room
    cdef uint64_t *spans  # pairs: first address, past the last
    cdef size_t n_spans, spans_capacity
    cdef uint64_t upper_bound  # bytes of objects and of all spans; overlaps may count twice
    cdef uint64_t plain  # bytes of objects

    def __cinit__(self, kind_of, opened):
        self.kind_of, self.opened = kind_of, opened
        self.kinds, self.skipped, self.to_open, self.kept = {}, {}, [], []

    def __dealloc__(self):
        free(self.waiting.items)
        free(self.seen)
        free(self.spans)

    def skip(self, value, times):
        """Skips the first `times` references to `value` in values that are added later. The next reference, or
        adding the value itself, counts it."""
        self.remember(<PyObject *>value)
        self.skipped[<size_t><PyObject *>value] = times

    def add(self, value, uint64_t limit=0):
        """Adds a value, unless it was counted before, and returns `total`. With `limit` it may stop once `total` is
        at least `limit`."""
        cdef uint64_t total = 0
        if not self.remember(<PyObject *>value) and self.skipped.pop(<size_t><PyObject *>value, None) is None:
            return self.total
        try:
            self.count(<PyObject *>value)
            while True:
                if limit and self.upper_bound >= limit:
                    total = self.total
                    if total >= limit:
                        return total
                if self.waiting.n:
                    self.waiting.n -= 1
                    self.visit(self.waiting.items[self.waiting.n])
                elif self.to_open:
                    self.open_objects()
                else:
                    break
        finally:
            self.waiting.n = 0
            self.to_open, self.kept = [], []
        return self.total

    @property
    def total(self):
        """The bytes of all values that were added."""
        cdef size_t i, n = 0
        cdef uint64_t bytes_ = 0
        if self.n_spans:
            qsort(self.spans, self.n_spans, 16, rs_compare_spans)
            for i in range(1, self.n_spans):
                if self.spans[2 * i] <= self.spans[2 * n + 1]:
                    self.spans[2 * n + 1] = max(self.spans[2 * n + 1], self.spans[2 * i + 1])
                else:
                    n += 1
                    self.spans[2 * n] = self.spans[2 * i]
                    self.spans[2 * n + 1] = self.spans[2 * i + 1]
            self.n_spans = n + 1
            for i in range(self.n_spans):
                bytes_ += self.spans[2 * i + 1] - self.spans[2 * i]
        self.upper_bound = self.plain + bytes_
        return self.upper_bound

    @property
    def objects(self):
        """The bytes of the objects in `total`, without the memory of arrays and of long bytes objects."""
        return self.plain

    cdef int visit(self, PyObject *value) except -1:
        """Counts a referent of a counted object, unless it was counted before."""
        if value == NULL or value == <PyObject *>None:
            return 0
        if references_of(value) > 1 and not self.remember(value) and not self.is_held_elsewhere(value):
            return 0
        return self.count(value)

    cdef bint is_held_elsewhere(self, PyObject *value) except -1:
        """Whether this reference is one more than `skip` allows for; if not, it is counted as skipped."""
        cdef PyTypeObject *t = type_of(value)
        if not self.skipped or t == &PyUnicode_Type or t == &PyLong_Type or t == &PyFloat_Type:
            return False
        left = self.skipped.get(<size_t>value)
        if left is None:
            return False
        if left:
            self.skipped[<size_t>value] = left - 1
            return False
        del self.skipped[<size_t>value]
        return True

    cdef int count(self, PyObject *value) except -1:
        cdef PyTypeObject *t = type_of(value)
        cdef int overflow = 0
        cdef long long number
        cdef uint64_t magnitude
        if t == &PyUnicode_Type:
            return self.put(rs_text_size(value))
        if t == &PyFloat_Type or t == &PyComplex_Type:
            return self.put(rs_basic_size(value))
        if t == &PyLong_Type:
            number = long_value(value, &overflow)
            if overflow:
                return self.put(sys.getsizeof(<object>value))
            if -6 < number < 257:
                return 0  # the interpreter has one of each
            magnitude = <uint64_t>number if number >= 0 else 0 - <uint64_t>number
            return self.put(28 + 4 * (magnitude >> 30 != 0) + 4 * (magnitude >> 60 != 0))
        if t == &PyBytes_Type:
            self.put(33)
            if bytes_size(value) < ADDRESSED_FROM:
                return self.put(bytes_size(value))
            return self.span(<size_t>bytes_at(value), <size_t>bytes_at(value) + bytes_size(value))
        if t == &PyList_Type:
            self.put(rs_list_size(value))
            return self.refer(value)
        if t == &PyTuple_Type:
            self.put(rs_basic_size(value))
            return self.refer(value)
        if t == &PyDict_Type:
            self.put(dict.__sizeof__(<object>value) + 16)
            return self.enter(value)
        if t == &PySet_Type or t == &PyFrozenSet_Type:
            self.put((<object>value).__sizeof__() + 16)
            return self.refer(value)
        if t == &PyBool_Type or t == &PyType_Type or t == &PyModule_Type:
            return 0
        return self.count_other(value)

    cdef int count_other(self, PyObject *value) except -1:
        cdef size_t before
        kind = self.kinds.get(type(<object>value))
        if kind is None:
            kind = self.kinds[type(<object>value)] = self.kind_of(type(<object>value))
        if kind == -1:
            self.to_open.append(<object>value)
            return 0
        if kind == -2:
            before = self.waiting.n
            self.put(rs_basic_size(value))
            self.refer(value)
            return self.put(rs_attributes_size(value, &self.waiting.items[before], self.waiting.n - before))
        return self.put(kind)

    cdef int refer(self, PyObject *value) except -1:
        if rs_referents(value, &self.waiting) != 0:
            raise MemoryError
        return 0

    cdef int enter(self, PyObject *mapping) except -1:
        cdef Py_ssize_t at = 0
        cdef PyObject *key
        cdef PyObject *value
        while dict_next(mapping, &at, &key, &value):
            if rs_wait(&self.waiting, key) != 0 or rs_wait(&self.waiting, value) != 0:
                raise MemoryError
        return 0

    cdef int open_objects(self) except -1:
        """Counts the objects that only Python code can read. `waiting` must be empty, because that code may free
        objects."""
        values, self.to_open, self.kept = self.to_open, [], []
        for value in values:
            size, spans, referents = self.opened(value)
            self.put(size)
            for low, high in spans:
                self.span(low, high)
            if referents:
                self.kept.append(referents)
        for referents in self.kept:
            for value in referents:
                if rs_wait(&self.waiting, <PyObject *>value) != 0:
                    raise MemoryError
        return 0

    cdef int put(self, Py_ssize_t bytes_) except -1:
        self.plain += <uint64_t>bytes_
        self.upper_bound += <uint64_t>bytes_
        return 0

    cdef int span(self, uint64_t low, uint64_t high) except -1:
        cdef uint64_t *spans
        if high <= low:
            return 0
        if self.n_spans == self.spans_capacity:
            capacity = max(64, 2 * self.spans_capacity)
            spans = <uint64_t *>realloc(self.spans, <size_t>capacity * 16)
            if spans == NULL:
                raise MemoryError
            self.spans, self.spans_capacity = spans, capacity
        self.spans[2 * self.n_spans] = low
        self.spans[2 * self.n_spans + 1] = high
        self.n_spans += 1
        self.upper_bound += high - low
        return 0

    cdef bint remember(self, PyObject *value) except -1:
        """Remembers an object. Returns whether it is new."""
        if 2 * self.n_seen >= self.room:
            self.make_room()
        cdef size_t at = self.slot_of(value)
        if self.seen[at] != NULL:
            return False
        self.seen[at] = value
        self.n_seen += 1
        return True

    cdef inline size_t slot_of(self, PyObject *value):
        cdef size_t at = <size_t>((<uint64_t><size_t>value >> 4) * <uint64_t>0x9E3779B97F4A7C15 >> 20) & (self.room - 1)
        while self.seen[at] != NULL and self.seen[at] != value:
            at = (at + 1) & (self.room - 1)
        return at

    cdef int make_room(self) except -1:
        cdef PyObject **before = self.seen
        cdef size_t room = self.room, i
        cdef PyObject **seen = <PyObject **>calloc(max(room * 2, 1024), sizeof(PyObject *))
        if seen == NULL:
            raise MemoryError
        self.seen, self.room = seen, max(room * 2, 1024)
        for i in range(room):
            if before[i] != NULL:
                self.seen[self.slot_of(before[i])] = before[i]
        free(before)
        return 0


def span_of(value):
    """The addresses `(first, past the last)` of the buffer of an object."""
    cdef Py_buffer view
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    try:
        return <size_t>view.buf, <size_t>view.buf + view.len
    finally:
        PyBuffer_Release(&view)
