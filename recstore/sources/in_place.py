"""Sources with `in_place=True`: a store of the places of lines, whose text stays in its files (line_values.py)."""

from __future__ import annotations

import codecs
import copy
import os
from contextlib import suppress

from recstore._core import native
from recstore.errors import Error, InputError
from recstore.sources import encodings, inputs, line_values, reading
from recstore.text import an
from recstore.values import ext_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from typing_extensions import Unpack

    from recstore._types import BuildOptions
    from recstore.sources.inputs import Input
    from recstore.sources.line_values import Extra

_BLOCK = 1 << 22  # bytes between two looks at the progress
LONE = (
    "a line ends with a CR alone, where in_place=True takes LF and CRLF: leave in_place out, or convert the line ends"
)
NONE, EMPTY, BLANK = range(3)  # the lines that are skipped, as LineFinder.begin takes them


def refuse(arguments: Mapping[str, Any], remedies: Mapping[str, str]) -> None:
    """Raises ValueError for an argument that in_place=True does not take: one of `remedies` that is neither None nor
    "raise"."""
    for name, remedy in remedies.items():
        if arguments[name] not in (None, "raise"):
            raise ValueError(f"in_place=True reads each line on access, so it takes no {name}=: {remedy}")


class InPlaceSource(reading.FileSource):
    """The places of the lines of files. `kind` and `arguments` are the format and its arguments, as in EXTRA."""

    older: _Older | None = None

    def __init__(
        self, files: Sequence[Input], kind: str, arguments: tuple[Any, ...], skip: int, n_rows: int | None
    ) -> None:
        for file in files:
            _require_plain(file)
        self.kind, self.arguments, self.skip = kind, arguments, skip
        self.n_rows = reading.n_rows_of(n_rows)
        self.content = {"in_place": kind, "arguments": arguments, "skip": skip, "n_rows": self.n_rows}
        super().__init__(files)

    def save(self, path: str | os.PathLike[str], **options: Unpack[BuildOptions]) -> None:
        """As :meth:`Source.save`. If `path` has the index of an earlier call, files that are in it and at most grew are
        read only from their old end on."""
        segment = None
        if self.n_rows is None and os.path.exists(path):
            with suppress(Error):  # the file is not a store
                segment = native.open_path(path)
        if segment is None:
            return super().save(path, **options)
        again = copy.copy(self)
        try:
            with suppress(Error):  # the store is damaged
                again.older = _Older(segment)
            super(InPlaceSource, again).save(path, **options)
        finally:
            segment.close()

    def split(self) -> None:
        """None: one process finds lines about as fast as memory is read."""

    def _read(self, builder: Any, progress: bool) -> None:
        if not isinstance(builder, native.Builder):
            raise TypeError(
                f"{an(type(builder).__name__)} does not take a source with in_place=True, which stores places in files "
                "of this machine: leave in_place out to store the records"
            )
        finder = native.LineFinder(builder, *(() if self.n_rows is None else (self.n_rows,)))
        with reading.FileBar(self.inputs, progress) as bar:
            for file in bar.files():
                self._find(file, finder, bar)
                if finder.left == 0:
                    break

    def _find(self, file: Input, finder: native.LineFinder, bar: reading.FileBar) -> None:
        path = os.path.abspath(file.name)
        with file.open_raw() as opened:
            status = os.fstat(opened.fileno())
            size = status.st_size
            start = os.pread(opened.fileno(), encodings.LONGEST_MARK, 0)
            mark = encodings.marked(start)
            if mark not in (None, "utf-8"):
                raise InputError(f"{file.name}: the text is {mark}; in_place=True reads UTF-8: leave it out")
            crc = line_values.tail_crc(opened.fileno(), size)
            arguments, skip, at = self._begin(file, len(codecs.BOM_UTF8) if mark else 0)
            finder.begin((self.kind, path, size, status.st_mtime_ns, crc, arguments), skip, at)
            if self.older is not None:
                self.older.give(opened.fileno(), path, (self.kind, arguments), finder)
                at = finder.at
            while at < size and not finder.done:
                finder.read(opened.fileno(), min(size - at, _BLOCK))
                if finder.fault is not None:
                    raise InputError(f"{file.name}, byte {finder.at:,}: {_reason(finder.fault)}")
                if finder.at == at:
                    raise InputError(f"{file.name}: the file was cut while it was read")
                at = finder.at
                bar.moved(at / size)
            if finder.open_row is not None:
                raise InputError(f"{file.name}, byte {finder.open_row:,}: {_reason('quote')}")
            finder.end()

    def _begin(self, file: Input, mark: int) -> tuple[tuple[Any, ...], int, int]:
        """`(arguments, skip, byte of the first line)` of a file that begins with a byte order mark of `mark` bytes."""
        arguments = ("utf-8", *self.arguments[1:]) if mark and self.kind == "text" else self.arguments
        return arguments, self.skip, mark

    def _check(self) -> None:
        """A file that grew meanwhile is checked when it is read."""


def _reason(fault: str) -> str:
    """The reason of a fault of LineFinder, or of a quote that never closes, for a message."""
    if fault == "return":
        return LONE
    from recstore.sources import csv_text

    quotes = {
        "text": "text follows the closing quote of a cell",
        "quote": "a quote in the row that begins here never closes",
    }
    return f"{quotes[fault]}; {csv_text.UNQUOTED}"


class _Older:
    """The blocks of lines in an older index, by file."""

    def __init__(self, segment: native.Segment) -> None:
        native.LineFinder.check_blocks(segment)
        self.segment = segment
        self.blocks: dict[str, tuple[Extra, int, int]] = {}  # {path: (EXTRA, first block, end of its blocks)}
        extras, last = [_extra_of(nodes) for nodes in self.segment.trees()], None
        for number, (_, _, tree, _, _) in enumerate(self.segment.blocks()):
            extra = extras[tree]
            if extra is not None:  # each occurrence of a file has a tree of its own
                first = self.blocks[extra[1]][1] if tree == last else number
                self.blocks[extra[1]] = extra, first, number + 1
            last = tree

    def give(self, descriptor: int, path: str, form: tuple[str, tuple[Any, ...]], finder: native.LineFinder) -> None:
        """Adds the lines of an open file that the older index has, if they are still there."""
        if path not in self.blocks:
            return
        (kind, _, size, mtime, crc, arguments), begin, end = self.blocks[path]
        if (kind, arguments) == form and line_values.difference(descriptor, size, mtime, crc) is None:
            finder.take(self.segment, begin, end)


def _extra_of(nodes: Sequence[Any]) -> Extra | None:
    """The EXTRA of a tree whose blocks LineFinder has made, else None."""
    kinds = [native.node_name(node[0]) for node in nodes]
    if kinds != ["ext", "rising", "int"] or nodes[0][1] != ext_codes.LINE or any(nodes[2][6]):
        return None
    extra: Extra = native.load((nodes[0][6], b""))
    return extra


def _require_plain(file: Input) -> None:
    """Raises ValueError for a file whose lines cannot be read in place."""
    if file.packed is not None:
        reason = "a compressed file can be read only from its beginning: decompress it"
    elif isinstance(file, inputs.Url):
        reason = "a file at a URL is not on this machine: download it"
    elif file.path is None:
        reason = "a file object or pipe cannot be opened again by other processes: give the path of a regular file"
    else:
        return
    raise ValueError(f"{file.name}: {reason}, or leave out in_place=True, which stores the records")
