"""Opens Segments: from a file, a name, a descriptor, or as a copy."""

CHUNK_BYTES = RS_STORE_CHUNK


def open_path(path, limits=None, follow_links=True, backing="file"):
    """Maps the file of a saved store. Raises SegmentNotFoundError, CorruptError, VersionError, OSError."""
    cdef Segment segment = Segment.__new__(Segment)
    cdef rs_error err
    encoded, segment.path = encode_path(path), os.fsdecode(path)
    check_path(rs_segment_open_path(&segment.seg, encoded, follow_links, &err), &err, path)
    segment.prepare(limits)
    segment.backing = backing
    return segment


def open_ranges(ranges, limits=None, path=None):
    """A Segment over a file that a remote.set.ranges.Ranges is fetching into memory. Header, directory, the head of
    KEY_INDEX and all sections except HEAP, OFFSETS and the saved indexes must be there. An absent byte is never read as
    data. `path` is for errors. Raises CorruptError, VersionError."""
    cdef Segment segment = Segment.__new__(Segment)
    cdef Py_buffer view
    PyObject_GetBuffer(ranges.memory, &view, PyBUF_SIMPLE)
    segment.seg.data, segment.seg.size_bytes = <const uint8_t *>view.buf, <uint64_t>view.len
    PyBuffer_Release(&view)  # `ranges` keeps the memory
    segment.ranges, segment.path = ranges, path
    if FREE_THREADED:
        ranges(0, segment.seg.size_bytes)
    segment.prepare(limits)
    segment.backing = "anonymous"
    return segment


def open_named(path, limits=None):
    """Maps a published segment and takes a lease on it. Once `kept` is False, the last process that uses the segment
    unlinks it.

    Raises SegmentNotFoundError, PermissionError for another user's file, BusyError while a process may be removing the
    file, CorruptError, VersionError and OSError."""
    cdef Segment segment = Segment.__new__(Segment)
    cdef rs_error err
    encoded = encode_path(path)
    check_path(rs_segment_open_leased(&segment.seg, encoded, &err), &err, path)
    segment.path = path
    segment.prepare(limits)
    segment.backing = "named"
    segment.encoded = encoded
    segment.kept = True  # until its label is read, so that an interrupt before that removes nothing
    segment.owned_by = getpid()
    return segment


def adopt_fd(int fd, str backing, path=None):
    """Maps the segment behind a descriptor. Takes over the descriptor, even if it raises."""
    cdef Segment segment
    cdef rs_error err
    try:
        segment = Segment.__new__(Segment)
        check(rs_segment_adopt(&segment.seg, fd, &err), &err)
    except BaseException:
        rs_os_close(&fd)
        raise
    segment.path = path
    segment.prepare(OURS)
    segment.backing = backing
    return segment


def copy_segment(Segment source, limits=None, temporary=None):
    """Copies a segment into sealed memory of this process or, with `temporary`, into a new file without a name.
    `temporary` is a path for it in a private folder of this user."""
    cdef Segment segment
    if temporary is not None:
        source.write_to(temporary)
        segment = open_path(temporary, limits)
        os.unlink(temporary)
        segment.backing, segment.path, segment.copied_from = "anonymous", None, source.path
        return segment
    segment = Segment.__new__(Segment)
    cdef rs_error err
    cdef rs_status status
    source.enter()
    try:
        with nogil:
            status = rs_segment_copy(&segment.seg, &source.seg, source.store.header.segment_size, &err)
    finally:
        source.leave()
    check_path(status, &err, source.path)
    try:
        segment.prepare(limits)
    except errors.Error as e:
        raise errors.of_file(e, source.path)
    segment.backing = "anonymous"
    segment.copied_from = source.path
    return segment
