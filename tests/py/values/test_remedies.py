"""Runs the remedy in the error for each kind of value that cannot be stored, and stores the result. A remedy loses only
the parts of the value that the message names."""

import argparse
import array
import collections
import ctypes
import datetime
import email.message
import functools
import io
import ipaddress
import itertools
import mmap
import os
import pathlib
import pickle
import re
import socket
import sqlite3
import sys
import tempfile
import threading
import types
import weakref
import xml.etree.ElementTree

import numpy as np
import pytest
from alike import alike as same
from refusals import (  # noqa: F401
    CODE,
    Named,
    Point,
    Slotted,
    Wrong,
    apply_remedy,
    refusal_of,
    registry,
    store_and_read,
    with_attributes,
)

import recstore
from recstore import RecordDict, RecordList, register
from recstore.errors import EncodeError


class Nested:
    def __init__(self):
        self.points = [Point(1, [Slotted()])]


class Upper(str):
    def __str__(self):
        return "***"


class Other(int):
    def __int__(self):
        return -1


class Hidden(dict):
    def __iter__(self):
        return iter(())

    keys = __iter__


class Backward(list):
    def __iter__(self):
        return reversed(list.copy(self))


class Pair(collections.namedtuple("Pair", "a b")):
    def __iter__(self):
        return iter((0, 0))


class Path:
    def __fspath__(self):
        return "/a/b"


class Sum:
    def __init__(self, values):
        self.values, self.lock = values, threading.Lock()


class Struct(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]


PLAIN = [
    (Named(a=1), {"a": 1}),
    (Hidden(a=1), {"a": 1}),
    (with_attributes(Named(a=1), meta=5), {"a": 1}),
    (collections.defaultdict(lambda: 1, {"a": 2}), {"a": 2}),
    (with_attributes(collections.Counter("aab"), meta=5), {"a": 2, "b": 1}),
    (Upper("secret"), "secret"),
    (Other(7), 7),
    (type("MyFloat", (float,), {})(0.5), 0.5),
    (type("MyBytes", (bytes,), {"__bytes__": lambda self: b""})(b"ab"), b"ab"),
    (type("MyBytearray", (bytearray,), {"__iter__": lambda self: iter(())})(b"ab"), bytearray(b"ab")),
    (type("MyComplex", (complex,), {"__complex__": lambda self: 0j})(1 + 2j), 1 + 2j),
    (type("MySet", (set,), {"__iter__": lambda self: iter(())})([1]), {1}),
    (type("MyFrozen", (frozenset,), {})([1]), frozenset([1])),
    (Backward([1, 2]), [1, 2]),
    (with_attributes(Pair(1, 2), more=1), (1, 2)),
    (os.stat("/"), tuple(os.stat("/"))),
    (type("MyDeque", (collections.deque,), {})([1, 2], 5), collections.deque([1, 2], 5)),
    (collections.UserDict(a=1), {"a": 1}),
    (collections.UserList([1]), [1]),
    (with_attributes(collections.ChainMap({}, {"a": 1}), meta=1), [{}, {"a": 1}]),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (types.SimpleNamespace(a=1), {"a": 1}),
    (argparse.Namespace(a=1), {"a": 1}),
    (Point(1, 2), {"x": 1, "y": 2}),
    ({"a": 1}.keys(), ["a"]),
    (iter([1, 2]), [1, 2]),
    ((i for i in "ab"), ["a", "b"]),
    (map(str, [1]), ["1"]),
    (type("MyDate", (datetime.date,), {})(2020, 1, 2), "2020-01-02"),
    (type("Moment", (datetime.datetime,), {})(2020, 1, 2), "2020-01-02T00:00:00"),
    (type("Span", (datetime.timedelta,), {})(1, 2, 3), (1, 2, 3)),
    (Path(), "/a/b"),
    (type("MyPath", (type(pathlib.Path()),), {})("a"), "a"),
    (memoryview(b"ab"), b"ab"),
    (array.array("h", [1, 2]), np.array([1, 2], "i2")),
    (ctypes.c_int(5), 5),
    ((ctypes.c_ubyte * 2)(1, 2), b"\1\2"),
    (Struct(1, 0.5), bytes(Struct(1, 0.5))),
    (ctypes.pointer(ctypes.c_int(5)), None),
    (re.compile("a+", re.I), ("a+", int(re.compile("a+", re.I).flags))),
    (re.match("a", "ab"), ("a", (0, 1))),
    (io.BytesIO(b"ab"), b"ab"),
    (io.StringIO("ab"), "ab"),
    (Wrong("a", 1), ("Wrong", ("a", 1), "('a', 1)")),
    (OSError(2, "gone", "file"), ("FileNotFoundError", (2, "gone"), "[Errno 2] gone: 'file'")),
    (np.dtype("i4"), "int32"),
    (sys, "sys"),
]


@pytest.mark.parametrize(("value", "expected"), PLAIN, ids=lambda v: type(v).__name__)
def test_code(value, expected):
    if isinstance(value, ctypes._Pointer):
        assert eval(CODE.search(refusal_of(value))[1].partition(": ")[2], {"x": value}).value == 5
        return
    got, _ = apply_remedy(value)
    assert same(got, expected), got


def test_lost_attributes_are_named():
    for value, name in (
        (with_attributes(Named(a=1), meta=5), "meta"),
        (with_attributes(type("S", (str,), {})("a"), origin=5), "origin"),
        (with_attributes(type("A", (np.ndarray,), {})(3), unit="m"), "unit"),
        (with_attributes(Wrong("a"), code=5), "code"),
    ):
        assert "without its class" in (text := refusal_of(value)) and name in text


ARRAYS = [
    np.ma.array([1, 2], mask=[False, True]), np.ma.array(np.zeros((2, 2)), fill_value=7.0),
    np.array(["a", None], object), np.array([[1, 2], [3, "x"]], object),
    np.array([(1, None)], [("a", "i4"), ("b", "O")]), np.zeros(2, [(("title", "a"), "i4")]),
    np.zeros(2, np.dtype(">i4", metadata={"a": 1})), np.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0], type("MyFloat64", (np.float64,), {})(0.5),
    type("Quantity", (np.ndarray,), {})((2, 3), "i4")
]  # fmt: skip
if hasattr(np.dtypes, "StringDType"):
    ARRAYS += [
        np.array(["a", "bc"], np.dtypes.StringDType(**options)) for options in ({"na_object": None}, {"coerce": False})
    ]


@pytest.mark.parametrize("value", ARRAYS, ids=lambda v: type(v).__name__)
def test_arrays(value):
    got, text = apply_remedy(value)
    if isinstance(value, np.ma.MaskedArray):
        data, mask, fill = got
        assert np.array_equal(np.ma.getmaskarray(np.ma.array(data, mask=mask)), np.ma.getmaskarray(value))
        assert np.array_equal(data, value.data) and fill == value.fill_value
    elif type(got) is dict:
        assert got == {"a": 1, "b": 2.5}
    else:
        assert (got if isinstance(got, (list, float)) else got.tolist()) == value.tolist()


@pytest.mark.filterwarnings("ignore")
def test_tensors():
    torch = pytest.importorskip("torch")
    for value in (
        torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(2)), torch.eye(2).to_sparse(),
        torch.eye(2).requires_grad_().to_sparse_csr(), torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)
    ):  # fmt: skip
        got, text = apply_remedy(value)
        plain = value.detach()
        plain = plain.dequantize() if plain.is_quantized else plain.to_dense()
        assert type(got) is torch.Tensor and torch.equal(got, plain) and "without" in text
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)])
    assert [part.tolist() for part in apply_remedy(nested)[0]] == [[0, 0], [1, 1, 1]]
    tagged = with_attributes(torch.ones(2), origin="scan")
    tensor, attributes = apply_remedy(tagged)[0]
    assert torch.equal(tensor, torch.ones(2)) and attributes == {"origin": "scan"}


def test_tensor_subclasses():
    """Like MONAI's MetaTensor and torchvision's tv_tensors: the attributes are kept, or the message names them."""
    torch = pytest.importorskip("torch")
    meta = with_attributes(torch.ones(2).as_subclass(type("Meta", (torch.Tensor,), {"__module__": "m"})), affine=[1])
    try:
        got = store_and_read(meta)
    except EncodeError:
        got, text = apply_remedy(meta)
        assert torch.equal(got, torch.ones(2)) and "affine" in text
    else:
        assert got.affine == [1]


def test_pandas():
    pd = pytest.importorskip("pandas")
    moment = pd.Timestamp("2024-10-27 00:30:00.123456789", tz="UTC").tz_convert("Europe/Berlin")
    instant, zone = apply_remedy(moment)[0]
    assert pd.Timestamp(instant, tz="UTC").tz_convert(zone) == moment
    assert apply_remedy(pd.Timestamp(123456789))[0] == (pd.Timestamp(123456789).to_datetime64(), None)
    assert apply_remedy(pd.CategoricalDtype(["b", "a"], ordered=True))[0] == (["b", "a"], True)
    assert apply_remedy(pd.Timedelta(5, "ns"))[0] == np.timedelta64(5, "ns")
    ordinal, freq = apply_remedy(pd.Period("2024-05", "M"))[0]
    assert pd.Period(ordinal=ordinal, freq=freq) == pd.Period("2024-05", "M")
    assert apply_remedy(pd.NA)[0] is None and np.isnat(apply_remedy(pd.NaT)[0])
    assert pd.Interval(*apply_remedy(pd.Interval(0, 2, "left"))[0]) == pd.Interval(0, 2, "left")
    assert apply_remedy(pd.Series([1, 2], name="a"))[0] == [1, 2]
    assert apply_remedy(pd.Index(["a"]))[0] == ["a"]
    assert apply_remedy(pd.Categorical(["a", "b"]))[0] == ["a", "b"]
    assert apply_remedy(pd.array([1, 2]))[0] == [1, 2]
    assert apply_remedy(pd.CategoricalDtype())[0] == (None, False)
    assert apply_remedy(pd.DataFrame({"a": [1], "b": ["x"]}))[0] == {"a": [1], "b": ["x"]}
    assert apply_remedy(pd.offsets.MonthEnd())[0] == pd.offsets.MonthEnd().freqstr
    pa = pytest.importorskip("pyarrow")
    for value in (pd.DataFrame([[1, 2]], columns=["a", "a"]), pa.table([[1], [2]], names=["a", "a"])):
        assert "repeated columns" in refusal_of(value)


class Repeating:
    """A mapping with several entries for one key, like multidict.MultiDict."""

    __slots__ = ("_entries",)

    def __init__(self, *entries):
        self._entries = entries

    def keys(self):
        return [key for key, _ in self._entries]

    def items(self):
        return self._entries

    def __getitem__(self, key):
        return dict(reversed(self._entries))[key]


def test_entries_for_one_key_are_kept():
    assert apply_remedy(Repeating(("a", 1), ("a", 2)))[0] == [("a", 1), ("a", 2)]
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    assert apply_remedy(connection.execute("select 1 a, 2 a").fetchone())[0] == [("a", 1), ("a", 2)]
    connection.close()
    message = email.message.EmailMessage()
    message["To"] = "a@b"
    message.set_content("text")
    assert email.message_from_bytes(apply_remedy(message)[0])["To"] == "a@b" and b"text" in apply_remedy(message)[0]
    element = xml.etree.ElementTree.fromstring("<a b='1'><c/></a>")
    assert xml.etree.ElementTree.fromstring(apply_remedy(element)[0])[0].tag == "c"


def test_tensors_that_are_made_of_others():
    torch = pytest.importorskip("torch")
    jagged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)], layout=torch.jagged)
    assert [part.tolist() for part in apply_remedy(jagged)[0]] == [[0, 0], [1, 1, 1]]
    assert apply_remedy(torch._efficientzerotensor((2,)))[0].tolist() == [0, 0]
    assert "it has no data" in refusal_of(torch.nn.UninitializedParameter())
    assert apply_remedy(np.ma.masked)[0] is None


def test_arrow_and_polars():
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    rows = [{"a": 1}, {"a": 2}]
    for value, expected in (
        (pa.table({"a": [1, 2]}), rows), (pa.record_batch({"a": [1, 2]}), rows), (pl.DataFrame({"a": [1, 2]}), rows),
        (pl.LazyFrame({"a": [1, 2]}), rows), (pa.array([1, None]), [1, None]), (pa.chunked_array([[1], [2]]), [1, 2]),
        (pl.Series([1, None]), [1, None]), (pa.scalar("a"), "a"), (pa.py_buffer(b"ab"), b"ab"), (pa.int32(), "int32")
    ):  # fmt: skip
        got, text = apply_remedy(value)
        assert same(got, expected)
        if "RecordList" in text:
            code = text[text.index("RecordList") :]
            with eval(code, {"x": value, "RecordList": RecordList, "recstore": recstore}) as records:
                assert records.to_list() == rows


def test_sparse_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.array([[0, 1.5], [2, 0]])
    for make in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.dok_array, sparse.lil_matrix):
        data, coords, shape = apply_remedy(make(dense))[0]
        assert np.array_equal(sparse.coo_array((data, coords), shape).toarray(), dense)


@pytest.mark.parametrize(
    ("module", "name"),
    [("tensordict.base", "TensorDictBase"), ("torch_geometric.data.data", "BaseData")],
)
def test_large_packages(module, name):
    """Classes named like those of large packages; tests/real uses the packages."""
    base = type(name, (), {"__module__": module})

    class Data(base):
        def __init__(self, **entries):
            self._store = entries

        def __iter__(self):
            raise AssertionError("iterated")

        def to_dict(self):
            return dict(self._store)

    assert apply_remedy(Data(x=np.arange(3), y=[1]))[0]["y"] == [1]


# ---- Objects -------------------------------------------------------------------------------------------------------------


def test_registration_is_advised_where_it_works(registry):
    for value in (Point(1, [2]), Nested(), ipaddress.ip_address("1.2.3.4"), ipaddress.ip_network("1.2.3.0/24")):
        text = refusal_of(value)
        assert "recstore.register its class" in text and "encode" not in text
        for kind in (type(value), *[vars(sys.modules[m])[n] for m, n in re.findall(r"and ([\w.]+)\.(\w+)", text)]):
            register(kind)
        got = store_and_read(value)
        assert type(got) is type(value) and pickle.dumps(got) == pickle.dumps(value)


def test_both_functions_are_advised_where_an_attribute_cannot_be_stored(registry):
    text = refusal_of(Sum([1]))
    assert "its attribute lock is a _thread.lock" in text and "encode= and decode=" in text
    register(Sum, encode=lambda s: s.values, decode=Sum)
    assert store_and_read(Sum([1])).values == [1]
    value = Nested()
    value.itself = value
    assert "encode= and decode=: it contains itself" in refusal_of(value)
    deep = with_attributes(Point(1, 2), inner=with_attributes(Point(3, 4), more=[Sum([1])]))
    register(Sum)
    assert "inner.more[0].lock" in refusal_of(deep)


@pytest.mark.parametrize("make", [
    threading.Lock, threading.Event, lambda: socket.socket(socket.AF_UNIX), lambda: open(os.devnull),
    lambda: tempfile.TemporaryFile(), lambda: (lambda: 1), lambda: sys._getframe(),
    lambda: (lambda: 1).__code__, lambda: type("Local", (), {}), lambda: weakref.ref(Point),
    lambda: functools.partial(lambda: 1), lambda: mmap.mmap(-1, 5),
])  # fmt: skip
def test_pickling_is_not_advised_where_it_fails(make):
    value = make()
    text = refusal_of(value)
    if hasattr(value, "close"):
        value.close()
    assert "pickle" not in text
    assert "nor pickle it" in refusal_of(value, "pickle")


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a)


class Unloadable:
    def __reduce__(self):
        return int, ("x",)


class WithState:
    def __setstate__(self, state):
        raise KeyError("old")

    def __init__(self):
        self.a = 1


@pytest.mark.parametrize("make", [lambda: TwoArguments(1, 2), Unloadable, WithState, lambda: np.finfo(float)])
def test_a_pickle_that_cannot_be_loaded_is_refused_when_it_is_stored(make):
    for _ in range(2):
        assert "nor pickle it" in refusal_of(make(), "pickle")
    pytest.raises(EncodeError, lambda: RecordDict({"a": [make()]}, on_unsupported="pickle"))


def test_pickling_is_not_advised_for_classes_of_c_code_that_refuse_it():
    pa = pytest.importorskip("pyarrow")
    for value in (pa.Tensor.from_numpy(np.ones(2)), functools.lru_cache(len)):
        assert "on_unsupported" not in refusal_of(value)
        assert "nor pickle it" in refusal_of(value, "pickle")
    assert apply_remedy(pa.Tensor.from_numpy(np.ones(2)))[0].tolist() == [1, 1]
    assert "on_unsupported" in refusal_of(pa.field("a", pa.int8()))


@pytest.mark.parametrize("value", [len, Point, int, Point(1, 2), iter([1]), NotImplemented, list[int], np.random.default_rng(0)], ids=lambda v: type(v).__name__)  # fmt: skip
def test_pickling_is_advised_where_it_works(value):
    assert 'on_unsupported="pickle"' in refusal_of(value)
    with RecordList([value], on_unsupported="pickle") as x:
        assert type(x[0]) is type(value)


def test_endless_iterators_are_not_made_a_list():
    for value in (itertools.count(), itertools.cycle("a"), itertools.repeat(1)):
        assert "islice(x, 10)" in (text := refusal_of(value)) and "store list(x)" not in text


def test_stores():
    with RecordDict({"a": 1}) as d:
        assert [apply_remedy(part)[0] for part in (d.keys(), d.values(), d.items())] == [["a"], [1], [("a", 1)]]
    assert apply_remedy(RecordList([1]))[0] == [1] and apply_remedy(RecordDict({1: 2}))[0] == {1: 2}
    assert apply_remedy(recstore.Record("a.B", {"x": 1}))[0] == {"x": 1}
