"""Values that cannot be stored: the record, path and type in the EncodeError, and nothing is left behind."""

import collections
import contextlib
import dataclasses
import datetime
import os
import pathlib
import types

import descriptors
import numpy as np
import pytest
import shm

from recstore import RecordDict, RecordList
from recstore.errors import EncodeError


class Plain:
    def __init__(self):
        self.a = 1


class Slotted:
    __slots__ = ()


class MyDict(dict):
    pass


HERE = __name__


class WithMore(collections.namedtuple("WithMore", "x")):
    pass


class MyTime(datetime.tzinfo):
    pass


def make(factory):
    return collections.defaultdict(factory)


class Twice(tuple):
    _fields = ("a", "a")


with_more = WithMore(1)
with_more.y = 2
CASES = [
    ((i for i in "ab"), "generator"), (object(), "object"), (NotImplemented, "NotImplementedType"),
    (len, "builtin_function_or_method"), (int, "type"), (types.MappingProxyType({}), "mappingproxy"),
    (memoryview(b"a"), "memoryview"), (MyDict(a=1), f"{HERE}.MyDict"),
    (type("MyOrdered", (collections.OrderedDict,), {"__module__": "m"})(), "m.MyOrdered"),
    (make(lambda: 1), "collections.defaultdict"), (make(MyDict), "collections.defaultdict"),
    (with_more, f"{HERE}.WithMore"), (Twice((1, 2)), f"{HERE}.Twice"), (os.stat("."), "os.stat_result"),
    (type("MyStr", (str,), {"__module__": "m"})("a"), "m.MyStr"),
    (type("MyFloat64", (np.float64,), {"__module__": "m"})(1), "m.MyFloat64"), (Plain(), f"{HERE}.Plain"),
    (Slotted(), f"{HERE}.Slotted"), (types.SimpleNamespace(a=1), "types.SimpleNamespace"),
    (type("MyPath", (type(pathlib.Path()),), {"__module__": "m"})("a"), "m.MyPath"),
    (type("MyDate", (datetime.date,), {"__module__": "m"})(2020, 1, 1), "m.MyDate"), (MyTime(), f"{HERE}.MyTime"),
    (np.array([None]), "numpy.ndarray"), (np.zeros(2, [("a", "O")]), "numpy.ndarray"),
    (np.zeros(1, [("a", "i4")]).view(np.recarray)[0], None), (np.ma.array([1]), None)
]  # fmt: skip


def holdings():
    """The numbers of descriptors and mappings of this process, and the names of segments."""
    n_descriptors = descriptors.count()
    with open("/proc/self/maps") as f:
        maps = sum("recstore" in line or "memfd" in line or ".rec" in line for line in f)
    return n_descriptors, maps, shm.names()


@contextlib.contextmanager
def nothing_left():
    if not os.path.isdir("/proc/self/fd"):
        yield
        return
    before = holdings()
    yield
    assert holdings() == before


@pytest.mark.parametrize(("value", "kind"), CASES, ids=lambda v: type(v).__name__)
def test_message(value, kind):
    """The record, the path and the type; test_remedies.py runs the remedies."""
    with nothing_left():
        caught = pytest.raises(EncodeError, lambda: RecordList([0, {"meta": [1, {"x y": value}]}]))
        text = str(caught.value)
        del caught
    assert text.startswith(f"record 1: $.meta[1]['x y']: cannot store {kind + '; ' if kind else ''}")
    pytest.raises(TypeError, lambda: RecordList([value])).match(r"^record 0: \$: cannot store ")


class Bad:
    """Cannot be stored. Its repr is code of the program, which messages do not run."""

    def __repr__(self):
        return "bad"


class Loud(Bad):
    def __repr__(self):
        raise ValueError("no")


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass(frozen=True)
class Data:
    x: object
    y: object = None


bad = Bad()


@pytest.mark.parametrize(("record", "path"), [
    ({"a": {"b": {"c": bad}}}, r"\$\.a\.b\.c"), ([[0], [0, bad]], r"\$\[1\]\[1\]"), ((0, bad), r"\$\[1\]"),
    ({1: bad}, r"\$\[1\]"), ({(1, "a"): bad}, r"\$\[\(1, 'a'\)\]"), ({"not a name": bad}, r"\$\['not a name'\]"),
    ({bad: 0}, rf"\$ key <{HERE}.Bad>"), ({Loud(): 0}, rf"\$ key <{HERE}.Loud>"),
    ({(1, bad): 0}, rf"\$ key \(1, <{HERE}.Bad>\)\[1\]"), ({"k" * 200: bad}, r"\$\.k{200}"),
    ({"tags": {bad}}, rf"\$\.tags\{{<{HERE}.Bad>\}}"),
    ([frozenset([(1, bad)])], rf"\$\[0\]\{{\(1, <{HERE}.Bad>\)\}}\[1\]"),
    (collections.OrderedDict(a=[bad]), r"\$\.a\[0\]"), (collections.ChainMap({}, {"a": bad}), r"\$\.maps\[1\]\.a"),
    (collections.deque([0, bad]), r"\$\[1\]"), (slice(None, bad), r"\$\.stop"), (Pair(1, [bad]), r"\$\.right\[0\]"),
    (Data(1, Data(bad)), r"\$\.y\.x"), ({"a": [1], "b": [bad], "c": len}, r"\$\.b\[0\]"), ({Data(1, bad): 1}, rf"\$ key <{HERE}.Data>\.y")
], ids=lambda v: v if type(v) is str else type(v).__name__)  # fmt: skip
def test_path(record, path):
    with pytest.raises(EncodeError, match=rf"^record 2: {path}: cannot store {HERE}\.(Bad|Loud); "):
        RecordList([1, 2, record])


def test_cycles():
    lists = []
    lists.append([lists])
    dicts = {}
    dicts["me"] = (dicts,)
    data = []
    data.append(Data(collections.deque([data])))
    itself = collections.deque()
    itself.append(itself)
    for value, path in (
        (lists, r"\$\[0\]\[0\]"), (dicts, r"\$\.me\[0\]"), (data, r"\$\[0\]\.x\[0\]"), (itself, r"\$\[0\]")
    ):  # fmt: skip
        with nothing_left(), pytest.raises(EncodeError, match=rf"^record 0: {path}: the value contains itself"):
            RecordList([value])


# ---- nothing left behind ---------------------------------------------------------------------------------------------


class MyError(Exception):
    pass


@pytest.mark.parametrize("backing", ["anonymous", "dir"])
def test_an_iterable_that_raises_and_an_unsupported_value(tmp_path, monkeypatch, backing):
    monkeypatch.setenv("RECSTORE_DIR", str(tmp_path / "private"))

    def stream(records, error):
        for i in range(records):
            yield {"i": i, "text": "x" * 50, "a": np.arange(i % 3), "v": i if i != 70_000 else bad}
        raise error

    for records in (0, 3, 70_000):
        for error in (MyError, KeyboardInterrupt, SystemExit, GeneratorExit) if records == 3 else [MyError]:
            with nothing_left(), pytest.raises(error, match="in the middle"):
                RecordList(stream(records, error("in the middle")), backing=backing)
    values = stream(70_010, MyError())
    with nothing_left(), pytest.raises(EncodeError, match=r"^record 70000: \$\.v: cannot store "):
        RecordList(values, backing=backing)
    assert not any((tmp_path / "private").glob("*"))
    assert next(values)["i"] == 70_001, "the stream is not read past the record that failed"


def test_an_error_does_not_keep_its_record_alive():
    import weakref

    class Watched:
        pass

    watched = Watched()
    gone = weakref.ref(watched)
    with contextlib.suppress(EncodeError):
        RecordList([watched])
    del watched
    assert gone() is None


def test_each_record_is_dropped_before_the_next_one_is_made():
    import weakref

    def stream(last=None):
        for i in range(5):
            assert last is None or last() is None
            array = np.arange(i)
            last = weakref.ref(array)
            yield array
            del array

    with RecordList(stream()) as x:
        assert len(x) == 5


def test_a_structured_numpy_value_cannot_be_a_key():
    """A read-only value can be hashed, but the value that is read back cannot."""
    a = np.frombuffer(bytes(16), dtype=[("a", "i4"), ("b", "i4")])
    for make in (
        lambda v: RecordDict([(v, 1)]),
        lambda v: RecordList([{v: 1}]),
        lambda v: RecordList([{v}]),
        lambda v: RecordList([{(1, v): 1}]),
    ):
        pytest.raises(EncodeError, lambda: make(a[0])).match("as a dict key or in a set")
    with RecordList([{1: a[0]}]) as x:
        assert x[0][1] == a[0]
