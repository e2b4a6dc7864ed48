"""Decodes rows of CSV text that are read one by one (FORMAT.md, ext value 31)."""

cdef enum:
    CSV_CELLS = 64  # cells that need no memory of their own
    CSV_DIGITS = 18  # digits of an int that fits 64 bits
    CSV_FLOAT = 46  # the most bytes of a float that is not left to pyarrow


cdef struct csv_cell:
    const uint8_t *text
    Py_ssize_t n
    bint quoted
    bint doubled  # has doubled quotes


cdef bint take_digits(const uint8_t **at, const uint8_t *end, Py_ssize_t most):
    """Moves over digits. Returns whether they are 1 to `most`."""
    cdef const uint8_t *begin = at[0]
    while at[0] < end and c"0" <= at[0][0] <= c"9":
        at[0] += 1
    return 0 < at[0] - begin <= most


cdef bint take_int(const uint8_t *at, const uint8_t *end, bint signed_, int64_t *out):
    """Whether the text is an int of at most CSV_DIGITS digits. Sets `out` to it."""
    cdef bint minus = signed_ and at < end and at[0] == c"-"
    cdef int64_t n = 0
    if minus:
        at += 1
    if not 0 < end - at <= CSV_DIGITS:
        return False
    while at < end:
        if not c"0" <= at[0] <= c"9":
            return False
        n = 10 * n + (at[0] - c"0")
        at += 1
    out[0] = -n if minus else n
    return True


cdef bint is_plain_float(const uint8_t *at, const uint8_t *end):
    """Whether Python and pyarrow read the text as the same float, within the range of floats."""
    if at < end and at[0] == c"-":
        at += 1
    if not take_digits(&at, end, 20):
        return False
    if at < end and at[0] == c".":
        at += 1
        if not take_digits(&at, end, 20):
            return False
    if at < end and (at[0] == c"e" or at[0] == c"E"):
        at += 1
        if at < end and (at[0] == c"+" or at[0] == c"-"):
            at += 1
        if not take_digits(&at, end, 2):
            return False
    return at == end


cdef class CsvRows:
    """Makes the dicts of rows. Immutable, so safe from several threads at once."""

    cdef uint8_t delimiter, quote
    cdef bint absent
    cdef set nulls
    cdef Py_ssize_t longest, width
    cdef tuple columns
    cdef object convert

    def __init__(self, delimiter, quote, bint absent, set nulls not None, Py_ssize_t width, columns, convert):
        """`delimiter`, `quote`, `nulls`, `width` and `columns` are arguments of the format csv; `absent` says whether a
        missing value has no key. `convert(name, type, cell)` makes the value of any other cell, or raises InputError.
        """
        self.delimiter, self.quote = ord(delimiter), 0 if quote is None else ord(quote)
        self.absent, self.nulls, self.width = absent, nulls, width
        self.longest = max(map(len, nulls), default=-1)
        self.columns, self.convert = tuple(columns), convert

    def __call__(self, bytes line not None):
        """The dict of a row, which ends with its line."""
        return self.decoded(<const uint8_t *>PyBytes_AS_STRING(line), len(line))

    cdef dict decoded(self, const uint8_t *text, Py_ssize_t n):
        """The dict of a row of n bytes. Raises InputError, without file and line, if it is not a row."""
        cdef csv_cell inline[CSV_CELLS]
        cdef csv_cell *cells = inline
        cdef Py_ssize_t found, place
        cdef str name, kind
        record = {}
        if self.width > CSV_CELLS:
            cells = <csv_cell *>PyMem_Calloc(self.width, sizeof(csv_cell))
            if cells == NULL:
                raise MemoryError
        try:
            found = self.split(text, n, cells)
            if found != self.width:
                raise errors.InputError(f"{found} cells, but {self.width} expected")
            for name, place, kind in self.columns:
                value = self.value(&cells[place], name, kind)
                if value is not None or not self.absent:
                    record[name] = value
            return record
        finally:
            if cells != inline:
                PyMem_Free(cells)

    cdef Py_ssize_t split(self, const uint8_t *at, Py_ssize_t n, csv_cell *cells) except -1:
        """The number of cells. The first self.width of them are put into `cells`."""
        cdef const uint8_t *end = at + n
        cdef const uint8_t *after
        cdef Py_ssize_t found = 0
        cdef csv_cell cell
        while True:
            cell.quoted = self.quote != 0 and at < end and at[0] == self.quote
            cell.doubled = False
            cell.text = at + cell.quoted
            after = cell.text
            while cell.quoted:
                after = <const uint8_t *>memchr(after, self.quote, <size_t>(end - after))
                if after == NULL:
                    raise errors.InputError("a quote never closes")
                if after + 1 >= end or after[1] != self.quote:
                    break
                cell.doubled = True
                after += 2
            if not cell.quoted:
                after = <const uint8_t *>memchr(at, self.delimiter, <size_t>(end - at))
                if after == NULL:
                    after = end
            cell.n = after - cell.text
            if found < self.width:
                cells[found] = cell
            found += 1
            at = after + cell.quoted
            if at == end:
                return found
            if at[0] != self.delimiter:
                raise errors.InputError("text follows the closing quote of a cell")
            at += 1

    cdef object value(self, csv_cell *cell, str name, str kind):
        """The value of a cell of a column. Raises InputError if it does not fit the column's type."""
        cdef const uint8_t *text = cell.text
        cdef Py_ssize_t n = cell.n
        cdef int64_t number
        cdef char digits[CSV_FLOAT + 1]
        cdef bytes plain = None
        if cell.doubled:
            quote = bytes([self.quote])
            plain = (<const char *>text)[:n].replace(quote + quote, quote)
            text, n = <const uint8_t *>PyBytes_AS_STRING(plain), len(plain)
        if n <= self.longest and not (cell.quoted and kind == "string") and (<const char *>text)[:n] in self.nulls:
            return None
        if kind == "string":
            try:
                return PyUnicode_DecodeUTF8(<const char *>text, n, NULL)
            except UnicodeDecodeError:
                pass  # `convert` raises its error
        elif kind == "float64":
            if n <= CSV_FLOAT and is_plain_float(text, text + n):
                memcpy(digits, text, <size_t>n)
                digits[n] = 0
                return PyOS_string_to_double(digits, NULL, NULL)
        elif kind != "bool" and take_int(text, text + n, kind == "int64", &number):
            return number
        return self.convert(name, kind, plain if plain is not None else (<const char *>text)[:n])
