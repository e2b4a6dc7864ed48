"""The process that fetches: `python -m recstore.remote.fetch`. It alone has network clients, and it is always freshly
executed, so that none of them crosses a fork.

It reads requests from its standard input and writes answers to its standard output, each a pickle after four bytes of
its size. Both ends are of one program and one user. The first request is `(url, options, cache folder, limit)`; each
further one is `(number, what, argument)`:

    number, "newest", None       the number of the newest manifest
    number, "read", name         the bytes of a small object
    number, "fetch", pairs       None, when the cache has all of these (name, bytes), or (name, None, most bytes)
    None, "hint", pairs          no answer: what is likely to be wanted next

The answer is `(number, None, result)` or `(number, error, None)`. The process ends when its standard input ends, when
its parent is another one than at first, and when nothing was asked for a while; what it was writing is removed then.
"""

import errno
import os
import pickle
import select
import sys
import threading
import time
from collections import deque

from recstore._core import native
from recstore.errors import CorruptError, Error, RemoteError, SegmentNotFoundError
from recstore.remote import cache, key_filters, manifest, names
from recstore.remote.storage import storage_of

THREADS = 8
TRIES = 3  # of an object whose bytes are not those that its name promises
IDLE = 20.0  # seconds


# ---- One object ----


class Fetching:
    """Fetches objects of a storage into a cache. Safe from several threads and processes at once: of those that want
    one object, one fetches it."""

    def __init__(self, storage, into):
        self.storage, self.cache = storage, into
        self.parts = set()  # those that are being written

    def fetch(self, name, nbytes, most=None):
        """Returns when the cache has the object. Raises CorruptError, SegmentNotFoundError, RemoteError and
        OutOfSpaceError."""
        delay, words = cache.FIRST_DELAY, cache.Words(self.storage.of(name))
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
            words.waited()
            time.sleep(delay)
            delay = min(2 * delay, cache.LAST_DELAY)

    def _fetch_locked(self, name, nbytes, most):
        for _ in range(TRIES):
            fault = self._try(name, nbytes, most)
            if fault is None:
                return
        raise CorruptError(
            f"{fault}, in {TRIES} tries: the object was damaged or replaced; write the shard files again, or open an "
            "older manifest",
            filename=self.storage.of(name),
        )

    def _try(self, name, nbytes, most):
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

    def give_up(self):
        """Removes what is being written, at the end of the process."""
        for part in list(self.parts):
            try:
                os.unlink(part.name)
            except OSError:
                continue  # it has just been published


# ---- Many objects ----


class _Batch:
    """The objects of one request. The first error is the answer."""

    def __init__(self, number, n):
        self.number, self.left, self.failed = number, n, False


class _Job:
    """One thing to do, for all batches that wait for it."""

    def __init__(self, batch, act, arguments, hinted=False):
        self.batches, self.act, self.arguments, self.hinted = [batch], act, arguments, hinted


class Server:
    """Answers requests with threads. `answer(number, error, result)` sends; it is called from several threads, one at a
    time. What was only hinted at never has all threads."""

    def __init__(self, url, options, folder, limit, answer):
        self.storage = storage_of(url, options)
        self.fetching = Fetching(self.storage, cache.Cache(folder, limit))
        self._answer = answer
        self._changed = threading.Condition()
        self._wanted, self._hinted = deque(), deque()  # jobs that wait
        self._objects = {}  # by name: the job that fetches it, which waits or runs
        self._busy = self._hints = 0  # jobs that wait or run; hints that run
        self._threads = []

    @property
    def busy(self):
        return self._busy

    def take(self, number, what, argument):
        """Begins to work on a request."""
        with self._changed:
            if what in ("fetch", "hint"):
                pairs = list(argument)
                if not pairs and number is not None:
                    self._send(number, None, None)
                batch = _Batch(number, len(pairs))
                for pair in pairs:
                    self._take_object(batch, pair, what == "hint")
            elif what == "newest":
                self._put(_Job(_Batch(number, 1), manifest.newest, (self.storage,)))
            else:
                self._put(_Job(_Batch(number, 1), self.storage.read, (argument,)))

    def _take_object(self, batch, pair, hinted):
        job = self._objects.get(pair[0])
        if job is None:
            job = self._objects[pair[0]] = _Job(batch, self.fetching.fetch, pair, hinted)
            self._put(job)
        elif not hinted:
            job.batches.append(batch)
            if job in self._hinted:  # it waits: it is next now
                self._hinted.remove(job)
                job.hinted = False
                self._busy -= 1
                self._put(job)

    def _put(self, job):
        (self._hinted if job.hinted else self._wanted).append(job)
        self._busy += 1
        if len(self._threads) < min(THREADS, self._busy):
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._changed.notify()

    def _next(self):
        """The job to do now; None if there is none. The lock is held."""
        if self._wanted:
            return self._wanted.popleft()
        if self._hinted and self._hints < THREADS - 1:
            self._hints += 1
            return self._hinted.popleft()
        return None

    def _work(self):
        while True:
            with self._changed:
                while (job := self._next()) is None:
                    self._changed.wait()
                if all(batch.failed for batch in job.batches):
                    self._done(job, None, None)
                    continue
            error = result = None
            try:
                result = job.act(*job.arguments)
            except BaseException as raised:  # it is the answer, or that of nobody for a hint
                error = raised
            with self._changed:
                self._done(job, error, result)

    def _done(self, job, error, result):
        self._busy -= 1
        self._hints -= job.hinted
        if self._objects.get(job.arguments[0]) is job:
            del self._objects[job.arguments[0]]
        for batch in job.batches:
            batch.left -= 1
            ends = batch.left == 0 and not batch.failed
            if error is not None and not batch.failed:
                batch.failed = ends = True
            if ends and batch.number is not None:
                self._send(batch.number, error, None if error is not None else result)

    def _send(self, number, error, result):
        self._answer(number, None if error is None else portable(error), result)


def portable(error):
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


def pack(message):
    packed = pickle.dumps(message, 5)
    return len(packed).to_bytes(4, "little") + packed


class Messages:
    """Takes messages out of the bytes of a pipe as they come."""

    def __init__(self):
        self.data = bytearray()

    def add(self, data):
        """The messages that are complete with these further bytes."""
        self.data += data
        out = []
        while len(self.data) >= 4:
            end = 4 + int.from_bytes(self.data[:4], "little")
            if len(self.data) < end:
                break
            out.append(pickle.loads(self.data[4:end]))
            del self.data[:end]
        return out


def main():
    """Serves the parent until it ends. Never returns."""
    import signal

    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C reaches all processes of a terminal: the parent decides
    if sys.stderr is None:  # closed in the parent
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    asks, answers, parent = os.dup(0), os.dup(1), os.getppid()
    # What a library prints must not come among the answers.
    os.dup2(2, 1)
    server, messages, last = None, Messages(), time.monotonic()

    def send(*answer):
        data = memoryview(pack(answer))
        try:
            while data:
                data = data[os.write(answers, data) :]
        except OSError:
            end(server)

    while True:
        ready, _, _ = select.select([asks], [], [], 1.0)
        if server is not None and server.busy:
            last = time.monotonic()
        if os.getppid() != parent or (not ready and time.monotonic() - last > IDLE):
            end(server)
        data = os.read(asks, 1 << 20) if ready else b""
        if ready and not data:
            end(server)
        for message in messages.add(data):
            last = time.monotonic()
            if server is None:
                try:
                    server = Server(*message, send)
                except Exception as error:  # the parent raises it
                    send(None, portable(error), None)
                    end(None)
            else:
                server.take(*message)


def end(server):
    if server is not None:
        server.fetching.give_up()
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
