"""Hashes of dict keys, key indexes, and the lookups of RecordDict.

A key form is the canonical form of a key. Keys that are equal in Python have the same key form and hash, whatever their
types (csrc/FORMAT.md, "Keys"). The hash finds candidates; a comparison by Python's rules decides.

An opaque key has no key form, because recstore does not know the equality of its class (a NaN, an object with its own
`__eq__`). Lookups find opaque keys by comparison alone.
"""


cdef extern from "math.h" nogil:
    bint isnan(double)
    bint isinf(double)
    double floor(double)


# For values/key_forms.py, and info.py and node_sizes.py of containers/.
TAG_EXT, TAG_STR1, TAG_TUPLE = RS_FMT_TAG_EXT, RS_FMT_TAG_STR1, RS_FMT_TAG_TUPLE
_COMPLEX_HEAD = bytes([RS_FMT_TAG_EXT, RS_FMT_EXT_COMPLEX, RS_FMT_TAG_NONE])
_FROZENSET_HEAD = bytes([RS_FMT_TAG_EXT, RS_FMT_EXT_FROZENSET, RS_FMT_TAG_NONE])
# No float equals an int this large. A Decimal may, but can have too many digits to compute, so the form of such an int
# is a hash (key_forms.py).
WIDE = 1 << 1024


cdef inline bint is_wide(object key) except -1:
    cdef int overflow
    PyLong_AsLongLongAndOverflow(key, &overflow)
    return overflow != 0 and not -WIDE < key < WIDE


cdef enum:
    AHEAD = 32  # keys whose memory get_many prefetches together


# ---- Key forms ----

cdef int put_form(rs_buffer *out, object key, bint strict, int depth=0) except -1:
    """Appends the key form and returns 1. Returns 0 for an opaque key, perhaps after appending a part of a form.

    With `strict`, only keys that are stored with their own type have a form. Without `strict`, a key that equals such a
    key has its form too, for example an instance of a plain subclass of str."""
    cdef PyTypeObject *t = Py_TYPE(key)
    cdef double d
    cdef rs_error err
    cdef uint8_t head[11]
    if t == &PyUnicode_Type or t == &PyBytes_Type or key is None or (t == &PyLong_Type and not is_wide(key)):
        encode_value(out, NULL, key)
        return 1
    if depth > RS_FMT_DEPTH:
        return 0  # stored keys are never this deep
    if key is True or key is False:
        encode_value(out, NULL, int(key))
        return 1
    if t == &PyFloat_Type:
        d = PyFloat_AS_DOUBLE(key)
        if isnan(d):
            return 0
        encode_value(out, NULL, key if isinf(d) or d != floor(d) else int(key))
        return 1
    if t == &PyComplex_Type:
        return put_complex(out, key, strict)
    if t == &PyTuple_Type:
        head[0] = RS_FMT_TAG_TUPLE
        check(rs_buffer_append(out, head, 1 + rs_put_varint(head + 1, <uint64_t>len(key)), &err), &err)
        for item in <tuple>key:
            if not put_form(out, item, strict, depth + 1):
                return 0
        return 1
    if t == &PyFrozenSet_Type:
        forms = [key_form(item, strict, depth + 1) for item in key]
        if None in forms:
            return 0
        forms.sort()
        head[0] = RS_FMT_TAG_TUPLE
        count = (<const char *>head)[:1 + rs_put_varint(head + 1, <uint64_t>len(forms))]
        body = _FROZENSET_HEAD + count + b"".join(forms)
    else:
        others = hooks.module("key_forms")
        body = others.form(key, strict, depth)
        if body is None:
            return 0
    check(rs_buffer_append(out, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), &err), &err)
    return 1


cdef int put_complex(rs_buffer *out, object key, bint strict) except -1:
    cdef rs_error err
    real, imag = key.real, key.imag
    if isnan(real) or isnan(imag):
        return 0
    if imag == 0:
        return put_form(out, real, strict)
    check(rs_buffer_append(out, PyBytes_AS_STRING(_COMPLEX_HEAD), PyBytes_GET_SIZE(_COMPLEX_HEAD), &err), &err)
    encode_value(out, NULL, (real + 0.0, imag + 0.0))  # adding turns -0.0 into 0.0
    return 1


def key_form(key, bint strict=False, int depth=0):
    """The key form of a dict key as bytes; None for an opaque key, and for most values that cannot be hashed.

    >>> key_form(1) == key_form(1.0) == key_form(True)
    True
    """
    cdef rs_buffer out
    memset(&out, 0, sizeof(rs_buffer))
    try:
        if not put_form(&out, key, strict, depth):
            return None
        return (<const char *>out.data)[:out.size_bytes]
    finally:
        rs_buffer_clear(&out)


cdef bint key_hash(object key, uint64_t seed, bint strict, uint64_t *out) except -1:
    """Computes the hash of a key's form. Returns False for an opaque key. Raises the error of hash(key)."""
    cdef PyTypeObject *t = Py_TYPE(key)
    cdef int overflow = 0
    cdef long long number
    cdef rs_buffer form
    if t == &PyUnicode_Type:
        PyUnicode_READY(key)
        out[0] = rs_keys_hash_str(seed, <unsigned>PyUnicode_KIND(key), PyUnicode_DATA(key),
                                  <uint64_t>PyUnicode_GET_LENGTH(key))
        return True
    if t == &PyLong_Type:
        number = PyLong_AsLongLongAndOverflow(key, &overflow)
        if not overflow:
            out[0] = rs_keys_hash_int(seed, number)
            return True
    hash(key)
    memset(&form, 0, sizeof(rs_buffer))
    try:
        if not put_form(&form, key, strict):
            return False
        out[0] = rs_hash64(form.data, form.size_bytes, seed)
        return True
    finally:
        rs_buffer_clear(&form)


cdef bint is_plain_key(object key, int depth):
    """Whether a key is a str, int, float or bytes, or has these within at most 8 levels of tuples, so that hashing it
    runs no code of the program."""
    cdef PyTypeObject *t = Py_TYPE(key)
    if t == &PyUnicode_Type or t == &PyLong_Type or t == &PyBytes_Type or t == &PyFloat_Type:
        return True
    if t != &PyTuple_Type or depth == 8:
        return False
    for item in <tuple>key:
        if not is_plain_key(item, depth + 1):
            return False
    return True


# ---- Key indexes ----

cdef class KeyIndex:
    """A key index: the KEY_INDEX section of a mapping's segment, a part of a saved index, or a Blob for the keys of
    any other records.

    Attributes: ``segment`` (of a section or saved index, else None), ``saved`` (the SavedIndex, else None), ``blob``
    (else None), ``nbytes``, ``entries`` (their number), ``factory`` (a code of csrc/FORMAT.md).
    """

    @staticmethod
    def of_segment(Segment segment):
        cdef KeyIndex self = KeyIndex.__new__(KeyIndex)
        cdef rs_error err
        segment.require_open()
        self.segment = segment
        self.open(segment.key_index(), &err)
        return self

    @staticmethod
    cdef KeyIndex of_saved(SavedIndex saved):
        cdef KeyIndex self = KeyIndex.__new__(KeyIndex)
        cdef rs_error err
        self.segment = saved.segment
        self.saved = saved
        self.open(saved.core.keys, &err)
        return self

    @staticmethod
    def of_blob(Blob blob):
        cdef KeyIndex self = KeyIndex.__new__(KeyIndex)
        cdef rs_error err
        if blob.is_closed():
            raise errors.ClosedError("the store is closed")
        self.blob = blob
        self.open(rs_slice_of(blob.data, blob.size), &err)
        return self

    cdef int open(self, rs_slice bytes_, rs_error *err) except -1:
        self.nbytes = rs_slice_left(&bytes_)
        self.at = bytes_.ptr
        return check(rs_keys_open(bytes_, 0, &self.keys, err), err)

    @property
    def entries(self):
        return self.keys.n_entries

    @property
    def factory(self):
        return self.keys.factory

    def opaque(self):
        """The numbers of the entries with opaque keys."""
        cdef uint64_t i, entry
        cdef rs_error err
        self.require()
        out = []
        for i in range(self.keys.n_opaque):
            check(rs_keys_opaque_entry(&self.keys, i, &entry, &err), &err)
            out.append(entry)
        return out

    cdef int require(self) except -1:
        if self.segment is not None:
            return self.segment.require_open()
        if self.blob.is_closed():
            raise errors.ClosedError("the store is closed")
        if self.blob.data != self.at:
            # `Blob.publish` has moved the bytes.
            return self.reopen()
        return 0

    cdef int reopen(self) except -1:
        cdef rs_error err
        return self.open(rs_slice_of(self.blob.data, self.blob.size), &err)


@cython.final
cdef class KeyHashes:
    """Collects the hashes of keys and makes their key index. Not thread-safe."""

    def __cinit__(self, seed=None):
        self.opaque_flags = bytearray()
        self.opaque = {}
        self.seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed

    def __dealloc__(self):
        rs_buffer_clear(&self.hashes)

    cdef int mark_opaque(self, uint64_t number) except -1:
        self.opaque_flags.extend(bytes(number - len(self.opaque_flags)))
        self.opaque_flags.append(1)
        return 0

    cpdef append(self, key):
        """Adds a key. If hash(key) raises, adds nothing."""
        cdef uint64_t h = 0
        cdef rs_error err
        cdef bint hashed = key_hash(key, self.seed, True, &h)
        if not hashed:
            # A dict compares identity first: the same NaN object is the same key, another NaN object is another key.
            self.opaque.setdefault(key, []).append(self.n)
            self.mark_opaque(self.n)
        check(rs_buffer_append(&self.hashes, &h, 8, &err), &err)
        self.n += 1

    def extend(self, bytes hashes, opaque):
        """Adds keys that another KeyHashes with the same seed has hashed. `opaque` lists `(number, key)` of the opaque
        keys in their order; number 0 is the first key that is added."""
        cdef rs_error err
        for number, key in opaque:
            number += self.n
            self.opaque.setdefault(key, []).append(number)
            self.mark_opaque(number)
        check(rs_buffer_append(&self.hashes, PyBytes_AS_STRING(hashes), len(hashes), &err), &err)
        self.n += len(hashes) // 8

    def first_opaque(self, key, uint64_t number):
        """The first record with `key`, which must be the last key added and have this number; None for a key with a
        form."""
        if len(self.opaque_flags) <= number:
            return None
        return self.opaque[key][0]

    def since(self, uint64_t first):
        """The bytes of the hashes from key number `first` on."""
        return PyBytes_FromStringAndSize(<const char *>self.hashes.data + 8 * first, 8 * (self.n - first))

    def drop_last(self):
        """Removes the last key, because its value could not be stored."""
        self.n -= 1
        self.hashes.size_bytes -= 8
        if len(self.opaque_flags) > self.n:
            del self.opaque_flags[self.n:]
            for key, records in list(self.opaque.items()):
                if records[-1] == self.n:
                    records.pop()
                    if not records:
                        del self.opaque[key]

    cdef const uint8_t *flags(self):
        if not self.opaque:
            return NULL
        self.opaque_flags.extend(bytes(self.n - len(self.opaque_flags)))
        return <const uint8_t *><char *>self.opaque_flags

    def suspects(self):
        """`{first record: [later records]}` of records whose keys have the same hash, so that they are probably equal.
        Leaves out opaque keys."""
        cdef rs_buffer pairs
        cdef rs_error err
        cdef rs_status status
        cdef size_t i
        cdef const uint8_t *flags = self.flags()
        memset(&pairs, 0, sizeof(rs_buffer))
        out = {}
        try:
            with nogil:
                status = rs_keys_find_twins(<const uint64_t *>self.hashes.data, flags, self.n, &pairs, &err)
            check(status, &err)
            for i in range(0, pairs.size_bytes, 16):
                out.setdefault(rs_load_u64(pairs.data + i), []).append(rs_load_u64(pairs.data + i + 8))
        finally:
            rs_buffer_clear(&pairs)
        return out

    def twins(self, suspects, read):
        """`{first record: [later records]}` of the records whose keys a dict treats as the same key. `suspects` is the
        result of the method `suspects`; `read(record)` returns the key of a record."""
        out = {}
        for first, later in suspects.items():
            # Unequal keys may have the same form, such as Decimals with huge exponents, so a dict decides.
            same = {}
            for record in (first, *later):
                same.setdefault(read(record), []).append(record)
            out.update((records[0], records[1:]) for records in same.values() if len(records) > 1)
        if self.opaque:
            self.join_opaque(out, read)
        return out

    cdef int join_opaque(self, dict out, read) except -1:
        """Adds the repeated opaque keys to `out`. `append` has compared opaque keys only with each other, but a key
        whose class has its own __eq__ may also equal a key with a form."""
        cdef uint64_t i
        cdef const uint8_t *flags = self.flags()
        hashes = {hash(key) for key in self.opaque if type(key) is not float and type(key).__eq__ is not object.__eq__}
        candidates = {}
        for i in range(self.n if hashes else 0):
            if not flags[i] and hash(read(i)) in hashes:
                candidates[i] = None
        same = self.opaque
        if candidates:
            # All keys go into one dict in the order of their records, because such an __eq__ need not be transitive.
            for key, records in self.opaque.items():
                candidates.update(dict.fromkeys(records, key))
            same = {}
            in_order = list(candidates.items())
            in_order.sort()  # by record number; keys are not compared, because the numbers differ
            for record, added_key in in_order:
                key = read(record)
                # Reading makes a new NaN object, so the object that was added decides.
                same.setdefault(added_key if flags[record] and key != added_key else key, []).append(record)
                out.pop(record, None)
        for records in same.values():
            if len(records) > 1:
                out[records[0]] = records[1:]
        return 0

    def without(self, dead):
        """A KeyHashes without the records of the set `dead`: one hash for each entry of the mapping."""
        cdef KeyHashes out = KeyHashes(self.seed)
        cdef uint64_t i
        cdef rs_error err
        cdef const uint8_t *flags = self.flags()
        for i in range(self.n):
            if i in dead:
                continue
            check(rs_buffer_append(&out.hashes, self.hashes.data + 8 * i, 8, &err), &err)
            if flags != NULL and flags[i]:
                out.mark_opaque(out.n)
                out.opaque[i] = [out.n]
            out.n += 1
        return out

    cdef KeyHashes chosen(self, const uint64_t *records, uint64_t n):
        """A KeyHashes of the keys of these records, in this order."""
        cdef KeyHashes out = KeyHashes(self.seed)
        cdef uint64_t i
        cdef rs_error err
        cdef const uint8_t *flags = self.flags()
        for i in range(n):
            check(rs_buffer_append(&out.hashes, self.hashes.data + 8 * records[i], 8, &err), &err)
            if flags != NULL and flags[records[i]]:
                out.mark_opaque(i)
                out.opaque[records[i]] = [i]
        out.n = n
        return out

    def key_index(self, uint32_t factory=0):
        """The bytes of the key index. The keys must be distinct."""
        cdef rs_buffer out
        cdef rs_error err
        cdef rs_status status
        cdef const uint8_t *flags = self.flags()
        cdef uint64_t seed = self.seed
        memset(&out, 0, sizeof(rs_buffer))
        try:
            with nogil:
                status = rs_keys_build(<const uint64_t *>self.hashes.data, flags, self.n, seed, factory, &out, &err)
            check(status, &err)
            return PyBytes_FromStringAndSize(<const char *>out.data, out.size_bytes)
        finally:
            rs_buffer_clear(&out)


def merge_twins(twins, n):
    """The records of the entries of a mapping with repeated keys, from `KeyHashes.twins` over n records.

    As in a dict, a repeated key keeps its first position and takes its last value. Returns `(dead keys, dead values,
    firsts, lasts)`: the records whose key no entry uses, those whose value no entry uses, and for each entry the record
    of its key and of its value."""
    dead_keys = {record for later in twins.values() for record in later}
    dead_values = {record for first, later in twins.items() for record in (first, *later[:-1])}
    firsts, lasts = (memoryview(bytearray(8 * (n - len(dead_keys)))).cast("Q") for _ in range(2))
    for i, record in enumerate(r for r in range(n) if r not in dead_keys):
        firsts[i] = record
        lasts[i] = twins[record][-1] if record in twins else record
    return dead_keys, dead_values, firsts, lasts


def verify_keys(Segment segment):
    """The part of a mapping's deep check that needs Python: each key can be hashed, a lookup finds it, and all keys
    differ. This does not make objects of classes, so it does not run their code."""
    cdef uint64_t i, h = 0
    cdef KeyIndex key_index = KeyIndex.of_segment(segment)
    cdef StoreReader reader = StoreReader.apart(&segment.mapping.keys)
    cdef uint64_t steps = rs_keys_steps(&key_index.keys)
    opaque = set(key_index.opaque())
    opaque_keys, hashes = {}, {}
    segment.enter()
    try:
        for i in range(key_index.keys.n_entries):
            PyErr_CheckSignals()
            key = key_of_entry(segment, reader, i)
            if type(key) is bytes or (type(key) is str and len(key) <= RS_SCALAR_TEXT // 4):
                continue  # rs_verify_segment has checked these, and some longer strs
            try:
                indexed = key_hash(key, key_index.keys.seed, True, &h)
                other = i if indexed else opaque_keys.setdefault(key, i)
            except NO_HASH as e:
                raise errors.CorruptError(f"entry {i}: its key cannot be hashed: {e}") from None
            if other != i:
                raise errors.CorruptError(f"entry {i} has the key of entry {other}")
            if indexed and i not in opaque:
                verify_place(segment, key_index, reader, i, key, h, &steps, hashes)
    finally:
        segment.leave()


cdef object key_of_entry(Segment segment, StoreReader reader, uint64_t entry):
    cdef uint64_t record, value
    cdef rs_error err
    check(rs_mapping_records(&segment.mapping, entry, &record, &value, &err), &err)
    return reader.get(record)


cdef object hash_of(object key, str what, uint64_t number):
    """The hash of a key of an entry or record of a file. Raises CorruptError if the key cannot be hashed."""
    try:
        return hash(key)
    except NO_HASH as e:
        raise errors.CorruptError(f"{what} {number}: its key cannot be hashed: {e}") from None


cdef int verify_place(Segment segment, KeyIndex key_index, StoreReader reader, uint64_t own_entry, key,
                      uint64_t h, uint64_t *steps, dict hashes) except -1:
    """Raises CorruptError unless a lookup of `key`, the key of entry `own_entry`, reaches that entry, and no equal key
    before it. *steps is the number of slots that the check may still visit. `hashes` keeps Python's hash of each key
    that a lookup visits, by entry, because hostile bytes could make many lookups decode one large key."""
    cdef rs_key_probe probe = rs_key_probe_begin(&key_index.keys, h)
    cdef uint64_t entry
    cdef rs_error err
    own_hash = hash_of(key, "entry", own_entry)
    while True:
        check(rs_key_probe_next_counted(&key_index.keys, &probe, &entry, steps, &err), &err)
        if entry == own_entry:
            return 0
        if entry == RS_NOWHERE:
            raise errors.CorruptError(f"key index: entry {own_entry} cannot be found by its key")
        PyErr_CheckSignals()
        if entry not in hashes:
            hashes[entry] = hash_of(key_of_entry(segment, reader, entry), "entry", entry)
        if hashes[entry] == own_hash and key_of_entry(segment, reader, entry) == key:
            raise errors.CorruptError(f"entry {own_entry} has the key of entry {entry}")


# ---- Lookup ----

cdef class Mapping:
    """Base of RecordDict: the keys, the values and the key index, with the compiled lookups."""

    def __cinit__(self, *args, **kwargs):
        self.all_segments = ()

    def _set(self, Records keys not None, Records values not None, KeyIndex key_index, factory=None, detached=None):
        """Makes this the mapping of keys[e] to values[e] for each entry e of `key_index`."""
        if detached is None and not (keys.length == values.length == <Py_ssize_t>key_index.keys.n_entries):
            n = f"{keys.length} keys, {values.length} values and {key_index.entries} entries"
            raise errors.CorruptError(f"a mapping of {n}")
        self._keys = keys
        self._values = values
        self.key_index = key_index
        self.factory = factory
        self.detached = detached
        # Keys without a projection are compared as bytes, without making Python objects.
        self.native = keys.projection is None and detached is None
        if key_index is not None and key_index.saved is not None and detached is None:
            self.proof = key_index.saved.proof()
        records = getattr(values.projection, "records", values)  # the values of group_by are views of these
        self.all_segments = tuple({id(s): s for s in (*keys.segments, *records.segments)}.values())
        return self

    cdef int require(self) except -1:
        """Raises SegmentNotFoundError if the mapping is detached or was never built, ClosedError if it is closed."""
        cdef Segment segment
        if self.detached is not None or self.key_index is None:
            raise errors.SegmentNotFoundError(errno.ENOENT, self.detached or NEVER_BUILT)
        self.key_index.require()
        for segment in self.all_segments:
            segment.require_open()
        return 0

    cdef int compare_natively(self, Py_ssize_t entry, object key) except -2:
        """Compares an entry's key, without decoding it, with a str or int: 1 equal, 0 different, -1 undecided."""
        cdef Records keys = self._keys
        cdef Leaf leaf
        cdef Segment segment
        cdef int overflow = 0
        cdef long long number
        if keys.direct is not None:
            segment = keys.direct
            leaf.store = keys.store
            leaf.index = keys.start + keys.step * entry
        else:
            keys.selection.locate(entry, &leaf)
            segment = <Segment>leaf.segment
        if Py_TYPE(key) == &PyUnicode_Type:
            return segment.key_equals_str(leaf.store, <uint64_t>leaf.index, key)
        number = PyLong_AsLongLongAndOverflow(key, &overflow)
        return -1 if overflow else segment.key_equals_int(leaf.store, <uint64_t>leaf.index, number)

    cdef Py_ssize_t entry_of(self, key) except -2:
        """The number of the entry with this key; -1 if there is none."""
        cdef Py_ssize_t entry = self.find_entry(key)
        if self.proof is not None and entry >= 0:
            self.prove(entry, key)
        return entry

    cdef int prove(self, Py_ssize_t entry, key) except -1:
        """Raises CorruptError unless all records of a saved index's entry have the key. `find_entry` has compared only
        the key of the first record. Checks each entry once."""
        cdef uint64_t begin, end, row
        cdef uint8_t bit = 1 << (entry & 7)
        with cython.critical_section(self):
            if self.proved is None:
                self.proved = bytearray((len(self) >> 3) + 1)
            if self.proved[entry >> 3] & bit:
                return 0
            self.key_index.saved.rows_of(entry, &begin, &end)
            for row in range(begin, end):
                if not row & 255:
                    PyErr_CheckSignals()
                stored_key = self.proof.at(<Py_ssize_t>row)
                if not self.is_key(entry, stored_key, key):
                    what = f"saved index: a record of entry {entry} has another key, {stored_key!r:.80}"
                    raise errors.CorruptError(what, filename=self.path())
            self.require()  # comparing may have run Python code that closed the store
            self.proved[entry >> 3] |= bit
            return 0

    cdef Py_ssize_t find_entry(self, key) except -2:
        """Like entry_of, without `prove`."""
        cdef uint64_t h = 0
        self.require()
        if not key_hash(key, self.key_index.keys.seed, False, &h):
            return self.entry_by_comparing(key)
        return self.find_hashed(key, h)

    cdef Py_ssize_t find_hashed(self, key, uint64_t h) except -2:
        """`find_entry` for a key with this hash."""
        cdef uint64_t entry = 0
        cdef rs_error err
        cdef int equal
        cdef bint simple = Py_TYPE(key) == &PyUnicode_Type or Py_TYPE(key) == &PyLong_Type
        self.require()  # hashing may have run Python code that closed the store
        cdef rs_key_probe probe = rs_key_probe_begin(&self.key_index.keys, h)
        while True:
            if rs_key_probe_next(&self.key_index.keys, &probe, &entry, &err) != RS_OK:
                check_path(err.code, &err, self.path())
            if entry == RS_NOWHERE:
                break
            equal = -1
            if simple and self.native:
                equal = self.compare_natively(<Py_ssize_t>entry, key)
                if self._keys.direct is None:
                    self.require()  # opening a shard lets other threads run, which may close or move the index
            if equal < 0:
                equal = self.compare(<Py_ssize_t>entry, key)
                self.require()  # comparing may have run such code too
            if equal:
                return <Py_ssize_t>entry
        return self.opaque_entry(key) if self.key_index.keys.n_opaque else -1

    cdef bint compare(self, Py_ssize_t entry, object key) except -1:
        """Whether a dict would treat the key of an entry as `key`: the same object, or equal with an equal hash."""
        return self.is_key(entry, self._keys.at(entry), key)

    cdef bint is_key(self, Py_ssize_t entry, object stored_key, object key) except -1:
        return stored_key is key or (PyObject_RichCompareBool(stored_key, key, Py_EQ)
                                     and self.hash_at(entry, stored_key) == hash(key))

    cdef object hash_at(self, Py_ssize_t entry, object key):
        """The hash of an entry's key. Raises CorruptError if it cannot be hashed."""
        try:
            return hash(key)
        except NO_HASH as e:
            error = errors.CorruptError(f"entry {entry}: its key cannot be hashed: {e}", filename=self.path())
            raise error from None

    cdef object path(self):
        """The path of the file that the keys are in; None for memory."""
        paths = [(<Segment>segment).file() for segment in self._keys.segments]
        return paths[0] if paths else None

    cdef Py_ssize_t opaque_entry(self, key) except -2:
        """The entry whose opaque key equals `key`; -1 if there is none. The first call decodes all opaque keys and
        keeps them."""
        with cython.critical_section(self):
            if self.opaque is None:
                entries = {}
                for entry in self.key_index.opaque():
                    PyErr_CheckSignals()
                    stored_key = self._keys.at(entry)
                    self.hash_at(entry, stored_key)
                    entries.setdefault(stored_key, entry)
                self.opaque = entries
            return self.opaque.get(key, -1)

    cdef Py_ssize_t entry_by_comparing(self, key) except -2:
        """The entry whose key equals an opaque `key`; -1 if there is none. The class of `key` may define equality with
        any key, so this compares all keys: first hashes, then ==, as a dict does."""
        cdef Py_ssize_t entry = self.opaque_entry(key), i
        if entry >= 0 or type(key) is float or type(key).__eq__ is object.__eq__:
            return entry
        own_hash = hash(key)
        if self.key_index.keys.n_opaque == self.key_index.keys.n_entries:
            return -1  # opaque_entry has compared all of them
        compared = set(self.opaque.values())
        for i in range(self._keys.length):
            PyErr_CheckSignals()
            if i in compared:
                continue
            other = self._keys.at(i)
            if self.hash_at(i, other) == own_hash and PyObject_RichCompareBool(other, key, Py_EQ):
                return i
        return -1

    def __len__(self):
        return 0 if self._keys is None else self._keys.length

    def __contains__(self, key):
        return self.entry_of(key) >= 0

    def __getitem__(self, key):
        cdef Py_ssize_t entry = self.entry_of(key)
        if entry >= 0:
            if not entry & 255:
                PyErr_CheckSignals()  # dict(self) does not check them
            return self._values.at(entry)
        if self.factory is not None:
            return self.factory()
        raise KeyError(key)

    def get(self, key, default=None, /):
        """The value of `key`, or `default`.

        >>> import recstore
        >>> with recstore.RecordDict({"a": 1}) as d: d.get("a"), d.get("b"), d.get("b", 0)
        (1, None, 0)
        """
        cdef Py_ssize_t entry = self.entry_of(key)
        return self._values.at(entry) if entry >= 0 else default

    def _entry(self, key):
        """The number of the entry with this key; None if there is none."""
        cdef Py_ssize_t entry = self.entry_of(key)
        return None if entry < 0 else entry

    cdef int fetch_ahead(self, list keys, uint64_t *hashes, uint64_t *hashed) except -1:
        """Hashes up to AHEAD keys, and prefetches the memory that their lookups will read. Each step runs for all keys
        before the next step, so that the waits for memory overlap. Sets bit i of *hashed if key i is hashed. Skips
        keys whose hashing could run code of the program."""
        cdef uint64_t entries[AHEAD]
        cdef rs_key_probe probe
        cdef Records k = self._keys, v = self._values
        cdef Leaf leaf
        cdef Py_ssize_t i
        cdef Py_ssize_t n = len(keys)
        hashed[0] = 0
        for i in range(n):
            if is_plain_key(keys[i], 0) and key_hash(keys[i], self.key_index.keys.seed, False, &hashes[i]):
                hashed[0] |= <uint64_t>1 << i
        self.require()  # hashing an int of thousands of digits imports a module, which lets other threads run
        for i in range(n):
            if hashed[0] >> i & 1:
                rs_keys_prefetch(&self.key_index.keys, hashes[i])
        if k.direct is None or v.direct is None:
            return 0
        for i in range(n):
            entries[i] = RS_NOWHERE
            if hashed[0] >> i & 1:
                probe = rs_key_probe_begin(&self.key_index.keys, hashes[i])
                if rs_key_probe_next(&self.key_index.keys, &probe, &entries[i], NULL) != RS_OK:
                    entries[i] = RS_NOWHERE  # the lookup itself will raise the error
            if entries[i] != RS_NOWHERE:
                k.find(<Py_ssize_t>entries[i], &leaf)
                fetch_offsets(&leaf)
                v.find(<Py_ssize_t>entries[i], &leaf)
                fetch_offsets(&leaf)
        for i in range(n):
            if entries[i] != RS_NOWHERE:
                k.find(<Py_ssize_t>entries[i], &leaf)
                fetch_record(&leaf)
                v.find(<Py_ssize_t>entries[i], &leaf)
                fetch_record(&leaf)
        return 0

    cdef Py_ssize_t entry_ahead(self, key, bint hashed, uint64_t h) except -2:
        """Like entry_of. With `hashed`, h is the hash of the key."""
        if not hashed:
            return self.entry_of(key)
        cdef Py_ssize_t entry = self.find_hashed(key, h)
        if self.proof is not None and entry >= 0:
            self.prove(entry, key)
        return entry

    def _many(self, keys, default, bint has_default):
        """The values of `keys` in one call. A missing key gives `default` if `has_default`, else KeyError."""
        cdef uint64_t hashes[AHEAD]
        cdef uint64_t hashed = 0
        cdef Py_ssize_t entry, i = 0, k = 0
        cdef list chunk = []
        cdef list key_list = keys if type(keys) is list else None
        self.require()
        if key_list is None and hasattr(keys, "__len__"):
            # numpy ints and text equal Python ints and strs, which are faster to look up.
            plain = hasattr(keys, "__array__") and getattr(getattr(keys, "dtype", None), "kind", "") in ("i", "u", "U")
            key_list = keys = keys.tolist() if plain and keys.ndim == 1 else list(keys)
        out = []
        for key in keys:
            # The list may change while a key is compared, so each key is checked again.
            if k == len(chunk):
                PyErr_CheckSignals()
                chunk, k = [key] if key_list is None else key_list[i:i + AHEAD], 0
                self.fetch_ahead(chunk, hashes, &hashed)
            hit = k < len(chunk) and chunk[k] is key
            entry = self.entry_ahead(key, hit and hashed >> k & 1, hashes[k] if hit else 0)
            k += 1
            i += 1
            if entry >= 0:
                out.append(self._values.at(entry))
            elif has_default:
                out.append(default)
            else:
                raise KeyError(key)
        return out

    def __iter__(self):
        self.require()
        return iter(self._keys)
