"""ReadAhead: the results of a function for one order after another, made by threads ahead of the caller.

The caller draws the orders, hands them out and takes the results, so an order's source needs no lock. Both directions
are SimpleQueues, whose put() never blocks: a garbage collection may close a ReadAhead while any thread is anywhere.

Threads are daemons, for an unfinished ReadAhead must not hold up the end of the program. The interpreter must not end
under a running thread either, which may be within torch: `_close_all` sees to that.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import sys
import threading
import weakref

from recstore.errors import ClosedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    from typing_extensions import Self

# Seconds for which the end of the program waits for a thread that is within a call.
_PATIENCE = 10.0
_STOPPED = "reading a record raised StopIteration, which would end the loop: raise another exception"


class _Shared:
    """The part of a ReadAhead that its threads see. They do not keep the ReadAhead itself alive."""

    def __init__(self, read: Callable[[Any], Any], begin: Callable[[], None]) -> None:
        self.read = read
        self.begin = begin
        # (number, order), or None: a thread ends
        self.orders: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self.results: dict[int, tuple[Any, BaseException | None]] = {}  # number -> (result, None) or (None, exception)
        self.came: queue.SimpleQueue[None] = queue.SimpleQueue()  # an item for each result
        self.threads: list[threading.Thread] = []
        self.stopped = False
        self.process = os.getpid()

    def stop(self) -> None:
        """Tells the threads to end. Takes no lock."""
        self.stopped = True
        for _ in self.threads:
            self.orders.put(None)

    def join(self, timeout: float | None = None) -> None:
        """Waits for the threads. A thread that closes its own ReadAhead does not wait for itself."""
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(timeout)


_live: weakref.WeakSet[_Shared] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    shares = [shared for shared in list(_live) if shared.process == os.getpid()]
    for shared in shares:
        shared.stop()
    for shared in shares:
        shared.join(_PATIENCE)


def _serve(shared: _Shared) -> None:
    """The function of a thread. Between two orders it keeps neither a result nor an exception alive."""
    begun = False
    while True:
        task = shared.orders.get()
        if task is None or shared.stopped:
            return
        number, order = task
        try:
            if not begun:
                shared.begin()
                begun = True
            shared.results[number] = shared.read(order), None
        except BaseException as error:
            shared.results[number] = None, error
        del task, order
        shared.came.put(None)


class ReadAhead:
    """An iterator over ``read(order)`` for the orders of an iterable, in their order.

    Args:
        read: a function of one order. Threads call it, several at once.
        orders: an iterable; the thread that calls ``next`` draws from it.
        ahead: how many results may be made or ready beyond the one that ``next`` returned. 0: no threads; ``next``
            calls `read` itself.
        threads: how many threads.
        begin: a function that each thread calls first. Its exception is that of the first result; it is called again
            for the next one.

    The first ``next`` starts the threads. An exception of `read` is raised by the ``next`` whose turn it is, and later
    results follow; an exception of `orders` is raised after the results before it, and ends the iteration. ``close()``
    drops what is ahead, and waits for calls that run. Dropping the iterator closes it without waiting. Several threads
    may call ``next``.

    In a forked child, which has no copy of the threads, ``next`` raises RuntimeError. Once the program has ended the
    threads, at its exit, ``next`` gives what is ready and then raises ClosedError.
    """

    def __init__(
        self,
        read: Callable[[Any], Any],
        orders: Iterable[Any],
        ahead: int = 2,
        threads: int = 1,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._shared = _Shared(read, begin)
        self._orders = enumerate(orders)
        self._ahead = ahead
        self._threads = threads
        self._lock = threading.Lock()
        self._next = 0  # the number of the result that next() returns
        self._handed_out = 0  # the number of orders that were given to threads
        self._drawn_all = False
        self._failure: BaseException | None = None  # of drawing an order
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._shared.process != os.getpid():
            raise RuntimeError("this iterator belongs to the process that was forked: call iter() again in this one")
        with self._lock:
            if self._closed:
                raise ClosedError("this iterator was closed: iterate over the loader anew")
            # A thread that starts while the interpreter ends never runs.
            late = sys.is_finalizing() and not self._shared.threads
            return self._read_ahead() if self._ahead and not late else self._read_now()

    def _read_now(self) -> Any:
        _, order = next(self._orders)
        try:
            return self._shared.read(order)
        except StopIteration as error:
            raise RuntimeError(_STOPPED) from error

    def _read_ahead(self) -> Any:
        self._hand_out()
        shared, number = self._shared, self._next
        if number == self._handed_out:
            self._end()
        while number not in shared.results:
            if shared.stopped:
                raise ClosedError("this iterator was closed at the end of the program")
            shared.came.get()
            if self._closed:
                raise ClosedError("this iterator was closed: iterate over the loader anew")
        # One item for each result, or items of results that were there already would pile up.
        with contextlib.suppress(queue.Empty):
            shared.came.get_nowait()
        # Interrupted by a signal between any two of these, the next call goes on.
        result, error = shared.results[number]
        self._next = number + 1
        del shared.results[number]
        if error is None:
            return result
        try:
            if isinstance(error, StopIteration):  # in next() it would be the end of the loop
                raise RuntimeError(_STOPPED) from error
            raise error
        finally:
            del error  # its traceback holds this frame

    def _hand_out(self) -> None:
        """Draws orders until `ahead` are under way beyond the one that is returned now."""
        while not self._drawn_all and self._handed_out <= self._next + self._ahead:
            self._start_one()  # if this fails, no order is lost
            try:
                task = next(self._orders, None)
            except BaseException as error:
                self._failure, task = error, None
            if task is None:
                self._drawn_all = True
                for _ in self._shared.threads:
                    self._shared.orders.put(None)
                return
            self._shared.orders.put(task)
            self._handed_out += 1

    def _start_one(self) -> None:
        """Starts a further thread if there is one to start."""
        shared = self._shared
        if len(shared.threads) == self._threads:
            return
        thread = threading.Thread(target=_serve, args=(shared,), name="recstore-read-ahead", daemon=True)
        _live.add(shared)
        thread.start()
        shared.threads.append(thread)

    def _end(self) -> NoReturn:
        self._shared.join()
        failure, self._failure = self._failure, None
        raise StopIteration if failure is None else failure

    def close(self) -> None:
        """Ends the threads, after the calls that they are in. What was read ahead is dropped. ``next`` raises
        ClosedError from now on."""
        self._closed = True
        if self._shared.process == os.getpid():
            self._shared.stop()
            self._shared.came.put(None)  # for a next() that waits in another thread
            self._shared.join()
            self._shared.results.clear()

    # At the end of the program, modules have lost their names.
    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        # No waiting: a garbage collection may call this, and the thread may want a lock of the thread that collects.
        shared = getattr(self, "_shared", None)
        if shared is not None and shared.process == getpid():
            shared.stop()
