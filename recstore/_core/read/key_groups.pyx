"""Finds the records with the same key, by the rules of a dict, for index_by, group_by and saved indexes.

If no key is opaque and unequal keys have different hashes, it uses at most 48 bytes per record and holds the key
objects of two records at a time.
"""


cdef uint64_t *numbers_of(rs_buffer *buffer):
    return <uint64_t *>buffer.data


cdef object number_array(rs_buffer *numbers):
    """A copy of numbers of 8 bytes, as array("Q")."""
    import array
    out = array.array("Q")
    out.frombytes(PyBytes_FromStringAndSize(<const char *>numbers.data, numbers.size_bytes))
    return out


cdef class KeyGroups:
    """The groups of records with the same key. Groups are numbered in the order of their first records.

    Attributes: ``n`` (records), ``n_groups``, and ``distinct`` (whether no two records share a group). Raises the
    exceptions of reading and hashing the keys."""

    cdef KeyHashes hashes
    cdef Records keys
    cdef rs_buffer group_of  # the number of each record's group; empty, like `firsts_`, if the keys are distinct
    cdef rs_buffer firsts_   # the first record of each group
    cdef readonly uint64_t n
    cdef readonly uint64_t n_groups
    cdef uint64_t seen       # the record with the key `seen_key`; n for none
    cdef object seen_key

    def __cinit__(self, Records keys not None):
        cdef Py_ssize_t i
        self.keys = keys
        self.n = keys.length
        self.hashes = KeyHashes()
        for i in range(keys.length):
            if not i & 255:
                PyErr_CheckSignals()
            self.hashes.append(keys.at(i))
        # Finding pairs needs no GIL and no objects. Opaque keys, and unequal keys with the same hash, need the twins.
        if self.hashes.opaque or not self.number_by_pairs():
            self.number_by_twins(self.hashes.twins(self.hashes.suspects(), keys.__getitem__))
        self.seen_key = None

    def __dealloc__(self):
        rs_buffer_clear(&self.group_of)
        rs_buffer_clear(&self.firsts_)

    @property
    def distinct(self):
        return self.n_groups == self.n

    cdef bint number_by_pairs(self) except -1:
        """Numbers the groups from the pairs of records with the same hash. If a pair has different keys, returns False
        and numbers nothing."""
        cdef rs_buffer pairs
        cdef rs_error err
        cdef rs_status status
        cdef uint64_t n = self.n
        memset(&pairs, 0, sizeof(rs_buffer))
        try:
            with nogil:
                status = rs_keys_find_twins(<const uint64_t *>self.hashes.hashes.data, NULL, n, &pairs, &err)
            check(status, &err)
            if pairs.size_bytes == 0:
                self.n_groups = n
                return True
            if not self.number_pairs(numbers_of(&pairs), pairs.size_bytes // 16):
                self.group_of.size_bytes = self.firsts_.size_bytes = 0
                return False
            return True
        finally:
            rs_buffer_clear(&pairs)

    cdef bint number_pairs(self, const uint64_t *pairs, uint64_t n_pairs) except -1:
        cdef uint64_t i, p = 0
        self.reserve()
        self.seen = self.n
        for i in range(self.n):
            if p < n_pairs and pairs[2 * p + 1] == i:
                if not self.is_same(pairs[2 * p], i):
                    return False
                self.put(i, numbers_of(&self.group_of)[pairs[2 * p]])
                p += 1
            else:
                self.begin_group(i)
        self.n_groups = self.firsts_.size_bytes // 8
        return True

    cdef bint is_same(self, uint64_t first, uint64_t later) except -1:
        """Whether a dict treats the keys of two records, which have the same hash, as the same key."""
        if self.seen != first:
            self.seen_key = self.keys.at(<Py_ssize_t>first)
            self.seen = first
        key = self.keys.at(<Py_ssize_t>later)
        return PyObject_RichCompareBool(self.seen_key, key, Py_EQ) and hash(self.seen_key) == hash(key)

    cdef int reserve(self) except -1:
        cdef rs_error err
        return check(rs_buffer_reserve(&self.group_of, 8 * self.n, &err), &err)

    cdef void put(self, uint64_t record, uint64_t group):
        """Sets the group of the next record. The memory is reserved."""
        numbers_of(&self.group_of)[record] = group
        self.group_of.size_bytes += 8

    cdef int begin_group(self, uint64_t record) except -1:
        cdef rs_error err
        self.put(record, self.firsts_.size_bytes // 8)
        return check(rs_buffer_append(&self.firsts_, &record, 8, &err), &err)

    cdef int number_by_twins(self, twins) except -1:
        cdef uint64_t i
        if not twins:
            self.n_groups = self.n
            return 0
        firsts = {record: first for first, later in twins.items() for record in later}
        self.reserve()
        for i in range(self.n):
            first = firsts.get(i)
            if first is None:
                self.begin_group(i)
            else:
                self.put(i, numbers_of(&self.group_of)[<uint64_t>first])
        self.n_groups = self.firsts_.size_bytes // 8
        return 0

    # ---- Results ----

    def key_index(self):
        """The bytes of the key index of the groups' keys."""
        if self.distinct:
            return self.hashes.key_index()
        return self.hashes.chosen(numbers_of(&self.firsts_), self.n_groups).key_index()

    def firsts(self):
        """The first record of each group, as array("Q"); None if the keys are distinct."""
        return None if self.distinct else number_array(&self.firsts_)

    def lasts(self):
        """The last record of each group, in the form of `firsts`."""
        cdef rs_buffer out
        cdef rs_error err
        cdef uint64_t i
        if self.distinct:
            return None
        memset(&out, 0, sizeof(rs_buffer))
        try:
            check(rs_buffer_append_zeros(&out, 8 * self.n_groups, &err), &err)
            for i in range(self.n):
                numbers_of(&out)[numbers_of(&self.group_of)[i]] = i
            return number_array(&out)
        finally:
            rs_buffer_clear(&out)

    def rows(self, unsigned width, bint may_be_in_order=False):
        """`(starts, rows)` as bytes. `rows` has the records group after group; group g begins at row starts[g], and the
        last entry of `starts` is the number of records. With `may_be_in_order`, `rows` is None if row i is record i."""
        cdef rs_buffer starts, rows
        cdef rs_error err
        cdef rs_status status
        cdef rs_bool in_order = False
        cdef uint64_t i
        if self.distinct:  # nothing is numbered yet
            self.reserve()
            for i in range(self.group_of.size_bytes // 8, self.n):
                self.put(i, i)
        memset(&starts, 0, sizeof(rs_buffer))
        memset(&rows, 0, sizeof(rs_buffer))
        try:
            with nogil:
                status = rs_group_rows(<const uint64_t *>self.group_of.data, self.n, self.n_groups, width,
                                       may_be_in_order, &starts, &rows, &in_order, &err)
            check(status, &err)
            return (PyBytes_FromStringAndSize(<const char *>starts.data, starts.size_bytes),
                    None if in_order else PyBytes_FromStringAndSize(<const char *>rows.data, rows.size_bytes))
        finally:
            rs_buffer_clear(&starts)
            rs_buffer_clear(&rows)


def hash_keys(Records keys):
    """`(bytes of the key index, order)` for the keys in a container. `order` is None if the keys are distinct; else two
    arrays, the positions of the first and the last occurrence of each entry's key."""
    groups = KeyGroups(keys)
    return groups.key_index(), None if groups.distinct else (groups.firsts(), groups.lasts())
