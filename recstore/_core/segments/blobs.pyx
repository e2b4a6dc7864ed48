"""Blobs: bytes outside the segments, such as an index array, a key index, or the description of a view that is too long
for a handle. A blob moves into its own shared memory when another process first needs it.

This file also opens the writers of segments; store.pyx has the segments.
"""


BACKINGS = {"anonymous": RS_BACKING_ANONYMOUS, "directory": RS_BACKING_DIRECTORY, "file": RS_BACKING_FILE,
            "named": RS_BACKING_NAMED, "temporary": RS_BACKING_TEMPORARY}

# ---- Writers ----


cdef bytes encode_path(path):
    """A path as bytes for the core. Raises ValueError for an embedded NUL, which would end the path in C."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"a path with an embedded NUL: {path!r}")
    return encoded


def publish_file(temporary, target):
    """Renames a finished temporary file to its final name. If the rename fails, removes the temporary file."""
    cdef rs_error err
    try:
        source, destination = encode_path(temporary), encode_path(target)
        check_path(rs_os_rename(source, destination, &err), &err, target)
    except BaseException:
        os.unlink(temporary)
        raise
    check_path(rs_os_sync_directory(destination, &err), &err, target)


cdef str open_writer(rs_segment_writer *writer, str backing, directory, name):
    """Opens an empty writer. Returns the path of its file; None for anonymous memory and nameless files."""
    cdef rs_error err
    cdef const char *c_directory = NULL
    cdef const char *c_name = NULL
    path = about = None
    strict_is_on()  # a wrong RECSTORE_STRICT raises before the build
    if backing in ("directory", "named", "temporary"):
        d, n = encode_path(directory), encode_path(name)
        c_directory = d
        c_name = n
        path, about = os.path.join(os.fsdecode(directory), name), directory
    elif backing == "file":
        n = encode_path(name)
        c_name = n
        path = about = os.fspath(name)
    check_path(rs_segment_writer_open(writer, BACKINGS[backing], c_directory, c_name, &err), &err, about)
    return None if writer.path == NULL else path


cdef object take_descriptor(rs_segment_writer *writer, str backing):
    """A new descriptor of a writer's file, which the caller closes. Removes the name of the file. Raises ValueError
    after the writer has finished, and unless `backing` is "named" or "temporary"."""
    cdef rs_error err
    if writer.backing == 0 or backing not in ("named", "temporary"):
        raise ValueError(f"a builder of backing {backing!r} gives no descriptor, or it is finished")
    if writer.path != NULL:
        check_path(rs_os_unlink(writer.path, &writer.identity, &err), &err, os.fsdecode(writer.path))
        free(writer.path)
        writer.path = NULL
    return os.dup(writer.fd)


# ---- Blobs ----

# The layout of a published blob, little-endian: magic, u32 version, u32 crc of the content, u64 size of the content, 16
# random bytes of id, 20 zero bytes, u32 crc of bytes 0 to 59, then the content. crc as in csrc/FORMAT.md. Only running
# processes with the same version of recstore read it, so other versions may change it.
BLOB_MAGIC = b"\x89RSBLOB\n"
cdef enum:
    BLOB_HEADER = 64
    BLOB_VERSION = 1


@cython.no_gc_clear  # __dealloc__ needs path, as in Segment
cdef class Blob:
    """Bytes outside the segments, in private memory until `publish` moves them into shared memory.

    Made by new_blob, adopt_blob or open_blob; Segment.section_blob makes one over a section. ``size`` is in bytes;
    ``id`` is None until `publish`. The system frees anonymous memory when the last process that maps it ends, even by
    SIGKILL. In a free-threaded interpreter `data` stays valid until the last reference to the Blob is gone.
    """

    def __cinit__(self):
        self.seg.fd = -1

    def __dealloc__(self):
        self.free()

    cdef inline bint is_closed(self):
        return self.data == NULL or FREE_THREADED and flag_of(&self.gone)

    @property
    def closed(self):
        return self.is_closed()

    @property
    def published(self):
        # Locked, because another thread may publish. A caller that gets True must see all attributes that `publish`
        # sets.
        with cython.critical_section(self):
            return self.id is not None

    @property
    def identity(self):
        """`(device, inode)` of the mapped file or memory."""
        return self.seg.identity.device, self.seg.identity.inode

    def fileno(self):
        if self.is_closed() or self.id is None:
            raise errors.ClosedError("the index array is closed or not published")
        return self.seg.fd

    def forget_calls(self):
        """Does nothing. The registry calls it for every resource."""

    def content(self):
        """A copy of the bytes. Raises CorruptError if the checksum of a published blob is wrong."""
        if self.is_closed():
            raise errors.ClosedError("the index array is closed")
        if self.published and rs_crc32c(0, self.data, self.size) != rs_load_u32(self.seg.data + 12):
            what = "the bytes of an index array do not match the checksum in its header"
            raise errors.CorruptError(what, filename=self.path)
        return PyBytes_FromStringAndSize(<const char *>self.data, self.size)

    def publish(self, str backing, directory=None, name=None):
        """Moves the bytes into sealed memory ("anonymous") or into a new file in `directory`. Does nothing for a
        published blob. On OutOfSpaceError or OSError the blob is unchanged."""
        cdef rs_segment_writer writer
        cdef rs_segment out
        cdef rs_error err
        cdef rs_status status
        cdef bytes content = self.private
        cdef const char *bytes_ = NULL
        cdef size_t n = self.size
        if self.is_closed():
            raise errors.ClosedError("the index array is closed")
        if self.published:
            return
        bytes_ = content  # from here on other threads may close the blob, and `content` keeps its bytes
        id_ = os.urandom(16)
        head = blob_header(rs_crc32c(0, <const uint8_t *>bytes_, n), n, id_)
        cdef const char *c_head = head
        path = open_writer(&writer, backing, directory, name)
        with nogil:
            status = rs_segment_writer_append(&writer, c_head, BLOB_HEADER, &err)
            if status == RS_OK:
                status = rs_segment_writer_append(&writer, bytes_, n, &err)
            if status == RS_OK:
                status = rs_segment_writer_finish(&writer, &out, &err)
        if status != RS_OK:
            rs_segment_writer_abort(&writer)
            raise_status(&err)
        with cython.critical_section(self):
            if self.id is None and not self.is_closed():
                self.backing, self.path = backing, path
                self.owner_pid = None if path is None else getpid()
                self.take_over(&out, id_)
                return
        drop_blob_file(&out, path)  # another thread has published or closed the blob in between

    cdef int take_over(self, rs_segment *segment, bytes id_) except -1:
        """Switches to the mapping of the published blob. Without the interpreter lock other threads may be reading, so
        the private bytes stay."""
        self.seg = segment[0]
        if not FREE_THREADED or self.data == NULL:
            self.data = self.seg.data + BLOB_HEADER
            self.size = <Py_ssize_t>(self.seg.size_bytes - BLOB_HEADER)
            self.private = None
        self.id = id_
        return 0

    def unlink(self):
        """Removes the file of a blob if this process owns it. The mapping stays."""
        cdef rs_status _ignored
        if self.path is not None and self.owner_pid is not None and self.owner_pid == getpid():
            encoded = PyUnicode_EncodeFSDefault(self.path)
            _ignored = rs_os_unlink(encoded, &self.seg.identity, NULL)

    def close(self):
        """Ends the use of the memory; later reads raise ClosedError. A second close does nothing."""
        if FREE_THREADED:
            set_flag(&self.gone)
            self.unlink()
        else:
            self.free()

    cdef int free(self) except -1:
        """Unmaps the bytes, and removes the file if this process owns it."""
        self.data = NULL
        self.private = None
        if self.seg.data != NULL:
            is_ours = self.owner_pid is not None and self.owner_pid == getpid()
            drop_blob_file(&self.seg, self.path if is_ours else None)


cdef int drop_blob_file(rs_segment *segment, path) except -1:
    """Unmaps a blob, and removes the file at `path` unless it is None. If the removal fails, the next collect()
    tries again."""
    cdef rs_status _ignored
    if path is not None:
        encoded = PyUnicode_EncodeFSDefault(path)
        _ignored = rs_os_unlink(encoded, &segment.identity, NULL)
    rs_segment_close(segment)
    return 0


def blob_header(uint32_t crc, uint64_t size, bytes id_):
    """The header of a published blob: the 64 bytes before its content."""
    cdef uint8_t numbers[16]
    rs_store_u32(numbers, BLOB_VERSION)
    rs_store_u32(numbers + 4, crc)
    rs_store_u64(numbers + 8, size)
    head = BLOB_MAGIC + PyBytes_FromStringAndSize(<const char *>numbers, 16) + id_ + bytes(20)
    cdef const char *c_head = head
    rs_store_u32(numbers, rs_crc32c(0, c_head, BLOB_HEADER - 4))
    return head + PyBytes_FromStringAndSize(<const char *>numbers, 4)


def new_blob(bytes content):
    """A Blob over `content`, which it keeps alive."""
    cdef Blob blob = Blob.__new__(Blob)
    blob.private = content
    blob.data = <const uint8_t *>(<const char *>content)
    blob.size = len(content)
    return blob


cdef Blob map_blob(rs_segment *segment, str backing, path):
    """The Blob over a mapping. Takes over the mapping, even if it raises. Takes constant time: checks the header, not
    the content."""
    cdef Blob blob
    cdef const uint8_t *head = segment.data
    cdef uint64_t size = segment.size_bytes
    try:
        blob = Blob.__new__(Blob)
        if (size < BLOB_HEADER or PyBytes_FromStringAndSize(<const char *>head, 8) != BLOB_MAGIC
                or rs_load_u32(head + 8) != BLOB_VERSION or rs_load_u64(head + 16) != size - BLOB_HEADER
                or rs_crc32c(0, head, BLOB_HEADER - 4) != rs_load_u32(head + BLOB_HEADER - 4)):
            raise errors.CorruptError("not an index array of recstore, or one of another version", filename=path)
        id_ = PyBytes_FromStringAndSize(<const char *>head + 24, 16)
    except BaseException:
        rs_segment_close(segment)
        raise
    blob.backing, blob.path = backing, path
    blob.take_over(segment, id_)
    return blob


def adopt_blob(int fd):
    """Maps the blob behind a descriptor. Takes over the descriptor, even if it raises."""
    cdef rs_segment segment
    cdef rs_error err
    try:
        check(rs_segment_adopt(&segment, fd, &err), &err)
    except BaseException:
        rs_os_close(&fd)
        raise
    return map_blob(&segment, "anonymous", None)


def open_blob(path):
    """Maps the blob in a file of a private directory."""
    cdef rs_segment segment
    cdef rs_error err
    encoded = encode_path(path)
    check_path(rs_segment_open_path(&segment, encoded, False, &err), &err, path)
    return map_blob(&segment, "directory", path)
