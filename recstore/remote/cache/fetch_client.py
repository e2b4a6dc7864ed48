"""The client side of fetching. A process asks its helper process (fetch_process.py), or waits while another process on
the machine fetches.

A process that opens a set takes the lock of the set in the cache. The holder requests all missing files at once. The
other processes poll the lock with growing pauses, and then find all files in the cache. If the holder is killed, the
kernel frees the lock and another process continues. If the fetch fails, the holder writes the error into the lock
file, and the waiting processes raise that error.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from hashlib import blake2b

from recstore._core import native
from recstore.remote.cache import cache, fetch_process
from recstore.remote.places.helper import HELPER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    from recstore.remote.cache.cache import Cache
    from recstore.remote.places.helper import Target
    from recstore.remote.places.storage import Storage

    _T = TypeVar("_T")
    _Options: TypeAlias = Mapping[str, Any] | None
    _Pairs: TypeAlias = Sequence[tuple[str, int]] | Sequence[tuple[str, None, int]]

_DEATHS = 3  # killed helper processes after which a request fails


class Client:
    """Fetches the files of a set from a storage into a cache, or reads ranges of them without a cache. A user of the
    helper process from its first request until `close`. Safe from several threads at once, and across a fork."""

    cache: Cache

    def __init__(self, storage: Storage, into: Cache | None) -> None:
        self.storage = storage
        if into is None:
            self._target: Target = pickle.dumps(storage), None, None
        else:
            self.cache, self._target = into, (pickle.dumps(storage), into.user_path, into.limit)

    def ask(self, method: str, *arguments: object) -> Any:
        """The result of a request about the set; see fetch_process.py. Raises its error; RemoteError if several
        helper processes are killed."""
        return HELPER.ask(self.storage, method, self._target, arguments, most_deaths=_DEATHS, user=self)

    def hint(self, pairs: _Pairs) -> None:
        """Requests objects in advance, and returns at once."""
        HELPER.hint(self._target, pairs, self)

    def close(self) -> None:
        """Ends the helper process if no other set uses it. A later request starts another."""
        HELPER.release(self)


# ---- The lock of a set ----


def ensure(missing_of: Callable[[set[str]], Sequence[tuple[str, int]]], client: Client, set_id: str) -> None:
    """Returns when the cache has all files of a set. `missing_of(names)` gets the names in the cache and returns the
    missing files as `(name, bytes)`. One process on the machine fetches them.

    Raises the errors of Client.ask. If another process with the same options fails while this process waits for it,
    raises the same error.
    """
    into = client.cache
    once(
        os.path.join("sets", set_id),
        lambda: None if missing_of(into.names()) else True,
        lambda: client.ask("fetch", missing_of(into.names())),
        client,
    )


def once(name: str, find: Callable[[], _T | None], fetch: Callable[[], _T], client: Client) -> _T:
    """The result of `find` or, if that is None, of `fetch`, which one process at a time calls with the lock of `name`.
    Raises as `ensure` does."""
    options = client.storage.options
    wait = cache.Wait(client.storage.url)
    while True:
        found = find()
        if found is not None:
            return found
        lock = client.cache.lock(name, client.storage.url)
        try:
            is_busy = lock.state == native.BUSY
            with client.cache.waiting("process_ns") if is_busy else contextlib.nullcontext():
                is_held = _wait_for(lock, options, wait, client.cache.group)
            if is_held:
                found = find()
                if found is not None:
                    return found
                with client.cache.waiting("fetch_ns"):
                    return _fetch_locked(fetch, lock, options)
        finally:
            lock.close()


def _wait_for(lock: native.Lock, options: _Options, wait: cache.Wait, group: bool) -> bool:
    """Waits for the lock of a set. Returns whether this process holds it; False if the lock file was removed. Raises
    the error of the previous holder, except in the cache of a group: another user's pickle could run any code."""
    first_content = None
    while lock.state == native.BUSY and lock.leads():
        first_content = lock.read() if first_content is None else first_content
        wait.pause()
        lock.attempt()
    if first_content is not None and not group:
        content = lock.read()
        # An error that was in the file from the beginning belongs to an earlier holder, which was killed.
        if content and content != first_content:
            error = _error_in(content, options)
            if error is not None:
                raise error
    return lock.state == native.HELD


def _fetch_locked(fetch: Callable[[], _T], lock: native.Lock, options: _Options) -> _T:
    lock.write(b"")
    try:
        return fetch()
    except Exception as error:
        lock.write(_failure(error, options))
        raise


def _failure(error: Exception, options: _Options) -> bytes:
    """The content of the lock file of a set after a failure: a random salt of 16 bytes, a hash of the options, and
    the error. The salt makes the hash of a secret differ each time."""
    salt = os.urandom(16)
    return salt + _digest(options, salt) + pickle.dumps(fetch_process.portable(error))


def _error_in(content: bytes, options: _Options) -> Exception | None:
    salt, digest, packed = content[:16], content[16:32], content[32:]
    if len(digest) < 16 or digest != _digest(options, salt):
        return None  # the holder had other options, such as other credentials: try with our own
    try:
        error = pickle.loads(packed)
    except Exception:  # the holder was killed while it wrote
        return None
    return error if isinstance(error, Exception) else None


def _digest(options: _Options, salt: bytes) -> bytes:
    text = repr(sorted((options or {}).items(), key=repr))
    return blake2b(text.encode("utf-8", "replace"), digest_size=16, key=salt).digest()
