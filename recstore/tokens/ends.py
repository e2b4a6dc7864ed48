"""The ends of the documents of flat files and of stores, found once and shared by all processes of the machine."""

from __future__ import annotations

from _blake2 import blake2b

import numpy as np

from recstore.building.source import Source
from recstore.errors import InputError
from recstore.sharing import shared
from recstore.tokens.token_files import read_documents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from recstore._core.native import FileMaps
    from recstore._types import Path
    from recstore.containers.records import RecordList
    from recstore.tokens.token_files import Int64s

_BLOCK = 1 << 22  # tokens
_DOCUMENTS = 1 << 16


class SharedEnds:
    """The ends that a source gives, in a store that all processes of the machine share. It pickles without the store;
    another process attaches to it, or makes it again. `what` names all arguments that change the ends."""

    def __init__(self, source: Source[int], files: FileMaps, what: str, keep: Any, dir: Path | None) -> None:
        parts = what.encode(), files.stamps, *map(_encoded, files.paths)
        self.fingerprint = blake2b(b"\0".join(parts), digest_size=16).hexdigest()
        self.source, self.keep, self.dir = _Unchanged(source, files), keep, dir
        self._store: RecordList[int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None}

    def store(self) -> RecordList[int]:
        """The number of tokens up to the end of each document."""
        if self._store is None:
            options: dict[str, Any] = {"keep": self.keep, "dir": self.dir, "compression": "fast"}
            self._store = shared("open_tokens", self.source, fingerprint=self.fingerprint, **options)
        return self._store

    def close(self) -> None:
        """Later calls of `store` give the closed store."""
        self.store().close()


class _Unchanged(Source[int]):
    """The records of a source, if its files are still the files that were opened."""

    def __init__(self, source: Source[int], files: FileMaps) -> None:
        self.source, self.maps, self.files = source, files, files.paths

    def append_to(self, builder: Any) -> None:
        self.maps.check_all()
        self.source.append_to(builder)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


class EndTokens(Source[int]):
    """The number of tokens up to and with each end token of flat files. The last document of a file may lack one."""

    def __init__(self, paths: list[str], dtype: np.dtype[Any], offsets: Int64s, token_ends: Int64s, end: int) -> None:
        self.paths, self.dtype, self.offsets, self.token_ends, self.end = paths, dtype, offsets, token_ends, end

    def append_to(self, builder: Any) -> None:
        """Appends the ends of all files."""
        base = 0
        for i, path in enumerate(self.paths):
            builder.extend(self.ends_in(path, int(self.offsets[i]), base, int(self.token_ends[i])))
            base = int(self.token_ends[i])

    def ends_in(self, path: str, offset: int, base: int, limit: int) -> Iterator[int]:
        last = base
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            while base < limit:
                # Read and not mapped, so that a file that shrinks is an error.
                block = np.fromfile(file, self.dtype, min(_BLOCK, limit - base))
                if len(block) < min(_BLOCK, limit - base):
                    raise InputError(f"{path}: the file became shorter while it was read; read it when it is complete")
                ends = (np.flatnonzero(block == self.end) + (base + 1)).tolist()
                yield from ends
                last = ends[-1] if ends else last
                base += len(block)
        if last < limit:
            yield limit


class RecordEnds(Source[int]):
    """The number of tokens up to the end of each document of a column."""

    def __init__(self, column: Any, dtype: np.dtype[Any]) -> None:
        self.column, self.dtype = column, dtype

    def append_to(self, builder: Any) -> None:
        """Appends the ends of all documents."""
        total = 0
        for first in range(0, len(self.column), _DOCUMENTS):
            _, offsets = read_documents(self.column, first, min(first + _DOCUMENTS, len(self.column)), self.dtype)
            builder.extend((offsets[1:] + total).tolist())
            total += int(offsets[-1])
