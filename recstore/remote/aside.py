"""Storage operations in a freshly executed process, for a process that was forked from one with network clients.

Both talk through two pipes: a message is a pickle after eight bytes of its size, and one request is answered before the
next. Where that breaks off, because a signal handler raised or the process was killed, the process is ended, and the
next request starts another one: no request ever gets the answer of an earlier one. The process ends with the one that
started it, also where that is killed and its own children hold the pipes.
"""

import os
import pickle
import subprocess
import sys
import threading
import time

from recstore._core import forks
from recstore.errors import RemoteError
from recstore.remote.objects import unwritten

_LOOK = 1.0  # seconds between two looks whether the process that asks is still there
_asked = False  # whether this process, or one that it was forked from, has asked for network clients
_forked = False  # whether it was forked from one that had
_own = None  # the Aside of this process
_starting = threading.Lock()


def of_forked():
    """None for a process that may have network clients: the one that calls this first, or a freshly executed one. For a
    process that was forked from such a one, the Aside that has them. Safe from several threads at once."""
    global _asked, _own
    if not _forked:
        _asked = True
        return None
    with _starting:
        if _own is None:
            _own = Aside()
        return _own


def _after_fork():
    global _forked, _own
    _starting._at_fork_reinit()
    _forked = _forked or _asked
    if _own is not None:
        _own._forget()
        _own = None


os.register_at_fork(after_in_child=_after_fork)


class Aside:
    """A process that does storage operations. Safe from several threads at once; it does one at a time."""

    def __init__(self):
        self._process = None
        self._lock = threading.Lock()

    def call(self, storage, method, *arguments):
        """The result of a method of the storage there; its exception."""
        arguments = [bytes(one) if isinstance(one, (memoryview, bytearray)) else one for one in arguments]
        with self._lock:
            try:
                self._ask(storage, method, arguments)
                done, value = self._answer()
            except BaseException:
                self._end()
                raise
        if not done:
            raise value
        return value

    def read_into(self, storage, name, file):
        """As Storage.read_into: the pieces come one by one."""
        with self._lock:
            try:
                self._ask(storage, "read_into", (name,))
                failure = None
                while isinstance((answer := self._answer())[1], bytes):
                    try:
                        if failure is None:
                            file.write(answer[1])
                    except OSError as error:  # the pieces that are on their way must be taken all the same
                        failure = error
            except BaseException:
                self._end()
                raise
        if failure is not None:
            raise unwritten(failure, file)
        done, value = answer
        if not done:
            raise value
        return value

    def _ask(self, storage, method, arguments):
        if self._process is None:
            self._start()
        data = memoryview(_packed((pickle.dumps(storage), method, arguments)))
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except BrokenPipeError:
            raise self._died() from None

    def _answer(self):
        size = int.from_bytes(self._taken(8), "little")
        return pickle.loads(self._taken(size))

    def _taken(self, size):
        """So many bytes of the answer."""
        data = bytearray(size)
        left = memoryview(data)
        while left:
            n = self._process.stdout.readinto(left)
            if not n:
                raise self._died()
            left = left[n:]
        return data

    def _start(self):
        # Before the path is set, a module could be one of the current folder.
        code = f"import sys; sys.path[:] = {sys.path!r}; from recstore.remote.aside import serve; serve({os.getpid()})"
        # Without buffers, which a child would flush when it closes its copies.
        with forks.undisturbed():
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )

    def _died(self):
        return RemoteError(f"the process that reads and writes objects has ended with status {self._end()}: try again")

    def _end(self):
        """Ends the process, if there is one. Returns its status."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.stdin.close()
        process.stdout.close()
        process.kill()
        return process.wait()

    def _forget(self):
        """In a forked child: closes the ends of the parent's pipes, or the process would live as long as the child."""
        process, self._process = self._process, None
        if process is not None:
            process.stdin.close()
            process.stdout.close()
            process.returncode = 0  # no child of this process: nothing waits for it


def _packed(message):
    data = pickle.dumps(message, 5)
    return len(data).to_bytes(8, "little") + data


class _Pieces:
    """A file that sends what is written to it."""

    def __init__(self, send):
        self.send = send

    def write(self, data):
        self.send(True, bytes(data))


def _end_with(parent):
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(0)


def serve(parent):
    """The main function of the process, which ends with the process of the id `parent`."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if sys.stderr is None:  # closed in the parent
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    # What a library prints must not come among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    storages = {}

    def send(done, value):
        answers.write(_packed((done, value)))
        answers.flush()

    while size := sys.stdin.buffer.read(8):
        key, method, arguments = pickle.loads(sys.stdin.buffer.read(int.from_bytes(size, "little")))
        if method == "read_into":
            arguments = *arguments, _Pieces(send)
        try:
            if key not in storages:  # which keeps its clients
                storages[key] = pickle.loads(key)
            send(True, getattr(storages[key], method)(*arguments))
        except Exception as error:
            send(False, error)
