"""Splits the text of one JSON array or object into the texts of its elements (csrc/write/rs_json_bounds.h), for a JSON
decoder."""


class JsonError(ValueError):
    """The text is not JSON, or too many brackets are open. `position` is an offset in the buffer."""

    def __init__(self, text, position):
        super().__init__(text)
        self.position = position


cdef class JsonBounds:
    """Scans one array or object, piece by piece. Not thread-safe.

    Attributes:
        at: the offset in the buffer at which the last scan ended.
        first: after `split` or `mark`, the offset in the buffer at which the next element begins.
    """

    cdef rs_json_bounds state
    cdef rs_buffer ends
    cdef bint object
    cdef readonly size_t at
    cdef readonly size_t first

    def __dealloc__(self):
        rs_buffer_clear(&self.ends)

    def begin(self, bint object):
        """Starts in an array or object, after its opening bracket."""
        self.object = object
        rs_json_bounds_begin(&self.state, object)

    @property
    def closed(self):
        """Whether the closing bracket was scanned."""
        return self.state.depth == 0

    @property
    def commas(self):
        """The number of commas between elements so far."""
        return self.state.n_commas

    @property
    def count(self):
        """The number of elements that have begun."""
        return self.state.n_commas + (self.state.filled or self.state.n_commas != 0)

    def skip(self, buffer, size_t start, size_t end):
        """Scans buffer[start:end] up to the end of the container, and counts the elements. Raises JsonError."""
        self.run(buffer, start, end, NULL)

    def mark(self, buffer, size_t start, size_t end):
        """Like `skip`, and also sets `first`, which is 0 if no element has ended. Raises JsonError."""
        self.run(buffer, start, end, &self.ends)
        self.first = 0
        if self.ends.size_bytes != 0:
            self.first = start + rs_load_u64(self.ends.data + self.ends.size_bytes - 8) + 1

    def split(self, buffer, size_t first, size_t start, size_t end):
        """Scans buffer[start:end] up to the end of the container. Returns the texts of the elements that end there, as
        a list of bytes, each member of an object in braces. `first`, at or before `start`, is the offset at which the
        first element begins. Raises JsonError."""
        cdef Py_buffer view
        if first > start:
            raise ValueError("the first element begins after the range to scan")
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)  # the buffer keeps its size until the texts are made
        try:
            self.run(buffer, start, end, &self.ends)
            return self.texts(<const char *>view.buf, first, start)
        finally:
            PyBuffer_Release(&view)

    cdef int run(self, buffer, size_t start, size_t end, rs_buffer *ends) except -1:
        cdef Py_buffer view
        cdef size_t consumed = 0
        cdef rs_error err
        cdef rs_status status
        self.ends.size_bytes = 0
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            if start > end or end > <size_t>view.len or self.state.depth == 0:
                raise ValueError("the range to scan is outside the buffer, or the container has ended")
            with nogil:
                status = rs_json_bounds_run(&self.state, <const uint8_t *>view.buf + start, end - start, ends,
                                            &consumed, &err)
        finally:
            PyBuffer_Release(&view)
        if status == RS_E_MEM:
            raise_status(&err)
        if status != RS_OK:
            raise JsonError(err.message.decode(), start + err.offset)
        self.at = start + consumed
        return 0

    cdef list texts(self, const char *text, size_t first, size_t start):
        cdef size_t n = self.ends.size_bytes // 8, i, end, size
        cdef bytes piece
        cdef char *out
        cdef list pieces = []
        for i in range(n):
            end = start + rs_load_u64(self.ends.data + 8 * i)
            size = end - first
            if self.state.filled or self.state.n_commas:
                if self.object:
                    check_member(text, first, end)
                    piece = PyBytes_FromStringAndSize(NULL, size + 2)
                    out = PyBytes_AS_STRING(piece)
                    out[0] = b"{"
                    memcpy(out + 1, text + first, size)
                    out[size + 1] = b"}"
                else:
                    piece = PyBytes_FromStringAndSize(text + first, size)
                pieces.append(piece)
            first = end + 1
        self.first = first
        return pieces


cdef int check_member(const char *text, size_t first, size_t end) except -1:
    """Raises JsonError unless the text begins with a key. In braces, a blank text would be an empty object."""
    while first < end and text[first] in b" \n\r\t":
        first += 1
    if first == end or text[first] != c'"':
        raise JsonError("a key in double quotes is missing", first)
    return 0


def has_long_int(buffer, size_t start, size_t end):
    """Whether buffer[start:end] may hold an integer beyond 64 bits, which orjson decodes as a float."""
    cdef Py_buffer view
    cdef bint found
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if start > end or end > <size_t>view.len:
            raise ValueError("the range to scan is outside the buffer")
        with nogil:
            found = rs_json_has_long_int(<const uint8_t *>view.buf + start, end - start)
        return found
    finally:
        PyBuffer_Release(&view)
