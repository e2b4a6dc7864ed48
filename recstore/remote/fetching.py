"""What a process does that wants shard files: it asks a process of its own to fetch them (fetch.py), or waits while
another process of the machine fetches. A process that was forked from one with network clients asks such a process for
every operation of a storage in the network.

A process that opens a set takes the lock of the set in the cache. Whoever has it asks for all that is missing, at once;
the others wait for the lock, poll with growing pauses, and then find everything there. If the one that fetches is
killed, the kernel frees the lock, and one of the others goes on. If it fails, it writes its error into the lock file,
and those that waited for it raise the same.
"""

from __future__ import annotations

import errno
import functools
import os
import pickle
import select
import sys
import threading
import weakref
from hashlib import blake2b

from recstore._core import forks, native
from recstore.errors import RemoteError
from recstore.remote import cache, fetch
from recstore.remote.objects import append
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO, Any, NoReturn, TypeAlias, TypeVar

    from recstore.remote.objects import File, Storage

    _Method = TypeVar("_Method", bound=Callable[..., Any])
    _Options: TypeAlias = Mapping[str, Any] | None
    _Pairs: TypeAlias = Sequence[tuple[str, int]] | Sequence[tuple[str, None, int]]

    class _Process(subprocess.Popen[bytes]):
        stdin: IO[bytes]
        stdout: IO[bytes]


_DEATHS = 3  # of fetching processes, after which a request fails
_ENDS = 20  # of fetching processes that had nothing to do, after which a request fails
# As in building/isolated_build.py: before the path is set, a module could be one of the current folder. The last
# argument is for those who look at a list of processes.
_BOOTSTRAP = """
import sys
sys.path[:] = {path!r}
import signal
signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C reaches all processes of a terminal: the parent decides
from recstore.remote.fetch import main
main()
"""
_NAME = "recstore.remote.fetch"

_living: weakref.WeakSet[Helper] = weakref.WeakSet()
# The processes of clients. The collector may take a client's process before the client, and it would warn that it runs.
_running: set[_Process] = set()
_asked = False  # whether this process, or one that it was forked from, has asked for network clients
_of_forked: Helper | None = None  # of a process that was forked from one that had


class _Died(Exception):
    """The fetching process has ended, with this status, without an answer."""


def of_forked() -> Helper | None:
    """None for a process that may have network clients: the one that calls this first, or a freshly executed one. For a
    process that was forked from such a one, the Helper whose process has them. Safe from several threads at once."""
    global _asked
    _asked = True
    return _of_forked


def aside(method: _Method) -> _Method:
    """A method of a Storage that needs network clients: in a forked process it is that of a process beside it."""

    @functools.wraps(method)
    def call(self: Storage, *arguments: Any) -> Any:
        helper = of_forked()
        return method(self, *arguments) if helper is None else helper.call(self, method.__name__, *arguments)

    return call  # type: ignore[return-value]


class Helper:
    """Asks a fetching process, which it starts when there is something to ask, and again when that one has ended.
    `close` ends the process; so does the end of this process, in any way.

    Safe from several threads at once. In a forked child it is as new: it never uses its parent's process."""

    _process: _Process | None = None

    def __init__(self) -> None:
        self._new()
        _living.add(self)

    def _new(self) -> None:
        self._changed = threading.Condition()
        self._calling = threading.Lock()
        self._process = None
        self._messages = fetch.Messages()
        self._replies: dict[int, tuple[BaseException | None, Any] | None] = {}  # by number; None for one that waits
        self._reading = False
        self._number = 0

    def _forget(self) -> None:
        """In a forked child: closes the ends of the parent's pipes, or the process would live as long as the child."""
        process = self._process
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                pipe.close()
            process.returncode = 0  # no child of this process: nothing waits for it
            _running.discard(process)
        self._new()

    @property
    def running(self) -> bool:
        return self._process is not None

    # ---- Asking ----

    def call(self, storage: Storage, method: str, *arguments: Any) -> Any:
        """The result of a method of a storage, its exception, or a RemoteError where the process is killed, as nobody
        knows what that one has done. One call at a time: nobody reads answers while a large request is sent."""
        *given, file = arguments if method == "read_into" else (*arguments, None)
        given = [bytes(one) if isinstance(one, (memoryview, bytearray)) else one for one in given]
        with self._calling:
            return self._again(1, storage.url, method, (pickle.dumps(storage), None, None), given, file)

    def _again(self, deaths: int, url: str, *request: Any) -> Any:
        died = ends = 0
        while True:
            try:
                return self._ask(*request)
            except _Died as error:
                code = error.args[0]
                if code == 0:  # it had been idle, and ended just now
                    ends += 1
                else:
                    died += 1
                if died == deaths or ends == _ENDS:
                    what = f"has ended {counted(died + ends, 'time')}, at last with status {code}"
                    why = "-9 says that it was killed, for lack of memory perhaps: try again"
                    raise RemoteError(f"the process that fetches from {url} {what}; {why}", url=url) from None

    def _ask(self, what: str, told: fetch.Told, arguments: Sequence[object], file: File | None = None) -> Any:
        with self._changed:
            process = self._started()
            self._number += 1
            number = self._number
            self._replies[number] = None
            try:
                self._send(process, (number, what, told, arguments))
                error, result = self._wait(process, number, file)
            except BaseException:
                if file is not None and process is self._process:
                    self._drop()  # it would go on to send pieces
                raise
            finally:
                del self._replies[number]
        if error is not None:
            raise error
        return result

    def _started(self) -> _Process:
        """The fetching process, which is started if there is none. The lock is held."""
        if self._process is not None and self._process.poll() is not None and not self._replies:
            self._drop()
        if self._process is None:
            import subprocess
            from multiprocessing import spawn

            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            code = _BOOTSTRAP.format(path=sys.path)
            self._messages = fetch.Messages()
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

    def _wait(self, process: _Process, number: int, file: File | None) -> tuple[BaseException | None, Any]:
        """The reply of a request. One thread reads the pipe at a time, for all; that of a request with a file is the
        only one. The lock is held."""
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
                process.stdout.close()  # it has been dropped: what came is part of an answer that nobody gets
                continue
            if data is None:
                continue
            if not data:
                self._raise_died(process)
            for got, error, result in messages.add(data):
                if error == fetch.PIECE:
                    if got == number and file is not None:
                        append(file, result)
                elif got in self._replies:  # else the thread that asked was interrupted
                    self._replies[got] = error, result
        return reply

    def _raise_died(self, process: _Process) -> NoReturn:
        """Raises _Died with the status of a process that no longer answers. The lock is held."""
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
            process.stdout.close()  # else when the thread that reads it has let go of it
        try:
            process.wait(5)
        except Exception:  # subprocess.TimeoutExpired: it does not end by itself
            process.kill()
            process.wait()

    def close(self) -> None:
        """Ends the fetching process. A later request starts another one."""
        with self._changed:
            self._drop()

    def __del__(self) -> None:
        self._drop()


class Client(Helper):
    """The Helper of a set, which is in a storage and comes into a cache."""

    def __init__(self, storage: Storage, into: cache.Cache) -> None:
        super().__init__()
        self.storage, self.cache = storage, into
        self._told = pickle.dumps(storage), into.path_given, into.limit

    def ask(self, what: str, *arguments: object) -> Any:
        """The result of a request about the set; see fetch.py. Raises its error; RemoteError where fetching processes
        are killed again and again."""
        return self._again(_DEATHS, self.storage.url, what, self._told, arguments)

    def hint(self, pairs: _Pairs) -> None:
        """Asks for objects that are likely to be wanted next, and returns at once."""
        with self._changed:
            try:
                self._send(self._started(), (None, "hint", self._told, (pairs,)))
            except _Died:
                return  # a hint is not a promise


def _read(pipe: IO[bytes]) -> bytes | None:
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


def _after_fork() -> None:
    global _of_forked
    for client in list(_living):
        client._forget()
    if _asked and _of_forked is None:
        _of_forked = Helper()


os.register_at_fork(after_in_child=_after_fork)


# ---- Waiting for others ----


def ensure(missing_of: Callable[[set[str]], Sequence[tuple[str, int]]], client: Client, set_id: str) -> None:
    """Returns when the cache had all that `missing_of` asks for. It gets the names that are there, and returns the
    `(name, bytes)` that are not. One process of the machine fetches them.

    Raises as Client.ask; the same error where the process that this one waited for has failed, with the same options.
    """
    options, into = client.storage.options, client.cache
    path = os.path.join(into.sets, set_id + cache.LOCK)
    wait = cache.Wait(client.storage.url)
    while True:
        lock = native.Lock(path)
        try:
            if _waited(lock, options, wait):
                missing = missing_of(into.names())
                if missing:
                    _fetch_locked(missing, client, lock, options)
                return
        finally:
            lock.close()
        if not missing_of(into.names()):
            return


def _waited(lock: native.Lock, options: _Options, wait: cache.Wait) -> bool:
    """Waits for the lock of a set. True when this process holds it, False when it was freed by the removal of its file.
    Raises the error of the process that held it."""
    first = None
    while lock.state == native.BUSY and lock.leads():
        first = lock.read() if first is None else first
        wait.pause()
        lock.attempt()
    if first is not None:
        said = lock.read()
        # An error that the file told from the beginning is that of an earlier process, which was killed.
        if said and said != first:
            error = _error_in(said, options)
            if error is not None:
                raise error
    return lock.state == native.HELD


def _fetch_locked(missing: Sequence[tuple[str, int]], client: Client, lock: native.Lock, options: _Options) -> None:
    lock.write(b"")
    try:
        client.ask("fetch", missing)
    except Exception as error:
        lock.write(_failure(error, options))
        raise


def _failure(error: Exception, options: _Options) -> bytes:
    """What the lock file of a set says after a failure: 16 random bytes, a hash of the options, the error. With random
    bytes of each election the hash of a secret is not the same twice."""
    told = os.urandom(16)
    return told + _digest(options, told) + pickle.dumps(fetch.portable(error))


def _error_in(said: bytes, options: _Options) -> Exception | None:
    told, digest, packed = said[:16], said[16:32], said[32:]
    if len(digest) < 16 or digest != _digest(options, told):
        return None  # of other options, such as other credentials: this process tries with its own
    try:
        error = pickle.loads(packed)
    except Exception:  # it was cut while it was written, as its process was killed
        return None
    return error if isinstance(error, Exception) else None


def _digest(options: _Options, told: bytes) -> bytes:
    text = repr(sorted((options or {}).items(), key=repr))
    return blake2b(text.encode("utf-8", "replace"), digest_size=16, key=told).digest()
