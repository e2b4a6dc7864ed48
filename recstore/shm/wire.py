"""Numbers, text and plain values as bytes, for handles and labels.

Numbers are varints (unsigned LEB128, as in csrc/FORMAT.md); signed numbers use zigzag coding, as in Protocol Buffers.
The bytes are hostile input: a Reader raises CorruptError if they are not a value of the requested kind.
"""

from __future__ import annotations

from recstore._core.native import varint as varint
from recstore.errors import CorruptError
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_PLAIN_DEPTH = 8


def signed(n: int) -> bytes:
    """The bytes of a number from -2**63 to 2**63 - 1.

    >>> [Reader(signed(n)).signed() for n in (0, -1, 1, -2**63, 2**63 - 1)]
    [0, -1, 1, -9223372036854775808, 9223372036854775807]
    """
    return varint(n << 1 if n >= 0 else (-n << 1) - 1)


class Reader:
    """Reads values one after another from untrusted bytes. Raises CorruptError for malformed bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, n: int) -> bytes:
        if n > self.left:
            raise CorruptError(f"a recstore handle is truncated: {n} bytes needed at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte >= 0x80 or value >> 64:
            raise CorruptError("a recstore handle has a number of more than 64 bits")
        return value

    def size(self) -> int:
        """A length or position, below 2**63."""
        value = self.varint()
        if value >> 63:
            raise CorruptError(f"a recstore handle has the size {value}, more than 2**63 - 1")
        return value

    def signed(self) -> int:
        value = self.varint()
        return value >> 1 if not value & 1 else -(value >> 1) - 1

    def text(self) -> str:
        try:
            return self.take(self.size()).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as e:
            raise CorruptError(f"a recstore handle has text that is not UTF-8: {e}") from None

    def end(self) -> None:
        if self.left:
            raise CorruptError(f"a recstore handle has {self.left} extra bytes")


# ---- Plain values ----


def write_plain(value: object) -> bytes:
    """The bytes of a plain value: None, a bool, an int, a str, bytes, or a tuple of plain values."""
    if value is None or value is True or value is False:
        return bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        return b"\3" + signed(value)
    if isinstance(value, str):
        encoded = value.encode("utf-8", "surrogatepass")
        return b"\4" + varint(len(encoded)) + encoded
    if isinstance(value, bytes):
        return b"\5" + varint(len(value)) + value
    if isinstance(value, tuple):
        return b"\6" + varint(len(value)) + b"".join(map(write_plain, value))
    raise TypeError(f"a handle cannot hold {an(type(value).__name__)}, so this view cannot be pickled: {value!r:.80}")


def read_plain(reader: Reader, depth: int = 0) -> Any:
    kind = reader.byte()
    if kind < 3:
        return (None, True, False)[kind]
    if kind == 3:
        return reader.signed()
    if kind == 4:
        return reader.text()
    if kind == 5:
        return reader.take(reader.size())
    if kind != 6 or depth == MAX_PLAIN_DEPTH:
        raise CorruptError(f"a recstore handle has a plain value of kind {kind} at depth {depth}")
    return tuple(read_plain(reader, depth + 1) for _ in range(count(reader)))


def count(reader: Reader) -> int:
    """The number of items that follow, each of at least one byte."""
    n = reader.size()
    if n > reader.left:
        raise CorruptError(f"a recstore handle of {len(reader.data)} bytes claims to have {n} items")
    return n
