"""The walk over a folder and the folders below it. Threads list folders ahead; the walk yields them in order.

The order is that of torchvision's ImageFolder. The folders of the top come by name, and each with all folders below it
in the order of their paths as text, so that `a-b` comes before `a/b`. A path is greater than the path of any folder
above it. So a heap of the known folders gives them in order, and holds no path of a file.
"""

import errno
import heapq
import os
from hashlib import blake2b

_AHEAD = 4  # folders listed ahead for each thread


class Listing:
    """The content of one folder. `names` are those that lead to it from the root. `files` are the selected files, in
    order, with their os.stat_result if that was asked for, else None. `folders` are the names of the folders in it.
    `errors` are the OSErrors of entries that are left out, or the one of the folder, if `read` is false."""

    __slots__ = ("names", "files", "folders", "stamp", "errors", "read")

    def __init__(self, names):
        self.names, self.files, self.folders, self.stamp, self.errors, self.read = names, [], [], b"", [], False

    @property
    def is_leaf(self):
        """Whether the folder was read and holds no folder."""
        return not self.folders and not self.errors


class Walk:
    """The folders below `root`. `how` has the options hidden, follow_symlinks, stat and threads (scan.Walking)."""

    def __init__(self, root, patterns, how):
        self.root, self.patterns, self.threads = root, patterns, how.threads
        self.hidden, self.follow_symlinks, self.stat = how.hidden, how.follow_symlinks, how.stat

    def listings(self, start=()):
        """Yields the Listing of the folder `start`, names that lead there from the root, and of all folders below it.
        One thread uses the generator; it ends its threads when it is exhausted or closed."""
        if not self.threads:
            yield from self._in_order(start, lambda names: _Done(self.list(names)))
            return
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(self.threads, "recstore-scan")
        try:
            yield from self._in_order(start, lambda names: pool.submit(self.list, names))
        finally:
            pool.shutdown(cancel_futures=True)

    def _in_order(self, start, submit):
        most = max(1, self.threads * _AHEAD)
        waiting, listed = [_key(start)], []  # heaps; `listed` has (key, future)
        while waiting or listed:
            while waiting and (len(listed) < most or waiting[0] < listed[0][0]):
                key = heapq.heappop(waiting)
                heapq.heappush(listed, (key, submit(key[2])))
            listing = heapq.heappop(listed)[1].result()
            for name in listing.folders:
                heapq.heappush(waiting, _key((*listing.names, name)))
            yield listing

    def path(self, names):
        return os.path.join(self.root, *names)

    def list(self, names):
        """The Listing of one folder. Threads call this."""
        out = Listing(names)
        path = self.path(names)
        wanted = self.patterns.within(names)
        try:
            status = os.stat(path)
            out.stamp = b"%d %d %d" % (status.st_dev, status.st_ino, status.st_mtime_ns)
            with os.scandir(path) as entries:
                for entry in entries:
                    self._sort_in(entry, out, wanted)
            out.read = True
        except OSError as error:
            out.errors.append(error)
        out.files.sort(key=_first)
        return out

    def _sort_in(self, entry, out, wanted):
        try:
            self._add(entry, out, wanted)
        except OSError as error:
            out.errors.append(error)

    def _add(self, entry, out, wanted):
        name = entry.name
        if name[0] == "." and not self.hidden:
            return
        if entry.is_dir():
            if not self.patterns.leads((*out.names, name)):
                return
            if not entry.is_symlink() or (self.follow_symlinks and not self._is_loop(entry, out.names)):
                out.folders.append(name)
        elif wanted is not None and wanted(name):
            if entry.is_file():
                out.files.append((name, entry.stat() if self.stat else None))
            elif entry.is_symlink():
                reason = "the link leads to no file; errors='skip' leaves it out"
                raise FileNotFoundError(errno.ENOENT, reason, entry.path)

    def _is_loop(self, entry, names):
        """Whether a link leads to a folder that holds it. The comparison is by device and inode."""
        there = entry.stat()
        for depth in range(len(names) + 1):
            status = os.stat(self.path(names[:depth]))
            if (status.st_dev, status.st_ino) == (there.st_dev, there.st_ino):
                return True
        return False


class Digest:
    """A hash of the folders of a walk: names, devices, inodes and times, and with `stat` those of the files."""

    def __init__(self):
        self.hash = blake2b(digest_size=16)

    def add(self, listing):
        lines = [os.fsencode("/".join(listing.names)), listing.stamp]
        for name, status in listing.files:
            if status is not None:
                lines.append(b"%s\0%d %d" % (os.fsencode(name), status.st_size, status.st_mtime_ns))
        self.hash.update(b"\0".join(lines) + b"\n")

    def text(self):
        return self.hash.hexdigest()


class _Done:
    """A finished future."""

    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


def _key(names):
    return names[:1], "/".join(names), names


def _first(pair):
    return pair[0]
