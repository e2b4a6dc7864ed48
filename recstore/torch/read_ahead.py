"""ReadAhead: an iterator whose results are computed by threads ahead of the caller.

An order describes one result. The caller's thread draws the orders, hands them to the threads and takes the results, so
the iterable of orders needs no lock. `orders` and `arrivals` are SimpleQueues, whose put() never blocks, because
garbage collection may stop a ReadAhead at any point in any thread.

The threads are daemons, since an unfinished ReadAhead must not delay the exit of the program. But the interpreter must
not end while a thread is running, perhaps within torch, so `_close_all` waits for each, up to _EXIT_TIMEOUT.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
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

_EXIT_TIMEOUT = 10.0  # seconds
_RAISED_STOP_ITERATION = "reading a record raised StopIteration, which would end the loop: raise another exception"


class _Shared:
    """The state that the threads of a ReadAhead use. They do not refer to the ReadAhead itself, so they do not keep it
    alive."""

    def __init__(self, read: Callable[[Any], Any], begin: Callable[[], None]) -> None:
        self.read = read
        self.begin = begin
        # (number, order); None ends a thread
        self.orders: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self.results: dict[int, tuple[Any, BaseException | None]] = {}  # number -> (result, None) or (None, exception)
        self.arrivals: queue.SimpleQueue[None] = queue.SimpleQueue()  # an item for each result
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
    states = [shared for shared in list(_live) if shared.process == os.getpid()]
    for shared in states:
        shared.stop()
    for shared in states:
        shared.join(_EXIT_TIMEOUT)


def _serve(shared: _Shared) -> None:
    """The main function of a thread. Between orders it keeps no result and no exception alive."""
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
        shared.arrivals.put(None)


class ReadAhead:
    """An iterator over ``read(order)`` for the orders of an iterable, in their order.

    Args:
        read: a function of one order. Several threads call it at once.
        orders: an iterable; the thread that calls ``next`` draws from it.
        ahead: how many results may be ready or in progress beyond the one that ``next`` returned. 0: no threads;
            ``next`` calls `read` itself.
        threads: how many threads read.
        begin: a function that each thread calls before its first order. If `begin` raises, the exception takes the
            place of the result, and the thread calls `begin` again before the next order.

    The first ``next`` starts the threads. An exception in `read` is raised by the ``next`` of that result; later
    results follow. An Exception in `orders` is raised after the results before it and ends the iteration. A Ctrl-C is
    raised at once, and again at the end if it has ended `orders`, as it ends a generator. ``close()`` drops the results
    ahead and waits for running calls. Dropping the iterator closes it without waiting. Several threads may call
    ``next``.

    In a forked child, which has no copy of the threads, ``next`` raises RuntimeError. When the program exits and has
    stopped the threads, ``next`` returns the results that are ready and then raises ClosedError.
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
        self._next = 0  # the number of the next result
        self._drawn: list[tuple[int, Any]] = []  # the order that is drawn and not handed out, if any
        self._handed_out = 0  # the number of orders handed to threads
        self._drawn_all = False
        self._failure: BaseException | None = None  # an exception in `orders`
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._shared.process != os.getpid():
            raise RuntimeError("this iterator belongs to the parent process: call iter() again in this process")
        with self._lock:
            self._check_open()
            # A thread that starts during interpreter shutdown never runs.
            too_late = sys.is_finalizing() and not self._shared.threads
            return self._read_ahead() if self._ahead and not too_late else self._read_now()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this iterator was closed: iterate over the loader again")

    def _read_now(self) -> Any:
        _, order = next(self._orders)
        try:
            return self._shared.read(order)
        except StopIteration as error:
            raise RuntimeError(_RAISED_STOP_ITERATION) from error

    def _read_ahead(self) -> Any:
        self._hand_out()
        shared, number = self._shared, self._next
        if number == self._handed_out:
            self._end()
        while number not in shared.results:
            if shared.stopped:
                raise ClosedError("this iterator was closed at the end of the program")
            shared.arrivals.get()
            self._check_open()
        # Each result has put an item into the queue. Take the item, so that items do not pile up.
        with contextlib.suppress(queue.Empty):
            shared.arrivals.get_nowait()
        # A signal may interrupt between any two of these lines; the next call then continues correctly.
        result, error = shared.results[number]
        self._next = number + 1
        del shared.results[number]
        if error is None:
            return result
        try:
            if isinstance(error, StopIteration):  # raised from next(), it would end the loop
                raise RuntimeError(_RAISED_STOP_ITERATION) from error
            raise error
        finally:
            del error  # its traceback holds this frame

    def _hand_out(self) -> None:
        """Hands out orders until `ahead` are handed out beyond that of the next result."""
        while not self._drawn_all and self._handed_out <= self._next + self._ahead:
            self._start_thread()  # first, because if it fails, no order is lost
            try:
                if not self._drawn:
                    # One call draws and keeps the order: a signal comes before it or after it.
                    self._drawn.extend(itertools.islice(self._orders, 1))
            except BaseException as error:
                self._failure = error
                if not isinstance(error, Exception):
                    raise
            if not self._drawn:
                self._drawn_all = True
                for _ in self._shared.threads:
                    self._shared.orders.put(None)
                return
            self._failure = None
            # If a signal interrupts here, the order may be read twice, but it is not lost.
            self._shared.orders.put(self._drawn[0])
            self._handed_out = self._drawn[0][0] + 1
            self._drawn.clear()

    def _start_thread(self) -> None:
        """Starts another thread, unless all are running."""
        shared = self._shared
        if len(shared.threads) == self._threads:
            return
        thread = threading.Thread(target=_serve, args=(shared,), name="recstore-read-ahead", daemon=True)
        _live.add(shared)
        thread.start()
        shared.threads.append(thread)

    def _end(self) -> NoReturn:
        self._shared.stop()  # again, if a signal interrupted `_hand_out`
        self._shared.join()
        failure, self._failure = self._failure, None
        raise StopIteration if failure is None else failure

    def close(self) -> None:
        """Ends the threads once their current calls return, and drops the results ahead. ``next`` then raises
        ClosedError."""
        self._closed = True
        if self._shared.process == os.getpid():
            self._shared.stop()
            self._shared.arrivals.put(None)  # for a next() that waits in another thread
            self._shared.join()
            self._shared.results.clear()

    # `getpid` is a default because module globals are gone at the exit of the program.
    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        # Does not wait: garbage collection may run this in a thread that holds a lock the reading thread needs.
        shared = getattr(self, "_shared", None)
        if shared is not None and shared.process == getpid():
            shared.stop()
