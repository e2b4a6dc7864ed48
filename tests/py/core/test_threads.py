"""Sixteen threads read a store, and a close races them: each read returns the right value or raises ClosedError (for
pickles also SegmentNotFoundError), with and without the interpreter's lock."""

import datetime
import decimal
import os
import pickle
import random
import sys
import sysconfig
import threading

import launching
import numpy as np
import pytest
import waiting
from waiting import together

import recstore
from recstore import RecordDict, RecordList
from recstore.errors import ClosedError
from recstore.shm import handles, pins

N = 2000
THREADS = 16


def record(i):
    return {
        "id": i, "path": f"images/{i % 7}/{i:06}.jpg", "box": [i / 7, float(i)], "tags": ["x", "yy", "zzz"][: i % 4],
        "none": None if i % 5 else i, "day": datetime.date(2020, 1, 1 + i % 28),
        "any": {f"k{i % 40}": [i, (i, b"b")]} if i % 3 else i, "array": np.arange(i % 5),
        "price": decimal.Decimal(i) / 8
    }  # fmt: skip


RECORDS = [record(i) for i in range(N)]
SHOWN = list(map(repr, RECORDS))
BY_KEY = {**{f"k{i}": i for i in range(N - 2)}, (1, "a"): N - 2, datetime.date(2020, 1, 1): N - 1}


class Stores:
    """A list and mappings, with an iterator that all threads use."""

    def __init__(self, **options):
        self.x = RecordList(RECORDS, **options)
        self.d = RecordDict(BY_KEY, **options)
        self.by_id = self.x.index_by("id")
        self.groups = self.x.group_by("day")
        self.shuffled = self.x.shuffled(7)
        self.joined = self.x[::3] + self.x[5:50]
        self.iterator = iter(self.shuffled)
        self.chosen = [*range(0, N, 7)]

    def close(self):
        for store in (self.by_id, self.groups, self.d, self.x):
            store.close()


def at(s, i):
    assert repr(s.x[i]) == SHOWN[i]


def gets_many(s, i):
    chosen = [i, 0, i // 2, -1]
    assert [repr(value) for value in s.x.get_many(chosen)] == [SHOWN[k] for k in chosen]


def views(s, i):
    assert [repr(value) for value in s.x[i : i + 4]] == SHOWN[i : i + 4]
    assert repr(s.joined[i // 4]) == SHOWN[i // 4 * 3]
    assert repr(s.shuffled[i]) in SHOWN


def mappings(s, i):
    assert s.d.get(f"k{i}", i) == i
    assert s.d[(1, "a")] == N - 2 and s.d[datetime.date(2020, 1, 1)] == N - 1 and "none" not in s.d
    assert repr(s.by_id[i]) == SHOWN[i]
    assert repr(s.groups[RECORDS[i]["day"]][0]) == SHOWN[i % 28]
    assert s.d.get_many(["k1", "k2", "no"], default=None) == [1, 2, None]


def fields(s, i):
    assert s.x.field("id")[i] == i
    assert dict(s.x.fields("id", "path")[i]) == {"id": i, "path": RECORDS[i]["path"]}
    assert s.x[i : i + 9].field("id").to_numpy().tolist() == list(range(i, min(i + 9, N)))


def iterates(s, i):
    """Threads that share an iterator get each record once, in any order."""
    value = next(s.iterator, None)
    assert value is None or repr(value) in SHOWN


def travels(s, i):
    """Reads through pickled handles to a part of the store, as a DataLoader sends it, and to chosen records."""
    again = pickle.loads(pickle.dumps(s.x[i : i + 3]))
    assert [repr(value) for value in again] == SHOWN[i : i + 3]
    again = pickle.loads(pickle.dumps(s.x[[i, 0, i // 2]]))
    assert [repr(value) for value in again] == [SHOWN[i], SHOWN[0], SHOWN[i // 2]]


def describes(s, i):
    assert s.x.info().records == N and len(s.x) == N and s.x.segment.nbytes > 0


def gathers(s, i):
    """Reads a column at the positions in a list that all threads share."""
    assert s.x[s.chosen].field("id").to_numpy().tolist() == s.chosen


WORK = [at, gets_many, views, mappings, fields, iterates, travels, gathers, describes]


def hammer(stores, close_after=None, rounds=1):
    """Runs all of WORK in 16 threads; with `close_after`, closes the stores after that number of steps."""
    begin = threading.Barrier(THREADS + 1)
    errors, done = [], []

    def run(seed):
        chance = random.Random(seed)
        work = WORK[seed % len(WORK) :] + WORK[: seed % len(WORK)]
        begin.wait()
        try:
            for _ in range(rounds):
                for step in work:
                    step(stores, chance.randrange(N))
                    done.append(1)
        except (ClosedError, recstore.errors.SegmentNotFoundError) as e:
            if close_after is None:
                errors.append(e)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    begin.wait()
    if close_after is not None:
        while len(done) < close_after and any(thread.is_alive() for thread in threads):
            pass
        stores.close()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture(autouse=True)
def frequent_thread_switches(monkeypatch):
    monkeypatch.setattr(handles, "_warned", True)  # no warning that a store is pickled outside of multiprocessing
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
    pins.clear()


@pytest.mark.parametrize("options", [{}, {"compression": "none"}, {"arrays": "view"}], ids=str)
def test_reads(options):
    stores = Stores(**options)
    hammer(stores)
    stores.close()


@pytest.mark.parametrize("steps", [0, 40, 300])
def test_a_close_races_the_reads(steps):
    hammer(Stores(), close_after=steps, rounds=3)


def test_a_view_is_closed_while_it_is_pickled(monkeypatch):
    """Pickling moves the view's index array into shared memory, and lets other threads run."""
    real_urandom = os.urandom
    with RecordList(RECORDS) as x:
        view = x[[*range(N), 0] * 20]

        def urandom(n):
            view.close()
            return real_urandom(n)

        monkeypatch.setattr(os, "urandom", urandom)
        pytest.raises(ClosedError, lambda: pickle.dumps(view))


def test_containers_that_another_thread_changes():
    shared, pairs, ended = [*range(50)], {f"k{i}": [i, str(i)] for i in range(50)}, threading.Event()

    def change():
        while not ended.is_set():
            shared.extend(range(50))
            del shared[50:]
            pairs.clear()
            pairs.update((f"k{i}", [i, str(i)]) for i in range(50))

    thread = threading.Thread(target=change)
    thread.start()
    stored = 0
    try:
        with RecordList(range(100)) as x:
            for _ in range(300):
                got = x.get_many(shared)
                assert got == [k % 50 for k in range(len(got))]
                assert 50 <= len(got) <= 100  # another thread may be in extend
                try:
                    with RecordList([pairs, shared]) as y:
                        assert y[1] == [k % 50 for k in range(len(y[1]))] and 50 <= len(y[1]) <= 100
                        assert all(y[0][f"k{i}"] == [i, str(i)] for i in range(len(y[0])))
                        stored += 1
                except RuntimeError as error:
                    assert "changed while it was being stored" in str(error)
    finally:
        ended.set()
        thread.join()
    assert stored > 0


def test_the_first_read_of_many_threads(tmp_path):
    """All caches are empty at first."""
    with RecordList(RECORDS) as x:
        x.save(tmp_path / "x")
    for _ in range(3):
        begin = threading.Barrier(THREADS)
        with recstore.open(tmp_path / "x") as x:
            got = [None] * THREADS

            def first(k, x=x, got=got, begin=begin):
                begin.wait()
                got[k] = repr(x[k * 100])

            threads = [threading.Thread(target=first, args=(k,)) for k in range(THREADS)]
            together(threads)
        assert got == [SHOWN[k * 100] for k in range(THREADS)]


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has the lock")
def test_a_free_threaded_interpreter_stays_free_threaded():
    code = "import sys, recstore; recstore.RecordList([1])[0]; print(sys._is_gil_enabled())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = waiting.python(launching.SAFE_PATH, "-W", "error", "-c", code, env=environment)
    assert (done.stdout, done.stderr) == ("False\n", "")
