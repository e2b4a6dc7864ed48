"""Regressions found by trying to break the package: each was a crash, a leak or a wrong answer once."""

import collections
import datetime
import decimal
import os
import pickle
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from ref import writer as w

import recstore
from recstore import EncodeError, RecordDict, RecordList
from recstore._core import native
from recstore.shm import handle_bytes, handles


def fds():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("dtype", ["S0", "U0", "V0"])
def test_arrays_of_empty_items_keep_their_dtype(dtype):
    array = np.ndarray((3,), dtype)
    with RecordList([array]) as x:
        assert x[0].dtype == array.dtype and x[0].shape == (3,)


@pytest.mark.parametrize("recipe", [(0, 2**62, 5), (0, 1, -1), (99, 1, 2), (-1, 1, 1)])
def test_a_handle_with_a_recipe_out_of_range_is_corrupt(recipe, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList(range(100)) as x:
        start, step, length = recipe
        handle = handle_bytes.Handle.unpack(x.__reduce__()[1][0])
        handle.length = max(length, 0)
        view = (
            handle_bytes.signed(start)
            + handle_bytes.signed(step)
            + handle_bytes.varint(length if length >= 0 else 2**64 + length)
        )
        with pytest.raises(recstore.CorruptError):
            handles.attach(handle.pack(b"\0\1\0" + b"\1\1" + view + b"\0\0\0"))


def test_a_path_with_nul_is_refused_and_nothing_is_written(tmp_path):
    with RecordList([1]) as x:
        with pytest.raises(ValueError, match="NUL|null"):
            x.save(f"{tmp_path}/a\0b")
    with pytest.raises(ValueError, match="NUL|null"):
        recstore.open(f"{tmp_path}/a\0b")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("limits", [(), (1,), (1, 2, 3), (-1, 5), (2**64, 0), ("a", "b")])
def test_limits_that_are_none_are_refused(tmp_path, limits):
    path = tmp_path / "x.rec"
    RecordList([1]).save(path)
    before = fds()
    with pytest.raises(ValueError, match="limits"):
        recstore.open(path, limits=limits)
    assert fds() == before


def test_a_refused_file_leaves_no_descriptor(tmp_path):
    path = tmp_path / "x.rec"
    RecordList([[1, 2, 3]]).save(path)
    before = fds()
    for _ in range(5):
        with pytest.raises(recstore.CorruptError, match="RS_E_FMT_LIMIT"):
            recstore.open(path, limits=(1, 1))
    assert fds() == before


@pytest.mark.parametrize("node", [w.any_(), w.ndarray(np.array(["ab", "cd"]), True)])
def test_text_arrays_that_are_no_text_are_corrupt(tmp_path, node):
    data = bytearray(w.simple(node, [np.array(["ab", "cd"])]))
    at = bytes(data).find("ab".encode("utf-32-le"))
    data[at : at + 4] = b"\xff" * 4
    path = tmp_path / "u.rec"
    path.write_bytes(w.reseal(bytes(data)))
    with pytest.raises(recstore.CorruptError):
        recstore.open(path)[0]
    with pytest.raises(recstore.CorruptError):
        recstore.open(path, verify="full")


@pytest.mark.parametrize("step", [2**62, 2**63, 2**70, -(2**63)])
def test_huge_steps_are_those_of_a_list(step):
    with RecordList(range(5)) as x:
        assert x[::step].to_list() == list(range(5))[::step]
        assert x[::step][::step].to_list() == list(range(5))[::step][::step]


def test_a_pickler_without_a_frame_above(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "error")
    caught = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: caught.append(hook.exc_type))
    with RecordList([1]) as x:
        thread = threading.Thread(target=pickle.dumps, args=(x,))
        thread.start()
        thread.join()
    assert caught == [recstore.Error]


def test_a_store_that_closes_while_it_is_sliced_or_saved(tmp_path):
    x = RecordList(range(10))

    class Index:
        def __index__(self):
            x.close()
            return 1

    with pytest.raises(recstore.ClosedError):
        x[Index() :]
    y = RecordList(range(10))

    class Path:
        def __fspath__(self):
            y.close()
            return str(tmp_path / "y.rec")

    with pytest.raises(recstore.ClosedError):
        y.save(Path())
    assert os.listdir(tmp_path) == []


def test_a_forked_child_forgets_calls_of_other_threads():
    x = RecordList([[np.arange(9.0)] * 5] * 100)
    inode = f" {x.segment.identity[1]} "
    stop = threading.Event()

    def read():
        while not stop.is_set():
            x[3]

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                x.close()
                with open("/proc/self/maps") as maps:
                    os._exit(7 if any(inode in line for line in maps) else 0)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        reader.join()
        x.close()


def test_subclasses_do_not_travel_as_something_else():
    class Mine(RecordList):
        pass

    with Mine([1]) as x, pytest.raises(TypeError, match="Mine"):
        pickle.dumps(x)


@pytest.mark.parametrize("first", [0, 1])
def test_long_tuples_beside_short_ones_keep_a_schema(first):
    short = [tuple(range(3)) for _ in range(500)]
    long = [tuple(range(1000, 1080 + i % 7)) for i in range(500)]
    records = long + short if first else short + long
    with RecordList(records) as x:
        assert x.to_list() == records
        assert x.info().trees[0][2].kind == "union"


def test_a_full_check_finds_equal_keys(tmp_path):
    path = tmp_path / "x.rec"
    twice = w.Coded(b"\x0f\x02\x91\x91\x91\x91", None)
    path.write_bytes(w.simple(w.any_(), [twice]))
    with pytest.raises(recstore.CorruptError, match="twice"):
        recstore.open(path, verify="full")


def test_a_view_is_saved_through_the_file_itself_and_honours_the_umask(tmp_path):
    path = tmp_path / ("n" * 250)
    old = os.umask(0o027)
    try:
        with RecordList([{"id": i} for i in range(1000)]) as x:
            x[::2].save(path)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [r["id"] for r in recstore.open(path)] == list(range(0, 1000, 2))
    assert os.listdir(tmp_path) == [path.name]


def test_the_floor_of_the_benchmarks_refuses_cycles():
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        native.rebuild(loop)


_running = None


class Exhausting:
    """Unpickled, it exhausts the iterator that reads it."""

    def __reduce__(self):
        return exhaust, ()


def exhaust():
    global _running
    it, _running = _running, None
    if it is not None:
        list(it)
    return "read"


def test_a_record_that_exhausts_its_iterator_is_read_to_its_end():
    global _running
    it = _running = iter(RecordList([Exhausting() for _ in range(3)], on_unsupported="pickle"))
    assert next(it) == "read"
    assert list(it) == []


@pytest.fixture
def grouped(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList([{"id": i, "image": i % 2} for i in range(4)]) as x:
        yield x.group_by("image")


def test_groups_are_saved_as_lists_and_not_as_handles(grouped, tmp_path):
    path = str(tmp_path / "groups.rec")
    grouped.save(path)
    expected = {0: [{"id": 0, "image": 0}, {"id": 2, "image": 0}], 1: [{"id": 1, "image": 1}, {"id": 3, "image": 1}]}
    with recstore.open(path, verify="full") as d:
        assert d.to_dict() == expected and type(d[0]) is list
    RecordList(grouped.values()).save(path)
    with recstore.open(path) as x:
        assert x.to_list() == list(expected.values())


class Holding:
    def __init__(self, store):
        self.store = store


@pytest.mark.parametrize("hold", [lambda s: s, lambda s: [s], Holding], ids=["itself", "list", "object"])
def test_a_store_is_never_pickled_into_a_store(hold, grouped):
    for store, remedy in ((grouped[0], ".to_list()"), (grouped, ".to_dict()")):
        with pytest.raises(
            EncodeError, match=f"pickles as a handle, which holds no records; convert it with {re.escape(remedy)}"
        ):
            RecordList([hold(store)], on_unsupported="pickle")
        if hold is not Holding:
            with pytest.raises(EncodeError, match=re.escape(remedy)):
                RecordList([hold(store)])


DAY = datetime.date(2020, 1, 1)


@pytest.mark.parametrize("value", [DAY, {1, 2}, decimal.Decimal("1.50"), (DAY, 1j)], ids=str)
def test_defaults_of_every_stored_type_travel_with_a_field(value, monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList([{"a": 1}]) as x:
        assert pickle.loads(pickle.dumps(x.field("b", default=value)))[0] == value


def test_keys_of_every_stored_type_travel_with_a_field(monkeypatch):
    monkeypatch.setenv("RECSTORE_PICKLE", "allow")
    with RecordList([{DAY: 5}]) as x:
        assert pickle.loads(pickle.dumps(x.field((DAY,))))[0] == 5


def test_decimals_stored_and_read_under_any_context():
    for stored in (0, 1):
        with decimal.localcontext() as context:
            context.capitals = stored
            x = RecordList([decimal.Decimal("1E+50"), decimal.Decimal("-sNaN12"), decimal.Decimal("-Infinity")])
        for read in (0, 1):
            with decimal.localcontext() as context:
                context.capitals = read
                assert [str(d).upper() for d in x] == ["1E+50", "-SNAN12", "-INFINITY"]
        x.close()


def test_arrays_of_values_that_were_replaced_count_as_dead():
    array = np.zeros(10_000)
    with RecordDict((key, array + i) for i, key in enumerate("ab" * 10)) as d:
        assert [d["a"][0], d["b"][0]] == [18, 19]
        assert d.nbytes < 3 * array.nbytes


def test_items_by_an_array_of_positions_are_pairs():
    with RecordDict({"a": 1, "b": 2, "c": 3}) as d:
        for key in (np.array([2, 0]), np.array([True, False, True])[::-1]):
            assert sorted(d.items()[key]) == [("a", 1), ("c", 3)]
        assert d.items()[np.array(1)] == ("b", 2)
        assert collections.namedtuple("P", "k v")("a", 1) in d.items()


def test_a_mapping_that_was_never_made_is_detached():
    with pytest.raises(recstore.SegmentNotFoundError):
        RecordDict.__new__(RecordDict).get_many(["a"])


NEVER_MADE = """
import recstore
from recstore import fields, records
for cls in (recstore.RecordList, recstore.RecordDict, recstore.Record, recstore.RecordView, fields.FieldView):
    make = cls._blank if issubclass(cls, recstore.RecordView) else lambda: cls.__new__(cls)
    for name in set(dir(cls)) - {"__class__", "__init__", "__new__", "_set"}:
        for arguments in ((), (0,), ("a",), (slice(1),), ([1],), (None, None), (["a"], None, True)):
            try:
                getattr(make(), name)(*arguments)
            except Exception:
                pass
print("alive")
"""


def test_what_was_never_made_raises_and_does_not_crash(tmp_path):
    # A subclass whose __init__ forgets that of its base is all it takes.
    done = subprocess.run([sys.executable, "-c", NEVER_MADE], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["alive"])


def test_a_list_whose_subclass_forgot_to_build_says_so():
    class Forgetful(RecordList):
        def __init__(self):
            pass

    for use in (lambda x: x[:], lambda x: x.lazy(), lambda x: x.shuffled(1), lambda x: x + [1], lambda x: x.nbytes):
        with pytest.raises(recstore.SegmentNotFoundError, match="never built"):
            use(Forgetful())
