"""Checks the quotes of CSV text. pyarrow reads text after a closing quote as part of an unquoted cell, so that a stray
quote can swallow rows into one cell without an error."""

cdef enum CsvPlace:
    CSV_BEGIN          # at the beginning of a cell
    CSV_PLAIN          # in a cell without quotes
    CSV_QUOTED         # in a quoted cell
    CSV_CLOSED         # after a quote in a quoted cell: it closes the cell, or is the first of two
    CSV_PLAIN_ESCAPE   # after an escape character
    CSV_QUOTED_ESCAPE


cdef class CsvQuotes:
    """Checks the quotes of one CSV text, piece by piece. `quote` and `escape` are ASCII characters or None. `line` is
    the number of the first line. Not thread-safe.

    Attributes:
        line: the current line.
        cell_line: the first line of the last quoted cell.
    """

    cdef int delimiter, quote, escape
    cdef CsvPlace place
    cdef bint after_return  # whether the last byte was a carriage return
    cdef int64_t row    # where the current row begins, relative to the next piece: 0 or negative
    cdef int64_t longest
    cdef readonly uint64_t line
    cdef readonly uint64_t cell_line

    def __init__(self, delimiter, quote, escape, uint64_t line):
        self.delimiter = ord(delimiter)
        self.quote = -1 if quote is None else ord(quote)
        self.escape = -1 if escape is None else ord(escape)
        self.place = CSV_BEGIN
        self.line = line

    @property
    def quoted(self):
        """Whether the text ends in a quoted cell."""
        return self.place in (CSV_QUOTED, CSV_QUOTED_ESCAPE)

    @property
    def escaped(self):
        """Whether the text ends after an escape character."""
        return self.place in (CSV_PLAIN_ESCAPE, CSV_QUOTED_ESCAPE)

    @property
    def longest_row(self):
        """The size in bytes of the longest row so far, without its line end."""
        return max(self.longest, -self.row)

    def follow(self, bytes text not None):
        """Scans the next piece. Returns False, and stops, if text follows a closing quote."""
        cdef const uint8_t *bytes_ = <const uint8_t *>PyBytes_AS_STRING(text)
        cdef Py_ssize_t i = 0, size = len(text)
        cdef CsvPlace place = self.place
        cdef uint8_t byte
        cdef bint ends_line
        with nogil:
            while i < size:
                byte = bytes_[i]
                ends_line = byte == c"\r" or byte == c"\n"
                if ends_line and not (byte == c"\n" and self.after_return):
                    self.line += 1
                self.after_return = byte == c"\r"
                if place == CSV_QUOTED:
                    if byte == self.escape:
                        place = CSV_QUOTED_ESCAPE
                    elif byte == self.quote:
                        place = CSV_CLOSED
                elif place == CSV_QUOTED_ESCAPE:
                    place = CSV_QUOTED
                elif place == CSV_PLAIN_ESCAPE:
                    place = CSV_PLAIN
                elif byte == self.delimiter or ends_line:
                    place = CSV_BEGIN
                    if ends_line:
                        self.longest = max(self.longest, i - self.row)
                        self.row = i + 1
                elif place == CSV_CLOSED:
                    if byte != self.quote:
                        break
                    place = CSV_QUOTED
                elif byte == self.escape:
                    place = CSV_PLAIN_ESCAPE
                elif place == CSV_BEGIN and byte == self.quote:
                    place = CSV_QUOTED
                    self.cell_line = self.line
                else:
                    place = CSV_PLAIN
                i += 1
        self.place = place
        self.row -= size
        return i == size
