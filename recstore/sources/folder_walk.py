"""The walk over a folder and the folders below it. Threads list folders ahead; the walk yields them in order.

The order is the same as in torchvision's ImageFolder: the top-level folders by name, each followed by all folders below
it in the order of their paths as text, so that `a-b` comes before `a/b`. A path is greater than the paths of its
parents, so a heap of the known folders yields them in order. It holds no files.
"""

from __future__ import annotations

import errno
import heapq
import os
from functools import partial
from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from recstore.sources.folder_files import Walking
    from recstore.sources.globs import Patterns

    Names: TypeAlias = tuple[str, ...]  # the path of a folder from the root
    _Key: TypeAlias = tuple[Names, str, Names]

_AHEAD = 4  # folders listed ahead for each thread


class Listing:
    """The content of one folder. `names` is its path from the root. `files` are the selected files, in order, each with
    its os.stat_result or None. `folders` are the names of the folders in it that the walk enters. `stamp` identifies
    the folder and its time. `errors` are the OSErrors of skipped entries, or of the folder if `read` is false."""

    __slots__ = ("names", "files", "folders", "stamp", "errors", "read")

    def __init__(self, names: Names) -> None:
        self.names, self.stamp, self.read = names, b"", False
        self.files: list[tuple[str, os.stat_result | None]] = []
        self.folders: list[str] = []
        self.errors: list[OSError] = []

    @property
    def is_leaf(self) -> bool:
        """Whether the folder was read without errors and has no subfolders to enter."""
        return not self.folders and not self.errors


class Walk:
    """The folders below `root`."""

    def __init__(self, root: str, patterns: Patterns, options: Walking) -> None:
        self.root, self.patterns, self.options = root, patterns, options

    def listings(self, start: Names = ()) -> Iterator[Listing]:
        """Yields the Listings of the folder `start` and of all folders below it. Only one thread may use the generator,
        which ends the threads that list folders when it is exhausted or closed."""
        if not self.options.threads:
            yield from self._in_order(start, lambda names: partial(self.list, names))
            return
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(self.options.threads, "recstore-scan")
        try:
            yield from self._in_order(start, lambda names: pool.submit(self.list, names).result)
        finally:
            pool.shutdown(cancel_futures=True)

    def _in_order(self, start: Names, submit: Callable[[Names], Callable[[], Listing]]) -> Iterator[Listing]:
        limit = max(1, self.options.threads * _AHEAD)
        waiting = [_key(start)]  # a heap, like `results`
        results: list[tuple[_Key, Callable[[], Listing]]] = []
        while waiting or results:
            while waiting and (len(results) < limit or waiting[0] < results[0][0]):
                key = heapq.heappop(waiting)
                heapq.heappush(results, (key, submit(key[2])))
            listing = heapq.heappop(results)[1]()
            for name in listing.folders:
                heapq.heappush(waiting, _key((*listing.names, name)))
            yield listing

    def list(self, names: Names) -> Listing:
        """The Listing of one folder. Threads call this."""
        out = Listing(names)
        path = os.path.join(self.root, *names)
        is_selected = self.patterns.within(names)
        try:
            status = os.stat(path)
            out.stamp = b"%d %d %d" % (status.st_dev, status.st_ino, status.st_mtime_ns)
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        self._add(entry, out, is_selected)
                    except OSError as error:
                        out.errors.append(error)
            out.read = True
        except OSError as error:
            out.errors.append(error)
        out.files.sort(key=lambda file: file[0])
        return out

    def _add(self, entry: os.DirEntry[str], out: Listing, is_selected: Callable[[str], object] | None) -> None:
        name = entry.name
        if name[0] == "." and not self.options.hidden:
            return
        if entry.is_dir():
            if not self.patterns.leads((*out.names, name)):
                return
            if not entry.is_symlink() or (self.options.follow_symlinks and not self._is_loop(entry, out.names)):
                out.folders.append(name)
        elif is_selected is not None and is_selected(name):
            if entry.is_file():
                out.files.append((name, entry.stat() if self.options.stat else None))
            elif entry.is_symlink():
                reason = "the link is broken; errors='skip' skips it"
                raise FileNotFoundError(errno.ENOENT, reason, entry.path)

    def _is_loop(self, entry: os.DirEntry[str], names: Names) -> bool:
        """Whether a link leads to a folder that contains it, by device and inode."""
        above = (os.stat(os.path.join(self.root, *names[:depth])) for depth in range(len(names) + 1))
        return any(os.path.samestat(entry.stat(), status) for status in above)


class Digest:
    """A hash over the folders of a walk: their names, devices, inodes and times, and with `stat` the names, sizes and
    times of their files."""

    def __init__(self) -> None:
        self.hash = blake2b(digest_size=16)

    def add(self, listing: Listing) -> None:
        lines = [os.fsencode("/".join(listing.names)), listing.stamp]
        for name, status in listing.files:
            if status is not None:
                lines.append(b"%s\0%d %d" % (os.fsencode(name), status.st_size, status.st_mtime_ns))
        self.hash.update(b"\0".join(lines) + b"\n")

    def text(self) -> str:
        return self.hash.hexdigest()


def _key(names: Names) -> _Key:
    return names[:1], "/".join(names), names
