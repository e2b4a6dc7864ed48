"""Decodes the texts of JSON values and appends the values to a builder. orjson or msgspec decodes if it is installed.

Values are the same as from `json.loads`, which decodes the texts that these libraries reject: NaN, Infinity, numbers
beyond the range of floats, and lone surrogates. orjson turns integers beyond 64 bits into floats; texts that may have
such an integer go to another decoder.
"""

from __future__ import annotations

import json
from itertools import chain
from operator import length_hint

from recstore._core import native
from recstore.sources import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from recstore.sources.inputs import Input

    Decoder = Callable[[bytes], Any]
    Where = Callable[[Any], object] | None


def exact(text: bytes) -> Any:
    """Decodes a JSON text in bytes with the standard library. Raises one of NOT_JSON."""
    return json.loads(str(text, "utf-8", "surrogatepass"))


def _installed_decoders() -> tuple[Decoder, Decoder, tuple[type[Exception], ...]]:
    """`(decoder, decoder for integers of any size, errors of both)`: the fastest installed decoders."""
    errors: tuple[type[Exception], ...] = (ValueError, RecursionError)
    decode_long: Decoder = exact
    try:
        import msgspec

        decode_long, errors = msgspec.json.Decoder().decode, (*errors, msgspec.MsgspecError)
    except ImportError:
        pass
    try:
        import orjson
    except ImportError:
        return decode_long, decode_long, errors
    return orjson.loads, decode_long, errors


DECODE, DECODE_LONG, NOT_JSON = _installed_decoders()


class Piece:
    """The texts of consecutive values of a file. `within` is a buffer with these texts from `start` to `end`.
    `refused(number, error)` is called for a text that is not JSON; it raises, or returns to skip the text."""

    __slots__ = ("texts", "decode", "refused")

    def __init__(
        self, texts: list[bytes], refused: Callable[[int, Exception], None], within: bytes, start: int, end: int
    ) -> None:
        self.texts, self.refused = texts, refused
        long = DECODE is not DECODE_LONG and native.has_long_int(within, start, end)
        self.decode = DECODE_LONG if long else DECODE

    def values(self) -> Iterator[Any]:
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

    def append(self, builder: Any, pairs: bool) -> None:
        """Appends the values to a builder; with `pairs`, the members of the objects. With orjson or msgspec it
        runs no Python code per value."""
        left = iter(self.texts)
        while True:
            rows = map(self.decode, left)
            try:
                builder.extend(chain.from_iterable(map(dict.items, rows)) if pairs else rows)
                return
            except NOT_JSON:
                number = len(self.texts) - length_hint(left) - 1
            try:
                value = exact(self.texts[number])
            except NOT_JSON as error:
                self.refused(number, error)
                continue
            builder.extend(value.items() if pairs else [value])


class ValueSource(reading.FileSource):
    """The JSON values of files; with `pairs`, the members of objects. Subclasses implement `pieces`. `columns`, `where`
    and `n_rows` are arguments of the readers."""

    def __init__(
        self,
        files: list[Input],
        columns: Iterable[str] | None = None,
        where: Where = None,
        n_rows: int | None = None,
    ) -> None:
        self.names, self.where = reading.keys_of(columns), reading.where_of(where)
        self.n_rows = reading.n_rows_of(n_rows)
        self.content = {"columns": self.names, "where": where, "n_rows": self.n_rows}
        super().__init__(files)

    def _restart(self) -> None:
        self.columns = None if self.names is None else reading.Columns(self.names)

    def pieces(self, file: Input, bar: reading.FileBar) -> Iterator[Piece]:
        """Yields the Pieces of a file."""
        raise NotImplementedError

    def _read(self, builder: Any, progress: bool) -> None:
        with reading.FileBar(self.inputs, progress) as bar, self._named(bar):
            if self.columns is not None or self.where is not None or self.n_rows is not None:
                builder.extend(self.rows(bar))
                return
            for piece in self.all_pieces(bar):
                piece.append(builder, self.pairs)

    def all_pieces(self, bar: reading.FileBar) -> Iterator[Piece]:
        return (piece for file in bar.files() for piece in self.pieces(file, bar))

    def rows(self, bar: reading.FileBar) -> Iterator[Any]:
        """Yields the values or members that the arguments choose."""
        values = (value for piece in self.all_pieces(bar) for value in piece.values())
        if not self.pairs:
            yield from reading.chosen(values, self.columns, self.where, self.n_rows)
            return
        for key, value in reading.chosen(_members(values, self.columns), None, self.where, self.n_rows):
            yield key, value if self.columns is None else self.columns.of(value)


def _members(values: Iterable[dict[str, Any]], columns: reading.Columns | None) -> Iterator[tuple[str, Any]]:
    """Yields the members of objects. Adds their values to `columns`."""
    for value in values:
        for pair in value.items():
            if columns is not None:
                columns.add(pair[1])
            yield pair


def reason(text: bytes, error: Exception) -> str:
    """The reason why a text is not JSON, and the beginning of the text, for a message."""
    if isinstance(error, RecursionError):
        fault = "it is nested too deeply"
    elif isinstance(error, json.JSONDecodeError):
        fault = f"{error.msg} (character {error.pos})"
    elif isinstance(error, UnicodeDecodeError):
        fault = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
    else:
        fault = str(error).split(";")[0]
    start = str(text[:60], "utf-8", "backslashreplace")
    return f"not JSON: {fault}: {start!r}{'...' if len(text) > 60 else ''}"
