"""Hashes of dict keys, and the lookup that a RecordDict rests on.

Keys that are equal in Python have one canonical form, and so one hash, whatever their types (csrc/FORMAT.md, "Keys").
The hash only finds candidates: whether a candidate is the key is decided by comparing, as Python does.
"""


cdef extern from "math.h" nogil:
    bint isnan(double)
    bint isinf(double)
    double floor(double)


# For `canonical` and `info`, which are Python.
TAG_EXT, TAG_STR1, TAG_TUPLE = RS_FMT_TAG_EXT, RS_FMT_TAG_STR1, RS_FMT_TAG_TUPLE
cdef bytes _COMPLEX_HEAD = bytes([RS_FMT_TAG_EXT, RS_FMT_EXT_COMPLEX, RS_FMT_TAG_NONE])
cdef bytes _FROZENSET_HEAD = bytes([RS_FMT_TAG_EXT, RS_FMT_EXT_FROZENSET, RS_FMT_TAG_NONE])
cdef object WIDE = 1 << 1024  # ints from here on equal no float; Decimals equal to them are as many digits long


cdef enum:
    AHEAD = 32  # keys of get_many whose memory is asked for at once


# ---- Canonical forms ----

cdef int put_form(rs_buffer *out, object key, bint strict, int depth=0) except -1:
    """Appends the canonical form and returns 1; returns 0, with part of it appended, for a key that has none. `strict`:
    only of keys that are stored as what they are; else also of those that only equal such a key, as an instance of a
    plain subclass of str does."""
    cdef PyTypeObject *t = Py_TYPE(key)
    cdef double d
    cdef rs_error err
    cdef uint8_t head[11]
    if t == &PyUnicode_Type or t == &PyBytes_Type or key is None or (t == &PyLong_Type and (-WIDE < key < WIDE)):
        encode_value(out, NULL, key)
        return 1
    if depth > RS_FMT_DEPTH:
        return 0  # nothing as deep was ever stored
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
    """The canonical form of a dict key as bytes; None for one that only comparing finds. TypeError for one without a
    hash.

    >>> key_form(1) == key_form(1.0) == key_form(True)
    True
    """
    cdef rs_buffer out
    out.data = NULL
    out.size_bytes = 0
    out.capacity_bytes = 0
    try:
        if not put_form(&out, key, strict, depth):
            return None
        return (<const char *>out.data)[:out.size_bytes]
    finally:
        rs_buffer_clear(&out)


cdef bint key_hash(object key, uint64_t seed, bint strict, uint64_t *out) except -1:
    """The hash of a key; False for one without a canonical form. Raises what hash() raises."""
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
    form.data = NULL
    form.size_bytes = 0
    form.capacity_bytes = 0
    try:
        if not put_form(&form, key, strict):
            return False
        out[0] = rs_hash64(form.data, form.size_bytes, seed)
        return True
    finally:
        rs_buffer_clear(&form)


# ---- Tables ----

cdef class KeyTable:
    """A hash table over the keys of some records: the KEY_INDEX of a segment, or one in process memory.

    Attributes: ``segment`` (the one whose section it is, else None), ``blob`` (process memory, else None), ``nbytes``.
    """

    @staticmethod
    def of_segment(Segment segment):
        cdef KeyTable self = KeyTable.__new__(KeyTable)
        cdef rs_error err
        segment.require_open()
        self.segment = segment
        self.open(segment.key_index(), &err)
        return self

    @staticmethod
    def of_blob(Blob blob):
        cdef KeyTable self = KeyTable.__new__(KeyTable)
        cdef rs_error err
        if blob.data == NULL:
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
        """The entries whose keys are found by comparing."""
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
        if self.blob.data == NULL:
            raise errors.ClosedError("the store is closed")
        if self.blob.data != self.at:
            # Published meanwhile: the same bytes are somewhere else now.
            return self.reopen()
        return 0

    cdef int reopen(self) except -1:
        cdef rs_error err
        return self.open(rs_slice_of(self.blob.data, self.blob.size), &err)


cdef object first_of = operator.itemgetter(0)


cdef class KeyHashes:
    """The hashes of keys, collected one by one, from which the table is made. Not thread-safe."""

    def __cinit__(self, seed=None):
        self.hashes.data = NULL
        self.hashes.size_bytes = 0
        self.hashes.capacity_bytes = 0
        self.opaque_flags = bytearray()
        self.opaque = {}
        self.seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self.n = 0

    def __dealloc__(self):
        rs_buffer_clear(&self.hashes)

    cpdef append(self, key):
        """Adds a key. Raises what hash() raises; then nothing was added."""
        cdef uint64_t h = 0
        cdef rs_error err
        cdef bint hashed = key_hash(key, self.seed, True, &h)
        if not hashed:
            # By Python's own comparison, identity first: the same NaN twice is one key, two NaNs are two.
            self.opaque.setdefault(key, []).append(self.n)
            self.opaque_flags.extend(bytes(self.n - len(self.opaque_flags)))
            self.opaque_flags.append(1)
        check(rs_buffer_append(&self.hashes, &h, 8, &err), &err)
        self.n += 1

    def extend(self, bytes hashes, opaque):
        """Adds keys that another KeyHashes with this seed has hashed. `opaque` has `(number among them, key)` of each
        one without a canonical form, in their order."""
        cdef rs_error err
        for number, key in opaque:
            number += self.n
            self.opaque.setdefault(key, []).append(number)
            self.opaque_flags.extend(bytes(number - len(self.opaque_flags)))
            self.opaque_flags.append(1)
        check(rs_buffer_append(&self.hashes, PyBytes_AS_STRING(hashes), len(hashes), &err), &err)
        self.n += len(hashes) // 8

    def first_opaque(self, key, uint64_t number):
        """The first record of the opaque key that was added as `number`; None where that one has a canonical form."""
        if len(self.opaque_flags) <= number:
            return None
        return self.opaque[key][0]

    def since(self, uint64_t first):
        """The hashes from the key of this number on."""
        return PyBytes_FromStringAndSize(<const char *>self.hashes.data + 8 * first, 8 * (self.n - first))

    def drop_last(self):
        """Takes the last key back: what went with it could not be stored."""
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
        """`{first record: [later records]}` of records with one hash, most likely of one key; opaque ones left out."""
        cdef rs_buffer pairs
        cdef rs_error err
        cdef rs_status status
        cdef size_t i
        cdef const uint8_t *flags = self.flags()
        pairs.data = NULL
        pairs.size_bytes = 0
        pairs.capacity_bytes = 0
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
        """`{first record: [later records]}` of the records that are one key to a dict; `read(record)` gives a record's
        key."""
        out = {}
        for first, later in suspects.items():
            # Keys may share a form and not be equal, such as Decimals of huge exponents: a dict tells them apart.
            same = {}
            for record in (first, *later):
                same.setdefault(read(record), []).append(record)
            out.update((records[0], records[1:]) for records in same.values() if len(records) > 1)
        if self.opaque:
            self.join_opaque(out, read)
        return out

    cdef int join_opaque(self, dict out, read) except -1:
        """Opaque keys were compared with each other when they came. One may also equal a key that has a form, as a
        class with an __eq__ of its own may."""
        cdef uint64_t i
        cdef const uint8_t *flags = self.flags()
        wanted = {hash(key) for key in self.opaque if type(key) is not float and type(key).__eq__ is not object.__eq__}
        met = {}
        for i in range(self.n if wanted else 0):
            if not flags[i] and hash(read(i)) in wanted:
                met[i] = None
        same = self.opaque
        if met:
            # All of them as a dict would meet them: a equal to b and b to c need not make a equal to c.
            for key, records in self.opaque.items():
                met.update(dict.fromkeys(records, key))
            same = {}
            for record, kept in sorted(met.items(), key=first_of):
                key = read(record)
                # What reading made of a NaN is not the NaN that came.
                same.setdefault(kept if flags[record] and key != kept else key, []).append(record)
                out.pop(record, None)
        for records in same.values():
            if len(records) > 1:
                out[records[0]] = records[1:]
        return 0

    def without(self, dead):
        """The hashes of the records that are not in the set `dead`, in their order: those of the entries."""
        cdef KeyHashes out = KeyHashes(self.seed)
        cdef uint64_t i
        cdef rs_error err
        cdef const uint8_t *flags = self.flags()
        for i in range(self.n):
            if i in dead:
                continue
            check(rs_buffer_append(&out.hashes, self.hashes.data + 8 * i, 8, &err), &err)
            if flags != NULL and flags[i]:
                out.opaque_flags.extend(bytes(out.n - len(out.opaque_flags)))
                out.opaque_flags.append(1)
                out.opaque[i] = [out.n]
            out.n += 1
        return out

    def table(self, uint32_t factory=0):
        """The bytes of the table of all keys, which are distinct."""
        cdef rs_buffer out
        cdef rs_error err
        cdef rs_status status
        cdef const uint8_t *flags = self.flags()
        cdef uint64_t seed = self.seed
        out.data = NULL
        out.size_bytes = 0
        out.capacity_bytes = 0
        try:
            with nogil:
                status = rs_keys_build(<const uint64_t *>self.hashes.data, flags, self.n, seed, factory, &out, &err)
            check(status, &err)
            return PyBytes_FromStringAndSize(<const char *>out.data, out.size_bytes)
        finally:
            rs_buffer_clear(&out)


def merge_twins(twins, n):
    """From `KeyHashes.twins` over n records: `(dead keys, dead values, firsts, lasts)`, two sets and two arrays: a key
    that came again keeps its first place and takes its last value."""
    import array
    dead_keys = {record for later in twins.values() for record in later}
    dead_values = {record for first, later in twins.items() for record in (first, *later[:-1])}
    firsts = array.array("Q", (r for r in range(n) if r not in dead_keys))
    lasts = array.array("Q", (twins[r][-1] if r in twins else r for r in firsts))
    return dead_keys, dead_values, firsts, lasts


def hash_keys(Records keys):
    """`(table bytes, order)` of the keys that a container holds; order is None when they are distinct, else the
    positions of each entry's first key and of its last, two arrays."""
    cdef KeyHashes hashes = KeyHashes()
    cdef Py_ssize_t i
    for i in range(keys.length):
        hashes.append(keys.at(i))
    twins = hashes.twins(hashes.suspects(), keys.__getitem__)
    if not twins:
        return hashes.table(), None
    dead, _, firsts, lasts = merge_twins(twins, keys.length)
    return hashes.without(dead).table(), (firsts, lasts)


def verify_keys(Segment segment):
    """The part of the deep check of a mapping that only Python can do: that keys can be hashed, that each is found
    where its hash says, and no two are equal. Runs nobody's code: values of classes are not made."""
    cdef uint64_t i, h = 0
    cdef KeyTable table = KeyTable.of_segment(segment)
    cdef StoreReader reader = StoreReader.apart(&segment.mapping.keys)
    opaque = set(table.opaque())
    found = {}
    segment.enter()
    try:
        for i in range(table.keys.n_entries):
            key = key_of_entry(segment, reader, i)
            if type(key) in (str, bytes):
                continue  # checked by the core, which also knows the ints of 64 bits
            try:
                tabled = key_hash(key, table.keys.seed, True, &h)
                other = i if tabled else found.setdefault(key, i)
            except (TypeError, ValueError) as e:
                raise errors.CorruptError(f"entry {i}: its key cannot be hashed: {e}") from None
            if other != i:
                raise errors.CorruptError(f"entry {i} has the key of entry {other}")
            if tabled and i not in opaque:
                verify_place(segment, table, reader, i, key, h)
    finally:
        segment.leave()


cdef object key_of_entry(Segment segment, StoreReader reader, uint64_t entry):
    cdef uint64_t record, value
    cdef rs_error err
    check(rs_mapping_records(&segment.mapping, entry, &record, &value, &err), &err)
    return reader.get(record)


cdef int verify_place(Segment segment, KeyTable table, StoreReader reader, uint64_t wanted, key, uint64_t h) except -1:
    """That a lookup of the key comes to its entry, and to no equal one before."""
    cdef rs_key_probe probe = rs_key_probe_begin(&table.keys, h)
    cdef uint64_t entry
    cdef rs_error err
    while True:
        check(rs_key_probe_next(&table.keys, &probe, &entry, &err), &err)
        if entry == wanted:
            return 0
        if entry == RS_NOWHERE:
            raise errors.CorruptError(f"key index: entry {wanted} is not where its key is looked for")
        if key_of_entry(segment, reader, entry) == key:
            raise errors.CorruptError(f"entry {wanted} has the key of entry {entry}")


# ---- Lookup ----

cdef class Mapping:
    """Base of RecordDict: keys and values, record by record, and the table that finds a key. The dict's reading side,
    compiled."""

    def __cinit__(self, *args, **kwargs):
        self._keys = None
        self._values = None
        self.table = None
        self.factory = None
        self.detached = None
        self.opaque = None
        self.native = False
        self.held = ()
        self._spilled = None

    def _set(self, Records keys not None, Records values not None, KeyTable table, factory=None, detached=None):
        """`table` was made over `keys`; entry e is keys[e] and values[e]."""
        if detached is None and not (keys.length == values.length == <Py_ssize_t>table.keys.n_entries):
            n = f"{keys.length} keys, {values.length} values and {table.entries} entries"
            raise errors.CorruptError(f"a mapping of {n}")
        self._keys = keys
        self._values = values
        self.table = table
        self.factory = factory
        self.detached = detached
        # Keys read whole can be compared in their stores without making them.
        self.native = keys.projection is None and detached is None
        # The values of group_by are views: what they look at.
        looked_at = getattr(values.projection, "records", values)
        self.held = tuple({id(s): s for s in (*keys.segments, *looked_at.segments)}.values())
        return self

    cdef int require(self) except -1:
        """SegmentNotFoundError when detached, ClosedError when closed."""
        cdef Segment segment
        if self.detached is not None or self.table is None:
            raise errors.SegmentNotFoundError(errno.ENOENT, self.detached or "the store was never built")
        self.table.require()
        for segment in self.held:
            segment.require_open()
        return 0

    cdef int compare_natively(self, Py_ssize_t entry, object key) except -2:
        """Whether the key of an entry is this str or int: 1, 0, or -1 when it has to be made to tell."""
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
        """The entry that has the key, -1 when there is none."""
        cdef uint64_t h = 0, entry = 0
        cdef rs_key_probe probe
        cdef rs_error err
        cdef int equal
        cdef bint simple
        self.require()
        if not key_hash(key, self.table.keys.seed, False, &h):
            return self.entry_by_comparing(key)
        simple = Py_TYPE(key) == &PyUnicode_Type or Py_TYPE(key) == &PyLong_Type
        if not simple:
            self.require()  # hashing may have run anybody's code
        probe = rs_key_probe_begin(&self.table.keys, h)
        while True:
            if rs_key_probe_next(&self.table.keys, &probe, &entry, &err) != RS_OK:
                check_path(err.code, &err, self.path())
            if entry == RS_NOWHERE:
                break
            equal = -1
            if simple and self.native:
                equal = self.compare_natively(<Py_ssize_t>entry, key)
            if equal < 0:
                equal = self.compare(<Py_ssize_t>entry, key)
                self.require()  # so may comparing
            if equal:
                return <Py_ssize_t>entry
        return self.opaque_entry(key) if self.table.keys.n_opaque else -1

    cdef bint compare(self, Py_ssize_t entry, object key) except -1:
        """Whether the key of an entry is `key` to a dict, which compares hashes first."""
        there = self._keys.at(entry)
        return there is key or (PyObject_RichCompareBool(there, key, Py_EQ) and self.hash_at(entry, there) == hash(key))

    cdef object hash_at(self, Py_ssize_t entry, object key):
        """The hash of the key of an entry."""
        try:
            return hash(key)
        except (TypeError, ValueError) as e:  # numpy dates without a unit raise ValueError
            error = errors.CorruptError(f"entry {entry}: its key cannot be hashed: {e}", filename=self.path())
            raise error from None

    cdef object path(self):
        """The path of the file that the keys are in; None for memory."""
        paths = [(<Segment>segment).file() for segment in self._keys.segments]
        return paths[0] if paths else None

    cdef Py_ssize_t opaque_entry(self, key) except -2:
        """Among the keys without a canonical form, which this process holds as objects once one was asked for."""
        if self.opaque is None:
            found = {}
            for entry in self.table.opaque():
                there = self._keys.at(entry)
                self.hash_at(entry, there)
                found.setdefault(there, entry)
            self.opaque = found
        return self.opaque.get(key, -1)

    cdef Py_ssize_t entry_by_comparing(self, key) except -2:
        """A key whose equality is its own class's: Python's rule is equal hashes, then ==."""
        cdef Py_ssize_t entry = self.opaque_entry(key), i
        if entry >= 0 or type(key) is float or type(key).__eq__ is object.__eq__:
            return entry
        wanted = hash(key)
        if self.table.keys.n_opaque == self.table.keys.n_entries:
            return -1  # all were asked above
        asked = set(self.opaque.values())
        for i in range(self._keys.length):
            if i in asked:
                continue
            other = self._keys.at(i)
            if self.hash_at(i, other) == wanted and PyObject_RichCompareBool(other, key, Py_EQ):
                return i
        return -1

    def __len__(self):
        return 0 if self._keys is None else self._keys.length

    def __contains__(self, key):
        return self.entry_of(key) >= 0

    def __getitem__(self, key):
        cdef Py_ssize_t entry = self.entry_of(key)
        if entry >= 0:
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
        """The number of the entry that has the key, None when there is none."""
        cdef Py_ssize_t entry = self.entry_of(key)
        return None if entry < 0 else entry

    cdef int fetch_ahead(self, list keys, Py_ssize_t start) except -1:
        """Asks for the memory that lookups of the next keys will read, each step for all of them: the waits overlap."""
        cdef uint64_t entries[AHEAD]
        cdef uint64_t hashes[AHEAD]
        cdef rs_store *key_store
        cdef rs_store *value_store
        cdef rs_key_probe probe
        cdef Records k = self._keys, v = self._values
        cdef Py_ssize_t i, n = 0
        for i in range(start, min(start + AHEAD, len(keys))):
            key = keys[i]
            if Py_TYPE(key) == &PyUnicode_Type or Py_TYPE(key) == &PyLong_Type:
                key_hash(key, self.table.keys.seed, False, &hashes[n])
                n += 1
        self.require()  # hashing an int of thousands of digits imports, and so lets other threads run
        key_store, value_store = k.direct.numbered(k.store), v.direct.numbered(v.store)
        for i in range(n):
            rs_keys_prefetch(&self.table.keys, hashes[i])
        for i in range(n):
            probe = rs_key_probe_begin(&self.table.keys, hashes[i])
            if rs_key_probe_next(&self.table.keys, &probe, &entries[i], NULL) != RS_OK:
                entries[i] = RS_NOWHERE  # the lookup itself will say so
            if entries[i] != RS_NOWHERE:
                rs_store_prefetch_offsets(key_store, <uint64_t>(k.start + k.step * <Py_ssize_t>entries[i]))
                rs_store_prefetch_offsets(value_store, <uint64_t>(v.start + v.step * <Py_ssize_t>entries[i]))
        for i in range(n):
            if entries[i] != RS_NOWHERE:
                rs_store_prefetch(key_store, <uint64_t>(k.start + k.step * <Py_ssize_t>entries[i]))
                rs_store_prefetch(value_store, <uint64_t>(v.start + v.step * <Py_ssize_t>entries[i]))
        return 0

    def _many(self, keys, default, bint has_default):
        """The values of `keys`, in one call."""
        cdef Py_ssize_t entry, i = 0
        cdef bint ahead
        self.require()
        ahead = type(keys) is list and self._keys.direct is not None and self._values.direct is not None
        out = []
        for key in keys:
            if ahead and i % AHEAD == 0:
                self.fetch_ahead(keys, i)
            i += 1
            entry = self.entry_of(key)
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
