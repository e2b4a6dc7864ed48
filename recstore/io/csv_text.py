"""The text of a CSV file: its names, its rows as UTF-8 bytes for pyarrow, and the line of a row for messages.

pyarrow parses the rows. Python's csv module reads the names, and finds lines once an error is known.
"""

import codecs
import csv
import io

from recstore._core import native
from recstore.errors import InputError
from recstore.io import encodings, inputs

_HEAD = 1 << 20  # bytes that the lines before the rows may take
_LONGEST = 256 << 20  # bytes that a row may take
# The cells of a row below the last one, so that pyarrow always has a row. Its characters, of a private use area, are
# no delimiters.
END = "\uf8f0\uf8e5\uf8ec\uf8f3\uf8e4\uf8ed\uf8e5"
UNQUOTED = "close it, or give quote=None if quotes are plain characters"


class Form:
    """How the text of CSV files is written. `quote` and `escape` are characters or None."""

    def __init__(self, delimiter, quote, escape, encoding, skip_rows, empty):
        for name, one in (("delimiter", delimiter), ("quote", quote), ("escape", escape)):
            if one is None and name != "delimiter":
                continue
            if not isinstance(one, str) or len(one) != 1 or not one.isascii() or one in "\r\n\0":
                raise ValueError(f"{name} is {one!r:.60}; give one ASCII character")
        self.delimiter, self.quote, self.escape = delimiter, quote, escape
        self.codec = codecs.lookup(encoding).name
        self.skip_rows, self.empty = skip_rows, empty

    def keeps_empty(self, width):
        """Whether an empty line is a row, of `width` cells."""
        return width == 1 and self.empty == "keep"

    def reader(self, lines):
        """A csv.reader of lines of text."""
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        quote = self.quote or '"'
        return csv.reader(lines, delimiter=self.delimiter, quotechar=quote, escapechar=self.escape, quoting=quoting)

    def lines(self, text):
        """The lines of a text file without its byte order mark, and without the first `skip_rows` ones."""
        first = text.readline()
        for _ in range(self.skip_rows):
            first = text.readline()
        first = first.removeprefix("\ufeff")
        if first:
            yield first
            yield from text


class Body:
    """The bytes below the names of a CSV file, as a file object for pyarrow, then a row of END cells. pyarrow reads it
    from a thread of its own.

    `header` is True if the first row that is not empty has the names, or a list with the names; False: names are
    "0", "1" and so on. `names` then has the names.
    """

    closed = False

    def __init__(self, file, opened, form, header):
        self.file, self.form = file, form
        with inputs.damage_of(file):
            self.text = encodings.utf8(opened, file.name, form.codec)
        self.last = b"\n"
        self.ended = False
        self.quotes = None
        self.rest = self._more(_HEAD).removeprefix(codecs.BOM_UTF8)
        self.names = self._names(header)
        self.tail = (form.delimiter.join([END] * len(self.names)) + "\n").encode()

    def readable(self):
        return True

    def read(self, size=-1):
        """Up to `size` bytes. They end between the two bytes of a line end only if `size` is 1: pyarrow drops a newline
        at the beginning of a block after a carriage return, even within quotes."""
        parts, left = [], _LONGEST if size < 0 else size
        while left > 0:
            part = self.rest or self._more(left)
            if not part:
                if self.tail is None:
                    break
                part = self.tail if self.last in b"\r\n" else b"\n" + self.tail
                self.tail = None
            part, self.rest = part[:left], part[left:]
            if len(part) == left > 1 and part.endswith(b"\r"):
                part, self.rest = part[:-1], part[-1:] + self.rest
                left = len(part)
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def close(self):
        self.closed = True

    def _more(self, size):
        """The next bytes of the file as UTF-8, about `size` of them; none at the end."""
        while not self.ended:
            with inputs.damage_of(self.file):
                data = self.text.read(size)
            self.ended = not data
            if self.ended:
                self._follow(b"")
            if data:
                self.last = data[-1:]
                self._follow(data)
                return data
        return b""

    def _follow(self, data):
        """Goes over the quotes of some text, which is empty at the end of the file."""
        quotes = self.quotes
        if quotes is None:  # above the rows
            return
        if data and not quotes.follow(data):
            what = f"text follows the closing quote of a cell that opens in line {quotes.opened:,}"
            raise InputError(f"{self.file.name}, line {quotes.line:,}: {what}; {UNQUOTED}")
        if not data and quotes.escaped:
            raise InputError(f"{self.file.name}, line {quotes.line:,}: the file ends behind an escape character")
        if not data and quotes.quoted:
            what = "a quote that opens here never closes"
            raise InputError(f"{self.file.name}, line {quotes.opened:,}: {what}; {UNQUOTED}")

    def _names(self, header):
        """Reads the lines above the rows. Returns the names of the columns."""
        head = self.rest
        lines = io.StringIO(head.decode("utf-8", "surrogateescape"), newline="")
        used = 0
        for _ in range(self.form.skip_rows):
            used += len(lines.readline().encode("utf-8", "surrogateescape"))
        form = self.form
        self.quotes = native.CsvQuotes(form.delimiter, form.quote, form.escape, form.skip_rows + 1)
        self._follow(head[used:])
        number, first, consumed = self._first_row(lines)
        whole = used + consumed
        if header is True:
            if first is None:
                hint = "give header=False, or a list of names, for a file that has none"
                raise InputError(f"{self.file.name}: the file has no row of names; {hint}")
            used = whole
        if whole >= len(head) >= _HEAD:
            raise InputError(f"{self.file.name}, line {number}: the row is longer than {_HEAD:,} bytes")
        self.rest = head[used:] or self._more(_HEAD)
        if not self.rest and head:
            self.last = head[-1:]
        if header is True:
            return self._checked(first, number)
        if header is False:
            return [str(i) for i in range(len(first or ("",)))]
        return header

    def _first_row(self, lines):
        """The line and the cells of the first row that is not empty, and the bytes up to its end; None without one."""
        used, number, skipped = 0, 0, self.form.skip_rows

        def counted():
            nonlocal used
            for line in lines:
                used += len(line.encode("utf-8", "surrogateescape"))
                yield line

        rows = self.form.reader(counted())
        try:
            for row in rows:
                if row:
                    return skipped + number + 1, row, used
                number = rows.line_num
        except csv.Error as error:
            raise InputError(f"{self.file.name}, line {skipped + number + 1}: {error}") from None
        return skipped + number + 1, None, used

    def _checked(self, names, number):
        for name in names:
            if not name.isascii() and any("\ud800" <= c <= "\udfff" for c in name):
                raise InputError(encodings.no_text(f"{self.file.name}, line {number}", "utf-8"))
        return names


# ---- Lines, once an error is known ----


def _rows(file, form, header, width):
    """Yields the number of the first line, and the cells, of each row below the names. It ends with None for the cells
    of a row that the csv module gives up on."""
    limit = csv.field_size_limit(_LONGEST)
    try:
        with file.open() as opened, io.TextIOWrapper(*encodings.begun(opened, form.codec), "replace", "") as text:
            rows = form.reader(form.lines(text))
            before, skip = 0, header is True
            for row in rows:
                if not skip and (row or form.keeps_empty(width)):
                    yield form.skip_rows + before + 1, row or [""]
                skip = skip and not row
                before = rows.line_num
    except csv.Error:
        yield form.skip_rows + before + 1, None
    finally:
        csv.field_size_limit(limit)


def ragged_row(file, form, header, width):
    """`(line, cells)` of the first row that has not `width` cells; None if the csv module finds none."""
    for line, row in _rows(file, form, header, width):
        if row is None or len(row) != width:
            return None if row is None else (line, len(row))
    return None


def line_of(file, form, header, width, number):
    """The first line of a row by its number, counted from 0 among those of `width` cells; None if it is not found."""
    for line, row in _rows(file, form, header, width):
        if row is not None and len(row) == width:
            if number == 0:
                return line
            number -= 1
    return None
