"""ShardWriter: writes records as shard files in any number of processes, and publishes them in one commit."""

from __future__ import annotations

import errno
import os

from recstore.building import build_options
from recstore.building.source import check_pairs, check_records, source_of
from recstore.dataset import object_sizes
from recstore.errors import SegmentNotFoundError
from recstore.remote.places.choose_storage import whole_set
from recstore.remote.set import manifest, names, shard_files, tags
from recstore.remote.set.manifest import Manifest, Shard
from recstore.shm import folders
from recstore.text import an, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Literal

    from recstore._types import Arrays, Compression, OnUnsupported
    from recstore.building.source import Source
    from recstore.remote.places.storage import AnyPath, Folder, Options

    _Kind = Literal["list", "mapping"]

__all__ = ["Entry", "ShardWriter"]

FEWEST = 1 << 20  # the least `shard_bytes`


class Entry:
    """The result of ``ShardWriter.write``, for ``commit``: `shards`, a tuple of shard files, and `attributes`, from the
    source. Small, picklable and comparable.

    >>> Entry("list", ()).records
    0
    """

    __slots__ = ("attributes", "id", "kind", "shards")
    kind: _Kind
    shards: tuple[Shard, ...]
    attributes: dict[str, Any]
    id: str

    def __init__(
        self, kind: _Kind, shards: Iterable[Shard], attributes: Mapping[str, Any] | None = None, id: str | None = None
    ) -> None:
        self.kind, self.shards, self.attributes = kind, tuple(shards), dict(attributes or {})
        self.id = id or os.urandom(8).hex()

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(shard.records for shard in self.shards)

    @property
    def nbytes(self) -> int:
        """The size of the shard files in bytes."""
        return sum(shard.nbytes for shard in self.shards)

    @property
    def hashes(self) -> list[str]:
        """The hashes of the shard files."""
        return [shard.hash for shard in self.shards]

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Entry) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        return Entry, (self.kind, self.shards, self.attributes, self.id)

    def __repr__(self) -> str:
        return f"<Entry: {counted(self.records, 'record')} in {counted(len(self.shards), 'shard file')}>"


class ShardWriter:
    """Writes a set of shards: a list or a mapping of any size, in immutable files in an object store or in a folder.

    Small and picklable: each task or process calls `write` on its own copy. One of them passes all returned entries to
    `commit`, which makes the records visible to readers. A retried task duplicates nothing: commit the entry of one
    attempt, and :func:`recstore.remote.gc` removes the files of the others.

    Args:
        url: a folder, or a URL such as ``s3://bucket/train``. The constructor does no I/O.
        mapping: write the pairs of a mapping. Give each key to one shard file only: this is not checked. If files share
            a key, a lookup finds the last value, while ``len`` and iteration count all.
        shard_bytes: the size at which a shard file ends, as an int or text. 64 to 256 MiB work well: smaller files need
            more requests, larger files take longer until their first record is read.
        shard_records: the maximum number of records in a file; None for no limit.
        options: arguments of the object store, as for :func:`recstore.open`, instead of the environment. A pickle of
            the writer includes them, secrets too: for tasks on other machines, set the environment.
        index_by, group_by, compression, on_unsupported, arrays, threads: as for :class:`recstore.RecordList`, for each
            shard file.
        dir: the folder for temporary files, instead of the system's. It needs space for twice `shard_bytes`. Not used
            for a set in a folder.

    Raises TypeError and ValueError for invalid arguments. A forked process can use its parent's writer. Every method is
    safe from several threads at once.

    >>> import recstore.remote, tempfile
    >>> w = recstore.remote.ShardWriter(tempfile.mkdtemp())
    >>> entries = [w.write({"id": i} for i in range(n)) for n in (10, 20)]
    >>> w.commit(entries)
    1
    >>> w.commit([w.write([{"id": 30}])], append=True)
    2
    """

    def __init__(
        self,
        url: AnyPath,
        *,
        mapping: bool = False,
        shard_bytes: int | str = "128MiB",
        shard_records: int | None = None,
        options: Options = None,
        index_by: Any = None,
        group_by: Any = None,
        compression: Compression = "auto",
        on_unsupported: OnUnsupported = "error",
        arrays: Arrays = "copy",
        threads: int | None = None,
        dir: Folder = None,
    ) -> None:
        self.storage = whole_set(url, options)
        self._kind: _Kind = "mapping" if mapping else "list"
        self._bytes = object_sizes.parse(shard_bytes)
        if self._bytes < FEWEST:
            raise ValueError(
                f"shard_bytes must be at least 1 MiB, not {shard_bytes!r}: use shard_records= for small files"
            )
        self._records = shard_records
        if shard_records is not None and (type(shard_records) is not int or shard_records < 1):
            raise ValueError(f"shard_records must be None or a number of 1 or more, not {shard_records!r}")
        self._building: dict[str, Any] = {
            "on_unsupported": on_unsupported,
            "compression": compression,
            "arrays": arrays,
            "index_by": index_by,
            "group_by": group_by,
            "threads": threads,
        }
        if build_options.Options(**self._building).indexes and mapping:
            raise TypeError(
                "index_by and group_by are for lists of records; a mapping already has an index of its keys"
            )
        self._dir = None if dir is None else folders.absolute(dir)

    def __repr__(self) -> str:
        return f"<ShardWriter of a {self._kind}: {self.url}>"

    @property
    def url(self) -> str:
        """The URL or folder of the set, without trailing slashes."""
        return self.storage.url

    def write(self, records: Any) -> Entry:
        """Writes records as shard files, and returns the Entry to commit.

        Args:
            records: an iterable of records, which is streamed; with ``mapping=True`` a mapping or an iterable of pairs;
                a :class:`recstore.sources.Source`; or a table of another library, a record batch, a stream of these, or
                an iterable of tables. Rows of tables are stored without Python objects.

        Raises OutOfSpaceError for a full disk; RemoteError, with the object as `url`, if the storage fails or refuses;
        EncodeError and the other errors of :class:`recstore.RecordList`. After an error, `gc` removes the files.
        """
        mapping = self._kind == "mapping"
        source = source_of(records)
        self._check(records, source)
        options = build_options.Options(**self._building)
        files = shard_files.ShardFiles(self.storage, options, mapping, self._bytes, self._records, self._dir)
        attributes = None
        try:
            if source is not None:
                attributes = files.read(source)
            else:
                files.append(records)
            shards = files.close()
        except BaseException:
            files.abort()
            raise
        return Entry(self._kind, shards, attributes)

    def _check(self, records: Any, source: Source | None) -> None:
        if source is None:
            (check_pairs if self._kind == "mapping" else check_records)(records)
        elif source.pairs != (self._kind == "mapping"):
            content = "records" if self._kind == "mapping" else "the pairs of a mapping"
            raise TypeError(f"this writer writes a {self._kind}, and the source has {content}: change mapping=")

    def commit(self, entries: Entry | Iterable[Entry], *, append: bool = False, base: int | None = None) -> int:
        """Writes the next manifest of the set, and returns its number. Readers that open the set from then on get the
        records of these entries in order.

        Args:
            entries: an iterable of Entry from `write` calls in any process. Duplicates count once.
            append: add to the newest manifest. By default the new manifest has only these entries. Older manifests do
                not change.
            base: the number of the expected newest manifest, or 0 for none; ConflictError if another is the newest.
                With None, this commit follows any other commit.

        If an error leaves it unclear whether an append happened, repeat it: files that the set already has are not
        added again, in any grouping or order of the entries. Different calls of `write` never produce the same file.

        Raises SegmentNotFoundError if a shard file is missing or has another size; ValueError for a set of another
        kind; ConflictError; RemoteError. A commit is atomic, even if it raises.
        """
        entries = list(dict.fromkeys(self._checked(entries)))
        shards = list({shard.hash: shard for entry in entries for shard in entry.shards}.values())
        attributes = _agreed(entries)
        self._require(shards)

        def change(old: Manifest | None) -> Manifest:
            if old is not None and old.kind != self._kind and len(old):
                raise ValueError(f"{self.url} is a {old.kind}, and this writer writes a {self._kind}")
            if old is None or not append:
                new = Manifest(self._kind, shards, attributes)
                return old if old is not None and old.fingerprint == new.fingerprint else new
            old_hashes = set(old.hashes)
            new_shards = [shard for shard in shards if shard.hash not in old_hashes]
            if not new_shards:
                return old
            agreed = {key: value for key, value in old.attributes.items() if attributes.get(key) == value}
            return Manifest(self._kind, [*old.shards(), *new_shards], agreed if len(old) else attributes)

        return manifest.commit(self.storage, change, base).number

    def remove(self, shards: str | Entry | Shard | Iterable[str | Entry | Shard]) -> int:
        """Writes a manifest without these shard files, and returns its number. Readers of older manifests keep them;
        :func:`recstore.remote.gc` removes them later.

        Args:
            shards: the hash of a shard file, an Entry, one of an entry's `shards`, or an iterable of these. Unknown
                hashes are ignored.

        Raises TypeError for other types; ValueError for a str that is not a hash; SegmentNotFoundError without a
        set; RemoteError.
        """
        removed: set[str] = set()
        for item in [shards] if isinstance(shards, (str, Entry, Shard)) else shards:
            if isinstance(item, (Entry, Shard)):
                removed.update(item.hashes if isinstance(item, Entry) else [item.hash])
            elif not isinstance(item, str):
                raise TypeError(f"remove takes hashes of shard files and entries, not {an(type(item).__name__)}")
            elif not names.is_hash(item):
                raise ValueError(
                    f"{item!r:.60} is not the hash of a shard file: give 40 hex digits, such as an entry's hashes"
                )
            else:
                removed.add(item)

        def change(old: Manifest | None) -> Manifest:
            if old is None:
                raise SegmentNotFoundError(errno.ENOENT, "no set of shards here", self.url)
            if removed.isdisjoint(old.hashes):
                return old
            return Manifest(old.kind, [shard for shard in old.shards() if shard.hash not in removed], old.attributes)

        return manifest.commit(self.storage, change).number

    def tag(self, name: str, number: int | None = None, *, delete: bool = False) -> int:
        """Names a manifest, or moves the name to it, and returns its number. ``recstore.open(f"{url}@{name}")`` then
        opens that manifest, and :func:`recstore.remote.gc` keeps it. Open lists keep their manifest.

        Args:
            name: letters, digits, ``.``, ``_`` and ``-``, a letter first, at most 100.
            number: of the manifest; None for the newest.
            delete: remove the name instead, and return 0.

        Raises ValueError for an invalid name or number; SegmentNotFoundError for a missing manifest, or with `delete`
        for a missing tag; RemoteError. Of several calls the last wins. Moving a tag is atomic.
        """
        object_name = tags.object_name(name)
        if number is not None and (type(number) is not int or number < 1 or delete):
            raise ValueError(f"number must be None or, without delete=True, a number of 1 or more, not {number!r}")
        if delete:
            if self.storage.size(object_name) is None:
                raise tags.absent(name, self.storage)
            self.storage.delete([object_name])
            return 0
        if number is None:
            number = manifest.existing(self.storage)[0]
        elif self.storage.size(manifest.name_of(number)) is None:
            where = self.storage.of(manifest.name_of(number))
            raise SegmentNotFoundError(errno.ENOENT, "no such manifest to tag: recstore log lists manifests", where)
        tags.write(self.storage, name, number)
        return number

    def _checked(self, entries: Entry | Iterable[Entry]) -> Iterator[Entry]:
        if isinstance(entries, Entry):
            entries = [entries]
        for entry in entries:
            if not isinstance(entry, Entry):
                raise TypeError(f"commit takes the entries that write() returns, not {an(type(entry).__name__)}")
            if entry.kind != self._kind:
                raise ValueError(f"an entry belongs to a {entry.kind}, and this writer writes a {self._kind}")
            yield entry

    def _require(self, shards: Iterable[Shard]) -> None:
        """Raises SegmentNotFoundError unless the storage has all shard files in full size, and the key filters
        of a mapping."""
        missing = manifest.missing(self.storage, self._kind, shards)
        if missing:
            raise SegmentNotFoundError(
                errno.ENOENT,
                "a shard file of an entry is missing: gc removed it because no manifest named it for days, or it "
                "was written to another place; write it again",
                self.storage.of(missing[0]),
            )


def _agreed(entries: Iterable[Entry]) -> dict[str, Any]:
    """The attributes that are equal in all entries with records."""
    first, *others = [entry.attributes for entry in entries if entry.shards] or [{}]
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
