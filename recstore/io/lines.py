"""`read_lines`: the lines of text files."""

import io

from recstore.io import inputs, reading

__all__ = ["read_lines"]


def read_lines(path, *, encoding="utf-8", where=None, limit=None, **options):
    """A RecordList of the lines of text files, each a str without its line end. Empty lines are left out.

    Args:
        path: a path, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. ``.gz``,
            ``.bz2``, ``.xz``, ``.zst`` and ``.zip`` files are unpacked. Files of a pattern are read in the order of
            their names.
        encoding: the encoding of the text. Bytes that are no text in it become lone surrogates, as in file names. A
            byte order mark is left out.
        where: a function; only lines for which it is true are stored.
        limit: the most lines to store.
        options: those of :class:`recstore.RecordList`, `workers` counting a file as a shard; and ``shared="name"``
            with `keep`, `fingerprint`, `dir` and `timeout` as of :func:`recstore.shared`: one process of the machine
            reads the files, and the others attach.

    Raises OSError for a file that cannot be read; InputError for one that cannot be unpacked or changes meanwhile.
    Safe from several threads at once.

    >>> import io
    >>> with read_lines(io.BytesIO(b"a.jpg\\nb.jpg\\n")) as x: x.to_list()
    ['a.jpg', 'b.jpg']
    """
    feed = LinesFeed(inputs.resolve(path), encoding, where, limit)
    return reading.store("read_lines", feed, options, encoding=encoding, where=where, limit=limit)


class LinesFeed(reading.FileFeed):
    """The lines of files."""

    def __init__(self, files, encoding, where, limit):
        super().__init__(files)
        self.encoding, self.where, self.limit = encoding, where, limit

    def fill(self, builder, options):
        with reading.FileBar(self.files, options) as bar:
            lines = (line for file in bar.files() for line in self.lines(file, bar))
            builder.extend(reading.chosen(lines, where=self.where, limit=self.limit))

    def lines(self, file, bar):
        encoding = "utf-8-sig" if self.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else self.encoding
        with reading.errors_of(file), file.open() as opened:
            with io.TextIOWrapper(opened, encoding, "surrogateescape") as text:
                for line in text:
                    bar.step()
                    line = line.rstrip("\n")
                    if line:
                        yield line

    def shards(self):
        if self.limit is not None:
            return [self]
        return [LinesFeed([file], self.encoding, self.where, None) for file in self.files]
