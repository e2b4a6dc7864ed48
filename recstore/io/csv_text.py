"""The text of a CSV file: its names, its rows as UTF-8 bytes for pyarrow, and the line of a row for messages.

pyarrow parses the rows. Python's csv module reads the names, and finds lines once an error is known.
"""

import codecs
import csv
import io

from recstore.errors import InputError
from recstore.io import inputs

_HEAD = 1 << 20  # bytes that the lines before the rows may take
_LONGEST = 256 << 20  # bytes that a row may take
# The cells of a row that stands below the last one. If a quote never closes, the row does not arrive. Its characters,
# of a private use area, are no delimiters.
END = "\uf8f0\uf8e5\uf8ec\uf8f3\uf8e4\uf8ed\uf8e5"


class Form:
    """How the text of CSV files is written. `quote` and `escape` are characters or None."""

    def __init__(self, delimiter, quote, escape, encoding, skip_rows):
        for name, one in (("delimiter", delimiter), ("quote", quote), ("escape", escape)):
            if one is None and name != "delimiter":
                continue
            if not isinstance(one, str) or len(one) != 1 or not one.isascii() or one in "\r\n\0":
                raise ValueError(f"{name} is {one!r:.60}; give one ASCII character")
        self.delimiter, self.quote, self.escape = delimiter, quote, escape
        self.codec = codecs.lookup(encoding)
        self.skip_rows = skip_rows

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
        self.file, self.opened, self.form = file, opened, form
        self.decoder = None if form.codec.name == "utf-8" else form.codec.incrementaldecoder()
        self.decoded = 0  # line ends, for the message of a wrong byte
        self.last = b"\n"
        self.ended = False
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
                read = self.opened.read(size)
            self.ended = not read
            data = read if self.decoder is None else self._utf8(read)
            if data:
                self.last = data[-1:]
                return data
        return b""

    def _utf8(self, read):
        try:
            text = self.decoder.decode(read, final=not read)
        except UnicodeDecodeError as error:
            start = error.object[: error.start].decode(self.form.codec.name, "replace")
            line = self.decoded + start.count("\n") + 1
            raise InputError(no_text(f"{self.file.name}, line {line}", self.form.codec.name)) from None
        self.decoded += text.count("\n")
        return text.encode("utf-8", "surrogatepass")

    def _names(self, header):
        """Reads the lines above the rows. Returns the names of the columns."""
        head = self.rest
        lines = io.StringIO(head.decode("utf-8", "surrogateescape"), newline="")
        used = 0
        for _ in range(self.form.skip_rows):
            used += len(lines.readline().encode("utf-8", "surrogateescape"))
        number, first, consumed = self._first_row(lines)
        whole = used + consumed
        if header is True:
            if first is None:
                hint = "give header=False, or a list of names, for a file that has none"
                raise InputError(f"{self.file.name}: the file has no row of names; {hint}")
            used = whole
        if whole >= len(head) >= _HEAD:
            raise InputError(f"{self.file.name}, line {number}: the row is longer than {_HEAD:,} bytes")
        self.rest = head[used:]
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
                raise InputError(no_text(f"{self.file.name}, line {number}", "utf-8"))
        return names


def no_text(place, encoding):
    """The message for bytes that are no text in an encoding."""
    other = "latin-1" if encoding == "utf-8" else "utf-8"
    return f'{place}: bytes that are no {encoding} text; give the encoding, such as encoding="{other}"'


# ---- Lines, once an error is known ----


def _rows(file, form, header):
    """Yields the number of the first line, and the cells, of each row that is not empty, below the names. It ends with
    None for the cells of a row that the csv module gives up on."""
    limit = csv.field_size_limit(_LONGEST)
    try:
        with file.open() as opened, io.TextIOWrapper(opened, form.codec.name, "replace", newline="") as text:
            rows = form.reader(form.lines(text))
            before, skip = 0, header is True
            for row in rows:
                if row and not skip:
                    yield form.skip_rows + before + 1, row
                skip = skip and not row
                before = rows.line_num
    except csv.Error:
        yield form.skip_rows + before + 1, None
    finally:
        csv.field_size_limit(limit)


def ragged_row(file, form, header, width):
    """`(line, cells)` of the first row that has not `width` cells; None if the csv module finds none."""
    for line, row in _rows(file, form, header):
        if row is None or len(row) != width:
            return None if row is None else (line, len(row))
    return None


def line_of(file, form, header, width, number):
    """The first line of a row by its number, counted from 0 among those of `width` cells; None if it is not found."""
    for line, row in _rows(file, form, header):
        if row is not None and len(row) == width:
            if number == 0:
                return line
            number -= 1
    return None


def last_line(file, form, header):
    """The first line of the last row; None if there is no row."""
    last = None
    for line, _ in _rows(file, form, header):
        last = line
    return last
