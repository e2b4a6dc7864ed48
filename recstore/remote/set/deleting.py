"""`delete` of a set of shards: writes the shard files that have certain records again, without these."""

from __future__ import annotations

import functools
from contextlib import closing
from typing import NamedTuple

from recstore._core import native, trust
from recstore.errors import CorruptError, SegmentNotFoundError
from recstore.remote.places.storage import reread
from recstore.remote.set import key_filters, names, ranges
from recstore.remote.set.key_ranges import KeyRanges
from recstore.remote.set.rewriting import Rewriting
from recstore.shm import registry
from recstore.text import an

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from typing import Any, TypeAlias

    from recstore._types import Arrays, Compression, FieldName
    from recstore.remote.places.storage import AnyPath, Folder, Options, Storage
    from recstore.remote.set.manifest import Shard

    _Found: TypeAlias = Generator[tuple[Shard, native.Segment, bytearray]]

__all__ = ["Deleted", "delete"]

_MISSING = object()


class Deleted(NamedTuple):
    """The result of :func:`delete`: `number` of the manifest, `records` that match, and `files` that had them."""

    number: int
    records: int
    files: int


def delete(
    url: AnyPath,
    keys: Iterable[Any],
    *,
    field: FieldName | None = None,
    dry_run: bool = False,
    options: Options = None,
    compression: Compression = "auto",
    arrays: Arrays = "copy",
    threads: int | None = None,
    dir: Folder = None,
    progress: bool = False,
) -> Deleted:
    """Deletes records from a set, in a new manifest. Only shard files that have such records are written again, with
    their other records in the same order, and the same saved indexes.

    The bytes of the records stay in the storage while a manifest names the old files: run
    :func:`recstore.remote.gc` (``days=0`` removes them at once), and delete copies, such as caches of nodes.

    Args:
        url: the set: a folder or a URL.
        keys: for a mapping, an iterable of keys; for a list, the values of `field` in the records to delete. They are
            compared as keys of a dict: 1 equals 1.0 and True, but not "1". Objects of classes are found if their class
            is registered. Unknown keys are ignored. If several files have a key, all its values are deleted.
        field: for a list, the field, as for ``x.field``. A file with a saved index of it, but no value, is not read.
        dry_run: only count.
        options: arguments of the object store, as for :func:`recstore.open`.
        compression, arrays, threads, dir: as for :class:`recstore.remote.ShardWriter`. `dir` needs space for six
            times the largest shard file.
        progress: show a progress bar (needs the extra ``cli``).

    Returns a :class:`recstore.remote.Deleted`. If no record matches, nothing is written, and the number is that of the
    newest manifest. If all match, the set is empty. Records that are appended in the meantime are not searched.

    Raises KeyError if no record has the field; TypeError for a list without `field`, a mapping with it, and keys that
    cannot be hashed; UntrustedError if a value of `field` is a pickle, which is not loaded; SegmentNotFoundError
    without a set; CorruptError for a damaged shard file; ConflictError if another writer removed the old files in the
    meantime; OutOfSpaceError; RemoteError. After an error the set is unchanged, and `gc` removes the new files.

    >>> import recstore.remote, tempfile
    >>> w = recstore.remote.ShardWriter(tempfile.mkdtemp())
    >>> w.commit(w.write({"user": {"id": i % 4}, "n": i} for i in range(8)))
    1
    >>> delete(w.url, [2, 3, 9], field="user.id")
    Deleted(number=2, records=4, files=1)
    >>> recstore.open(w.url).field("n").to_list()
    [0, 1, 4, 5]
    """
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"delete takes a list of keys, not {an(type(keys).__name__)}: write [{keys!r:.40}]")
    wanted, records, files = set(keys), 0, 0
    change = Rewriting(url, options, dict(compression=compression, arrays=arrays, threads=threads, dir=dir), progress)
    with closing(_matches(change, wanted, field)) as found:
        for shard, segment, keep in found:
            records, files = records + keep.count(0), files + (0 in keep)
            if 0 in keep and not dry_run:
                _rewrite(change, shard, segment, keep)
            segment.close()
    return Deleted(change.commit(), records, files)


def _rewrite(change: Rewriting, shard: Shard, segment: native.Segment, keep: bytearray) -> None:
    new_files = change.files(segment)
    try:
        change.copy(new_files, shard, segment, keep)
        change.replace([shard], new_files, keep.count(0))
    except BaseException:
        new_files.abort()
        raise


# Both search functions yield a shard file, its Segment, and a byte for each record: 0 to delete it, else 1.


def _matches(change: Rewriting, wanted: set[Any], field: FieldName | None) -> _Found:
    """The records of `_by_key` for a mapping, of `_by_field` for a list. Raises TypeError for a wrong `field`."""
    if change.is_mapping != (field is None):
        kind = "mapping, which has no field: leave out field=" if change.is_mapping else "list: give field="
        raise TypeError(f"{change.storage.url} is a {kind}")
    return _by_key(change, wanted) if field is None else _by_field(change, wanted, field)


def _by_key(change: Rewriting, wanted: set[Any]) -> _Found:
    key_ranges = KeyRanges(change.manifest.bounds, len(change.manifest))
    keys_of: dict[str, list[Any]] = {}
    for key in wanted:
        for i in key_ranges.candidates(key):
            keys_of.setdefault(change.manifest.hashes[i], []).append(key)
    shards = [shard for shard in change.manifest.shards() if shard.hash in keys_of]

    def skip(storage: Storage, shard: Shard) -> bool:
        return _filter_has_none(storage, shard, keys_of[shard.hash])

    for shard, segment in change.segments(shards, skip):
        keep = bytearray(b"\1") * shard.records
        segment.reader = trust.Reader(trusted=False)
        mapping = registry.container_of(segment)
        for key in keys_of[shard.hash]:
            entry = mapping._entry(key)
            if entry is not None:
                keep[entry] = 0
        yield shard, segment, keep


def _filter_has_none(storage: Storage, shard: Shard, keys: list[Any]) -> bool:
    """Whether a shard file has none of the keys, by its key filter if the file is not on this machine."""
    name = shard.hash + names.KEYS
    if storage.local:
        return False

    def read() -> key_filters.KeyFilter:
        data = storage.read(name, key_filters.most_bytes(shard.records))
        return key_filters.KeyFilter(data, storage.of(name), shard.hash)

    try:
        key_filter = reread(read)
    except SegmentNotFoundError:
        return False
    return not any(key_filter.may_have(key_filters.hash_of(key)) for key in keys)


def _by_field(change: Rewriting, wanted: set[Any], field: FieldName) -> _Found:
    is_known = not len(change.manifest)  # whether a record has the field

    def skip(storage: Storage, shard: Shard) -> bool:
        nonlocal is_known
        if not reread(lambda: _index_has_none(storage, shard, wanted, field), CorruptError):
            return False
        is_known = True
        return True

    for shard, segment in change.segments(change.manifest.shards(), skip):
        keep = bytearray(b"\1") * shard.records
        segment.reader = trust.Reader(trusted=False)
        for row, value in enumerate(registry.container_of(segment).field(field, default=_MISSING)):
            if value is not _MISSING:
                is_known = True
                try:
                    keep[row] = value not in wanted
                except TypeError:  # a list or another value without a hash, which equals no key
                    continue
        yield shard, segment, keep
    if not is_known:
        raise KeyError(f"no record of {change.storage.url} has the field {field!r}")


def _index_has_none(storage: Storage, shard: Shard, wanted: set[Any], field: FieldName) -> bool:
    """Whether a shard file has a saved index of the field without any of the values."""
    name, path = shard.hash + names.RECORDS, native.Path(field)
    if storage.local:
        segment = native.open_path(storage.path(name), None)
    else:
        read = functools.partial(storage.read_range, name)
        bytes_ = ranges.Ranges(read, shard.nbytes, storage.of(name), lambda _: None)
        bytes_.fetch_head()
        segment = native.open_ranges(bytes_, None, storage.of(name))
    try:
        segment.reader = trust.Reader(trusted=False)
        store = registry.container_of(segment)
        for kind, by in ((native.INDEX_RECORDS, "index_by"), (native.INDEX_GROUPS, "group_by")):
            if native.find_saved(segment, kind, path) is not None:
                index = getattr(store, by)(field)
                return not any(value in index for value in wanted)
        return False
    finally:
        segment.close()
