"""Saved indexes (csrc/FORMAT.md, "Saved indexes"): reads them, checks them, and adds them to a segment."""

INDEX_RECORDS, INDEX_GROUPS = RS_FMT_SAVED_RECORDS, RS_FMT_SAVED_GROUPS


cdef class SavedIndex:
    """An index in a section of a segment. It finds the records of the whole store by a field.

    Attributes: ``segment``; ``number``, its position among the saved indexes of the segment; ``kind``, INDEX_RECORDS or
    INDEX_GROUPS; ``nbytes``; ``entries``, the number of distinct keys; ``width``, the bytes of a record number."""

    @property
    def kind(self):
        return self.core.kind

    @property
    def entries(self):
        return self.core.index.n_entries

    @property
    def width(self):
        return self.core.width

    @property
    def nbytes(self):
        return self.segment.store.directory.saved_indexes[self.number].size_bytes

    def path(self):
        """The Path of the field. Raises CorruptError for a malformed path."""
        self.segment.require_open()
        names = load_any(self.core.path.ptr, rs_slice_left(&self.core.path))
        if type(names) is not tuple or not names:
            raise errors.CorruptError("saved index: not the names of a path")
        return Path.of_names(names)

    def key_index(self):
        return KeyIndex.of_saved(self)

    def blob(self, part):
        """A part of the record numbers as a Blob. Part 0 of INDEX_RECORDS has pairs of first and last record; part 0 of
        INDEX_GROUPS has the starts, part 1 the rows. None if the index does not need the part: each key has one
        record, or row i is record i."""
        cdef const uint8_t *data = NULL
        cdef uint64_t n = 0
        self.segment.require_open()
        if part == 0 and self.core.kind == RS_FMT_SAVED_RECORDS:
            data, n = self.core.order, 2 * self.core.index.n_entries
        elif part == 0:
            data, n = self.core.starts, self.core.index.n_entries + 1
        elif part == 1:
            data, n = self.core.rows, self.core.n_records
        if data == NULL:
            return None
        return self.segment.section_blob((self.number, part), data, n * self.core.width)

    def firsts(self):
        """The Selection of the first record of each entry."""
        whole = Selection.whole(self.segment)
        width, n = self.core.width, <Py_ssize_t>self.core.index.n_entries
        if self.core.kind == RS_FMT_SAVED_RECORDS:
            order = self.blob(0)
            return whole if order is None else whole.indexed(order, 0, width, 2 * n).sliced(0, 2, n)
        return self.ordered().indexed(self.blob(0), 0, width, n)

    def lasts(self):
        """For INDEX_RECORDS, the Selection of the last record of each entry."""
        whole = Selection.whole(self.segment)
        order, n = self.blob(0), <Py_ssize_t>self.core.index.n_entries
        return whole if order is None else whole.indexed(order, 0, self.core.width, 2 * n).sliced(1, 2, n)

    def ordered(self):
        """For INDEX_GROUPS, the Selection of all records, group after group."""
        whole = Selection.whole(self.segment)
        rows = self.blob(1)
        return whole if rows is None else whole.indexed(rows, 0, self.core.width, <Py_ssize_t>self.core.n_records)

    cdef Records proof(self):
        """The keys that lookups must compare, as Records; `rows_of` finds the rows of an entry. None for trusted bytes,
        after a deep check, and for INDEX_RECORDS if each entry has one record."""
        reader = self.segment.reader_
        if reader is None or reader.trusted or self.segment.verified and not self.segment.in_place:
            return None
        if self.core.kind == RS_FMT_SAVED_RECORDS and self.core.order == NULL:
            return None
        rows = self.lasts() if self.core.kind == RS_FMT_SAVED_RECORDS else self.ordered()
        return Records()._set(rows, stored_field(self.path(), self.segment))

    cdef int rows_of(self, uint64_t entry, uint64_t *begin, uint64_t *end) except -1:
        """Sets the bounds of an entry's rows in `proof`. Leaves out the first record of a group, which the lookup has
        compared."""
        cdef rs_error err
        self.segment.require_open()
        if self.core.kind == RS_FMT_SAVED_RECORDS:
            begin[0], end[0] = entry, entry + 1
            return 0
        check_path(rs_saved_index_group(&self.core, entry, begin, end, &err), &err, self.segment.file())
        begin[0] += 1
        return 0


def saved_indexes(Segment segment):
    """The SavedIndexes of a segment, except kinds of later versions. Takes constant time per index."""
    cdef SavedIndex index
    cdef rs_error err
    cdef rs_status status
    cdef uint32_t i
    segment.require_open()
    out = []
    for i in range(segment.store.directory.n_saved_indexes):
        index = SavedIndex.__new__(SavedIndex)
        index.segment = segment
        index.number = <int>i
        segment.fetch(segment.store.directory.saved_indexes[i].off,
                      segment.store.directory.saved_indexes[i].size_bytes)
        status = rs_saved_index_open(segment.store.segment, &segment.store.directory.saved_indexes[i],
                                     segment.store.header.n_records, &index.core, &err)
        if status != RS_E_FMT_VERSION:
            check_path(status, &err, segment.file())
            out.append(index)
    return out


def saved_index(Segment segment, number):
    """The SavedIndex with this number. Raises CorruptError if there is none."""
    for index in saved_indexes(segment):
        if index.number == number:
            return index
    raise errors.CorruptError(f"the segment has no saved index {number}", filename=segment.file())


cdef bytes path_bytes(Path path):
    """The path as an `any` value. Raises EncodeError for a key that is not plain, ValueError for too long a path."""
    dumped = dump(path.names)
    if len(dumped) != 2 or dumped[1]:
        raise errors.EncodeError(f"an index by {str(path)!r:.60} cannot be saved: a key in it is not a plain value")
    if len(dumped[0]) > RS_FMT_INDEX_PATH:
        raise ValueError(f"an index by {str(path)!r:.60} cannot be saved: the path takes {len(dumped[0])} bytes; "
                         f"{RS_FMT_INDEX_PATH} are the most")
    return dumped[0]


def find_saved(Segment segment, unsigned kind, Path path):
    """The SavedIndex of this kind and path; None if the segment has none."""
    cdef SavedIndex index
    if segment.store.directory.n_saved_indexes == 0:
        return None
    try:
        encoded = path_bytes(path)
    except (errors.EncodeError, ValueError):
        return None
    for index in saved_indexes(segment):
        stored = index.core.path
        if index.core.kind == kind and encoded == (<const char *>stored.ptr)[:rs_slice_left(&stored)]:
            return index
    return None


# ---- Writing ----

cdef int save_indexes(rs_segment_writer *writer, Segment source, object indexes) except -1:
    """Adds indexes, each `(kind, Path)`, to the complete segment in a writer. `source` maps the bytes of the segment.
    Skips indexes that the segment has. After an error the caller must abort the writer."""
    cdef rs_extension extension
    cdef rs_error err
    cdef rs_status status
    for _, path in indexes:
        path_bytes(path)  # raises before anything is read
    missing = [(kind, path) for kind, path in indexes if find_saved(source, kind, path) is None]
    if not missing:
        return 0
    source.require_open()
    try:
        check(rs_extension_begin(&extension, writer, source.store.segment, &err), &err)
        for kind, path in missing:
            add_index(&extension, source, kind, path)
        with nogil:
            status = rs_extension_finish(&extension, &err)
        check(status, &err)
    finally:
        rs_extension_clear(&extension)
    return 0


cdef int add_index(rs_extension *extension, Segment source, unsigned kind, Path path) except -1:
    """Makes an index by the rules of index_by and group_by, and appends it. Raises the exceptions of reading and
    hashing the keys, and ValueError for an index over a limit."""
    cdef rs_saved_index_parts parts
    cdef rs_error err
    cdef rs_status status
    cdef bytes encoded_path = path_bytes(path), keys, numbers
    groups = KeyGroups(Records()._set(Selection.whole(source), stored_field(path, source)))
    keys = groups.key_index()
    numbers, in_order = record_numbers(groups, kind)
    parts.kind = kind
    parts.in_order = in_order
    parts.n_records = source.store.header.n_records
    parts.path = rs_slice_of(<const char *>encoded_path, len(encoded_path))
    parts.keys = rs_slice_of(<const char *>keys, len(keys))
    parts.numbers = rs_slice_of(<const char *>numbers, len(numbers))
    with nogil:
        status = rs_extension_add(extension, &parts, &err)
    if status == RS_E_ARG_LIMIT or status == RS_E_ARG_RANGE:
        raise ValueError(f"an index by {str(path)!r:.60} cannot be saved: {err.message.decode()}")
    return check(status, &err)


cdef tuple record_numbers(KeyGroups groups, unsigned kind):
    """`(bytes, in_order)`: the record numbers of a saved index. If `in_order`, the records of the entries are
    0, 1, 2, ..., and the bytes leave them out."""
    cdef unsigned width = 4 if groups.n <= 0xFFFFFFFF else 8
    if kind == RS_FMT_SAVED_GROUPS:
        starts, rows = groups.rows(width, True)
        return (starts, True) if rows is None else (starts + rows, False)
    if groups.distinct:
        return b"", True
    import array
    pairs = array.array("I" if width == 4 else "Q", bytes(2 * width * groups.n_groups))
    code = pairs.typecode
    pairs[::2], pairs[1::2] = array.array(code, groups.firsts()), array.array(code, groups.lasts())
    return pairs.tobytes(), False


cdef int index_written(rs_segment_writer *writer, object reader, object indexes) except -1:
    """Like save_indexes, for a segment that has just been built. Maps the segment to read its records."""
    cdef int fd = -1
    cdef rs_error err
    check(rs_os_reopen_readonly(writer.fd, &fd, &err), &err)
    cdef Segment source = adopt_fd(fd, "anonymous")
    try:
        source.reader = reader
        save_indexes(writer, source, indexes)
    finally:
        source.close()
    return 0


# ---- The deep check ----

def verify_saved_indexes(Segment segment):
    """The part of the deep check of saved indexes that needs Python: the paths, and whether each record has the key of
    its entry. It does not make objects of classes, so it does not run their code, and does not compare keys of such
    classes. It does not read text files, so it does not compare the keys of their lines."""
    cdef StoreReader reader
    cdef SavedIndex index
    indexes = saved_indexes(segment)
    if not indexes or segment.in_place:
        return
    segment.enter()
    try:
        reader = StoreReader.apart(&segment.store)
        for index in indexes:
            verify_saved(index, index.path(), reader)
    finally:
        segment.leave()


cdef object key_of_record(StoreReader reader, Path path, uint64_t record):
    exists, _, key = path.keys_in(reader.get(record))
    if not exists:
        raise errors.CorruptError(f"saved index: record {record} has no field {str(path)!r:.60}")
    return key


cdef int verify_saved(SavedIndex self, Path path, StoreReader reader) except -1:
    cdef uint64_t entry, begin, end, row, record, first, last, h = 0
    cdef rs_error err
    cdef KeyIndex index = KeyIndex.of_saved(self)
    cdef uint64_t steps = rs_keys_steps(&index.keys)
    opaque = set(index.opaque())
    entry_of_key, hashes = {}, {}
    for entry in range(self.core.index.n_entries):
        if self.core.kind == RS_FMT_SAVED_RECORDS:
            check(rs_saved_index_records(&self.core, entry, &first, &last, &err), &err)
            records = (first, last)
        else:
            check(rs_saved_index_group(&self.core, entry, &begin, &end, &err), &err)
            records = range(begin, end)
        first_key = None
        for number in records:
            record = number
            if self.core.kind == RS_FMT_SAVED_GROUPS:
                row = number
                check(rs_saved_index_row(&self.core, row, &record, &err), &err)
            PyErr_CheckSignals()
            key = key_of_record(reader, path, record)
            hash_of(key, "saved index: record", record)
            if number == records[0]:
                first_key = key
                indexed = key_hash(key, index.keys.seed, True, &h)
            elif indexed and not (key == first_key and hash(key) == hash(first_key)):
                raise errors.CorruptError(f"saved index: record {record} does not have the key of entry {entry}")
        other = entry if indexed else entry_of_key.setdefault(first_key, entry)
        if other != entry:
            raise errors.CorruptError(f"saved index: entry {entry} has the key of entry {other}")
        if indexed and entry not in opaque:
            verify_saved_place(self, index, reader, path, entry, first_key, h, &steps, hashes)
    return 0


cdef int verify_saved_place(SavedIndex self, KeyIndex index, StoreReader reader, Path path, uint64_t own_entry, key,
                            uint64_t h, uint64_t *steps, dict hashes) except -1:
    """Like verify_place, for a saved index; `hashes` has the hashes by record."""
    cdef rs_key_probe probe = rs_key_probe_begin(&index.keys, h)
    cdef uint64_t entry, record, last
    cdef rs_error err
    own_hash = hash_of(key, "saved index: entry", own_entry)
    while True:
        PyErr_CheckSignals()
        check(rs_key_probe_next_counted(&index.keys, &probe, &entry, steps, &err), &err)
        if entry == own_entry:
            return 0
        if entry == RS_NOWHERE:
            raise errors.CorruptError(f"saved index: entry {own_entry} cannot be found by its key")
        if self.core.kind == RS_FMT_SAVED_RECORDS:
            check(rs_saved_index_records(&self.core, entry, &record, &last, &err), &err)
        else:
            check(rs_saved_index_group(&self.core, entry, &record, &last, &err), &err)
            check(rs_saved_index_row(&self.core, record, &record, &err), &err)
        if record not in hashes:
            hashes[record] = hash_of(key_of_record(reader, path, record), "saved index: record", record)
        if hashes[record] == own_hash and key_of_record(reader, path, record) == key:
            raise errors.CorruptError(f"saved index: entry {own_entry} has the key of entry {entry}")
