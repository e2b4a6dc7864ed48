"""Where bytes are written, and blobs: bytes of this process, such as an index array, that become a sealed segment of
their own when they first have to travel. Segments with records are _store's.
"""


cdef dict BACKINGS = {"anonymous": RS_BACKING_ANONYMOUS, "directory": RS_BACKING_DIRECTORY, "file": RS_BACKING_FILE,
                      "named": RS_BACKING_NAMED, "temporary": RS_BACKING_TEMPORARY}

# ---- Writers ----


cdef bytes encode_path(path):
    """A path as the core takes it. ValueError for an embedded NUL, where C would end it."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"a path with an embedded NUL: {path!r}")
    return encoded


def publish_file(temporary, target):
    """Renames a file just written to its final name; on failure the file is removed."""
    cdef rs_error err
    try:
        source, destination = encode_path(temporary), encode_path(target)
        check_path(rs_os_rename(source, destination, &err), &err, target)
    except BaseException:
        os.unlink(temporary)
        raise
    check_path(rs_os_sync_directory(destination, &err), &err, target)


cdef str open_writer(rs_segment_writer *writer, str backing, directory, name):
    """Opens an empty writer; the path it writes to, None for anonymous memory and for files without a name."""
    cdef rs_error err
    cdef const char *c_directory = NULL
    cdef const char *c_name = NULL
    path = about = None
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


# ---- Blobs ----

# A published blob is a file or sealed memory of its own, little-endian: magic, u32 version, u32 crc of the content, u64
# size of the content, 16 random bytes of id, 20 zero bytes, u32 crc of bytes 0 to 59; then the content. crc as in
# csrc/FORMAT.md. It is read by the version of recstore that wrote it, while processes run: no file format to keep.
cdef bytes BLOB_MAGIC = b"\x89RSBLOB\n"
cdef enum:
    BLOB_HEADER = 64
    BLOB_VERSION = 1


@cython.no_gc_clear  # as Segment
cdef class Blob:
    """Bytes of this process, such as an index array, that become a sealed segment of their own when they first have to
    travel.

    Made by new_blob or adopt_blob. ``size`` is in bytes; ``id`` is None until published. Lives as long as a view on it
    does in any process, and its memory as long as the last of them, SIGKILL included.
    """

    def __cinit__(self):
        self.data = NULL
        self.size = 0
        self.private = None
        self.section_of = None
        self.seg.data = NULL
        self.seg.fd = -1
        self.id = None
        self.path = None
        self.owner_pid = None

    def __dealloc__(self):
        self.close()

    @property
    def closed(self):
        return self.data == NULL

    @property
    def published(self):
        return self.id is not None

    @property
    def identity(self):
        """`(device, inode)` of what is mapped."""
        return self.seg.identity.device, self.seg.identity.inode

    def fileno(self):
        if self.data == NULL or self.id is None:
            raise errors.ClosedError("the index array is closed, or of this process alone")
        return self.seg.fd

    def forget_calls(self):
        """For the table of what is attached, as Segment: no call on a blob outlasts the GIL."""

    def content(self):
        """A copy of the bytes, checked against their checksum where they came from outside."""
        if self.data == NULL:
            raise errors.ClosedError("the index array is closed")
        if self.id is not None and rs_crc32c(0, self.data, self.size) != rs_load_u32(self.seg.data + 12):
            what = "the bytes of an index array do not have the checksum that its header names"
            raise errors.CorruptError(what, filename=self.path)
        return PyBytes_FromStringAndSize(<const char *>self.data, self.size)

    def publish(self, str backing, directory=None, name=None):
        """Moves the bytes into a sealed segment ("anonymous"), or into a new file of `directory`, and lets go of the
        private ones.

        Nothing when published already. OutOfSpaceError, OSError; the blob is as before then.
        """
        cdef rs_segment_writer writer
        cdef rs_segment out
        cdef rs_error err
        cdef rs_status status
        cdef bytes content = self.private
        cdef const char *bytes_ = NULL
        cdef size_t n = self.size
        if self.data == NULL:
            raise errors.ClosedError("the index array is closed")
        if self.id is not None:
            return
        id_ = os.urandom(16)
        head = blob_header(rs_crc32c(0, self.data, n), n, id_)
        cdef const char *c_head = head
        path = open_writer(&writer, backing, directory, name)
        bytes_ = content
        with nogil:
            status = rs_segment_writer_append(&writer, c_head, BLOB_HEADER, &err)
            if status == RS_OK:
                status = rs_segment_writer_append(&writer, bytes_, n, &err)
            if status == RS_OK:
                status = rs_segment_writer_finish(&writer, &out, &err)
        if status != RS_OK:
            rs_segment_writer_abort(&writer)
            raise_status(&err)
        if self.id is not None or self.data == NULL:  # another thread was faster, or has closed it
            drop_blob_file(&out, path)
            return
        self.backing, self.path = backing, path
        self.owner_pid = None if path is None else os.getpid()
        self.take_over(&out, id_)

    cdef int take_over(self, rs_segment *segment, bytes id_) except -1:
        """Reads from the mapping of a published blob from now on."""
        self.seg = segment[0]
        self.data = self.seg.data + BLOB_HEADER
        self.size = <Py_ssize_t>(self.seg.size_bytes - BLOB_HEADER)
        self.id = id_
        self.private = None
        return 0

    def unlink(self):
        """Removes the file of a blob in a directory if it is ours; the mapping stays."""
        cdef rs_status _ignored
        if self.path is not None and self.owner_pid is not None and self.owner_pid == os.getpid():
            encoded = os.fsencode(self.path)
            _ignored = rs_os_unlink(encoded, &self.seg.identity, NULL)

    def close(self):
        """Gives the memory back; reads raise ClosedError then. Idempotent."""
        self.data = NULL
        self.private = None
        if self.seg.data != NULL:
            is_ours = self.owner_pid is not None and self.owner_pid == os.getpid()
            drop_blob_file(&self.seg, self.path if is_ours else None)


cdef int drop_blob_file(rs_segment *segment, path) except -1:
    """Unlinks what is ours, unmaps, closes. A name that cannot be removed is left to the next collect."""
    cdef rs_status _ignored
    if path is not None:
        encoded = os.fsencode(path)
        _ignored = rs_os_unlink(encoded, &segment.identity, NULL)
    rs_segment_close(segment)
    return 0


def blob_header(uint32_t crc, uint64_t size, bytes id_):
    """The 64 bytes before a published blob's content."""
    cdef uint8_t numbers[16]
    rs_store_u32(numbers, BLOB_VERSION)
    rs_store_u32(numbers + 4, crc)
    rs_store_u64(numbers + 8, size)
    head = BLOB_MAGIC + PyBytes_FromStringAndSize(<const char *>numbers, 16) + id_ + bytes(20)
    cdef const char *c_head = head
    rs_store_u32(numbers, rs_crc32c(0, c_head, BLOB_HEADER - 4))
    return head + PyBytes_FromStringAndSize(<const char *>numbers, 4)


def new_blob(bytes content):
    """A Blob over `content`, which it keeps."""
    cdef Blob blob = Blob.__new__(Blob)
    blob.private = content
    blob.data = <const uint8_t *>(<const char *>content)
    blob.size = len(content)
    return blob


cdef Blob map_blob(rs_segment *segment, str backing, path):
    """The Blob over a mapping, which it takes over, also when it raises. Constant time: the header is checked, not the
    content."""
    cdef Blob blob = Blob.__new__(Blob)
    cdef const uint8_t *head = segment.data
    cdef uint64_t left = segment.size_bytes
    if (left < BLOB_HEADER or PyBytes_FromStringAndSize(<const char *>head, 8) != BLOB_MAGIC
            or rs_load_u32(head + 8) != BLOB_VERSION or rs_load_u64(head + 16) != left - BLOB_HEADER
            or rs_crc32c(0, head, BLOB_HEADER - 4) != rs_load_u32(head + BLOB_HEADER - 4)):
        rs_segment_close(segment)
        raise errors.CorruptError("not an index array of recstore, or one of another version", filename=path)
    blob.backing, blob.path = backing, path
    blob.take_over(segment, PyBytes_FromStringAndSize(<const char *>head + 24, 16))
    return blob


def adopt_blob(int fd):
    """Maps the blob behind a descriptor and takes the descriptor over, also when it raises."""
    cdef rs_segment segment
    cdef rs_error err
    try:
        check(rs_segment_adopt(&segment, fd, &err), &err)
    except BaseException:
        os.close(fd)
        raise
    return map_blob(&segment, "anonymous", None)


def open_blob(path):
    """Maps a blob that is a file of a private directory."""
    cdef rs_segment segment
    cdef rs_error err
    encoded = encode_path(path)
    check_path(rs_segment_open_path(&segment, encoded, False, &err), &err, path)
    return map_blob(&segment, "directory", path)
