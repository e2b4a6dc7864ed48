"""RecordList and its views as lists: indexing, slices, iteration, comparison, absent methods, and closing."""

import datetime
import doctest
import importlib
import itertools
import operator
import os
import pkgutil
import sys
import types
from collections.abc import Sequence

import numpy as np
import pytest

import recstore
from recstore import RecordDict, RecordList, RecordView
from recstore.errors import EncodeError

LETTERS = list("abcdefghij")


@pytest.fixture
def letters():
    with RecordList(LETTERS) as x:
        yield x


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize(
    ("index", "letter"),
    [(0, "a"), (9, "j"), (-1, "j"), (-10, "a"), (True, "b"), (False, "a"), (Index(-2), "i"), (np.int64(3), "d"),
     (np.uint8(3), "d"), (np.array(3), "d")],
)  # fmt: skip
def test_index(letters, index, letter):
    assert letters[index] == letter
    assert letters[:][index] == letter


def test_index_by_a_tensor(letters):
    torch = pytest.importorskip("torch")
    assert letters[torch.tensor(2)] == "c"
    assert letters[torch.tensor(-1)] == "j" and letters[torch.tensor([3])] == ["d"]
    assert letters.get_many(torch.tensor([4, 0])) == ["e", "a"]


def test_invalid_index(letters):
    class Broken:
        def __index__(self):
            raise KeyError("mine")

    for error, indices in (
        (IndexError, [10, -11, 2**31, 2**63, -(2**100)]),
        (TypeError, [1.0, (1,), "1", None, 1j, b"", np.float64(1)]),
        (KeyError, [Broken()]),
        (ValueError, [slice(None, None, 0)]),
    ):
        for index in indices:
            pytest.raises(error, lambda: letters[index])


# ---- slices ----------------------------------------------------------------------------------------------------------

ENDS = [None, 0, 1, 3, 9, 10, 11, -1, -3, -10, -12, 2**70]
SLICES = [slice(a, b, c) for a, b, c in itertools.product(ENDS, ENDS, [None, 1, 2, 3, 11, -1, -2, -7])]


def test_slices_equal_those_of_a_list(letters):
    for key in [*SLICES, *(slice(None, None, step) for step in (2**62, 2**63, 2**70, -(2**63)))]:
        view = letters[key]
        assert type(view) is RecordView and len(view) == len(LETTERS[key]) and view.nbytes == letters.nbytes
        assert view.to_list() == LETTERS[key], key
        assert view[:: key.step].to_list() == LETTERS[key][:: key.step], key


def test_slices_of_slices(letters):
    for first, second in itertools.product(SLICES[:: len(SLICES) // 40], SLICES[:: len(SLICES) // 60]):
        assert list(letters[first][second]) == LETTERS[first][second], (first, second)


def test_calling_a_view_type_with_an_iterable_gives_a_list():
    assert type(RecordView([])) is list and RecordView() == []
    assert RecordView(i for i in range(2)) == [0, 1]


# ---- iteration, search, comparison -----------------------------------------------------------------------------------


def test_iteration(letters):
    assert list(letters) == LETTERS
    assert list(reversed(letters)) == LETTERS[::-1]
    assert list(reversed(letters[1:3])) == ["c", "b"]
    assert [*zip(letters, letters)] == [*zip(LETTERS, LETTERS)]
    iterator = iter(letters)
    assert iter(iterator) is iterator
    assert (next(iterator), operator.length_hint(iterator)) == ("a", 9)
    assert (len(list(iterator)), operator.length_hint(iterator), next(iterator, None)) == (9, 0, None)
    pytest.raises(ValueError, lambda: letters.index(7)).match("7 is not in the RecordList")
    assert RecordList([1, 2, 3])[1:].to_list() == [2, 3] and list(iter(RecordList(["kept"]))) == ["kept"]


def test_equality(letters):
    assert letters == LETTERS and LETTERS == letters
    assert letters != LETTERS[:-1] and letters != [*LETTERS[:-1], "z"]
    assert letters != tuple(LETTERS) and letters != "abcdefghij"
    assert letters == letters[:] and letters[::2] == LETTERS[::2] and letters[::2] != letters[1::2]
    with RecordList(LETTERS) as other:
        assert letters == other and letters[3:] != other[2:]
    pytest.raises(TypeError, lambda: hash(letters)).match("unhashable")


def test_get_many(letters):
    assert letters.get_many([3, -1, 3, True]) == ["d", "j", "d", "b"]
    assert letters.get_many(iter(range(2))) == ["a", "b"]
    assert letters.get_many(np.array([2, 0])) == ["c", "a"]
    assert letters[::-1].get_many([0]) == ["j"]
    assert letters.get_many([]) == []
    assert letters.get_many([0, 10, -11, 2**100], default=None) == ["a", None, None, None]
    assert letters.get_many([10], default=7) == [7]
    for bad in ([10], [-11], [2**100]):
        pytest.raises(IndexError, lambda: letters.get_many(bad))
    pytest.raises(TypeError, lambda: letters.get_many([1.5], default=0)).match("integers, not float")


def test_a_sequence_without_mutating_methods(letters):
    assert isinstance(letters, Sequence) and isinstance(letters[:2], Sequence)
    assert isinstance(letters[:2], RecordList)
    for name in ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"):
        assert not hasattr(letters, name)
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': it is read-only; write "):
            getattr(letters, name)
    with pytest.raises(AttributeError, match="'RecordList' object has no attribute 'colour'$"):
        letters.colour
    assert not hasattr(letters, "__getitems__"), "DataLoader would skip the transform of a dataset that delegates"
    with pytest.raises(TypeError):
        letters[0] = "z"
    with pytest.raises(TypeError):
        del letters[0]


def test_generic_alias():
    assert RecordList[int].__args__ == (int,)
    assert RecordList[int]([1, 2]).to_list() == [1, 2]

    class Samples(RecordList[dict]):
        pass

    samples = Samples([{"id": 1}])
    assert (samples[0], type(samples[:1]), Samples.__mro__[1]) == ({"id": 1}, RecordView, RecordList)
    samples.close()


# ---- building --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", ["text", b"bytes", 5, None, object()])
def test_arguments_that_are_not_records(records):
    pytest.raises(TypeError, lambda: RecordList(records)).match("not iterable|give an iterable of records")


@pytest.mark.parametrize("arguments", [{"compression": "zip"}, {"backing": "tape"}, {"compression": None}])
def test_invalid_options(arguments):
    pytest.raises(ValueError, lambda: RecordList([1], **arguments)).match("not ")


@pytest.mark.parametrize(
    "source", [LETTERS, tuple(LETTERS), dict.fromkeys(LETTERS).keys(), (c for c in LETTERS), RecordList(LETTERS)]
)
def test_any_iterable(source):
    with RecordList(source) as x:
        assert x.to_list() == LETTERS


def test_empty():
    with RecordList() as x:
        assert (len(x), x.to_list(), list(x[:]), bool(x), x == []) == (0, [], [], False, True)
        pytest.raises(IndexError, lambda: x[0])


# ---- repr and closing ------------------------------------------------------------------------------------------------


def test_repr(letters):
    assert repr(letters) == "<RecordList: 10 records>" and repr(letters[:1]) == "<RecordList: 1 record>"
    with RecordList(range(12345)) as x:
        assert repr(x) == "<RecordList: 12,345 records>"
    assert repr(x) == "<RecordList: 12,345 records, closed>"
    assert repr(RecordList.__new__(RecordList)) == "<RecordList: 0 records, detached: never built>"


def test_the_repr_of_the_same_records_is_the_same(tmp_path):
    """Grain compares the repr when a run resumes, so no backing, compression, file or view changes it."""
    rows = [{"i": i} for i in range(20)]
    with RecordList(rows) as x, RecordList(rows, backing="dir") as y, RecordList(rows, compression="none") as z:
        x.save(tmp_path / "x")
        x[5:].save(tmp_path / "part")
        with recstore.open(tmp_path / "x") as file, recstore.open(tmp_path / "part") as part:
            joined = part[:10] + file[:10]
            same = [x, y, z, file, x[:], file[::-1], x.shuffled(1), x[list(range(20))], joined, x.lazy()]
            assert set(map(repr, same)) == {"<RecordList: 20 records>"}
            assert repr(part) == repr(x[5:])
    pairs = {i: str(i) for i in range(20)}
    with RecordDict(pairs) as d, RecordDict(pairs, backing="dir") as e:
        d.save(tmp_path / "d")
        with recstore.open(tmp_path / "d") as file:
            assert repr(d) == repr(e) == repr(file) and repr(d.keys()) == repr(file.keys())


def test_close():
    with pytest.raises(KeyError), RecordList([{"a": 1}] * 1000) as x:
        view, iterators, record = x[1:], [iter(x), iter(x.shuffled(1)), iter(x[::50]), reversed(x)], x[0]
        for iterator in iterators:
            next(iterator)
        assert not x.closed
        raise KeyError  # `with` closes it all the same
    x.close()
    assert x.closed and view.closed
    assert (len(x), len(view), record) == (1000, 999, {"a": 1})
    reads = [
        *(iterator.__next__ for iterator in iterators), lambda: x[0], lambda: view[0], lambda: x[:],
        lambda: x.to_list(), lambda: x.info(), lambda: x.nbytes, lambda: x.get_many([0]), lambda: x.index(1),
        lambda: x.count(1), lambda: x == [1] * 1000, lambda: x.save("never"), lambda: view.save("never"), lambda: 1 in x,
        lambda: list(reversed(x)),
    ]  # fmt: skip
    for read in reads:
        pytest.raises(recstore.errors.ClosedError, read).match("closed")


def test_a_store_that_closes_while_get_many_reads_it():
    x = RecordList(range(1000))
    with pytest.raises(recstore.errors.ClosedError):
        x.get_many(i if i != 500 else x[:].close() or i for i in range(1000))


LIGHTNING = "recstore.monitor.lightning"  # imports torchvision too
ENGINES = ("recstore.remote.engines.ray_tasks", "recstore.remote.engines.spark_tasks")
NEEDS_OTHERS = ("recstore.integrations.", LIGHTNING, "recstore.torch", "recstore.cli.loader", *ENGINES)


HAVE_EXAMPLES = [
    "recstore", *(f"recstore.{name}" for name in ("containers.records", "_core.native", "values.classes")),
    *(f"recstore.torch.{name}" for name in ("buckets", "samplers", "shard_sampler", "weighted"))
]  # fmt: skip


def modules():
    """All modules of the package but those of the benchmark."""
    names = [module.name for module in pkgutil.walk_packages(recstore.__path__, "recstore.")]
    return ["recstore", *(name for name in names if "bench" not in name)]


@pytest.mark.parametrize("room", sorted({"", *(name.split(".")[1] for name in modules()[1:])}))
def test_examples_in_docstrings(room):
    for name in [name for name in modules() if name.split(".")[1:2] == [room] * (room != "")]:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            if not name.startswith(NEEDS_OTHERS) or str(error.name).startswith("recstore"):
                raise
            continue
        except RuntimeError:  # torchvision does not fit PyTorch
            if name not in ("recstore.integrations.torchvision", LIGHTNING):
                raise
            continue
        failed, tried = doctest.testmod(module, verbose=False)
        assert failed == 0, name
        assert tried or name not in HAVE_EXAMPLES, name


@pytest.fixture(scope="module")
def numbers():
    return RecordList([{"n": i} for i in range(3000)])


def test_get_many_of_every_length(numbers):
    views = numbers.shuffled(3), numbers[::-1], numbers + numbers, numbers[list(range(2999, -1, -1))], numbers.lazy()
    for n in (0, 1, 7, 8, 9, 15, 16, 17, 31, 255, 256, 257, 512, 600):
        order = [(i * 7919) % 3000 - 3000 * (i % 2) for i in range(n)]
        expected = [{"n": i % 3000} for i in order]
        assert numbers.get_many(order) == numbers.get_many(iter(order)) == numbers.get_many(tuple(order)) == expected
        for view in views:
            assert view.get_many(order) == [view[i] for i in order]
        with_gaps = [i if i % 3 else 10**9 + i for i in order]
        assert numbers.get_many(with_gaps, default=0) == [{"n": i % 3000} if i % 3 else 0 for i in order]
        assert numbers.get_many([*order, 2**70, -(2**70)], default=None) == [*expected, None, None]


def test_get_many_that_fails_late(numbers):
    for bad, error in (
        (3000, IndexError), (-3001, IndexError), (2**70, IndexError), ("x", TypeError), (1.5, TypeError)
    ):  # fmt: skip
        for before in (0, 5, 256, 300):
            pytest.raises(error, lambda: numbers.get_many([*range(before), bad]))

    def raising():
        yield from range(300)
        raise ZeroDivisionError

    pytest.raises(ZeroDivisionError, lambda: numbers.get_many(raising()))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 3000])
def test_iteration_over_scattered_records(numbers, n):
    for view in (numbers.shuffled(1)[:n], numbers[::-1][:n], numbers[::97][:n], (numbers[:9] + numbers[1000:])[:n],
                 numbers[[5, 1] * n]):  # fmt: skip
        expected = [view[i] for i in range(len(view))]
        assert list(view) == expected and list(reversed(view)) == expected[::-1]
        iterator = iter(view)
        assert [next(iterator) for _ in range(len(view) // 2)] + list(iterator) == expected


def test_a_store_that_closes_while_it_is_sliced_or_saved(tmp_path):
    x = RecordList(range(10))

    class Index:
        def __index__(self):
            x.close()
            return 1

    pytest.raises(recstore.errors.ClosedError, lambda: x[Index() :])
    y = RecordList(range(10))

    class Path:
        def __fspath__(self):
            y.close()
            return str(tmp_path / "y.rec")

    pytest.raises(recstore.errors.ClosedError, lambda: y.save(Path()))
    assert os.listdir(tmp_path) == []


_running = None


class Exhausting:
    """An object whose unpickling exhausts the iterator that reads it."""

    def __reduce__(self):
        return exhaust, ()


def exhaust():
    global _running
    iterator, _running = _running, None
    if iterator is not None:
        list(iterator)
    return "read"


def test_a_record_that_exhausts_its_iterator_is_read_to_its_end():
    global _running
    iterator = _running = iter(RecordList([Exhausting() for _ in range(3)], on_unsupported="pickle"))
    assert next(iterator) == "read"
    assert list(iterator) == []


@pytest.mark.parametrize("module", ["decimal", "numpy", "enum", "collections", "torch"])
def test_a_module_that_another_thread_is_importing(module, monkeypatch):
    """The module is in sys.modules, and still empty."""
    day = datetime.date(2020, 1, 1)
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    with RecordList([{"day": day, "n": 10**30}] * 10) as x, RecordDict({day: 1}) as d:
        assert x[0] == {"day": day, "n": 10**30} and d[day] == 1
        pytest.raises(EncodeError, lambda: RecordList([object()]))
