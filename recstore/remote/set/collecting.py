"""`gc` of a set of shards: removes old manifests without a tag, and old files that no remaining manifest names.

The age of an object is the difference between its time and the time of a marker written now. Both come from the
storage, so a wrong clock on this machine does not matter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re

from recstore.errors import RemoteError, SegmentNotFoundError
from recstore.remote.places.choose_storage import whole_set
from recstore.remote.set import manifest, tags
from recstore.remote.set.names import KEYS, RECORDS
from recstore.text import counted, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from recstore.remote.places.storage import AnyPath, Options, Storage

__all__ = ["Collected", "gc"]

_OURS = re.compile(rf"([0-9a-f]{{40}})({re.escape(RECORDS)}|{re.escape(KEYS)})|gc-[0-9a-f]{{16}}\.marker")


class Collected:
    """The result of :func:`gc`: `manifests`, the numbers of the removed manifests; `files`, the names of the other
    removed objects; `nbytes`, their total size; `kept`, the numbers of the remaining manifests; `dry_run`."""

    manifests: list[int]
    files: list[str]
    nbytes: int
    kept: list[int]
    dry_run: bool

    def __init__(self, manifests: list[int], files: list[str], nbytes: int, kept: list[int], dry_run: bool) -> None:
        self.manifests, self.files, self.nbytes = manifests, files, nbytes
        self.kept, self.dry_run = kept, dry_run

    def __repr__(self) -> str:
        manifests, files = counted(len(self.manifests), "manifest"), counted(len(self.files), "file")
        verb = "would remove" if self.dry_run else "removed"
        return f"{verb} {manifests} and {files}, {size_text(self.nbytes)}; {len(self.kept):,} manifests stay"


def gc(url: AnyPath, *, days: float = 7, dry_run: bool = False, options: Options = None) -> Collected:
    """Removes old files of a set of shards: manifests without a tag that were replaced more than `days` ago, and shard
    files, filters and temporary files of that age that no remaining manifest names, such as those of killed writers.

    Args:
        url: the set: a folder or a URL.
        days: an int or float. Choose more days than any write takes from its first shard file to its commit,
            and than any reader keeps an older manifest open. Use 0 only while nobody uses the set.
        dry_run: remove nothing.
        options: arguments of the object store, as for :func:`recstore.open`.

    Returns a :class:`recstore.remote.Collected`. Raises SegmentNotFoundError if the place has no objects;
    CorruptError and VersionError for an unreadable manifest or tag, without removing anything; RemoteError. Safe to run
    beside readers, writers and other collections. Foreign objects stay.

    >>> import recstore.remote, tempfile
    >>> w = recstore.remote.ShardWriter(tempfile.mkdtemp())
    >>> entry = w.write(range(1000))  # and no commit
    >>> gc(w.url)
    removed 0 manifests and 0 files, 0 B; 0 manifests stay
    >>> gc(w.url, days=0).files == [f"{entry.hashes[0]}.recs"]
    True
    """
    if not isinstance(days, (int, float)) or isinstance(days, bool) or not 0 <= days < 1e6:
        raise ValueError(f"days must be a number of 0 or more, not {days!r}")
    storage = whole_set(url, options)
    objects, now = _list_objects(storage)
    if not objects:
        raise SegmentNotFoundError(errno.ENOENT, "no files of a set of shards here", storage.url)
    until = now - days * 86400
    manifests = {number: objects[name] for name in objects if (number := manifest.number_in(name))}
    # Keep the manifests that were the newest at some time after `until`. A manifest is the newest until the next one is
    # written.
    numbers = sorted(manifests)
    recent = {number for number, after in zip(numbers, numbers[1:]) if manifests[after][1] > until}
    recent.update(numbers[-1:], tags.every(storage).values())
    kept = [number for number in numbers if number in recent]
    named_hashes = _named_hashes(storage, kept)
    old_numbers = sorted(set(manifests) - set(kept))
    files = []
    for name, (_, modified) in objects.items():
        ours = _OURS.fullmatch(name)
        if (ours and ours[1] not in named_hashes or name.startswith(".")) and modified <= until:
            files.append(name)
    nbytes = sum(manifests[number][0] for number in old_numbers) + sum(objects[name][0] for name in files)
    if not dry_run:
        # Since then a slow writer may have committed some of these files, or somebody named a manifest by a tag.
        new_numbers = {manifest.number_in(name) for name, *_ in storage.list("manifest-")} - set(manifests) - {0}
        tagged = set(tags.every(storage).values()).intersection(old_numbers)
        named_hashes = _named_hashes(storage, new_numbers | tagged)
        files = [name for name in files if name[:40] not in named_hashes]
        old_numbers = [number for number in old_numbers if number not in tagged]
        kept = sorted({*kept, *tagged})
        # Manifests first, so that nobody opens a manifest whose files are being removed.
        storage.delete([manifest.name_of(number) for number in old_numbers])
        storage.delete(files)
    return Collected(old_numbers, files, nbytes, kept, dry_run)


def _list_objects(storage: Storage) -> tuple[dict[str, tuple[int, float]], float]:
    """`({name: (bytes, modified)}, now)`: all objects and temporary files, and the current time of the storage's
    clock."""
    marker = f"gc-{os.urandom(8).hex()}.marker"
    if not any(True for _ in storage.list()) and not any(True for _ in storage.leftovers()):
        return {}, 0.0
    storage.write(marker, b"recstore gc asks for the time\n")
    try:
        objects = {name: (size, modified) for name, size, modified, _ in (*storage.list(), *storage.leftovers())}
    finally:
        storage.delete([marker])
    if marker not in objects:
        raise RemoteError(
            f"{storage.url} does not list an object that was just written: try again, or use another store",
            url=storage.url,
        )
    return objects, objects.pop(marker)[1]


def _named_hashes(storage: Storage, numbers: Iterable[int]) -> set[str]:
    """The hashes that these manifests name."""
    hashes: set[str] = set()
    for number in numbers:
        with contextlib.suppress(SegmentNotFoundError):  # another call removed it
            hashes.update(manifest.load(storage, number).hashes)
    return hashes
