# cython: language_level=3, boundscheck=False, wraparound=False
"""Segments, their builder, and the base of the record containers: the only place that owns mappings.

Lifetime: a Segment owns one descriptor and one mapping. Records and iterators hold the Segment. Decoded values never point into
it: arrays are copied. `close` unmaps at once, or, with calls in flight elsewhere, when the last of them returns.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

from recstore._c cimport *
from recstore._codec cimport Program, check, encode_value, raise_status
from recstore import errors

import errno
import os

cdef dict BACKINGS = {"anonymous": RS_BACKING_ANONYMOUS, "directory": RS_BACKING_DIRECTORY, "file": RS_BACKING_FILE}


# Limits for bytes that this library wrote itself and reached by a build or a handle: whatever was built can be read.
OURS = 2**64 - 1, 2**64 - 1


@cython.no_gc_clear  # __dealloc__ needs path and owner_pid, which the collector of a cycle would clear
cdef class Segment:
    """A mapped, read-only segment. Made by Builder.finish, open_path, adopt_fd or copy, never directly.

    Attributes: ``backing`` ("anonymous", "directory" or "file"), ``path`` (None for anonymous), ``owner_pid`` (the process that
    unlinks a directory segment's file, else None), ``kept_bytes`` (private memory that a build left behind).
    """

    def __cinit__(self):
        self.open_ = False
        self.closing = False
        self.busy = 0
        self.path = None
        self.owner_pid = None
        self.kept_bytes = None
        self.seg.fd = -1

    def __dealloc__(self):
        # A name is given back by its owner only, and before the mapping: an attacher finds it gone or whole.
        if self.open_:
            self.release()

    cdef int prepare(self, object limits) except -1:
        """Reads header and directory of the mapping just made; on failure everything is given back."""
        cdef rs_error err
        cdef rs_limits accepted
        cdef rs_limits *chosen = NULL
        cdef rs_status status
        try:
            if limits is not None:
                accepted.max_values, accepted.max_bytes = limits
                chosen = &accepted
            status = rs_store_open(&self.store, rs_slice_of(self.seg.data, self.seg.size_bytes), chosen, &err)
            check(status, &err)
            self.programs = {}
        except BaseException:
            rs_segment_close(&self.seg)
            raise
        self.open_ = True
        return 0

    cdef int enter(self) except -1:
        """Begins a call that reads the mapping and may let other threads run: it stays until `leave`."""
        if self.closing or not self.open_:
            raise errors.ClosedError("the store is closed")
        self.busy += 1
        return 0

    def forget_calls(self):
        """In a forked child: calls that other threads of the parent were in go on in the parent only."""
        self.busy = 0

    cdef void leave(self):
        if self.busy > 0:
            self.busy -= 1
        if self.closing and self.busy == 0:
            self.release()

    @property
    def closed(self):
        return self.closing or not self.open_

    @property
    def records(self):
        return self.store.header.n_records

    @property
    def nbytes(self):
        """Bytes of the whole segment, all sections."""
        return self.store.header.segment_size

    @property
    def id(self):
        return PyBytes_FromStringAndSize(<const char *>self.store.header.segment_id, 16)

    @property
    def identity(self):
        """`(device, inode)` of what is mapped."""
        return self.seg.identity.device, self.seg.identity.inode

    @property
    def sealed(self):
        return self.open_ and rs_os_is_sealed(self.seg.fd)

    def fileno(self):
        self.require_open()
        return self.seg.fd

    def sections(self):
        """`{name: bytes}` of the sections."""
        self.require_open()
        names = ("heap", "offsets", "groups", "blocks", "trees", "tree table")
        return {name: self.store.directory.sections[i + 1].size_bytes for i, name in enumerate(names)}

    def trees(self):
        """For each tree: a list of `(kind, param, fixed, children, aux size)` by node number."""
        cdef uint64_t i
        cdef uint32_t k
        cdef rs_error err
        cdef const rs_node *node
        out = []
        self.enter()
        try:
            for i in range(self.store.n_blocks):
                check(rs_store_load_block(&self.store, i, &err), &err)
            self.list_trees(out)
        finally:
            self.leave()
        return out

    cdef int list_trees(self, list out) except -1:
        cdef uint64_t i
        cdef uint32_t k
        cdef const rs_node *node
        for i in range(self.store.n_trees):
            nodes = []
            for k in range(self.store.trees[i].n_nodes):
                node = &self.store.trees[i].nodes[k]
                children = [node.children[j].index for j in range(node.n_children)]
                nodes.append((node.kind, node.param, node.fixed, children, node.size_bytes, node.bits,
                              (<const char *>node.aux)[:node.aux_size_bytes]))
            out.append(nodes)
        return 0

    def blocks(self):
        """`(first record, records, tree, heap bytes, array bytes)` of each block."""
        cdef uint64_t i
        cdef rs_error err
        out = []
        self.enter()
        try:
            for i in range(self.store.n_blocks):
                check(rs_store_load_block(&self.store, i, &err), &err)
                out.append((self.store.blocks[i].first_record, self.store.blocks[i].n_records, self.store.blocks[i].tree,
                            self.store.blocks[i].heap_size_bytes, self.store.blocks[i].arrays_size_bytes))
        finally:
            self.leave()
        return out

    cpdef int require_open(self) except -1:
        if self.closing or not self.open_:
            raise errors.ClosedError("the store is closed")
        return 0

    @property
    def n_stores(self):
        """How many stores the segment holds."""
        return 1

    def store_records(self, int store):
        """How many records a store of the segment has."""
        return self.store.header.n_records

    cdef object get(self, int store, uint64_t index):
        """The record `index`, which is in range, of a store, decoded."""
        cdef rs_record record
        cdef rs_cursor cursor
        cdef rs_error err
        # Decoding arrays runs Python code, which may switch threads.
        self.enter()
        try:
            if rs_store_find(&self.store, index, &record, &err) != RS_OK:
                raise_status(&err)
            program = self.program(record.block.tree, record.tree)
            cursor = rs_store_cursor(&self.store, &record)
            return (<Program>program).decode(&cursor)
        except (errors.CorruptError, errors.VersionError) as e:
            raise type(e)(f"record {index}: {e}") from None
        finally:
            self.leave()

    cdef object program(self, uint32_t number, const rs_tree *tree):
        program = self.programs.get(number)
        if program is None:
            program = self.programs[number] = new_program(tree)
        return program

    def verify(self, limits=None):
        """The deep check over all bytes; without the GIL. CorruptError or VersionError says what is wrong and where."""
        cdef rs_error err
        cdef rs_status status
        cdef rs_limits accepted
        cdef rs_slice bytes_
        cdef uint64_t i
        if limits is None:
            limits = self.store.header.max_values, self.store.header.max_bytes
        accepted.max_values, accepted.max_bytes = limits
        self.enter()
        try:
            bytes_ = rs_slice_of(self.seg.data, self.seg.size_bytes)
            with nogil:
                status = rs_verify_segment(bytes_, &accepted, &err)
            check(status, &err)
            # That dict keys can be hashed and differ, and that text in arrays is text, only Python tells.
            for i in range(self.store.n_blocks):
                check(rs_store_load_block(&self.store, i, &err), &err)
                self.verify_keys(&self.store.blocks[i])
        finally:
            self.leave()

    cdef int verify_keys(self, const rs_block *block) except -1:
        """Makes the keys of the block's tree and, where it may hold other dicts or arrays, every record."""
        cdef const rs_tree *tree = &self.store.trees[block.tree]
        cdef uint64_t i
        cdef uint32_t k
        self.program(block.tree, tree)
        for k in range(tree.n_nodes):
            if tree.nodes[k].kind in (RS_FMT_NODE_ANY, RS_FMT_NODE_CONST, RS_FMT_NODE_NDARRAY):
                for i in range(block.first_record, block.first_record + block.n_records):
                    self.get(0, i)
                return 0
        return 0

    def write_to(self, temporary):
        """Writes the bytes to a new file; see `publish`."""
        cdef rs_segment_writer writer
        cdef rs_segment out
        cdef rs_error err
        cdef rs_status status
        encoded = encode_path(temporary)
        cdef const char *c_path = encoded
        self.enter()
        try:
            check(rs_segment_writer_open(&writer, RS_BACKING_FILE, NULL, c_path, &err), &err)
            with nogil:
                status = rs_segment_writer_append(&writer, self.seg.data, self.store.header.segment_size, &err)
                if status == RS_OK:
                    status = rs_segment_writer_finish(&writer, &out, &err)
            if status != RS_OK:
                rs_segment_writer_abort(&writer)
                if err.sys_errno == errno.EFAULT:
                    raise errors.CorruptError("the file that the store is read from was cut meanwhile")
                raise_status(&err)
        finally:
            self.leave()
        rs_segment_close(&out)

    cdef bint release(self):
        """Unlinks what is ours, unmaps, closes."""
        cdef rs_status status = RS_OK
        if not self.open_:
            return 0
        self.open_ = False
        self.programs = None
        if self.owner_pid is not None and self.path is not None and self.owner_pid == os.getpid():
            encoded = os.fsencode(self.path)
            status = rs_os_unlink(encoded, &self.seg.identity, NULL)
        rs_store_close(&self.store)
        rs_segment_close(&self.seg)
        # A name that cannot be removed (its folder is gone) is no reason to fail a close; the next collect tries again.
        return status == RS_OK

    def close(self):
        """Gives the mapping back; with calls in flight in other threads, when the last of them ends. Idempotent."""
        self.closing = True
        if self.busy == 0:
            self.release()


cdef bytes encode_path(path):
    """A path as the core takes it. ValueError for an embedded NUL, where C would end it."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"a path with an embedded NUL: {path!r}")
    return encoded


def publish(temporary, target):
    """Renames a file just written to its final name; on failure the file is removed."""
    cdef rs_error err
    try:
        source, destination = encode_path(temporary), encode_path(target)
        check(rs_os_rename(source, destination, &err), &err)
    except BaseException:
        os.unlink(temporary)
        raise
    check(rs_os_sync_directory(destination, &err), &err)


cdef object new_program(const rs_tree *tree):
    cdef Program program = Program.__new__(Program)
    program.tree = tree
    return program.prepare()


def open_path(path, limits=None, follow_links=True, backing="file"):
    """Maps a saved store. SegmentNotFoundError, CorruptError, VersionError, OSError."""
    cdef Segment segment = Segment.__new__(Segment)
    cdef rs_error err
    encoded = encode_path(path)
    check(rs_segment_open_path(&segment.seg, encoded, follow_links, &err), &err)
    segment.prepare(limits)
    segment.backing = backing
    segment.path = os.fspath(path) if isinstance(os.fspath(path), str) else os.fsdecode(path)
    return segment


def adopt_fd(int fd, str backing, path=None):
    """Maps the segment behind a descriptor and takes the descriptor over, also when it raises."""
    cdef Segment segment = Segment.__new__(Segment)
    cdef rs_error err
    try:
        check(rs_segment_adopt(&segment.seg, fd, &err), &err)
    except BaseException:
        os.close(fd)
        raise
    segment.prepare(OURS)
    segment.backing = backing
    segment.path = path
    return segment


def copy_segment(Segment source, limits=None):
    """The same bytes in sealed memory of this process."""
    cdef Segment segment = Segment.__new__(Segment)
    cdef rs_error err
    cdef rs_status status
    source.enter()
    try:
        with nogil:
            status = rs_segment_copy(&segment.seg, &source.seg, &err)
    finally:
        source.leave()
    check(status, &err)
    segment.prepare(limits)
    segment.backing = "anonymous"
    return segment


cdef class Builder:
    """Streams records into a new segment. Nothing stays behind unless `finish` returned."""

    cdef rs_segment_writer writer
    cdef rs_builder builder
    cdef str backing
    cdef str path
    cdef bint active

    def __cinit__(self, str backing, directory=None, name=None, bint compress=True):
        cdef rs_error err
        cdef const char *c_directory = NULL
        cdef const char *c_name = NULL
        self.active = False
        self.backing = backing
        self.path = None
        if backing == "directory":
            d, n = encode_path(directory), encode_path(name)
            c_directory = d
            c_name = n
            self.path = os.path.join(os.fsdecode(directory), name)
        elif backing == "file":
            n = encode_path(name)
            c_name = n
            self.path = os.fspath(name)
        check(rs_segment_writer_open(&self.writer, BACKINGS[backing], c_directory, c_name, &err), &err)
        self.active = True
        check(rs_builder_open(&self.builder, &self.writer, compress, &err), &err)

    def __dealloc__(self):
        self.abort()

    cpdef abort(self):
        """Drops everything; nothing when finished or aborted already."""
        if self.active:
            self.active = False
            rs_builder_close(&self.builder)
            rs_segment_writer_abort(&self.writer)

    @property
    def records(self):
        return self.builder.n_records

    def append(self, record):
        """Adds one record. EncodeError names it; the builder is as before then."""
        cdef size_t mark
        cdef rs_error err
        cdef rs_status status
        if not self.active:
            raise errors.ClosedError("the builder is finished")
        mark = self.builder.arrays.size_bytes
        try:
            encode_value(&self.builder.raw, &self.builder.arrays, record)
        except errors.EncodeError as e:
            rs_builder_drop_record(&self.builder, mark)
            raise errors.EncodeError(f"record {self.builder.n_records}: {e}") from None
        except BaseException:
            rs_builder_drop_record(&self.builder, mark)
            raise
        status = rs_builder_end_record(&self.builder, &err)
        if status != RS_OK:
            rs_builder_drop_record(&self.builder, mark)
            if status == RS_E_MEM:
                raise_status(&err)
            raise errors.EncodeError(f"record {self.builder.n_records}: {err.message.decode()}")
        if rs_builder_is_full(&self.builder):
            with nogil:
                status = rs_builder_flush(&self.builder, &err)
            check(status, &err)

    def extend(self, records):
        for record in records:
            self.append(record)
            record = None  # the stream's next item must not find the last one alive

    def finish(self):
        """Writes tables and header and returns the Segment; the builder is done then, also when this raises."""
        cdef Segment segment = Segment.__new__(Segment)
        cdef rs_error err
        cdef rs_status status
        if not self.active:
            raise errors.ClosedError("the builder is finished")
        try:
            with nogil:
                status = rs_builder_finish(&self.builder, &err)
                if status == RS_OK:
                    status = rs_segment_writer_finish(&self.writer, &segment.seg, &err)
            check(status, &err)
        except BaseException:
            self.abort()
            raise
        self.active = False
        rs_builder_close(&self.builder)
        rs_os_trim()
        segment.backing = self.backing
        segment.path = self.path
        segment.owner_pid = os.getpid() if self.backing == "directory" else None
        try:
            segment.prepare(OURS)
        except BaseException:
            if self.path is not None:
                os.unlink(self.path)
            raise
        return segment


# ---- Blobs ----

# A published blob is a file or sealed memory of its own, little-endian: magic, u32 version, u32 crc of the content, u64 size of
# the content, 16 random bytes of id, 20 zero bytes, u32 crc of bytes 0 to 59; then the content. crc as in csrc/FORMAT.md. It is
# read by the version of recstore that wrote it, while processes run: no file format to keep.
cdef bytes BLOB_MAGIC = b"\x89RSBLOB\n"
cdef enum:
    BLOB_HEADER = 64
    BLOB_VERSION = 1


@cython.no_gc_clear  # as Segment
cdef class Blob:
    """Bytes of this process, such as an index array, that become a sealed segment of their own when they first have to travel.

    Made by new_blob or adopt_blob. ``size`` is in bytes; ``id`` is None until published. Lives as long as a view on it does in any
    process, and its memory as long as the last of them, SIGKILL included.
    """

    def __cinit__(self):
        self.data = NULL
        self.size = 0
        self.private = None
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
            raise errors.CorruptError("the bytes of an index array do not have the checksum that its header names")
        return PyBytes_FromStringAndSize(<const char *>self.data, self.size)

    def publish(self, str backing, directory=None, name=None):
        """Moves the bytes into a sealed segment ("anonymous"), or into a new file of `directory`, and lets go of the private ones.

        Nothing when published already. OutOfSpaceError, OSError; the blob is as before then.
        """
        cdef rs_segment_writer writer
        cdef rs_segment out
        cdef rs_error err
        cdef rs_status status
        cdef bytes content = self.private
        cdef const char *c_directory = NULL
        cdef const char *c_name = NULL
        cdef const char *bytes_ = NULL
        cdef size_t n = self.size
        if self.data == NULL:
            raise errors.ClosedError("the index array is closed")
        if self.id is not None:
            return
        id_ = os.urandom(16)
        head = blob_header(rs_crc32c(0, self.data, n), n, id_)
        cdef const char *c_head = head
        if backing == "directory":
            d, m = encode_path(directory), encode_path(name)
            c_directory, c_name = d, m
        check(rs_segment_writer_open(&writer, BACKINGS[backing], c_directory, c_name, &err), &err)
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
        path = None if c_directory == NULL else os.path.join(os.fsdecode(directory), name)
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

    def close(self):
        """Gives the memory back; reads raise ClosedError then. Idempotent."""
        self.data = NULL
        self.private = None
        if self.seg.data != NULL:
            drop_blob_file(&self.seg, self.path if self.owner_pid is not None and self.owner_pid == os.getpid() else None)


cdef int drop_blob_file(rs_segment *segment, path) except -1:
    """Unlinks what is ours, unmaps, closes. A name that cannot be removed is left to the next collect."""
    cdef rs_status ignored
    if path is not None:
        encoded = os.fsencode(path)
        ignored = rs_os_unlink(encoded, &segment.identity, NULL)
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
    """The Blob over a mapping, which it takes over, also when it raises. Constant time: the header is checked, not the content."""
    cdef Blob blob = Blob.__new__(Blob)
    cdef const uint8_t *head = segment.data
    cdef uint64_t left = segment.size_bytes
    if (left < BLOB_HEADER or PyBytes_FromStringAndSize(<const char *>head, 8) != BLOB_MAGIC
            or rs_load_u32(head + 8) != BLOB_VERSION or rs_load_u64(head + 16) != left - BLOB_HEADER
            or rs_crc32c(0, head, BLOB_HEADER - 4) != rs_load_u32(head + BLOB_HEADER - 4)):
        rs_segment_close(segment)
        raise errors.CorruptError("not an index array of recstore, or one of another version")
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
    check(rs_segment_open_path(&segment, encoded, False, &err), &err)
    return map_blob(&segment, "directory", path)
