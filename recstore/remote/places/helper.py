"""The helper process of a process: it has the network clients that must not cross a fork.

A process starts at most one helper process, freshly executed, when it first needs one: to fetch files of the sets that
it has open (cache/fetch_client.py), and in the forked child of a process with network clients for every network
operation. cache/fetch_process.py is the program that it runs.
"""

from __future__ import annotations

import atexit
import errno
import functools
import logging
import os
import pickle
import select
import sys
import threading
import weakref

from recstore._core import forks
from recstore.errors import RemoteError
from recstore.remote.places.storage import append, environment
from recstore.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from typing import IO, Any, NoReturn, TypeAlias, TypeVar

    from recstore.remote.places.storage import File, Storage

    _Method = TypeVar("_Method", bound=Callable[..., Any])
    # The pickled storage, the cache folder, its limit; the last two are None for a request without a cache.
    Target: TypeAlias = tuple[bytes, str | None, int | None]

    class _Process(subprocess.Popen[bytes]):
        stdin: IO[bytes]  # pyright: ignore[reportIncompatibleVariableOverride]
        stdout: IO[bytes]  # pyright: ignore[reportIncompatibleVariableOverride]


PIECE, LOG = "piece", "log"  # the second item of an answer that is not the last for its request
_ENDS = 20  # idle exits of helper processes after which a request fails
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

_uses_clients = False  # whether this process has used network clients
_delegates = False  # whether an ancestor has


# ---- Messages ----


def pack(message: object) -> bytes:
    packed = pickle.dumps(message, 5)
    return len(packed).to_bytes(8, "little") + packed


class Messages:
    """Splits the bytes of a pipe into messages."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, data: bytes) -> list[Any]:
        """Adds bytes, and returns the messages that they complete."""
        self.data += data
        out = []
        while len(self.data) >= 8 and len(self.data) >= (end := 8 + int.from_bytes(self.data[:8], "little")):
            packed = self.data[8:end]
            del self.data[:end]
            out.append(pickle.loads(packed))
        return out


# ---- The client ----


class _Died(Exception):
    """The helper process ended with this status, without an answer."""


class _Request:
    """A request without a final answer. `file` gets the pieces of an object, if there are any."""

    __slots__ = ("__weakref__", "answer", "file", "has_pieces")

    def __init__(self, file: File | None) -> None:
        self.file, self.has_pieces = file, False
        self.answer: tuple[BaseException | None, Any] | None = None


class Helper:
    """Sends requests to the helper process, which it starts and restarts when needed. The process ends when its last
    user is gone, with this process, or when it is idle for a while.

    Safe from several threads at once. A forked child starts its own process."""

    _process: _Process | None = None

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self._environment: dict[str, str] = {}  # of the process: the address and the credentials of the store
        self._messages = Messages()
        self._requests: dict[int, _Request] = {}
        self._reading = False
        self._number = 0

    def forget(self) -> None:
        """In a forked child: closes the parent's pipes, or the process would live as long as the child."""
        process = self._process
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                pipe.close()
            process.returncode = 0  # not a child of this process, which must not wait for it
        self._process = None
        self.__init__()  # type: ignore[misc]

    @property
    def running(self) -> bool:
        return self._process is not None

    # ---- Requests ----

    def ask(
        self,
        storage: Storage,
        method: str,
        target: Target,
        arguments: Sequence[object],
        *,
        file: File | None = None,
        most_deaths: int = 1,
        user: object = None,
    ) -> Any:
        """The result of a request; see cache/fetch_process.py. `user` keeps the process until `release`. Raises the
        error of the request; RemoteError if `most_deaths` processes are killed, because the operation may be half
        done."""
        deaths = ends = 0
        while True:
            request = _Request(file)
            try:
                return self._ask(request, method, target, arguments, request if user is None else user)
            except _Died as error:
                code = error.args[0]
                if code == 0:  # it was idle, or ended for another thread
                    ends += 1
                else:
                    deaths += 1
                if deaths == most_deaths or ends == _ENDS or request.has_pieces:
                    raise RemoteError(
                        f"the process that fetches from {storage.url} ended {counted(deaths + ends, 'time')}, last "
                        f"with status {code}; -9 means that it was killed, possibly for lack of memory: try again",
                        url=storage.url,
                    ) from None

    def hint(self, target: Target, pairs: Sequence[object], user: object) -> None:
        """Requests objects in advance, and returns at once."""
        with self._changed:
            try:
                self._send(self._started(user), (None, "hint", target, (pairs,)))
            except _Died:
                return  # hints are optional

    def _ask(self, request: _Request, method: str, target: Target, arguments: Sequence[object], user: object) -> Any:
        with self._changed:
            process = self._started(user)
            self._number += 1
            number = self._number
            self._requests[number] = request
            try:
                self._send(process, (number, method, target, arguments))
                error, result = self._wait(process, request)
            finally:
                del self._requests[number]
        if error is not None:
            raise error
        return result

    def _started(self, user: object) -> _Process:
        """The process, started if necessary, and again with renewed credentials of the environment. The caller holds
        the lock."""
        self._users.add(user)
        is_outdated = self._environment != environment()
        if self._process is not None and not self._requests and (is_outdated or self._process.poll() is not None):
            self._drop()
        if self._process is None:
            import subprocess
            from multiprocessing import spawn

            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            code = _BOOTSTRAP.format(path=sys.path)
            self._messages, self._environment = Messages(), environment()
            with forks.undisturbed():
                self._process = subprocess.Popen(  # type: ignore[assignment]  # with both pipes
                    [os.fsdecode(spawn.get_executable()), *flags, "-c", code, _NAME],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                )
        assert self._process is not None
        return self._process

    def _send(self, process: _Process, message: object) -> None:
        data = memoryview(pack(message))
        try:
            while data:
                data = data[process.stdin.write(data) :]
        except BrokenPipeError:
            self._raise_died(process)
        except BaseException:  # Ctrl-C in the middle of a message: the process would wait for the rest
            if process is self._process:
                self._drop()
            raise

    def _wait(self, process: _Process, request: _Request) -> tuple[BaseException | None, Any]:
        """The answer to a request. One thread at a time reads the pipe for all threads. The caller holds the lock."""
        while request.answer is None:
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
                self._lock_again(process)
            if process is not self._process:
                process.stdout.close()  # dropped by another thread
                continue
            if data is None:
                continue
            if not data:
                self._raise_died(process)
            try:
                for message in messages.add(data):
                    self._take(*message)
            except BaseException:  # Ctrl-C: the answers to other threads would be lost, and they would wait forever
                if process is self._process:
                    self._drop()
                raise
        return request.answer

    def _lock_again(self, process: _Process) -> None:
        """Takes the lock after reading the pipe. After Ctrl-C while another thread has the lock, what was read is lost:
        ends the process."""
        try:
            self._changed.acquire()
            self._reading = False
        except BaseException:
            self._changed.acquire()
            self._reading = False
            if process is self._process:
                self._drop()
            raise
        finally:
            self._changed.notify_all()

    def _take(self, number: int | None, error: Any, result: Any) -> None:
        """Takes an answer. Ignores it if the requesting thread was interrupted."""
        if error == LOG:
            logging.getLogger("recstore").warning("%s", result)
            return
        request = self._requests.get(number)  # type: ignore[arg-type]
        if request is None or request.answer is not None:
            return
        if error != PIECE:
            request.answer = error, result
        elif request.file is not None:
            request.has_pieces = True
            try:
                append(request.file, result)
            except Exception as failure:  # of the requesting thread, not of the thread that reads the pipe
                request.answer = failure, None

    def _raise_died(self, process: _Process) -> NoReturn:
        """Raises _Died with the status of a process that no longer answers. The caller holds the lock."""
        if process is self._process:
            self._drop()
        raise _Died(process.returncode if process.returncode is not None else -1)

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.stdin.close()
        if not self._reading:
            process.stdout.close()  # otherwise the reading thread closes it
        try:
            process.wait(5)
        except Exception:  # subprocess.TimeoutExpired
            process.kill()
            process.wait()

    def release(self, user: object) -> None:
        """Ends the process if nobody else uses it. A later request starts another."""
        with self._changed:
            self._users.discard(user)
            if not self._users and not self._requests:
                self._drop()

    def close(self) -> None:
        """Ends the process, unless another thread is using it."""
        if self._changed.acquire(blocking=False):
            self._drop()
            self._changed.release()


HELPER = Helper()  # of this process
atexit.register(HELPER.close)


def fork_safe(method: _Method) -> _Method:
    """Decorates a method of a Storage that needs network clients: in a forked process, the helper process runs it."""

    @functools.wraps(method)
    def call(self: Storage, *arguments: Any) -> Any:
        global _uses_clients
        if not _delegates:
            _uses_clients = True
            return method(self, *arguments)
        *positional, file = arguments if method.__name__ == "read_into" else (*arguments, None)
        positional = [bytes(data) if isinstance(data, (memoryview, bytearray)) else data for data in positional]
        return HELPER.ask(self, method.__name__, (pickle.dumps(self), None, None), positional, file=file)

    return call  # type: ignore[return-value]


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
    global _delegates
    _delegates = _delegates or _uses_clients
    HELPER.forget()


os.register_at_fork(after_in_child=_after_fork)
