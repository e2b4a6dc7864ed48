"""Building in a child that exits: the objects that a build makes never exist in the process that trains.

The child is forked, so that `build` needs no pickling, and lives no longer than its parent wants: it holds a pipe whose
other end is the parent's, and ends when that end closes, by the parent's will or its death. It publishes the segment
and waits; the parent attaches, and then lets go.
"""

import os
import sys

from recstore.errors import BuildError

_DONE = b"\0done"


class ChildDied(BuildError):
    """The child was killed: nobody knows whether it would be again."""

    __module__ = "recstore"


def build(work, attach, what):
    """Runs work() in a child, then attach() here, and returns what that returns. BuildError with the child's
    traceback."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ours, theirs = os.pipe()
    life, held = os.pipe()
    pid = _fork()
    if pid == 0:
        _child(work, theirs, life, (ours, held))
    alive = True
    try:
        os.close(theirs)
        os.close(life)
        said = b""
        while not said.endswith(_DONE):
            part = os.read(ours, 1 << 16)
            if not part:
                break
            said += part
        if said.endswith(_DONE):
            return attach()
        _, status = os.waitpid(pid, 0)
        alive = False
        if os.WIFSIGNALED(status) or not said:
            how = (
                f"was killed by signal {os.WTERMSIG(status)}"
                if os.WIFSIGNALED(status)
                else f"ended with status {os.WEXITSTATUS(status)}"
            )
            raise ChildDied(f"the child process {pid} that was building {what} {how}; for lack of memory perhaps")
        raise BuildError(f"building {what} failed in the child process {pid}:\n{said.decode('utf-8', 'replace')}")
    finally:
        os.close(ours)
        os.close(held)
        if alive:
            _reap(pid)


def _fork():
    import warnings

    with warnings.catch_warnings():
        # Python warns of forking with threads. The child runs `build` and nothing that another thread may have been in.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _reap(pid):
    """Waits for a child that has been let go of, and no longer than it deserves."""
    import time

    for delay in (0.001, 0.01, 0.05, 0.2, 0.7):
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return
        except ChildProcessError:
            return  # somebody else's SIGCHLD handler was faster
        time.sleep(delay)
    os.kill(pid, 9)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return


def _child(work, result, life, parents):
    """Never returns."""
    import _thread

    status, held = 1, None
    try:
        for fd in parents:
            os.close(fd)
        ending = _thread.allocate_lock()
        _thread.start_new_thread(_end_with_parent, (life, ending))
        held = work()
        ending.acquire()  # from here on this thread ends the process, for it has a name to remove first
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os.write(result, _DONE)
        os.read(life, 1)  # the lease is held until the parent has its own
        status = 0
    except Exception:
        import traceback

        os.write(result, traceback.format_exc()[-60000:].encode("utf-8", "replace"))
    finally:
        # Its name goes, unless the parent has a lease: also where a Ctrl-C was for this process, too.
        held = None  # noqa: F841
        os._exit(status)


def _end_with_parent(life, ending):
    os.read(life, 1)
    ending.acquire()
    os._exit(0)
