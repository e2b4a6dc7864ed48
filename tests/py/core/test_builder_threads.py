"""Threads write full blocks while the next block is filled: the bytes are the same as without threads, errors surface,
and nothing stays behind however a build ends."""

import os
import signal
import threading
import time

import descriptors
import interpreters
import numpy as np
import pytest
import waiting
from segment_bytes import content

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native

BLOCK = 65536

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")


def native_threads(limit=None):
    """Returns the number of threads that Python did not start. A joined thread may stay in /proc for a moment, so this
    waits up to LIMIT_S for the number to fall to `limit`."""
    end = time.monotonic() + waiting.LIMIT_S
    while True:
        n = len(set(map(int, os.listdir("/proc/self/task"))) - {thread.native_id for thread in threading.enumerate()})
        if limit is None or n <= limit or time.monotonic() > end:
            return n
        time.sleep(0.001)


def mixed(n):
    base = np.arange(300.0)
    for i in range(n):
        kind = i // BLOCK % 4
        yield (i, {"id": i, "a": "x" * (i % 5)}, [0.5 * i, None], str(i) if i % 100 else base + i)[kind]


CASES = [*((n, "auto") for n in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1)),
         *((5 * BLOCK + 77, compression) for compression in ("none", "fast", "auto", "small"))]  # fmt: skip


def built_by_threads(records, make=native.Builder, **options):
    """Yields the content of builds of `records()` with several numbers of threads."""
    for threads in (0, 1, 3, 8):
        builder = make("anonymous", threads=threads, **options)
        builder.extend(records())
        finished = builder.finish()
        segment, *dead = finished if isinstance(finished, tuple) else (finished,)
        yield content(segment), segment.blocks(), segment.records, dead
        segment.close()


@pytest.mark.parametrize(("n", "compression"), CASES)
def test_the_bytes_of_a_list_are_the_same(n, compression):
    first, *others = built_by_threads(lambda: mixed(n), compression=compression)
    assert all(other == first for other in others)


def patterned(i, n, word):
    """A string of one pattern, whose last part of the store breaks rules that hold before."""
    late = i > n - 200
    code, size = i * 7919 % 9973, (3000 if late else i % 200)
    again = code + 1 if late and i % 3 == 0 else code
    text = f"/data/{'new' if late else 'old'}/{word}{i % 37}/{code}-{again:05}-{size} at {i // 60 % 24:02}:{i % 60:02}"
    return f"no pattern, {i}" if i % 97 == 0 else text


@pytest.mark.parametrize("word", ["box", "κουτί"])
def test_the_bytes_of_strings_of_one_pattern_are_the_same(word):
    strings = [patterned(i, 30_000, word) for i in range(30_000)]
    first, *others = built_by_threads(lambda: strings)
    assert all(other == first for other in others)
    with RecordList(strings) as x:
        assert list(x) == strings and "concat" in str(x.info())


def test_the_bytes_of_a_mapping_are_the_same(monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)  # the seed of the hashes

    def pairs():
        return ((i * 7 % 200_000 if i % 2 else f"key {i}", value) for i, value in enumerate(mixed(3 * BLOCK)))

    first, *others = built_by_threads(pairs, native.MappingBuilder)
    assert all(other == first for other in others)


def test_giant_records_between_full_blocks():
    records = [*range(BLOCK), bytes(40 << 20), *range(BLOCK), np.arange(6_000_000), "x" * (17 << 20), 5]
    with RecordList(records) as x:
        assert len(x) == len(records) and x[BLOCK] == records[BLOCK] and x[-1] == 5
        assert np.array_equal(x[2 * BLOCK + 1], records[2 * BLOCK + 1]) and x[-2] == records[-2]
        assert x[BLOCK + 1 : 2 * BLOCK + 1] == list(range(BLOCK))


@needs_proc
def test_a_small_build_starts_no_thread_and_no_build_leaves_one():
    before, python_threads = native_threads(), threading.active_count()

    def records(n):
        yield from range(n)
        assert native_threads(before) <= before  # waits: a Python thread of an earlier test may be about to end

    RecordList(records(5000)).close()
    RecordList(range(3 * BLOCK)).close()
    RecordDict((i, i) for i in range(2 * BLOCK)).close()
    assert native_threads(before) <= before
    assert threading.active_count() <= python_threads


class Broke(Exception):
    pass


@needs_proc
@pytest.mark.parametrize("error", [Broke, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_stream_that_raises_while_the_thread_is_at_work(error):
    def records():
        for i in range(2 * BLOCK):
            yield {"i": i, "s": str(i)}
            if i == BLOCK:
                raise error("now")

    before, open_files = native_threads(), descriptors.count()
    for make in (lambda: RecordList(records()), lambda: RecordDict((r["i"], r) for r in records())):
        pytest.raises(error, make).match("now")
        assert native_threads(before) <= before and descriptors.count() == open_files


@needs_proc
def test_a_builder_that_is_dropped_while_the_thread_is_at_work():
    before = native_threads()
    for make, item in ((native.Builder, ("x" * 100,)), (native.MappingBuilder, None)):
        builder = make("anonymous")
        for i in range(BLOCK):
            builder.append(*(item or (i, "y" * 50)))
        builder = None
        assert native_threads(before) <= before


def test_a_refused_record_after_many_is_named():
    with pytest.raises(recstore.errors.EncodeError, match=f"^record {2 * BLOCK + 1}: "):
        RecordList(len if i == 2 * BLOCK + 1 else {"i": i} for i in range(3 * BLOCK))
    with pytest.raises(recstore.errors.EncodeError, match=f"^entry {2 * BLOCK + 1} "):
        RecordDict((i, len if i == 2 * BLOCK + 1 else {"i": i}) for i in range(3 * BLOCK))


def test_no_space_is_the_error_of_the_build(tmp_path):
    """The build exceeds the limit on a file's size in a thread, or in `finish`."""
    code = """
import resource
from recstore import RecordDict, RecordList
resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
text = "%032x" * 20
for n in (200_000, 20_000):
    for make in (RecordList, lambda stream: RecordDict(enumerate(stream))):
        made = 0
        def stream():
            global made
            for made in range(n):
                yield text % ((made * 2654435761,) * 20)
        try:
            make(stream())
        except OSError as e:
            print(type(e).__name__, e.errno, made < n - 1 or n < 65536)
"""
    folder = tmp_path / "private"
    environment = {**os.environ, "RECSTORE_DIR": str(folder), "RECSTORE_BACKING": "dir"}
    done = waiting.python("-c", code, cwd=tmp_path, env=environment)
    assert done.stderr == "" and done.returncode == 0
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == 4 and len(set(lines)) == 1 and lines[0].endswith(" True")
    assert list(folder.iterdir()) == []


def test_a_system_without_threads(tmp_path):
    """A limit on processes counts threads: if none can start, the main thread writes the blocks."""
    code = """
import os, resource
from recstore import RecordList
if os.getuid() == 0:
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
with RecordList(range(200_000)) as x:
    print(len(x), x[-1])
"""
    done = waiting.python("-c", code, cwd="/", env={**os.environ, "RECSTORE_BACKING": "anonymous"})
    assert (done.stdout, done.stderr) == ("200000 199999\n", "")


def test_a_signal_interrupts_the_stream_and_not_the_thread():
    """The thread blocks signals: Ctrl-C reaches a sleeping stream at once, and ends the build."""
    import select

    seen = []

    def handler(number, frame):
        seen.append(threading.current_thread() is threading.main_thread())
        raise Broke("signal")

    def records():
        for i in range(BLOCK + 1):
            yield {"i": i}
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        select.select([], [], [], 30)
        yield "not reached"

    before = signal.signal(signal.SIGALRM, handler)
    try:
        pytest.raises(Broke, lambda: RecordList(records())).match("signal")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [True]


@pytest.mark.parametrize("mapping", [False, True])
def test_a_child_forked_while_the_thread_is_at_work(mapping):
    """The child may leave the build, and can build its own store; the parent's store is complete."""
    statuses = []

    def records():
        for i in range(3 * BLOCK):
            if i % 40_000 == 7 and i > BLOCK:
                pid = os.fork()
                if pid == 0:
                    raise Broke("in the child")
                statuses.append(os.waitpid(pid, 0)[1])
            yield (i, str(i)) if mapping else str(i)

    parent = os.getpid()
    try:
        with RecordDict(records()) if mapping else RecordList(records()) as x:
            assert os.getpid() == parent
            assert list(x.values() if mapping else x) == [str(i) for i in range(3 * BLOCK)]
    except Broke:
        if os.getpid() == parent:
            raise
        with RecordList(range(BLOCK + 5)) as own:
            os._exit(0 if own.to_list() == list(range(BLOCK + 5)) else 3)
    finally:
        if os.getpid() != parent:
            os._exit(2)
    assert statuses == [0] * 3


@pytest.mark.parametrize("make", [native.Builder, native.MappingBuilder])
@pytest.mark.parametrize("n", [50, BLOCK])  # with a full block, a thread is at work
def test_a_forked_child_that_goes_on_is_refused_and_does_not_hang(make, n):
    builder = make("anonymous")
    builder.extend((i, i) for i in range(n))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            builder.extend((i, i) for i in range(2 * BLOCK))
        except recstore.errors.ClosedError as e:
            status = 0 if "forked child" in str(e) else 4
            builder.abort()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    builder.extend((i, i) for i in range(n, 2 * n))
    finished = builder.finish()
    segment = finished[0] if make is native.MappingBuilder else finished
    assert segment.records == 2 * n
    segment.close()


@interpreters.measures_memory
def test_memory_of_a_build_is_bounded():
    """A build holds only a few blocks, however long the stream is."""
    code = """
from recstore import RecordList
def peak():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
before = peak()
x = RecordList({"text": "x" * 150, "i": i} for i in range(600_000))
print(peak() - before)
"""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("no /proc")
    done = waiting.python("-c", code, cwd="/", check=True)
    assert int(done.stdout) < 64 << 10, "the peak grew by this number of kB"
