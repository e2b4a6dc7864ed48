"""`compact` of a set of shards: merges small shard files into larger ones."""

from __future__ import annotations

from contextlib import closing
from itertools import chain, groupby, islice
from typing import NamedTuple

from recstore.remote.set import key_filters
from recstore.remote.set.rewriting import Rewriting, indexes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recstore._core import native
    from recstore._types import Arrays, Compression
    from recstore.remote.places.storage import AnyPath, Folder, Options
    from recstore.remote.set.manifest import Shard
    from recstore.remote.set.shard_files import ShardFiles

__all__ = ["Compacted", "compact"]


class Compacted(NamedTuple):
    """The result of :func:`compact`: `number` of the manifest, `files` that were replaced, and `new_files`."""

    number: int
    files: int
    new_files: int


def compact(
    url: AnyPath,
    *,
    shard_bytes: int | str = "128MiB",
    options: Options = None,
    compression: Compression = "auto",
    arrays: Arrays = "copy",
    threads: int | None = None,
    dir: Folder = None,
    progress: bool = False,
) -> Compacted:
    """Merges adjacent small shard files of a set into files of about `shard_bytes`, in a new manifest. Small files have
    less than half of `shard_bytes`. Other files, and small files without a small neighbor, stay as they are.

    The set has the same records in the same order, the same pairs, attributes and saved indexes. Files with different
    saved indexes are not merged, nor are files of a mapping that share a key or have objects of classes as keys.
    Readers keep their manifest; :func:`recstore.remote.gc` removes the old files later. Shard files that are appended
    in the meantime stay.

    Args:
        url: the set: a folder or a URL.
        shard_bytes: as an int or text, at least 1 MiB.
        options: arguments of the object store, as for :func:`recstore.open`.
        compression, arrays, threads, dir: as for :class:`recstore.remote.ShardWriter`. `dir` needs space for five
            times `shard_bytes`.
        progress: show a progress bar (needs the extra ``cli``).

    Returns a :class:`recstore.remote.Compacted`. If no files can be merged, nothing is written, and the number is that
    of the newest manifest. Raises SegmentNotFoundError without a set; CorruptError for a damaged shard file;
    ConflictError if another writer removed the old files in the meantime; OutOfSpaceError; RemoteError. After an error
    the set is unchanged, and `gc` removes the new files.

    >>> import recstore.remote, tempfile
    >>> w = recstore.remote.ShardWriter(tempfile.mkdtemp())
    >>> for part in (range(10), range(10, 20), range(20, 30)): number = w.commit(w.write(part), append=True)
    >>> compact(w.url)
    Compacted(number=4, files=3, new_files=1)
    >>> recstore.open(w.url).to_list() == list(range(30))
    True
    """
    building = dict(shard_bytes=shard_bytes, compression=compression, arrays=arrays, threads=threads, dir=dir)
    change = Rewriting(url, options, building, progress)
    runs = groupby(change.manifest.shards(), lambda shard: 2 * shard.nbytes < change.writer._bytes)
    _merge(change, [shards for is_small, run in runs if is_small and len(shards := list(run)) > 1])
    files, new_files = (sum(map(len, side)) for side in zip(*change.replaced, ((), ())))
    return Compacted(change.commit(), files, new_files)


def _merge(change: Rewriting, runs: list[list[Shard]]) -> None:
    """Writes runs of small shard files as larger files."""
    group = _Group(change)
    try:
        with closing(change.segments([*chain(*runs)])) as segments:
            for run in runs:
                for shard, segment in islice(segments, len(run)):
                    indexes, keys = indexes_of(segment), _keys_of(change, segment)
                    if not group.takes(indexes, keys):
                        group.end()
                    group.add(shard, segment, indexes, keys)
                group.end()
    finally:
        group.abort()


def _keys_of(change: Rewriting, segment: native.Segment) -> set[int] | None:
    """The hashes of the keys of a mapping; None if a key has no hash."""
    if not change.is_mapping:
        return set()
    hashes, opaque = key_filters.hashes_in(segment)
    return None if opaque else set(hashes)


class _Group:
    """Adjacent shard files that become new files together. Nothing is written for a group of one file."""

    def __init__(self, change: Rewriting) -> None:
        self.change = change
        self.shards: list[Shard] = []
        self.indexes: native.Indexes = ()
        self.keys: set[int] | None = None  # the hashes of the keys in the open file, perhaps with some of earlier files
        self.first: native.Segment | None = None  # until the group has a second file
        self.files: ShardFiles | None = None

    def takes(self, indexes: native.Indexes, keys: set[int] | None) -> bool:
        """Whether a file with these saved indexes and keys may join the group."""
        if not self.shards:
            return True
        if self.keys is None or keys is None or indexes != self.indexes:
            return False
        # In one file, a repeated key would lose its first value, which len() and iteration count.
        return self.keys.isdisjoint(keys)

    def add(self, shard: Shard, segment: native.Segment, indexes: native.Indexes, keys: set[int] | None) -> None:
        self.shards.append(shard)
        if len(self.shards) == 1:
            self.first, self.indexes, self.keys = segment, indexes, keys
            return
        if self.files is None:
            assert self.first is not None
            self.files = self.change.files(self.first, divide=True)
            self.change.copy(self.files, self.shards[0], self.first)
            self.first.close()
            self.first = None
        ended = self.files.ended_records
        self.change.copy(self.files, shard, segment)
        segment.close()
        if self.files.ended_records != ended:
            self.keys = keys
        elif self.keys is not None and keys is not None:
            self.keys.update(keys)

    def end(self) -> None:
        """Finishes the new files. The group is then empty."""
        if self.files is not None:
            self.change.replace(self.shards, self.files)
        self.abort()

    def abort(self) -> None:
        """Drops unfinished files. The group is then empty."""
        if self.first is not None:
            self.first.close()
        if self.files is not None:
            self.files.abort()
        self.shards, self.first, self.files = [], None, None
