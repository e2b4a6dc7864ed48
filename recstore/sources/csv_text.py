"""The text of a CSV file: its names, its rows as UTF-8 bytes for pyarrow, and the line of a row for messages.

pyarrow parses the rows. Python's csv module finds lines once an error is known.
"""

import codecs
import csv
import io
import re

from recstore._core import native
from recstore.errors import InputError
from recstore.sources import encodings, inputs

_HEAD = 1 << 20  # bytes of the first block
_LONGEST = 256 << 20  # bytes that a row may take
# The cells of a row below the last one, so that pyarrow always has a row. Its characters, of a private use area, are
# no delimiters.
END = "\uf8f0\uf8e5\uf8ec\uf8f3\uf8e4\uf8ed\uf8e5"
UNQUOTED = "close it, or give quote=None if quotes are plain characters"


_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)?")
_LINE_ENDS = re.compile(rb"[\r\n]*")


def _cell(delimiter, quote, escape):
    """The pattern of a cell and what ends it."""
    special = re.escape(escape or "")
    plain = f"[^{re.escape(delimiter)}{special}\\r\\n]*"
    if escape:
        plain = f"{plain}(?:{special}.{plain})*"
    plain = f"(?P<plain>{plain})"
    if quote:
        mark = re.escape(quote)
        within, pair = f"[^{mark}{special}]*", f"{mark}{mark}" + (f"|{special}." if escape else "")
        plain = f"(?:{mark}(?P<quoted>{within}(?:(?:{pair}){within})*){mark}|(?!{mark}){plain})"
    else:
        plain += "(?P<quoted>(?!))?"
    return re.compile(f"{plain}(?P<end>{re.escape(delimiter)}|\\r\\n?|\\n|\\Z)".encode(), re.DOTALL)


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
        self.cell = _cell(delimiter, quote, escape)

    def keeps_empty(self, width):
        """Whether an empty line is a row, of `width` cells."""
        return width == 1 and self.empty == "keep"

    def skipped(self, head):
        """The bytes of the lines that are left out at the beginning of a text."""
        at = 0
        for _ in range(self.skip_rows):
            if at == len(head):
                break
            at = _LINE.match(head, at).end()
        return at

    def first_row(self, head, at):
        """`(line, cells, end)` of the first row that is not empty, from a place in a text on. The end is that of the
        text if the row may go on there. The cells are None without a row."""
        start = _LINE_ENDS.match(head, at).end()
        blank = head[at:start]
        line = self.skip_rows + blank.count(b"\n") + blank.count(b"\r") - blank.count(b"\r\n") + 1
        cells, end = [], start
        while start < len(head):
            found = self.cell.match(head, end)
            if found is None:  # a quote or escape character is left open
                return line, cells, len(head)
            cells.append(self.plain(found).decode("utf-8", "surrogateescape"))
            end = found.end()
            if found["end"] != self.delimiter.encode():
                break
        return line, cells or None, end

    def plain(self, found):
        """The text of a cell, a match of `cell`, without quotes and escape characters."""
        quoted, text = found["quoted"], found["plain"]
        if quoted is not None:
            quote = self.quote.encode()
            text = quoted if self.escape else quoted.replace(quote * 2, quote)
        if not self.escape:
            return text
        marks = self.escape if quoted is None else self.escape + self.quote
        return re.sub(b"[%s](.)" % re.escape(marks).encode(), rb"\1", text, flags=re.DOTALL)

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
        """Reads the lines above the rows, and what follows them in the same block. Returns the names of the columns."""
        form, head = self.form, self.rest
        while True:
            skipped = form.skipped(head)
            number, first, used = (0, None, skipped) if isinstance(header, list) else form.first_row(head, skipped)
            self.quotes = native.CsvQuotes(form.delimiter, form.quote, form.escape, form.skip_rows + 1)
            self._follow(head[skipped:])
            if used < len(head) or self.ended:
                break
            if used > _LONGEST:
                raise InputError(f"{self.file.name}, line {number}: the row is longer than {_LONGEST:,} bytes")
            self.quotes = None
            head += self._more(max(_HEAD, len(head)))
        if self.ended:
            self._follow(b"")
        rows = head[used if header is True else skipped :]
        if not rows:
            self.last = b"\n"
        self.rest = codecs.BOM_UTF8 + rows  # pyarrow leaves a mark out, also one that is part of the first cell
        if header is True:
            if first is None:
                hint = "give header=False, or a list of names, for a file that has none"
                raise InputError(f"{self.file.name}: the file has no row of names; {hint}")
            return self._checked(first, number)
        if header is False:
            return [str(i) for i in range(len(first or ("",)))]
        return header

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
