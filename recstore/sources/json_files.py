"""`sources.json` and `read_json`: the elements of an array, or the members of an object, in JSON documents."""

from __future__ import annotations

from recstore.errors import InputError
from recstore.lazy_names import named_arguments
from recstore.sources import encodings, inputs, json_values, reading
from recstore.sources.json_document import Document, Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import BufferedIOBase
    from typing import Any, Literal, overload

    from typing_extensions import Unpack

    from recstore._types import BuildOptions, Files
    from recstore.containers.dicts import RecordDict
    from recstore.containers.records import RecordList
    from recstore.sources import Source
    from recstore.sources.inputs import Input

__all__ = ["json", "read_json"]

_RANGE = 8 << 20  # bytes of a part for a worker
_MOST_KEYS = 100
_MOST_NAMED = 20
_KINDS = {ord("["): "an array", ord("{"): "an object", ord('"'): "a string"}


@named_arguments
def json(
    path: Files,
    *,
    records: str | tuple[str, ...] | None = None,
    entries: bool = False,
    columns: Iterable[str] | None = None,
    where: Callable[[Any], object] | None = None,
    n_rows: int | None = None,
) -> Source[Any]:
    """The elements of an array in a JSON document, such as ``annotations`` in a COCO file.

    The largest element bounds the memory; the array is never held as a whole. Values are the same as from
    ``json.load``: NaN and Infinity are numbers, integers have any size, and the last value of a repeated key counts.
    orjson or msgspec decodes if it is installed. Elements are checked in full; outside the array, only brackets and
    strings are checked.

    Args:
        path: a path, a glob pattern, a URL that fsspec knows, a binary file object, or a list of these. ``.gz``,
            ``.bz2``, ``.xz``, ``.zst`` and ``.zip`` files are decompressed. The arrays of several documents are
            concatenated; files of a pattern are read in the order of their names. The text is UTF-8, or UTF-16 or
            UTF-32 with a byte order mark.
        records: the keys that lead to the array: ``"annotations"``, ``"data.items"``, or a tuple of keys, which may
            have dots. None if the document itself is the array.
        entries: the value at `records` is an object; its members are the pairs of a :class:`recstore.RecordDict`.
        columns: for records that are dicts, the keys to store. None for all. A key that no record has is an InputError.
        where: a function; only records for which it is true are stored. With `entries` it takes a pair (key, value).
        n_rows: the most records to store.

    Raises OSError for a file that cannot be read. A build raises InputError for a document that is not JSON, is
    truncated or lacks the array, with a list of its arrays, and for a file that changes while it is read; EncodeError
    for a record nested deeper than a store allows. If a key on the path to the array is repeated, the last value
    counts. In a stream, or a file that is compressed, remote or not UTF-8, a repeated key is an InputError. With
    ``workers=N`` a build reads large documents in ranges. Safe from several threads at once.

    >>> import io, recstore
    >>> file = io.BytesIO(b'{"images": [], "annotations": [{"id": 1}, {"id": 2}], "sizes": {"a": 1}}')
    >>> with recstore.RecordList(json(file, records="annotations")) as x: x.to_list()
    [{'id': 1}, {'id': 2}]
    >>> with recstore.RecordDict(json(io.BytesIO(file.getvalue()), records="sizes", entries=True)) as d: d.to_dict()
    {'a': 1}
    """
    keys = _keys(records)
    return JsonSource(inputs.resolve(path), keys, entries, columns, where, n_rows)


if TYPE_CHECKING:

    @overload
    def read_json(
        path: Files,
        *,
        records: str | tuple[str, ...] | None = None,
        entries: Literal[True],
        columns: Iterable[str] | None = None,
        where: Callable[[Any], object] | None = None,
        n_rows: int | None = None,
        **options: Unpack[BuildOptions],
    ) -> RecordDict[str, Any]: ...
    @overload
    def read_json(
        path: Files,
        *,
        records: str | tuple[str, ...] | None = None,
        entries: Literal[False] = False,
        columns: Iterable[str] | None = None,
        where: Callable[[Any], object] | None = None,
        n_rows: int | None = None,
        **options: Unpack[BuildOptions],
    ) -> RecordList[Any]: ...


def read_json(
    path: Files,
    *,
    records: str | tuple[str, ...] | None = None,
    entries: bool = False,
    columns: Iterable[str] | None = None,
    where: Callable[[Any], object] | None = None,
    n_rows: int | None = None,
    **options: Unpack[BuildOptions],
) -> RecordList[Any] | RecordDict[str, Any]:
    """``RecordList(recstore.sources.json(path, ...), **options)``, or with `entries` a :class:`recstore.RecordDict`:
    see :func:`recstore.sources.json` for the arguments and :class:`recstore.RecordList` for the options."""
    return reading.built(read_json, json, **locals())


def _keys(records: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The keys that lead to the array, as a tuple."""
    if records is None:
        return ()
    keys = tuple(records.split(".")) if isinstance(records, str) else records
    if not isinstance(keys, tuple) or not all(isinstance(key, str) for key in keys):
        raise TypeError(
            'records must be a dotted path such as "data.items", a tuple of the keys that lead to one array, or None; '
            "read several arrays with several calls"
        )
    if len(keys) > _MOST_KEYS:
        raise ValueError(f"records has {len(keys)} keys; a path has at most {_MOST_KEYS}")
    return keys


class JsonSource(json_values.ValueSource):
    """The elements of the array that `keys` lead to, in each of the files."""

    def __init__(
        self,
        files: list[Input],
        keys: tuple[str, ...],
        entries: bool = False,
        columns: Iterable[str] | None = None,
        where: Callable[[Any], object] | None = None,
        n_rows: int | None = None,
    ) -> None:
        self.keys, self.pairs = keys, bool(entries)
        super().__init__(files, columns, where, n_rows)
        self.content |= {"records": keys, "entries": self.pairs}

    def pieces(self, file: Input, bar: reading.FileBar) -> Iterator[json_values.Piece]:
        with inputs.damage_of(file), file.open() as stream:
            if reading.divisible(file):
                for part in self.ranges(file, stream, None):
                    yield from self.pieces_of_range(file, stream, bar, *part)
                return
            document = Document(encodings.utf8(stream, file.name), file.name)
            document.begin()
            kind = None
            for _ in document.find(self.keys, self.repeated(file)):
                kind = self.kind(document)
                if kind is self:
                    document.open()
                    yield from self.pieces_in(file, document, bar, 0)
            if kind is not self:
                raise self.missing(file, document, kind)

    def ranges(self, file: Input, stream: BufferedIOBase, size: int | None) -> list[tuple[int, int, int]]:
        """The ranges of the array in a file, as from Document.ranges; a single range if `size` is None."""
        document = Document(stream, file.name)
        document.begin()
        ranges, kind = [], None

        def again(_: object) -> None:
            nonlocal kind
            kind = None

        for _ in document.find(self.keys, again):
            kind = self.kind(document)
            if kind is self:
                ranges = document.ranges(float("inf") if size is None else size)
        if kind is not self:
            raise self.missing(file, document, kind)
        return ranges

    def pieces_of_range(
        self, file: Input, stream: BufferedIOBase, bar: reading.FileBar, start: int, end: int, first: int
    ) -> Iterator[json_values.Piece]:
        stream.seek(start)
        document = Document(Part(stream, end - start), file.name, start)
        document.bounds.begin(self.pairs)
        return self.pieces_in(file, document, bar, first, True)

    def pieces_in(
        self, file: Input, document: Document, bar: reading.FileBar, first: int, partial: bool = False
    ) -> Iterator[json_values.Piece]:
        """Yields the pieces of the open container. `first` is the number of its first element."""
        for texts, position, start, end in document.elements(partial):
            yield json_values.Piece(texts, self.refusing(file, texts, position, first), document.text, start, end)
            first += len(texts)
            bar.moved()

    def kind(self, document: Document) -> JsonSource | str:
        """This source if the value that begins here is an array, or with `entries` an object. Otherwise skips the value
        and returns its kind in words."""
        byte = document.need()
        if byte == ord("{" if self.pairs else "["):
            return self
        document.survey(self.keys)
        return _KINDS.get(byte, "a number or word")

    def refusing(self, file: Input, texts: list[bytes], position: int, first: int) -> Callable[[int, Exception], None]:
        """The function to call for an element that is not JSON."""

        def refused(number: int, error: Exception) -> None:
            at = position + sum(len(text) + 1 - 2 * self.pairs for text in texts[:number])
            text = texts[number][1:-1] if self.pairs else texts[number]
            element = f"{'member' if self.pairs else 'element'} {first + number:,} of {self.label()} (byte {at:,})"
            raise InputError(f"{file.name}: {element} is {json_values.reason(text, error)}")

        return refused

    def repeated(self, file: Input) -> Callable[[tuple[str, ...]], None]:
        def again(keys: tuple[str, ...]) -> None:
            raise InputError(
                f"{file.name}: the key {'.'.join(keys)!r} is repeated, and only an uncompressed local file in UTF-8 is "
                "read a second time; convert it to read the last value"
            )

        return again

    def label(self) -> str:
        return repr(".".join(self.keys)) if self.keys else "the document"

    def missing(self, file: Input, document: Document, kind: JsonSource | str | None) -> InputError:
        """The InputError for a document without the array or object. The message lists the arrays or objects in the
        document. `kind` is the kind of the value under the keys, None without a value."""
        expected = _KINDS[ord("{" if self.pairs else "[")]
        fault = f"{self.label()} is {kind}, not {expected}" if kind else f"the document lacks {self.label()}"
        names = [f"{'.'.join(keys)!r} ({n:,})" for keys, pairs, n in document.skipped if pairs == self.pairs and keys]
        fault += f"; {expected.split()[1]}s in it: {', '.join(names[:_MOST_NAMED])}" if names else ""
        fault += ", and others" if len(names) > _MOST_NAMED else ""
        remedies = ["choose one with records="] if names else []
        if kind == _KINDS[ord("[" if self.pairs else "{")]:
            remedies.append("omit entries=True" if self.pairs else "entries=True reads the members of an object")
        remedies = remedies or [f"give a document that has {expected}"]
        return InputError(f"{file.name}: {fault}; {', or '.join(remedies)}")

    def _report(self) -> Any:
        return self.columns and self.columns.report()

    def _take_reports(self, reports: list[Any]) -> None:
        if self.columns is not None:
            self.columns.require(reports, self.inputs, self.n_rows)

    def _parts(self) -> list[JsonSource]:
        return [part for files in reading.grouped(self.inputs, _RANGE) for part in self.parts_of(files)]

    def parts_of(self, files: list[Input]) -> list[JsonSource]:
        rest = self.keys, self.pairs, self.names, self.where
        if len(files) == 1 and reading.divisible(files[0]):
            with files[0].open() as stream:
                return [RangeSource(part, files, *rest) for part in self.ranges(files[0], stream, _RANGE)]
        return [JsonSource(files, *rest)]


class RangeSource(JsonSource):
    """A range of the array in one file; `range` is one of the results of Document.ranges."""

    def __init__(self, range: tuple[int, int, int], *rest: Any) -> None:
        super().__init__(*rest)
        self.range = range

    def pieces(self, file: Input, bar: reading.FileBar) -> Iterator[json_values.Piece]:
        with inputs.damage_of(file), file.open() as stream:
            yield from self.pieces_of_range(file, stream, bar, *self.range)


def survey(file: Input) -> tuple[int, list[tuple[tuple[str, ...], bool, int]]]:
    """`(first byte, containers)` of a document: the first byte shows whether it is an array, an object or another
    value; the containers are Document.skipped."""
    with inputs.damage_of(file), file.open() as stream:
        document = Document(encodings.utf8(stream, file.name), file.name)
        document.begin()
        first = document.need()
        document.survey(())
        document.end()
        return first, document.skipped
