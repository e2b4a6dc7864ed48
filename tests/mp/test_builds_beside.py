"""Builds with workers in programs with concurrent builds, forked children and ignored signals."""

import multiprocessing
import os
import signal
import threading

from mp import shard_kinds as kinds
from waiting import LIMIT_S

from recstore import RecordList
from recstore.building import build_workers, parallel_build


class NotifyingLock:
    """A lock that sets an event when a thread waits for it."""

    def __init__(self, waited):
        self.lock, self.waited = threading.Lock(), waited

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.waited.set()
            self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_a_worker_has_no_pipe_of_a_concurrent_build(forking, monkeypatch):
    """A pipe may be created while another thread starts a worker. Nobody would close a copy in the worker."""
    context, created, went_on, pipes = multiprocessing.get_context(), threading.Event(), threading.Event(), []

    class DelayedContext:
        """A context whose first pipe is returned when the other thread has built or waits for the lock."""

        Process = context.Process

        def Pipe(self, duplex):
            ends = context.Pipe(duplex)
            if threading.current_thread() is threading.main_thread() and not created.is_set():
                pipes.extend(os.readlink(f"/proc/self/fd/{end.fileno()}") for end in ends)
                created.set()
                assert went_on.wait(LIMIT_S)
            return ends

    def build():
        created.wait(LIMIT_S)
        with RecordList([kinds.Descriptors()], workers=1) as x:
            pipes.append([link for link in x if link in pipes])
        went_on.set()

    monkeypatch.setattr(parallel_build, "get_context", DelayedContext)
    monkeypatch.setattr(build_workers, "forking", NotifyingLock(went_on))
    builder = threading.Thread(target=build, daemon=True)
    builder.start()
    with RecordList([kinds.Rows(0, 1)], workers=1):
        builder.join()
    assert len(pipes) == 3 and pipes[-1] == []


def test_a_child_forked_during_a_build_can_build(forking):
    """A thread that does not exist in the child held the lock of builds."""
    held, leave = threading.Event(), threading.Event()

    def hold():
        with build_workers.forking:
            held.set()
            leave.wait()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            with RecordList([kinds.Rows(0, 5)], workers=1) as x:
                status = len(x)
        finally:
            os._exit(status)
    leave.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


def test_a_program_that_ignores_sigchld(python):
    """The kernel then discards exit statuses."""
    code = """
import signal
from mp import shard_kinds as kinds
from recstore import RecordList
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(len(RecordList([kinds.Rows(0, 5), kinds.Rows(5, 7)], workers=2)))
"""
    assert python(code) == "7\n"
