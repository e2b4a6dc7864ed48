"""`sources.jsonl` and `read_jsonl`: the values of text files with one JSON value per line."""

from __future__ import annotations

from codecs import BOM_UTF8
from itertools import islice

from recstore.building import build_options
from recstore.errors import InputError
from recstore.lazy_names import named_arguments
from recstore.sources import encodings, inputs, json_values, line_blocks, reading
from recstore.sources import in_place as in_place_files
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal

    from typing_extensions import Unpack

    from recstore._types import BuildOptions, Files
    from recstore.containers.records import RecordList
    from recstore.sources import Source
    from recstore.sources.inputs import Input

__all__ = ["jsonl", "read_jsonl"]

_MOST_NAMED = 10
_DOCUMENT_STARTS = (b"[", b"{", b"[{")  # first lines of indented documents


@named_arguments
def jsonl(
    path: Files,
    *,
    errors: Literal["raise", "skip"] = "raise",
    columns: Iterable[str] | None = None,
    where: Callable[[Any], object] | None = None,
    n_rows: int | None = None,
    in_place: bool = False,
) -> Source[Any]:
    """The values of files with one JSON value per line (JSON Lines, NDJSON).

    Values are the same as from ``json.loads``: NaN and Infinity are numbers, integers have any size, and the last value
    of a repeated key counts. orjson or msgspec decodes if it is installed. Blank lines are skipped. Lines end with LF
    or CRLF; the last line may lack its end.

    Args:
        path: a path, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. ``.gz``,
            ``.bz2``, ``.xz``, ``.zst`` and ``.zip`` files are decompressed. Files of a pattern are read in the order of
            their names. The text is UTF-8, or UTF-16 or UTF-32 with a byte order mark.
        errors: "raise" raises InputError for a line that is not one JSON value; "skip" skips such lines, and logs their
            count as a warning at the end.
        columns: for records that are dicts, the keys to store. None for all. A key that no record has is an InputError.
        where: a function; only records for which it is true are stored.
        n_rows: the most records to store.
        in_place: whether to store only where the lines begin, about 2 bytes a line, and to read and decode a line on
            each access. The files must stay where they are: a file that was cut or replaced is an InputError when it
            is next opened; lines appended to it are not seen. They are regular files in UTF-8 that are not compressed.
            `errors`, `columns` and `where` are refused, and a line that is not JSON is an InputError when it is read.

    Raises OSError for a file that cannot be read. A build raises InputError for a bad line, with its number, and for a
    file that cannot be decompressed or changes while it is read; EncodeError for a record nested deeper than a store
    allows. With ``workers=N`` it reads large uncompressed UTF-8 files in ranges. Safe from several threads at once.

    >>> import io, recstore
    >>> with recstore.RecordList(jsonl(io.BytesIO(b'{"id": 1}\\n{"id": 2}\\n'))) as x: x.to_list()
    [{'id': 1}, {'id': 2}]
    """
    build_options.check_choice("errors", errors, ("raise", "skip"))
    if in_place:
        hints = {"errors": "correct the files", "columns": "write x.fields(...)", "where": "write x.filter(...)"}
        in_place_files.refuse(locals(), hints)
        return in_place_files.InPlaceSource(inputs.resolve(path), "json", (), in_place_files.BLANK, n_rows)
    return JsonlSource(inputs.resolve(path), errors, columns, where, n_rows)


def read_jsonl(
    path: Files,
    *,
    errors: Literal["raise", "skip"] = "raise",
    columns: Iterable[str] | None = None,
    where: Callable[[Any], object] | None = None,
    n_rows: int | None = None,
    in_place: bool = False,
    **options: Unpack[BuildOptions],
) -> RecordList[Any]:
    """``RecordList(recstore.sources.jsonl(path, ...), **options)``: see :func:`recstore.sources.jsonl` for the
    arguments and :class:`recstore.RecordList` for the options."""
    return reading.built(read_jsonl, jsonl, **locals())


class JsonlSource(json_values.ValueSource):
    """The values of the lines of files. `range` is None, or `(start, end)`: only the lines of the single file that
    begin in this range of bytes."""

    def __init__(
        self,
        files: list[Input],
        errors: str = "raise",
        columns: Iterable[str] | None = None,
        where: Callable[[Any], object] | None = None,
        n_rows: int | None = None,
        range: tuple[int, int] | None = None,
    ) -> None:
        self.errors, self.range = errors, range
        super().__init__(files, columns, where, n_rows)
        self.content["errors"] = errors

    def _restart(self) -> None:
        super()._restart()
        self.bad: dict[str, list[int]] = {}  # {file: [count of bad lines, line number of the first]}

    def pieces(self, file: Input, bar: reading.FileBar) -> Iterator[json_values.Piece]:
        start, end = self.range or (0, None)
        before = 0
        with inputs.damage_of(file), file.open() as stream:
            text = stream if self.range else encodings.utf8(stream, file.name)
            for block in line_blocks.blocks(text, start, end):
                if before == 0 and start == 0:
                    block = block.removeprefix(BOM_UTF8)
                # The decoder would raise a slow error for each blank line.
                texts = list(filter(bytes.strip, block.split(b"\n")))
                yield json_values.Piece(texts, self.refusing(file, block, before), block, 0, len(block))
                before += block.count(b"\n")
                bar.moved()

    def refusing(self, file: Input, block: bytes, before: int) -> Callable[[int, Exception], None]:
        """The function `refused` for the Piece of `block`; its `number` counts the non-blank lines of the block.
        `before` is the number of lines before the block."""

        def line_of(number: int) -> tuple[int, bytes]:
            lines = enumerate(block.split(b"\n"), before + self.lines_before(file) + 1)
            return next(islice((pair for pair in lines if pair[1].strip()), number, None))

        def refused(number: int, error: Exception) -> None:
            if self.errors == "raise":
                line, text = line_of(number)
                is_last = line == before + self.lines_before(file) + block.count(b"\n") + 1
                end = "; the file ends here and may be truncated" if is_last else ""
                hint = 'errors="skip" skips bad lines'
                if line == 1 and text.strip() in _DOCUMENT_STARTS:
                    hint = "read_json reads a document of several lines"
                raise InputError(f"{file.name}, line {line:,}: {json_values.reason(text, error)}{end}; {hint}")
            if file.name not in self.bad:
                self.bad[file.name] = [0, line_of(number)[0]]
            self.bad[file.name][0] += 1

        return refused

    def lines_before(self, file: Input) -> int:
        """The number of lines before the range."""
        if self.range is None or self.range[0] == 0:
            return 0
        left, lines = self.range[0] - 1, 1  # the range begins after the next line end
        with file.open() as stream:
            while left > 0 and (block := stream.read(min(left, line_blocks.BLOCK))):
                lines += block.count(b"\n")
                left -= len(block)
        return lines

    def _parts(self) -> list[JsonlSource]:
        rest = self.errors, self.names, self.where, None
        return [JsonlSource(files, *rest, part) for files, part in line_blocks.shares(self.inputs)]

    def _report(self) -> tuple[dict[str, list[int]], object]:
        return self.bad, self.columns and self.columns.report()

    def _take_reports(self, reports: list[Any]) -> None:
        if self.columns is not None:
            self.columns.require([columns for _, columns in reports], self.inputs, self.n_rows)
        bad: dict[str, list[int]] = {}
        for report, _ in reports:
            for name, (count, first) in report.items():
                bad.setdefault(name, [0, first])[0] += count
        if bad:
            _warn(bad)


def _warn(bad: dict[str, list[int]]) -> None:
    """Logs a warning about the skipped lines."""
    import logging

    total = sum(count for count, _ in bad.values())
    counts = [f"{count:,} of {name} (the first is line {first:,})" for name, (count, first) in bad.items()]
    more = f", and more in {len(counts) - _MOST_NAMED:,} other files" if len(counts) > _MOST_NAMED else ""
    text = f"read_jsonl skipped {counted(total, 'bad line')}: {', '.join(counts[:_MOST_NAMED])}{more}"
    logging.getLogger("recstore").warning(text)
