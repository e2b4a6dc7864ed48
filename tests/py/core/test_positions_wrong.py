"""Wrong indices, and indices that change while they are read: errors that name them, never a wrong position."""

import array
import sys
import threading

import numpy as np
import pytest
from positions_made import SOME, letters, numbers, rows  # noqa: F401

import recstore
from recstore import RecordDict, RecordList
from recstore._core import native

# ---- Bad input ---------------------------------------------------------------------------------------------------------

WRONG = [[1.0], [1, 2.0], ["1"], "12", [None], [[1]], [1j], [True, 1.5], np.array([1.0]), np.array([1 + 0j]), np.array(["1"]), np.array([1], object),
         np.array([np.datetime64("2020-01-01")]), np.array([[1, 2]]), np.array([[True] * 10]), np.zeros((10, 0), int), array.array("d", [1.0]),
         memoryview(b"\0\1\2\3").cast("f"), memoryview(bytes(8)).cast("B", [2, 4]), {"a": 1}, [b"1"]]  # fmt: skip


@pytest.mark.parametrize("bad", WRONG, ids=lambda bad: f"{bad!r:.60}".partition(" at 0x")[0])
def test_indices_of_another_type(letters, rows, bad):
    field = rows.field("id")
    calls = [
        letters.__getitem__, letters.select, letters.get_many, field.to_numpy, field.get_many, field.to_pandas,
        rows.select
    ]  # fmt: skip
    for call in calls:
        pytest.raises(TypeError, lambda: call(bad)).match("integers|one dimension")


@pytest.mark.parametrize("bad", [5, None, 1.5, object(), slice(3)], ids=lambda bad: type(bad).__name__)
def test_one_thing_in_place_of_many(letters, bad):
    for call in (letters.select, letters.get_many):
        pytest.raises(TypeError, lambda: call(bad)).match("is not iterable")
    for one in (np.array(3), np.int64(3)):
        pytest.raises(TypeError, lambda: letters.select(one)).match("takes index arrays of one dimension, not 0")


@pytest.mark.parametrize(
    "number", [10, 11, -11, 2**31, -(2**31), 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**70]
)
def test_an_index_out_of_range_is_named(letters, rows, number):
    forms = [[number], [0, number], (i for i in [3, number]), [np.int8(1), number]]
    for dtype in ("i1", "i4", ">i4", "i8", "u8", ">u8"):
        if np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
            forms += [np.array([0, number], dtype), np.array([0] * 50_000 + [number, 0], dtype)]
    for form in forms:
        for call in (letters.select, rows.field("id").to_numpy, letters.get_many):
            items = form if not hasattr(form, "gi_frame") else (i for i in [3, number])
            pytest.raises(IndexError, lambda: call(items)).match(f"^index {number} is out of range: 10 records$")
        if not hasattr(form, "gi_frame"):
            assert letters.get_many(form, default="none")[-1 - (len(form) > 9)] == "none"
    pytest.raises(IndexError, lambda: letters[[10**5000]]).match(r"^index of \d+ bits is out of range")


def test_an_empty_list_of_records():
    with RecordList([]) as x:
        assert x[[]].to_list() == x.select(np.array([], bool)).to_list() == x.get_many([]) == []
        for bad in ([0], [-1], range(1), np.array([0])):
            pytest.raises(IndexError, lambda: x[bad])
        assert x.get_many([0, -1], default=None) == [None, None]


def test_index_methods_that_raise():
    class Raises:
        def __index__(self):
            raise ZeroDivisionError("mine")

    class Lies:
        def __index__(self):
            return "1"  # noqa: PLE0305  the test is about it

    def late():
        yield 1
        raise KeyError("late")

    for items, error in (
        ([1, Raises()], ZeroDivisionError), ([Lies()], TypeError), (late(), KeyError), ([np.array([1, 2])], TypeError)
    ):  # fmt: skip
        pytest.raises(error, lambda: numbers(items, method="f"))


@pytest.mark.parametrize("change", ["clear", "extend", "replace"])
def test_an_index_method_that_changes_the_list(change):
    """The indices are the items of the list at the time of the call."""

    class Changes:
        def __index__(self):
            if change == "clear":
                items.clear()
            elif change == "extend":
                items.extend([9] * 10_000)
            else:
                items[:] = [10**6] * len(items)
            return 1

    items = [5, *range(9), Changes(), 2, Changes(), 3]
    assert numbers(items) == [5, *range(9), 1, 2, 1, 3]


def test_an_index_method_that_closes_the_store():
    class Closes:
        def __index__(self):
            x.close()
            return 0

    for call in (lambda x: x[[Closes()]], lambda x: x.select([Closes()]), lambda x: x.get_many([Closes()]), lambda x: x.field("id").to_numpy([Closes()]),
                 lambda x: x.shuffled(1)[[Closes()]]):  # fmt: skip
        x = RecordList([{"id": 1}, {"id": 2}])
        pytest.raises(recstore.errors.ClosedError, lambda: call(x))


def test_without_numpy(monkeypatch):
    """Without numpy, torch cannot make an array of a tensor."""

    class Tensor:
        ndim = 1

        def __array__(self):
            raise RuntimeError("Numpy is not available")

        def detach(self):
            return self

        cpu = detach

        def tolist(self):
            return SOME

    class Absent:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "numpy":
                raise ModuleNotFoundError("No module named 'numpy'")

    monkeypatch.delitem(sys.modules, "numpy")
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    assert numbers(Tensor()) == SOME


# ---- Other threads -----------------------------------------------------------------------------------------------------


class _Methods(np.ndarray):
    """An index array whose methods write to it."""

    def __ge__(self, other):
        out = np.asarray(self) >= other
        np.asarray(self)[:] = 10**12
        return out

    __lt__ = __ge__

    def max(self, *args, **options):
        out = np.asarray(self).max()
        np.asarray(self)[:] = 10**12
        return out


def test_no_method_of_an_array_is_called(rows):
    for view in (rows, rows[[*range(10), *range(10)]]):
        for call in (
            lambda i, v=view: v.field("id").to_numpy(i).tolist(),
            lambda i, v=view: v.field("id")[i].to_list(),
        ):
            assert call(np.array([3, -1, 5]).view(_Methods)) == call([3, -1, 5])


def test_an_array_that_another_thread_writes_to():
    """The positions are a copy: all are in range, or an error names an index that is not."""
    array_ = np.zeros(1 << 16, np.int64)
    ended = threading.Event()

    def write():
        while not ended.is_set():
            array_[:] = 10**15
            array_[:] = 7

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(100):
            try:
                positions = np.frombuffer(native.positions(array_, 10), np.int64)
            except IndexError as error:
                assert "index 1000000000000000 is out of range" in str(error)
            else:
                assert set(np.unique(positions)) <= {0, 7}
            assert set(numbers(array_[:5000], drop=True)) <= {0, 7, -1}
    finally:
        ended.set()
        thread.join()


def test_keys_stay_with_their_values():
    """Keys and values use the same copy of the indices, because another thread could write between two copies."""

    class Drifts(np.ndarray):
        def __array_finalize__(self, source):
            pass

        @property
        def ndim(self):
            np.asarray(self)[:] = (np.asarray(self) + 1) % 3
            return 1

    with RecordDict({"a": 1, "b": 2, "c": 3}) as d:
        assert list(d.items()[np.array([0, 2]).view(Drifts)]) in (
            [("a", 1), ("c", 3)],
            [("b", 2), ("a", 1)],
            [("c", 3), ("b", 2)],
        )
        assert d.items()[[2, 0]] == [("c", 3), ("a", 1)] == d.items()[[True, False, True]][::-1]
        assert d.items()[range(1, 3)] == [("b", 2), ("c", 3)]
