"""ReadAhead: results in order, a bounded number ahead, and threads that end with it. The threads of a test wait for
each other with events; the deadlines only end a test that hangs."""

import gc
import itertools
import os
import signal
import sys
import threading
import weakref

import pytest
import waiting
from waiting import LIMIT_S, together

from recstore.errors import ClosedError

pytest.importorskip("torch", reason="needs PyTorch (pip install recstore[torch])")

from interrupts import interrupt_at
from torch_batches import all_ended, no_thread_left, threads  # noqa: F401

from recstore.torch.read_ahead import ReadAhead


class Drawing:
    """An iterable of numbers that counts how many were drawn."""

    def __init__(self, n):
        self.n = n
        self.drawn = 0

    def __iter__(self):
        for i in range(self.n):
            self.drawn += 1
            yield i


def square(i):
    return i * i


def generate(n):
    for i in range(n):  # noqa: UP028 - an interrupt must be able to hit a line
        yield i


# ---- Results ----


def test_the_queue_stays_short_while_results_wait():
    it = ReadAhead(square, range(200), ahead=4)
    for i, result in enumerate(it):
        assert result == i * i
        while len(it._shared.results) < min(4, 199 - i):
            threading.Event().wait(0.001)
        assert it._shared.arrivals.qsize() <= 5


@pytest.mark.parametrize("ahead", [0, 1, 2, 100])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_results_in_order(ahead, count):
    for n in (0, 1, 3, 50):
        it = ReadAhead(square, range(n), ahead, count)
        assert list(it) == [i * i for i in range(n)]
        assert threads() == []
        assert list(it) == []  # stays exhausted


def test_order_is_kept_if_a_later_read_ends_first():
    second_done = threading.Event()

    def read(i):
        if i == 0:
            assert second_done.wait(LIMIT_S)
        elif i == 1:
            second_done.set()
        return i

    assert list(ReadAhead(read, range(6), ahead=2, threads=2)) == list(range(6))


@pytest.mark.parametrize("ahead", [1, 3])
def test_the_number_ahead_is_bounded(ahead):
    orders = Drawing(100)
    it = ReadAhead(square, orders, ahead)
    assert orders.drawn == 0
    for i in range(20):
        assert next(it) == i * i
        assert orders.drawn == i + 1 + ahead
    it.close()
    assert orders.drawn == 20 + ahead


def test_threads_start_with_the_first_next_and_no_more_than_needed():
    it = ReadAhead(square, range(10), ahead=2, threads=8)
    assert threads() == []
    next(it)
    assert 1 <= len(threads()) <= 3
    it.close()
    assert threads() == []


def test_without_reading_ahead_the_caller_reads():
    threads_used = list(ReadAhead(lambda i: threading.current_thread(), range(3), ahead=0))
    assert threads_used == [threading.current_thread()] * 3


def test_several_threads_may_take_the_results():
    it = ReadAhead(square, range(400), ahead=4, threads=2)
    results = []

    def take():
        results.extend(it)

    takers = [threading.Thread(target=take) for _ in range(4)]
    together(takers)
    assert sorted(results) == [i * i for i in range(400)]


class Result:
    pass


def test_no_thread_keeps_a_result_alive():
    it = ReadAhead(lambda i: Result(), range(3), ahead=1)
    results = [weakref.ref(next(it)) for _ in range(3)]
    gc.collect()
    assert [ref() for ref in results] == [None] * 3
    it.close()


def test_each_thread_begins_once():
    begun, barrier = [], threading.Barrier(2)

    def read(i):
        if i < 2:
            barrier.wait(LIMIT_S)
        return begun.count(threading.get_ident())

    it = ReadAhead(read, range(10), ahead=4, threads=2, begin=lambda: begun.append(threading.get_ident()))
    assert list(it) == [1] * 10
    assert len(begun) == len(set(begun)) == 2


# ---- Errors ----


def fail_at_three(i):
    if i == 3:
        raise KeyError("three")
    return i


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_an_error_is_raised_in_order_and_the_rest_follows(ahead):
    it = ReadAhead(fail_at_three, range(6), ahead, threads=2)
    assert [next(it) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three") as caught:
        next(it)
    assert caught.traceback[-1].name == "fail_at_three"
    assert list(it) == [4, 5]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_any_kind_of_exception_reaches_the_caller(kind):
    def read(i):
        raise kind("of a thread")

    pytest.raises(kind, lambda: next(ReadAhead(read, range(3)))).match("of a thread")


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_stop_iteration_in_the_function_is_an_error(ahead):
    it = ReadAhead(lambda i: next(iter(())), range(3), ahead)
    pytest.raises(RuntimeError, lambda: list(it)).match("reading a record raised StopIteration")


@pytest.mark.parametrize("ahead", [0, 2, 9])
def test_an_error_in_the_orders_comes_after_the_results_before_it(ahead):
    def orders():
        yield from range(3)
        raise OSError("no more")

    it = ReadAhead(square, orders(), ahead)
    assert [next(it) for _ in range(3)] == [0, 1, 4]
    pytest.raises(OSError, lambda: next(it)).match("no more")
    assert list(it) == []


def test_an_error_in_begin_is_raised_for_a_result():
    failures = [OSError("no device")]

    def begin():
        if failures:
            raise failures.pop()

    it = ReadAhead(square, range(3), begin=begin)
    pytest.raises(OSError, lambda: next(it)).match("no device")
    assert list(it) == [1, 4]


def test_a_thread_that_cannot_start_loses_no_order(monkeypatch):
    start, failed = threading.Thread.start, []

    def fail_once(self):
        if not failed:
            failed.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    it = ReadAhead(square, range(4))
    pytest.raises(RuntimeError, lambda: next(it)).match("can't start new thread")
    assert list(it) == [0, 1, 4, 9]


def test_an_interrupted_wait_loses_no_result():
    """After Ctrl-C interrupts a next() that waits, the following next() returns the same result."""
    interrupted = threading.Event()

    def read(i):
        if i == 1:
            waiting.until(lambda: results)  # the interrupt must not hit the loop while it keeps the result before
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupted.wait(LIMIT_S)
        return i

    results = []
    it = ReadAhead(read, range(4), ahead=1)
    with pytest.raises(KeyboardInterrupt):
        while True:
            results.append(next(it))
    interrupted.set()
    assert results + list(it) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [range, generate], ids=["range", "generator"])
def test_an_interrupt_at_any_line_is_raised_at_once_and_loses_no_order_in_silence(kind):
    """It may lose the result that next() was about to return."""

    def chosen(code):
        return code.co_name in ("_read_ahead", "_hand_out", "_end", "generate")

    expected = [0, 1, 4, 9, 16]
    for number in itertools.count(1):
        it = ReadAhead(square, kind(5), ahead=1)
        results = [next(it)]  # starts the thread
        try:
            with interrupt_at(number, chosen) as events:
                results.extend(it)
            break
        except KeyboardInterrupt:
            n, rest = len(results), []
        try:
            rest.extend(it)
            assert rest in (expected[n:], expected[n + 1 :]), events[-1]
        except KeyboardInterrupt:  # again: it has ended the orders, or came with the last one
            assert rest in [expected[i:j] for i in (n, n + 1) for j in range(i, 6)], events[-1]
            assert events[-1][0] in ("_hand_out", "generate")
        assert results == expected[:n]
    assert number > 50


# ---- Ends ----


def test_close_ends_the_threads_and_next_raises():
    it = ReadAhead(square, range(100), ahead=4, threads=3)
    next(it)
    it.close()
    assert threads() == []
    pytest.raises(ClosedError, lambda: next(it)).match("closed")
    it.close()
    unused = ReadAhead(square, range(3))
    unused.close()
    pytest.raises(ClosedError, lambda: next(unused))


def test_close_drops_orders_that_wait():
    began, go = threading.Event(), threading.Event()
    read = []

    def slow(i):
        read.append(i)
        began.set()
        assert go.wait(LIMIT_S)

    it = ReadAhead(slow, range(100), ahead=5)
    taker = threading.Thread(target=lambda: pytest.raises(ClosedError, next, it))
    taker.start()
    assert began.wait(LIMIT_S)
    closer = threading.Thread(target=it.close)
    closer.start()
    taker.join(LIMIT_S)
    assert not taker.is_alive()  # close() wakes a next() that waits
    go.set()
    closer.join(LIMIT_S)
    assert read == [0]


def test_break_del_and_an_exception_end_the_threads():
    for i in ReadAhead(square, range(100), threads=2):
        if i == 4:
            break
    assert all_ended()
    it = ReadAhead(square, range(100))
    next(it)
    del it
    assert all_ended()
    with pytest.raises(ZeroDivisionError):
        for i in ReadAhead(square, range(100)):
            1 / i
    gc.collect()
    assert all_ended()


def test_collected_within_one_of_its_threads():
    holder, ready = [], threading.Event()

    def read(i):
        assert ready.wait(LIMIT_S)
        holder.clear()
        gc.collect()
        return i

    holder.append(ReadAhead(read, range(5), ahead=1))
    holder[0]._hand_out()  # next() calls it too, but would hold a reference
    ready.set()
    assert all_ended() and holder == []


def test_collected_in_a_cycle():
    it = ReadAhead(square, range(50), ahead=3)
    next(it)
    it.itself = it
    del it
    gc.collect()
    assert all_ended()


def test_close_within_a_read_does_not_deadlock():
    def read(i):
        it.close()
        return i

    it = ReadAhead(read, range(3), ahead=1)
    pytest.raises(ClosedError, lambda: next(it))
    assert all_ended()


# ---- Processes ----


# Each program runs in a forked child, because importing torch takes long. The child exits like any program.
PROGRAMS = """
import atexit, gc, os, sys, threading, warnings
from recstore.errors import ClosedError
from recstore.torch import read_ahead
from recstore.torch.read_ahead import ReadAhead
warnings.simplefilter("ignore")
gc.freeze()  # the exit of each child collects garbage, which takes long among the objects of torch
began, go = threading.Event(), threading.Event()

def read_when_told(i):
    if i:
        began.set()
        go.wait()
        print("read", flush=True)
    return i

def during_a_read():
    read_ahead._EXIT_TIMEOUT = 0.05
    it = ReadAhead(read_when_told, range(9))
    print(next(it))
    began.wait()

def waits_for_a_read():
    it = ReadAhead(read_when_told, range(9), ahead=1)
    next(it)
    began.wait()
    atexit.register(go.set)  # runs before the functions that were registered earlier

def unfinished():
    iterators = [ReadAhead(lambda i: i, range(1000), ahead=3, threads=2) for _ in range(3)]
    print([next(it) for it in iterators])

def uncaught():
    for i in ReadAhead(lambda i: i, range(1000)):
        1 / (i - 5)

def next_after_exit():
    def late():
        try:
            list(it)
        except ClosedError as error:
            print(error, flush=True)
    atexit.unregister(read_ahead._close_all)
    atexit.register(late)
    atexit.register(read_ahead._close_all)  # atexit runs the last registered function first
    it = ReadAhead(lambda i: i, range(1000), ahead=3, threads=2)
    next(it)

def forks():
    it = ReadAhead(lambda i: i, range(100), ahead=3, threads=2)
    next(it)
    it._lock.acquire()  # as if another thread were in next()
    if os.fork() == 0:
        try:
            next(it)
        except RuntimeError as error:
            print("parent" in str(error), flush=True)
        it.close()
        print(sum(ReadAhead(lambda i: i, range(100))), threading.active_count(), flush=True)
        own = ReadAhead(lambda i: i, range(100))
        next(own)
        del it
        sys.exit(7)  # with its own iterator unfinished
    print(os.waitstatus_to_exitcode(os.wait()[1]))
    it._lock.release()
    print(sum(it))

for program in (during_a_read, waits_for_a_read, unfinished, uncaught, next_after_exit, forks):
    print(program.__name__, flush=True)
    if os.fork() == 0:
        program()
        sys.exit()
    print("exit status", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_how_programs_end(tmp_path):
    done = waiting.python("-c", PROGRAMS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *("during_a_read", "0", "exit status 0"),
        *("waits_for_a_read", "read", "exit status 0"),
        *("unfinished", "[0, 0, 0]", "exit status 0"),
        *("uncaught", "exit status 1"),
        *("next_after_exit", "this iterator was closed at the end of the program", "exit status 0"),
        *("forks", "True", "4950 1", "7", "4950", "exit status 0"),
    ]
    assert done.stderr.count("Traceback") == 1 and done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_no_thread_starts_during_interpreter_shutdown(monkeypatch):
    """Such a thread would never run, and start() would hang."""
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    callers = []
    reading = ReadAhead(lambda i: callers.append(threading.current_thread()) or i, range(9), ahead=3, threads=2)
    assert list(reading) == list(range(9)) and set(callers) == {threading.current_thread()}
