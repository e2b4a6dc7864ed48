"""The encodings of text files. A byte order mark says more than an argument, as in the Encoding Standard."""

from __future__ import annotations

import codecs
import io

from recstore.errors import InputError

# Those of UTF-32 come first: that of UTF-32 LE begins as that of UTF-16 LE does.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)
_LONGEST = 4


def marked(start: bytes) -> str | None:
    """The encoding that the first bytes of a file say, or None."""
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


def of_path(path: str) -> str | None:
    """The encoding that the mark of a regular file says, or None."""
    with open(path, "rb") as file:
        return marked(file.read(_LONGEST))


def begun(opened: io.BufferedIOBase, encoding: str) -> tuple[io.BufferedIOBase, str]:
    """`(file, encoding)`: a file object with all bytes of `opened` from here on, and their encoding: that of the mark,
    else the given one."""
    start = opened.read(_LONGEST)
    return Begun(start, opened), marked(start) or encoding


def utf8(opened: io.BufferedIOBase, name: str, encoding: str = "utf-8") -> io.BufferedIOBase:
    """A file object with the text of `opened` as UTF-8. A mark of UTF-8 is left in. Its `read` raises InputError, with
    `name` and line, for bytes that are not text in another encoding; bytes of UTF-8 are not checked. It may return more
    bytes than it was asked for."""
    start = opened.read(_LONGEST)
    mark = marked(start)
    file = Begun(start, opened)
    return file if (mark or encoding) == "utf-8" else _Utf8(file, name, mark or encoding, mark is not None)


def no_text(place: str, encoding: str, is_marked: bool = False) -> str:
    """The message for bytes that are not text in the encoding that the mark of the file or an argument says."""
    if is_marked:
        return f"{place}: bytes that are not {encoding} text, as the byte order mark says; fetch the file again"
    other = "latin-1" if encoding == "utf-8" else "utf-8"
    return f'{place}: bytes that are not {encoding} text; give the encoding, such as encoding="{other}"'


class Begun(io.BufferedIOBase):
    """The first bytes of a file object, which were read, and the others."""

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
            read = self.file.read(size)
            self.ended = not read
            try:
                text = self.decoder.decode(read, not read)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(self.encoding, "replace").count("\n")
                place = f"{self.name}, line {self.line_ends + before + 1:,}"
                raise InputError(no_text(place, self.encoding, self.is_marked)) from None
            self.line_ends += text.count("\n")
            if text:
                return text.encode("utf-8", "surrogatepass")
        return b""
