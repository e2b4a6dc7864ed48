"""Adds the lines of text files to a Builder as values that name the file and the byte (csrc/write/rs_lines.h). No
object is made per line."""


cdef enum:
    PIECE = 1 << 15  # bytes of a read, few enough for the fastest cache


cdef class LineFinder:
    """Finds lines, file after file. `most` lines are added at most. Not thread-safe.

    Attributes:
        at: the byte of the file after the last piece, or of the fault.
        left: how many more lines may be added.
    """

    cdef rs_lines lines
    cdef Builder builder
    cdef uint64_t *begins
    cdef uint32_t n
    cdef readonly uint64_t left
    cdef rs_csv_rows rows  # of text, only its fault and whether the last byte was a carriage return
    cdef str kind
    cdef uint8_t piece[PIECE]

    def __cinit__(self, Builder builder not None, uint64_t most=UINT64_MAX):
        self.builder = builder
        self.left = most
        self.begins = <uint64_t *>malloc(RS_FMT_BLOCK_RECORDS * sizeof(uint64_t))
        if self.begins == NULL:
            raise MemoryError

    def __dealloc__(self):
        rs_lines_clear(&self.lines)
        free(self.begins)

    @property
    def at(self):
        return self.lines.at

    @property
    def done(self):
        """Whether the last line that may be added has ended."""
        return self.left == 0 and not self.lines.kept

    @property
    def fault(self):
        """Why `read` stopped before its end: "return" for a carriage return that no newline follows, "text" for text
        after a closing quote; else None."""
        return None if self.done else {RS_CSV_RETURN: "return", RS_CSV_TEXT: "text"}.get(self.rows.fault)

    @property
    def open_row(self):
        """The byte at which the last row of CSV begins, if it ends in quotes that do not close; else None."""
        return self.lines.begin if self.lines.kept and self.rows.place == RS_CSV_QUOTED else None

    def begin(self, extra, int skip, uint64_t at):
        """Starts a file at byte `at`, where a line begins. `extra` is the EXTRA of its lines. `skip` is 0 for no line,
        1 for empty lines, 2 for lines of whitespace, which CSV does not take."""
        cdef rs_buffer raw, arrays
        cdef rs_error err
        memset(&raw, 0, sizeof(rs_buffer))
        memset(&arrays, 0, sizeof(rs_buffer))
        self.lines.skip = <rs_lines_skip>skip
        self.lines.at = self.lines.begin = at
        self.lines.kept = False
        memset(&self.rows, 0, sizeof(rs_csv_rows))
        self.kind = extra[0]
        if self.kind == "csv":
            delimiter, quote = extra[5][:2]
            self.rows.delimiter, self.rows.quote = ord(delimiter), 0 if quote is None else ord(quote)
        try:
            encode_value(&raw, &arrays, extra)
            check(rs_lines_describe(&self.lines, rs_slice_of(raw.data, raw.size_bytes), &err), &err)
        finally:
            rs_buffer_clear(&raw)
            rs_buffer_clear(&arrays)

    def read(self, int descriptor, uint64_t size):
        """Adds the lines that begin in the next `size` bytes of the open file. Stops at its end, at a fault, or when it
        is `done`."""
        cdef Py_ssize_t got
        while size > 0 and not self.done and self.rows.fault == RS_CSV_FINE:
            got = read_some(descriptor, self.piece, <size_t>min(size, <uint64_t>PIECE), <int64_t>self.lines.at, None)
            if got == 0:
                break
            size -= <uint64_t>got
            self.add(<size_t>got)

    cdef int add(self, size_t size) except -1:
        """Adds the lines that begin in the first `size` bytes of the piece, up to a fault."""
        cdef bint is_csv = self.kind == "csv"
        cdef size_t done = 0
        cdef uint32_t most
        if self.kind == "text":
            size = self.before_lone_return(size)
        while done < size and not self.done:
            most = <uint32_t>min(<uint64_t>RS_FMT_BLOCK_RECORDS, self.left)
            with nogil:
                if is_csv:
                    done += rs_lines_find_rows(&self.lines, &self.rows, self.piece + done, size - done, self.begins,
                                               &self.n, RS_FMT_BLOCK_RECORDS)
                else:
                    done += rs_lines_find(&self.lines, self.piece + done, size - done, self.begins, &self.n, most)
            if self.n >= most or is_csv and RS_FMT_BLOCK_RECORDS - self.n < RS_CSV_BLOCK:
                if self.n > most:  # the last row has ended
                    self.n, self.lines.kept = most, False
                self.end()
            if self.rows.fault != RS_CSV_FINE:
                break
        return 0

    def end(self):
        """Adds the lines that were found as a block; at the end of a file, its last lines."""
        cdef rs_error err
        cdef rs_status status
        self.builder.require_active()
        if self.n == 0:
            return
        with nogil:
            status = rs_lines_append(&self.lines, &self.builder.builder, self.begins, self.n, &err)
        check_path(status, &err, self.builder.saved)
        self.left -= self.n
        self.n = 0

    @staticmethod
    def check_blocks(Segment segment not None):
        """Raises CorruptError if the blocks of an older store, which `take` reads, do not match their checksum."""
        cdef const rs_section *table = &segment.numbered(0).directory.sections[RS_FMT_SECTION_BLOCKS]
        if rs_crc32c(0, segment.seg.data + table.off, table.size_bytes) != table.crc:
            raise errors.CorruptError("the blocks of the older index do not match their checksum")

    def take(self, Segment segment not None, begin, end):
        """Adds blocks `begin` to `end` - 1 of another store of the file, except the last: its lines are found again,
        because the last of them may have been cut. Called after `begin`."""
        cdef rs_store *store = segment.numbered(0)
        cdef const rs_block *block
        cdef rs_slice heap
        cdef rs_error err
        cdef uint64_t number
        segment.enter()
        try:
            for number in range(begin, end):
                block = segment.know_block(store, number)
                heap = rs_slice_of(segment.seg.data + block.heap_off, block.heap_size_bytes)
                if (block.first_record >= store.header.n_records
                        or rs_crc32c(0, heap.ptr, block.heap_size_bytes) != block.heap_crc):
                    raise errors.CorruptError(f"block {number} of the older index is damaged: delete the index, so "
                                              "that all lines are found again")
                if number + 1 == end:
                    break
                check(rs_lines_append_heap(&self.lines, &self.builder.builder, heap, block.n_records, &err), &err)
                self.left -= block.n_records
            at = StoreReader.apart(store).get(block.first_record)
            if type(at) is not int or not 0 <= at < INT64_MAX:
                raise errors.CorruptError(f"a line at {at!r:.40} in the older index: delete it")
            self.lines.at = self.lines.begin = at
        finally:
            segment.leave()

    cdef size_t before_lone_return(self, size_t size):
        """The number of bytes of the piece before the byte after a carriage return that no newline follows."""
        cdef const uint8_t *at = self.piece
        cdef const uint8_t *end = at + size
        cdef bint after_return = self.rows.after_return
        self.rows.after_return = end[-1] == c"\r"
        while not (after_return and at[0] != c"\n"):
            at = <const uint8_t *>memchr(at, c"\r", <size_t>(end - at))
            if at == NULL or at + 1 == end:
                return size
            at += 1
            after_return = True
        self.rows.fault = RS_CSV_RETURN
        return <size_t>(at - self.piece)
