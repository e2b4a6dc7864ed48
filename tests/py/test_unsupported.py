"""What cannot be stored: the EncodeError's record, path, type and remedy, and that nothing is left behind."""

import collections
import contextlib
import datetime
import os
import pathlib
import types

import numpy as np
import pytest

from recstore import EncodeError, RecordList


class Plain:
    def __init__(self):
        self.a = 1


class Slotted:
    __slots__ = ()


class MyDict(dict):
    pass


Point = collections.namedtuple("Point", "x y")
ANY = "convert it to None, bool, int, float, str, bytes, list, tuple, dict or a numpy array"
HERE = __name__
CASES = [
    ({1}, "set", "convert it to a list first"),
    (frozenset(), "frozenset", "convert it to a list first"),
    (range(3), "range", "convert it to a list first"),
    ((i for i in "ab"), "generator", "convert it to a list first"),
    (object(), "object", ANY),
    (1j, "complex", ANY),
    (Ellipsis, "ellipsis", ANY),
    (bytearray(b"a"), "bytearray", "convert it with bytes() first"),
    (memoryview(b"a"), "memoryview", "convert it with bytes() first"),
    (MyDict(a=1), f"{HERE}.MyDict", "convert it with dict() first"),
    (collections.OrderedDict(), "collections.OrderedDict", "convert it with dict() first"),
    (collections.defaultdict(list), "collections.defaultdict", "convert it with dict() first"),
    (Point(1, 2), f"{HERE}.Point", "convert it with tuple() first"),
    (type("MyStr", (str,), {"__module__": "m"})("a"), "m.MyStr", "convert it with str() first"),
    (type("MyInt", (int,), {"__module__": "m"})(1), "m.MyInt", "convert it with int() first"),
    (type("MyFloat", (float,), {"__module__": "m"})(1), "m.MyFloat", "convert it with float() first"),
    (type("MyList", (list,), {"__module__": "m"})(), "m.MyList", "convert it with list() first"),
    (Plain(), f"{HERE}.Plain", "store a dict of its fields, vars(x)"),
    (Slotted(), f"{HERE}.Slotted", ANY),
    (types.SimpleNamespace(a=1), "types.SimpleNamespace", "store a dict of its fields, vars(x)"),
    (pathlib.PurePosixPath("a"), None, "convert it with os.fspath() first"),
    (datetime.date(2020, 1, 1), "datetime.date", "convert it with .isoformat() first"),
    (np.array([None]), "numpy.ndarray", "its dtype object has no place in the format; use .tolist() or a plain dtype"),
    (np.zeros(2, [("a", "i4")]), "numpy.ndarray", "has no place in the format; use .tolist() or a plain dtype"),
    (np.zeros(2, [("a", "i4")])[0], "numpy.void", "has no place in the format; use .tolist() or a plain dtype"),
    (np.ma.array([1]), None, "convert it with numpy.asarray() first"),
    (np.array([1]).view(np.recarray), None, "convert it with numpy.asarray() first"),
]


def remains():
    """Descriptors, mappings and names of segments of this process."""
    with open("/proc/self/maps") as f:
        maps = sum("recstore" in line or "memfd" in line or ".rec" in line for line in f)
    shm = sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else []
    return len(os.listdir("/proc/self/fd")), maps, shm


@contextlib.contextmanager
def nothing_left():
    if not os.path.isdir("/proc/self/fd"):
        yield
        return
    before = remains()
    yield
    assert remains() == before


@pytest.mark.parametrize(("value", "kind", "remedy"), CASES, ids=lambda v: type(v).__name__)
def test_message(value, kind, remedy):
    with nothing_left():
        with pytest.raises(EncodeError) as caught:
            RecordList([0, {"meta": [1, {"x y": value}]}])
        text = str(caught.value)
        del caught
    assert text.startswith(f"record 1: $.meta[1]['x y']: cannot store {kind or ''}")
    assert kind is None or f"cannot store {kind}; " in text
    assert text.endswith(remedy)
    with pytest.raises(TypeError, match=r"^record 0: \$: cannot store "):
        RecordList([value])


def test_numpy_subclasses():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1]])
    with pytest.raises(EncodeError, match=r"cannot store numpy\.(matrixlib\.defmatrix\.)?matrix; convert it with numpy\.asarray"):
        RecordList([matrix])


def test_a_tensor():
    torch = pytest.importorskip("torch")
    with pytest.raises(EncodeError, match=r"^record 0: \$\.x: cannot store torch\.Tensor; convert it with \.numpy\(\) first"):
        RecordList([{"x": torch.zeros(2)}])


def test_an_open_file(tmp_path):
    with open(tmp_path / "f", "w") as f, pytest.raises(EncodeError, match="store the path and open it when the record is read"):
        RecordList([f])


@pytest.mark.parametrize(
    ("record", "path"),
    [
        ({"a": {"b": {"c": {1}}}}, r"\$\.a\.b\.c"),
        ([[0], [0, {1}]], r"\$\[1\]\[1\]"),
        ((0, {1}), r"\$\[1\]"),
        ({1: {1}}, r"\$\[1\]"),
        ({(1, "a"): {1}}, r"\$\[\(1, 'a'\)\]"),
        ({"not a name": {1}}, r"\$\['not a name'\]"),
        ({frozenset([1]): 0}, r"\$ key frozenset\(\{1\}\)"),
        ({(1, frozenset([2])): 0}, r"\$ key \(1, frozenset\(\{2\}\)\)\[1\]"),
        ({"k" * 200: {1}}, r"\$\.k{200}"),
    ],
    ids=str,
)
def test_path(record, path):
    with pytest.raises(EncodeError, match=rf"^record 2: {path}: cannot store (frozen)?set; "):
        RecordList([1, 2, record])


def test_cycles():
    lists = []
    lists.append([lists])
    dicts = {}
    dicts["me"] = (dicts,)
    for value, path in ((lists, r"\$\[0\]\[0\]"), (dicts, r"\$\.me\[0\]")):
        with nothing_left(), pytest.raises(EncodeError, match=rf"^record 0: {path}: the value contains itself; records must be trees$"):
            RecordList([value])


def test_the_first_of_two_is_named():
    with pytest.raises(EncodeError, match=r"\$\.b\[0\]: cannot store set"):
        RecordList([{"a": [1], "b": [{1}], "c": 1j}])


# ---- nothing left behind ---------------------------------------------------------------------------------------------


class MyError(Exception):
    pass


@pytest.mark.parametrize("backing", ["anonymous", "dir"])
@pytest.mark.parametrize("records", [0, 3, 70_000])
def test_an_iterable_that_raises(tmp_path, monkeypatch, backing, records):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "private"))

    def stream():
        for i in range(records):
            yield {"i": i, "text": "x" * 50, "a": np.arange(i % 3)}
        raise MyError("in the middle")

    with nothing_left(), pytest.raises(MyError, match="in the middle"):
        RecordList(stream(), backing=backing)
    assert not any((tmp_path / "private").glob("*"))


@pytest.mark.parametrize("backing", ["anonymous", "dir"])
def test_an_unsupported_value_after_many(tmp_path, monkeypatch, backing):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "private"))
    stream = ({"i": i, "v": i if i != 100_000 else {i}} for i in range(100_010))
    with nothing_left(), pytest.raises(EncodeError, match=r"^record 100000: \$\.v: cannot store set; "):
        RecordList(stream, backing=backing)
    assert not any((tmp_path / "private").glob("*"))
    assert next(stream) == {"i": 100_001, "v": 100_001}, "the stream is not read past the record that failed"


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_that_are_no_errors_pass(exception):
    def stream():
        yield 1
        raise exception

    with nothing_left(), pytest.raises(exception):
        RecordList(stream())


def test_an_error_keeps_no_record_alive():
    import weakref

    class Watched:
        pass

    watched = Watched()
    gone = weakref.ref(watched)
    with contextlib.suppress(EncodeError):
        RecordList([watched])
    del watched
    assert gone() is None


def test_records_are_dropped_as_they_are_stored():
    """A stream's next item must not find the last one alive."""
    import weakref

    last = []

    def stream():
        for i in range(5):
            if last:
                assert last.pop()() is None
            array = np.arange(i)
            last.append(weakref.ref(array))
            yield array
            del array

    with RecordList(stream()) as x:
        assert len(x) == 5

