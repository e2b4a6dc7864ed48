"""Builds with workers give the bytes and errors of a build in one process, and leave nothing behind."""

import itertools
import math
import multiprocessing
import os
import pathlib
import signal
import threading
import time

import pytest
import waiting
from mp import shard_kinds as kinds
from mp.shard_kinds import cut
from mp.workers import run_worker
from segment_bytes import content
from waiting import until

import recstore
from recstore import RecordDict, RecordList
from recstore.building import parallel_build
from recstore.shm import process_identity

chained = itertools.chain.from_iterable


@pytest.fixture(params=["fork", "spawn", "forkserver"])
def method(request):
    """Sets the start method of this process, which builds use."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


# ---- The same bytes ----


def test_every_start_method_gives_the_same_bytes(method):
    parts = cut(kinds.Rows, 3000, 5)
    with RecordList(chained(parts)) as x, RecordList(parts, workers=2) as y:
        assert content(y) == content(x) and y == x and len(y) == 3000
        with RecordList([x[:500], x[500:]], workers=2) as of_stores:
            assert content(of_stores) == content(x)


@pytest.mark.parametrize(
    "kind, options",
    [(kinds.Rows, {}), (kinds.Values, {}), (kinds.Arrays, {}), (kinds.Arrays, {"compression": "none"})],
    ids=str,
)
def test_any_number_of_workers_gives_the_same_bytes(forking, kind, options):
    parts = [*cut(kind, 2000, 7), [], [1, "two"], kinds.Rows(0, 1)]
    with RecordList(chained(parts), **options) as x:
        expected = content(x)
        for workers in (1, 3, 12):
            with RecordList(iter(parts), workers=workers, **options) as y:
                assert content(y) == expected


def test_records_larger_than_batches_and_pipes(forking):
    parts = [["x" * 3_000_000, "y"], [bytes(40 << 20)], ["z"] * 3]
    with RecordList(parts, workers=2) as x:
        assert x == list(chained(parts))


def test_mappings(forking, monkeypatch):
    parts = [*cut(kinds.Pairs, 5000, 6), {"key 8": "again", "new": 1}, {}, RecordDict({1: "one", "last": 2})]
    plain = dict(chained(part.items() if hasattr(part, "items") else part for part in parts))
    monkeypatch.setattr(os, "urandom", bytes)  # the seed of the hashes
    serial = RecordDict(chained(p.items() if hasattr(p, "items") else p for p in parts), backing="anonymous")
    with serial as x, RecordDict(parts, workers=3, backing="anonymous") as y:
        assert content(y) == content(x)
        assert list(y) == list(plain) and len(y) == len(plain)
        assert y["key 8"] == "again" and y[1] == "one" and y["last"] == 2
        assert list(y["key 10"]) == list(plain["key 10"])
    parts[-1].close()


def test_keys_without_a_canonical_form(forking):
    """As in a dict, equal keys of several shards become one key, but NaNs of different shards stay different keys."""
    parts = cut(kinds.OddPairs, 300, 4)
    with RecordDict(parts, workers=2) as x:
        plain = dict(chained(parts))
        assert repr(list(x.items())) == repr(list(plain.items()))
        assert x[kinds.Key(7)] == plain[kinds.Key(7)] and sum(1 for key in x if key != key) > 5
        assert x[2, math.inf] == plain[2, math.inf]


def test_no_shards_and_empty_ones(forking):
    for make in (RecordList, RecordDict):
        for parts in ((), iter([]), [[]], [[], (), {}] if make is RecordDict else [[], ()]):
            with make(parts, workers=2) as x:
                assert len(x) == 0


def test_shards_are_streamed_to_free_workers(forking, tmp_path):
    yielded = []

    def stream():
        for i in range(6):
            yielded.append(i)
            if i == 5:
                (tmp_path / "go").touch()
            yield kinds.Waiting(str(tmp_path / "go"), [0]) if i == 0 else range(i, i + 1)

    with RecordList(stream(), workers=2) as x:
        assert x == [0, 1, 2, 3, 4, 5]
    assert yielded == [0, 1, 2, 3, 4, 5]


def test_map(method, monkeypatch):
    monkeypatch.setattr(parallel_build, "_MAPPED", 300)
    with RecordList(kinds.Rows(0, 1000)) as x:
        for view in (x, x[::-3], x.shuffled(5), x.field("name"), x[:0]):
            with view.map(repr) as expected, view.map(repr, workers=2) as y:
                assert content(y) == content(expected) and len(y) == len(view)
        with pytest.raises(TypeError, match="^map sends its function to 2 .*<lambda> cannot be pickled"):
            x.map(lambda record: 1, workers=2)


# ---- Options ----


def test_workers_is_a_number_of_processes():
    for make in (RecordList, RecordDict):
        pytest.raises(ValueError, lambda: make([], workers=-1)).match("workers .* not -1")
        for wrong in (1.0, "2", None, [2]):
            pytest.raises(TypeError, lambda: make([], workers=wrong)).match(f"workers .* not a {type(wrong).__name__}")
    with RecordList([["x"]], workers=kinds.np.int64(1)) as x:
        assert x == ["x"]


def test_without_workers_there_are_no_shards():
    with RecordList([[1], [2]], workers=0) as x:
        assert x == [[1], [2]]


def test_invalid_shards_are_refused(forking):
    for wrong in ("ab", b"ab", {"a": 1}):
        pytest.raises(TypeError, lambda: RecordList(wrong, workers=1)).match("iterable of shards|iterable of records")
    for wrong in (["ab"], [[1], {"path": "a"}], [[1], 5], [b"ab"]):
        pytest.raises(TypeError, lambda: RecordList(wrong, workers=2)).match("^shard [01] is an? (str|dict|int|bytes)")
    for wrong in ({"a": 1}, {"a": [(1, 2)]}):
        pytest.raises(TypeError, lambda: RecordDict(wrong, workers=1)).match("iterable of shards")
    pytest.raises(TypeError, lambda: RecordDict(["ab"], workers=2)).match("^shard 0 is a str")
    pytest.raises(TypeError, lambda: RecordList(5, workers=1)).match("is not iterable")
    with pytest.raises(TypeError, match="^shard 1, a generator, cannot be sent to a worker: .*generator"):
        RecordList([[1], (i for i in range(3))], workers=2)


def test_pickled_values_and_classes_are_trusted(method):
    with RecordList(cut(kinds.Pickled, 30, 3), workers=2, on_unsupported="pickle") as x:
        assert x == list(kinds.Pickled(0, 30))
    with RecordList(cut(kinds.Values, 30, 3), workers=2) as x:
        assert repr(x[20]) == repr(kinds.Values.one(20)) and type(x[20][0]) is kinds.Point
        with RecordList(kinds.Values(0, 30)) as y:
            assert content(x) == content(y) and (x.segment.reader.seen == y.segment.reader.seen)


def test_records_of_a_foreign_file_stay_foreign(forking, tmp_path):
    with RecordList([kinds.Point(1, 2.0)]) as x:
        x.save(tmp_path / "x")
    with recstore.open(tmp_path / "x") as foreign:
        with RecordList([foreign], workers=1) as x:
            assert type(x[0]) is recstore.Record and not x.segment.reader.trusted


def test_classes_that_only_exist_in_the_worker(forking):
    with pytest.raises(recstore.errors.EncodeError, match="only a worker knows.*Made.*top of a module"):
        RecordList([kinds.Local()], workers=1)


def test_arrays_as_views_and_names(forking, name):
    with RecordList(cut(kinds.Arrays, 50, 2), workers=2, arrays="view", name=name) as x:
        array = x[3]["arrays"][2]
        assert not array.flags.writeable and x.info().name == name
        with recstore.shared(name) as y:
            assert len(y) == 50
        del array


def test_progress(forking, capfd):
    pytest.importorskip("rich")
    with RecordList(cut(kinds.Rows, 100, 4), workers=2, progress=True) as x:
        assert len(x) == 100
    assert "building" in capfd.readouterr().err


# ---- Errors ----


@pytest.mark.parametrize(
    "error", [ValueError("bad line"), KeyError("k"), OSError(2, "gone"), KeyboardInterrupt("k"), SystemExit(5)]
)
def test_the_error_of_a_shard_is_raised_with_its_traceback(forking, error):
    caught = pytest.raises(type(error), lambda: RecordList([[1], kinds.Failing(0, 9, error), [2]], workers=2))
    assert caught.value.args == error.args
    assert isinstance(caught.value.__cause__, parallel_build.WorkerTraceback)
    assert "reading shard 1" in str(caught.value.__cause__) and "raise self.how" in str(caught.value.__cause__)


def test_the_first_error_in_the_order_of_shards_counts(forking, tmp_path):
    failing = [kinds.Failing(0, 3, ValueError("first")), kinds.Failing(0, 3, KeyError("second"))]
    parts = [kinds.Waiting(str(tmp_path / "go"), [0]), *failing]
    threading.Timer(0.2, (tmp_path / "go").touch).start()
    pytest.raises(ValueError, lambda: RecordList(parts, workers=3)).match("first")


def test_an_exception_that_cannot_be_unpickled(forking):
    with pytest.raises(recstore.errors.BuildError, match="(?s)shard 0 failed in a worker.*Odd: one"):
        RecordList([kinds.Failing(0, 2, "odd")], workers=1)


def test_an_error_has_the_number_of_the_record_in_the_store(forking):
    with pytest.raises(recstore.errors.EncodeError, match=r"^record 1509: \$\.a\[1\]"):
        RecordList([*cut(kinds.Rows, 1500, 3), kinds.Failing(0, 10, "value"), [1]], workers=2)
    with pytest.raises(recstore.errors.EncodeError, match=r"^entry 109 \('last'\): value \$\.a\[1\]"):
        RecordDict([{("k", i): 1 for i in range(100)}, kinds.FailingPairs(0, 10, "value")], workers=2)
    pytest.raises(TypeError, lambda: RecordDict([[([], 1)]], workers=1)).match("unhashable")
    pytest.raises(ValueError, lambda: RecordDict([[(1, 1), (1, 2, 3)]], workers=1)).match("item 1 has length 3")


def test_errors_are_the_same_as_without_workers(forking):
    deep = ()
    for _ in range(300):
        deep = (deep,)
    for records in ([1, deep], [[2], {"k": {len}}], [{deep: 2}], [{"a": 1, None: [{1, print}]}]):
        serial = pytest.raises(recstore.errors.EncodeError, lambda: RecordList(records))
        parallel = pytest.raises(recstore.errors.EncodeError, lambda: RecordList([records], workers=1))
        assert str(parallel.value) == str(serial.value)


@pytest.mark.parametrize("how, end", [("kill", "was killed by signal 9"), ("exit", "ended with status 3")])
def test_a_worker_that_dies(method, how, end):
    with pytest.raises(recstore.errors.BuildError, match=f"reading shard 1 {end}"):
        RecordList([kinds.Rows(0, 2000), kinds.Failing(0, 20_000, how), kinds.Rows(0, 10)], workers=2)


def test_a_worker_dies_while_another_would_never_end(forking):
    with pytest.raises(recstore.errors.BuildError, match="reading shard 1"):
        RecordList([kinds.Failing(0, 2, "sleep"), kinds.Failing(0, 2, "kill")], workers=2)


def test_a_shard_stream_that_raises(forking):
    def stream():
        yield kinds.Failing(0, 2, "sleep")
        raise ValueError("no more")

    pytest.raises(ValueError, lambda: RecordList(stream(), workers=2)).match("no more")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
def test_an_interrupted_build_ends_its_workers(python, number):
    """The signal comes at any moment, also while a worker is being forked. The build runs in a process of its own."""
    code = f"""
import multiprocessing, os, signal, threading
from mp import shard_kinds as kinds
from recstore import RecordList
multiprocessing.set_start_method("fork")
def interrupt(number, frame):
    raise KeyboardInterrupt
signal.signal({int(number)}, interrupt)
for delay in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1):
    timer = threading.Timer(delay, os.kill, (os.getpid(), {int(number)}))
    try:
        timer.start()
        RecordList([kinds.Failing(0, 2, "sleep")] * 3, workers=2)
    except KeyboardInterrupt:
        timer.join()
        print(multiprocessing.active_children())
"""
    assert python(code) == "[]\n" * 6


def test_a_daemonic_child_cannot_have_workers():
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=kinds.build, args=(sender, [[1], [2]], 2), daemon=True)
    process.start()
    sender.close()
    assert "may have no children: build with workers=0" in receiver.recv()
    receiver.close()
    process.join()
    process.close()


def test_a_child_that_is_not_a_daemon_may_have_workers(context):
    assert run_worker(context, kinds.build, [[1], [2]], 2) == [1, 2]


# ---- Limits and cleanup ----


def test_workers_only_read_ahead_a_limited_amount(forking, tmp_path, monkeypatch):
    monkeypatch.setattr(parallel_build, "RUN_AHEAD", 4 << 20)
    path, go = tmp_path / "progress", tmp_path / "go"
    counts = []

    def watch():
        # When the count stops, the worker of the second shard waits for the first shard, which waits for the file.
        unchanged = last = 0
        while unchanged < 100:
            count = len(path.read_text().splitlines()) if path.exists() else 0
            unchanged = unchanged + 1 if count == last > 0 else 0
            last = count
            time.sleep(0.005)
        counts.append(last)
        go.touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with RecordList([kinds.Waiting(str(go)), kinds.Slow(0, 1000, str(path), 100_000)], workers=2) as x:
        assert len(x) == 1000
    watcher.join()
    assert counts[0] < 600, "of 1,000 records of 100 kB, 4 MB and the blocks in flight"


def test_workers_end_with_the_builder(python, tmp_path):
    """When the builder ends, its pipes close and each worker ends, although later workers inherited copies of pipes."""
    code = """
import multiprocessing, sys
from mp import shard_kinds as kinds
from recstore import RecordList
multiprocessing.set_start_method("fork")  # so that the workers are children of this process
def shard(i):
    return kinds.Slow(0, 10**9, f"{sys.argv[1]}/{i}", 1000)
RecordList(map(shard, range(3)), workers=3)
"""
    builder = python(code, str(tmp_path), wait=False)
    until(lambda: len(list(tmp_path.iterdir())) == 3)
    children = [int(n) for n in pathlib.Path(f"/proc/{builder.pid}/task/{builder.pid}/children").read_text().split()]
    assert len(children) == 3
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    until(lambda: not any(map(process_identity.start_time, children)))


MAIN = """
import dataclasses, multiprocessing, os, sys
from recstore import RecordList

@dataclasses.dataclass
class Sample:
    n: int

class Odd:
    def __init__(self, n):
        self.n = n

class Part:
    def __init__(self, start):
        self.start = start
    def __iter__(self):
        for i in range(self.start, self.start + 100):
            yield Sample(i)
            yield Odd(i)

def content(x):
    return os.pread(x.segment.fileno(), x.segment.nbytes, 0)[128:]

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    parts = [Part(0), Part(100)]
    with RecordList((r for p in parts for r in p), on_unsupported="pickle") as x:
        with RecordList(parts, workers=2, on_unsupported="pickle") as y:
            assert type(y[0]) is Sample and type(y[1]) is Odd and y[0] == Sample(0) and y[201].n == 100
            print(content(x) == content(y))
"""


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_classes_of_the_main_module(tmp_path, start):
    """Spawned workers import the main module under another name."""
    program = tmp_path / "program.py"
    program.write_text(MAIN)
    assert waiting.python(str(program), start).stdout == "True\n"


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_main_module_that_builds_when_it_is_imported(tmp_path, start):
    """Each spawned worker imports the main module, which would build again. The error has the line to write. Since
    Python 3.14 the forkserver imports the main module before it starts any worker."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        f"multiprocessing.set_start_method('{start}', force=True)\n"
        "from recstore import RecordList\n"
        "try:\n"
        "    RecordList([range(1), range(2)], workers=2)\n"
        "except Exception as e:\n"
        "    if __name__ != '__main__': raise\n"
        "    print(type(e).__name__, str(e).partition(': ')[2])\n"
    )
    output = waiting.python(str(program)).stdout
    assert output == 'BuildError in that module, put the code that builds a store under if __name__ == "__main__":\n'
