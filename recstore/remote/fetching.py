"""What a process does that wants shard files: it asks a process of its own to fetch them (fetch.py), or waits while
another process of the machine fetches.

A process that opens a set takes the lock of the set in the cache. Whoever has it asks for all that is missing, at once;
the others wait for the lock, poll with growing pauses, and then find everything there. If the one that fetches is
killed, the kernel frees the lock, and one of the others goes on. If it fails, it writes its error into the lock file,
and those that waited for it raise the same.
"""

import errno
import os
import pickle
import select
import sys
import threading
import time
import weakref

from recstore._core import forks, native
from recstore.errors import RemoteError
from recstore.remote import cache, fetch

_DEATHS = 3  # of fetching processes, after which a request fails
_ENDS = 20  # of fetching processes that had nothing to do, after which a request fails
# As in build/isolated_build.py: before the path is set, a module could be one of the current folder. The last argument
# is for those who look at a list of processes.
_BOOTSTRAP = """
import sys
sys.path[:] = {path!r}
import signal
signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C reaches all processes of a terminal: the parent decides
from recstore.remote.fetch import main
main()
"""
_NAME = "recstore.remote.fetch"

_living = weakref.WeakSet()
# The processes of clients. The collector may take a client's process before the client, and it would warn that it runs.
_running = set()


class _Died(Exception):
    """The fetching process has ended without an answer."""


class Client:
    """Asks a fetching process, which it starts when there is something to ask, and again when that one has ended.
    `close` ends the process; so does the end of this process, in any way.

    Safe from several threads at once. In a forked child the client is as new: it never uses its parent's process."""

    _process = None

    def __init__(self, url, options, into):
        self._told = url, options, into.path_given, into.limit
        self.url = url
        self._new()
        _living.add(self)

    def _new(self):
        self._changed = threading.Condition()
        self._process = self._messages = None
        self._replies = {}  # by the number of a request that waits: its reply, or None
        self._reading = False
        self._number = 0

    def _forget(self):
        """In a forked child: closes the ends of the parent's pipes, or the process would live as long as the child."""
        process = self._process
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                pipe.close()
            process.returncode = 0  # no child of this process: nothing waits for it
            _running.discard(process)
        self._new()

    @property
    def running(self):
        return self._process is not None

    # ---- Asking ----

    def ask(self, what, argument=None):
        """The result of a request; see fetch.py. Raises its error; RemoteError where fetching processes are killed
        again and again."""
        deaths = ends = 0
        while True:
            try:
                return self._ask(what, argument)
            except _Died as died:
                code = died.args[0]
                if code == 0:  # it had been idle, and ended just now
                    ends += 1
                else:
                    deaths += 1
                if deaths == _DEATHS or ends == _ENDS:
                    raise self._ended(deaths + ends, code) from None

    def _ended(self, times, code):
        what = f"has ended {times} times, at last with status {code}"
        why = "-9 says that it was killed, for lack of memory perhaps"
        return RemoteError(f"the process that fetches from {self.url} {what}; {why}", url=self.url)

    def hint(self, pairs):
        """Asks for objects that are likely to be wanted next, and returns at once."""
        with self._changed:
            try:
                self._send(self._started(), (None, "hint", pairs))
            except _Died:
                return  # a hint is no promise

    def _ask(self, what, argument):
        with self._changed:
            process = self._started()
            self._number += 1
            number = self._number
            self._replies[number] = None
            try:
                self._send(process, (number, what, argument))
                self._wait(process, number)
                error, result = self._replies[number]
            finally:
                del self._replies[number]
        if error is not None:
            raise error
        return result

    def _started(self):
        """The fetching process, which is started if there is none. The lock is held."""
        if self._process is not None and self._process.poll() is not None and not self._replies:
            self._drop()
        if self._process is None:
            import subprocess
            from multiprocessing import spawn

            flags = subprocess._args_from_interpreter_flags()
            code = _BOOTSTRAP.format(path=sys.path)
            self._messages = fetch.Messages()
            with forks.undisturbed():
                self._process = subprocess.Popen(
                    [os.fsdecode(spawn.get_executable()), *flags, "-c", code, _NAME],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                )
                _running.add(self._process)
                self._send(self._process, self._told)
        return self._process

    def _send(self, process, message):
        data = memoryview(fetch.pack(message))
        try:
            while data:
                data = data[process.stdin.write(data) :]
        except BrokenPipeError:
            self._raise_died(process)
        except BaseException:  # Ctrl-C, as a long list of objects is sent: the process would wait for the rest
            if process is self._process:
                self._drop()
            raise

    def _wait(self, process, number):
        """Waits until a request has its reply. One thread reads the pipe at a time, for all. The lock is held."""
        while self._replies[number] is None:
            if process is not self._process:
                self._raise_died(process)
            if self._reading:
                self._changed.wait(0.5)
                continue
            self._reading, messages = True, self._messages
            self._changed.release()
            try:
                data = _read(process.stdout)
            finally:
                self._changed.acquire()
                self._reading = False
                self._changed.notify_all()
            if process is not self._process:
                process.stdout.close()  # it has been dropped: what came is part of an answer that nobody gets
                continue
            if data is None:
                continue
            if not data:
                self._raise_died(process)
            for got, error, result in messages.add(data):
                if got is None:
                    raise error  # it could not even begin
                if got in self._replies:  # else the thread that asked was interrupted
                    self._replies[got] = error, result

    def _raise_died(self, process):
        """Raises _Died with the status of a process that no longer answers. The lock is held."""
        if process is self._process:
            self._drop()
        raise _Died(process.returncode if process.returncode is not None else -1)

    def _drop(self):
        process, self._process = self._process, None
        _running.discard(process)
        process.stdin.close()
        if not self._reading:
            process.stdout.close()  # else when the thread that reads it has let go of it
        try:
            process.wait(5)
        except Exception:  # subprocess.TimeoutExpired: it does not end by itself
            process.kill()
            process.wait()

    def close(self):
        """Ends the fetching process. A later request starts another one."""
        with self._changed:
            if self._process is not None:
                self._drop()

    def __del__(self):
        if self._process is not None:
            self._drop()


def _read(pipe):
    """The bytes that are there; b"" at the end of the pipe, None if there are none for a while."""
    try:
        poll = select.poll()  # select() takes no descriptor beyond 1,023
        poll.register(pipe.fileno(), select.POLLIN)
        return os.read(pipe.fileno(), 1 << 20) if poll.poll(500) else None
    except ValueError:  # another thread has closed it
        return b""
    except OSError as error:
        if error.errno != errno.EBADF:
            raise  # of a signal handler: TimeoutError is one
        return b""


def _after_fork():
    for client in list(_living):
        client._forget()


os.register_at_fork(after_in_child=_after_fork)


# ---- Waiting for others ----


def ensure(missing_of, client, into, set_id):
    """Returns when the cache had all that `missing_of` asks for. It gets the names that are there, and returns the
    `(name, bytes)` that are not. One process of the machine fetches them.

    Raises as Client.ask; the same error where the process that this one waited for has failed, with the same options.
    """
    options = client._told[1]
    path = os.path.join(into.sets, set_id + cache.LOCK)
    words = cache.Words(client.url)
    while True:
        lock = native.Lock(path)
        try:
            if _waited(lock, options, words):
                missing = missing_of(into.names())
                if missing:
                    _fetch_locked(missing, client, lock, options)
                return
        finally:
            lock.close()
        if not missing_of(into.names()):
            return


def _waited(lock, options, words):
    """Waits for the lock of a set. True when this process holds it, False when it was freed by the removal of its file.
    Raises the error of the process that held it."""
    delay, first = cache.FIRST_DELAY, None
    while lock.state == native.BUSY and lock.leads():
        first = lock.read() if first is None else first
        words.waited()
        time.sleep(delay)
        delay = min(2 * delay, cache.LAST_DELAY)
        lock.attempt()
    if first is not None:
        said = lock.read()
        # An error that the file told from the beginning is that of an earlier process, which was killed.
        if said and said != first:
            error = _error_in(said, options)
            if error is not None:
                raise error
    return lock.state == native.HELD


def _fetch_locked(missing, client, lock, options):
    lock.write(b"")
    try:
        client.ask("fetch", missing)
    except Exception as error:
        lock.write(_failure(error, options))
        raise


def _failure(error, options):
    """What the lock file of a set says after a failure: 16 random bytes, a hash of the options, the error. With random
    bytes of each election the hash of a secret is not the same twice."""
    told = os.urandom(16)
    return told + _digest(options, told) + pickle.dumps(fetch.portable(error))


def _error_in(said, options):
    told, digest, packed = said[:16], said[16:32], said[32:]
    if len(digest) < 16 or digest != _digest(options, told):
        return None  # of other options, such as other credentials: this process tries with its own
    try:
        error = pickle.loads(packed)
    except Exception:  # it was cut while it was written, as its process was killed
        return None
    return error if isinstance(error, Exception) else None


def _digest(options, told):
    from hashlib import blake2b

    text = repr(sorted((options or {}).items(), key=repr))
    return blake2b(text.encode("utf-8", "replace"), digest_size=16, key=told).digest()
