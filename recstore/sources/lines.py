"""`read_lines`: the lines of text files."""

import codecs
import io

from recstore.building import build_options
from recstore.errors import InputError
from recstore.sources import encodings, inputs, line_blocks, reading

__all__ = ["read_lines"]

_BYTEWISE = ("utf-8", "utf-8-sig", "ascii", "iso8859-1")  # a line end is one byte, which stands for nothing else


def read_lines(path, *, encoding="utf-8", empty="keep", where=None, limit=None, **options):
    """A RecordList of the lines of text files, each a str without its line end.

    Args:
        path: a path, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. ``.gz``,
            ``.bz2``, ``.xz``, ``.zst`` and ``.zip`` files are unpacked. Files of a pattern are read in the order of
            their names.
        encoding: the encoding of the text. Bytes that are no text in it become lone surrogates, as in file names. A
            byte order mark of UTF-8, UTF-16 or UTF-32 counts more than this, and is left out.
        empty: "keep" makes an empty line an empty str, so that line and record have one number; "skip" leaves empty
            lines out.
        where: a function; only lines for which it is true are stored.
        limit: the most lines to store.
        options: those of :class:`recstore.RecordList`, `workers` reading large files in ranges; `save`, the path of a
            file in which the store is built, instead of memory; and ``shared="name"`` with `keep`, `fingerprint`, `dir`
            and `timeout` as of :func:`recstore.shared`: one process of the machine reads the files, and the others
            attach.

    Raises OSError for a file that cannot be read; InputError for one that cannot be unpacked or changes meanwhile.
    Safe from several threads at once.

    >>> import io
    >>> with read_lines(io.BytesIO(b"a.jpg\\nb.jpg\\n")) as x: x.to_list()
    ['a.jpg', 'b.jpg']
    """
    build_options.check_choice("empty", empty, ("keep", "skip"))
    feed = LinesFeed(inputs.resolve(path), encoding, empty, where, limit)
    return reading.store("read_lines", feed, options, encoding=encoding, empty=empty, where=where, limit=limit)


class LinesFeed(reading.FileFeed):
    """The lines of files. `range` is None, or of the only file the places between which the lines begin."""

    def __init__(self, files, encoding="utf-8", empty="keep", where=None, limit=None, range=None):
        super().__init__(files)
        self.encoding, self.empty, self.range = encoding, empty, range
        self.where, self.limit = reading.where_of(where), reading.limit_of(limit)
        self.codec = codecs.lookup(encoding).name

    def fill(self, builder, options):
        with reading.FileBar(self.files, options) as bar, self.named(bar):
            if self.where is not None or self.limit is not None:
                builder.extend(self.rows(bar))
                return
            for run in self.runs(bar):
                builder.extend(run)

    def records(self):
        """Yields the lines."""
        with reading.FileBar(self.files, None) as bar:
            yield from self.rows(bar)

    def rows(self, bar):
        lines = (line for run in self.runs(bar) for line in run)
        return reading.chosen(lines, where=self.where, limit=self.limit)

    def runs(self, bar):
        """Yields iterators over lines that stand one after another."""
        for file in bar.files():
            with inputs.damage_of(file), file.open() as opened:
                if self.range is None:
                    text, codec = encodings.begun(opened, self.codec)
                else:
                    text, codec = opened, encodings.of_path(file.path) or self.codec
                yield from (self.blocks if codec in _BYTEWISE else self.stream)(text, codec, file, bar)

    def blocks(self, opened, codec, file, bar):
        """The runs of a file in an encoding where the byte of a line end is nothing else."""
        start, end = self.range or (0, None)
        codec = codec.removesuffix("-sig")
        mark = codec == "utf-8" and start == 0
        for block in line_blocks.blocks(opened, start, end):
            text = block.decode("utf-8-sig" if mark else codec, "surrogateescape")
            mark = False
            if "\r" in text:
                text = text.replace("\r\n", "\n").replace("\r", "\n")
            lines = text.split("\n")
            if not lines[-1]:  # what follows the last line end is no line
                del lines[-1]
            yield self.kept(lines)
            bar.moved()

    def stream(self, opened, codec, file, bar):
        before = 0
        with io.TextIOWrapper(opened, codec, "surrogateescape") as text:
            while lines := self.more(text, codec, file, before):
                yield self.kept([line.removesuffix("\n") for line in lines])
                before += len(lines)
                bar.moved()

    def more(self, text, codec, file, before):
        try:
            return text.readlines(line_blocks.BLOCK)
        except UnicodeDecodeError:  # a half of a character, which has no bytes that a surrogate could stand for
            place = f"{file.name}, behind line {before:,}"
            raise InputError(encodings.no_text(place, codec, codec != self.codec)) from None

    def kept(self, lines):
        return filter(None, lines) if self.empty == "skip" else iter(lines)

    def shards(self):
        if self.limit is not None:
            return [self]
        shares = line_blocks.shares(self.files) if self.codec in _BYTEWISE else (([one], None) for one in self.files)
        return [LinesFeed(files, self.encoding, self.empty, self.where, None, part) for files, part in shares]
