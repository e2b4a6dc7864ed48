"""Copies a manifest of a set, with its shard files and key filters, to another place.

A file is checked against its hash before it gets its name, and the manifest is committed last. So a copy that was
interrupted left whole files, and the next copy skips them. On the way a file is in the folder of the target or, for an
object store, in an unnamed temporary file.
"""

from __future__ import annotations

import copy
import errno
import mmap
import os
import tempfile
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from recstore.building import saving
from recstore.building.progress import Bar
from recstore.errors import CorruptError, SegmentNotFoundError
from recstore.remote.places.folder_store import PosixStorage
from recstore.remote.places.storage import reread
from recstore.remote.set import key_filters, manifest, names, reading, tags
from recstore.remote.set.manifest import Manifest, Shard
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    from recstore.remote.places.storage import Data, Storage

THREADS = 8  # files at a time


class Copy(NamedTuple):
    """The result of `copy_set`: the new manifest, and the shard files that were copied now."""

    manifest: Manifest
    copied: list[Shard]


def copy_set(source: Storage, reference: int | str | None, target: Storage, shown: bool = False) -> Copy:
    """Makes the manifest with this number or tag, or the newest, the next manifest of `target`. Copies the files that
    `target` lacks in the same size. With `shown`, draws a progress bar, which needs rich.

    Raises ValueError if the target is a set of another kind; SegmentNotFoundError for a missing manifest, tag or file;
    CorruptError for a damaged file; OutOfSpaceError and RemoteError. After an error the target has its old manifest,
    unless files disappeared during the commit.
    """
    contents = tags.load(source, reference)

    def change(old: Manifest | None) -> Manifest:
        if old is not None and old.kind != contents.kind and len(old):
            raise ValueError(f"{target.url} is a {old.kind}, and {source.url} is a {contents.kind}")
        new = Manifest(contents.kind, contents.shards(), contents.attributes)
        return old if old is not None and old.fingerprint == new.fingerprint else new

    number = manifest.newest(target)
    if number:
        change(manifest.load(target, number))  # raises before anything is copied
    lacking = {name.partition(".")[0] for name in manifest.missing(target, contents.kind, contents.shards())}
    missing = [shard for shard in contents.shards() if shard.hash in lacking]
    with Bar(shown, sum(shard.nbytes for shard in missing), "bytes", "copying") as bar:
        _Copying(copy.copy(source), copy.copy(target), contents.kind == "mapping", bar).run(missing)
    _require(target, contents)
    new = manifest.commit(target, change)
    _require(target, contents)  # until the commit, gc may have removed old files that no manifest named
    return Copy(new, missing)


def _require(target: Storage, contents: Manifest) -> None:
    lost = manifest.missing(target, contents.kind, contents.shards())
    if lost:
        text = f"{counted(len(lost), 'file')} of the copy are gone: somebody removed them; copy again"
        raise SegmentNotFoundError(errno.ENOENT, text, target.of(lost[0]))


class _Stopped(BaseException):
    """Another file failed, or the user stopped the copy."""


class _Copying:
    """Copies shard files in several threads."""

    def __init__(self, source: Storage, target: Storage, mapping: bool, bar: Bar) -> None:
        self.source, self.target, self.mapping, self.bar = source, target, mapping, bar
        self.lock, self.stopped = threading.Lock(), False

    def run(self, shards: Iterable[Shard]) -> None:
        pool = ThreadPoolExecutor(THREADS)
        try:
            deque(reading.ahead(pool, self.copy, shards, 2 * THREADS), 0)
        except BaseException:
            self.source.patience, self.target.patience, self.stopped = 0.0, 0.0, True
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def advance(self, n: int) -> None:
        if self.stopped:
            raise _Stopped
        with self.lock:
            self.bar.advance(n)

    def copy(self, shard: Shard) -> None:
        if self.mapping:  # first, as in a writer
            name = shard.hash + names.KEYS
            self.target.write(name, reread(lambda: self.read_filter(name, shard), CorruptError))
        name, path = shard.hash + names.RECORDS, None
        try:
            if isinstance(self.target, PosixStorage):
                path = saving.temporary_beside(os.path.join(self.target.url, "x"))
                with self.target.new_file(lambda: open(path, "xb")) as file:
                    reread(lambda: self.fetch(name, shard, file), CorruptError)
                self.target.adopt(name, path)
            else:
                with tempfile.TemporaryFile() as file:
                    reread(lambda: self.fetch(name, shard, file), CorruptError)
                    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as content:
                        self.target.write(name, content)
        finally:
            if path is not None and os.path.lexists(path):
                os.unlink(path)

    def read_filter(self, name: str, shard: Shard) -> bytes:
        data = self.source.read(name, key_filters.most_bytes(shard.records))
        key_filters.KeyFilter(data, self.source.of(name), shard.hash)
        return data

    def fetch(self, name: str, shard: Shard, file: BinaryIO) -> None:
        """Reads a shard file into a local file from its beginning. Raises CorruptError if it is damaged."""
        file.seek(0)
        file.truncate()
        checked = _Checked(file, shard.nbytes, self.advance)
        try:
            self.source.read_into(name, checked)
            if (checked.done, checked.digest.hexdigest()) != (shard.nbytes, shard.hash):
                raise CorruptError
        except CorruptError:
            self.advance(-checked.done)
            text = "the content of the shard file does not match its name: it was damaged or replaced; write it again"
            raise CorruptError(text, filename=self.source.of(name)) from None


class _Checked:
    """A local file that hashes and counts what is written. Raises CorruptError for more than `nbytes` bytes."""

    def __init__(self, file: BinaryIO, nbytes: int, advance: Callable[[int], None]) -> None:
        self.file, self.nbytes, self.advance = file, nbytes, advance
        self.name = file.name if isinstance(file.name, str) else tempfile.gettempdir()  # for errors
        self.done, self.digest = 0, names.new_hash()

    def write(self, data: Data) -> None:
        n = memoryview(data).nbytes
        if self.done + n > self.nbytes:
            raise CorruptError
        self.digest.update(data)
        self.file.write(data)
        self.file.flush()  # raises here if the disk is full
        self.done += n
        self.advance(n)
