"""Reading under RECSTORE_STRICT=1: which stores are read strictly, and an estimate of how many records of a large store
are alive as objects. recstore.values.strict_containers makes the containers that warn.
"""

cdef enum:
    SAMPLE = 2048           # approximate number of records in a sample
    LARGE_RECORDS = 100_000
    LARGE_BYTES = 64 << 20
    MAX_PARTS = 32          # of one record
    MAX_HELD = 16 << 20     # approximate maximum of bytes of text and tuples in a sample

# Whether strict_is_on has returned True in this process.
cdef bint any_strict = False
# The types of recstore.values.strict_containers, once it is loaded: {id of the type: builtin type that its values are
# stored as}. By id, because they equal the builtin types.
strict_types = {}
cdef bint any_strict_types = False


def add_strict_type(kind, builtin):
    """Makes values of the type `kind` be stored as values of the type `builtin`."""
    global any_strict_types
    any_strict_types = True
    strict_types[id(kind)] = builtin


cdef bint strict_is_on() except -1:
    """Whether RECSTORE_STRICT is 1. Raises ValueError for a value other than 0 and 1."""
    global any_strict
    value = os.environ.get("RECSTORE_STRICT", "0")
    if value not in ("0", "1"):
        raise ValueError(f"RECSTORE_STRICT is 0 or 1, not {value!r:.80}")
    if value == "1":
        any_strict = True
    return value == "1"


cdef class LiveSample:
    """A sample of the records of one store, to estimate how many are alive. `records` has the parts of one record in
    `one_of`. A record is alive while one of its parts is.

    A part is a weak reference if its type supports them. The sample holds text and tuples themselves; their reference
    count shows whether anything else holds them. Numbers, and values that many records share, such as the entries of a
    dictionary table, are left out. Without the GIL the estimate may be worse.
    """

    @staticmethod
    cdef LiveSample of(uint64_t n_records, uint64_t size_bytes):
        """The sample of a store; None for a store that is not large."""
        if n_records < 2 or n_records < LARGE_RECORDS and size_bytes < LARGE_BYTES:
            return None
        cdef LiveSample self = LiveSample.__new__(LiveSample)
        self.records = {}
        self.n_records = n_records
        self.one_of = max(1, n_records // SAMPLE)
        return self

    cdef bint note(self, uint64_t index, object value) except -1:
        """Adds a record that was read. Returns True once, when more than half of the sample is alive. The caller
        must have the only reference to a new `value`."""
        with cython.critical_section(self):
            # Multiplicative hashing, so that reading every second record does not read the whole sample, or nothing
            # of it.
            if self.warned or ((index + 1) * <uint64_t>0x9E3779B97F4A7C15 >> 32) % self.one_of != 0:
                return False
            if index not in self.records or not is_alive(self.records[index]):
                self.drop(index)
                self.records[index] = self.parts(value)
            if <uint64_t>len(self.records) * self.one_of * 2 <= self.n_records:
                return False
            self.warned = <uint64_t>self.drop_dead() * self.one_of * 2 > self.n_records
            if self.warned:
                self.records.clear()
            return self.warned

    cdef list parts(self, object value):
        cdef list out = []
        if isinstance(value, (dict, list, tuple)):
            for part in value.values() if isinstance(value, dict) else value:
                if len(out) == MAX_PARTS:
                    break
                self.hold(part, 2, out)
        if type(value) is not tuple or not out:
            self.hold(value, 1, out)
        return out

    cdef bint hold(self, object value, Py_ssize_t references, list out) except -1:
        """Appends a value or a weak reference to it, unless it is None, a number or shared, or the sample cannot hold
        it. Text, bytes or a tuple is shared if it has more than `references` references."""
        cdef PyTypeObject *t = Py_TYPE(value)
        if value is None or t == &PyLong_Type or t == &PyFloat_Type or type(value) is bool:
            return False
        if t == &PyUnicode_Type or t == &PyBytes_Type or t == &PyTuple_Type:
            if Py_REFCNT(<PyObject *>value) > references or self.held_bytes > MAX_HELD:
                return False
            self.held_bytes += 64 + len(value)
            out.append(value)
            return True
        try:
            out.append(ref(value))
        except TypeError:
            return False
        return True

    cdef bint drop(self, index) except -1:
        """Removes a record, if it is there."""
        cdef list parts = self.records.pop(index, None)
        if parts is not None:
            self.held_bytes -= sum([64 + len(part) for part in parts if type(part) is not ref])
        return False

    cdef Py_ssize_t drop_dead(self) except -1:
        """Removes the records that are not alive. Returns the number of records left."""
        cdef list parts
        for index, parts in list(self.records.items()):
            if not is_alive(parts):
                self.drop(index)
        return len(self.records)


cdef bint is_alive(list parts) except -1:
    cdef Py_ssize_t i, references
    cdef PyObject *part
    for i in range(len(parts)):
        part = PyList_GET_ITEM(parts, i)
        references = Py_REFCNT(part)
        if type(<object>part) is not ref:
            if references > 1:
                return True
        elif (<object>part)() is not None:
            return True
    return False
