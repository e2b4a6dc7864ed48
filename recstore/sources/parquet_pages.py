"""What the headers of the pages of a Parquet file tell, and the metadata do not: how many bytes a reader of a column
holds at once, and how many bytes a run of its values takes at most. pyarrow unpacks pages whole."""

from __future__ import annotations

import os
from contextlib import contextmanager

from recstore.sources import inputs, table_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from typing import Any

    _File = io.RawIOBase | io.BufferedIOBase
    _Fields = dict[int, Any]  # of a struct, by their numbers

_SMALL = 1 << 18  # bytes of a column chunk that counts as one page
_USUAL_PAGE = 1 << 20  # bytes of a page of a file whose headers are not read
_HEADER = 256
_LONGEST_HEADER = 1 << 20
_DEPTH = 3  # of structs in a header
_MOST_HEADERS = 1 << 12  # of a chunk; the pages after them are taken to be alike
_DICTIONARY = 2  # a type of pages
# Encodings whose values take no more bytes decoded than in the page, or than the dictionary.
_AS_STORED = {"PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_SHORT = 1 << 12  # bytes of a dictionary, as one entry may be as long as all
_COUNTED = {0: 5, 2: 7, 3: 8}  # the field of a page's header with its number of values, by the type of the page


class Pages:
    """The pages of a column chunk: the bytes of the largest, those of the dictionary, and those of a value in the page
    where values take most; `per_value` is None if the pages do not tell it."""

    def __init__(self, largest: int, dictionary: int, per_value: float | None) -> None:
        self.largest, self.dictionary, self.per_value = largest, dictionary, per_value

    @property
    def held(self) -> int:
        """The bytes that a reader of the chunk holds: a page, and the dictionary with its own copy of the entries."""
        return max(self.largest, self.dictionary) + self.dictionary


@contextmanager
def opened(file: inputs.Input, source: Any) -> Iterator[_File | None]:
    """The file object that has the headers of an Input's pages, or None if each read is a request to another
    machine. `source` is what table_files.random_access gives."""
    if table_files.path_of(file):
        with open(source, "rb", buffering=0) as found:
            yield found
    else:
        yield None if isinstance(file, inputs.Url) and file.packed is None else source


def of_chunk(found: _File | None, chunk: Any) -> Pages:
    """The Pages of a column chunk, by its metadata and the file object `found`, which may be None."""
    size, coded = chunk.total_uncompressed_size, chunk.has_dictionary_page
    if found is not None and size > _SMALL:
        pages = [*_headers(found, chunk)]
    else:
        pages = [(_DICTIONARY, 0, min(size, _USUAL_PAGE))] if coded else []
        pages.append((0, chunk.num_values if found is not None else 0, min(size, _USUAL_PAGE)))
    dictionary = max((page for kind, _, page in pages if kind == _DICTIONARY), default=0)
    data = [(values, page) for kind, values, page in pages if kind != _DICTIONARY]
    if not data:
        data, dictionary = [(0, size)], size if coded else 0
    told = all(values for values, _ in data) and dictionary <= _SHORT and _AS_STORED.issuperset(chunk.encodings)
    per_value = max(dictionary, *(page / values for values, page in data)) if told else None
    return Pages(max(page for _, page in data), dictionary, per_value)


def _headers(found: _File, chunk: Any) -> Iterator[tuple[int, int, int]]:
    """Yields the type, number of values and unpacked bytes of each page of a chunk. It ends at a damaged header:
    pyarrow will say it."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        at = min(at, chunk.dictionary_page_offset)
    end = at + chunk.total_compressed_size
    for _ in range(_MOST_HEADERS):
        if at >= end:
            return
        header, length = _header(found, at)
        kind, size, packed = (_number(header, field) for field in (1, 2, 3))
        if size < 0 or packed < 0:
            return
        if kind in _COUNTED:
            inner = header.get(_COUNTED[kind])
            yield kind, max(0, _number(inner, 1)) if isinstance(inner, dict) else 0, size
        at += length + packed


def _number(fields: _Fields, number: int) -> int:
    found = fields.get(number)
    return found if type(found) is int else -1


def _header(found: _File, at: int) -> tuple[_Fields, int]:
    """The fields of the page header at a position, and its length; none of one that is damaged."""
    size = _HEADER
    while size <= _LONGEST_HEADER:
        found.seek(at, os.SEEK_SET)
        data = found.read(size)
        try:
            return _struct(data, 0)
        except IndexError:
            if len(data) < size:
                break
            size *= 4
        except ValueError:
            break
    return {}, 0


# ---- Thrift's compact protocol, the format of the headers ----


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[_Fields, int]:
    """The fields of a struct by their numbers, and the position after it. Raises IndexError where the data end, and
    ValueError for a field that no header of a page has."""
    fields: _Fields = {}
    number = 0
    while data[at]:
        kind, delta = data[at] & 15, data[at] >> 4
        at += 1
        if delta:
            number += delta
        else:
            number, at = _integer(data, at)
        fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # a bool
        return kind == 1, at
    if kind in (4, 5, 6):
        return _integer(data, at)
    if kind == 8:  # bytes
        length, at = _varint(data, at)
        return None, at + length
    if kind == 12 and depth < _DEPTH:
        return _struct(data, at, depth + 1)
    raise ValueError(kind)


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(value)
