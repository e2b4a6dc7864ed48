"""ShardWriter: writes records as shard files from any number of processes, and commits what they have written once."""

import errno
import os

from recstore.building import build_options
from recstore.building.source import check_pairs, check_records, source_of
from recstore.dataset import object_sizes
from recstore.errors import SegmentNotFoundError
from recstore.remote import manifest, names, shard_files
from recstore.remote.manifest import Manifest, Shard
from recstore.remote.storage import whole_set
from recstore.text import counted

__all__ = ["Entry", "ShardWriter"]

FEWEST = 1 << 20  # bytes of a shard file; see build_options for the size of a block
_LOOKS = 16  # the most files that a commit looks for one by one, where a listing takes a request for each 1,000


class Entry:
    """What one call of ``ShardWriter.write`` has written: `shards`, a tuple of the shard files, and `attributes` of the
    records as their reader noted them. Small, and can be pickled and compared. A commit makes it a part of the set.

    >>> Entry("list", ()).records
    0
    """

    __slots__ = ("attributes", "id", "kind", "shards")

    def __init__(self, kind, shards, attributes=None, id=None):
        self.kind, self.shards, self.attributes = kind, tuple(shards), dict(attributes or {})
        self.id = id or os.urandom(8).hex()

    @property
    def records(self):
        """The number of records."""
        return sum(shard.records for shard in self.shards)

    @property
    def nbytes(self):
        """The bytes of the shard files."""
        return sum(shard.nbytes for shard in self.shards)

    @property
    def hashes(self):
        """The hashes of the shard files, as a list."""
        return [shard.hash for shard in self.shards]

    def __eq__(self, other):
        return self.id == other.id if isinstance(other, Entry) else NotImplemented

    def __hash__(self):
        return hash(self.id)

    def __reduce__(self):
        return Entry, (self.kind, self.shards, self.attributes, self.id)

    def __repr__(self):
        return f"<Entry: {counted(self.records, 'record')} in {counted(len(self.shards), 'shard file')}>"


class ShardWriter:
    """Writes a set of shards: a list or a mapping of any size, in immutable files in an object store or in a folder.

    Small, and can be pickled: each task or process calls `write` on a copy of its own, and one of them then calls
    `commit` with all that these calls returned. Until then no reader sees anything, and what no commit names is removed
    by :func:`recstore.remote.gc`. So a task that is tried again duplicates nothing: give the entry of one attempt.

    Args:
        url: a folder, or a URL such as ``s3://bucket/train``. Nothing is read or written when the writer is made.
        mapping: write the pairs of a mapping. A key belongs to one shard file of the set: nothing looks whether another
            file has it. Where it comes again, a lookup finds the last, and ``len`` and iteration have both.
        shard_bytes: the size at which a shard file ends, an int or a text. 64 to 256 MiB are sensible: a smaller one
            takes more requests, a larger one more time until its first record is read.
        shard_records: the most records in a file; None for no such limit.
        options: arguments of the object store, as of :func:`recstore.open`, in place of the environment's. A pickle of
            the writer holds them, secrets too: for tasks of other machines set the environment.
        index_by, group_by, compression, on_unsupported, arrays, threads: as of :class:`recstore.RecordList`, for each
            shard file.
        dir: the folder for temporary files, instead of that of the system. Twice `shard_bytes` have to fit. A set in a
            folder needs none.

    Raises TypeError and ValueError for arguments that do not fit. A process that was forked may use a writer of its
    parent. Every method is safe from several threads at once.

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
        url,
        *,
        mapping=False,
        shard_bytes="128MiB",
        shard_records=None,
        options=None,
        index_by=None,
        group_by=None,
        compression="auto",
        on_unsupported="error",
        arrays="copy",
        threads=None,
        dir=None,
    ):
        self.storage = whole_set(url, options)
        self._kind = "mapping" if mapping else "list"
        self._bytes = object_sizes.parse(shard_bytes)
        if self._bytes < FEWEST:
            raise ValueError(f"shard_bytes is at least 1 MiB, not {shard_bytes!r}: shard_records= makes small files")
        self._records = shard_records
        if shard_records is not None and (type(shard_records) is not int or shard_records < 1):
            raise ValueError(f"shard_records is a number of records, 1 or more, or None, not {shard_records!r}")
        self._building = {"on_unsupported": on_unsupported, "compression": compression, "arrays": arrays}
        self._building |= {"index_by": index_by, "group_by": group_by, "threads": threads}
        if build_options.Options(**self._building).indexes and mapping:
            raise TypeError("index_by and group_by are for lists of records; a mapping is found by its keys")
        self._dir = None if dir is None else os.path.abspath(os.fsdecode(dir))

    def __repr__(self):
        return f"<ShardWriter of a {self._kind}: {self.url}>"

    @property
    def url(self):
        """The URL or folder of the set, without slashes at its end."""
        return self.storage.url

    def write(self, records):
        """Writes records as shard files, and returns the Entry to commit.

        Args:
            records: an iterable of records, which is never held as a whole; with ``mapping=True`` a mapping or an
                iterable of pairs; a :class:`recstore.sources.Source`; or a table of another library, a record batch, a
                stream of these, or an iterable of tables. No Python object is made for a row of a table.

        Raises OutOfSpaceError for a full disk; RemoteError, with the object as `url`, for a storage that fails or
        refuses; EncodeError and the other errors of :class:`recstore.RecordList`. After an error what is in the storage
        belongs to no set, and `gc` removes it.
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

    def _check(self, records, source):
        if source is None:
            (check_pairs if self._kind == "mapping" else check_records)(records)
        elif source.pairs != (self._kind == "mapping"):
            what = "records" if self._kind == "mapping" else "the pairs of a mapping"
            raise TypeError(f"the writer is of a {self._kind}, and the source gives {what}: choose mapping= to fit it")

    def commit(self, entries, *, append=False, base=None):
        """Makes the next manifest of the set, and returns its number: from then on readers that open the set get the
        records of these entries, in their order.

        Args:
            entries: what `write` returned, in any process: an iterable of Entry. One that is given twice counts once.
            append: add to the newest manifest. Otherwise the new one has these entries alone, and older manifests keep
                what they have.
            base: the number of the manifest that must still be the newest, or 0 for none; ConflictError if it is not.
                None: whoever else commits meanwhile, this commit comes after it.

        To append the same entries once more, because an error left it unclear whether it was done, changes nothing,
        however they are put together or ordered then: each call of `write` makes files of other hashes than any other,
        and a file that the set has is not added again.

        Raises SegmentNotFoundError if a shard file is not there any more; ValueError for a set of another kind;
        ConflictError; RemoteError. After an error readers see all of the commit or nothing.
        """
        entries = list(dict.fromkeys(self._checked(entries)))
        shards = list({shard.hash: shard for entry in entries for shard in entry.shards}.values())
        attributes = _agreed(entries)
        self._require(shards)

        def change(old):
            if old is not None and old.kind != self._kind and len(old):
                raise ValueError(f"{self.url} is a set of a {old.kind}, and this writer is of a {self._kind}")
            if old is None or not append:
                new = Manifest(self._kind, shards, attributes)
                return old if old is not None and old.fingerprint == new.fingerprint else new
            there = set(old.hashes)
            more = [shard for shard in shards if shard.hash not in there]
            if not more:
                return old
            agreed = {key: value for key, value in old.attributes.items() if attributes.get(key) == value}
            return Manifest(self._kind, [*old.shards(), *more], agreed if len(old) else attributes)

        return manifest.commit(self.storage, change, base).number

    def remove(self, shards):
        """Makes a manifest without these shard files, and returns its number. Readers of older manifests keep them;
        :func:`recstore.remote.gc` removes them later.

        Args:
            shards: an iterable of hashes of shard files, of Entry, or of an entry's `shards`. Those that the set does
                not have are no error.

        Raises TypeError and ValueError for another thing and for a text that is no hash; SegmentNotFoundError if there
        is no set; RemoteError.
        """
        gone = set()
        for one in [shards] if isinstance(shards, (str, Entry, Shard)) else shards:
            gone.update(_hashes_in(one))

        def change(old):
            if old is None:
                raise SegmentNotFoundError(errno.ENOENT, "there is no set of shards: it has no manifest", self.url)
            if gone.isdisjoint(old.hashes):
                return old
            return Manifest(old.kind, [one for one in old.shards() if one.hash not in gone], old.attributes)

        return manifest.commit(self.storage, change).number

    def _checked(self, entries):
        if isinstance(entries, Entry):
            entries = [entries]
        for entry in entries:
            if not isinstance(entry, Entry):
                raise TypeError(f"commit takes what write() returned, an Entry, not a {type(entry).__name__}")
            if entry.kind != self._kind:
                raise ValueError(f"an entry is of a {entry.kind}, and this writer is of a {self._kind}")
            yield entry

    def _require(self, shards):
        """Raises SegmentNotFoundError for a shard file that is not in the storage whole."""
        sizes = {shard.hash + names.RECORDS: shard.nbytes for shard in shards}
        if self._kind == "mapping":
            sizes |= {shard.hash + names.KEYS: None for shard in shards}
        if self.storage.local or len(sizes) <= _LOOKS:
            there = {name: self.storage.size(name) for name in sizes}
        else:
            there = {name: size for name, size, _ in self.storage.list() if name in sizes}
        for name, size in sizes.items():
            if there.get(name) is None or size not in (None, there[name]):
                raise SegmentNotFoundError(
                    errno.ENOENT,
                    "a shard file of an entry is not there: gc has removed it, as no manifest named it for days, or it "
                    "was written to another place; write it again",
                    self.storage.of(name),
                )


def _hashes_in(one):
    """The hashes that an item of the argument of `remove` names."""
    if isinstance(one, (Entry, Shard)):
        return one.hashes if isinstance(one, Entry) else [one.hash]
    if not isinstance(one, str):
        raise TypeError(f"remove takes hashes of shard files and entries, not a {type(one).__name__}")
    if not names.is_hash(one):
        raise ValueError(f"{one!r:.60} is no hash of a shard file: 40 hex digits, such as an entry's hashes")
    return [one]


def _agreed(entries):
    """The attributes in which all entries with records agree."""
    given = [entry.attributes for entry in entries if entry.shards]
    first = given[0] if given else {}
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in given[1:])}
