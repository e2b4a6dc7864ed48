"""The program of the helper process, which places/helper.py starts. The process is always freshly executed, so its
network clients never cross a fork.

It reads requests from standard input and writes answers to standard output. Each message is a pickle after its size in
eight bytes. Both ends belong to one program and one user. A request is `(number, method, (storage, cache folder,
limit), arguments)`. The storage is a nested pickle. Requests without a cache have None as folder and limit. Methods:

    number, "fetch", pairs       answers None when the cache has all these objects
    None, "hint", pairs          prefetches these objects, without an answer
    number, method, arguments    answers the result of a method of the storage; read_into first sends pieces

A pair is `(name, size in bytes)`, or `(name, None, maximum size)` if the size is unknown.

The answer is `(number, None, result)` or `(number, error, None)`, and a piece is `(number, "piece", bytes)`. A warning
for the log of the parent is `(None, "log", text)`. The process removes unfinished files and ends when a pipe to its
parent is closed, when its parent changes, or when it is idle for a while.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import logging
import os
import pickle
import select
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from recstore._core import native
from recstore.errors import CorruptError, Error, RemoteError, SegmentNotFoundError
from recstore.remote.cache import cache
from recstore.remote.places.helper import LOG, PIECE, Messages, pack
from recstore.remote.places.storage import TRIES
from recstore.remote.set import key_filters, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from typing import Any

    from recstore.remote.places.helper import Target
    from recstore.remote.places.storage import Storage

THREADS = 8
IDLE = 20.0  # seconds


# ---- One object ----


class Fetching:
    """Fetches objects of a storage into a cache. Safe from several threads and processes at once: each object is
    fetched once."""

    def __init__(self, storage: Storage, into: cache.Cache) -> None:
        self.storage, self.cache = copy.copy(storage), into
        self.storage.count = into.count
        self.parts: set[cache.Part] = set()  # being written

    def fetch(self, name: str, nbytes: int | None, max_bytes: int | None = None) -> None:
        """Returns when the cache has the object. Raises CorruptError, SegmentNotFoundError, RemoteError and
        OutOfSpaceError."""
        wait = cache.Wait(self.storage.of(name))
        while not self.cache.has(name, nbytes):
            lock = self.cache.lock(name, self.storage.of(name))
            try:
                if lock.state == native.HELD:
                    # Another process may have fetched it before this one got the lock.
                    if not self.cache.has(name, nbytes):
                        self._fetch_locked(name, nbytes, max_bytes)
                    return
            finally:
                lock.close()
            wait.pause()

    def _fetch_locked(self, name: str, nbytes: int | None, max_bytes: int | None) -> None:
        for _ in range(TRIES):
            fault = self._try(name, nbytes, max_bytes)
            if fault is None:
                return
        raise CorruptError(
            f"{fault}, in {TRIES} tries: the object was damaged or replaced; write the shard files again, or open an "
            "older manifest",
            filename=self.storage.of(name),
        )

    def _try(self, name: str, nbytes: int | None, max_bytes: int | None) -> str | None:
        """Fetches an object. Returns a description of its fault, or None if it is intact."""
        with self.cache.new_part(name, nbytes, max_bytes, self.storage.patience) as part:
            self.parts.add(part)
            try:
                self.storage.read_into(name, part)
                fault = part.fault()
                if fault is None and name.endswith(names.KEYS):
                    key_filters.KeyFilter(part.content(), self.storage.of(name), name.removesuffix(names.KEYS))
                if fault is None:
                    part.publish()
                    self.cache.count(fetched=1)
                return fault
            except CorruptError as error:
                return str(error.args[0])
            except SegmentNotFoundError:
                raise SegmentNotFoundError(
                    errno.ENOENT,
                    "the object is gone: gc or somebody else removed it; open the newest manifest",
                    self.storage.of(name),
                ) from None
            except Exception:
                if isinstance(part.failure, CorruptError):
                    return str(part.failure.args[0])
                if part.failure is not None:
                    raise part.failure from None
                raise
            finally:
                self.cache.count(nbytes=part.written)
                self.parts.discard(part)


# ---- Many objects ----


class _Batch:
    """The objects of one request. The first error is the answer."""

    def __init__(self, number: int | None, n: int) -> None:
        self.number, self.left, self.failed = number, n, False


class _Job:
    """A call, and the batches that wait for its result."""

    future: Future[None]

    def __init__(self, batch: _Batch, act: Callable[..., object], *arguments: Any, is_hint: bool = False) -> None:
        self.batches, self.act, self.arguments, self.is_hint = [batch], act, arguments, is_hint
        self.key = arguments[:2]


class Server:
    """Answers requests in threads. `answer(number, error, result)` sends an answer and must be thread-safe. Hints have
    their own threads, so they never delay a request."""

    def __init__(self, answer: Callable[[int, Any, Any], object]) -> None:
        self._answer = answer
        self._storages: dict[bytes, Storage] = {}  # unpickled Storages, with their network clients
        self._fetching: dict[Target, Fetching] = {}
        self._lock = threading.Lock()
        self._request_pool, self._hint_pool = ThreadPoolExecutor(THREADS), ThreadPoolExecutor(THREADS - 1)
        self._objects: dict[tuple[Any, ...], _Job] = {}  # pending and running downloads, by target and name
        self.busy = 0  # pending and running jobs

    def take(self, number: int | None, method: str, target: Target, arguments: Sequence[Any]) -> None:
        """Starts working on a request."""
        with self._lock:
            if method not in ("fetch", "hint"):
                self._put(_Job(_Batch(number, 1), self._call, number, method, target, arguments))
                return
            [pairs] = arguments
            if not pairs and number is not None:  # a full pipe must not stop the thread that reads requests
                self._request_pool.submit(self._answer, number, None, None)
            batch = _Batch(number, len(pairs))
            for pair in pairs:
                self._take_object(batch, (target, *pair), method == "hint")

    def _storage(self, key: bytes) -> Storage:
        return self._storages.get(key) or self._storages.setdefault(key, pickle.loads(key))

    def _call(self, number: int, method: str, target: Target, arguments: Sequence[Any]) -> object:
        if method == "read_into":
            file = SimpleNamespace(write=lambda data: self._answer(number, PIECE, bytes(data)))
            arguments = [*arguments, file]
        storage = self._storage(target[0]) if target[1] is None else self._fetching_of(target).storage
        result = getattr(storage, method)(*arguments)
        if isinstance(result, bytes):
            storage.count(nbytes=len(result))
        return list(result) if method == "list" else result

    def _fetching_of(self, target: Target) -> Fetching:
        fetching = self._fetching.get(target)
        if fetching is None:
            key, folder, limit = target
            new = Fetching(self._storage(key), cache.Cache(folder or "", limit))
            fetching = self._fetching.setdefault(target, new)
        return fetching

    def _fetch(self, target: Target, *pair: Any) -> None:
        self._fetching_of(target).fetch(*pair)

    def end(self) -> None:
        """Removes unfinished files and ends the process."""
        for fetching in list(self._fetching.values()):
            for part in list(fetching.parts):
                with contextlib.suppress(OSError):  # it has just been published
                    os.unlink(part.name)
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(0)

    def _take_object(self, batch: _Batch, arguments: tuple[Any, ...], is_hint: bool) -> None:
        job = self._objects.get(arguments[:2])
        if job is None:
            job = _Job(batch, self._fetch, *arguments, is_hint=is_hint)
            self._objects[job.key] = job
            self._put(job)
        elif not is_hint:
            job.batches.append(batch)
            if job.is_hint and job.future.cancel():  # still pending: move it to the request threads
                job.is_hint = False
                self.busy -= 1
                self._put(job)

    def _put(self, job: _Job) -> None:
        self.busy += 1
        job.future = (self._hint_pool if job.is_hint else self._request_pool).submit(self._work, job)

    def _work(self, job: _Job) -> None:
        with self._lock:
            ended = self._done(job, None) if all(batch.failed for batch in job.batches) else None
        error: BaseException | None = None
        result = None
        if ended is None:
            try:
                result = job.act(*job.arguments)
            except BaseException as raised:  # it becomes the answer
                error = portable(raised)
            with self._lock:
                ended = self._done(job, error)
        # Without the lock: while the pipe is full, the process must go on reading requests. The parent may send a large
        # request before it reads on.
        for number in ended:
            self._answer(number, error, result)
        with self._lock:
            self.busy -= 1

    def _done(self, job: _Job, error: BaseException | None) -> list[int]:
        """Ends a job. Returns the numbers of the requests that get an answer now."""
        if self._objects.get(job.key) is job:
            del self._objects[job.key]
        ended = []
        for batch in job.batches:
            batch.left -= 1
            if batch.number is not None and not batch.failed and (error is not None or batch.left == 0):
                ended.append(batch.number)
            batch.failed = batch.failed or error is not None
        return ended


def portable(error: BaseException) -> BaseException:
    """Returns the error if its class is expected and it can be pickled; else a RemoteError with its text. Removes the
    traceback and the causes from the error itself."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    if isinstance(error, (Error, OSError, ImportError, ValueError, TypeError, MemoryError)):
        try:
            pickle.loads(pickle.dumps(error))
            return error
        except Exception:  # a class may fail in any way
            return RemoteError(f"{type(error).__name__}: {error}")
    return RemoteError(f"the fetching process failed with {type(error).__name__}: {error}; this is a bug in recstore")


# ---- The process ----


def main() -> None:
    """Serves the parent until the process ends. Never returns."""
    if sys.stderr is None:  # closed in the parent
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    requests_fd, answers_fd, parent = os.dup(0), os.dup(1), os.getppid()
    os.dup2(2, 1)  # text that a library prints must not mix with the answers
    messages, last_active, send_lock = Messages(), time.monotonic(), threading.Lock()

    def send(*answer: object) -> None:
        data = memoryview(pack(answer))
        try:
            with send_lock:
                while data:
                    data = data[os.write(answers_fd, data) :]
        except OSError:
            server.end()

    def log(record: logging.LogRecord) -> bool:
        send(None, LOG, record.getMessage())
        return False  # the parent decides where it goes

    logging.getLogger("recstore").addFilter(log)
    server = Server(send)
    while True:
        ready, _, _ = select.select([requests_fd], [], [], 1.0)
        if server.busy:
            last_active = time.monotonic()
        data = os.read(requests_fd, 1 << 20) if ready else b""
        is_idle = not ready and time.monotonic() - last_active > IDLE
        if os.getppid() != parent or is_idle or ready and not data:
            server.end()
        for message in messages.add(data):
            last_active = time.monotonic()
            server.take(*message)


if __name__ == "__main__":
    main()
