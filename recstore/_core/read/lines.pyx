"""Reads lines of text files for the values that are lines (FORMAT.md, ext value 31).

A file is read by pread, not mapped: a file that shrinks is then an error and not a signal that ends the process, and
threads and forked processes can share a descriptor, because pread moves no position.
"""

cdef enum:
    INLINE = 1 << 14  # bytes of a read that need no memory of their own
    FIRST = 1 << 10  # bytes of the first read of a line whose end is not known


@cython.internal
cdef class Descriptor:
    """Owns a descriptor of an open file."""

    cdef int number

    def __cinit__(self, int number):
        self.number = number

    def __dealloc__(self):
        close_descriptor(self.number)


cdef class TextFile:
    """The lines of one file. `begin` is the byte at which a line begins. Safe from several threads at once.

    Attributes:
        path, size: of the file, as in EXTRA.
        used: whether a line was read since this was set to False.
    """

    cdef object __weakref__
    cdef readonly str path
    cdef readonly int64_t size
    cdef readonly tuple stamp
    cdef public bint used
    cdef object opener, refused, decode, decode_long
    cdef bytes encoding
    cdef CsvRows rows  # `decode` of a CSV file
    cdef Descriptor descriptor

    def __init__(self, str path, int64_t size, tuple stamp, opener, str encoding=None, decode=None, decode_long=None,
                 refused=None):
        """`opener(self)` returns a descriptor of the checked file. Lines are text in `encoding`; or, if that is None,
        `decode(line)` or a CsvRows makes the value of a line, `decode_long` of a line that may have an integer beyond
        64 bits, and `refused(self, begin, line, error)` of a line that these refuse, or raises."""
        self.path, self.size, self.stamp, self.opener = path, size, stamp, opener
        self.encoding = None if encoding is None else encoding.encode()
        self.decode, self.decode_long, self.refused = decode, decode_long, refused
        self.rows = decode if isinstance(decode, CsvRows) else None

    def close(self):
        """Closes the descriptor once no thread reads from it. The next read opens the file again."""
        with cython.critical_section(self):
            self.descriptor = None

    cdef Descriptor opened(self):
        with cython.critical_section(self):
            descriptor = self.descriptor
        self.used = True  # before the opener, which closes files that are not used
        if descriptor is None:
            descriptor = Descriptor(self.opener(self))
            with cython.critical_section(self):
                self.descriptor = descriptor
        return descriptor

    def descriptor_number(self):
        """The number of the descriptor. It may be closed when this thread or another reads from other files."""
        return self.opened().number

    def value(self, begin, end=None):
        """The value of the line at byte `begin`. `end` is the byte at which the next record begins, if it is known."""
        cdef uint8_t inline[INLINE]
        cdef uint8_t *memory = NULL
        cdef const uint8_t *line
        cdef size_t n
        cdef int64_t at = -1, known = 0
        if type(begin) is int and 0 <= begin < self.size:
            at = begin
        if at < 0:
            raise errors.CorruptError(f"a line at {begin!r:.40} of a file of {self.size} bytes")
        if type(end) is int and at < end <= self.size:
            known = end
        try:
            line = self.line(at, known, inline, &memory, &n)
            return self.decoded(at, line, n)
        finally:
            free(memory)

    cdef object decoded(self, int64_t begin, const uint8_t *text, size_t n):
        """The value of the line of n bytes that begins at byte `begin`."""
        if self.encoding is not None:
            return PyUnicode_Decode(<const char *>text, <Py_ssize_t>n, PyBytes_AS_STRING(self.encoding),
                                    b"surrogateescape")
        if self.rows is not None:
            try:
                return self.rows.decoded(text, <Py_ssize_t>n)
            except errors.InputError as error:
                return self.refused(self, begin, b"", error)
        line = PyBytes_FromStringAndSize(<const char *>text, <Py_ssize_t>n)
        decode = self.decode
        if self.decode_long is not decode and rs_json_has_long_int(text, n):
            decode = self.decode_long
        try:
            return decode(line)
        except Exception as error:
            return self.refused(self, begin, line, error)

    cdef const uint8_t *line(self, int64_t begin, int64_t end, uint8_t *inline, uint8_t **memory,
                             size_t *n) except NULL:
        """The bytes of a line without its end, in `inline` or in *memory, which the caller frees."""
        cdef uint8_t *into = inline
        cdef int64_t first = begin - (begin > 0)  # the end of the line before
        cdef int64_t room = self.size - first, size = end - first if end else min(FIRST, room)
        cdef const uint8_t *line
        cdef const uint8_t *after
        cdef size_t left
        cdef Descriptor descriptor = self.opened()
        while True:
            if size > INLINE:
                free(memory[0])
                memory[0] = into = <uint8_t *>malloc(size)
                if into == NULL:
                    raise MemoryError
            self.read(descriptor.number, into, first, size)
            line = into + (begin - first)
            if begin > first and into[0] != c"\n" and not (begin == 3 and into[0] == 0xBF):
                raise errors.InputError(f"{self.path}: no line begins at byte {begin}: the file was changed after its "
                                        "lines were found; make the list again")
            left = <size_t>(into + size - line)
            if self.rows is not None:
                n[0] = rs_csv_rows_end(self.rows.delimiter, self.rows.quote, line, left)
            else:
                after = <const uint8_t *>memchr(line, c"\n", left)
                n[0] = left if after == NULL else <size_t>(after - line)
            if n[0] < left or size == room:
                break
            size = min(2 * size, room)
        if n[0] > 0 and line[n[0] - 1] == c"\r":
            n[0] -= 1
        return line

    cdef int read(self, int descriptor, uint8_t *into, int64_t first, int64_t size) except -1:
        """Reads `size` bytes from byte `first` on."""
        cdef int64_t n = 0
        cdef Py_ssize_t got
        while n < size:
            got = read_some(descriptor, into + n, <size_t>(size - n), first + n, self.path)
            if got == 0:
                raise errors.InputError(f"{self.path}: the file ends at byte {first + n} of {self.size}: it was cut "
                                        "after its lines were found; make the list again")
            n += got
        return 0


cdef Py_ssize_t read_some(int descriptor, uint8_t *into, size_t size, int64_t at, path) except -1:
    """Reads up to `size` bytes of a file from byte `at` on. Returns their number, 0 at the end of the file."""
    cdef Py_ssize_t got
    cdef int failure
    while True:
        with nogil:
            got = pread(descriptor, into, size, at)
        if got >= 0:
            return got
        failure = c_errno
        PyErr_CheckSignals()
        if failure != EINTR:
            raise OSError(failure, os.strerror(failure), path)


def crc_of(buffer):
    """The crc of bytes, as in FORMAT.md."""
    cdef const uint8_t[::1] bytes_ = buffer
    return rs_crc32c(0, &bytes_[0], <size_t>bytes_.shape[0]) if bytes_.shape[0] else 0
