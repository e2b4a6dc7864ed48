"""`sources.json` and `read_json`: the elements of one array, or the members of one object, of JSON documents."""

from __future__ import annotations

from recstore.errors import InputError
from recstore.later import named_arguments
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

_RANGE = 8 << 20  # bytes of a shard
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
    """The elements of one array in a JSON document, as ``annotations`` of a COCO file.

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
        entries: the value at `records` is an object; its members are the pairs of a :class:`recstore.RecordDict`.
        columns: the keys to store of records that are dicts; all unless told. InputError for a key that no record
            has.
        where: a function; only records for which it is true are stored. With `entries` it is given a (key, value) pair.
        n_rows: the most records to store.

    Raises OSError for a file that cannot be read. A build raises InputError for a document that is not JSON, is cut off
    or lacks the array, whose arrays it then lists, and for a file that changes while it is read; EncodeError for
    a record nested deeper than a store allows. If a key on the way to the array is repeated, the last one counts; in a
    packed file or a stream, which is read once, this is an InputError. With ``workers=N`` a build reads large documents
    in ranges. Safe from several threads at once.

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


class JsonSource(json_values.ValueSource):
    """The elements of an array in each of some files. `keys` lead to it."""

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

    def ranges(self, file: Input, opened: BufferedIOBase, size: int | None) -> list[tuple[int, int, int]]:
        """The ranges of the array in a file that can be read twice; see Document.ranges. One range if `size` is
        None."""
        document = Document(opened, file.name)
        document.begin()
        found, kind = [], None

        def again(_: object) -> None:
            nonlocal kind
            kind = None

        for _ in document.find(self.keys, again):
            kind = self.kind(document)
            if kind is self:
                found = document.ranges(float("inf") if size is None else size)
        if kind is not self:
            raise self.missing(file, document, kind)
        return found

    def pieces_of_range(
        self, file: Input, opened: BufferedIOBase, bar: reading.FileBar, start: int, end: int, first: int
    ) -> Iterator[json_values.Piece]:
        opened.seek(start)
        document = Document(Part(opened, end - start), file.name, start)
        document.bounds.begin(self.pairs)
        return self.pieces_in(file, document, bar, first, True)

    def pieces_in(
        self, file: Input, document: Document, bar: reading.FileBar, first: int, partial: bool = False
    ) -> Iterator[json_values.Piece]:
        """Yields the pieces of the container that was opened. `first` is the number of its first element."""
        for texts, position, start, end in document.elements(partial):
            yield json_values.Piece(texts, self.refusing(file, texts, position, first), document.text, start, end)
            first += len(texts)
            bar.moved()

    def kind(self, document: Document) -> JsonSource | str:
        """This source if the value that begins here is the container that is asked for. Else the kind of the value, and
        the document goes over it."""
        byte = document.need()
        if byte == ord("{" if self.pairs else "["):
            return self
        document.survey(self.keys)
        return _KINDS.get(byte, "a number or word")

    def refusing(self, file: Input, texts: list[bytes], position: int, first: int) -> Callable[[int, Exception], None]:
        """The function that is called for an element that is not JSON."""

        def refused(number: int, error: Exception) -> None:
            at = position + sum(len(text) + 1 - 2 * self.pairs for text in texts[:number])
            text = texts[number][1:-1] if self.pairs else texts[number]
            what = f"{'member' if self.pairs else 'element'} {first + number:,} of {self.label()} (byte {at:,})"
            raise InputError(f"{file.name}: {what} is {json_values.reason(text, error)}")

        return refused

    def repeated(self, file: Input) -> Callable[[tuple[str, ...]], None]:
        def again(keys: tuple[str, ...]) -> None:
            raise InputError(
                f"{file.name}: the key {'.'.join(keys)!r} is repeated, and this file is read only once; unpack it to "
                "read the last one"
            )

        return again

    def label(self) -> str:
        return repr(".".join(self.keys)) if self.keys else "the document"

    def missing(self, file: Input, document: Document, kind: JsonSource | str | None) -> InputError:
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

    def _report(self) -> Any:
        return self.columns and self.columns.report()

    def _told(self, reports: list[Any]) -> None:
        if self.columns is not None:
            self.columns.require(reports, self.inputs, self.n_rows)

    def _parts(self) -> list[JsonSource]:
        return [part for files in reading.grouped(self.inputs, _RANGE) for part in self.parts_of(files)]

    def parts_of(self, files: list[Input]) -> list[JsonSource]:
        rest = self.keys, self.pairs, self.names, self.where
        if len(files) == 1 and reading.divisible(files[0]):
            with files[0].open() as opened:
                return [RangeSource(one, files, *rest) for one in self.ranges(files[0], opened, _RANGE)]
        return [JsonSource(files, *rest)]


class RangeSource(JsonSource):
    """Some neighbouring elements of the array in one file; `range` is as of Document.ranges."""

    def __init__(self, range: tuple[int, int, int], *rest: Any) -> None:
        super().__init__(*rest)
        self.range = range

    def pieces(self, file: Input, bar: reading.FileBar) -> Iterator[json_values.Piece]:
        with inputs.damage_of(file), file.open() as opened:
            yield from self.pieces_of_range(file, opened, bar, *self.range)


def survey(file: Input) -> tuple[int, list[tuple[tuple[str, ...], bool, int]]]:
    """`(first byte, containers)` of the document in an Input: its beginning says whether it is an array, an object or
    something else; the containers are those of Document.noted."""
    with inputs.damage_of(file), file.open() as opened:
        document = Document(encodings.utf8(opened, file.name), file.name)
        document.begin()
        first = document.need()
        document.survey(())
        document.end()
        return first, document.noted
