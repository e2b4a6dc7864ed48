"""The text of a CSV file: its names, its rows as UTF-8 bytes for pyarrow, and the line of a row for messages.

pyarrow parses the rows. After an error, Python's csv module finds the line of the error.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from itertools import islice

from recstore._core import native
from recstore.errors import InputError
from recstore.sources import encodings, inputs, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Header = bool | list[str]  # True if the first row has the names, False if no row has them, or a list of the names

_HEAD = 1 << 20  # bytes of the first block
_LONGEST = 256 << 20  # the most bytes of a row
# The cells of an extra last row, so that pyarrow always has a row. The characters are from a private use area, so they
# cannot be delimiters.
END = "\uf8f0\uf8e5\uf8ec\uf8f3\uf8e4\uf8ed\uf8e5"
UNQUOTED = "close it, or give quote=None if quotes are plain characters"

# Both patterns also match empty text.
_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)?")
_LINE_ENDS = re.compile(rb"[\r\n]*")


def _cell(delimiter: str, quote: str | None, escape: str | None) -> re.Pattern[bytes]:
    """The pattern of a cell and the delimiter or line end after it."""
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
    """The syntax of CSV files. `quote` and `escape` are characters or None."""

    def __init__(
        self, delimiter: str, quote: str | None, escape: str | None, encoding: str, skip_rows: int, empty: str
    ) -> None:
        for name, character in (("delimiter", delimiter), ("quote", quote), ("escape", escape)):
            if character is None and name != "delimiter":
                continue
            if not isinstance(character, str) or not re.fullmatch(r"[^\r\n\0\x80-\U0010ffff]", character):
                raise ValueError(f"{name} is {character!r:.60}; give one ASCII character")
        self.delimiter, self.quote, self.escape = delimiter, quote, escape
        self.codec = codecs.lookup(encoding).name
        self.skip_rows, self.empty = reading.count_of(skip_rows, "skip_rows"), empty
        self.cell = _cell(delimiter, quote, escape)

    def keeps_empty(self, width: int) -> bool:
        """Whether an empty line is a row in a file of `width` columns."""
        return width == 1 and self.empty == "keep"

    def skipped(self, head: bytes) -> int:
        """The number of bytes of the skipped lines at the beginning of a text."""
        at = 0
        for _ in range(self.skip_rows):
            if at == len(head):
                break
            at = _LINE.match(head, at).end()  # type: ignore[union-attr]
        return at

    def first_row(self, head: bytes, at: int) -> tuple[int, list[str] | None, int]:
        """`(line, cells, end)` of the first non-empty row at or after a position in a text. `end` is the end of the
        text if the row may continue after it. `cells` is None without a row."""
        start = _LINE_ENDS.match(head, at).end()  # type: ignore[union-attr]
        blank = head[at:start]
        line = self.skip_rows + blank.count(b"\n") + blank.count(b"\r") - blank.count(b"\r\n") + 1
        cells: list[str] = []
        end = start
        while start < len(head):
            match = self.cell.match(head, end)
            if match is None:  # the text ends within quotes or after an escape character
                return line, cells, len(head)
            cells.append(self.plain(match).decode("utf-8", "surrogateescape"))
            end = match.end()
            if match["end"] != self.delimiter.encode():
                break
        return line, cells or None, end

    def plain(self, match: re.Match[bytes]) -> bytes:
        """The text of a cell, a match of `cell`, without quotes and escape characters."""
        quoted: bytes | None = match["quoted"]
        text: bytes = match["plain"] if quoted is None else quoted
        quote = "" if quoted is None or self.quote is None else self.quote
        if not self.escape:
            return text.replace(quote.encode() * 2, quote.encode()) if quote else text
        return re.sub(b"[%s](.)" % re.escape(self.escape + quote).encode(), rb"\1", text, flags=re.DOTALL)

    def lines(self, text: io.TextIOBase) -> Iterator[str]:
        """Yields the lines of a text file after the first `skip_rows` lines, without a byte order mark."""
        first = text.readline()
        for _ in range(self.skip_rows):
            if not first:
                break
            first = text.readline()
        first = first.removeprefix("\ufeff")
        if first:
            yield first
            yield from text


class Body:
    """The rows of a CSV file after the names, then a row of END cells, as a file object for pyarrow, which reads it in
    its own thread.

    `header` is True if the first non-empty row has the names, False for the names "0", "1" and so on, or a list of
    names. `names` has the resulting names, `begin` the byte at which the rows begin in a file of UTF-8.
    """

    closed = False
    ended = False
    rest = b""
    last = b"\n"

    def __init__(self, file: inputs.Input, opened: io.BufferedIOBase, form: Form, header: Header) -> None:
        self.file, self.form = file, form
        with inputs.damage_of(file):
            self.text = encodings.utf8(opened, file.name, form.codec)
        self.names = self._names(header)
        self.tail = (form.delimiter.join([END] * len(self.names)) + "\n").encode()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes. They never end between the two bytes of a line end, unless `size` is 1: if a block begins
        with a newline after a carriage return, pyarrow drops the newline, even within quotes."""
        parts, left = [], _LONGEST if size < 0 else size
        while left > 0:
            part = self.rest
            if not part:
                part = self._more(left)
                self._follow(part)
            if not part:
                if not self.tail:
                    break
                part, self.tail = (b"" if self.last in b"\r\n" else b"\n") + self.tail, b""
            part, self.rest = part[:left], part[left:]
            if len(part) == left > 1 and part.endswith(b"\r"):
                part, self.rest = part[:-1], part[-1:] + self.rest
                left = len(part)
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self.closed = True

    def _more(self, size: int) -> bytes:
        """The next bytes of the file as UTF-8, about `size`; empty at the end."""
        if self.ended:
            return b""
        with inputs.damage_of(self.file):
            data = self.text.read(size)
        self.ended = not data
        self.last = data[-1:] or self.last
        return data

    def _follow(self, data: bytes) -> None:
        """Checks the quotes of the next bytes; empty bytes are the end of the file. Raises InputError."""
        quotes = self.quotes
        if data and not quotes.follow(data):
            fault = f"text follows the closing quote of a cell that opens in line {quotes.cell_line:,}"
            raise InputError(f"{self.file.name}, line {quotes.line:,}: {fault}; {UNQUOTED}")
        if not data and quotes.escaped:
            raise InputError(f"{self.file.name}, line {quotes.line:,}: the file ends after an escape character")
        if not data and quotes.quoted:
            fault = "a quote that opens here never closes"
            raise InputError(f"{self.file.name}, line {quotes.cell_line:,}: {fault}; {UNQUOTED}")

    def _names(self, header: Header) -> list[str]:
        """Reads the lines before the rows, and the rest of their block. Returns the names of the columns."""
        form, start = self.form, self._more(_HEAD)
        head = start.removeprefix(codecs.BOM_UTF8)
        mark = len(start) - len(head)
        while True:
            skipped = form.skipped(head)
            number, first, used = (0, None, skipped) if isinstance(header, list) else form.first_row(head, skipped)
            self.quotes = native.CsvQuotes(form.delimiter, form.quote, form.escape, form.skip_rows + 1)
            self._follow(head[skipped:])
            if used < len(head) or self.ended:
                break
            if used > _LONGEST:
                raise InputError(f"{self.file.name}, line {number}: the row is longer than {_LONGEST:,} bytes")
            head += self._more(max(_HEAD, len(head)))
        if self.ended:
            self._follow(b"")
        before = used if header is True else skipped
        self.begin, rows = mark + before, head[before:]
        if not rows:
            self.last = b"\n"
        self.rest = codecs.BOM_UTF8 + rows  # pyarrow drops one mark, which could be part of the first cell
        if isinstance(header, list):
            return header
        if not header:
            return [str(i) for i in range(len(first or ("",)))]
        if first is None:
            hint = "give header=False or a list of names"
            raise InputError(f"{self.file.name}: the file has no row of names; {hint}")
        if any("\ud800" <= c <= "\udfff" for name in first for c in name):
            raise InputError(encodings.no_text(f"{self.file.name}, line {number}", "utf-8"))
        return first


# ---- Lines for error messages ----


def _rows(file: inputs.Input, form: Form, header: Header, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yields `(first line, cells)` of each row after the names, up to a row that the csv module cannot read."""
    limit = csv.field_size_limit(_LONGEST)
    try:
        with file.open() as opened:
            # typeshed requires a `name` attribute; TextIOWrapper does not need it
            text = io.TextIOWrapper(*encodings.begun(opened, form.codec), "replace", "")  # type: ignore[type-var]
            rows = csv.reader(
                form.lines(text),
                delimiter=form.delimiter,
                quotechar=form.quote or '"',
                escapechar=form.escape,
                quoting=csv.QUOTE_NONE if form.quote is None else csv.QUOTE_MINIMAL,
            )
            before, skip = 0, header is True
            for row in rows:
                if not skip and (row or form.keeps_empty(width)):
                    yield form.skip_rows + before + 1, row or [""]
                skip = skip and not row
                before = rows.line_num
    except csv.Error:
        pass
    finally:
        csv.field_size_limit(limit)


def ragged_row(file: inputs.Input, form: Form, header: Header, width: int) -> tuple[int, int] | None:
    """`(line, number of cells)` of the first row without `width` cells; None if the csv module finds no such row."""
    return next(((line, len(row)) for line, row in _rows(file, form, header, width) if len(row) != width), None)


def line_of(file: inputs.Input, form: Form, header: Header, width: int, number: int) -> int | None:
    """The first line of row `number`, counting from 0 the rows of `width` cells; None if it is not found."""
    lines = (line for line, row in _rows(file, form, header, width) if len(row) == width)
    return next(islice(lines, number, None), None)
