"""Reads the page headers of a Parquet file, for facts that its metadata lacks: how many bytes a reader of a column
holds at once, since pyarrow decompresses whole pages, and about how many bytes the largest values take."""

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
    _Fields = dict[int, Any]  # {number: value} of a struct

_SMALL_CHUNK = 1 << 18  # bytes; a smaller column chunk counts as one page
_USUAL_PAGE = 1 << 20  # assumed bytes of a page if the headers are not read
_HEADER = 256
_LONGEST_HEADER = 1 << 20
_DEPTH = 3  # the most levels of nested structs in a header
_MOST_HEADERS = 1 << 12  # headers read per chunk; later pages are assumed to be similar
_DICTIONARY = 2  # the type of a dictionary page
# Encodings whose decoded values take no more bytes than the page or the dictionary.
_AS_STORED = {"PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_SHORT_DICTIONARY = 1 << 12  # the most bytes of a dictionary for `per_value`, because one entry may take nearly all
_COUNT_FIELDS = {0: 5, 2: 7, 3: 8}  # {type of page: the header's field that has the number of values}


class Pages:
    """The sizes of the pages of a column chunk, in bytes: `largest` is the largest data page, `dictionary` the
    dictionary, and `per_value` the average value of the data page with the largest values, or the dictionary if that is
    larger; None if it cannot be told from the headers and encodings."""

    def __init__(self, largest: int, dictionary: int, per_value: float | None) -> None:
        self.largest, self.dictionary, self.per_value = largest, dictionary, per_value

    @property
    def held(self) -> int:
        """The bytes that a reader of the chunk holds: its largest page, and a copy of the dictionary."""
        return max(self.largest, self.dictionary) + self.dictionary


@contextmanager
def open_headers(file: inputs.Input, source: Any) -> Iterator[_File | None]:
    """The file object to read page headers from, or None if each read would be a request to another machine. `source`
    is the result of table_files.random_access."""
    if table_files.path_of(file):
        with open(source, "rb", buffering=0) as headers:
            yield headers
    else:
        yield None if isinstance(file, inputs.Url) and file.packed is None else source


def of_chunk(file: _File | None, chunk: Any) -> Pages:
    """The Pages of a column chunk, from its metadata and the file object of `opened`."""
    size, has_dictionary = chunk.total_uncompressed_size, chunk.has_dictionary_page
    if file is not None and size > _SMALL_CHUNK:
        pages = [*_headers(file, chunk)]
    else:
        pages = [(_DICTIONARY, 0, min(size, _USUAL_PAGE))] if has_dictionary else []
        pages.append((0, chunk.num_values if file is not None else 0, min(size, _USUAL_PAGE)))
    dictionary = max((page for kind, _, page in pages if kind == _DICTIONARY), default=0)
    data = [(values, page) for kind, values, page in pages if kind != _DICTIONARY]
    if not data:
        data, dictionary = [(0, size)], size if has_dictionary else 0
    known = (
        all(values for values, _ in data) and dictionary <= _SHORT_DICTIONARY and _AS_STORED.issuperset(chunk.encodings)
    )
    per_value = max(dictionary, *(page / values for values, page in data)) if known else None
    return Pages(max(page for _, page in data), dictionary, per_value)


def _headers(file: _File, chunk: Any) -> Iterator[tuple[int, int, int]]:
    """Yields `(type, number of values, uncompressed bytes)` of the data and dictionary pages of a chunk. Ends at
    a damaged header; pyarrow will raise the error."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        at = min(at, chunk.dictionary_page_offset)
    end = at + chunk.total_compressed_size
    for _ in range(_MOST_HEADERS):
        if at >= end:
            return
        header, length = _header(file, at)
        kind, size, packed = (_number(header, field) for field in (1, 2, 3))
        if size < 0 or packed < 0:
            return
        if kind in _COUNT_FIELDS:
            inner = header.get(_COUNT_FIELDS[kind])
            yield kind, max(0, _number(inner, 1)) if isinstance(inner, dict) else 0, size
        at += length + packed


def _number(fields: _Fields, number: int) -> int:
    value = fields.get(number)
    return value if type(value) is int else -1


def _header(file: _File, at: int) -> tuple[_Fields, int]:
    """The fields of the page header at a position, and its length; `({}, 0)` for a damaged header."""
    size = _HEADER
    while size <= _LONGEST_HEADER:
        file.seek(at, os.SEEK_SET)
        data = file.read(size)
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
    """The fields of a struct by number, and the position after it. Raises IndexError if the data ends too early, and
    ValueError for a type of field that page headers do not have."""
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
