"""`gc` of a set of shards: removes what no manifest of the last days names.

Ages are differences of two times that the storage itself has noted, that of an object and that of a marker which is
written now: a wrong clock of this machine changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re

from recstore.errors import RemoteError, SegmentNotFoundError
from recstore.remote import manifest
from recstore.remote.names import KEYS, RECORDS
from recstore.remote.storage import whole_set
from recstore.text import counted, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from recstore.remote.objects import AnyPath, Options, Storage

__all__ = ["Collected", "gc"]

_OURS = re.compile(rf"([0-9a-f]{{40}})({re.escape(RECORDS)}|{re.escape(KEYS)})|gc-[0-9a-f]{{16}}\.marker")


class Collected:
    """What :func:`gc` has removed, or would remove: `manifests`, a list of their numbers; `files`, a list of the names
    of other objects; `nbytes` of all; `kept`, the numbers of the manifests that stay; `dry_run`."""

    manifests: list[int]
    files: list[str]
    nbytes: int
    kept: list[int]
    dry_run: bool

    def __init__(self, manifests: list[int], files: list[str], nbytes: int, kept: list[int], dry_run: bool) -> None:
        self.manifests, self.files, self.nbytes = manifests, files, nbytes
        self.kept, self.dry_run = kept, dry_run

    def __repr__(self) -> str:
        what = counted(len(self.manifests), "manifest"), counted(len(self.files), "file")
        done = "would remove" if self.dry_run else "removed"
        return f"{done} {what[0]} and {what[1]}, {size_text(self.nbytes)}; {len(self.kept):,} manifests stay"


def gc(url: AnyPath, *, days: float = 7, dry_run: bool = False, options: Options = None) -> Collected:
    """Removes from a set of shards what readers and writers need no more: manifests that were not the newest at any
    moment of the last `days`, and older shard files, filters and temporary files that no other manifest names. Killed
    writers leave such files.

    Args:
        url: the set: a folder or a URL.
        days: a number, which may be a fraction. It must be longer than any write takes from its first shard file to its
            commit, and than readers go on with an older manifest. 0 is for a set that nobody uses now.
        dry_run: remove nothing.
        options: arguments of the object store, as of :func:`recstore.open`.

    Returns a :class:`recstore.remote.Collected`. Raises SegmentNotFoundError for a place with nothing of a set in it,
    CorruptError and VersionError for a manifest that cannot be read, and then removes nothing; RemoteError. Safe beside
    readers, writers and other calls of itself. Objects of other names stay.

    >>> import recstore.remote, tempfile
    >>> w = recstore.remote.ShardWriter(tempfile.mkdtemp())
    >>> entry = w.write(range(1000))  # and no commit
    >>> gc(w.url)
    removed 0 manifests and 0 files, 0 B; 0 manifests stay
    >>> gc(w.url, days=0).files == [f"{entry.hashes[0]}.recs"]
    True
    """
    if not isinstance(days, (int, float)) or isinstance(days, bool) or not 0 <= days < 1e6:
        raise ValueError(f"days is a number of days, 0 or more, not {days!r}")
    storage = whole_set(url, options)
    objects, now = _listed(storage)
    if not objects:
        raise SegmentNotFoundError(errno.ENOENT, "there is nothing of a set of shards here", storage.url)
    until = now - days * 86400
    manifests = {number: objects[name] for name in objects if (number := manifest.number_in(name))}
    # Those stay that were the newest after `until`: each was until the next one was written.
    numbers = sorted(manifests)
    kept = [number for number, after in zip(numbers, numbers[1:]) if manifests[after][1] > until] + numbers[-1:]
    named = _named(storage, kept)
    old = sorted(set(manifests) - set(kept))
    files = []
    for name, (_, modified) in objects.items():
        ours = _OURS.fullmatch(name)
        if (ours and ours[1] not in named or name.startswith(".")) and modified <= until:
            files.append(name)
    nbytes = sum(manifests[number][0] for number in old) + sum(objects[name][0] for name in files)
    if not dry_run:
        # What has been committed since, by a writer that took long, names some of these perhaps.
        found = {manifest.number_in(name) for name, _, _ in storage.list("manifest-")} - set(manifests) - {0}
        named = _named(storage, found)
        files = [name for name in files if (name[:40] not in named)]
        # Manifests first: so nobody opens one whose files are on their way out.
        storage.delete([manifest.name_of(number) for number in old])
        storage.delete(files)
    return Collected(old, files, nbytes, kept, dry_run)


def _listed(storage: Storage) -> tuple[dict[str, tuple[int, float]], float]:
    """`({name: (bytes, modified)}, now)`: all objects, and the present time of the storage's clock."""
    marker = f"gc-{os.urandom(8).hex()}.marker"
    if not any(True for _ in storage.list()) and not any(True for _ in storage.leftovers()):
        return {}, 0.0
    storage.write(marker, b"recstore gc asks for the time\n")
    try:
        objects = {name: (size, modified) for name, size, modified in (*storage.list(), *storage.leftovers())}
    finally:
        storage.delete([marker])
    if marker not in objects:
        text = "does not list an object that was just written: try again, or use a store that does"
        raise RemoteError(f"{storage.url} {text}", url=storage.url)
    return objects, objects.pop(marker)[1]


def _named(storage: Storage, numbers: Iterable[int]) -> set[str]:
    """The hashes that these manifests name."""
    named = set()
    for number in numbers:
        with contextlib.suppress(SegmentNotFoundError):  # another call has removed it
            named.update(manifest.load(storage, number).hashes)
    return named
