"""Building in a fresh interpreter that exits, so that the training process never holds the Python objects of a build.

The function that builds is pickled, as with multiprocessing's "spawn", so the child has neither threads nor held locks
of this process. The child publishes the segment and waits until the parent has attached it. It reads a pipe whose other
end the parent holds, and ends when the parent closes that end or dies.

The child imports the main module only if the function comes from there. A script that builds at its top level would
otherwise build again in the child. multiprocessing.Process is not used, because a DataLoader worker, which is daemonic,
may not start such processes.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys

from recstore._core import forks
from recstore.errors import BuildError, _ChildDied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from subprocess import Popen
    from typing import Any, TypeVar

    _T = TypeVar("_T")

_DONE = b"\0done"
_MAIN = ("__main__", "__mp_main__")
_POLL_MS = 200  # milliseconds between two checks of whether the child has ended
# Ctrl-C signals all processes of a terminal. The parent decides whether the build continues, so the child ignores it.
# It has a handler instead of SIG_IGN, because programs that the build starts would inherit SIG_IGN.
_BOOTSTRAP = """
import sys
sys.path[:] = {path!r}
import signal
signal.signal(signal.SIGINT, lambda *_: None)
signal.pthread_sigmask(signal.SIG_SETMASK, {mask})
from recstore.building.isolated_build import _child
_child({result}, {life})
"""

importing_main = False  # whether this process is a child that is importing the main module


def build(first: Callable[[], object], work: Callable[[], object], attach: Callable[[], _T], store: str) -> _T:
    """Calls `first` and then `work` in a fresh interpreter. Then calls `attach` in this process and returns its result.

    `first` and `work` are pickled. `first` is called before the main module is imported for `work`; `store` is the name
    of the store in messages. Raises BuildError if the child fails or dies, and TypeError if `work` cannot be sent.
    """
    job = _Job(first, work)
    result_reader, result_writer = os.pipe()
    life_reader, life_writer = os.pipe()
    child = None
    try:
        with forks.undisturbed():
            # The child inherits the mask, so that a Ctrl-C cannot hit the child before it has its handler.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                child = _start(job, result_writer, life_reader, {int(number) for number in before})
            finally:
                os.close(result_writer)
                os.close(life_reader)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        answer = _talk(job, result_reader, life_writer, child)
        if answer.endswith(_DONE):
            return attach()
        status = child.wait()
        if status < 0 or not answer:
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise _ChildDied(
                f"the child process {child.pid} that was building {store} {how}; perhaps for lack of memory"
            )
        text = answer.decode("utf-8", "replace")
        raise BuildError(f"building {store} failed in the child process {child.pid}:\n{text}")
    finally:
        os.close(result_reader)
        os.close(life_writer)
        if child is not None:
            _reap(child)


def _talk(job: _Job, result: int, life: int, child: Popen[bytes]) -> bytes:
    """Sends the job to the child and returns the bytes that the child writes, up to _DONE or its end.

    Processes that the child started may keep a pipe open after the child has ended.
    """
    data, answer = memoryview(job.packed), b""
    os.set_blocking(life, False)
    try:
        while data and _is_ready(life, select.POLLOUT, child):
            data = data[os.write(life, data) :]
    except BrokenPipeError:
        pass  # the child has ended; its message or its status says why
    while not answer.endswith(_DONE) and _is_ready(result, select.POLLIN, child):
        part = os.read(result, 1 << 16)
        if not part:
            break
        answer += part
    return answer


def _is_ready(fd: int, event: int, child: Popen[bytes]) -> bool:
    """Waits for an event of a pipe. Returns False if the child has ended and no event is left."""
    poller = select.poll()
    poller.register(fd, event)
    while True:
        ended = child.poll() is not None
        if poller.poll(0 if ended else _POLL_MS):
            return True
        if ended:
            return False


def _start(job: _Job, result: int, life: int, mask: set[int]) -> Popen[bytes]:
    import subprocess
    from multiprocessing import spawn

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    code = _BOOTSTRAP.format(mask=mask - {signal.SIGINT} or "()", path=job.path, result=result, life=life)
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing takes them
    return subprocess.Popen(
        [os.fsdecode(spawn.get_executable()), *flags, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=(result, life, *job.fds),
    )


def _reap(child: Popen[bytes]) -> None:
    """Waits for a child whose pipe is closed, and kills it if it does not end within a second."""
    import subprocess

    try:
        child.wait(1)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


# ---- The job ----


class _Job:
    """A pickled function, with the data that the child needs before it can unpickle it.

    During pickling the job acts as the Popen object of multiprocessing's "spawn": stores, locks and connections among
    the function's arguments pass their descriptors through it.
    """

    def __init__(self, first: Callable[[], object], work: Callable[[], object]) -> None:
        from multiprocessing import context, spawn

        if getattr(sys, "frozen", False):
            raise TypeError("isolate=True starts a Python interpreter; a frozen program has none, so use isolate=False")
        self.fds: list[int] = []
        outer = context.get_spawning_popen()
        context.set_spawning_popen(self)  # type: ignore[arg-type]
        try:
            data, uses_main = _pickled(work)
        finally:
            context.set_spawning_popen(outer)
        setup = spawn.get_preparation_data("recstore build")
        setup["authkey"] = bytes(setup["authkey"])
        if not uses_main:
            for key in ("init_main_from_name", "init_main_from_path"):
                setup.pop(key, None)
        elif not setup.keys() & {"init_main_from_name", "init_main_from_path"}:
            raise TypeError(_cannot("it is defined in a notebook, a shell or `python -c`, which cannot be imported"))
        self.path = setup["sys_path"]
        packed = pickle.dumps((first, setup, data), 5)
        self.packed = len(packed).to_bytes(8, "little") + packed

    def duplicate_for_child(self, fd: int) -> int:
        self.fds.append(fd)
        return fd

    class DupFd:
        """A passed descriptor, which has the same number in the child."""

        def __init__(self, fd: int) -> None:
            self.fd = fd

        def detach(self) -> int:
            return self.fd


def _pickled(work: object) -> tuple[bytes, bool]:
    """`(pickle, whether it names the main module)`. Raises TypeError if `work` cannot be pickled."""
    import io
    from multiprocessing.reduction import ForkingPickler

    of_main = []

    class Pickler(ForkingPickler):
        def reducer_override(self, value: object) -> Any:
            if getattr(value, "__module__", None) in _MAIN:
                of_main.append(value)
            return NotImplemented

    out = io.BytesIO()
    try:
        Pickler(out, 5).dump(work)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(_cannot(str(error))) from error
    return out.getvalue(), bool(of_main)


def _cannot(why: str) -> str:
    return (
        f"isolate=True builds in a fresh interpreter, and build cannot be sent there: {why}; move the function to the "
        "top of a module, with its arguments in functools.partial, or use isolate=False"
    )


# ---- In the child ----


def _child(result: int, life: int) -> None:
    """The main function of the child. It ends the process and never returns."""
    import _thread

    status, store = 1, None
    try:
        first, setup, data = pickle.loads(_read(life, int.from_bytes(_read(life, 8), "little")))
        ending = _thread.allocate_lock()
        _thread.start_new_thread(_end_with_parent, (life, ending))
        first()
        _prepare(setup)
        store = pickle.loads(data)()
        ending.acquire()  # from now on only this thread ends the process, after it has removed the segment's name
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os.write(result, _DONE)
        os.read(life, 1)  # this process keeps its lease until the parent has one
        status = 0
    except BaseException:  # SystemExit too: only this line reports it to the parent
        import traceback

        os.write(result, traceback.format_exc()[-60000:].encode("utf-8", "replace"))
    finally:
        store = None  # noqa: F841 - this removes the store's name, unless the parent has a lease
        os._exit(status)


def _read(fd: int, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        part = os.read(fd, min(size - len(out), 1 << 20))
        if not part:
            os._exit(1)  # the parent has ended
        out += part
    return bytes(out)


def _prepare(setup: dict[str, Any]) -> None:
    """Sets the parent's arguments, working folder, start method and main module in this process."""
    global importing_main
    from multiprocessing import process, spawn

    from recstore.building import build_workers

    importing_main = True
    process.current_process()._inheriting = True  # type: ignore[attr-defined]  # forbids starting children
    try:
        spawn.prepare(setup)
    finally:
        importing_main = False
        del process.current_process()._inheriting  # type: ignore[attr-defined]
    build_workers.be_main()


def _end_with_parent(life: int, ending: LockType) -> None:
    os.read(life, 1)
    ending.acquire()
    os._exit(0)
