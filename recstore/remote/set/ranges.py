"""Shard files whose bytes are fetched piece by piece, as reads need them, into the memory of the process. No disk holds
them, and no process shares them.

A piece is a run of chunks of 64 KiB. The core (csrc/read/rs_store.h) knows which chunks are there, and asks for others
before it reads them: for one record its offsets, its bytes, the tables of its tree and the arrays of its block; for a
column whole blocks. The hash of the file cannot be checked, so the core checks the checksums of the sections, and of
blocks and tables that it reads as a whole.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

from recstore._core import native
from recstore.errors import CorruptError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CHUNK = native.CHUNK_BYTES
_MOST_CHUNKS = 128  # of one request
_TAIL = 2 * _CHUNK  # the directory, and usually the sections before it
_THREADS = 8
# csrc/FORMAT.md, "Header" and "Directory"
_HEADER, _ENTRY, _MOST_ENTRIES = 128, struct.Struct("<HHIQQQII"), 64
_HEAP, _OFFSETS, _KEY_INDEX, _SAVED_INDEX, _KEYS_HEAD = 1, 2, 7, 32769, 64


class Ranges:
    """The bytes of a shard file: `memory`, with zeros for bytes that are not there, and `present`, with a 1 for each
    chunk that is there. `read(begin, size)` returns bytes of the file. `count(n)` is called when n bytes come into
    memory; n is negative when they are freed. Two threads may fetch the same chunk, which does no harm."""

    def __init__(
        self, read: Callable[[int, int], bytes], nbytes: int, where: str, count: Callable[[int], object]
    ) -> None:
        self.read, self.nbytes, self.where, self.count = read, nbytes, where, count
        self.present = bytearray(-(-self.nbytes // _CHUNK))
        self.memory = mmap.mmap(-1, self.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # a huge page would take 2 MiB for a chunk
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self.memory.madvise(mmap.MADV_NOHUGEPAGE)

    def __call__(self, begin: int, size: int) -> None:
        """Fetches the missing chunks of `size` bytes from `begin`, up to the end of the file."""
        at, end = begin // _CHUNK, min(-(-(begin + size) // _CHUNK), len(self.present))
        while (at := self.present.find(0, at, end)) >= 0:
            stop = self.present.find(1, at, end)
            stop = min(end if stop < 0 else stop, at + _MOST_CHUNKS)
            first, last = at * _CHUNK, min(stop * _CHUNK, self.nbytes)
            data = self.read(first, last - first)
            if len(data) != last - first:
                raise CorruptError(
                    f"the store gave {len(data):,} bytes for bytes {first:,} to {last:,} of the shard file: it was "
                    "replaced; write it again",
                    filename=self.where,
                )
            self.memory[first:last] = data
            self.count(_CHUNK * self.present.count(0, at, stop))
            self.present[at:stop] = b"\1" * (stop - at)

    @staticmethod
    def fetch_all(wanted: Iterable[tuple[Ranges, int, int]]) -> None:
        """Fetches `(ranges, begin, size)` of several records, each chunk once and some at the same time."""
        chunks: dict[Ranges, set[int]] = {}
        for ranges, begin, size in wanted:
            chunks.setdefault(ranges, set()).update(range(begin // _CHUNK, -(-(begin + size) // _CHUNK)))
        runs = []
        for ranges, numbers in chunks.items():
            for _, group in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
                run = [number for _, number in group]
                runs.append((ranges, run[0] * _CHUNK, len(run) * _CHUNK))
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(lambda run: run[0](*run[1:]), runs):
                pass

    def forget(self) -> None:
        """The next reads fetch all bytes again, because some were damaged on the way. Keeps the memory, which readers
        may be using."""
        self.count(-self.fetched)
        self.present[:] = bytes(len(self.present))

    @property
    def fetched(self) -> int:
        """The bytes in memory."""
        return _CHUNK * self.present.count(1)

    def __del__(self) -> None:
        self.count(-self.fetched)

    def fetch_head(self) -> None:
        """Fetches what native.open_ranges needs. Invalid numbers are left for it to report."""
        self(max(0, self.nbytes - _TAIL), _TAIL)
        self(0, _HEADER)
        if self.nbytes < _HEADER:
            return
        count, at = struct.unpack_from("<IQ", self.memory, 68)
        end = at + _ENTRY.size * min(count, _MOST_ENTRIES)
        if end > self.nbytes:
            return
        self(at, end - at)
        for kind, _, _, begin, size, _, _, _ in _ENTRY.iter_unpack(self.memory[at:end]):
            if kind not in (_HEAP, _OFFSETS, _SAVED_INDEX):
                self(begin, min(size, _KEYS_HEAD) if kind == _KEY_INDEX else size)
