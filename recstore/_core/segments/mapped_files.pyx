"""Files of tokens where they lie: maps of many files, copies of runs of tokens, and the indexes of Megatron.

A run is adjacent tokens of the concatenation of all files, given by the number of its first token and its length. A
call compares the size, the modification time and the inode of each file that it reads with those at opening. So a file
that was replaced, rewritten or shortened is an error, and not other tokens or a SIGBUS. A stat of each file took as
long as copying 16 KiB of it, so a file is not compared again for CHECK_EVERY_NS. A file that shrinks in this time, or
while an array over it is read, can still end the process.
"""


cdef enum:
    MOST_MAPPED = 16384  # files; Linux allows a process 65,530 maps
    CHECK_EVERY_NS = 100000000
    COPIES = 256         # the copies that one release of the interpreter lock makes
    INDEX_HEADER = 34    # the bytes before the sizes in an index of Megatron


cdef class MappedFile(Owner):
    """A file that stays mapped until the last reference goes."""

    cdef const uint8_t *data
    cdef uint64_t size

    def __dealloc__(self):
        rs_os_unmap(self.data, self.size)


cdef class FileMaps:
    """Files that are mapped when they are first read. Without leases, the file that was mapped first is dropped when
    more than ``most_mapped`` are. Safe from several threads.

    `stamps` has three 64-bit integers for each of the `paths`: size, modification time in ns, inode."""

    cdef readonly list paths
    cdef readonly bytes stamps
    cdef list files
    cdef dict mapped  # the numbers of the mapped files, in the order of mapping
    cdef readonly bint closed
    cdef public uint64_t check_every_ns
    cdef public Py_ssize_t most_mapped
    cdef uint64_t *checked_ns  # the times of the latest checks of the files

    def __cinit__(self, list paths not None, bytes stamps not None):
        self.check_every_ns, self.most_mapped = CHECK_EVERY_NS, MOST_MAPPED
        self.checked_ns = <uint64_t *>PyMem_Calloc(len(paths) + 1, sizeof(uint64_t))
        if self.checked_ns == NULL:
            raise MemoryError
        if len(stamps) != 24 * len(paths):
            raise ValueError(f"{len(paths)} paths need {24 * len(paths)} bytes of stamps, not {len(stamps)}")
        self.paths, self.stamps = paths, stamps
        self.files = [None] * len(paths)
        self.mapped = {}

    def __dealloc__(self):
        PyMem_Free(self.checked_ns)

    @property
    def n_mapped(self):
        return len(self.mapped)

    def require_open(self):
        """Raises ClosedError after `close`."""
        if self.closed:
            raise errors.ClosedError("the files of tokens are closed")

    cdef int check(self, Py_ssize_t i, rs_os_stamp *found) except -1:
        """Raises InputError if file i is not the file that was opened."""
        cdef rs_error err
        cdef const uint64_t *expected = <const uint64_t *>PyBytes_AS_STRING(self.stamps) + 3 * i
        path = encode_path(self.paths[i])
        check_path(rs_os_stamp_of(path, found, &err), &err, self.paths[i])
        if found.size_bytes != expected[0] or found.modified_ns != expected[1] or found.inode != expected[2]:
            raise errors.InputError(
                f"{self.paths[i]}: the file changed after it was opened; open it again when it is complete"
            )
        return 0

    def check_all(self):
        """Raises InputError if a file is not the file that was opened."""
        cdef rs_os_stamp found
        for i in range(len(self.paths)):
            self.check(i, &found)

    cdef MappedFile at(self, Py_ssize_t i, uint64_t now_ns):
        """File i, mapped and unchanged."""
        cdef rs_os_stamp found
        cdef MappedFile file = self.files[i]
        if self.closed:
            self.require_open()
        # Unsigned, so that the file is also checked after the clock went back.
        if file is not None and now_ns - self.checked_ns[i] < self.check_every_ns:
            return file
        self.check(i, &found)
        self.checked_ns[i] = now_ns
        if file is None:
            file = self.mapping_of(i, &found)
            with cython.critical_section(self):
                self.files[i] = file
                self.mapped[i] = None
                if len(self.mapped) > self.most_mapped:
                    self.drop_oldest()
        return file

    cdef MappedFile mapping_of(self, Py_ssize_t i, rs_os_stamp *expected):
        cdef MappedFile file = MappedFile.__new__(MappedFile)
        cdef rs_os_identity identity
        cdef rs_error err
        cdef int fd = -1
        path = self.paths[i]
        encoded = encode_path(path)
        check_path(rs_os_open_readonly(encoded, True, &fd, &err), &err, path)
        try:
            check_path(rs_os_identify(fd, &identity, &err), &err, path)
            if identity.inode != expected.inode or identity.size_bytes != expected.size_bytes:
                raise errors.InputError(f"{path}: the file changed while it was opened; open it again")
            if identity.size_bytes > 0:  # nothing can be mapped of an empty file
                check_path(rs_os_map(fd, identity.size_bytes, &file.data, &err), &err, path)
                file.size = identity.size_bytes
        finally:
            rs_os_close(&fd)
        return file

    cdef int drop_oldest(self) except -1:
        """Drops files without arrays over them, down to 7/8 of the bound."""
        for i in list(self.mapped):
            if len(self.mapped) <= self.most_mapped - self.most_mapped // 8:
                break
            if count_of(&(<MappedFile>self.files[i]).leases) == 0:
                self.files[i] = None
                del self.mapped[i]
        return 0

    def lease(self, Py_ssize_t i, uint64_t offset, uint64_t size):
        """A buffer over bytes of file i, which stays mapped while the buffer lives."""
        cdef MappedFile file = self.at(i, rs_os_now_ns())
        if offset > file.size or size > file.size - offset:
            raise IndexError(f"{self.paths[i]} has {file.size} bytes, not {size} from {offset}")
        return lease(file, file.data + offset, size)

    def __reduce__(self):
        import zlib
        paths = "\0".join(self.paths).encode("utf-8", "surrogateescape")
        return file_maps, (len(self.paths), zlib.compress(self.stamps + paths))

    def close(self):
        """Unmaps all files. Raises BusyError, and unmaps none, while arrays over them are alive."""
        cdef Py_ssize_t leases = 0
        with cython.critical_section(self):
            for i in self.mapped:
                leases += count_of(&(<MappedFile>self.files[i]).leases)
            if leases > 0:
                raise busy_error(leases)
            self.closed = True
            self.files = [None] * len(self.files)
            self.mapped = {}


def file_maps(n, packed):
    """The FileMaps of a pickled state."""
    import zlib
    content = zlib.decompress(packed)
    paths = content[24 * n:].decode("utf-8", "surrogateescape").split("\0") if n else []
    return FileMaps(paths, content[:24 * n])


# ---- Runs of tokens ----

cdef struct token_copy:
    uint8_t *target
    const uint8_t *source
    size_t size


cdef void copy_all(const token_copy *copies, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        memcpy(copies[k].target, copies[k].source, copies[k].size)


def copy_tokens(FileMaps files not None, ends, offsets, Py_ssize_t item_size, starts, counts, places, out):
    """Copies runs of tokens to `out`. All integers are int64 arrays.

    `ends` has the number of tokens in each file and those before it; `offsets` the bytes before the first token of each
    file. Run k is counts[k] tokens from number starts[k] on, and goes to place places[k] of `out`; places count tokens.
    Raises IndexError for a run outside the files or the buffer, InputError for a file that has changed."""
    cdef Span end = Span.of(ends, 8), offset = Span.of(offsets, 8), into = Span.of(out, item_size, True)
    cdef Span start = Span.of(starts, 8), count = Span.of(counts, 8), place = Span.of(places, 8)
    cdef token_copy copies[COPIES]
    cdef Py_ssize_t n = 0, k, i = -1, held = -1
    cdef int64_t at, left, target, size, base
    cdef uint64_t now_ns = rs_os_now_ns()
    cdef MappedFile file = None
    cdef list kept = []  # keeps the files mapped until they are copied
    if not (count.n == place.n == start.n and offset.n == end.n == len(files.files)):
        raise ValueError("starts, counts and places must have one length, and so must what describes the files")
    for k in range(start.n):
        at, left, target = start.ints[k], count.ints[k], place.ints[k]
        if not 0 <= left <= (end.ints[end.n - 1] if end.n else 0) or not 0 <= at <= end.ints[end.n - 1] - left:
            raise IndexError(f"no run of {left} tokens from {at} in {end.ints[end.n - 1] if end.n else 0}")
        if not 0 <= target <= into.n - left:
            raise IndexError(f"no place for {left} tokens from {target} in {into.n}")
        if left > 0:
            i = part_of(<const Py_ssize_t *>end.ints, 0, end.n - 1, at)
        while left > 0:
            base = end.ints[i - 1] if i > 0 else 0
            size = min(left, end.ints[i] - at)
            if size > 0:
                if i != held:
                    file, held = files.at(i, now_ns), i
                    kept.append(file)
                if <uint64_t>(offset.ints[i] + (end.ints[i] - base) * item_size) > file.size:
                    raise IndexError(f"{files.paths[i]} is smaller than its tokens")
                copies[n].target = <uint8_t *>into.view.buf + target * item_size
                copies[n].source = file.data + offset.ints[i] + (at - base) * item_size
                copies[n].size = size * item_size
                n += 1
                at, left, target = at + size, left - size, target + size
            if n == COPIES:
                with nogil:
                    copy_all(copies, n)
                n = 0
                kept = [file]
            i += 1
    with nogil:
        copy_all(copies, n)


# ---- Indexes of Megatron ----

cdef struct span_entry:
    const uint8_t *size_at
    const uint8_t *pointer_at
    Py_ssize_t file
    int64_t document  # in its file
    int64_t base      # the tokens before the file
    int64_t tokens    # of the file
    bint is_last
    int32_t size
    int64_t pointer
    int64_t following


cdef void load_spans(span_entry *entries, Py_ssize_t n, Py_ssize_t item_size) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        entries[k].size = <int32_t>rs_load_u32(entries[k].size_at)
        entries[k].pointer = <int64_t>rs_load_u64(entries[k].pointer_at)
        if entries[k].is_last:
            entries[k].following = entries[k].tokens * item_size
        else:
            entries[k].following = <int64_t>rs_load_u64(entries[k].pointer_at + 8)


cdef bint is_sound_span(const span_entry *entry, Py_ssize_t item_size) noexcept:
    """Whether the tokens of an entry are in the file, and the next document begins after them."""
    return (0 <= entry.size <= entry.tokens and entry.pointer >= 0 and entry.pointer % item_size == 0
            and entry.pointer // item_size <= entry.tokens - entry.size
            and entry.following == entry.pointer + entry.size * item_size)


def index_spans(FileMaps indexes not None, FileMaps files not None, document_ends, token_ends, Py_ssize_t item_size,
                documents, starts, counts):
    """Fills `starts` and `counts` with the runs of `documents`, as ``.idx`` files give them. All are int64 arrays.

    Each document number counts through all files; `document_ends` and `token_ends` have the ends of the files in
    documents and tokens. Raises IndexError for a number out of range, InputError for an entry of an index that does not
    fit its ``.bin`` file, and for a file that has changed."""
    cdef Span end = Span.of(document_ends, 8), token_end = Span.of(token_ends, 8), document = Span.of(documents, 8)
    cdef Span start = Span.of(starts, 8, True), count = Span.of(counts, 8, True)
    cdef span_entry entries[COPIES]
    cdef span_entry *entry
    cdef Py_ssize_t first, k, n, i = -1
    cdef int64_t local, total = end.ints[end.n - 1] if end.n else 0, n_documents = 0, base = 0, tokens = 0
    cdef uint64_t now_ns = rs_os_now_ns()
    cdef MappedFile file = None
    cdef list kept
    if not (document.n == start.n == count.n and end.n == token_end.n == len(indexes.files)):
        raise ValueError("documents, starts and counts must have one length, and so must the ends of the files")
    for first in range(0, document.n, COPIES):
        n, kept = min(document.n - first, <Py_ssize_t>COPIES), [file]
        for k in range(n):
            local = document.ints[first + k]
            if not 0 <= local < total:
                raise IndexError(f"document {local} of {total}")
            if i < 0 or local >= end.ints[i] or local < end.ints[i] - n_documents:
                i = part_of(<const Py_ssize_t *>end.ints, 0, end.n - 1, local)
                file = indexes.at(i, now_ns)
                kept.append(file)
                n_documents = end.ints[i] - (end.ints[i - 1] if i > 0 else 0)
                base = token_end.ints[i - 1] if i > 0 else 0
                tokens = token_end.ints[i] - base
                if file.size < INDEX_HEADER or <uint64_t>n_documents > (file.size - INDEX_HEADER) // 12:
                    raise errors.InputError(f"{indexes.paths[i]} is too short for {n_documents} documents")
            entry = &entries[k]
            entry.file, entry.base, entry.tokens = i, base, tokens
            entry.document = local - (end.ints[i] - n_documents)
            entry.is_last = entry.document + 1 == n_documents
            entry.size_at = file.data + INDEX_HEADER + 4 * entry.document
            entry.pointer_at = file.data + INDEX_HEADER + 4 * n_documents + 8 * entry.document
        with nogil:  # the pages may have to come from the disk
            load_spans(entries, n, item_size)
        for k in range(n):
            entry = &entries[k]
            if not is_sound_span(entry, item_size):
                raise errors.InputError(
                    f"{indexes.paths[entry.file]}: document {entry.document} has {entry.size} tokens from byte "
                    f"{entry.pointer} and the next begins at byte {entry.following}, but {files.paths[entry.file]} has "
                    f"{entry.tokens} tokens of {item_size} bytes; write the index again"
                )
            start.ints[first + k] = entry.base + entry.pointer // item_size
            count.ints[first + k] = entry.size
