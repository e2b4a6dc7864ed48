"""Decodes the texts of JSON values, and appends the values to a builder. orjson or msgspec decodes if it is installed.

The values are those of `json.loads`: whatever these libraries refuse goes to it, such as NaN, Infinity, numbers beyond
the floats and lone surrogates. orjson makes floats of integers beyond 64 bits; texts that may hold one go to another
decoder.
"""

import json
from itertools import chain

from recstore._core import native
from recstore.sources import reading


def exact(text):
    """The value of a JSON text in bytes, by the standard library. Raises one of NOT_JSON."""
    return json.loads(str(text, "utf-8", "surrogatepass"))


def _installed():
    """`(decoder, decoder of integers of any size, errors of both)`, the fastest ones that are installed."""
    errors = (ValueError, RecursionError)
    whole = exact
    try:
        import msgspec

        whole, errors = msgspec.json.Decoder().decode, (*errors, msgspec.MsgspecError)
    except ImportError:
        pass
    try:
        import orjson
    except ImportError:
        return whole, whole, errors
    return orjson.loads, whole, errors


DECODE, DECODE_LONG, NOT_JSON = _installed()


class Piece:
    """The texts of some values of a file that stand one after another, as bytes. `within` is a buffer with these texts
    from `start` to `end`. `refused(number, error)` is called for a text that is no JSON, and raises or returns."""

    __slots__ = ("texts", "decode", "refused")

    def __init__(self, texts, refused, within, start, end):
        self.texts, self.refused = texts, refused
        long = DECODE is not DECODE_LONG and native.has_long_int(within, start, end)
        self.decode = DECODE_LONG if long else DECODE

    def values(self):
        """Yields the values."""
        for number, text in enumerate(self.texts):
            try:
                value = self.decode(text)
            except NOT_JSON:
                try:
                    value = exact(text)
                except NOT_JSON as error:
                    self.refused(number, error)
                    continue
            yield value

    def append(self, builder, pairs):
        """Appends the values to a builder; with `pairs`, the members of the objects. It runs no Python code for a
        value."""
        left = iter(self.texts)
        while True:
            rows = map(self.decode, left)
            try:
                builder.extend(chain.from_iterable(map(dict.items, rows)) if pairs else rows)
                return
            except NOT_JSON:
                number = len(self.texts) - left.__length_hint__() - 1
            try:
                value = exact(self.texts[number])
            except NOT_JSON as error:
                self.refused(number, error)
                continue
            builder.extend(value.items() if pairs else [value])


def fill(builder, pieces, columns=None, where=None, n_rows=None, pairs=False):
    """Appends the values of all pieces to a builder; with `pairs`, the members of objects. `columns` are
    reading.Columns, or None."""
    if columns is not None or where is not None or n_rows is not None:
        builder.extend(rows(pieces, columns, where, n_rows, pairs))
        return
    for piece in pieces:
        piece.append(builder, pairs)


def rows(pieces, columns=None, where=None, n_rows=None, pairs=False):
    """Yields the values of all pieces that are asked for; with `pairs`, the members of objects."""
    values = (value for piece in pieces for value in piece.values())
    if not pairs:
        yield from reading.chosen(values, columns, where, n_rows)
        return
    for key, value in reading.chosen(seen(values, columns), None, where, n_rows):
        yield key, value if columns is None else columns.of(value)


def seen(values, columns):
    """The members of objects, of which `columns` take note."""
    for value in values:
        for pair in value.items():
            if columns is not None:
                columns.see(pair[1])
            yield pair


def reason(text, error):
    """The reason why a text is no JSON, and its beginning, for a message."""
    if isinstance(error, RecursionError):
        said = "it is nested too deeply"
    elif isinstance(error, json.JSONDecodeError):
        said = f"{error.msg} (character {error.pos})"
    elif isinstance(error, UnicodeDecodeError):
        said = f"byte 0x{error.object[error.start]:02x} is no UTF-8"
    else:
        said = str(error).split(";")[0]
    shown = str(text[:60], "utf-8", "backslashreplace")
    return f"not JSON: {said}: {shown!r}{'...' if len(text) > 60 else ''}"
