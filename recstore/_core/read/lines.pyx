"""Reads lines of text files for the values that are lines (FORMAT.md, ext value 31).

A file is read by pread, not mapped: a file that shrinks is then an error and not a signal that ends the process, and
threads and forked processes can share a descriptor, because pread moves no position.
"""

cdef enum:
    INLINE = 1 << 14  # bytes of a read that need no memory of their own


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
    cdef str encoding
    cdef Descriptor descriptor
    cdef int64_t mean  # of the sizes of the last lines, about

    def __init__(self, str path, int64_t size, tuple stamp, opener, str encoding=None, decode=None, decode_long=None,
                 refused=None):
        """`opener(self)` returns a descriptor of the checked file. Lines are text in `encoding`; or, if that is None,
        `decode(line)` makes the value of a line, `decode_long` of a line that may have an integer beyond 64 bits, and
        `refused(self, begin, line, error)` of a line that these refuse, or raises."""
        self.path, self.size, self.stamp, self.opener = path, size, stamp, opener
        self.encoding, self.decode, self.decode_long, self.refused = encoding, decode, decode_long, refused
        self.mean = 300

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

    def value(self, begin):
        """The value of a line."""
        cdef bytes line
        cdef const uint8_t *text
        cdef int64_t at = -1
        if type(begin) is int and 0 <= begin < self.size:
            at = begin
        if at < 0:
            raise errors.CorruptError(f"a line at {begin!r:.40} of a file of {self.size} bytes")
        line = self.line(at)
        if self.encoding is not None:
            return line.decode(self.encoding, "surrogateescape")
        decode = self.decode
        text = <const uint8_t *>PyBytes_AS_STRING(line)
        if self.decode_long is not decode and rs_json_has_long_int(text, <size_t>len(line)):
            decode = self.decode_long
        try:
            return decode(line)
        except Exception as error:
            return self.refused(self, at, line, error)

    cdef bytes line(self, int64_t begin):
        """The bytes of a line without its end."""
        cdef uint8_t inline[INLINE]
        cdef uint8_t *memory = NULL
        cdef uint8_t *into = inline
        cdef int64_t first = begin - (begin > 0)  # the end of the line before
        cdef int64_t room = self.size - first, size = min(2 * self.mean + 128, room)
        cdef bytes out
        cdef Descriptor descriptor = self.opened()
        try:
            while True:
                if size > INLINE:
                    free(memory)
                    memory = <uint8_t *>malloc(size)
                    into = memory
                    if memory == NULL:
                        raise MemoryError
                out = self.line_in(descriptor.number, into, first, begin, size)
                if out is not None:
                    break
                size = min(2 * size, room)
        finally:
            free(memory)
        self.mean += (<int64_t>len(out) - self.mean) >> 3
        return out

    cdef bytes line_in(self, int descriptor, uint8_t *bytes_, int64_t first, int64_t begin, int64_t size):
        """The line, if it ends within `size` bytes from `first` on, which are read into `bytes_`; else None."""
        cdef int64_t n = 0
        cdef Py_ssize_t got
        cdef int failure
        cdef const uint8_t *end
        cdef const uint8_t *line = bytes_ + (begin - first)
        while n < size:
            with nogil:
                got = pread(descriptor, bytes_ + n, <size_t>(size - n), first + n)
            if got < 0:
                failure = c_errno
                PyErr_CheckSignals()
                if failure == EINTR:
                    continue
                raise OSError(failure, os.strerror(failure), self.path)
            if got == 0:
                raise errors.InputError(f"{self.path}: the file ends at byte {first + n} of {self.size}: it was cut "
                                        "after its lines were found; make the list again")
            n += got
        if begin > first and bytes_[0] != c"\n" and not (begin == 3 and bytes_[0] == 0xBF):
            raise errors.InputError(f"{self.path}: no line begins at byte {begin}: the file was changed after its "
                                    "lines were found; make the list again")
        end = <const uint8_t *>memchr(line, c"\n", <size_t>(bytes_ + size - line))
        if end == NULL:
            if first + size < self.size:
                return None
            end = bytes_ + size
        if end > line and end[-1] == c"\r":
            end -= 1
        return PyBytes_FromStringAndSize(<const char *>line, end - line)


def crc_of(buffer):
    """The crc of bytes, as in FORMAT.md."""
    cdef const uint8_t[::1] bytes_ = buffer
    return rs_crc32c(0, &bytes_[0], <size_t>bytes_.shape[0]) if bytes_.shape[0] else 0
