"""Reads whole shard files without a cache, several at a time."""

from __future__ import annotations

import contextlib
import tempfile
from collections import deque

from recstore._core import native
from recstore.errors import CorruptError, VersionError
from recstore.remote.places.storage import reread
from recstore.remote.set import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor
    from typing import TypeVar

    from recstore.remote.places.storage import Storage

    _T = TypeVar("_T")
    _R = TypeVar("_R")


def ahead(pool: ThreadPoolExecutor, act: Callable[[_T], _R], items: Iterable[_T], most: int) -> Iterator[_R]:
    """Yields ``act(item)`` for each item, in order. The pool works on up to `most` later items."""
    pending: deque[Future[_R]] = deque()
    for item in items:
        pending.append(pool.submit(act, item))
        if len(pending) > most:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def intact(storage: Storage, hash_: str, folder: str | None = None) -> native.Segment:
    """The Segment of a shard file whose content has this hash: in place, or of a `fetched` copy."""
    if not storage.local:
        return fetched(storage, hash_, folder)
    return _checked(storage, hash_, storage.path(hash_ + names.RECORDS))


def fetched(storage: Storage, hash_: str, folder: str | None = None) -> native.Segment:
    """The Segment of an unnamed temporary copy of a shard file in `folder`. The copy disappears if the process is
    killed. Raises CorruptError after three copies with another hash; OutOfSpaceError; RemoteError."""

    def fetch() -> native.Segment:
        with tempfile.TemporaryFile(dir=folder) as file:
            storage.read_into(hash_ + names.RECORDS, file)
            file.flush()
            return _checked(storage, hash_, f"/dev/fd/{file.fileno()}")

    return reread(fetch, CorruptError)


def _checked(storage: Storage, hash_: str, path: str) -> native.Segment:
    where = storage.of(hash_ + names.RECORDS)
    with open(path, "rb") as file, naming(where):
        if names.hash_of(file) == hash_:
            return native.open_path(path, None)
    raise CorruptError(
        "the content of the shard file does not match its name: write its records again, or remove it from the set",
        filename=where,
    )


@contextlib.contextmanager
def naming(where: str) -> Iterator[None]:
    """Makes the errors about a copy of the object `where` name the object."""
    try:
        yield
    except (CorruptError, VersionError) as error:
        error.filename = where
        raise
