"""Writes shard files of a set again, and publishes the new files in place of the old ones, for compacting.py and
deleting.py.

Values are copied by a reader that makes no objects of classes and loads no pickles, so neither the classes nor trust is
needed, and what is stored does not change.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from itertools import compress

from recstore._core import native, trust
from recstore.building import build_options
from recstore.building.pairs import pairs_in
from recstore.building.progress import Bar
from recstore.errors import BuildError, ConflictError, CorruptError
from recstore.remote.places.choose_storage import whole_set
from recstore.remote.set import manifest, names, reading
from recstore.remote.set.manifest import Manifest, Shard
from recstore.remote.set.shard_files import ShardFiles
from recstore.remote.set.writer import ShardWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any

    from recstore.remote.places.storage import AnyPath, Options, Storage

_AHEAD = 4  # shard files that are fetched while another one is used
_UNDIVIDED = 1 << 62  # bytes


class Rewriting:
    """A change of a set: `manifest`, the newest at the start, and `replaced`, pairs of adjacent shard files and their
    new files. `building` are arguments of ShardWriter. With `progress`, reading draws a progress bar.

    Raises SegmentNotFoundError without a set; the errors of ShardWriter and of manifest.load.
    """

    def __init__(self, url: AnyPath, options: Options, building: dict[str, Any], progress: bool) -> None:
        self.progress = progress
        self.storage = whole_set(url, options)
        self.manifest = manifest.load(self.storage, manifest.existing(self.storage)[0])
        self.is_mapping = self.manifest.kind == "mapping"
        self.writer = ShardWriter(url, mapping=self.is_mapping, options=options, **building)
        self.replaced: list[tuple[list[Shard], list[Shard]]] = []

    # ---- Reading ----

    def segments(
        self, shards: list[Shard], skip: Callable[[Storage, Shard], bool] | None = None
    ) -> Generator[tuple[Shard, native.Segment]]:
        """Yields the shard files for which `skip` is false, with their Segments, which the caller closes. Threads call
        `skip` and fetch the next files. Their reader is trust.VERBATIM.

        Raises CorruptError for content that does not match the manifest, RemoteError, OutOfSpaceError.
        """
        storage = copy.copy(self.storage)
        with (
            Bar(self.progress, sum(shard.nbytes for shard in shards), "bytes", "rewriting") as bar,
            ThreadPoolExecutor(_AHEAD) as pool,
        ):
            try:
                opened = reading.ahead(pool, lambda shard: (shard, self._open(storage, shard, skip)), shards, _AHEAD)
                for shard, segment in opened:
                    bar.advance(shard.nbytes)
                    if segment is not None:
                        yield shard, segment
            finally:
                storage.patience = 0.0  # ends a fetch that waits for the store
                pool.shutdown(cancel_futures=True)

    def _open(
        self, storage: Storage, shard: Shard, skip: Callable[[Storage, Shard], bool] | None
    ) -> native.Segment | None:
        if skip is not None and skip(storage, shard):
            return None
        where = storage.of(shard.hash + names.RECORDS)
        segment = reading.intact(storage, shard.hash, self.writer._dir)
        segment.reader = trust.VERBATIM
        is_mapping, records = segment.is_mapping, segment.store_records(0)
        if (is_mapping, records) != (self.is_mapping, shard.records) or is_mapping and segment.order() is not None:
            segment.close()
            raise CorruptError(
                f"the shard file is of another kind, repeats keys, or has {records:,} records instead of "
                f"{shard.records:,}: write it again, or remove it from the set",
                filename=where,
            )
        return segment

    # ---- Writing ----

    def files(self, segment: native.Segment, divide: bool = False) -> ShardFiles:
        """A ShardFiles with the saved indexes of a shard file. Makes one file, unless `divide` is true."""
        options = build_options.Options(**self.writer._building)
        options.indexes = indexes_of(segment)
        most = self.writer._bytes if divide else _UNDIVIDED
        return ShardFiles(self.storage, options, self.is_mapping, most, None, self.writer._dir)

    def copy(self, files: ShardFiles, shard: Shard, segment: native.Segment, keep: bytearray | None = None) -> None:
        """Appends the records or pairs of a shard file; with `keep`, a byte for each, only those whose byte is not
        0."""
        with reading.naming(self.storage.of(shard.hash + names.RECORDS)):
            source = native.open_path(f"/dev/fd/{segment.fileno()}", None)  # `segment` may have another reader
            try:
                source.reader = trust.VERBATIM
                whole: Iterable[Any]
                if self.is_mapping:
                    whole = pairs_in(source)
                else:
                    whole = native.Records.__new__(native.Records)._set(native.Selection.whole(source))
                files.extend(whole if keep is None else compress(whole, keep))
            finally:
                source.close()

    def replace(self, old: list[Shard], files: ShardFiles, deleted: int = 0) -> None:
        """Finishes new files, which replace adjacent old ones. Raises BuildError if they do not have the records of the
        old files, less `deleted`."""
        new = files.close()
        written, expected = sum(shard.records for shard in new), sum(shard.records for shard in old) - deleted
        if written != expected:
            raise BuildError(
                f"{self.storage.url}: {expected:,} records became {written:,} when they were written again, possibly "
                "because keys of unregistered classes are equal: nothing was changed"
            )
        self.replaced.append((old, new))

    # ---- Publishing ----

    def commit(self) -> int:
        """Writes the next manifest, and returns its number; without changes, the number of the manifest at the start.
        Shard files that other writers have appended since stay. Raises ConflictError if an old file is not in the
        newest manifest any more; the errors of ShardWriter.commit."""
        if not self.replaced:
            return self.manifest.number
        self.writer._require(shard for _, new in self.replaced for shard in new)
        return manifest.commit(self.storage, self._changed).number

    def _changed(self, newest: Manifest | None) -> Manifest:
        shards = [] if newest is None else newest.shards()
        hashes = [shard.hash for shard in shards]
        place = {hash_: i for i, hash_ in enumerate(hashes)}
        slots: list[list[Shard]] = [[shard] for shard in shards]
        for old, new in self.replaced:
            first = place.get(old[0].hash, len(shards))
            if hashes[first : first + len(old)] != [shard.hash for shard in old]:
                raise ConflictError(
                    f"{self.storage.url}: another writer removed or rewrote shard files of manifest "
                    f"{self.manifest.number} in the meantime: nothing was changed; repeat it",
                    url=self.storage.url,
                )
            slots[first : first + len(old)] = [new, *([] for _ in old[1:])]
        return Manifest(self.manifest.kind, [s for slot in slots for s in slot], newest.attributes if newest else None)


def indexes_of(segment: native.Segment) -> native.Indexes:
    """The saved indexes of a segment."""
    return tuple((saved.kind, saved.path()) for saved in native.saved_indexes(segment))
