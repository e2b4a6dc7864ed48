"""The client side of fetching. A process starts its own fetching process (fetch_process.py), or waits while another
process on the machine fetches. The forked child of a process with network clients uses a fetching process for every
network operation.

A process that opens a set takes the lock of the set in the cache. The holder requests all missing files at once. The
other processes poll the lock with growing pauses, and then find all files in the cache. If the holder is killed, the
kernel frees the lock and another process continues. If the fetch fails, the holder writes the error into the lock
file, and the waiting processes raise that error.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import pickle
import select
import sys
import threading
import weakref
from hashlib import blake2b

from recstore._core import forks, native
from recstore.errors import RemoteError
from recstore.remote.cache import cache, fetch_process
from recstore.remote.places.storage import append, environment
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO, Any, NoReturn, TypeAlias, TypeVar

    from recstore.remote.cache.cache import Cache
    from recstore.remote.places.storage import File, Storage

    _Method = TypeVar("_Method", bound=Callable[..., Any])
    _T = TypeVar("_T")
    _Options: TypeAlias = Mapping[str, Any] | None
    _Pairs: TypeAlias = Sequence[tuple[str, int]] | Sequence[tuple[str, None, int]]

    class _Process(subprocess.Popen[bytes]):
        stdin: IO[bytes]  # pyright: ignore[reportIncompatibleVariableOverride]
        stdout: IO[bytes]  # pyright: ignore[reportIncompatibleVariableOverride]


_DEATHS = 3  # killed fetching processes after which a request fails
_ENDS = 20  # idle exits of fetching processes after which a request fails
# As in building/isolated_build.py: before the path is set, the current folder could provide a module. The last argument
# names the process in a process list.
_BOOTSTRAP = """
import sys
sys.path[:] = {path!r}
import signal
signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C reaches all processes of a terminal: the parent decides
from recstore.remote.cache.fetch_process import main
main()
"""
_NAME = "recstore.remote.cache.fetch_process"

_living: weakref.WeakSet[Helper] = weakref.WeakSet()
# Keeps each Popen alive until its Helper drops it: a Popen that is freed earlier warns that its process still runs.
_running: set[_Process] = set()
_uses_clients = False  # whether this process or an ancestor has used network clients
_forked_helper: Helper | None = None  # the Helper in a process with an ancestor that has used network clients


class _Died(Exception):
    """The fetching process ended with this status, without an answer."""


def forked_helper() -> Helper | None:
    """The Helper for network operations in the forked child of a process with network clients. None in a process that
    may have its own clients, and is assumed to have them from now on. Safe from several threads at once."""
    global _uses_clients
    _uses_clients = True
    return _forked_helper


def fork_safe(method: _Method) -> _Method:
    """Decorates a method of a Storage that needs network clients: in a forked process, the fetching process runs it."""

    @functools.wraps(method)
    def call(self: Storage, *arguments: Any) -> Any:
        helper = forked_helper()
        return method(self, *arguments) if helper is None else helper.call(self, method.__name__, *arguments)

    return call  # type: ignore[return-value]


class Helper:
    """Sends requests to a fetching process, which it starts and restarts when needed. The fetching process ends with
    `close`, with this process, or when it is idle for a while.

    Safe from several threads at once. A forked child starts its own fetching process."""

    _process: _Process | None = None

    def __init__(self) -> None:
        self._reset()
        _living.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._calling = threading.Lock()
        self._process = None
        self._environment: dict[str, str] = {}  # of the process: the address and the credentials of the store
        self._messages = fetch_process.Messages()
        self._replies: dict[int, tuple[BaseException | None, Any] | None] = {}  # by request number; None while pending
        self._reading = False
        self._number = 0

    def _forget(self) -> None:
        """In a forked child: closes the parent's pipes, or the fetching process would live as long as the child."""
        process = self._process
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                pipe.close()
            process.returncode = 0  # not a child of this process, which must not wait for it
            _running.discard(process)
        self._reset()

    @property
    def running(self) -> bool:
        return self._process is not None

    # ---- Requests ----

    def call(self, storage: Storage, method: str, *arguments: Any) -> Any:
        """Calls a method of a storage in the fetching process. Raises the exception of the method. Raises RemoteError
        if the process is killed, because the operation may be half done. Runs one call at a time, because no thread
        reads answers while a large request is sent."""
        *positional, file = arguments if method == "read_into" else (*arguments, None)
        positional = [bytes(data) if isinstance(data, (memoryview, bytearray)) else data for data in positional]
        with self._calling:
            return self._retry(1, storage.url, method, (pickle.dumps(storage), None, None), positional, file)

    def _retry(self, most_deaths: int, url: str, *request: Any) -> Any:
        deaths = ends = 0
        while True:
            try:
                return self._ask(*request)
            except _Died as error:
                code = error.args[0]
                if code == 0:  # it ended because it was idle
                    ends += 1
                else:
                    deaths += 1
                if deaths == most_deaths or ends == _ENDS:
                    raise RemoteError(
                        f"the process that fetches from {url} ended {counted(deaths + ends, 'time')}, last with status "
                        f"{code}; -9 means that it was killed, possibly for lack of memory: try again",
                        url=url,
                    ) from None

    def _ask(
        self, method: str, target: fetch_process.Target, arguments: Sequence[object], file: File | None = None
    ) -> Any:
        with self._changed:
            process = self._started()
            self._number += 1
            number = self._number
            self._replies[number] = None
            try:
                self._send(process, (number, method, target, arguments))
                error, result = self._wait(process, number, file)
            except BaseException:
                if file is not None and process is self._process:
                    self._drop()  # the process would keep sending pieces
                raise
            finally:
                del self._replies[number]
        if error is not None:
            raise error
        return result

    def _started(self) -> _Process:
        """The fetching process, started if necessary, and again with renewed credentials of the environment. The caller
        holds the lock."""
        is_outdated = self._environment != environment()
        if self._process is not None and not self._replies and (is_outdated or self._process.poll() is not None):
            self._drop()
        if self._process is None:
            import subprocess
            from multiprocessing import spawn

            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            code = _BOOTSTRAP.format(path=sys.path)
            self._messages, self._environment = fetch_process.Messages(), environment()
            with forks.undisturbed():
                process: _Process = subprocess.Popen(  # type: ignore[assignment]  # with both pipes
                    [os.fsdecode(spawn.get_executable()), *flags, "-c", code, _NAME],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                )
                self._process = process
                _running.add(process)
        return self._process

    def _send(self, process: _Process, message: object) -> None:
        data = memoryview(fetch_process.pack(message))
        try:
            while data:
                data = data[process.stdin.write(data) :]
        except BrokenPipeError:
            self._raise_died(process)
        except BaseException:  # Ctrl-C in the middle of a message: the process would wait for the rest
            if process is self._process:
                self._drop()
            raise

    def _wait(self, process: _Process, number: int, file: File | None) -> tuple[BaseException | None, Any]:
        """The reply to a request. One thread at a time reads the pipe for all threads. A request with a file has the
        pipe to itself. The caller holds the lock."""
        while (reply := self._replies[number]) is None:
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
                process.stdout.close()  # dropped by another thread
                continue
            if data is None:
                continue
            if not data:
                self._raise_died(process)
            for request, error, result in messages.add(data):
                if error == fetch_process.LOG:
                    logging.getLogger("recstore").warning("%s", result)
                elif error == fetch_process.PIECE:
                    if request == number and file is not None:
                        append(file, result)
                elif request in self._replies:  # else the requesting thread was interrupted
                    self._replies[request] = error, result
        return reply

    def _raise_died(self, process: _Process) -> NoReturn:
        """Raises _Died with the status of a process that no longer answers. The caller holds the lock."""
        if process is self._process:
            self._drop()
        raise _Died(process.returncode if process.returncode is not None else -1)

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _running.discard(process)
        process.stdin.close()
        if not self._reading:
            process.stdout.close()  # otherwise the reading thread closes it
        try:
            process.wait(5)
        except Exception:  # subprocess.TimeoutExpired
            process.kill()
            process.wait()

    def close(self) -> None:
        """Ends the fetching process. A later request starts a new process."""
        with self._changed:
            self._drop()

    def __del__(self) -> None:
        self._drop()


class Client(Helper):
    """The Helper of a set: fetches its files from a storage into a cache, or reads ranges of them without a cache."""

    cache: Cache

    def __init__(self, storage: Storage, into: Cache | None) -> None:
        super().__init__()
        self.storage = storage
        if into is None:
            self._target: fetch_process.Target = pickle.dumps(storage), None, None
        else:
            self.cache, self._target = into, (pickle.dumps(storage), into.user_path, into.limit)

    def ask(self, method: str, *arguments: object) -> Any:
        """The result of a request about the set; see fetch_process.py. Raises its error; RemoteError if several
        fetching processes are killed."""
        return self._retry(_DEATHS, self.storage.url, method, self._target, arguments)

    def hint(self, pairs: _Pairs) -> None:
        """Requests objects in advance, and returns at once."""
        with self._changed:
            try:
                self._send(self._started(), (None, "hint", self._target, (pairs,)))
            except _Died:
                return  # hints are optional


def _read(pipe: IO[bytes]) -> bytes | None:
    """The available bytes; b"" at the end of the pipe, None after half a second without any."""
    try:
        poll = select.poll()  # select() takes no descriptor beyond 1,023
        poll.register(pipe.fileno(), select.POLLIN)
        return os.read(pipe.fileno(), 1 << 20) if poll.poll(500) else None
    except ValueError:  # another thread has closed it
        return b""
    except OSError as error:
        if error.errno != errno.EBADF:
            raise  # a signal handler may raise TimeoutError
        return b""


def _after_fork() -> None:
    global _forked_helper
    for client in list(_living):
        client._forget()
    if _uses_clients and _forked_helper is None:
        _forked_helper = Helper()


os.register_at_fork(after_in_child=_after_fork)


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
            if _wait_for(lock, options, wait, client.cache.group):
                found = find()
                return _fetch_locked(fetch, lock, options) if found is None else found
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
