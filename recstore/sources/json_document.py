"""Finds an array or object in a JSON document and cuts it into the texts of its elements. Reads the document in pieces,
so that the largest element bounds the memory. The core finds the bounds of the elements (csrc/write/rs_json_bounds.h);
this module follows the keys that lead to the array."""

from __future__ import annotations

import re
from codecs import BOM_UTF8

from recstore._core import native
from recstore.errors import InputError
from recstore.sources import json_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    _T = TypeVar("_T")
    Keys = tuple[str, ...]

BLOCK = 1 << 18  # bytes per read; two blocks fit in the L2 cache of most processors
_MOST_SKIPPED = 100  # the most containers in Document.skipped
_BLANKS = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_WORD = re.compile(rb"[^ \t\n\r,:\[\]{}\"]*")
_ARRAY, _OBJECT, _QUOTE = b'[{"'


class Document:
    """A JSON document in a binary file object. The next value begins at `self.at` in `self.text`, which
    begins at `self.base` in the file. Not thread-safe.

    `skipped` lists the first skipped containers: `(keys, whether it is an object, number of elements)`.
    """

    def __init__(self, file: io.BufferedIOBase | Part, name: str, start: int = 0) -> None:
        self.file, self.name = file, name
        self.text = b""
        self.at, self.base = 0, start
        self.bounds = native.JsonBounds()
        self.skipped: list[tuple[Keys, bool, int]] = []

    def begin(self) -> None:
        """Reads the first bytes, and skips a byte order mark. Raises InputError for an empty file."""
        self.more()
        size = len(self.text)
        self.text = self.text.removeprefix(BOM_UTF8)
        self.base += size - len(self.text)
        if self.peek() is None:
            raise InputError(f"{self.name}: the file is empty; a JSON document has an array or an object")

    def more(self) -> bool:
        """Drops the bytes before self.at and reads more. Returns False at the end of the file."""
        read = self.file.read(max(BLOCK, len(self.text) - self.at))
        if not read:
            return False
        self.text, self.base, self.at = self.text[self.at :] + read, self.base + self.at, 0
        return True

    def wrong(self, fault: object, at: int | None = None) -> InputError:
        """The InputError for a fault at a position in self.text."""
        position = self.base + (self.at if at is None else at)
        return InputError(f"{self.name}: not JSON: {fault} (byte {position:,})")

    def cut(self) -> InputError:
        return self.wrong("the file ends too early; it may be truncated", len(self.text))

    # ---- Values ----

    def peek(self) -> int | None:
        """The next byte that is not blank; None at the end of the file."""
        while True:
            self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]  # it always matches
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return None

    def need(self) -> int:
        byte = self.peek()
        if byte is None:
            raise self.cut()
        return byte

    def scalar(self) -> Any:
        """The value of the string, number or word that begins here."""
        pattern = _STRING if self.need() == _QUOTE else _WORD
        while True:
            match = pattern.match(self.text, self.at)
            if match and (pattern is _STRING or match.end() < len(self.text)) or not self.more():
                break
        if not match:
            raise self.cut()
        try:
            value = json_values.exact(match.group())
        except json_values.NOT_JSON as error:
            raise self.wrong(json_values.reason(match.group(), error).removeprefix("not JSON: ")) from None
        self.at = match.end()
        return value

    def members(self) -> Iterator[str]:
        """Yields the keys of the object that begins here. After each key, the caller must consume its value."""
        self.at += 1
        comma = False  # before the next key
        while comma or self.need() != ord("}"):
            if self.need() != _QUOTE:
                raise self.wrong("a key in double quotes is missing")
            key = self.scalar()
            if self.need() != ord(":"):
                raise self.wrong("a colon is missing")
            self.at += 1
            yield key
            comma = self.need() == ord(",")
            if comma:
                self.at += 1
            elif self.need() != ord("}"):
                raise self.wrong("a comma is missing")
        self.at += 1

    def scan(self, step: Callable[..., _T], *positions: int) -> _T:
        """Calls a method of self.bounds. Raises InputError for text that is not JSON."""
        try:
            return step(self.text, *positions, len(self.text))
        except native.JsonError as error:
            raise self.wrong(error, error.position) from None

    def open(self) -> bool:
        """Enters the array or object that begins here. Returns whether it is an object."""
        is_object = self.need() == _OBJECT
        self.at += 1
        self.bounds.begin(is_object)
        return is_object

    def skip(self, keys: Keys) -> None:
        """Skips the value that begins here. Adds it to `skipped` if it is a container."""
        if self.need() not in b"[{":
            self.scalar()
            return
        is_object = self.open()
        for _ in self.pieces(self.bounds.skip):
            pass
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append((keys, is_object, self.bounds.count))

    def pieces(self, step: Callable[[bytes, int, int], None]) -> Iterator[None]:
        """Scans the open container with `step`, which is bounds.skip or bounds.mark. Yields after each piece."""
        while True:
            self.scan(step, self.at)
            self.at = self.bounds.at
            yield
            if self.bounds.closed:
                return
            if not self.more():
                raise self.cut()

    # ---- The search ----

    def find(self, keys: Keys, again: Callable[[Keys], None]) -> Iterator[None]:
        """Yields at the beginning of each value under these keys; the caller must consume the value. Calls
        `again(keys)` if an object repeats a key of the path, because then the earlier value does not count. Checks the
        end of the document."""
        yield from self._search((), keys, again)
        self.end()

    def end(self) -> None:
        """Raises InputError unless the document ends here."""
        if self.peek() is not None:
            raise self.wrong("text follows the document; read_jsonl reads one value per line")

    def survey(self, keys: Keys) -> None:
        """Skips the value that begins here, under these keys, and adds the outermost containers in it to `skipped`. For
        an object under fewer than two keys, adds the containers in its members instead."""
        for _ in self._search(keys, None, None):
            pass

    def _search(self, keys: Keys, left: Keys | None, again: Callable[[Keys], None] | None) -> Iterator[None]:
        """`left` has the keys that remain on the path; None for a value that is not on the path."""
        byte = self.need()
        if left == ():
            yield
        elif byte == _OBJECT and (left is not None or len(keys) < 2 and len(self.skipped) < _MOST_SKIPPED):
            seen, n, at = False, 0, len(self.skipped)
            for key in self.members():
                n += 1
                rest = left[1:] if left and key == left[0] else None
                if rest is not None:
                    if seen and again:
                        again((*keys, key))
                    seen = True
                yield from self._search((*keys, key), rest, again)
            if at < _MOST_SKIPPED:
                self.skipped.insert(at, (keys, True, n))
        else:
            self.skip(keys)

    def ranges(self, size: float) -> list[tuple[int, int, int]]:
        """Divides the container that begins here into ranges of whole elements: `(start, end, number of the first
        element)`. All ranges but the last have at least `size` bytes."""
        self.open()
        start, first = self.base + self.at, 0
        ranges: list[tuple[int, int, int]] = []
        for _ in self.pieces(self.bounds.mark):
            end = self.base + self.bounds.first
            if self.bounds.closed:
                ranges.append((start, self.base + self.at, first))
            elif end - start >= size:
                ranges.append((start, end, first))
                start, first = end, self.bounds.commas
        return ranges

    def elements(self, partial: bool = False) -> Iterator[tuple[list[bytes], int, int, int]]:
        """Yields runs of elements of the open container: `(texts, position in the file, start and end in self.text)`.
        With `partial`, the file is a Part that may end after an element."""
        scanned = 0
        while True:
            texts = self.scan(self.bounds.split, self.at, self.at + scanned)
            start, end = self.at, self.bounds.at if self.bounds.closed else self.bounds.first
            self.at, scanned = end, self.bounds.at - end
            yield texts, self.base + start, start, end
            if self.bounds.closed:
                return
            if not self.more():
                if partial and self.at == len(self.text) and isinstance(self.file, Part) and self.file.left == 0:
                    return
                raise self.cut()


class Part:
    """The next `size` bytes of a file object, as a file object."""

    def __init__(self, file: io.BufferedIOBase, size: int) -> None:
        self.file, self.left = file, size

    def read(self, n: int) -> bytes:
        read = self.file.read(min(n, self.left))
        self.left -= len(read)
        return read
