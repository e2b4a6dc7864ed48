"""Finds an array or object within a JSON document, and cuts it into the texts of its elements. The document is read in
pieces, so memory is bounded by the largest element. The core finds the elements' bounds (csrc/write/rs_json_bounds.h);
this module walks over the keys that lead to the array."""

import re
from codecs import BOM_UTF8

from recstore._core import native
from recstore.errors import InputError
from recstore.sources import json_values

BLOCK = 1 << 18  # bytes that are read at once; two of them fit the second cache of most processors
_MOST_NOTED = 100  # containers that an error can list
_BLANKS = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_WORD = re.compile(rb"[^ \t\n\r,:\[\]{}\"]*")
_ARRAY, _OBJECT, _QUOTE = b'[{"'


class Document:
    """A JSON document that is read from a binary file object. `self.at` is where the next value begins in `self.text`,
    and `self.base` the position of `self.text` in the file. For one thread.

    `noted` lists the containers that were skipped: `(keys, whether it is an object, number of elements)`.
    """

    def __init__(self, file, name, start=0):
        self.file, self.name = file, name
        self.text = b""
        self.at, self.base = 0, start
        self.bounds = native.JsonBounds()
        self.noted = []

    def begin(self):
        """Reads the first bytes, and skips a byte order mark. Raises InputError for an empty file."""
        self.more()
        size = len(self.text)
        self.text = self.text.removeprefix(BOM_UTF8)
        self.base += size - len(self.text)
        if self.peek() is None:
            raise InputError(f"{self.name}: the file is empty; a JSON document has an array or an object")

    def more(self):
        """Reads a further piece behind the bytes from self.at on. False at the end of the file."""
        read = self.file.read(max(BLOCK, len(self.text) - self.at))
        if not read:
            return False
        self.text, self.base, self.at = self.text[self.at :] + read, self.base + self.at, 0
        return True

    def wrong(self, what, at=None):
        """The InputError for a fault at a place in self.text."""
        position = self.base + (self.at if at is None else at)
        return InputError(f"{self.name}: not JSON: {what} (byte {position:,})")

    def cut(self):
        return self.wrong("the file ends too early; it may be cut off", len(self.text))

    # ---- Values ----

    def peek(self):
        """The next byte that is not blank; None at the end of the file."""
        while True:
            self.at = _BLANKS.match(self.text, self.at).end()
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return None

    def need(self):
        byte = self.peek()
        if byte is None:
            raise self.cut()
        return byte

    def scalar(self):
        """The value of the string, number or word that begins here."""
        pattern = _STRING if self.need() == _QUOTE else _WORD
        while True:
            found = pattern.match(self.text, self.at)
            if found and (pattern is _STRING or found.end() < len(self.text)):
                break
            if not self.more():
                if not found:
                    raise self.cut()
                break
        try:
            value = json_values.exact(found.group())
        except json_values.NOT_JSON as error:
            raise self.wrong(json_values.reason(found.group(), error).removeprefix("not JSON: ")) from None
        self.at = found.end()
        return value

    def members(self):
        """Yields the keys of the object that begins here. Before the next key, the caller has to go over the value."""
        self.at += 1
        byte = self.need()
        while byte != ord("}"):
            if byte != _QUOTE:
                raise self.wrong("a key in double quotes is missing")
            key = self.scalar()
            if self.need() != ord(":"):
                raise self.wrong("a colon is missing")
            self.at += 1
            yield key
            byte = self.need()
            if byte == ord(","):
                self.at += 1
                if self.need() == ord("}"):
                    raise self.wrong("a key in double quotes is missing")
                byte = self.need()
            elif byte != ord("}"):
                raise self.wrong("a comma is missing")
        self.at += 1

    def scan(self, step, *places):
        """Calls a method of self.bounds; InputError for a text that it refuses."""
        try:
            return step(self.text, *places, len(self.text))
        except native.JsonError as error:
            raise self.wrong(error, error.position) from None

    def open(self):
        """Enters the container that begins here. Returns whether it is an object."""
        is_object = self.need() == _OBJECT
        self.at += 1
        self.bounds.begin(is_object)
        return is_object

    def skip(self, keys):
        """Goes over the value that begins here, and notes it if it is a container."""
        if self.need() not in b"[{":
            self.scalar()
            return
        is_object = self.open()
        for _ in self.pieces(self.bounds.skip):
            pass
        if len(self.noted) < _MOST_NOTED:
            self.noted.append((keys, is_object, self.bounds.count))

    def pieces(self, step):
        """Scans the container that was opened, by calls of skip or mark. Yields after each piece."""
        while True:
            self.scan(step, self.at)
            self.at = self.bounds.at
            yield
            if self.bounds.closed:
                return
            if not self.more():
                raise self.cut()

    # ---- The container that is looked for ----

    def find(self, keys, again):
        """Yields when the value under these keys begins; then the caller has to go over it. `again(keys)` is called
        when a key on the way is repeated in its object: the value found before does not count. The end of the document
        is checked."""
        yield from self._search((), tuple(keys), again)
        self.end()

    def end(self):
        """Raises InputError if something follows."""
        if self.peek() is not None:
            raise self.wrong("something follows the document; read_jsonl reads one value a line")

    def survey(self, keys):
        """Goes over the value that begins here, under these keys, and notes the containers within it."""
        for _ in self._search(keys, None, None):
            pass

    def _search(self, keys, left, again):
        """`left` are the keys still to follow, None off the way."""
        byte = self.need()
        if left == ():
            yield
        elif byte == _OBJECT and (left is not None or len(keys) < 2 and len(self.noted) < _MOST_NOTED):
            seen = False
            for key in self.members():
                on = left is not None and key == left[0]
                if on and seen:
                    again((*keys, key))
                seen = seen or on
                yield from self._search((*keys, key), left[1:] if on else None, again)
        else:
            self.skip(keys)

    def ranges(self, size):
        """Goes over the container that begins here. Returns ranges that cover the elements: each is `(start, end,
        number of its first element)`, begins and ends with an element, and all but the last have at least `size`
        bytes."""
        self.open()
        start, first, found = self.base + self.at, 0, []
        for _ in self.pieces(self.bounds.mark):
            end = self.base + self.bounds.first
            if self.bounds.closed:
                found.append((start, self.base + self.at, first))
            elif end - start >= size:
                found.append((start, end, first))
                start, first = end, self.bounds.commas
        return found

    def elements(self, partial=False):
        """Yields runs of elements of the container that was opened: `(texts, position of the first in the file, place
        of the first in self.text, place behind the last)`. With `partial`, the file is a Part that may end behind an
        element."""
        scanned = 0
        while True:
            texts = self.scan(self.bounds.split, self.at, self.at + scanned)
            first, end = self.at, self.bounds.at if self.bounds.closed else self.bounds.first
            self.at, scanned = end, self.bounds.at - end
            yield texts, self.base + first, first, end
            if self.bounds.closed:
                return
            if not self.more():
                if partial and self.at == len(self.text) and self.file.left == 0:
                    return
                raise self.cut()


class Part:
    """The bytes of a file object from its position on, as a file object that ends after `size` bytes."""

    def __init__(self, file, size):
        self.file, self.left = file, size

    def read(self, n):
        read = self.file.read(min(n, self.left))
        self.left -= len(read)
        return read
