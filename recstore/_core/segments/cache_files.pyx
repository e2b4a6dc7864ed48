"""The files of caches: many processes write values to one file, and read them. See csrc/cache/rs_cache.h.

A value is encoded as one `any` value with its large arrays beside it, like a record for a builder. A forked child
shares the file with its parent, but not the space that the parent writes to.
"""

cdef extern from "recstore.h" nogil:
    rs_status rs_os_open_readonly(const char *path, rs_bool follow_links, int *out_fd, rs_error *err)
    rs_status rs_os_create_nameless(const char *directory, const char *temporary, rs_bool allow_nameless, int *out_fd,
                                    rs_bool *out_nameless, rs_error *err)
    rs_status rs_os_open_leased_writable(const char *path, int *out_fd, rs_error *err)

    enum:
        RS_CACHE_PROCESSES, RS_CACHE_COUNTERS
    ctypedef enum rs_cache_outcome:
        RS_CACHE_STORED, RS_CACHE_EXISTS, RS_CACHE_FULL
    ctypedef struct rs_cache_layout:
        uint64_t slots, limit_bytes, seed, created_ns, table_end
        rs_bool kept
        uint8_t *id
    ctypedef struct rs_cache_process:
        uint64_t pid
        uint64_t start_time
        uint64_t *counters
    ctypedef struct rs_cache:
        int fd
        rs_os_identity identity
        rs_cache_layout layout
    ctypedef struct rs_cache_arena:
        int fd
    ctypedef struct rs_cache_value:
        uint64_t hash
        rs_slice form, key, body, arrays
    rs_status rs_cache_create(int fd, uint64_t slots, uint64_t limit_bytes, rs_bool kept, rs_slice label,
                              rs_error *err)
    rs_status rs_cache_open(int fd, rs_cache *out, rs_error *err)
    rs_status rs_cache_inspect(int fd, rs_cache_layout *out, rs_buffer *label, rs_error *err)
    rs_status rs_cache_count_file(int fd, uint64_t *out, rs_error *err)
    void rs_cache_close(rs_cache *self)
    rs_status rs_cache_find(const rs_cache *self, uint64_t hash, rs_slice form, rs_bool *found, rs_cache_value *out,
                            rs_error *err)
    rs_status rs_cache_check_file(const rs_cache *self, rs_error *err)
    rs_bool rs_cache_admits(const rs_cache *self, uint64_t hash)
    rs_status rs_cache_put(rs_cache *self, rs_cache_arena *arena, const rs_cache_value *value,
                           rs_cache_outcome *outcome, rs_error *err)
    rs_status rs_cache_open_arena(const rs_cache *self, rs_cache_arena *out, rs_error *err)
    void rs_cache_close_arena(rs_cache_arena *arena)
    rs_status rs_cache_scan(const rs_cache *self, uint64_t *position, rs_bool *found, rs_cache_value *out,
                            rs_error *err)
    uint64_t rs_cache_count(const rs_cache *self, uint64_t *table_bytes)
    uint64_t rs_cache_used(const rs_cache *self)
    rs_cache_process *rs_cache_rows(const rs_cache *self)
    rs_cache_process *rs_cache_claim_row(const rs_cache *self, uint64_t pid, uint64_t start_time)
    rs_status rs_cache_check(const rs_cache *self, const rs_cache_value *value, rs_error *err)
    ctypedef enum rs_cache_state:
        RS_CACHE_STORING, RS_CACHE_SEALING, RS_CACHE_SEALED
    void rs_cache_set_state(const rs_cache *self, rs_cache_state state)
    rs_cache_state rs_cache_get_state(const rs_cache *self)
    rs_status rs_cache_try_lock_seal(const rs_cache *self, const rs_cache_arena *arena, rs_bool *locked, rs_error *err)
    void rs_cache_unlock_seal(const rs_cache *self, const rs_cache_arena *arena)
    rs_status rs_cache_seal(const rs_cache *self, rs_cache_arena *arena, const rs_cache_value *values,
                            uint64_t n_values, rs_slice keys, rs_slice label, uint64_t n_pairs, rs_watch *watch,
                            rs_error *err)


# The counters of a process, in order: hits, misses, values stored, values that another writer stored first, values that
# found no space, and values of types that cannot be stored.
CACHE_HITS, CACHE_MISSES, CACHE_STORED, CACHE_LOST, CACHE_FULL, CACHE_REFUSED = range(RS_CACHE_COUNTERS)
cdef enum:
    HITS_ = 0
    MISSES_ = 1


cdef class CacheArena:
    """The space of one writer."""

    cdef rs_cache_arena core

    def __cinit__(self):
        self.core.fd = -1

    def __dealloc__(self):
        rs_cache_close_arena(&self.core)


cdef class CacheBatch:
    """The values of some keys. Closing the cache raises BusyError until the batch is released, as at the end of a
    `with` statement."""

    cdef CacheFile file
    cdef rs_cache_value *values  # the values of `hits`, in order
    cdef Py_ssize_t n
    cdef readonly list hits      # positions in the keys
    cdef readonly list misses

    def __dealloc__(self):
        self.release()

    cdef void release(self):
        free(self.values)
        self.values, self.n = NULL, 0
        if self.file is not None:
            count_up(&self.file.leases, -1)
            self.file = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The traceback of an error keeps the batch alive.
        self.release()


@cython.no_gc_clear  # __dealloc__ needs path
@cython.final
cdef class CacheFile(Owner):
    """An open cache. Made by create_cache and open_cache.

    Attributes:
        path: the path of the file.
        checks: whether each hit is compared with its checksum.
    """

    cdef object __weakref__
    cdef rs_cache core
    cdef rs_cache_process *row
    cdef Program program
    cdef object start_time
    cdef bint row_is_claimed     # `row` is set, to NULL if no row was free
    cdef list arenas
    cdef int64_t arenas_pid      # the id of the process that `arenas` belong to
    cdef Py_ssize_t busy
    cdef bint open_, closing, views
    cdef bytes encoded
    cdef readonly str path
    cdef public bint checks

    def __cinit__(self):
        self.core.fd = -1

    def __dealloc__(self):
        self.release()

    cdef int begin(self, int fd, str path, bytes encoded) except -1:
        """Takes over the descriptor. Runs no Python code, so an interrupt leaves no file."""
        cdef rs_error err
        self.core.fd = fd
        self.path, self.arenas = path, []
        check_path(rs_cache_open(fd, &self.core, &err), &err, path)
        self.encoded = encoded
        self.open_ = True
        return 0

    def set_options(self, reader, start_time):
        """Sets how values are read. Called before the first read. `start_time` is a function of a process id."""
        self.program, self.start_time = plain_program(reader), start_time
        self.views = reader.arrays == "view"

    # ---- Life ----

    cdef int enter(self, bint checked=False) except -1:
        """Begins a call that reads the mapping. The mapping stays until `leave`. Checks the file, unless the caller
        says with `checked` that its first C function does."""
        cdef rs_error err
        if self.closing or not self.open_:
            raise errors.ClosedError("the cache is closed")
        if not checked or not self.row_is_claimed:
            check_path(rs_cache_check_file(&self.core, &err), &err, self.path)
        if not self.row_is_claimed:
            self.claim_row()
        count_up(&self.busy, 1)
        return 0

    cdef void leave(self):
        # `forget_calls` sets `busy` to 0 in a child that is forked during the call.
        if count_of(&self.busy) > 0 and count_up(&self.busy, -1) == 0 and self.closing:
            self.leases_ended()

    def forget_calls(self):
        """For a forked child: the threads that used the cache, and their space, exist only in the parent."""
        self.busy, self.row_is_claimed, self.row = 0, False, NULL
        self.arenas = []

    cdef void leases_ended(self):
        if self.closing and not FREE_THREADED and self.busy == 0 and self.leases == 0:
            self.release()

    cdef int claim_row(self) except -1:
        self.row = rs_cache_claim_row(&self.core, getpid(), self.start_time(getpid()) or 0)
        self.row_is_claimed = True
        return 0

    @property
    def closed(self):
        return bool(self.closing or not self.open_)

    def close(self):
        """Ends the use of the cache. Raises BusyError while arrays over it or a CacheBatch exist. The last user of a
        cache that is not kept removes its file."""
        if count_of(&self.leases) > 0:
            raise errors.BusyError(f"{count_of(&self.leases)} arrays over the cache are alive; delete them first")
        set_flag(&self.closing)
        self.leases_ended()

    @property
    def owner_pid(self):
        """This process, because the exit of a process removes the cache if no other process uses it."""
        return getpid()

    def unlink(self):
        """Like `close`, for the exit of the process: arrays over the cache stay valid."""
        set_flag(&self.closing)
        if self.busy == 0 and self.leases == 0:
            self.release()
        elif self.busy == 0:
            rs_os_close(&self.core.fd)
            self.give_up_name()

    cdef void give_up_name(self):
        cdef rs_bool _removed
        cdef rs_status _ignored
        if not self.core.layout.kept and self.encoded is not None:
            _ignored = rs_os_unlink_unused(self.encoded, False, &self.core.identity, &_removed, NULL)

    cdef void release(self):
        if self.core.fd < 0:
            return
        self.arenas = None
        self.row = NULL
        if self.open_:
            self.open_ = False
            rs_cache_close(&self.core)
        else:
            rs_os_close(&self.core.fd)
        self.give_up_name()

    # ---- Facts ----

    @property
    def slots(self):
        return self.core.layout.slots

    @property
    def limit(self):
        return self.core.layout.limit_bytes

    @property
    def kept(self):
        """Whether the file stays when its last user closes it."""
        return bool(self.core.layout.kept)

    def label(self):
        """The bytes of the label."""
        return inspect_descriptor(self.core.fd, self.path)["label"]

    def count(self):
        """`(number of values, reserved bytes of the table)`."""
        cdef uint64_t table_bytes, n
        self.enter()
        try:
            with nogil:
                n = rs_cache_count(&self.core, &table_bytes)
            return n, table_bytes
        finally:
            self.leave()

    def used(self):
        """The bytes of all values, including those lost to a faster writer."""
        self.enter()
        try:
            return rs_cache_used(&self.core)
        finally:
            self.leave()

    def rows(self):
        """`(pid, start time, counters)` of up to RS_CACHE_PROCESSES processes that have used the cache."""
        cdef rs_cache_process *rows
        cdef int i, k
        self.enter()
        try:
            rows = rs_cache_rows(&self.core)
            if rows == NULL:
                raise errors.CorruptError("the file of the cache has been cut", filename=self.path)
            return [(rows[i].pid, rows[i].start_time, tuple([rows[i].counters[k] for k in range(RS_CACHE_COUNTERS)]))
                    for i in range(RS_CACHE_PROCESSES) if rows[i].pid != 0]
        finally:
            self.leave()

    def counters(self):
        """The counters of this process, in the order of CACHE_HITS to CACHE_REFUSED."""
        cdef int k
        self.enter()
        try:
            if self.row == NULL or rs_cache_rows(&self.core) == NULL:
                return (0,) * RS_CACHE_COUNTERS
            return tuple([self.row.counters[k] for k in range(RS_CACHE_COUNTERS)])
        finally:
            self.leave()

    cdef inline void tally(self, int kind, uint64_t n=1):
        if self.row != NULL:
            self.row.counters[kind] += n

    def note(self, int kind):
        """Adds one to a counter of this process."""
        self.enter()
        if rs_cache_rows(&self.core) != NULL:
            self.tally(kind)
        self.leave()

    # ---- Keys ----

    cdef object slot_of(self, object key):
        if type(key) is not int and hasattr(type(key), "is_integer") and key.is_integer():  # floats, also of numpy
            key = int(key)
        return operator.index(key)

    cdef uint64_t slot(self, object key) except? 0xFFFFFFFFFFFFFFFF:
        """The slot of an int key. Raises IndexError if it is out of range, and TypeError for other keys."""
        try:
            number = self.slot_of(key)
        except TypeError:
            raise TypeError(f"the keys of a cache with slots= are ints, not {type(key).__name__}") from None
        if not 0 <= number < self.core.layout.slots:
            raise IndexError(f"the key {number} is not among the {self.core.layout.slots:,} slots of the cache")
        return number

    cdef object form(self, object key, uint64_t *hash_out):
        """Returns the form of a key, and sets *hash_out to the form's hash. Raises TypeError for a key without one."""
        form = key_form(key)
        if form is None:
            why = "the equality of this value is unknown" if isinstance(key, Hashable) else "it is not hashable"
            raise TypeError(f"{an(type(key).__name__)} cannot be a key of a cache: {why}; use a str, an int or a tuple "
                            "of them")
        hash_out[0] = rs_hash64(PyBytes_AS_STRING(form), PyBytes_GET_SIZE(form), self.core.layout.seed)
        return form

    cdef bint find(self, object key, rs_cache_value *out) except -1:
        """Looks up a key. The caller must have entered the cache."""
        cdef rs_error err
        cdef rs_bool found
        cdef rs_slice form = rs_slice_of(NULL, 0)
        cdef uint64_t hash_ = 0
        if self.core.layout.slots != 0:
            hash_ = self.slot(key)
        else:
            form_bytes = self.form(key, &hash_)
            form = rs_slice_of(PyBytes_AS_STRING(form_bytes), PyBytes_GET_SIZE(form_bytes))
        check_path(rs_cache_find(&self.core, hash_, form, &found, out, &err), &err, self.path)
        if not found:
            return False
        if rs_slice_left(&out.key) != 0 and self.key_of(out) != key:
            return False  # another key of the same form
        if self.checks:
            check_path(rs_cache_check(&self.core, out, &err), &err, self.path)
        return True

    cdef object key_of(self, const rs_cache_value *value):
        """The key of a value."""
        if self.core.layout.slots != 0:
            return value.hash
        if rs_slice_left(&value.key) != 0:
            return self.decode(&value.key, NULL)
        return self.decode(&value.form, NULL)

    cdef object decode(self, const rs_slice *body, const rs_slice *arrays):
        """Decodes one `any` value. Its arrays are copies if `arrays` is NULL or the reader does not make views."""
        cdef decode_state c
        cdef rs_slice array_bytes = rs_slice_of(NULL, 0)
        if arrays != NULL:
            array_bytes = arrays[0]
        cdef size_t size = rs_slice_left(body), arrays_size = rs_slice_left(&array_bytes)
        set_cursor(&c.cursor, body.ptr, size, array_bytes.ptr, arrays_size)
        c.cursor.budget.bytes += arrays_size
        self.program.start(&c)
        if arrays != NULL and self.views:
            c.owner = <PyObject *>self
        value = decode_any(&c)
        if c.cursor.in_.ptr != c.cursor.in_.end:
            codec_corrupt(b"a value of the cache has bytes after its end")
        return value

    # ---- Reading ----

    def get(self, key, default=None):
        """The value of a key, or `default`."""
        cdef rs_cache_value value
        self.enter(True)
        try:
            if not self.find(key, &value):
                self.tally(MISSES_)
                return default
            self.tally(HITS_)
            return self.decode(&value.body, &value.arrays)
        finally:
            self.leave()

    def contains(self, key):
        cdef rs_cache_value value
        self.enter(True)
        try:
            return self.find(key, &value)
        except IndexError:
            return False
        finally:
            self.leave()

    def keys_from(self, uint64_t position, Py_ssize_t most):
        """Up to `most` keys from a position of the table on, and the next position; None after the last key."""
        cdef rs_cache_value value
        cdef rs_error err
        cdef rs_bool found = True
        out = []
        self.enter()
        try:
            while len(out) < most:
                check_path(rs_cache_scan(&self.core, &position, &found, &value, &err), &err, self.path)
                if not found:
                    return out, None
                out.append(self.key_of(&value))
            return out, position
        finally:
            self.leave()

    def locate(self, list keys):
        """A CacheBatch of the keys that have a value."""
        cdef CacheBatch batch = CacheBatch.__new__(CacheBatch)
        cdef Py_ssize_t i
        batch.hits, batch.misses = [], []
        batch.values = <rs_cache_value *>calloc(len(keys) or 1, sizeof(rs_cache_value))
        if batch.values == NULL:
            raise MemoryError
        self.enter(True)
        try:
            for i in range(len(keys)):
                if self.find(keys[i], &batch.values[batch.n]):
                    batch.hits.append(i)
                    batch.n += 1
                else:
                    batch.misses.append(i)
            self.tally(HITS_, len(batch.hits))
            self.tally(MISSES_, len(batch.misses))
            count_up(&self.leases, 1)
            batch.file = self
        finally:
            self.leave()
        return batch

    def value_of(self, CacheBatch batch, Py_ssize_t i):
        """The decoded value of hit number i."""
        if not 0 <= i < batch.n:
            raise IndexError(i)
        self.enter()
        try:
            return self.decode(&batch.values[i].body, &batch.values[i].arrays)
        finally:
            self.leave()

    def copy_rows(self, CacheBatch batch, out, Py_ssize_t row_bytes):
        """Copies the arrays of the hits, without the interpreter lock, into a writable buffer with a row per key, and
        returns -1. If a hit has no row, or is not an array of `row_bytes` bytes in C order with the type and shape of
        the first hit, copies nothing and returns the number of the first such hit."""
        cdef Py_buffer view
        cdef Py_ssize_t i, n = batch.n, misfit = -1
        cdef uint8_t *to
        cdef const uint8_t **sources
        cdef Py_ssize_t *rows
        cdef rs_slice first, head
        cdef const uint8_t *data
        if n == 0:
            return -1
        PyObject_GetBuffer(out, &view, PyBUF_WRITABLE)
        sources = <const uint8_t **>malloc(n * sizeof(uint8_t *))
        rows = <Py_ssize_t *>malloc(n * sizeof(Py_ssize_t))
        try:
            if sources == NULL or rows == NULL:
                raise MemoryError
            for i in range(n):
                rows[i] = batch.hits[i]
                if not array_of(&batch.values[i], &head, &data, row_bytes) or (rows[i] + 1) * row_bytes > view.len:
                    misfit = i
                    break
                if i == 0:
                    first = head
                elif (rs_slice_left(&head) != rs_slice_left(&first)
                        or memcmp(head.ptr, first.ptr, rs_slice_left(&head)) != 0):
                    misfit = i
                    break
                sources[i] = data
            if misfit < 0:
                to = <uint8_t *>view.buf
                with nogil:
                    for i in range(n):
                        memcpy(to + rows[i] * row_bytes, sources[i], row_bytes)
            return misfit
        finally:
            PyBuffer_Release(&view)
            free(sources)
            free(rows)

    # ---- Writing ----

    def admits(self, key):
        """Whether the key belongs to the part of a cache that fits within the limit."""
        cdef uint64_t hash_
        if self.core.layout.slots == 0:
            return True
        self.enter()
        try:
            hash_ = self.slot(key)
            return rs_cache_admits(&self.core, hash_)
        finally:
            self.leave()

    cdef CacheArena arena(self):
        """The space for one write. Two threads get two arenas."""
        cdef CacheArena arena
        cdef rs_error err
        if self.arenas_pid != getpid():
            self.arenas, self.arenas_pid = [], getpid()
        try:
            return self.arenas.pop()
        except IndexError:
            arena = CacheArena.__new__(CacheArena)
            check_path(rs_cache_open_arena(&self.core, &arena.core, &err), &err, self.path)
            return arena

    def put(self, key, value):
        """Stores a value and returns CACHE_STORED, CACHE_LOST or CACHE_FULL. Raises EncodeError, and IndexError or
        TypeError for a wrong key."""
        cdef rs_buffer raw, arrays, key_bytes
        cdef rs_cache_value parts
        cdef rs_cache_outcome outcome
        cdef rs_error err
        cdef rs_status status
        cdef CacheArena arena
        memset(&raw, 0, sizeof(rs_buffer))
        memset(&arrays, 0, sizeof(rs_buffer))
        memset(&key_bytes, 0, sizeof(rs_buffer))
        memset(&parts, 0, sizeof(rs_cache_value))
        self.enter()
        try:
            if self.core.layout.slots != 0:
                parts.hash = self.slot(key)
            else:
                form = self.form(key, &parts.hash)
                parts.form = rs_slice_of(PyBytes_AS_STRING(form), PyBytes_GET_SIZE(form))
                writer = trust.Writer(offers_pickle=False)
                encode_value(&key_bytes, NULL, key, writer, True)
                if writer.seen is not None:
                    # Other processes could not compare this key, but could compare an equal plain key: for a
                    # namedtuple, the tuple.
                    try:
                        if self.decode(&parts.form, NULL) != key:
                            refuse_unregistered(writer)
                    except errors.UntrustedError:
                        refuse_unregistered(writer)
                elif (key_bytes.size_bytes != <size_t>len(form)
                        or memcmp(key_bytes.data, PyBytes_AS_STRING(form), len(form)) != 0):
                    parts.key = rs_slice_of(key_bytes.data, key_bytes.size_bytes)
            # Arrays keep their layout in memory, so that readers can gather and view them.
            writer = trust.Writer(arrays="view", offers_pickle=False, registered_only=True)
            encode_value(&raw, &arrays, value, writer)
            parts.body = rs_slice_of(raw.data, raw.size_bytes)
            parts.arrays = rs_slice_of(arrays.data, arrays.size_bytes)
            arena = self.arena()
            with nogil:
                status = rs_cache_put(&self.core, &arena.core, &parts, &outcome, &err)
            if self.arenas_pid == getpid():
                self.arenas.append(arena)
            check_path(status, &err, self.path)
            kind = (CACHE_STORED if outcome == RS_CACHE_STORED else CACHE_LOST if outcome == RS_CACHE_EXISTS
                    else CACHE_FULL)
            self.tally(kind)
            return kind
        finally:
            rs_buffer_clear(&raw)
            rs_buffer_clear(&arrays)
            rs_buffer_clear(&key_bytes)
            self.leave()

    # ---- Sealing ----

    def leads(self):
        """Whether the path still leads to this file."""
        return bool(rs_os_leads_to(self.encoded, self.core.fd))

    @property
    def stores(self):
        """Whether the cache stores values: no process seals it or has sealed it."""
        self.enter()
        try:
            return rs_cache_get_state(&self.core) == RS_CACHE_STORING
        finally:
            self.leave()

    def seal(self, keys_segment, label):
        """Makes the file a segment of its values, unless it is one, and ends storing. Returns False while another
        process does so. `keys_segment` makes the Segment of a mapping with a list of keys; `label` is from
        Label.pack. Raises OutOfSpaceError, CorruptError, UntrustedError, and OSError on a system without locks on
        ranges of a file."""
        cdef rs_error err
        cdef rs_bool locked = False
        cdef CacheBatch batch = CacheBatch.__new__(CacheBatch)
        cdef CacheArena arena = CacheArena.__new__(CacheArena)
        self.enter()
        count_up(&self.leases, 1)
        batch.file = self
        try:
            check_path(rs_cache_open_arena(&self.core, &arena.core, &err), &err, self.path)
            check_path(rs_cache_try_lock_seal(&self.core, &arena.core, &locked, &err), &err, self.path)
            if not locked:
                return False
            if rs_cache_get_state(&self.core) == RS_CACHE_SEALED:
                return True
            rs_cache_set_state(&self.core, RS_CACHE_SEALING)
            try:
                keys = self.take_all(batch)
                self.write_segment(batch, arena, None if keys is None else keys_segment(keys), label)
            finally:
                if rs_cache_get_state(&self.core) != RS_CACHE_SEALED:
                    rs_cache_set_state(&self.core, RS_CACHE_STORING)
            return True
        finally:
            if locked:
                rs_cache_unlock_seal(&self.core, &arena.core)
            batch.release()
            self.leave()

    cdef list take_all(self, CacheBatch batch):
        """Fills an empty batch with all values. Returns the keys in this order; None for the slots in order."""
        cdef rs_error err
        cdef rs_bool found
        cdef uint64_t table_bytes, position = 0, n = rs_cache_count(&self.core, &table_bytes)
        keys = [] if self.core.layout.slots == 0 else None
        batch.values = <rs_cache_value *>calloc(n or 1, sizeof(rs_cache_value))
        if batch.values == NULL:
            raise MemoryError
        while <uint64_t>batch.n < n:
            key = batch.n
            if keys is not None:
                check_path(rs_cache_scan(&self.core, &position, &found, &batch.values[batch.n], &err), &err, self.path)
                if not found:
                    break
                key = self.key_of(&batch.values[batch.n])
                keys.append(key)
            self.take_value(key, &batch.values[batch.n])
            batch.n += 1
            PyErr_CheckSignals()
        return keys

    cdef int take_value(self, object key, rs_cache_value *value) except -1:
        """Finds the value of a key, and checks it. With hashed keys, it must be `value`."""
        cdef rs_error err
        cdef rs_status status
        cdef const uint8_t *body = value.body.ptr
        try:
            if not self.find(key, value) or body != NULL and value.body.ptr != body:
                raise errors.CorruptError("the key does not lead to it", filename=self.path)
            with nogil:
                status = rs_cache_check(&self.core, value, &err)
            check_path(status, &err, self.path)
        except errors.CorruptError as error:
            error.args = (f"the value of the key {key!r:.80} is damaged: {error.args[0]}; `recstore rm` removes the "
                          "cache",)
            raise
        return 0

    cdef int write_segment(self, CacheBatch batch, CacheArena arena, Segment keys_segment, tuple label) except -1:
        cdef rs_error err
        cdef rs_status status
        cdef rs_slice keys = rs_slice_of(NULL, 0), label_bytes
        cdef uint64_t n_pairs = label[0]
        cdef rs_watch watch
        packed = label[1]
        label_bytes = rs_slice_of(PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
        if keys_segment is not None:
            keys = keys_segment.store.segment
        watch.stopped, watch.arg, watch.work = is_interrupted, PyThreadState_Get(), 0
        with nogil:
            status = rs_cache_seal(&self.core, &arena.core, batch.values, batch.n, keys, label_bytes, n_pairs, &watch,
                                   &err)
        if status == RS_E_STATE_STOPPED:
            raise_what_is_set()
        return check_path(status, &err, self.path)


cdef int refuse_unregistered(object writer) except -1:
    """Raises EncodeError if the writer has stored objects of unregistered classes."""
    names = [name for name in writer.seen or () if name not in trust.registered]
    if names:
        raise errors.EncodeError(trust.unregistered(names))
    return 0


cdef bint array_of(const rs_cache_value *value, rs_slice *head, const uint8_t **data, uint64_t size) noexcept:
    """Whether a value is an array or tensor of `size` bytes, stored in C order; if so, sets *head to its type and
    shape and *data to its bytes. The value may change while it is read."""
    cdef rs_slice in_ = value.body, extra
    cdef rs_array_type t
    cdef rs_error err
    cdef uint64_t dims[RS_FMT_ARRAY_NDIM]
    cdef uint64_t all_bytes = 0, outside = 0
    cdef uint32_t ndim = 0
    if rs_slice_left(&in_) < 3:
        return False
    if in_.ptr[0] == RS_FMT_TAG_EXT:
        if in_.ptr[1] != RS_FMT_EXT_TENSOR:
            return False
        in_.ptr += 1
        if rs_any_ext_head(&in_, &extra, &err) != RS_OK:
            return False
    if rs_slice_left(&in_) < 1 or in_.ptr[0] != RS_FMT_TAG_NDARRAY:
        return False
    in_.ptr += 1
    if rs_array_type_take(&in_, &t, &err) != RS_OK or t.width != 0:
        return False
    if t.flags & (RS_FMT_ARRAY_SCALAR | RS_FMT_ARRAY_FORTRAN):
        return False
    if rs_array_shape_take(&in_, t.item_bytes, &ndim, dims, &all_bytes, &err) != RS_OK or all_bytes != size:
        return False
    head.ptr = value.body.ptr
    head.end = in_.ptr
    if rs_array_data_skip(&in_, size, rs_slice_left(&value.arrays), &outside, &err) != RS_OK:
        return False
    data[0] = in_.ptr - size if outside == RS_NOWHERE else value.arrays.ptr + outside
    return True


# ---- Opening ----

def create_cache(str directory, str temporary, str path, uint64_t slots, uint64_t limit, bint kept, bytes label):
    """Creates a cache and gives it its name. Raises SegmentExistsError if a file has this name."""
    cdef rs_error err
    cdef int fd = -1
    cdef rs_bool nameless
    cdef CacheFile out = CacheFile.__new__(CacheFile)
    cdef const char *c_temporary = NULL
    folder, name, target = encode_path(directory), encode_path(os.path.join(directory, temporary)), encode_path(path)
    check_path(rs_os_create_nameless(folder, name, True, &fd, &nameless, &err), &err, directory)
    out.core.fd = fd  # `out` closes it
    if not nameless:
        c_temporary = name
    try:
        os.fchmod(fd, 0o600)
        check_path(rs_cache_create(fd, slots, limit, kept, rs_slice_of(PyBytes_AS_STRING(label), len(label)), &err),
                   &err, directory)
        out.begin(fd, path, target)
        # From here on no Python function is called, because a KeyboardInterrupt would leave the name behind.
        check_path(rs_os_publish(fd, c_temporary, target, NULL, &err), &err, path)
    except BaseException:
        if c_temporary != NULL:
            os.unlink(name)
        raise
    return out


def open_cache(str path):
    """Opens a cache. Raises SegmentNotFoundError, CorruptError, VersionError, PermissionError, BusyError."""
    cdef rs_error err
    cdef int fd = -1
    cdef CacheFile out = CacheFile.__new__(CacheFile)
    encoded = encode_path(path)
    check_path(rs_os_open_leased_writable(encoded, &fd, &err), &err, path)
    out.begin(fd, path, encoded)
    return out


cdef dict inspect_descriptor(int fd, path):
    cdef rs_cache_layout layout
    cdef rs_buffer label
    cdef rs_error err
    memset(&label, 0, sizeof(rs_buffer))
    try:
        check_path(rs_cache_inspect(fd, &layout, &label, &err), &err, path)
        return {"slots": layout.slots, "limit": layout.limit_bytes, "created_ns": layout.created_ns,
                "label": PyBytes_FromStringAndSize(<const char *>label.data, <Py_ssize_t>label.size_bytes)}
    finally:
        rs_buffer_clear(&label)


def inspect_cache(path, bint count=False):
    """The facts in the header of a cache: slots, limit, created_ns, label; with `count`, the number of values too, as
    `filled`. Takes no lease. Raises the errors of open_cache except BusyError."""
    cdef rs_error err
    cdef int fd = -1
    cdef uint64_t filled
    encoded = encode_path(path)
    check_path(rs_os_open_readonly(encoded, False, &fd, &err), &err, path)
    try:
        facts = inspect_descriptor(fd, path)
        if count:
            check_path(rs_cache_count_file(fd, &filled, &err), &err, path)
            facts["filled"] = filled
        return facts
    finally:
        rs_os_close(&fd)
