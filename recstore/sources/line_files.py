"""`sources.lines` and `read_lines`: the lines of text files."""

from __future__ import annotations

import codecs
import io

from recstore.building import build_options
from recstore.errors import InputError
from recstore.lazy_names import named_arguments
from recstore.sources import encodings, inputs, line_blocks, line_values, reading
from recstore.sources import in_place as in_place_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import BufferedIOBase
    from typing import Any, Literal

    from typing_extensions import Unpack

    from recstore._types import BuildOptions, Files
    from recstore.containers.records import RecordList
    from recstore.sources import Source
    from recstore.sources.inputs import Input

__all__ = ["lines", "read_lines"]

_BYTEWISE = (*line_values.CODECS, "utf-8-sig")


@named_arguments
def lines(
    path: Files,
    *,
    encoding: str = "utf-8",
    empty: Literal["keep", "skip"] = "keep",
    where: Callable[[str], object] | None = None,
    n_rows: int | None = None,
    in_place: bool = False,
) -> Source[str]:
    """The lines of text files, each a str without its line end.

    Args:
        path: a path, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. ``.gz``,
            ``.bz2``, ``.xz``, ``.zst`` and ``.zip`` files are decompressed. Files of a pattern are read in the order of
            their names.
        encoding: the encoding of the text. Bytes that are not text in it become lone surrogates, as in file names. A
            byte order mark of UTF-8, UTF-16 or UTF-32 takes precedence and is dropped.
        empty: "keep" stores an empty line as an empty str, so that lines and records have the same numbers; "skip"
            skips empty lines.
        where: a function; only lines for which it is true are stored.
        n_rows: the most lines to store.
        in_place: whether to store only where the lines begin, as in :func:`recstore.sources.jsonl`. `encoding` is then
            UTF-8, ASCII or Latin-1, and `where` is refused.

    Raises OSError for a file that cannot be read. A build raises InputError for a file that cannot be decompressed or
    changes while it is read, and for bytes that cannot become surrogates, such as half a character of UTF-16. With
    ``workers=N`` it reads large uncompressed files in UTF-8, ASCII or Latin-1 in ranges. Safe from several threads at
    once.

    >>> import io, recstore
    >>> with recstore.RecordList(lines(io.BytesIO(b"a.jpg\\nb.jpg\\n"))) as x: x.to_list()
    ['a.jpg', 'b.jpg']
    """
    build_options.check_choice("empty", empty, ("keep", "skip"))
    if in_place:
        in_place_files.refuse(locals(), {"where": "write x.filter(...)"})
        codec = codecs.lookup(encoding).name.removesuffix("-sig")
        if codec not in line_values.CODECS:
            raise ValueError(f"in_place=True reads UTF-8, ASCII and Latin-1, not {encoding}: leave it out")
        skip = in_place_files.EMPTY if empty == "skip" else in_place_files.NONE
        return in_place_files.InPlaceSource(inputs.resolve(path), "text", (codec, empty), skip, n_rows)
    return LineSource(inputs.resolve(path), encoding, empty, where, n_rows)


def read_lines(
    path: Files,
    *,
    encoding: str = "utf-8",
    empty: Literal["keep", "skip"] = "keep",
    where: Callable[[str], object] | None = None,
    n_rows: int | None = None,
    in_place: bool = False,
    **options: Unpack[BuildOptions],
) -> RecordList[str]:
    """``RecordList(recstore.sources.lines(path, ...), **options)``: see :func:`recstore.sources.lines` for the
    arguments and :class:`recstore.RecordList` for the options."""
    return reading.built(read_lines, lines, **locals())


class LineSource(reading.FileSource):
    """The lines of files. `range` is None, or `(start, end)`: only the lines of the single file that begin in this
    range of bytes."""

    def __init__(
        self,
        files: list[Input],
        encoding: str = "utf-8",
        empty: str = "keep",
        where: Callable[[str], object] | None = None,
        n_rows: int | None = None,
        range: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(files)
        self.encoding, self.empty, self.range = encoding, empty, range
        self.where, self.n_rows = reading.where_of(where), reading.n_rows_of(n_rows)
        self.codec = codecs.lookup(encoding).name
        self.content = {"encoding": encoding, "empty": empty, "where": where, "n_rows": self.n_rows}

    def _read(self, builder: Any, progress: bool) -> None:
        with reading.FileBar(self.inputs, progress) as bar, self._named(bar):
            if self.where is not None or self.n_rows is not None:
                builder.extend(self.rows(bar))
                return
            for run in self.runs(bar):
                builder.extend(run)

    def rows(self, bar: reading.FileBar) -> Iterator[str]:
        lines = (line for run in self.runs(bar) for line in run)
        return reading.chosen(lines, where=self.where, n_rows=self.n_rows)

    def runs(self, bar: reading.FileBar) -> Iterator[Iterable[str]]:
        """Yields iterators over consecutive lines."""
        for file in bar.files():
            with inputs.damage_of(file), file.open() as stream:
                if self.range is None:
                    text, codec = encodings.begun(stream, self.codec)
                else:
                    text, codec = stream, encodings.of_path(file.path or "") or self.codec
                yield from (self.blocks if codec in _BYTEWISE else self.stream)(text, codec, file, bar)

    def blocks(self, stream: BufferedIOBase, codec: str, file: Input, bar: reading.FileBar) -> Iterator[Iterable[str]]:
        """The runs of a file in one of the _BYTEWISE encodings."""
        start, end = self.range or (0, None)
        codec = codec.removesuffix("-sig")
        mark = codec == "utf-8" and start == 0
        for block in line_blocks.blocks(stream, start, end):
            text = block.decode("utf-8-sig" if mark else codec, "surrogateescape")
            mark = False
            if "\r" in text:
                text = text.replace("\r\n", "\n").replace("\r", "\n")
            lines = text.split("\n")
            if not lines[-1]:  # the block ends with a line end
                del lines[-1]
            yield self.chosen_lines(lines)
            bar.moved()

    def stream(self, stream: BufferedIOBase, codec: str, file: Input, bar: reading.FileBar) -> Iterator[Iterable[str]]:
        before = 0
        file_object: Any = stream  # typeshed requires a `name` attribute
        with io.TextIOWrapper(file_object, codec, "surrogateescape") as text:
            while lines := self.next_lines(text, codec, file, before):
                yield self.chosen_lines([line.removesuffix("\n") for line in lines])
                before += len(lines)
                bar.moved()

    def next_lines(self, text: io.TextIOWrapper, codec: str, file: Input, before: int) -> list[str]:
        try:
            return text.readlines(line_blocks.BLOCK)
        except UnicodeDecodeError:  # bytes that surrogates cannot represent, such as half a character
            place = f"{file.name}, after line {before:,}"
            raise InputError(encodings.no_text(place, codec, codec != self.codec)) from None

    def chosen_lines(self, lines: list[str]) -> Iterable[str]:
        return filter(None, lines) if self.empty == "skip" else iter(lines)

    def _parts(self) -> list[LineSource]:
        whole_files = (([file], None) for file in self.inputs)
        shares = line_blocks.shares(self.inputs) if self.codec in _BYTEWISE else whole_files
        return [LineSource(files, self.encoding, self.empty, self.where, None, part) for files, part in shares]
