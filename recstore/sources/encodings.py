"""The encodings of text files. A byte order mark takes precedence over an argument, as in the Encoding Standard."""

from __future__ import annotations

import codecs
import io

from recstore.errors import InputError

# UTF-32 comes first, because the mark of UTF-32 LE begins with the mark of UTF-16 LE.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)
LONGEST_MARK = 4  # bytes


def marked(start: bytes) -> str | None:
    """The encoding of the byte order mark that a file begins with, or None."""
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


def of_path(path: str) -> str | None:
    """The encoding of the byte order mark of a regular file, or None."""
    with open(path, "rb") as file:
        return marked(file.read(LONGEST_MARK))


def begun(opened: io.BufferedIOBase, encoding: str) -> tuple[io.BufferedIOBase, str]:
    """`(file object, encoding)`: the remaining bytes of `opened`, and their encoding from a byte order mark, else
    `encoding`."""
    start = opened.read(LONGEST_MARK)
    return Begun(start, opened), marked(start) or encoding


def utf8(opened: io.BufferedIOBase, name: str, encoding: str = "utf-8") -> io.BufferedIOBase:
    """A file object with the text of `opened` as UTF-8. It keeps a byte order mark of UTF-8 and does not check UTF-8.
    With any other encoding, `read` raises InputError with `name` and line for bytes that are not text. `read` may
    return more bytes than asked for."""
    start = opened.read(LONGEST_MARK)
    mark = marked(start)
    file = Begun(start, opened)
    return file if (mark or encoding) == "utf-8" else _Utf8(file, name, mark or encoding, mark is not None)


def no_text(place: str, encoding: str, is_marked: bool = False) -> str:
    """The message for bytes that are not text in `encoding`. The encoding comes from a byte order mark (`is_marked`) or
    from an argument."""
    if is_marked:
        return f"{place}: bytes that are not {encoding} text, despite the byte order mark; fetch the file again"
    other = "latin-1" if encoding == "utf-8" else "utf-8"
    return f'{place}: bytes that are not {encoding} text; give the encoding, such as encoding="{other}"'


class Begun(io.BufferedIOBase):
    """All bytes of a file object from which the first bytes, `start`, were already read."""

    def __init__(self, start: bytes, opened: io.BufferedIOBase) -> None:
        self.start, self.opened = start, opened

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        if not self.start:
            return self.opened.read(size)
        if size is None or size < 0:
            data, self.start = self.start, b""
            return data + self.opened.read()
        data, self.start = self.start[:size], self.start[size:]
        return data if len(data) == size else data + self.opened.read(size - len(data))

    read1 = read


class _Utf8(io.BufferedIOBase):
    def __init__(self, file: io.BufferedIOBase, name: str, encoding: str, is_marked: bool) -> None:
        self.file, self.name, self.encoding, self.is_marked = file, name, encoding, is_marked
        self.decoder = codecs.getincrementaldecoder(encoding)()
        self.line_ends = 0
        self.ended = False

    def read(self, size: int | None = -1) -> bytes:
        while not self.ended:
            data = self.file.read(size)
            self.ended = not data
            try:
                text = self.decoder.decode(data, self.ended)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(self.encoding, "replace").count("\n")
                place = f"{self.name}, line {self.line_ends + before + 1:,}"
                raise InputError(no_text(place, self.encoding, self.is_marked)) from None
            self.line_ends += text.count("\n")
            if text:
                return text.encode("utf-8", "surrogatepass")
        return b""
