"""`open_tokens`: finds the files and their format, checks what is cheap to check, and makes a TokenList."""

from __future__ import annotations

import operator
import os
import struct

import numpy as np

from recstore._core import native
from recstore.errors import InputError
from recstore.lazy_names import named_arguments
from recstore.sources import inputs
from recstore.text import an
from recstore.tokens.ends import EndTokens, RecordEnds, SharedEnds
from recstore.tokens.token_files import (
    EndTokenFiles,
    MegatronFiles,
    RecordFiles,
    TokenFiles,
    read_documents,
    stamps_of,
)
from recstore.tokens.token_list import TokenList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from numpy.typing import DTypeLike

    from recstore._types import Path
    from recstore.tokens.token_files import Int64s

__all__ = ["open_tokens"]

_INDEX_MAGIC = b"MMIDIDX\0\0"
_INDEX_HEADER = struct.Struct("<9sQBQQ")  # magic, version, code of the dtype, sequences, documents
_INDEX_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
_NPY_MAGIC = b"\x93NUMPY"
_STORE_MAGIC = b"\x89RECS\r\n\x1a"


@named_arguments
def open_tokens(
    paths: Any,
    *,
    dtype: DTypeLike | None = None,
    end: SupportsIndex | None = None,
    field: Any = None,
    keep: bool | float | str = "7d",
    dir: Path | None = None,
) -> TokenList:
    """The documents of token files as a :class:`~recstore.tokens.token_list.TokenList`, mapped where they lie.

    Args:
        paths: a path, a glob pattern, or a list of these, all of one format:

            - a pair of Megatron-Core, ``.bin`` and ``.idx``: either path, or the path without a suffix. Each sequence
              of the index is a document.
            - a flat file: ``.npy`` with one dimension, or the bytes of an array. With `end`, a document goes up to and
              with each end token; without, each file is a document.
            - a store that ``save`` wrote, whose records are lists or arrays of ints.

        dtype: the type of a token in a flat file without a header. In other files it must be their type; for a store,
            the type of the arrays, by default that of its first record.
        end: the end token of flat files.
        field: the field of the documents, if the records of a store are dicts.
        keep, dir: how long and where the ends of documents are kept, as in :func:`recstore.shared`.

    The ends of flat files and of stores take 1 to 3 bytes a document. The first process of the machine reads all files
    to find them; others attach, and so does the next start within `keep` of the last use. ``recstore rm open_tokens``
    removes them.

    Raises FileNotFoundError; InputError for a damaged file, or an index that does not fit its ``.bin``; ValueError for
    several formats or dtypes, or an argument that the format does not have; TypeError.
    """
    files = _absolute_paths(paths)
    kinds = {_kind(path): path for path in files}
    if len(kinds) > 1:
        (a, first), (b, second) = list(kinds.items())[:2]
        raise ValueError(f"{first} is {a}, {second} is {b}: open each format by itself and join them with +")
    kind, named = next(iter(kinds)), None if dtype is None else _integer_dtype(dtype, "dtype=")
    if end is not None and kind != _FLAT:
        raise ValueError(f"end= is for flat files, and {files[0]} is {kind}, which has its own documents")
    if field is not None and kind != _STORE:
        raise ValueError(f"field= is for stores of recstore, and {files[0]} is {kind}")
    if kind == _MEGATRON:
        return TokenList((_megatron(files, named),))
    if kind == _STORE:
        return TokenList((_stores(files, named, field, keep, dir),))
    return TokenList((_flat(files, named, None if end is None else operator.index(end), keep, dir),))


open_tokens.__module__ = "recstore"

_MEGATRON = "a pair of Megatron"
_STORE = "a store of recstore"
_FLAT = "a flat file"


# ---- Paths ----


def _absolute_paths(paths: Any) -> list[str]:
    """The absolute paths of the files, with the ``.bin`` for each pair of Megatron."""
    found = _paths_in(paths)
    both = set(found)  # a pattern finds both files of a pair
    stems = [(path, path.removesuffix(".idx")) for path in found]
    return [
        f"{stem}.bin" if stem != path else path for path, stem in stems if stem == path or f"{stem}.bin" not in both
    ]


def _paths_in(paths: Any) -> list[str]:
    if isinstance(paths, (list, tuple)):
        if not paths:
            raise ValueError("the list of files is empty; give at least one path")
        return [path for item in paths for path in _paths_in(item)]
    if isinstance(paths, (str, bytes, os.PathLike)):
        stem = os.fsdecode(paths)
        if not os.path.exists(stem) and os.path.exists(f"{stem}.idx"):
            return [os.path.abspath(f"{stem}.bin")]
    found = inputs.resolve(paths)
    for file in found:
        if file.path is None:
            raise TypeError(f"{file.name}: token files are mapped, so give paths of local files")
        if file.packed is not None:
            raise ValueError(f"{file.name}: a compressed file cannot be mapped; decompress it first")
    return [os.path.abspath(file.path) for file in found if file.path is not None]


def _kind(path: str) -> str:
    stem, suffix = os.path.splitext(path)
    if suffix == ".bin" and os.path.exists(f"{stem}.idx"):
        return _MEGATRON
    with open(path, "rb", buffering=0) as file:
        return _STORE if file.read(len(_STORE_MAGIC)) == _STORE_MAGIC else _FLAT


def _integer_dtype(dtype: DTypeLike, where: str) -> np.dtype[Any]:
    out = np.dtype(dtype)
    if out.kind not in "iu":
        raise ValueError(f"{where} tokens are integers, not {out}")
    if not out.isnative:
        raise ValueError(f"{where} {out} has the bytes of a token in the other order; write the file again")
    return out


def _one_dtype(found: dict[str, np.dtype[Any]], named: np.dtype[Any] | None) -> np.dtype[Any]:
    """The dtype of all files, given `{path: dtype}`."""
    first, dtype = next(iter(found.items()))
    if named is not None and named != dtype:
        raise ValueError(f"{first} has tokens of {dtype}: leave dtype= out, which is {named}")
    for path, other in found.items():
        if other != dtype:
            raise ValueError(f"{first} has tokens of {dtype}, {path} of {other}: an array has one type")
    return dtype


def _ends_of(counts: list[int]) -> Int64s:
    return np.cumsum(counts, dtype=np.int64)


# ---- Megatron ----


def _megatron(paths: list[str], named: np.dtype[Any] | None) -> MegatronFiles:
    indexes = [f"{path.removesuffix('.bin')}.idx" for path in paths]
    files, index_files = native.FileMaps(paths, stamps_of(paths)), native.FileMaps(indexes, stamps_of(indexes))
    sizes = np.frombuffer(files.stamps, np.int64)[::3].tolist()
    dtypes, documents, tokens = {}, [], []
    for path, index, size in zip(paths, indexes, sizes):
        dtypes[index], n = _read_index(index, path, size)
        documents.append(n)
        tokens.append(size // dtypes[index].itemsize)
    return MegatronFiles(files, _one_dtype(dtypes, named), _ends_of(tokens), index_files, _ends_of(documents))


def _read_index(index: str, path: str, size: int) -> tuple[np.dtype[Any], int]:
    """`(dtype, number of documents)` of an index whose ``.bin`` has `size` bytes."""
    with open(index, "rb", buffering=0) as file:
        header = file.read(_INDEX_HEADER.size)
        length = os.fstat(file.fileno()).st_size
        if len(header) < _INDEX_HEADER.size or not header.startswith(_INDEX_MAGIC):
            raise InputError(f"{index}: this is not an index of Megatron, which begins with {_INDEX_MAGIC!r}")
        _, version, code, n, n_groups = _INDEX_HEADER.unpack(header)
        if version != 1:
            raise InputError(f"{index}: an index of version {version}, and this release reads version 1")
        if code not in _INDEX_DTYPES:
            raise InputError(f"{index}: the code {code} of the tokens' type is not one of {_INDEX_DTYPES}")
        expected = _INDEX_HEADER.size + 12 * n + 8 * n_groups
        if length not in (expected, expected + n):  # the latter with a mode for each sequence
            raise InputError(
                f"{index}: {n} sequences and {n_groups} documents take {expected} bytes, and the file has {length}; "
                "copy or write it again"
            )
        dtype = np.dtype(_INDEX_DTYPES[code])
        pointers = _INDEX_HEADER.size + 4 * n
        first = last = count = 0
        if n:
            count = _number_at(file, pointers - 4, "<i")
            first = _number_at(file, pointers, "<q")
            last = _number_at(file, pointers + 8 * (n - 1), "<q")
    if first != 0 or count < 0 or last + count * dtype.itemsize != size:
        raise InputError(
            f"{index} does not fit {path}: its sequences take the bytes {first} to {last + count * dtype.itemsize}, "
            f"and the .bin file has {size} bytes; copy or write both again"
        )
    return dtype, n


def _number_at(file: Any, offset: int, form: str) -> int:
    value: int = struct.unpack(form, os.pread(file.fileno(), struct.calcsize(form), offset))[0]
    return value


# ---- Flat files ----


def _flat(paths: list[str], named: np.dtype[Any] | None, end: int | None, keep: Any, dir: Path | None) -> TokenFiles:
    files = native.FileMaps(paths, stamps_of(paths))
    sizes = np.frombuffer(files.stamps, np.int64)[::3].tolist()
    dtypes, offsets, tokens = {}, [], []
    for path, size in zip(paths, sizes):
        dtypes[path], offset, count = _read_flat(path, size, named)
        offsets.append(offset)
        tokens.append(count)
    dtype, starts, token_ends = _one_dtype(dtypes, named), np.array(offsets, np.int64), _ends_of(tokens)
    if end is None:
        return TokenFiles(files, dtype, starts, token_ends)
    if not np.iinfo(dtype).min <= end <= np.iinfo(dtype).max:
        raise ValueError(f"end={end} is not a token of {dtype}")
    source = EndTokens(paths, dtype, starts, token_ends, end)
    ends = SharedEnds(source, files, f"end {end} {dtype}", keep, dir)
    return EndTokenFiles(files, dtype, starts, token_ends, ends)


def _read_flat(path: str, size: int, named: np.dtype[Any] | None) -> tuple[np.dtype[Any], int, int]:
    """`(dtype, bytes before the tokens, number of tokens)`."""
    with open(path, "rb") as file:
        if file.read(len(_NPY_MAGIC)) == _NPY_MAGIC:
            file.seek(0)
            return _read_npy(path, file, size)
    if named is None:
        raise ValueError(f"{path} does not say the type of its tokens: give dtype=, such as dtype='uint16'")
    if size % named.itemsize:
        raise InputError(f"{path}: {size} bytes are not whole tokens of {named}; dtype= may be wrong, or the file cut")
    return named, 0, size // named.itemsize


def _read_npy(path: str, file: Any, size: int) -> tuple[np.dtype[Any], int, int]:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except ValueError as error:
        raise InputError(f"{path}: the header of numpy is damaged: {error}") from None
    if len(shape) != 1:
        raise InputError(f"{path}: an array of {len(shape)} dimensions; tokens have one: save array.ravel()")
    dtype = _integer_dtype(dtype, f"{path}:")
    if size - file.tell() != shape[0] * dtype.itemsize:
        raise InputError(
            f"{path}: the header names {shape[0]} tokens of {dtype}, and {size - file.tell()} bytes follow it; copy or "
            "write the file again"
        )
    return dtype, file.tell(), shape[0]


# ---- Stores of this library ----


def _stores(paths: list[str], named: np.dtype[Any] | None, field: Any, keep: Any, dir: Path | None) -> RecordFiles:
    from recstore.containers.opening import open as open_store
    from recstore.containers.records import RecordList

    files = native.FileMaps(paths, stamps_of(paths))
    column: Any = None
    for path in paths:
        store: Any = open_store(path)
        if not isinstance(store, RecordList):
            raise InputError(f"{path}: {an(type(store).__name__)}; documents are the records of a RecordList")
        column = store if column is None else column + store
    if field is not None:
        column = column.field(field)
    dtype = named
    if dtype is None:
        dtype = read_documents(column, 0, min(1, len(column)), None)[0].dtype
    source = RecordEnds(column, dtype)
    ends = SharedEnds(source, files, f"records {field!r} {dtype}", keep, dir)
    return RecordFiles(files, dtype, column, ends)
