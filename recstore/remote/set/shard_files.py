"""Writes a stream of records as shard files: divides the stream, then builds, hashes and stores each file.

For a local storage, a file is built in the folder of the set and then renamed. Otherwise it is an unnamed temporary
file, so a killed writer leaves nothing. A thread hashes and uploads one file while the next file is built.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import mmap
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice

from recstore._core import native
from recstore.building import saving
from recstore.building.destination import explained, new_builder
from recstore.building.pairs import pairs_in, pairs_of
from recstore.building.source import append_all, items_of
from recstore.errors import EncodeError, OutOfSpaceError
from recstore.remote.places.folder_store import PosixStorage
from recstore.remote.set import key_filters, names
from recstore.remote.set.manifest import Shard
from recstore.shm import registry
from recstore.sources.table_rows import ArrowRows, exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from typing import Any

    from recstore.building.build_options import Options
    from recstore.building.source import Source
    from recstore.remote.places.storage import Storage
    from recstore.remote.set.manifest import Key

_MOST_AT_ONCE = 1 << 14  # records between two checks of the file size
_BLOCK = 8 << 20  # raw bytes of a block
_KEY_BYTES = 6.4  # of an entry in a key index: 1.6 slots of 4 bytes


class ShardFiles:
    """Turns the records of `append` and `read` into shard files. `close` finishes the last file and returns a list of
    Shard. `abort` removes local files. Not thread-safe.

    A file ends at about `most_bytes` bytes, or at `most_records` records if that is not None.
    """

    def __init__(
        self,
        storage: Storage,
        options: Options,
        mapping: bool,
        most_bytes: int,
        most_records: int | None,
        folder: str | None,
    ) -> None:
        self.storage, self.options, self.mapping = copy.copy(storage), options, mapping
        self.most_bytes, self.most_records, self.folder = most_bytes, most_records, folder
        self.open: _File | None = None
        self.key_bytes = _KEY_BYTES if mapping else 0.0  # of a record
        self.ended_records, self.at_once = 0, 1
        self.ratio: float | None = None  # of the last blocks that were measured: their bytes by their raw bytes
        self.rest = 1.0  # the last file's size by the size that its ratio led to expect
        self.upload_pool = ThreadPoolExecutor(1)
        self.pending: tuple[_File, Future[Shard]] | None = None
        # Of files that may exist. A signal may interrupt between any two lines, so `abort` needs no _File to find them.
        self.temporaries: set[str] = set()
        self.shards: list[Shard] = []

    # ---- Records ----

    def append(self, records: Iterable[Any]) -> None:
        """Appends the records or pairs of an iterable, or the rows of an iterable of tables."""
        records = iter(pairs_of(records) if self.mapping else items_of(records))
        first = list(islice(records, 1))
        are_tables = not self.mapping and first and exports(first[0])
        records = chain(first, records)
        del first  # frees the first record
        if are_tables:
            ArrowRows(records)._fill(self, False)
        else:
            self.extend(records)

    def read(self, source: Source) -> dict[str, Any] | None:
        """Appends all records of a Source, which uses this object as its builder. Returns its attributes."""
        return append_all(source, self).attributes

    def extend(self, records: Iterable[Any]) -> None:
        """Appends records or pairs, as a builder does."""
        records = iter(records)
        while True:
            file, n = self.file(), self.room()
            before = file.records
            with self.explained():
                file.builder.extend(islice(records, n))
            appended = file.records - before
            self.look(file)
            if appended < n:
                return

    def append_rows(self, reader: Any, most: int) -> int:
        """Appends at most `most` of the remaining rows of an ArrowReader, without Python objects. Returns how many."""
        file = self.file()
        with self.explained():
            appended: int = reader.append_to(file.builder, min(most, self.room()))
        self.look(file)
        return appended

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Completes errors: an EncodeError has the number of the record in the stream instead of the file, and the
        error for a full disk gets a remedy."""
        try:
            yield
        except EncodeError as error:
            if error.record is not None:
                error.record += self.ended_records
            raise
        except OutOfSpaceError as error:
            raise explained(error, self.options) from None

    def file(self) -> _File:
        if self.open is None:
            self.open = _File(self.storage, self.options, self.mapping, self.folder, self.temporaries)
        return self.open

    def room(self) -> int:
        """The number of records to append before the next check of the file size."""
        if self.most_records is None:
            return self.at_once
        return max(1, min(self.at_once, self.most_records - self.file().records))

    def look(self, file: _File) -> None:
        """Ends the file if it is full. Sets how many records follow before the next look: half of the missing ones."""
        missing, raw = self.missing(file), file.builder.raw
        if missing < 0.5 and 4 * file.raw_measured < 3 * raw:
            file.builder.end_block(True)
            self.measure(file)
            missing = self.missing(file)
        elif raw >= file.measure_at:
            self.measure(file)
        self.at_once = max(1, min(int(missing / 2), 2 * self.at_once, _MOST_AT_ONCE))
        if missing < 0.5 or self.most_records is not None and file.records >= self.most_records:
            self.end(file)

    def measure(self, file: _File) -> None:
        """Measures the blocks of the file that are written."""
        file.raw_measured, written = file.builder.sizes()
        file.measure_at = file.builder.raw + _BLOCK
        if file.raw_measured:
            self.ratio = written / file.raw_measured

    def missing(self, file: _File) -> float:
        """The expected number of records until the file has `most_bytes`. Before a measurement, raw bytes count."""
        records = max(file.records, 1)
        ratio = 1.0 if self.ratio is None else self.ratio * self.rest
        record_bytes: float = file.builder.raw * ratio / records + self.key_bytes
        return self.most_bytes / max(record_bytes, 1e-9) - records

    # ---- Files ----

    def end(self, file: _File) -> None:
        self.open = None
        self.ended_records += file.records
        try:
            if not file.records:
                file.abort()
                return
            raw, index = file.builder.raw, file.records * self.key_bytes
            file.finish()
            if self.ratio is not None and 2 * file.raw_measured > raw:
                self.rest = max(os.fstat(file.descriptor).st_size - index, 1) / (raw * self.ratio)
            self.wait()
        except BaseException:
            file.abort()
            raise
        self.pending = file, self.upload_pool.submit(file.put)

    def wait(self) -> None:
        """Waits for the upload of the previous file."""
        if self.pending is not None:
            (_, upload), self.pending = self.pending, None
            self.shards.append(upload.result())

    def close(self) -> list[Shard]:
        if self.open is not None:
            self.end(self.open)
        self.wait()
        self.upload_pool.shutdown()
        return self.shards

    def abort(self) -> None:
        # Only of this copy: an upload that waits for the store ends, unless it is in parts or of a forked process.
        self.storage.patience = 0.0
        if self.open is not None:
            self.open.abort()
        if self.pending is not None:
            self.pending[1].cancel()
        self.upload_pool.shutdown()
        if self.pending is not None:
            self.pending[0].abort()
        for path in self.temporaries:
            _remove(path)


class _Nameless(saving.FileTarget):
    """Builds an unnamed file, which disappears if the process is killed."""

    def new_builder(self, make: Any, compression: Any, writer: Any) -> Any:
        folder, name = os.path.split(self.path)
        return make("named", folder, name, compression=compression, writer=writer)


class _File:
    """A shard file being built. `raw_measured` is the raw size of the blocks that were measured, and `measure_at` the
    raw size of all blocks at which they are measured again. The path is in `temporaries` from before the file exists
    until `abort`."""

    def __init__(
        self, storage: Storage, options: Options, mapping: bool, folder: str | None, temporaries: set[str]
    ) -> None:
        self.storage, self.options, self.mapping, self.folder = storage, options, mapping, folder
        self.temporaries = temporaries
        self.builder: Any = None
        self.count: int | None = None
        self.descriptor, self.raw_measured, self.measure_at = -1, 0, 2 * _BLOCK
        self.low: Key = None
        self.high: Key = None
        self.keys: bytes | None = None
        if storage.local:
            folder = storage.url
        self.path = saving.temporary_beside(os.path.join(folder or tempfile.gettempdir(), "x"))
        temporaries.add(self.path)
        target = saving.FileTarget if storage.local else _Nameless
        options.target = target(self.path)  # type: ignore[no-untyped-call, unused-ignore]
        make = functools.partial(new_builder, native.MappingBuilder if mapping else native.Builder, options)
        try:
            if isinstance(storage, PosixStorage):
                self.builder = storage.new_file(make)
                self.descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            else:
                self.builder = make()
                self.descriptor = self.builder.take_descriptor()
        except OutOfSpaceError as error:
            raise explained(error, options) from None
        except BaseException:
            self.abort()
            raise

    @property
    def records(self) -> int:
        if self.count is not None:
            return self.count
        return int(self.builder.hashes.n if self.mapping else self.builder.records)

    def finish(self) -> None:
        """Finishes the file. Sets the number of its records; for a mapping also the key bounds and the key filter."""
        try:
            segment: native.Segment = self._mapping() if self.mapping else self.builder.finish(self.options.indexes)
        except OutOfSpaceError as error:
            raise explained(error, self.options) from None
        try:
            self.count = segment.records
            if self.mapping:
                self.count = len(registry.container_of(segment))
                self.low, self.high = key_filters.bounds(segment)
                self.keys = key_filters.make(segment)
        finally:
            segment.close()

    def _mapping(self) -> native.Segment:
        """The segment of a mapping. If it repeats keys, which readers of sets do not support, the live pairs are
        written to a second segment."""
        segment: native.Segment
        second_segment: native.Segment
        segment, dead, _ = self.builder.finish()
        if not dead:
            return segment
        second_file = _File(self.storage, self.options, True, self.folder, self.temporaries)
        try:
            second_file.builder.extend(pairs_in(segment))
            second_segment, _, _ = second_file.builder.finish()
        except BaseException:
            second_file.abort()
            raise
        finally:
            segment.close()
        self.abort()
        vars(self).update(vars(second_file))
        return second_segment

    def put(self) -> Shard:
        """Puts the key filter and then the file into the storage, under the hash of the file. Returns its Shard."""
        try:
            size = os.fstat(self.descriptor).st_size
            with mmap.mmap(self.descriptor, size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as content:
                digest = names.new_hash()
                digest.update(content)
                name = digest.hexdigest()
                if self.keys is not None:
                    self.storage.write(name + names.KEYS, key_filters.bound(self.keys, name))
                if isinstance(self.storage, PosixStorage):
                    self.storage.adopt(name + names.RECORDS, self.path)
                else:
                    self.storage.write(name + names.RECORDS, content)
        finally:
            self.abort()
        return Shard(name, size, self.records, self.low, self.high)

    def abort(self) -> None:
        """Ends the build, closes the descriptor and removes the local file."""
        if self.builder is not None:
            self.builder.abort()
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        _remove(self.path)
        self.temporaries.discard(self.path)


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)
