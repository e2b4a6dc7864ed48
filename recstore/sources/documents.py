"""`read_json`: the elements of one array, or the members of one object, of JSON documents."""

from recstore.errors import InputError
from recstore.sources import encodings, inputs, json_values, reading
from recstore.sources.json_document import Document, Part

__all__ = ["read_json"]

_RANGE = 8 << 20  # bytes of a shard
_MOST_KEYS = 100
_MOST_NAMED = 20
_KINDS = {ord("["): "an array", ord("{"): "an object", ord('"'): "a string"}


def read_json(path, *, records=None, entries=False, columns=None, where=None, limit=None, **options):
    """A RecordList of the elements of one array in a JSON document, as ``annotations`` of a COCO file.

    The array is never held as a whole, neither as text nor as Python objects: memory is bounded by the largest element.
    The values are those of ``json.load``: NaN and Infinity are numbers, integers have any size, of a repeated key the
    last value counts. orjson or msgspec decodes if it is installed. Elements are checked in full, what stands beside
    the array only as far as its brackets and strings.

    Args:
        path: a path, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. ``.gz``,
            ``.bz2``, ``.xz``, ``.zst`` and ``.zip`` files are unpacked. The arrays of several documents are joined;
            those of a pattern in the order of the names. The text is UTF-8, or UTF-16 or UTF-32
            with a byte order mark.
        records: the keys that lead to the array: ``"annotations"``, ``"data.items"``, or a tuple of keys, which may
            have dots. None for a document that is an array itself.
        entries: the value at `records` is an object; the result is a :class:`RecordDict` of its members.
        columns: the keys to store of records that are dicts; all unless told. InputError for a key that no record
            has.
        where: a function; only records for which it is true are stored. With `entries` it is given a (key, value) pair.
        limit: the most records to store.
        options: those of :class:`RecordList`, `workers` reading large documents in ranges; `save`, the path of a file
            in which the store is built, instead of memory; and ``shared="name"`` with `keep`, `fingerprint`, `dir` and
            `timeout` as of :func:`recstore.shared`: one process of the machine reads the files, and the others attach.

    Raises OSError for a file that cannot be read. Raises InputError for a document that is no JSON, is cut off or has
    no such array, which lists the arrays that there are, and for a file that changes meanwhile; EncodeError for a
    record nested deeper than a store allows. If a key on the way to the array is repeated, the last one counts; in a
    packed file or a stream, which is read once, this is an InputError. Nothing is left of the store after an error.
    Safe from several threads at once.

    >>> import io
    >>> file = io.BytesIO(b'{"images": [], "annotations": [{"id": 1}, {"id": 2}], "sizes": {"a": 1}}')
    >>> with read_json(file, records="annotations") as x: x.to_list()
    [{'id': 1}, {'id': 2}]
    >>> with read_json(io.BytesIO(file.getvalue()), records="sizes", entries=True) as d: d.to_dict()
    {'a': 1}
    """
    keys = _keys(records)
    feed = JsonFeed(inputs.resolve(path), keys, entries, columns, where, limit)
    names = feed.columns and feed.columns.names
    content = {"records": keys, "entries": feed.pairs, "columns": names, "where": where, "limit": limit}
    return reading.store("read_json", feed, options, **content)


def _keys(records):
    """The keys on the way to the array, as a tuple."""
    if records is None:
        return ()
    keys = tuple(records.split(".")) if isinstance(records, str) else records
    if not isinstance(keys, tuple) or not all(isinstance(key, str) for key in keys):
        raise TypeError(
            'records is a dotted path such as "data.items", a tuple of the keys on the way to one array, or None; '
            "several arrays are several calls"
        )
    if len(keys) > _MOST_KEYS:
        raise ValueError(f"records has {len(keys)} keys; a path has at most {_MOST_KEYS}")
    return keys


class JsonFeed(reading.FileFeed):
    """The elements of an array in each of some files. `keys` lead to it."""

    def __init__(self, files, keys, entries=False, columns=None, where=None, limit=None):
        super().__init__(files)
        self.keys, self.pairs = keys, bool(entries)
        self.columns, self.where = reading.Columns.given(columns), reading.where_of(where)
        self.limit = reading.limit_of(limit)

    def fill(self, builder, options):
        with reading.FileBar(self.files, options) as bar, self.named(bar):
            json_values.fill(builder, self.all_pieces(bar), self.columns, self.where, self.limit, self.pairs)

    def records(self):
        """Yields the records, or the pairs."""
        with reading.FileBar(self.files, None) as bar:
            yield from json_values.rows(self.all_pieces(bar), self.columns, self.where, self.limit, self.pairs)

    def all_pieces(self, bar):
        return (piece for file in bar.files() for piece in self.pieces(file, bar))

    def pieces(self, file, bar):
        """Yields the json_values.Pieces of a file."""
        with inputs.damage_of(file), file.open() as opened:
            if reading.divisible(file):
                for one in self.ranges(file, opened, None):
                    yield from self.pieces_of_range(file, opened, bar, *one)
                return
            document = Document(encodings.utf8(opened, file.name), file.name)
            document.begin()
            kind = None
            for _ in document.find(self.keys, self.repeated(file)):
                kind = self.kind(document)
                if kind is self:
                    document.open()
                    yield from self.pieces_in(file, document, bar, 0)
            if kind is not self:
                raise self.missing(file, document, kind)

    def ranges(self, file, opened, size):
        """The ranges of the array in a file that can be read twice; see Document.ranges. One range if `size` is
        None."""
        document = Document(opened, file.name)
        document.begin()
        found, kind = [], None

        def again(_):
            nonlocal kind
            kind = None

        for _ in document.find(self.keys, again):
            kind = self.kind(document)
            if kind is self:
                found = document.ranges(float("inf") if size is None else size)
        if kind is not self:
            raise self.missing(file, document, kind)
        return found

    def pieces_of_range(self, file, opened, bar, start, end, first):
        opened.seek(start)
        document = Document(Part(opened, end - start), file.name, start)
        document.bounds.begin(self.pairs)
        return self.pieces_in(file, document, bar, first, True)

    def pieces_in(self, file, document, bar, first, partial=False):
        """Yields the pieces of the container that was opened. `first` is the number of its first element."""
        for texts, position, start, end in document.elements(partial):
            yield json_values.Piece(texts, self.refusing(file, texts, position, first), document.text, start, end)
            first += len(texts)
            bar.moved()

    def kind(self, document):
        """This feed if the value that begins here is the container that is asked for. Else the kind of the value, and
        the document goes over it."""
        byte = document.need()
        if byte == ord("{" if self.pairs else "["):
            return self
        document.survey(self.keys)
        return _KINDS.get(byte, "a number or word")

    def refusing(self, file, texts, position, first):
        """The function that is called for an element that is no JSON."""

        def refused(number, error):
            at = position + sum(len(text) + 1 - 2 * self.pairs for text in texts[:number])
            text = texts[number][1:-1] if self.pairs else texts[number]
            what = f"{'member' if self.pairs else 'element'} {first + number:,} of {self.label()} (byte {at:,})"
            raise InputError(f"{file.name}: {what} is {json_values.reason(text, error)}")

        return refused

    def repeated(self, file):
        def again(keys):
            raise InputError(
                f"{file.name}: the key {'.'.join(keys)!r} is repeated, and this file is read only once; unpack it to "
                "read the last one"
            )

        return again

    def label(self):
        return repr(".".join(self.keys)) if self.keys else "the document"

    def missing(self, file, document, kind):
        """The InputError for a document without the container: it lists those that there are. `kind` is the kind of
        the value under the keys, None if there is none."""
        wanted = _KINDS[ord("{" if self.pairs else "[")]
        said = f"{self.label()} is {kind}, not {wanted}" if kind else f"there is no {self.label()}"
        named = [f"{'.'.join(one)!r} ({n:,})" for one, pairs, n in document.noted if pairs == self.pairs and one]
        said += f"; {wanted.split()[1]}s in it: {', '.join(named[:_MOST_NAMED])}" if named else ""
        said += ", and others" if len(named) > _MOST_NAMED else ""
        ways = ["choose one with records="] if named else []
        if kind == _KINDS[ord("[" if self.pairs else "{")]:
            ways.append("leave entries=True out" if self.pairs else "entries=True reads the members of an object")
        ways = ways or ["give a document that has one"]
        return InputError(f"{file.name}: {said}; {', or '.join(ways)}")

    def report(self):
        return self.columns and self.columns.report()

    def told(self, reports):
        if self.columns is not None:
            self.columns.require(reports, self.files, self.limit)

    def shards(self):
        if self.limit is not None:
            return [self]
        return [shard for files in reading.grouped(self.files, _RANGE) for shard in self.shards_of(files)]

    def shards_of(self, files):
        rest = self.keys, self.pairs, self.columns and self.columns.names, self.where
        if len(files) == 1 and reading.divisible(files[0]):
            with files[0].open() as opened:
                return [RangeFeed(one, files, *rest) for one in self.ranges(files[0], opened, _RANGE)]
        return [JsonFeed(files, *rest)]


class RangeFeed(JsonFeed):
    """Some neighbouring elements of the array in one file; `range` is as of Document.ranges."""

    def __init__(self, range, *rest):
        super().__init__(*rest)
        self.range = range

    def pieces(self, file, bar):
        with inputs.damage_of(file), file.open() as opened:
            yield from self.pieces_of_range(file, opened, bar, *self.range)


def survey(file):
    """`(first byte, containers)` of the document in an Input: its beginning says whether it is an array, an object or
    something else; the containers are those of Document.noted."""
    with inputs.damage_of(file), file.open() as opened:
        document = Document(encodings.utf8(opened, file.name), file.name)
        document.begin()
        first = document.need()
        document.survey(())
        document.end()
        return first, document.noted
