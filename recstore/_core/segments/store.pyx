"""Segments. Only Segments, Blobs, CacheFiles and the builders own memory mappings.

A Segment owns one descriptor and one mapping; containers and iterators hold the Segment. Decoded values never point
into the mapping, except arrays read with arrays="view": each holds a buffer lease, which blocks closing the Segment.
`close` unmaps at once or, while other threads read, when the last of their calls returns. In a free-threaded
interpreter (threads.h) the last reference to the Segment unmaps it, so calls need not register.
"""


# Errors about one record. The code that reads the record adds its number.
RECORD_ERRORS = (errors.Error, errors.CorruptError, errors.VersionError, errors.UntrustedError)

# Limits for segments from a build or a handle of this library, which must always be readable.
OURS = 2**64 - 1, 2**64 - 1


@cython.no_gc_clear  # __dealloc__ needs path, which the garbage collector would clear
@cython.final
cdef class Segment(Owner):
    """A mapped, read-only segment. Made by a builder's `finish`, open_path, open_named, adopt_fd or copy_segment, never
    directly. Safe to read from several threads.

    Attributes:
        backing: "anonymous", "directory", "file", "named", or "shm", a file without a name or with a temporary one.
        path: None for a segment without a file name.
        owner_pid: the process that unlinks the file, else None. The last user of a named segment unlinks its file.
        kept, name: see store.pxd.
        kept_bytes: private memory that the interpreter kept after the build.
        reader: a trust.Reader, set before the first record is read; None for the defaults of trusted bytes.
    """

    def __cinit__(self):
        self.section_blobs = {}
        self.content_hashes = {}
        self.seg.fd = -1

    def __dealloc__(self):
        # Only the owner removes the name, and before it unmaps, so that other processes find a whole segment or none.
        if self.open_:
            self.release()

    cdef int prepare(self, object limits) except -1:
        """Reads the header and directory of the new mapping. On failure the mapping is closed."""
        cdef rs_error err
        cdef rs_limits accepted
        cdef rs_limits *chosen = NULL
        cdef rs_status status
        cdef const char *present
        self.programs = []
        try:
            self.strict = strict_is_on()
            if limits is not None:
                accepted.max_values, accepted.max_bytes = limits
                chosen = &accepted
            status = rs_store_open(&self.store, rs_slice_of(self.seg.data, self.seg.size_bytes), chosen, &err)
            check_path(status, &err, self.path)
            self.is_mapping = self.store.header.content == RS_FMT_CONTENT_MAPPING
            if self.is_mapping:
                check_path(rs_mapping_open(&self.mapping, &self.store, &err), &err, self.path)
            if self.ranges is not None and not FREE_THREADED:
                present = PyByteArray_AS_STRING(self.ranges.present)
                check_path(rs_store_set_present(&self.store, <const uint8_t *>present, &err), &err, self.path)
                if self.is_mapping:
                    check_path(rs_store_set_present(&self.mapping.keys, <const uint8_t *>present, &err), &err,
                               self.path)
            self.sample = LiveSample.of(self.records, self.nbytes) if self.strict else None
        except BaseException:
            rs_mapping_close(&self.mapping)
            rs_store_close(&self.store)
            self.unmap()
            raise
        self.open_ = True
        return 0

    cdef object file(self):
        """The path for error messages: of the file, or of the file that was copied; None for memory."""
        return self.path if self.copied_from is None else self.copied_from

    cdef int make_ready(self) except -1:
        """In a free-threaded interpreter, fills the caches before the first read."""
        cdef rs_error err
        with cython.critical_section(self):
            if not self.ready:
                check(rs_store_freeze(&self.store, &err), &err)
                if self.is_mapping:
                    check(rs_store_freeze(&self.mapping.keys, &err), &err)
                set_flag(&self.ready)
        return 0

    cdef int enter(self) except -1:
        """Begins a call that reads the mapping and may let other threads run. The mapping stays until `leave`."""
        self.require_open()
        if not FREE_THREADED:
            self.busy += 1
        return 0

    cdef bint absent(self, rs_status status, rs_error *err) except -1:
        """Fetches the bytes that a call lacks, and returns True: call it again. Returns False for RS_OK. Raises other
        errors."""
        if status == RS_OK:
            return False
        if status == RS_E_FMT_CHECKSUM and self.ranges is not None:
            self.ranges.forget()
        if status != RS_E_STATE_ABSENT:
            raise_status(err)
        self.fetch(err.offset, err.needed)
        return True

    cdef int find(self, rs_store *store, uint64_t index, rs_record *out) except -1:
        """As rs_store_find, with fetching."""
        cdef rs_error err
        while self.absent(rs_store_find(store, index, out, &err), &err):
            pass
        return 0

    cdef int load_block(self, rs_store *store, uint64_t number) except -1:
        """As rs_store_load_block, with fetching."""
        cdef rs_error err
        while self.absent(rs_store_load_block(store, number, &err), &err):
            pass
        return 0

    cdef const rs_block *know_block(self, rs_store *store, uint64_t number) except NULL:
        """As rs_store_know_block, with fetching."""
        cdef rs_error err
        cdef const rs_block *block
        while self.absent(rs_store_know_block(store, number, &block, &err), &err):
            pass
        return block

    cdef int fetch(self, uint64_t begin, uint64_t size) except -1:
        """Fetches bytes of a segment that is not whole. Lets other threads run."""
        if self.ranges is None:
            return 0
        kept = self  # this reference keeps the shard mapped
        self.enter()
        try:
            self.ranges(begin, size)
        finally:
            self.leave()
        del kept
        return self.require_open()

    cdef void unmap(self):
        if self.ranges is not None:
            self.seg.data = NULL  # it belongs to `ranges`
            self.ranges = None
        rs_segment_close(&self.seg)

    def forget_calls(self):
        """For a forked child: the threads that were reading exist only in the parent."""
        self.busy = 0

    cdef void leave(self):
        if FREE_THREADED:
            return
        if self.busy > 0:
            self.busy -= 1
        if flag_of(&self.closing):
            self.leave_closing()

    cdef void leave_closing(self):
        if not FREE_THREADED and self.busy == 0 and self.leases == 0:
            self.release()

    cdef void leases_ended(self):
        # `close` refuses while leases are alive, but a running call may have made one afterwards.
        if flag_of(&self.closing):
            self.leave_closing()

    @property
    def reader(self):
        return self.reader_

    @reader.setter
    def reader(self, reader):
        self.reader_ = reader
        self.views_ = reader is not None and reader.arrays == "view"

    @property
    def exported(self):
        """The number of live buffer leases, and so of arrays over the mapping."""
        return count_of(&self.leases)

    @property
    def owner_pid(self):
        return self.owned_by or None

    @property
    def closed(self):
        return flag_of(&self.closing) or not self.open_

    @property
    def records(self):
        return self.store.header.n_records

    @property
    def nbytes(self):
        """The size of the whole segment in bytes."""
        return self.store.header.segment_size

    @property
    def id(self):
        return PyBytes_FromStringAndSize(<const char *>self.store.header.segment_id, 16)

    @property
    def created_ns(self):
        """When the segment was written, in nanoseconds since 1970."""
        return self.store.header.created_ns

    def label(self):
        """`(number of pairs, bytes)` of the LABEL section. None if there is none, it is larger than 1 MiB or its
        checksum is wrong."""
        cdef const rs_section *section = &self.store.directory.label
        self.require_open()
        if section.off == 0 or section.size_bytes > 1 << 20:
            return None
        bytes_ = PyBytes_FromStringAndSize(<const char *>self.seg.data + section.off, <Py_ssize_t>section.size_bytes)
        if rs_crc32c(0, <const char *>bytes_, len(bytes_)) != section.crc:
            return None
        return section.count, bytes_

    @property
    def identity(self):
        """`(device, inode)` of the mapped file or memory."""
        return self.seg.identity.device, self.seg.identity.inode

    @property
    def in_cache(self):
        """Whether the segment is in the file of a sealed cache, among unused bytes."""
        return self.seg.start_bytes != 0

    @property
    def sealed(self):
        with cython.critical_section(self):
            return self.open_ and rs_os_is_sealed(self.seg.fd)

    def fileno(self):
        self.require_open()
        with cython.critical_section(self):  # a close on another thread closes the descriptor
            if self.seg.fd < 0:
                raise errors.ClosedError("the store is closed")
            return self.seg.fd

    @property
    def mapped(self):
        """`(address, bytes)` of the mapping."""
        self.require_open()
        return <size_t>self.seg.data, self.seg.size_bytes

    def offset_of(self, address):
        """The offset of an address in the segment. Raises ValueError for an address outside the mapping."""
        cdef uint64_t offset = <uint64_t>address - <uint64_t><size_t>self.seg.data
        self.require_open()
        if offset >= self.seg.size_bytes:
            raise ValueError("the address is outside the mapping")
        return offset

    def sections(self):
        """`{name: size in bytes}` of the sections."""
        self.require_open()
        names = ("heap", "offsets", "groups", "blocks", "trees", "tree table")
        out = {name: self.store.directory.sections[i + 1].size_bytes for i, name in enumerate(names)}
        if self.store.n_tables != 0:
            out["tables"] = self.store.directory.sections[RS_FMT_SECTION_TABLES].size_bytes
        for i in range(self.store.directory.n_saved_indexes):
            out["saved indexes"] = out.get("saved indexes", 0) + self.store.directory.saved_indexes[i].size_bytes
        if self.is_mapping:
            for i, name in enumerate((*names[1:], "index", "order"), 2):
                out[f"key {name}"] = self.mapping.keys.directory.sections[i].size_bytes
            if self.mapping.keys.n_tables != 0:
                out["key tables"] = self.mapping.keys.directory.sections[RS_FMT_SECTION_TABLES].size_bytes
        return out

    def trees(self, int number=0):
        """A list for each tree of a store: its nodes by number, or nothing for an unused tree. A node is `(kind, param,
        fixed, children, size, bits, aux, flags, count)`."""
        return self.read_list(number, list_trees)

    def tables(self, int number=0):
        """`(entries, heap bytes, tree)` of each table of a store; `tree` is None for a symbol table."""
        return self.read_list(number, list_tables)

    def blocks(self, int number=0):
        """`(first record, records, tree, heap bytes, array bytes)` of each block of a store."""
        return self.read_list(number, list_blocks)

    cdef list read_list(self, int number, list (*list_them)(Segment, rs_store *)):
        self.store_records(number)
        self.enter()
        try:
            return list_them(self, self.numbered(number))
        except errors.Error as e:
            raise errors.of_file(e, self.file())
        finally:
            self.leave()

    def record_bytes(self, int number, uint64_t index):
        """The size of a record in its heap, in bytes."""
        cdef rs_record record
        self.store_records(number)
        self.require_open()
        self.find(self.numbered(number), index, &record)
        return record.bytes.end - record.bytes.ptr

    cpdef int require_open(self) except -1:
        if flag_of(&self.closing) or not self.open_:
            raise errors.ClosedError("the store is closed")
        if FREE_THREADED and not flag_of(&self.ready):
            return self.make_ready()
        return 0

    cdef inline bint is_usual(self) noexcept:
        """Whether require_open has nothing to do."""
        return not flag_of(&self.closing) and self.open_ and (not FREE_THREADED or flag_of(&self.ready))

    @property
    def in_place(self):
        """Whether records may be lines of text files, which no tree describes."""
        return self.store.header.features_required & RS_FMT_FEATURE_LINE != 0

    @property
    def n_stores(self):
        """The number of stores in the segment: two for a mapping, else one."""
        return 1 + self.is_mapping

    def store_records(self, int store):
        """The number of records of a store. Store 0 is the list or the values of a mapping, store 1 its keys."""
        self.require_open()
        if not 0 <= store <= self.is_mapping:
            raise errors.CorruptError(f"a segment of {1 + self.is_mapping} stores does not have store {store}")
        return self.store.header.n_records

    cdef rs_store *numbered(self, int store) noexcept:
        return &self.store if store == 0 else &self.mapping.keys

    cdef rs_slice key_index(self) except *:
        """The bytes of the section KEY_INDEX."""
        cdef const rs_section *section = &self.mapping.keys.directory.sections[RS_FMT_SECTION_KEY_INDEX]
        self.require_open()
        if not self.is_mapping:
            raise errors.CorruptError("the segment holds a list, not a mapping")
        if self.ranges is not None:
            self.fetch(section.off, section.size_bytes)
            if rs_crc32c(0, self.seg.data + section.off, <size_t>section.size_bytes) != section.crc:
                self.ranges.forget()
                raise errors.CorruptError("the checksum of the key index does not match", filename=self.file())
        return rs_slice_of(self.seg.data + section.off, <size_t>section.size_bytes)

    cdef Blob section_blob(self, tuple part, const uint8_t *data, uint64_t size):
        """The Blob over bytes of this segment, closed by `release`. See Blob.part."""
        reference = self.section_blobs.get(part)
        cdef Blob blob = None if reference is None else reference()
        if blob is None:
            blob = Blob.__new__(Blob)
            blob.section_of = self
            blob.part = part
            blob.data = data
            blob.size = <Py_ssize_t>size
            self.section_blobs[part] = ref(blob)
        return blob

    def order(self):
        """`(blob, bytes of a number)` of the section ORDER, which has the record numbers of each entry's key and
        value. None for a list, and if entry e is record e of both stores."""
        self.require_open()
        if not self.is_mapping or self.mapping.order == NULL:
            return None
        blob = self.section_blob(None, self.mapping.order, 2 * self.mapping.order_width * self.mapping.n_entries)
        return blob, self.mapping.order_width

    cdef int key_equals_str(self, int store, uint64_t index, object key) except -2:
        """Compares a record with a str without decoding it: 1 equal, 0 different, -1 undecided."""
        if not self.is_usual():
            self.require_open()
        cdef rs_key_match match = rs_store_key_equals_str(self.numbered(store), index,
                                                          <unsigned>PyUnicode_KIND(key),
                                                          <const uint8_t *>PyUnicode_DATA(key),
                                                          <uint64_t>PyUnicode_GET_LENGTH(key))
        return 1 if match == RS_KEY_EQUAL else 0 if match == RS_KEY_DIFFERS else -1

    cdef int key_equals_int(self, int store, uint64_t index, int64_t key) except -2:
        """Compares a record with an int of 64 bits, as key_equals_str does."""
        if not self.is_usual():
            self.require_open()
        cdef rs_key_match match = rs_store_key_equals_int(self.numbered(store), index, key)
        return 1 if match == RS_KEY_EQUAL else 0 if match == RS_KEY_DIFFERS else -1

    cdef object get(self, int store, uint64_t index):
        """Decodes a record. `index` must be in range."""
        cdef rs_record record
        cdef rs_error err
        if not self.is_usual():
            self.require_open()
        cdef rs_status status = rs_store_find(&self.store if store == 0 else &self.mapping.keys, index, &record, &err)
        if status != RS_OK or pointer_at(&record.tree.program) == NULL:
            return self.get_first(store, index, status, record.tree, &err)
        # Decoding arrays runs Python code, which may switch threads. `busy` keeps the mapping until this call ends.
        if not FREE_THREADED:
            self.busy += 1
        cdef PyObject *value = record_at(&self.store, &record, <PyObject *>self if self.views_ else NULL)
        if not FREE_THREADED:
            self.busy -= self.busy > 0  # `forget_calls` sets it to 0 in a child that is forked during the call
        if value == NULL:
            self.fail(store, index)
        out = <object>value
        Py_DECREF(value)
        if flag_of(&self.closing):
            self.leave_closing()
        return out

    cdef int fail(self, int store, uint64_t index) except -1:
        """Raises the exception that decoding has set, with the record named. Unmaps if `close` waits for this call."""
        try:
            name_record(self, store, index, RS_OK, NULL)
        finally:
            if flag_of(&self.closing):
                self.leave_closing()

    cdef object get_first(self, int store, uint64_t index, rs_status found, const rs_tree *tree, rs_error *err):
        """The slow part of `get`, for a record that was not found and for the first record of a tree, which needs a
        Program."""
        if found == RS_E_STATE_ABSENT:
            self.fetch(err.offset, err.needed)
            return self.get(store, index)
        if found != RS_OK:
            name_record(self, store, index, found, err)
        self.enter()
        try:
            self.program(tree)
        except errors.Error as e:
            raise in_record(e, self, store, index) from None
        finally:
            self.leave()
        return self.get(store, index)

    cdef Program program(self, const rs_tree *tree):
        """The Program of a tree of this segment."""
        cdef void *program = pointer_at(&tree.program)
        return <Program>program if program != NULL else program_of(tree, self.reader_, self.programs, self.entries)

    cdef Owner owner(self):
        """The owner of the leases of decoded arrays; None if arrays are copied."""
        return self if self.views_ else None

    def verify(self, limits=None):
        """The deep check of all bytes, mostly without the GIL. Raises CorruptError or VersionError."""
        try:
            self.fetch(0, self.seg.size_bytes)
            verify_segment(self, limits)
        except errors.Error as e:
            raise errors.of_file(e, self.file())
        self.verified = True

    def write_to(self, temporary, indexes=()):
        """Writes the bytes to the new file `temporary`, and adds saved indexes, each `(kind, Path)`. Raises OSError,
        OutOfSpaceError, and the errors of reading the fields; then no file is left."""
        cdef rs_segment_writer writer
        cdef rs_segment out
        cdef rs_error err
        cdef rs_status status
        encoded = encode_path(temporary)
        cdef const char *c_path = encoded
        self.fetch(0, self.seg.size_bytes)
        self.enter()
        try:
            check_path(rs_segment_writer_open(&writer, RS_BACKING_FILE, NULL, c_path, &err), &err, temporary)
            with nogil:
                status = rs_segment_writer_append(&writer, self.seg.data, self.store.header.segment_size, &err)
            if status == RS_OK and indexes:
                try:
                    save_indexes(&writer, self, indexes)
                except BaseException:
                    rs_segment_writer_abort(&writer)
                    raise
            if status == RS_OK:
                with nogil:
                    status = rs_segment_writer_finish(&writer, &out, &err)
            if status != RS_OK:
                rs_segment_writer_abort(&writer)
                if err.sys_errno == errno.EFAULT:
                    what = "the file of the store was truncated while it was being copied"
                    raise errors.CorruptError(what, filename=self.file())
                raise_status(&err, temporary)
        finally:
            self.leave()
        rs_segment_close(&out)

    cdef bint release(self):
        """Removes the name if this process owns it, unmaps and closes. False if the name could not be removed."""
        cdef rs_status status = RS_OK
        if not self.open_:
            return 0
        self.open_ = False
        self.sample = None
        self.programs.clear()  # breaks a reference cycle
        for reference in self.section_blobs.values():
            blob = reference()
            if blob is not None:
                (<Blob>blob).data = NULL
        if self.is_mapping:
            rs_mapping_close(&self.mapping)
        rs_store_close(&self.store)
        status = self.give_up_name()
        self.unmap()
        # A name that cannot be removed must not fail a close: the folder may be gone, or a later collect() removes it.
        return status == RS_OK

    cdef int give_up_name(self):
        """Removes the file name if this process owns it, and gives up the lease on it. The mapping stays."""
        cdef rs_status status = RS_OK
        cdef rs_bool removed
        cdef Py_ssize_t owner = count_of(&self.owned_by)
        if owner == 0 or self.path is None or owner != getpid():
            return status
        # From here on no Python function is called, because a KeyboardInterrupt would leave the name behind.
        set_count(&self.owned_by, 0)
        if self.backing != "named":
            return rs_os_unlink(self.encoded, &self.seg.identity, NULL)
        if self.kept:
            rs_os_touch(self.seg.fd)
            return status
        # Drops the lease before it tries the exclusive lock, and never upgrades, so that at least one of the last two
        # users finds the file unused.
        rs_os_close(&self.seg.fd)
        return rs_os_unlink_unused(self.encoded, False, &self.seg.identity, &removed, NULL)

    def unlink(self):
        """Removes the file of a directory segment if this process owns it. The file of a named segment goes only if no
        other process uses it. The mapping stays."""
        with cython.critical_section(self):
            self.give_up_name()

    def publish(self, path, between=None):
        """Gives a segment that was built as "named" its file name. Replaces an existing file by way of `between`, a
        free path in the same folder; without `between` raises SegmentExistsError. On OSError the segment is
        unchanged."""
        cdef rs_error err
        cdef const char *c_temporary = NULL
        cdef const char *c_between = NULL
        self.require_open()
        encoded = encode_path(path)
        if self.path is not None:
            temporary = encode_path(self.path)
            c_temporary = temporary
        if between is not None:
            encoded_between = encode_path(between)
            c_between = encoded_between
        check_path(rs_os_publish(self.seg.fd, c_temporary, encoded, c_between, &err), &err, path)
        self.backing, self.path, self.encoded, self.owned_by = "named", path, encoded, getpid()

    def touch(self):
        """Sets the times of the file to now, the time of its last use. Does nothing if that is not permitted."""
        self.require_open()
        rs_os_touch(self.seg.fd)

    def disown(self):
        """Leaves the file for another object or process to remove."""
        set_count(&self.owned_by, 0)

    def drop_temporary(self):
        """Removes the temporary name of a segment that was built as "named" on a system without nameless files."""
        if self.backing == "shm" and self.path is not None:
            self.give_up_name()
            self.path = None

    def close(self):
        """Unmaps the segment, or lets the last call of other threads do so. A second close does nothing. Raises
        BusyError while arrays over the segment are alive."""
        cdef Py_ssize_t leases = count_of(&self.leases)
        if leases > 0 and not flag_of(&self.closing):
            raise busy_error(leases)
        set_flag(&self.closing)
        if FREE_THREADED:
            with cython.critical_section(self):
                self.give_up_name()
                rs_os_close(&self.seg.fd)  # also gives up the lease on a name
        else:
            self.leave_closing()


cdef object busy_error(Py_ssize_t leases):
    n = "1 array over its bytes is" if leases == 1 else f"{leases} arrays over its bytes are"
    return errors.BusyError(f"the store cannot be closed: {n} alive; drop them, or copy what is needed longer")


def close_all(list segments):
    """Closes all of these segments. Raises BusyError, and closes none, while arrays over a segment are alive."""
    cdef Segment segment
    cdef Py_ssize_t leases = 0
    for segment in segments:
        if not flag_of(&segment.closing):
            leases += count_of(&segment.leases)
    if leases > 0:
        raise busy_error(leases)
    # No other thread runs from the check to the end of this loop, because nothing calls Python code.
    for segment in segments:
        set_flag(&segment.closing)
    for segment in segments:
        segment.close()


cdef object in_record(error, Segment segment, int store, uint64_t index):
    """Adds the record and the file to an error of decoding. Returns any other error unchanged."""
    if type(error) not in RECORD_ERRORS:
        return error
    text = error.args[0] if error.args else ""
    new_error = type(error)(f"{'record' if store == 0 else 'key'} {index}: {text}")
    return new_error if segment is None else errors.of_file(new_error, segment.file())


cdef int name_record(Segment segment, int store, uint64_t index, rs_status status, rs_error *err) except -1:
    """Raises the error of a status, or for RS_OK the current exception, with the record named."""
    try:
        if status != RS_OK:
            raise_status(err)
        raise_what_is_set()
    except errors.Error as e:
        raise in_record(e, segment, store, index) from None
