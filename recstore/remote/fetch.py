"""The process that fetches: `python -m recstore.remote.fetch`. It alone has network clients, and it is always freshly
executed, so that none of them crosses a fork.

It reads requests from its standard input and writes answers to its standard output, each a pickle after eight bytes of
its size. Both ends are of one program and one user. A request is `(number, what, (storage, cache folder, limit),
arguments)`, with the storage pickled once more; the folder and the limit are for a cache alone:

    number, "fetch", pairs       None, when the cache has all of these (name, bytes), or (name, None, most bytes)
    None, "hint", pairs          no answer: what is likely to be wanted next
    number, method, arguments    the result of a method of the storage. What read_into reads comes before, in pieces

The answer is `(number, None, result)` or `(number, error, None)`, and a piece is `(number, "piece", bytes)`. The
process ends when its standard input ends, when its parent is another one than at first, and when nothing was asked for
a while; what it was writing is removed then.
"""

from __future__ import annotations

import contextlib
import errno
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
from recstore.remote import cache, key_filters, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from typing import Any, TypeAlias

    from recstore.remote.objects import Storage

    Told: TypeAlias = tuple[bytes, str | None, int | None]  # the storage, the folder of the cache, its limit

THREADS = 8
TRIES = 3  # of an object whose bytes are not those that its name promises
IDLE = 20.0  # seconds
PIECE = "piece"


# ---- One object ----


class Fetching:
    """Fetches objects of a storage into a cache. Safe from several threads and processes at once: of those that want
    one object, one fetches it."""

    def __init__(self, storage: Storage, into: cache.Cache) -> None:
        self.storage, self.cache = storage, into
        self.parts: set[cache.Part] = set()  # those that are being written

    def fetch(self, name: str, nbytes: int | None, most: int | None = None) -> None:
        """Returns when the cache has the object. Raises CorruptError, SegmentNotFoundError, RemoteError and
        OutOfSpaceError."""
        wait = cache.Wait(self.storage.of(name))
        while not self.cache.has(name, nbytes):
            lock = self.cache.lock(name)
            try:
                if lock.state == native.HELD:
                    # Another process may have fetched it between our look and this lock.
                    if not self.cache.has(name, nbytes):
                        self._fetch_locked(name, nbytes, most)
                    return
            finally:
                lock.close()
            wait.pause()

    def _fetch_locked(self, name: str, nbytes: int | None, most: int | None) -> None:
        for _ in range(TRIES):
            fault = self._try(name, nbytes, most)
            if fault is None:
                return
        raise CorruptError(
            f"{fault}, in {TRIES} tries: the object was damaged or replaced; write the shard files again, or open an "
            "older manifest",
            filename=self.storage.of(name),
        )

    def _try(self, name: str, nbytes: int | None, most: int | None) -> str | None:
        """Fetches an object; what is wrong with its bytes as a text, None if nothing is."""
        with self.cache.new_part(name, nbytes, most) as part:
            self.parts.add(part)
            try:
                self.storage.read_into(name, part)
                fault = part.fault()
                if fault is None and name.endswith(names.KEYS):
                    key_filters.KeyFilter(part.content(), self.storage.of(name), name.removesuffix(names.KEYS))
                if fault is None:
                    part.publish()
                return fault
            except CorruptError as error:
                return str(error.args[0])
            except SegmentNotFoundError:
                raise SegmentNotFoundError(
                    errno.ENOENT,
                    "the object is gone: gc or somebody else has removed it; open the newest manifest",
                    self.storage.of(name),
                ) from None
            except Exception:
                if isinstance(part.failure, CorruptError):
                    return str(part.failure.args[0])
                if part.failure is not None:
                    raise part.failure from None
                raise
            finally:
                self.parts.discard(part)


# ---- Many objects ----


class _Batch:
    """The objects of one request. The first error is the answer."""

    def __init__(self, number: int | None, n: int) -> None:
        self.number, self.left, self.failed = number, n, False


class _Job:
    """One thing to do, for all batches that wait for it."""

    future: Future[None]

    def __init__(self, batch: _Batch, act: Callable[..., object], *arguments: Any, hinted: bool = False) -> None:
        self.batches, self.act, self.arguments, self.hinted = [batch], act, arguments, hinted
        self.key = arguments[:2]


class Server:
    """Answers requests with threads. `answer(number, error, result)` sends; it is called from several threads. For what
    is wanted there are always threads beside those for hints."""

    def __init__(self, answer: Callable[[int, Any, Any], object]) -> None:
        self._answer = answer
        self._storages: dict[bytes, Storage] = {}  # which keep their network clients
        self._fetching: dict[Told, Fetching] = {}
        self._lock = threading.Lock()
        self._wanted, self._hinted = ThreadPoolExecutor(THREADS), ThreadPoolExecutor(THREADS - 1)
        self._objects: dict[tuple[Any, ...], _Job] = {}  # by storage and name: the job that fetches it, waits or runs
        self.busy = 0  # jobs that wait or run

    def take(self, number: int | None, what: str, told: Told, arguments: Sequence[Any]) -> None:
        """Begins to work on a request."""
        with self._lock:
            if what not in ("fetch", "hint"):
                self._put(_Job(_Batch(number, 1), self._call, number, what, told[0], arguments))
                return
            [pairs] = arguments
            if not pairs and number is not None:
                self._answer(number, None, None)
            batch = _Batch(number, len(pairs))
            for pair in pairs:
                self._take_object(batch, (told, *pair), what == "hint")

    def _storage(self, key: bytes) -> Storage:
        return self._storages.get(key) or self._storages.setdefault(key, pickle.loads(key))

    def _call(self, number: int, method: str, key: bytes, arguments: Sequence[Any]) -> object:
        if method == "read_into":
            file = SimpleNamespace(write=lambda data: self._answer(number, PIECE, bytes(data)))
            arguments = [*arguments, file]
        found = getattr(self._storage(key), method)(*arguments)
        return list(found) if method == "list" else found

    def _fetch(self, told: Told, *pair: Any) -> None:
        found = self._fetching.get(told)
        if found is None:
            key, folder, limit = told
            made = Fetching(self._storage(key), cache.Cache(folder or "", limit))
            found = self._fetching.setdefault(told, made)
        found.fetch(*pair)

    def end(self) -> None:
        """Ends the process. Removes what is being written."""
        for fetching in list(self._fetching.values()):
            for part in list(fetching.parts):
                with contextlib.suppress(OSError):  # it has just been published
                    os.unlink(part.name)
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(0)

    def _take_object(self, batch: _Batch, arguments: tuple[Any, ...], hinted: bool) -> None:
        job = self._objects.get(arguments[:2])
        if job is None:
            job = _Job(batch, self._fetch, *arguments, hinted=hinted)
            self._objects[job.key] = job
            self._put(job)
        elif not hinted:
            job.batches.append(batch)
            if job.hinted and job.future.cancel():  # it waits: it is next now
                job.hinted = False
                self.busy -= 1
                self._put(job)

    def _put(self, job: _Job) -> None:
        self.busy += 1
        job.future = (self._hinted if job.hinted else self._wanted).submit(self._work, job)

    def _work(self, job: _Job) -> None:
        with self._lock:
            if all(batch.failed for batch in job.batches):
                self._done(job, None, None)
                return
        error: BaseException | None = None
        result = None
        try:
            result = job.act(*job.arguments)
        except BaseException as raised:  # it is the answer, or that of nobody for a hint
            error = portable(raised)
        with self._lock:
            self._done(job, error, result)

    def _done(self, job: _Job, error: BaseException | None, result: object) -> None:
        self.busy -= 1
        if self._objects.get(job.key) is job:
            del self._objects[job.key]
        for batch in job.batches:
            batch.left -= 1
            ends = not batch.failed and (error is not None or batch.left == 0)
            batch.failed = batch.failed or error is not None
            if ends and batch.number is not None:
                self._answer(batch.number, error, result)


def portable(error: BaseException) -> BaseException:
    """The error if it can be sent to another process as it is, else a RemoteError with its text."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    if isinstance(error, (Error, OSError, ImportError, ValueError, TypeError, MemoryError)):
        try:
            pickle.loads(pickle.dumps(error))
            return error
        except Exception:  # whatever its class does, the text is what can be sent
            return RemoteError(f"{type(error).__name__}: {error}")
    return RemoteError(
        f"the process that fetches failed with {type(error).__name__}: {error}; this is a defect of recstore"
    )


# ---- The process ----


def pack(message: object) -> bytes:
    packed = pickle.dumps(message, 5)
    return len(packed).to_bytes(8, "little") + packed


class Messages:
    """Takes messages out of the bytes of a pipe as they come."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, data: bytes) -> list[Any]:
        """The messages that are complete with these further bytes."""
        self.data += data
        out = []
        while len(self.data) >= 8 and len(self.data) >= (end := 8 + int.from_bytes(self.data[:8], "little")):
            packed = self.data[8:end]
            del self.data[:end]
            out.append(pickle.loads(packed))
        return out


def main() -> None:
    """Serves the parent until it ends. Never returns."""
    if sys.stderr is None:  # closed in the parent
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    asks, answers, parent = os.dup(0), os.dup(1), os.getppid()
    # What a library prints must not come among the answers.
    os.dup2(2, 1)
    messages, last, sending = Messages(), time.monotonic(), threading.Lock()

    def send(*answer: object) -> None:
        data = memoryview(pack(answer))
        try:
            with sending:
                while data:
                    data = data[os.write(answers, data) :]
        except OSError:
            server.end()

    server = Server(send)
    while True:
        ready, _, _ = select.select([asks], [], [], 1.0)
        if server.busy:
            last = time.monotonic()
        data = os.read(asks, 1 << 20) if ready else b""
        is_idle = not ready and time.monotonic() - last > IDLE
        if os.getppid() != parent or is_idle or ready and not data:
            server.end()
        for message in messages.add(data):
            last = time.monotonic()
            server.take(*message)


if __name__ == "__main__":
    main()
